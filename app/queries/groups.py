"""Groups, and the rebalances, members and movements of one."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd
import pyarrow as pa

from app.answers.rows import CauseShare, Group, Span
from app.queries.tables import AT, COUNTED, Tables
from rebalance_audit.domain import numbers
from rebalance_audit.domain.detect.history import worker_name

SPARK_BUCKETS = 24
_OF_GROUP = f"r.cluster_id = ? AND r.group_id = ? AND {AT} BETWEEN ? AND ?"


class GroupQuestions(Tables):
    def groups(self, span: Span) -> pa.Table:
        """One row per group with its numbers in the span: with open incidents first, the gravest before others, then by
        cost. `worst_severity` is of its open incidents; `found_by` has all that one may search for, in lower case.

        Costs and pauses are null where not known. Arrow, since a fleet has 100,000 of them and a page shows 200.
        """
        return self.table(
            f"""
            WITH sums AS (
                SELECT r.cluster_id, r.group_id, count(*) FILTER ({COUNTED}) AS rebalances,
                       count(*) FILTER ({COUNTED} AND NOT r.expected) AS unexpected,
                       quantile_cont(r.pause_estimate_ms, 0.95) AS pause_p95_ms, {numbers.COST} AS cost
                FROM flat.rebalance r WHERE {AT} BETWEEN ? AND ? GROUP BY ALL),
            troubles AS (
                SELECT cluster_id, unnest(group_ids) AS group_id,
                       CASE severity WHEN 'critical' THEN 2 WHEN 'warning' THEN 1 ELSE 0 END AS rank
                FROM flat.incident WHERE status = 'open' AND NOT expected),
            opened AS (SELECT cluster_id, group_id, count(*) AS n, max(rank) AS rank FROM troubles GROUP BY ALL)
            SELECT g.cluster_id, g.group_id, g.team, g.group_type, g.protocol_type, g.state, g.mode, g.assignor,
                   g.member_count, g.resource_count, coalesce(s.rebalances, 0) AS rebalances,
                   coalesce(s.unexpected, 0) AS unexpected, s.pause_p95_ms, s.cost, g.open_finding_count,
                   coalesce(o.n, 0) AS open_incident_count,
                   CASE o.rank WHEN 2 THEN 'critical' WHEN 1 THEN 'warning' WHEN 0 THEN 'info' END AS worst_severity,
                   g.last_rebalance_at_ms,
                   lower(concat_ws(chr(10), g.group_id, g.team, g.assignor, g.state, g.cluster_id)) AS found_by
            FROM flat.group g LEFT JOIN sums s USING (cluster_id, group_id)
              LEFT JOIN opened o USING (cluster_id, group_id)
            ORDER BY o.rank DESC NULLS LAST, s.cost DESC NULLS LAST, rebalances DESC, g.cluster_id, g.group_id
            """,
            (span.from_ms, span.to_ms),
        )

    def over_time(self, span: Span, groups: Sequence[tuple[str, str]]) -> list[list[int]]:
        """Of each of these (cluster, group), how many rebalances it had in equal parts of the span, oldest first."""
        bucket_ms = max(1, span.length_ms / SPARK_BUCKETS)
        rows = self.rows(
            f"""
            WITH asked AS (SELECT unnest(?::VARCHAR[]) AS cluster_id, unnest(?::VARCHAR[]) AS group_id)
            SELECT cluster_id, group_id, least({SPARK_BUCKETS - 1}, floor(({AT} - ?) / ?))::INT AS bucket, count(*) AS n
            FROM flat.rebalance r SEMI JOIN asked USING (cluster_id, group_id)
            WHERE {AT} BETWEEN ? AND ? AND {COUNTED} GROUP BY ALL
            """,
            ([c for c, _ in groups], [g for _, g in groups], span.from_ms, bucket_ms, span.from_ms, span.to_ms),
        )
        found = {group: [0] * SPARK_BUCKETS for group in groups}
        for row in rows:
            found[row["cluster_id"], row["group_id"]][row["bucket"]] = row["n"]
        return list(found.values())

    def group(self, cluster_id: str, group_id: str) -> Group | None:
        rows = self.rows(
            f"SELECT {', '.join(Group.__dataclass_fields__)} FROM gold.group WHERE cluster_id = ? AND group_id = ?",
            (cluster_id, group_id),
        )
        return Group(**rows[0]) if rows else None

    def group_rebalances(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """The group's rebalances in the span, oldest first, without their members and movements."""
        wanted = (cluster_id, group_id, span.from_ms, span.to_ms)
        return self.frame(
            f"""
            SELECT r.* EXCLUDE (triggers, changed_connectors, evidence), {AT} AS at_ms
            FROM near.rebalance r WHERE {_OF_GROUP}
            ORDER BY coalesce(r.generation_id, r.group_epoch), r.rewrite_seq, at_ms, r.rebalance_id
            """,
            wanted,
            near=(_OF_GROUP, wanted),
        )

    def group_members(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """One row per member and rebalance: who it was and how much it held before and after."""
        return self.frame(
            f"""
            SELECT m.rebalance_id, m.member_id, m.group_instance_id, m.client_id, m.client_host, m.worker_url, m.change,
                   len(m.owned_before)::INT AS before_count, len(m.assigned)::INT AS after_count, {AT} AS at_ms
            FROM gold.rebalance_member m JOIN flat.rebalance r USING (cluster_id, rebalance_id)
            WHERE r.cluster_id = ? AND r.group_id = ? AND {AT} BETWEEN ? AND ?
            ORDER BY at_ms, m.rebalance_id, m.member_id
            """,
            (cluster_id, group_id, span.from_ms, span.to_ms),
        )

    def group_movements(self, cluster_id: str, group_id: str, span: Span) -> pd.DataFrame:
        """One row per resource that stopped, moved or began, oldest rebalance first."""
        return self.frame(
            f"""
            SELECT m.rebalance_id, m.resource, m.connector, m.task, m.kind, m.from_member_id, m.to_member_id,
                   m.revoked_in_rebalance_id, m.stopped_at_lower_ms, m.stopped_at_upper_ms, m.resumed_at_lower_ms,
                   m.resumed_at_upper_ms, m.pause_estimate_ms, {AT} AS at_ms
            FROM gold.movement m JOIN flat.rebalance r USING (cluster_id, rebalance_id)
            WHERE r.cluster_id = ? AND r.group_id = ? AND {AT} BETWEEN ? AND ?
            ORDER BY at_ms, m.rebalance_id, m.resource
            """,
            (cluster_id, group_id, span.from_ms, span.to_ms),
        )

    def group_causes(self, cluster_id: str, group_id: str, span: Span) -> list[CauseShare]:
        """The causes that the group's rebalances count for (`numbers.CAUSE`), the most frequent first, each with the
        client it was mostly about: the culprit of the incident, or the client that the rebalance's own cause names if
        there is no incident."""
        wanted = (cluster_id, group_id, span.from_ms, span.to_ms)
        rows = self.rows(
            f"""
            WITH hits AS (
                SELECT r.cluster_id, r.rebalance_id, {numbers.CAUSE} AS cause, r.resource_seconds_estimate,
                  CASE WHEN {numbers.CAUSE} = r.trigger THEN flatten(list_transform(list_filter(r.triggers,
                    t -> t.trigger = r.trigger), t -> t.members)) END AS members,
                  CASE WHEN len(b.culprits) = 1 THEN b.culprits[1] END AS culprit, {COUNTED} AS is_counted
                FROM near.rebalance r LEFT JOIN {numbers.booked("i.cluster_id = ? AND list_contains(i.group_ids, ?)")} b
                  USING (cluster_id, rebalance_id) WHERE {_OF_GROUP}),
            named AS (
                SELECT h.cause, coalesce(m.group_instance_id, m.worker_url, m.client_id) AS client, h.rebalance_id
                FROM hits h JOIN gold.rebalance_member m USING (cluster_id, rebalance_id)
                WHERE h.is_counted AND h.culprit IS NULL AND list_contains(h.members, m.member_id)
                UNION ALL SELECT cause, culprit, rebalance_id FROM hits WHERE is_counted AND culprit IS NOT NULL),
            who AS (SELECT cause, client, count(DISTINCT rebalance_id) AS n FROM named GROUP BY ALL),
            most AS (SELECT *, max(n) OVER (PARTITION BY cause) AS client_count FROM who),
            top AS (SELECT cause, min(client) AS client, any_value(client_count) AS client_count,
                      count(*) - 1 AS also_count FROM most WHERE n = client_count GROUP BY 1)
            SELECT h.cause AS trigger, count(*) FILTER (h.is_counted) AS rebalance_count,
                   {numbers.COST} AS resource_seconds,
                   any_value(t.client) AS client, coalesce(any_value(t.client_count), 0) AS client_count,
                   coalesce(any_value(t.also_count), 0) AS also_count
            FROM hits h LEFT JOIN top t USING (cause) GROUP BY 1 ORDER BY 2 DESC, 3 DESC NULLS LAST, 1
            """,
            (cluster_id, group_id, *wanted),
            near=(_OF_GROUP, wanted),
        )
        return [CauseShare(**{**row, "client": worker_name(row["client"]) if row["client"] else None}) for row in rows]
