"""Connect clusters and their tasks."""

from __future__ import annotations

import pandas as pd

from app.answers.outages import NOT_RUNNING, by_design_seconds
from app.answers.rows import ConnectTask, IncidentRow, Span
from app.queries.fleet import FleetQuestions
from app.queries.tables import made
from rebalance_audit.domain.kinds import TaskState


class ConnectQuestions(FleetQuestions):
    def connect_groups(self) -> list[tuple[str, str]]:
        """Cluster and group, those where most does not run now first, then those with open incidents, the costliest
        first, then the newest."""
        rows = self.rows(
            """
            SELECT cluster_id, group_id FROM (
                SELECT cluster_id, group_id, (to_ms IS NULL AND state IN (SELECT unnest(?::VARCHAR[])))::INT AS down,
                       from_ms AS at_ms FROM gold.connect_task
                UNION ALL SELECT cluster_id, group_id, 0, last_rebalance_at_ms FROM flat.group
                WHERE protocol_type = 'connect')
            LEFT JOIN (
                SELECT cluster_id, group_id, coalesce(sum(cost_seconds), 0) AS open_cost FROM (
                    SELECT cluster_id, cost_seconds, unnest(group_ids) AS group_id
                    FROM flat.incident WHERE status = 'open' AND NOT expected)
                GROUP BY ALL) USING (cluster_id, group_id)
            GROUP BY ALL
            ORDER BY sum(down) DESC, max(open_cost) DESC NULLS LAST, max(at_ms) DESC NULLS LAST, cluster_id, group_id
            """,
            (list(NOT_RUNNING),),
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

        def build() -> list[ConnectTask]:
            rows = self.rows(
                "SELECT * FROM gold.connect_task WHERE cluster_id = ? AND group_id = ? AND from_ms <= ?"
                " AND (to_ms IS NULL OR to_ms >= ?) ORDER BY connector, resource_type, task, from_ms, state",
                (cluster_id, group_id, span.to_ms, span.from_ms),
            )
            return [made(ConnectTask, row) for row in rows]

        return self.built(("connect tasks", cluster_id, group_id, span), build)

    def waited_by_design(self, incident: IncidentRow) -> float:
        """Task-seconds of an incident's cost that its tasks waited by design; 0 also where no cost is known."""
        if incident.unit == "partition" or not incident.cost_seconds:
            return 0.0
        span = Span(from_ms=incident.first_at_ms, to_ms=incident.last_at_ms)
        groups = incident.group_ids
        waited = sum(by_design_seconds(self.connect_tasks(incident.cluster_id, g, span), span) for g in groups)
        return min(waited, incident.cost_seconds)

    def waits_by_design(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """When tasks and connectors waited by design, as `outages.is_by_design`: `to_ms` is NaN where they still do."""
        return self.frame(
            "SELECT connector, task, from_ms, to_ms FROM gold.connect_task WHERE cluster_id = ? AND group_id = ?"
            " AND from_ms <= ? AND (to_ms IS NULL OR to_ms >= ?) AND state IN (SELECT unnest(?::VARCHAR[]))"
            " AND (expected OR state = ?) ORDER BY connector, task, from_ms",
            (cluster_id, group_id, span.to_ms, span.from_ms, list(NOT_RUNNING), TaskState.WAITING),
        )
