"""The time line of each connector and task, and Connect groups of which only workers' logs are left.

Expected values are worked out by hand from what workers write when (docs/kafka_writes.md#connect-statuses).
"""

from __future__ import annotations

from dataclasses import replace

from rebalance_audit.domain.model import ConnectTask, LogKind
from rebalance_audit.domain.reconstruct import reconstruct
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
from tests.domain.reconstruct.connect.test_rebalances import a_lost_worker

LONG_TRACE = "org.apache.kafka.connect.errors.ConnectException: disk full\n\tat a.B.c(B.java:1)\n\tat a.B.d(B.java:2)"


def states_of(tasks: list[ConnectTask]) -> list[tuple[str, int, int | None, str | None]]:
    return [(t.state, t.from_ms, t.to_ms, t.ended_by) for t in tasks]


def one_worker() -> ConnectStory:
    """alpha-0 runs on w1 from 1 040 on."""
    return (
        a_connect_group()
        .generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1_000)
        .status("alpha-0", "RUNNING", "w1", 1, at_ms=1_042)
    )


class TestLosses:
    def test_a_dead_worker_runs_until_it_died_then_waits_for_the_delay(self) -> None:
        tasks = a_lost_worker().tasks("alpha-1")
        assert states_of(tasks) == [
            ("RUNNING", 1_040, 20_000, "worker_lost"),
            ("LOST", 20_000, 29_000, "noticed"),
            ("WAITING", 29_000, 59_040, "assigned"),
            ("RUNNING", 59_040, None, None),
        ]
        died, lost, waiting, _ = tasks
        assert (died.to_lower_ms, died.to_upper_ms) == (17_000, 28_510)
        assert [t.expected for t in tasks] == [False, False, True, False]
        assert "30000 ms" in (waiting.detail or "")
        assert "RUNNING at w2:8083" in (lost.detail or "")

    def test_a_wait_longer_than_the_delay_is_a_loss_from_there_on(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_042)
            .expired(1, "w2", at_ms=28_500)
            .generation(2, {"w1": has()}, at_ms=29_000, delay_ms=30_000)
            .generation(3, {"w1": has().gets("alpha-0")}, at_ms=90_000)
        )
        assert states_of(story.tasks("alpha-0"))[2:4] == [
            ("WAITING", 29_000, 59_000, "delay_expired"),
            ("LOST", 59_000, 90_040, "assigned"),
        ]

    def test_without_a_delay_what_nobody_was_given_is_lost(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "UNASSIGNED", "w2", 1, at_ms=9_009)
            .left(1, "w2", at_ms=9_500)
            .generation(2, {"w1": has()}, at_ms=9_600)
            .generation(3, {"w1": has().gets("alpha-0")}, at_ms=20_000)
        )
        assert states_of(story.tasks("alpha-0"))[1:3] == [
            ("UNASSIGNED", 9_000, 9_600, "noticed"),
            ("LOST", 9_600, 20_040, "assigned"),
        ]
        assert [t.expected for t in story.tasks("alpha-0")[1:3]] == [True, False]

    def test_a_lost_leader_takes_the_delay_with_it(self) -> None:
        """The new leader has no memory: everything is handed out at once."""
        story = (
            a_connect_group()
            .generation(1, {"w2": FRESH.gets("alpha-0"), "w1": FRESH}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_042)
            .expired(1, "w2", at_ms=28_500)
            .generation(2, {"w1": has().gets("alpha-0")}, at_ms=29_000)
            .status("alpha-0", "RUNNING", "w1", 2, at_ms=29_042)
        )
        assert states_of(story.tasks("alpha-0"))[1:] == [
            ("LOST", 20_000, 29_040, "assigned"),
            ("RUNNING", 29_040, None, None),
        ]

    def test_a_worker_that_leaves_in_order_stops_its_work_first(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_042)
            .status("alpha-0", "UNASSIGNED", "w2", 1, at_ms=9_009)
            .left(1, "w2", at_ms=9_500)
            .generation(2, {"w1": has()}, at_ms=9_600, delay_ms=30_000)
        )
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 9_000, "stopped"),
            ("UNASSIGNED", 9_000, 9_600, "noticed"),
            ("WAITING", 9_600, None, None),
        ]

    def test_what_is_left_of_the_delay_is_one_wait(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "UNASSIGNED", "w2", 1, at_ms=9_009)
            .generation(2, {"w1": has()}, at_ms=9_600, delay_ms=30_000)
            .generation(3, {"w1": has(), "w2#2": FRESH}, at_ms=19_600, delay_ms=20_000)
            .generation(4, {"w1": has(), "w2#2": has().gets("alpha-0")}, at_ms=39_610)
        )
        states = states_of(story.tasks("alpha-0"))
        assert [s[0] for s in states] == ["RUNNING", "UNASSIGNED", "WAITING", "RUNNING"]
        assert states[2][1:3] == (9_600, 39_650)


class TestStates:
    def test_a_failed_task_says_why_in_one_line(self) -> None:
        story = one_worker().status("alpha-0", "FAILED", "w1", 1, at_ms=5_000, trace=LONG_TRACE)
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 5_000, "failed"),
            ("FAILED", 5_000, None, None),
        ]
        assert story.tasks("alpha-0")[1].detail == "org.apache.kafka.connect.errors.ConnectException: disk full"

    def test_a_task_that_failed_at_once_never_ran(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "FAILED", "w1", 1, at_ms=1_100, trace=LONG_TRACE)
        )
        assert states_of(story.tasks("alpha-0")) == [("FAILED", 1_100, None, None)]

    def test_paused_and_resumed(self) -> None:
        story = one_worker().status("alpha-0", "PAUSED", "w1", 1, at_ms=5_000)
        story.status("alpha-0", "RUNNING", "w1", 1, at_ms=7_000)
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 5_000, "paused"),
            ("PAUSED", 5_000, 7_000, "resumed"),
            ("RUNNING", 7_000, None, None),
        ]

    def test_restarted_by_hand(self) -> None:
        story = one_worker().status("alpha-0", "RESTARTING", "w1", 1, at_ms=5_000)
        story.status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=5_039).status("alpha-0", "RUNNING", "w1", 1, at_ms=5_100)
        assert [t.state for t in story.tasks("alpha-0")] == ["RUNNING", "RESTARTING", "UNASSIGNED", "RUNNING"]
        assert [t.ended_by for t in story.tasks("alpha-0")] == ["restarted", "restarted", "restarted", None]
        assert story.rebalances()[0].restarted_count == 0

    def test_a_connector_is_stopped(self) -> None:
        story = one_worker().status("alpha", "RUNNING", "w1", 1, at_ms=1_012)
        story.status("alpha", "STOPPED", "w1", 1, at_ms=6_000)
        assert [(t.state, t.ended_by, t.expected) for t in story.tasks("alpha")] == [
            ("RUNNING", "stopped", False),
            ("STOPPED", None, True),
        ]

    def test_a_connector_and_a_task_of_one_name_have_lines_of_their_own(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0 [alpha-0]")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w1", 1, at_ms=1_042)
            .status("[alpha-0]", "FAILED", "w1", 1, at_ms=1_050, trace="x")
        )
        assert [t.state for t in story.tasks("alpha-0")] == ["RUNNING"]
        assert [t.state for t in story.tasks("[alpha-0]")] == ["FAILED"]


class TestStatusesThatMislead:
    def moved(self) -> ConnectStory:
        return (
            one_worker()
            .generation(2, {"w1": has("alpha alpha-0").loses("alpha-0"), "w2": FRESH}, at_ms=5_000)
            .generation(3, {"w1": has("alpha"), "w2": has().gets("alpha-0")}, at_ms=8_000)
            .status("alpha-0", "RUNNING", "w2", 3, at_ms=8_042)
        )

    def test_an_unassigned_of_the_old_generation_that_comes_late_stops_nothing(self) -> None:
        story = self.moved().status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=5_029)
        assert states_of(story.tasks("alpha-0")) == [
            ("RUNNING", 1_040, 5_020, "revoked"),
            ("UNASSIGNED", 5_020, 8_040, "assigned"),
            ("RUNNING", 8_040, None, None),
        ]

    def test_a_status_of_a_worker_that_nobody_knows_is_of_another_cluster(self) -> None:
        story = self.moved()
        before = story.tasks("alpha-0")
        story.status("alpha-0", "FAILED", "stranger", 3, at_ms=9_000, trace="x")
        assert story.tasks("alpha-0") == before

    def test_an_unassigned_after_the_tombstone_changes_nothing(self) -> None:
        story = (
            one_worker()
            .generation(2, {"w1": has("alpha alpha-0").loses("alpha alpha-0")}, at_ms=5_000, config_offset=2)
            .status("alpha-0", None, at_ms=5_040)
            .status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=5_029)
            .status("alpha", None, at_ms=5_041)
            .generation(3, {"w1": has()}, at_ms=5_200, config_offset=2)
        )
        assert states_of(story.tasks("alpha-0")) == [("RUNNING", 1_040, 5_020, "deleted")]
        assert story.rebalances()[1].unassigned_count == 0

    def test_a_recreated_connector_does_not_move(self) -> None:
        story = (
            one_worker()
            .generation(2, {"w1": has("alpha alpha-0").loses("alpha alpha-0")}, at_ms=5_000, config_offset=2)
            .status("alpha-0", None, at_ms=5_040)
            .generation(3, {"w1": has().gets("alpha-0")}, at_ms=9_000, config_offset=3)
        )
        assert moves(story.rebalances()[-1]) == {"alpha-0": ("assigned", "", "w1")}
        assert [t.state for t in story.tasks("alpha-0")] == ["RUNNING", "RUNNING"]

    def test_a_status_before_the_evidence_shows_when_the_task_started(self) -> None:
        story = (
            a_connect_group()
            .status("alpha-0", "RUNNING", "w1", 12, at_ms=500)
            .generation(40, {"w1": has("alpha-0")}, at_ms=90_000)
        )
        assert states_of(story.tasks("alpha-0")) == [("RUNNING", 498, None, None)]

    def test_without_it_all_that_is_known_is_that_it_ran(self) -> None:
        story = a_connect_group().generation(40, {"w1": has("alpha-0")}, at_ms=90_000, joined_at_ms=89_990)
        (task,) = story.tasks("alpha-0")
        assert (task.from_lower_ms, task.from_ms, task.from_upper_ms) == (None, 89_990, 89_990)


class TestWorkersLogsAlone:
    def story(self) -> ConnectStory:
        """w1 and w2 run alpha; then w2 shuts down and w1 is given its task."""
        story = a_connect_group()
        for node, work, at_ms in (("w1", "alpha-0", 1_005), ("w2", "alpha-1", 1_009)):
            self.joined(story, node, 4, at_ms=at_ms, connectors=(), tasks=(work,))
        story.says(LogKind.WORKER_STOPPING, at_ms=20_000, node="w2", client_id=f"connect-{worker_id('w2')}")
        story.says(LogKind.WORKER_TASK_STOPPING, at_ms=20_005, node="w2", connector="alpha", task=1)
        return self.joined(story, "w1", 5, at_ms=21_000, connectors=(), tasks=("alpha-0", "alpha-1"))

    @staticmethod
    def joined(story: ConnectStory, node: str, generation: int, *, at_ms: int, **fields: object) -> ConnectStory:
        client_id = f"connect-{worker_id(node)}"
        story.says(
            LogKind.CLIENT_JOINED, at_ms=at_ms - 3, node=node, client_id=client_id, member_id=member_id(node),
            generation_id=generation,
        )  # fmt: skip
        return story.says(
            LogKind.WORKER_JOINED, at_ms=at_ms, node=node, client_id=client_id, generation_id=generation,
            protocol_version=2, error="0", leader=member_id("w1"), leader_url=url("w1"), config_offset=3,
            revoked_connectors=(), revoked_tasks=(), delay_ms=0, **fields,
        )  # fmt: skip

    def test_the_lines_hold_the_whole_running_sets(self) -> None:
        first, second = self.story().rebalances()
        assert [(r.generation_id, r.outcome, r.mode) for r in (first, second)] == [
            (4, "completed", "incremental"),
            (5, "completed", "incremental"),
        ]
        assert running(first) == {"w1": "alpha-0", "w2": "alpha-1"}
        assert running(second) == {"w1": "alpha-0 alpha-1"}
        assert not first.is_complete_evidence
        assert (second.trigger, second.trigger_tier) == ("connect_worker_left", "logged")

    def test_a_task_moves_and_its_pause_is_bounded_by_the_lines(self) -> None:
        (moved,) = self.story().rebalances()[1].movements
        assert (moved.kind, moved.from_worker_url, moved.to_worker_url) == ("moved", url("w2"), url("w1"))
        assert (moved.stopped_at_lower_ms, moved.stopped_at_upper_ms) == (20_005, 21_010)
        assert moved.resumed_at_lower_ms == 21_000

    def test_a_generation_whose_record_is_gone_is_filled_in_from_them(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .generation(3, {"w1": has("alpha-0"), "w2": has()}, at_ms=9_000)
        )
        assert [r.outcome for r in story.rebalances()] == ["completed", "missing", "completed"]
        for node, tasks, at_ms in (("w1", ("alpha-0",), 5_005), ("w2", (), 5_009)):
            self.joined(story, node, 2, at_ms=at_ms, connectors=(), tasks=tasks)
        rows = story.rebalances()
        assert [r.outcome for r in rows] == ["completed", "completed", "completed"]
        assert moves(rows[1]) == {"alpha-0": ("moved", "w2", "w1")}
        assert moves(rows[2]) == {}

    def test_logs_that_come_later_keep_the_ids(self) -> None:
        story = self.story().generation(4, {"w1": has("alpha-0"), "w2": has("alpha-1")}, at_ms=1_000)
        with_records = [r.rebalance_id for r in story.rebalances()]
        without = reconstruct(replace(story.evidence(), records=())).rebalances
        assert with_records == [r.rebalance_id for r in without]


class TestAWorkerThatIsBackBeforeItsSessionEnds:
    """w2 is killed at 10 000 and back under its address at 14 000; its old session ends at 19 500, the delay of 20 s at
    39 600. The new process stops the task in good order at 45 000."""

    @staticmethod
    def story() -> ConnectStory:
        story = a_connect_group()
        story.says(LogKind.WORKER_ADDRESS, at_ms=200, node="w2", url=url("w2"))
        story.generation(1, {"w1": FRESH.gets("alpha alpha-0"), "w2": FRESH.gets("alpha-1")}, at_ms=1_000)
        joined(story, 1, "w2", at_ms=1_002)
        story.says(LogKind.WORKER_TASK_STARTED, at_ms=1_040, node="w2", connector="alpha", task=1)
        story.status("alpha-1", "RUNNING", "w2", 1, at_ms=1_042)
        story.says(LogKind.WORKER_ADDRESS, at_ms=14_000, node="w2", url=url("w2"))
        story.says(LogKind.MEMBER_JOINED, at_ms=14_400, member_id=member_id("w2#2"), asked_to_rejoin=True)
        reason = f"Adding new member {member_id('w2#2')} with group instance id null"
        story.preparing(1, reason, at_ms=14_410)
        story.says(LogKind.MEMBER_FAILED, at_ms=19_500, member_id=member_id("w2"))
        story.generation(2, {"w1": has("alpha alpha-0"), "w2#2": FRESH}, at_ms=19_600, delay_ms=20_000)
        joined(story, 2, "w2#2", at_ms=19_602)
        story.generation(3, {"w1": has("alpha alpha-0"), "w2#2": has("").gets("alpha-1")}, at_ms=39_700)
        joined(story, 3, "w2#2", at_ms=39_702)
        story.says(LogKind.WORKER_TASK_STARTED, at_ms=39_740, node="w2", connector="alpha", task=1)
        story.status("alpha-1", "RUNNING", "w2", 3, at_ms=39_742)
        story.says(LogKind.WORKER_TASK_STOPPING, at_ms=45_000, node="w2", connector="alpha", task=1)
        return story.says(LogKind.WORKER_TASK_STOPPED, at_ms=45_005, node="w2", connector="alpha", task=1)

    def test_its_tasks_ended_before_it_was_back_whatever_the_new_process_logs(self) -> None:
        first, *rest = self.story().tasks("alpha-1")
        assert (first.state, first.ended_by) == ("RUNNING", "worker_lost")
        # Its last heartbeat was at most a session before the expiry, and its successor asked to join at 14 400.
        assert (first.to_lower_ms, first.to_upper_ms) == (8_000, 14_410)
        assert first.to_ms is not None
        assert 8_000 <= first.to_ms <= 14_410
        assert [t.state for t in rest] == ["LOST", "WAITING", "RUNNING"]

    def test_without_the_line_of_its_address_the_new_member_id_shows_the_new_process(self) -> None:
        story = self.story()
        story.lines = [line for line in story.lines if line.kind is not LogKind.WORKER_ADDRESS]
        first = story.tasks("alpha-1")[0]
        assert (first.to_lower_ms, first.to_upper_ms) == (8_000, 14_410)


def joined(story: ConnectStory, generation: int, worker: str, *, at_ms: int) -> None:
    node = worker.partition("#")[0]
    fields = {"client_id": f"connect-{worker_id(node)}", "member_id": member_id(worker), "generation_id": generation}
    story.says(LogKind.CLIENT_JOINED, at_ms=at_ms, node=node, **fields)
    story.says(LogKind.WORKER_JOINED, at_ms=at_ms + 1, node=node, generation_id=generation, connectors=(), tasks=())
