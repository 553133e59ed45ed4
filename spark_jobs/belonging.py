"""Finds the groups of evidence that names none, from new events alone: the earlier ones are not read again.

Between runs it keeps (kept_folds) which groups write into each partition of __consumer_offsets, the names of Connect's
workers and topics, and the lines that only their fields can place.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.gather.belonging import ClusterFacts, Route, groups_by_route, named_members, routes_of
from rebalance_audit.domain.gather.groups import event_of_row
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.kept_folds import folded

EVENTS = "silver.group_event"
NOTES = ("groups-of-partitions", "connect-names", "nameless-lines")


@dataclass(frozen=True, slots=True)
class Belonging:
    """The groups that events without a group's name belong to: by cluster and route, and by cluster and ref where only
    an event's fields decide."""

    routes: dict[str, dict[Route, set[str]]]
    lines: dict[str, dict[str, set[str]]]
    """Groups by evidence ref."""


_Kept = dict[str, dict[str, Any]]
"""What is kept, by cluster, as JSON."""
_KNOWN: WeakKeyDictionary[Warehouse, tuple[tuple[_Kept, ...], Belonging]] = WeakKeyDictionary()
"""The answer given last, and what it was made of."""


def homes_of_nameless(warehouse: Warehouse, version: int | None) -> Belonging:
    """`belonging` if there are events that name no group; else an empty answer."""
    lines = folded(warehouse, NOTES[2], EVENTS, version, _with_lines, value_version=1)
    return belonging(warehouse, version) if lines else Belonging({}, {})


def belonging(warehouse: Warehouse, version: int | None) -> Belonging:
    """The groups that events without a name belong to, by all events up to this version."""
    kept = tuple(
        folded(warehouse, note, EVENTS, version, fold, value_version=1) or {}
        for note, fold in zip(NOTES, (_with_partitions, _with_names, _with_lines), strict=True)
    )
    known = _KNOWN.get(warehouse)
    if known is None or any(now is not before for now, before in zip(kept, known[0], strict=True)):
        known = _KNOWN[warehouse] = kept, _belonging(*kept)
    return known[1]


def _belonging(partitions: _Kept, names: _Kept, lines: _Kept) -> Belonging:
    routes: dict[str, dict[Route, set[str]]] = {}
    for cluster_id in {*partitions, *names, *lines}:
        facts = _facts_of(names.get(cluster_id, {}))
        for number, groups in partitions.get(cluster_id, {}).items():
            facts.offsets_partitions[int(number)].update(groups)
        for member_id, groups in lines.get(cluster_id, {}).get("members", {}).items():
            if groups:
                facts.members[member_id].update(groups)
        routes[cluster_id] = groups_by_route(facts)
    placed: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for cluster_id, of_cluster in lines.items():
        known = routes[cluster_id]
        for ref, (kind, node, fields) in of_cluster["lines"].items():
            groups = {group for route in routes_of("log", kind, None, node, fields) for group in known.get(route, ())}
            if groups:
                placed[cluster_id][ref] = groups
    return Belonging(routes, dict(placed))


def _with_partitions(known: _Kept | None, files: Sequence[str]) -> _Kept:
    """The groups with records in each partition of __consumer_offsets."""
    with cursor() as db:
        rows = db.execute(
            f"SELECT DISTINCT cluster_id, partition::VARCHAR, group_id FROM {relation(files)} "
            f"WHERE source_kind = 'record' AND topic = '{OFFSETS_TOPIC}'"
        ).fetchall()
    found: dict[str, dict[str, set[str]]] = {}
    for cluster_id, partition, group_id in rows:
        if group_id not in (known or {}).get(cluster_id, {}).get(partition, ()):
            found.setdefault(cluster_id, {}).setdefault(partition, set()).add(group_id)
    return _merged(known, found)


def _merged(known: _Kept | None, found: dict[str, dict[str, set[str]]]) -> _Kept:
    """The same object if nothing is new."""
    if known is not None and not found:
        return known
    whole = {cluster_id: dict(of_cluster) for cluster_id, of_cluster in (known or {}).items()}
    for cluster_id, of_cluster in found.items():
        kept = whole.setdefault(cluster_id, {})
        for key, groups in of_cluster.items():
            kept[key] = sorted({*kept.get(key, ()), *groups})
    return whole


# ---- names of Connect's workers, connectors and topics


def _with_names(known: _Kept | None, files: Sequence[str]) -> _Kept:
    events = relation(files)
    with cursor() as db:
        rows = partial(_rows, db)
        records = rows(
            f"SELECT * FROM {events} WHERE source_kind = 'record' AND kind = 'GroupMetadata' "
            "AND json_extract_string(detail, '$.value.protocol_type') = 'connect'"
        )
        topics = rows(
            f"SELECT cluster_id, topic, json_extract_string(detail, '$.connector') connector, "
            f"json_extract_string(detail, '$.worker_id') worker_id, count(*) n FROM {events} "
            "WHERE source_kind IN ('status', 'config') GROUP BY ALL"
        )
        nodes = rows(
            f"SELECT DISTINCT cluster_id, node, group_id FROM {events} "
            "WHERE source_kind = 'log' AND group_id IS NOT NULL AND starts_with(kind, 'worker_')"
        )
    if known is not None and not (records or topics or nodes):
        return known
    facts: dict[str, ClusterFacts] = defaultdict(ClusterFacts)
    facts |= {cluster_id: _facts_of(of_cluster) for cluster_id, of_cluster in (known or {}).items()}
    for row in records:
        facts[row["cluster_id"]].add(event_of_row(row))
    for row in topics:
        if row["connector"] is not None:
            facts[row["cluster_id"]].topic_connectors[row["topic"]].add(row["connector"])
        if row["worker_id"]:
            facts[row["cluster_id"]].topic_worker_ids[row["topic"]][row["worker_id"]] += row["n"]
    for row in nodes:
        facts[row["cluster_id"]].worker_nodes[row["node"]].add(row["group_id"])
    kept = {cluster_id: _kept_of(of_cluster) for cluster_id, of_cluster in facts.items()}
    return known if kept == known else kept


_SETS = ("worker_ids", "connectors", "topic_connectors", "worker_nodes", "members")


def _facts_of(kept: dict[str, Any]) -> ClusterFacts:
    facts = ClusterFacts()
    for name in _SETS:
        getattr(facts, name).update({key: set(values) for key, values in kept.get(name, {}).items()})
    for topic, times in kept.get("topic_worker_ids", {}).items():
        facts.topic_worker_ids[topic] = Counter(times)
    return facts


def _kept_of(facts: ClusterFacts) -> dict[str, Any]:
    kept: dict[str, Any] = {
        name: {key: sorted(values) for key, values in getattr(facts, name).items()} for name in _SETS
    }
    return kept | {"topic_worker_ids": {topic: dict(times) for topic, times in facts.topic_worker_ids.items()}}


# ---- lines that name no group


def _with_lines(known: _Kept | None, files: Sequence[str]) -> _Kept | None:
    """By cluster `lines` (kind, node and fields by ref) and `members`, the groups of the members that they name. A
    cluster is here if any event in it names no group. None if a line names a member that was not looked for before."""
    events = relation(files)
    of_itself = "source_kind = 'log' AND NOT starts_with(kind, 'worker_')"
    with cursor() as db:
        nameless = f"SELECT * FROM {events} WHERE group_id IS NULL"
        clusters = db.execute(f"SELECT DISTINCT cluster_id FROM ({nameless})").fetchall()
        new = _rows(db, f"SELECT cluster_id, ref, kind, node, detail FROM ({nameless}) WHERE {of_itself}")
        lines = {(row["cluster_id"], row["ref"]): (row["kind"], row["node"], _fields(row["detail"])) for row in new}
        asked = {member for of_cluster in (known or {}).values() for member in of_cluster["members"]}
        named = {member for _, _, fields in lines.values() for member in named_members(fields)}
        if known is not None and not named <= asked:
            return None
        members = _groups_of_members(db, events, asked | named)
    found: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for cluster_id, member_id, group_id in members:
        if group_id not in (known or {}).get(cluster_id, {}).get("members", {}).get(member_id, ()):
            found[cluster_id][member_id].add(group_id)
    if known is not None and not lines and not found and known.keys() >= {cluster_id for (cluster_id,) in clusters}:
        return known
    by_cluster: dict[str, dict[str, Any]] = {cluster_id: {} for (cluster_id,) in clusters}
    by_cluster |= {cluster_id: {} for cluster_id in found}
    for (cluster_id, ref), line in lines.items():
        by_cluster[cluster_id][ref] = line
    whole = dict(known or {})
    for cluster_id, of_it in by_cluster.items():
        before = whole.get(cluster_id, {"lines": {}, "members": {}})
        asked_here = {member for _, _, fields in of_it.values() for member in named_members(fields)}
        groups = found.get(cluster_id, {})
        of_members = {
            member: sorted({*before["members"].get(member, ()), *groups.get(member, ())})
            for member in {*before["members"], *asked_here, *groups}
        }
        whole[cluster_id] = {"lines": before["lines"] | of_it, "members": of_members}
    return whole


def _groups_of_members(
    db: duckdb.DuckDBPyConnection, events: str, members: Collection[str]
) -> list[tuple[str, str, str]]:
    """(cluster, member id, group) of these members."""
    if not members:
        return []
    db.register("wanted", pa.table({"member_id": sorted(members)}))
    return db.execute(
        f"""
        SELECT DISTINCT cluster_id, member_id, group_id FROM (
            SELECT cluster_id, group_id, unnest([json_extract_string(detail, '$.fields.member_id'),
                json_extract_string(detail, '$.fields.new_member_id'),
                json_extract_string(detail, '$.fields.expected_member_id')]) member_id
            FROM {events} WHERE source_kind = 'log' AND group_id IS NOT NULL
            UNION ALL
            SELECT cluster_id, group_id, unnest(json_extract_string(detail, '$.value.members[*].member_id'))
            FROM {events} WHERE source_kind = 'record' AND kind = 'GroupMetadata'
        ) SEMI JOIN wanted USING (member_id)
        """
    ).fetchall()


def _fields(detail: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(detail)["fields"]
    return fields


def _rows(db: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    found: pa.Table = db.execute(sql).to_arrow_table()
    return list(found.to_pylist())
