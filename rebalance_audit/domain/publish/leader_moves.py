"""Partitions that were given other leaders, and groups that rebalanced, on one time line.

A group's coordinator is the leader of one partition of __consumer_offsets: when that moves, so does the coordinator. A
change of leader of a partition that a group reads is shown as a coincidence, never as a cause.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.wording import clock, duration, shown
from rebalance_audit.domain.kinds import RebalanceKind
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reassign.model import LeaderElection

OFFSETS_TOPIC = "__consumer_offsets"
COORDINATOR_MOVED, PARTITION_LED_BY_ANOTHER = "coordinator_moved", "partition_led_by_another"
COORDINATOR_REPLICA_FAILED = "coordinator_replica_failed"
DEFAULT_OFFSETS_PARTITIONS = 50
"""offsets.topic.num.partitions, where the metadata log does not show it."""
FOLLOWS_WITHIN_MS = 60_000
"""A rebalance that begins later has another reason: a session times out after 45 s by default
(docs/measured.md#defaults-of-kafka), a member that lost its coordinator asks for the new one at its next heartbeat."""
UNNOTICED_MS = 9_000
"""broker.session.timeout.ms: as long a broker may have answered nobody before the controller takes it for failed
(docs/measured.md#defaults-of-kafka)."""
EARLY_MS = 1_000
"""The record of an election is as old as its batch, a log line as its own clock: so far apart they are one moment
(docs/measured.md#reassignments)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalanced:
    """The columns of a rebalance that matter here."""

    group_id: str
    rebalance_id: str
    at_ms: int
    """When it began, else when it is first known of."""
    trigger: str
    partitions: frozenset[tuple[str, int]] = frozenset()
    """That it moved, stopped or gave out."""

    @classmethod
    def of(cls, rebalance: Rebalance) -> Rebalanced | None:
        """None for rewrites of static members, and where nobody knows when it was."""
        r = rebalance
        times = (r.started_at_ms, r.joined_at_ms, r.assigned_at_ms)
        at_ms = next((at for at in times if at is not None), None)
        if r.kind != RebalanceKind.REBALANCE or at_ms is None:
            return None
        moved = ((m.topic, m.partition) for m in r.movements)
        return cls(
            group_id=r.group_id, rebalance_id=r.rebalance_id, at_ms=at_ms, trigger=r.trigger,
            partitions=frozenset((t, p) for t, p in moved if t is not None and p is not None),
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderMove:
    """A change of leader beside a group: a row of gold.leader_move."""

    cluster_id: str
    group_id: str
    relation: str
    """COORDINATOR_MOVED, PARTITION_LED_BY_ANOTHER or COORDINATOR_REPLICA_FAILED: the broker that failed only followed,
    but what the group commits waits until it is out of the in-sync replicas."""
    topic: str
    partition: int
    at_ms: int
    previous_leader: int | None
    """With COORDINATOR_REPLICA_FAILED the broker that failed."""
    elected: int | None
    """Of COORDINATOR_REPLICA_FAILED None: the leader stayed."""
    cause: str
    """The cause of the election."""
    reassignment_id: str | None = None
    """The move of the partition that it was part of."""
    rebalance_id: str | None = None
    """The group's first rebalance within FOLLOWS_WITHIN_MS; None: it did not rebalance."""
    after_ms: int | None = None
    """How long after it began."""
    is_cause: bool = False
    """The rebalance's own trigger is that the coordinator moved."""
    evidence: tuple[str, ...] = ()

    @property
    def place(self) -> tuple[str, str, str, int, int]:
        """What it is the change of, beside which group: the rebalance beside it may yet become another."""
        return self.group_id, self.relation, self.topic, self.partition, self.at_ms

    @property
    def is_at_once(self) -> bool:
        """The rebalance began at the moment of the election, as far as clocks show it."""
        return self.after_ms is not None and abs(self.after_ms) <= EARLY_MS

    @property
    def is_failure_at_once(self) -> bool:
        """The coordinator's broker was taken for failed at the moment at which the rebalance began."""
        return self.relation == COORDINATOR_MOVED and self.cause == "broker_failure" and self.is_at_once

    @property
    def is_failure_before(self) -> bool:
        """A broker that holds the group's records was taken for failed, and the group rebalanced around that."""
        return (
            self.relation != PARTITION_LED_BY_ANOTHER and self.cause == "broker_failure" and self.after_ms is not None
        )


def offsets_partition(group_id: str, partition_count: int) -> int:
    """The partition of __consumer_offsets a group's records are in.

    Source: Kafka's GroupMetadataManager.partitionFor: Utils.abs(groupId.hashCode()) % partitions.
    """
    code = 0
    utf16 = group_id.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(utf16), 2):
        code = (31 * code + (utf16[at] << 8 | utf16[at + 1])) & 0xFFFFFFFF
    signed = code - (1 << 32) if code >= 1 << 31 else code
    return (0 if signed == -(1 << 31) else abs(signed)) % partition_count


def leader_moves(
    elections: Iterable[LeaderElection],
    rebalances: Iterable[Rebalanced],
    groups: Iterable[str],
    *,
    offsets_partitions: int,
    reassigned: Mapping[tuple[str, int], Sequence[tuple[int, int | None, str]]] | None = None,
    replicas: Mapping[int, Sequence[int]] | None = None,
) -> list[LeaderMove]:
    """Changes of leader beside groups, by time, group and partition. `reassigned`: (topic, partition) -> (from, to,
    reassignment id). `replicas`: of each partition of __consumer_offsets. Of partitions that a group only reads, only
    changes that a rebalance with the partition followed, and so of followers of its coordinator that failed.
    """
    elections = list(elections)
    by_group: dict[str, list[Rebalanced]] = defaultdict(list)
    by_partition: dict[tuple[str, int], dict[str, list[Rebalanced]]] = defaultdict(lambda: defaultdict(list))
    for rebalance in sorted(rebalances, key=lambda r: (r.at_ms, r.rebalance_id)):
        by_group[rebalance.group_id].append(rebalance)
        for name in rebalance.partitions:
            by_partition[name][rebalance.group_id].append(rebalance)
    coordinated: dict[int, list[str]] = defaultdict(list)
    for group_id in sorted({*groups, *by_group}):
        coordinated[offsets_partition(group_id, max(1, offsets_partitions))].append(group_id)
    found = []
    for election in elections:
        if election.elected == election.previous_leader:
            continue
        name = (election.topic, election.partition)
        move = _Move(election, _reassignment((reassigned or {}).get(name, ()), election.at_ms))
        if election.topic == OFFSETS_TOPIC:
            found += [move.beside(g, COORDINATOR_MOVED, by_group.get(g, ())) for g in coordinated[election.partition]]
        else:
            moves = [move.beside(g, PARTITION_LED_BY_ANOTHER, rs) for g, rs in by_partition.get(name, {}).items()]
            found += [each for each in moves if each.rebalance_id is not None]
    rebalanced: dict[int, list[str]] = defaultdict(list)
    for group_id in by_group:
        rebalanced[offsets_partition(group_id, max(1, offsets_partitions))].append(group_id)
    for failure in _follower_failures(elections, replicas or {}):
        groups_there = rebalanced.get(failure.election.partition, ())
        moves = [failure.beside(g, COORDINATOR_REPLICA_FAILED, by_group[g]) for g in groups_there]
        found += [each for each in moves if each.rebalance_id is not None]
    return sorted(found, key=lambda m: (m.at_ms, m.group_id, m.topic, m.partition, m.evidence))


@dataclass(frozen=True, slots=True)
class _Move:
    election: LeaderElection
    reassignment_id: str | None

    def beside(self, group_id: str, relation: str, rebalances: Sequence[Rebalanced]) -> LeaderMove:
        e = self.election
        early_ms = UNNOTICED_MS if relation == COORDINATOR_REPLICA_FAILED else EARLY_MS
        at = bisect_left(rebalances, e.at_ms - early_ms, key=lambda r: r.at_ms)
        next_one = rebalances[at] if at < len(rebalances) else None
        if next_one is not None and next_one.at_ms - e.at_ms > FOLLOWS_WITHIN_MS:
            next_one = None
        return LeaderMove(
            cluster_id=e.cluster_id,
            group_id=group_id,
            relation=relation,
            topic=e.topic,
            partition=e.partition,
            at_ms=e.at_ms,
            previous_leader=e.previous_leader,
            elected=e.elected,
            cause=e.cause,
            reassignment_id=self.reassignment_id,
            rebalance_id=None if next_one is None else next_one.rebalance_id,
            after_ms=None if next_one is None else next_one.at_ms - e.at_ms,
            is_cause=next_one is not None
            and relation == COORDINATOR_MOVED
            and next_one.trigger == Cause.COORDINATOR_FAILOVER,
            evidence=e.evidence,
        )


def _follower_failures(elections: Iterable[LeaderElection], replicas: Mapping[int, Sequence[int]]) -> Iterator[_Move]:
    """Each partition of __consumer_offsets that a failed broker followed, as if it had moved from it. A broker that
    fails leaves all its partitions within a moment; of several brokers that fail in one millisecond the first counts.
    """
    failures: list[tuple[LeaderElection, set[int]]] = []
    last: dict[int, tuple[LeaderElection, set[int]]] = {}
    for e in sorted(elections, key=lambda e: (e.at_ms, e.previous_leader or 0, e.topic, e.partition)):
        if e.cause != "broker_failure" or e.previous_leader is None:
            continue
        failure = last.get(e.previous_leader)
        if failure is None or e.at_ms - failure[0].at_ms > EARLY_MS:
            failure = last[e.previous_leader] = (e, set())
            failures.append(failure)
        if e.topic == OFFSETS_TOPIC:
            failure[1].add(e.partition)
    told: set[tuple[int, int]] = set()
    for e, led in failures:
        for partition, brokers in sorted(replicas.items()):
            if e.previous_leader in brokers and partition not in led and (e.at_ms, partition) not in told:
                told.add((e.at_ms, partition))
                yield _Move(replace(e, topic=OFFSETS_TOPIC, partition=partition, elected=None), None)


def _reassignment(moves: Sequence[tuple[int, int | None, str]], at_ms: int) -> str | None:
    return next((i for from_ms, to_ms, i in moves if from_ms <= at_ms and (to_ms is None or at_ms <= to_ms)), None)


def leader_move_row(move: LeaderMove) -> dict[str, Any]:
    """The change as a row of gold.leader_move."""
    return asdict(move)


def sentence(move: LeaderMove) -> str:
    """The change in one line for people."""
    if move.relation == COORDINATOR_REPLICA_FAILED:
        when = f"{duration(abs(move.after_ms or 0))} {'earlier' if (move.after_ms or 0) < 0 else 'later'}"
        return (
            f"{clock(move.at_ms)}  broker {move.previous_leader}, which holds a copy of {shown(move.topic)}-"
            f"{move.partition}, is taken for failed: commits waited for it; a rebalance began {when}"
        )
    new = "nobody leads it now" if move.elected is None else f"broker {move.elected} leads it now"
    old = "" if move.previous_leader is None else f", broker {move.previous_leader} did"
    what = "the coordinator moved" if move.relation == COORDINATOR_MOVED else "another leader"
    why = f" (reassignment {shown(move.reassignment_id)})" if move.reassignment_id else f" ({move.cause})"
    then = "no rebalance followed"
    if move.after_ms is not None:
        when = "at the same moment" if move.is_at_once else f"{duration(move.after_ms)} later"
        then = f"{'it caused the rebalance' if move.is_cause else 'a rebalance began'} {when}"
    return f"{clock(move.at_ms)}  {what}: {shown(move.topic)}-{move.partition}, {new}{old}{why}; {then}"
