"""Groups whose incidents may differ now from what readers see, and since when."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables
from rebalance_audit.domain.detect import LimitsOf
from rebalance_audit.domain.incidents.around import NOTHING_NEW, may_end
from rebalance_audit.domain.incidents.broker_faults import ends_of_waiting
from rebalance_audit.domain.incidents.episodes import CHANGE_GAP_MS
from rebalance_audit.domain.incidents.symptoms import SYMPTOMS
from rebalance_audit.domain.publish.leader_moves import FOLLOWS_WITHIN_MS
from rebalance_audit.warehouse.comparing import differing_rows
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import GROUP, Place, relation_of_keys, rows_of_few_keys
from spark_jobs.incidents.rows import (
    AT,
    FINDINGS,
    REASSIGNMENTS,
    REBALANCES,
    TASKS,
    moves_of,
    shown_incidents,
)

_CONTENT = (
    "rebalance_id, trigger, outcome, expected, started_at_ms, joined_at_ms, assigned_at_ms, ended_at_ms, "
    "connect_delay_ms, resource_seconds_lower, resource_seconds_estimate, resource_seconds_upper, "
    "resource_seconds_likely_lower, resource_seconds_likely_upper, hash(triggers)"
)
_SYMPTOM_AT = (
    f"CASE WHEN rule_id IN ({', '.join(repr(r) for r in sorted(SYMPTOMS))}) THEN last_seen_at_ms ELSE {NOTHING_NEW} END"
)
"""Rules about symptoms. Findings of other rules are about no rebalance, so they change nothing older."""
_SHOWN = (
    "finding_id, rule_id, severity, subject, status, first_seen_at_ms, last_seen_at_ms, title, advice, connectors, "
    "evidence"
)


News = dict[str, dict[str | None, int]]
"""By cluster and group (None: what belongs to no group), the instant of the earliest news."""


def note(news: News, cluster_id: str, group_id: str | None, at_ms: int | None) -> None:
    of_groups = news.setdefault(cluster_id, {})
    of_groups[group_id] = min(of_groups.get(group_id, NOTHING_NEW), 0 if at_ms is None else at_ms)


def news_since(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    before: Mapping[str, int],
    changed: pa.Table,
    leader_moves: pa.Table,
) -> tuple[News, dict[Place, int]]:
    """The rows of silver that readers do not see yet as they are now; and, by group, the instant of the earliest
    rebalance among them."""
    news: News = {}
    found = _differing(warehouse, versions, REBALANCES, "gold.rebalance", _CONTENT, AT, changed)
    of_rebalances = {(cluster_id, group_id): at or 0 for cluster_id, group_id, at in found if group_id is not None}
    changed = _changed_keys(warehouse, FINDINGS, "finding_id", versions, before)
    found += _differing(warehouse, versions, FINDINGS, "gold.finding", _SHOWN, _SYMPTOM_AT, changed)
    if REASSIGNMENTS not in before or before[REASSIGNMENTS] != versions[REASSIGNMENTS]:
        at = "coalesce(started_at_ms, 0)"
        found += _differing(warehouse, versions, REASSIGNMENTS, "gold.reassignment", "*", at, None)
    if TASKS in before and before[TASKS] != versions[TASKS]:  # else all of their rebalances are news
        tasks = warehouse.changed_keys(TASKS, GROUP.names, before[TASKS], versions[TASKS])
        found += ((row["cluster_id"], row["group_id"], NOTHING_NEW) for row in tasks.to_pylist())
    found += _moved_otherwise(warehouse, leader_moves)
    for cluster_id, group_id, at_ms in found:
        note(news, cluster_id, group_id, at_ms)
    return news, of_rebalances


def _moved_otherwise(warehouse: Warehouse, leader_moves: pa.Table) -> list[tuple[str, str | None, int | None]]:
    """Groups whose rows of gold.leader_move differ from what readers see."""
    seen = warehouse.files("gold.leader_move", warehouse.published().get("gold.leader_move", -1))
    if not leader_moves.num_rows and not seen:
        return []
    columns = ", ".join(leader_moves.schema.names)
    with cursor() as db:
        db.register("now", leader_moves)
        before = f"SELECT {columns} FROM {relation(seen)}" if seen else "SELECT * FROM now WHERE false"
        sql = f"((FROM now) EXCEPT ({before})) UNION ALL (({before}) EXCEPT (FROM now))"
        return db.execute(f"SELECT cluster_id, group_id, min(at_ms) FROM ({sql}) GROUP BY ALL").fetchall()


def ending(
    warehouse: Warehouse,
    before_ms: Mapping[str, int],
    now_ms: Mapping[str, int],
    limits: LimitsOf,
    leader_moves: pa.Table,
) -> Iterator[tuple[str, str | None, int]]:
    """Groups of open incidents that time alone may change."""
    for cluster_id, moves in moves_of(_recent_failures(leader_moves, before_ms)).items():
        for until_ms, group_id, began_ms in ends_of_waiting(moves, partial(limits, cluster_id)):
            if before_ms[cluster_id] <= until_ms < now_ms.get(cluster_id, 0):
                yield cluster_id, group_id, began_ms
    columns = ["cluster_id", "group_ids", "reassignment_ids", "last_at_ms"]
    shown = shown_incidents(warehouse, [*columns, "rebalance_ids"])
    rebalance_counts = pc.list_value_length(shown["rebalance_ids"]).to_pylist()  # of a storm the ids are very many
    for row, rebalance_count in zip(shown.select(columns).to_pylist(), rebalance_counts, strict=True):
        cluster_id, reassignments = row["cluster_id"], row["reassignment_ids"]
        if not rebalance_count and not reassignments:
            continue
        before, now = before_ms.get(cluster_id), now_ms.get(cluster_id, 0)
        quiet_ms = {limits(cluster_id, group_id).quiet_ms for group_id in row["group_ids"]}
        is_due = before is None or bool(reassignments)
        if is_due or any(may_end(row["last_at_ms"], before or 0, now, quiet) for quiet in quiet_ms):
            for group_id in (*row["group_ids"], *((None,) if reassignments else ())):
                yield cluster_id, group_id, row["last_at_ms"]


def _recent_failures(leader_moves: pa.Table, before_ms: Mapping[str, int]) -> pa.Table:
    """Failures of brokers whose members may have been waited for before. Without a moment before, what is open is
    worked out anyway."""
    known = pc.is_in(leader_moves["cluster_id"], pa.array(list(before_ms), pa.string()))
    found = leader_moves.filter(pc.and_(known, pc.equal(leader_moves["cause"], "broker_failure")))
    since_ms = min(before_ms.values(), default=0) - CHANGE_GAP_MS - FOLLOWS_WITHIN_MS
    return found.filter(pc.field("at_ms") >= since_ms)


def _changed_keys(
    warehouse: Warehouse, table: str, key: str, versions: Mapping[str, int], before: Mapping[str, int]
) -> pa.Table | None:
    """The keys of rows that readers cannot have seen as they are; None: any."""
    if table not in before:
        return None
    changes = warehouse.row_changes(table, ["cluster_id", key], before[table], versions[table])
    return None if changes is None else changes.keys


def _differing(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    silver: str,
    gold: str,
    content: str,
    at_ms: str,
    among: pa.Table | None,
) -> list[tuple[str, str | None, int | None]]:
    """By cluster and group, the instant of the earliest row that differs from what readers see; `among`: only rows with
    one of these keys."""
    group_id = "group_id" if "group_id" in warehouse.schema(silver).names else "NULL::VARCHAR"
    files = (warehouse.files(silver, versions[silver]), warehouse.files(gold, warehouse.published().get(gold, -1)))
    if among is not None and among.num_rows == 0:
        return []
    if among is not None and all(files):
        now, seen = (
            rows_of_few_keys(of_table, among, _schema_of(warehouse, table, f"{content}, {at_ms}"))
            for table, of_table in zip((silver, gold), files, strict=True)
        )
        if (found := _few_differing(now, seen, tables.BY_NAME[silver].key, at_ms)) is not None:
            return found
    with cursor() as db:
        sources = [
            relation(of_table)
            if among is None
            else relation_of_keys(
                db, of_table, among, _schema_of(warehouse, table, f"{content}, {at_ms}"), f"wanted_{n}"
            )
            for n, (table, of_table) in enumerate(zip((silver, gold), files, strict=True))
            if of_table
        ]
        each = [f"SELECT cluster_id, {group_id} of_group, {at_ms} at_ms, {content} FROM {source}" for source in sources]
        if len(each) == 2:
            sql = f"(({each[0]}) EXCEPT ({each[1]})) UNION ALL (({each[1]}) EXCEPT ({each[0]}))"
        elif each:
            sql = each[0]
        else:
            return []
        earliest = "min(coalesce(at_ms, 0))"
        return db.execute(f"SELECT cluster_id, of_group, {earliest} FROM ({sql}) GROUP BY ALL").fetchall()


def _few_differing(
    now: pa.Table | None, seen: pa.Table | None, key: Sequence[str], at_ms: str
) -> list[tuple[str, str | None, int | None]] | None:
    """The same of few rows, compared in Arrow: DuckDB takes 15 ms to set two handfuls against each other. None where
    they are many, or a key occurs twice."""
    if now is None or seen is None:
        return None
    both = [name for name in now.schema.names if name in seen.schema.names]
    now, seen = now.select(both), seen.select(both)
    if (found := differing_rows(seen, now, key)) is None:
        return None
    rows = pa.concat_tables([rows.take(pa.array(at)) for rows, at in zip((seen, now), found, strict=True)])
    if rows.num_rows == 0:
        return []
    with cursor() as db:
        db.register("differing", rows)
        sql = f"SELECT cluster_id, group_id, min(coalesce({at_ms}, 0)) FROM differing GROUP BY ALL"
        return db.execute(sql).fetchall()


def _schema_of(warehouse: Warehouse, table: str, sql: str) -> pa.Schema:
    """The columns that the SQL names, and those of any key."""
    named = {*re.findall(r"\w+", sql), "cluster_id", "group_id", "rebalance_id", "finding_id"}
    return pa.schema([field for field in warehouse.schema(table) if field.name in named])
