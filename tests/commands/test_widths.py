"""What a terminal of 80 and of 120 columns, a pipe and a colourless terminal get: names whole, numbers whole."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app import gold_rows

DRY = ["alert", "--to", "json://localhost", "--dry-run"]
COMMANDS = (["report"], ["check"], ["whatif"], ["explain"], ["doctor"], DRY)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> str:
    location = tmp_path_factory.mktemp("widths") / "w"
    gold_rows.write(location, many=3)
    return str(location)


def said(warehouse: str, command: list[str], **environment: str) -> str:
    """To a pipe."""
    full = [sys.executable, "-m", "rebalance_audit.cli", *command, "-w", warehouse]
    return subprocess.run(full, capture_output=True, text=True, check=False, env=_environment(environment)).stdout


def _environment(changed: dict[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR", "REBALANCE_AUDIT_CONFIG")}
    return kept | {"TERM": "xterm"} | changed


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_lines_fit_and_names_stay_whole(filled: str, command: list[str], width: int) -> None:
    text = said(filled, command, COLUMNS=str(width))
    long = [line for line in text.splitlines() if len(line) > width and " " in line.strip()[: width - 20]]
    assert not long
    if command == ["report"]:
        worst = text.partition("Worst groups")[2].partition("\n\n")[0]
        assert "checkout" in worst
        assert "62.0" in worst


def test_a_pipe_gets_whole_rows_without_colour(filled: str) -> None:
    text = said(filled, ["check"])
    assert "\x1b" not in text
    rows = text.splitlines()
    assert all(len(row.split()) > 3 for row in rows if row.startswith(("warning", "critical", "info")))


def at_a_terminal(command: list[str], environment: dict[str, str]) -> bytes:
    ours, theirs = pty.openpty()
    full = [sys.executable, "-m", "rebalance_audit.cli", *command]
    with subprocess.Popen(full, stdout=theirs, env=_environment(environment), stderr=subprocess.DEVNULL) as process:
        os.close(theirs)
        text = b""
        while True:
            try:
                text += (chunk := os.read(ours, 65_536))
            except OSError:  # the terminal's other end is closed
                break
            if not chunk:
                break
        process.wait(60)
    os.close(ours)
    return text


@pytest.mark.parametrize("command", ["report", "check"])
@pytest.mark.parametrize(("environment", "is_styled"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_colour_is_for_a_terminal_whose_owner_wants_it(
    filled: str, environment: dict[str, str], is_styled: bool, command: str
) -> None:
    text = at_a_terminal([command, "-w", filled], environment)
    assert text.startswith(b"\x1b[1m") is is_styled
    assert (b"\x1b[33mwarning\x1b[0m" in text) is is_styled


@pytest.mark.parametrize(("environment", "is_styled"), [({}, True), ({"NO_COLOR": "1"}, False)])
def test_what_doctor_finds_wrong_is_in_colour_on_a_terminal(
    tmp_path: Path, environment: dict[str, str], is_styled: bool
) -> None:
    text = at_a_terminal(["doctor", "--logs", str(tmp_path / "none")], environment)
    assert b"fault" in text
    assert (b"\x1b[31mfault\x1b[0m" in text) is is_styled
    assert (b"\x1b" in text) is is_styled
