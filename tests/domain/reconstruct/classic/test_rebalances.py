"""Generations, movements and triggers of classic consumer groups, by hand-worked stories."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import reduce

import pytest

from rebalance_audit.domain.gather.commit_marks import joined
from rebalance_audit.domain.model import GroupEvidence, LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.classic.found import generations_of, movement, moves, rebalances
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id


def test_the_record_of_a_new_group_is_no_rebalance() -> None:
    assert generations_of(a_group().created(at_ms=100).generation(1, {"c1": "0 1"}, at_ms=200)) == [
        (1, "rebalance", "completed", "member_joined")
    ]


def test_commits_alone_make_no_rebalance() -> None:
    assert generations_of(a_group().commit(0, at_ms=100)) == []


def test_an_eager_join_moves_some_partitions_and_returns_the_rest() -> None:
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=1_000).generation(2, {"c1": "0", "c2": "1"}, at_ms=5_000)
    first, second = rebalances(story)
    assert moves(first) == {"orders-0": ("assigned", None, "c1"), "orders-1": ("assigned", None, "c1")}
    assert moves(second) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}
    assert (second.mode, second.kept_count, second.moved_count, second.returned_count) == ("eager", 0, 1, 1)


def test_what_a_cooperative_group_keeps_has_no_row() -> None:
    story = (
        a_group()
        .generation(1, {"c1": "0 1"}, at_ms=1_000, assignor="cooperative-sticky")
        .generation(2, {"c1": "0", "c2": ""}, at_ms=5_000, assignor="cooperative-sticky", owned={"c1": "0 1"})
        .generation(3, {"c1": "0", "c2": "1"}, at_ms=8_000, assignor="cooperative-sticky", owned={"c1": "0"})
    )
    first, second, third = rebalances(story)
    assert [r.mode for r in (first, second, third)] == ["cooperative"] * 3
    assert moves(second) == {"orders-1": ("revoked", "c1", None)}
    assert (second.kept_count, second.unassigned_count) == (1, 1)
    assert moves(third) == {"orders-1": ("moved", "c1", "c2")}
    assert third.movements[0].revoked_in_rebalance_id == second.rebalance_id
    assert (third.trigger, third.expected) == ("cooperative_follow_up", True)


def test_an_emptied_group_revokes_and_the_next_generation_gives_on_what_was_held() -> None:
    story = (
        a_group()
        .generation(1, {"c1": "0"}, at_ms=1_000)
        .commit(0, at_ms=2_000)
        .empty(2, at_ms=2_010)
        .generation(3, {"c2": "0"}, at_ms=60_000)
    )
    _, emptied, third = rebalances(story)
    assert (emptied.outcome, emptied.mode, moves(emptied)) == (
        "emptied",
        "eager",
        {"orders-0": ("revoked", "c1", None)},
    )
    assert moves(third) == {"orders-0": ("moved", "c1", "c2")}
    assert third.movements[0].revoked_in_rebalance_id == emptied.rebalance_id
    # From the last commit (2.000 s) to 8 ms after the record (60.000 s).
    assert third.movements[0].pause_estimate_ms == 58_008


def test_what_others_commit_for_an_empty_group_is_no_sign_of_who_was_there() -> None:
    """An administrator sets offsets, or a consumer that is no member commits: only an empty group allows it (4.0.0)."""
    story = a_group().generation(1, {"c1": "0"}, at_ms=1_000).commit(0, at_ms=2_000).empty(2, at_ms=2_010)
    story.commit(0, at_ms=40_000, position=0).commit(0, at_ms=50_000).generation(3, {"c2": "0"}, at_ms=60_000)
    (moved,) = rebalances(story)[-1].movements
    assert moved.pause_estimate_ms == 58_008
    assert moved.stopped_at_lower_ms is not None
    assert moved.stopped_at_lower_ms < 2_010


def test_a_static_member_that_comes_back_is_a_rewrite_and_its_partitions_stood_still() -> None:
    new_id = "inst-2-11111111-0000-0000-0000-000000000000"
    story = (
        a_group()
        .generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, instances={"c2": "i2"})
        .commit(1, at_ms=4_000)
        .generation(1, {"c1": "0", "c2": "1"}, at_ms=7_000, instances={"c2": "i2"}, member_ids={"c2": new_id})
    )
    _, rewrite = rebalances(story)
    assert (rewrite.kind, rewrite.rewrite_seq, rewrite.generation_id) == ("static_rewrite", 1, 1)
    assert moves(rewrite) == {"orders-1": ("returned", "c2", "c2")}
    assert rewrite.movements[0].pause_estimate_ms == 3_008
    assert {m.client_id: m.change for m in rewrite.members} == {"c1": "stayed", "c2": "replaced"}
    # The one cause is the trigger, and nobody is said to have put the member out.
    assert [(t.trigger, t.tier, t.members) for t in rewrite.triggers] == [
        ("static_member_replaced", "recorded", (new_id,))
    ]
    assert (rewrite.trigger, rewrite.triggers[0].evidence) == ("static_member_replaced", rewrite.evidence)


def test_a_number_that_only_a_line_shows_was_superseded_not_missing() -> None:
    story = (
        a_group()
        .generation(4, {"c1": "0"}, at_ms=1_000)
        .preparing(4, f"Adding new member {member_id('c2')} with group instance id null", at_ms=5_000)
        .stabilized(5, at_ms=6_000, member_count=2)
        .preparing(5, f"explicit `LeaveGroup` request for ({member_id('c2')}) members", at_ms=6_006)
        .stabilized(6, at_ms=8_000)
        .received(6, at_ms=8_010)
        .generation(6, {"c1": "0"}, at_ms=8_010, joined_at_ms=8_000)
    )
    assert [(n, o) for n, _, o, _ in generations_of(story)] == [(4, "completed"), (5, "superseded"), (6, "completed")]
    assert rebalances(story)[1].started_at_ms == 5_000
    # Nobody was assigned anything, so no record was ever written: none is missing.
    assert rebalances(story)[1].is_complete_evidence


UNWRITTEN = (
    f"Error COORDINATOR_NOT_AVAILABLE when storing group assignment during SyncGroup (member: {member_id('c1')})"
)


def test_a_generation_whose_record_could_not_be_written_failed_and_gave_nothing() -> None:
    """By the lines of 3.9.1, as `group_cannot_be_written` has them: the leader's assignment had come."""
    story = (
        a_group()
        .generation(2, {"c1": "0 1"}, at_ms=1_000)
        .commit(0, at_ms=4_990)
        .preparing(2, f"Adding new member {member_id('c2')} with group instance id None", at_ms=5_000)
        .stabilized(3, at_ms=6_000, member_count=2)
        .received(3, at_ms=6_010)
        .preparing(3, UNWRITTEN, at_ms=6_011)
        .stabilized(4, at_ms=6_100, member_count=2)
        .received(4, at_ms=6_110)
        .generation(4, {"c1": "0", "c2": "1"}, at_ms=6_110, joined_at_ms=6_100)
    )
    assert [(n, o, t) for n, _, o, t in generations_of(story)] == [
        (2, "completed", "unknown"),
        (3, "failed", "member_joined"),
        (4, "completed", "append_failed"),
    ]
    failed, last = rebalances(story)[1:]
    assert (failed.assigned_at_ms, failed.movements) == (None, ())
    assert moves(last) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}


def test_a_record_that_was_written_too_late_was_delivered_to_nobody() -> None:
    """By the lines of 4.3.0: the coordinator waits 5 s for the other replicas, and the record stands in its log."""
    reason = UNWRITTEN.replace("assignment during", "assignmentduring")
    story = (
        a_group()
        .generation(2, {"c1": "0 1"}, at_ms=1_000)
        .commit(0, at_ms=4_990)
        .preparing(2, f"Adding new member {member_id('c2')} with group instance id null", at_ms=5_000)
        .stabilized(3, at_ms=6_000, member_count=2)
        .received(3, at_ms=6_010)
        .generation(3, {"c1": "0", "c2": "1"}, at_ms=6_010, joined_at_ms=6_000)
        .preparing(3, reason, at_ms=11_011)
        .stabilized(4, at_ms=11_100, member_count=2)
        .received(4, at_ms=11_110)
        .generation(4, {"c1": "0", "c2": "1"}, at_ms=11_110, joined_at_ms=11_100)
    )
    failed, last = rebalances(story)[1:]
    assert (failed.outcome, failed.trigger, failed.movements) == ("failed", "member_joined", ())
    assert story.records[1].ref in failed.evidence
    assert (last.outcome, last.trigger) == ("completed", "append_failed")
    assert moves(last) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}
    assert movement(last, "orders-1").pause_estimate_ms == pytest.approx(11_118 - 4_990, abs=10)


def test_where_more_generations_are_missing_than_members_came_none_of_these_began_the_next_one() -> None:
    story = a_group().generation(2, {"c1": "0"}, at_ms=1_000)
    few = a_group().generation(2, {"c1": "0"}, at_ms=1_000).generation(4, {"c1": "", "c2": "0"}, at_ms=9_000)
    many = story.generation(9, {"c1": "", "c2": "0"}, at_ms=9_000)
    assert rebalances(few)[-1].trigger == "member_joined"
    last = rebalances(many)[-1]
    assert (last.trigger, [t.trigger for t in last.triggers]) == ("unknown", ["unknown", "member_joined"])


def test_a_number_that_nothing_shows_is_missing() -> None:
    story = a_group().generation(4, {"c1": "0"}, at_ms=1_000).generation(7, {"c1": "0"}, at_ms=9_000)
    assert [(n, o) for n, _, o, _ in generations_of(story)] == [
        (4, "completed"), (5, "missing"), (6, "missing"), (7, "completed"),
    ]  # fmt: skip
    assert rebalances(story)[-1].is_complete_evidence is False


def test_a_gap_of_millions_is_one_row() -> None:
    story = a_group().generation(1, {"c1": "0"}, at_ms=1_000).generation(311_127_279, {"c1": "0"}, at_ms=9_000)
    rows = rebalances(story)
    assert [r.outcome for r in rows] == ["completed", "missing", "completed"]
    assert rows[1].trigger_detail == "generations 2 to 311127278"


def test_a_deleted_group_that_comes_back_uses_its_numbers_a_second_time() -> None:
    story = (
        a_group()
        .generation(1, {"c1": "0"}, at_ms=1_000)
        .deleted(at_ms=2_000)
        .created(at_ms=3_000)
        .generation(1, {"c2": "0"}, at_ms=3_100)
    )
    first, second = rebalances(story)
    assert first.rebalance_id != second.rebalance_id
    assert moves(second) == {"orders-0": ("assigned", None, "c2")}


def test_a_join_phase_that_another_broker_begins_anew_came_from_the_failover() -> None:
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=1_000)
    story.preparing(1, "removing member c9 on LeaveGroup", at_ms=5_000)
    story.preparing(1, "Leader c1 re-joining group during Stable", at_ms=9_000)
    story.lines[-1] = replace(story.lines[-1], coordinator_broker_id=2)
    story.generation(2, {"c1": "0 1"}, at_ms=9_500)
    assert generations_of(story)[1:] == [
        (2, "rebalance", "failed", "member_left"),
        (2, "rebalance", "completed", "coordinator_failover"),
    ]
    assert rebalances(story)[2].trigger_detail == ("broker 1 had begun to prepare it when broker 2 took the group over")


def test_a_join_phase_that_the_same_broker_begins_anew_is_no_failover() -> None:
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=1_000)
    story.preparing(1, "removing member c9 on LeaveGroup", at_ms=5_000)
    story.preparing(1, "removing member c8 on LeaveGroup", at_ms=9_000)
    story.generation(2, {"c1": "0 1"}, at_ms=9_500)
    assert [trigger for *_, trigger in generations_of(story)][1:] == ["member_left", "member_left"]


@pytest.mark.parametrize(("generation", "kind"), [(encoders.int32(1), "returned"), (None, "returned"), (b"", None)])
def test_a_java_member_that_still_offers_an_eager_assignor_gives_all_up(
    generation: bytes | None, kind: str | None
) -> None:
    """As seen on 3.7.2, midway through the two rounds from range to cooperative-sticky: c2 owns nothing as it re-joins.
    librdkafka, whose user data is empty, may not say what it owns."""

    def subscribed(**owned: list[int]) -> dict[str, bytes]:
        return {
            c: encoders.consumer_subscription((TOPIC,), owned={TOPIC: o} if o else (), user_data=generation)
            for c, o in owned.items()
        }

    story = a_group().generation(
        1, {"c1": "0", "c2": "1"}, at_ms=1_000, assignor="cooperative-sticky", subscriptions=subscribed(c1=[0], c2=[])
    )
    story.commit(0, at_ms=7_000).commit(1, at_ms=7_990)
    story.generation(
        2, {"c1": "0", "c2": "1", "c3": ""}, at_ms=8_000, assignor="cooperative-sticky",
        subscriptions=subscribed(c1=[0], c2=[], c3=[]),
    )  # fmt: skip
    _, second = rebalances(story)
    assert second.mode == "cooperative"
    assert moves(second) == ({} if kind is None else {"orders-1": (kind, "c2", "c2")})


def test_a_static_restart_that_only_a_line_shows_is_a_rewrite_and_the_next_generation_knows_the_member() -> None:
    """Kafka 2.3 and 2.4 write no record of it; the offsets topic learns the new member id with the next generation."""
    story = a_group("orders").stabilized(1, at_ms=990).received(1, at_ms=1_000)
    story.generation(1, {"c1": "0 1", "c2": "2 3"}, at_ms=1_000, instances={"c1": "inst-1", "c2": "inst-2"})
    story.commit(0, at_ms=4_000).commit(2, at_ms=4_000)
    story.says(
        LogKind.STATIC_MEMBER_REPLACED, at_ms=7_000, member_id=member_id("c1"), new_member_id="c1-new",
        group_instance_id="inst-1",
    )  # fmt: skip
    story.lines[-1] = replace(story.lines[-1], group_id=None)  # it names none
    story.commit(0, at_ms=7_600)
    story.says(LogKind.PREPARING, at_ms=20_000, generation_id=1, reason="Adding new member c3-x", client_reason=None)
    story.generation(
        2, {"c1": "0", "c2": "2 3", "c3": "1"}, at_ms=20_100, instances={"c1": "inst-1", "c2": "inst-2"},
        member_ids={"c1": "c1-new"},
    )  # fmt: skip
    first, back, second = rebalances(story)
    assert (back.kind, back.generation_id, back.rewrite_seq, back.trigger_tier) == ("static_rewrite", 1, 1, "logged")
    assert [(t.trigger, t.tier, t.members) for t in back.triggers] == [
        ("static_member_replaced", "logged", ("c1-new",))
    ]
    assert {m.member_id: m.change for m in back.members} == {"c1-new": "replaced", member_id("c2"): "stayed"}
    assert {m.resource: m.kind for m in back.movements} == {"orders-0": "returned", "orders-1": "returned"}
    assert {m.pause_upper_ms for m in back.movements} == {None}  # no commit is cut at it
    assert {m.member_id: m.change for m in second.members} == {
        "c1-new": "stayed", member_id("c2"): "stayed", member_id("c3"): "joined",
    }  # fmt: skip
    assert "static_member_replaced" not in {t.trigger for t in second.triggers}
    assert first.kind == "rebalance"


def test_the_time_without_a_commit_around_the_line_is_how_long_it_stood_still() -> None:
    """It closes at 4 s, where it commits, is back at 7 s, and commits next on its timer."""
    story = a_group("orders").stabilized(1, at_ms=990).received(1, at_ms=1_000)
    story.generation(1, {"c1": "0"}, at_ms=1_000, instances={"c1": "inst-1"})
    for at_ms in (3_000, 4_000, 12_000):
        story.commit(0, at_ms=at_ms)
    story.marks = [reduce(joined, story.marks)]
    story.says(
        LogKind.STATIC_MEMBER_REPLACED, at_ms=7_000, member_id=member_id("c1"), new_member_id="c1-new",
        group_instance_id="inst-1",
    )  # fmt: skip
    story.lines[-1] = replace(story.lines[-1], group_id=None)
    [movement] = rebalances(story)[1].movements
    assert (movement.stopped_at_lower_ms, movement.stopped_at_upper_ms) == (4_000 - 50, 7_000 + 10)
    assert (movement.resumed_at_lower_ms, movement.resumed_at_upper_ms) == (7_000 - 10, 12_000 + 10)
    assert movement.pause_estimate_ms == 7_000 + 8 - 4_000


def test_another_assignor_for_a_returning_static_member_is_a_rebalance_and_records_alone_say_so() -> None:
    story = a_group().generation(1, {"s": "0 1"}, at_ms=1_000, instances={"s": "one"})
    again = {"s": member_id("s")[:-1] + "9"}
    story.generation(2, {"s": "0 1"}, at_ms=9_000, instances={"s": "one"}, member_ids=again, assignor="roundrobin")
    assert generations_of(story)[1] == (2, "rebalance", "completed", "assignor_changed")


def test_a_new_member_is_no_change_of_another_ones_subscription() -> None:
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=1_000)
    reason = f"Updating metadata for member {member_id('c1')} during Stable"
    story.preparing(1, reason, at_ms=5_000, client_reason="rebalance failed due to NotCoordinatorException")
    story.generation(2, {"c1": "0", "c2": "1"}, at_ms=5_500)
    causes = rebalances(story)[1].triggers
    assert [(t.trigger, t.members) for t in causes] == [
        ("coordinator_failover", (member_id("c1"),)), ("member_joined", (member_id("c2"),)),
    ]  # fmt: skip


def test_before_the_first_record_nobody_knows_who_held_what() -> None:
    (only,) = rebalances(a_group().generation(17, {"c1": "0 1"}, at_ms=1_000))
    assert (only.trigger, only.movements, only.resource_count) == ("unknown", (), 2)


class TestOrderDoesNotMatter:
    """Any arrival order of the same evidence gives the same rows."""

    @pytest.mark.parametrize("seed", range(20))
    def test_shuffled(self, seed: int) -> None:
        evidence = long_story().evidence()
        shuffler = random.Random(seed)

        def shuffled(things: tuple) -> tuple:  # type: ignore[type-arg]
            return tuple(shuffler.sample(things, len(things)))

        mixed = replace(
            evidence,
            records=shuffled(evidence.records),
            marks=shuffled(evidence.marks),
            lines=shuffled(evidence.lines),
        )
        assert reconstruct(mixed) == reconstruct(evidence)

    def test_later_logs_do_not_rename_rows(self) -> None:
        with_lines = long_story().evidence()
        without = replace(with_lines, lines=())
        ids = {r.generation_id: r.rebalance_id for r in reconstruct(with_lines).rebalances}
        for rebalance in reconstruct(without).rebalances:
            assert ids[rebalance.generation_id] == rebalance.rebalance_id

    def test_an_empty_history_is_no_rebalance(self) -> None:
        assert reconstruct(GroupEvidence(cluster_id="c", group_id="g")).rebalances == ()


def long_story() -> Story:
    story = a_group().created(at_ms=900)
    clients = ["c1", "c2", "c3"]
    for number in range(1, 12):
        at_ms = number * 10_000
        present = clients[: 1 + number % 3]
        reason = f"Adding new member {member_id(present[-1])} with group instance id null"
        story.preparing(number - 1, reason, at_ms=at_ms - 900)
        story.stabilized(number, at_ms=at_ms - 10, member_count=len(present))
        if number % 4 == 3:
            continue  # the leader never synced
        story.received(number, at_ms=at_ms)
        story.generation(number, {c: str(i) for i, c in enumerate(present)}, at_ms=at_ms, joined_at_ms=at_ms - 10)
        for partition in range(len(present)):
            story.commit(partition, at_ms=at_ms + 5_000)
    return story


def test_the_next_ones_line_says_that_a_record_was_refused_where_its_own_lines_are_lost() -> None:
    story = (
        a_group()
        .generation(2, {"c1": "0 1"}, at_ms=1_000)
        .commit(0, at_ms=4_990)
        .generation(3, {"c1": "0", "c2": "1"}, at_ms=6_010, joined_at_ms=6_000)
        .preparing(3, UNWRITTEN, at_ms=11_011)
        .generation(4, {"c1": "0", "c2": "1"}, at_ms=11_110, joined_at_ms=11_100)
    )
    assert [(n, o) for n, _, o, _ in generations_of(story)] == [(2, "completed"), (3, "failed"), (4, "completed")]
    assert moves(rebalances(story)[-1]) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}


BARE = encoders.consumer_subscription((TOPIC,), version=3, user_data=None)


def refused_again_and_again(
    times: int, *, every_ms: int = 5_110, subscription: bytes = BARE, commits: bool = False
) -> Story:
    """c2 comes, and the records of `times` generations cannot be copied in time, as on 4.3.0; without lines."""
    told = {"c1": subscription, "c2": subscription}
    story = a_group().generation(2, {"c1": "0 1"}, at_ms=1_000, subscriptions=told)
    for turn in range(times + 1):
        joined_at_ms = 6_000 + turn * every_ms
        both = {"c1": "0", "c2": "1"}
        story.generation(3 + turn, both, at_ms=joined_at_ms + 10, joined_at_ms=joined_at_ms, subscriptions=told)
        if commits:
            story.commit(0, at_ms=joined_at_ms + 4_000)
    return story


@pytest.mark.parametrize("times", [2, 4])
def test_records_that_were_refused_one_after_the_other_were_delivered_to_nobody_by_records_alone(times: int) -> None:
    found = generations_of(refused_again_and_again(times))
    assert found == [
        (2, "rebalance", "completed", "unknown"),
        (3, "rebalance", "failed", "member_joined"),
        *((4 + turn, "rebalance", "failed", "append_failed") for turn in range(times - 1)),
        (3 + times, "rebalance", "completed", "append_failed"),
    ]
    *failed, last = rebalances(refused_again_and_again(times))[1:]
    assert all((r.assigned_at_ms, r.movements) == (None, ()) for r in failed)
    assert moves(last) == {"orders-0": ("returned", "c1", "c1"), "orders-1": ("moved", "c1", "c2")}
    # They had let go for the first one of these, and began 8 ms after the record.
    assert {m.pause_estimate_ms for m in last.movements} == {times * 5_110 + 18}


@pytest.mark.parametrize(
    "story",
    [
        refused_again_and_again(1),
        refused_again_and_again(3, every_ms=4_900),
        refused_again_and_again(3, every_ms=6_020),
        refused_again_and_again(3, commits=True),
        refused_again_and_again(3, subscription=encoders.consumer_subscription((TOPIC,), version=2, user_data=None)),
    ],
    ids=["once", "sooner", "later", "they commit", "maybe a handler of sarama's"],
)
def test_members_that_join_again_by_themselves_were_given_what_records_say(story: Story) -> None:
    assert {outcome for _, _, outcome, _ in generations_of(story)} == {"completed"}
