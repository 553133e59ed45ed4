"""A node's clock worked out from all pairs at once: the plain form of `clock_tally`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from statistics import median_low

from rebalance_audit.domain.gather.clocks import NO_OFFSET, NodeClock, ZoneSource, to_utc_ms

QUARTER_HOUR_MS = 900_000
MAX_OFFSET_MS = 14 * 3_600_000
_MAX_CHANGE_MS = 2 * 3_600_000
_MIN_AGREEING_RATIO = 0.5
_MIN_OVERRULING = 3


def plain_clock(pairs: Iterable[tuple[int, int]], configured: str | None = None) -> NodeClock:
    """The clock of one node, from (local time of a line, UTC time of the record it belongs to).

    Each pair votes for the difference rounded to a quarter of an hour (every zone in use is a whole number of these);
    the mode wins if at least half of the votes in its stretch of time agree, so wrong pairs do no harm. Votes for two
    offsets that are apart by up to two hours and follow each other in time are a change of the clocks.
    A configured zone wins over the votes, unless most of them contradict it and agree with each other: then it was
    given wrongly. The skew is measured all the same.
    """
    usable = sorted((at_ms, local_at_ms - at_ms) for local_at_ms, at_ms in pairs)
    usable = [vote for vote in usable if abs(vote[1]) <= MAX_OFFSET_MS + QUARTER_HOUR_MS]
    found = _stretches([(at_ms, _rounded(difference)) for at_ms, difference in usable])
    residuals = [
        difference - offset_ms
        for at_ms, difference in usable
        if found and _rounded(difference) == (offset_ms := _offset_at(found, at_ms))
    ]
    source, offsets = (ZoneSource.INFERRED, found) if found else (ZoneSource.ASSUMED, NO_OFFSET)
    zone = None
    if configured is not None:
        left = [
            to_utc_ms(at_ms + difference, configured, not_before_ms=at_ms - QUARTER_HOUR_MS) - at_ms
            for at_ms, difference in usable
        ]
        by_zone = [residual for residual in left if abs(residual) < QUARTER_HOUR_MS]
        if 2 * len(by_zone) >= len(usable) or len(residuals) < _MIN_OVERRULING:
            zone, residuals, source, offsets = configured, by_zone, ZoneSource.CONFIGURED, NO_OFFSET
    skew_ms = median_low(residuals) if residuals else None
    return NodeClock(
        source=source,
        zone=zone,
        offsets=offsets,
        skew_ms=skew_ms,
        spread_ms=None if skew_ms is None else median_low([abs(residual - skew_ms) for residual in residuals]),
        pair_count=len(usable),
        agreeing_count=len(residuals),
    )


def _rounded(difference_ms: int) -> int:
    return round(difference_ms / QUARTER_HOUR_MS) * QUARTER_HOUR_MS


def _stretches(votes: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """(from instant, offset) of each stretch of time in which one offset has the majority; () without one."""
    counts = Counter(offset_ms for _, offset_ms in votes)
    if not counts:
        return ()
    ranked = sorted(counts.items(), key=lambda item: (-item[1], abs(item[0])))
    main_ms, main_count = ranked[0]
    for other_ms, other_count in ranked[1:]:
        if other_count < max(2, main_count // 50) or abs(other_ms - main_ms) > _MAX_CHANGE_MS:
            continue
        changed = _change(votes, main_ms, other_ms)
        if changed is not None:
            return changed
    return ((0, main_ms),) if main_count >= _MIN_AGREEING_RATIO * len(votes) else ()


def _change(votes: Sequence[tuple[int, int]], one_ms: int, other_ms: int) -> tuple[tuple[int, int], ...] | None:
    """The two stretches, if the votes for one offset end before those for the other begin."""
    times: Mapping[int, list[int]] = {one_ms: [], other_ms: []}
    for at_ms, offset_ms in votes:
        if offset_ms in times:
            times[offset_ms].append(at_ms)
    if len(times[one_ms]) + len(times[other_ms]) < _MIN_AGREEING_RATIO * len(votes):
        return None
    first, second = sorted((one_ms, other_ms), key=lambda offset_ms: times[offset_ms][0])
    last_of_first, first_of_second = times[first][-1], times[second][0]
    if last_of_first >= first_of_second:
        return None
    return (0, first), (_full_hour_between(last_of_first, first_of_second), second)


def _full_hour_between(after_ms: int, before_ms: int) -> int:
    """Clocks change at a full hour UTC nearly everywhere: the last one in the gap, else the gap's end."""
    hour = before_ms // 3_600_000 * 3_600_000
    return hour if hour > after_ms else before_ms


def _offset_at(offsets: Sequence[tuple[int, int]], at_ms: int) -> int:
    return [offset_ms for from_ms, offset_ms in offsets if from_ms <= at_ms or from_ms == 0][-1]
