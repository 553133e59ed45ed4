"""The whole warehouse: its clusters, its span, what a time cost."""

from __future__ import annotations

import pandas as pd

from app.answers.compare import SLICES
from app.answers.rows import ClusterRow, Contents, Fleet, Headline, Span
from app.queries.tables import AT, COUNTED, HANDS_OUT_TASKS, Tables, booked_in
from rebalance_audit.domain import numbers

_ROUNDED = (
    "CASE WHEN {0} < 10000 THEN {0} WHEN {0} < 100000 THEN round({0}, -1) WHEN {0} < 1000000 THEN round({0}, -2) "
    "ELSE round({0}, -3) END::DOUBLE"
)


class FleetQuestions(Tables):
    def group_count(self) -> int:
        return int(self.rows("SELECT count(*) AS n FROM flat.group")[0]["n"])

    def state(self) -> Contents:
        row = self.rows(
            "SELECT (SELECT count(*) FROM flat.group) AS groups, (SELECT count(*) FROM bronze.record) AS records,"
            " (SELECT count(*) FROM bronze.log_line) AS lines"
        )[0]
        return Contents(
            group_count=row["groups"],
            record_count=row["records"],
            line_count=row["lines"],
        )

    def span(self, cluster_id: str | None = None, group_id: str | None = None) -> Span | None:
        """From the first thing seen to the end of evidence; of one group, from its first rebalance."""
        row = self.rows(
            "SELECT min(f) AS f, max(t) AS t FROM (SELECT min(from_at_ms) AS f, max(to_at_ms) AS t FROM gold.coverage"
            " WHERE (?::VARCHAR IS NULL OR cluster_id = ?)"
            f" UNION ALL SELECT min(coalesce(r.started_at_ms, {AT})), max(greatest({AT}, coalesce(r.ended_at_ms, 0)))"
            " FROM flat.rebalance r WHERE (?::VARCHAR IS NULL OR r.cluster_id = ?))",
            (cluster_id, cluster_id, cluster_id, cluster_id),
        )[0]
        first = row["f"]
        if group_id is not None:
            first = self.rows(
                f"SELECT min(coalesce(r.started_at_ms, {AT})) AS f FROM flat.rebalance r"
                " WHERE r.cluster_id = ? AND r.group_id = ?",
                (cluster_id, group_id),
            )[0]["f"]
        return None if first is None else Span(from_ms=int(first), to_ms=int(row["t"]))

    def clusters(self) -> list[ClusterRow]:
        """One row per cluster, the freshest last: clusters that are no longer watched come first."""
        rows = self.rows(
            f"""
            WITH g AS (SELECT cluster_id, count(*) AS groups FROM flat.group GROUP BY 1),
                 r AS (SELECT r.cluster_id, count(*) FILTER ({COUNTED}) AS rebalances, min({AT}) AS f, max({AT}) AS t
                       FROM flat.rebalance r GROUP BY 1),
                 c AS (SELECT cluster_id, count(*) FILTER (is_gap) AS gaps, count(DISTINCT source) AS sources,
                              min(from_at_ms) AS f, max(to_at_ms) AS t FROM gold.coverage GROUP BY 1),
                 i AS (SELECT cluster_id, count(*) AS incidents FROM flat.incident
                       WHERE status = 'open' AND NOT expected GROUP BY 1),
                 m AS (SELECT cluster_id, count(*) AS moves, min(started_at_ms) AS f,
                              max(greatest(started_at_ms, ended_at_ms, stalled_since_ms)) AS t
                       FROM gold.reassignment GROUP BY 1),
                 e AS (SELECT cluster_id, min(at_ms) AS f, max(at_ms) AS t FROM gold.leader_election GROUP BY 1),
                 a AS (SELECT cluster_id FROM g UNION SELECT cluster_id FROM r UNION SELECT cluster_id FROM c)
            SELECT a.cluster_id, coalesce(groups, 0) AS group_count, coalesce(rebalances, 0) AS rebalance_count,
                   coalesce(incidents, 0) AS open_incident_count, coalesce(gaps, 0) AS gap_count,
                   coalesce(sources, 0) AS source_count, coalesce(moves, 0) AS reassignment_count,
                   least(r.f, c.f, m.f, e.f) AS first_at_ms, greatest(r.t, c.t, m.t, e.t) AS last_at_ms
            FROM a LEFT JOIN g USING (cluster_id) LEFT JOIN r USING (cluster_id) LEFT JOIN c USING (cluster_id)
                   LEFT JOIN i USING (cluster_id) LEFT JOIN m USING (cluster_id) LEFT JOIN e USING (cluster_id)
            ORDER BY last_at_ms NULLS FIRST, a.cluster_id
            """
        )
        return [ClusterRow(**row) for row in rows]

    def headline(self, span: Span, cluster_id: str | None = None, group_id: str | None = None) -> Headline:
        row = self.rows(
            f"""
            WITH x AS (
                SELECT CASE WHEN r.pause_estimate_ms < 0 THEN 0 ELSE r.pause_estimate_ms END::DOUBLE AS pause,
                       r.broker_window_ms::DOUBLE AS broker,
                       r.pause_estimate_ms IS NULL AND r.moved_count + r.returned_count = 0
                         AND coalesce(r.restarted_count, 0) = 0 AND r.assigned_count = 0
                         AND coalesce(r.revoked_count, 0) = 0 AS unmoved
                FROM flat.rebalance r WHERE {COUNTED} AND {AT} BETWEEN ? AND ? AND r.broker_window_ms IS NOT NULL
                  AND r.outcome = 'completed' AND (?::VARCHAR IS NULL OR r.cluster_id = ?)
                  AND (?::VARCHAR IS NULL OR r.group_id = ?)),
            y AS (SELECT pause, broker, greatest(pause, 1) AS p, greatest(broker, 1) AS b FROM x
                  WHERE pause IS NOT NULL)
            SELECT count(*) AS compared_count, median(pause) AS pause_median_ms, median(broker) AS window_median_ms,
                   median(greatest(p / b, b / p)) AS factor_median, count(*) FILTER (p > b) AS too_short_count,
                   (SELECT count(*) FROM x WHERE unmoved) AS unmoved_count
            FROM y
            """,
            (span.from_ms, span.to_ms, cluster_id, cluster_id, group_id, group_id),
        )[0]
        return Headline(**row)

    def compared(
        self, span: Span, cluster_id: str | None = None, group_id: str | None = None
    ) -> tuple[pd.DataFrame, dict[str, int]]:
        """Rebalances of the span, for `answers.compare.Side`: its cells, and how many began for which cause.

        Pauses and windows from 10 s on are rounded to a thousandth, so that a fleet's millions are some thousand
        rows. Two owners at once are no pause.
        """
        wanted = (span.from_ms, span.to_ms, cluster_id, cluster_id, group_id, group_id)
        chosen = (
            f"{AT} BETWEEN ? AND ? AND (?::VARCHAR IS NULL OR cluster_id = ?) AND (?::VARCHAR IS NULL OR group_id = ?)"
        )
        length_ms = max(1, span.length_ms)
        cells = self.frame(
            f"""
            WITH x AS MATERIALIZED (
                SELECT least({SLICES} - 1, ({AT} - ?) * {SLICES} // {length_ms:d})::INT AS slice,
                       {COUNTED} AS is_counted, pause_estimate_ms AS pause, broker_window_ms AS broker,
                       resource_seconds_estimate AS cost, moved_count AS moved, avoidable_moved_count AS avoidable
                FROM flat.rebalance WHERE {chosen}),
            s AS (SELECT slice, count(*) FILTER (is_counted) AS n, sum(cost) AS cost, count(cost) AS cost_n,
                         sum(moved) FILTER (is_counted) AS moved, count(moved) FILTER (is_counted) AS moved_n,
                         sum(avoidable) FILTER (is_counted) AS avoidable,
                         count(avoidable) FILTER (is_counted) AS avoidable_n
                  FROM x GROUP BY 1)
            SELECT 'rebalances' AS measure, slice, n::DOUBLE AS value, n FROM s
            UNION ALL SELECT 'cost', slice, cost, cost_n FROM s WHERE cost_n > 0
            UNION ALL SELECT 'moved', slice, moved, moved_n FROM s WHERE moved_n > 0
            UNION ALL SELECT 'avoidable', slice, avoidable, avoidable_n FROM s WHERE avoidable_n > 0
            UNION ALL SELECT 'pause', slice, {_ROUNDED.format("greatest(pause, 0)")}, count(*) FROM x
                WHERE is_counted AND pause IS NOT NULL GROUP BY 2, 3
            UNION ALL SELECT 'window', slice, {_ROUNDED.format("broker")}, count(*) FROM x
                WHERE is_counted AND broker IS NOT NULL GROUP BY 2, 3
            ORDER BY ALL
            """,
            (span.from_ms, *wanted),
        )
        causes = self.rows(
            f"""
            SELECT {numbers.CAUSE} AS cause, count(*) AS n
            FROM (SELECT cluster_id, rebalance_id, trigger FROM flat.rebalance WHERE {COUNTED} AND {chosen}) r
              {booked_in(span)} GROUP BY 1 ORDER BY 1
            """,
            wanted,
        )
        return cells, {row["cause"]: row["n"] for row in causes}

    def costliest_groups(self, most: int) -> list[tuple[str, str]]:
        """Cluster and group, by what they ever cost."""
        rows = self.rows(
            "SELECT cluster_id, group_id FROM flat.group ORDER BY resource_seconds_estimate DESC NULLS LAST,"
            f" rebalance_count DESC, cluster_id, group_id LIMIT {most:d}"
        )
        return [(row["cluster_id"], row["group_id"]) for row in rows]

    def fleet_over_time(self, span: Span, buckets: int) -> pd.DataFrame:
        """Rebalances and cost per cluster, cause and stretch of time; `bucket` counts from 0. Unknown costs are 0;
        `task_seconds` are those of `cost` that are no partition-seconds.

        `trigger` is what they are booked on: see `numbers.CAUSE`.
        """
        length_ms = max(1.0, span.length_ms / buckets)
        return self.frame(
            f"""
            SELECT r.cluster_id, {numbers.CAUSE} AS trigger,
                   least({buckets:d} - 1, floor(({AT} - ?) / ?))::INT AS bucket,
                   {numbers.COUNT} AS rebalances, coalesce({numbers.COST}, 0) AS cost,
                   coalesce({numbers.COST} FILTER ({HANDS_OUT_TASKS}), 0) AS task_seconds
            FROM flat.rebalance r {booked_in(span)}
            WHERE {AT} BETWEEN ? AND ?
            GROUP BY ALL ORDER BY 1, 3, 2
            """,
            (span.from_ms, length_ms, span.from_ms, span.to_ms),
        )

    def fleet(self, span: Span) -> Fleet:
        row = self.rows(
            f"""
            SELECT {numbers.COUNT} AS rebalance_count, {numbers.EXPECTED_COUNT} AS expected_count,
                   count(DISTINCT (r.cluster_id, r.group_id)) AS group_count,
                   {numbers.UNKNOWN_COST_COUNT} AS unknown_cost_count,
                   {numbers.COST} FILTER (NOT {HANDS_OUT_TASKS}) AS partition_seconds,
                   {numbers.COST} FILTER ({HANDS_OUT_TASKS}) AS task_seconds
            FROM flat.rebalance r WHERE {AT} BETWEEN ? AND ?
            """,
            (span.from_ms, span.to_ms),
        )[0]
        return Fleet(**row)
