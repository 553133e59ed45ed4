"""reconstruct: silver.group_event, silver.commit_mark -> silver.rebalance, silver.connect_task,
silver.contradiction.

Rows in:  all evidence of the groups about which anything is new.
Rows out: one per rebalance of those groups, in place of what was there; one per state interval of a Connect task; one
          per piece of evidence that was not believed.
Law:      any order of arrival and any cut into batches give the same rows, since a dirty group is folded as a whole, in
          windows where it is long.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import duckdb
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance_audit.arrow_tables import arrow_schema
from rebalance_audit.domain import tables
from rebalance_audit.domain.evidence import event_of_row, group_evidence
from rebalance_audit.domain.model import CommitMark, GroupEvidence, Rebalance
from rebalance_audit.domain.reconstruct import Contradiction
from rebalance_audit.domain.windows import Piece, reconstruct_in_windows
from spark_jobs.group_evidence import Belonging, Clocks, belonging, node_clocks, settings_of, stretches_of
from spark_jobs.grouped import each_group, struct_of
from spark_jobs.metadata_log import logged_topic_names
from spark_jobs.stage import Batch, Run, next_batch, row_count
from spark_jobs.structs import struct_array

NAME = "reconstruct"
INPUTS = ("silver.group_event", "silver.commit_mark", "bronze.source")
OUTPUTS = ("silver.rebalance", "silver.connect_task", "silver.contradiction")
GROUP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string())])
_MARK_COLUMNS = [c.name for c in tables.SILVER_COMMIT_MARK.columns if c.name not in GROUP.names]
_EVENT_COLUMNS = (
    "cluster_id", "group_id", "ref", "source_kind", "kind", "topic", "partition", "offset", "node", "at_ms",
    "key", "value", "case when source_kind = 'log' then detail end as detail",
)  # fmt: skip
"""What an event is made of again: a record of its bytes, a line of its detail."""
_ROUTE = (
    "case when group_id is not null then null"
    " when source_kind in ('status', 'config') then concat('topic:', topic)"
    " when startswith(kind, 'worker_') then concat('node:', node) end"
)
"""As domain.belonging.routes_of, for the events of which there may be many."""


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, INPUTS, OUTPUTS)
    if batch is None:
        return False
    events, sources = batch.until["silver.group_event"], batch.until["bronze.source"]
    clocks = node_clocks(context.warehouse, events, sources)
    homes = belonging(context.warehouse, events)
    names = _topic_names(context, batch)
    dirty = _dirty(context, batch, clocks, homes) | _newly_named(context, batch, names)
    if dirty:
        _fold(context, batch, dirty, _folder(clocks, names), homes, clocks)
    else:
        empty = GROUP.empty_table()
        for table in OUTPUTS:
            context.warehouse.replace(table, [], empty, batch.transaction)
            context.committed(table, table, 0)
    # After the commits: lost, it only makes some groups dirty once more.
    notes = {"clocks": settings_of(clocks), "topics": _topics(homes), "names": names}
    context.warehouse.remember(NAME, notes)
    return True


Names = dict[str, list[list[str]]]
"""(topic id, topic) by cluster, sorted."""


def _topic_names(context: Run, batch: Batch) -> Names:
    """As any group's commits and the metadata log tell them: records of KIP-848, share and streams groups name topics
    by id alone."""
    marks = context.warehouse.read(
        "silver.commit_mark",
        ["cluster_id", "topic_id", "topic"],
        "topic_id IS NOT NULL",
        version=batch.until["silver.commit_mark"],
    )
    found: Names = {}
    for row in marks.group_by(marks.schema.names).aggregate([]).to_pylist():
        found.setdefault(row["cluster_id"], []).append([row["topic_id"], row["topic"]])
    for cluster_id, topic_id, topic in logged_topic_names(context.warehouse):
        if [topic_id, topic] not in found.setdefault(cluster_id, []):
            found[cluster_id].append([topic_id, topic])
    return {cluster_id: sorted(names) for cluster_id, names in sorted(found.items())}


def _newly_named(context: Run, batch: Batch, names: Names) -> set[tuple[str, str]]:
    """Groups whose records give topics by id, where an id has a name now that it had not before."""
    before = context.warehouse.recall(NAME).get("names", {})
    clusters = [cluster_id for cluster_id, known in names.items() if known != before.get(cluster_id, [])]
    if not clusters:
        return set()
    listed = ", ".join("?" for _ in clusters)
    rows = context.warehouse.read(
        "silver.group_event",
        GROUP.names,
        f"source_kind = 'record' AND kind <> 'GroupMetadata' AND cluster_id IN ({listed})",
        clusters,
        version=batch.until["silver.group_event"],
    )
    return {(row["cluster_id"], row["group_id"]) for row in rows.group_by(GROUP.names).aggregate([]).to_pylist()}


def _topics(homes: Belonging) -> dict[str, dict[str, list[str]]]:
    return {
        cluster_id: {route: sorted(groups) for route, groups in sorted(routes.items()) if route.startswith("topic:")}
        for cluster_id, routes in sorted(homes.routes.items())
    }


def _dirty(context: Run, batch: Batch, clocks: Clocks, homes: Belonging) -> set[tuple[str, str]]:
    """(cluster, group) of every group whose evidence, clocks or Connect topics changed."""
    warehouse = context.warehouse
    events = "silver.group_event"
    since, until = batch.since, batch.until
    dirty: set[tuple[str, str]] = set()
    columns = ["cluster_id", "group_id", "source_kind", "kind", "topic", "node"]
    for row in warehouse.changed_keys(events, columns, since[events], until[events]).to_pylist():
        routes = homes.routes.get(row["cluster_id"], {})
        if row["group_id"] is not None:
            dirty.add((row["cluster_id"], row["group_id"]))
        elif row["source_kind"] in ("status", "config"):
            dirty |= {(row["cluster_id"], group) for group in routes.get(f"topic:{row['topic']}", ())}
        elif row["kind"].startswith("worker_"):
            dirty |= {(row["cluster_id"], group) for group in routes.get(f"node:{row['node']}", ())}
    homeless = "source_kind = 'log' AND group_id IS NULL AND NOT starts_with(kind, 'worker_')"
    for row in warehouse.changed_keys(
        events, ["cluster_id", "ref"], since[events], until[events], homeless
    ).to_pylist():
        groups = homes.lines.get(row["cluster_id"], {}).get(row["ref"], ())
        dirty |= {(row["cluster_id"], group) for group in groups}
    return dirty | _marked(context, batch) | _moved(context, batch, clocks, homes)


def _marked(context: Run, batch: Batch) -> set[tuple[str, str]]:
    """Groups whose commits say something new. A mark behind the group's last record that only grew longer does not:
    of it the fold asks where it begins."""
    marks, warehouse = "silver.commit_mark", context.warehouse
    since, until = batch.since[marks], batch.until[marks]
    place = list(tables.SILVER_COMMIT_MARK.key)
    changed = warehouse.changed_keys(marks, place, since, until)
    told = [*place, "first_at_ms", "topic_id"]
    now = warehouse.read(marks, told, version=until)
    try:
        before = warehouse.read(marks, told, version=since) if since >= 0 else now.slice(0, 0)
    except duckdb.IOException:  # cleaned up meanwhile
        before = now.slice(0, 0)
    records = warehouse.read(
        "silver.group_event",
        [*GROUP.names, "offset"],
        "source_kind = 'record' AND group_id IS NOT NULL",
        version=batch.until["silver.group_event"],
    )
    keys = ", ".join(place)
    with duckdb.connect() as db:
        for name, data in (("changed", changed), ("now", now), ("known", before), ("record", records)):
            db.register(name, data)
        rows = db.execute(
            f"""
            SELECT DISTINCT cluster_id, group_id FROM changed LEFT JOIN (
                SELECT {keys} FROM (FROM now INTERSECT FROM known) LEFT JOIN (
                    SELECT cluster_id, group_id, max("offset") last_record FROM record GROUP BY ALL
                ) USING (cluster_id, group_id)
                WHERE first_offset > coalesce(last_record, -1)
            ) same USING ({keys}) WHERE same.first_offset IS NULL
            """
        ).fetchall()
    return set(rows)


def _moved(context: Run, batch: Batch, clocks: Clocks, homes: Belonging) -> set[tuple[str, str]]:
    """Groups that a changed clock or a Connect topic's new home touches, although they have no new evidence."""
    before = context.warehouse.recall(NAME)
    found: set[tuple[str, str]] = set()
    if not before and batch.since["silver.group_event"] >= 0:  # the note was lost: fold everything again
        rows = context.warehouse.changed_keys("silver.group_event", GROUP.names, None, where="group_id IS NOT NULL")
        return {(row["cluster_id"], row["group_id"]) for row in rows.to_pylist()}
    topics_before: dict[str, Any] = before.get("topics", {})
    for cluster_id, routes in (_topics(homes) | {c: {} for c in topics_before if c not in homes.routes}).items():
        known = topics_before.get(cluster_id, {})
        for route in {*routes, *known}:
            if routes.get(route, []) != known.get(route, []):
                found |= {(cluster_id, group) for group in {*routes.get(route, []), *known.get(route, [])}}
    clocks_before: dict[str, Any] = before.get("clocks", {})
    for cluster_id, by_node in settings_of(clocks).items():
        nodes = [n for n, told in by_node.items() if clocks_before.get(cluster_id, {}).get(n, told) != told]
        if not nodes:
            continue
        listed = ", ".join("?" for _ in nodes)
        rows = context.warehouse.read(
            "silver.group_event", ["group_id", "ref"], f"cluster_id = ? AND node IN ({listed})", [cluster_id, *nodes],
            version=batch.until["silver.group_event"],
        )  # fmt: skip
        homes_of = homes.routes.get(cluster_id, {})
        found |= {(cluster_id, group) for node in nodes for group in homes_of.get(f"node:{node}", ())}
        for row in rows.to_pylist():
            if row["group_id"] is not None:
                found.add((cluster_id, row["group_id"]))
            found |= {(cluster_id, g) for g in homes.lines.get(cluster_id, {}).get(row["ref"], ())}
    return found


def _fold(
    context: Run, batch: Batch, dirty: set[tuple[str, str]], folder: Any, homes: Belonging, clocks: Clocks
) -> None:
    keys = pa.Table.from_pylist([{"cluster_id": c, "group_id": g} for c, g in sorted(dirty)], GROUP)
    evidence = _evidence(context, batch, keys, dirty, homes, clocks)
    types = {column: struct_of(arrow_schema(table)) for column, table in _TABLES.items()}
    ddl = ", ".join(f"{column} struct<{_struct_fields(tables.BY_NAME[table])}>" for column, table in _TABLES.items())
    folded = evidence.mapInArrow(
        each_group(("cluster_id", "home"), types, folder, makers=MAKERS, is_streamed=True), ddl
    )
    folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for column, table in _TABLES.items():
            with context.staged(table, folded.where(f"{column} is not null").select(f"{column}.*")) as files:
                context.gate(table, context.scan(table, files), batch.batch_id)
                context.warehouse.replace(table, files, keys, batch.transaction)
                context.committed(table, table, row_count(files))
    finally:
        folded.unpersist()


def _struct_fields(table: tables.Table) -> str:
    return ",".join(f"{c.name}:{c.type}" for c in table.columns)


def _evidence(
    context: Run, batch: Batch, keys: pa.Table, dirty: set[tuple[str, str]], homes: Belonging, clocks: Clocks
) -> DataFrame:
    """All events and marks of the dirty groups, each with the group it goes `home` to, group by group, by instant."""
    spark = context.spark
    files = context.warehouse.files("silver.group_event", batch.until["silver.group_event"])
    events = _with_instants(context, context.scan("silver.group_event", files), clocks)
    wanted = F.broadcast(spark.createDataFrame(keys))
    event = F.expr(f"struct({', '.join(_EVENT_COLUMNS)})").alias("event")
    named = events.join(wanted, ["cluster_id", "group_id"]).select(
        "cluster_id", F.col("group_id").alias("home"), "instant", event
    )
    parts = [named]
    routed = [
        {"cluster_id": c, "route": route, "home": group}
        for c, routes in homes.routes.items()
        for route, groups in routes.items()
        if route.startswith(("topic:", "node:"))
        for group in groups
        if (c, group) in dirty
    ]
    if routed:
        homes_of_routes = F.broadcast(spark.createDataFrame(pa.Table.from_pylist(routed)))
        by_route = events.withColumn("route", F.expr(_ROUTE)).join(homes_of_routes, ["cluster_id", "route"])
        parts.append(by_route.select("cluster_id", "home", "instant", event))
    placed = [
        {"cluster_id": c, "ref": ref, "home": group}
        for c, lines in homes.lines.items()
        for ref, groups in lines.items()
        for group in groups
        if (c, group) in dirty
    ]
    if placed:
        homes_of_lines = F.broadcast(spark.createDataFrame(pa.Table.from_pylist(placed)))
        parts.append(events.join(homes_of_lines, ["cluster_id", "ref"]).select("cluster_id", "home", "instant", event))
    marks = context.scan(
        "silver.commit_mark", context.warehouse.files("silver.commit_mark", batch.until["silver.commit_mark"])
    )
    mark = F.struct(*_MARK_COLUMNS).alias("mark")
    no_mark = F.lit(None).cast(_spark_struct(tables.SILVER_COMMIT_MARK, _MARK_COLUMNS)).alias("mark")
    no_event = F.lit(None).cast(named.schema["event"].dataType).alias("event")
    united = marks.join(wanted, ["cluster_id", "group_id"]).select(
        "cluster_id", F.col("group_id").alias("home"), F.col("first_at_ms").alias("instant"), no_event, mark
    )
    for part in parts:
        united = united.unionByName(part.select("cluster_id", "home", "instant", "event", no_mark))
    return united.repartition("cluster_id", "home").sortWithinPartitions("cluster_id", "home", "instant")


def _with_instants(context: Run, events: DataFrame, clocks: Clocks) -> DataFrame:
    """Records have their time; that of a line is local, and its node's clock tells the instant."""
    stretches = stretches_of(clocks)
    if not stretches.num_rows:
        return events.withColumn("instant", F.col("at_ms"))
    known = F.broadcast(context.spark.createDataFrame(stretches)).alias("clock")
    same = "clock.cluster_id = e.cluster_id and clock.node = e.node and at_ms >= from_local_ms and at_ms < to_local_ms"
    instant = "coalesce(unix_millis(to_utc_timestamp(timestamp_millis(at_ms), region)), at_ms - utc_offset_ms, at_ms)"
    return events.alias("e").join(known, F.expr(same), "left").select("e.*", F.expr(instant).alias("instant"))


def _rebalances(placed: list[tuple[int, Rebalance]], type_: pa.StructType) -> pa.Array:
    return struct_array([rebalance for _, rebalance in placed], type_, place=[place for place, _ in placed])


def _contradictions(told: list[tuple[str, str, Contradiction]], type_: pa.StructType) -> pa.Array:
    return struct_array(
        [contradiction for *_, contradiction in told],
        type_,
        cluster_id=[cluster_id for cluster_id, *_ in told],
        group_id=[group_id for _, group_id, _ in told],
        ref=[contradiction.evidence[-1] for *_, contradiction in told],
    )


_TABLES = {"rebalance": "silver.rebalance", "task": "silver.connect_task", "contradiction": "silver.contradiction"}
MAKERS = {"rebalance": _rebalances, "task": struct_array, "contradiction": _contradictions}


def _spark_struct(table: tables.Table, columns: list[str]) -> str:
    types = {c.name: c.type for c in table.columns}
    return "struct<" + ",".join(f"{name}:{types[name]}" for name in columns) + ">"


def _folder(clocks: Clocks, names: Names) -> Any:
    def fold(key: tuple[Any, ...], rows: Iterator[dict[str, Any]]) -> Iterator[tuple[str, Any]]:
        cluster_id, group_id = key

        def gather(pieces: Sequence[Piece]) -> GroupEvidence:
            return group_evidence(
                cluster_id,
                group_id,
                [piece for piece in pieces if not isinstance(piece, CommitMark)],
                [piece for piece in pieces if isinstance(piece, CommitMark)],
                clocks.get(cluster_id, {}),
                [(topic_id, topic) for topic_id, topic in names.get(cluster_id, [])],
            )

        place = count()
        for part in reconstruct_in_windows(map(_piece, rows), gather):
            for rebalance in part.rebalances:
                yield "rebalance", (next(place), rebalance)
            for task in part.connect_tasks:
                yield "task", task
            for contradiction in {c.evidence[-1]: c for c in part.contradictions}.values():
                yield "contradiction", (cluster_id, group_id, contradiction)

    return fold


def _piece(row: dict[str, Any]) -> tuple[int, Piece]:
    return row["instant"], CommitMark(**row["mark"]) if row["event"] is None else event_of_row(row["event"])
