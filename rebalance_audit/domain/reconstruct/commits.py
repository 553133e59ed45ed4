"""Where a group's offset commits stand between its group records.

Group records and commits of one group share one partition of __consumer_offsets, so offset order tells which
generation a commit belongs to; clock order does not (observed.md A.2).
"""

from __future__ import annotations

from collections.abc import Iterable

from rebalance_audit.domain.model import CommitMark

Resource = tuple[str, int]


class Commits:
    """Commit marks of one group, by committed partition, in offset order."""

    def __init__(self, marks: Iterable[CommitMark]) -> None:
        self._by_resource: dict[Resource, list[CommitMark]] = {}
        for mark in sorted(marks, key=lambda m: m.first_offset):
            self._by_resource.setdefault((mark.topic, mark.partition), []).append(mark)

    def last_between(self, resources: Iterable[Resource], after: int, before: int) -> tuple[int, str] | None:
        """(at_ms, ref) of the last commit of any of the partitions with after < offset < before."""
        best: CommitMark | None = None
        for resource in resources:
            for mark in reversed(self._by_resource.get(resource, ())):
                if mark.last_offset < before:
                    if mark.last_offset > after and (best is None or mark.last_offset > best.last_offset):
                        best = mark
                    break
        return None if best is None else (best.last_at_ms, best.last_ref)

    def first_between(self, resources: Iterable[Resource], after: int, before: int) -> tuple[int, str] | None:
        """(at_ms, ref) of the first commit of any of the partitions with after < offset < before."""
        best: CommitMark | None = None
        for resource in resources:
            for mark in self._by_resource.get(resource, ()):
                if mark.first_offset > after:
                    if mark.first_offset < before and (best is None or mark.first_offset < best.first_offset):
                        best = mark
                    break
        return None if best is None else (best.first_at_ms, best.first_ref)
