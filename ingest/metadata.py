"""The metadata log of KRaft as it lies in the folders of brokers and controllers: segments, and checkpoints where the
log does not reach back. Secrets are gone from what leaves this module.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ingest.batches import IS_CONTROL, KEY, OFFSET, TIMESTAMP, VALUE, Row
from ingest.errors import Problem, Problems
from ingest.readings import RecordRun, SourceReading
from ingest.replicas import Replica, beyond_majority, merge, segments_in
from ingest.segments import read_segment
from rebalance_audit.domain.metadata import METADATA_TOPIC, SourceMetadata, bronze_topic, redact_metadata

METADATA_FOLDER = f"{METADATA_TOPIC}-0"
_CHECKPOINT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint(\.gz)?")
_READ_NAME = re.compile(r"\d{20}(-\d{10}\.checkpoint|\.log)(\.gz)?")
_FOOTER_TYPE = 4
EPOCH: Final = 5
_ROWS_PER_RUN = 50_000


@dataclass(slots=True)
class MetadataLog:
    """The metadata log of one cluster, by the copies of several nodes. Read `records` once, from front to back."""

    cluster_id: str
    folders: Mapping[str, Path]
    """Node -> its `__cluster_metadata-0`."""
    problems: Problems = field(default_factory=Problems)
    """Complete when `records` has come to its end."""
    reading: SourceReading = field(
        default_factory=lambda: SourceReading(source=f"record:{METADATA_FOLDER}", kind="record")
    )

    def records(self) -> Iterator[SourceMetadata]:
        """Records in the order of the log: each snapshot that is needed where it stands, then what follows it."""
        replicas = [Replica(node, segments_in(folder)) for node, folder in sorted(self.folders.items())]
        replicas = [replica for replica in replicas if replica.segments]
        starts = [replica.start_offset for replica in replicas]
        checkpoints = self._checkpoints()
        next_offset = 0
        self.reading.from_position = min(starts, default=None)
        for node, rows in merge(replicas):
            if rows[0][OFFSET] > next_offset:
                next_offset = yield from self._bridge(checkpoints, next_offset, rows[0][OFFSET])
            self.reading.saw(rows)
            next_offset = max(next_offset, rows[-1][OFFSET] + 1)
            for row in rows:
                yield self._record(node, row, None)
        latest = max(checkpoints, default=None)
        if latest is not None and latest[0] > next_offset:
            yield from self._snapshot(latest, checkpoints[latest])
        self._close(replicas)

    def bridge(self, reached: int, wanted: int) -> Iterator[SourceMetadata]:
        """The checkpoint that covers the records between two offsets; nothing if there is none."""
        yield from self._bridge(self._checkpoints(), reached, wanted)

    def _bridge(
        self, checkpoints: Mapping[tuple[int, int], tuple[str, Path]], reached: int, wanted: int
    ) -> Generator[SourceMetadata, None, int]:
        """The snapshot that stands for what the log does not hold any more: the first one that leads to `wanted`, else
        the last before it."""
        # One that reaches into the log is still the better start: what the log holds of it is passed over.
        leading = min((each for each in checkpoints if each[0] >= wanted), default=None)
        chosen = leading or max((each for each in checkpoints if reached < each[0]), default=None)
        if chosen is not None:
            yield from self._snapshot(chosen, checkpoints[chosen])
        return max(wanted, reached if chosen is None else chosen[0])

    def _checkpoints(self) -> dict[tuple[int, int], tuple[str, Path]]:
        """Finished ones by name; what is being written or deleted has another ending."""
        found: dict[tuple[int, int], tuple[str, Path]] = {}
        for node, folder in sorted(self.folders.items()):
            for path in sorted(folder.iterdir()) if folder.is_dir() else ():
                if match := _CHECKPOINT_NAME.fullmatch(path.name):
                    snapshot = (int(match[1]), int(match[2]))
                    if snapshot not in found and self._is_finished(node, path):
                        found[snapshot] = (node, path)
        return found

    def _is_finished(self, node: str, path: Path) -> bool:
        """Whether it ends with its footer. The whole file is read for that: half a state would be worse than none."""
        last: Row | None = None
        try:
            for item in read_segment(path):
                if isinstance(item, Problem):
                    last = None
                    break
                last = item[-1] if item else last
        except OSError as error:
            self.problems.add(Problem(code="unreadable", sentence=f"{node}/{path.name}: {error.strerror or error}."))
            return False
        if last is not None and last[IS_CONTROL] and (last[KEY] or b"")[2:4] == _FOOTER_TYPE.to_bytes(2, "big"):
            return True
        sentence = f"{node}/{path.name} is not whole, it has no footer: this snapshot is not used."
        self.problems.add(Problem(code="unreadable", sentence=sentence))
        return False

    def _snapshot(self, snapshot: tuple[int, int], place: tuple[str, Path]) -> Iterator[SourceMetadata]:
        node, path = place
        for item in read_segment(path):
            if not isinstance(item, Problem):
                self.reading.item_count += len(item)
                for row in item:
                    yield self._record(node, row, snapshot)

    def _record(self, node: str, row: Row, snapshot: tuple[int, int] | None) -> SourceMetadata:
        return SourceMetadata(
            cluster_id=self.cluster_id, topic=METADATA_TOPIC, partition=0, offset=row[OFFSET],
            timestamp_ms=row[TIMESTAMP], key=row[KEY], value=_without_secrets(row), is_control=bool(row[IS_CONTROL]),
            node=node, epoch=row[EPOCH], snapshot=snapshot,
        )  # fmt: skip

    def _close(self, replicas: Sequence[Replica]) -> None:
        self.reading.to_position = max((replica.end_offset for replica in replicas), default=None)
        for replica in replicas:
            for problem in replica.problems:
                self.problems.add(problem)
        if ahead := beyond_majority(replicas):
            self.problems.add(ahead)
        for problem in self.problems:
            self.reading.problems.add(problem)


def metadata_folders(data: Mapping[str, Path]) -> dict[str, Path]:
    """Node -> folder of its metadata log, of those that have one. `data`: node -> its data folder."""
    return {node: folder / METADATA_FOLDER for node, folder in data.items() if (folder / METADATA_FOLDER).is_dir()}


def metadata_files(folder: Path) -> list[Path]:
    """Segments and checkpoints of a node's metadata folder, by name."""
    return sorted(path for path in folder.iterdir() if path.is_file() and _READ_NAME.fullmatch(path.name))


def metadata_runs(sources: Iterable[SourceMetadata]) -> Iterator[RecordRun]:
    """Records of metadata logs as rows for a landing. Checkpoints stand under a topic name of their own: their offsets
    are places in a file."""
    for (topic, node), run in itertools.groupby(sources, lambda s: (bronze_topic(s.snapshot), s.node)):
        while rows := [
            _row(s.offset, s.timestamp_ms, s.key, s.value, s.epoch, s.is_control)
            for s in itertools.islice(run, _ROWS_PER_RUN)
        ]:
            yield RecordRun(topic=topic, partition=0, source="segment", node=node, rows=rows)


def stored_row(row: Row) -> Row:
    """A record as it lies in a segment, as it may be stored."""
    return _row(row[OFFSET], row[TIMESTAMP], row[KEY], _without_secrets(row), row[EPOCH], row[IS_CONTROL])


def _without_secrets(row: Row) -> bytes | None:
    return row[VALUE] if row[IS_CONTROL] else redact_metadata(row[VALUE])


def _row(
    offset: int, timestamp_ms: int, key: bytes | None, value: bytes | None, epoch: int | None, is_control: bool | None
) -> Row:
    return offset, timestamp_ms, key, value, None, epoch, None, None, None, is_control, None, None
