"""What counts as a rebalance, when it was, and what rebalances cost: one definition for tables, app, report, `explain`,
alerts and metrics. A number that is shown twice comes from here both times.

The SQL is DuckDB's, over the columns of gold.rebalance. A cost is a sum over all rows, rewrites of static members
included: their partitions stood still as well, though nobody counts them as rebalances.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from rebalance_audit.domain.causes import REASSIGNED
from rebalance_audit.domain.kinds import GroupType, Outcome, RebalanceKind
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.ranges import Range, of_groups, range_of

HAPPENED_AT = "coalesce(assigned_at_ms, ended_at_ms, joined_at_ms, started_at_ms, started_lower_ms)"
"""When it took effect, else the last time known of it; the range of time that it is counted in."""
IS_COUNTED = "(kind = 'rebalance' AND outcome <> 'missing')"
"""Rewrites of static members do not count, nor skipped numbers of which nothing is known."""
COUNT = f"count(*) FILTER (WHERE {IS_COUNTED})"
EXPECTED_COUNT = f"count(*) FILTER (WHERE {IS_COUNTED} AND expected)"
COST = "sum(resource_seconds_estimate)"
COST_LOWER = "sum(resource_seconds_lower)"
COST_UPPER = (
    "CASE WHEN count(*) FILTER (WHERE resource_seconds_estimate IS NOT NULL AND resource_seconds_upper IS NULL) = 0 "
    "THEN sum(resource_seconds_upper) END"
)
_EARLY = "(resource_seconds_estimate - resource_seconds_likely_lower)"
_LATE = "(resource_seconds_likely_upper - resource_seconds_estimate)"
COST_REACH = f"[sum({_EARLY}), sum({_LATE}), sum({_EARLY} * {_EARLY}), sum({_LATE} * {_LATE})]"
"""SQL for one group's `ranges.Reach`, for `ranges.of_sums`."""
UNKNOWN_COST_COUNT = (
    f"count(*) FILTER (WHERE {IS_COUNTED} AND resource_seconds_estimate IS NULL AND resource_count > 0 "
    "AND moved_count + returned_count > 0)"
)
"""Rebalances in which something stopped and nobody knows for how long."""
CAUSE = "coalesce(b.cause, r.trigger)"
"""The cause that a rebalance `r` counts for where rebalances or their costs are summed by cause; needs `booked()` as
`b`. It is the root cause of its incident, so the end of a scheduled delay counts for the worker that was killed. A
rebalance in no incident counts for its own trigger."""
HANDS_OUT_TASKS = "coalesce(protocol_type IN ('connect', 'streams'), FALSE)"
"""KIP-1071's groups hand out stream tasks."""

UNIT = f"CASE WHEN {HANDS_OUT_TASKS} THEN 'task' ELSE 'partition' END"
"""What stands still in a rebalance: see `unit_of`."""


class CostBounds(NamedTuple):
    """Resource-seconds; None where nothing is known. An upper bound is also None where any cost has none."""

    estimate: float | None
    lower: float | None
    upper: float | None
    likely_lower: float | None = None
    """Nine of ten truths lie between this and the next."""
    likely_upper: float | None = None


def booked(of: str = "true", incidents: str = "gold.incident", also: str = "") -> str:
    """SQL for a LEFT JOIN: the rebalances of the incidents `i` for which `of` is true, with cluster_id, rebalance_id,
    cause, culprits, the incident's begin and end, and the columns in `also`. No rebalance is in two incidents."""
    return (
        "(SELECT i.cluster_id, unnest(i.rebalance_ids) AS rebalance_id, "
        f"CASE WHEN i.kind = 'reassignment' THEN '{REASSIGNED}' ELSE i.root_cause END AS cause, i.culprits, "
        f"i.first_at_ms, i.last_at_ms{also} FROM {incidents} i WHERE {of})"
    )


def unit_of(rebalances: Iterable[Rebalance]) -> str:
    """The unit of these rebalances' cost: `task`, `partition`, or `resource` where some groups hand out the one and
    some the other."""
    units = {
        "task" if r.protocol_type == "connect" or r.group_type == GroupType.STREAMS else "partition" for r in rebalances
    }
    return units.pop() if len(units) == 1 else "resource"


def is_counted(rebalance: Rebalance) -> bool:
    """IS_COUNTED, for a Rebalance."""
    return rebalance.kind == RebalanceKind.REBALANCE and rebalance.outcome != Outcome.MISSING


def happened_at_ms(rebalance: Rebalance) -> int | None:
    """HAPPENED_AT of a measured rebalance; None where no time is known."""
    for at_ms in (rebalance.assigned_at_ms, rebalance.ended_at_ms, rebalance.joined_at_ms, rebalance.started_at_ms):
        if at_ms is not None:
            return at_ms
    return None


def cost_of(rebalances: Iterable[Rebalance]) -> CostBounds:
    """The sums over those whose cost is known; no upper one if one of them has none."""
    costs: dict[str, list[Range]] = {}
    for r in rebalances:
        if (cost := range_of(r)) is not None:
            costs.setdefault(r.group_id, []).append(cost)
    total = of_groups(costs)
    return CostBounds(None, None, None) if total is None else CostBounds(*total)


def standstill_seconds(rebalances: Iterable[Rebalance]) -> float | None:
    """Resource-seconds that stood still without a rebalance. No rebalance's cost holds them. None if no such standstill
    is known."""
    known = [s.resource_seconds_estimate for r in rebalances for s in r.standstills]
    return math.fsum(known) if known else None
