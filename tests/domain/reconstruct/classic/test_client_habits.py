"""What silence, an expiry or a re-join says depends on the client library: the same times, of different clients."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.model import LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from tests.domain.reconstruct.classic.libraries import (
    AGAIN,
    AIOKAFKA,
    FRANZ_GO,
    JAVA_2_7,
    JAVA_3_7,
    KAFKA_GO,
    KAFKAJS,
    LIBRDKAFKA,
    SARAMA,
    given_on,
    of_records,
    second,
    two,
)
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id


def silent_close(subscription: bytes, assignor: str, *, others_until_ms: int = 10_000, **settings: Any) -> Story:
    """Both commit until 10 s; c2 leaves at 40 s without a word, and is back at 45 s."""
    story = two(a_group(**{"rebalance_timeout_ms": 10_000, **settings}), 1, 1_000, subscription, assignor=assignor)
    for at_ms in range(2_000, 10_001, 2_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms + 1)
    for at_ms in range(12_000, others_until_ms + 1, 2_000):
        story.commit(0, at_ms=at_ms)
    story.says(LogKind.MEMBER_LEFT, at_ms=40_000, member_id=member_id("c2"))
    story.preparing(1, f"explicit `LeaveGroup` request for ({member_id('c2')}) members.", at_ms=40_001)
    alone = {"c1": subscription}
    story.generation(2, {"c1": "0 1"}, at_ms=41_000, assignor=assignor, subscriptions=alone)
    story.stabilized(2, at_ms=40_990).received(2, at_ms=40_999)
    story.says(LogKind.MEMBER_JOINED, at_ms=45_000, member_id=AGAIN)
    story.preparing(2, f"Adding new member {AGAIN} with group instance id null", at_ms=45_001)
    return two(story, 3, 46_000, subscription, assignor=assignor, member_ids={"c2": AGAIN})


@pytest.mark.parametrize(
    ("subscription", "assignor"),
    [(KAFKAJS, "RoundRobinAssigner"), (KAFKA_GO, "range"), (FRANZ_GO, "cooperative-sticky")],
    ids=["kafkajs", "kafka-go", "franz-go"],
)
@pytest.mark.parametrize("others_until_ms", [10_000, 40_000], ids=["the topic is silent", "the other goes on"])
def test_a_library_without_a_poll_interval_is_never_put_out_by_it(
    subscription: bytes, assignor: str, others_until_ms: int
) -> None:
    story = silent_close(subscription, assignor, others_until_ms=others_until_ms)
    assert second(story).trigger == "member_left"
    assert second(of_records(story)).trigger != "member_poll_timeout"


@pytest.mark.parametrize("subscription", [SARAMA, JAVA_2_7, JAVA_3_7], ids=["v2", "v1", "v3"])
def test_where_the_library_is_not_known_a_silent_topic_says_nothing(subscription: bytes) -> None:
    assert second(silent_close(subscription, "range")).trigger == "unknown"


def test_records_alone_of_a_silent_topic_say_neither_expired_nor_put_out() -> None:
    story = of_records(silent_close(FRANZ_GO, "cooperative-sticky", rebalance_timeout_ms=60_000))
    assert second(story).trigger == "unknown"


def test_a_member_that_may_have_been_idle_is_taken_to_have_gone_just_before_the_record() -> None:
    pause = given_on(second(of_records(silent_close(FRANZ_GO, "range", rebalance_timeout_ms=60_000))))
    assert pause.pause_estimate_ms is not None
    assert pause.pause_estimate_ms < 1_000
    assert pause.pause_upper_ms is None or pause.pause_upper_ms >= 30_000


def test_one_that_commits_no_more_while_the_other_goes_on_has_vanished() -> None:
    story = silent_close(JAVA_3_7, "range", others_until_ms=40_000, rebalance_timeout_ms=60_000)
    assert second(of_records(story)).trigger == "member_session_expired"


@pytest.mark.parametrize(
    ("read_on_to", "trigger"), [(None, "unknown"), (70, "unknown"), (71, "member_session_expired")]
)
def test_partitions_that_got_no_messages_say_nothing(read_on_to: int | None, trigger: str) -> None:
    """c2's partition stands at 70 while c1's moves on; who has it next commits nothing, the same, or what came."""
    story = two(a_group(rebalance_timeout_ms=60_000), 1, 1_000, FRANZ_GO, assignor="range")
    for at_ms in range(2_000, 40_001, 2_000):
        story.commit(0, at_ms=at_ms, position=at_ms)
        if at_ms <= 10_000:
            story.commit(1, at_ms=at_ms + 1, position=60 + at_ms // 1_000)
    story.generation(2, {"c1": "0 1"}, at_ms=41_000, subscriptions={"c1": FRANZ_GO})
    if read_on_to is not None:
        story.commit(1, at_ms=43_000, position=read_on_to)
    assert second(story).trigger == trigger


def test_an_eager_owner_had_let_go_before_the_record_that_gives_its_partition_to_nobody() -> None:
    """As when a topic is deleted under a `range` group, and is made again."""
    story = a_group().generation(1, {"c1": "0 1"}, at_ms=1_000).commit(1, at_ms=8_990)
    story.generation(2, {"c1": "0"}, at_ms=10_000).commit(0, at_ms=14_000).generation(3, {"c1": "0 1"}, at_ms=30_000)
    third = next(r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 3)
    pause = given_on(third)
    assert pause.stopped_at_lower_ms is not None
    assert pause.stopped_at_upper_ms is not None
    assert pause.stopped_at_lower_ms <= 8_990 <= pause.stopped_at_upper_ms <= 10_010
    assert pause.pause_estimate_ms == 30_000 - 8_990 + 8


@pytest.mark.parametrize(
    ("last_ms", "is_back", "trigger"),
    [(26_000, True, "unknown"), (27_900, True, "member_left"), (26_000, False, "member_left")],
    ids=["on the beat", "as it closed", "never back"],
)
def test_aiokafka_commits_on_its_timer_until_it_is_put_out(last_ms: int, is_back: bool, trigger: str) -> None:
    """As seen on 3.3.2: its application was stuck, it committed every 5 s, left, and came back."""
    story = two(
        a_group(session_timeout_ms=6_500, rebalance_timeout_ms=6_500), 1, 1_000, AIOKAFKA, assignor="roundrobin"
    )
    for at_ms in range(6_000, 26_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms + 1)
    story.commit(1, at_ms=last_ms)
    alone = {"c1": AIOKAFKA}
    story.generation(2, {"c1": "0 1"}, at_ms=28_000, assignor="roundrobin", subscriptions=alone)
    if is_back:
        story = two(story, 3, 36_000, AIOKAFKA, assignor="roundrobin", member_ids={"c2": AGAIN})
    assert second(story).trigger == trigger


@pytest.mark.parametrize(
    ("last_ms", "is_back", "trigger"),
    [(26_000, True, "unknown"), (26_400, True, "member_left"), (26_000, False, "member_left")],
    ids=["on the beat", "as it closed", "never back"],
)
def test_aiokafka_may_be_put_out_right_after_its_timer(last_ms: int, is_back: bool, trigger: str) -> None:
    """As seen on 2.2.2, whose lines have no reasons: it committed 0.15 s before it left, was stuck, and came back."""
    story = two(a_group(session_timeout_ms=6_500, rebalance_timeout_ms=6_500), 1, 1_000, AIOKAFKA, assignor="range")
    for at_ms in range(6_000, 26_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms + 1)
    story.commit(1, at_ms=last_ms).preparing(1, f"removing member {member_id('c2')} on LeaveGroup", at_ms=26_450)
    story.generation(2, {"c1": "0 1"}, at_ms=28_000, subscriptions={"c1": AIOKAFKA})
    if is_back:
        adding = f"Adding new member {AGAIN} with group instance id None"
        story = two(
            story.preparing(2, adding, at_ms=35_000), 3, 36_000, AIOKAFKA, assignor="range", member_ids={"c2": AGAIN}
        )
    found = second(story)
    assert found.trigger == trigger
    # Its callback comes after its LeaveGroup: 20 ms were seen on 4.0.0. It ran until it joined again at the latest.
    assert given_on(found).stopped_at_upper_ms == (35_010 if trigger == "unknown" else 26_460)


@pytest.mark.parametrize(
    ("last_ms", "trigger"), [(26_001, "unknown"), (27_900, "member_left")], ids=["on the beat", "as it closed"]
)
def test_librdkafka_commits_once_more_on_its_timer_when_its_application_is_stuck(last_ms: int, trigger: str) -> None:
    """As seen on 3.6.2: it committed 4.6 s after its last poll, left 2.7 s later, and came back as that was over."""
    story = two(a_group(session_timeout_ms=6_500, rebalance_timeout_ms=7_000), 1, 1_000, LIBRDKAFKA, assignor="range")
    for at_ms in range(6_000, 26_000, 5_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms + 1)
    story.commit(0, at_ms=26_000).commit(1, at_ms=last_ms)
    story.generation(2, {"c1": "0 1"}, at_ms=28_000, subscriptions={"c1": LIBRDKAFKA})
    story = two(story, 3, 36_000, LIBRDKAFKA, assignor="range", member_ids={"c2": AGAIN})
    assert second(story).trigger == trigger


def test_java_before_3_2_commits_after_its_poll_timer_was_started_anew() -> None:
    """As seen on 2.7.2: 5,957 ms of silence under a max.poll.interval.ms of 6,000."""
    story = two(a_group(rebalance_timeout_ms=6_000), 1, 1_000, JAVA_2_7)
    for at_ms in range(2_000, 10_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms + 1)
    for at_ms in range(11_000, 16_001, 1_000):
        story.commit(0, at_ms=at_ms)
    story.preparing(1, f"removing member {member_id('c2')} on LeaveGroup", at_ms=15_958)
    story.generation(2, {"c1": "0 1"}, at_ms=17_000, subscriptions={"c1": JAVA_2_7})
    story.stabilized(2, at_ms=16_990).received(2, at_ms=16_999)
    found = second(story)
    assert found.trigger == "member_poll_timeout"
    assert given_on(found).stopped_at_upper_ms is None


@pytest.mark.parametrize(
    ("assignor", "expected"), [("range", "unknown"), ("cooperative-sticky", "cooperative_follow_up")]
)
def test_an_eager_leader_that_had_no_metadata_yet_makes_no_follow_up(assignor: str, expected: str) -> None:
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, assignor=assignor)
    story.generation(2, {"c1": "", "c2": ""}, at_ms=2_000, assignor=assignor)
    story.generation(3, {"c1": "0", "c2": "1"}, at_ms=2_100, assignor=assignor)
    last = reconstruct(story.evidence()).rebalances[-1]
    assert (last.trigger, last.expected) == (expected, expected != "unknown")


@pytest.mark.parametrize(("client", "expected"), [("c1", "leader_rejoined"), ("c2", "subscription_changed")])
def test_up_to_2_5_a_leader_that_joins_again_updates_its_metadata_in_words_alone(client: str, expected: str) -> None:
    """As seen on 2.3.1: kafka-python, which had no metadata in its first generation."""
    story = two(a_group(), 1, 1_000, JAVA_2_7)
    story.preparing(1, f"Updating metadata for member {member_id(client)}", at_ms=5_000)
    story.stabilized(2, at_ms=5_990).received(2, at_ms=5_999)
    assert second(two(story, 2, 6_000, JAVA_2_7)).trigger == expected


def test_words_of_nobody_are_the_users_of_a_java_client_and_of_sarama_maybe_an_errors() -> None:
    def trigger(subscription: bytes) -> tuple[str, str | None]:
        story = two(a_group(), 1, 1_000, subscription)
        reason = f"Leader {member_id('c1')} re-joining group during Stable"
        story.preparing(1, reason, at_ms=5_000, client_reason="no route to host")
        story.stabilized(2, at_ms=5_990).received(2, at_ms=5_999)
        found = second(two(story, 2, 6_000, subscription))
        return found.trigger, found.trigger_detail

    assert trigger(JAVA_3_7) == ("client_requested", "no route to host")
    assert trigger(SARAMA) == ("unknown", "re-joined; the client says: no route to host")


def test_kafka_gos_topics_are_read_and_what_is_missing_is_said() -> None:
    (rebalance,) = reconstruct(two(a_group(), 1, 1_000, KAFKA_GO).evidence()).rebalances
    member = rebalance.members[0]
    assert (member.subscribed_topics, member.client_libraries) == ((TOPIC,), ("kafka-go",))
    assert member.undecoded == "short_buffer at byte 18 of the subscription, field ownedPartitions"


def test_a_subscription_that_cannot_be_read_at_all_is_said_and_stops_nothing() -> None:
    (rebalance,) = reconstruct(two(a_group(), 1, 1_000, b"\x00\x00\xff").evidence()).rebalances
    member = rebalance.members[0]
    assert (member.subscribed_topics, member.client_libraries) == (None, None)
    assert member.undecoded is not None
    assert member.undecoded.startswith("short_buffer at byte 2")


def test_a_static_member_is_of_no_library_that_has_none() -> None:
    """The bytes are those of four libraries; kafkajs sends no group.instance.id."""
    story = two(a_group(), 1, 1_000, KAFKAJS, assignor="roundrobin", instances={"c2": "c2-instance"})
    (only,) = reconstruct(story.evidence()).rebalances
    of = {m.client_id: m.client_libraries for m in only.members}
    assert of["c1"] == ("aiokafka", "kafka-python", "kafkajs", "librdkafka")
    assert of["c2"] == ("aiokafka", "kafka-python", "librdkafka")
