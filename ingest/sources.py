"""One source at a time: a partition with its replicas, or a log file; secrets are gone from what leaves this module."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from ingest.batches import IS_CONTROL, KEY, Row
from ingest.errors import Problem
from ingest.folders import PartitionFiles
from ingest.log_files import EventReader, Identity, LastEvent, read_head
from ingest.readings import LogText, SourceReading
from ingest.replicas import beyond_majority, merge
from ingest.segments import open_plain
from rebalance_audit.domain.connect_topics import redact_config
from rebalance_audit.domain.model import SourceRecord


def source_record(cluster_id: str, topic: str, partition: int, row: Row) -> SourceRecord:
    offset, timestamp_ms, key, value, _, _, producer_id, producer_epoch, is_transactional, is_control, _, _ = row
    return SourceRecord(
        cluster_id=cluster_id, topic=topic, partition=partition, offset=offset, timestamp_ms=timestamp_ms, key=key,
        value=value, is_control=bool(is_control), is_transactional=bool(is_transactional), producer_id=producer_id,
        producer_epoch=producer_epoch,
    )  # fmt: skip


def read_partition(files: PartitionFiles, reading: SourceReading) -> Iterator[tuple[str, list[Row]]]:
    """(node, rows) of one partition, its replicas merged and secrets removed; `reading` is told what was read."""
    reading.from_position = min(replica.start_offset for replica in files.replicas)
    for node, rows in merge(files.replicas):
        reading.saw(rows)
        yield node, rows if files.kind == "group" else without_secrets(rows)
    reading.to_position = max(replica.end_offset for replica in files.replicas)
    for replica in files.replicas:
        for problem in replica.problems:
            reading.problems.add(problem)
    if ahead := beyond_majority(files.replicas):
        reading.problems.add(ahead)


def without_secrets(rows: list[Row]) -> list[Row]:
    """Records of a Connect topic as they may be stored. Everything but a status may be configuration, whatever the
    topic is called."""
    return [row if row[IS_CONTROL] or (row[KEY] or b"").startswith(b"status-") else _redacted(row) for row in rows]


def _redacted(row: Row) -> Row:
    offset, timestamp_ms, key, value, *rest = row
    return cast(Row, (offset, timestamp_ms, key, redact_config(key or b"", value), *rest))


class LogFile:
    """One log file of a folder, read once. `known` are files of this node read before, by their first bytes."""

    def __init__(self, node: str, path: Path, known: dict[str, dict[str, Any]] | None = None) -> None:
        self.node, self.path = node, path
        self.known = {} if known is None else known
        self.reading = SourceReading(source=f"log:{node}/{path.name}", kind="log")
        self.identity: Identity | None = None
        self.last_event_at = 0

    def lines(self) -> Iterator[LogText]:
        """The file's events; of a file that was read before, from its last event on, which may have grown."""
        try:
            with open_plain(self.path) as file:
                head = read_head(file)
                identities = [Identity(file_id, state["head_bytes"]) for file_id, state in self.known.items()]
                identity = self.identity = Identity.of(head, identities)
                self.reading.source = f"log:{self.node}/{self.path.name}#{identity.file_id}"
                state = self.known.get(identity.file_id, {})
                start = state.get("position", 0)
                yield from self._events(EventReader(file, start), identity.file_id, state.get("end"))
        except OSError as error:
            sentence = f"{self.path.name} of {self.node} cannot be read: {error.strerror or error}."
            self.reading.problems.add(Problem(code="unreadable", sentence=sentence))

    def _events(self, reader: EventReader, file_id: str, known_end: int | None) -> Iterator[LogText]:
        self.reading.from_position = reader.position
        for byte, text in reader.events(LastEvent.GIVEN):
            if reader.position == known_end:
                continue  # the last event of the reading before, unchanged
            self.reading.item_count += 1
            yield LogText(node=self.node, file_name=self.path.name, file_id=file_id, byte=byte, text=text)
        self.last_event_at = reader.last_event_at
        self.reading.to_position = reader.position
        for problem in reader.problems:
            place = f"{self.node}/{self.path.name}: {problem.sentence}."
            self.reading.problems.add(Problem(code=problem.code, sentence=place, position=problem.position))
