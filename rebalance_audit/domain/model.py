"""The things every stage works on: evidence, events, rebalances.

Instants are epoch milliseconds UTC (`_at_ms`), durations milliseconds (`_ms`). None means not known, never 0 or "".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from functools import cache
from typing import Any, NamedTuple, TypeVar

from rebalance_audit.domain.causes import Cause, cause_of
from rebalance_audit.domain.frozen import changed as changed
from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.kinds import (
    Basis,
    Bound,
    EvidenceTier,
    FindingStatus,
    GroupType,
    MemberChange,
    Mode,
    MovementKind,
    Outcome,
    RebalanceKind,
    ResourceType,
    Severity,
)

T = TypeVar("T")

NO_END = 1 << 62
"""Greater than every offset, index and instant: the end of what has not ended."""


def record_ref(topic: str, partition: int, offset: int) -> str:
    """The evidence ref of a record; read together with the row's cluster_id."""
    return f"record:{topic}-{partition}@{offset}"


def log_ref(node: str, file_name: str, file_id: str, byte: int) -> str:
    """The evidence ref of a log event: `byte` counts in uncompressed text; `file_id` survives rotation."""
    return f"log:{node}/{file_name}#{file_id}@{byte}"


def node_of_log(ref: str) -> str:
    """`broker-1` of `log:broker-1/server.log#1f…`, a log's name in the books or a line's ref; "" of other refs."""
    return ref.removeprefix("log:").partition("/")[0] if ref.startswith("log:") else ""


@quick
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


@quick
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
    """The kind of a log line. The fields of each kind are listed in `log_lines`."""

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
    MEMBERS_NOT_SYNCED = "members_not_synced"
    """Dropped because no SyncGroup came in time: member_ids."""
    JOIN_PHASE_FAILED = "join_phase_failed"
    """The coordinator failed as it ended the join phase, and does not try again: error."""
    NO_MEMBER_REJOINED = "no_member_rejoined"
    REBALANCE_SKIPPED = "rebalance_skipped"
    """The group died before the rebalance stage."""
    LEADER_REPLACED = "leader_replaced"
    """The leader did not re-join in time: member_id (old), group_instance_id, new_member_id. Up to 3.9 no group."""
    LEADER_NOT_REPLACED = "leader_not_replaced"
    """As before, and nobody else had joined: member_id, group_instance_id. Up to 3.9 no group."""
    MEMBER_JOINED = "member_joined"
    """With an unknown member id: member_id (the new one), group_instance_id, group_state; asked_to_rejoin is True where
    it was only given its id and must come back with it."""
    PENDING_MEMBER_JOINED = "pending_member_joined"
    """Came back with the id it was given: member_id, group_state."""
    MEMBER_LEFT = "member_left"
    """Explicit LeaveGroup: member_id, group_instance_id, client_reason; 3.0 to 3.9 also client_id, client_host,
    session_timeout_ms, rebalance_timeout_ms, supported_assignors. is_pending is True for one that never joined."""
    MEMBER_FAILED = "member_failed"
    """Session expired: member_id; is_pending is True for one that never came back with the id it was given."""
    MEMBER_EXPIRY_IGNORED = "member_expiry_ignored"
    """A session ran out after the group had gone elsewhere: member_id."""
    MEMBER_FENCED = "member_fenced"
    """member_id, group_instance_id, expected_member_id, operation; KIP-848: member_id, reason."""
    STATIC_MEMBER_REPLACED = "static_member_replaced"
    """group_instance_id, member_id (old), new_member_id where the line has it."""
    STATIC_MEMBER_KEPT = "static_member_kept"
    """A static member re-joined without a rebalance. No group."""
    EMPTY_ASSIGNMENT = "empty_assignment"
    """member_ids without an assignment in generation_id."""
    PERSIST_FAILED = "persist_failed"
    """error."""
    COORDINATOR_ELECTED = "coordinator_elected"
    """offsets_partition, epoch. No group."""
    COORDINATOR_RESIGNED = "coordinator_resigned"
    """offsets_partition, epoch. No group."""
    COORDINATOR_LOADED = "coordinator_loaded"
    """Its groups are in memory: offsets_partition, epoch, duration_ms, scheduler_ms, record_count. No group."""
    COORDINATOR_UNLOADED = "coordinator_unloaded"
    """offsets_partition, epoch. No group."""
    GROUP_LOADED = "group_loaded"
    """group_type, member_count, generation_id where the line has it."""
    GROUP_UNLOADED = "group_unloaded"
    """generation_id or group_epoch."""
    GROUP_DEAD = "group_dead"
    """generation_id."""
    GROUPS_DELETED = "groups_deleted"
    """By request: group_ids as written, comma between them; offset_count. No group."""
    GROUP_CONVERTED = "group_converted"
    """from_type, to_type."""
    CONVERSION_REFUSED = "conversion_refused"
    """from_type, to_type, reason."""
    EPOCH_BUMPED = "epoch_bumped"
    """KIP-848 and after: group_epoch."""
    TARGET_COMPUTED = "target_computed"
    """KIP-848 and after: group_epoch, assignor, duration_ms; target_assignment as written up to 3.9."""
    ASSIGNMENT_DELAYED = "assignment_delayed"
    """KIP-848 and after, 4.3 on: cause."""
    TOPIC_METADATA_COMPUTED = "topic_metadata_computed"
    """KIP-848 and after: metadata_hash; metadata as written up to 3.9."""
    SUBSCRIPTION_UPDATED = "subscription_updated"
    """KIP-848: member_id, subscription as written, is_regex."""
    MEMBER_STATE_CHANGED = "member_state_changed"
    """KIP-848 and after: member_id, member_epoch, previous_epoch, member_state; assigned_text, revoked_text."""
    MODERN_MEMBER_JOINED = "modern_member_joined"
    """KIP-848, share, streams: member_id, group_instance_id, group_type, protocol (`classic` or `consumer`)."""
    MODERN_MEMBER_LEFT = "modern_member_left"
    """KIP-848, share, streams: member_id, group_instance_id, group_type, temporarily; members that speak the classic
    protocol also protocol, client_reason."""
    STREAMS_TOPOLOGY_SET = "streams_topology_set"
    """member_id, topology_epoch."""
    STREAMS_CONFIG_CHANGED = "streams_config_changed"
    """member_id, configs as written."""
    STREAMS_SHUTDOWN_REQUESTED = "streams_shutdown_requested"
    """member_id."""
    CLIENT_JOINING = "client_joining"
    """Client log: client_id. Every client kind also has group_instance_id where the prefix has it."""
    CLIENT_TOLD_OF_REBALANCE = "client_told_of_rebalance"
    """Client log, up to 2.8: a heartbeat's answer said so: client_id. Later it is CLIENT_REQUESTED_JOIN."""
    CLIENT_REVOKED = "client_revoked"
    """Client log: partitions, client_id; stage `callback`, or `begin` where the client first commits (KIP-848)."""
    CLIENT_ASSIGNED = "client_assigned"
    """Client log: partitions, client_id."""
    CLIENT_LOST = "client_lost"
    """Client log: partitions, client_id."""
    CLIENT_JOINED = "client_joined"
    """Client log: generation_id, member_id, client_id."""
    CLIENT_REQUESTED_JOIN = "client_requested_join"
    """Client log: client_reason, client_id."""
    CLIENT_SYNCED = "client_synced"
    """Client log: generation_id, member_id, assignor, client_id."""
    CLIENT_COMPUTED_ASSIGNMENT = "client_computed_assignment"
    """Client log of the leader: generation_id, assignments as written, client_id."""
    CLIENT_GIVEN_ASSIGNMENT = "client_given_assignment"
    """Client log, classic: all partitions of the new assignment: partitions, client_id."""
    CLIENT_UPDATED_ASSIGNMENT = "client_updated_assignment"
    """Client log: assigned, owned, added, revoked, client_id; KIP-848 also member_id, member_epoch."""
    CLIENT_GENERATION_RESET = "client_generation_reset"
    """Client log: client_reason, client_id."""
    CLIENT_LEAVING = "client_leaving"
    """Client log: member_id, client_reason, client_id."""
    CLIENT_POLL_TIMEOUT = "client_poll_timeout"
    """Client log: client_id."""
    CLIENT_MEMBER_STATE = "client_member_state"
    """Client log, KIP-848: member_id, member_epoch, from_state, member_state, client_id."""
    WORKER_REBALANCE_STARTED = "worker_rebalance_started"
    WORKER_JOINED = "worker_joined"
    """Connect: generation_id, protocol_version, error, leader, leader_url, config_offset, connectors, tasks,
    revoked_connectors, revoked_tasks, delay_ms, rebalance_delay_ms. Connectors and tasks (`connector-0`) are the merged
    running set. Every kind behind the worker's prefix also has client_id."""
    WORKER_WORK_STARTING = "worker_work_starting"
    """Connect: config_offset."""
    WORKER_WORK_STARTED = "worker_work_started"
    WORKER_WORK_STOPPED = "worker_work_stopped"
    """Connect: what was revoked stands still; stage `tasks_stopped`, then `status_flushed`."""
    WORKER_ASSIGNMENT_REVOKED = "worker_assignment_revoked"
    """Connect: gave up on catching up with the configuration: assignment as written, retries."""
    WORKER_CONFIG_BEHIND = "worker_config_behind"
    """Connect: config_offset, assignment_offset, forces_rebalance."""
    WORKER_CONFIG_READ = "worker_config_read"
    """Connect: config_offset."""
    WORKER_TASK_STARTING = "worker_task_starting"
    """Connect: connector, task. Logged twice per start, by the herder and by the worker."""
    WORKER_TASK_STARTED = "worker_task_started"
    """Connect: connector, task; start() returned."""
    WORKER_TASK_STOPPING = "worker_task_stopping"
    """Connect: connector, task; asked to stop."""
    WORKER_TASK_STOPPED = "worker_task_stopped"
    """Connect: connector, task, is_graceful. Failure is an error line, success is logged at DEBUG only."""
    WORKER_TASK_FAILED = "worker_task_failed"
    """Connect: connector, task; it threw, and does not run until somebody restarts it."""
    WORKER_CONNECTOR_STARTING = "worker_connector_starting"
    """Connect: connector, connector_class."""
    WORKER_CONNECTOR_STARTED = "worker_connector_started"
    """Connect: connector."""
    WORKER_CONNECTOR_STOPPING = "worker_connector_stopping"
    """Connect: connector."""
    WORKER_CONNECTOR_STOPPED = "worker_connector_stopped"
    """Connect: connector."""
    WORKER_TARGET_STATE = "worker_target_state"
    """Connect: connector, state: PAUSED, STOPPED or STARTED; of the connector and its tasks on this worker."""
    WORKER_CONFIG_CHANGED = "worker_config_changed"
    """Connect: connector or tasks; change: connector_updated, connector_removed, target_state, tasks_updated."""
    WORKER_TASKS_RECONFIGURED = "worker_tasks_reconfigured"
    """Connect: tasks that are stopped and started again for their new configuration."""
    WORKER_POLL_TIMEOUT = "worker_poll_timeout"
    """Connect: detail."""
    WORKER_ASSIGNMENT_FAILED = "worker_assignment_failed"
    """Connect: cause: leader, lagging, up_to_date, leader_without_config."""
    WORKER_COORDINATOR_LOST = "worker_coordinator_lost"
    """Connect: duration_ms, assignment as written."""
    WORKER_ADDRESS = "worker_address"
    """Connect, as it starts: url, by which the other workers reach it."""
    WORKER_STOPPING = "worker_stopping"
    """Connect: a clean stop of the worker."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class LogEvent:
    """One log line of a known kind, read."""

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


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRecord:
    """A decoded record of one group at its place in __consumer_offsets; `record` is a records.CoordinatorRecord."""

    ref: str
    at_ms: int
    topic: str
    partition: int
    offset: int
    record: Any


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class CommitMark:
    """The offset commits of one partition in a stretch of __consumer_offsets without a group record: the first, the
    last, and the two with the longest time between them (None: too few commits, or not known)."""

    topic: str
    partition: int
    offsets_topic: str
    offsets_partition: int
    first_offset: int
    first_at_ms: int
    last_offset: int
    last_at_ms: int
    commit_count: int
    topic_id: str | None = None
    """The topic's id as commits have it, from Kafka 4.1 on: KIP-848 records name topics by id alone."""
    first_position: int | None = None
    """The committed offset of the first commit."""
    last_position: int | None = None
    next_at_ms: int | None = None
    """The second commit."""
    next_position: int | None = None
    gap_from_offset: int | None = None
    gap_from_at_ms: int | None = None
    gap_from_position: int | None = None
    gap_to_offset: int | None = None
    gap_to_at_ms: int | None = None
    gap_to_position: int | None = None
    after_at_ms: int | None = None
    """The commit after the one that ended the longest time without: by then it has read what it had missed."""
    after_position: int | None = None
    second_gap_ms: int | None = None
    """The longest of the other times between two commits."""

    @property
    def first_ref(self) -> str:
        return record_ref(self.offsets_topic, self.offsets_partition, self.first_offset)

    @property
    def last_ref(self) -> str:
        return record_ref(self.offsets_topic, self.offsets_partition, self.last_offset)

    @property
    def gap_refs(self) -> tuple[str, ...]:
        """The commits before and after the longest gap."""
        ends = (self.gap_from_offset, self.gap_to_offset)
        return tuple(record_ref(self.offsets_topic, self.offsets_partition, at) for at in ends if at is not None)

    @property
    def gap_ms(self) -> int | None:
        """Not below 0: a clock that was set back makes no gap."""
        if self.gap_from_at_ms is None or self.gap_to_at_ms is None:
            return None
        return max(self.gap_to_at_ms - self.gap_from_at_ms, 0)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectRecord:
    """A decoded record of a Connect topic; `record` is a connect_topics.ConnectStatus or ConnectConfig."""

    ref: str
    at_ms: int
    topic: str
    partition: int
    offset: int
    record: Any


@quick
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
    topic_names: tuple[tuple[str, str], ...] = ()
    """(topic id, topic) as commits, metadata records or the brokers have them; KIP-848 records hold ids alone."""
    is_continued: bool = False
    """Part of a longer history: its records begin with the latest of each key before it."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One cause met while a rebalance was prepared."""

    trigger: Cause
    tier: EvidenceTier
    members: tuple[str, ...] = ()
    """Member ids."""
    detail: str = ""
    evidence: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One piece of evidence about when a resource stopped or resumed."""

    bound: Bound
    at_ms: int
    tier: EvidenceTier
    rank: int
    """Estimates: 1 is the best evidence (own logs, own status), 5 the weakest (broker's times alone)."""
    detail: str
    ref: str | None = None
    basis: Basis | None = None
    """Estimates: the kind of evidence."""
    window_from_ms: int | None = None
    """Estimates that are reasoned from a time in which it must have been: its begin."""
    window_to_ms: int | None = None
    """The end of that time."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member in one rebalance; columns of gold.rebalance_member."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    worker_url: str | None = None
    change: MemberChange = MemberChange.STAYED
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
    standby_tasks: tuple[str, ...] | None = None
    warmup_tasks: tuple[str, ...] | None = None
    client_libraries: tuple[str, ...] | None = None
    undecoded: str | None = None
    evidence: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Movement:
    """One resource that stopped, moved or began; columns of gold.movement, numbers filled by measure."""

    resource_type: ResourceType
    resource: str
    topic: str | None = None
    partition: int | None = None
    connector: str | None = None
    task: int | None = None
    kind: MovementKind
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
    """Evidence of when the new owner's assigned callback returned."""
    stopped_at_lower_ms: int | None = None
    stopped_at_upper_ms: int | None = None
    resumed_at_lower_ms: int | None = None
    resumed_at_upper_ms: int | None = None
    pause_lower_ms: int | None = None
    pause_estimate_ms: int | None = None
    pause_upper_ms: int | None = None
    pause_likely_lower_ms: int | None = None
    pause_likely_upper_ms: int | None = None
    overlap_ms: int | None = None
    first_commit_at_ms: int | None = None
    first_commit_after_ms: int | None = None
    pause_tier: EvidenceTier | None = None
    pause_detail: str | None = None
    evidence: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberStandstill:
    """A time in which a member did nothing and the group did not notice; columns of gold.standstill."""

    member_id: str
    group_instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    resources: tuple[str, ...]
    from_lower_ms: int
    from_ms: int
    from_upper_ms: int
    to_lower_ms: int | None
    """None, as the next two: it went on until evidence ended."""
    to_ms: int | None
    to_upper_ms: int | None
    pause_lower_ms: int
    pause_estimate_ms: int
    pause_upper_ms: int | None
    resource_seconds_lower: float
    resource_seconds_estimate: float
    resource_seconds_upper: float | None
    usual_commit_ms: int
    tier: EvidenceTier
    detail: str
    evidence: tuple[str, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One attempt of one group to reach a new generation or epoch: gold.rebalance with its members and movements, and
    with what stood still between it and the next one."""

    cluster_id: str
    rebalance_id: str
    group_id: str
    generation_id: int | None = None
    group_epoch: int | None = None
    team: str | None = None
    group_type: GroupType = GroupType.CLASSIC
    protocol_type: str | None = None
    kind: RebalanceKind = RebalanceKind.REBALANCE
    rewrite_seq: int = 0
    outcome: Outcome = Outcome.COMPLETED
    mode: Mode = Mode.UNKNOWN
    assignor: str | None = None
    leader_member_id: str | None = None
    leader_changed: bool | None = None
    coordinator_broker_id: int | None = None
    member_count: int | None = None
    static_member_count: int | None = None
    started_at_ms: int | None = None
    started_lower_ms: int | None = None
    started_tier: EvidenceTier | None = None
    joined_at_ms: int | None = None
    assigned_at_ms: int | None = None
    ended_at_ms: int | None = None
    broker_window_ms: int | None = None
    trigger: Cause = Cause.UNKNOWN
    trigger_tier: EvidenceTier = EvidenceTier.UNKNOWN
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
    pause_likely_lower_ms: int | None = None
    pause_likely_upper_ms: int | None = None
    pause_tier: EvidenceTier | None = None
    resource_seconds_lower: float | None = None
    resource_seconds_estimate: float | None = None
    resource_seconds_upper: float | None = None
    resource_seconds_likely_lower: float | None = None
    resource_seconds_likely_upper: float | None = None
    connect_delay_ms: int | None = None
    connect_error: int | None = None
    config_offset: int | None = None
    changed_connectors: tuple[str, ...] | None = None
    eager_seconds_lower: float | None = None
    is_complete_evidence: bool = True
    is_final: bool = True
    revision: int = 1
    evidence: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    movements: tuple[Movement, ...] = ()
    standstills: tuple[MemberStandstill, ...] = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectTask:
    """One interval of one connector or task in one state; columns of gold.connect_task."""

    cluster_id: str
    group_id: str
    resource_type: ResourceType
    connector: str
    task: int | None
    worker_url: str | None = None
    worker_id: str | None = None
    state: str
    """A TaskState; the status topic may hold other words."""
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


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that was wrong; columns of gold.finding."""

    cluster_id: str
    finding_id: str
    rule_id: str
    severity: Severity
    subject_type: str
    subject: str
    status: FindingStatus
    first_seen_at_ms: int
    last_seen_at_ms: int
    title: str
    detail: str | None = None
    numbers: str | None = None
    advice: str | None = None
    connectors: tuple[str, ...] = ()
    """Connect: the connectors it is about; empty if it is about none, or about the workers."""
    evidence: tuple[str, ...] = ()


_NESTED: dict[str, dict[str, type]] = {
    "Rebalance": {"triggers": Trigger, "members": Member, "movements": Movement, "standstills": MemberStandstill},
    "Movement": {"stop_marks": Mark, "resume_marks": Mark},
}


def _basis_of(stored: str | None) -> Basis | None:
    return None if stored is None else Basis(stored)


_CLOSED: dict[str, dict[str, Callable[[Any], Any]]] = {
    "Rebalance": {
        "group_type": GroupType,
        "kind": RebalanceKind,
        "outcome": Outcome,
        "mode": Mode,
        "trigger": cause_of,
        "trigger_tier": EvidenceTier,
    },
    "Trigger": {"trigger": cause_of},
    "Member": {"change": MemberChange},
    "MemberStandstill": {"tier": EvidenceTier},
    "Movement": {"resource_type": ResourceType, "kind": MovementKind},
    "Mark": {"bound": Bound, "basis": _basis_of},
    "ConnectTask": {"resource_type": ResourceType},
    "Finding": {"severity": Severity, "status": FindingStatus},
}
"""What columns hold values of a closed set, and how a stored text becomes one."""


def to_row(thing: Rebalance | Movement | Member | ConnectTask | Finding) -> dict[str, Any]:
    """The thing as a table row: plain dicts, tuples and texts."""
    return _row(thing)


def _row(thing: Any) -> dict[str, Any]:
    # dataclasses.asdict copies every value by recursion; here only the few nested columns hold dataclasses.
    kind = type(thing)
    row = {name: getattr(thing, name) for name in kind.__dataclass_fields__}
    for name in _NESTED.get(kind.__name__, ()):
        row[name] = tuple(_row(item) for item in row[name])
    return row


class StoredColumn(NamedTuple):
    """How a field comes out of a table."""

    name: str
    made: Callable[[Any], Any] | None
    """What makes the value of the stored one, where that is more than a list."""
    nested: type | None
    """The type of the stored rows in it."""


@cache
def stored_columns(kind: Any) -> tuple[StoredColumn, ...]:
    """Each field of a dataclass of this module."""
    nested, closed = _NESTED.get(kind.__name__, {}), _CLOSED.get(kind.__name__, {})
    return tuple(StoredColumn(f.name, closed.get(f.name), nested.get(f.name)) for f in fields(kind))


def from_row(kind: type[T], row: Mapping[str, Any]) -> T:
    """The thing of a table row; columns it does not have are left out, lists become tuples."""
    values: dict[str, Any] = {}
    whole: Any = kind
    for name, made, nested in stored_columns(whole):
        if name not in row:
            continue
        value = row[name]
        if nested is not None:
            value = tuple(from_row(nested, inner) for inner in value or ())
        elif made is not None:
            value = made(value)
        elif isinstance(value, list):
            value = tuple(value)
        values[name] = value
    return kind(**values)
