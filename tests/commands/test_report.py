"""`report`: its forms, and the period it is about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.commands.saying import assert_one_sentence


def test_a_report_is_text_json_or_one_html_file(call: Any, filled: Path) -> None:
    assert re.search(
        r"partition-seconds.* and .* task-seconds.* lost", " ".join(call("report", "-w", filled).out.split())
    )
    assert json.loads(call("report", "-w", filled, "-o", "json").out)["group_count"] > 1
    page = call("report", "-w", filled, "-o", "html").out
    assert page == call("report", "-w", filled, "-o", "html", "-q").out
    assert page.startswith("<!doctype html>")
    assert "<script" not in page


@pytest.mark.parametrize("verb", [["report"], ["export", "rebalance"]], ids=" ".join)
def test_a_period_that_ends_before_it_begins_is_refused(call: Any, filled: Path, verb: list[str]) -> None:
    result = call(*verb, "-w", filled, "--from", "2026-11-22", "--to", "2026-11-21")
    assert_one_sentence(result, status=2)


def test_a_group_that_is_not_there_is_refused(call: Any, filled: Path) -> None:
    result = call("report", "-w", filled, "-g", "chekout")
    assert_one_sentence(result, status=2)
    assert "did you mean checkout?" in result.err
