"""gold.whatif: what other settings would have saved the groups of a fleet that stood still the longest.

Not a stage: it runs now and then, at night for instance, since replaying takes long. It takes the groups with the
highest cost first, as many as the time allows, and counts those that it did not reach.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa

from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.replay.fleet import (
    ASKED_OF_LISTED,
    ASKED_OF_REBALANCES,
    COSTLIEST,
    FLEET_RUNS,
    LATEST_REBALANCES,
    SECONDS_PER_REBALANCE,
    advice_of,
    advice_row,
)
from rebalance_audit.domain.replay.situation import RUNS_BY_NAME
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_rows import GROUP, GroupReader, Place, places_table
from spark_jobs.histories import GroupFold, ObjectsByTable, histories
from spark_jobs.stages.stage import Run

REBALANCES, OUTPUT = "silver.measured_rebalance", "gold.whatif"
DEFAULT_SECONDS = 300.0
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetWeighed:
    """The share of the fleet's cost that the answers cover; costs are estimates in resource-seconds."""

    groups: int
    groups_with_cost: int
    cost_seconds: float
    cost_of_all_seconds: float


def advise(context: Run, *, seconds: float = DEFAULT_SECONDS, days: int = 30) -> FleetWeighed:
    """Replace gold.whatif by the answers for the groups that cost most in the last days. The caller holds the lease.

    `seconds`: of CPU time on each core, about. The same warehouse gives the same rows.
    """
    warehouse = context.warehouse
    costly = _costliest(warehouse, days)
    version = warehouse.version(REBALANCES)
    files = [] if version is None else warehouse.files(REBALANCES, version)
    engine = context.engine_for(files)
    spent = accumulate(SECONDS_PER_REBALANCE * min(row["rebalances"], LATEST_REBALANCES) for row in costly)
    count = sum(1 for total in spent if total <= seconds * engine.tasks_at_once) if files else 0
    chosen = costly[: max(count, 1 if costly and files else 0)]
    groups = places_table((row["cluster_id"], row["group_id"]) for row in chosen)
    with context.staging_folder() as folder:
        costliest = frozenset((row["cluster_id"], row["group_id"]) for row in chosen[:COSTLIEST])
        fold = _advisor(seen_until_ms(warehouse), costliest)
        # The latest ones, and the one before them.
        latest = {REBALANCES: LATEST_REBALANCES + 1}
        kinds = {REBALANCES: Rebalance}
        written = histories(engine, _reader(files, groups), kinds, fold, folder, latest) if chosen else {}
        old = warehouse.read(OUTPUT, GROUP.names)
        keys = pa.concat_tables([old, groups]).group_by(GROUP.names).aggregate([])
        context.replace(OUTPUT, written.get(OUTPUT, []), keys, f"advise:{version}")
    if (now := warehouse.version(OUTPUT)) is not None:
        manifest = warehouse.publication()
        warehouse.publish({**manifest["versions"], OUTPUT: now}, manifest.get("consumed"))
    return FleetWeighed(
        groups=len(chosen),
        groups_with_cost=len(costly),
        cost_seconds=sum(row["cost_seconds"] for row in chosen),
        cost_of_all_seconds=sum(row["cost_seconds"] for row in costly),
    )


def _costliest(warehouse: Warehouse, days: int) -> list[dict[str, Any]]:
    """Groups with their cost and their rebalances, the highest cost first; groups of equal cost by name."""
    sql = f"""
        SELECT cluster_id, group_id, sum(resource_seconds_estimate) AS cost_seconds, count(*) AS rebalances
        FROM gold.rebalance
        WHERE ended_at_ms >= (SELECT max(ended_at_ms) FROM gold.rebalance) - {days * DAY_MS}
        GROUP BY ALL HAVING cost_seconds > 0 ORDER BY cost_seconds DESC, cluster_id, group_id
    """
    rows: list[dict[str, Any]] = warehouse.query(sql).to_pylist()
    return rows


def _reader(files: list[str], groups: pa.Table) -> GroupReader:
    return GroupReader(
        files={REBALANCES: files},
        columns={REBALANCES: [*ASKED_OF_REBALANCES, *ASKED_OF_LISTED, "place"]},
        groups=groups,
        fields=ASKED_OF_LISTED,
    )


def _advisor(seen: dict[str, int], costliest: Collection[Place]) -> GroupFold:
    def advise_group(place: Place, known: ObjectsByTable) -> Iterator[tuple[str, dict[str, Any]]]:
        with without_cycle_search():  # A fifth of the time: replays make many small objects, and leave no cycle.
            run_count = RUNS_BY_NAME if place in costliest else FLEET_RUNS
            found = advice_of(known[REBALANCES], seen.get(place[0], 0), run_count)
        for advice in found:
            yield OUTPUT, advice_row(advice)

    return advise_group
