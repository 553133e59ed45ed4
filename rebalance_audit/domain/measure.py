"""A rebalance in numbers: for each resource the bounds and the estimate of its pause, and their sums.

Pause = from the old owner's letting go to the new owner's being told (design.md, section 5). Evidence is intersected:
the latest `not before` and the earliest `not after` bound it, the best-ranked estimate stands inside. What no
evidence bounds is null. An overlap (two owners at once) is a negative pause and counts as 0 in sums.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rebalance_audit.domain.marks import best_estimate, bounds, inside
from rebalance_audit.domain.model import EvidenceTier, Mark, Movement, Rebalance

TIER_ORDER = {tier.value: rank for rank, tier in enumerate(EvidenceTier)}
OVERLAP_SLACK_MS = 100
"""A negative bound smaller than the slack of its marks is rounding, not an overlap."""
_PAUSING = frozenset({"moved", "returned", "restarted"})


@dataclass(frozen=True, slots=True)
class _Instant:
    """When something happened, as far as its marks tell."""

    lower: int | None
    upper: int | None
    estimate: int | None
    best: Mark | None


def measure(rebalance: Rebalance) -> Rebalance:
    """The same rebalance with the numbers of its movements and its own filled in."""
    known: dict[int, _Instant] = {}
    movements = tuple(_measured(m, known) for m in rebalance.movements)
    pausing = [m for m in movements if m.pause_estimate_ms is not None]
    counts = {
        kind: sum(m.kind == kind for m in movements)
        for kind in ("moved", "returned", "revoked", "assigned", "restarted")
    }
    is_known = rebalance.resource_count is not None
    avoidable = [m.is_avoidable for m in movements if m.kind == "moved"]
    return replace(
        rebalance,
        movements=movements,
        **{f"{kind}_count": count if is_known else None for kind, count in counts.items()},  # type: ignore[arg-type]
        avoidable_moved_count=sum(bool(a) for a in avoidable) if is_known and None not in avoidable else None,
        pause_lower_ms=_longest(m.pause_lower_ms for m in pausing),
        pause_estimate_ms=_longest(m.pause_estimate_ms for m in pausing),
        pause_upper_ms=_longest((m.pause_upper_ms for m in pausing), null_wins=True),
        pause_tier=_worst(m.pause_tier for m in pausing),
        resource_seconds_lower=_seconds((m.pause_lower_ms for m in pausing), is_known),
        resource_seconds_estimate=_seconds((m.pause_estimate_ms for m in pausing), is_known),
        resource_seconds_upper=None
        if any(m.pause_upper_ms is None for m in pausing)
        else _seconds((m.pause_upper_ms for m in pausing), is_known),
    )


def _measured(movement: Movement, known: dict[int, _Instant]) -> Movement:
    """`known`: instants by the identity of their marks, which resources that go together share."""
    if movement.kind not in _PAUSING:
        return movement
    stop, resume = _once(movement.stop_marks, known), _once(movement.resume_marks, known)
    if stop.estimate is None or resume.estimate is None:
        return replace(
            movement,
            stopped_at_lower_ms=stop.lower,
            stopped_at_upper_ms=stop.upper,
            resumed_at_lower_ms=resume.lower,
            resumed_at_upper_ms=resume.upper,
        )
    estimate = resume.estimate - stop.estimate
    lower = None if resume.lower is None or stop.upper is None else resume.lower - stop.upper
    upper = None if resume.upper is None or stop.lower is None else resume.upper - stop.lower
    if lower is not None and -OVERLAP_SLACK_MS <= lower < 0:
        lower = 0
        estimate = max(estimate, 0)
    if upper is not None:
        estimate = min(estimate, upper)
    if lower is not None:
        estimate = max(estimate, lower)
    marks = [m for m in (stop.best, resume.best) if m is not None]
    return replace(
        movement,
        stopped_at_lower_ms=stop.lower,
        stopped_at_upper_ms=stop.upper,
        resumed_at_lower_ms=resume.lower,
        resumed_at_upper_ms=resume.upper,
        pause_lower_ms=lower,
        pause_estimate_ms=estimate,
        pause_upper_ms=upper,
        overlap_ms=-estimate if estimate < 0 else None,
        first_commit_after_ms=None
        if movement.first_commit_at_ms is None
        else movement.first_commit_at_ms - stop.estimate,
        pause_tier=_worst(m.tier for m in marks),
        pause_detail="; ".join(f"{word}: {m.detail}" for word, m in zip(("stopped", "resumed"), marks, strict=False)),
    )


def _once(marks: tuple[Mark, ...], known: dict[int, _Instant]) -> _Instant:
    found = known.get(id(marks))
    if found is None:
        found = known[id(marks)] = _instant(marks)
    return found


def _instant(marks: Sequence[Mark]) -> _Instant:
    lower, upper = bounds(marks)
    best = best_estimate(marks)
    if best is None:
        best = next((m for m in marks if m.at_ms in (lower, upper)), None)
        at_ms = lower if upper is None else upper if lower is None else (lower + upper) // 2
        return _Instant(lower, upper, at_ms, best)
    return _Instant(lower, upper, inside(best.at_ms, lower, upper), best)


def _longest(values: Iterable[int | None], *, null_wins: bool = False) -> int | None:
    known = list(values)
    if not known or (null_wins and None in known):
        return None
    return max((v for v in known if v is not None), default=None)


def _worst(tiers: Iterable[str | None]) -> str | None:
    return max((t for t in tiers if t is not None), key=TIER_ORDER.__getitem__, default=None)


def _seconds(values: Iterable[int | None], is_known: bool) -> float | None:
    return sum(max(v or 0, 0) for v in values) / 1000 if is_known else None
