"""Cooperative rounds that follow one another faster than a member can do what the first one asks."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

STICKY = "cooperative-sticky"
LIBRDKAFKA = encoders.consumer_subscription((TOPIC,), version=3, user_data=b"")


def rebalances_of(story: Story) -> list[Rebalance]:
    return [measure(row) for row in reconstruct(story.evidence()).rebalances]


def moves(rebalance: Rebalance) -> dict[str, tuple[str, str | None, str | None]]:
    return {m.resource: (m.kind, m.from_client_id, m.to_client_id) for m in rebalance.movements}


def two_and_a_third(then: dict[str, str], owned: dict[str, str]) -> Story:
    """Generation 2 takes a partition from c1 and one from c2 for c3; generation 3 comes 12 ms later."""
    story = a_group().generation(1, {"c1": "0 1 2", "c2": "3 4 5"}, at_ms=1_000, assignor=STICKY)
    before = {"c1": "0 1 2", "c2": "3 4 5"}
    story.generation(2, {"c1": "0 1", "c2": "3 4", "c3": ""}, at_ms=20_000, assignor=STICKY, owned=before)
    return story.generation(3, then, at_ms=20_012, assignor=STICKY, owned=owned)


def test_what_a_member_still_owns_as_it_joins_again_it_never_let_go() -> None:
    """Seen with franz-go (3.9.1): the leader re-joined 2 ms after the assignment, and c2 never had that one."""
    then = {"c1": "0 1", "c2": "3 4 5", "c3": "2"}
    third = rebalances_of(two_and_a_third(then, {"c1": "0 1", "c2": "3 4 5"}))[-1]
    assert moves(third) == {"orders-2": ("moved", "c1", "c3")}
    assert third.kept_count == 5


def test_what_it_gave_up_and_is_given_again_came_back() -> None:
    then = {"c1": "0 1", "c2": "3 4 5", "c3": "2"}
    third = rebalances_of(two_and_a_third(then, {"c1": "0 1", "c2": "3 4"}))[-1]
    assert moves(third)["orders-5"] == ("returned", "c2", "c2")


@pytest.mark.parametrize(("owned", "upper_ms"), [("3 4 5", 23_000), ("3 4", 20_012)])
def test_it_lets_go_after_the_last_generation_that_it_joined_with_the_partition(owned: str, upper_ms: int) -> None:
    """c2 joins generation 3 with the partition, which is taken from it once more; generation 4 gives it to c3."""
    story = two_and_a_third({"c1": "0 1", "c2": "3 4", "c3": "2"}, {"c1": "0 1", "c2": owned})
    last = {"c1": "0 1", "c2": "3 4", "c3": "2"}
    story.generation(4, {"c1": "0 1", "c2": "3 4", "c3": "2 5"}, at_ms=23_000, assignor=STICKY, owned=last)
    (moved,) = [m for m in rebalances_of(story)[-1].movements if m.resource == "orders-5"]
    assert moved.stopped_at_lower_ms is not None
    assert moved.stopped_at_upper_ms is not None
    assert moved.stopped_at_lower_ms <= upper_ms - 10 or owned == "3 4 5"
    assert (moved.stopped_at_lower_ms > 20_000) is (owned == "3 4 5")
    assert abs(moved.stopped_at_upper_ms - upper_ms) < 100


def test_who_gave_something_up_joined_again_before_another_was_gone() -> None:
    """Seen with librdkafka (3.3.2) and sarama (3.9.1): c2 was dead or busy, and is missing when the round ends."""
    story = a_group(rebalance_timeout_ms=60_000)
    story.generation(1, {"c1": "0 1 2", "c2": "3 4 5"}, at_ms=1_000, assignor=STICKY)
    for at_ms in range(2_000, 20_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(3, at_ms=at_ms)
    before = {"c1": "0 1 2", "c2": "3 4 5"}
    story.generation(2, {"c1": "0 1", "c2": "3 4", "c3": ""}, at_ms=20_000, assignor=STICKY, owned=before)
    story.generation(3, {"c1": "0 1 4", "c3": "2 3 5"}, at_ms=30_000, assignor=STICKY, owned={"c1": "0 1"})
    assert rebalances_of(story)[-1].trigger == "cooperative_follow_up"


def test_a_leader_that_had_to_let_go_joined_again_for_that_though_no_record_follows() -> None:
    """librdkafka sends no reason; the leader is killed as it has joined again, and its generation is never written."""
    story = a_group().preparing(0, f"Adding new member {member_id('c1')}", at_ms=900).stabilized(1, at_ms=950)
    story.received(1, at_ms=960).generation(1, {"c1": "0 1", "c2": "2"}, at_ms=1_000, assignor=STICKY)
    story.preparing(1, f"Adding new member {member_id('c3')}", at_ms=19_000).stabilized(2, at_ms=19_950)
    before = {"c1": "0 1", "c2": "2"}
    story.received(2, at_ms=19_990)
    story.generation(2, {"c1": "0", "c2": "2", "c3": ""}, at_ms=20_000, assignor=STICKY, owned=before)
    story.preparing(2, f"Leader {member_id('c1')} re-joining group during Stable", at_ms=20_010)
    story.stabilized(3, at_ms=22_000, member_count=3)
    story.says(LogKind.MEMBER_FAILED, at_ms=32_000, member_id=member_id("c1"))
    story.preparing(3, f"removing member {member_id('c1')} on heartbeat expiration", at_ms=32_001)
    story.stabilized(4, at_ms=33_000, member_count=2).received(4, at_ms=33_005)
    story.generation(4, {"c2": "2 0", "c3": "1"}, at_ms=33_010, assignor=STICKY, owned={"c2": "2"})
    *_, superseded, last = rebalances_of(story)
    assert (superseded.outcome, superseded.trigger) == ("superseded", "cooperative_follow_up")
    assert last.trigger == "member_session_expired"


@pytest.mark.parametrize("has_lines", [True, False])
def test_who_gave_something_up_joins_again_though_another_was_given_it_at_once(*, has_lines: bool) -> None:
    """Seen with Java 2.8.2 at a broker of 2.4.1, which says no more than that c2's metadata changed. The leader gave
    partition 5 to c3 in the generation in which c2, that owned it, let it go."""
    story = a_group().generation(1, {"c1": "0 1 2", "c2": "3 4 5"}, at_ms=1_000, assignor=STICKY)
    before = {"c1": "0 1 2", "c2": "3 4 5"}
    story.generation(2, {"c1": "0 1 2", "c2": "3 4", "c3": "5"}, at_ms=20_000, assignor=STICKY, owned=before)
    if has_lines:
        story.received(2, at_ms=19_990)
        story.preparing(2, f"Updating metadata for member {member_id('c2')}", at_ms=20_020)
        story.stabilized(3, at_ms=22_990).received(3, at_ms=22_995)
    then = {"c1": "0 1 2", "c2": "3 4", "c3": "5"}
    story.generation(3, then, at_ms=23_000, assignor=STICKY, owned=then)
    last = rebalances_of(story)[-1]
    assert (last.trigger, last.expected) == ("cooperative_follow_up", True)


@pytest.mark.parametrize(("comes_back", "cause"), [(True, "unknown"), (False, "member_left")])
def test_a_cooperative_member_may_have_been_stuck_since_before_it_joined_again(*, comes_back: bool, cause: str) -> None:
    """librdkafka joins again without its application: c2 is put out for not polling three seconds later (3.3.2)."""
    story = a_group(rebalance_timeout_ms=8_000)
    story.generation(1, {"c1": "0 1 2", "c2": "3 4 5"}, at_ms=1_000, assignor=STICKY)
    for at_ms in range(2_000, 20_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(3, at_ms=at_ms)
    before = {"c1": "0 1 2", "c2": "3 4 5"}
    story.generation(2, {"c1": "0 1 2", "c2": "3 4 5", "c3": ""}, at_ms=20_000, assignor=STICKY, owned=before)
    story.generation(3, {"c1": "0 1 2", "c3": "3 4 5"}, at_ms=23_000, assignor=STICKY, owned={"c1": "0 1 2"})
    if comes_back:
        story.generation(
            4, {"c1": "0 1 2", "c3": "3 4 5", "c2": ""}, at_ms=31_000, assignor=STICKY, owned={"c1": "0 1 2"},
            member_ids={"c2": "c2-00000000-0000-0000-0000-000000000009"},
        )  # fmt: skip
    third = rebalances_of(story)[2]
    assert next(t.trigger for t in third.triggers if t.members) == cause


def test_a_commit_of_what_was_read_before_is_no_sign_that_it_polls() -> None:
    """librdkafka commits once more after its application has stopped to poll, within five seconds. So 7.5 s without
    one do not show that it polled within 8 s, and that its session of 7 s ended (3.3.2, eager; c3 waited for it)."""
    story = a_group(rebalance_timeout_ms=8_000, session_timeout_ms=7_000)
    story.generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, subscriptions=dict.fromkeys(("c1", "c2"), LIBRDKAFKA))
    for at_ms in range(5_000, 60_001, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.commit(0, at_ms=65_000)
    three = dict.fromkeys(("c1", "c3"), LIBRDKAFKA)
    story.generation(2, {"c1": "0", "c3": "1"}, at_ms=67_510, joined_at_ms=67_500, subscriptions=three)
    back = {"c2": "c2-00000000-0000-0000-0000-000000000009"}
    all_three = dict.fromkeys(("c1", "c2", "c3"), LIBRDKAFKA)
    story.generation(3, {"c1": "0", "c3": "1", "c2": ""}, at_ms=80_000, subscriptions=all_three, member_ids=back)
    second = rebalances_of(story)[1]
    assert second.trigger == "unknown"
    (moved,) = [m for m in second.movements if m.resource == "orders-1"]
    assert moved.stopped_at_upper_ms is None or moved.stopped_at_upper_ms > 79_000
