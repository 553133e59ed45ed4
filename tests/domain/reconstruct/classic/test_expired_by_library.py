"""Whether a member whose session expired worked on or stood still depends on its library."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.detect.wording import two_owners
from rebalance_audit.domain.model import LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from tests.domain.reconstruct.classic.libraries import (
    AGAIN,
    JAVA_3_7,
    KAFKA_GO,
    KAFKAJS,
    given_on,
    second,
    two,
)
from tests.domain.reconstruct.classic.stories import Story, a_group, member_id


def expired(subscription: bytes, assignor: str) -> Story:
    """c2 fails at 20 s after its session of 10 s, and asks to join again at 26 s."""
    story = two(a_group(), 1, 1_000, subscription, assignor=assignor).commit(1, at_ms=9_000)
    story.says(LogKind.MEMBER_FAILED, at_ms=20_000, member_id=member_id("c2"))
    story.preparing(1, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=20_001)
    alone = {"c1": subscription}
    story.generation(2, {"c1": "0 1"}, at_ms=21_000, assignor=assignor, subscriptions=alone)
    story.stabilized(2, at_ms=20_990).received(2, at_ms=20_999)
    story.says(LogKind.MEMBER_JOINED, at_ms=26_000, member_id=AGAIN)
    story.preparing(2, f"Adding new member {AGAIN} with group instance id null", at_ms=26_001)
    return two(story, 3, 27_000, subscription, assignor=assignor, member_ids={"c2": AGAIN})


def test_kafkajs_works_on_after_its_session_expired_until_it_is_back() -> None:
    found = second(expired(KAFKAJS, "RoundRobinAssigner"))
    assert found.trigger == "member_session_expired"
    pause = given_on(found)
    assert pause.stopped_at_upper_ms == 26_010
    assert pause.pause_estimate_ms is not None
    assert pause.pause_estimate_ms < 0
    assert pause.overlap_ms is not None


def test_whether_it_worked_on_or_was_frozen_until_it_is_back_no_record_says() -> None:
    """As seen on 3.7.2, where it was frozen: both lie in the likely range, and both are said."""
    pause = given_on(second(expired(KAFKAJS, "RoundRobinAssigner")))
    assert pause.pause_likely_lower_ms is not None
    assert pause.pause_likely_upper_ms is not None
    # Frozen after its last heartbeat at 10 s, or 9 s if the broker was late; or busy until 26 s. c1 begins at 21.008.
    assert pause.pause_likely_lower_ms <= 21_002 - 26_000
    assert 21_002 - 10_000 <= pause.pause_likely_upper_ms <= 21_002 - 9_000 + 100
    assert pause.overlap_ms == 26_000 - 21_002
    assert two_owners(4_992, 12_059) == "two owners at once for up to 5 s, or nobody for up to 12.1 s"
    assert two_owners(4_992, -4_800) == "two owners at once for 5 s"


def test_of_two_kafkajs_members_of_one_name_a_new_one_may_be_anybody() -> None:
    """As seen on 4.4.0: one was killed, and another of its name came in its place. Nobody knows that it worked on."""
    twin = "c2-00000000-0000-0000-0000-000000000009"
    story, both = a_group(), {"c1": "0", "c2": "1"}
    story.generation(
        1, both, at_ms=1_000, assignor="RoundRobinAssigner", subscriptions=dict.fromkeys(both, KAFKAJS),
        member_ids={"c1": member_id("c2"), "c2": twin}, client_ids={"c1": "c2"},
    ).commit(1, at_ms=9_000)  # fmt: skip
    story.says(LogKind.MEMBER_FAILED, at_ms=20_000, member_id=twin)
    story.preparing(1, f"removing member {twin} on heartbeat expiration.", at_ms=20_001)
    story.generation(
        2, {"c1": "0 1"}, at_ms=21_000, assignor="RoundRobinAssigner", subscriptions={"c1": KAFKAJS},
        member_ids={"c1": member_id("c2")}, client_ids={"c1": "c2"},
    )  # fmt: skip
    story.stabilized(2, at_ms=20_990).received(2, at_ms=20_999)
    story.says(LogKind.MEMBER_JOINED, at_ms=26_000, member_id=AGAIN)
    pause = given_on(second(story.preparing(2, f"Adding new member {AGAIN} with group instance id null", at_ms=26_001)))
    assert pause.stopped_at_upper_ms is None
    assert pause.pause_estimate_ms is not None
    assert pause.pause_estimate_ms > 9_000


def test_one_that_died_before_its_first_commit_stood_still_for_its_session() -> None:
    story = two(a_group(rebalance_timeout_ms=60_000), 1, 1_000, KAFKA_GO)
    for at_ms in range(2_000, 19_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story = two(story, 2, 20_000, KAFKA_GO)
    for at_ms in range(21_000, 32_001, 1_000):
        story.commit(0, at_ms=at_ms)
    story.generation(3, {"c1": "0 1"}, at_ms=32_500, subscriptions={"c1": KAFKA_GO})
    found = next(r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 3)
    assert found.trigger == "member_session_expired"
    estimate_ms = given_on(found).pause_estimate_ms
    assert estimate_ms is not None
    assert 9_500 < estimate_ms <= 12_508


def test_a_rebalance_timeout_shorter_than_the_session_puts_no_kafkajs_member_out() -> None:
    story = two(
        a_group(session_timeout_ms=25_000, rebalance_timeout_ms=10_000),
        1,
        1_000,
        KAFKAJS,
        assignor="RoundRobinAssigner",
    )
    for at_ms in range(2_000, 36_001, 1_000):
        story.commit(0, at_ms=at_ms)
        if at_ms <= 9_000:
            story.commit(1, at_ms=at_ms)
    alone = {"c1": KAFKAJS}
    story.generation(2, {"c1": "0 1"}, at_ms=36_500, assignor="RoundRobinAssigner", subscriptions=alone)
    assert second(story).trigger == "member_session_expired"


def test_java_sends_heartbeats_while_it_works_so_an_expired_one_stood_still() -> None:
    assert given_on(second(expired(JAVA_3_7, "range"))).stopped_at_upper_ms == 20_010


def dropped(session_timeout_ms: int) -> Story:
    """c3 joins at 10 s; c2 does not re-join for the rebalance timeout of 12 s, and is back at 40 s."""
    story = two(a_group(session_timeout_ms=session_timeout_ms, rebalance_timeout_ms=12_000), 1, 1_000, JAVA_3_7)
    story.commit(1, at_ms=9_500)
    story.preparing(1, f"Adding new member {member_id('c3')} with group instance id null", at_ms=10_000)
    story.says(LogKind.MEMBERS_NOT_REJOINED, at_ms=22_000, member_ids=(member_id("c2"),))
    story.stabilized(2, at_ms=22_001, member_count=2)
    given = {"c1": "0", "c3": "1"}
    story.generation(2, given, at_ms=22_005, subscriptions=dict.fromkeys(given, JAVA_3_7)).received(2, at_ms=22_004)
    story.says(LogKind.MEMBER_JOINED, at_ms=40_000, member_id=AGAIN)
    return story.preparing(2, f"Adding new member {AGAIN} with group instance id null", at_ms=40_001)


def test_one_that_outlived_its_session_while_the_others_waited_worked_on_until_it_was_back() -> None:
    pause = given_on(second(dropped(10_000)))
    assert pause.stopped_at_upper_ms == 40_010
    assert pause.overlap_ms is not None
    assert pause.overlap_ms > 17_000


def test_a_dropped_one_may_have_been_frozen_or_have_worked_on_until_it_was_back() -> None:
    pause = given_on(second(dropped(45_000)))
    assert (pause.stopped_at_lower_ms, pause.stopped_at_upper_ms) == (9_450, 40_010)


@pytest.mark.parametrize(
    ("last_commit_ms", "died_at_ms"),
    [(10_100, 10_600), (9_000, 11_500), (12_900, 12_950)],
    ids=["half way to its next commit", "it had committed no more for long", "half way to its next heartbeat"],
)
def test_a_killed_member_died_before_its_next_heartbeat_and_its_next_commit(
    last_commit_ms: int, died_at_ms: int
) -> None:
    """Expired at 20 s after a session of 10 s, so its last heartbeat was at 10 s; it committed every second."""
    story = two(a_group(), 1, 1_000, JAVA_3_7)
    for at_ms in range(last_commit_ms - 5_000, last_commit_ms + 1, 1_000):
        story.commit(1, at_ms=at_ms)
    story.says(LogKind.MEMBER_FAILED, at_ms=20_000, member_id=member_id("c2"))
    story.preparing(1, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=20_001)
    story.generation(2, {"c1": "0 1"}, at_ms=21_000, subscriptions={"c1": JAVA_3_7})
    story.stabilized(2, at_ms=20_990).received(2, at_ms=20_999)
    pause = given_on(second(story))
    assert pause.pause_estimate_ms == 21_008 - died_at_ms


@pytest.mark.parametrize(
    ("joined_at_ms", "died_at_ms"),
    # Its heartbeats come at 1, 4, 7, 10, 13 s: half way from the commit at 12 s to the one at 13.
    # It joined more than a minute before: between the commit and any time up to 3 s later, 1 s on average.
    [(1_000, 12_500), (-60_000, 13_000)],
    ids=["it joined lately, so its beat is known", "its beat is not known"],
)
def test_a_commit_is_a_sign_of_life_and_heartbeats_keep_their_beat(joined_at_ms: int, died_at_ms: int) -> None:
    """Expired at 22 s after a session of 10 s, right when it had committed last, at 12 s."""
    at_ms = 1_000_000
    story = two(a_group(), 1, at_ms + joined_at_ms, JAVA_3_7)
    story.commit(1, at_ms=at_ms + 7_000).commit(1, at_ms=at_ms + 12_000)
    story.says(LogKind.MEMBER_FAILED, at_ms=at_ms + 22_000, member_id=member_id("c2"))
    story.preparing(1, f"removing member {member_id('c2')} on heartbeat expiration.", at_ms=at_ms + 22_001)
    story.generation(2, {"c1": "0 1"}, at_ms=at_ms + 23_000, subscriptions={"c1": JAVA_3_7})
    story.stabilized(2, at_ms=at_ms + 22_990).received(2, at_ms=at_ms + 22_999)
    pause = given_on(second(story))
    assert pause.pause_estimate_ms == pytest.approx(23_008 - died_at_ms, abs=10)
