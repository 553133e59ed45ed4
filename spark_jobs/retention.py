"""Deletes rows that are older than their layer keeps, once nothing else needs them.

Ages count back from the end of a cluster's evidence, as all of our times do: a cluster of which nothing comes any more
keeps its last days.

    bronze   records below the first one that is young enough, and log lines. Not the metadata log, and not lines about
             partitions: reassignments are read from all of them. `silver.floor` keeps how far each source is deleted:
             what is landed again from below it is not taken in.
    silver   events and marks of a group that lie before a checkpoint, but for the records that the checkpoint names.
             The checkpoint becomes the floor, from which the group is folded whatever news comes.
    gold     what happened and is over, with the rows of silver that it was made from.
"""

from __future__ import annotations

from typing import Any

from rebalance_audit.domain.metadata import METADATA_TOPIC
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.decoding.log_files import TORN_CONTEXT_BYTES
from spark_jobs.floors import FLOORS
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.metadata_log import OF_CONTROLLERS, TORN_HEADS
from spark_jobs.plan import PUBLISH, STAGES
from spark_jobs.settled import CHECKPOINTS

DAY_MS = 86_400_000
_REBALANCE_AT = "coalesce(ended_at_ms, assigned_at_ms, joined_at_ms, started_at_ms, started_lower_ms)"
_GOLD = (
    # silver first: what a crash leaves is published again, and goes the next time
    ("silver.measured_rebalance", f"is_final AND {_REBALANCE_AT} < ?"),
    ("silver.connect_task", "to_ms < ?"),
    ("silver.contradiction", "at_ms < ?"),
    ("silver.finding", "status <> 'open' AND last_seen_at_ms < ?"),
    ("gold.rebalance", f"is_final AND {_REBALANCE_AT} < ?"),
    ("gold.connect_task", "to_ms < ?"),
    ("gold.finding", "status <> 'open' AND last_seen_at_ms < ?"),
    ("gold.incident", "status <> 'open' AND last_at_ms < ?"),
    ("gold.mark", "at_ms < ?"),
)
_CHILDREN = ("gold.rebalance_member", "gold.movement", "gold.standstill")


def why_unsafe(warehouse: Warehouse) -> str | None:
    """Why nothing may be deleted, in one sentence: a stage has not consumed what is in its tables."""
    from spark_jobs.stages.stage import is_due

    waiting = [stage.name for stage in STAGES if stage.reads and stage is not PUBLISH and is_due(warehouse, stage)]
    if not waiting:
        return None
    return (
        f"{warehouse.location}: nothing was deleted by age, since {', '.join(waiting)} has work to do; run "
        f"`rebalance-audit run -w {warehouse.location}` first."
    )


def delete_old(warehouse: Warehouse, *, bronze_ms: int, silver_ms: int, gold_ms: int) -> dict[str, int]:
    """Rows that went, by table. For the one who holds the lease; `why_unsafe` comes first."""
    gone: dict[str, int] = {}
    for cluster_id, end_ms in sorted(seen_until_ms(warehouse).items()):
        for of_layer in (
            _bronze(warehouse, cluster_id, end_ms - bronze_ms),
            _silver(warehouse, cluster_id, end_ms - silver_ms),
            _gold(warehouse, cluster_id, end_ms - gold_ms),
        ):
            for table, count in of_layer.items():
                gone[table] = gone.get(table, 0) + count
    return {table: count for table, count in gone.items() if count}


# ---- bronze


def _bronze(warehouse: Warehouse, cluster_id: str, until_ms: int) -> dict[str, int]:
    records = _record_floors(warehouse, cluster_id, until_ms)
    lines = _line_floors(warehouse, cluster_id, until_ms)
    if not records and not lines:
        return {}
    known = {(row["cluster_id"], row["source"]): row["position"] for row in warehouse.read(FLOORS).to_pylist()}
    found = dict([*records.values(), *lines.values()])
    news = {s: p for s, p in found.items() if p > known.get((cluster_id, s), -1)}
    if news:
        rows = [{"cluster_id": cluster_id, "source": source, "position": p} for source, p in sorted(news.items())]
        data = rows_to_table(FLOORS, rows)
        # Before the rows go: what is landed again must not come back as if it were new.
        warehouse.replace(FLOORS, data, data.select(["cluster_id", "source"]))
    gone = {}
    if records:
        floor = _when({f"topic = {_text(t)} AND partition = {p}": at for (t, p), (_, at) in records.items()})
        gone["bronze.record"] = warehouse.rewrite(
            "bronze.record", f'cluster_id = ? AND copy = 0 AND "offset" < {floor}', [cluster_id]
        )
    if lines:
        floor = _when({f"node = {_text(n)} AND file_id = {_text(f)}": at for (n, f), (_, at) in lines.items()})
        gone["bronze.log_line"] = warehouse.rewrite(
            "bronze.log_line",
            f"cluster_id = ? AND byte < {floor} AND NOT ({OF_CONTROLLERS}) AND NOT ({TORN_HEADS})",
            [cluster_id],
        )
    return gone


def _when(positions: dict[str, int]) -> str:
    return f"CASE {' '.join(f'WHEN {where} THEN {at}' for where, at in positions.items())} ELSE -1 END"


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"


def _record_floors(warehouse: Warehouse, cluster_id: str, until_ms: int) -> dict[tuple[str, int], tuple[str, int]]:
    """By topic and partition: (source, the first offset that stays). Of a log whose times go back, the first young one
    counts."""
    files = warehouse.files("bronze.record")
    if not files:
        return {}
    with cursor() as db:
        rows = db.execute(
            'SELECT topic, partition, coalesce(min("offset") FILTER (timestamp_ms >= ?), max("offset") + 1), '
            f'min("offset") FROM {relation(files)} WHERE cluster_id = ? AND topic NOT LIKE ? GROUP BY ALL',
            [until_ms, cluster_id, METADATA_TOPIC + "%"],
        ).fetchall()
    return {(t, p): (f"record:{t}-{p}", floor) for t, p, floor, first in rows if floor > first}


def _line_floors(warehouse: Warehouse, cluster_id: str, until_ms: int) -> dict[tuple[str, str], tuple[str, int]]:
    """By node and file: (source, the first byte that stays). A line that says nothing has no known time: it is as old
    as the last line before it that has one."""
    events, lines = warehouse.files("silver.group_event"), warehouse.files("bronze.log_line")
    if not events or not lines:
        return {}
    with cursor() as db:
        rows = db.execute(
            f"""
            SELECT node, file_id, least(young_from, last_byte - {TORN_CONTEXT_BYTES}), first_byte FROM (
                SELECT node, file_id, coalesce(min(byte) FILTER (at_ms >= ?), max(byte)) young_from
                FROM {relation(events)} WHERE cluster_id = ? AND source_kind = 'log' GROUP BY ALL
            ) JOIN (
                SELECT node, file_id, min(byte) first_byte, max(byte) last_byte FROM {relation(lines)}
                WHERE cluster_id = ? GROUP BY ALL
            ) USING (node, file_id)
            """,
            [until_ms - DAY_MS, cluster_id, cluster_id],  # a day: times of lines are local
        ).fetchall()
    return {(node, file_id): (f"log:{node}#{file_id}", floor) for node, file_id, floor, first in rows if floor > first}


# ---- silver


def _silver(warehouse: Warehouse, cluster_id: str, until_ms: int) -> dict[str, int]:
    points = warehouse.read(CHECKPOINTS, None, "cluster_id = ?", [cluster_id]).to_pylist()
    floors: dict[str, dict[str, Any]] = {}
    for point in sorted(points, key=lambda p: p["read_until_ms"]):
        if point["read_until_ms"] < until_ms:
            floors[point["group_id"]] = point
    news = {group: point for group, point in floors.items() if not point["is_floor"]}
    if not news:
        return {}
    note = warehouse.recall("floors")
    groups = {tuple(place) for place in note.get("groups", [])} | {(cluster_id, group) for group in news}
    warehouse.remember("floors", {"groups": sorted(map(list, groups))})
    kept = [p for p in points if p["group_id"] in news and p["read_until_ms"] > news[p["group_id"]]["read_until_ms"]]
    rows = rows_to_table(CHECKPOINTS, [*kept, *(point | {"is_floor": True} for point in news.values())])
    warehouse.replace(CHECKPOINTS, rows, rows.select(["cluster_id", "group_id"]))
    gone = {"silver.group_event": 0, "silver.commit_mark": 0}
    for group_id, point in news.items():
        before = point["read_from_ms"] - DAY_MS
        gone["silver.group_event"] += warehouse.rewrite(
            "silver.group_event",
            "cluster_id = ? AND group_id = ? AND at_ms < ? AND NOT list_contains(?, ref)",
            [cluster_id, group_id, before, point["latest"]],
        )
        # Names of topics come from marks as well.
        gone["silver.commit_mark"] += warehouse.rewrite(
            "silver.commit_mark",
            "cluster_id = ? AND group_id = ? AND first_at_ms < ? AND topic_id IS NULL",
            [cluster_id, group_id, before],
        )
    return gone


# ---- gold


def _gold(warehouse: Warehouse, cluster_id: str, until_ms: int) -> dict[str, int]:
    old = f"cluster_id = ? AND is_final AND {_REBALANCE_AT} < ?"
    ids = warehouse.read("gold.rebalance", ["rebalance_id"], old, [cluster_id, until_ms])["rebalance_id"].to_pylist()
    gone = {
        table: warehouse.rewrite(table, f"cluster_id = ? AND ({goes})", [cluster_id, until_ms]) for table, goes in _GOLD
    }
    if ids:
        for table in _CHILDREN:
            gone[table] = warehouse.rewrite(
                table, "cluster_id = ? AND list_contains(?, rebalance_id)", [cluster_id, ids]
            )
    return gone
