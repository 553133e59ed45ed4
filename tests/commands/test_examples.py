"""Every verb's help ends with examples, and each of them is a command line that the parser takes."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from rebalance_audit import cli
from rebalance_audit.commands.examples import EXAMPLES

COMMAND: Any = typer.main.get_command(cli.app)
WITH_THEIR_OWN = {"config", "lab", "audit"}
"""Their sub-commands have examples in their own text; the lab has a help of its own."""


def test_every_verb_has_examples() -> None:
    assert set(EXAMPLES) <= set(COMMAND.commands)
    without = set(COMMAND.commands) - WITH_THEIR_OWN - set(EXAMPLES)
    assert all("xample" in (COMMAND.commands[verb].help or "") for verb in without), without


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_command_line(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.partition(" > ")[0], comments=True)
    COMMAND.commands[words[0]].make_context(words[0], words[1:])


@pytest.mark.parametrize("verb", sorted(EXAMPLES))
def test_help_ends_with_them(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([verb, "--help"]) == 0
    shown = capfd.readouterr().out
    assert shown.rstrip().endswith(f"rebalance-audit {EXAMPLES[verb][-1]}")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "rebalance-audit: No such command 'nope'; see `rebalance-audit --help`."),
        (["report", "--xyzzy"], "rebalance-audit: No such option: --xyzzy; see `rebalance-audit report --help`."),
        (["export", "-w", "W"], "rebalance-audit: Missing argument 'TABLE'; see `rebalance-audit export --help`."),
    ],
)
def test_a_wrong_command_line_is_one_sentence(
    arguments: list[str], said: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REBALANCE_AUDIT_WAREHOUSE", raising=False)
    assert cli.run(arguments) == cli.EXIT_USAGE
    assert capfd.readouterr().err == said + "\n"


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from rebalance_audit.commands.output import styled

    text = "orders stormed\n\n  critical, open  it storms\n"
    assert styled(text) == text  # a pipe
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert styled(text) == "\x1b[1morders stormed\x1b[0m\n\n  \x1b[31mcritical\x1b[0m, open  it storms\n"
    monkeypatch.setenv("NO_COLOR", "1")
    assert styled(text) == text
