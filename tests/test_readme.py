"""What the README shows is what the commands print."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from rebalance_audit.cli import app

ROOT = Path(__file__).parent.parent


def test_the_answer_shown_is_the_answer_given() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    shown = re.search(r"```text\n\$ rebalance-audit (.+)\n((?:.*\n)*?)\.\.\.\n```", readme)
    assert shown is not None
    command = shown[1].replace("tests/golden", str(ROOT / "tests" / "golden")).split()
    told = CliRunner().invoke(app, command)
    assert told.exit_code == 0
    lines = told.stdout.splitlines()
    assert [line for line in shown[2].splitlines() if line not in lines] == []


def test_every_page_it_links_to_is_there() -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (ROOT / target).exists(), target
