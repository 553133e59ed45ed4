"""A confluent-kafka consumer that writes down its rebalance callbacks, like TruthConsumer.java.

    python librdkafka_consumer.py consumer.properties topic,topic truth.jsonl

Commands on standard input: `close`, `stall MS`, `delay MS`, `revoke_delay MS`, `pause`, `resume`, `subscribe a,b`,
`unsubscribe`; end of input closes too. librdkafka does not show its generation, so that is missing from the events.
With `lab.output.topic` it commits only in transactions, one a second, and aborts every third. With
`lab.commit.metadata.bytes` it commits by hand, twice a second, with a text of that size beside each position.
"""

from __future__ import annotations

import json
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from confluent_kafka import Consumer, Message, Producer, TopicPartition


class TruthConsumer:
    """One consumer, its truth file and its commands; all work happens in the thread that calls `run`."""

    def __init__(self, settings: dict[str, str], truth: IO[str], name: str) -> None:
        self._client = name
        self._group = settings["group.id"]
        self._truth = truth
        output_topic = settings.pop("lab.output.topic", None)
        self._transactions = Transactions(settings, output_topic) if output_topic else None
        self._metadata = "é" * (int(settings.pop("lab.commit.metadata.bytes", "0")) // 2)
        self._committed_s = 0.0
        self._consumer = Consumer(settings)
        self._commands: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._awaiting_first_record: set[str] = set()
        self._delay_s = 0.0
        self._revoke_delay_s = 0.0
        self._closing = False

    def run(self, topics: Sequence[str]) -> None:
        threading.Thread(target=self._read_commands, daemon=True).start()
        signal.signal(signal.SIGTERM, lambda *_: self._commands.put("close"))
        self._write("started", topics=list(topics))
        self._subscribe(topics)
        while not self._closing:
            self._obey()
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self._process(message)
            if self._transactions is not None:
                self._transactions.commit_now_and_then(self._consumer)
            if self._metadata:
                self._commit_with_metadata()
        self._write("close_start")
        self._consumer.close()
        self._write("closed")

    def _subscribe(self, topics: Sequence[str]) -> None:
        self._consumer.subscribe(
            list(topics), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _process(self, message: Message) -> None:
        name = f"{message.topic()}-{message.partition()}"
        if name in self._awaiting_first_record:
            self._awaiting_first_record.remove(name)
            self._write("first_record", partitions=[name], **self._membership())
        if self._delay_s:
            time.sleep(self._delay_s)

    def _commit_with_metadata(self) -> None:
        if time.monotonic() - self._committed_s < 0.5:
            return
        self._committed_s = time.monotonic()
        positions = [each for each in self._consumer.position(self._consumer.assignment()) if each.offset >= 0]
        if positions:
            offsets = [TopicPartition(p.topic, p.partition, p.offset, self._metadata) for p in positions]
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _obey(self) -> None:
        while not self._commands.empty():
            word, _, rest = self._commands.get().strip().partition(" ")
            match word:
                case "close":
                    self._closing = True
                case "stall":
                    self._write("stall_start", stall_ms=int(rest))
                    time.sleep(int(rest) / 1000)
                    self._write("stall_end")
                case "delay":
                    self._delay_s = int(rest) / 1000
                case "revoke_delay":
                    self._revoke_delay_s = int(rest) / 1000
                case "pause":
                    self._write("stall_start")
                    self._consumer.pause(self._consumer.assignment())
                case "resume":
                    self._consumer.resume(self._consumer.assignment())
                    self._write("stall_end")
                case "subscribe":
                    self._subscribe(rest.split(","))
                case "unsubscribe":
                    self._consumer.unsubscribe()
                case _:
                    self._write("unknown_command", command=word)

    def _on_assign(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._saw("assigned", partitions)

    def _on_revoke(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._saw("revoked", partitions)

    def _on_lost(self, _: Consumer, partitions: list[TopicPartition]) -> None:
        self._saw("lost", partitions)

    def _saw(self, what: str, partitions: list[TopicPartition]) -> None:
        names = sorted(f"{each.topic}-{each.partition}" for each in partitions)
        self._write(f"{what}_start", partitions=names, **self._membership())
        if what == "assigned":
            self._awaiting_first_record.update(names)
        else:
            self._awaiting_first_record.difference_update(names)
            time.sleep(self._revoke_delay_s)
        self._write(f"{what}_end", partitions=names, **self._membership())

    def _membership(self) -> dict[str, str | None]:
        return {"group": self._group, "member_id": self._consumer.memberid()}

    def _write(self, event: str, **more: object) -> None:
        line = {"at_ms": time.time_ns() // 1_000_000, "client": self._client, "event": event, **more}
        self._truth.write(json.dumps(line) + "\n")
        self._truth.flush()

    def _read_commands(self) -> None:
        for line in sys.stdin:
            self._commands.put(line)
        self._commands.put("close")


class Transactions:
    """Sends a record and the consumer's positions in one transaction a second; every third is aborted."""

    def __init__(self, settings: dict[str, str], topic: str) -> None:
        self._producer = Producer(
            {
                "bootstrap.servers": settings["bootstrap.servers"],
                "transactional.id": settings["client.id"],
                "log_level": 0,
            }
        )
        self._producer.init_transactions(30)
        self._topic = topic
        self._count = 0
        self._last_s = 0.0

    def commit_now_and_then(self, consumer: Consumer) -> None:
        owned = consumer.assignment()
        if not owned or time.monotonic() - self._last_s < 1:
            return
        positions = [each for each in consumer.position(owned) if each.offset >= 0]
        if not positions:
            return
        self._producer.begin_transaction()
        self._producer.produce(self._topic, value=f"transaction {self._count}")
        self._producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
        if self._count % 3 == 2:
            self._producer.abort_transaction(30)
        else:
            self._producer.commit_transaction(30)
        self._count += 1
        self._last_s = time.monotonic()


def read_properties(text: str) -> dict[str, str]:
    """The plain subset that the lab itself writes: `name=value` lines with doubled backslashes."""
    pairs = (line.partition("=") for line in text.splitlines() if line)
    return {
        name: re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value) for name, _, value in pairs
    }


def main(settings_file: str, topics: str, truth_file: str) -> None:
    with Path(truth_file).open("a") as truth:
        settings = read_properties(Path(settings_file).read_text())
        TruthConsumer(settings, truth, Path(truth_file).stem).run(topics.split(","))


if __name__ == "__main__":
    main(*sys.argv[1:])
