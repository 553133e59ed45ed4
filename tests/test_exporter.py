"""Prometheus metrics: what a scrape sees of a published warehouse."""

from __future__ import annotations

import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rebalance_audit import cli, exporter, health_metrics
from rebalance_audit.domain.publish.verdicts import last_verdicts
from rebalance_audit.exporter import METRICS, OTHERS, Exporter
from rebalance_audit.warehouse import behind
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    return gold_rows.write(tmp_path_factory.mktemp("filled") / "w", many=5)


def scraped(served: Exporter) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    from prometheus_client import generate_latest

    families = text_string_to_metric_families(generate_latest(served.registry).decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def labels(**named: str) -> tuple[tuple[str, str], ...]:
    return tuple(sorted(named.items()))


@pytest.fixture(scope="module")
def seen(filled: Warehouse) -> dict[Any, float]:
    served = Exporter(filled)
    served.refresh()
    return scraped(served)


def test_rebalances_are_counted_by_group_and_trigger(seen: dict[Any, float]) -> None:
    found = {
        dict(key)["trigger"]: value
        for (name, key), value in seen.items()
        if name == "rebalance_audit_rebalances_total" and dict(key)["group"] == "checkout"
    }
    # gold_rows.checkout(): 31 rounds, the first three of them a deploy.
    assert sum(found.values()) == 31
    assert found["member_poll_timeout"] == 28


def test_open_findings_are_shown_by_rule_and_storms_by_group(seen: dict[Any, float]) -> None:
    cluster = gold_rows.CLUSTER
    assert seen["rebalance_audit_finding_open", labels(cluster=cluster, rule="RB001", severity="critical")] == 1
    assert seen["rebalance_audit_storm_active", labels(cluster=cluster, group="checkout")] == 1
    assert seen["rebalance_audit_storm_active", labels(cluster=cluster, group="orders")] == 0


def test_hostile_names_are_labels_and_nothing_more(seen: dict[Any, float]) -> None:
    groups = {dict(key).get("group") for _, key in seen}
    assert gold_rows.HOSTILE_GROUP in groups


def test_every_metric_has_the_prefix_and_no_label_names_a_member(seen: dict[Any, float]) -> None:
    assert all(name.startswith("rebalance_audit_") for name, _ in seen)
    named = {label for _, key in seen for label, _ in key}
    assert named <= {
        "cluster",
        "blocked_by",
        "group",
        "trigger",
        "rule",
        "severity",
        "quantile",
        "le",
        "reason",
        "part",
        "source",
        "stage",
        "table",
        "check",
        "version",
    }


def test_the_histogram_counts_every_measured_pause(seen: dict[Any, float], filled: Warehouse) -> None:
    counted = sum(v for (name, _), v in seen.items() if name == "rebalance_audit_rebalance_pause_seconds_count")
    (expected,) = (
        filled.query("SELECT count(*) FROM gold.rebalance WHERE pause_estimate_ms IS NOT NULL").column(0).to_pylist()
    )
    assert counted == expected > 0
    last = sum(
        v
        for (name, key), v in seen.items()
        if name == "rebalance_audit_rebalance_pause_seconds_bucket" and dict(key)["le"] == "+Inf"
    )
    assert last == counted


def test_groups_beyond_the_limit_are_summed_up(filled: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporter, "MAX_GROUPS", 1)
    served = Exporter(filled)
    served.refresh()
    found = scraped(served)
    total = sum(v for (name, _), v in found.items() if name == "rebalance_audit_rebalances_total")
    groups = {dict(key)["group"] for name, key in found if name == "rebalance_audit_rebalances_total"}
    assert OTHERS in groups
    assert len(groups) <= 3  # one per cluster, and the others
    counted = "SELECT count(*) FROM gold.rebalance WHERE kind = 'rebalance' AND outcome <> 'missing'"
    (expected,) = filled.query(counted).column(0).to_pylist()
    assert total == expected


def test_a_new_publication_is_seen_at_the_next_refresh(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    served = Exporter(warehouse)
    served.refresh()
    assert scraped(served)["rebalance_audit_up", ()] == 1
    finding = {
        "cluster_id": "c", "finding_id": "f", "rule_id": "RB007", "severity": "warning", "subject_type": "group",
        "subject": "g", "status": "open", "first_seen_at_ms": 1, "last_seen_at_ms": 2, "title": "t", "evidence": ["r"],
    }  # fmt: skip
    warehouse.append("gold.finding", rows_to_table("gold.finding", [finding]))
    served.refresh()
    open_finding = ("rebalance_audit_finding_open", labels(cluster="c", rule="RB007", severity="warning"))
    assert open_finding not in scraped(served)
    warehouse.publish({"gold.finding": warehouse.version("gold.finding") or 0})
    served.refresh()
    assert scraped(served)[open_finding] == 1


def test_a_warehouse_that_goes_away_is_shown_and_the_last_numbers_stay(tmp_path: Path) -> None:
    place = tmp_path / "w"
    served = Exporter(gold_rows.write(place, many=1))
    served.refresh()
    before = scraped(served)
    (place / "published.json").unlink()
    (place / "published.json").mkdir()
    served.refresh()
    after = scraped(served)
    assert after["rebalance_audit_up", ()] == 0
    key = next(key for key in before if key[0] == "rebalance_audit_rebalances_total")
    assert after[key] == before[key]


def test_a_check_counts_as_failed_by_its_last_run_only() -> None:
    verdict = {"table_name": "gold.rebalance", "check_name": "names its evidence"}
    runs = [
        {**verdict, "batch_id": "publish:finding@9-10", "success": True},
        {**verdict, "batch_id": "publish:finding@2-9", "success": False},
    ]
    assert [v["success"] for v in last_verdicts(runs)] == [True]
    by_hand = {**verdict, "batch_id": "check:gold.rebalance@3", "success": False}
    assert [v["success"] for v in last_verdicts([*runs, by_hand])] == [False, True]


def test_the_page_is_served_on_loopback(filled: Warehouse) -> None:
    served = Exporter(filled)
    served.refresh()
    port = served.listen("127.0.0.1", 0)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            page = answer.read().decode()
    finally:
        served.close()
    for name in METRICS:
        assert f"# HELP rebalance_audit_{name}" in page, name


def test_every_metric_of_the_alert_rules_is_served() -> None:
    rules = (ROOT / "infra" / "prometheus" / "rules.yml").read_text()
    recorded = set(re.findall(r"record: \w+:(rebalance_audit_\w+):", rules))
    expressions = " ".join(re.findall(r"expr: (?:>-\n\s+)?(.+)", rules))
    used = set(re.findall(r"rebalance_audit_\w+", expressions)) - recorded
    served = {f"rebalance_audit_{name}" for name in METRICS} | {f"rebalance_audit_{name}_total" for name in METRICS}
    assert used
    assert used <= served


# ---- the pipeline itself


def test_a_source_is_a_topic_or_the_logs_of_a_node(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    row = {"cluster_id": "c", "from_position": 0, "is_gap": False, "problem_code": "none"}
    coverage = [
        row | {"source": "record:__consumer_offsets-7", "kind": "record", "to_at_ms": 5_000},
        row | {"source": "record:__consumer_offsets-49", "kind": "record", "to_at_ms": 9_000},
        row | {"source": "log:broker-1/server.log#ab", "kind": "log", "to_at_ms": 7_000},
        row | {"source": "log:broker-1/server.log.1#cd", "kind": "log", "to_at_ms": None},
        row | {"source": "record:connect-status-0", "kind": "record", "to_at_ms": 99_000, "is_gap": True},
    ]
    warehouse.append("gold.coverage", rows_to_table("gold.coverage", coverage))
    warehouse.publish({"gold.coverage": warehouse.version("gold.coverage") or 0})
    ends = health_metrics.source_ends(warehouse)
    assert ends == {("c", "__consumer_offsets"): 9_000, ("c", "logs of broker-1"): 7_000}
    ages = health_metrics.source_ages(ends, now_s=60.0)
    assert {s.labels["source"]: s.value for s in ages.samples} == {"__consumer_offsets": 51.0, "logs of broker-1": 53.0}


def test_how_far_the_tables_are_behind_is_known_where_a_watch_says_it(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)

    def seconds() -> list[float]:
        metric = health_metrics.tables_behind(behind.kept(warehouse), now_s=100.0)
        return [sample.value for sample in metric.samples]

    assert seconds() == []
    behind.keep(warehouse, behind.Behind(said_at_ms=90_000, since_ms=44_000, round_ms=46_000))
    assert seconds() == [56.0]
    warehouse.remember(behind.LAST_RUN, {"ended_at_ms": 89_000})
    assert seconds() == [56.0]
    warehouse.remember(behind.LAST_RUN, {"ended_at_ms": 95_000})
    assert seconds() == []  # somebody's run took in what was missing, or some of it
    behind.keep(warehouse, behind.Behind(said_at_ms=91_000))
    assert seconds() == [0.0]
    warehouse.remember(behind.NOTE, {"said_at_ms": 90_000, "since": "a later release"})
    assert seconds() == []


def test_a_run_leaves_its_times_for_the_metrics(tmp_path: Path) -> None:
    from spark_jobs import pipeline

    location = str(tmp_path / "w")
    assert cli.run(["import", "-q", "-w", location, str(ROOT / "tests/golden/4.3.0/eager_join_leave_kill")]) == 0
    pipeline.run(location, engine="local")
    served = Exporter(Warehouse.open(location))
    served.refresh()
    found = scraped(served)
    assert {dict(key)["stage"] for name, key in found if name == "rebalance_audit_run_seconds"} >= {"bronze", "publish"}
    assert found["rebalance_audit_evidence_log_leaves", ()] == 5  # begin, three tables of bronze, the publication
    assert found["rebalance_audit_last_run_timestamp_seconds", ()] > 0
    rebalances = Warehouse.open(location).read("gold.rebalance").num_rows
    assert found["rebalance_audit_run_rows", labels(table="gold.rebalance")] == rebalances


def test_messages_that_wait_are_counted(tmp_path: Path) -> None:
    warehouse = gold_rows.write(tmp_path / "w", many=0)
    served = Exporter(warehouse)
    served.refresh()
    name = ("rebalance_audit_alerts_waiting", ())
    assert scraped(served)[name] == 0  # nobody was ever sent anything
    open_ones = warehouse.query(
        "SELECT incident_id FROM gold.incident WHERE status = 'open' AND severity <> 'info'"
    ).num_rows
    assert open_ones >= 2
    # A target that had one message, about an incident that is still open and new to it but for that.
    state = tmp_path / "w/notes/alerts.json"
    state.parent.mkdir(exist_ok=True)
    state.write_text(
        '{"version": 2, "delivered": {"a-target": {"in:none": {"status": "over", "severity": "warning"}}}}'
    )
    served.refresh()
    over = warehouse.query(
        "SELECT incident_id FROM gold.incident WHERE status = 'over' AND severity <> 'info'"
    ).num_rows
    assert scraped(served)[name] == open_ones + over
    state.write_text("not what this version wrote")
    served.refresh()
    assert name not in scraped(served)  # not known is not 0
    assert scraped(served)["rebalance_audit_up", ()] == 1
