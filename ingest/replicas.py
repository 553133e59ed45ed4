"""The copies of one partition on several nodes, as one run of records.

Kafka's replicas are byte for byte the same until compaction, which every broker does on its own. So batches with the
same place and checksum are the same and only one is unpacked; where they differ, records are compared one by one.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ingest.batches import HEADERS, IS_CONTROL, KEY, OFFSET, TIMESTAMP, VALUE, BatchError, Row, SegmentBatch
from ingest.errors import Problem, Problems
from ingest.segments import open_plain, read_batches

MAX_RELATIVE_OFFSET = 1 << 31
"""Kafka's index counts offsets from the segment's first in an int32, so no segment reaches further."""
_SEGMENT_NAME = re.compile(r"(\d{20})\.log(\.gz)?")


@dataclass(slots=True)
class Replica:
    """The segments of one partition on one node, read front to back."""

    node: str
    segments: Sequence[Path]
    end_offset: int = 0
    """One past the last offset known to be there; grows while reading."""
    read_bytes: int = 0
    """Bytes of the files on disk, counted when each is done."""
    problems: Problems = field(default_factory=Problems)

    @property
    def start_offset(self) -> int:
        return segment_base_offset(self.segments[0]) if self.segments else 0

    def batches(self) -> Iterator[SegmentBatch]:
        self.end_offset, self.read_bytes, self.problems = 0, 0, Problems()
        for path in self.segments:
            self.end_offset = max(self.end_offset, segment_base_offset(path))
            place = f"{self.node}/{path.parent.name}/{path.name}"
            try:
                with open_plain(path) as file:
                    for item in read_batches(file):
                        if not isinstance(item, SegmentBatch):
                            self._report(f"{place} at byte {item.position}: {item.sentence}.")
                        elif not 0 <= item.base_offset - segment_base_offset(path) < MAX_RELATIVE_OFFSET:
                            # No checksum covers the base offset, and one flipped bit would place records anywhere.
                            self._report(
                                f"{place} at byte {item.position}: offset {item.base_offset} cannot be in this segment."
                            )
                        else:
                            self.end_offset = max(self.end_offset, item.last_offset + 1)
                            yield item
            except OSError as error:
                self._report(f"{place} cannot be read: {error.strerror or error}.")
            self.read_bytes += file_bytes(path)

    def rows(self, batch: SegmentBatch) -> list[Row]:
        try:
            return batch.rows()
        except BatchError as error:
            self._report(f"{self.node}: a batch at offset {batch.base_offset} {error}; its records are not read.")
            return []

    def _report(self, sentence: str) -> None:
        self.problems.add(Problem(code="unreadable", sentence=sentence, position=self.end_offset))


def segments_in(folder: Path) -> list[Path]:
    """Segment files of a partition's folder in offset order; what compaction left half done is no segment."""
    names = {p.name for p in folder.iterdir() if _SEGMENT_NAME.fullmatch(p.name)}
    return [folder / name for name in sorted(names) if name.removesuffix(".gz") == name or name[:-3] not in names]


def file_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def segment_base_offset(path: Path) -> int:
    return int(path.name[:20])


def merge(replicas: Sequence[Replica]) -> Iterator[tuple[str, list[Row]]]:
    """(node, rows) with rows in offset order; records that agree come once, records that differ come from each node.

    Two records agree if key, value, timestamp and headers do. Checksums and places of batches are not compared: where
    one broker compacted and the other did not yet, they differ without meaning anything.
    """
    if len(replicas) == 1:
        (replica,) = replicas
        yield from ((replica.node, rows) for batch in replica.batches() if (rows := replica.rows(batch)))
        return
    streams = [(replica, replica.batches()) for replica in replicas]
    heads: list[SegmentBatch | None] = [next(stream, None) for _, stream in streams]
    while True:
        waiting = [i for i, head in enumerate(heads) if head is not None]
        if not waiting:
            return
        together = _overlapping(heads, waiting)
        first = heads[together[0]]
        assert first is not None
        if all(_is_same(first, heads[i]) for i in together):
            node = replicas[together[0]].node
            if rows := replicas[together[0]].rows(first):
                yield node, rows
            for i in together:
                heads[i] = next(streams[i][1], None)
        else:
            yield from _merge_records(replicas, streams, heads, together)


def _overlapping(heads: Sequence[SegmentBatch | None], waiting: Sequence[int]) -> list[int]:
    """Indexes of the heads that share offsets with the foremost one, itself first."""
    order = sorted(waiting, key=lambda i: heads[i].base_offset)  # type: ignore[union-attr]
    last = heads[order[0]].last_offset  # type: ignore[union-attr]
    return [i for n, i in enumerate(order) if n == 0 or heads[i].base_offset <= last]  # type: ignore[union-attr]


def _is_same(one: SegmentBatch, other: SegmentBatch | None) -> bool:
    return other is not None and (one.base_offset, one.crc, len(one.data)) == (
        other.base_offset, other.crc, len(other.data)
    )  # fmt: skip


def _merge_records(
    replicas: Sequence[Replica],
    streams: Sequence[tuple[Replica, Iterator[SegmentBatch]]],
    heads: list[SegmentBatch | None],
    together: Sequence[int],
) -> Iterator[tuple[str, list[Row]]]:
    """Take batches of the replicas that share offsets, until none reaches beyond the others, and compare records."""
    last = max(heads[i].last_offset for i in together)  # type: ignore[union-attr]
    rows: dict[str, list[Row]] = defaultdict(list)
    has_more = True
    while has_more:
        has_more = False
        for i, (replica, stream) in enumerate(streams):
            while (head := heads[i]) is not None and head.base_offset <= last:
                rows[replica.node] += replica.rows(head)
                last = max(last, head.last_offset)
                heads[i] = next(stream, None)
                has_more = True
    seen: dict[int, list[Row]] = defaultdict(list)
    for node in (replica.node for replica in replicas):
        fresh = []
        for row in rows.pop(node, ()):
            if not any(_agree(row, other) for other in seen[row[OFFSET]]):
                seen[row[OFFSET]].append(row)
                fresh.append(row)
        if fresh:
            yield node, fresh


def _agree(one: Row, other: Row) -> bool:
    return one is other or all(one[i] == other[i] for i in (KEY, VALUE, TIMESTAMP, HEADERS, IS_CONTROL))


def beyond_majority(replicas: Sequence[Replica]) -> Problem | None:
    """A problem where fewer than half of the replicas at hand hold the last records: copied later, or truncated."""
    if len(replicas) < 2:
        return None
    ends = sorted((replica.end_offset for replica in replicas), reverse=True)
    agreed = ends[len(ends) // 2]
    ahead = [replica.node for replica in replicas if replica.end_offset > agreed]
    if not ahead:
        return None
    sentence = (
        f"Records from offset {agreed} on are only on {', '.join(ahead)}, not on a majority of the {len(replicas)} "
        f"replicas at hand."
    )
    return Problem(code="above_majority", sentence=sentence, position=agreed)
