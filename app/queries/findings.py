"""Findings, and what their groups lost while they lasted."""

from __future__ import annotations

from app.answers.rows import CostedFinding, FindingRow
from app.queries.tables import AT, COUNTED, GROUP_UNIT, Tables, finding_of


class FindingQuestions(Tables):
    def findings(
        self,
        status: str | None = None,
        rule_id: str | None = None,
        subject: str | None = None,
        cluster_id: str | None = None,
        group_id: str | None = None,
    ) -> list[FindingRow]:
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
        return [finding_of(row) for row in rows]

    def finding(self, cluster_id: str, finding_id: str) -> FindingRow | None:
        rows = self.rows("SELECT * FROM gold.finding WHERE cluster_id = ? AND finding_id = ?", (cluster_id, finding_id))
        return finding_of(rows[0]) if rows else None

    def open_incidents(self, most: int = 200) -> list[CostedFinding]:
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
                         AND r.group_id = f.group_id AND {COUNTED}
                            AND {AT} BETWEEN f.first_seen_at_ms AND f.last_seen_at_ms GROUP BY 1, 2)
            SELECT f.*, c.resource_seconds AS cost, coalesce(c.rebalance_count, 0) AS rebalances, {GROUP_UNIT} AS unit
            FROM f LEFT JOIN c USING (cluster_id, finding_id)
            ORDER BY CASE severity WHEN 'critical' THEN 0 ELSE 1 END, last_seen_at_ms DESC, finding_id
            """
        )
        return [
            CostedFinding(
                finding=finding_of(row),
                resource_seconds=row["cost"],
                unit=row["unit"],
                rebalance_count=row["rebalances"],
            )
            for row in rows
        ]
