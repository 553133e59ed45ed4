"""All the app reads, as typed answers. The only reader: pages and charts never see a table.

Answers are remembered per publication: a new one (see `Warehouse.publish`) forgets them all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeVar

import duckdb
import pandas as pd
import pyarrow as pa
from deltalake.exceptions import DeltaError

from app.answers import (
    Cause,
    Check,
    Cluster,
    ConnectTask,
    Coverage,
    Finding,
    Fleet,
    Group,
    Incident,
    Member,
    Movement,
    Neighbours,
    Rebalance,
    Span,
    State,
    Trigger,
    Undecoded,
)
from rebalance_audit.domain.verdicts import last_verdicts
from rebalance_audit.warehouse import Warehouse, WarehouseError

__all__ = ["Reader", "WarehouseError"]


T = TypeVar("T")
HOUR_MS = 3_600_000
SPARK_BUCKETS = 24
_KEPT_ANSWERS = 512

_AT = "coalesce(r.assigned_at_ms, r.ended_at_ms, r.joined_at_ms, r.started_at_ms, r.started_lower_ms)"
"""When a rebalance was, for ordering and ranges: the best known of its times."""
_COUNTED = "r.kind = 'rebalance'"
_GROUP_UNIT = "CASE WHEN protocol_type = 'connect' THEN 'task' ELSE 'partition' END"


class Reader:
    """Typed questions to one warehouse. Safe to share between threads."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._answers: dict[tuple[Any, ...], pa.Table] = {}
        self._publication: tuple[Any, ...] | None = None

    @classmethod
    def open(cls, location: str | os.PathLike[str]) -> Reader:
        """Raises WarehouseError: missing, no warehouse, or written by a newer version."""
        return cls(Warehouse.open(location))

    @property
    def location(self) -> str:
        return self._warehouse.location

    def refresh(self) -> None:
        """See the newest publication from here on."""
        newest = tuple(sorted(self._warehouse.published().items()))
        with self._lock:
            if newest != self._publication:
                self._answers.clear()
                self._publication = newest

    def table(self, sql: str, params: Sequence[Any] = ()) -> pa.Table:
        key = (sql, *(tuple(p) if isinstance(p, list) else p for p in params))
        with self._lock:
            asked_of, known = self._publication, self._answers.get(key)
        if known is not None:
            return known
        try:
            answer = self._warehouse.query(sql, params)
        except (duckdb.Error, DeltaError, OSError) as error:
            raise WarehouseError(
                f"Tables of the warehouse at {self.location} cannot be read ({type(error).__name__}: "
                f"{str(error)[:300]}); "
                "see that its files are complete and readable, or restore them, then reload."
            ) from error
        with self._lock:
            if asked_of is not None and asked_of == self._publication:
                while len(self._answers) >= _KEPT_ANSWERS:
                    self._answers.pop(next(iter(self._answers)))
                self._answers[key] = answer
        return answer

    def rows(self, sql: str, params: Sequence[Any] = ()) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.table(sql, params).to_pylist()
        return found

    def frame(self, sql: str, params: Sequence[Any] = ()) -> pd.DataFrame:
        return self.table(sql, params).to_pandas()

    def group_count(self) -> int:
        return int(self.rows("SELECT count(*) AS n FROM gold.group")[0]["n"])

    # ---- the whole -------------------------------------------------------------------------------------------

    def state(self) -> State:
        row = self.rows(
            "SELECT (SELECT count(*) FROM gold.group) AS groups, (SELECT count(*) FROM bronze.record) AS records,"
            " (SELECT count(*) FROM bronze.log_line) AS lines"
        )[0]
        return State(
            is_published=bool(self._warehouse.published()),
            group_count=row["groups"],
            record_count=row["records"],
            line_count=row["lines"],
        )

    def span(self, cluster_id: str | None = None, group_id: str | None = None) -> Span | None:
        """From the first thing seen to the end of evidence; of one group, from its first rebalance."""
        row = self.rows(
            "SELECT min(f) AS f, max(t) AS t FROM (SELECT min(from_at_ms) AS f, max(to_at_ms) AS t FROM gold.coverage"
            " WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
            f" UNION ALL SELECT min(coalesce(r.started_at_ms, {_AT})), max(greatest({_AT}, coalesce(r.ended_at_ms, 0)))"
            " FROM gold.rebalance r WHERE (?::VARCHAR IS NULL OR r.cluster_id = ?))",
            (cluster_id, cluster_id, cluster_id, cluster_id),
        )[0]
        first = row["f"]
        if group_id is not None:
            first = self.rows(
                f"SELECT min(coalesce(r.started_at_ms, {_AT})) AS f FROM gold.rebalance r"
                " WHERE r.cluster_id = ? AND r.group_id = ?",
                (cluster_id, group_id),
            )[0]["f"]
        return None if first is None else Span(from_ms=int(first), to_ms=int(row["t"]))

    def clusters(self) -> list[Cluster]:
        """Freshest last, so that what stopped being watched is seen first."""
        rows = self.rows(
            f"""
            WITH g AS (SELECT cluster_id, count(*) AS groups FROM gold.group GROUP BY 1),
                 r AS (SELECT r.cluster_id, count(*) FILTER ({_COUNTED}) AS rebalances, min({_AT}) AS f, max({_AT}) AS t
                       FROM gold.rebalance r GROUP BY 1),
                 c AS (SELECT cluster_id, count(*) FILTER (is_gap) AS gaps, count(DISTINCT source) AS sources,
                              min(from_at_ms) AS f, max(to_at_ms) AS t FROM gold.coverage GROUP BY 1),
                 i AS (SELECT cluster_id, count(*) FILTER (status = 'open') AS findings FROM gold.finding GROUP BY 1),
                 a AS (SELECT cluster_id FROM g UNION SELECT cluster_id FROM r UNION SELECT cluster_id FROM c)
            SELECT a.cluster_id, coalesce(groups, 0) AS group_count, coalesce(rebalances, 0) AS rebalance_count,
                   coalesce(findings, 0) AS open_finding_count, coalesce(gaps, 0) AS gap_count,
                   coalesce(sources, 0) AS source_count, least(r.f, c.f) AS first_at_ms,
                   greatest(r.t, c.t) AS last_at_ms
            FROM a LEFT JOIN g USING (cluster_id) LEFT JOIN r USING (cluster_id) LEFT JOIN c USING (cluster_id)
                   LEFT JOIN i USING (cluster_id)
            ORDER BY last_at_ms NULLS FIRST, a.cluster_id
            """
        )
        return [Cluster(**row) for row in rows]

    def fleet(self, span: Span) -> Fleet:
        row = self.rows(
            f"""
            SELECT count(*) AS rebalance_count, count(*) FILTER (r.expected) AS expected_count,
                   count(DISTINCT (r.cluster_id, r.group_id)) AS group_count,
                   count(*) FILTER (r.resource_seconds_estimate IS NULL AND r.resource_count > 0
                                    AND r.moved_count + r.returned_count > 0) AS unknown_cost_count,
                   sum(r.resource_seconds_estimate) FILTER (r.protocol_type IS DISTINCT
                     FROM 'connect') AS partition_seconds,
                   sum(r.resource_seconds_estimate) FILTER (r.protocol_type = 'connect') AS task_seconds
            FROM gold.rebalance r WHERE {_COUNTED} AND {_AT} BETWEEN ? AND ?
            """,
            (span.from_ms, span.to_ms),
        )[0]
        causes = self.rows(
            f"""
            SELECT r.trigger, count(*) AS rebalance_count, sum(r.resource_seconds_estimate) AS resource_seconds
            FROM gold.rebalance r WHERE {_COUNTED} AND {_AT} BETWEEN ? AND ?
            GROUP BY 1 ORDER BY 2 DESC, 3 DESC NULLS LAST, 1
            """,
            (span.from_ms, span.to_ms),
        )
        return Fleet(**row, causes=tuple(Cause(**c) for c in causes))

    # ---- findings --------------------------------------------------------------------------------------------

    def findings(
        self,
        status: str | None = None,
        rule_id: str | None = None,
        subject: str | None = None,
        cluster_id: str | None = None,
        group_id: str | None = None,
    ) -> list[Finding]:
        """Open before resolved, worst first, newest first."""
        rows = self.rows(
            """
            SELECT * FROM gold.finding WHERE (?::VARCHAR IS NULL OR status = ?) AND (?::VARCHAR IS NULL OR rule_id = ?)
              AND (?::VARCHAR IS NULL OR subject = ?) AND (?::VARCHAR IS NULL OR cluster_id = ?)
              AND (?::VARCHAR IS NULL OR group_id = ?)
            ORDER BY status, CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END,
                     last_seen_at_ms DESC, finding_id
            """,
            (status, status, rule_id, rule_id, subject, subject, cluster_id, cluster_id, group_id, group_id),
        )
        return [_finding(row) for row in rows]

    def finding(self, cluster_id: str, finding_id: str) -> Finding | None:
        rows = self.rows("SELECT * FROM gold.finding WHERE cluster_id = ? AND finding_id = ?", (cluster_id, finding_id))
        return _finding(rows[0]) if rows else None

    def open_incidents(self, most: int = 200) -> list[Incident]:
        """Open findings with what their group lost while they lasted.

        Infos, and findings about the evidence itself (TR...), are left to their own pages.
        """
        rows = self.rows(
            f"""
            WITH f AS (SELECT * FROM gold.finding WHERE status = 'open' AND severity <> 'info'
              AND rule_id NOT LIKE 'TR%'
                       ORDER BY CASE severity WHEN 'critical' THEN 0 ELSE 1 END, last_seen_at_ms DESC,
                         finding_id LIMIT {most:d}),
                 c AS (SELECT f.cluster_id, f.finding_id, sum(r.resource_seconds_estimate) AS resource_seconds,
                              count(*) AS rebalance_count, any_value(r.protocol_type) AS protocol_type
                       FROM f JOIN gold.rebalance r ON r.cluster_id = f.cluster_id
                         AND r.group_id = f.group_id AND {_COUNTED}
                            AND {_AT} BETWEEN f.first_seen_at_ms AND f.last_seen_at_ms GROUP BY 1, 2)
            SELECT f.*, c.resource_seconds AS cost, coalesce(c.rebalance_count, 0) AS rebalances, {_GROUP_UNIT} AS unit
            FROM f LEFT JOIN c USING (cluster_id, finding_id)
            ORDER BY CASE severity WHEN 'critical' THEN 0 ELSE 1 END, last_seen_at_ms DESC, finding_id
            """
        )
        return [
            Incident(
                finding=_finding(row),
                resource_seconds=row["cost"],
                unit=row["unit"],
                rebalance_count=row["rebalances"],
            )
            for row in rows
        ]

    # ---- groups ----------------------------------------------------------------------------------------------

    def groups(self, span: Span) -> pd.DataFrame:
        """One row per group with its numbers in the span, costliest first.

        `rebalances_over_time` cuts the span into equal parts, oldest first. Costs and pauses are NaN where not known.
        """
        bucket_ms = max(1, span.length_ms / SPARK_BUCKETS)
        return self.frame(
            f"""
            WITH hits AS (
                SELECT r.cluster_id, r.group_id, r.pause_estimate_ms, r.resource_seconds_estimate, r.expected,
                       least({SPARK_BUCKETS - 1}, ({_AT} - ?) // ?)::INT AS bucket
                FROM gold.rebalance r WHERE {_COUNTED} AND {_AT} BETWEEN ? AND ?),
            per_bucket AS (SELECT cluster_id, group_id, bucket, count(*) AS n FROM hits GROUP BY ALL),
            lines AS (
                SELECT cluster_id, group_id, map_from_entries(list((bucket, n))) AS by_bucket
                  FROM per_bucket GROUP BY ALL),
            sums AS (
                SELECT cluster_id, group_id, count(*) AS rebalances, count(*) FILTER (NOT expected) AS unexpected,
                       quantile_cont(pause_estimate_ms, 0.95) AS pause_p95_ms, sum(resource_seconds_estimate) AS cost
                FROM hits GROUP BY ALL)
            SELECT g.cluster_id, g.group_id, g.team, g.group_type, g.protocol_type, g.state, g.mode, g.assignor,
                   g.member_count, g.resource_count, coalesce(s.rebalances, 0) AS rebalances,
                   coalesce(s.unexpected, 0) AS unexpected, s.pause_p95_ms, s.cost, g.open_finding_count,
                     g.worst_severity,
                   g.last_rebalance_at_ms,
                   [coalesce(l.by_bucket[b], 0)::INT FOR b IN range({SPARK_BUCKETS})] AS rebalances_over_time
            FROM gold.group g LEFT JOIN sums s USING (cluster_id, group_id) LEFT JOIN lines l USING (cluster_id,
              group_id)
            ORDER BY s.cost DESC NULLS LAST, rebalances DESC, g.cluster_id, g.group_id
            """,
            (span.from_ms, bucket_ms, span.from_ms, span.to_ms),
        )

    def group(self, cluster_id: str, group_id: str) -> Group | None:
        rows = self.rows(
            f"SELECT {', '.join(Group.__dataclass_fields__)} FROM gold.group WHERE cluster_id = ? AND group_id = ?",
            (cluster_id, group_id),
        )
        return Group(**rows[0]) if rows else None

    def group_rebalances(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """The group's rebalances in the span, oldest first, without their members and movements."""
        return self.frame(
            f"""
            SELECT r.* EXCLUDE (triggers), {_AT} AS at_ms FROM gold.rebalance r
            WHERE r.cluster_id = ? AND r.group_id = ? AND {_AT} BETWEEN ? AND ?
            ORDER BY coalesce(r.generation_id, r.group_epoch), r.rewrite_seq, at_ms, r.rebalance_id
            """,
            (cluster_id, group_id, span.from_ms, span.to_ms),
        )

    def group_members(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """One row per member and rebalance: who it was and how much it held before and after."""
        return self.frame(
            f"""
            SELECT m.rebalance_id, m.member_id, m.group_instance_id, m.client_id, m.client_host, m.worker_url, m.change,
                   len(m.owned_before)::INT AS before_count, len(m.assigned)::INT AS after_count, {_AT} AS at_ms
            FROM gold.rebalance_member m JOIN gold.rebalance r USING (cluster_id, rebalance_id)
            WHERE r.cluster_id = ? AND r.group_id = ? AND {_AT} BETWEEN ? AND ?
            ORDER BY at_ms, m.rebalance_id, m.member_id
            """,
            (cluster_id, group_id, span.from_ms, span.to_ms),
        )

    def group_movements(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """One row per resource that stopped, moved or began, oldest rebalance first."""
        return self.frame(
            f"""
            SELECT m.rebalance_id, m.resource, m.kind, m.from_member_id, m.to_member_id, m.revoked_in_rebalance_id,
                   m.stopped_at_lower_ms, m.stopped_at_upper_ms, m.resumed_at_lower_ms, m.resumed_at_upper_ms,
                   m.pause_estimate_ms, {_AT} AS at_ms
            FROM gold.movement m JOIN gold.rebalance r USING (cluster_id, rebalance_id)
            WHERE r.cluster_id = ? AND r.group_id = ? AND {_AT} BETWEEN ? AND ?
            ORDER BY at_ms, m.rebalance_id, m.resource
            """,
            (cluster_id, group_id, span.from_ms, span.to_ms),
        )

    def group_causes(self, cluster_id: str, group_id: str, span: Span) -> list[Cause]:
        """Causes of the group's rebalances, the commonest first, each with the client it was mostly about."""
        rows = self.rows(
            f"""
            WITH hits AS (
                SELECT r.cluster_id, r.rebalance_id, r.trigger, r.resource_seconds_estimate,
                  r.triggers[1].members AS members
                FROM gold.rebalance r
                WHERE {_COUNTED} AND r.cluster_id = ? AND r.group_id = ? AND {_AT} BETWEEN ? AND ?),
            who AS (
                SELECT h.trigger, coalesce(m.group_instance_id, m.client_id, m.worker_url) AS client,
                       count(DISTINCT h.rebalance_id) AS n
                FROM hits h JOIN gold.rebalance_member m USING (cluster_id, rebalance_id)
                WHERE list_contains(h.members, m.member_id) GROUP BY ALL),
            top AS (SELECT trigger, arg_max(client, n) AS client, max(n) AS client_count FROM who GROUP BY 1)
            SELECT h.trigger, count(*) AS rebalance_count, sum(h.resource_seconds_estimate) AS resource_seconds,
                   any_value(t.client) AS client, coalesce(any_value(t.client_count), 0) AS client_count
            FROM hits h LEFT JOIN top t USING (trigger) GROUP BY 1 ORDER BY 2 DESC, 3 DESC NULLS LAST, 1
            """,
            (cluster_id, group_id, span.from_ms, span.to_ms),
        )
        return [Cause(**row) for row in rows]

    # ---- one rebalance ---------------------------------------------------------------------------------------

    def rebalance(self, cluster_id: str, rebalance_id: str) -> Rebalance | None:
        """With its members and movements, the longest pause first."""
        where = (cluster_id, rebalance_id)
        rows = self.rows("SELECT * FROM gold.rebalance WHERE cluster_id = ? AND rebalance_id = ?", where)
        if not rows:
            return None
        members = self.rows(
            "SELECT * EXCLUDE (cluster_id, rebalance_id, group_id, generation_id, group_epoch) FROM "
            "gold.rebalance_member"
            " WHERE cluster_id = ? AND rebalance_id = ? ORDER BY group_instance_id, client_id, client_host, member_id",
            where,
        )
        movements = self.rows(
            "SELECT * EXCLUDE (cluster_id, rebalance_id, group_id, generation_id, group_epoch) FROM gold.movement"
            " WHERE cluster_id = ? AND rebalance_id = ?"
            " ORDER BY pause_estimate_ms DESC NULLS LAST, topic, connector, partition, task, resource",
            where,
        )
        row = {
            **rows[0],
            "triggers": tuple(_made(Trigger, t) for t in rows[0]["triggers"] or ()),
            "members": tuple(_made(Member, m) for m in members),
            "movements": tuple(_made(Movement, m) for m in movements),
        }
        return _made(Rebalance, row)

    def neighbours(self, cluster_id: str, group_id: str, rebalance_id: str) -> Neighbours:
        rows = self.rows(
            f"""
            WITH o AS (SELECT r.rebalance_id, lag(r.rebalance_id) OVER w AS before, lead(r.rebalance_id) OVER w AS after
                       FROM gold.rebalance r WHERE r.cluster_id = ? AND r.group_id = ?
                       WINDOW w AS (ORDER BY coalesce(r.generation_id, r.group_epoch), r.rewrite_seq, {_AT},
                         r.rebalance_id))
            SELECT before, after FROM o WHERE rebalance_id = ?
            """,
            (cluster_id, group_id, rebalance_id),
        )
        return Neighbours(**rows[0]) if rows else Neighbours(before=None, after=None)

    def citing(self, cluster_id: str, ref: str) -> tuple[list[dict[str, Any]], list[Finding]]:
        """What rests on one piece of evidence: rebalances (id, group, number), and findings."""
        rebalances = self.rows(
            f"""
            SELECT r.rebalance_id, r.group_id, r.generation_id, r.group_epoch, r.rewrite_seq, {_AT} AS at_ms
            FROM gold.rebalance r WHERE r.cluster_id = ? AND (list_contains(r.evidence, ?) OR r.rebalance_id IN (
                SELECT m.rebalance_id FROM gold.movement m WHERE m.cluster_id = ? AND list_contains(m.evidence, ?)))
            ORDER BY at_ms LIMIT 50
            """,
            (cluster_id, ref, cluster_id, ref),
        )
        findings = self.rows(
            "SELECT * FROM gold.finding WHERE cluster_id = ? AND list_contains(evidence, ?) ORDER BY finding_id "
            "LIMIT 50",
            (cluster_id, ref),
        )
        return rebalances, [_finding(row) for row in findings]

    # ---- Connect ---------------------------------------------------------------------------------------------

    def connect_groups(self) -> list[tuple[str, str]]:
        rows = self.rows(
            "SELECT DISTINCT cluster_id, group_id FROM (SELECT cluster_id, group_id FROM gold.connect_task UNION ALL"
            " SELECT cluster_id, group_id FROM gold.group WHERE protocol_type = 'connect') ORDER BY ALL"
        )
        return [(row["cluster_id"], row["group_id"]) for row in rows]

    def connect_span(self, cluster_id: str, group_id: str) -> Span | None:
        """From the first task or rebalance of this Connect cluster to the end of evidence."""
        first = self.rows(
            "SELECT min(from_ms) AS f FROM gold.connect_task WHERE cluster_id = ? AND group_id = ?",
            (cluster_id, group_id),
        )[0]["f"]
        of_group, of_cluster = self.span(cluster_id, group_id), self.span(cluster_id)
        starts = [f for f in (first, of_group.from_ms if of_group else None) if f is not None]
        return Span(from_ms=min(starts), to_ms=of_cluster.to_ms) if starts and of_cluster else None

    def connect_tasks(self, cluster_id: str, group_id: str, span: Span) -> list[ConnectTask]:
        """Intervals that touch the span, by connector, task and time."""
        rows = self.rows(
            "SELECT * FROM gold.connect_task WHERE cluster_id = ? AND group_id = ? AND from_ms <= ?"
            " AND (to_ms IS NULL OR to_ms >= ?) ORDER BY connector, resource_type, task, from_ms, state",
            (cluster_id, group_id, span.to_ms, span.from_ms),
        )
        return [_made(ConnectTask, row) for row in rows]

    def waiting(self, cluster_id: str, group_id: str, span: Span) -> list[ConnectTask]:
        """Intervals of the span in which a task or connector waited by design."""
        rows = self.rows(
            "SELECT * FROM gold.connect_task WHERE cluster_id = ? AND group_id = ? AND state = 'WAITING'"
            " AND from_ms <= ? AND (to_ms IS NULL OR to_ms >= ?) ORDER BY connector, task, from_ms",
            (cluster_id, group_id, span.to_ms, span.from_ms),
        )
        return [_made(ConnectTask, row) for row in rows]

    def kinds(self, cluster_id: str, refs: Sequence[str]) -> dict[str, str]:
        """What each ref is: a record type or a kind of log line. Commits and unread refs are left out."""
        rows = self.rows(
            "SELECT ref, kind FROM silver.group_event WHERE cluster_id = ? AND ref IN (SELECT unnest(?::VARCHAR[]))",
            (cluster_id, list(refs)),
        )
        return {row["ref"]: row["kind"] for row in rows}

    # ---- trust -----------------------------------------------------------------------------------------------

    def coverage(self, cluster_id: str | None = None) -> list[Coverage]:
        """Gaps first."""
        rows = self.rows(
            "SELECT * FROM gold.coverage WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
            " ORDER BY is_gap DESC, cluster_id, source, from_position",
            (cluster_id, cluster_id),
        )
        return [Coverage(**row) for row in rows]

    def undecoded(self, most: int = 500) -> list[Undecoded]:
        rows = self.rows(
            f"SELECT {', '.join(Undecoded.__dataclass_fields__)} FROM silver.undecoded"
            f" ORDER BY at_ms DESC NULLS LAST, ref LIMIT {most:d}"
        )
        return [Undecoded(**row) for row in rows]

    def undecoded_counts(self) -> dict[str, int]:
        rows = self.rows("SELECT reason, count(*) AS n FROM silver.undecoded GROUP BY 1 ORDER BY 2 DESC, 1")
        return {row["reason"]: row["n"] for row in rows}

    def decode_counts(self) -> dict[str, int]:
        """The decode stage's books, summed: in, event, commit, undecoded, skipped."""
        row = self.rows(
            'SELECT sum(in_count)::BIGINT AS "in", sum(event_count)::BIGINT AS event, sum(commit_count)::BIGINT '
            'AS "commit",'
            " sum(undecoded_count)::BIGINT AS undecoded, sum(skipped_count)::BIGINT AS skipped FROM silver.decode_count"
        )[0]
        return {k: int(v or 0) for k, v in row.items()}

    def checks(self) -> list[Check]:
        """The newest verdict of each check; failed ones first."""
        rows = last_verdicts(self.rows("SELECT * FROM gold.check"))
        return [_made(Check, row) for row in sorted(rows, key=lambda row: (row["success"], not row["is_fatal"]))]


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _finding(row: dict[str, Any]) -> Finding:
    return _made(Finding, row)


def _made(kind: type[T], row: Mapping[str, Any]) -> T:
    """A row as a dataclass; columns it does not have are left out, null lists become empty where it asks for one."""
    known = {f.name: f for f in fields(kind)}  # type: ignore[arg-type]
    made = {k: _frozen(v) for k, v in row.items() if k in known}
    for k, v in made.items():
        if v is None and known[k].default == ():
            made[k] = ()
    return kind(**made)
