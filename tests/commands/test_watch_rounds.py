"""When `watch` lets the stages run: a cluster at rest costs nothing."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest

from ingest.collect_settings import CollectSettings
from ingest.collector import Landed
from ingest.metadata import metadata_runs
from rebalance_audit import cli
from rebalance_audit.commands import watch as command
from rebalance_audit.commands.collect import FollowedMetadata
from rebalance_audit.commands.pipeline import Carried
from rebalance_audit.commands.watching import live, outages
from rebalance_audit.commands.watching import rounds as stage_rounds
from rebalance_audit.domain.incidents.responses import silence
from rebalance_audit.live import past as live_past
from rebalance_audit.live.judge import Judge
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.warehouse import behind
from rebalance_audit.warehouse.responses import respond
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import GOLDEN
from tests.domain.reassign.stories import MetadataStory


class Stopped(Event):
    """Notes how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout or 0.0)
        return super().wait(timeout)


class Rounds:
    """Counts the runs of the stages."""

    def __init__(self, place: Path) -> None:
        self.opened = Warehouse.open(place, create=True)
        self.carried = SimpleNamespace(settings={})
        self.alert_to: list[str] = []
        self.routes = None
        self.quiet, self.is_complete, self.runs = True, True, 0
        self.waited: list[bool] = []
        self.stopped = Stopped()
        self.outages = outages.Outages()

    def run(self, newer: Any = None, *, may_wait: bool = False) -> bool:
        self.runs += 1
        self.waited.append(may_wait)
        self.is_complete = not may_wait
        return True

    def hear_answers(self) -> bool:
        return False


def test_a_thread_that_waits_for_pythons_lock_is_given_it_soon_while_watch_is_live(tmp_path: Path) -> None:
    before = sys.getswitchinterval()
    rounds: Any = Rounds(tmp_path)
    watching = live.LiveWatch(rounds)
    try:
        assert sys.getswitchinterval() == pytest.approx(live.HANDED_ON_S)
    finally:
        watching.stop()
    assert sys.getswitchinterval() == before


def test_nothing_is_judged_before_the_tables_hold_the_metadata_log_that_was_there(tmp_path: Path) -> None:
    rounds: Any = Rounds(tmp_path)
    followed = FollowedMetadata("c", {})
    watching = live.LiveWatch(rounds, followed)
    try:
        watching.caught_up()
        for is_there in (False, True):
            if is_there:
                followed.caught_up.set()
                watching.caught_up()
            watching.round()
            assert watching._has_begun == is_there
    finally:
        watching.stop()


def test_the_cluster_of_the_tables_is_known_where_only_its_metadata_log_was_landed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    past = live_past.WarehousePast.__init__

    def noted(self: live_past.WarehousePast, warehouse: Warehouse, cluster_id: str, limits: Any) -> None:
        asked.append(cluster_id)
        past(self, warehouse, cluster_id, limits)

    monkeypatch.setattr(live_past.WarehousePast, "__init__", noted)
    rounds: Any = Rounds(tmp_path)
    followed = FollowedMetadata("c", {})
    watching = live.LiveWatch(rounds, followed)
    try:
        followed.caught_up.set()
        watching.caught_up()
        watching.round()
        followed._hear([*metadata_runs(MetadataStory().topic("orders", (1, 2)).sources)])
        until = time.monotonic() + 20
        while not asked and time.monotonic() < until:
            time.sleep(0.02)
    finally:
        watching.stop()
    assert asked == ["c"]


def test_commits_alone_are_waited_for_and_not_asked_for_all_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "UNHURRIED_S", (0.0, 0.0))
    monkeypatch.setattr(live, "LOOK_AROUND_S", 0.05)
    rounds: Any = Rounds(tmp_path)
    watching = live.LiveWatch(rounds)
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


def test_commits_of_others_come_into_the_tables_seldom_while_groups_rebalance_and_at_last_when_they_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "OTHERS_S", (0.5, 0.5))
    monkeypatch.setattr(live, "AFTERWARDS_S", 0.3)
    rounds: Any = Rounds(tmp_path)
    watching = live.LiveWatch(rounds)
    try:
        watching.caught_up()
        watching.round()
        rounds.waited.clear()
        for wait_s in (0.0, 0.0, 0.0, 0.6, 0.0):
            time.sleep(wait_s)
            watching._on_news()
            watching.round()
        assert rounds.waited == [True, True, True, False, True]
        watching.round()
        watching.round()
        assert rounds.waited[5:] == [False]
        assert rounds.is_complete
    finally:
        watching.stop()


def test_commits_of_others_wait_for_rounds_that_take_long_as_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "AFTERWARDS_S", 0.05)
    rounds: Any = Rounds(tmp_path)
    watching = live.LiveWatch(rounds)
    try:
        watching.caught_up()
        watching.round()
        watching._on_news()
        watching.round()
        rounds.waited.clear()
        for _ in range(3):  # meanwhile there was news all the time
            time.sleep(0.1)
            watching._on_news()
            watching.round()
        assert rounds.waited == [True, True, True]
    finally:
        watching.stop()


def test_the_stages_rest_when_all_of_watch_took_more_than_its_share_of_a_core_but_not_when_the_tables_are_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def compute(newer: Any = None, *, may_wait: bool = False) -> bool:
        until_s = time.process_time() + 0.2
        while time.process_time() < until_s:
            pass
        return True

    rounds: Any = Rounds(tmp_path)
    monkeypatch.setattr(rounds, "run", compute)
    rested = rounds.stopped.waited
    watching = live.LiveWatch(rounds)
    try:
        watching.caught_up()
        watching.round()
        assert not rested  # what was there before is taken in as fast as can be
        monkeypatch.setattr(live, "SHARE_OF_ALL", 100.0)
        watching._on_news()
        watching.round()
        assert not rested
        monkeypatch.setattr(live, "SHARE_OF_ALL", 0.01)
        watching._on_news()
        began = time.monotonic()
        watching.round()
        assert sum(rested) == pytest.approx((time.monotonic() - began) / 2, rel=0.2)  # as long as the round took
        rested.clear()
        monkeypatch.setattr(live, "LONG_ROUND_S", 0.1)
        rounds.quiet = False
        for _ in range(2):
            watching._on_news()
            watching.round()
        assert not rested  # the tables are behind
        assert capsys.readouterr().err.count("The tables are behind") == 1
        said = behind.kept(rounds.opened)
        assert said is not None
        assert said.round_ms is not None
        assert said.round_ms >= 200
        assert said.since_ms == said.said_at_ms - said.round_ms
        monkeypatch.setattr(live, "LONG_ROUND_S", 20.0)
        rounds.stopped.set()
        watching._on_news()
        watching.round()
        assert len(rested) == 1
        said = behind.kept(rounds.opened)
        assert said is not None
        assert said.since_ms is None
    finally:
        watching.stop()
    assert behind.kept(rounds.opened) is None


def test_the_judge_reads_the_tables_before_evidence_arrives(tmp_path: Path) -> None:
    with _begun(tmp_path, [_landed(is_history=True)]) as watching:
        assert _memory_of(watching._judge).cluster_id == "c"


def test_the_judge_knows_its_cluster_also_where_nothing_was_landed_before(tmp_path: Path) -> None:
    with _begun(tmp_path, []) as watching:
        time.sleep(0.5)
        assert watching._judge._memory is None  # of which cluster?
        watching.landed(_landed(is_history=False))
        assert _memory_of(watching._judge).cluster_id == "c"


def _landed(*, is_history: bool) -> Landed:
    return Landed(cluster_id="c", runs=(), lines=(), until_ms=None, is_history=is_history)


@contextmanager
def _begun(place: Path, history: Sequence[Landed]) -> Iterator[live.LiveWatch]:
    rounds: Any = Rounds(place)
    watching = live.LiveWatch(rounds)
    try:
        for landed in history:
            watching.landed(landed)
        watching.caught_up()
        watching.round()
        yield watching
    finally:
        watching.stop()


def _memory_of(judge: Judge) -> ClusterMemory:
    give_up_at = time.monotonic() + 20
    while judge._memory is None and time.monotonic() < give_up_at:
        time.sleep(0.01)
    assert judge.failure is None
    assert judge._memory is not None
    return judge._memory


def full(*_: object, **__: object) -> bool:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_rounds_go_on_when_the_disk_has_room_again_and_say_so_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outages, "RETRY_S", 0.0)
    rounds = stage_rounds.StageRuns(Warehouse.open(tmp_path, create=True), Carried(), ["x"], Event(), None, quiet=False)
    done = SimpleNamespace(ms_by_stage={"bronze": 1}, is_complete=True)
    monkeypatch.setattr(stage_rounds, "print_outcome", lambda *_, **__: None)
    steps: list[tuple[Any, Any]] = [(full, None), (full, None), (lambda *_, **__: done, full), (None, full)]
    for stages, send in steps:
        monkeypatch.setattr(stage_rounds, "run_stages", stages)
        monkeypatch.setattr(stage_rounds, "send", send)
        assert not rounds.run()
    sent: list[object] = []
    monkeypatch.setattr(stage_rounds, "send", lambda *given, **_: sent.append(given))
    assert rounds.run()  # the stages had nothing more to do, and what they found is sent
    assert rounds.run()
    assert len(sent) == 1
    said = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in said] == ["The disk: No space left on device"]


def test_a_silence_is_passed_on_although_no_evidence_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_rounds, "ANSWERS_S", 0.0)
    done = SimpleNamespace(ms_by_stage={}, is_complete=True)
    monkeypatch.setattr(stage_rounds, "run_stages", lambda *_, **__: done)
    sent: list[object] = []
    monkeypatch.setattr(stage_rounds, "send", lambda *given, **_: sent.append(given))
    opened = Warehouse.open(tmp_path, create=True)
    opened.publish({"gold.incident": 0})
    rounds = stage_rounds.StageRuns(opened, Carried(), ["x"], Event(), quiet=True)
    assert rounds.run()
    assert not rounds.hear_answers()
    assert sent == []
    respond(opened, silence("orders*", "anna", 1, 2, "planned"))
    assert rounds.hear_answers()
    assert rounds.run()
    assert rounds.run()
    assert len(sent) == 1


def test_a_watch_that_is_stopped_leaves_the_stages_at_a_commit_and_the_next_goes_on_there(tmp_path: Path) -> None:
    whole, halted = tmp_path / "whole", tmp_path / "halted"
    for place in (whole, halted):
        assert cli.run(["import", str(GOLDEN / "4.3.0" / "eager_join_leave_kill"), "-w", str(place), "-q"]) == 0
    assert cli.run(["run", "-w", str(whole), "-q", "--engine", "local"]) == 0
    stopped = Event()
    stopped.set()
    opened = Warehouse.open(halted)
    assert not stage_rounds.StageRuns(opened, Carried(engine="local"), [], stopped, quiet=True).run()
    assert opened.exists("bronze.record")
    assert not opened.exists("silver.group_event")
    assert stage_rounds.StageRuns(opened, Carried(engine="local"), [], Event(), quiet=True).run()
    rebalances = "SELECT * FROM gold.rebalance ORDER BY ALL"
    assert opened.query(rebalances).equals(Warehouse.open(whole).query(rebalances))


def test_a_judge_that_asked_a_full_disk_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(outages, "RETRY_S", 0.0)
    monkeypatch.setattr(live, "LOOK_AROUND_S", 0.05)
    log, stopped = tmp_path / "server.log", Event()
    log.touch()
    begun: list[live.LiveWatch] = []

    class Watch(live.LiveWatch):
        def _memory(self) -> Any:
            begun.append(self)
            if len(begun) == 1:
                full()
            stopped.set()
            return super()._memory()

        def caught_up(self) -> None:
            super().caught_up()
            self.landed(Landed(cluster_id="c", runs=(), lines=(), until_ms=None, is_history=False))

    monkeypatch.setattr(command, "LiveWatch", Watch)
    settings = CollectSettings(cluster_id="c", logs=[("broker-1", str(log))])
    opened = Warehouse.open(tmp_path / "w", create=True)
    command.follow(opened, settings, stopped, every_s=None, alert_to=[], quiet=False)
    assert len(begun) == 2
    assert [line for line in capsys.readouterr().err.splitlines() if line.startswith("The disk")] == [
        "The disk: No space left on device; free some space, nothing stored before is harmed. Trying again in 0 s."
    ]
