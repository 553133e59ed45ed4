"""gold.whatif: what other settings would have saved the groups of a fleet that stood still the longest.

Not a stage: it runs now and then, at night for instance, since replaying takes long. It takes the groups with the
highest cost first, as many as the time allows, and counts those that it did not reach.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby
from operator import attrgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.domain import tables
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.replay.fleet import LATEST_REBALANCES, SECONDS_PER_REBALANCE, advice_of, advice_row
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.queries import database
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import ArrowTask
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_rows import GROUP, of_keys
from spark_jobs.stages.stage import Run
from spark_jobs.structs import things_in
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table

REBALANCES, OUTPUT = "silver.measured_rebalance", "gold.whatif"
DEFAULT_SECONDS = 240.0
DAY_MS = 86_400_000
_TASKS_PER_CORE = 4
_WORK = pa.schema([*GROUP, ("task", pa.int32())])
_COLUMNS = [c.name for c in tables.SILVER_MEASURED.columns]


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
    task_count = engine.tasks_at_once * _TASKS_PER_CORE
    work = pa.Table.from_pylist(
        # Neighbours in cost go to different tasks, so that all take about as long.
        [
            {"cluster_id": r["cluster_id"], "group_id": r["group_id"], "task": n % task_count}
            for n, r in enumerate(chosen)
        ],
        _WORK,
    )
    with context.staging_folder() as folder:
        asked = engine.share((files, seen_until_ms(warehouse), folder))
        written = files_by_table(engine.spread(work.sort_by("task"), _advising(asked), WRITTEN)) if chosen else {}
        old = warehouse.read(OUTPUT, GROUP.names)
        keys = pa.concat_tables([old, work.select(GROUP.names)]).group_by(GROUP.names).aggregate([])
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


def _advising(asked: Callable[[], tuple[list[str], dict[str, int], str]]) -> ArrowTask:
    def run(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        files, seen, folder = asked()
        writer = TaskWriter(folder)
        wanted = pa.Table.from_batches(list(work), _WORK)
        for task in sorted(set(wanted["task"].to_pylist())):
            of_task = wanted.filter(pc.equal(wanted["task"], task)).select(GROUP.names)
            with without_cycle_search():  # A fifth of the time: replays make many small objects, and leave no cycle.
                rows = [
                    advice_row(advice)
                    for history in _histories(files, of_task)
                    for advice in advice_of(history, seen.get(history[0].cluster_id, 0))
                ]
            for batch in rows_to_table(OUTPUT, rows).to_batches():
                writer.add(OUTPUT, batch)
        yield from writer.written()

    return run


def _histories(files: list[str], groups: pa.Table) -> Iterator[list[Rebalance]]:
    """Each group's latest rebalances, and the one before them, in their order."""
    listed = ", ".join(f'"{name}"' for name in _COLUMNS)
    with database() as db:
        source = of_keys(db, files, groups, None)
        found = db.execute(
            f"""
            SELECT {listed} FROM {source}
            QUALIFY row_number() OVER (PARTITION BY cluster_id, group_id ORDER BY place DESC) <= {LATEST_REBALANCES + 1}
            ORDER BY cluster_id, group_id, place
            """
        ).to_arrow_table()
    rebalances = things_in(Rebalance, found)
    for _, of_group in groupby(rebalances, key=attrgetter("cluster_id", "group_id")):
        yield list(of_group)
