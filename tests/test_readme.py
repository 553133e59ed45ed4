"""What the README shows is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rebalance_audit.cli import app

ROOT = Path(__file__).parent.parent


README = (ROOT / "README.md").read_text("utf-8")
SHOWN = re.findall(r"```text\n\$ rebalance-audit (.+)\n((?:.*\n)*?)```", README)


@pytest.mark.parametrize(("command", "answer"), SHOWN, ids=["group", "reassignment"])
def test_the_answer_shown_is_the_answer_given(command: str, answer: str) -> None:
    result = CliRunner().invoke(app, command.replace("tests/golden", str(ROOT / "tests" / "golden")).split())
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line for line in answer.splitlines() if line not in (*lines, "...")] == []


def test_every_page_it_links_to_is_there() -> None:
    for target in re.findall(r"\]\(([^)#]+)", README):
        assert (ROOT / target).exists(), target
