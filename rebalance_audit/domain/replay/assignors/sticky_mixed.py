"""The sticky assignors where members want different topics. Source: GeneralAssignmentBuilder of Kafka 4.3.0."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .consumers import Assigned, NotAssigned, Partition, Subscriber
from .java_order import grown_table, hash_order, partition_hash, text_key

Pair = tuple[str, str]
"""(from, to)"""


class _Moves:
    """Moves of this assignment so far, so that a move back undoes one instead of adding another."""

    def __init__(self) -> None:
        self.pair_of: dict[Partition, Pair] = {}
        self.by_topic: dict[str, dict[Pair, _HashSet]] = {}

    def move(self, partition: Partition, source: str, target: str) -> None:
        before = self.pair_of.pop(partition, None)
        if before is not None:
            moved = self.by_topic[partition[0]]
            moved[before].keys.pop(partition)
            if not moved[before].keys:
                del moved[before]
            if before[0] == target:
                return
            source = before[0]
        self.pair_of[partition] = (source, target)
        self.by_topic.setdefault(partition[0], {}).setdefault((source, target), _HashSet()).add(partition)

    def instead(self, partition: Partition, source: str, target: str) -> Partition:
        """A partition that went the opposite way, if there is one: it goes back instead."""
        if partition in self.pair_of:
            source = self.pair_of[partition][0]
        opposite = self.by_topic.get(partition[0], {}).get((target, source))
        return partition if opposite is None else opposite.first()


class _HashSet:
    """Only what Java's set shows: its first key depends on how large it once was."""

    def __init__(self) -> None:
        self.keys: dict[Partition, None] = {}
        self.largest = 0

    @property
    def shown(self) -> tuple[tuple[Partition, ...], int]:
        """All that its first key follows from."""
        return tuple(self.keys), grown_table(self.largest)

    def add(self, partition: Partition) -> None:
        self.keys[partition] = None
        self.largest = max(self.largest, len(self.keys))

    def first(self) -> Partition:
        return hash_order(self.keys, partition_hash, grown_table(self.largest))[0]


class _Mixed:
    def __init__(
        self,
        topics: Mapping[str, int],
        members: Sequence[Subscriber],
        owned: Mapping[str, list[Partition]],
        earlier: Mapping[Partition, str],
    ) -> None:
        self.topics, self.earlier = topics, earlier
        self.assigned: Assigned = {member_id: list(mine) for member_id, mine in owned.items()}
        self.wants = {m.member_id: [t for t in m.topics if t in topics] for m in members}
        self.takers = {topic: [m.member_id for m in members if topic in m.topics] for topic in topics}
        self.rank = {member_id: text_key(member_id) for member_id in owned}
        self.owner = {p: member_id for member_id, mine in owned.items() for p in mine}
        self.all = [
            (topic, number)
            for topic in sorted(topics, key=lambda t: (len(self.takers[t]), text_key(t)))
            for number in range(topics[topic])
        ]
        self.moves = _Moves()
        self.must_revoke = False

    def keep(self) -> list[Partition]:
        kept = []
        for member_id, mine in self.assigned.items():
            staying = [p for p in mine if p[0] in self.wants[member_id]]
            self.must_revoke |= len(staying) < len(mine)
            self.assigned[member_id] = staying
            kept += staying
        return kept

    def free(self, kept: list[Partition]) -> list[Partition]:
        """As in sticky_equal: a kept partition whose number no longer exists frees all behind it."""
        kept.sort(key=lambda p: (len(self.takers[p[0]]), text_key(p[0]), p[1]))
        found, at = [], 0
        for partition in self.all:
            if at < len(kept) and kept[at] == partition:
                at += 1
            else:
                found.append(partition)
        return found

    def by_load(self) -> list[str]:
        return sorted(self.assigned, key=lambda m: (len(self.assigned[m]), self.rank[m]))

    def least_loaded(self, topic: str) -> str | None:
        able = [m for m in self.assigned if topic in self.wants[m]]
        return min(able, key=lambda m: (len(self.assigned[m]), self.rank[m]), default=None)

    def could_have(self, member_id: str) -> int:
        return sum(self.topics[topic] for topic in self.wants[member_id])

    def is_fixed(self, member_id: str) -> bool:
        mine = self.assigned[member_id]
        return len(mine) >= self.could_have(member_id) and all(len(self.takers[p[0]]) < 2 for p in mine)

    def is_balanced(self) -> bool:
        sizes = {m: len(mine) for m, mine in self.assigned.items()}
        if min(sizes.values()) >= max(sizes.values()) - 1:
            return True
        owner = {p: m for m, mine in self.assigned.items() for p in mine}
        for member_id in self.by_load():
            size = sizes[member_id]
            if size == self.could_have(member_id):
                continue
            for topic in self.wants[member_id]:
                for number in range(self.topics[topic]):
                    other = owner[topic, number]
                    if other != member_id and size + 1 < sizes[other]:
                        return False
        return True

    def spread(self, assigned: Assigned) -> int:
        """Sum of all differences between two members' loads."""
        sizes = [len(mine) for mine in assigned.values()]
        return sum(abs(a - b) for at, a in enumerate(sizes) for b in sizes[at + 1 :])

    def move(self, partition: Partition, target: str) -> None:
        partition = self.moves.instead(partition, self.owner[partition], target)
        source = self.owner[partition]
        self.moves.move(partition, source, target)
        self.assigned[source].remove(partition)
        self.assigned[target].append(partition)
        self.owner[partition] = target

    def state(self) -> object:
        """All that a pass over the partitions follows from."""
        moves = {(topic, pair, of[pair].shown) for topic, of in self.moves.by_topic.items() for pair in of}
        return tuple(self.owner.items()), frozenset(self.moves.pair_of.items()), frozenset(moves)

    def better(self, partition: Partition) -> str | None:
        """The member that should have it instead of its owner."""
        size = len(self.assigned[self.owner[partition]])
        before = self.earlier.get(partition)
        if before is not None and size > len(self.assigned[before]) + 1:
            return before
        if any(size > len(self.assigned[m]) + 1 for m in self.takers[partition[0]]):
            return self.least_loaded(partition[0])
        return None

    def reassign(self, partitions: Iterable[Partition]) -> bool:
        """NotAssigned where Kafka's loop never ends: moves that undo each other bring back what was there before."""
        some = False
        seen: set[object] = set()
        while True:
            if (state := self.state()) in seen:
                raise NotAssigned("Kafka's sticky assignor never ends on what the members would say they own.")
            seen.add(state)
            moved = False
            for partition in partitions:
                if self.is_balanced():
                    break
                target = self.better(partition)
                if target is not None:
                    self.move(partition, target)
                    moved = some = True
            if not moved:
                return some

    def balance(self, free: list[Partition]) -> Assigned:
        is_first = not any(self.assigned.values())
        for partition in free:
            target = self.least_loaded(partition[0])
            if target is not None:
                self.assigned[target].append(partition)
                self.owner[partition] = target
        movable = [p for p in self.all if len(self.takers[p[0]]) >= 2]
        free = [p for p in free if len(self.takers[p[0]]) >= 2]
        fixed = {m: self.assigned.pop(m) for m in [m for m in self.assigned if self.is_fixed(m)]}
        before = {member_id: list(mine) for member_id, mine in self.assigned.items()}
        if not self.must_revoke:
            self.reassign(free)
        if self.reassign(movable) and not is_first and self.spread(self.assigned) >= self.spread(before):
            self.assigned = before
        return self.assigned | fixed


def assign_mixed_subscriptions(
    topics: Mapping[str, int],
    members: Sequence[Subscriber],
    owned: Mapping[str, list[Partition]],
    earlier: Mapping[Partition, str],
) -> Assigned:
    """`owned` in the leader's map order; `earlier` is who had a partition before its present owner.

    KeyError where Kafka itself fails: a partition of a topic whose number of partitions shrank, or an earlier owner
    that has no part in the balancing. NotAssigned where Kafka never ends.
    """
    work = _Mixed(topics, members, owned, earlier)
    return work.balance(work.free(work.keep()))
