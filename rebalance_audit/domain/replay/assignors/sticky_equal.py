"""The sticky assignors where all members want the same topics. Source: ConstrainedAssignmentBuilder of Kafka 4.3.0."""

from __future__ import annotations

from collections.abc import Mapping

from .consumers import Assigned, Partition
from .java_order import text_key


class _Equal:
    def __init__(
        self, topics: Mapping[str, int], owned: Mapping[str, list[Partition]], claimed_twice: set[Partition]
    ) -> None:
        self.topics, self.owned, self.claimed_twice = topics, owned, claimed_twice
        self.least, self.larger = divmod(sum(topics.values()), len(owned))
        """Every member gets at least `least`; `larger` members get one more."""
        self.most = self.least + (self.larger > 0)
        self.has_one_topic = len(topics) == 1
        """Its partitions sort by number then, as they are."""
        self.larger_now = 0
        self.assigned: Assigned = {member_id: [] for member_id in owned}
        self.below: list[str] = []
        """Members with fewer than `least`."""
        self.at_least: list[str] = []
        """Members with exactly `least` that may get one more."""
        self.given_up: dict[Partition, str] = {}
        self.moving: dict[Partition, str] = {}

    def keep(self) -> None:
        """Each member keeps what it has, as far as its share goes."""
        for member_id, partitions in self.owned.items():
            mine = [p for p in partitions if p not in self.claimed_twice] if self.claimed_twice else partitions[:]
            mine.sort(key=None if self.has_one_topic else lambda p: (p[1], text_key(p[0])))
            if len(mine) < self.least:
                kept = len(mine)
                self.below.append(member_id)
            elif len(mine) >= self.most and self.larger_now < self.larger:
                kept = self.most
                self.larger_now += 1
                if self.larger_now == self.larger:
                    self.at_least.clear()
            else:
                kept = self.least
                if self.larger_now < self.larger:
                    self.at_least.append(member_id)
            self.assigned[member_id] += mine[:kept]
            if kept < len(mine):
                self.given_up |= dict.fromkeys(mine[kept:], member_id)

    def free(self) -> list[Partition]:
        """Partitions without an owner, by topic and number.

        Kafka walks the kept ones beside all; one of a number that the topic no longer has stops that walk, and all
        behind it count as free.
        """
        kept = [p for mine in self.assigned.values() for p in mine]
        kept.sort(key=None if self.has_one_topic else lambda p: (text_key(p[0]), p[1]))
        found, at = [], 0
        for topic in sorted(self.topics, key=text_key):
            for number in range(self.topics[topic]):
                if at < len(kept) and kept[at] == (topic, number):
                    at += 1
                else:
                    found.append((topic, number))
        return found

    def hand_out(self, free: list[Partition]) -> None:
        self.below.sort(key=text_key)
        self.at_least.sort(key=text_key)
        turn = 0
        for partition in free:
            if turn >= len(self.below):
                turn = 0
            if self.below:
                member_id = self.below[turn]
                turn += 1
            else:
                member_id = self.at_least.pop(0)
            mine = self.assigned[member_id]
            mine.append(partition)
            if self.given_up.get(partition, member_id) != member_id or partition in self.claimed_twice:
                self.moving[partition] = member_id
            if len(mine) == self.least:
                turn -= 1
                del self.below[turn]
                self.at_least.append(member_id)


def assign_equal_subscriptions(
    topics: Mapping[str, int], owned: Mapping[str, list[Partition]], claimed_twice: set[Partition]
) -> tuple[Assigned, dict[Partition, str]]:
    """The assignment, and the partitions that change hands with who gets them. `owned` in the leader's map order."""
    work = _Equal(topics, owned, claimed_twice)
    work.keep()
    work.hand_out(work.free())
    return work.assigned, work.moving
