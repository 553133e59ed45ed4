"""`check`: findings for CI, and its exit status."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

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
