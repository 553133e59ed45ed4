"""Likely ranges: where nine of ten truths lie, beside the hard bounds, which no truth passes.

The two errors of a pause have nothing to do with each other: they add up by their squares. Errors of one group's
rebalances share their causes, its clients' habits and its broker's load, or one instant common to all that a member
held: they add up in full. Those of different groups do not (docs/definitions.md#likely-range).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from rebalance_audit.domain.model import Rebalance


class Range(NamedTuple):
    """What is known of a pause (ms) or of a cost (resource-seconds)."""

    estimate: float
    lower: float | None
    upper: float | None
    """None: no evidence bounds it."""
    likely_lower: float
    likely_upper: float


def range_of(r: Rebalance) -> Range | None:
    """What one rebalance cost; None where it is not known."""
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
    """The sum of what rebalances of one group cost; None of none."""
    known = list(costs)
    if not known:
        return None
    lowers, uppers = [c.lower for c in known], [c.upper for c in known]
    return Range(
        math.fsum(c.estimate for c in known),
        math.fsum(v or 0 for v in lowers),
        None if None in uppers else math.fsum(v or 0 for v in uppers),
        math.fsum(c.likely_lower for c in known),
        math.fsum(c.likely_upper for c in known),
    )


def of_groups(costs: Mapping[str, Iterable[Range]]) -> Range | None:
    """The sum over several groups, by group; None of none."""
    known = [total for some in costs.values() if (total := of_one_group(some)) is not None]
    total = of_one_group(known)
    if total is None or len(known) == 1:
        return total
    early = math.hypot(*(c.estimate - c.likely_lower for c in known))
    late = math.hypot(*(c.likely_upper - c.estimate for c in known))
    return around(total.estimate, early, late, total.lower, total.upper)


def around(estimate: float, early: float, late: float, lower: float | None, upper: float | None) -> Range:
    """The range that reaches so far to both sides of the estimate, and never past the bounds."""
    likely_lower, likely_upper = estimate - early, estimate + late
    if lower is not None:
        likely_lower = min(max(likely_lower, lower), estimate)
    if upper is not None:
        likely_upper = max(min(likely_upper, upper), estimate)
    return Range(estimate, lower, upper, likely_lower, likely_upper)
