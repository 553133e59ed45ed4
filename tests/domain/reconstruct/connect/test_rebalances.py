"""Connect groups: who ran what, what moved, and why. Expected values are worked out by hand from KIP-415's rules."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure.marks import best_estimate
from rebalance_audit.domain.model import GroupEvidence, LogEvent, LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.reconstruct.connect.rebalances import is_connect_group
from tests.domain.reconstruct.classic.stories import a_group
from tests.domain.reconstruct.connect.stories import (
    FRESH,
    GROUP,
    ConnectStory,
    a_connect_group,
    has,
    member_id,
    moves,
    running,
    url,
)

OLD = (Basis.STATUS_OF_OLD_STOP, Basis.STATUS_OF_OLD_START)


class TestWhichGroups:
    def test_records_of_protocol_type_connect_make_a_connect_group(self) -> None:
        assert is_connect_group(a_connect_group().generation(1, {"w1": FRESH}, at_ms=1).evidence())

    def test_a_consumer_group_is_none_even_if_a_line_says_so(self) -> None:
        evidence = a_group().generation(1, {"c1": "0"}, at_ms=1).evidence()
        assert not is_connect_group(replace(evidence, lines=(_worker_line(),)))

    def test_without_records_workers_lines_make_one(self) -> None:
        assert is_connect_group(GroupEvidence(cluster_id="c", group_id=GROUP, lines=(_worker_line(),)))
        assert not is_connect_group(GroupEvidence(cluster_id="c", group_id=GROUP))


def _worker_line() -> LogEvent:
    return a_connect_group().says(LogKind.WORKER_REBALANCE_STARTED, at_ms=5, node="w1").lines[0]


def a_lost_worker() -> ConnectStory:
    """w2 dies about 20 000, its session ends at 28 500, the delay of 30 s at 59 000; w1 has it from 59 040 on."""
    return (
        a_connect_group()
        .generation(1, {"w1": FRESH.gets("alpha alpha-0"), "w2": FRESH.gets("alpha-1")}, at_ms=1_000)
        .status("alpha-1", "RUNNING", "w2", 1, at_ms=1_042)
        .status("alpha-0", "RUNNING", "w1", 1, at_ms=1_043)
        .expired(1, "w2", at_ms=28_500)
        .generation(2, {"w1": has("alpha alpha-0")}, at_ms=29_000, delay_ms=30_000)
        .rejoined(2, "w1", at_ms=59_002, leader=True)
        .generation(3, {"w1": has("alpha alpha-0").gets("alpha-1")}, at_ms=59_010)
        .status("alpha-1", "RUNNING", "w1", 3, at_ms=59_042)
    )


class TestRunningSets:
    def test_what_a_worker_has_is_its_allocation_less_the_revoked_plus_the_assigned(self) -> None:
        story = a_connect_group().generation(
            7, {"w1": has("alpha alpha-0 alpha-1").loses("alpha-1").gets("beta")}, at_ms=1
        )
        (rebalance,) = story.rebalances()
        (member,) = rebalance.members
        assert member.owned_before == ("alpha", "alpha-0", "alpha-1")
        assert member.assigned == ("alpha", "alpha-0", "beta")
        assert (member.revoked, member.added) == (("alpha-1",), ("beta",))
        assert (rebalance.mode, rebalance.resource_count, rebalance.kept_count) == ("incremental", 3, 2)

    def test_what_was_revoked_before_is_not_revoked_again(self) -> None:
        story = a_connect_group().generation(7, {"w1": has("alpha alpha-0")}, at_ms=1, old_inside="alpha-0")
        assert running(story.rebalances()[0]) == {"w1": "alpha alpha-0"}
        assert story.rebalances()[0].connect_delay_ms == 0

    def test_header_1_inside_a_sessioned_group_is_sessioned_all_the_same(self) -> None:
        story = a_connect_group().generation(7, {"w1": has("alpha").gets("alpha-0")}, at_ms=1, version=1)
        (rebalance,) = story.rebalances()
        assert (rebalance.assignor, rebalance.mode) == ("sessioned", "incremental")
        assert running(rebalance) == {"w1": "alpha alpha-0"}

    def test_a_worker_without_allocation_had_nothing_and_has_joined(self) -> None:
        story = a_connect_group().generation(7, {"w1": has("alpha"), "w2": FRESH}, at_ms=1)
        changes = {m.worker_url: (m.change, m.owned_before) for m in story.rebalances()[0].members}
        assert changes == {url("w1"): ("stayed", ("alpha",)), url("w2"): ("joined", ())}

    def test_a_failed_assignment_changes_nothing(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1)
            .generation(2, {"w1": has("alpha alpha-0")}, at_ms=2, error=1)
            .generation(3, {"w1": has("alpha alpha-0")}, at_ms=3)
        )
        _, failed, after = story.rebalances()
        assert running(failed) == running(after) == {"w1": "alpha alpha-0"}
        assert (moves(failed), failed.unassigned_count) == ({}, 0)
        assert after.trigger == "connect_assignment_failed"
        assert [r.connect_error for r in story.rebalances()] == [0, 1, 0]

    def test_an_eager_assignment_is_the_whole(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha alpha-0 alpha-1")}, at_ms=1_000, protocol="default")
            .generation(
                2, {"w1": FRESH.gets("alpha alpha-0"), "w2": FRESH.gets("alpha-1")}, at_ms=9_000, protocol="default"
            )
        )
        _, second = story.rebalances()
        assert (second.mode, second.kept_count) == ("eager", 0)
        assert running(second) == {"w1": "alpha alpha-0", "w2": "alpha-1"}
        assert moves(second) == {
            "alpha": ("returned", "w1", "w1"),
            "alpha-0": ("returned", "w1", "w1"),
            "alpha-1": ("moved", "w1", "w2"),
        }
        assert [m.owned_before for m in second.members] == [("alpha", "alpha-0", "alpha-1"), ()]

    def test_a_connector_named_like_a_task_is_another_resource(self) -> None:
        story = a_connect_group().generation(1, {"w1": FRESH.gets("alpha-0 [alpha-0]")}, at_ms=1)
        (rebalance,) = story.rebalances()
        assert rebalance.resource_count == 2
        assert {(m.resource_type, m.resource, m.connector, m.task) for m in rebalance.movements} == {
            ("task", "alpha-0", "alpha", 0),
            ("connector", "alpha-0", "alpha-0", None),
        }

    def test_a_member_whose_bytes_are_broken_is_not_known_and_does_no_harm(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha"), "w2": FRESH.gets("alpha-0")}, at_ms=1)
            .generation(2, {"w1": has("alpha"), "w2": has("alpha-0")}, at_ms=2, broken={"w2": (b"\x00", b"\x00\x02")})
            .generation(3, {"w1": has("alpha"), "w2": has("alpha-0")}, at_ms=3)
        )
        _, second, third = story.rebalances()
        (broken,) = [m for m in second.members if m.member_id == member_id("w2")]
        assert (broken.worker_url, broken.assigned) == (None, None)
        assert (second.resource_count, second.is_complete_evidence) == (None, False)
        assert running(third) == {"w1": "alpha", "w2": "alpha-0"}
        assert moves(second) == moves(third) == {}


class TestMovements:
    def test_the_rebalance_that_gives_it_on_has_the_pause_and_names_the_one_that_took_it(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1_000)
            .generation(2, {"w1": has("alpha alpha-0").loses("alpha-0"), "w2": FRESH}, at_ms=5_000)
            .status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=5_030)
            .generation(3, {"w1": has("alpha"), "w2": has().gets("alpha-0")}, at_ms=8_000)
            .status("alpha-0", "RUNNING", "w2", 3, at_ms=8_060)
        )
        _, second, third = story.rebalances()
        assert moves(second) == {"alpha-0": ("revoked", "w1", "")}
        assert (second.unassigned_count, third.unassigned_count) == (1, 0)
        assert moves(third) == {"alpha-0": ("moved", "w1", "w2")}
        (moved,) = third.movements
        assert moved.revoked_in_rebalance_id == second.rebalance_id
        # Stopped between the record (5 000) and 10 ms after UNASSIGNED; started between 8 000 and 200 ms after RUNNING.
        assert (moved.pause_lower_ms, moved.pause_estimate_ms, moved.pause_upper_ms) == (2_960, 3_037, 3_260)
        assert moved.pause_tier == "recorded"

    def test_statuses_of_a_worker_that_may_be_old_and_of_a_new_process_have_kinds_of_their_own(self) -> None:
        for urls, names, kinds in (
            ({}, ("w1", "w2"), (Basis.STATUS_OF_STOP, Basis.STATUS_OF_NEW_WORKER)),
            # Its client id is not its address: of 3.6 or earlier, or somebody chose it.
            ({w: url(f"{w}.lan") for w in ("w1", "w2")}, ("w1.lan", "w2.lan"), OLD),
        ):
            story = (
                a_connect_group(urls=urls)
                .generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1_000)
                .generation(2, {"w1": has("alpha alpha-0").loses("alpha-0"), "w2": FRESH}, at_ms=5_000)
                .status("alpha-0", "UNASSIGNED", names[0], 1, at_ms=5_430)
                .generation(3, {"w1": has("alpha"), "w2": has().gets("alpha-0")}, at_ms=8_000)
                .status("alpha-0", "RUNNING", names[1], 3, at_ms=8_060)
            )
            (moved,) = story.rebalances()[-1].movements
            stop, resume = best_estimate(moved.stop_marks), best_estimate(moved.resume_marks)
            assert stop is not None
            assert resume is not None
            assert (stop.basis, resume.basis) == kinds
            if kinds == OLD:
                assert (stop.window_from_ms, stop.window_to_ms) == (4_930, 5_430)
                assert (resume.window_from_ms, resume.window_to_ms) == (7_960, 8_160)
                # It may have stopped at the record of 5 000 and have started 100 ms after its status, both at once.
                assert moved.pause_likely_upper_ms == 8_160 - 5_000

    def test_a_worker_that_ran_others_writes_its_status_at_once(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0"), "w2": FRESH.gets("alpha-1")}, at_ms=1_000)
            .generation(2, {"w1": has("alpha-0")}, at_ms=20_000)
            .generation(3, {"w1": has("alpha-0").gets("alpha-1")}, at_ms=30_000)
            .status("alpha-1", "RUNNING", "w1", 3, at_ms=30_060)
        )
        (moved,) = story.rebalances()[-1].movements
        resume = best_estimate(moved.resume_marks)
        assert resume is not None
        assert resume.basis == Basis.STATUS

    def test_a_lost_workers_task_stands_still_from_its_death_to_its_start_elsewhere(self) -> None:
        _, second, third = a_lost_worker().rebalances()
        assert moves(second) == {"alpha-1": ("revoked", "w2", "")}
        assert [(m.change, m.worker_url) for m in second.members] == [("stayed", url("w1")), ("left", url("w2"))]
        assert moves(third) == {"alpha-1": ("moved", "w2", "w1")}
        (moved,) = third.movements
        assert (moved.stopped_at_lower_ms, moved.stopped_at_upper_ms) == (17_000, 28_510)
        # 28 500 - 10 000 + 1 500, to 2 ms before RUNNING.
        assert moved.pause_estimate_ms == 59_040 - 20_000
        assert "assumed" in (moved.pause_detail or "")

    def test_a_worker_that_bounces_gets_its_work_back(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-1")}, at_ms=1_000)
            .left(1, "w2", at_ms=20_000)
            .status("alpha-1", "UNASSIGNED", "w2", 1, at_ms=19_990)
            .generation(2, {"w1": has()}, at_ms=20_100, delay_ms=30_000)
            .generation(3, {"w1": has(), "w2#2": FRESH}, at_ms=30_000, delay_ms=20_100)
            .generation(4, {"w1": has(), "w2#2": has().gets("alpha-1")}, at_ms=50_110)
        )
        last = story.rebalances()[-1]
        assert moves(last) == {"alpha-1": ("returned", "w2", "w2")}
        (returned,) = last.movements
        assert (returned.from_member_id, returned.to_member_id) == (member_id("w2"), member_id("w2#2"))
        assert returned.revoked_in_rebalance_id == story.rebalances()[1].rebalance_id
        assert last.trigger == "connect_delay_expired"

    def test_a_bounce_within_one_generation_is_a_return_too(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0")}, at_ms=1_000)
            .generation(2, {"w1#2": FRESH.gets("alpha-0")}, at_ms=30_000)
        )
        last = story.rebalances()[-1]
        assert moves(last) == {"alpha-0": ("returned", "w1", "w1")}
        assert sorted(m.change for m in last.members) == ["joined", "left"]

    def test_workers_that_share_an_address_are_distinguished_by_member_id(self) -> None:
        story = a_connect_group(urls={"w2": url("w1")})
        story.generation(1, {"w1": FRESH.gets("alpha-0"), "w2": FRESH}, at_ms=1)
        story.generation(2, {"w1": has("alpha-0").loses("alpha-0"), "w2": has()}, at_ms=2)
        story.generation(3, {"w1": has(), "w2": has().gets("alpha-0")}, at_ms=3)
        assert [m.kind for m in story.rebalances()[-1].movements] == ["moved"]

    def test_a_worker_that_never_heard_of_a_revocation_kept_running(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0")}, at_ms=1_000)
            .generation(2, {"w1": has("alpha-0").loses("alpha-0"), "w2": FRESH}, at_ms=2_000)
            .generation(3, {"w1": has("alpha-0"), "w2": has()}, at_ms=3_000)
        )
        assert [moves(r) for r in story.rebalances()[1:]] == [{}, {}]
        assert [t.state for t in story.tasks("alpha-0")] == ["RUNNING"]

    def test_a_process_that_lost_its_membership_and_came_back_with_its_work_never_stopped(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .generation(2, {"w1": has()}, at_ms=20_000, delay_ms=30_000)
            .generation(3, {"w1": has(), "w2#2": has("alpha-0")}, at_ms=22_000)
        )
        assert [moves(r) for r in story.rebalances()[1:]] == [{}, {}]

    def test_work_given_up_without_a_revocation_is_seen_in_the_next_allocation(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0")}, at_ms=1_000)
            .says(LogKind.CLIENT_JOINED, at_ms=1_001, node="worker-1", member_id=member_id("w1"), generation_id=1)
            .says(LogKind.WORKER_COORDINATOR_LOST, at_ms=40_000, node="worker-1")
            .generation(2, {"w1": has().gets("alpha-0")}, at_ms=60_000)
        )
        last = story.rebalances()[-1]
        assert moves(last) == {"alpha-0": ("returned", "w1", "w1")}
        (returned,) = last.movements
        assert (returned.stopped_at_lower_ms, returned.stopped_at_upper_ms) == (40_000, 60_006)
        assert story.tasks("alpha-0")[0].ended_by == "given_up"

    def test_a_task_restarted_for_its_new_configuration_is_restarted_and_not_kept(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha alpha-0 alpha-1")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w1", 1, at_ms=1_050)
            .status("alpha-1", "RUNNING", "w1", 1, at_ms=1_050)
            .status("alpha-0", "UNASSIGNED", "w1", 1, at_ms=8_009)
            .generation(2, {"w1": has("alpha alpha-0 alpha-1")}, at_ms=8_030, config_offset=9)
            .status("alpha-0", "RUNNING", "w1", 2, at_ms=8_102)
        )
        _, second = story.rebalances()
        assert moves(second) == {"alpha-0": ("restarted", "w1", "w1")}
        assert (second.movements[0].pause_estimate_ms, second.kept_count) == (100, 2)

    def test_what_is_deleted_is_revoked_and_not_unassigned(self) -> None:
        story = (
            a_connect_group()
            .configured("alpha", 1)
            .configured("beta", 2)
            .generation(1, {"w1": FRESH.gets("alpha alpha-0 beta beta-0 beta-1")}, at_ms=1_000, config_offset=4)
            .config("connector-alpha", None)
            .config("commit-beta", {"tasks": 1})
            .generation(
                2,
                {"w1": has("alpha alpha-0 beta beta-0 beta-1").loses("alpha alpha-0 beta-1")},
                at_ms=2_000,
                config_offset=6,
            )
            .generation(3, {"w1": has("beta beta-0")}, at_ms=2_100, config_offset=6)
        )
        _, second, third = story.rebalances()
        assert {m.kind for m in second.movements} == {"revoked"}
        assert (second.unassigned_count, third.unassigned_count) == (0, 0)
        assert second.trigger_detail == "connector alpha deleted; tasks of beta configured (1, 2 before)"
        assert third.trigger == "connect_revocation_follow_up"
        assert [t.ended_by for t in story.tasks("beta-1")] == ["deleted"]
        without_configs = replace(story.evidence(), configs=())
        assert [r.unassigned_count for r in reconstruct(without_configs).rebalances] == [0, 0, 0]

    def test_a_configured_task_that_nobody_was_given_is_unassigned_and_lost(self) -> None:
        story = (
            a_connect_group()
            .configured("alpha", 2)
            .generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1_000, config_offset=2)
        )
        assert story.rebalances()[0].unassigned_count == 1
        assert [(t.state, t.expected) for t in story.tasks("alpha-1")] == [("LOST", False)]

    def test_the_first_generation_in_evidence_invents_no_movements(self) -> None:
        story = a_connect_group().generation(40, {"w1": has("alpha").gets("alpha-0")}, at_ms=1_000)
        assert moves(story.rebalances()[0]) == {}


class TestTriggers:
    def test_the_first_worker(self) -> None:
        story = a_connect_group().generation(1, {"w1": FRESH}, at_ms=1)
        assert _trigger(story) == ("connect_worker_joined", "inferred", False)

    def test_the_last_worker_leaves(self) -> None:
        story = a_connect_group().generation(1, {"w1": FRESH}, at_ms=1).left(1, "w1", at_ms=99).empty(2, at_ms=100)
        assert _trigger(story) == ("connect_worker_left", "logged", False)
        assert story.rebalances()[-1].outcome == "emptied"

    def test_a_worker_that_wrote_unassigned_left_in_order(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_050)
            .status("alpha-0", "UNASSIGNED", "w2", 1, at_ms=9_000)
            .generation(2, {"w1": has()}, at_ms=9_500, delay_ms=30_000)
        )
        assert _trigger(story) == ("connect_worker_left", "inferred", False)

    def test_a_worker_that_left_running_behind_is_lost(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH.gets("alpha-0")}, at_ms=1_000)
            .status("alpha-0", "RUNNING", "w2", 1, at_ms=1_050)
            .generation(2, {"w1": has()}, at_ms=19_500, delay_ms=30_000)
        )
        assert _trigger(story) == ("member_session_expired", "inferred", False)

    def test_without_statuses_and_logs_nobody_knows_how_it_went(self) -> None:
        story = (
            a_connect_group().generation(1, {"w1": FRESH, "w2": FRESH}, at_ms=1).generation(2, {"w1": has()}, at_ms=2)
        )
        assert _trigger(story) == ("unknown", "unknown", False)

    def test_an_expired_session_keeps_its_name(self) -> None:
        second = a_lost_worker().rebalances()[1]
        assert (second.trigger, second.trigger_tier) == ("member_session_expired", "logged")

    def test_the_delay_that_ended_explains_the_leaders_rejoin(self) -> None:
        assert _trigger(a_lost_worker()) == ("connect_delay_expired", "inferred", True)

    def test_a_rejoin_long_before_the_delay_ends_is_something_else(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH}, at_ms=1_000, delay_ms=30_000)
            .rejoined(1, "w1", at_ms=9_000, leader=True)
            .generation(2, {"w1": has()}, at_ms=9_010, delay_ms=21_990)
        )
        assert _trigger(story) == ("leader_rejoined", "logged", False)

    def test_a_followers_rejoin_without_a_reason_stays_unknown(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH}, at_ms=1_000)
            .rejoined(1, "w2", at_ms=9_000)
            .generation(2, {"w1": has(), "w2": has()}, at_ms=9_010)
        )
        assert _trigger(story) == ("unknown", "unknown", False)

    def test_what_was_revoked_explains_the_next_generation(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0"), "w2": FRESH}, at_ms=1_000)
            .generation(2, {"w1": has("alpha-0").loses("alpha-0"), "w2": has()}, at_ms=5_000)
            .rejoined(2, "w1", at_ms=5_100)
            .generation(3, {"w1": has(), "w2": has().gets("alpha-0")}, at_ms=8_000)
        )
        assert _trigger(story) == ("connect_revocation_follow_up", "recorded", True)

    def test_a_worker_that_joins_first_is_the_cause_and_the_follow_up_comes_second(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH.gets("alpha-0"), "w2": FRESH}, at_ms=1_000)
            .generation(2, {"w1": has("alpha-0").loses("alpha-0"), "w2": has()}, at_ms=5_000)
            .generation(3, {"w1": has(), "w2": has().gets("alpha-0"), "w3": FRESH}, at_ms=8_000)
        )
        assert [t.trigger for t in story.rebalances()[-1].triggers] == [
            "connect_worker_joined",
            "connect_revocation_follow_up",
        ]
        assert not story.rebalances()[-1].expected

    @pytest.mark.parametrize(
        ("key", "content", "words"),
        [
            ("connector-beta", {"properties": {"password": "x"}}, "connector beta created"),
            ("connector-alpha", {"properties": {"password": "x"}}, "connector alpha reconfigured"),
            ("connector-alpha", None, "connector alpha deleted"),
            ("commit-alpha", {"tasks": 3}, "tasks of alpha configured (3, 1 before)"),
            ("target-state-alpha", {"state": "PAUSED", "state.v2": "STOPPED"}, "target state of alpha: STOPPED"),
        ],
    )
    def test_the_config_topic_shows_what_changed(self, key: str, content: dict[str, object] | None, words: str) -> None:
        story = (
            a_connect_group()
            .configured("alpha", 1)
            .generation(1, {"w1": FRESH.gets("alpha alpha-0")}, at_ms=1, config_offset=2)
            .config(key, content)
            .rejoined(1, "w1", at_ms=90, leader=True)
            .generation(2, {"w1": has("alpha alpha-0")}, at_ms=100, config_offset=3)
        )
        last = story.rebalances()[-1]
        assert (last.trigger, last.trigger_tier, last.trigger_detail) == ("connect_config_changed", "recorded", words)
        assert "record:connect-configs-0@2" in last.evidence

    def test_without_the_config_topic_the_offset_shows_that_something_changed(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH}, at_ms=1, config_offset=2)
            .generation(2, {"w1": has()}, at_ms=100, config_offset=3)
        )
        assert _trigger(story) == ("connect_config_changed", "inferred", False)

    def test_a_new_session_key_is_no_cause(self) -> None:
        story = (
            a_connect_group()
            .config("session-key", {"key": "c2VjcmV0", "algorithm": "HmacSHA256", "creation-timestamp": 1})
            .generation(1, {"w1": FRESH}, at_ms=1, config_offset=0)
            .generation(2, {"w1": has()}, at_ms=100, config_offset=1)
        )
        assert _trigger(story) == ("unknown", "unknown", False)

    def test_a_worker_that_read_the_configuration_late_joins_again(self) -> None:
        story = (
            a_connect_group()
            .configured("alpha", 1)
            .generation(1, {"w1": FRESH, "w2": FRESH.having_read_to(1)}, at_ms=1_000, config_offset=2)
            .rejoined(1, "w2", at_ms=1_030)
            .generation(2, {"w1": has(), "w2": has()}, at_ms=1_050, config_offset=2)
        )
        assert _trigger(story) == ("connect_config_changed", "inferred", False)

    def test_another_common_protocol(self) -> None:
        story = (
            a_connect_group()
            .generation(1, {"w1": FRESH, "w2": FRESH}, at_ms=1_000, protocol="default")
            .generation(2, {"w1": has(), "w2": has()}, at_ms=9_000)
        )
        assert _trigger(story) == ("assignor_changed", "inferred", False)
        assert [r.mode for r in story.rebalances()] == ["eager", "incremental"]


def _trigger(story: ConnectStory) -> tuple[str, str, bool]:
    last = story.rebalances()[-1]
    return last.trigger, last.trigger_tier, last.expected
