"""Facts from the events of a whole cluster: clocks of nodes, and where evidence without a group's name belongs.

Small results of wide scans, so DuckDB makes them on the driver.
"""

from __future__ import annotations

import json
from collections import defaultdict
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

import duckdb
import pyarrow as pa

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.gather.belonging import ClusterFacts, Route, groups_by_route, named_members, routes_of
from rebalance_audit.domain.gather.clocks import PAIRED_KINDS, NodeClock, pairs_by_node
from rebalance_audit.domain.gather.groups import clocks_of, event_of_row
from rebalance_audit.domain.model import GroupRecord, LogEvent, node_of_log
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse

PAIRS_PER_STRETCH = 20
STRETCH_MS = 6 * 3_600_000
"""So many lines of each node, six hours and kind with a generation or epoch may vote on its clock: enough to
outvote outliers, few enough to decode again. Which ones depends on the evidence alone, not on when it came."""

Clocks = dict[str, dict[str, NodeClock]]
"""By cluster and node."""


@dataclass(frozen=True, slots=True)
class Belonging:
    """By cluster: the groups of each route, and of each log event that only its fields can place."""

    routes: dict[str, dict[Route, set[str]]]
    lines: dict[str, dict[str, set[str]]]
    """Groups by evidence ref."""


@dataclass(frozen=True, slots=True)
class NodePairs:
    """The events that show the clock of one node."""

    cluster_id: str
    node: str
    zone: str | None
    """The configured zone."""
    pairs: tuple[tuple[int, int], ...]
    """(local time of a line, UTC time of the record it belongs to)."""
    first_ref: str | None
    """One of these lines."""


def node_clocks(warehouse: Warehouse, event_version: int | None, source_version: int | None) -> Clocks:
    """The clock of every node with log events."""
    found: Clocks = defaultdict(dict)
    for known in node_pairs(warehouse, event_version, source_version):
        found[known.cluster_id] |= clocks_of({known.node: known.pairs}, [known.node], {known.node: known.zone})
    return dict(found)


@dataclass(slots=True)
class _Voting:
    """Pairs as of two versions, and what would change them."""

    versions: tuple[int | None, int | None]
    """Of silver.group_event and bronze.source."""
    pairs: list[NodePairs]
    nodes: set[tuple[str, str]] = field(default_factory=set)
    last_votes: dict[tuple[str, str, str, int], tuple[int, str]] = field(default_factory=dict)
    """By cluster, node, kind and stretch of time, where there are as many votes as count: the last one."""
    numbers: set[tuple[str, str, int]] = field(default_factory=set)
    """Cluster, group, and the generation or epoch that a voter names."""


_VOTING: WeakKeyDictionary[Warehouse, _Voting] = WeakKeyDictionary()
"""The pairs read last: four stages of a run ask about the same versions, and most news brings no vote."""


def node_pairs(warehouse: Warehouse, event_version: int | None, source_version: int | None) -> list[NodePairs]:
    """Pairs of the nodes whose logs name groups, and of those whose zone is configured."""
    asked = (
        warehouse.version("silver.group_event") if event_version is None else event_version,
        warehouse.version("bronze.source") if source_version is None else source_version,
    )
    known = _VOTING.get(warehouse)
    if known is not None and known.versions != asked and not _brings_votes(warehouse, known, asked):
        known.versions = asked
    elif known is None or known.versions != asked:
        known = _VOTING[warehouse] = _voting(warehouse, asked)
    return known.pairs


_NUMBER = (
    "coalesce(json_extract(detail, '$.fields.generation_id'), json_extract(detail, '$.fields.group_epoch'))::BIGINT"
)
_VALUE = "coalesce(json_extract(detail, '$.value.generation'), json_extract(detail, '$.value.epoch'))::BIGINT"
_VOTES = (
    f"source_kind = 'log' AND kind IN ({', '.join(repr(str(kind)) for kind in PAIRED_KINDS)}) "
    f"AND group_id IS NOT NULL AND {_NUMBER} IS NOT NULL"
)
_ANSWERS = (
    "source_kind = 'record' AND value IS NOT NULL "
    "AND kind IN ('GroupMetadata', 'ConsumerGroupMetadata', 'ShareGroupMetadata', 'StreamsGroupMetadata')"
)


def _brings_votes(warehouse: Warehouse, known: _Voting, asked: tuple[int | None, int | None]) -> bool:
    """Whether what came since may change the pairs. A line behind the last of a stretch that has votes enough does
    not, nor does a record that no voter names."""
    came = []
    for table, since, until in zip(("silver.group_event", "bronze.source"), known.versions, asked, strict=True):
        files = None if since is None or until is None else warehouse.appended(table, since, until)
        if files is None:
            return True
        came.append(files)
    events, sources = came
    with cursor() as db:
        if (
            sources
            and db.execute(f"SELECT 1 FROM {relation(sources)} WHERE log_time_zone IS NOT NULL LIMIT 1").fetchone()
        ):
            return True
        if not events:
            return False
        new = relation(events)
        nodes = db.execute(f"SELECT DISTINCT cluster_id, node FROM {new} WHERE source_kind = 'log'").fetchall()
        if not known.nodes.issuperset(nodes):
            return True
        votes = db.execute(
            f"SELECT cluster_id, node, kind, at_ms // {STRETCH_MS}, at_ms, ref FROM {new} WHERE {_VOTES}"
        ).fetchall()
        if any((at_ms, ref) < known.last_votes.get(tuple(place), (_EVER_MS, "")) for *place, at_ms, ref in votes):
            return True
        answers = db.execute(f"SELECT cluster_id, group_id, {_VALUE} FROM {new} WHERE {_ANSWERS}").fetchall()
        return not known.numbers.isdisjoint(answers)


_EVER_MS = 1 << 62


def _voting(warehouse: Warehouse, versions: tuple[int | None, int | None]) -> _Voting:
    events = stored(warehouse, "silver.group_event", versions[0])
    zones = _zones(warehouse, versions[1])
    if events is None:
        return _Voting(
            versions,
            [
                NodePairs(c, node, zone, (), None)
                for c, of_c in sorted(zones.items())
                for node, zone in sorted(of_c.items())
            ],
        )
    with cursor() as db:
        nodes = db.execute(f"SELECT DISTINCT cluster_id, node FROM {events} WHERE source_kind = 'log'").fetchall()
        # Wide columns are read of the few rows that are chosen, not of all among which they are chosen.
        place = f"cluster_id, node, kind, at_ms // {STRETCH_MS}"
        db.execute(
            f"""
            CREATE TEMP TABLE voter AS SELECT cluster_id, node, kind, at_ms, group_id, ref, {_NUMBER} number
            FROM {events} WHERE {_VOTES}
            QUALIFY row_number() OVER (PARTITION BY {place} ORDER BY at_ms, ref) <= {PAIRS_PER_STRETCH}
            """
        )
        last_votes = db.execute(
            f"SELECT {place}, max(at_ms), arg_max(ref, (at_ms, ref)) FROM voter GROUP BY ALL "
            f"HAVING count(*) = {PAIRS_PER_STRETCH}"
        ).fetchall()
        numbers = db.execute("SELECT DISTINCT cluster_id, group_id, number FROM voter").fetchall()
        lines = _rows(db, f"SELECT * FROM {events} SEMI JOIN voter USING (cluster_id, ref)")
        records = _rows(
            db,
            f"""
            FROM (FROM {events} SEMI JOIN voter USING (cluster_id, group_id) WHERE {_ANSWERS}) record SEMI JOIN voter
            ON record.cluster_id = voter.cluster_id AND record.group_id = voter.group_id AND {_VALUE} = voter.number
            """,
        )
    by_cluster: dict[str, set[str]] = defaultdict(set)
    for cluster_id, node in [*nodes, *((c, node) for c, named in zones.items() for node in named)]:
        by_cluster[cluster_id].add(node)
    found = []
    for cluster_id, names in sorted(by_cluster.items()):
        parsed = [
            e for row in lines if row["cluster_id"] == cluster_id and isinstance(e := event_of_row(row), LogEvent)
        ]
        known = [
            e for row in records if row["cluster_id"] == cluster_id and isinstance(e := event_of_row(row), GroupRecord)
        ]
        pairs = pairs_by_node(parsed, known)
        refs = {e.node: e.ref for e in sorted(parsed, key=lambda e: (e.local_at_ms, e.ref), reverse=True)}
        for node in sorted(names):
            zone = zones.get(cluster_id, {}).get(node)
            found.append(NodePairs(cluster_id, node, zone, tuple(pairs.get(node, ())), refs.get(node)))
    return _Voting(
        versions, found, set(nodes), {tuple(place): (at_ms, ref) for *place, at_ms, ref in last_votes}, set(numbers)
    )


def _zones(warehouse: Warehouse, version: int | None) -> dict[str, dict[str, str]]:
    """Configured zones by cluster and node; of several, the one of the latest reading."""
    rows = warehouse.read(
        "bronze.source", ["cluster_id", "source", "read_id", "log_time_zone"],
        "kind = 'log' AND log_time_zone IS NOT NULL", version=version,
    )  # fmt: skip
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for row in sorted(rows.to_pylist(), key=lambda r: (r["read_id"], r["source"])):
        found[row["cluster_id"]][node_of_log(row["source"])] = row["log_time_zone"]
    return found


def settings_of(clocks: Clocks) -> dict[str, Any]:
    """The settings of the clocks that decide instants, comparable with what was remembered."""
    return {
        cluster_id: {
            node: json.loads(json.dumps([asdict(clock)["source"], clock.zone, clock.offsets]))
            for node, clock in sorted(by_node.items())
        }
        for cluster_id, by_node in sorted(clocks.items())
    }


def homes_of_nameless(warehouse: Warehouse, version: int | None) -> Belonging:
    """`belonging`, where there are events that name no group; else nothing, and nothing is read for it."""
    events = stored(warehouse, "silver.group_event", version)
    if events is None:
        return Belonging({}, {})
    with cursor() as db:
        found = db.execute(f"SELECT 1 FROM {events} WHERE group_id IS NULL LIMIT 1").fetchone()
    return Belonging({}, {}) if found is None else belonging(warehouse, version)


def belonging(warehouse: Warehouse, version: int | None) -> Belonging:
    """Where events that name no group belong, as far as all events up to this version show."""
    events = stored(warehouse, "silver.group_event", version)
    if events is None:
        return Belonging({}, {})
    facts: dict[str, ClusterFacts] = defaultdict(ClusterFacts)
    with cursor() as db:
        rows = partial(_rows, db)
        homeless = rows(
            f"SELECT cluster_id, ref, kind, node, detail FROM {events} "
            "WHERE source_kind = 'log' AND group_id IS NULL AND NOT starts_with(kind, 'worker_')"
        )
        for row in homeless:
            row["fields"] = json.loads(row["detail"])["fields"]
        for row in rows(
            f"SELECT DISTINCT cluster_id, partition, group_id FROM {events} "
            f"WHERE source_kind = 'record' AND topic = '{OFFSETS_TOPIC}'"
        ):
            facts[row["cluster_id"]].offsets_partitions[row["partition"]].add(row["group_id"])
        for row in rows(
            f"SELECT * FROM {events} WHERE source_kind = 'record' AND kind = 'GroupMetadata' "
            "AND json_extract_string(detail, '$.value.protocol_type') = 'connect'"
        ):
            facts[row["cluster_id"]].add(event_of_row(row))
        for row in rows(
            f"SELECT cluster_id, topic, json_extract_string(detail, '$.connector') connector, "
            f"json_extract_string(detail, '$.worker_id') worker_id, count(*) n FROM {events} "
            "WHERE source_kind IN ('status', 'config') GROUP BY ALL"
        ):
            if row["connector"] is not None:
                facts[row["cluster_id"]].topic_connectors[row["topic"]].add(row["connector"])
            if row["worker_id"]:
                facts[row["cluster_id"]].topic_worker_ids[row["topic"]][row["worker_id"]] += row["n"]
        for row in rows(
            f"SELECT DISTINCT cluster_id, node, group_id FROM {events} "
            "WHERE source_kind = 'log' AND group_id IS NOT NULL AND starts_with(kind, 'worker_')"
        ):
            facts[row["cluster_id"]].worker_nodes[row["node"]].add(row["group_id"])
        members = sorted({member for row in homeless for member in named_members(row["fields"])})
        if members:
            db.register("wanted", pa.table({"member_id": members}))
            for row in rows(
                f"""
                SELECT DISTINCT cluster_id, group_id, member_id FROM (
                    SELECT cluster_id, group_id, unnest([json_extract_string(detail, '$.fields.member_id'),
                        json_extract_string(detail, '$.fields.new_member_id'),
                        json_extract_string(detail, '$.fields.expected_member_id')]) member_id
                    FROM {events} WHERE source_kind = 'log' AND group_id IS NOT NULL
                    UNION ALL
                    SELECT cluster_id, group_id, unnest(json_extract_string(detail, '$.value.members[*].member_id'))
                    FROM {events} WHERE source_kind = 'record' AND kind = 'GroupMetadata'
                ) SEMI JOIN wanted USING (member_id)
                """
            ):
                facts[row["cluster_id"]].members[row["member_id"]].add(row["group_id"])
    routes = {cluster_id: groups_by_route(known) for cluster_id, known in facts.items()}
    lines: dict[str, dict[str, set[str]]] = defaultdict(dict)
    for row in homeless:
        known = routes.get(row["cluster_id"], {})
        places = routes_of("log", row["kind"], None, row["node"], row["fields"])
        groups = {group for route in places for group in known.get(route, ())}
        if groups:
            lines[row["cluster_id"]][row["ref"]] = groups
    return Belonging(routes, dict(lines))


def seen_until_ms(warehouse: Warehouse) -> dict[str, int]:
    """The end of each cluster's evidence: the last record time anything was read at."""
    versions = tuple(warehouse.version(table) for table, _, _ in _ENDS)
    known = _SEEN.get(warehouse)
    if known is None or known[0] != versions:
        known = _SEEN[warehouse] = versions, _seen_until_ms(warehouse)
    return dict(known[1])


_ENDS = (
    ("bronze.source", "to_at_ms", "true"),
    ("silver.group_event", "at_ms", "source_kind <> 'log'"),
    ("silver.commit_mark", "last_at_ms", "true"),
)
_SEEN: WeakKeyDictionary[Warehouse, tuple[tuple[int | None, ...], dict[str, int]]] = WeakKeyDictionary()
"""The ends read last: stages ask for them half a dozen times in a run."""


def _seen_until_ms(warehouse: Warehouse) -> dict[str, int]:
    found: dict[str, int] = {}
    with cursor() as db:
        for table, column, where in _ENDS:
            rows = stored(warehouse, table, None)
            if rows is None:
                continue
            sql = f"SELECT cluster_id, max({column}) FROM {rows} WHERE {where} GROUP BY 1"
            for cluster_id, at_ms in db.execute(sql).fetchall():
                if at_ms is not None:
                    found[cluster_id] = max(found.get(cluster_id, at_ms), at_ms)
    return found


def stored(warehouse: Warehouse, table: str, version: int | None) -> str | None:
    """The table at this version as DuckDB reads it; None if there is nothing."""
    files = warehouse.files(table, version)
    return relation(files) if files else None


def _rows(db: duckdb.DuckDBPyConnection, sql: str) -> list[dict[str, Any]]:
    found: pa.Table = db.execute(sql).to_arrow_table()
    return list(found.to_pylist())
