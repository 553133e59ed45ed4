"""The whole path on a real cluster: while clients come, go and die, the collector follows; afterwards the gold tables
show what happened, why, and bounds that contain what the clients saw themselves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rebalance_audit.domain.model import Movement, Rebalance, from_row
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.truth import score_pauses, true_pauses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.broker, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
CLASSIC, CONNECT = "orders-app", "connect-lab"
FLUSH_S = 15
"""The collector holds back a log file's last event for 2 s, and writes every 5 s."""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "rebalance_audit.cli", *arguments]


def called(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REBALANCE_AUDIT")}
    return subprocess.run(
        command(*arguments), cwd=ROOT, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@dataclass(slots=True, kw_only=True)
class Audited:
    """One lab run, and what was said and stored about it."""

    warehouse: Warehouse
    events: list[dict[str, Any]]
    groups: dict[str, Any]
    worker_urls: dict[str, str]
    explained: dict[str, subprocess.CompletedProcess[str]]
    doctor: subprocess.CompletedProcess[str]

    def rebalances(self, group: str) -> list[Rebalance]:
        """As the gold tables have them."""
        rows = self.warehouse.query(
            "SELECT * FROM gold.rebalance WHERE group_id = ? ORDER BY generation_id, rewrite_seq", [group]
        ).to_pylist()
        moved = self.warehouse.query("SELECT * FROM gold.movement WHERE group_id = ?", [group]).to_pylist()
        by_id: dict[str, list[dict[str, Any]]] = {}
        for row in moved:
            by_id.setdefault(row["rebalance_id"], []).append(row)
        return [from_row(Rebalance, {**row, "movements": by_id.get(row["rebalance_id"], [])}) for row in rows]


@pytest.fixture(scope="module")
def audited(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Audited:
    from infra.lab.clients import read_events
    from infra.lab.cluster import Cluster
    from infra.lab.driver import Driver
    from infra.lab.shape import ClusterShape
    from spark_jobs import pipeline

    folder = tmp_path_factory.mktemp("whole-path")
    lab_folder, place = folder / "lab", folder / "warehouse"
    lab_folder.mkdir()
    shape = ClusterShape(connect_workers=1, worker_properties={"scheduled.rebalance.max.delay.ms": 20_000})
    cluster = Cluster(shape, folder=lab_folder)
    with cluster:
        logs = cluster.folder / "logs"
        (logs / "worker-2").mkdir(exist_ok=True)  # it joins later
        named = [f"--logs={node}={logs / node}" for node in ("broker-1", "worker-1", "worker-2")]
        collector = subprocess.Popen(
            command("collect", "-b", cluster.bootstrap, "-w", str(place), *named),
            cwd=ROOT, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        driver = Driver(cluster)
        try:
            _drive(driver)
            driver.check()
            time.sleep(FLUSH_S)
            explained = {
                group: called("explain", group, "-b", cluster.bootstrap, *named, "-q") for group in (CLASSIC, CONNECT)
            }
            explained["order-app"] = called("explain", "order-app", "-b", cluster.bootstrap, "-q")
            doctor = called("doctor", "-b", cluster.bootstrap, "--logs", str(logs / "broker-1"), "-o", "json")
            events = read_events(cluster.folder / "truth")
            story, urls = driver.story("whole path", ""), cluster.worker_urls()
        finally:
            collector.send_signal(signal.SIGTERM)  # before the clients end, which would be one rebalance more
            _, said = collector.communicate(timeout=60)
            driver.end()
        assert collector.returncode == 0, said
    warehouse = Warehouse.open(place)
    pipeline.run(warehouse, spark=spark)
    return Audited(
        warehouse=warehouse, events=events, groups=story["groups"], worker_urls=urls, explained=explained,
        doctor=doctor,
    )  # fmt: skip


def _drive(driver: Any) -> None:
    """An eager group loses a member to SIGKILL; a Connect cluster gets a second worker."""
    group = driver.connect_group()
    driver.topics(orders=6, events=2)
    driver.produce()
    driver.connector("alpha", 4, "events")
    driver.group(CLASSIC, group_type="classic", mode="eager", assignor="range")
    for name in ("c1", "c2", "c3"):
        driver.join(name, CLASSIC, ["orders"])
        driver.expect(CLASSIC, "member_joined", [name])
        driver.settle(CLASSIC)
    driver.kill("c3")
    driver.expect(CLASSIC, "member_session_expired", ["c3"])
    driver.settle(CLASSIC)
    driver.settle_connect()
    driver.worker_joins(2)
    driver.expect(group, "connect_worker_joined", ["worker-2"])
    driver.expect(group, "connect_revocation_follow_up", ["worker-1"])
    driver.settle_connect()


@pytest.mark.parametrize("group", [CLASSIC, CONNECT])
def test_every_rebalance_that_was_caused_is_shown_with_its_cause(audited: Audited, group: str) -> None:
    found = audited.rebalances(group)
    expected = [(r["number"], r["outcome"], r["trigger"]) for r in audited.groups[group]["rebalances"]]
    assert [(r.generation_id, r.outcome, r.trigger) for r in found] == expected


def test_the_killed_consumer_is_shown_by_log_and_record(audited: Audited) -> None:
    (killed,) = [r for r in audited.rebalances(CLASSIC) if r.trigger == "member_session_expired"]
    assert killed.trigger_tier == "logged"
    refs = {ref.partition(":")[0] for ref in killed.evidence}
    assert refs == {"log", "record"}
    (start,) = [e["at_ms"] for e in audited.events if e["event"] == "killed"]
    # The session of 10 s began with its last heartbeat, at most 3 s before the kill.
    assert killed.started_at_ms is not None
    assert 6_500 <= killed.started_at_ms - start <= 14_000
    moved = {m.resource: (m.from_client_id, m.to_client_id) for m in killed.movements if m.from_client_id == "c3"}
    assert len(moved) == 2
    assert {to for _, to in moved.values()} <= {"c1", "c2"}


def test_the_bounds_of_every_pause_contain_what_the_consumers_saw(audited: Audited) -> None:
    truth = true_pauses(audited.events, {"c1": CLASSIC, "c2": CLASSIC, "c3": CLASSIC})
    score = score_pauses(audited.rebalances(CLASSIC), truth)
    assert score.pauses >= 10
    assert score.unmatched == []
    assert score.outside == []


def test_the_bounds_of_every_pause_contain_what_the_tasks_saw(audited: Audited) -> None:
    stopped: dict[str, int] = {}
    truth: dict[str, int] = {}
    for event in audited.events:
        names = event.get("tasks") or event.get("connectors") or ()
        for name in names:
            if event["event"] in ("task_stop_begin", "connector_stop"):
                stopped[name] = event["at_ms"]
            elif event["event"] in ("task_start_end", "connector_start") and name in stopped:
                truth[name] = event["at_ms"] - stopped.pop(name)
    moved: dict[str, Movement] = {
        m.resource: m for r in audited.rebalances(CONNECT) for m in r.movements if m.kind in ("moved", "restarted")
    }
    assert truth
    assert moved.keys() == truth.keys()
    for name, pause_ms in truth.items():
        movement = moved[name]
        assert movement.to_worker_url == audited.worker_urls["worker-2"]
        assert movement.pause_lower_ms is not None
        assert movement.pause_lower_ms <= pause_ms, name
        assert movement.pause_upper_ms is None or pause_ms <= movement.pause_upper_ms, name


def test_running_again_changes_nothing(audited: Audited, spark: SparkSession) -> None:
    from spark_jobs import pipeline

    before = audited.warehouse.published()
    assert pipeline.run(audited.warehouse, spark=spark).ms_by_stage == {}
    assert audited.warehouse.published() == before


def test_the_finding_about_the_killed_member_is_there_and_fails_a_check(audited: Audited) -> None:
    result = called("check", "-w", audited.warehouse.location, "-g", CLASSIC, "-o", "json", "-q")
    assert result.returncode == 3
    assert "RB007" in {row["rule_id"] for row in json.loads(result.stdout)}


def test_no_secret_of_the_connector_reached_the_warehouse(audited: Audited) -> None:
    for path in Path(audited.warehouse.location).rglob("*.parquet"):
        import pyarrow.parquet as pq

        assert "made-up-secret" not in str(pq.read_table(path).to_pydict()), path


def test_explain_on_the_running_cluster_says_the_same(audited: Audited) -> None:
    classic, connect = audited.explained[CLASSIC], audited.explained[CONNECT]
    assert classic.returncode == 0, classic.stderr
    assert "sent no heartbeat for its session timeout of 10 s" in " ".join(classic.stdout.split())
    assert connect.returncode == 0, connect.stderr
    assert "second round of a Connect hand-over" in connect.stdout
    for row in audited.groups[CLASSIC]["rebalances"]:
        assert f" {row['number']}   " in classic.stdout


def test_a_wrong_name_is_answered_with_the_groups_of_the_cluster(audited: Audited) -> None:
    result = audited.explained["order-app"]
    assert result.returncode == 2
    assert "Did you mean: orders-app?" in result.stderr


def test_the_doctor_finds_the_cluster_readable(audited: Audited) -> None:
    states = {check["subject"]: check["state"] for check in json.loads(audited.doctor.stdout)}
    assert states["brokers"] == states["__consumer_offsets"] == states["files"] == "ok"


def test_watching_joined_no_group(audited: Audited) -> None:
    seen = audited.warehouse.query("SELECT DISTINCT group_id FROM gold.rebalance ORDER BY 1").column(0).to_pylist()
    assert seen == [CONNECT, CLASSIC]
