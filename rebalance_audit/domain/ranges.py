"""Likely ranges: where nine of ten truths lie, beside the hard bounds, which no truth passes.

The two errors of a pause have nothing to do with each other: they add up by their squares. Those of one rebalance's
pauses add up in full: often it is one instant, common to all that a member held. Errors of one group's rebalances have
causes in common, its clients' habits and its broker's load, to a chosen part; those of different groups have none
(docs/definitions.md#likely-range).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from rebalance_audit.domain.model import Rebalance

COMMON = 0.4
"""The share of the errors of one group's rebalances that is common to them: the one by which nine of ten costs of
groups lie inside, on captures that were left out (docs/measured.md#likely-ranges)."""


class Reach(NamedTuple):
    """How far the likely ranges of one group's rebalances reach to both sides of their estimates: sums, and sums of
    squares. The reaches of two parts of the rebalances are added."""

    early: float
    late: float
    early_squares: float
    late_squares: float


class Range(NamedTuple):
    """What is known of a pause (ms) or of a cost (resource-seconds)."""

    estimate: float
    lower: float | None
    upper: float | None
    """None: no evidence bounds it."""
    likely_lower: float
    likely_upper: float


def range_of(r: Rebalance) -> Range | None:
    """The range of one rebalance's cost, in resource-seconds; None where it is not known."""
    if r.resource_seconds_estimate is None:
        return None
    own = r.resource_seconds_estimate
    return Range(
        own,
        r.resource_seconds_lower,
        r.resource_seconds_upper,
        own if r.resource_seconds_likely_lower is None else r.resource_seconds_likely_lower,
        own if r.resource_seconds_likely_upper is None else r.resource_seconds_likely_upper,
    )


def of_one_group(costs: Iterable[Range]) -> Range | None:
    """The sum of what rebalances of one group cost; None if there are none."""
    known = list(costs)
    if not known:
        return None
    early, late = [c.estimate - c.likely_lower for c in known], [c.likely_upper - c.estimate for c in known]
    reach = Reach(math.fsum(early), math.fsum(late), math.fsum(e * e for e in early), math.fsum(e * e for e in late))
    return of_sums(math.fsum(c.estimate for c in known), *_bounds(known), [reach])


def of_sums(estimate: float, lower: float | None, upper: float | None, reaches: Iterable[Reach]) -> Range:
    """The range of what one group's rebalances cost together, of which only these sums are known."""
    early, late, early_squares, late_squares = (math.fsum(column) for column in zip(*reaches, strict=True))
    return around(estimate, _together(early, early_squares), _together(late, late_squares), lower, upper)


def _together(total: float, squares: float) -> float:
    return math.sqrt(COMMON * total * total + (1 - COMMON) * squares)


def _bounds(costs: Iterable[Range]) -> tuple[float, float | None]:
    lowers, uppers = zip(*((c.lower, c.upper) for c in costs), strict=True)
    return math.fsum(v or 0 for v in lowers), None if None in uppers else math.fsum(v or 0 for v in uppers)


def of_groups(costs: Mapping[str, Iterable[Range]]) -> Range | None:
    """The sum over several groups, given by group; None if there are none."""
    known = [total for some in costs.values() if (total := of_one_group(some)) is not None]
    return among_groups(known)


def among_groups(totals: Sequence[Range]) -> Range | None:
    """The sum of what several groups cost; None if there are none."""
    if len(totals) < 2:
        return totals[0] if totals else None
    early = math.hypot(*(c.estimate - c.likely_lower for c in totals))
    late = math.hypot(*(c.likely_upper - c.estimate for c in totals))
    return around(math.fsum(c.estimate for c in totals), early, late, *_bounds(totals))


def around(estimate: float, early: float, late: float, lower: float | None, upper: float | None) -> Range:
    """The range that reaches so far to both sides of the estimate, and never past the bounds."""
    likely_lower, likely_upper = estimate - early, estimate + late
    if lower is not None:
        likely_lower = min(max(likely_lower, lower), estimate)
    if upper is not None:
        likely_upper = max(min(likely_upper, upper), estimate)
    return Range(estimate, lower, upper, likely_lower, likely_upper)
