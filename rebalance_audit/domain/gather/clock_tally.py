"""Infers the clock of a node from pairs: (local time of a line, UTC time of the record it belongs to).

A clock follows from what the pairs add up to. So pairs can be added and taken out one by one, and need not be kept.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, NamedTuple

from rebalance_audit.domain.gather.clocks import NO_OFFSET, NodeClock, ZoneSource, to_utc_ms

QUARTER_HOUR_MS = 900_000
REACH_MS = 14 * 3_600_000 + QUARTER_HOUR_MS
"""A line that differs more from the record makes no pair with it: no zone is further from UTC than Pacific/Kiritimati,
14 hours."""
_MAX_CHANGE_MS = 2 * 3_600_000
_MIN_OVERRULING = 3
"""Votes that agree before a configured zone is not believed: one or two may be chance."""


def infer_utc_offset_ms(pairs: Iterable[tuple[int, int]], configured: str | None = None) -> NodeClock:
    """The clock of one node, from all of its pairs; see `ClockTally.clock`."""
    tally = ClockTally(configured)
    for local_at_ms, at_ms in pairs:
        tally.add(local_at_ms, at_ms)
    return tally.clock()


def offset_of(local_at_ms: int, at_ms: int) -> int | None:
    """The offset for which this pair votes; None if it is no pair."""
    difference = local_at_ms - at_ms
    return round(difference / QUARTER_HOUR_MS) * QUARTER_HOUR_MS if abs(difference) <= REACH_MS else None


class LostEnd(NamedTuple):
    """The pair with the first or last record for an offset was taken out, and it is not known which is now."""

    offset_ms: int
    is_last: bool
    bound_ms: int
    """None is beyond it."""


@dataclass(slots=True)
class _Votes:
    """The votes for one offset."""

    first_ms: int
    """By the records, as `last_ms`."""
    last_ms: int
    is_first_lost: bool = False
    """Whether `first_ms` is only the least that the first can be."""
    is_last_lost: bool = False
    count: int = 0
    residuals: Counter[int] = field(default_factory=Counter)
    """What is left of the differences after the offset."""


class ClockTally:
    """What the pairs of one node add up to, whatever their order."""

    __slots__ = ("_by_zone", "_votes", "configured")

    def __init__(self, configured: str | None = None) -> None:
        self.configured = configured
        """The node's zone, if one is configured."""
        self._votes: dict[int, _Votes] = {}
        """By offset."""
        self._by_zone: Counter[int] = Counter()
        """What is left of the differences after the configured zone, where that is little."""

    def add(self, local_at_ms: int, at_ms: int, count: int = 1) -> None:
        if (offset_ms := offset_of(local_at_ms, at_ms)) is None:
            return
        votes = self._votes.get(offset_ms)
        if votes is None:
            votes = self._votes[offset_ms] = _Votes(at_ms, at_ms)
        if at_ms <= votes.first_ms:
            votes.first_ms, votes.is_first_lost = at_ms, False
        if at_ms >= votes.last_ms:
            votes.last_ms, votes.is_last_lost = at_ms, False
        votes.count += count
        votes.residuals[local_at_ms - at_ms - offset_ms] += count
        if (residual := self._left_by_zone(local_at_ms, at_ms)) is not None:
            self._by_zone[residual] += count

    def remove(self, local_at_ms: int, at_ms: int, count: int = 1) -> None:
        """Takes out pairs that were added. See `lost_ends`."""
        if (offset_ms := offset_of(local_at_ms, at_ms)) is None:
            return
        votes = self._votes[offset_ms]
        votes.is_first_lost |= at_ms == votes.first_ms
        votes.is_last_lost |= at_ms == votes.last_ms
        votes.count -= count
        _take_out(votes.residuals, local_at_ms - at_ms - offset_ms, count)
        if not votes.count:
            del self._votes[offset_ms]
        if (residual := self._left_by_zone(local_at_ms, at_ms)) is not None:
            _take_out(self._by_zone, residual, count)

    def lost_ends(self) -> list[LostEnd]:
        """What must be found among the pairs that are left, and given to `put_end`, before the clock is asked for."""
        found = []
        for offset_ms, votes in self._votes.items():
            if votes.is_first_lost:
                found.append(LostEnd(offset_ms, False, votes.first_ms))
            if votes.is_last_lost:
                found.append(LostEnd(offset_ms, True, votes.last_ms))
        return found

    def put_end(self, lost: LostEnd, at_ms: int) -> None:
        votes = self._votes[lost.offset_ms]
        if lost.is_last:
            votes.last_ms, votes.is_last_lost = at_ms, False
        else:
            votes.first_ms, votes.is_first_lost = at_ms, False

    def clock(self) -> NodeClock:
        """Each pair votes for the difference rounded to a quarter of an hour (every zone in use is a whole number of
        these); the mode wins if at least half of the votes in its stretch of time agree, so wrong pairs do no harm.
        Votes for two offsets that are apart by up to two hours and follow each other in time are a change of the
        clocks. A configured zone wins over the votes, unless most of them contradict it and agree with each other:
        then it was given wrongly. The skew is measured all the same.
        """
        pair_count = sum(votes.count for votes in self._votes.values())
        found = self._stretches(pair_count)
        residuals: Counter[int] = Counter()
        for _, offset_ms in found:
            votes = self._votes[offset_ms]
            if _offset_at(found, votes.first_ms) == offset_ms:
                residuals.update(votes.residuals)
        source, offsets = (ZoneSource.INFERRED, found) if found else (ZoneSource.ASSUMED, NO_OFFSET)
        zone, agreeing_count = None, residuals.total()
        if self.configured is not None:
            by_zone_count = self._by_zone.total()
            if 2 * by_zone_count >= pair_count or agreeing_count < _MIN_OVERRULING:
                zone, source, offsets = self.configured, ZoneSource.CONFIGURED, NO_OFFSET
                residuals, agreeing_count = self._by_zone, by_zone_count
        skew_ms = spread_ms = None
        if agreeing_count:
            skew_ms = _median_low(residuals, agreeing_count)
            distances: Counter[int] = Counter()
            for residual, count in residuals.items():
                distances[abs(residual - skew_ms)] += count
            spread_ms = _median_low(distances, agreeing_count)
        return NodeClock(
            source=source, zone=zone, offsets=offsets, skew_ms=skew_ms, spread_ms=spread_ms, pair_count=pair_count,
            agreeing_count=agreeing_count,
        )  # fmt: skip

    def _left_by_zone(self, local_at_ms: int, at_ms: int) -> int | None:
        if self.configured is None:
            return None
        left = to_utc_ms(local_at_ms, self.configured, not_before_ms=at_ms - QUARTER_HOUR_MS) - at_ms
        return left if abs(left) < QUARTER_HOUR_MS else None

    def _stretches(self, pair_count: int) -> tuple[tuple[int, int], ...]:
        """(from instant, offset) of each stretch of time in which one offset has the majority; () without one."""
        if not self._votes:
            return ()
        ranked = sorted(self._votes.items(), key=lambda of: (-of[1].count, abs(of[0]), of[1].first_ms, of[0]))
        main_ms, main = ranked[0]
        for other_ms, other in ranked[1:]:
            if other.count < max(2, main.count // 50) or abs(other_ms - main_ms) > _MAX_CHANGE_MS:
                continue
            if 2 * (main.count + other.count) >= pair_count and (changed := self._change(main_ms, other_ms)):
                return changed
        return ((0, main_ms),) if 2 * main.count >= pair_count else ()

    def _change(self, one_ms: int, other_ms: int) -> tuple[tuple[int, int], ...] | None:
        """The two stretches, if the votes for one offset end before those for the other begin."""
        first, second = sorted((one_ms, other_ms), key=lambda offset_ms: self._votes[offset_ms].first_ms)
        last_of_first, first_of_second = self._votes[first].last_ms, self._votes[second].first_ms
        if last_of_first >= first_of_second:
            return None
        return (0, first), (_full_hour_between(last_of_first, first_of_second), second)

    # ---- as a note holds it ---------------------------------------------------------------------------------

    def as_kept(self) -> list[Any]:
        """For JSON. Not while ends are lost."""
        of_offsets = [
            [offset_ms, votes.first_ms, votes.last_ms, _listed(votes.residuals)]
            for offset_ms, votes in sorted(self._votes.items())
        ]
        return [of_offsets, _listed(self._by_zone)]

    @classmethod
    def of_kept(cls, kept: Sequence[Any], configured: str | None) -> ClockTally:
        tally = cls(configured)
        of_offsets, by_zone = kept
        for offset_ms, first_ms, last_ms, listed in of_offsets:
            residuals = _counted(listed)
            tally._votes[offset_ms] = _Votes(first_ms, last_ms, count=residuals.total(), residuals=residuals)
        tally._by_zone = _counted(by_zone)
        return tally


def _take_out(counts: Counter[int], value: int, count: int) -> None:
    counts[value] -= count
    if not counts[value]:
        del counts[value]


def _listed(counts: Mapping[int, int]) -> list[int]:
    """A value, how often it is there, the next value and so on."""
    return [number for counted in sorted(counts.items()) for number in counted]


def _counted(listed: Sequence[int]) -> Counter[int]:
    return Counter(dict(zip(listed[::2], listed[1::2], strict=True)))


def _median_low(counts: Mapping[int, int], total: int) -> int:
    values = sorted(counts)
    passed = list(accumulate(counts[value] for value in values))
    return values[bisect_right(passed, (total - 1) // 2)]


def _full_hour_between(after_ms: int, before_ms: int) -> int:
    """Clocks change at a full hour UTC nearly everywhere: the last one in the gap, else the gap's end."""
    hour = before_ms // 3_600_000 * 3_600_000
    return hour if hour > after_ms else before_ms


def _offset_at(offsets: Sequence[tuple[int, int]], at_ms: int) -> int:
    return [offset_ms for from_ms, offset_ms in offsets if from_ms <= at_ms or from_ms == 0][-1]
