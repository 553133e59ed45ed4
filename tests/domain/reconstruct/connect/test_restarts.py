"""Restarts, failures and addresses that only a worker's own lines show; zombies; workers that become eager."""

from __future__ import annotations

from rebalance_audit.domain.model import LogKind
from tests.domain.reconstruct.connect.stories import (
    FRESH,
    ConnectStory,
    a_connect_group,
    has,
    member_id,
    moves,
    running,
    url,
    worker_id,
)
from tests.domain.reconstruct.connect.test_tasks import states_of


def _line(story: ConnectStory, kind: LogKind, at_ms: int, *, node: str = "w1", task: int | None = 0) -> None:
    story.says(kind, at_ms=at_ms, node=node, connector="alpha", task=task)


def a_worker_with_a_log() -> ConnectStory:
    """w1 runs alpha-0 from 1 040 on, as its log shows; there are no statuses."""
    story = a_connect_group().generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1_000)
    story.says(LogKind.CLIENT_JOINED, at_ms=1_002, node="w1", client_id="connect-w1:8083", member_id=member_id("w1"))
    _line(story, LogKind.WORKER_TASK_STARTING, 1_010)
    _line(story, LogKind.WORKER_TASK_STARTED, 1_040)
    return story


class TestRestarts:
    def reconfigured(self) -> ConnectStory:
        story = a_worker_with_a_log()
        story.says(LogKind.WORKER_TASKS_RECONFIGURED, at_ms=9_000, node="w1", tasks=("alpha-0",))
        _line(story, LogKind.WORKER_TASK_STOPPING, 9_001)
        story.generation(2, {"w1": has("alpha alpha-0")}, at_ms=9_400, config_offset=2)
        _line(story, LogKind.WORKER_TASK_STARTING, 9_410)
        _line(story, LogKind.WORKER_TASK_STARTED, 9_450)
        return story

    def test_the_workers_lines_show_a_task_restarted_for_its_configuration(self) -> None:
        story = self.reconfigured()
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 9_001, "restarted"),
            ("RUNNING", 9_450, None, None),
        ]
        (moved,) = story.rebalances()[1].movements
        assert (moved.kind, moved.resource, moved.pause_estimate_ms) == ("restarted", "alpha-0", 449)
        # It stood still at least from the start's beginning on, and since the stop's.
        assert (moved.pause_lower_ms, moved.pause_upper_ms) == (0, 459)

    def test_a_restart_by_request_belongs_to_no_rebalance(self) -> None:
        story = a_worker_with_a_log()
        story.generation(2, {"w1": has("alpha alpha-0")}, at_ms=9_400)
        _line(story, LogKind.WORKER_TASK_STOPPING, 12_000)
        _line(story, LogKind.WORKER_TASK_STARTED, 12_030)
        assert moves(story.rebalances()[1]) == {}
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 12_000, "restarted"),
            ("RUNNING", 12_030, None, None),
        ]

    def test_a_connector_that_is_paused_does_not_run_and_its_tasks_are_paused_with_it(self) -> None:
        story = a_worker_with_a_log()
        story.says(LogKind.WORKER_TARGET_STATE, at_ms=9_000, node="w1", connector="alpha", state="PAUSED")
        story.says(LogKind.WORKER_TARGET_STATE, at_ms=12_000, node="w1", connector="alpha", state="STARTED")
        for name in ("alpha", "alpha-0"):
            assert states_of(story.tasks(name)) == [
                ("RUNNING", 1_040, 9_000, "paused"),
                ("PAUSED", 9_000, 12_000, "resumed"),
                ("RUNNING", 12_000, None, None),
            ]

    def test_a_connector_that_is_stopped_does_not_run_and_a_rebalance_takes_its_tasks(self) -> None:
        story = a_worker_with_a_log()
        story.says(LogKind.WORKER_TARGET_STATE, at_ms=9_000, node="w1", connector="alpha", state="STOPPED")
        assert states_of(story.tasks("alpha")) == [("RUNNING", 1_040, 9_000, "stopped"), ("STOPPED", 9_000, None, None)]
        assert states_of(story.tasks("alpha-0")) == [("RUNNING", 1_040, None, None)]

    def test_statuses_show_it_once_and_not_twice(self) -> None:
        story = self.reconfigured()
        story.status("alpha-0", "RUNNING", "w1", 1, at_ms=1_042)
        story.status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=9_310)
        story.status("alpha-0", "RUNNING", "w1", 2, at_ms=9_452)
        assert [m.kind for m in story.rebalances()[1].movements] == ["restarted"]
        assert [t.state for t in story.tasks("alpha-0")].count("RUNNING") == 2


class TestFailures:
    def test_a_task_that_threw_is_failed_until_it_is_restarted(self) -> None:
        story = a_worker_with_a_log()
        _line(story, LogKind.WORKER_TASK_FAILED, 5_000)
        _line(story, LogKind.WORKER_TASK_STOPPING, 8_000)
        _line(story, LogKind.WORKER_TASK_STARTED, 8_040)
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 5_000, "failed"),
            ("FAILED", 5_000, 8_000, "restarted"),
            ("RUNNING", 8_040, None, None),
        ]

    def test_one_that_nobody_restarts_stays_failed(self) -> None:
        story = a_worker_with_a_log()
        _line(story, LogKind.WORKER_TASK_FAILED, 5_000)
        assert states_of(story.tasks("alpha-0"))[-1] == ("FAILED", 5_000, None, None)


def put_out_and_back() -> ConnectStory:
    """w2 is put out at 19 990, its work goes to w1 at 20 000; it comes back at 25 000 with it and gives it up."""
    return (
        a_connect_group()
        .generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
        .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_042)
        .expired(1, "w2", at_ms=19_990)
        .generation(2, {"w1": has("alpha").gets("alpha-0")}, at_ms=20_000)
        .status("alpha-0", "RUNNING", "w1", 2, at_ms=20_042)
        .generation(
            3, {"w1": has("alpha alpha-0").loses("alpha-0"), "w2#2": has("alpha-0").loses("alpha-0")}, at_ms=25_000
        )
        .status("alpha-0", "UNASSIGNED", "w1", 2, at_ms=25_049)
        .status("alpha-0", "UNASSIGNED", "w2", 1, at_ms=25_109)
        .generation(4, {"w1": has("alpha"), "w2#2": has("").gets("alpha-0")}, at_ms=25_300)
        .status("alpha-0", "RUNNING", "w2", 4, at_ms=25_342)
    )


class TestZombies:
    def test_a_process_that_was_put_out_runs_again_until_it_hears_of_it(self) -> None:
        tasks = [t for t in put_out_and_back().tasks("alpha-0") if t.state == "RUNNING"]
        # It died, as far as the group knew, 10 s less half a heartbeat before it was put out.
        assert [(t.worker_id, t.from_ms, t.to_ms, t.ended_by) for t in tasks] == [
            (worker_id("w2"), 1_040, 11_490, "worker_lost"),
            (worker_id("w1"), 20_040, 25_040, "revoked"),
            (worker_id("w2"), 23_496, 25_100, "revoked"),
            (worker_id("w2"), 25_340, None, None),
        ]

    def test_one_that_is_back_before_the_delay_ends_stood_still_though_nobody_else_had_its_work(self) -> None:
        """No status was written meanwhile. It went on half a heartbeat before the join phase ended, at 24 996."""
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_042)
            .expired(1, "w2", at_ms=19_990)
            .generation(2, {"w1": has("alpha")}, at_ms=20_000, delay_ms=30_000)
            .generation(3, {"w1": has("alpha"), "w2#2": has("alpha-0")}, at_ms=25_000)
        )
        tasks = [t for t in story.tasks("alpha-0") if t.state == "RUNNING"]
        assert [(t.worker_id, t.from_ms, t.to_ms, t.ended_by) for t in tasks] == [
            (worker_id("w2"), 1_040, 11_490, "worker_lost"),
            (worker_id("w2"), 23_496, None, None),
        ]

    def test_one_whose_leave_was_sent_for_it_worked_on(self) -> None:
        """Its own thread was stuck and its heartbeats' thread left: the tasks have theirs."""
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_042)
            .left(1, "w2", at_ms=19_990)
            .generation(2, {"w1": has("alpha")}, at_ms=20_000, delay_ms=30_000)
            .generation(3, {"w1": has("alpha"), "w2#2": has("alpha-0")}, at_ms=25_000)
        )
        tasks = [t for t in story.tasks("alpha-0") if t.state == "RUNNING"]
        assert [(t.worker_id, t.from_ms, t.to_ms) for t in tasks] == [(worker_id("w2"), 1_040, None)]

    def test_it_may_have_worked_all_the_time_so_its_pause_may_have_been_none(self) -> None:
        (given,) = (m for m in put_out_and_back().rebalances()[1].movements if m.resource == "alpha-0")
        assert (given.kind, given.from_worker_url, given.to_worker_url) == ("moved", url("w2"), url("w1"))
        assert given.pause_lower_ms is not None
        assert given.pause_lower_ms < 0 < (given.pause_estimate_ms or 0)


class TestBecomingEager:
    def story(self) -> ConnectStory:
        return (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha alpha-0"), "w2": FRESH.gets("alpha-1")}, at_ms=1_000)
            .generation(
                2,
                {"w1": FRESH.gets("alpha alpha-1"), "w2": FRESH, "w3": FRESH.gets("alpha-0")},
                at_ms=9_000,
                protocol="default",
            )
        )

    def test_what_stays_runs_on_and_what_others_are_given_runs_twice(self) -> None:
        story = self.story()
        second = story.rebalances()[1]
        assert (second.mode, second.kept_count) == ("eager", 1)
        assert running(second) == {"w1": "alpha alpha-1", "w2": "", "w3": "alpha-0"}
        assert moves(second) == {"alpha-0": ("moved", "w1", "w3"), "alpha-1": ("moved", "w2", "w1")}
        twice = [(t.worker_id, t.to_ms) for t in story.tasks("alpha-0")]
        assert twice == [(worker_id("w1"), None), (worker_id("w3"), None)]

    def test_in_the_next_eager_round_a_worker_stops_what_it_was_given(self) -> None:
        story = self.story().generation(
            3, {"w1": FRESH.gets("alpha alpha-1"), "w3": FRESH.gets("alpha-0")}, at_ms=19_000, protocol="default"
        )
        assert {m.kind for m in story.rebalances()[2].movements} == {"returned"}
        of_w1 = [t for t in story.tasks("alpha-0") if t.worker_id == worker_id("w1")]
        assert [t.to_ms for t in of_w1] == [None], "nobody asked it to stop that one"


class TestHostileNames:
    def test_slashes_dashes_and_markup_are_names_like_others(self) -> None:
        story = a_connect_group().generation(1, {"w1": FRESH.gets("[team/a-b] team/a-b-0 <b>x</b>-7")}, at_ms=1_000)
        story.status("team/a-b-0", "RUNNING", "w1", 1, at_ms=1_042)
        assert running(story.rebalances()[0]) == {"w1": "<b>x</b>-7 team/a-b team/a-b-0"}
        assert states_of(story.tasks("team/a-b-0")) == [("RUNNING", 1_040, None, None)]

    def test_whatever_a_members_bytes_are_the_group_is_shown(self) -> None:
        whole = a_connect_group().generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
        good = whole.records[0].record.value.members[1]
        for length in range(0, max(len(good.subscription), len(good.assignment)), 3):
            broken = {"w2": (good.subscription[:length], good.assignment[:length])}
            script = a_connect_group().generation(
                1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1_000, broken=broken
            )
            script.generation(2, {"w1": has("alpha"), "w2": has("alpha-0")}, at_ms=2_000)
            assert [r.outcome for r in script.rebalances()] == ["completed", "completed"]
            assert running(script.rebalances()[1])["w1"] == "alpha"


class TestAddresses:
    def test_before_3_7_all_workers_have_one_client_id_and_their_own_line_shows_them_apart(self) -> None:
        story = a_connect_group()
        for node, work, at_ms in (("node-a", ("alpha-0",), 1_005), ("node-b", ("alpha-1",), 1_009)):
            host = node.replace("node-", "w")
            story.says(LogKind.WORKER_ADDRESS, at_ms=100, node=node, url=f"http://{host}:8083/")
            story.says(
                LogKind.WORKER_JOINED, at_ms=at_ms, node=node, client_id="connect-1", generation_id=4,
                protocol_version=2, error="0", leader="connect-1-x", leader_url="http://wa:8083/", config_offset=3,
                connectors=(), tasks=work, revoked_connectors=(), revoked_tasks=(), delay_ms=0,
            )  # fmt: skip
        (rebalance,) = story.rebalances()
        assert running(rebalance) == {"wa": "alpha-0", "wb": "alpha-1"}
