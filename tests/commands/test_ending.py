"""How the command's process ends: at once, after all that libraries do when a process ends."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def ended(does: str, *, stdout: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    """The command, whose verb does this."""
    code = (
        "import atexit, sys\n"
        "from rebalance_audit import cli\n"
        "class Kept:\n"
        "    def __del__(self): sys.stderr.write('freed')\n"
        f"def run(argv):\n    {does}\n"
        "cli.run = run\n"
        "cli.script()\n"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, stdout=stdout, stderr=subprocess.PIPE, text=True)


@pytest.mark.parametrize("status", [0, 1, 3])
def test_what_was_printed_arrives_and_the_status_with_it(status: int) -> None:
    done = ended(f"print('said', end=''); return {status}")
    assert (done.stdout, done.returncode) == ("said", status)


def test_what_libraries_close_is_closed_and_nothing_is_taken_apart() -> None:
    done = ended("sys.kept = Kept(); atexit.register(print, 'closed', end=''); return 0")
    assert (done.stdout, done.stderr, done.returncode) == ("closed", "", 0)


def test_a_thread_that_still_works_is_waited_for() -> None:
    works = "lambda: (time.sleep(0.3), print('done'))"
    done = ended(f"import threading, time; threading.Thread(target={works}).start(); return 0")
    assert (done.stdout, done.returncode) == ("done\n", 0)


def test_an_error_that_nobody_caught_ends_it_as_in_any_program() -> None:
    done = ended("raise ZeroDivisionError('boom')")
    assert "ZeroDivisionError: boom" in done.stderr
    assert done.returncode == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full, which Linux has")
def test_output_that_is_lost_is_no_success() -> None:
    with open("/dev/full", "w") as full:
        done = ended("print('said'); return 0", stdout=full.fileno())
    assert done.returncode != 0
    assert "No space left on device" in done.stderr
