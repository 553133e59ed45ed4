"""gold.incident and gold.mark: what happened since the earliest news, worked out again; what lies before stays.

Everything of a cluster is needed, but only from a moment on at which nothing was going on: the news, less a margin,
less whatever incident reaches into it. A run's cost follows the news.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from rebalance_audit.domain.detect import DEFAULT, Limits
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of, mark_row
from rebalance_audit.domain.incidents.symptoms import SYMPTOMS
from rebalance_audit.domain.model import ConnectTask, Finding, Rebalance, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment, reassignment_of
from rebalance_audit.domain.tables import GOLD_REBALANCE
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_rows import GROUP, files_since, of_keys
from spark_jobs.structs import things_in

REBALANCES, TASKS, FINDINGS = "silver.measured_rebalance", "silver.connect_task", "silver.finding"
REASSIGNMENTS = "silver.reassignment"
MARGIN_MS = 3 * 3_600_000
"""3 h: more than any window in which rebalances belong together; a flapping member's is the widest, 2 h."""
_AT = "coalesce(assigned_at_ms, joined_at_ms, started_at_ms, ended_at_ms, started_lower_ms)"
_CONTENT = (
    "rebalance_id, trigger, outcome, expected, started_at_ms, joined_at_ms, assigned_at_ms, ended_at_ms, "
    "connect_delay_ms, resource_seconds_lower, resource_seconds_estimate, resource_seconds_upper, "
    "resource_seconds_likely_lower, resource_seconds_likely_upper, hash(triggers)"
)
_SYMPTOM_AT = (
    f"CASE WHEN rule_id IN ({', '.join(repr(r) for r in sorted(SYMPTOMS))}) THEN last_seen_at_ms ELSE {1 << 60} END"
)
"""The others are about no rebalance: they make nothing old new."""
_TOLD = (
    "finding_id, rule_id, severity, subject, status, first_seen_at_ms, last_seen_at_ms, title, advice, connectors, "
    "evidence"
)
_STORED = [
    "cluster_id", "incident_id", "first_at_ms", "last_at_ms", "status", "rebalance_ids", "reassignment_ids",
    "finding_ids",
]  # fmt: skip
_MEMBERS = "list_filter(members, lambda m: m.change <> 'stayed')"
_GONE = "flatten([t.members FOR t IN triggers])"
_MOVEMENTS = (
    "[{'resource_type': m.resource_type, 'resource': m.resource, 'kind': m.kind, 'from_member_id': m.from_member_id, "
    f"'stopped_at_lower_ms': m.stopped_at_lower_ms}} FOR m IN movements IF list_contains({_GONE}, m.from_member_id)]"
)


class Incidents(NamedTuple):
    """Rows as they should be, and the ids of all rows that these take the place of."""

    incidents: pa.Table
    incident_scope: pa.Table
    marks: pa.Table
    mark_scope: pa.Table


def incident_tables(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    leader_moves: pa.Table,
    changed: pa.Table,
    limits: Callable[[str, str], Limits] | None = None,
    *,
    since_versions: Mapping[str, int] | None = None,
) -> Incidents:
    """`versions`: of the silver tables; `since_versions`: those that were published last, if that is known. `changed`:
    keys of the rebalances that changed, or of their groups. `leader_moves`: all rows there are."""
    stored = _KnownIncidents(warehouse)
    seen = seen_until_ms(warehouse)
    since = _since(warehouse, versions, since_versions or {}, changed, stored)
    moves: dict[str, list[LeaderMove]] = defaultdict(list)
    for row in leader_moves.to_pylist():
        moves[row["cluster_id"]].append(from_row(LeaderMove, row))
    incidents: list[dict[str, Any]] = []
    marks: list[dict[str, Any]] = []
    for cluster_id, from_ms in sorted(since.items()):
        rows = _cluster_rows(
            warehouse, versions, cluster_id, from_ms, seen.get(cluster_id, 0), moves[cluster_id],
            stored.still_shown(cluster_id), limits,
        )  # fmt: skip
        found, marked = incidents_of(rows)
        incidents += [incident_row(i) for i in found]
        marks += [mark_row(m) for m in marked]
    gone = [row for cluster_id, from_ms in since.items() for row in stored.since(cluster_id, from_ms)]
    return Incidents(
        rows_to_table("gold.incident", incidents),
        _scope("incident_id", gone, incidents),
        rows_to_table("gold.mark", marks),
        _scope("mark_id", _marks_of_evidence(warehouse, since), marks),
    )


class _KnownIncidents:
    """gold.incident as it stands: of its many rows those that are open, and those that end after some moment."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self.open = self._read("status = 'open'")

    def since(self, cluster_id: str, from_ms: int) -> list[dict[str, Any]]:
        """The open ones of a cluster, and those that end at or after this moment."""
        later = self._read("cluster_id = ? AND last_at_ms >= ? AND status <> 'open'", cluster_id, from_ms)
        return [row for row in self.open if row["cluster_id"] == cluster_id] + later

    def reaching_back(self, cluster_id: str, from_ms: int) -> int:
        """The begin of whatever reaches beyond `from_ms`, or of what reaches into that; else `from_ms`."""
        while True:
            spans = [
                (row["first_at_ms"], row["last_at_ms"])
                for row in self.since(cluster_id, from_ms)
                if row["rebalance_ids"] or row["reassignment_ids"]
            ]
            before, from_ms = from_ms, min([from_ms, *(first for first, last in spans if last >= from_ms)])
            if from_ms == before:
                return from_ms

    def still_shown(self, cluster_id: str) -> list[str]:
        """Findings of open incidents: what is over by now has a last moment long ago."""
        opened = (row for row in self.open if row["cluster_id"] == cluster_id)
        return sorted({finding_id for row in opened for finding_id in row["finding_ids"]})

    def _read(self, where: str, *params: Any) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = self._warehouse.read("gold.incident", _STORED, where, params).to_pylist()
        return rows


def cluster_rows(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    cluster_id: str,
    from_ms: int,
    *,
    now_ms: int,
    limits: Callable[[str, str], Limits] | None = None,
) -> ClusterRows:
    """What the incidents of one cluster since `from_ms` are made of, as published last."""
    moves = warehouse.read("gold.leader_move", None, "cluster_id = ?", [cluster_id]).to_pylist()
    return _cluster_rows(
        warehouse, versions, cluster_id, from_ms, now_ms, [from_row(LeaderMove, row) for row in moves],
        _KnownIncidents(warehouse).still_shown(cluster_id), limits,
    )  # fmt: skip


def reaching_back(warehouse: Warehouse, cluster_id: str, from_ms: int) -> int:
    """The begin of whatever incident reaches beyond `from_ms`, or of those that reach into that one; else `from_ms`."""
    return _KnownIncidents(warehouse).reaching_back(cluster_id, from_ms)


def _cluster_rows(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    cluster_id: str,
    from_ms: int,
    now_ms: int,
    leader_moves: Sequence[LeaderMove],
    still_shown: list[str],
    limits: Callable[[str, str], Limits] | None,
) -> ClusterRows:
    return ClusterRows(
        cluster_id=cluster_id,
        now_ms=now_ms,
        groups=_rebalances(warehouse, versions, cluster_id, from_ms),
        tasks=_waiting(warehouse, versions, cluster_id),
        reassignments=_reassignments(warehouse, versions, cluster_id, from_ms),
        leader_moves=leader_moves,
        findings=_findings(warehouse, versions, cluster_id, from_ms, still_shown),
        limits=_of_cluster(limits, cluster_id),
    )


def _of_cluster(limits: Callable[[str, str], Limits] | None, cluster_id: str) -> Callable[[str], Limits]:
    return lambda group_id: DEFAULT if limits is None else limits(cluster_id, group_id)


def _since(
    warehouse: Warehouse,
    versions: Mapping[str, int],
    before: Mapping[str, int],
    changed: pa.Table,
    stored: _KnownIncidents,
) -> dict[str, int]:
    """By cluster with news: from when on incidents are to be worked out again."""
    news: dict[str, int] = {}

    def note(rows: Iterable[tuple[str, int | None]]) -> None:
        for cluster_id, at_ms in rows:
            news[cluster_id] = min(news.get(cluster_id, 1 << 62), 0 if at_ms is None else at_ms)

    note(_differing(warehouse, versions, REBALANCES, "gold.rebalance", _CONTENT, _AT, changed))
    told = _changed_keys(warehouse, FINDINGS, "finding_id", versions, before)
    note(_differing(warehouse, versions, FINDINGS, "gold.finding", _TOLD, _SYMPTOM_AT, told))
    if REASSIGNMENTS not in before or before[REASSIGNMENTS] != versions[REASSIGNMENTS]:
        at = "coalesce(started_at_ms, 0)"
        note(_differing(warehouse, versions, REASSIGNMENTS, "gold.reassignment", "*", at, None))
    # Time alone may end those that are open.
    note(
        (row["cluster_id"], row["first_at_ms"])
        for row in stored.open
        if row["rebalance_ids"] or row["reassignment_ids"]
    )
    return {cluster_id: stored.reaching_back(cluster_id, at_ms - MARGIN_MS) for cluster_id, at_ms in news.items()}


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
) -> list[tuple[str, int | None]]:
    """By cluster, the earliest row that readers do not see as it is now; `among`: only rows with one of these keys."""
    files = (warehouse.files(silver, versions[silver]), warehouse.files(gold, warehouse.published().get(gold, -1)))
    if among is not None and among.num_rows == 0:
        return []
    with cursor() as db:
        sources = [
            relation(of_table)
            if among is None
            else of_keys(db, of_table, among, _schema_of(warehouse, table, f"{content}, {at_ms}"), f"wanted_{n}")
            for n, (table, of_table) in enumerate(zip((silver, gold), files, strict=True))
            if of_table
        ]
        each = [f"SELECT cluster_id, {at_ms} at_ms, {content} FROM {source}" for source in sources]
        if len(each) == 2:
            sql = f"(({each[0]}) EXCEPT ({each[1]})) UNION ALL (({each[1]}) EXCEPT ({each[0]}))"
        elif each:
            sql = each[0]
        else:
            return []
        return db.execute(f"SELECT cluster_id, min(coalesce(at_ms, 0)) FROM ({sql}) GROUP BY ALL").fetchall()


def _schema_of(warehouse: Warehouse, table: str, sql: str) -> pa.Schema:
    """The columns that the SQL names, and those of any key."""
    named = {*re.findall(r"\w+", sql), "cluster_id", "group_id", "rebalance_id", "finding_id"}
    return pa.schema([field for field in warehouse.schema(table) if field.name in named])


def _rebalances(
    warehouse: Warehouse, versions: Mapping[str, int], cluster_id: str, from_ms: int
) -> dict[str, list[Rebalance]]:
    """Rebalances from then on, with the members that came or went, and what the missing ones held."""
    files = warehouse.files(REBALANCES, versions[REBALANCES])
    if not _clocks_differ(warehouse, versions, cluster_id):
        files = files_since(files, from_ms)
    if not files:
        return {}
    own = [c.name for c in GOLD_REBALANCE.columns]
    with cursor() as db:
        # Wide columns are read of the groups of which anything is wanted.
        db.execute(
            f"CREATE TEMP TABLE first AS SELECT group_id, min(place) FILTER ({_AT} >= ?) since FROM {relation(files)} "
            "WHERE cluster_id = ? GROUP BY 1 HAVING since IS NOT NULL",
            [from_ms, cluster_id],
        )
        places = db.execute("SELECT group_id FROM first").to_arrow_table()
        wanted = pa.table({"cluster_id": pa.array([cluster_id] * len(places), pa.string()), **places.to_pydict()})
        needed = _schema_of(warehouse, REBALANCES, f"{' '.join(own)} place members movements triggers")
        source = of_keys(db, files, wanted.cast(GROUP), needed)
        rows = db.execute(
            f"""
            SELECT {", ".join(own)}, {_MEMBERS} members, {_MOVEMENTS} movements
            FROM {source} JOIN first USING (group_id)
            WHERE place >= since ORDER BY group_id, place
            """
        ).to_arrow_table()
    found: dict[str, list[Rebalance]] = defaultdict(list)
    for rebalance in things_in(Rebalance, rows):
        found[rebalance.group_id].append(rebalance)
    return found


def _clocks_differ(warehouse: Warehouse, versions: Mapping[str, int], cluster_id: str) -> bool:
    """Whether a clock ever jumped back or was wrong: then what came later may be dated much earlier."""
    where = "group_id IS NULL AND rule_id = 'TR003' AND cluster_id = ?"
    return warehouse.read(FINDINGS, ["rule_id"], where, [cluster_id], version=versions[FINDINGS]).num_rows > 0


def _waiting(warehouse: Warehouse, versions: Mapping[str, int], cluster_id: str) -> list[ConnectTask]:
    where = "cluster_id = ? AND to_ms IS NULL"
    rows = warehouse.read(TASKS, None, where, [cluster_id], version=versions[TASKS])
    return [from_row(ConnectTask, row) for row in rows.to_pylist()]


def _findings(
    warehouse: Warehouse, versions: Mapping[str, int], cluster_id: str, from_ms: int, still_shown: list[str]
) -> list[tuple[str | None, Finding]]:
    where = "cluster_id = ? AND (status = 'open' OR last_seen_at_ms >= ? OR list_contains(?, finding_id))"
    asked = [cluster_id, from_ms, still_shown]
    rows = warehouse.read(FINDINGS, None, where, asked, version=versions[FINDINGS]).to_pylist()
    rows.sort(key=lambda row: (row["first_seen_at_ms"], row["finding_id"]))
    return [(row["group_id"], from_row(Finding, row)) for row in rows]


def _reassignments(
    warehouse: Warehouse, versions: Mapping[str, int], cluster_id: str, from_ms: int
) -> list[Reassignment]:
    where = "cluster_id = ? AND coalesce(ended_at_ms, started_at_ms, ?) >= ? OR outcome = 'open'"
    rows = warehouse.read(
        REASSIGNMENTS, None, where, [cluster_id, from_ms, from_ms], version=versions[REASSIGNMENTS]
    ).to_pylist()
    return [reassignment_of(row) for row in rows if row["cluster_id"] == cluster_id]


def _marks_of_evidence(warehouse: Warehouse, since: Mapping[str, int]) -> list[dict[str, Any]]:
    """The marks from these moments on, by cluster."""
    where = "source = 'evidence' AND cluster_id = ? AND at_ms >= ?"
    return [
        row
        for place in sorted(since.items())
        for row in warehouse.read("gold.mark", ["cluster_id", "mark_id"], where, place).to_pylist()
    ]


def _scope(key: str, gone: Iterable[Mapping[str, Any]], rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """The keys of the rows that go, and of those that should be."""
    keys = sorted({(r["cluster_id"], r[key]) for r in gone} | {(r["cluster_id"], r[key]) for r in rows})
    return pa.table(
        {"cluster_id": pa.array([k[0] for k in keys], pa.string()), key: pa.array([k[1] for k in keys], pa.string())}
    )
