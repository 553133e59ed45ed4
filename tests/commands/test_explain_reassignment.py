"""`explain --reassignment` and `--plan`, from the metadata log of a controller."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.commands.saying import EAGER, assert_one_sentence


def test_explain_shows_what_became_of_a_reassignment(call: Any, moved: Path) -> None:
    result = call("explain", "--reassignment", "orders-0", "--evidence", moved, "-q")
    assert result.status == 0, result.err
    assert result.out.startswith("orders-0 [1,0,2] → [2,3,5] completed")
    assert call("explain", "--reassignment", "orders", "--evidence", moved, "-q").out == result.out
    (found,) = json.loads(
        call("explain", "--reassignment", "orders", "--evidence", moved, "-o", "json").out
    )["reassignments"]  # fmt: skip
    assert (found["outcome"], found["started_at_ms"], found["ended_at_ms"]) == ("completed", 10_000, 20_000)
    assert found["steps"][0]["phase"] == "before"


def test_explain_shows_what_became_of_a_plan(call: Any, moved: Path, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    lines = [{"topic": "orders", "partition": p, "replicas": [2, 3, 5]} for p in (0, 1)]
    file.write_text(json.dumps({"version": 1, "partitions": lines}))
    result = call("explain", "--plan", file, "--evidence", moved, "-q")
    assert result.status == 0, result.err
    assert result.out.splitlines()[0] == "1 done: orders-0"
    found = json.loads(call("explain", "--plan", file, "--evidence", moved, "-o", "json").out)
    assert [line["status"] for line in found["partitions"]] == ["done", "never_asked"]
    assert (found["throttle_removable_since_ms"], found["remaining"]["partitions"]) == (20_000, [])
    rows = list(csv.DictReader(io.StringIO(call("explain", "--plan", file, "--evidence", moved, "-o", "csv").out)))
    assert [(row["status"], row["ended_at_ms"]) for row in rows] == [("done", "20000"), ("never_asked", "")]


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        (b"{", "is not JSON"),
        (b"\xff\x00", "is not JSON"),
        (b'{"partitions": [{"topic": "elsewhere", "partition": 0, "replicas": [1]}]}', "the same cluster"),
    ],
)
def test_a_plan_that_cannot_be_compared_gets_one_sentence(
    call: Any, moved: Path, tmp_path: Path, content: bytes, fault: str
) -> None:
    file = tmp_path / "plan.json"
    file.write_bytes(content)
    result = call("explain", "--plan", file, "--evidence", moved)
    assert_one_sentence(result)
    assert fault in result.err


def test_an_unknown_reassignment_is_answered_with_the_ones_that_are_there(call: Any, moved: Path) -> None:
    result = call("explain", "--reassignment", "order-0", "--evidence", moved)
    assert_one_sentence(result)
    assert "Did you mean: orders-0?" in result.err
    result = call("explain", "--reassignment", "orders", "--evidence", EAGER)
    assert_one_sentence(result)
    assert "nor of any other partition" in result.err
