"""Loud groups: of such long history that rules and incidents, which look at all of a trouble, take seconds for them.

A run that may wait (`Run.may_wait`) judges the others and leaves loud ones, until much is left of one, to a run that
may not. Their rows of rebalances, members and movements do not wait (decisions 0068, 0117).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rebalance_audit.domain.incidents.around import NOTHING_NEW
from rebalance_audit.warehouse.row_groups import held_in
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import GROUP, Place
from spark_jobs.stages.stage import Run

REBALANCES = "silver.measured_rebalance"

LOUD_ROWS = 2_000
"""From so many rebalances on a group is loud: rules and incidents take half a second for them."""

LEFT_AT_MOST = 8_192
"""A run that may wait judges a loud group if so many of its rebalances, two eras, are not judged yet: the others wait
while they are, and memory follows them."""

Left = dict[Place, int]
"""Loud groups that a stage left, each with the instant from which on its incidents may differ."""


def loud_ids(files: Sequence[str]) -> frozenset[str]:
    """The ids of loud groups, by the row groups of silver.measured_rebalance that have rows of one group alone."""
    rows: Counter[str] = Counter()
    for file in files:
        for held in held_in(file, "group_id"):
            if not held.may_be_any and held.first is not None and held.first == held.last:
                rows[held.first] += held.row_count
    return frozenset(group_id for group_id, count in rows.items() if count >= LOUD_ROWS)


def left_before(warehouse: Warehouse, noted: Mapping[str, Any], files: Sequence[str]) -> Left:
    """What a stage left, by its own note. If the note is lost, it may have left any loud group."""
    if noted:
        return {(cluster_id, group_id): at_ms for cluster_id, group_id, at_ms in noted.get("left", [])}
    if not (loud := loud_ids(files)):
        return {}
    rows = warehouse.read_files(REBALANCES, files, GROUP.names, "true").group_by(GROUP.names).aggregate([])
    places = zip(*(rows[name].to_pylist() for name in GROUP.names), strict=True)
    return {place: 0 for place in places if place[1] in loud}


def as_noted(left: Left) -> list[list[Any]]:
    return [[*place, at_ms] for place, at_ms in sorted(left.items())]


def leave(context: Run, left: Left, place: Place, at_ms: int = NOTHING_NEW) -> None:
    """Notes that this group is left to a later run."""
    left[place] = min(at_ms, left.get(place, NOTHING_NEW))
    context.has_left = True
