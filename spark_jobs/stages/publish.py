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
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables
from rebalance_audit.warehouse import comparing
from rebalance_audit.warehouse.arrow_tables import arrow_schema, distinct, rows_to_table
from rebalance_audit.warehouse.comparing import differing_rows
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.rows_in_files import columns_in
from rebalance_audit.warehouse.storage import relation
from spark_jobs.copied_rows import rows_or_files, written_in
from spark_jobs.coverage import ledger
from spark_jobs.engine import ArrowTask, Engine
from spark_jobs.flat_rows import FLAT, TeamOfGroup, flat_rows
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_overviews import group_files, groups_in, moving_groups
from spark_jobs.group_rows import (
    GroupReader,
    changed_rebalances,
    places_table,
    relation_of_keys,
    rows_of_few_keys,
    rows_with,
)
from spark_jobs.incidents.tables import incident_tables
from spark_jobs.leader_moves import leader_move_rows
from spark_jobs.loud import Left, as_noted, leave, left_before, loud_ids
from spark_jobs.plan import PUBLISH
from spark_jobs.stages.stage import Batch, Run, added_files, row_count
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table

NAME, INPUTS = PUBLISH.name, PUBLISH.reads
REBALANCES, TASKS, FINDINGS = "silver.measured_rebalance", "silver.connect_task", "silver.finding"
REASSIGNMENTS = {
    "reassignment": ["cluster_id", "reassignment_id"],
    "reassignment_step": ["cluster_id", "reassignment_id"],
    "leader_election": ["cluster_id", "topic"],
}
GROUP = ["cluster_id", "group_id"]
_GROUP = pa.schema([(column, pa.string()) for column in GROUP])
_ROWS_AT_ONCE = 10_000
_FEW_ROWS = 2_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows a gold table should hold: `rows`, of the keys in `scope` (None: all there are; empty: no news)."""

    rows: pa.Table | list[str]
    """In memory, or the files that hold them."""
    key: list[str]
    scope: pa.Table | None


def run(context: Run) -> bool:
    warehouse = context.warehouse
    consumed = {name: _version(warehouse.version(name)) for name in INPUTS}
    seen = {} if context.again else dict(warehouse.publication().get("consumed", {}))
    before = dict.fromkeys(INPUTS, -1) | seen
    noted = warehouse.recall(NAME)
    left = left_before(warehouse, noted, warehouse.files(REBALANCES))
    context.has_left |= context.may_wait and bool(left)
    if consumed == before and (context.may_wait or not left):
        return False
    batch = Batch(stage=NAME, since=before, until=consumed)
    batch_id = f"{NAME}:" + ",".join(f"{name.partition('.')[2]}@{consumed[name]}" for name in sorted(consumed))
    with context.staging_folder() as folder:
        wanted, still_left = _wanted(context, batch, left, folder)
        for table, want in wanted.items():
            if want.scope is None or want.scope.num_rows:
                _publish(context, table, want, batch_id)
    if still_left != left and still_left:  # before the publication, which takes the news of these groups as worked on
        warehouse.remember(NAME, {**noted, "left": as_noted(left | still_left)})
    # What others published beside this stage, such as gold.whatif, stays.
    versions = warehouse.published()
    versions |= {name: v for name in PUBLISH.writes if (v := warehouse.version(name)) is not None}
    warehouse.publish(versions, consumed)
    # After the publication: if it is lost, some groups are only published once more.
    warehouse.remember(NAME, {"seen_until_ms": seen_until_ms(warehouse), "left": as_noted(still_left)})
    context.reached("published")
    return True


def _version(version: int | None) -> int:
    return -1 if version is None else version


def _wanted(context: Run, batch: Batch, left: Left, folder: str) -> tuple[dict[str, Wanted], Left]:
    """By table; and the loud groups whose state and incidents are left to a later run. `left`: by an earlier one."""
    warehouse, before, consumed = context.warehouse, batch.since, batch.until

    def changed(name: str) -> pa.Table:
        return warehouse.changed_keys(name, GROUP, before[name], consumed[name])

    scope, task_scope, finding_scope = changed(REBALANCES), changed(TASKS), changed(FINDINGS)
    changed_groups = groups_in(scope, places_table(left))
    group_scope = groups_in(changed_groups, finding_scope, *moving_groups(context, batch))
    loud = loud_ids(warehouse.files(REBALANCES, consumed[REBALANCES])) if context.may_wait else frozenset[str]()
    loud -= {group_id for _, group_id in context.judged_loud}
    still_left: Left = {}
    if loud:
        places = set(zip(*(group_scope[name].to_pylist() for name in GROUP), strict=True))
        for place in places:
            if place[1] in loud:
                leave(context, still_left, place)
        group_scope = places_table(places - still_left.keys())
    engine = context.engine_for(added_files(context, REBALANCES, batch))
    columns = [c.name for c in tables.SILVER_MEASURED.columns]
    reader = changed_rebalances(warehouse, REBALANCES, columns, batch)
    if reader is None:
        files = {REBALANCES: warehouse.files(REBALANCES, consumed[REBALANCES])}
        reader = GroupReader(files=files, columns={REBALANCES: columns}, groups=scope)
    flat = _flat(context, engine, reader, folder)
    groups = group_files(context, engine, batch, group_scope, changed_groups, folder)
    leader_moves = leader_move_rows(warehouse, consumed)
    incidents = incident_tables(
        warehouse, consumed, leader_moves, reader.groups, context.limits,
        engine=engine, folder=folder, since_versions=before,
        seen_before_ms=warehouse.recall(NAME).get("seen_until_ms", {}), left=left, loud=loud, again=context.again,
    )  # fmt: skip
    for place, at_ms in incidents.left.items():
        leave(context, still_left, place, at_ms)
    wanted = {
        **{table: Wanted(flat.get(table, []), GROUP, reader.groups) for table in FLAT},
        "gold.connect_task": Wanted(
            rows_or_files(context, engine, TASKS, consumed[TASKS], task_scope, folder), GROUP, task_scope
        ),
        "gold.finding": Wanted(
            _findings(context, engine, consumed[FINDINGS], finding_scope, folder), GROUP, finding_scope
        ),
        "gold.group": Wanted(groups, GROUP, group_scope),
        "gold.leader_move": Wanted(leader_moves, ["cluster_id", "group_id"], None),
        "gold.incident": Wanted(incidents.incidents, ["cluster_id", "incident_id"], incidents.incident_scope),
        "gold.mark": Wanted(incidents.marks, ["cluster_id", "mark_id"], incidents.mark_scope),
        "gold.coverage": Wanted(_coverage(context, consumed), ["cluster_id", "source"], None),
        **{
            f"gold.{noun}": Wanted(
                warehouse.read(f"silver.{noun}", version=consumed[f"silver.{noun}"]), key, None
            )
            for noun, key in REASSIGNMENTS.items()
            if consumed[f"silver.{noun}"] != before[f"silver.{noun}"]
        },
    }  # fmt: skip
    return wanted, still_left


def _findings(context: Run, engine: Engine, version: int, scope: pa.Table, folder: str) -> pa.Table | list[str]:
    """Findings of these groups, and of the evidence itself, which is no group's."""
    is_group = pc.is_valid(scope["group_id"])
    of_groups_ = rows_or_files(context, engine, FINDINGS, version, scope.filter(is_group), folder)
    clusters = pc.unique(scope.filter(pc.invert(is_group))["cluster_id"]).to_pylist()
    columns = [c.name for c in tables.BY_NAME["gold.finding"].columns]
    of_none = rows_with(context.warehouse, FINDINGS, columns, {"group_id": [None], "cluster_id": clusters}, version)
    if isinstance(of_groups_, pa.Table):
        return pa.concat_tables([of_groups_, of_none])
    return [*of_groups_, *written_in("gold.finding", of_none.to_batches(), folder)]


# ---- rebalances, their members and their movements


def _flat(context: Run, engine: Engine, reader: GroupReader, folder: str) -> dict[str, list[str]]:
    """The files of each table in FLAT, made from these rebalances."""
    if reader.groups.num_rows == 0:
        return {}
    flattening = _flattening(folder, engine.share(reader), context.settings.get("team"))
    written = files_by_table(engine.spread(reader.work(), flattening, WRITTEN))
    if rebalances := written.get("gold.rebalance"):
        written["gold.rebalance"] = _with_revision(context, rebalances, reader.groups, folder)
    return written


def _flattening(folder: str, shared: Callable[[], GroupReader], team: TeamOfGroup) -> ArrowTask:
    def flatten(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        reader = shared()
        for named in (row for some in work for row in some.to_pylist()):
            for batch in reader.batches(named):
                for table, rows in flat_rows(batch, team):
                    writer.add(table, rows)
        yield from writer.written()

    return flatten


def _with_revision(context: Run, files: list[str], scope: pa.Table, folder: str) -> list[str]:
    """The revision: 1 for a row that readers never saw; else the revision that they saw, plus one if the row differs
    now."""
    version = context.warehouse.published().get("gold.rebalance", -1)
    seen = context.warehouse.files("gold.rebalance", version)
    if not seen:
        return files
    columns = [c.name for c in tables.GOLD_REBALANCE.columns]
    content = [c for c in columns if c != "revision"]
    if row_count(files) <= _FEW_ROWS:
        was = rows_of_few_keys(seen, scope, arrow_schema("gold.rebalance"))
        if was is not None and (rows := _few_with_revision(files, was, content)) is not None:
            return written_in("gold.rebalance", rows.to_batches(), folder)
    is_same = " AND ".join(f'new."{c}" IS NOT DISTINCT FROM was."{c}"' for c in content)
    revision = f"CASE WHEN was.revision IS NULL THEN 1 ELSE was.revision + (({is_same}) IS NOT true)::INTEGER END"
    listed = ", ".join(f"{revision}::INTEGER revision" if c == "revision" else f'new."{c}"' for c in columns)
    schema = arrow_schema("gold.rebalance")
    with cursor() as db:
        stored = relation_of_keys(db, seen, scope, schema)
        found = db.execute(
            f"SELECT {listed} FROM {relation(files)} new LEFT JOIN {stored} was USING (cluster_id, rebalance_id)"
        )
        batches = (batch.cast(schema) for batch in found.to_arrow_reader(_ROWS_AT_ONCE))
        return written_in("gold.rebalance", batches, folder)


def _few_with_revision(files: Sequence[str], was: pa.Table, content: Sequence[str]) -> pa.Table | None:
    """The same of few rows, compared in Arrow; None where a key occurs twice."""
    rows = pa.concat_tables(columns_in(file, was.schema) for file in files)
    key = tables.GOLD_REBALANCE.key
    found = differing_rows(was.select(content), rows.select(content), key)
    if found is None:
        return None
    is_other = {*found[1].tolist()}
    revisions = dict(zip(_keys(was, key), was["revision"].to_pylist(), strict=True))
    numbers = [
        revisions[of_row] + (at in is_other) if of_row in revisions else 1 for at, of_row in enumerate(_keys(rows, key))
    ]
    at = rows.schema.get_field_index("revision")
    return rows.set_column(at, rows.schema.field(at), pa.array(numbers, pa.int32()))


def _keys(rows: pa.Table, key: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in key), strict=True)


# ---- the rest


def _coverage(context: Run, consumed: Mapping[str, int]) -> pa.Table:
    rows = ledger(context.warehouse, consumed["bronze.source"], consumed["silver.group_event"])
    return rows_to_table("gold.coverage", rows)


def _publish(context: Run, table: str, want: Wanted, batch_id: str) -> None:
    columns = [c.name for c in tables.BY_NAME[table].columns]
    if want.scope is None and (few := _few_changed(context, table, want, columns)) is not None:
        keys, rows = few
        if keys.num_rows:
            with context.staged(table, rows) as files:
                context.replace(table, files, keys, batch_id)
        return
    with ExitStack() as until_committed:
        if isinstance(want.rows, pa.Table):
            files = until_committed.enter_context(context.staged(table, want.rows))
        else:
            files = want.rows
        if want.scope is not None:  # rows that are the same stay where they are
            context.replace(table, files, want.scope, batch_id)
            return
        with cursor() as db:
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
                    files = until_committed.enter_context(context.staged(table, rows.select(columns)))
        context.replace(table, files, keys, batch_id)


def _few_changed(context: Run, table: str, want: Wanted, columns: list[str]) -> tuple[pa.Table, pa.Table] | None:
    """The keys whose stored rows differ from those that should be there, and the latter; None where rows are many, or a
    row's own key occurs twice."""
    stored = context.warehouse.files(table)
    if not isinstance(want.rows, pa.Table) or max(want.rows.num_rows, row_count(stored)) > _FEW_ROWS:
        return None
    was, now = context.warehouse.read(table, columns), want.rows.select(columns)
    found = differing_rows(was, now, tables.BY_NAME[table].key)
    if found is None:
        return None
    differing = [rows.select(want.key).take(pa.array(at)) for rows, at in zip((was, now), found, strict=True)]
    keys = distinct(pa.concat_tables(differing), want.key)
    return keys, now.take(pa.array(comparing.of_keys(now, keys, None)))


def _differing(
    db: duckdb.DuckDBPyConnection, files: Sequence[str], stored: Sequence[str], want: Wanted, columns: list[str]
) -> pa.Table:
    """The keys whose stored rows differ from the rows that should be there."""
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
