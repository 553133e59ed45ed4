"""`demo`: the invented company, and every recorded cluster."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.commands.company import COMPANY, RECORDED
from rebalance_audit.commands.demo import cluster_name
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.commands.saying import EAGER, GOLDEN, ROOT, assert_one_sentence


def test_a_recorded_cluster_has_a_readable_name() -> None:
    assert cluster_name(EAGER) == "eager_join_leave_kill-4.3.0"


def test_the_company_of_the_demo_is_recorded_and_shows_each_kind_of_trouble() -> None:
    kinds = {place.partition("/")[2].partition("_")[0] for place in COMPANY.values()}
    assert all((RECORDED / place / "origin.json").is_file() for place in COMPANY.values())
    assert kinds >= {"storm", "eager", "poll", "rolling", "kip848", "connect", "reassign"}


@pytest.mark.spark
def test_the_demo_shows_every_recorded_cluster(tmp_path: Path) -> None:
    """With `--all`, and without the app at its end."""
    done = subprocess.run(
        [sys.executable, "-m", "rebalance_audit.cli", "demo", "--all", "--no-serve", "-w", str(tmp_path / "w")],
        cwd=ROOT, capture_output=True, text=True, check=False, env=os.environ | {"NO_COLOR": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "Worst groups" in done.stdout
    captures = sorted(path.parent for path in GOLDEN.glob("*/*/meta.json"))
    opened = Warehouse.open(tmp_path / "w")
    found = opened.query(
        "SELECT cluster_id FROM gold.rebalance UNION SELECT cluster_id FROM gold.reassignment ORDER BY 1"
    )
    assert found.column(0).to_pylist() == sorted(cluster_name(capture) for capture in captures)
    for capture in captures:
        for group, story in json.loads((capture / "truth" / "scenario.json").read_text())["groups"].items():
            rows = opened.query(
                "SELECT coalesce(generation_id, group_epoch) AS number, kind, outcome FROM gold.rebalance "
                "WHERE cluster_id = ? AND group_id = ? ORDER BY number, rewrite_seq",
                [cluster_name(capture), group],
            ).to_pylist()
            expected = [{name: row[name] for name in ("number", "kind", "outcome")} for row in story["rebalances"]]
            assert rows == expected, f"{capture.name} {group}"


def test_a_port_that_is_taken_is_said_before_anything_is_done(call: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = call("demo", "-w", tmp_path / "w", "--port", str(taken.getsockname()[1]))
    assert_one_sentence(result)
    assert not (tmp_path / "w").exists()


def test_a_version_that_the_lab_lacks_is_said_with_those_it_has(call: Any) -> None:
    result = call("demo", "--live", "--kafka", "1.0")
    assert_one_sentence(result, status=2)
    assert "4.3.0" in result.err
