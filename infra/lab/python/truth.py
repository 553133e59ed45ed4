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
from collections.abc import Collection, Iterable
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
