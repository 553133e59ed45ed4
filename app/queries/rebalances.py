"""One rebalance, and the rows that cite a piece of evidence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from app.answers.rows import FindingRow, Member, Movement, Neighbours, Rebalance, Span, Trigger
from app.queries.tables import AT, T, Tables, finding_of, made


class RebalanceQuestions(Tables):
    def rebalance(self, cluster_id: str, rebalance_id: str) -> Rebalance | None:
        """The rebalance with its members and movements, the longest pause first."""
        wanted = (cluster_id, rebalance_id)
        this = "r.cluster_id = ? AND r.rebalance_id = ?"
        rows = self.rows(f"SELECT r.* FROM near.rebalance r WHERE {this}", wanted, near=(this, wanted))
        return self._whole(cluster_id, rows)[0] if rows else None

    def rebalances_around(self, cluster_id: str, group_id: str, span: Span, most: int = 200) -> list[Rebalance]:
        """The group's rebalances in the span, the newest `most` of them, oldest first, each as from `rebalance`; and up
        to 20 before and after, since the bars of one may begin or end outside the span."""

        def build() -> list[Rebalance]:
            of_group = "r.cluster_id = ? AND r.group_id = ?"
            rows = self.rows(
                f"""
                WITH o AS (SELECT r.*, {AT} AS at_ms, row_number() OVER (
                             ORDER BY coalesce(r.generation_id, r.group_epoch), r.rewrite_seq, {AT}, r.rebalance_id
                           ) AS place FROM near.rebalance r WHERE {of_group}),
                     ends AS (SELECT min(place) AS first, max(place) AS last FROM o WHERE at_ms BETWEEN ? AND ?)
                SELECT o.* FROM o, ends WHERE place BETWEEN greatest(first, last - ? + 1) - 20 AND last + 20
                ORDER BY place
                """,
                (cluster_id, group_id, span.from_ms, span.to_ms, most),
                near=(of_group, (cluster_id, group_id)),
            )
            return self._whole(cluster_id, rows)

        return self.built(("rebalances", cluster_id, group_id, span, most), build)

    def members_of(self, cluster_id: str, ids: list[str]) -> dict[str, list[Member]]:
        """By rebalance."""
        return self._of_rebalances(
            Member, "gold.rebalance_member", cluster_id, ids, "group_instance_id, client_id, client_host, member_id"
        )

    def _whole(self, cluster_id: str, rows: list[dict[str, Any]]) -> list[Rebalance]:
        """Rows of gold.rebalance with their members and movements."""
        ids = [row["rebalance_id"] for row in rows]
        members = self.members_of(cluster_id, ids)
        movements = self._of_rebalances(
            Movement,
            "gold.movement",
            cluster_id,
            ids,
            "pause_estimate_ms DESC NULLS LAST, topic, connector, partition, task, resource",
        )
        return [
            made(
                Rebalance,
                {
                    **row,
                    "triggers": tuple(made(Trigger, t) for t in row["triggers"] or ()),
                    "members": tuple(members.get(row["rebalance_id"], ())),
                    "movements": tuple(movements.get(row["rebalance_id"], ())),
                },
            )
            for row in rows
        ]

    def _of_rebalances(
        self, kind: type[T], table: str, cluster_id: str, ids: list[str], order: str
    ) -> dict[str, list[T]]:
        found: dict[str, list[T]] = {}
        for row in self.rows(
            f"SELECT * FROM {table} WHERE cluster_id = ? AND rebalance_id IN (SELECT unnest(?::VARCHAR[]))"
            f" ORDER BY {order}",
            (cluster_id, ids),
        ):
            found.setdefault(row["rebalance_id"], []).append(made(kind, row))
        return found

    def neighbours(self, cluster_id: str, group_id: str, rebalance_id: str) -> Neighbours:
        rows = self.rows(
            f"""
            WITH o AS (SELECT r.rebalance_id, lag(r.rebalance_id) OVER w AS before, lead(r.rebalance_id) OVER w AS after
                       FROM flat.rebalance r WHERE r.cluster_id = ? AND r.group_id = ?
                       WINDOW w AS (ORDER BY coalesce(r.generation_id, r.group_epoch), r.rewrite_seq, {AT},
                         r.rebalance_id))
            SELECT before, after FROM o WHERE rebalance_id = ?
            """,
            (cluster_id, group_id, rebalance_id),
        )
        return Neighbours(**rows[0]) if rows else Neighbours(before=None, after=None)

    def citing(self, cluster_id: str, ref: str) -> tuple[list[dict[str, Any]], list[FindingRow]]:
        """Rows that rest on one piece of evidence: rebalances (id, group, number), and findings."""
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

    def commits(self, cluster_id: str, group_ids: Sequence[str], refs: Sequence[str]) -> dict[str, str]:
        """The partition whose progress was committed, by ref; refs that are no commits of these groups are left out."""
        rows = self.rows(
            """
            SELECT ref, any_value(commit_of) AS commit_of FROM (
                SELECT 'record:' || offsets_topic || '-' || offsets_partition || '@'
                       || unnest([first_offset, last_offset, gap_from_offset, gap_to_offset]) AS ref,
                       topic || '-' || partition AS commit_of
                FROM silver.commit_mark WHERE cluster_id = ? AND group_id IN (SELECT unnest(?::VARCHAR[])))
            WHERE ref IN (SELECT unnest(?::VARCHAR[])) GROUP BY 1
            """,
            (cluster_id, list(group_ids), list(refs)),
        )
        return {row["ref"]: row["commit_of"] for row in rows}

    def kinds(self, cluster_id: str, refs: Sequence[str]) -> dict[str, str]:
        """The kind of each ref: a record type or a kind of log line. Commits and unread refs are left out."""
        rows = self.rows(
            "SELECT ref, kind FROM silver.group_event WHERE cluster_id = ? AND ref IN (SELECT unnest(?::VARCHAR[]))",
            (cluster_id, list(refs)),
        )
        return {row["ref"]: row["kind"] for row in rows}
