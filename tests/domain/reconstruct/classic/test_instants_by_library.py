"""Kinds of evidence that differ by client library: what it does before and after its callbacks, and with nobody to
coordinate it."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.kinds import Basis
from rebalance_audit.domain.measure.marks import best_estimate
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import LogKind, Movement, changed
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.classic.stories import TOPIC, Story, a_group, member_id

JAVA = encoders.consumer_subscription((TOPIC,), version=3, user_data=None)
SARAMA = encoders.consumer_subscription((TOPIC,), version=2, user_data=None)
LIBRDKAFKA = encoders.consumer_subscription((TOPIC,), version=3, user_data=b"")
PYTHON = encoders.consumer_subscription((TOPIC,), version=0, user_data=b"")
KAFKA_GO = b"\x00\x01" + encoders.consumer_subscription((TOPIC,), version=0, user_data=None)[2:]


def by_new_owner(story: Story) -> dict[str | None, Movement]:
    """What the second generation gave on."""
    found = next(r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 2)
    return {m.to_client_id: m for m in measure(found).movements}


def joined_by_another(subscription: bytes, *, last_commit_ms: int = 10_000) -> dict[str | None, Movement]:
    """c2 joins c1, which re-joins within two seconds."""
    story = a_group(rebalance_timeout_ms=60_000)
    story.generation(1, {"c1": "0 1"}, at_ms=1_000, subscriptions={"c1": subscription})
    for at_ms in range(1_500, last_commit_ms + 1, 500):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.preparing(1, f"Adding new member {member_id('c2')} with group instance id null", at_ms=9_000)
    both = {"c1": "0", "c2": "1"}
    story.stabilized(2, at_ms=10_990)
    return by_new_owner(
        story.generation(2, both, at_ms=11_000, joined_at_ms=10_990, subscriptions=dict.fromkeys(both, subscription))
    )


@pytest.mark.parametrize(
    ("subscription", "expected"),
    [
        (LIBRDKAFKA, Basis.COMMIT_AFTER_CALLBACK),
        (KAFKA_GO, Basis.COMMIT_AFTER_CALLBACK),
        (PYTHON, Basis.COMMIT_AS_IT_LET_GO),  # it may be librdkafka's, and need not be
    ],
    ids=["librdkafka", "kafka-go", "Python's"],
)
def test_librdkafka_and_kafka_go_commit_after_their_callback_the_others_before(
    subscription: bytes, expected: Basis
) -> None:
    best = best_estimate(joined_by_another(subscription)["c2"].stop_marks)
    assert best is not None
    assert best.basis == expected


@pytest.mark.parametrize(
    ("subscription", "who_stays", "who_comes", "after_ms"),
    [
        (JAVA, Basis.DELIVERY, Basis.DELIVERY_TO_NEW, 8),
        (LIBRDKAFKA, Basis.DELIVERY_AT_ONCE, Basis.DELIVERY_AT_ONCE, 2),
        (PYTHON, Basis.DELIVERY_SOON, Basis.DELIVERY_SOON, 5),
        (KAFKA_GO, Basis.DELIVERY_SOON, Basis.DELIVERY_SOON, 5),
    ],
    ids=["Java", "librdkafka", "Python's", "kafka-go"],
)
def test_how_soon_a_member_begins_is_its_librarys_and_java_is_late_the_first_time(
    subscription: bytes, who_stays: Basis, who_comes: Basis, after_ms: int
) -> None:
    found = joined_by_another(subscription)
    for client, basis in (("c1", who_stays), ("c2", who_comes)):
        best = best_estimate(found[client].resume_marks)
        assert best is not None
        assert (best.basis, best.at_ms) == (basis, 11_000 + after_ms)


def test_one_that_committed_nothing_lately_let_go_as_the_join_phase_ended() -> None:
    """Of librdkafka on 3.3.2, three members and no messages: they let go 3 to 11 ms before the new assignment."""
    pause = joined_by_another(LIBRDKAFKA, last_commit_ms=1_000)["c2"]
    assert pause.pause_estimate_ms == 11_002 - 10_990
    assert pause.pause_upper_ms is None or pause.pause_upper_ms >= 2_000
    assert pause.pause_likely_upper_ms is not None
    assert pause.pause_likely_upper_ms > 1_000


def after_a_failover(subscription: bytes) -> Movement:
    """c1 leads and commits until its coordinator is gone at 10 s. The next one loads the group at 17 s; c1 joins again
    at 19 s."""
    both = {"c1": "0", "c2": "1"}
    story = a_group(rebalance_timeout_ms=60_000)
    told = dict.fromkeys(both, subscription)
    story.preparing(0, f"Adding new member {member_id('c1')} with group instance id null", at_ms=900)
    story.generation(1, both, at_ms=1_000, subscriptions=told)
    for at_ms in range(2_000, 10_001, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.says(LogKind.GROUP_LOADED, at_ms=17_000)
    story.preparing(1, f"Leader {member_id('c1')} re-joining group during Stable", at_ms=19_000)
    story.stabilized(2, at_ms=21_000)
    return by_new_owner(story.generation(2, both, at_ms=21_005, joined_at_ms=21_000, subscriptions=told))["c2"]


def test_who_cannot_go_on_without_a_coordinator_let_go_when_it_was_lost() -> None:
    """As sarama on 3.7.2: 7 s before the next coordinator had loaded the group."""
    pause = after_a_failover(SARAMA)
    assert pause.stopped_at_lower_ms is not None
    assert pause.stopped_at_lower_ms <= 10_000
    assert pause.pause_estimate_ms is not None
    assert 21_005 - 13_000 <= pause.pause_estimate_ms <= 21_013 - 10_000


def test_the_others_work_on_while_they_look_for_the_next_one() -> None:
    assert after_a_failover(LIBRDKAFKA).stopped_at_lower_ms == 18_990


@pytest.mark.parametrize(
    ("rebalance_timeout_ms", "expected"),
    [(60_000, Basis.COMMIT_AFTER_FETCHES), (300_000, Basis.COMMIT_AS_IT_LET_GO)],
    ids=["sarama's default", "Java's"],
)
def test_one_that_commits_rarely_is_saramas_by_its_rebalance_timeout(
    rebalance_timeout_ms: int, expected: Basis
) -> None:
    story = a_group(rebalance_timeout_ms=rebalance_timeout_ms)
    story.generation(1, {"c1": "0 1"}, at_ms=1_000, subscriptions={"c1": SARAMA})
    for at_ms in (2_000, 11_000, 20_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    both = {"c1": "0", "c2": "1"}
    found = by_new_owner(story.generation(2, both, at_ms=20_400, subscriptions=dict.fromkeys(both, SARAMA)))
    best = best_estimate(found["c2"].stop_marks)
    assert best is not None
    assert best.basis == expected


@pytest.mark.parametrize(
    ("subscription", "lower_ms"), [(KAFKA_GO, 7_950), (LIBRDKAFKA, 8_990)], ids=["kafka-go", "librdkafka"]
)
def test_kafka_go_may_have_given_all_up_before_the_rebalance_if_a_commit_failed(
    subscription: bytes, lower_ms: int
) -> None:
    """Others worked on until they heard of it, at 9 s."""
    found = joined_by_another(subscription, last_commit_ms=8_000)
    assert found["c1"].stopped_at_lower_ms == lower_ms


@pytest.mark.parametrize(
    ("who_is_new", "lower_ms"), [(("c1", "c2"), 1_000), (("c1",), 19_950)], ids=["everybody", "this one alone"]
)
def test_where_everybody_is_back_as_somebody_new_a_commit_may_have_waited_for_the_next_coordinator(
    who_is_new: tuple[str, ...], lower_ms: int
) -> None:
    """librdkafka that finds no coordinator for its session timeout (10 s) gives all up. What it had asked to commit is
    written when there is one again."""
    both = {"c1": "0", "c2": "1"}
    story = a_group(session_timeout_ms=10_000)
    story.generation(1, both, at_ms=1_000, subscriptions=dict.fromkeys(both, LIBRDKAFKA))
    story.commit(0, at_ms=20_000).commit(1, at_ms=20_000)
    new = {client: f"{client}-11111111-0000-0000-0000-000000000000" for client in who_is_new}
    story.generation(2, both, at_ms=29_000, subscriptions=dict.fromkeys(both, LIBRDKAFKA), member_ids=new)
    assert by_new_owner(story)["c1"].stopped_at_lower_ms == lower_ms


def joined_in_transactions(last_commit_ms: int) -> dict[str | None, Movement]:
    """c2 joins c1, which commits in transactions alone, one a second."""
    story = a_group(rebalance_timeout_ms=60_000)
    story.generation(1, {"c1": "0 1"}, at_ms=1_000, subscriptions={"c1": JAVA})
    for at_ms in range(1_500, last_commit_ms + 1, 1_000):
        story.commit(0, at_ms=at_ms).commit(1, at_ms=at_ms)
    story.marks = [changed(mark, in_transaction=True) for mark in story.marks]
    story.preparing(1, f"Adding new member {member_id('c2')} with group instance id null", at_ms=9_000)
    both = {"c1": "0", "c2": "1"}
    story.stabilized(2, at_ms=10_990)
    return by_new_owner(
        story.generation(2, both, at_ms=11_000, joined_at_ms=10_990, subscriptions=dict.fromkeys(both, JAVA))
    )


def test_who_commits_in_transactions_commits_nothing_as_it_lets_go() -> None:
    """Its last transaction is no sign of the moment: members let go as the join phase ends
    (docs/measured.md#transactions)."""
    best = best_estimate(joined_in_transactions(10_500)["c2"].stop_marks)
    assert best is not None
    assert (best.basis, best.at_ms) == (Basis.AFTER_TRANSACTIONS, 10_990)


def test_who_missed_several_transactions_had_let_go_before_the_next_one() -> None:
    best = best_estimate(joined_in_transactions(8_500)["c2"].stop_marks)
    assert best is not None
    assert (best.basis, best.window_from_ms, best.window_to_ms) == (Basis.SIGNS_OF_LIFE, 8_500, 9_500)
