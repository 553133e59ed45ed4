"""reconstruct: silver.group_event, silver.commit_mark -> silver.rebalance, silver.connect_task.

Rows in:  all evidence of the groups about which anything is new.
Rows out: one per rebalance of those groups, in place of what was there; one per state interval of a Connect task.
Law:      any order of arrival and any cut into batches give the same rows, since a dirty group is folded as a whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance_audit.domain import tables
from rebalance_audit.domain.evidence import event_of_row, group_evidence
from rebalance_audit.domain.model import CommitMark, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.warehouse import arrow_schema
from spark_jobs.group_evidence import Belonging, Clocks, belonging, node_clocks, settings_of
from spark_jobs.grouped import Rows, each_group, struct_of
from spark_jobs.metadata_log import logged_topic_names
from spark_jobs.stage import Batch, Run, next_batch, row_count

NAME = "reconstruct"
INPUTS = ("silver.group_event", "silver.commit_mark", "bronze.source")
OUTPUTS = ("silver.rebalance", "silver.connect_task")
GROUP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string())])
_MARK_COLUMNS = [c.name for c in tables.SILVER_COMMIT_MARK.columns if c.name not in GROUP.names]
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
        _fold(context, batch, dirty, _folder(clocks, names), homes)
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
    marks = "silver.commit_mark"
    for row in warehouse.changed_keys(marks, GROUP.names, since[marks], until[marks]).to_pylist():
        dirty.add((row["cluster_id"], row["group_id"]))
    return dirty | _moved(context, batch, clocks, homes)


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


def _fold(context: Run, batch: Batch, dirty: set[tuple[str, str]], folder: Any, homes: Belonging) -> None:
    keys = pa.Table.from_pylist([{"cluster_id": c, "group_id": g} for c, g in sorted(dirty)], GROUP)
    evidence = _evidence(context, batch, keys, dirty, homes)
    types = {
        "rebalance": struct_of(arrow_schema("silver.rebalance")),
        "task": struct_of(arrow_schema("silver.connect_task")),
    }
    ddl = (
        f"rebalance struct<{_struct_fields(tables.SILVER_REBALANCE)}>, "
        f"task struct<{_struct_fields(tables.SILVER_CONNECT_TASK)}>"
    )
    folded = evidence.mapInArrow(each_group(("cluster_id", "home"), types, folder), ddl)
    folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        for table, column in (("silver.rebalance", "rebalance"), ("silver.connect_task", "task")):
            with context.staged(table, folded.where(f"{column} is not null").select(f"{column}.*")) as files:
                context.gate(table, context.scan(table, files), batch.batch_id)
                context.warehouse.replace(table, files, keys, batch.transaction)
                context.committed(table, table, row_count(files))
    finally:
        folded.unpersist()


def _struct_fields(table: tables.Table) -> str:
    return ",".join(f"{c.name}:{c.type}" for c in table.columns)


def _evidence(context: Run, batch: Batch, keys: pa.Table, dirty: set[tuple[str, str]], homes: Belonging) -> DataFrame:
    """All events and marks of the dirty groups, each with the group it goes `home` to, group by group."""
    spark = context.spark
    files = context.warehouse.files("silver.group_event", batch.until["silver.group_event"])
    events = context.scan("silver.group_event", files)
    columns = [c.name for c in tables.SILVER_GROUP_EVENT.columns]
    wanted = F.broadcast(spark.createDataFrame(keys))
    event = F.struct(*columns).alias("event")
    named = events.join(wanted, ["cluster_id", "group_id"]).select("cluster_id", F.col("group_id").alias("home"), event)
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
        parts.append(by_route.select("cluster_id", "home", event))
    placed = [
        {"cluster_id": c, "ref": ref, "home": group}
        for c, lines in homes.lines.items()
        for ref, groups in lines.items()
        for group in groups
        if (c, group) in dirty
    ]
    if placed:
        homes_of_lines = F.broadcast(spark.createDataFrame(pa.Table.from_pylist(placed)))
        parts.append(events.join(homes_of_lines, ["cluster_id", "ref"]).select("cluster_id", "home", event))
    marks = context.scan(
        "silver.commit_mark", context.warehouse.files("silver.commit_mark", batch.until["silver.commit_mark"])
    )
    mark = F.struct(*_MARK_COLUMNS).alias("mark")
    no_mark = F.lit(None).cast(_spark_struct(tables.SILVER_COMMIT_MARK, _MARK_COLUMNS)).alias("mark")
    no_event = F.lit(None).cast(_spark_struct(tables.SILVER_GROUP_EVENT, columns)).alias("event")
    united = marks.join(wanted, ["cluster_id", "group_id"]).select(
        "cluster_id", F.col("group_id").alias("home"), no_event, mark
    )
    for part in parts:
        united = united.unionByName(part.select("cluster_id", "home", "event", no_mark))
    return united.repartition("cluster_id", "home").sortWithinPartitions("cluster_id", "home")


def _spark_struct(table: tables.Table, columns: list[str]) -> str:
    types = {c.name: c.type for c in table.columns}
    return "struct<" + ",".join(f"{name}:{types[name]}" for name in columns) + ">"


def _folder(clocks: Clocks, names: Names) -> Any:
    def fold(key: tuple[Any, ...], rows: Rows) -> Iterator[tuple[str, dict[str, Any]]]:
        cluster_id, group_id = key
        events = [event_of_row(row["event"]) for row in rows if row["event"] is not None]
        if not events:
            return  # commits alone make no rebalance
        marks = [CommitMark(**row["mark"]) for row in rows if row["mark"] is not None]
        result = reconstruct(
            group_evidence(
                cluster_id,
                group_id,
                events,
                marks,
                clocks.get(cluster_id, {}),
                [(topic_id, topic) for topic_id, topic in names.get(cluster_id, [])],
            )
        )
        for place, rebalance in enumerate(result.rebalances):
            yield "rebalance", to_row(rebalance) | {"place": place}
        for task in result.connect_tasks:
            yield "task", to_row(task)

    return fold
