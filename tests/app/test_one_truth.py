"""A number that is shown in several places is the same in all: app, report, `explain`, metrics and the tables.

The expected values are summed here, from the rows, by Python and not by the SQL that the places share.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from app import words
from app.queries import Questions
from ingest.folders import open_folder
from rebalance_audit.commands.collect import land_folder
from rebalance_audit.commands.company import COMPANY, RECORDED
from rebalance_audit.commands.explain.group import answer_for
from rebalance_audit.commands.explain.group_reading import from_folder
from rebalance_audit.commands.pipeline import run_stages
from rebalance_audit.exporter import read_metrics
from rebalance_audit.reports.period import Report
from rebalance_audit.reports.read import read_report
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app.opening import MAIN, cells, links, long_tables, said


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    location = str(tmp_path_factory.mktemp("demo") / "w")
    for name, place in COMPANY.items():
        land_folder(open_folder(RECORDED / place, cluster_id=name), location, quiet=True)
    opened = Warehouse.open(location)
    run_stages(opened, quiet=True)
    return opened


Row = dict[str, Any]


@pytest.fixture(scope="module")
def rows(demo: Warehouse) -> list[Row]:
    return demo.read("gold.rebalance").to_pylist()


@pytest.fixture(scope="module")
def report(demo: Warehouse) -> Report:
    return read_report(demo)


def counted(rows: list[Row]) -> list[Row]:
    return [r for r in rows if r["kind"] == "rebalance" and r["outcome"] != "missing"]


def cost(rows: list[Row]) -> float | None:
    known = [r["resource_seconds_estimate"] for r in rows if r["resource_seconds_estimate"] is not None]
    return math.fsum(known) if known else None


def by_group(rows: list[Row]) -> Iterator[tuple[tuple[str, str], list[Row]]]:
    for key in sorted({(r["cluster_id"], r["group_id"]) for r in rows}):
        yield key, [r for r in rows if (r["cluster_id"], r["group_id"]) == key]


def same(found: float | None, expected: float | None) -> bool:
    return found is expected is None or found == pytest.approx(expected, abs=1e-6)


@pytest.fixture
def page(demo: Warehouse, monkeypatch: pytest.MonkeyPatch) -> Any:
    def opened(view: str, **params: str) -> AppTest:
        monkeypatch.setattr("sys.argv", ["streamlit"])
        monkeypatch.setenv("REBALANCE_AUDIT_WAREHOUSE", demo.location)
        at = AppTest.from_file(str(MAIN), default_timeout=120)
        at.switch_page(f"views/{view}.py")
        for name, value in params.items():
            at.query_params[name] = value
        at.run()
        assert not at.exception
        return at

    return opened


def test_the_fleet_costs_the_same_in_report_app_metrics_incidents_and_rows(
    demo: Warehouse, rows: list[Row], report: Report
) -> None:
    total = cost(rows)
    assert same(report.cost.estimate, total)
    assert report.rebalance_count == len(counted(rows))
    assert same(math.fsum(c.cost.estimate or 0 for c in report.causes), total)
    assert sum(c.rebalance_count for c in report.causes) == len(counted(rows))
    reader = Questions.open(demo.location)
    span = reader.span()
    assert span is not None
    fleet = reader.fleet(span)
    assert same((fleet.partition_seconds or 0) + (fleet.task_seconds or 0), total)
    assert (fleet.rebalance_count, fleet.expected_count) == (report.rebalance_count, report.expected_count)
    over_time = reader.fleet_over_time(span, 7)
    assert same(over_time["cost"].sum(), total)
    assert over_time["rebalances"].sum() == len(counted(rows))
    metrics = {m.name: m for m in read_metrics(demo)[0]}
    lost = metrics["rebalance_audit_resource_seconds_lost"].samples
    assert same(math.fsum(s.value for s in lost), total)
    assert sum(s.value for s in metrics["rebalance_audit_rebalances"].samples) == len(counted(rows))
    incidents = demo.read("gold.incident", ["cost_seconds"]).column(0).to_pylist()
    assert same(math.fsum(c or 0 for c in incidents), total)


def test_a_group_costs_the_same_everywhere(demo: Warehouse, rows: list[Row], report: Report) -> None:
    reader = Questions.open(demo.location)
    span = reader.span()
    assert span is not None
    listed = reader.groups(span).to_pandas().set_index(["cluster_id", "group_id"])
    reported = {(g.cluster_id, g.group_id): g for g in report.groups}
    gold = {(g["cluster_id"], g["group_id"]): g for g in demo.read("gold.group").to_pylist()}
    for key, mine in by_group(rows):
        expected = (len(counted(mine)), cost(mine))
        found = listed.loc[key]
        assert (found["rebalances"], reported[key].rebalance_count, gold[key]["rebalance_count"]) == (expected[0],) * 3
        for number in (found["cost"], reported[key].cost.estimate, gold[key]["resource_seconds_estimate"]):
            assert same(None if number is None or math.isnan(number) else number, expected[1])


def test_a_cost_is_booked_on_the_root_cause_of_its_incident(demo: Warehouse, rows: list[Row], report: Report) -> None:
    """A worker was killed; nothing stood still until its session ended, all of it until the scheduled delay did."""
    incidents = demo.read("gold.incident").to_pylist()
    booked = {(i["cluster_id"], r): i["root_cause"] for i in incidents for r in i["rebalance_ids"]}
    assert len(booked) == sum(len(i["rebalance_ids"]) for i in incidents)
    by_cause: dict[str, list[Row]] = {}
    for r in rows:
        cause = booked.get((r["cluster_id"], r["rebalance_id"])) or r["trigger"]
        by_cause.setdefault(cause, []).append(r)
    reader = Questions.open(demo.location)
    span = reader.span()
    assert span is not None
    over_time = reader.fleet_over_time(span, 5)
    assert {c.trigger for c in report.causes} == set(over_time["trigger"]) == set(by_cause)
    for c in report.causes:
        assert (c.rebalance_count, same(c.cost.estimate, cost(by_cause[c.trigger]))) == (
            len(counted(by_cause[c.trigger])), True,
        )  # fmt: skip
        mine = over_time[over_time["trigger"] == c.trigger]
        assert same(mine["cost"].sum(), cost(by_cause[c.trigger]) or 0)
        assert mine["rebalances"].sum() == len(counted(by_cause[c.trigger]))
    kill = {c.trigger: c for c in reader.group_causes("reporting", "connect-lab", span)}
    assert "connect_delay_expired" not in kill
    killed = kill["member_session_expired"]
    assert same(killed.resource_seconds, cost([r for r in rows if r["cluster_id"] == "reporting"]))
    assert killed.resource_seconds == pytest.approx(91.647)
    assert (killed.rebalance_count, killed.client, killed.client_count) == (2, "localhost:21293", 2)
    for i in incidents:  # or a question about a span would not find it
        for r in rows:
            if r["rebalance_id"] in i["rebalance_ids"] and r["cluster_id"] == i["cluster_id"]:
                at_ms = r["assigned_at_ms"] or r["ended_at_ms"] or r["started_at_ms"]
                assert i["first_at_ms"] <= at_ms <= i["last_at_ms"]


def test_explain_says_what_the_tables_say(rows: list[Row]) -> None:
    reading = from_folder(open_folder(RECORDED / COMPANY["orders"]), "orders-app", lambda done, total, what: None)
    answer = answer_for(reading)
    mine = [r for r in rows if r["cluster_id"] == "orders"]
    assert same(math.fsum(r.resource_seconds_estimate or 0 for r in answer.rebalances), cost(mine))
    assert same(math.fsum(i.cost_seconds or 0 for i in answer.incidents), cost(mine))


def test_a_killed_worker_costs_one_number_on_the_connect_page(page: Any, rows: list[Row]) -> None:
    total = cost([r for r in rows if r["cluster_id"] == "reporting"])
    text = said(page("connect", cluster="reporting", group="connect-lab"))
    assert total is not None
    number = words.seconds(total, "task")
    seconds = set(re.findall(r"[\d,.]+ task-seconds", text))
    eager = {s for s in seconds if f"at least {s}" in text}
    assert seconds - eager == {number}
    assert text.startswith("reporting · Connectconnect-labWhich tasks were not running? 3 of 10 tasks and connectors")


def test_the_groups_page_shows_the_rows_of_the_tables(page: Any, rows: list[Row]) -> None:
    (table,) = long_tables(page("groups"))
    found = {(r["cluster"], r["group"]): r for r in table.to_dict("records")}
    for key, mine in by_group(rows):
        assert found[key]["rebalances"] == len(counted(mine))
        number = found[key]["downtime, s"]
        assert same(None if math.isnan(number) else number, cost(mine))


def test_no_page_shows_a_duration_below_zero(page: Any, demo: Warehouse) -> None:
    below = re.compile(r"[(…\s][-\u2212]\d[\d.,]* ?(ms|s|min|h)\b")
    for view in ("groups", "findings", "connect", "reassignments", "trust", "compare"):
        at = page(view)
        assert not below.search(said(at) + cells(at)), view
    reader = Questions.open(demo.location)
    for row in reader.rows("SELECT cluster_id, rebalance_id FROM gold.movement WHERE pause_lower_ms < 0 LIMIT 3"):
        at = page("rebalance", cluster=row["cluster_id"], rebalance=row["rebalance_id"])
        assert not below.search(said(at) + cells(at)), row


def test_connect_shows_one_kill_once_with_its_cost_and_what_to_do(page: Any, demo: Warehouse) -> None:
    (incident,) = (i for i in demo.read("gold.incident").to_pylist() if i["kind"] == "connect_worker")
    assert incident["finding_ids"]
    at = page("connect")
    text = said(at)
    assert text.count("Worker localhost:21293 went and did not come back") == 1
    assert "sent no heartbeat until its session expired" not in text  # the finding of the same kill
    assert "What to do: The others took its tasks once" in text
    assert any(label == "Its incident" and "incident?" in target for label, target in links(at))
