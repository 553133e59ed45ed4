"""Real runs on a standalone Airflow, asked over its REST API: a task is killed, a gate is deferred, others follow."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.dags.standalone import OVER, ROOT, Standalone
from tests.dags.test_rebalance_audit import CAPTURE
from tests.docs.pages import typed
from tests.spark_jobs.arrivals import deliver
from tests.spark_jobs.synthetic import a_generation, land

pytest.importorskip("airflow", reason="Airflow is not installed")
pytestmark = pytest.mark.airflow

COMMAND = f"{sys.executable} -m rebalance_audit.cli"
GROUP = "orders-app"
DAYS = "rebalance_audit_days"
DAY_OF = {"2026-11-01": CAPTURE.name, "2026-11-03": "cooperative_scale_up"}
"""Evidence by day; of the day between there is none."""
COMPARED = ("gold.rebalance", "gold.movement", "gold.finding", "gold.incident")


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scheduled") / "w"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory, warehouse: Path) -> Iterator[Standalone]:
    given = {"REBALANCE_AUDIT_COMMAND": COMMAND, "REBALANCE_AUDIT_WAREHOUSE": str(warehouse)}
    with Standalone(tmp_path_factory.mktemp("airflow"), given) as started:
        started.type(typed("airflow", {}, slice(0, 1)))
        yield started


def gold(place: Path) -> dict[str, list[dict[str, Any]]]:
    opened = Warehouse.open(place)
    return {
        table: sorted(opened.query(f"SELECT * FROM {table}").to_pylist(), key=lambda row: json.dumps(row, default=str))
        for table in COMPARED
    }


def runs_on(place: Path) -> list[int]:
    """Processes of `run`; ours alone, since the command line names this test's warehouse."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (
                (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdigit() else []
            )
            if words[1:4] == ["-m", "rebalance_audit.cli", "run"] and str(place) in words:
                found.append(int(entry.name))
    return found


def killed_in_the_middle(place: Path, patience_s: float = 200) -> None:
    """SIGKILL when decode has committed and nothing is published."""
    give_up_at = time.monotonic() + patience_s
    while time.monotonic() < give_up_at:
        if (place / "silver" / "group_event" / "_delta_log" / f"{1:020d}.json").exists():
            for pid in runs_on(place):
                os.kill(pid, signal.SIGKILL)
            assert not (place / "published.json").exists()
            return
        time.sleep(0.01)
    raise AssertionError("no run has come so far")


@pytest.fixture(scope="module")
def filled(airflow: Standalone, warehouse: Path) -> dict[str, dict[str, Any]]:
    """The backfill of the docs over three days, whose first run is killed; each run by its date. Another DAG wants to
    write meanwhile."""
    evidence = warehouse.parent / "evidence"
    for day, capture in DAY_OF.items():
        shutil.copytree(CAPTURE.parent / capture, evidence / day)
    airflow.unpause("rebalance_audit_example_after", DAYS)
    airflow.drop_scheduled(DAYS)
    fill = typed("airflow", {"EVIDENCE": str(evidence)}, slice(1, 2))
    # The scheduler begins the first run while the command makes the others: on SQLite the two meet where that is slow.
    airflow.pause(DAYS)
    airflow.type(fill)
    airflow.unpause(DAYS)
    killed_in_the_middle(warehouse)
    airflow.unpause("rebalance_audit_maintenance")  # its last tick runs at once
    waiting = airflow.wait_for(
        "the killed task waits for its next try",
        lambda: [
            (run["dag_run_id"], task)
            for run in airflow.runs(DAYS)
            if run["run_type"] == "backfill"  # a task of the dropped run may end after it was dropped
            for task in airflow.tasks(DAYS, run["dag_run_id"]).values()
            if task["state"] == "up_for_retry"
        ],
        60,
    )
    assert len(waiting) == 1, [airflow.log(DAYS, dag_run, task["task_id"]) for dag_run, task in waiting]
    for dag_run, task in waiting:
        airflow.retry_now(DAYS, dag_run, task["task_id"])

    def over() -> dict[str, dict[str, Any]]:
        runs = {run["logical_date"][:10]: run for run in airflow.runs(DAYS) if run["run_type"] == "backfill"}
        return runs if {run["state"] for run in runs.values()} <= OVER else {}

    runs = airflow.wait_for("the backfill", over, 300)
    airflow.fill_again(fill, DAYS)
    return runs


def test_a_killed_task_is_tried_again_and_the_tables_are_the_same(
    airflow: Standalone, warehouse: Path, filled: dict[str, dict[str, Any]], tmp_path: Path
) -> None:
    assert {day: run["state"] for day, run in filled.items()} == dict.fromkeys(
        ("2026-11-02", "2026-11-03", "2026-11-04"), "success"
    )
    tasks = {day: airflow.tasks(DAYS, run["dag_run_id"]) for day, run in filled.items()}
    assert tasks["2026-11-02"]["run_day"]["try_number"] == 2
    assert [tasks[day]["import_day"]["state"] for day in sorted(tasks)] == ["success", "skipped", "success"]
    undisturbed = tmp_path / "w"
    for day in DAY_OF:
        for given in (["import", str(warehouse.parent / "evidence" / day)], ["run"]):
            subprocess.run([*COMMAND.split(), *given, "-q", "-w", str(undisturbed)], cwd=ROOT, check=True)
    assert gold(warehouse) == gold(undisturbed)


def test_a_window_that_is_filled_is_not_filled_again(airflow: Standalone, filled: dict[str, dict[str, Any]]) -> None:
    again = {run["dag_run_id"] for run in airflow.runs(DAYS) if run["run_type"] == "backfill"}
    assert again == {run["dag_run_id"] for run in filled.values()}


def test_two_dags_never_write_at_the_same_time(airflow: Standalone, filled: dict[str, dict[str, Any]]) -> None:
    (other,) = airflow.runs("rebalance_audit_maintenance")
    assert airflow.wait_for_end("rebalance_audit_maintenance", other["dag_run_id"], 200) == "success"
    tried = list(airflow.tasks("rebalance_audit_maintenance", other["dag_run_id"]).values())
    for run in filled.values():
        tried += airflow.tasks(DAYS, run["dag_run_id"]).values()
    spans = sorted(
        (t["start_date"], t["end_date"]) for t in tried if t["pool"] == "rebalance_audit" and t["start_date"]
    )
    assert len(spans) >= 6
    assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_another_teams_dag_runs_after_the_publication(
    airflow: Standalone, warehouse: Path, filled: dict[str, dict[str, Any]]
) -> None:
    events = airflow.ask("GET", "/api/v2/assets/events?limit=10")["asset_events"]
    assert {(e["source_dag_id"], e["source_task_id"], e["extra"]["warehouse"]) for e in events} == {
        (DAYS, "run_day", str(warehouse))
    }
    airflow.wait_for("the run after it", lambda: airflow.runs("rebalance_audit_example_after"), 60)
    after = airflow.runs("rebalance_audit_example_after")[0]
    assert airflow.wait_for_end("rebalance_audit_example_after", after["dag_run_id"], 120) == "success"
    assert "incident_id" in airflow.log("rebalance_audit_example_after", after["dag_run_id"], "incidents")


def test_a_gate_waits_in_the_triggerer_until_the_group_has_settled(
    airflow: Standalone, warehouse: Path, filled: dict[str, dict[str, Any]]
) -> None:
    """A deploy after the end of the evidence is not settled: the gate is deferred, until more evidence comes."""
    sql = (
        "SELECT cluster_id, max(to_at_ms) AS t FROM gold.coverage WHERE NOT is_gap GROUP BY 1 "
        "HAVING cluster_id IN (SELECT cluster_id FROM gold.group WHERE group_id = ?)"
    )
    ((cluster_id, end_ms),) = (row.values() for row in Warehouse.open(warehouse).query(sql, [GROUP]).to_pylist())
    since = datetime.fromtimestamp(end_ms / 1000 + 60, UTC)
    airflow.unpause("rebalance_audit_example_deploy")
    conf = {"group": GROUP, "since": since.isoformat(), "warehouse": str(warehouse)}
    run_id = airflow.trigger("rebalance_audit_example_deploy", conf)

    def gate() -> dict[str, Any]:
        return airflow.tasks("rebalance_audit_example_deploy", run_id)["gate"]

    airflow.wait_for("the gate is deferred", lambda: gate()["state"] == "deferred", 120)
    assert gate()["triggerer_job"] or airflow.wait_for("a triggerer has it", lambda: gate()["triggerer_job"], 60)
    opened, at_ms = Warehouse.open(warehouse), end_ms + 600_000  # a collector brings another group's record
    land(opened, "later", [a_generation(0, 1, "other", cluster_id=cluster_id, partition=49, timestamp_ms=at_ms)])
    reading = {
        "cluster_id": cluster_id, "source": "record:__consumer_offsets-49", "read_id": "later", "kind": "record",
        "from_position": 0, "to_position": 1, "from_at_ms": at_ms, "to_at_ms": at_ms, "item_count": 1,
        "landing": "later",
    }  # fmt: skip
    deliver(opened, "later", {"source": rows_to_table("bronze.source", [reading])})
    subprocess.run([*COMMAND.split(), "run", "-q", "-w", str(warehouse)], cwd=ROOT, check=True)
    state = airflow.wait_for_end("rebalance_audit_example_deploy", run_id, 180)
    assert state == "success", airflow.log("rebalance_audit_example_deploy", run_id, "gate")
    assert "It has settled." in airflow.log("rebalance_audit_example_deploy", run_id, "gate")
    marked = Warehouse.open(warehouse).query("SELECT DISTINCT at_ms, scope FROM gold.mark WHERE source = 'told'")
    assert marked.to_pylist() == [{"at_ms": end_ms + 60_000, "scope": GROUP}]
