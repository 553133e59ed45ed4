"""Prometheus metrics from the published warehouse. Labels are bounded: cluster, group, trigger, rule; never a member.

Counters count what is in evidence, so a recomputed warehouse may lower them; Prometheus takes that for a restart.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from rebalance_audit import __version__, health_metrics
from rebalance_audit.domain.numbers import IS_COUNTED
from rebalance_audit.domain.publish.verdicts import last_verdicts
from rebalance_audit.warehouse import behind
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

PREFIX = "rebalance_audit"
MAX_GROUPS = 500
"""Per cluster, the busiest; the others are summed up under OTHERS, so that no client can fill Prometheus."""
OTHERS = "(others)"
MAX_LABEL_LENGTH = 200
SILENT_S = 30.0
"""A connection on which nothing comes for so long is closed: each keeps a thread."""
PAUSE_BUCKETS_S = (0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)

METRICS: Mapping[str, str] = {
    "up": "1 if the published tables could be read at the last look.",
    "build": "The version that serves this page.",
    "last_refresh_seconds": "When the published tables were looked at last, seconds since the epoch.",
    "rebalances": "Rebalances in evidence, by what started them; rewrites of static members are not counted.",
    "resource_seconds_lost": "Seconds of stand-still in evidence, summed over partitions and tasks (estimate).",
    "rebalance_pause_seconds": "Longest stand-still of each rebalance (estimate).",
    "pause_seconds": "Median and 95th percentile of a group's longest stand-stills, one per rebalance.",
    "group_generation": "The group's latest generation or epoch.",
    "group_members": "Members after the group's latest completed rebalance.",
    "group_findings_open": "Open findings about the group, by severity.",
    "finding_open": "Open findings, by rule and severity.",
    "storm_active": "1 while the group is in a rebalance storm (RB001).",
    "connect_tasks_not_running": "Connect tasks whose last known state is not RUNNING or PAUSED.",
    "reassignments_open": "Partitions that are being reassigned when evidence ends.",
    "reassignments_stalled": "Partitions whose reassignment is stalled, by what blocks them.",
    "undecoded": "Records that could not be read, by reason.",
    "check_failed": "1 while the last run of this data check failed.",
    "evidence_age_seconds": "How old the newest evidence is.",
    **health_metrics.METRICS,
}
"""Every metric without its prefix; Prometheus appends _total to counters."""

Row = dict[str, Any]


class Exporter(Collector):
    """A scrape shows the last refresh: it never waits for the warehouse."""

    def __init__(self, warehouse: Warehouse) -> None:
        self._warehouse = warehouse
        self._lock = threading.Lock()
        self._metrics: list[Metric] = []
        self._versions: dict[str, int] | None = None
        self._evidence_end_ms: dict[str, int] = {}
        self._source_end_ms: dict[tuple[str, str], int] = {}
        self._behind: behind.Behind | None = None
        self._alerts_waiting: Metric | None = None
        self._alerts_of: object = None
        """The publication and the state of alerts that the count is of."""
        self._is_up = False
        self._refreshed_at = 0.0
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._server: Any = None

    def refresh(self) -> None:
        """Read the warehouse if something new is published."""
        try:
            versions = self._warehouse.published()
            if versions != self._versions:
                metrics, ends = read_metrics(self._warehouse)
                sources = health_metrics.source_ends(self._warehouse)
                with self._lock:
                    self._metrics, self._evidence_end_ms, self._versions = metrics, ends, versions
                    self._source_end_ms = {(_label(c), _label(source)): end for (c, source), end in sources.items()}
            if (versions, state := self._alert_state()) != self._alerts_of:
                waiting = health_metrics.alerts_waiting(self._warehouse, time.time_ns() // 1_000_000)
                with self._lock:
                    self._alerts_waiting, self._alerts_of = waiting, (versions, state)
            said = behind.kept(self._warehouse)
            with self._lock:
                self._behind = said
            is_up = True
        except (WarehouseError, OSError):
            is_up = False
        with self._lock:
            self._is_up, self._refreshed_at = is_up, time.time()

    def _alert_state(self) -> str:
        """A text that changes when something was sent."""
        from rebalance_audit.alerts.state import read_state, state_of
        from rebalance_audit.alerts.target import AlertError

        try:
            return json.dumps(read_state(state_of(self._warehouse.location)), sort_keys=True)
        except AlertError:
            return "not readable"

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            metrics, ends, sources = list(self._metrics), dict(self._evidence_end_ms), dict(self._source_end_ms)
            is_up, refreshed_at, waiting = self._is_up, self._refreshed_at, self._alerts_waiting
            said = self._behind
        yield GaugeMetricFamily(f"{PREFIX}_up", METRICS["up"], value=float(is_up))
        yield InfoMetricFamily(f"{PREFIX}_build", METRICS["build"], value={"version": __version__})
        yield GaugeMetricFamily(f"{PREFIX}_last_refresh_seconds", METRICS["last_refresh_seconds"], value=refreshed_at)
        yield from metrics
        age = _gauge("evidence_age_seconds", ["cluster"])
        for cluster, end_ms in sorted(ends.items()):
            age.add_metric([_label(cluster)], max(0.0, time.time() - end_ms / 1000))
        yield age
        yield health_metrics.source_ages(sources, time.time())
        yield health_metrics.tables_behind(said, time.time())
        if waiting is not None:
            yield waiting

    def listen(
        self, host: str, port: int, around: Callable[[WSGIApplication], WSGIApplication] = lambda metrics: metrics
    ) -> int:
        """The port, which is another than given if that was 0. `around` may answer other paths itself. Raises
        OSError."""
        self._server, _ = start_http_server(port, addr=host, registry=self.registry)
        self._server.RequestHandlerClass = RequestHandler
        self._server.set_app(around(self._server.get_app()))
        return int(self._server.server_port)

    def close(self) -> None:
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()


class RequestHandler(WSGIRequestHandler):
    """One connection; requests are not logged."""

    timeout = SILENT_S

    def handle(self) -> None:
        with contextlib.suppress(TimeoutError):
            super().handle()

    def log_message(self, *args: Any) -> None:
        pass


def read_metrics(warehouse: Warehouse) -> tuple[list[Metric], dict[str, int]]:
    """All metrics of the published tables, and the end of the evidence per cluster."""
    groups = _rows(warehouse, "SELECT * FROM gold.group")
    named = _named_groups(groups)
    ends = {
        row["cluster_id"]: int(row["end_ms"])
        for row in _rows(
            warehouse,
            "SELECT cluster_id, max(to_at_ms) AS end_ms FROM gold.coverage WHERE to_at_ms IS NOT NULL GROUP BY ALL",
        )
    }
    metrics: list[Metric] = [
        *_rebalance_metrics(warehouse, named),
        *_group_metrics(groups, named),
        *_finding_metrics(warehouse, named),
        *_connect_metrics(warehouse, named),
        *_reassignment_metrics(warehouse),
        *_trust_metrics(warehouse),
        *health_metrics.health_metrics(warehouse),
    ]
    return metrics, ends


class _GroupLabels:
    """The groups that have a label of their own."""

    def __init__(self, shown: set[tuple[str, str]]) -> None:
        self._shown = shown

    def labels(self, row: Row) -> tuple[str, str]:
        cluster, group = str(row["cluster_id"]), str(row["group_id"])
        return _label(cluster), _label(group) if (cluster, group) in self._shown else OTHERS

    def is_shown(self, row: Row) -> bool:
        return (row["cluster_id"], row["group_id"]) in self._shown


def _named_groups(groups: Sequence[Row]) -> _GroupLabels:
    shown: set[tuple[str, str]] = set()
    count: dict[str, int] = {}
    for row in sorted(groups, key=lambda r: (-(r["rebalance_count"] or 0), r["group_id"])):
        cluster = row["cluster_id"]
        count[cluster] = count.get(cluster, 0) + 1
        if count[cluster] <= MAX_GROUPS:
            shown.add((cluster, row["group_id"]))
    return _GroupLabels(shown)


def _rebalance_metrics(warehouse: Warehouse, named: _GroupLabels) -> Iterator[Metric]:
    totals: dict[tuple[str, ...], float] = {}
    lost: dict[tuple[str, ...], float] = {}
    pauses: dict[tuple[str, ...], list[float]] = {}
    for row in _rows(
        warehouse,
        "SELECT cluster_id, group_id, trigger, "
        f"{IS_COUNTED} AS is_counted, pause_estimate_ms, resource_seconds_estimate FROM gold.rebalance",
    ):
        labels = named.labels(row)
        if row["is_counted"]:
            totals[*labels, row["trigger"]] = totals.get((*labels, row["trigger"]), 0) + 1
        lost[labels] = lost.get(labels, 0) + (row["resource_seconds_estimate"] or 0)
        if row["pause_estimate_ms"] is not None:
            pauses.setdefault(labels, []).append(max(0, row["pause_estimate_ms"]) / 1000)
    rebalances = CounterMetricFamily(
        f"{PREFIX}_rebalances", METRICS["rebalances"], labels=["cluster", "group", "trigger"]
    )
    for key, value in sorted(totals.items()):
        rebalances.add_metric(list(key), value)
    yield rebalances
    seconds = CounterMetricFamily(
        f"{PREFIX}_resource_seconds_lost", METRICS["resource_seconds_lost"], labels=["cluster", "group"]
    )
    for key, value in sorted(lost.items()):
        seconds.add_metric(list(key), value)
    yield seconds
    histogram = HistogramMetricFamily(
        f"{PREFIX}_rebalance_pause_seconds", METRICS["rebalance_pause_seconds"], labels=["cluster", "group"]
    )
    for key, values in sorted(pauses.items()):
        buckets = [(str(bound), float(sum(v <= bound for v in values))) for bound in PAUSE_BUCKETS_S]
        histogram.add_metric(list(key), [*buckets, ("+Inf", float(len(values)))], sum_value=sum(values))
    yield histogram


def _group_metrics(groups: Sequence[Row], named: _GroupLabels) -> Iterator[Metric]:
    generation = _gauge("group_generation", ["cluster", "group"])
    members = _gauge("group_members", ["cluster", "group"])
    pause = _gauge("pause_seconds", ["cluster", "group", "quantile"])
    for row in groups:
        if not named.is_shown(row):
            continue
        number = row["generation_id"] if row["generation_id"] is not None else row["group_epoch"]
        if number is not None:
            generation.add_metric(named.labels(row), number)
        if row["member_count"] is not None:
            members.add_metric(named.labels(row), row["member_count"])
        for quantile, value_ms in (("0.5", row["pause_p50_ms"]), ("0.95", row["pause_p95_ms"])):
            if value_ms is not None:
                pause.add_metric([*named.labels(row), quantile], max(0.0, value_ms) / 1000)
    yield generation
    yield members
    yield pause


def _finding_metrics(warehouse: Warehouse, named: _GroupLabels) -> Iterator[Metric]:
    by_rule = _gauge("finding_open", ["cluster", "rule", "severity"])
    by_group = _gauge("group_findings_open", ["cluster", "group", "severity"])
    storm = _gauge("storm_active", ["cluster", "group"])
    rules: dict[tuple[str, ...], int] = {}
    groups: dict[tuple[str, ...], int] = {}
    storms: set[tuple[str, str]] = set()
    for row in _rows(
        warehouse,
        "SELECT cluster_id, rule_id, severity, subject_type, subject AS group_id FROM gold.finding "
        "WHERE status = 'open'",
    ):
        rule = (_label(row["cluster_id"]), row["rule_id"], row["severity"])
        rules[rule] = rules.get(rule, 0) + 1
        if row["subject_type"] == "group":
            group = (*named.labels(row), row["severity"])
            groups[group] = groups.get(group, 0) + 1
            if row["rule_id"] == "RB001":
                storms.add(named.labels(row))
    for key, value in sorted(rules.items()):
        by_rule.add_metric(list(key), value)
    for key, value in sorted(groups.items()):
        by_group.add_metric(list(key), value)
    for labels in sorted(
        {named.labels(row) for row in _rows(warehouse, "SELECT cluster_id, group_id FROM gold.group")}
    ):
        storm.add_metric(labels, float(labels in storms))
    yield by_rule
    yield by_group
    yield storm


def _connect_metrics(warehouse: Warehouse, named: _GroupLabels) -> Iterator[Metric]:
    tasks = _gauge("connect_tasks_not_running", ["cluster", "group"])
    waiting: dict[tuple[str, ...], int] = {}
    for row in _rows(
        warehouse,
        "SELECT cluster_id, group_id, count(*) FILTER (WHERE state NOT IN ('RUNNING', 'PAUSED')) AS count "
        "FROM gold.connect_task WHERE to_ms IS NULL AND resource_type = 'task' GROUP BY ALL",
    ):
        labels = named.labels(row)
        waiting[labels] = waiting.get(labels, 0) + int(row["count"])
    for key, value in sorted(waiting.items()):
        tasks.add_metric(list(key), value)
    yield tasks


def _reassignment_metrics(warehouse: Warehouse) -> Iterator[Metric]:
    running = _gauge("reassignments_open", ["cluster"])
    stalled = _gauge("reassignments_stalled", ["cluster", "blocked_by"])
    # A cluster whose moves have all ended is shown as 0: what vanishes looks like an exporter that broke.
    for row in _rows(
        warehouse,
        "SELECT cluster_id, count(*) FILTER (WHERE outcome = 'open') AS count FROM gold.reassignment GROUP BY ALL "
        "ORDER BY ALL",
    ):
        running.add_metric([_label(row["cluster_id"])], row["count"])
    for row in _rows(
        warehouse,
        "SELECT cluster_id, blocked_by, count(*) AS count FROM gold.reassignment "
        "WHERE stalled_since_ms IS NOT NULL GROUP BY ALL ORDER BY ALL",
    ):
        stalled.add_metric([_label(row["cluster_id"]), row["blocked_by"] or "unknown"], row["count"])
    yield running
    yield stalled


def _trust_metrics(warehouse: Warehouse) -> Iterator[Metric]:
    undecoded = CounterMetricFamily(f"{PREFIX}_undecoded", METRICS["undecoded"], labels=["cluster", "reason"])
    # Clusters without one are shown, too: an increase from nothing is no increase to Prometheus.
    for row in _rows(
        warehouse,
        "SELECT g.cluster_id, u.reason, coalesce(u.count, 0) AS count "
        "FROM (SELECT DISTINCT cluster_id FROM gold.group) g FULL JOIN "
        "(SELECT cluster_id, reason, count(*) AS count FROM silver.undecoded GROUP BY ALL) u USING (cluster_id) "
        "ORDER BY ALL",
    ):
        undecoded.add_metric([_label(row["cluster_id"]), row["reason"] or "none"], row["count"])
    yield undecoded
    failed = _gauge("check_failed", ["table", "check"])
    verdicts = _rows(warehouse, "SELECT batch_id, table_name, check_name, success FROM gold.check")
    failures: dict[tuple[str, str], bool] = {}
    for verdict in last_verdicts(verdicts):
        key = (verdict["table_name"], verdict["check_name"])
        failures[key] = failures.get(key, False) or not verdict["success"]
    for (table, check), is_failed in failures.items():
        failed.add_metric([table, check], float(is_failed))
    yield failed


def _gauge(name: str, labels: list[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"{PREFIX}_{name}", METRICS[name], labels=labels)


def _rows(warehouse: Warehouse, sql: str) -> list[Row]:
    rows: list[Row] = warehouse.query(sql).to_pylist()
    return rows


def _label(text: str) -> str:
    return text if len(text) <= MAX_LABEL_LENGTH else text[: MAX_LABEL_LENGTH - 1] + "…"
