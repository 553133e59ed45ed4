"""A bounded part of the runs on real processes; all of them: python -m tests.faults.processes 200."""

from __future__ import annotations

import os

import pytest

from tests.faults import processes

RUNS = int(os.environ.get("KILL_RUNS", "2"))


def test_a_watch_that_is_killed_again_and_again_ends_with_the_same_tables_and_alerts(
    capsys: pytest.CaptureFixture[str],
) -> None:
    twice = sum(processes.check(seed) for seed in range(1, RUNS + 1))
    with capsys.disabled():
        kills = RUNS * processes.KILLS
        print(f"\n{RUNS} runs of real processes, {kills} times SIGKILL: nothing lost, {twice} messages came twice")
