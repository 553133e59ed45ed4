"""The classic consumer's range and round-robin assignors, which remember nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from .java_order import text_key

Partition = tuple[str, int]
Assigned = dict[str, list[Partition]]
"""By member id; every member is there, with an empty list if it gets nothing."""


class NotAssigned(Exception):
    """Kafka's own assignor fails here, or never ends: one sentence."""


class Subscriber(NamedTuple):
    """One member as the leader sees it when it assigns. Replays make one for each request to join."""

    member_id: str
    topics: tuple[str, ...]
    instance_id: str | None = None
    owned: tuple[Partition, ...] = ()
    """The partitions it says it has: in its user data (sticky) or in its subscription (cooperative-sticky)."""
    generation: int = -1
    """The generation of what it has, as its user data says."""
    joined_generation: int = -1
    """The generation in its subscription; -1 before version 2 of the subscription, and once it lost its place."""


class Named(Protocol):
    @property
    def member_id(self) -> str: ...

    @property
    def instance_id(self) -> str | None: ...


M = TypeVar("M", bound=Named)


def in_member_order(members: Iterable[M]) -> list[M]:
    """Static members first, by instance id; then the others by member id."""
    return sorted(members, key=lambda m: (m.instance_id is None, text_key(m.instance_id or m.member_id)))


def in_pieces(count: int, takers: Sequence[str]) -> Iterator[tuple[str, range]]:
    """Consecutive pieces of a topic's partitions, one for each taker; the first takers get one more."""
    start = 0
    for place, member_id in enumerate(takers):
        end = start + count // len(takers) + (place < count % len(takers))
        yield member_id, range(start, end)
        start = end


def assign_ranges(topics: Mapping[str, int], subscribers: Iterable[Subscriber]) -> Assigned:
    """Each topic by itself in consecutive pieces; the first members get one more. Source: RangeAssignor."""
    ordered = in_member_order(subscribers)
    assigned: Assigned = {s.member_id: [] for s in ordered}
    for topic, count in topics.items():
        for member_id, piece in in_pieces(count, [s.member_id for s in ordered if topic in s.topics]):
            assigned[member_id] += [(topic, number) for number in piece]
    return assigned


def assign_round_robin(topics: Mapping[str, int], subscribers: Iterable[Subscriber]) -> Assigned:
    """All partitions in order, one to each member in turn that wants its topic. Source: RoundRobinAssignor."""
    ordered = in_member_order(subscribers)
    assigned: Assigned = {s.member_id: [] for s in ordered}
    wanted = {topic for s in ordered for topic in s.topics if topic in topics}
    turn = 0
    for topic in sorted(wanted, key=text_key):
        for number in range(topics[topic]):
            while topic not in ordered[turn].topics:
                turn = (turn + 1) % len(ordered)
            assigned[ordered[turn].member_id].append((topic, number))
            turn = (turn + 1) % len(ordered)
    return assigned
