"""A group on which Kafka's own sticky assignor never ends: two newcomers join three members that share two topics."""

from __future__ import annotations

from rebalance_audit.domain.replay.assignors import Subscriber

TOPICS = {"a": 7, "t-2": 24}


def _owner(member_id: str, topics: tuple[str, ...], topic: str, numbers: range) -> Subscriber:
    owned = tuple((topic, number) for number in numbers)
    return Subscriber(member_id=member_id, topics=topics, owned=owned, generation=2, joined_generation=2)


SUBSCRIBERS = [
    _owner("consumer13", ("a",), "a", range(0, 7, 2)),
    Subscriber(member_id=f"{'x' * 40}-consumer-2", topics=("t-2",)),
    _owner("consumer15", ("t-2", "a"), "t-2", range(1, 24, 3)),
    _owner("consumer3", ("t-2",), "t-2", range(2, 24, 3)),
    Subscriber(member_id=f"{'x' * 40}-consumer-0", topics=("a", "t-2")),
    _owner("consumer2", ("a",), "a", range(1, 7, 2)),
    _owner("consumer12", ("a", "t-2"), "t-2", range(0, 24, 3)),
]
