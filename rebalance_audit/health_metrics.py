"""Metrics of the pipeline itself: how far behind each source is, what is not settled, how long a run takes.

The number of sources is bounded: a topic is one, with all its partitions, and so are the logs of a node.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric

from rebalance_audit.warehouse.behind import LAST_RUN, Behind
from rebalance_audit.warehouse.warehouse import Warehouse

PREFIX = "rebalance_audit"
MAX_SOURCES = 100
"""Per cluster; the oldest are kept, since those are looked for."""

METRICS: Mapping[str, str] = {
    "source_age_seconds": "How old the newest evidence of one source is: a topic, or the logs of a node.",
    "groups_unsettled": "Groups with a rebalance that later evidence may still change.",
    "run_seconds": "How long each stage of the last run that had something to do took.",
    "run_rows": "Rows that run wrote, by table.",
    "last_run_timestamp_seconds": "When that run ended, seconds since the epoch.",
    "tables_behind_seconds": "How old the oldest news is that the tables do not hold; 0 while `watch` keeps up.",
    "undecoded_parts": "Records and lines that could not be read, by the part that failed: key, value, line and so on.",
    "alerts_waiting": "Messages about incidents that targets have not had yet, over all targets that ever had one.",
    "evidence_log_leaves": "Leaves of the log of evidence under its newest head.",
}


def source_ends(warehouse: Warehouse) -> dict[tuple[str, str], int]:
    """(cluster, source) -> end of its evidence, epoch ms. A source whose records have no time is left out."""
    sql = r"""
        SELECT * FROM (
            SELECT cluster_id, CASE kind
                WHEN 'record' THEN regexp_replace(substr(source, 8), '-[0-9]+$', '')
                ELSE 'logs of ' || split_part(substr(source, 5), '/', 1) END AS source, max(to_at_ms) AS end_ms
            FROM gold.coverage WHERE NOT is_gap AND to_at_ms IS NOT NULL GROUP BY ALL
        ) QUALIFY row_number() OVER (PARTITION BY cluster_id ORDER BY end_ms, source) <= ?
        ORDER BY ALL
    """
    rows = warehouse.query(sql, [MAX_SOURCES]).to_pylist()
    return {(row["cluster_id"], row["source"]): int(row["end_ms"]) for row in rows}


def source_ages(ends: Mapping[tuple[str, str], int], now_s: float) -> Metric:
    ages = _gauge("source_age_seconds", ["cluster", "source"])
    for (cluster, source), end_ms in ends.items():
        ages.add_metric([cluster, source], max(0.0, now_s - end_ms / 1000))
    return ages


def tables_behind(behind: Behind | None, now_s: float) -> Metric:
    """Without a sample where no `watch` says it: not known is not 0."""
    seconds = _gauge("tables_behind_seconds", [])
    if behind is not None:
        seconds.add_metric([], 0.0 if behind.since_ms is None else max(0.0, now_s - behind.since_ms / 1000))
    return seconds


def alerts_waiting(warehouse: Warehouse, now_ms: int) -> Metric:
    """Without a sample where the state of alerts cannot be read: not known is not 0."""
    from rebalance_audit.alerts.news import AlertRound
    from rebalance_audit.alerts.sending import waiting_count
    from rebalance_audit.alerts.state import state_of
    from rebalance_audit.alerts.target import AlertError
    from rebalance_audit.domain.incidents import incident_of
    from rebalance_audit.warehouse.responses import responses

    waiting = _gauge("alerts_waiting", [])
    rows = warehouse.query("SELECT * FROM gold.incident").to_pylist()
    with contextlib.suppress(AlertError):
        current = AlertRound(
            [incident_of(row) for row in rows], is_all=True, responses=responses(warehouse), now_ms=now_ms
        )
        waiting.add_metric([], waiting_count(current, state_of(warehouse.location)))
    return waiting


def health_metrics(warehouse: Warehouse) -> Iterator[Metric]:
    unsettled = _gauge("groups_unsettled", ["cluster"])
    sql = (
        "SELECT cluster_id, count(DISTINCT group_id) FILTER (WHERE NOT is_final) AS count FROM gold.rebalance "
        "GROUP BY ALL ORDER BY ALL"
    )
    for row in warehouse.query(sql).to_pylist():
        unsettled.add_metric([row["cluster_id"]], row["count"])
    yield unsettled
    parts = _gauge("undecoded_parts", ["cluster", "part"])
    sql = "SELECT cluster_id, part, count(*) AS count FROM silver.undecoded GROUP BY ALL ORDER BY ALL"
    for row in warehouse.query(sql).to_pylist():
        parts.add_metric([row["cluster_id"], row["part"]], row["count"])
    yield parts
    stated = warehouse.recall(LAST_RUN)
    seconds, rows = _gauge("run_seconds", ["stage"]), _gauge("run_rows", ["table"])
    for stage, ms in stated.get("ms_by_stage", {}).items():
        seconds.add_metric([stage], ms / 1000)
    for table, count in stated.get("rows_written", {}).items():
        rows.add_metric([table], count)
    yield seconds
    yield rows
    ended = _gauge("last_run_timestamp_seconds", [])
    if "ended_at_ms" in stated:
        ended.add_metric([], stated["ended_at_ms"] / 1000)
    yield ended
    leaves = _gauge("evidence_log_leaves", [])
    if (size := warehouse.evidence_log_size()) is not None:
        leaves.add_metric([], size)
    yield leaves


def _gauge(name: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", METRICS[name], labels=labels)
