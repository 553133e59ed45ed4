"""One rebalance, and what rests on a piece of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.answers import Finding, Member, Movement, Neighbours, Rebalance, Trigger
from app.queries.tables import AT, Tables, finding_of, made


class RebalanceQuestions(Tables):
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
            "triggers": tuple(made(Trigger, t) for t in rows[0]["triggers"] or ()),
            "members": tuple(made(Member, m) for m in members),
            "movements": tuple(made(Movement, m) for m in movements),
        }
        return made(Rebalance, row)

    def neighbours(self, cluster_id: str, group_id: str, rebalance_id: str) -> Neighbours:
        rows = self.rows(
            f"""
            WITH o AS (SELECT r.rebalance_id, lag(r.rebalance_id) OVER w AS before, lead(r.rebalance_id) OVER w AS after
                       FROM gold.rebalance r WHERE r.cluster_id = ? AND r.group_id = ?
                       WINDOW w AS (ORDER BY coalesce(r.generation_id, r.group_epoch), r.rewrite_seq, {AT},
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
            SELECT r.rebalance_id, r.group_id, r.generation_id, r.group_epoch, r.rewrite_seq, {AT} AS at_ms
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
        return rebalances, [finding_of(row) for row in findings]

    def kinds(self, cluster_id: str, refs: Sequence[str]) -> dict[str, str]:
        """What each ref is: a record type or a kind of log line. Commits and unread refs are left out."""
        rows = self.rows(
            "SELECT ref, kind FROM silver.group_event WHERE cluster_id = ? AND ref IN (SELECT unnest(?::VARCHAR[]))",
            (cluster_id, list(refs)),
        )
        return {row["ref"]: row["kind"] for row in rows}
