"""The DAG: what it consists of, and one real run of it on recorded evidence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from spark_jobs.plan import STAGES
from tests.webhook import Quiet, listening

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "tests" / "golden" / "4.3.0" / "eager_join_leave_kill"

pytest.importorskip("airflow", reason="Airflow is not installed")
pytestmark = pytest.mark.airflow

_LOOK = """
import json, sys
from airflow.dag_processing.dagbag import DagBag

bag = DagBag({folder!r})
dags = {{
    dag.dag_id: {{
        "order": [task.task_id for task in dag.topological_sort()],
        "downstream": {{task.task_id: sorted(task.downstream_task_ids) for task in dag.tasks}},
        "docs": dag.doc_md,
        "owner": dag.owner,
        "max_active_runs": dag.max_active_runs,
        "catchup": dag.catchup,
        "retries": [task.retries for task in dag.tasks],
        "pools": {{task.task_id: task.pool for task in dag.tasks}},
        "outlets": {{task.task_id: [outlet.name for outlet in task.outlets] for task in dag.tasks if task.outlets}},
        "commands": {{task.task_id: getattr(task, "bash_command", "") for task in dag.tasks}},
    }}
    for dag in bag.dags.values()
}}
heavy = [name for name in ("pyspark", "great_expectations", "confluent_kafka", "streamlit") if name in sys.modules]
print("FOUND " + json.dumps({{"dags": dags, "errors": bag.import_errors, "heavy": heavy}}))
"""


def in_airflow(tmp_path: Path, program: str, **extra: str) -> subprocess.CompletedProcess[str]:
    """Airflow reads its settings when it is imported and keeps global state, so it gets a process of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "REBALANCE_AUDIT"))}
    environment = kept | {
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__DAGS_FOLDER": str(ROOT / "dags"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__UNIT_TEST_MODE": "False",
        "AIRFLOW__LOGGING__BASE_LOG_FOLDER": str(tmp_path / "airflow" / "logs"),
        # The venv need not be activated: what Airflow starts by name must be found beside this interpreter.
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
        "PYTHONPATH": str(ROOT),
        **extra,
    }
    return subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=1_500,
        check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    done = in_airflow(tmp_path_factory.mktemp("look"), _LOOK.format(folder=str(ROOT / "dags")))
    line = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    assert line is not None, done.stdout + done.stderr
    listed: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return listed


def test_every_dag_imports_cleanly(found: dict[str, Any]) -> None:
    assert found["errors"] == {}
    expected = [
        "rebalance_audit", "rebalance_audit_days", "rebalance_audit_example_after", "rebalance_audit_example_deploy",
        "rebalance_audit_maintenance", "rebalance_audit_report", "rebalance_audit_whatif",
    ]  # fmt: skip
    assert sorted(found["dags"]) == expected


def test_reading_the_dags_starts_nothing_heavy(found: dict[str, Any]) -> None:
    assert found["heavy"] == []


def test_every_stage_is_followed_by_its_check_in_the_order_of_the_pipeline(found: dict[str, Any]) -> None:
    dag = found["dags"]["rebalance_audit"]
    stages = [name for stage in STAGES for name in (stage.name, f"check_{stage.name}")]
    expected = ["collect", *stages, "alert"]
    assert dag["order"] == expected
    assert dag["downstream"] == {
        task: [following] if following else [] for task, following in zip(expected, [*expected[1:], None], strict=True)
    }


def test_the_dag_shows_what_it_does_and_who_owns_it(found: dict[str, Any]) -> None:
    dag = found["dags"]["rebalance_audit"]
    assert "When it fails" in dag["docs"]
    assert dag["owner"] == "rebalance-audit"


def test_one_run_at_a_time_and_no_catching_up(found: dict[str, Any]) -> None:
    for dag in found["dags"].values():
        assert dag["max_active_runs"] == 1
        assert dag["catchup"] is False
        assert all(retries >= 1 for retries in dag["retries"])


def test_all_that_write_a_warehouse_share_one_pool(found: dict[str, Any]) -> None:
    pools = {dag_id: set(dag["pools"].values()) for dag_id, dag in found["dags"].items()}
    writing = {f"rebalance_audit{which}" for which in ("", "_days", "_maintenance", "_whatif")}
    assert {dag_id for dag_id, of_dag in pools.items() if "rebalance_audit" in of_dag} == writing
    assert all(len(of_dag) == 1 for of_dag in pools.values())


def test_what_is_published_and_checked_is_an_asset(found: dict[str, Any]) -> None:
    assert {dag_id: dag["outlets"] for dag_id, dag in found["dags"].items() if dag["outlets"]} == {
        "rebalance_audit": {"check_publish": ["rebalance_audit_published"]},
        "rebalance_audit_days": {"run_day": ["rebalance_audit_published"]},
        "rebalance_audit_report": {"report": ["rebalance_audit_report"]},
        "rebalance_audit_whatif": {"weigh": ["rebalance_audit_whatif"]},
    }


def commands(found: dict[str, Any]) -> dict[str, str]:
    return {task: command for dag in found["dags"].values() for task, command in dag["commands"].items()}


def test_no_parameter_is_pasted_into_a_command(found: dict[str, Any]) -> None:
    """Nor is anything else: `{{`, `{%` and, in bash's `${#list[@]}`, `{#` mean something to Airflow's templates."""
    for task, command in commands(found).items():
        assert not {"{{", "{%", "{#"} & {command[at : at + 2] for at in range(len(command))}, task


def test_every_command_is_valid_bash(found: dict[str, Any]) -> None:
    for task, command in commands(found).items():
        done = subprocess.run(["bash", "-n"], input=command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{task}: {done.stderr}"


def test_without_targets_the_alert_task_is_skipped(found: dict[str, Any]) -> None:
    done = subprocess.run(
        ["bash", "-c", found["dags"]["rebalance_audit"]["commands"]["alert"]],
        env={"PATH": os.environ["PATH"], "WAREHOUSE": "nowhere"}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 99


def test_the_alert_task_takes_targets_from_the_settings_or_the_environment(
    found: dict[str, Any], tmp_path: Path
) -> None:
    config = tmp_path / "settings.yaml"
    # The settings are read by the real command; what would be sent is only said.
    program = Path(sys.executable).with_name("rebalance-audit")
    stand_in = tmp_path / "stand_in"
    stand_in.write_text(f'#!/bin/sh\nif [ "$1" = config ]; then exec {program} "$@"; fi\necho "$@"\n')
    stand_in.chmod(0o755)

    def run(**more: str) -> tuple[int, str]:
        given = {"REBALANCE_AUDIT_COMMAND": str(stand_in), "REBALANCE_AUDIT_CONFIG": str(config), "WAREHOUSE": "w"}
        done = subprocess.run(
            ["bash", "-c", found["dags"]["rebalance_audit"]["commands"]["alert"]], capture_output=True, text=True,
            env={"PATH": os.environ["PATH"]} | given | more, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout

    for nothing in ("teams: []\n", "alerts: []\n", "alerts:\n  []\n"):
        config.write_text(nothing)
        assert run()[0] == 99
    for one in ("alerts:\n  - {name: a, url: 'http://a'}\n", '"alerts" : [{name: a, url: "http://a"}]\n'):
        config.write_text(one)
        assert run() == (0, "alert -w w\n")
    assert run(REBALANCE_AUDIT_ALERT_TO="http://b slack://c") == (0, "alert -w w --to http://b --to slack://c\n")
    config.write_text("alarms: []\n")
    assert run()[0] not in (0, 99)


def test_a_day_is_reported_into_a_file_of_its_own(found: dict[str, Any], tmp_path: Path) -> None:
    """With a stand-in for the command, which writes down how it was called."""
    called = tmp_path / "command"
    called.write_text('#!/bin/sh\necho "$@"\n')
    called.chmod(0o755)
    given = {"REBALANCE_AUDIT_COMMAND": str(called), "WAREHOUSE": "w", "REPORTS": str(tmp_path / "out")}

    def run(**day: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-c", commands(found)["report"]], env={"PATH": os.environ["PATH"], **day, **given},
            capture_output=True, text=True, check=False,
        )  # fmt: skip

    assert run(DAY="2026-02-28").returncode == 0
    assert run(DAY="../../etc/passwd").returncode != 0
    (file,) = (tmp_path / "out").iterdir()
    assert file.name == "rebalances-2026-02-28.html"
    assert file.read_text() == "report -w w --from 2026-02-28 --to 2026-03-01 -o html\n"
    assert run(DAY="", RUN_AT="2026-03-02").returncode == 0  # of the day before its run
    assert (tmp_path / "out" / "rebalances-2026-03-01.html").exists()


def test_a_day_without_evidence_is_skipped_and_one_without_a_date_refused(
    found: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "2026-02-28").mkdir()
    given = {"PATH": os.environ["PATH"], "REBALANCE_AUDIT_COMMAND": "echo", "WAREHOUSE": "w", "CLUSTER_ID": "prod"}

    def run(**more: str) -> tuple[int, str]:
        done = subprocess.run(
            ["bash", "-c", commands(found)["import_day"]], env=given | {"FOLDER": str(tmp_path)} | more,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.returncode, done.stdout + done.stderr

    assert run(RUN_AT="2026-03-01") == (0, f"import -q -w w --cluster-id prod -- {tmp_path}/2026-02-28\n")
    assert run(RUN_AT="2026-03-02") == (99, f"There is no {tmp_path}/2026-03-01.\n")
    assert run(RUN_AT="")[0] == 2
    assert run(RUN_AT="2026-03-01", FOLDER="")[0] == 2


_RUN = """
from airflow.utils.db import initdb

initdb()
from airflow.dag_processing.dagbag import DagBag

dag = DagBag({folder!r}).dags["rebalance_audit"]
for task in dag.tasks:
    task.retries = 0
for _ in range(2):
    run = dag.test(run_conf={conf!r})
    print("STATES", {{ti.task_id: str(ti.state) for ti in run.get_task_instances()}})
    print("RUN", run.state)
"""


def test_two_runs_of_the_dag_fill_gold_tables_and_alert_once(tmp_path: Path) -> None:
    """Alerts and annotations, by the settings file; here all receivers are one, which counts. Traces are of incidents
    that are over, and none of this capture is."""
    from rebalance_audit.warehouse.warehouse import Warehouse

    taken: Counter[str] = Counter()

    class Receiver(Quiet):
        def do_GET(self) -> None:
            self._answer([])

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            taken[self.path] += 1
            self._answer({"id": sum(taken.values())})

        def _answer(self, content: Any) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps(content).encode())

    warehouse = tmp_path / "warehouse"
    conf = {"warehouse": str(warehouse), "evidence": str(CAPTURE), "cluster_id": "recorded"}
    command = f"{sys.executable} -m rebalance_audit.cli"
    program = _RUN.format(folder=str(ROOT / "dags"), conf=conf)
    (tmp_path / "token").write_text("glsa_right\n")
    config = tmp_path / "settings.yaml"
    with listening(Receiver) as url:
        config.write_text(
            f"alerts:\n  - {{name: on-call, url: '{url}/alerts'}}\ntraces: {{url: '{url}'}}\n"
            f"annotations: {{url: '{url}', token: {{file: {tmp_path / 'token'}}}}}\n"
        )
        done = in_airflow(tmp_path, program, REBALANCE_AUDIT_COMMAND=command, REBALANCE_AUDIT_CONFIG=str(config))
    said = done.stdout + done.stderr
    assert done.stdout.count("RUN success") == 2, said[-6000:]
    assert done.stdout.count("'alert': 'success'") == 2, said[-3000:]

    incidents = Warehouse.open(warehouse).query("SELECT status, expected FROM gold.incident").to_pylist()
    assert {i["status"] for i in incidents} == {"open"}
    marks = Warehouse.open(warehouse).query("SELECT 1 FROM gold.mark").num_rows
    assert taken["/v1/traces"] == 0
    assert taken["/api/annotations"] == sum(not i["expected"] for i in incidents) + marks == 1
    assert taken["/alerts"] == 1  # one message with all of them

    opened = Warehouse.open(warehouse)
    truth = json.loads((CAPTURE / "truth" / "scenario.json").read_text())["groups"]["orders-app"]["rebalances"]
    rows = opened.query(
        "SELECT generation_id, outcome, trigger FROM gold.rebalance WHERE cluster_id = 'recorded' "
        "AND group_id = 'orders-app' ORDER BY generation_id"
    ).to_pylist()
    assert [(r["generation_id"], r["outcome"], r["trigger"]) for r in rows] == [
        (t["number"], t["outcome"], t["trigger"]) for t in truth
    ]
    checked = opened.query("SELECT DISTINCT table_name, success FROM gold.check WHERE is_fatal").to_pylist()
    assert {c["table_name"] for c in checked} >= {"bronze.record", "silver.measured_rebalance", "gold.rebalance"}
    assert all(c["success"] for c in checked)
