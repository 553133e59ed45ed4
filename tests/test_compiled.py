"""The compiled form of replays against plain Python: the same answers, digit for digit (`make test-compiled`)."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from rebalance_audit.doctor import runtime
from rebalance_audit.domain.replay import classic
from rebalance_audit.domain.replay.settings import GroupSettings

ROOT = Path(__file__).parents[1]
COMPILED = ROOT / ".build" / "compiled"
PAIRS = ("j43-1-0", "l43-0", "k43-0", "c-loss-eager-1", "c-bounce-workers-1")
"""Java's and librdkafka's classic groups, KIP-848, Connect under both of its protocols."""
ANSWERS = """
from tests.captures import gathered
from tests.test_compiled import PAIRS, ROOT
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.fleet import advice_of
for name in PAIRS:
    for evidence in gathered(ROOT / "tests" / "pairs" / name).groups:
        rows = [measure(each) for each in reconstruct(evidence).rebalances]
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
    assert runtime.replays().detail.startswith("compiled")


def test_both_forms_give_the_same_advice() -> None:
    plain, compiled = (said(ANSWERS, path) for path in both())
    assert plain.count("\n") >= len(PAIRS)
    assert plain == compiled


def test_settings_are_compared_and_kept_by_value() -> None:
    assert GroupSettings(assignor="range") == GroupSettings(assignor="range")
    assert len({GroupSettings(assignor="range"), GroupSettings(assignor="range")}) == 1
