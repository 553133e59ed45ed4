"""Where a group's offset commits stand between its group records.

Group records and commits of one group share one partition of __consumer_offsets, so offset order shows which
generation a commit belongs to; clock order does not (docs/definitions.md#order).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable
from itertools import pairwise

from rebalance_audit.domain.model import CommitMark

Resource = tuple[str, int]
BEAT_COMMITS = 3
"""So many commits show a beat: twice the same time between them. Chosen."""
OFF_BEAT = 0.1
"""A share of the longest time between two commits: a timer is a few ms late each time."""
LATE = 0.02
"""The same for each time between two commits, where the timer is given the benefit of the doubt. Chosen."""


class _Track:
    """Marks of one partition, in the order of their offsets; they do not overlap."""

    __slots__ = ("firsts", "lasts", "marks")

    def __init__(self, marks: list[CommitMark]) -> None:
        self.marks = marks
        self.firsts = [m.first_offset for m in marks]
        self.lasts = [m.last_offset for m in marks]


class Commits:
    """Commit marks of one group, by committed partition. Those of a partition come in offset order."""

    def __init__(self, marks: Iterable[CommitMark]) -> None:
        by_resource: dict[Resource, list[CommitMark]] = {}
        for mark in marks:
            by_resource.setdefault((mark.topic, mark.partition), []).append(mark)
        self._tracks = {resource: _Track(found) for resource, found in by_resource.items()}
        self._others: dict[int, int | None] = {}

    def last_between(self, resources: Iterable[Resource], after: int, before: int) -> tuple[int, str] | None:
        """(at_ms, ref) of the last commit of any of the partitions with after < offset < before."""
        last = self._last(resources, after, before)
        return None if last is None else (last.last_at_ms, last.last_ref)

    def first_between(self, resources: Iterable[Resource], after: int, before: int) -> tuple[int, str] | None:
        """(at_ms, ref) of the first commit of any of the partitions with after < offset < before."""
        first = self._first(resources, after, before)
        return None if first is None else (first.first_at_ms, first.first_ref)

    def span_ms(self, resources: Collection[Resource], after: int, before: int) -> int | None:
        """Milliseconds from the first to the last commit of any of the partitions with after < offset < before."""
        first, last = self._first(resources, after, before), self._last(resources, after, before)
        return None if first is None or last is None else last.last_at_ms - first.first_at_ms

    def _last(self, resources: Iterable[Resource], after: int, before: int) -> CommitMark | None:
        best: CommitMark | None = None
        best_offset = after
        for resource in resources:
            track = self._tracks.get(resource)
            if track is None:
                continue
            at = bisect_left(track.lasts, before) - 1
            if at >= 0 and track.lasts[at] > best_offset:
                best, best_offset = track.marks[at], track.lasts[at]
        return best

    def _first(self, resources: Iterable[Resource], after: int, before: int) -> CommitMark | None:
        best: CommitMark | None = None
        best_offset = before
        for resource in resources:
            track = self._tracks.get(resource)
            if track is None:
                continue
            at = bisect_right(track.firsts, after)
            if at < len(track.firsts) and track.firsts[at] < best_offset:
                best, best_offset = track.marks[at], track.firsts[at]
        return best

    def first_of(self, resource: Resource, after: int, before: int) -> int | None:
        """at_ms of the first commit of the partition with after < offset < before."""
        track = self._tracks.get(resource)
        if track is None:
            return None
        at = bisect_right(track.firsts, after)
        return track.marks[at].first_at_ms if at < len(track.firsts) and track.firsts[at] < before else None

    def new_until(self, resource: Resource, after: int, before: int) -> int | None:
        """at_ms of the last commit of the partition between these offsets that said something new, as far as that is
        known. None where there is no commit, or positions are not known."""
        marks = self._between(resource, after, before)
        position = marks[-1].last_position if marks else None
        if position is None:
            return None
        at_ms = marks[-1].last_at_ms
        for mark in reversed(marks):
            known = (
                (mark.last_at_ms, mark.last_position),
                (mark.gap_to_at_ms, mark.gap_to_position),
                (mark.gap_from_at_ms, mark.gap_from_position),
                (mark.first_at_ms, mark.first_position),
            )
            at_ms = min([at_ms, *(ms for ms, where in known if ms is not None and where == position)])
            if mark.first_position != position:
                break
        return at_ms

    def _between(self, resource: Resource, after: int, before: int) -> list[CommitMark]:
        track = self._tracks.get(resource)
        return (
            [] if track is None else track.marks[bisect_right(track.firsts, after) : bisect_left(track.lasts, before)]
        )

    def gap_at(self, resource: Resource, after: int, at_ms: int) -> CommitMark | None:
        """The mark behind this offset whose longest time without a commit holds the instant."""
        track = self._tracks.get(resource)
        if track is None:
            return None
        place = bisect_right(track.firsts, after)
        mark = track.marks[place] if place < len(track.marks) else None
        if mark is None or mark.gap_from_at_ms is None or mark.gap_to_at_ms is None:
            return None
        return mark if mark.gap_from_at_ms < at_ms < mark.gap_to_at_ms else None

    def message_gap_ms(self, resources: Iterable[Resource], after: int, before: int) -> float | None:
        """Milliseconds from one message of all the partitions to the next, on average, by the positions committed
        between these offsets; None where none moved."""
        per_ms = 0.0
        for resource in resources:
            marks = self._between(resource, after, before)
            first, last = (marks[0].first_position, marks[-1].last_position) if marks else (None, None)
            if first is not None and last is not None and last > first:
                per_ms += (last - first) / max(marks[-1].last_at_ms - marks[0].first_at_ms, 1)
        return 1 / per_ms if per_ms else None

    def are_in_transactions(self, resources: Iterable[Resource], before: int) -> bool:
        """Whether the last commit of any of them before this offset came in a transaction, whoever made it."""
        last = self._last(resources, -1, before)
        return last is not None and bool(last.in_transaction)

    def got_nothing(self, resources: Iterable[Resource], before: int) -> bool:
        """Whether nothing shows that a message came to any of the partitions from their last commit before this offset
        to the first one behind it, their next owner's. False where positions are not known."""
        is_known = False
        for resource in resources:
            track = self._tracks.get(resource)
            at = bisect_left(track.lasts, before) if track is not None else 0
            last = track.marks[at - 1].last_position if track is not None and at else None
            if track is None or last is None:
                continue
            is_known = True
            then = track.marks[at].first_position if at < len(track.marks) else last
            if then is None or then > last:
                return False
        return is_known

    def others_last_ms(self, resources: Collection[Resource], before: int) -> int | None:
        """at_ms of the last commit before this offset of any other partition. The offset is that of the record by which
        one member is gone, and these are all that it held: it is asked for each of them."""
        if before not in self._others:
            held = frozenset(resources)
            last = self._last((each for each in self._tracks if each not in held), -1, before)
            self._others[before] = None if last is None else last.last_at_ms
        return self._others[before]

    def quiet_ms(self, resources: Iterable[Resource], after: int, before: int) -> int | None:
        """The longest time without a commit between these offsets, of the partition where it is shortest. If the client
        commits each message that it reads, none of the partitions had a message for at most this long. None: not
        known."""
        longest: list[int] = []
        for resource in resources:
            marks = self._between(resource, after, before)
            gaps = [m.gap_ms for m in marks if m.gap_ms is not None]
            gaps += [next_one.first_at_ms - one.last_at_ms for one, next_one in pairwise(marks)]
            longest += [max(gaps)] if gaps else []
        return min(longest, default=None)

    def is_off_beat(self, resources: Iterable[Resource], after: int, before: int) -> bool:
        """Whether the commits between these offsets, of the partition that was committed most, were not all equally far
        apart. Then the timer was not the reason of the first or the last one."""
        _, uneven = self._evenness(resources, after, before)
        return uneven > OFF_BEAT

    def is_on_beat(self, resources: Iterable[Resource], after: int, before: int) -> bool:
        """Whether several of them were, as nearly as timers are: the timer may be the reason of the last one."""
        count, uneven = self._evenness(resources, after, before)
        return count >= BEAT_COMMITS and uneven <= OFF_BEAT + LATE * (count - 1)

    def _evenness(self, resources: Iterable[Resource], after: int, before: int) -> tuple[int, float]:
        """How many commits there are of the partition that was committed most, and what they lack of being equally far
        apart, as a share of the longest time between two."""
        most: tuple[int, float, float] | None = None
        for resource in resources:
            marks = self._between(resource, after, before)
            gaps = [m.gap_ms for m in marks if m.gap_ms is not None]
            gaps += [next_one.first_at_ms - one.last_at_ms for one, next_one in pairwise(marks)]
            count = sum(m.commit_count for m in marks)
            if gaps and (most is None or count > most[0]):
                most = count, max(gaps), marks[-1].last_at_ms - marks[0].first_at_ms
        if most is None or most[1] <= 0:
            return 0, 0.0
        count, longest_ms, span_ms = most
        return count, (count - 1) - span_ms / longest_ms

    def interval_between(self, resources: Iterable[Resource], after: int, before: int) -> float | None:
        """Milliseconds from one commit to the next, on average, of the partition that was committed most between these
        offsets; None below two commits."""
        best: tuple[int, float] | None = None
        for resource in resources:
            marks = self._between(resource, after, before)
            count = sum(m.commit_count for m in marks)
            if count > 1 and (best is None or count > best[0]):
                best = count, (marks[-1].last_at_ms - marks[0].first_at_ms) / (count - 1)
        return None if best is None else best[1]
