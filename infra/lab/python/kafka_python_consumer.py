"""A kafka-python consumer that writes down its rebalance callbacks, like TruthConsumer.java.

Commands: `close`, `stall MS` (no poll for that long), `delay MS` (per record).
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from truth import Truth

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(ConsumerRebalanceListener):
    def __init__(self, client: TruthConsumer) -> None:
        self._client = client

    def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self._client.truth.saw("assigned", assigned, self._client.membership())

    def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        self._client.truth.saw("revoked", revoked, self._client.membership())

    def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._client.truth.saw("lost", lost, self._client.membership())


class TruthConsumer:
    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self._consumer = KafkaConsumer(
            bootstrap_servers=truth.settings["bootstrap.servers"].split(","), **truth.consumer_arguments(ASSIGNORS)
        )
        self._generation = -1

    def run(self) -> None:
        self._consumer.subscribe(self.truth.topics, listener=Listener(self))
        while not self.truth.is_closing:
            self._obey()
            batches = self._consumer.poll(timeout_ms=100)
            self._write_generation()
            self.truth.first_records(batches, self.membership())
            time.sleep(self.truth.delay_s * sum(map(len, batches.values())))
        self.truth.write("close_start")
        self._consumer.close()
        self.truth.write("closed")

    def membership(self) -> dict[str, Any]:
        # The library has no public name for it.
        generation = self._consumer._coordinator._generation
        return self.truth.membership(generation.member_id, generation.generation_id)

    def _write_generation(self) -> None:
        """A cooperative member that is given nothing new is not called: its generation is looked at between polls."""
        now = self._consumer._coordinator._generation.generation_id
        if now != self._generation and now >= 0:
            self.truth.write("in_generation", **self.membership())
        self._generation = now

    def _obey(self) -> None:
        for _, stall_ms in self.truth.stalls("stall"):
            self.truth.write("stall_start", stall_ms=stall_ms)
            time.sleep(stall_ms / 1000)
            self.truth.write("stall_end")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(levelname)s %(message)s")
    TruthConsumer(Truth(sys.argv[1:])).run()
