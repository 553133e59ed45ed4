"""Classic groups with less than everything: no records, lines that cannot be true, names that tear lines apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure.marks import best_estimate
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import GroupEvidence, LogKind, Movement
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

S1, S2 = "one-00000000-0000-0000-0000-000000000001", "one-00000000-0000-0000-0000-000000000002"


def lines_alone(story: Story) -> GroupEvidence:
    return replace(story.evidence(), records=(), marks=())


def generations_of(evidence: GroupEvidence) -> list[tuple[int | None, str, str]]:
    return [(r.generation_id, r.kind, r.trigger) for r in reconstruct(evidence).rebalances]


def a_static_return() -> Story:
    story = a_group().preparing(0, f"Adding new member {S1} with group instance id one", at_ms=100)
    story.stabilized(1, at_ms=110).received(1, at_ms=120)
    story.generation(1, {"s": "0 1"}, at_ms=121, instances={"s": "one"}, member_ids={"s": S1})
    story.commit(0, at_ms=8_000)
    story.says(
        LogKind.STATIC_MEMBER_REPLACED, at_ms=10_000, member_id=S1, group_instance_id="one", group_state="Stable"
    )
    return story.generation(1, {"s": "0 1"}, at_ms=10_002, instances={"s": "one"}, member_ids={"s": S2})


def the_return(story: Story) -> Movement:
    (_, rewrite) = reconstruct(story.evidence()).rebalances
    return next(m for m in measure(rewrite).movements if m.resource == "orders-0")


def test_a_static_return_is_shown_by_lines_alone() -> None:
    assert generations_of(lines_alone(a_static_return())) == [
        (1, "rebalance", "member_joined"),
        (1, "static_rewrite", "static_member_replaced"),
    ]


def test_a_static_return_has_stopped_before_it_came_back() -> None:
    movement = the_return(a_static_return())
    assert movement.pause_lower_ms == 0
    assert movement.stopped_at_upper_ms == 10_012


def test_without_lines_the_old_process_may_have_lived_until_its_next_heartbeat() -> None:
    story = a_static_return()
    story.lines.clear()
    movement = the_return(story)
    assert movement.stopped_at_upper_ms == 13_012
    assert movement.pause_lower_ms == -3_010


def test_a_fenced_twin_worked_on_beside_its_successor() -> None:
    story = a_static_return().says(
        LogKind.MEMBER_FENCED, at_ms=12_500, member_id=S1, group_instance_id="one", expected_member_id=S2
    )
    movement = the_return(story)
    assert movement.stopped_at_lower_ms == 12_490
    assert movement.overlap_ms == 12_500 - (10_002 + 8)
    assert movement.pause_lower_ms is None


def test_an_expired_static_member_is_known_by_lines_alone() -> None:
    story = a_static_return().says(LogKind.MEMBER_FAILED, at_ms=30_000, member_id=S2)
    story.preparing(1, f"removing member {S2} on heartbeat expiration.", at_ms=30_000)
    story.stabilized(2, at_ms=31_000)
    assert generations_of(lines_alone(story))[-1] == (2, "rebalance", "static_member_expired")


@pytest.mark.parametrize(
    ("named", "cause"), [("Some(one)", "static_member_expired"), ("None", "member_session_expired")]
)
def test_up_to_2_4_only_the_first_join_shows_that_a_member_is_static(named: str, cause: str) -> None:
    story = a_group().preparing(0, f"Adding new member {S1} with group instanceid {named}", at_ms=100)
    story.stabilized(1, at_ms=110).received(1, at_ms=120).says(LogKind.MEMBER_FAILED, at_ms=30_000, member_id=S1)
    story.preparing(1, f"removing member {S1} on heartbeat expiration", at_ms=30_000).stabilized(2, at_ms=31_000)
    assert generations_of(lines_alone(story))[-1] == (2, "rebalance", cause)


def test_a_rejoin_without_a_reason_is_no_cause() -> None:
    story = a_group().preparing(4, f"Leader {member_id('c1')} re-joining group during Stable", at_ms=100)
    story.stabilized(5, at_ms=110)
    assert generations_of(lines_alone(story)) == [(5, "rebalance", "unknown")]


def test_new_partitions_show_in_the_assignment() -> None:
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=100).generation(2, {"c1": "0 1 2"}, at_ms=900)
    assert generations_of(story.evidence())[-1] == (2, "rebalance", "topic_metadata_changed")


def test_a_generation_that_goes_back_without_a_deletion_is_a_contradiction() -> None:
    story = a_group().generation(5, {"c1": "0"}, at_ms=100).generation(3, {"c1": "0"}, at_ms=900)
    (contradiction,) = reconstruct(story.evidence()).contradictions
    assert contradiction.detail == "generation 3 stands after 5, and nothing deleted the group"


@pytest.mark.parametrize("second", [{"c9": "0", "c2": "1"}, {"c1": "1", "c2": "0"}], ids=["members", "assignments"])
def test_two_records_of_one_generation_that_differ_are_a_contradiction(second: dict[str, str]) -> None:
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=100).generation(1, second, at_ms=900)
    found = reconstruct(story.generation(2, {"c1": "0", "c2": "1"}, at_ms=1_900).evidence())
    (contradiction,) = found.contradictions
    assert contradiction.detail == "generation 1 was written twice, not for a returning static member"
    assert contradiction.evidence == ("record:__consumer_offsets-7@0", "record:__consumer_offsets-7@1")
    # Both are shown, neither as the return of a static member, and the group counts on.
    assert [(r.generation_id, r.kind, r.outcome) for r in found.rebalances] == [
        (1, "rebalance", "completed"), (1, "rebalance", "completed"), (2, "rebalance", "completed"),
    ]  # fmt: skip
    assert len({r.rebalance_id for r in found.rebalances}) == 3


def test_a_line_that_records_had_left_behind_is_a_contradiction() -> None:
    story = a_group().generation(1, {"c1": "0"}, at_ms=100).generation(2, {"c1": "0"}, at_ms=9_000)
    story.preparing(0, "removing member x on heartbeat expiration.", at_ms=20_000_000)
    (contradiction,) = reconstruct(story.evidence()).contradictions
    assert contradiction.detail == "it names generation 1, which the records had left behind then"
    assert contradiction.evidence == (story.lines[0].ref,)


def test_a_name_with_line_breaks_that_no_record_knows_makes_no_row() -> None:
    story = a_group("victim-app in state Stable\nx").preparing(0, "removing member x on heartbeat expiration.", at_ms=1)
    story.stabilized(1, at_ms=5)
    found = reconstruct(lines_alone(story))
    assert found.rebalances == ()
    assert len(found.contradictions) == 2


def test_a_name_with_line_breaks_is_reconstructed_from_its_records() -> None:
    story = a_group("evil\ngroup").generation(1, {"c1": "0"}, at_ms=100)
    assert generations_of(story.evidence()) == [(1, "rebalance", "member_joined")]


def a_reasonless_leave(*, silent: bool) -> Story:
    """c2 leaves without a word at 40 s, as a client before 3.2 does; max.poll.interval.ms is 8 s."""
    story = a_group(rebalance_timeout_ms=8_000).generation(1, {"c1": "0", "c2": "1"}, at_ms=10_000)
    for at_ms in range(15_000, 40_000, 5_000):
        story.commit(0, at_ms=at_ms)
        if at_ms <= (25_000 if silent else 35_000):
            story.commit(1, at_ms=at_ms)
    story.says(LogKind.MEMBER_LEFT, at_ms=40_000, member_id=member_id("c2"))
    story.preparing(1, f"removing member {member_id('c2')} on LeaveGroup", at_ms=40_000)
    return story.stabilized(2, at_ms=40_100).generation(2, {"c1": "0 1"}, at_ms=40_110, joined_at_ms=40_100)


def test_a_leave_without_a_reason_after_a_long_silence_is_a_poll_timeout() -> None:
    assert generations_of(a_reasonless_leave(silent=True).evidence())[-1] == (2, "rebalance", "member_poll_timeout")


def test_a_leave_without_a_reason_of_a_member_that_seldom_commits_is_a_leave() -> None:
    story = a_reasonless_leave(silent=True)
    # Two commits 10 s apart and 13 s of silence, where max.poll.interval.ms is 8 s.
    story.marks = [m for m in story.marks if m.partition == 0 or m.first_at_ms in (15_000, 25_000)]
    assert generations_of(story.evidence())[-1] == (2, "rebalance", "member_left")


def test_a_leave_without_a_reason_of_a_member_that_worked_is_a_leave() -> None:
    assert generations_of(a_reasonless_leave(silent=False).evidence())[-1] == (2, "rebalance", "member_left")


def test_a_leave_without_a_reason_and_without_commits_is_open_if_the_client_comes_back() -> None:
    story = a_reasonless_leave(silent=True)
    assert generations_of(lines_alone(story))[-1] == (2, "rebalance", "member_left")
    again = member_id("c2")[:-1] + "9"
    story.preparing(2, f"Adding new member {again} with group instance id None", at_ms=50_000)
    assert generations_of(lines_alone(story))[0] == (2, "rebalance", "unknown")


KAFKA_PYTHON = encoders.consumer_subscription((TOPIC,), version=1, user_data=b"")
"""Or librdkafka: neither lets go because its coordinator is away."""
JAVA_OR_FRANZ_GO = encoders.consumer_subscription((TOPIC,), version=3, user_data=None)


def taken_over(*, is_loaded: bool, has_log_before: bool = False, subscription: bytes = KAFKA_PYTHON) -> Story:
    """Members re-join at 20 s; the coordinator that writes of it may have taken the group over just then."""
    subscriptions = dict.fromkeys(("c1", "c2"), subscription)
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=1_000, subscriptions=subscriptions)
    if has_log_before:
        story.received(1, at_ms=999)
    story.commit(0, at_ms=4_000)
    if is_loaded:
        story.says(LogKind.GROUP_LOADED, at_ms=19_900)
    reason = f"Updating metadata for member {member_id('c3')} during Stable"
    story.preparing(1, reason, at_ms=20_000, client_reason="rebalance failed due to DisconnectException")
    story.stabilized(2, at_ms=25_000)
    both = {"c1": "0", "c2": "1"}
    return story.generation(2, both, at_ms=25_010, joined_at_ms=25_000, subscriptions=subscriptions)


def test_without_the_log_of_the_coordinator_before_members_may_have_stopped_for_a_rebalance_of_its_own() -> None:
    for story, lower_ms in (
        (taken_over(is_loaded=True), 4_000 - 50),
        (taken_over(is_loaded=True, has_log_before=True), 20_000 - 10),
        (taken_over(is_loaded=False), 20_000 - 10),
    ):
        last = measure(reconstruct(story.evidence()).rebalances[-1])
        assert {m.stopped_at_lower_ms for m in last.movements} == {lower_ms}


def test_who_may_be_franz_go_may_have_let_go_without_its_coordinator_and_is_taken_for_java() -> None:
    """franz-go gives up where its coordinator is away (docs/clients.md#losing-the-coordinator)."""
    story = taken_over(is_loaded=True, has_log_before=True, subscription=JAVA_OR_FRANZ_GO)
    for movement in measure(reconstruct(story.evidence()).rebalances[-1]).movements:
        best = best_estimate(movement.stop_marks)
        assert best is not None
        assert (movement.stopped_at_lower_ms, best.at_ms, best.basis) == (4_000 - 50, 25_000, Basis.JOIN_PHASE)


def test_a_rejoin_that_had_failed_at_a_coordinator_that_has_just_taken_over_came_from_the_failover() -> None:
    assert generations_of(taken_over(is_loaded=True).evidence())[-1] == (2, "rebalance", "coordinator_failover")
    assert generations_of(taken_over(is_loaded=False).evidence())[-1] != (2, "rebalance", "coordinator_failover")


@pytest.mark.parametrize(
    ("name", "count"), [("tab\there", 1), ("a 'b' \"c\" 🚚", 1), ("torn\nhere", 0), ("torn\rhere", 0)]
)
def test_a_tab_tears_no_line_apart_and_a_line_break_does(name: str, count: int) -> None:
    story = a_group(name).stabilized(1, at_ms=990).received(1, at_ms=1_000)
    assert len(reconstruct(lines_alone(story)).rebalances) == count
