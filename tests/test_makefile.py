"""`make test` without the tests themselves: which tiers run, beside each other, and how it says that one failed."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AIRFLOW = ".venv/bin/airflow"
TIERS = ["quick", "live cluster", "browser", "Spark", "differential", "Airflow"]

PYTEST = """
while [ "$1" != -m ]; do shift; done
mark=${2%% *}
echo "begin $mark"
case $mark in
  broker|browser) touch began-$mark; until [ -e began-broker ] && [ -e began-browser ]; do sleep 0.01; done;;
esac
echo "end $mark"
[ -z "$PYTHONDONTWRITEBYTECODE" ] || echo "compiles each module again"
case " $RED " in *" $mark "*) exit 1;; esac
"""
"""In place of pytest. Of the two tiers that begin, each waits for the other, so one after the other would never end."""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The Makefile, an environment that is there, and a program for each tool that a tier needs."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    for name in ("pyproject.toml", "requirements/all.txt", "tests/test_makefile.py", AIRFLOW, ".venv/.installed"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for tool in ("java", "javac", "mvn", "chromium"):
        (tmp_path / "tools").mkdir(exist_ok=True)
        (tmp_path / "tools" / tool).touch()
    for program in (*(tmp_path / "tools").iterdir(), tmp_path / AIRFLOW):
        program.chmod(0o755)
    (tmp_path / "pytest.sh").write_text(PYTEST)
    return tmp_path


def make_test(checkout: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    plain = {
        name: value for name, value in os.environ.items() if name not in ("CI", "MAKEFLAGS", "MFLAGS", "MAKELEVEL")
    }
    path = os.pathsep.join([str(checkout / "tools"), os.environ["PATH"]])
    return subprocess.run(
        ["make", "test", "PYTEST=sh pytest.sh"], cwd=checkout, env=plain | {"PATH": path} | environment,
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip


def ended(said: str) -> list[str]:
    """What the tiers were that came to their end, in the order of the output."""
    return [line.removeprefix("end ") for line in said.splitlines() if line.startswith("end ")]


def test_tiers_run_two_at_a_time_and_what_each_says_stays_together(checkout: Path) -> None:
    done = make_test(checkout)
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    marks = ["not", "broker", "browser", "spark", "differential", "airflow"]
    for tier, mark in zip(TIERS, marks, strict=True):
        at = lines.index(f"== {tier} tests")
        assert lines[at : at + 3] == [f"== {tier} tests", f"begin {mark}", f"end {mark}"]
    assert lines[-1] == "== all kinds of tests ran"
    assert (lines[0], lines[-4]) == ("== quick tests", "== Airflow tests")


@pytest.mark.parametrize(("red", "said"), [("spark", "Spark"), ("broker differential", "differential,live cluster")])
def test_a_tier_that_fails_fails_all_and_is_named_when_the_others_are_through(
    checkout: Path, red: str, said: str
) -> None:
    done = make_test(checkout, RED=red)
    assert done.returncode != 0
    last = done.stdout.splitlines()[-1]
    assert sorted(last.removeprefix("== FAILED: ").split(",")) == said.split(",")
    assert len(ended(done.stdout)) == len(TIERS)


def test_modules_are_compiled_once_whatever_the_machine_says(checkout: Path) -> None:
    done = make_test(checkout, PYTHONDONTWRITEBYTECODE="1", RED="not")
    assert "compiles" not in done.stdout


def test_quick_tests_that_fail_are_enough(checkout: Path) -> None:
    done = make_test(checkout, RED="not")
    assert done.returncode != 0
    assert ended(done.stdout) == ["not"]


def test_a_tool_that_is_not_there_fails_ci_by_the_tiers_name(checkout: Path) -> None:
    (checkout / AIRFLOW).unlink()
    assert make_test(checkout).stdout.splitlines()[-1] == "== 1 kinds of tests were skipped: Airflow"
    done = make_test(checkout, CI="true")
    assert done.returncode != 0
    assert done.stdout.splitlines()[-1] == "== FAILED: Airflow"
