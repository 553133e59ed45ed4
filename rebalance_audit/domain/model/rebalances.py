"""What is made of evidence: rebalances with their members and movements, tasks of Connect, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
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


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """One cause while a rebalance was prepared."""

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
    commanded_connectors: tuple[str, ...] | None = None
    grown_topics: tuple[str, ...] | None = None
    eager_seconds_lower: float | None = None
    is_complete_evidence: bool = True
    is_final: bool = True
    revision: int = 1
    evidence: tuple[str, ...] = ()
    members: tuple[Member, ...] = ()
    movements: Sequence[Movement] = ()
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
