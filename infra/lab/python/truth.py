"""The common part of the lab's Python consumers: their settings, their commands, and what they write down.

    python PROGRAM consumer.properties topic,topic truth.jsonl

Runs in an environment of its own, so it imports nothing of the project.
"""

from __future__ import annotations

import json
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any


class Truth:
    """One consumer's settings, its truth file, and the commands from its standard input."""

    def __init__(self, arguments: list[str]) -> None:
        settings_file, topics, truth_file = arguments
        self.settings = _read_properties(Path(settings_file).read_text())
        self.topics = topics.split(",")
        self.commands: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.awaiting: set[str] = set()
        """Partitions whose first record after they were assigned is still to come."""
        self.is_closing = False
        self.delay_s = 0.0
        """What a record takes."""
        self._client = Path(truth_file).stem
        self._file = Path(truth_file)
        signal.signal(signal.SIGTERM, lambda *_: self.commands.put("close"))
        threading.Thread(target=self._read_commands, daemon=True).start()
        self.write("started", topics=self.topics)

    def write(self, event: str, **more: object) -> None:
        line = {"at_ms": time.time_ns() // 1_000_000, "client": self._client, "event": event, **more}
        with self._file.open("a") as truth:
            truth.write(json.dumps(line) + "\n")

    def saw(self, what: str, partitions: Iterable[Any], membership: dict[str, object]) -> None:
        """Entry and exit of a rebalance callback: `assigned`, `revoked` or `lost`."""
        names = sorted(f"{each.topic}-{each.partition}" for each in partitions)
        self.write(f"{what}_start", partitions=names, **membership)
        if what == "assigned":
            self.awaiting.update(names)
        else:
            self.awaiting.difference_update(names)
        self.write(f"{what}_end", partitions=names, **membership)

    def first_records(self, partitions: Collection[Any], membership: dict[str, object]) -> None:
        for name in sorted(f"{each.topic}-{each.partition}" for each in partitions):
            if name in self.awaiting:
                self.awaiting.remove(name)
                self.write("first_record", partitions=[name], **membership)

    def membership(self, member_id: str | None, generation: int | None) -> dict[str, object]:
        found: dict[str, object] = {"group": self.settings["group.id"], "member_id": member_id}
        if generation is not None and generation >= 0:
            found["generation"] = generation
        if "group.instance.id" in self.settings:
            found["group_instance_id"] = self.settings["group.instance.id"]
        return found

    def consumer_arguments(self, assignors: Mapping[str, type]) -> dict[str, Any]:
        """What kafka-python and aiokafka call alike; `assignors`: the library's classes by Kafka's names."""
        settings = self.settings
        return {
            "client_id": settings["client.id"],
            "group_id": settings["group.id"],
            "group_instance_id": settings.get("group.instance.id"),
            "auto_offset_reset": "earliest",
            "partition_assignment_strategy": [
                assignors[name] for name in settings["partition.assignment.strategy"].split(",")
            ],
            "session_timeout_ms": self.millis("session.timeout.ms", 10_000),
            "heartbeat_interval_ms": self.millis("heartbeat.interval.ms", 3000),
            "max_poll_interval_ms": self.millis("max.poll.interval.ms", 300_000),
            "auto_commit_interval_ms": self.millis("auto.commit.interval.ms", 5000),
            "metadata_max_age_ms": self.millis("metadata.max.age.ms", 300_000),
        }

    def stalls(self, *known: str) -> Iterator[tuple[str, int]]:
        """Obey the commands that have come, and yield those that only the client itself can obey: its word for a
        stall, one of `known`, and the milliseconds."""
        while not self.commands.empty():
            word, _, rest = self.commands.get().strip().partition(" ")
            if word == "close":
                self.is_closing = True
            elif word == "delay":
                self.delay_s = int(rest) / 1000
            elif word in known:
                yield word, int(rest)
            else:
                self.write("unknown_command", command=word)

    def millis(self, name: str, otherwise: int) -> int:
        return int(self.settings.get(name, otherwise))

    def _read_commands(self) -> None:
        for line in sys.stdin:
            self.commands.put(line)
        self.commands.put("close")


def _read_properties(text: str) -> dict[str, str]:
    """The plain subset that the lab itself writes: `name=value` lines with doubled backslashes."""
    pairs = (line.partition("=") for line in text.splitlines() if line)
    return {
        name: re.sub(r"\\(.)", lambda found: "\n" if found[1] == "n" else found[1], value) for name, _, value in pairs
    }
