"""Every verb's help ends with examples, and each of them is a command line that the parser takes."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from rebalance_audit import cli
from rebalance_audit.commands.examples import EXAMPLES
from tests.commands.saying import EAGER, ROOT

COMMAND: Any = typer.main.get_command(cli.app)
WITH_ITS_OWN = {"lab"}
"""Its parser is argparse's, since it also runs without this package's command."""


def command_of(words: list[str]) -> tuple[Any, list[str]]:
    """The verb, or the verb below a verb, that these words name, and the words after it."""
    found, rest = COMMAND.commands[words[0]], words[1:]
    return (found.commands[rest[0]], rest[1:]) if hasattr(found, "commands") else (found, rest)


def test_every_verb_has_examples() -> None:
    verbs = {
        f"{verb} {below}".strip()
        for verb, command in COMMAND.commands.items()
        for below in (getattr(command, "commands", None) or [""])
    }
    assert verbs - WITH_ITS_OWN == set(EXAMPLES)


@pytest.mark.parametrize("line", [line for lines in EXAMPLES.values() for line in lines])
def test_an_example_is_a_command_line(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    command, words = command_of(shlex.split(line.partition(" > ")[0]))
    command.make_context(command.name, words)


@pytest.mark.parametrize("verb", sorted(EXAMPLES))
def test_help_ends_with_them_whole(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*verb.split(), "--help"]) == 0
    shown = capfd.readouterr().out.splitlines()
    assert shown[-len(EXAMPLES[verb]) :] == [f"    rebalance-audit {line}" for line in EXAMPLES[verb]]


@pytest.mark.parametrize("verb", ["", "audit", "config"])
def test_help_above_verbs_ends_with_examples_of_them(verb: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run([*verb.split(), "--help"]) == 0
    examples = capfd.readouterr().out.partition("Examples:\n")[2].splitlines()
    known = [line for lines in EXAMPLES.values() for line in lines]
    assert len(examples) >= 3
    assert all(e.removeprefix("    rebalance-audit ") in known for e in examples)


WAREHOUSE_ALONE = [
    line
    for verb in ("explain", "report", "export", "mark", "silence", "check", "alert", "audit verify", "config schema")
    for line in EXAMPLES[verb]
    if not {"-b", "--data-dir", "--evidence", "--heads", "--docs", "--release"} & set(shlex.split(line))
    and not (verb == "alert" and "--dry-run" not in line)
]


def test_examples_that_need_a_warehouse_alone_work_as_typed(
    call: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a folder where W is a warehouse of the demo's evidence; by a shell, if they need one."""
    monkeypatch.chdir(tmp_path)
    assert call("import", EAGER, "-w", "W", "-q").status == 0
    assert call("run", "-w", "W", "--engine", "local", "-q").status == 0
    program = f"{shlex.quote(sys.executable)} -m rebalance_audit.cli"
    for line in WAREHOUSE_ALONE:
        if ">" in line:
            environment = os.environ | {"PYTHONPATH": str(ROOT)}
            typed = subprocess.run(
                f"{program} {line}", shell=True, env=environment, capture_output=True, text=True, check=False
            )
            status, said = typed.returncode, typed.stderr
        else:
            done = call(*shlex.split(line))
            status, said = done.status, done.err
        expected = 3 if line.startswith("check -w W -g") else 0  # a member of that group was killed
        assert status == expected, f"{line}: {said}"
    assert (tmp_path / "report.html").read_text().startswith("<!doctype html>")
    assert (tmp_path / "rebalances.csv").read_text().count("orders-app") >= 8


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "rebalance-audit: No such command 'nope'; see `rebalance-audit --help`."),
        (
            ["repot"],
            "rebalance-audit: No such command 'repot'. Did you mean 'report', 'export'? See `rebalance-audit --help`.",
        ),
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
