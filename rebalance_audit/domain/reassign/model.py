"""Reassignments, leader elections and throttles: rows of gold.reassignment and its companions.

Instants are epoch milliseconds UTC. None means not known. What outcomes, phases, blockers and causes there are
stands in `domain.tables`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from rebalance_audit.domain.frozen import by_fields


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionState:
    """A partition as its metadata say."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int | None
    """None: nobody leads it, or it is not known who does."""
    is_leader_known: bool = True
    is_isr_known: bool = True
    """False: no line has shown it yet, and `isr` is empty."""
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    at_ms: int | None = None
    """Since when."""
    ref: str = ""

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def target(self) -> tuple[int, ...]:
        """The replicas the partition moves to, in the order of the request. Ask only while it is moving."""
        return tuple(r for r in self.replicas if r not in self.removing)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentStep:
    """One state of (replicas, leader, ISR as a set) on the way; the first is the one before the request."""

    step: int
    at_ms: int | None
    """Since when; of the first None where evidence begins later."""
    phase: str
    replicas: tuple[int, ...]
    leader: int | None
    isr: tuple[int, ...]
    is_leader_known: bool = True
    is_isr_known: bool = True
    leader_epoch: int | None = None
    partition_epoch: int | None = None
    evidence: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """How far one new replica came: when it fetched, and when it was in sync."""

    broker_id: int
    started_at_ms: int | None = None
    """It began to fetch: the new broker's log."""
    in_isr_at_ms: int | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reassignment:
    """One attempt to give one partition another list of replicas."""

    cluster_id: str
    reassignment_id: str
    topic: str
    partition: int
    topic_id: str | None = None
    original_replicas: tuple[int, ...] | None = None
    """Before the first of a chain of requests that replaced each other."""
    target_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] = ()
    """The adding replicas as Kafka has them; after a replacement they may overlap with those being removed."""
    removing_replicas: tuple[int, ...] = ()
    started_at_ms: int | None = None
    ended_at_ms: int | None = None
    outcome: str
    phase: str | None = None
    """How far it came."""
    stalled_since_ms: int | None = None
    """Since when an open reassignment made no progress for the limit, or cannot make any."""
    blocked_by: str | None = None
    blocked_replicas: tuple[int, ...] = ()
    longest_standstill_ms: int | None = None
    """The longest time without progress, whether it ended or not."""
    standstill_from_ms: int | None = None
    leader_changes: int = 0
    controller_changes: int = 0
    min_insync_replicas: int | None = None
    under_min_isr_ms: int = 0
    under_replicated_ms: int = 0
    """Fewer replicas in sync than the smaller of original and target has."""
    without_leader_ms: int = 0
    superseded_by: str | None = None
    detail: str | None = None
    """Why it was refused, or what is not known."""
    source: str = "metadata"
    """`metadata` (records) or `logs`."""
    is_complete_evidence: bool = True
    is_final: bool = True
    progress: tuple[ReplicaProgress, ...] = ()
    evidence: tuple[str, ...] = ()
    steps: tuple[ReassignmentStep, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.topic}-{self.partition}"

    def __reduce__(self) -> tuple[Any, ...]:
        return by_fields(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderElection:
    """A partition was given another leader, or should have been."""

    cluster_id: str
    topic: str
    partition: int
    at_ms: int
    cause: str
    previous_leader: int | None
    preferred_replica: int | None
    elected: int | None
    outcome: str
    prevented_by: str | None = None
    """Why the preferred replica does not lead after it."""
    leader_epoch: int | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Throttle:
    """One replication throttle setting, from when it was set to when it was changed or removed."""

    cluster_id: str
    resource_type: str
    """`topic` or `broker`."""
    resource: str
    """Topic, or broker id; empty for all brokers."""
    name: str
    value: str | None
    """None where the log hides it."""
    set_at_ms: int | None
    removed_at_ms: int | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Imbalance:
    """How many of the partitions a broker is preferred for are led by another, when evidence ends."""

    broker_id: int
    preferred_count: int
    led_elsewhere_count: int
    examples: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentHistory:
    """Everything about reassignments of one cluster."""

    cluster_id: str
    reassignments: tuple[Reassignment, ...] = ()
    """By start, then partition."""
    elections: tuple[LeaderElection, ...] = ()
    throttles: tuple[Throttle, ...] = ()
    imbalances: tuple[Imbalance, ...] = ()
    """Brokers that do not lead all they are preferred for."""
    replicas: Mapping[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """(topic, partition) -> its replicas now; where logs are the only source, of those they name."""
    states: Mapping[tuple[str, int], PartitionState] = field(default_factory=dict)
    """The same with leader and in-sync replicas, where the metadata log shows them."""
    names_all_partitions: bool = False
    """`replicas` holds every partition there is, by the metadata log or by the brokers."""
    topic_names: Mapping[str, str] = field(default_factory=dict)
    """Topic id -> name."""
    gaps: tuple[tuple[int, int], ...] = ()
    """Offsets [from, to) of the metadata log that no file at hand holds."""
    seen_until_ms: int | None = None
    unzoned_nodes: tuple[str, ...] = ()
    """Nodes whose logs it was made from although their zone is not known."""

    def spans(self) -> dict[tuple[str, int], list[tuple[int, int | None, str]]]:
        """(topic, partition) -> (from, to or None while it runs, reassignment id), of reassignments whose times are
        known."""
        found: dict[tuple[str, int], list[tuple[int, int | None, str]]] = {}
        for r in self.reassignments:
            if r.started_at_ms is not None and (r.ended_at_ms is not None or r.outcome == "open"):
                spans = found.setdefault((r.topic, r.partition), [])
                spans.append((r.started_at_ms, r.ended_at_ms, r.reassignment_id))
        return found


def reassignment_row(reassignment: Reassignment) -> dict[str, Any]:
    """The reassignment as a row of gold.reassignment."""
    row = {name: getattr(reassignment, name) for name in _OF_REASSIGNMENT}
    row["progress"] = [{name: getattr(each, name) for name in _OF_PROGRESS} for each in reassignment.progress]
    return row


def reassignment_of(row: Mapping[str, Any]) -> Reassignment:
    """The reassignment of a row of gold.reassignment, without its steps."""
    values = {name: row[name] for name in _OF_REASSIGNMENT}
    for name, value in values.items():
        if isinstance(value, list):
            values[name] = tuple(value)
    values["progress"] = tuple(ReplicaProgress(**each) for each in row["progress"] or ())
    return Reassignment(**values)


def step_rows(reassignment: Reassignment) -> list[dict[str, Any]]:
    """The reassignment's steps as rows of gold.reassignment_step."""
    known = {
        "cluster_id": reassignment.cluster_id,
        "reassignment_id": reassignment.reassignment_id,
        "topic": reassignment.topic,
        "partition": reassignment.partition,
    }
    return [known | {name: getattr(step, name) for name in _OF_STEP} for step in reassignment.steps]


def election_row(election: LeaderElection) -> dict[str, Any]:
    """The election as a row of gold.leader_election."""
    return {name: getattr(election, name) for name in _OF_ELECTION}


def _names(row: type) -> tuple[str, ...]:
    return tuple(f.name for f in fields(row))


# Not dataclasses.asdict: it copies every tuple, and a large log has a million rows.
_OF_REASSIGNMENT = tuple(name for name in _names(Reassignment) if name != "steps")
_OF_PROGRESS, _OF_STEP = _names(ReplicaProgress), _names(ReassignmentStep)
_OF_ELECTION = _names(LeaderElection)
