"""The assignors of the group coordinator (KIP-848): range and uniform. Source: group-coordinator of Kafka 4.3.0.

Topics are named by their ids (128 bits), since the order of ids decides ties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from .consumers import in_member_order, in_pieces
from .java_order import copied_table, hash_order, id_hash, number_hash, text_hash
from .server_mixed import assign_uniformly_mixed

ByTopic = dict[int, list[int]]
"""Partition numbers by topic id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerMember:
    """One member as the coordinator sees it when it computes a target assignment."""

    member_id: str
    topic_ids: tuple[int, ...]
    instance_id: str | None = None
    target: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    """Its part of the target assignment before this one."""


def _are_equal(members: list[ServerMember]) -> bool:
    return len({frozenset(m.topic_ids) for m in members}) <= 1


def assign_server_ranges(topics: Mapping[int, int], members: Iterable[ServerMember]) -> dict[str, ByTopic]:
    """Each topic in consecutive pieces over its members, static ones first by instance id."""
    ordered = in_member_order(members)
    assigned: dict[str, ByTopic] = {m.member_id: {} for m in ordered}
    for topic, count in topics.items():
        for member_id, piece in in_pieces(count, [m.member_id for m in ordered if topic in m.topic_ids]):
            if piece:
                assigned[member_id][topic] = list(piece)
    return assigned


def assign_uniformly(topics: Mapping[int, int], members: Iterable[ServerMember]) -> dict[str, ByTopic]:
    """All members get the same number of partitions, and keep what they have as far as that allows.

    `members` in the order in which the coordinator's map took them.
    """
    by_id = {m.member_id: m for m in members}
    ordered = [by_id[member_id] for member_id in hash_order(by_id, text_hash)]
    if not ordered:
        return {}
    if not _are_equal(ordered):
        targets = {m.member_id: _in_map_order(m.target) for m in ordered}
        return assign_uniformly_mixed(topics, {m.member_id: m.topic_ids for m in ordered}, targets)
    if not ordered[0].topic_ids:
        return {m.member_id: {} for m in ordered}
    return _uniform(topics, ordered)


def _in_map_order(target: Mapping[int, Iterable[int]]) -> ByTopic:
    """Topics and partitions in the order in which the coordinator's maps and sets give them."""
    found: ByTopic = {}
    for topic in hash_order(target, id_hash):
        numbers = list(dict.fromkeys(target[topic]))
        found[topic] = hash_order(numbers, number_hash, copied_table(len(numbers)))
    return found


def _uniform(topics: Mapping[int, int], ordered: list[ServerMember]) -> dict[str, ByTopic]:
    wanted = ordered[0].topic_ids
    has_owner = {(topic, number) for m in ordered for topic, numbers in m.target.items() for number in numbers}
    free = [
        (topic, number)
        for topic in hash_order(wanted, id_hash, copied_table(len(wanted)))
        for number in range(topics[topic])
        if (topic, number) not in has_owner
    ]
    share, larger = divmod(sum(topics[topic] for topic in wanted), len(ordered))
    assigned: dict[str, ByTopic] = {}
    room: list[tuple[str, int]] = []
    for place, member in enumerate(ordered):
        has_extra = larger > 0
        quota = share + has_extra
        kept: ByTopic = {}
        for topic, numbers in _in_map_order(member.target).items():
            if topic not in wanted:
                continue
            staying, leaving = numbers[:quota], numbers[quota:]
            quota -= len(staying)
            free += [(topic, number) for number in leaving]
            if staying:
                kept[topic] = staying
        if quota > 0 and has_extra and len(ordered) - place > larger:
            # Enough members follow that may already have one more.
            quota -= 1
            has_extra = False
        if quota > 0:
            room.append((member.member_id, quota))
        larger -= has_extra
        assigned[member.member_id] = kept
    at = 0
    for member_id, quota in room:
        for topic, number in free[at : at + quota]:
            assigned[member_id].setdefault(topic, []).append(number)
        at += quota
    return assigned
