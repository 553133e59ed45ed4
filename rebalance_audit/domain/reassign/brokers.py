"""Brokers, controllers and throttles over time: who was there when, and what was set when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.reassign.model import Throttle

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
REPLICA_LISTS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_NOWHERE = ("AAAAAAAAAAAAAAAAAAAAAA", "AAAAAAAAAAAAAAAAAAAAAQ")
"""Reserved ids of directories: of a broker that comes from ZooKeeper mode, and not yet assigned."""
THROTTLES = (*RATES, *REPLICA_LISTS, "replica.alter.log.dirs.io.max.bytes.per.second")


@dataclass(slots=True)
class Brokers:
    """Absences per broker: fenced, unregistered, or gone from ZooKeeper."""

    absences: dict[int, list[tuple[int, int | None, str]]] = field(default_factory=lambda: defaultdict(list))
    """Broker -> (from, to or None while it is away, ref)."""
    in_shutdown: set[int] = field(default_factory=set)
    known: set[int] = field(default_factory=set)
    disks: dict[int, frozenset[str]] = field(default_factory=dict)
    """Broker -> ids of the log directories it has."""
    disks_lost: dict[int, tuple[int, str]] = field(default_factory=dict)
    """Broker -> (when it last lost one, ref)."""
    lost_replicas: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    """(partition, broker) whose disk failed -> (since, ref)."""

    def lost_disk(self, broker: int, partitions: Iterable[str], at_ms: int, ref: str) -> None:
        for name in partitions:
            self.lost_replicas.setdefault((name, broker), (at_ms, ref))

    def has_disks(self, broker: int, directories: Iterable[str], at_ms: int, ref: str) -> None:
        now = frozenset(directories)
        if now < self.disks.get(broker, frozenset()):
            self.disks_lost[broker] = (at_ms, ref)
        self.disks[broker] = now

    def lost_by(self, partition: str, broker: int, directory: str | None, since_ms: int, until_ms: int) -> str | None:
        """The evidence that a broker's copy went with a disk: a line; or that the broker has no longer the copy's
        directory, or lost one before it could say where the copy lies."""
        by_line, by_record = self.lost_replicas.get((partition, broker)), self.disks_lost.get(broker)
        if by_line is not None and by_line[0] <= until_ms:
            return by_line[1]
        if by_record is None or by_record[0] > until_ms or directory is None:
            return None
        is_nowhere = directory in _NOWHERE and by_record[0] >= since_ms
        return by_record[1] if is_nowhere or directory not in {*_NOWHERE, *self.disks[broker]} else None

    def here(self, broker: int, at_ms: int) -> None:
        self.known.add(broker)
        self.in_shutdown.discard(broker)
        spans = self.absences.get(broker)
        if spans and spans[-1][1] is None:
            spans[-1] = (spans[-1][0], at_ms, spans[-1][2])

    def away(self, broker: int, at_ms: int, ref: str) -> None:
        self.known.add(broker)
        spans = self.absences[broker]
        if not spans or spans[-1][1] is not None:
            spans.append((at_ms, None, ref))

    def is_away(self, broker: int) -> bool:
        spans = self.absences.get(broker)
        return bool(spans) and spans[-1][1] is None if spans else False

    def was_away(self, broker: int, at_ms: int) -> bool:
        spans = self.absences.get(broker, ())
        return any(since_ms <= at_ms and (until_ms is None or at_ms < until_ms) for since_ms, until_ms, _ in spans)

    def away_between(self, broker: int, from_ms: int, to_ms: int) -> tuple[int, str] | None:
        """(since, ref) of an absence that covers most of the stretch."""
        for since_ms, until_ms, ref in reversed(self.absences.get(broker, ())):
            overlap_ms = min(to_ms, to_ms if until_ms is None else until_ms) - max(from_ms, since_ms)
            if 2 * overlap_ms > to_ms - from_ms:
                return since_ms, ref
        return None


@dataclass(slots=True)
class Throttles:
    """Replication throttles by resource and name, each from when it was set to when it was changed."""

    cluster_id: str
    set_now: dict[tuple[str, str, str], Throttle] = field(default_factory=dict)
    past: list[Throttle] = field(default_factory=list)

    def set(self, resource_type: str, resource: str, name: str, value: str | None, at_ms: int | None, ref: str) -> None:
        key = (resource_type, resource, name)
        before = self.set_now.get(key)
        if before is not None and before.value == value:
            return
        self.remove(resource_type, resource, name, at_ms, ref)
        self.set_now[key] = Throttle(
            cluster_id=self.cluster_id,
            resource_type=resource_type,
            resource=resource,
            name=name,
            value=value,
            set_at_ms=at_ms,
            evidence=(ref,),
        )

    def remove(self, resource_type: str, resource: str, name: str, at_ms: int | None, ref: str) -> None:
        before = self.set_now.pop((resource_type, resource, name), None)
        if before is not None:
            self.past.append(
                Throttle(
                    cluster_id=self.cluster_id,
                    resource_type=resource_type,
                    resource=resource,
                    name=name,
                    value=before.value,
                    set_at_ms=before.set_at_ms,
                    removed_at_ms=at_ms,
                    evidence=(*before.evidence, ref),
                )
            )

    def all(self) -> tuple[Throttle, ...]:
        return tuple(
            sorted(
                (*self.past, *self.set_now.values()),
                key=lambda t: (t.set_at_ms or 0, t.resource_type, t.resource, t.name),
            )
        )

    def at(self, at_ms: int) -> list[Throttle]:
        """The throttles in force at an instant."""
        return [
            t
            for t in (*self.set_now.values(), *self.past)
            if (t.set_at_ms or 0) <= at_ms and (t.removed_at_ms is None or at_ms < t.removed_at_ms)
        ]


def throttled_replicas(value: str | None, partition: int) -> frozenset[int] | None:
    """Brokers a topic's list `partition:broker,…` names for a partition; None is all of them (`*`, or hidden)."""
    if value is None or value.strip() == "*":
        return None
    pairs = (pair.strip().partition(":") for pair in value.split(","))
    stated = (java_int(broker) for number, _, broker in pairs if number == str(partition))
    return frozenset(broker for broker in stated if broker is not None)


def slows(throttles: list[Throttle], topic: str, partition: int, leader: int | None, adding: tuple[int, ...]) -> bool:
    """Whether copying to one of `adding` is throttled, at its leader or at itself."""
    lists = {t.name: t.value for t in throttles if t.resource_type == "topic" and t.resource == topic}
    for (rate, replicas), brokers in zip(
        zip(RATES, REPLICA_LISTS, strict=True), ((() if leader is None else (leader,)), adding), strict=True
    ):
        if replicas not in lists:
            continue
        named = throttled_replicas(lists[replicas], partition)
        limited = {t.resource for t in throttles if t.resource_type == "broker" and t.name == rate}
        if any((named is None or broker in named) and (str(broker) in limited or "" in limited) for broker in brokers):
            return True
    return False
