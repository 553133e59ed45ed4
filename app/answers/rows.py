"""Rows that the queries answer with, and outages of tasks, worked out from them. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from rebalance_audit.domain.kinds import Outcome, RebalanceKind, TaskState
from rebalance_audit.domain.model import ConnectTask, Member, Movement, Rebalance, Trigger
from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentStep

__all__ = [
    "AlertNote",
    "CauseShare",
    "ChainLink",
    "CheckRow",
    "ClusterMovesRow",
    "ClusterRow",
    "ConnectTask",
    "Contents",
    "ContradictionRow",
    "Coordination",
    "Coverage",
    "FindingRow",
    "Fleet",
    "Group",
    "GroupCost",
    "Headline",
    "IncidentCount",
    "IncidentKind",
    "IncidentRow",
    "IncompleteRow",
    "LetGoRow",
    "MarkRow",
    "Member",
    "Movement",
    "Neighbours",
    "Outage",
    "Place",
    "Reassignment",
    "ReassignmentStep",
    "Rebalance",
    "ReopeningRow",
    "SilentRow",
    "Span",
    "Trigger",
    "UndecodedRow",
    "counted",
    "is_by_design",
    "outages",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From when to when, epoch ms; both ends belong to it."""

    from_ms: int
    to_ms: int

    @property
    def length_ms(self) -> int:
        return max(0, self.to_ms - self.from_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """The evidence there is to read at all."""

    is_published: bool
    group_count: int
    record_count: int
    line_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    cluster_id: str
    group_count: int
    rebalance_count: int
    reassignment_count: int
    open_finding_count: int
    gap_count: int
    source_count: int
    first_at_ms: int | None
    last_at_ms: int | None
    """Up to when anything of it was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """One span over all groups. Costs are None where no rebalance of that kind has one."""

    rebalance_count: int
    expected_count: int
    group_count: int
    unknown_cost_count: int
    """Rebalances whose cost nobody knows."""
    partition_seconds: float | None
    task_seconds: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Clients' pause beside the broker's own window, over the rebalances of a span that have both."""

    compared_count: int
    pause_median_ms: float | None
    """Median of each rebalance's longest pause; two owners at once count as no pause."""
    window_median_ms: float | None
    factor_median: float | None
    """How many times too long or too short the window is; pauses under a millisecond count as one."""
    too_short_count: int
    """Where clients stood still for longer than the window says."""
    unmoved_count: int
    """Rebalances with a window in which nothing stood still; they are not among the compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseShare:
    """Rebalances and their cost by what they are booked on."""

    trigger: str
    """The root cause of their incident, else their own: see `numbers.CAUSE`."""
    rebalance_count: int
    resource_seconds: float | None
    client: str | None = None
    """The client most of these were about: instance id, else client id."""
    client_count: int = 0
    also_count: int = 0
    """How many more clients as many of these were about."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingRow:
    """A row of gold.finding."""

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
    group_id: str | None = None
    """The group whose history shows it; None where it is about the evidence itself."""
    connectors: tuple[str, ...] = ()
    """Connect: those it is about."""
    team: str | None = None
    """The team that owns the group; None also where no teams are set up."""
    evidence: tuple[str, ...] = ()

    def facts(self) -> dict[str, object]:
        """The numbers by name; text that is no JSON object stands under `numbers`."""
        try:
            found = json.loads(self.numbers) if self.numbers else {}
        except ValueError:
            found = self.numbers
        return found if isinstance(found, dict) else {"numbers": found}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChainLink:
    at_ms: int
    what: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertNote:
    """One message about an incident to one target, or one that it did not take."""

    at_ms: int
    target: str
    """Without what is secret in it."""
    what: str
    """`open`, `graver`, `wider`, `over`, `withdrawn`."""
    is_sent: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentRow:
    """A row of gold.incident. Lists of one have no story, chain or ids of what belongs to it: ask for it alone."""

    cluster_id: str
    incident_id: str
    kind: str
    root_cause: str
    root_cause_tier: str
    culprits: tuple[str, ...] = ()
    group_ids: tuple[str, ...] = ()
    rebalance_ids: tuple[str, ...] = ()
    reassignment_ids: tuple[str, ...] = ()
    finding_ids: tuple[str, ...] = ()
    first_at_ms: int
    last_at_ms: int
    status: str
    expected: bool
    severity: str
    cost_seconds: float | None = None
    cost_lower_seconds: float | None = None
    cost_upper_seconds: float | None = None
    cost_likely_lower_seconds: float | None = None
    cost_likely_upper_seconds: float | None = None
    title: str
    story: str
    advice: str | None = None
    chain: tuple[ChainLink, ...] = ()
    evidence: tuple[str, ...] = ()
    unit: str = "partition"
    """`partition`, `task`, or `resource` where its groups hand out both."""
    overlap_ms: int | None = None
    """Two owners at once for so long at the longest, in a list; not asked for of one alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentCount:
    """All incidents that touch a span, whatever a list of them shows."""

    open_count: int
    critical_count: int
    """Of the open ones."""
    open_partition_seconds: float | None
    open_task_seconds: float | None
    over_count: int
    expected_count: int
    """Changes on purpose, open or over; not among the others."""
    expected_partition_seconds: float | None
    expected_task_seconds: float | None
    longer_count: int
    """With a cost, and begun before the span or gone on after it: counted whole, so that costs of incidents may add up
    to more than those of the span's rebalances."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentKind:
    """Open incidents of one kind, which nobody meant."""

    kind: str
    """The rule of their gravest finding, or their root cause where they have none."""
    incident_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCost:
    """What one incident cost one group."""

    group_id: str
    team: str | None
    rebalance_count: int
    unit: str
    estimate: float | None
    lower: float | None
    upper: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Something with a name and a page of its own."""

    kind: str
    """`group`, `incident`, `connector` or `topic`."""
    cluster_id: str
    found_id: str
    """A group, an incident's id, a connector's group, or a topic."""
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkRow:
    """A row of gold.mark: a deploy, a change of configuration, a move of replicas."""

    cluster_id: str
    mark_id: str
    at_ms: int
    source: str
    text: str
    scope: str
    """A group, or a pattern of groups."""
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    cluster_id: str
    group_id: str
    team: str | None
    group_type: str
    protocol_type: str | None
    state: str
    mode: str
    assignor: str | None
    generation_id: int | None
    group_epoch: int | None
    member_count: int | None
    resource_count: int | None
    first_seen_at_ms: int | None
    last_rebalance_at_ms: int | None
    rebalance_count: int
    standstill_seconds_estimate: float | None
    """Without a rebalance, over all evidence; None: none is known."""
    open_finding_count: int
    worst_severity: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """The rebalances before and after one, of the same group."""

    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordination:
    """The parts of the cluster that one group depends on."""

    offsets_partitions: tuple[str, ...]
    """Partitions whose leader is its coordinator; several only where the offsets topic itself was changed."""
    partitions: tuple[str, ...]
    """All it was ever seen to work on, as `topic-partition`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMovesRow:
    """All reassignments of one cluster that were seen, whenever."""

    cluster_id: str
    all_count: int
    open_count: int
    stalled_count: int
    """How many of the open ones are stalled."""
    stalled_since_ms: int | None
    blocked_by: str | None
    """What blocks the one that was stalled the longest."""
    longest_standstill_ms: int | None
    last_at_ms: int | None
    """When the newest was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopeningRow:
    """A row of silver.reopening."""

    cluster_id: str
    group_id: str
    settled_at_ms: int
    evidence_at_ms: int | None
    from_ms: int | None
    is_too_old: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LetGoRow:
    """What retention deleted of one cluster's evidence."""

    cluster_id: str
    source_count: int
    example: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SilentRow:
    """A topic, or a node's logs, that ended before the rest of its cluster."""

    cluster_id: str
    kind: str
    """`record` or `log`."""
    name: str
    ended_at_ms: int
    last_at_ms: int
    """Up to when anything of the cluster was seen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    cluster_id: str
    source: str
    kind: str
    from_position: int
    to_position: int | None
    from_at_ms: int | None
    to_at_ms: int | None
    item_count: int | None
    is_gap: bool
    problem_code: str
    problem: str | None
    utc_offset_ms: int | None
    utc_offset_source: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ContradictionRow:
    """Evidence that cannot be true beside the rest, and was not believed."""

    cluster_id: str
    group_id: str
    ref: str
    at_ms: int | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteRow:
    """A rebalance around which evidence is missing."""

    cluster_id: str
    group_id: str
    rebalance_id: str
    generation_id: int | None
    group_epoch: int | None
    rewrite_seq: int
    outcome: str
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecodedRow:
    cluster_id: str
    ref: str
    reason: str
    byte_position: int | None
    part: str
    field: str | None
    detail: str | None
    at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRow:
    batch_id: str
    table_name: str
    check_name: str
    is_fatal: bool
    success: bool
    checked_count: int | None
    unexpected_count: int | None
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One stretch in which a task or a connector did not run, whatever its states were called meanwhile."""

    connector: str
    task: int | None
    """None: the connector itself."""
    from_ms: int
    to_ms: int
    is_over: bool
    parts: tuple[tuple[str, int, bool], ...]
    """State, how long within the span, and whether that was by design; in order."""

    @property
    def length_ms(self) -> int:
        """Without what it ran between two of its states."""
        return sum(length for _, length, _ in self.parts)

    def waited_ms(self, by_design: bool) -> int:
        return sum(length for _, length, designed in self.parts if designed is by_design)


NOT_RUNNING = (TaskState.WAITING, TaskState.LOST, TaskState.FAILED, TaskState.UNASSIGNED, TaskState.RESTARTING)
_SAME_OUTAGE_MS = 1_000
"""States that follow each other within this are one outage: status records of two workers are some ms apart."""


def counted(rebalances: pd.DataFrame) -> pd.DataFrame:
    """Those that count as rebalances, as `numbers.IS_COUNTED` has it."""
    is_counted = (rebalances["kind"] == RebalanceKind.REBALANCE) & (rebalances["outcome"] != Outcome.MISSING)
    return rebalances[is_counted]


def is_by_design(task: ConnectTask) -> bool:
    return task.expected or task.state == TaskState.WAITING


def outages(tasks: Sequence[ConnectTask], span: Span) -> list[Outage]:
    """Stretches without running, cut to the span, the longest first.

    A connector counts as its tasks do: it moves and waits with them. What is paused or stopped does not.
    """
    by_task: dict[tuple[str, int | None], list[ConnectTask]] = {}
    for t in tasks:
        if t.state in NOT_RUNNING:
            by_task.setdefault((t.connector, t.task), []).append(t)
    found = []
    for (connector, task), down in by_task.items():
        stretch: list[ConnectTask] = []
        end = 0
        for t in sorted(down, key=lambda t: t.from_ms):
            if stretch and t.from_ms > end + _SAME_OUTAGE_MS:
                found.append(_outage(connector, task, stretch, span))
                stretch = []
            stretch.append(t)
            end = max(end if len(stretch) > 1 else 0, span.to_ms if t.to_ms is None else t.to_ms)
        found.append(_outage(connector, task, stretch, span))
    return sorted(
        (o for o in found if o.length_ms > 0),
        key=lambda o: (-o.length_ms, o.connector, -1 if o.task is None else o.task),
    )


def _outage(connector: str, task: int | None, stretch: list[ConnectTask], span: Span) -> Outage:
    parts: list[tuple[str, int, bool]] = []
    at = max(span.from_ms, stretch[0].from_ms)
    first = at
    for i, t in enumerate(stretch):
        end = span.to_ms if t.to_ms is None else min(span.to_ms, t.to_ms)
        if i + 1 < len(stretch):
            end = min(end, stretch[i + 1].from_ms)  # the later state is the better known one
        start = max(at, t.from_ms)  # it may have run for a moment before
        parts.append((t.state, max(0, end - start), is_by_design(t)))
        at = max(at, end)
    return Outage(
        connector=connector,
        task=task,
        from_ms=first,
        to_ms=max(first, at),
        is_over=stretch[-1].to_ms is not None,
        parts=tuple(p for p in parts if p[1] > 0),
    )
