"""Leader elections of the last minutes, from the metadata log as it is landed: the tables have them seconds later."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from rebalance_audit.domain.metadata import MetadataReader, SourceMetadata
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.publish.leader_moves import (
    DEFAULT_OFFSETS_PARTITIONS,
    OFFSETS_TOPIC,
    PARTITION_LED_BY_ANOTHER,
    UNNOTICED_MS,
    LeaderMove,
    Rebalanced,
    leader_moves,
    offsets_partition,
)
from rebalance_audit.domain.reassign import KRaftFold, LeaderElection, PartitionState

KEPT_S = 600.0
"""Elections stay for so long before what the tables hold: by then these have the rebalances beside them, too."""
MOST_ELECTIONS = 5_000
"""Chosen: a hundred failures of brokers. Of more, the newest stay."""

_Key = tuple[int, str, int]


@dataclass(frozen=True, slots=True)
class MetadataPast:
    """The partitions of a cluster as the tables have them."""

    states: Mapping[tuple[str, int], PartitionState] = field(default_factory=dict)
    """By topic id and partition."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Topic id -> topic."""
    next_offset: int = 0
    """All changes of partitions before this offset are in them."""


class RecentElections:
    """Of one cluster. Those that matter to incidents: elections of __consumer_offsets, and the first sign of each
    broker that failed."""

    def __init__(self, cluster_id: str, past: Callable[[], MetadataPast]) -> None:
        self._cluster_id, self._past = cluster_id, past
        self._fold: KRaftFold | None = None
        self._reader = MetadataReader(has_base=True)
        self._known: dict[_Key, tuple[LeaderElection, float]] = {}
        """With the moment at which each was heard of."""
        self._replicas_now: dict[int, tuple[int, ...]] | None = None

    def __bool__(self) -> bool:
        return bool(self._known)

    @property
    def since_ms(self) -> int:
        """The instant of the first."""
        return min((election.at_ms for election, _ in self._known.values()), default=0)

    def take(self, records: Iterable[SourceMetadata], at: float) -> set[int]:
        """The partitions of __consumer_offsets whose groups they may concern. `at`: this moment of the clock."""
        fold = self._fold or self._begin()
        fold.read(self._reader.read(sorted(records, key=lambda r: (r.snapshot is None, r.offset))))
        self._reader.refused.clear()
        self._reader.gaps.clear()
        new = [e for e in fold.take_elections() if e.cause != "reassignment"]  # whose, only the tables know
        _forget_what_ended(fold)
        self._replicas_now = None
        return self._keep(new, at)

    def published(self, until: float, stored: Sequence[LeaderElection]) -> set[int]:
        """The tables hold all that was landed before this moment, and have these elections since `since_ms`. The
        partitions as for `take`."""
        before, of_tables = self._known, {_said(e): e for e in stored}  # which may cite another node's copy
        self._known = {key: (election, at) for key, (election, at) in before.items() if at >= until}
        for key, (election, at) in before.items():
            if until - KEPT_S <= at < until and _said(election) in of_tables:
                self._known[key] = of_tables[_said(election)], at
        since_ms = self.since_ms
        concerned = self._keep((e for e in stored if self._known and e.at_ms >= since_ms), until)
        changed = (e for key, (e, _) in before.items() if key not in self._known or self._known[key][0] != e)
        return concerned.union(*map(self._concerns, changed))

    def moves_of(self, group_id: str, rebalances: Sequence[Rebalance]) -> list[LeaderMove]:
        """The changes of leaders beside the group's rebalances, as gold.leader_move has them."""
        own = self._partition_of(group_id)
        found = [e for e, _ in self._known.values() if e.topic != OFFSETS_TOPIC or e.partition == own or _fails(e)]
        if not found:
            return []
        since_ms = min(e.at_ms for e in found) - UNNOTICED_MS
        near = [r for r in map(Rebalanced.of, rebalances) if r is not None and r.at_ms >= since_ms]
        moves = leader_moves(
            found, near, (), offsets_partitions=self._count, replicas={own: self._replicas.get(own, ())}
        )
        return [m for m in moves if m.relation != PARTITION_LED_BY_ANOTHER and m.rebalance_id is not None]

    def concerned(self, groups: Iterable[str], partitions: Collection[int]) -> set[str]:
        return {group_id for group_id in groups if self._partition_of(group_id) in partitions}

    def _concerns(self, election: LeaderElection) -> set[int]:
        own = {election.partition} if election.topic == OFFSETS_TOPIC else set()
        return own | {
            p for p, brokers in self._replicas.items() if _fails(election) and election.previous_leader in brokers
        }

    @property
    def _replicas(self) -> Mapping[int, tuple[int, ...]]:
        """Of each partition of __consumer_offsets."""
        if self._replicas_now is None:
            states = {} if self._fold is None else self._fold.states()
            self._replicas_now = {p: s.replicas for (topic, p), s in states.items() if topic == OFFSETS_TOPIC}
        return self._replicas_now

    @property
    def _count(self) -> int:
        return len(self._replicas) or DEFAULT_OFFSETS_PARTITIONS

    def _partition_of(self, group_id: str) -> int:
        return _partition_of(group_id, self._count)

    def _begin(self) -> KRaftFold:
        past = self._past()
        self._fold = fold = KRaftFold(self._cluster_id)
        fold.begin(past.states, past.names)
        self._reader.next_offset = past.next_offset or None
        return fold

    def _keep(self, elections: Iterable[LeaderElection], at: float) -> set[int]:
        concerned: set[int] = set()
        for e in sorted(elections, key=lambda e: (e.at_ms, e.topic, e.partition)):
            is_of_groups = e.topic == OFFSETS_TOPIC
            if not is_of_groups and not _fails(e):
                continue
            # Of a failed broker's other partitions the first stands for all: `leader_moves` asks only for the broker.
            key = (e.at_ms, OFFSETS_TOPIC, e.partition) if is_of_groups else (e.at_ms, "", e.previous_leader or 0)
            known = self._known.get(key)
            if known is not None and (known[0] == e or (not is_of_groups and _place(known[0]) <= _place(e))):
                continue
            self._known[key] = e, at
            concerned |= self._concerns(e)
        for key in sorted(self._known)[: max(0, len(self._known) - MOST_ELECTIONS)]:
            del self._known[key]
        return concerned


def _fails(election: LeaderElection) -> bool:
    return election.cause == "broker_failure" and election.previous_leader is not None


def _said(election: LeaderElection) -> tuple[int, str, int, int | None, int | None, str]:
    e = election
    return e.at_ms, e.topic, e.partition, e.previous_leader, e.elected, e.cause


def _place(election: LeaderElection) -> tuple[str, int]:
    return election.topic, election.partition


def _forget_what_ended(fold: KRaftFold) -> None:
    """Nobody asks this fold for anything but elections and states."""
    for _ in fold.attempts.take_ended():
        pass
    fold.throttles.past.clear()
    fold.around.without_controller.clear()


@lru_cache(maxsize=20_000)
def _partition_of(group_id: str, count: int) -> int:
    return offsets_partition(group_id, count)
