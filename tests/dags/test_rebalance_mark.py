"""RebalanceMark keeps a mark by the command, in a warehouse of recorded evidence."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.dags.test_rebalance_audit import CAPTURE, in_airflow

pytest.importorskip("airflow", reason="Airflow is not installed")
pytestmark = pytest.mark.airflow

_MARK = """
from datetime import datetime, timezone
from types import SimpleNamespace

from dags.rebalance_mark import RebalanceMark

run = SimpleNamespace(start_date=datetime(2026, 11, 21, 14, tzinfo=timezone.utc))
for n, given in enumerate({given!r}):
    mark = RebalanceMark(task_id=f"mark{{n}}", warehouse={location!r}, **given)
    try:
        print(f"SAID kept: {{mark.execute({{'dag_run': run}})}}")
    except Exception as refused:
        print(f"SAID {{type(refused).__name__}}: {{refused}}")
"""


def test_a_mark_is_kept_at_the_runs_start_and_an_odd_one_is_final(tmp_path: Path) -> None:
    from rebalance_audit import cli
    from rebalance_audit.warehouse.warehouse import Warehouse

    location = str(tmp_path / "w")
    assert cli.run(["import", "-q", "-w", location, str(CAPTURE), "--cluster-id", "prod"]) == 0
    assert cli.run(["run", "-q", "-w", location, "--engine", "local"]) == 0
    given = [
        {"text": "--v2.3; rm -rf $HOME"},
        {"text": "v2.4", "group": "ord*", "at": "2026-11-21T16:00:00+01:00", "cluster_id": "prod"},
        {"text": "v2.5", "at": "2026-11-21T16:00:00"},
        {"text": "v2.6", "cluster_id": "elsewhere"},
        {"text": " "},
    ]
    program = _MARK.format(location=location, given=given)
    done = in_airflow(tmp_path, program, REBALANCE_AUDIT_COMMAND=f"{sys.executable} -m rebalance_audit.cli")
    said = [line for line in done.stdout.splitlines() if line.startswith("SAID ")]
    assert said[:2] == ["SAID kept: None"] * 2, done.stdout + done.stderr
    assert (
        said[2]
        == "SAID AirflowFailException: at='2026-11-21T16:00:00' has no zone; write it as 2026-11-22T14:00:00+00:00."
    )
    assert said[3].startswith("SAID AirflowFailException: rebalance-audit: There is no cluster 'elsewhere'")
    assert said[4].startswith("SAID AirflowFailException: rebalance-audit: --text has 0 characters")
    sql = "SELECT cluster_id, at_ms, text, scope FROM gold.mark WHERE source = 'told' ORDER BY text"
    assert [tuple(row.values()) for row in Warehouse.open(location).query(sql).to_pylist()] == [
        ("prod", 1_795_269_600_000, "--v2.3; rm -rf $HOME", "*"),
        ("prod", 1_795_273_200_000, "v2.4", "ord*"),
    ]
