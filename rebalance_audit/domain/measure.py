"""A rebalance in numbers: for each resource the bounds and the estimate of its pause, and their sums.

Pause = from the old owner's letting go to the new owner's being told (design.md, section 5). Evidence is intersected:
the latest `not before` and the earliest `not after` bound it, the best-ranked estimate stands inside. What no
evidence bounds is null. An overlap (two owners at once) is a negative pause and counts as 0 in sums.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rebalance_audit.domain.marks import best_estimate, bounds, inside
from rebalance_audit.domain.model import EvidenceTier, Mark, Rebalance, changed

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


class MovementNumbers(NamedTuple):
    """The columns of a movement that its marks tell."""

    stopped_at_lower_ms: int | None = None
    stopped_at_upper_ms: int | None = None
    resumed_at_lower_ms: int | None = None
    resumed_at_upper_ms: int | None = None
    pause_lower_ms: int | None = None
    pause_estimate_ms: int | None = None
    pause_upper_ms: int | None = None
    overlap_ms: int | None = None
    first_commit_after_ms: int | None = None
    pause_tier: str | None = None
    pause_detail: str | None = None


class RebalanceNumbers(NamedTuple):
    """The columns of a rebalance that its movements tell."""

    moved_count: int | None
    returned_count: int | None
    revoked_count: int | None
    assigned_count: int | None
    restarted_count: int | None
    avoidable_moved_count: int | None
    pause_lower_ms: int | None
    pause_estimate_ms: int | None
    pause_upper_ms: int | None
    pause_tier: str | None
    resource_seconds_lower: float | None
    resource_seconds_estimate: float | None
    resource_seconds_upper: float | None


def measure(rebalance: Rebalance) -> Rebalance:
    """The same rebalance with the numbers of its movements and its own filled in."""
    known: dict[int, _Instant] = {}
    movements = rebalance.movements
    numbers = [movement_numbers(m.kind, m.stop_marks, m.resume_marks, m.first_commit_at_ms, known) for m in movements]
    kinds, avoidable = [m.kind for m in movements], [m.is_avoidable for m in movements]
    total = rebalance_numbers(kinds, avoidable, numbers, is_known=rebalance.resource_count is not None)
    measured = (changed(m, **told._asdict()) for m, told in zip(movements, numbers, strict=True))
    return changed(rebalance, movements=tuple(measured), **total._asdict())


def rebalance_numbers(
    kinds: Sequence[str],
    avoidable: Sequence[bool | None],
    numbers: Sequence[MovementNumbers],
    *,
    is_known: bool,
) -> RebalanceNumbers:
    """Of a rebalance's movements: each one's kind, whether it was avoidable, and its numbers. `is_known`: whether what
    was handed out is."""
    counts = Counter(kinds)
    pausing = [n for n in numbers if n.pause_estimate_ms is not None]
    uppers = [n.pause_upper_ms for n in pausing]
    spared = [a for kind, a in zip(kinds, avoidable, strict=True) if kind == "moved"]
    return RebalanceNumbers(
        moved_count=counts["moved"] if is_known else None,
        returned_count=counts["returned"] if is_known else None,
        revoked_count=counts["revoked"] if is_known else None,
        assigned_count=counts["assigned"] if is_known else None,
        restarted_count=counts["restarted"] if is_known else None,
        avoidable_moved_count=sum(bool(a) for a in spared) if is_known and None not in spared else None,
        pause_lower_ms=_longest(n.pause_lower_ms for n in pausing),
        pause_estimate_ms=_longest(n.pause_estimate_ms for n in pausing),
        pause_upper_ms=None if None in uppers else _longest(uppers),
        pause_tier=_worst(n.pause_tier for n in pausing),
        resource_seconds_lower=_seconds((n.pause_lower_ms for n in pausing), is_known),
        resource_seconds_estimate=_seconds((n.pause_estimate_ms for n in pausing), is_known),
        resource_seconds_upper=None if None in uppers else _seconds(uppers, is_known),
    )


def movement_numbers(
    kind: str,
    stop_marks: Sequence[Mark],
    resume_marks: Sequence[Mark],
    first_commit_at_ms: int | None,
    known: dict[int, _Instant],
) -> MovementNumbers:
    """`known`: instants by the identity of their marks, which resources that go together share."""
    if kind not in _PAUSING:
        return NOT_PAUSING
    stop, resume = _once(stop_marks, known), _once(resume_marks, known)
    if stop.estimate is None or resume.estimate is None:
        return MovementNumbers(stop.lower, stop.upper, resume.lower, resume.upper)
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
    return MovementNumbers(
        stopped_at_lower_ms=stop.lower,
        stopped_at_upper_ms=stop.upper,
        resumed_at_lower_ms=resume.lower,
        resumed_at_upper_ms=resume.upper,
        pause_lower_ms=lower,
        pause_estimate_ms=estimate,
        pause_upper_ms=upper,
        overlap_ms=-estimate if estimate < 0 else None,
        first_commit_after_ms=None if first_commit_at_ms is None else first_commit_at_ms - stop.estimate,
        pause_tier=_worst(m.tier for m in marks),
        pause_detail="; ".join(f"{word}: {m.detail}" for word, m in zip(("stopped", "resumed"), marks, strict=False)),
    )


NOT_PAUSING = MovementNumbers()


def _once(marks: Sequence[Mark], known: dict[int, _Instant]) -> _Instant:
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


def _longest(values: Iterable[int | None]) -> int | None:
    return max((v for v in values if v is not None), default=None)


def _worst(tiers: Iterable[str | None]) -> str | None:
    return max((t for t in tiers if t is not None), key=TIER_ORDER.__getitem__, default=None)


def _seconds(values: Iterable[int | None], is_known: bool) -> float | None:
    return sum(max(v or 0, 0) for v in values) / 1000 if is_known else None
