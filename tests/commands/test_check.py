"""`check`: findings for CI, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.captures import GOLDEN
from tests.commands.saying import assert_one_sentence


def test_check_ends_with_3_when_a_finding_is_grave_enough(call: Any, filled: Path) -> None:
    result = call("check", "-w", filled, "--fail-on", "critical", "-o", "jsonl")
    assert result.status == 3
    found = [json.loads(line) for line in result.out.splitlines()]
    assert {row["severity"] for row in found} == {"critical"}
    assert {row["status"] for row in found} == {"open"}
    more = call("check", "-w", filled, "--fail-on", "info", "-o", "jsonl")
    assert len(more.out.splitlines()) > len(found)


def test_check_ends_with_0_when_there_is_none(call: Any, filled: Path) -> None:
    result = call("check", "-w", filled, "-g", "svc-0001", "-o", "json")
    assert (result.status, json.loads(result.out)) == (0, [])


@pytest.mark.parametrize(
    ("choice", "said"),
    [
        (["-g", "check-out"], "There is no group 'check-out' at"),
        (["-g", "chekout"], "did you mean checkout?"),
        (["--cluster-id", "elsewhere"], "There is no cluster 'elsewhere' at"),
    ],
)
def test_what_is_not_there_at_all_is_no_good_news(call: Any, filled: Path, choice: list[str], said: str) -> None:
    result = call("check", "-w", filled, *choice)
    assert_one_sentence(result, status=2)
    assert said in result.err


def test_two_clusters_under_one_id_are_said(call: Any, tmp_path: Path) -> None:
    """Their metadata logs begin at the same offsets with other bytes; both clusters' groups are kept."""
    for capture in ("eager_join_leave_kill", "cooperative_scale_up"):
        folder = GOLDEN / "4.3.0" / capture
        assert call("import", folder, "-w", tmp_path / "w", "--cluster-id", "one", "-q").status == 0
    assert call("run", "-w", tmp_path / "w", "-q", "--engine", "local").status == 0
    result = call("check", "-w", tmp_path / "w", "--cluster-id", "one", "-o", "jsonl")
    assert result.status == 3
    found = {row["rule_id"]: row for row in map(json.loads, result.out.splitlines())}
    assert found["TR005"]["subject"] == "__cluster_metadata-0"
    assert "two clusters share one cluster id" in found["TR005"]["advice"]
    for group in ("orders-app", "payments-app"):
        assert call("explain", group, "-w", tmp_path / "w", "-q").status == 0
