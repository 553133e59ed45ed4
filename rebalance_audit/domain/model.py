"""The things every stage speaks of: evidence, events, rebalances.

Instants are epoch milliseconds UTC (`_at_ms`), durations milliseconds (`_ms`). None means not known, never 0 or "".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class EvidenceTier(StrEnum):
    """How sure a claim is, best first."""

    RECORDED = "recorded"
    """A record of the broker says so."""
    LOGGED = "logged"
    """Only a log line says so."""
    INFERRED = "inferred"
    """It follows from a difference between records."""
    UNKNOWN = "unknown"


def record_ref(topic: str, partition: int, offset: int) -> str:
    """The evidence ref of a record; read together with the row's cluster_id."""
    return f"record:{topic}-{partition}@{offset}"


def log_ref(node: str, file_name: str, file_id: str, byte: int) -> str:
    """The evidence ref of a log event: `byte` counts in uncompressed text; `file_id` survives rotation."""
    return f"log:{node}/{file_name}#{file_id}@{byte}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """A record exactly as it was: one row of bronze.record."""

    cluster_id: str
    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """CreateTime: the coordinator's clock at append."""
    key: bytes | None
    value: bytes | None
    """None is a tombstone."""
    is_control: bool = False
    is_transactional: bool = False
    producer_id: int | None = None
    producer_epoch: int | None = None

    @property
    def ref(self) -> str:
        return record_ref(self.topic, self.partition, self.offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLine:
    """A log event exactly as it was, continuation lines included: one row of bronze.log_line."""

    cluster_id: str
    node: str
    """The folder or host it was read from, e.g. `broker-1`."""
    file_name: str
    """The label the file has now; rotation changes it."""
    file_id: str
    """Hash of the file's first KiB of uncompressed text."""
    byte: int
    """Where the event starts, in uncompressed text."""
    text: str

    @property
    def ref(self) -> str:
        return log_ref(self.node, self.file_name, self.file_id, self.byte)


class LogKind(StrEnum):
    """What a log line tells. The fields of each kind are listed in `log_lines`."""

    PREPARING = "preparing"
    """`Preparing to rebalance group …`: generation_id (the old one), reason, client_reason."""
    STABILIZED = "stabilized"
    """Join phase done: generation_id, member_count."""
    ASSIGNMENT_RECEIVED = "assignment_received"
    """The leader's SyncGroup arrived: generation_id, member_id (leader), member_count, static_count."""
    EMPTIED = "emptied"
    """generation_id of the empty generation."""
    MEMBERS_NOT_REJOINED = "members_not_rejoined"
    """Dropped at the end of the join phase: member_ids."""
    NO_MEMBER_REJOINED = "no_member_rejoined"
    LEADER_REPLACED = "leader_replaced"
    """The leader did not re-join in time: member_id (old), new_member_id."""
    MEMBER_JOINED = "member_joined"
    """With an unknown member id: member_id (the new one), group_instance_id, group_state."""
    MEMBER_LEFT = "member_left"
    """Explicit LeaveGroup: member_id, group_instance_id, client_id, client_host, client_reason."""
    MEMBER_FAILED = "member_failed"
    """Session expired: member_id."""
    MEMBER_FENCED = "member_fenced"
    """member_id, group_instance_id, expected_member_id, operation; KIP-848: member_id, reason."""
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    """group_instance_id, member_id (old), new_member_id where the line has it."""
    EMPTY_ASSIGNMENT = "empty_assignment"
    """member_ids without an assignment in generation_id."""
    PERSIST_FAILED = "persist_failed"
    COORDINATOR_ELECTED = "coordinator_elected"
    """offsets_partition, epoch. No group."""
    COORDINATOR_RESIGNED = "coordinator_resigned"
    """offsets_partition, epoch. No group."""
    GROUP_LOADED = "group_loaded"
    """group_type, member_count, generation_id where the line has it."""
    GROUP_UNLOADED = "group_unloaded"
    GROUP_DEAD = "group_dead"
    GROUP_CONVERTED = "group_converted"
    """from_type, to_type."""
    EPOCH_BUMPED = "epoch_bumped"
    """KIP-848 and after: group_epoch."""
    TARGET_COMPUTED = "target_computed"
    """KIP-848 and after: group_epoch, assignor."""
    MODERN_MEMBER_JOINED = "modern_member_joined"
    """KIP-848, share, streams: member_id, group_instance_id, new_member_id."""
    MODERN_MEMBER_LEFT = "modern_member_left"
    """KIP-848, share, streams: member_id, group_instance_id, temporarily."""
    CLIENT_REVOKED = "client_revoked"
    """Client log: partitions, client_id."""
    CLIENT_ASSIGNED = "client_assigned"
    """Client log: partitions, client_id."""
    CLIENT_LOST = "client_lost"
    """Client log: partitions, client_id."""
    CLIENT_JOINED = "client_joined"
    """Client log: generation_id, member_id, client_id."""
    CLIENT_REQUESTED_JOIN = "client_requested_join"
    """Client log: client_reason, client_id."""
    WORKER_REBALANCE_STARTED = "worker_rebalance_started"
    WORKER_JOINED = "worker_joined"
    """Connect: generation_id, protocol_version, error, leader, leader_url, config_offset, connectors, tasks,
    revoked_connectors, revoked_tasks, delay_ms. Connectors and tasks are the merged running set."""
    WORKER_TASK_STARTED = "worker_task_started"
    """Connect: connector, task."""
    WORKER_TASK_STOPPED = "worker_task_stopped"
    """Connect: connector, task."""
    WORKER_CONFIG_CHANGED = "worker_config_changed"
    """Connect: connector or tasks, change."""
    WORKER_POLL_TIMEOUT = "worker_poll_timeout"
    WORKER_ASSIGNMENT_FAILED = "worker_assignment_failed"
    WORKER_COORDINATOR_LOST = "worker_coordinator_lost"


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """What one log line of a known kind says."""

    kind: LogKind
    ref: str
    node: str
    local_at_ms: int
    """The line's own local time read as if it were UTC; the zone is settled per node afterwards."""
    at_ms: int | None = None
    """UTC, once the zone of the node is known."""
    group_id: str | None
    fields: Mapping[str, Any] = field(default_factory=dict)
    coordinator_broker_id: int | None = None
    could_be_forged: bool = False
    """A client chooses text on this line in a way that could have made the whole line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A decoded record of one group at its place in __consumer_offsets; `record` is a records.CoordinatorRecord."""

    ref: str
    at_ms: int
    topic: str
    partition: int
    offset: int
    record: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """First and last offset commit of one partition in a stretch of __consumer_offsets without a group record."""

    topic: str
    partition: int
    offsets_topic: str
    offsets_partition: int
    first_offset: int
    first_at_ms: int
    last_offset: int
    last_at_ms: int
    commit_count: int

    @property
    def first_ref(self) -> str:
        return record_ref(self.offsets_topic, self.offsets_partition, self.first_offset)

    @property
    def last_ref(self) -> str:
        return record_ref(self.offsets_topic, self.offsets_partition, self.last_offset)


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """A decoded record of a Connect status or config topic; `record` is a connect_topics.ConnectStatus or ConnectConfig."""

    ref: str
    at_ms: int
    topic: str
    partition: int
    offset: int
    record: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvidence:
    """All that is known about one group. Any order; `reconstruct` sorts."""

    cluster_id: str
    group_id: str
    records: tuple[GroupRecord, ...] = ()
    marks: tuple[CommitMark, ...] = ()
    lines: tuple[LogEvent, ...] = ()
    """Lines of this group, and lines of its coordinators that name no group; `at_ms` settled."""
    statuses: tuple[ConnectRecord, ...] = ()
    """Connect groups: the status topic whose workers are this group's."""
    configs: tuple[ConnectRecord, ...] = ()
    """Connect groups: the config topic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One cause met while a rebalance was prepared."""

    trigger: str
    tier: str
    members: tuple[str, ...] = ()
    """Member ids."""
    detail: str = ""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One piece of evidence about when a resource stopped or resumed."""

    bound: str
    """`lower` (not before), `upper` (not after) or `estimate`."""
    at_ms: int
    tier: str
    rank: int
    """Estimates: 1 is the best evidence (own logs, own status), 5 the weakest (broker's times alone)."""
    detail: str
    ref: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member in one rebalance; columns of gold.rebalance_member."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    worker_url: str | None = None
    change: str = "stayed"
    is_leader: bool = False
    member_epoch: int | None = None
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    subscribed_topics: tuple[str, ...] | None = None
    supported_assignors: tuple[str, ...] | None = None
    owned_before: tuple[str, ...] | None = None
    assigned: tuple[str, ...] | None = None
    revoked: tuple[str, ...] | None = None
    added: tuple[str, ...] | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """One resource that stopped, moved or began; columns of gold.movement, numbers filled by measure."""

    resource_type: str
    resource: str
    topic: str | None = None
    partition: int | None = None
    connector: str | None = None
    task: int | None = None
    kind: str
    from_member_id: str | None = None
    to_member_id: str | None = None
    from_client_id: str | None = None
    to_client_id: str | None = None
    from_worker_url: str | None = None
    to_worker_url: str | None = None
    revoked_in_rebalance_id: str | None = None
    is_avoidable: bool | None = None
    stop_marks: tuple[Mark, ...] = ()
    """Evidence of when the old owner let go; measure intersects it."""
    resume_marks: tuple[Mark, ...] = ()
    """Evidence of when the new owner was told."""
    stopped_at_lower_ms: int | None = None
    stopped_at_upper_ms: int | None = None
    resumed_at_lower_ms: int | None = None
    resumed_at_upper_ms: int | None = None
    pause_lower_ms: int | None = None
    pause_estimate_ms: int | None = None
    pause_upper_ms: int | None = None
    overlap_ms: int | None = None
    first_commit_at_ms: int | None = None
    first_commit_after_ms: int | None = None
    pause_tier: str | None = None
    pause_detail: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One attempt of one group to reach a new generation or epoch; columns of gold.rebalance, with members and movements."""

    cluster_id: str
    rebalance_id: str
    group_id: str
    generation_id: int | None = None
    group_epoch: int | None = None
    team: str | None = None
    group_type: str = "classic"
    protocol_type: str | None = None
    kind: str = "rebalance"
    rewrite_seq: int = 0
    outcome: str = "completed"
    mode: str = "unknown"
    assignor: str | None = None
    leader_member_id: str | None = None
    leader_changed: bool | None = None
    coordinator_broker_id: int | None = None
    member_count: int | None = None
    static_member_count: int | None = None
    started_at_ms: int | None = None
    started_lower_ms: int | None = None
    started_tier: str | None = None
    joined_at_ms: int | None = None
    assigned_at_ms: int | None = None
    ended_at_ms: int | None = None
    broker_window_ms: int | None = None
    trigger: str = "unknown"
    trigger_tier: str = "unknown"
    trigger_detail: str | None = None
    triggers: tuple[Trigger, ...] = ()
    expected: bool = False
    expected_reason: str | None = None
    resource_count: int | None = None
    kept_count: int | None = None
    moved_count: int | None = None
    returned_count: int | None = None
    revoked_count: int | None = None
    assigned_count: int | None = None
    restarted_count: int | None = None
    avoidable_moved_count: int | None = None
    unassigned_count: int | None = None
    pause_lower_ms: int | None = None
    pause_estimate_ms: int | None = None
    pause_upper_ms: int | None = None
    pause_tier: str | None = None
    resource_seconds_lower: float | None = None
    resource_seconds_estimate: float | None = None
    resource_seconds_upper: float | None = None
    connect_delay_ms: int | None = None
    config_offset: int | None = None
    is_complete_evidence: bool = True
    is_final: bool = True
    revision: int = 1
    evidence: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    movements: tuple[Movement, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectTask:
    """One interval of one connector or task in one state; columns of gold.connect_task."""

    cluster_id: str
    group_id: str
    resource_type: str
    connector: str
    task: int | None
    worker_url: str | None = None
    worker_id: str | None = None
    state: str
    generation_id: int | None = None
    from_ms: int
    from_lower_ms: int | None = None
    from_upper_ms: int | None = None
    to_ms: int | None = None
    to_lower_ms: int | None = None
    to_upper_ms: int | None = None
    ended_by: str | None = None
    expected: bool = False
    detail: str | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was wrong; columns of gold.finding."""

    cluster_id: str
    finding_id: str
    rule_id: str
    severity: str
    subject_type: str
    subject: str
    status: str
    first_seen_at_ms: int
    last_seen_at_ms: int
    title: str
    detail: str | None = None
    numbers: str | None = None
    advice: str | None = None
    evidence: tuple[str, ...] = ()
