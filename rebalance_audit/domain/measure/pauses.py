"""A rebalance in numbers: for each resource the bounds and the estimate of its pause, and their sums.

Pause = from the old owner's letting go to the new owner's assigned callback (docs/definitions.md#pause). Evidence is
intersected: the latest `not before` and the earliest `not after` bound it, the best-ranked estimate stands inside
(docs/definitions.md#bounds). What no evidence bounds is null. An overlap (two owners at once) is a negative pause and
counts as 0 in sums. Beside the bounds stands the likely range (`likely`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rebalance_audit.domain.kinds import STOOD_STILL, Basis, EvidenceTier, MovementKind
from rebalance_audit.domain.measure.errors import Pace
from rebalance_audit.domain.measure.likely import likely_instant
from rebalance_audit.domain.measure.marks import Weighed, inside, weigh
from rebalance_audit.domain.model import Rebalance, changed
from rebalance_audit.domain.ranges import around

_BADNESS = ({None: -1} | {tier.value: rank for rank, tier in enumerate(EvidenceTier)}).__getitem__
OVERLAP_SLACK_MS = 100
"""A negative bound smaller than the slack of its marks is rounding, not an overlap (docs/definitions.md#bounds)."""
QUICK_MS, SLOW_MS = 3, 16
"""From the end of the join phase to the record: from 16 ms on one pause in six lay outside the range of all, below it
one in fourteen; below 3 ms a narrower range holds as many (docs/measured.md#likely-ranges)."""
WORKED_ON = frozenset({Basis.REJOIN, Basis.BACK_AFTER_EXPIRY, Basis.MAY_LIVE_ON})
"""Kinds of evidence on owners that were put out while they worked: there a small overlap is one."""


class Instant(NamedTuple):
    """When something happened, as far as its marks show."""

    lower: int | None
    upper: int | None
    estimate: int | None
    tier: str | None
    """The best mark's tier. The rest is of the same mark."""
    detail: str
    basis: Basis | None = None
    window: tuple[int, int] | None = None
    may_overlap: bool = False
    """The old owner was put out, and may have worked on beside the new one."""

    def likely(self, pace: Pace = Pace.USUAL) -> tuple[int, int]:
        """(from, to), epoch ms: where it likely was. Ask only where there is an estimate."""
        assert self.estimate is not None
        return likely_instant(self.estimate, self.lower, self.upper, self.basis, self.window, pace=pace)


class MovementNumbers(NamedTuple):
    """The columns of a movement that its marks give."""

    stopped_at_lower_ms: int | None = None
    stopped_at_upper_ms: int | None = None
    resumed_at_lower_ms: int | None = None
    resumed_at_upper_ms: int | None = None
    pause_lower_ms: int | None = None
    pause_estimate_ms: int | None = None
    pause_upper_ms: int | None = None
    pause_likely_lower_ms: int | None = None
    pause_likely_upper_ms: int | None = None
    overlap_ms: int | None = None
    first_commit_after_ms: int | None = None
    pause_tier: str | None = None
    pause_detail: str | None = None


class RebalanceNumbers(NamedTuple):
    """The columns of a rebalance that its movements give."""

    moved_count: int | None
    returned_count: int | None
    revoked_count: int | None
    assigned_count: int | None
    restarted_count: int | None
    avoidable_moved_count: int | None
    pause_lower_ms: int | None
    pause_estimate_ms: int | None
    pause_upper_ms: int | None
    pause_likely_lower_ms: int | None
    pause_likely_upper_ms: int | None
    pause_tier: str | None
    resource_seconds_lower: float | None
    resource_seconds_estimate: float | None
    resource_seconds_upper: float | None
    resource_seconds_likely_lower: float | None
    resource_seconds_likely_upper: float | None


def pace_of(joined_at_ms: int | None, assigned_at_ms: int | None) -> Pace:
    """By how long the assignment took after the join phase had ended: where it took long, the group's machines were
    busy, or its broker, and its members' callbacks are late as well. `USUAL` where it is not known, or below 0."""
    if joined_at_ms is None or assigned_at_ms is None:
        return Pace.USUAL
    took_ms = assigned_at_ms - joined_at_ms
    return Pace.SLOW if took_ms >= SLOW_MS else Pace.QUICK if 0 <= took_ms < QUICK_MS else Pace.USUAL


def measure(rebalance: Rebalance) -> Rebalance:
    """The same rebalance with the numbers of its movements and its own filled in."""
    movements = rebalance.movements
    # Resources that go together share their marks, the very same tuple.
    shared = {id(marks): marks for m in movements for marks in (m.stop_marks, m.resume_marks)}
    instants = {known: instant(marks) for known, marks in shared.items()}
    pace = pace_of(rebalance.joined_at_ms, rebalance.assigned_at_ms)
    numbers = [
        movement_numbers(m.kind, instants[id(m.stop_marks)], instants[id(m.resume_marks)], m.first_commit_at_ms, pace)
        for m in movements
    ]
    kinds, avoidable = [m.kind for m in movements], [m.is_avoidable for m in movements]
    total = rebalance_numbers(kinds, avoidable, numbers, is_known=rebalance.resource_count is not None)
    measured = (changed(m, **own._asdict()) for m, own in zip(movements, numbers, strict=True))
    return changed(rebalance, movements=tuple(measured), **total._asdict())


def rebalance_numbers(
    kinds: Sequence[str],
    avoidable: Sequence[bool | None],
    numbers: Sequence[MovementNumbers],
    *,
    is_known: bool,
) -> RebalanceNumbers:
    """For each movement of a rebalance its kind, whether it was avoidable, and its numbers. `is_known`: whether the
    assignment is known."""
    estimates = [n.pause_estimate_ms for n in numbers if n.pause_estimate_ms is not None]
    lowers = [n.pause_lower_ms for n in numbers if n.pause_lower_ms is not None]
    uppers = [n.pause_upper_ms for n in numbers if n.pause_upper_ms is not None]
    stood_still = sum(kind in STOOD_STILL for kind in kinds)
    is_bounded = len(uppers) == stood_still  # what has no estimate has no bounds
    # Nothing may be known of some resources that stopped: then the sum is of the others, and has no upper bound.
    is_costed = is_known and bool(estimates or not stood_still)
    likely_lowers = [n.pause_likely_lower_ms for n in numbers if n.pause_likely_lower_ms is not None]
    likely_uppers = [n.pause_likely_upper_ms for n in numbers if n.pause_likely_upper_ms is not None]
    spared = [a for kind, a in zip(kinds, avoidable, strict=True) if kind == MovementKind.MOVED]
    return RebalanceNumbers(
        moved_count=len(spared) if is_known else None,
        returned_count=kinds.count(MovementKind.RETURNED) if is_known else None,
        revoked_count=kinds.count(MovementKind.REVOKED) if is_known else None,
        assigned_count=kinds.count(MovementKind.ASSIGNED) if is_known else None,
        restarted_count=kinds.count(MovementKind.RESTARTED) if is_known else None,
        avoidable_moved_count=spared.count(True) if is_known and None not in spared else None,
        pause_lower_ms=max(lowers, default=None),
        pause_estimate_ms=max(estimates, default=None),
        pause_upper_ms=max(uppers, default=None) if is_bounded else None,
        pause_likely_lower_ms=max(likely_lowers, default=None),
        pause_likely_upper_ms=max(likely_uppers, default=None),
        pause_tier=_worst({n.pause_tier for n in numbers}),
        resource_seconds_lower=_seconds(lowers) if is_costed else None,
        resource_seconds_estimate=_seconds(estimates) if is_costed else None,
        resource_seconds_upper=_seconds(uppers) if is_costed and is_bounded else None,
        resource_seconds_likely_lower=_seconds(likely_lowers) if is_costed else None,
        resource_seconds_likely_upper=_seconds(likely_uppers) if is_costed else None,
    )


def movement_numbers(
    kind: str, stop: Instant, resume: Instant, first_commit_at_ms: int | None, pace: Pace = Pace.USUAL
) -> MovementNumbers:
    """`pace`: of the rebalance that hands it out."""
    if kind not in STOOD_STILL:
        return NOT_PAUSING
    if stop.estimate is None or resume.estimate is None:
        return MovementNumbers(
            stop.lower, stop.upper, resume.lower, resume.upper, pause_detail=_why_unknown(stop, resume)
        )
    estimate = resume.estimate - stop.estimate
    lower = None if resume.lower is None or stop.upper is None else resume.lower - stop.upper
    upper = None if resume.upper is None or stop.lower is None else resume.upper - stop.lower
    if lower is not None and -OVERLAP_SLACK_MS <= lower < 0 and not stop.may_overlap:
        lower = 0
        estimate = max(estimate, 0)
        upper = None if upper is None else max(upper, 0)
    if upper is not None:
        estimate = min(estimate, upper)
    if lower is not None:
        estimate = max(estimate, lower)
    (stop_from, stop_to), (resume_from, resume_to) = stop.likely(pace), resume.likely(pace)
    # Both of an old worker's statuses are wrong, or neither is.
    is_one_cause = stop.basis is Basis.STATUS_OF_OLD_STOP and resume.basis is Basis.STATUS_OF_OLD_START
    together = _added if is_one_cause else math.hypot
    likely = around(
        estimate,
        math.ceil(together(stop_to - stop.estimate, resume.estimate - resume_from)),
        math.ceil(together(stop.estimate - stop_from, resume_to - resume.estimate)),
        lower,
        upper,
    )
    return MovementNumbers(
        stopped_at_lower_ms=stop.lower,
        stopped_at_upper_ms=stop.upper,
        resumed_at_lower_ms=resume.lower,
        resumed_at_upper_ms=resume.upper,
        pause_lower_ms=lower,
        pause_estimate_ms=estimate,
        pause_upper_ms=upper,
        pause_likely_lower_ms=int(likely.likely_lower),
        pause_likely_upper_ms=int(likely.likely_upper),
        overlap_ms=-estimate if estimate < 0 else None,
        first_commit_after_ms=None if first_commit_at_ms is None else first_commit_at_ms - stop.estimate,
        pause_tier=_worst((stop.tier, resume.tier)),
        pause_detail=f"stopped: {stop.detail}; resumed: {resume.detail}",
    )


def _why_unknown(stop: Instant, resume: Instant) -> str:
    unseen = [
        said
        for found, said in ((stop, "when the old owner stopped"), (resume, "when the new one began"))
        if found.estimate is None
    ]
    return f"not known: no evidence shows {' and '.join(unseen)}"


def _added(one: float, other: float) -> float:
    return one + other


NOT_PAUSING = MovementNumbers()


def instant(marks: Sequence[Weighed]) -> Instant:
    lower, upper, best = weigh(marks)
    if best is not None:
        basis = None if best.basis is None else Basis(best.basis)
        window = None
        if best.window_from_ms is not None and best.window_to_ms is not None:
            window = best.window_from_ms, best.window_to_ms
        may_overlap = any(m.basis in WORKED_ON for m in marks)
        estimate = inside(best.at_ms, lower, upper)
        return Instant(lower, upper, estimate, best.tier, best.detail, basis, window, may_overlap)
    best = next((m for m in marks if m.at_ms in (lower, upper)), None)
    if best is None:
        return _NO_INSTANT
    at_ms = lower if upper is None else upper if lower is None else (lower + upper) // 2
    return Instant(lower, upper, at_ms, best.tier, best.detail)


_NO_INSTANT = Instant(None, None, None, None, "")


def _worst(tiers: Iterable[str | None]) -> str | None:
    return max(tiers, key=_BADNESS, default=None)


def _seconds(values: Iterable[int]) -> float:
    return sum([v for v in values if v > 0]) / 1000
