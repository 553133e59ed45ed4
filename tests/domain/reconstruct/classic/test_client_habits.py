"""What silence, an expiry or a re-join says depends on the client library: the same times, of different clients."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.detect.wording import two_owners
from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Movement, Rebalance, changed
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.reconstruct.classic.resumes import delivered_marks
from tests import encoders
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

KAFKAJS = AIOKAFKA = encoders.consumer_subscription((TOPIC,), version=0, user_data=b"")
LIBRDKAFKA = encoders.consumer_subscription((TOPIC,), version=3, user_data=b"")
JAVA_2_7 = encoders.consumer_subscription((TOPIC,), version=1, user_data=None)
JAVA_3_7 = encoders.consumer_subscription((TOPIC,), version=3, user_data=None)
SARAMA = encoders.consumer_subscription((TOPIC,), version=2, user_data=None)
FRANZ_GO = encoders.consumer_subscription((TOPIC,), version=3, user_data=encoders.int32(0))  # holds nothing
KAFKA_GO = b"\x00\x01" + encoders.consumer_subscription((TOPIC,), version=0, user_data=None)[2:]
AGAIN = "c2-00000000-0000-0000-0000-000000000002"


def two(story: Story, number: int, at_ms: int, subscription: bytes, **more: object) -> Story:
    both = {"c1": "0", "c2": "1"}
    return story.generation(number, both, at_ms=at_ms, subscriptions=dict.fromkeys(both, subscription), **more)  # type: ignore[arg-type]


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


def second(story: Story) -> Rebalance:
    return next(r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 2)


def given_on(rebalance: Rebalance) -> Movement:
    return next(m for m in measure(rebalance).movements if m.resource == f"{TOPIC}-1")


def of_records(story: Story) -> Story:
    story.lines.clear()
    return story


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


def closed(subscription: bytes, interval_ms: int) -> Story:
    """c2 held two partitions, and leaves at 20 s. It committed both until 17 s, and one of them at 20 s."""
    both = {"c1": "0", "c2": "1 2"}
    assignor = "RoundRobinAssigner" if subscription == KAFKAJS else "range"
    story = a_group().generation(
        1, both, at_ms=1_000, subscriptions=dict.fromkeys(both, subscription), assignor=assignor
    )
    for at_ms in range(2_000, 17_001, interval_ms):
        story.commit(1, at_ms=at_ms).commit(2, at_ms=at_ms)
    story.commit(2, at_ms=20_000)
    story.preparing(1, f"explicit `LeaveGroup` request for ({member_id('c2')}) members.", at_ms=20_001)
    story.generation(2, {"c1": "0 1 2"}, at_ms=21_000, subscriptions={"c1": subscription}, assignor=assignor)
    return story.stabilized(2, at_ms=20_990).received(2, at_ms=20_999)


@pytest.mark.parametrize(
    ("subscription", "interval_ms", "lower_ms", "basis"),
    [
        # Its own last commit, and a whole interval of 1 s.
        (SARAMA, 1_000, 17_000 - 1_050, Basis.COMMIT_AFTER_FETCHES),
        # As seldom as Java's: the last commit of all that it held, and a fetch of 500 ms.
        (JAVA_2_7, 5_000, 20_000 - 550, Basis.COMMIT_AS_IT_LET_GO),
        (JAVA_3_7, 1_000, 20_000 - 50, Basis.COMMIT_AS_IT_LET_GO),
        (KAFKAJS, 5_000, 20_000 - 50, Basis.COMMIT_BEFORE_QUIET),
    ],
    ids=["may be sarama", "maybe not", "not sarama", "kafkajs"],
)
def test_what_a_last_commit_proves_depends_on_whose_it_is(
    subscription: bytes, interval_ms: int, lower_ms: int, basis: Basis
) -> None:
    pause = given_on(second(closed(subscription, interval_ms)))
    assert pause.stopped_at_lower_ms == lower_ms
    assert {(m.at_ms, m.basis) for m in pause.stop_marks if m.bound == "estimate" and m.rank == 2} == {(20_000, basis)}


@pytest.mark.parametrize(
    ("per_s", "early_ms"),
    [
        (10, 130),  # of each partition, which may be its broker's only one: a message every 100 ms, and 1.3 times that
        (1, 550),  # every half a second: a fetch waits no longer
        (None, 550),
    ],
)
def test_saramas_last_commit_waited_for_the_next_message_at_most(per_s: int | None, early_ms: int) -> None:
    story = closed(SARAMA, 1_000)
    for place, mark in enumerate(story.marks):
        position = None if per_s is None else mark.first_at_ms * per_s // 1_000
        story.marks[place] = changed(mark, first_position=position, last_position=position)
    pause = given_on(second(story))
    (estimate,) = (m for m in pause.stop_marks if m.basis == Basis.COMMIT_AFTER_FETCHES)
    assert (estimate.at_ms, estimate.window_from_ms) == (20_000, pytest.approx(20_000 - early_ms, abs=1))


@pytest.mark.parametrize(
    ("position", "lower_ms", "window"),
    [
        (90, 9_000 - 1_050, (9_000, 19_500)),  # what it had committed at 9 s: the broker had not answered within 5 s
        (195, 19_500 - 1_050, (19_500 - 130, 19_507)),
    ],
    ids=["sent again", "something new"],
)
def test_saramas_last_commit_may_be_one_that_it_sent_again(
    position: int, lower_ms: int, window: tuple[int, int]
) -> None:
    """As seen on 3.6.2 while a replica was missing: it had let go 0.5 to 5.6 s before its last commit."""
    both = dict.fromkeys(("c1", "c2"), SARAMA)
    story = a_group().generation(1, {"c1": "0", "c2": "1"}, at_ms=1_000, subscriptions=both)
    for at_ms in range(2_000, 9_001, 1_000):
        story.commit(1, at_ms=at_ms, position=at_ms // 100)
    story.commit(1, at_ms=14_500, position=90).commit(1, at_ms=19_500, position=position)
    story.generation(2, {"c1": "0 1", "c2": ""}, at_ms=20_000, subscriptions=both)
    pause = given_on(second(story))
    (estimate,) = (m for m in pause.stop_marks if m.bound == "estimate" and m.rank == 2)
    assert pause.stopped_at_lower_ms == lower_ms
    assert (estimate.window_from_ms, estimate.window_to_ms) == pytest.approx(window, abs=25)


def of_kafkajs(story: Story) -> Story:
    """c1 and c2 commit each second until 9 s."""
    story = two(story, 1, 1_000, KAFKAJS, assignor="RoundRobinAssigner")
    for at_ms in range(2_000, 9_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    return story


def test_the_owners_of_an_emptied_group_are_known_by_what_they_were_given() -> None:
    """The record of an empty group names no assignor. As seen on 4.2.0."""
    story = of_kafkajs(a_group())
    for client in ("c1", "c2"):
        story.says(LogKind.MEMBER_LEFT, at_ms=9_290, member_id=member_id(client))
    story.preparing(1, f"explicit `LeaveGroup` request for ({member_id('c2')}) members.", at_ms=9_291)
    story.empty(2, at_ms=9_300)
    again = {client: f"{client}-00000000-0000-0000-0000-00000000000a" for client in ("c1", "c2")}
    story = two(story, 3, 20_000, KAFKAJS, assignor="RoundRobinAssigner", member_ids=again)
    (third,) = (r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 3)
    assert Basis.COMMIT_BEFORE_QUIET in {m.basis for m in given_on(third).stop_marks}


@pytest.mark.parametrize("with_lines", [True, False])
def test_a_kafkajs_member_let_go_before_the_others_waited_for_a_dead_one(*, with_lines: bool) -> None:
    """As seen on 4.2.0: one was killed and another came, so the only one that stayed had let go 5.3 s before."""
    story = of_kafkajs(a_group())
    story.preparing(1, f"Adding new member {member_id('c3')} with group instance id None", at_ms=9_010)
    story.says(LogKind.MEMBER_FAILED, at_ms=13_990, member_id=member_id("c2"))
    both = dict.fromkeys(("c1", "c3"), KAFKAJS)
    story.generation(2, {"c1": "1", "c3": "0"}, at_ms=14_000, subscriptions=both, assignor="RoundRobinAssigner")
    found = second(story if with_lines else of_records(story))
    (stop,) = (m for m in found.movements if m.resource == f"{TOPIC}-0")
    assert [m.at_ms for m in stop.stop_marks if m.basis == Basis.COMMIT_BEFORE_QUIET] == [9_000]


COOPERATIVE = {
    number: encoders.consumer_subscription((TOPIC,), owned={TOPIC: tuple(numbers)}, version=2, user_data=None)
    for number, numbers in (("0", (0,)), ("", ()))
}
"""Of members that may be sarama's, by what they hold."""


def joined_by_more(own_commit_ms: int | None, interval_ms: int = 1_000) -> Movement:
    """c1 holds partition 0 and is given partition 1 at 20 s beside it, which c2 gave up when it left."""
    story = a_group().generation(
        1, {"c1": "0", "c2": "1"}, at_ms=1_000, assignor="cooperative-sticky",
        subscriptions=dict.fromkeys(("c1", "c2"), COOPERATIVE[""]),
    )  # fmt: skip
    for at_ms in range(2_000, 19_001, interval_ms):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.generation(
        2, {"c1": "0 1"}, at_ms=20_000, assignor="cooperative-sticky", subscriptions={"c1": COOPERATIVE["0"]}
    )
    story.commit(0, at_ms=20_005)
    if own_commit_ms is not None:
        story.commit(1, at_ms=own_commit_ms)
    return given_on(second(story))


def test_what_it_keeps_says_nothing_of_when_a_cooperative_member_began_with_the_rest() -> None:
    """Seen of sarama on three brokers: it commits what it kept 5 ms after the record, and begins 3.4 s after it."""
    pause = joined_by_more(24_500)
    assert (pause.resumed_at_lower_ms, pause.resumed_at_upper_ms) == (20_000, 24_510)
    (estimate,) = (m for m in pause.resume_marks if m.bound == "estimate")
    assert (estimate.basis, estimate.window_from_ms, estimate.window_to_ms) == (
        Basis.DELIVERY_AFTER_FETCHES, 24_500 - 1_200, 24_500,
    )  # fmt: skip
    pause = joined_by_more(24_500, interval_ms=5_000)  # nobody that commits so seldom is taken for sarama's
    assert pause.resumed_at_upper_ms == 24_510
    assert {m.basis for m in pause.resume_marks if m.bound == "estimate"} == {Basis.DELIVERY}


def test_one_that_never_commits_the_rest_may_begin_with_it_late() -> None:
    pause = joined_by_more(None)
    assert pause.resumed_at_upper_ms is None
    (estimate,) = (m for m in pause.resume_marks if m.bound == "estimate")
    assert (estimate.at_ms, estimate.window_from_ms, estimate.window_to_ms) == (20_008, 20_008, 25_008)


def test_sarama_lets_go_of_what_was_taken_away_when_its_fetch_is_back() -> None:
    """Its commit may come an interval later, or be of before."""
    sub = {owned: encoders.consumer_subscription((TOPIC,), owned={TOPIC: owned}, version=2, user_data=None)
           for owned in ((0, 1), (0,), ())}  # fmt: skip
    story = a_group().generation(
        1, {"c1": "0 1"}, at_ms=1_000, assignor="cooperative-sticky", subscriptions={"c1": sub[()]}
    )
    for at_ms in range(2_000, 19_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    taken = {"c1": sub[0, 1], "c2": sub[()]}
    story.generation(2, {"c1": "0", "c2": ""}, at_ms=20_000, assignor="cooperative-sticky", subscriptions=taken)
    story.commit(1, at_ms=20_900)
    given = {"c1": sub[(0,)], "c2": sub[()]}
    story.generation(3, {"c1": "0", "c2": "1"}, at_ms=23_000, assignor="cooperative-sticky", subscriptions=given)
    (pause,) = [m for r in reconstruct(story.evidence()).rebalances for m in measure(r).movements if m.kind == "moved"]
    (estimate,) = [m for m in pause.stop_marks if m.bound == "estimate"]
    assert (estimate.basis, estimate.at_ms) == (Basis.TAKEN_AWAY_AFTER_FETCHES, 20_010)
    assert (estimate.window_from_ms, estimate.window_to_ms) == (20_000, 20_550)


def kafkajs_rejoins(survivors: int, joined_at_ms: int, gap_ms: int) -> list[tuple[int | None, ...]]:
    """Windows in which kafkajs members let go at c9's join, by partition: all committed last at 10 s, and nothing for
    `gap_ms` once before."""
    names = [f"c{number}" for number in range(survivors)]
    story = a_group().generation(
        1, {name: str(at) for at, name in enumerate(names)}, at_ms=1_000, assignor="RoundRobinAssigner",
        subscriptions=dict.fromkeys(names, KAFKAJS),
    )  # fmt: skip
    for at in range(survivors):
        story.commit(at, at_ms=10_000)
        story.marks[at] = changed(
            story.marks[at], first_at_ms=9_000, commit_count=3, gap_from_at_ms=9_000, gap_to_at_ms=9_000 + gap_ms
        )
    story.preparing(1, f"Adding new member {member_id('c9')} with group instance id null", at_ms=9_500)
    everybody = {name: str(at) for at, name in enumerate([*names, "c9"])}
    story.generation(
        2, everybody, at_ms=joined_at_ms + 5, joined_at_ms=joined_at_ms, assignor="RoundRobinAssigner",
        subscriptions=dict.fromkeys(everybody, KAFKAJS),
    )  # fmt: skip
    story.stabilized(2, at_ms=joined_at_ms)
    found = measure(second(story)).movements
    marks = [m for row in found for m in row.stop_marks if m.basis == Basis.COMMIT_BEFORE_QUIET]
    return [(m.window_from_ms, m.window_to_ms) for m in marks]


@pytest.mark.parametrize(
    ("survivors", "joined_at_ms", "gap_ms", "expected"),
    [
        (1, 10_512, 600, (10_492, 10_512)),  # nobody else had to come: it let go when its fetch was back
        (1, 10_015, 600, (10_000, 10_015)),
        (2, 10_512, 600, (10_000, 10_512)),
        (2, 12_000, 600, (10_000, 10_600)),  # no message came for so long: its fetch was back by then
    ],
)
def test_kafkajs_let_go_at_its_last_commit_or_when_the_fetch_after_it_came_back_empty(
    survivors: int, joined_at_ms: int, gap_ms: int, expected: tuple[int, int]
) -> None:
    assert kafkajs_rejoins(survivors, joined_at_ms, gap_ms) == [expected] * survivors


def test_tasks_of_streams_run_later_than_their_record() -> None:
    story = two(a_group(), 1, 1_000, JAVA_3_7, assignor="stream")
    found = [(m.bound, m.at_ms, m.basis) for m in delivered_marks(story.records[-1], Basis.DELIVERY)]
    assert found == [("lower", 1_000, None), ("estimate", 1_060, Basis.TASK_DELIVERY)]


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


def test_a_static_member_is_of_no_library_that_has_none() -> None:
    """The bytes are those of four libraries; kafkajs sends no group.instance.id."""
    story = two(a_group(), 1, 1_000, KAFKAJS, assignor="roundrobin", instances={"c2": "c2-instance"})
    (only,) = reconstruct(story.evidence()).rebalances
    of = {m.client_id: m.client_libraries for m in only.members}
    assert of["c1"] == ("aiokafka", "kafka-python", "kafkajs", "librdkafka")
    assert of["c2"] == ("aiokafka", "kafka-python", "librdkafka")
