"""What `--help` says of each verb, and how long that takes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit import __version__
from tests.commands.saying import ROOT

VERBS = (
    "explain", "whatif", "import", "collect", "stream", "run", "watch", "report", "export", "mark", "ack", "silence",
    "maintain", "erase", "check", "alert", "trace", "annotate",
    "serve", "ui", "demo", "doctor", "lab", "config", "audit",
)  # fmt: skip


def test_help_names_every_verb(call: Any) -> None:
    result = call("--help")
    assert result.status == 0
    assert [
        line.split()[0] for line in result.out.splitlines() if line.startswith("  ") and line.split()[0] in VERBS
    ] == list(VERBS)
    assert "..." not in result.out.partition("Commands:")[2]  # each verb's first sentence fits into a line


def test_a_narrow_terminal_cuts_no_verb_short(call: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    listed = call("--help").out.partition("Commands:")[2].partition("Examples:")[0]
    assert "..." not in listed
    assert "For CI: list grave findings, and exit 3 if there are any." in " ".join(listed.split())
    assert max(len(line) for line in listed.splitlines()) <= 60


@pytest.mark.parametrize("words", [["--help"], ["watch", "--help"], ["audit", "verify", "-h"]], ids=" ".join)
def test_help_is_quick(words: list[str], tmp_path: Path) -> None:
    """CPU time of compiled modules, as pip leaves them. Beside others CPU time is longer, and never shorter: one quick
    try is proof. Where there is none, Python alone says how busy the machine is: at rest it takes 0.02 s."""
    compiled = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}

    def once(*command: str) -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *command], cwd=ROOT, check=True, capture_output=True, env=compiled)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    program = ("-m", "rebalance_audit.cli", *words)
    once(*program)
    took: list[float] = []
    alone: list[float] = []
    while len(took) < 8 and min(took, default=1.0) > 0.15:
        took.append(once(*program))
        alone.append(once("-c", ""))
    assert min(took) <= max(0.15, 7 * min(alone))


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "lab"])
def test_every_verb_explains_itself(call: Any, verb: str) -> None:
    result = call(verb, "--help")
    assert result.status == 0
    assert f"rebalance-audit {verb}" in result.out
    assert result.err == ""


def test_version_is_shown(call: Any) -> None:
    assert call("--version").out == f"rebalance-audit {__version__}\n"
