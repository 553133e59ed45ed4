"""The compiled form of the domain against plain Python: the same answers, digit for digit (`make test-compiled`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_audit.doctor import runtime
from rebalance_audit.domain import tables
from rebalance_audit.domain.replay import classic
from rebalance_audit.domain.replay.settings import GroupSettings
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.spark_jobs.arrivals import deliver, landed, rows_of
from tests.spark_jobs.on_cluster import CAPTURES

ROOT = Path(__file__).parents[1]
COMPILED = ROOT / ".build" / "compiled"
PAIRS = ("j43-1-0", "l43-0", "k43-0", "c-loss-eager-1", "c-bounce-workers-1")
"""Java's and librdkafka's classic groups, KIP-848, Connect under both of its protocols."""
ANSWERS = """
from tests.captures import gathered
from tests.test_compiled import PAIRS, ROOT
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.replay.fleet import advice_of
for name in PAIRS:
    for evidence in gathered(ROOT / "tests" / "pairs" / name).groups:
        rows = [measure(each) for each in reconstruct(evidence).rebalances]
        print(name, rows, detect_group(rows))
        print(name, advice_of(rows, max(row.ended_at_ms or 0 for row in rows) + 1_000))
"""
pytestmark = pytest.mark.own


def said(script: str, path: str) -> str:
    environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": path}
    command = [sys.executable, "-c", script]
    return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def both() -> tuple[str, str]:
    """Where the packages are: plain, and compiled."""
    return str(ROOT), f"{COMPILED}{os.pathsep}{ROOT}"


def test_these_tests_run_on_the_compiled_form() -> None:
    assert Path(classic.__file__).is_relative_to(COMPILED)
    assert not classic.__file__.endswith(".py")
    assert runtime.domain().detail.startswith("compiled")


def test_both_forms_give_the_same_advice() -> None:
    plain, compiled = (said(ANSWERS, path) for path in both())
    assert plain.count("\n") >= len(PAIRS)
    assert plain == compiled


def test_settings_are_compared_and_kept_by_value() -> None:
    assert GroupSettings(assignor="range") == GroupSettings(assignor="range")
    assert len({GroupSettings(assignor="range"), GroupSettings(assignor="range")}) == 1


def test_a_run_through_spark_writes_the_tables_of_plain_python(golden: Path, tmp_path: Path) -> None:
    """What Spark's tasks are given is pickled; in one process nothing is."""
    evidence = landed([golden / name for name in CAPTURES], tmp_path / "landing")
    written: list[Warehouse] = []
    for path, engine in zip(both(), ("local", "spark"), strict=True):
        location = str(tmp_path / engine)
        deliver(Warehouse.open(location, create=True), "all", evidence)
        command = [sys.executable, "-m", "rebalance_audit.cli", "run", "-q", "-w", location, "--engine", engine]
        environment = os.environ | {"PYTHONSAFEPATH": "1", "PYTHONPATH": path}
        done = subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        written.append(Warehouse.open(location))
    plain, compiled = written
    assert rows_of(plain, "gold.rebalance")
    for table in tables.TABLES:
        assert rows_of(compiled, table.name) == rows_of(plain, table.name), table.name
