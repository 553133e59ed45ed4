"""Incidents and marks: what is going on, since when, and what it cost whom."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.answers.rows import ChainLink, GroupCost, IncidentCount, IncidentKind, IncidentRow, MarkRow, Span
from app.queries.fleet import FleetQuestions
from app.queries.tables import made
from rebalance_audit.domain import numbers
from rebalance_audit.warehouse.catalog import BOOKING_OF

_HOME_OPEN, _HOME_OVER = 12, 6
"""On the first screen; what more there is, is folded away."""
HOME_ALIKE = 3
"""So many of one kind stand there before those of other kinds."""
_TOUCHES = "i.first_at_ms <= ? AND (i.status = 'open' OR i.last_at_ms >= ?)"
"""What is open goes on, however long ago its last rebalance was; so the page Groups counts it as well."""
_GRAVEST_FIRST = "CASE i.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END"
_STANDS_STILL = "i.status = 'open' AND coalesce(i.still, '') IN ('down', 'empty', 'waiting')"
"""Somebody stands still, nobody is left, or tasks wait, where the evidence ends."""
_ORDER = (
    f"i.status <> 'open', NOT ({_STANDS_STILL}), i.severity <> 'critical', i.cost_seconds DESC NULLS LAST, "
    f"{_GRAVEST_FIRST}, CASE i.status WHEN 'open' THEN i.first_at_ms ELSE -i.last_at_ms END, "
    "i.cluster_id, i.incident_id"
)
_KIND = f"""
    SELECT i.cluster_id, i.incident_id,
           coalesce(arg_min(f.rule_id, ({_GRAVEST_FIRST.replace("i.", "f.")}, f.rule_id)),
                    any_value(i.root_cause)) AS kind
    FROM (SELECT cluster_id, incident_id, root_cause,
                 unnest(CASE WHEN len(finding_ids) > 0 THEN finding_ids ELSE [NULL] END) AS finding_id
          FROM flat.incident WHERE status = 'open' AND NOT expected) i
    LEFT JOIN gold.finding f USING (cluster_id, finding_id) GROUP BY ALL
"""
"""The rule of the gravest finding of each open incident that nobody meant, or its root cause where it has none."""


class IncidentQuestions(FleetQuestions):
    def _incidents_of(self, rows: Sequence[dict[str, Any]]) -> list[IncidentRow]:
        ends = {c.cluster_id: c.last_at_ms for c in self.clusters()} if rows else {}
        return [incident_of(row | {"evidence_ended_at_ms": ends.get(row["cluster_id"])}) for row in rows]

    def _incident_of(self, rows: Sequence[dict[str, Any]]) -> IncidentRow | None:
        return next(iter(self._incidents_of(rows[:1])), None)

    def incidents(
        self,
        span: Span | None = None,
        *,
        cluster_id: str | None = None,
        group_id: str | None = None,
        expected: bool | None = None,
        is_open: bool | None = None,
        most: int = 200,
        of_each_kind: int | None = None,
    ) -> list[IncidentRow]:
        """Those that touch the span, open before over: what stands still now, then critical ones, then by cost. Their
        number is `incident_count`'s.

        `of_each_kind`: so many of the same kind and severity stand before all others, so that sixty alike do not hide
        the rest. The kind of one that is over is its root cause."""
        span = span or Span(from_ms=0, to_ms=1 << 62)
        kinds, is_more = "", "FALSE"
        if of_each_kind is not None:
            kinds = f"LEFT JOIN ({_KIND}) k USING (cluster_id, incident_id)"
            alike = f"PARTITION BY i.status, i.severity, coalesce(k.kind, i.root_cause) ORDER BY {_ORDER}"
            is_more = f"row_number() OVER ({alike}) > {of_each_kind:d}"
        rows = self.advised(
            f"""
            WITH found AS (
                SELECT i.*, {is_more} AS is_more FROM flat.incident i {kinds} WHERE {_TOUCHES}
                  AND (?::VARCHAR IS NULL OR i.cluster_id = ?)
                  AND (?::VARCHAR IS NULL OR list_contains(i.group_ids, ?))
                  AND (?::BOOLEAN IS NULL OR i.expected = ?)
                  AND (?::BOOLEAN IS NULL OR (i.status = 'open') = ?)
                ORDER BY is_more, {_ORDER} LIMIT {most:d}),
            twice AS (SELECT {BOOKING_OF.format("m")} AS booking, max(overlap_ms) AS overlap_ms FROM gold.movement m
                      WHERE overlap_ms > 0 AND coalesce(pause_likely_upper_ms, 0) <= 0 GROUP BY ALL),
            met_twice AS (SELECT cluster_id, incident_id, max(overlap_ms) AS overlap_ms
                         FROM (SELECT cluster_id, incident_id, unnest(bookings) AS booking FROM found)
                         JOIN twice USING (booking) GROUP BY ALL)
            SELECT i.* EXCLUDE (bookings, is_more), o.overlap_ms
            FROM found i LEFT JOIN met_twice o USING (cluster_id, incident_id) ORDER BY is_more, {_ORDER}
            """,
            (
                *(span.to_ms, span.from_ms, cluster_id, cluster_id, group_id, group_id),
                *(expected, expected, is_open, is_open),
            ),
        )
        return self._incidents_of(rows)

    def costliest(self, span: Span) -> IncidentRow | None:
        """Of those that nobody meant, open or over, that touch the span; None where no cost is known."""
        rows = self.advised(
            f"""
            SELECT i.* EXCLUDE (bookings) FROM flat.incident i
            WHERE {_TOUCHES} AND NOT i.expected AND i.cost_seconds > 0
            ORDER BY i.cost_seconds DESC, {_ORDER} LIMIT 1
            """,
            (span.to_ms, span.from_ms),
        )
        return self._incident_of(rows)

    def open_at_home(self, span: Span) -> list[IncidentRow]:
        return self.incidents(span, expected=False, is_open=True, most=_HOME_OPEN, of_each_kind=HOME_ALIKE)

    def over_at_home(self, span: Span) -> list[IncidentRow]:
        return self.incidents(span, expected=False, is_open=False, most=_HOME_OVER, of_each_kind=HOME_ALIKE)

    def open_kinds(self, span: Span) -> list[IncidentKind]:
        """What is open, by kind: in the order of the list of incidents, by the first of each."""
        rows = self.rows(
            f"""
            SELECT kind, count(*) AS incident_count FROM (
                SELECT k.kind, row_number() OVER (ORDER BY {_ORDER}) AS place
                FROM flat.incident i JOIN ({_KIND}) k USING (cluster_id, incident_id) WHERE i.first_at_ms <= ?)
            GROUP BY 1 ORDER BY min(place)
            """,
            (span.to_ms,),
        )
        return [IncidentKind(**row) for row in rows]

    def incident_count(self, span: Span) -> IncidentCount:
        """Counts all incidents that touch the span."""
        row = self.rows(
            f"""
            SELECT count(*) FILTER (NOT expected AND status = 'open') AS open_count,
                   count(*) FILTER (NOT expected AND status = 'open' AND severity = 'critical') AS critical_count,
                   count(*) FILTER (NOT expected AND status = 'open' AND still NOT IN ('empty', 'nothing'))
                     AS going_on_count,
                   count(*) FILTER (NOT expected AND status = 'open' AND still = 'empty') AS empty_count,
                   count(*) FILTER (NOT expected AND status = 'open' AND still = 'nothing') AS quiet_count,
                   count(*) FILTER (NOT expected AND status <> 'open') AS over_count,
                   count(*) FILTER (expected) AS expected_count,
                   sum(cost_seconds) FILTER (NOT expected AND status = 'open' AND unit <> 'task')
                     AS open_partition_seconds,
                   sum(cost_seconds) FILTER (NOT expected AND status = 'open' AND unit = 'task') AS open_task_seconds,
                   count(*) FILTER (NOT expected AND status = 'open' AND cost_seconds IS NULL AND len(bookings) > 0)
                     AS open_unknown_count,
                   sum(cost_seconds) FILTER (expected AND unit <> 'task')
                     AS expected_partition_seconds,
                   sum(cost_seconds) FILTER (expected AND unit = 'task') AS expected_task_seconds,
                   count(*) FILTER (cost_seconds > 0
                     AND (first_at_ms < {span.from_ms:d} OR last_at_ms > {span.to_ms:d})) AS longer_count
            FROM flat.incident i WHERE {_TOUCHES}
            """,
            (span.to_ms, span.from_ms),
        )[0]
        return IncidentCount(**row)

    def incident(self, cluster_id: str, incident_id: str) -> IncidentRow | None:
        rows = self.advised(
            "SELECT * FROM gold.incident i WHERE i.cluster_id = ? AND i.incident_id = ?", (cluster_id, incident_id)
        )
        return self._incident_of(rows)

    def incident_of_mark(self, mark: MarkRow) -> IncidentRow | None:
        """The change itself, of a mark that was found in evidence."""
        rows = self.advised(
            """
            SELECT * FROM gold.incident
            WHERE cluster_id = ? AND first_at_ms <= ? AND last_at_ms >= ?
              AND kind IN ('deploy', 'configuration', 'removal', 'reassignment')
              AND (title = ? OR list_contains(group_ids, ?))
            ORDER BY title = ? DESC, first_at_ms DESC, incident_id LIMIT 1
            """,
            (mark.cluster_id, mark.at_ms, mark.at_ms, mark.text, mark.scope, mark.text),
        )
        return self._incident_of(rows) if mark.source == "evidence" else None

    def incident_costs(self, cluster_id: str, incident_id: str) -> list[GroupCost]:
        """Its cost by group, the highest first. Unknown costs are no part of a sum; an unknown bound makes it None."""
        wanted = (cluster_id, cluster_id, incident_id)
        its_own = (
            "r.cluster_id = ? AND r.rebalance_id IN "
            "(SELECT unnest(rebalance_ids) FROM gold.incident WHERE cluster_id = ? AND incident_id = ?)"
        )
        rows = self.rows(
            f"""
            SELECT r.group_id, any_value(r.team) AS team, {numbers.COUNT} AS rebalance_count,
                   any_value({numbers.UNIT}) AS unit,
                   {numbers.COST} AS estimate, {numbers.COST_LOWER} AS lower, {numbers.COST_UPPER} AS upper
            FROM near.rebalance r WHERE {its_own}
            GROUP BY 1 ORDER BY estimate DESC NULLS LAST, 1
            """,
            wanted,
            near=(its_own, wanted),
        )
        return [GroupCost(**row) for row in rows]

    def incident_of_rebalance(self, cluster_id: str, rebalance_id: str) -> IncidentRow | None:
        """The incident that a rebalance belongs to."""
        rows = self.advised(
            "SELECT i.* EXCLUDE (bookings) FROM flat.incident i "
            "WHERE i.cluster_id = ? AND list_contains(i.bookings, hash(?::VARCHAR, ?::VARCHAR))",
            (cluster_id, cluster_id, rebalance_id),
        )
        return self._incident_of(rows)

    def marks(
        self,
        span: Span | None = None,
        cluster_id: str | None = None,
        group_ids: Sequence[str] | None = None,
        most: int = 500,
    ) -> list[MarkRow]:
        """Newest first, of groups those whose scope takes one of them in. Moves of replicas have lines of their own."""
        of = None if group_ids is None else list(group_ids)
        span = span or Span(from_ms=0, to_ms=1 << 62)
        rows = self.rows(
            f"""
            SELECT * FROM gold.mark m WHERE m.at_ms BETWEEN ? AND ? AND (?::VARCHAR IS NULL OR m.cluster_id = ?)
              AND (?::VARCHAR[] IS NULL OR len(list_filter(?::VARCHAR[], g -> g = m.scope OR g GLOB m.scope)) > 0)
            ORDER BY m.at_ms DESC, m.cluster_id, m.mark_id LIMIT {most:d}
            """,
            (span.from_ms, span.to_ms, cluster_id, cluster_id, of, of),
        )
        return [made(MarkRow, row) for row in rows]


def incident_of(row: dict[str, Any]) -> IncidentRow:
    chain = tuple(made(ChainLink, link) for link in row.get("chain") or ())
    return made(IncidentRow, {**row, "chain": chain, "unit": row.get("unit") or "resource"})
