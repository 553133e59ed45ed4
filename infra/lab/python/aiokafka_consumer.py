"""An aiokafka consumer that writes down its rebalance callbacks, like TruthConsumer.java.

Commands: `close`, `stall MS` (awaits that long between two polls), `block MS` (holds the event loop that long, so that
no heartbeat goes out), `delay MS` (per record).
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from truth import Truth

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, client: TruthConsumer) -> None:
        self._client = client

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._client.truth.saw("assigned", assigned, self._client.membership())

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._client.truth.saw("revoked", revoked, self._client.membership())


class TruthConsumer:
    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=truth.settings["bootstrap.servers"],
            rebalance_timeout_ms=truth.millis("rebalance.timeout.ms", 0) or None,
            **truth.consumer_arguments(ASSIGNORS),
        )

    async def run(self) -> None:
        self._consumer.subscribe(self.truth.topics, listener=Listener(self))
        await self._consumer.start()
        while not self.truth.is_closing:
            await self._obey()
            batches = await self._consumer.getmany(timeout_ms=100)
            self.truth.first_records(batches, self.membership())
            await asyncio.sleep(self.truth.delay_s * sum(map(len, batches.values())))
        self.truth.write("close_start")
        # The library does not call its listener when it closes, and nothing is read from here on.
        self.truth.saw("revoked", self._consumer.assignment(), self.membership())
        await self._consumer.stop()
        self.truth.write("closed")

    def membership(self) -> dict[str, Any]:
        # The library has no public name for it; there is no coordinator yet before the first join.
        coordinator = self._consumer._coordinator
        return self.truth.membership(coordinator.member_id, coordinator.generation)

    async def _obey(self) -> None:
        for word, stall_ms in self.truth.stalls("stall", "block"):
            self.truth.write("stall_start", stall_ms=stall_ms, blocks_the_loop=word == "block")
            if word == "block":
                time.sleep(stall_ms / 1000)
            else:
                await asyncio.sleep(stall_ms / 1000)
            self.truth.write("stall_end")


async def consume(truth: Truth) -> None:
    # The consumer wants a running loop when it is made.
    await TruthConsumer(truth).run()


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s")
    asyncio.run(consume(Truth(sys.argv[1:])))
