"""RebalanceGate judges by the command, on a warehouse of recorded evidence."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.dags.test_rebalance_audit import CAPTURE, in_airflow

pytest.importorskip("airflow", reason="Airflow is not installed")
pytestmark = pytest.mark.airflow

_GATE = """
from datetime import timedelta

from dags.rebalance_gate import RebalanceGate

for most in {most!r}:
    gate = RebalanceGate(
        task_id="gate", group={group!r}, warehouse={location!r}, since="2026-01-01T00:00:00+00:00", most_seconds=most,
        quiet=timedelta(0), wait=timedelta(0), deferrable=False,
    )
    try:
        print("SAID passed: " + gate.execute({{}}))
    except Exception as refused:
        print(f"SAID {{type(refused).__name__}}: {{refused}}")
"""


def test_a_gate_passes_and_refuses_by_what_the_deploy_cost(tmp_path: Path) -> None:
    from rebalance_audit import cli
    from rebalance_audit.warehouse.warehouse import Warehouse

    location = str(tmp_path / "w")
    assert cli.run(["import", "-q", "-w", location, str(CAPTURE)]) == 0
    assert cli.run(["run", "-q", "-w", location, "--engine", "local"]) == 0
    group = next(iter(json.loads((CAPTURE / "truth" / "scenario.json").read_text())["groups"]))
    sql = "SELECT sum(resource_seconds_estimate) AS cost FROM gold.rebalance WHERE group_id = ?"
    cost = Warehouse.open(location).query(sql, [group]).to_pylist()[0]["cost"]
    assert cost > 1
    program = _GATE.format(group=group, location=location, most=[cost + 1, cost - 1])
    done = in_airflow(tmp_path, program, REBALANCE_AUDIT_COMMAND=f"{sys.executable} -m rebalance_audit.cli")
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
    assert len(said) == 2, done.stdout + done.stderr
    assert said[0].startswith(f"SAID passed: {group}: ")
    assert said[1].startswith(f"SAID AirflowFailException: {group}: ")
    assert said[1].endswith(f"at most {cost - 1:g} were allowed.")
