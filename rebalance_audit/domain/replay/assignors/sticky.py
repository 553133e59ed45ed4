"""sticky and cooperative-sticky: what members say they own, checked, then balanced with as few moves as can be.

Source: AbstractStickyAssignor, StickyAssignor, CooperativeStickyAssignor of Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from .consumers import Assigned, Partition, Subscriber
from .java_order import hash_order, text_hash
from .sticky_equal import assign_equal_subscriptions
from .sticky_mixed import assign_mixed_subscriptions

NO_GENERATION = -1


class Claims(NamedTuple):
    """The partitions that members own before the assignment, each once."""

    owned: dict[str, list[Partition]]
    """In the order in which the leader's map gives its members."""
    claimed_twice: set[Partition]
    """Two members of one generation say they own it: neither keeps it."""
    latest_generation: int
    are_equal: bool
    """All members subscribe to the same topics."""


def assign_stickily(topics: Mapping[str, int], subscribers: Iterable[Subscriber]) -> Assigned:
    """The eager sticky assignor: ownership is what each member's user data remembers."""
    members = _in_map_order(subscribers)
    generations = {s.member_id: s.generation for s in members}
    assigned, _ = _assign(topics, members, generations)
    return assigned


def assign_cooperatively(topics: Mapping[str, int], subscribers: Iterable[Subscriber]) -> Assigned:
    """The first half of a cooperative change: what must move is taken from its owner and given to nobody yet."""
    members = _in_map_order(subscribers)
    generations = {
        s.member_id: s.joined_generation if s.joined_generation != NO_GENERATION else s.generation for s in members
    }
    assigned, moving = _assign(topics, members, generations)
    if moving is None:
        moving = _moving(members, assigned)
    for partition, member_id in moving.items():
        assigned[member_id].remove(partition)
    return assigned


def _in_map_order(subscribers: Iterable[Subscriber]) -> list[Subscriber]:
    by_id = {s.member_id: s for s in subscribers}
    return [by_id[member_id] for member_id in _order_of(tuple(by_id))]


@lru_cache(maxsize=4_096)
def _order_of(member_ids: tuple[str, ...]) -> list[str]:
    """The same members assign again and again: in later rounds, and in runs under other settings."""
    return hash_order(member_ids, text_hash)


def _assign(
    topics: Mapping[str, int], members: list[Subscriber], generations: Mapping[str, int]
) -> tuple[Assigned, dict[Partition, str] | None]:
    """The assignment, and which partitions change hands; None where that is not counted on the way."""
    claims = _claims(topics, members, generations)
    if claims.are_equal:
        return assign_equal_subscriptions(topics, claims.owned, claims.claimed_twice)
    earlier = _earlier_owners(members, generations, claims.latest_generation)
    return assign_mixed_subscriptions(topics, members, claims.owned, earlier), None


def _claims(topics: Mapping[str, int], members: list[Subscriber], generations: Mapping[str, int]) -> Claims:
    owned: dict[str, list[Partition]] = {}
    owner_of: dict[Partition, str] = {}
    claimed_twice: set[Partition] = set()
    joined = {s.member_id: s.joined_generation for s in members}
    first: tuple[str, ...] = ()
    are_equal = True
    for member in members:
        if not first:
            first = member.topics
        elif member.topics != first and set(member.topics) != set(first):
            are_equal = False
        mine = owned[member.member_id] = []
        for partition in member.owned:
            if partition[0] not in topics:
                continue
            other = owner_of.get(partition)
            if other is None:
                mine.append(partition)
                owner_of[partition] = member.member_id
                continue
            # The other's generation is read from its subscription even where the member's own comes from user data.
            generation, others = generations[member.member_id], joined[other]
            if generation < others:
                continue
            if generation == others:
                claimed_twice.add(partition)
            else:
                mine.append(partition)
            if partition in owned[other]:
                owned[other].remove(partition)
            owner_of[partition] = member.member_id
    latest = max([NO_GENERATION, *generations.values()])
    return Claims(owned, claimed_twice, latest, are_equal)


def _earlier_owners(members: list[Subscriber], generations: Mapping[str, int], latest: int) -> dict[Partition, str]:
    """By partition, the newest of its owners in generations before the latest."""
    found: dict[Partition, tuple[int, str]] = {}
    for member in members:
        generation = generations[member.member_id]
        if generation >= latest:
            continue
        for partition in member.owned:
            if partition not in found or generation > found[partition][0]:
                found[partition] = (generation, member.member_id)
    return {partition: member_id for partition, (_, member_id) in found.items()}


def _moving(members: list[Subscriber], assigned: Assigned) -> dict[Partition, str]:
    """Partitions that one member gains and another loses, with the one that gains."""
    gained: dict[Partition, str] = {}
    lost: set[Partition] = set()
    for member in members:
        before, after = set(member.owned), set(assigned[member.member_id])
        gained |= dict.fromkeys(after - before, member.member_id)
        lost |= before - after
    return {partition: member_id for partition, member_id in gained.items() if partition in lost}
