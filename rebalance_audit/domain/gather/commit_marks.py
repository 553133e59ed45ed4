"""Offset commits folded into marks: what measuring needs of them, and no more.

The pipeline folds at scale (spark_jobs/commits/partial_marks.py); this is the meaning it is tested against.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import reduce
from operator import attrgetter
from struct import Struct
from typing import Any

from rebalance_audit.domain.decode import Commit
from rebalance_audit.domain.model import CommitMark, GroupRecord, SourceRecord, changed

_MARKER = Struct(">hh").unpack_from
_COMMIT_MARKER = 1

_Stretch = tuple[str, int, str, str, int, int]
"""Offsets topic and partition, group, topic, partition, and how many records of the group are before."""


def is_commit_marker(marker: SourceRecord) -> bool:
    """Whether a transaction marker says COMMIT; else it says ABORT (or nothing we know, which counts as that)."""
    key = marker.key or b""
    return len(key) >= 4 and int(_MARKER(key)[1]) == _COMMIT_MARKER


def mark_of(commit: Commit) -> CommitMark:
    """The mark of one commit alone."""
    return CommitMark(
        topic=commit.topic, partition=commit.partition, offsets_topic=commit.offsets_topic,
        offsets_partition=commit.offsets_partition, first_offset=commit.offset, first_at_ms=commit.at_ms,
        last_offset=commit.offset, last_at_ms=commit.at_ms, commit_count=1, topic_id=commit.topic_id,
        first_position=commit.committed_offset, last_position=commit.committed_offset,
        in_transaction=commit.is_transactional,
    )  # fmt: skip


def joined(first: CommitMark, then: CommitMark) -> CommitMark:
    """One mark of two of the same partition, all commits of the first before those of the other."""
    if then.commit_count == 1 and first.gap_ms is not None:
        gap_ms = max(then.first_at_ms - first.last_at_ms, 0)
        if gap_ms <= first.gap_ms:  # as it mostly is
            awaits = first.after_at_ms is None and first.gap_to_offset == first.last_offset
            return changed(
                first,
                after_at_ms=then.first_at_ms if awaits else first.after_at_ms,
                after_position=then.first_position if awaits else first.after_position,
                last_offset=then.last_offset,
                last_at_ms=then.last_at_ms,
                last_position=then.last_position,
                commit_count=first.commit_count + 1,
                topic_id=first.topic_id if first.topic_id is not None else then.topic_id,
                second_gap_ms=gap_ms if first.second_gap_ms is None else max(gap_ms, first.second_gap_ms),
                in_transaction=then.in_transaction,
            )
    between = changed(
        first,
        gap_from_offset=first.last_offset,
        gap_from_at_ms=first.last_at_ms,
        gap_from_position=first.last_position,
        gap_to_offset=then.first_offset,
        gap_to_at_ms=then.first_at_ms,
        gap_to_position=then.first_position,
        after_at_ms=then.next_at_ms,
        after_position=then.next_position,
    )
    is_known = all(m.gap_ms is not None or m.commit_count == 1 for m in (first, then))
    with_gap = [m for m in (first, between, then) if m.gap_ms is not None]
    longest = max(with_gap, key=lambda m: m.gap_ms or 0)  # of two alike the first
    others = [m.gap_ms for m in with_gap if m is not longest] + [m.second_gap_ms for m in (first, then)]
    if longest is first and first.after_at_ms is None and first.gap_to_offset == first.last_offset:
        longest = changed(longest, after_at_ms=then.first_at_ms, after_position=then.first_position)
    if not is_known:  # a mark of an earlier release
        longest, others = replace(first, **_NO_GAP), []
    return changed(
        longest,
        next_at_ms=then.first_at_ms if first.next_at_ms is None else first.next_at_ms,
        next_position=then.first_position if first.next_at_ms is None else first.next_position,
        first_offset=first.first_offset,
        first_at_ms=first.first_at_ms,
        first_position=first.first_position,
        last_offset=then.last_offset,
        last_at_ms=then.last_at_ms,
        last_position=then.last_position,
        commit_count=first.commit_count + then.commit_count,
        topic_id=first.topic_id if first.topic_id is not None else then.topic_id,
        second_gap_ms=max((ms for ms in others if ms is not None), default=None),
        in_transaction=then.in_transaction,
    )


_NO_GAP: dict[str, Any] = {
    f.name: None for f in fields(CommitMark) if f.name.startswith(("gap_", "after_")) or f.name == "second_gap_ms"
}


class CommitFolder:
    """Folds the commits of many groups into marks. Records of one partition must come in offset order.

    A mark spans the commits of one group, topic and partition between two group records. Tombstones are no commits.
    A transactional commit stands where it was written, and counts once its COMMIT marker was seen.
    """

    def __init__(self) -> None:
        self._boundaries: dict[tuple[str, int, str], list[int]] = defaultdict(list)
        self._marks: dict[_Stretch, CommitMark] = {}
        self._pending: dict[tuple[str, int, int | None], list[Commit]] = defaultdict(list)
        self._apart: dict[_Stretch, list[CommitMark]] = defaultdict(list)
        """Marks between which commits of transactions that are still open may have to be inserted."""
        self._open: dict[_Stretch, int] = defaultdict(int)

    def group_record(self, record: GroupRecord) -> None:
        self._boundaries[record.topic, record.partition, record.record.key.group_id].append(record.offset)

    def commit(self, source: SourceRecord, commit: Commit) -> None:
        if commit.is_tombstone:
            return
        if source.is_transactional:
            self._pending[source.topic, source.partition, source.producer_id].append(commit)
            self._open[self._stretch(commit)] += 1
        else:
            self._fold(commit)

    def marker(self, marker: SourceRecord) -> None:
        pending = self._pending.pop((marker.topic, marker.partition, marker.producer_id), [])
        for commit in pending:
            if is_commit_marker(marker):
                self._fold(commit)
        for commit in pending:
            stretch = self._stretch(commit)
            self._open[stretch] -= 1
            if not self._open[stretch]:
                del self._open[stretch]
                if stretch in self._apart:
                    self._marks[stretch] = _all_joined(self._parts(stretch))
                    del self._apart[stretch]

    def _fold(self, commit: Commit) -> None:
        stretch, mark = self._stretch(commit), mark_of(commit)
        if stretch in self._open:
            self._apart[stretch].append(mark)
        else:
            known = self._marks.get(stretch)
            self._marks[stretch] = mark if known is None else joined(known, mark)

    def _stretch(self, commit: Commit) -> _Stretch:
        place = commit.offsets_topic, commit.offsets_partition, commit.group_id
        return *place, commit.topic, commit.partition, bisect_left(self._boundaries[place], commit.offset)

    def _parts(self, stretch: _Stretch) -> list[CommitMark]:
        known = self._marks.get(stretch)
        return [*self._apart.get(stretch, ()), *(() if known is None else (known,))]

    def marks(self) -> dict[str, list[CommitMark]]:
        """The marks of all commits, by group."""
        found: dict[str, list[CommitMark]] = defaultdict(list)
        for stretch in {**self._marks, **self._apart}:
            found[stretch[2]].append(_all_joined(self._parts(stretch)))
        return found


def _all_joined(parts: Iterable[CommitMark]) -> CommitMark:
    return reduce(joined, sorted(parts, key=attrgetter("first_offset")))
