"""What a period cost: sums over rebalances, with the likely range of several groups together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rebalance_audit.domain import numbers
from rebalance_audit.domain.ranges import Range, Reach, among_groups, of_sums
from rebalance_audit.reports.asked import Asked
from rebalance_audit.reports.period import Cost

COST = f"{numbers.COST_LOWER} AS lower, {numbers.COST} AS estimate, {numbers.COST_UPPER} AS upper"
REACH = f"{numbers.COST_REACH} AS reach"
"""SQL sums over one group: see `_of_group`."""


def by_unit(asked: Asked) -> dict[str, Cost]:
    of_groups = by_group(asked)
    rows = asked.rows(
        f"SELECT {numbers.UNIT} AS unit, {COST} FROM gold.rebalance WHERE {{rebalances}} "
        "AND resource_seconds_estimate IS NOT NULL GROUP BY 1 ORDER BY 1"
    )
    return {row["unit"]: with_likely(cost_of(row), [g for g in of_groups if g["unit"] == row["unit"]]) for row in rows}


def by_group(asked: Asked) -> list[dict[str, Any]]:
    """What each group lost to each cause."""
    return asked.rows(
        f"SELECT cluster_id, group_id, {numbers.UNIT} AS unit, {numbers.CAUSE} AS trigger, {COST}, {REACH} "
        f"FROM gold.rebalance r LEFT JOIN {numbers.booked()} b USING (cluster_id, rebalance_id) WHERE {{rebalances}} "
        "AND resource_seconds_estimate IS NOT NULL GROUP BY ALL ORDER BY ALL"
    )


def with_likely(cost: Cost, of_groups: Sequence[Mapping[str, Any]]) -> Cost:
    """The likely range of several groups together."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in of_groups:
        if None in row["reach"]:
            return cost
        groups.setdefault((row["cluster_id"], row["group_id"]), []).append(row)
    total = among_groups([_of_group(rows) for rows in groups.values()])
    if total is None:
        return cost
    return replace(cost, likely_lower=total.likely_lower, likely_upper=total.likely_upper)


def _of_group(rows: Sequence[Mapping[str, Any]]) -> Range:
    """One group's, of parts of its rebalances."""
    uppers = [row["upper"] for row in rows]
    return of_sums(
        sum(row["estimate"] for row in rows),
        sum(row["lower"] or 0 for row in rows),
        None if None in uppers else sum(uppers),
        [Reach(*row["reach"]) for row in rows],
    )


def cost_of(row: Mapping[str, Any]) -> Cost:
    return Cost(
        lower=row["lower"],
        estimate=row["estimate"],
        upper=row["upper"],
        likely_lower=row.get("likely_lower"),
        likely_upper=row.get("likely_upper"),
    )
