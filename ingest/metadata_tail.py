"""The metadata log of running nodes, followed as its files grow: segments roll and are deleted, and what was not yet
committed may be cut off and rewritten. Landed before its positions are remembered.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ingest.batches import HEADER_BYTES, IS_CONTROL, OFFSET, VALUE, BatchError, Row, SegmentBatch
from ingest.errors import Misconfigured, Problem
from ingest.landing import Landing, new_read_id, positions_name
from ingest.metadata import METADATA_FOLDER, MetadataLog, metadata_runs, stored_row
from ingest.readings import RecordRun, SourceReading
from ingest.replicas import segment_base_offset, segments_in
from ingest.segments import read_batches
from rebalance_audit.domain.metadata import METADATA_TOPIC

REMEMBERED_BATCHES = 100
"""How far back a rewritten tail is looked for; beyond it, the segment is read again from its start."""
PIECE_ROWS = 20_000
POLL_S, FOLLOWED_POLL_S = 0.5, 0.2
"""How often the files are looked at; if somebody waits for what is landed."""
_OF_BROKERS = (b"\x01\x01", b"\x01\x07", b"\x01\x11")
"""How records begin of brokers that were unregistered or fenced, or whose registration changed: what a failed broker
led has another leader from now on, and nobody waits until the next landing is due."""


@dataclass(slots=True)
class _ReadPosition:
    """How far one node's log was read."""

    next_offset: int = 0
    segment: str = ""
    batches: list[tuple[int, int, int, int]] = field(default_factory=list)
    """(position, size, CRC, end offset) of the last ones in that segment."""

    @classmethod
    def from_json(cls, stated: Mapping[str, Any]) -> _ReadPosition:
        return cls(stated["next_offset"], stated["segment"], [(p, s, c, e) for p, s, c, e in stated["batches"]])


class MetadataTail:
    """Follows `__cluster_metadata-0` of some nodes. Copies all stay: who has what is settled later."""

    def __init__(
        self, cluster_id: str, folders: Mapping[str, Path], positions: Mapping[str, Any] | None = None
    ) -> None:
        self.cluster_id, self.folders = cluster_id, folders
        self._read = {node: _ReadPosition.from_json(stated) for node, stated in (positions or {}).items()}
        self._reported: set[str] = set()

    def positions(self) -> dict[str, Any]:
        return {node: asdict(read) for node, read in sorted(self._read.items())}

    def poll(self) -> Iterator[tuple[SourceReading, list[RecordRun]]]:
        """Read what is new, in pieces of bounded size."""
        for node, folder in sorted(self.folders.items()):
            try:
                yield from self._poll(node, folder)
            except FileNotFoundError:
                continue  # deleted while we looked: the next look finds what took its place
            except OSError as error:
                yield from self._problem(f"{node}/{METADATA_FOLDER} cannot be read: {error.strerror or error}.")

    def _problem(
        self, sentence: str, position: int | None = None, code: str = "unreadable"
    ) -> Iterator[tuple[SourceReading, list[RecordRun]]]:
        if sentence not in self._reported:
            self._reported.add(sentence)
            reading = _reading()
            reading.problems.add(Problem(code=code, sentence=sentence, position=position))
            yield reading, []

    def _poll(self, node: str, folder: Path) -> Iterator[tuple[SourceReading, list[RecordRun]]]:
        segments = segments_in(folder)
        if not segments:
            return
        read = self._read.setdefault(node, _ReadPosition())
        position = _resume(read, segments)
        first = segment_base_offset(segments[0])
        if first > read.next_offset:
            yield from self._checkpoint(node, folder, read.next_offset, first)
            read.next_offset = first
        for path in segments:
            if segment_base_offset(path) < segment_base_offset(_holding(segments, read.next_offset)):
                continue
            if path.name != read.segment:
                read.segment, read.batches, position = path.name, [], 0
            yield from self._segment(node, path, read, position, is_last=path == segments[-1])

    def _checkpoint(
        self, node: str, folder: Path, reached: int, wanted: int
    ) -> Iterator[tuple[SourceReading, list[RecordRun]]]:
        """The one that stands for what was deleted before it was read."""
        log = MetadataLog(self.cluster_id, {node: folder})
        instead = "and no checkpoint stands for them"
        for run in metadata_runs(log.bridge(reached, wanted)):
            instead = "a checkpoint stands for them"
            yield _reading(), [run]
        for problem in log.problems:
            yield from self._problem(problem.sentence, problem.position)
        if reached or instead.startswith("and"):
            sentence = f"{node} had deleted offsets {reached} to {wanted} of its metadata log before they were read, "
            yield from self._problem(f"{sentence}{instead}.", reached, code="compacted")

    def _segment(
        self, node: str, path: Path, read: _ReadPosition, position: int, *, is_last: bool
    ) -> Iterator[tuple[SourceReading, list[RecordRun]]]:
        rows: list[Row] = []
        with path.open("rb") as file:
            file.seek(position)
            for item in read_batches(file):
                if isinstance(item, Problem):
                    if not is_last:  # the last one ends where its writer is just now
                        yield from self._problem(f"{node}/{path.name}: {item.sentence}.", read.next_offset)
                    break
                if item.last_offset >= read.next_offset:
                    rows += _rows(item)
                    read.next_offset = item.last_offset + 1
                at = (position + item.position, len(item.data), item.crc, item.last_offset + 1)
                read.batches = [*read.batches[-REMEMBERED_BATCHES + 1 :], at]
                if len(rows) >= PIECE_ROWS:
                    yield _piece(node, rows)
                    rows = []
        if rows:
            yield _piece(node, rows)


def _resume(read: _ReadPosition, segments: Sequence[Path]) -> int:
    """The byte of `read.segment` to go on at. Where the log was cut and rewritten, `read` goes back before that."""
    path = next((path for path in segments if path.name == read.segment), None)
    if path is None:
        if read.segment and segment_base_offset(segments[-1]) < int(read.segment[:20]):
            read.next_offset = segment_base_offset(segments[-1])  # cut off with its segment
        read.segment, read.batches = "", []
        return 0
    with path.open("rb") as file:
        while read.batches:
            position, size, crc, end_offset = read.batches[-1]
            file.seek(position)
            head = file.read(HEADER_BYTES)
            if len(head) == HEADER_BYTES and SegmentBatch(head, position).crc == crc:
                read.next_offset = max(end_offset, segment_base_offset(path))
                return position + size
            read.batches.pop()
    read.next_offset = segment_base_offset(path)
    return 0


def _holding(segments: Sequence[Path], offset: int) -> Path:
    """The segment the offset is in, or will be."""
    return [segments[0], *(path for path in segments if segment_base_offset(path) <= offset)][-1]


def _rows(batch: SegmentBatch) -> list[Row]:
    try:
        return [stored_row(row) for row in batch.rows()]
    except BatchError:
        return []  # its checksum holds, so it was written like this; the gap shows


def _reading() -> SourceReading:
    return SourceReading(source=f"record:{METADATA_FOLDER}", kind="record")


def _piece(node: str, rows: list[Row]) -> tuple[SourceReading, list[RecordRun]]:
    reading = _reading()
    reading.saw(rows)
    reading.from_position, reading.to_position = rows[0][OFFSET], rows[-1][OFFSET] + 1
    return reading, [RecordRun(topic=METADATA_TOPIC, partition=0, source="segment", node=node, rows=rows)]


def _joined(readings: Sequence[SourceReading]) -> SourceReading:
    """One reading of all: pieces and nodes follow each other, and a hole between them is a problem of its own."""
    whole = _reading()
    for reading in readings:
        if reading.from_position is not None and reading.from_at_ms is not None and reading.to_at_ms is not None:
            known = whole.from_position
            whole.from_position = reading.from_position if known is None else min(known, reading.from_position)
            whole.to_position = max(whole.to_position or 0, reading.to_position or 0)
            whole.saw_records(reading.item_count, reading.from_at_ms, reading.to_at_ms)
        for problem in reading.problems:
            whole.problems.add(problem)
    return whole


def cluster_of(folders: Mapping[str, Path], expected: str | None) -> str:
    """The cluster these folders are of, as the nodes' own meta.properties say it. Raises Misconfigured."""
    stated = {}
    for node, folder in folders.items():
        meta = folder.parent / "meta.properties"
        if meta.is_file() and (found := re.search(r"(?m)^cluster\.id=(\S+)", meta.read_text("utf-8", "replace"))):
            stated[node] = found[1]
    cluster_id = expected or next(iter(stated.values()), None)
    if cluster_id is None:
        raise Misconfigured("No meta.properties beside the metadata log says its cluster; give --cluster-id ID.")
    if strangers := [f"{node} is of cluster {id_}" for node, id_ in stated.items() if id_ != cluster_id]:
        raise Misconfigured(f"{', '.join(strangers)}, not {cluster_id}; check --metadata.")
    return cluster_id


def follow_metadata(
    folders: Mapping[str, Path],
    landing: Landing,
    cluster_id: str,
    *,
    stop: Callable[[], bool],
    report: Callable[[str], None] = lambda line: None,
    until_end: bool = False,
    flush_ms: int = 5_000,
    heard: Callable[[Sequence[RecordRun]], None] | None = None,
    caught_up: Callable[[], None] = lambda: None,
) -> int:
    """Land what is there and what comes, until `stop()` or, with `until_end`, the present end. How many records.
    `heard` is given what was landed, news of brokers at once; `caught_up` is called when all that was there at the
    beginning is landed."""
    read_id, name = new_read_id("metadata"), positions_name("metadata", cluster_id)
    tail = MetadataTail(cluster_id, folders, landing.read_positions(name))
    runs: list[RecordRun] = []
    readings: list[SourceReading] = []
    count = flush_count = 0
    flushed_at = time.monotonic()

    def flush() -> None:
        nonlocal flush_count, flushed_at, runs, readings
        flushed_at = time.monotonic()
        if not (runs or readings):
            return
        landing_id = f"{read_id}-{flush_count:06d}"
        landing.write_records(landing_id, cluster_id, runs)
        landing.write_sources(landing_id, cluster_id, landing_id, [_joined(readings)])
        landing.write_positions(name, tail.positions())
        if heard is not None:
            heard(runs)
        runs, readings, flush_count = [], [], flush_count + 1

    is_first = True
    while True:
        is_last, is_urgent = until_end or stop(), False
        for reading, piece in tail.poll():
            runs += piece
            readings.append(reading)
            count += sum(len(run.rows) for run in piece)
            is_urgent = is_urgent or (heard is not None and any(map(_is_of_brokers, piece)))
            for problem in reading.problems:
                report(problem.sentence)
            if sum(len(run.rows) for run in runs) >= 10 * PIECE_ROWS:
                flush()
        if is_first or is_last or is_urgent or (time.monotonic() - flushed_at) * 1000 >= flush_ms:
            flush()
        if is_first:
            is_first = False
            caught_up()
        if is_last:
            return count
        time.sleep(POLL_S if heard is None else FOLLOWED_POLL_S)


def _is_of_brokers(run: RecordRun) -> bool:
    return any(not row[IS_CONTROL] and (row[VALUE] or b"").startswith(_OF_BROKERS) for row in run.rows)
