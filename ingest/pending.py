"""What a collector has read and not yet landed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from confluent_kafka import Message

from ingest.broker_reader import LivePartition
from ingest.messages import LiveRecords, rows_of
from ingest.readings import LogText, SourceReading
from ingest.sources import without_secrets


@dataclass(slots=True)
class PendingEvidence:
    lines: list[LogText] = field(default_factory=list)
    item_count: int = 0
    """Records and lines."""
    byte_count: int = 0
    is_urgent: bool = False
    """Something here must be landed at once."""
    _records: dict[str, LiveRecords] = field(default_factory=dict)
    _readings: list[SourceReading] = field(default_factory=list)

    @property
    def runs(self) -> list[LiveRecords]:
        """Records that wait, by topic."""
        return [records for _, records in sorted(self._records.items())]

    @property
    def is_empty(self) -> bool:
        return not (self.item_count or self._readings)

    def add_messages(self, arrived: Sequence[tuple[LivePartition, Sequence[Message]]]) -> None:
        """Add what one poll brought."""
        of_groups: dict[str, list[Message]] = {}
        for live, messages in arrived:
            self.item_count += len(messages)
            if live.kind == "group":
                of_groups.setdefault(live.topic, []).extend(messages)
            else:
                rows = without_secrets(rows_of(messages))
                self.byte_count += self._of_topic(live.topic).add_rows(live.partition, rows)
        for topic, messages in of_groups.items():  # fifty partitions at once: each call costs as much as ten messages
            self.byte_count += self._of_topic(topic).add_messages(messages)

    def _of_topic(self, topic: str) -> LiveRecords:
        if (records := self._records.get(topic)) is None:
            records = self._records[topic] = LiveRecords(topic)
        return records

    def add_lines(self, lines: Sequence[LogText]) -> None:
        self.lines += lines
        self.item_count += len(lines)
        self.byte_count += sum(len(line.text) for line in lines)

    def add_reading(self, reading: SourceReading) -> None:
        self._readings.append(reading)

    def readings(self) -> list[SourceReading]:
        """One reading per source: several pieces of a log file in one flush follow each other."""
        joined: dict[str, SourceReading] = {}
        for reading in self._readings:
            first = joined.setdefault(reading.source, reading)
            if first is not reading:
                first.item_count += reading.item_count
                first.let_go_count += reading.let_go_count
                if first.from_position is None:
                    first.from_position = reading.from_position
                first.to_position = reading.to_position if reading.to_position is not None else first.to_position
                for problem in reading.problems:
                    first.problems.add(problem)
        return list(joined.values())
