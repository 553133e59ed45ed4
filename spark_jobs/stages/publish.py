"""publish: silver -> gold, for people and alerts.

Rows in:  measured rebalances, task intervals and findings of groups that changed; the ledger; all groups' rates.
Rows out: the same facts as flat tables. A rebalance that vanished is removed with its members and movements.
Law:      publishing twice changes nothing. A group's rows are written again only if their content differs, `revision`
          counts how often what readers saw of a row changed, and readers see all tables of a publication or none.

    silver, group orders                                       gold
    measured_rebalance 7: 2 members, 1 movement           ->   rebalance: 1 row; rebalance_member: 2; movement: 1
    measured_rebalance 8, as it was published             ->   nothing is written: its revision stays
    finding RB007                                         ->   finding: 1 row; group: orders with its open findings
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance_audit.domain import tables
from rebalance_audit.domain.model import Finding, Rebalance, from_row
from rebalance_audit.domain.publish.groups import group_row
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.storage import relation
from spark_jobs.coverage import ledger
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.grouped import Rows, each_group, struct_of
from spark_jobs.incidents import incident_tables
from spark_jobs.leader_moves import leader_move_rows
from spark_jobs.plan import PUBLISH
from spark_jobs.stages.stage import Run, row_count

NAME, INPUTS = PUBLISH.name, PUBLISH.reads
REBALANCES, TASKS, FINDINGS = "silver.measured_rebalance", "silver.connect_task", "silver.finding"
REASSIGNMENTS = {
    "reassignment": ["cluster_id", "reassignment_id"],
    "reassignment_step": ["cluster_id", "reassignment_id"],
    "leader_election": ["cluster_id", "topic"],
}
GROUP = ["cluster_id", "group_id"]
_CHILD_KEYS = ["cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch"]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a gold table should hold: `rows`, of the keys in `scope` (None: all there are; empty: nothing is new)."""

    rows: DataFrame | pa.Table
    key: list[str]
    scope: pa.Table | None


def run(context: Run) -> bool:
    warehouse = context.warehouse
    consumed = {name: _version(warehouse.version(name)) for name in INPUTS}
    before = dict.fromkeys(INPUTS, -1) | dict(warehouse.publication().get("consumed", {}))
    if consumed == before:
        return False
    wanted = _wanted(context, before, consumed)
    batch_id = f"{NAME}:" + ",".join(f"{name.partition('.')[2]}@{consumed[name]}" for name in sorted(consumed))
    for table, want in wanted.items():
        if want.scope is None or want.scope.num_rows:
            _publish(context, table, want, batch_id)
    versions = {name: v for name in PUBLISH.writes if (v := warehouse.version(name)) is not None}
    warehouse.publish(versions, consumed)
    context.reached("published")
    return True


def _version(version: int | None) -> int:
    return -1 if version is None else version


def _wanted(context: Run, before: Mapping[str, int], consumed: Mapping[str, int]) -> dict[str, Wanted]:
    def dirty(name: str) -> tuple[pa.Table, DataFrame]:
        keys = context.warehouse.changed_keys(name, GROUP, before[name], consumed[name])
        return keys, F.broadcast(context.spark.createDataFrame(keys))

    def silver(name: str) -> DataFrame:
        return context.scan(name, context.warehouse.files(name, consumed[name]))

    scope, groups = dirty(REBALANCES)
    measured = silver(REBALANCES).join(groups, GROUP)
    team: Callable[[str, str], str | None] | None = context.settings.get("team")
    if team is not None:
        measured = measured.withColumn("team", F.udf(team, "string")("cluster_id", "group_id"))
    (task_scope, task_groups), (finding_scope, finding_groups) = dirty(TASKS), dirty(FINDINGS)
    group_scope = _moving_groups(context, scope, finding_scope)
    moving = F.broadcast(context.spark.createDataFrame(group_scope))
    leader_moves = leader_move_rows(context.warehouse, consumed)
    told = incident_tables(context.warehouse, consumed, leader_moves, scope, context.settings.get("limits"))
    return {
        "gold.rebalance": Wanted(_with_revision(context, measured, groups), GROUP, scope),
        "gold.rebalance_member": Wanted(_children(measured, "members", tables.GOLD_REBALANCE_MEMBER), GROUP, scope),
        "gold.movement": Wanted(_children(measured, "movements", tables.GOLD_MOVEMENT), GROUP, scope),
        "gold.connect_task": Wanted(silver(TASKS).join(task_groups, GROUP), GROUP, task_scope),
        "gold.finding": Wanted(_null_safe(silver(FINDINGS), finding_groups, GROUP), GROUP, finding_scope),
        "gold.group": Wanted(
            _group_rows(context, silver(REBALANCES).join(moving, GROUP), silver(FINDINGS).join(moving, GROUP), team),
            GROUP,
            group_scope,
        ),
        "gold.leader_move": Wanted(leader_moves, ["cluster_id", "group_id"], None),
        "gold.incident": Wanted(told.incidents, ["cluster_id", "incident_id"], told.incident_scope),
        "gold.mark": Wanted(told.marks, ["cluster_id", "mark_id"], told.mark_scope),
        "gold.coverage": Wanted(_coverage(context, consumed), ["cluster_id", "source"], None),
    } | {
        f"gold.{noun}": Wanted(
            context.warehouse.read(f"silver.{noun}", version=consumed[f"silver.{noun}"]), key, None
        )
        for noun, key in REASSIGNMENTS.items()
        if consumed[f"silver.{noun}"] != before[f"silver.{noun}"]
    }  # fmt: skip


def _moving_groups(context: Run, *changed: pa.Table) -> pa.Table:
    """Groups with new rows, and those that rebalanced of late: their rates change with the end of the evidence."""
    recent = context.warehouse.read("gold.group", GROUP, "rebalance_count_24h > 0")
    keys = pa.concat_tables([recent, *(table.cast(recent.schema) for table in changed)])
    return keys.filter(pc.is_valid(keys["group_id"])).group_by(GROUP).aggregate([])


def _null_safe(rows: DataFrame, keys: DataFrame, columns: list[str]) -> DataFrame:
    """Rows with these keys, where null agrees with null."""
    renamed = keys.select(*(F.col(c).alias(f"key_{c}") for c in columns))
    same = reduce(lambda a, b: a & b, (F.col(c).eqNullSafe(F.col(f"key_{c}")) for c in columns))
    return rows.join(F.broadcast(renamed), same, "left_semi")


def _with_revision(context: Run, measured: DataFrame, groups: DataFrame) -> DataFrame:
    """1 for what readers never saw; what they saw, plus one if it is not the same now."""
    columns = [c.name for c in tables.GOLD_REBALANCE.columns]
    content = [c for c in columns if c != "revision"]
    version = context.warehouse.published().get("gold.rebalance", -1)
    seen = context.scan("gold.rebalance", context.warehouse.files("gold.rebalance", version)).join(groups, GROUP)
    old = seen.select(
        "cluster_id", "rebalance_id", F.col("revision").alias("seen_revision"), F.struct(*content).alias("was")
    )
    is_same = F.struct(*content).eqNullSafe(F.col("was"))
    revision = F.when(F.col("seen_revision").isNull(), 1).otherwise(
        F.col("seen_revision") + F.when(is_same, 0).otherwise(1)
    )
    new = measured.select(*content).join(old, ["cluster_id", "rebalance_id"], "left")
    return new.withColumn("revision", revision.cast("int")).select(*columns)


def _children(measured: DataFrame, column: str, table: tables.Table) -> DataFrame:
    """One row per element of an array of the rebalance, with the rebalance's keys."""
    own = [c.name for c in table.columns if c.name not in _CHILD_KEYS]
    exploded = measured.select(*_CHILD_KEYS, F.explode(column).alias("child"))
    return exploded.select(*_CHILD_KEYS, *(F.col(f"child.{name}").alias(name) for name in own))


def _group_rows(
    context: Run, measured: DataFrame, findings: DataFrame, team: Callable[[str, str], str | None] | None
) -> DataFrame:
    slim = [
        c.name for c in tables.SILVER_MEASURED.columns if c.name not in ("members", "movements", "triggers", "evidence")
    ]
    rebalances = measured.select(*GROUP, F.struct(*slim).alias("rebalance"))
    found = findings.where("group_id is not null").select(
        *GROUP, F.struct(*(c.name for c in tables.SILVER_FINDING.columns)).alias("finding")
    )
    united = rebalances.unionByName(found, allowMissingColumns=True)
    seen = seen_until_ms(context.warehouse)

    def to_group(key: tuple[Any, ...], rows: Rows) -> Iterator[tuple[str, dict[str, Any]]]:
        history = sorted((r["rebalance"] for r in rows if r["rebalance"] is not None), key=lambda r: r["place"])
        if not history:
            return
        told = [from_row(Finding, r["finding"]) for r in rows if r["finding"] is not None]
        known = [from_row(Rebalance, row) for row in history]
        name = team(*key) if team is not None else None
        yield "row", group_row(known, told, seen.get(key[0], 0), name)

    ddl = f"row struct<{','.join(f'{c.name}:{c.type}' for c in tables.GOLD_GROUP.columns)}>"
    types = {"row": struct_of(arrow_schema("gold.group"))}
    ordered = united.repartition(*GROUP).sortWithinPartitions(*GROUP)
    return ordered.mapInArrow(each_group(GROUP, types, to_group), ddl).select("row.*")


def _coverage(context: Run, consumed: Mapping[str, int]) -> pa.Table:
    rows = ledger(context.warehouse, consumed["bronze.source"], consumed["silver.group_event"])
    return rows_to_table("gold.coverage", rows)


def _publish(context: Run, table: str, want: Wanted, batch_id: str) -> None:
    columns = [c.name for c in tables.BY_NAME[table].columns]
    with ExitStack() as until_committed:
        if isinstance(want.rows, pa.Table):
            files = until_committed.enter_context(context.staged_rows(table, want.rows))
        else:
            files = until_committed.enter_context(context.staged(table, want.rows.select(*columns)))
        with duckdb.connect() as db:
            keys = _differing(db, files, context.warehouse.files(table), want, columns)
            if keys.num_rows == 0:
                return
            if files:
                db.register("changed", keys)
                same = " AND ".join(f'r."{k}" IS NOT DISTINCT FROM k."{k}"' for k in want.key)
                changed = f"{relation(files)} r WHERE EXISTS (SELECT 1 FROM changed k WHERE {same})"
                counted = db.execute(f"SELECT count(*) FROM {changed}").fetchone()
                if counted is not None and counted[0] != row_count(files):  # else, as in a first run, all of it is new
                    rows = db.execute(f"SELECT r.* FROM {changed}").to_arrow_table()
                    files = until_committed.enter_context(context.staged_rows(table, rows.select(columns)))
        context.replace(table, files, keys, batch_id)


def _differing(
    db: duckdb.DuckDBPyConnection, files: Sequence[str], stored: Sequence[str], want: Wanted, columns: list[str]
) -> pa.Table:
    """The keys whose rows, as stored, are not the rows that should be there."""
    first, second = (f'"{k}"' for k in want.key)
    row = "{" + ", ".join(f"'{c}': \"{c}\"" for c in columns) + "}"
    summary = f"count(*) n, sum(hash({row})::HUGEINT) s, bit_xor(hash({row})) x"
    nothing = f"(SELECT NULL::VARCHAR {first}, NULL::VARCHAR {second} WHERE false)"

    def summarised(source: Sequence[str], where: str) -> str:
        if not source:
            return f"SELECT *, 0 n, 0::HUGEINT s, 0::UBIGINT x FROM {nothing}"
        return f"SELECT {first}, {second}, {summary} FROM {relation(source)} r WHERE {where} GROUP BY ALL"

    where = "true"
    if want.scope is not None:
        db.register("scope", want.scope)
        same = " AND ".join(f"r.{k} IS NOT DISTINCT FROM k.{k}" for k in (first, second))
        where = f"EXISTS (SELECT 1 FROM scope k WHERE {same})"
    return db.execute(
        f"""
        SELECT {first}::VARCHAR {first}, {second}::VARCHAR {second} FROM (
            SELECT *, 1 side FROM ({summarised(files, "true")})
            UNION ALL SELECT *, -1 FROM ({summarised(stored, where)})
        ) GROUP BY ALL HAVING sum(side * n) <> 0 OR sum(side * s) <> 0 OR bit_xor(x) <> 0 ORDER BY ALL
        """
    ).to_arrow_table()
