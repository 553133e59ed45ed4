"""Incidents and marks: what is going on, since when, and what it cost whom."""

from __future__ import annotations

from typing import Any

from app.answers.rows import ChainLink, GroupCost, IncidentCount, IncidentRow, MarkRow, Span
from app.queries.tables import Tables, made
from rebalance_audit.domain import numbers
from rebalance_audit.warehouse.catalog import BOOKING_OF

_TOUCHES = "i.first_at_ms <= ? AND (i.status = 'open' OR i.last_at_ms >= ?)"
"""What is open goes on, however long ago its last rebalance was; so the page Groups counts it as well."""
_GRAVEST_FIRST = "CASE i.severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END"
_ORDER = (
    "ORDER BY i.status <> 'open', i.severity <> 'critical', i.cost_seconds DESC NULLS LAST, "
    f"{_GRAVEST_FIRST}, i.last_at_ms DESC, i.cluster_id, i.incident_id"
)


class IncidentQuestions(Tables):
    def incidents(
        self,
        span: Span | None = None,
        *,
        cluster_id: str | None = None,
        group_id: str | None = None,
        expected: bool | None = None,
        is_open: bool | None = None,
        most: int = 200,
    ) -> list[IncidentRow]:
        """Those that touch the span, open before over, then by cost. Their number is `incident_count`'s."""
        span = span or Span(from_ms=0, to_ms=1 << 62)
        rows = self.rows(
            f"""
            WITH found AS (
                SELECT * FROM flat.incident i WHERE {_TOUCHES}
                  AND (?::VARCHAR IS NULL OR i.cluster_id = ?)
                  AND (?::VARCHAR IS NULL OR list_contains(i.group_ids, ?))
                  AND (?::BOOLEAN IS NULL OR i.expected = ?)
                  AND (?::BOOLEAN IS NULL OR (i.status = 'open') = ?) {_ORDER} LIMIT {most:d}),
            twice AS (SELECT {BOOKING_OF.format("m")} AS booking, max(overlap_ms) AS overlap_ms FROM gold.movement m
                      WHERE overlap_ms > 0 AND coalesce(pause_likely_upper_ms, 0) <= 0 GROUP BY ALL),
            met_twice AS (SELECT cluster_id, incident_id, max(overlap_ms) AS overlap_ms
                         FROM (SELECT cluster_id, incident_id, unnest(bookings) AS booking FROM found)
                         JOIN twice USING (booking) GROUP BY ALL)
            SELECT i.* EXCLUDE (bookings), o.overlap_ms
            FROM found i LEFT JOIN met_twice o USING (cluster_id, incident_id) {_ORDER}
            """,
            (
                *(span.to_ms, span.from_ms, cluster_id, cluster_id, group_id, group_id),
                *(expected, expected, is_open, is_open),
            ),
        )
        return [incident_of(row) for row in rows]

    def incident_count(self, span: Span) -> IncidentCount:
        """Counts all incidents that touch the span."""
        row = self.rows(
            f"""
            SELECT count(*) FILTER (NOT expected AND status = 'open') AS open_count,
                   count(*) FILTER (NOT expected AND status = 'open' AND severity = 'critical') AS critical_count,
                   count(*) FILTER (NOT expected AND status <> 'open') AS over_count,
                   count(*) FILTER (expected) AS expected_count,
                   sum(cost_seconds) FILTER (NOT expected AND status = 'open' AND unit <> 'task')
                     AS open_partition_seconds,
                   sum(cost_seconds) FILTER (NOT expected AND status = 'open' AND unit = 'task') AS open_task_seconds,
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
        rows = self.rows(
            "SELECT * FROM gold.incident i WHERE i.cluster_id = ? AND i.incident_id = ?", (cluster_id, incident_id)
        )
        return incident_of(rows[0]) if rows else None

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
        rows = self.rows(
            "SELECT i.* EXCLUDE (bookings) FROM flat.incident i "
            "WHERE i.cluster_id = ? AND list_contains(i.bookings, hash(?::VARCHAR, ?::VARCHAR))",
            (cluster_id, cluster_id, rebalance_id),
        )
        return incident_of(rows[0]) if rows else None

    def marks(
        self, span: Span | None = None, cluster_id: str | None = None, group_id: str | None = None, most: int = 500
    ) -> list[MarkRow]:
        """Newest first, of a group those whose scope takes it in. Moves of replicas have lines of their own."""
        span = span or Span(from_ms=0, to_ms=1 << 62)
        rows = self.rows(
            f"""
            SELECT * FROM gold.mark m WHERE m.at_ms BETWEEN ? AND ? AND (?::VARCHAR IS NULL OR m.cluster_id = ?)
              AND (?::VARCHAR IS NULL OR m.scope = ? OR ? GLOB m.scope)
            ORDER BY m.at_ms DESC, m.cluster_id, m.mark_id LIMIT {most:d}
            """,
            (span.from_ms, span.to_ms, cluster_id, cluster_id, group_id, group_id, group_id),
        )
        return [made(MarkRow, row) for row in rows]


def incident_of(row: dict[str, Any]) -> IncidentRow:
    chain = tuple(made(ChainLink, link) for link in row.get("chain") or ())
    return made(IncidentRow, {**row, "chain": chain, "unit": row.get("unit") or "resource"})
