"""The coordinator's uniform assignor where members want different topics.

Source: UniformHeterogeneousAssignmentBuilder of Kafka 4.3.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

ByTopic = dict[int, list[int]]
MOST_ROUNDS = 16
_SIGN = 1 << 63
_BITS = (1 << 64) - 1


def _id_key(topic_id: int) -> tuple[int, int]:
    """Uuid.compareTo: two signed halves."""
    return ((topic_id >> 64) ^ _SIGN, (topic_id & _BITS) ^ _SIGN)


class _Balance:
    """The members of one topic by load, walked from both ends while partitions go from the full to the empty."""

    def __init__(self, members: list[int], loads: list[int]) -> None:
        self.loads = loads
        self.members = sorted(members, key=lambda m: (loads[m], m))
        self.low_end, self.low_load, self.next_low = 0, loads[self.members[0]] - 1, 0
        self.high_start = self.high_end = len(self.members)
        self.high_load, self.next_high = loads[self.members[-1]] + 1, len(self.members) - 1
        self.imbalance = loads[self.members[-1]] - loads[self.members[0]]

    def emptiest(self) -> int:
        if self.next_low >= self.low_end:
            self.low_load += 1
            while self.low_end < len(self.members) and self.loads[self.members[self.low_end]] == self.low_load:
                self.low_end += 1
            self.next_low = 0
        self.next_low += 1
        return self.members[self.next_low - 1]

    def fullest(self) -> int | None:
        if self.next_high < self.high_start:
            if self.high_end <= self.high_start and self.high_start > 0:
                self.high_load = self.loads[self.members[self.high_start - 1]]
            else:
                self.high_load -= 1
            while self.high_start > 0 and self.loads[self.members[self.high_start - 1]] == self.high_load:
                self.high_start -= 1
            self.next_high = self.high_end - 1
        if self.next_high < 0:
            return None
        self.next_high -= 1
        return self.members[self.next_high + 1]

    def leave_out_fullest(self) -> None:
        at, last = self.next_high + 1, self.high_end - 1
        self.members[at], self.members[last] = self.members[last], self.members[at]
        self.high_end -= 1

    def is_even(self) -> bool:
        return self.high_load - self.low_load <= 1


class _Uniform:
    def __init__(
        self, topics: Mapping[int, int], wants: Mapping[str, Iterable[int]], targets: Mapping[str, ByTopic]
    ) -> None:
        self.topics = topics
        self.ids = list(wants)
        self.takers: dict[int, list[int]] = {}
        for member, topic_ids in enumerate(wants.values()):
            for topic in topic_ids:
                self.takers.setdefault(topic, []).append(member)
        self.loads = [0] * len(self.ids)
        self.owner: dict[int, list[int | None]] = {topic: [None] * topics[topic] for topic in self.takers}
        self.kept: list[ByTopic] = []
        for member, (member_id, topic_ids) in enumerate(wants.items()):
            kept = {t: list(numbers) for t, numbers in targets[member_id].items() if t in set(topic_ids)}
            self.kept.append(kept)
            for topic, numbers in kept.items():
                self.loads[member] += len(numbers)
                for number in numbers:
                    self.owner[topic][number] = member

    def in_order(self, topics: Iterable[int]) -> list[int]:
        """Topics with many partitions per member first."""
        return sorted(topics, key=lambda t: (-(self.topics[t] / len(self.takers[t])), len(self.takers[t]), _id_key(t)))

    def give(self, topic: int, number: int, member: int) -> None:
        before = self.owner[topic][number]
        if before is not None:
            self.kept[before][topic].remove(number)
            self.loads[before] -= 1
        self.kept[member].setdefault(topic, []).append(number)
        self.owner[topic][number] = member
        self.loads[member] += 1

    def hand_out(self) -> None:
        free = {t: [n for n, owner in enumerate(owners) if owner is None] for t, owners in self.owner.items()}
        for topic in self.in_order(t for t in free if free[t]):
            balance = _Balance(self.takers[topic], self.loads)
            for number in free[topic]:
                self.give(topic, number, balance.emptiest())

    def even_out(self) -> None:
        """Evens out topic after topic, round and round, until a whole round changes nothing."""
        order = self.in_order(t for t in self.takers if len(self.takers[t]) >= 2)
        last: int | None = None
        for _ in range(MOST_ROUNDS):
            for at, topic in enumerate(order):
                if at == last:
                    return
                if self.even_out_topic(topic) or last is None:
                    last = at

    def even_out_topic(self, topic: int) -> bool:
        balance = _Balance(self.takers[topic], self.loads)
        if balance.imbalance <= 1:
            return False
        held: dict[int | None, list[int]] = {}
        for number, owner in enumerate(self.owner[topic]):
            held.setdefault(owner, []).append(number)
        has_moved = False
        while not balance.is_even():
            full = balance.fullest()
            while full is not None and not held.get(full):
                balance.leave_out_fullest()
                full = balance.fullest()
            if full is None:
                break
            number = held[full].pop()
            empty = balance.emptiest()
            if balance.is_even():
                break
            self.give(topic, number, empty)
            has_moved = True
        return has_moved


def assign_uniformly_mixed(
    topics: Mapping[int, int], wants: Mapping[str, Iterable[int]], targets: Mapping[str, ByTopic]
) -> dict[str, ByTopic]:
    """`wants` in the coordinator's map order of members."""
    work = _Uniform(topics, wants, targets)
    work.hand_out()
    work.even_out()
    return {
        member_id: {topic: numbers for topic, numbers in work.kept[at].items() if numbers}
        for at, member_id in enumerate(work.ids)
    }
