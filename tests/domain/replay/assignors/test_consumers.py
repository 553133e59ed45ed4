"""Cases worked by hand, most of them from KIPs and Kafka's own documentation of its assignors."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.replay.assignors import (
    NotAssigned,
    Subscriber,
    assign_cooperatively,
    assign_ranges,
    assign_round_robin,
    assign_stickily,
)
from tests.domain.replay.assignors import endless


def members(*ids: str, topics: tuple[str, ...] = ("t0", "t1")) -> list[Subscriber]:
    return [Subscriber(member_id=member_id, topics=topics) for member_id in ids]


def test_range_gives_the_first_members_one_more_of_each_topic() -> None:
    assert assign_ranges({"t0": 3, "t1": 3}, members("c1", "c0")) == {
        "c0": [("t0", 0), ("t0", 1), ("t1", 0), ("t1", 1)],
        "c1": [("t0", 2), ("t1", 2)],
    }


def test_range_puts_static_members_first_by_their_instance_ids() -> None:
    subscribers = [
        Subscriber(member_id="a", topics=("t0",)),
        Subscriber(member_id="z", topics=("t0",), instance_id="one"),
    ]
    assert assign_ranges({"t0": 3}, subscribers) == {"z": [("t0", 0), ("t0", 1)], "a": [("t0", 2)]}


def test_round_robin_skips_members_that_do_not_want_the_topic() -> None:
    subscribers = [
        Subscriber(member_id="c0", topics=("t0",)),
        Subscriber(member_id="c1", topics=("t0", "t1")),
        Subscriber(member_id="c2", topics=("t0", "t1", "t2")),
    ]
    assert assign_round_robin({"t0": 1, "t1": 2, "t2": 3}, subscribers) == {
        "c0": [("t0", 0)],
        "c1": [("t1", 0)],
        "c2": [("t1", 1), ("t2", 0), ("t2", 1), ("t2", 2)],
    }


def test_sticky_lets_survivors_keep_what_they_have() -> None:
    c0 = Subscriber(member_id="c0", topics=("t",), owned=(("t", 0), ("t", 3)), generation=1, joined_generation=1)
    c2 = Subscriber(member_id="c2", topics=("t",), owned=(("t", 2), ("t", 5)), generation=1, joined_generation=1)
    assert assign_stickily({"t": 6}, [c0, c2]) == {
        "c0": [("t", 0), ("t", 3), ("t", 1)],
        "c2": [("t", 2), ("t", 5), ("t", 4)],
    }


def test_what_a_cooperative_newcomer_is_to_get_belongs_to_nobody_until_the_follow_up() -> None:
    c0 = Subscriber(member_id="c0", topics=("t",), owned=tuple(("t", n) for n in range(4)), joined_generation=1)
    first = assign_cooperatively({"t": 4}, [c0, Subscriber(member_id="c1", topics=("t",))])
    assert first == {"c0": [("t", 0), ("t", 1)], "c1": []}
    after = [
        Subscriber(member_id="c0", topics=("t",), owned=(("t", 0), ("t", 1)), joined_generation=2),
        Subscriber(member_id="c1", topics=("t",), joined_generation=2),
    ]
    assert assign_cooperatively({"t": 4}, after) == {"c0": [("t", 0), ("t", 1)], "c1": [("t", 2), ("t", 3)]}


def test_a_partition_that_two_members_of_one_generation_claim_is_taken_from_both() -> None:
    both = [Subscriber(member_id=m, topics=("t",), owned=(("t", 0),), generation=1, joined_generation=1) for m in "ab"]
    assigned = assign_cooperatively({"t": 2}, both)
    assert sorted(p for mine in assigned.values() for p in mine) == [("t", 1)]


def test_a_claim_of_an_older_generation_loses() -> None:
    old = Subscriber(member_id="old", topics=("t",), owned=(("t", 0), ("t", 1)), joined_generation=1)
    new = Subscriber(member_id="new", topics=("t",), owned=(("t", 0),), joined_generation=2)
    assert assign_cooperatively({"t": 2}, [old, new]) == {"old": [("t", 1)], "new": [("t", 0)]}


def test_sticky_balances_members_that_want_different_topics() -> None:
    one = Subscriber(member_id="one", topics=("a",))
    two = Subscriber(member_id="two", topics=("a", "b"))
    assert assign_stickily({"a": 2, "b": 2}, [one, two]) == {
        "one": [("a", 0), ("a", 1)],
        "two": [("b", 0), ("b", 1)],
    }


def test_a_group_that_kafka_would_balance_for_ever_is_refused() -> None:
    with pytest.raises(NotAssigned, match="never ends"):
        assign_stickily(endless.TOPICS, endless.SUBSCRIBERS)
