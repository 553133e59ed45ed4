"""Several things at the same moment: who was waited for, and what belongs to which join phase."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

KAFKAJS = encoders.consumer_subscription((TOPIC,), version=0, user_data=b"")


def rebalances_of(story: Story) -> list[Rebalance]:
    return [measure(row) for row in reconstruct(story.evidence()).rebalances]


def causes_of(rebalance: Rebalance) -> list[tuple[str, list[str]]]:
    return [(t.trigger, [m.partition("-")[0] for m in t.members]) for t in rebalance.triggers]


def left(story: Story, client: str, *, at_ms: int) -> Story:
    return story.says(LogKind.MEMBER_LEFT, at_ms=at_ms, member_id=member_id(client), client_reason=None)


def test_the_line_of_the_last_to_leave_stands_behind_the_end_that_it_caused() -> None:
    """Up to 3.9; seen in tests/golden/3.9.1/pods_at_once."""
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=100)
    story.preparing(1, f"Removing member {member_id('c1')} on LeaveGroup", at_ms=60_000)
    left(story, "c1", at_ms=60_001)
    story.says(LogKind.EMPTIED, at_ms=60_080, generation_id=2)
    left(story, "c2", at_ms=60_081)
    story.empty(2, at_ms=60_082)
    story.preparing(2, f"Adding new member {member_id('c3')}", at_ms=60_200)
    story.stabilized(3, at_ms=60_210).received(3, at_ms=60_215).generation(3, {"c3": "0 1"}, at_ms=60_216)
    _, emptied, third = rebalances_of(story)
    assert sorted(who for _, members in causes_of(emptied) for who in members) == ["c1", "c2"]
    assert causes_of(third) == [("member_joined", ["c3"])]


def test_the_line_of_a_leave_just_before_a_rebalance_began_it() -> None:
    """From 4.0 on the line of a LeaveGroup comes first, also where the group had been stable for a moment only."""
    story = a_group().generation(1, {"c1": "0"}, at_ms=100)
    story.preparing(1, f"Adding new member {member_id('c2')}", at_ms=60_000)
    story.stabilized(2, at_ms=60_100).received(2, at_ms=60_101).generation(2, {"c1": "0", "c2": "1"}, at_ms=60_102)
    left(story, "c2", at_ms=60_190)
    story.preparing(2, "explicit `LeaveGroup` request for () members", at_ms=60_191)
    story.stabilized(3, at_ms=60_300).received(3, at_ms=60_301).generation(3, {"c1": "0 1"}, at_ms=60_302)
    _, second, third = rebalances_of(story)
    assert causes_of(second) == [("member_joined", ["c2"])]
    assert causes_of(third) == [("member_left", ["c2"])]


def killed_as_another_joined(silence_ms: int) -> Story:
    """c2 committed again and again, then not for `silence_ms`, until the join phase ended without it. c1 gave up as c3
    joined, and committed nothing since."""
    ended_ms = 62_000
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=100)
    for at_ms in range(30_000, ended_ms - silence_ms, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.commit(1, at_ms=ended_ms - silence_ms)
    return story.generation(2, {"c1": "0", "c3": "1"}, at_ms=ended_ms + 10, joined_at_ms=ended_ms)


@pytest.mark.parametrize(
    ("silence_ms", "causes"),
    [
        (10_002, [("member_joined", ["c3"]), ("member_session_expired", ["c2"])]),
        (12_000, [("unknown", ["c2"]), ("member_joined", ["c3"])]),
    ],
)
def test_a_session_that_ran_out_as_the_join_phase_ended_had_been_waited_for(
    silence_ms: int, causes: list[tuple[str, list[str]]]
) -> None:
    """Counted from the last commit to the millisecond; seen 10,000 to 10,004 ms of 10,000."""
    _, second = rebalances_of(killed_as_another_joined(silence_ms))
    assert causes_of(second) == causes
    (moved,) = [m for m in second.movements if m.resource == "orders-1"]
    assert moved.pause_estimate_ms is not None
    assert (moved.pause_estimate_ms > 8_000) is (silence_ms == 10_002)


@pytest.mark.parametrize(
    ("silence_ms", "causes"),
    [
        (10_002, [("topic_metadata_changed", []), ("member_session_expired", ["c2"])]),
        (11_500, [("unknown", []), ("member_session_expired", ["c2"])]),
    ],
)
def test_who_found_new_partitions_began_what_waited_for_a_session(
    silence_ms: int, causes: list[tuple[str, list[str]]]
) -> None:
    """Seen with librdkafka, whose topic grew while a member was frozen (4.1.1): both ended in one moment."""
    ended_ms = 62_000
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=100)
    for at_ms in range(30_000, ended_ms - silence_ms, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.commit(1, at_ms=ended_ms - silence_ms).commit(0, at_ms=ended_ms - 800)
    story.generation(2, {"c1": "0 1 2"}, at_ms=ended_ms + 10, joined_at_ms=ended_ms)
    assert causes_of(rebalances_of(story)[-1]) == causes


@pytest.mark.parametrize(("silence_ms", "cause"), [(10_002, "unknown"), (11_500, "member_session_expired")])
def test_a_session_that_ended_with_the_join_phase_did_not_begin_it(silence_ms: int, cause: str) -> None:
    """kafka-go's leader joined again as a broker was away, and all waited for the dead member's session (4.0.0)."""
    ended_ms = 62_000
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=100)
    for at_ms in range(30_000, ended_ms - silence_ms, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.commit(1, at_ms=ended_ms - silence_ms).commit(0, at_ms=ended_ms - 800)
    story.generation(2, {"c1": "0 1"}, at_ms=ended_ms + 10, joined_at_ms=ended_ms)
    second = rebalances_of(story)[-1]
    assert second.trigger == cause
    assert ("member_session_expired", ["c2"]) in causes_of(second)


@pytest.mark.parametrize(
    ("first_position", "causes"),
    [
        (11, [("member_joined", ["c3"]), ("member_session_expired", ["c2"])]),
        (10, [("unknown", []), ("member_session_expired", ["c2"]), ("member_joined", ["c3"])]),
    ],
    ids=["messages came", "none came"],
)
def test_who_had_nothing_to_commit_may_not_have_let_go_early(
    first_position: int, causes: list[tuple[str, list[str]]]
) -> None:
    """c1 committed last five seconds before the join phase ended. Seen with kafkajs (3.3.2), whose other topic was
    deleted: the session had begun it, and c3 came afterwards."""
    story = a_group().generation(
        1, {"c1": "0", "c2": "1"}, at_ms=100, subscriptions=dict.fromkeys(("c1", "c2"), KAFKAJS)
    )
    for at_ms in range(30_000, 50_000, 1_000):
        story.commit(0, at_ms=at_ms, position=9).commit(1, at_ms=at_ms, position=at_ms)
    story.commit(0, at_ms=57_000, position=10)
    both = dict.fromkeys(("c1", "c3"), KAFKAJS)
    story.generation(2, {"c1": "0", "c3": "1"}, at_ms=62_010, joined_at_ms=62_000, subscriptions=both)
    story.commit(0, at_ms=63_000, position=first_position).commit(1, at_ms=63_000, position=70_000)
    assert causes_of(rebalances_of(story)[1]) == causes


def killed_before_its_coordinator() -> Story:
    story = a_group().preparing(0, f"Adding new member {member_id('c1')}", at_ms=50)
    story.stabilized(1, at_ms=90).received(1, at_ms=95).generation(1, {"c1": "0", "c2": "1"}, at_ms=100)
    for at_ms in range(5_000, 61_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    return story


@pytest.mark.parametrize("is_loaded", [True, False])
def test_a_session_that_a_new_coordinator_began_anew_is_no_sign_of_life(*, is_loaded: bool) -> None:
    """c2 committed last at 60 s. The group is loaded at 70 s, and c2 put out at 80 s."""
    story = killed_before_its_coordinator()
    if is_loaded:
        story.says(LogKind.GROUP_LOADED, at_ms=69_995)
    story.says(LogKind.MEMBER_FAILED, at_ms=80_000, member_id=member_id("c2"))
    story.preparing(1, f"removing member {member_id('c2')} on heartbeat expiration", at_ms=80_001)
    story.stabilized(2, at_ms=81_000).received(2, at_ms=81_005).generation(2, {"c1": "0 1"}, at_ms=81_010)
    _, second = rebalances_of(story)
    (moved,) = [m for m in second.movements if m.resource == "orders-1"]
    assert moved.stopped_at_lower_ms is not None
    assert moved.stopped_at_lower_ms < 60_000 if is_loaded else moved.stopped_at_lower_ms == 68_500


def test_a_static_members_return_is_no_sign_of_life_of_the_others() -> None:
    """Both die at 60 s; s1 is back at 65 s, and s2 expires (session 15 s)."""
    ids = {"s1": "one", "s2": "two"}
    story = a_group(session_timeout_ms=15_000)
    story.generation(1, {"s1": "0", "s2": "1"}, at_ms=100, instances=ids)
    for at_ms in range(5_000, 61_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    back = {"s1": "one-back"}
    story.generation(1, {"s1": "0", "s2": "1"}, at_ms=65_000, instances=ids, member_ids=back)
    story.generation(2, {"s1": "0 1"}, at_ms=77_010, joined_at_ms=77_000, instances=ids, member_ids=back)
    _, _, second = rebalances_of(story)
    (moved,) = [m for m in second.movements if m.resource == "orders-1"]
    assert moved.stopped_at_lower_ms is not None
    assert moved.stopped_at_lower_ms < 60_000


def two_gone(client: str, last_ms: int) -> Story:
    """c1 and c2 are gone at 72 s, when the session of c1 had ended. c2 committed at each interval, and at `last_ms`."""
    names = {"c2": client}
    story = a_group().generation(1, {"c0": "0", "c1": "1", "c2": "2"}, at_ms=100, client_ids=names)
    for at_ms in (45_000, 50_000, 55_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms).commit(2, at_ms=at_ms)
    story.commit(1, at_ms=60_000).commit(2, at_ms=last_ms).commit(0, at_ms=71_500)
    return story.generation(2, {"c0": "0 1 2"}, at_ms=72_010, joined_at_ms=72_000)


@pytest.mark.parametrize(
    ("client", "last_ms", "cause"),
    [
        ("c2", 60_000, "member_session_expired"),
        ("c2", 58_000, "unknown"),  # made as it left, it may be
        ("kgo", 60_000, "unknown"),  # franz-go may commit nothing as it leaves
    ],
)
def test_one_may_have_left_while_all_waited_for_another(client: str, last_ms: int, cause: str) -> None:
    """Seen with two franz-go members, of which one closed as the other was killed."""
    _, second = rebalances_of(two_gone(client, last_ms))
    of_second = next(t for t in second.triggers if t.members == (member_id("c2"),))
    assert of_second.trigger == cause


@pytest.mark.parametrize(
    ("comes", "cause"),
    [("c4", "unknown"), ("c3", "member_left")],
    ids=["another one", "the same under a new id"],
)
def test_records_alone_do_not_say_whether_who_left_or_who_came_began_it(comes: str, cause: str) -> None:
    """A new member joined, and 1.3 s later an old one left, in the same join phase (2.7.2, surge_deploy_of_others)."""
    story = a_group().generation(1, {"c1": "0", "c2": "1", "c3": "2"}, at_ms=100)
    for at_ms in range(30_000, 62_001, 2_000):
        for partition in range(3):
            story.commit(partition, at_ms=at_ms)
    ids = {comes: f"{comes}-00000000-0000-0000-0000-000000000009"}
    story.generation(2, {"c1": "0", "c2": "1", comes: "2"}, at_ms=62_300, member_ids=ids)
    assert rebalances_of(story)[-1].trigger == cause
