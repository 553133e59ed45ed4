"""Offset commits folded into marks: what measuring needs of them, and no more.

The pipeline folds at scale (spark_jobs/commits/partial_marks.py); this is the meaning it is tested against.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import replace
from struct import Struct

from rebalance_audit.domain.decode import Commit
from rebalance_audit.domain.model import CommitMark, GroupRecord, SourceRecord

_MARKER = Struct(">hh").unpack_from
_COMMIT_MARKER = 1


def is_commit_marker(marker: SourceRecord) -> bool:
    """Whether a transaction marker says COMMIT; else it says ABORT (or nothing we know, which counts as that)."""
    key = marker.key or b""
    return len(key) >= 4 and int(_MARKER(key)[1]) == _COMMIT_MARKER


class CommitFolder:
    """Folds the commits of many groups into marks. Records of one partition must come in offset order.

    A mark spans the commits of one group, topic and partition between two group records. Tombstones are no commits.
    A transactional commit stands where it was written, and counts once its COMMIT marker was seen.
    """

    def __init__(self) -> None:
        self._boundaries: dict[tuple[str, int, str], list[int]] = defaultdict(list)
        self._marks: dict[tuple[str, int, str, str, int, int], CommitMark] = {}
        self._pending: dict[tuple[str, int, int | None], list[Commit]] = defaultdict(list)

    def group_record(self, record: GroupRecord) -> None:
        self._boundaries[record.topic, record.partition, record.record.key.group_id].append(record.offset)

    def commit(self, source: SourceRecord, commit: Commit) -> None:
        if commit.is_tombstone:
            return
        if source.is_transactional:
            self._pending[source.topic, source.partition, source.producer_id].append(commit)
        else:
            self._fold(commit)

    def marker(self, marker: SourceRecord) -> None:
        pending = self._pending.pop((marker.topic, marker.partition, marker.producer_id), [])
        if is_commit_marker(marker):
            for commit in pending:
                self._fold(commit)

    def _fold(self, commit: Commit) -> None:
        boundaries = self._boundaries[commit.offsets_topic, commit.offsets_partition, commit.group_id]
        stretch = bisect_left(boundaries, commit.offset)
        key = (
            commit.offsets_topic, commit.offsets_partition, commit.group_id, commit.topic, commit.partition, stretch,
        )  # fmt: skip
        known = self._marks.get(key)
        if known is None:
            self._marks[key] = CommitMark(
                topic=commit.topic, partition=commit.partition, offsets_topic=commit.offsets_topic,
                offsets_partition=commit.offsets_partition, first_offset=commit.offset, first_at_ms=commit.at_ms,
                last_offset=commit.offset, last_at_ms=commit.at_ms, commit_count=1, topic_id=commit.topic_id,
            )  # fmt: skip
            return
        changes: dict[str, int | str | None] = {"commit_count": known.commit_count + 1}
        if known.topic_id is None:
            changes["topic_id"] = commit.topic_id
        if commit.offset < known.first_offset:
            changes |= {"first_offset": commit.offset, "first_at_ms": commit.at_ms}
        if commit.offset > known.last_offset:
            changes |= {"last_offset": commit.offset, "last_at_ms": commit.at_ms}
        self._marks[key] = replace(known, **changes)  # type: ignore[arg-type]

    def marks(self) -> dict[str, list[CommitMark]]:
        """By group."""
        found: dict[str, list[CommitMark]] = defaultdict(list)
        for (_, _, group_id, *_), mark in self._marks.items():
            found[group_id].append(mark)
        return found
