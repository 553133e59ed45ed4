"""Evidence read from files: as objects for `explain`, or into landing files of a warehouse."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ingest.batches import KEY, VALUE, Row
from ingest.folders import EvidenceFolder, PartitionFiles, open_folder
from ingest.metadata import METADATA_FOLDER, MetadataLog, metadata_files, metadata_runs
from ingest.readings import LogText, RecordRun, SourceReading
from ingest.segments import CHUNK_BYTES
from ingest.sources import LogFile, read_partition, source_record
from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.domain.metadata import SourceMetadata
from rebalance_audit.domain.model import SourceLine, SourceRecord

if TYPE_CHECKING:
    from ingest.landing import Landing  # reading evidence needs neither Arrow nor a warehouse

Progress = Callable[[int, int, str], None]
"""Bytes done, bytes in all, what is being read."""
FLUSH_ROWS = 200_000
FLUSH_BYTES = 32 << 20


@dataclass(slots=True)
class Evidence:
    """The content of an evidence folder."""

    folder: EvidenceFolder
    _readings: dict[str, SourceReading] = field(default_factory=dict)

    @property
    def cluster_id(self) -> str:
        return self.folder.cluster_id

    @property
    def sources(self) -> list[SourceReading]:
        """The readings of all sources; complete once `records` and `lines` have been iterated to their ends."""
        return list(self._readings.values())

    def records(self, wants: Callable[[str, bytes | None], bool] | None = None) -> Iterator[SourceRecord]:
        """The metadata log, then by topic, partition and offset. `wants(topic, key)` saves the making of records nobody
        will look at."""
        self._readings |= {reading.source: reading for reading in self.folder.unread}
        yield from self.metadata()
        for files in self.folder.partitions:
            reading = SourceReading(source=f"record:{files.topic}-{files.partition}", kind="record")
            self._readings[reading.source] = reading
            for _, rows in read_partition(files, reading):
                for row in rows:
                    if wants is None or wants(files.topic, row[KEY]):
                        yield source_record(self.cluster_id, files.topic, files.partition, row)

    def metadata(self) -> Iterator[SourceMetadata]:
        """Records of the metadata log in its order, snapshots where they stand in it."""
        if self.folder.metadata:
            log = MetadataLog(self.cluster_id, self.folder.metadata)
            self._readings[log.reading.source] = log.reading
            yield from log.records()

    def lines(self) -> Iterator[SourceLine]:
        """Log events by node, file and byte."""
        for node, path in self.folder.log_files:
            log = LogFile(node, path)
            self._readings[log.reading.source] = log.reading
            for line in log.lines():
                yield SourceLine(
                    cluster_id=self.cluster_id, node=node, file_name=line.file_name, file_id=line.file_id,
                    byte=line.byte, text=line.text,
                )  # fmt: skip


def read_evidence(folder: str | Path | EvidenceFolder) -> Evidence:
    """The records and log events of an evidence folder, streaming. Raises Misconfigured if it is none."""
    return Evidence(folder if isinstance(folder, EvidenceFolder) else open_folder(folder))


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportSummary:
    cluster_id: str
    read_id: str
    record_count: int
    line_count: int
    skipped_count: int
    """Partitions and log files with nothing new since an earlier import."""
    problems: tuple[str, ...]


def import_evidence(
    folder: str | Path | EvidenceFolder,
    landing: Landing,
    *,
    progress: Progress | None = None,
) -> ImportSummary:
    """Land everything an evidence folder holds, a bounded piece at a time. Doing it twice changes nothing."""
    found = folder if isinstance(folder, EvidenceFolder) else open_folder(folder)
    with without_cycle_search():
        return _Import(found, landing, progress or (lambda done, total, what: None)).run()


class _Import:
    def __init__(self, folder: EvidenceFolder, landing: Landing, progress: Progress) -> None:
        from ingest.landing import new_read_id, positions_name

        self.folder, self.landing, self.progress = folder, landing, progress
        self.read_id = new_read_id("import")
        self.positions_name = positions_name("import", folder.cluster_id)
        self.positions = landing.read_positions(self.positions_name)
        self.runs: list[RecordRun] = []
        self.lines: list[LogText] = []
        self.done: list[SourceReading] = []
        self.flush_count = self.pending_rows = self.pending_bytes = 0
        self.record_count = self.line_count = self.skipped_count = 0
        self.problems: list[str] = []

    def run(self) -> ImportSummary:
        total, done = self.folder.total_bytes, 0
        for reading in self.folder.unread:
            self._finish(reading)
        if self.folder.metadata:
            self._metadata()
            files_read = [path for folder in self.folder.metadata.values() for path in metadata_files(folder)]
            done += sum(path.stat().st_size for path in files_read if path.exists())
            self.progress(done, total, METADATA_FOLDER)
        for files in self.folder.partitions:
            name = f"{files.topic}-{files.partition}"
            for read_bytes in self._partition(files, name):
                self.progress(done + read_bytes, total, name)
            done += sum(path.stat().st_size for r in files.replicas for path in r.segments if path.exists())
            self.progress(done, total, name)
        for node, path in self.folder.log_files:
            self._log(LogFile(node, path, self.positions.setdefault("logs", {}).setdefault(node, {})))
            done += path.stat().st_size if path.exists() else 0
            self.progress(done, total, f"{node}/{path.name}")
        self._flush()
        return ImportSummary(
            cluster_id=self.folder.cluster_id, read_id=self.read_id, record_count=self.record_count,
            line_count=self.line_count, skipped_count=self.skipped_count, problems=tuple(self.problems),
        )  # fmt: skip

    def _metadata(self) -> None:
        fingerprint = _fingerprint([(node, metadata_files(at)) for node, at in sorted(self.folder.metadata.items())])
        imported = self.positions.setdefault("partitions", {}).setdefault(METADATA_FOLDER, [])
        if fingerprint in imported:
            self.skipped_count += 1
            return
        log = MetadataLog(self.folder.cluster_id, self.folder.metadata)
        for run in metadata_runs(log.records()):
            self.runs.append(run)
            self.record_count += len(run.rows)
            self.pending_rows += len(run.rows)
            self.pending_bytes += sum(len(row[VALUE] or b"") for row in run.rows)
            if self.pending_rows >= FLUSH_ROWS or self.pending_bytes >= FLUSH_BYTES:
                self._flush()
        imported.append(fingerprint)
        self._finish(log.reading)

    def _partition(self, files: PartitionFiles, name: str) -> Iterator[int]:
        fingerprint = _fingerprint([(replica.node, replica.segments) for replica in files.replicas])
        imported = self.positions.setdefault("partitions", {}).setdefault(name, [])
        if fingerprint in imported:
            self.skipped_count += 1
            return
        reading = SourceReading(source=f"record:{name}", kind="record")
        rows: list[Row] = []
        from_node: str | None = None
        for node, more in read_partition(files, reading):
            if node != from_node:
                self._take(files, from_node, rows)
                rows, from_node = [], node
            rows += more
            self.pending_rows += len(more)
            self.pending_bytes += sum(len(row[KEY] or b"") + len(row[VALUE] or b"") for row in more)
            if self.pending_rows >= FLUSH_ROWS or self.pending_bytes >= FLUSH_BYTES:
                self._take(files, from_node, rows)
                rows = []
                self._flush()
                yield sum(replica.read_bytes for replica in files.replicas)
        self._take(files, from_node, rows)
        imported.append(fingerprint)
        self._finish(reading)

    def _take(self, files: PartitionFiles, node: str | None, rows: list[Row]) -> None:
        if rows:
            self.runs.append(
                RecordRun(topic=files.topic, partition=files.partition, source="segment", node=node, rows=rows)
            )
            self.record_count += len(rows)

    def _log(self, log: LogFile) -> None:
        for line in log.lines():
            self.lines.append(line)
            self.line_count += 1
            self.pending_rows += 1
            self.pending_bytes += len(line.text)
            if self.pending_rows >= FLUSH_ROWS or self.pending_bytes >= FLUSH_BYTES:
                self._flush()
        if log.identity is not None and log.reading.to_position is not None:
            log.known[log.identity.file_id] = {
                "head_bytes": log.identity.head_bytes, "position": log.last_event_at, "end": log.reading.to_position
            }  # fmt: skip
        if log.reading.item_count or len(log.reading.problems):
            self._finish(log.reading)
        else:
            self.skipped_count += 1

    def _finish(self, reading: SourceReading) -> None:
        self.done.append(reading)
        self.problems += [problem.sentence for problem in reading.problems]

    def _flush(self) -> None:
        """Records and lines first, then what was read of each source, then what need not be read again."""
        landing_id = f"{self.read_id}-{self.flush_count:05d}"
        cluster_id = self.folder.cluster_id
        self.landing.write_records(landing_id, cluster_id, self.runs)
        self.landing.write_log_lines(landing_id, cluster_id, self.lines)
        self.landing.write_sources(
            landing_id, cluster_id, self.read_id, self.done,
            kafka_version=self.folder.kafka_version, log_time_zone=self.folder.log_time_zone,
        )  # fmt: skip
        self.landing.write_positions(self.positions_name, self.positions)
        self.flush_count += 1
        self.runs, self.lines, self.done = [], [], []
        self.pending_rows = self.pending_bytes = 0


def _fingerprint(replicas: Sequence[tuple[str, Sequence[Path]]]) -> str:
    """Changes with any byte, name or node of the partition's files."""
    digest = hashlib.sha256()
    for node, paths in replicas:
        digest.update(repr((node, [path.name for path in paths])).encode())
        for path in paths:
            try:
                with path.open("rb") as file:
                    while chunk := file.read(CHUNK_BYTES):
                        digest.update(chunk)
            except OSError as error:
                digest.update(repr(error).encode())
    return digest.hexdigest()[:32]
