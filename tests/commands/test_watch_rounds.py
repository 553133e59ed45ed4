"""When `watch` lets the stages run: a cluster at rest costs nothing."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.collector import Landed
from rebalance_audit.commands import watch as command
from rebalance_audit.warehouse.warehouse import Warehouse


class Rounds:
    """Counts the runs of the stages."""

    def __init__(self, place: Path) -> None:
        self.opened = Warehouse.open(place, create=True)
        self.carried = SimpleNamespace(settings={})
        self.alert_to: list[str] = []
        self.routes = None
        self.quiet, self.runs = True, 0

    def run(self, newer: Any = None) -> bool:
        self.runs += 1
        return True


def test_commits_alone_are_waited_for_and_not_asked_for_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "UNHURRIED_S", (0.0, 0.0))
    monkeypatch.setattr(command, "LOOK_AROUND_S", 0.05)
    rounds: Any = Rounds(tmp_path)
    watching = command.LiveWatch(rounds, with_metadata=False)
    try:
        watching.caught_up()
        watching.round()
        assert rounds.runs == 1
        began = time.monotonic()
        for _ in range(4):
            watching.round()
        assert rounds.runs == 1
        assert time.monotonic() - began >= 4 * 0.05
        watching.landed(Landed(cluster_id="c", runs=(), lines=(), until_ms=None, is_history=True))
        watching.round()
        assert rounds.runs == 2
    finally:
        watching.stop()
