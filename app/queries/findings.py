"""Findings."""

from __future__ import annotations

from collections.abc import Sequence

from app.answers.rows import FindingRow
from app.queries.tables import Tables, finding_of


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
        asked = (status, rule_id, subject, cluster_id, group_id)
        return self.built(("findings", *asked), lambda: self._findings(*asked))

    def _findings(
        self,
        status: str | None,
        rule_id: str | None,
        subject: str | None,
        cluster_id: str | None,
        group_id: str | None,
    ) -> list[FindingRow]:
        rows = self.rows(
            """
            SELECT f.*, g.team FROM gold.finding f
              LEFT JOIN (SELECT cluster_id, group_id, any_value(team) AS team FROM gold.group GROUP BY ALL) g
                ON g.cluster_id = f.cluster_id AND g.group_id = f.group_id
            WHERE (?::VARCHAR IS NULL OR status = ?) AND (?::VARCHAR IS NULL OR rule_id = ?)
              AND (?::VARCHAR IS NULL OR subject = ?) AND (?::VARCHAR IS NULL OR f.cluster_id = ?)
              AND (?::VARCHAR IS NULL OR f.group_id = ?)
            ORDER BY status, CASE severity WHEN 'critical' THEN 0 WHEN 'warning' THEN 1 ELSE 2 END,
                     last_seen_at_ms DESC, finding_id
            """,
            (status, status, rule_id, rule_id, subject, subject, cluster_id, cluster_id, group_id, group_id),
        )
        return [finding_of(row) for row in rows]

    def findings_by_id(self, cluster_id: str, finding_ids: Sequence[str]) -> list[FindingRow]:
        """In this order, as far as they are there."""
        asked = "SELECT * FROM gold.finding WHERE cluster_id = ? AND list_contains(?::VARCHAR[], finding_id)"
        by_id = {row["finding_id"]: row for row in self.rows(asked, (cluster_id, list(finding_ids)))}
        return [finding_of(by_id[f]) for f in finding_ids if f in by_id]

    def finding(self, cluster_id: str, finding_id: str) -> FindingRow | None:
        rows = self.rows("SELECT * FROM gold.finding WHERE cluster_id = ? AND finding_id = ?", (cluster_id, finding_id))
        return finding_of(rows[0]) if rows else None
