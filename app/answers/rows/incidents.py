"""Incidents, findings and marks."""

from __future__ import annotations

import json
from dataclasses import dataclass

from app.answers.rows.fleet import Span


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
class FindingFilter:
    """Which findings are asked for; None: whichever."""

    status: str | None = None
    severity: str | None = None
    rule_id: str | None = None
    subject: str | None = None
    cluster_id: str | None = None
    group_id: str | None = None
    team: str | None = None
    span: Span | None = None
    """Those that were open at some time in it; what is open goes on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingSums:
    """What there is to filter, without the findings themselves."""

    open_count: int
    all_count: int
    rule_ids: tuple[str, ...] = ()
    subjects: tuple[str, ...] = ()
    cluster_ids: tuple[str, ...] = ()
    teams: tuple[str, ...] = ()


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
    """`open`, `graver`, `another cause`, `wider`, `over`, `withdrawn`."""
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
    hosts: tuple[str, ...] = ()
    """Where the culprits ran, if evidence names it."""
    group_ids: tuple[str, ...] = ()
    rebalance_ids: tuple[str, ...] = ()
    reassignment_ids: tuple[str, ...] = ()
    finding_ids: tuple[str, ...] = ()
    first_at_ms: int
    last_at_ms: int
    status: str
    still: str | None = None
    """One of tables.INCIDENT_STILL; None where that is not known."""
    evidence_ended_at_ms: int | None = None
    """Up to when the evidence of its cluster goes."""
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
    going_on_count: int
    """Open ones of which something has not ended."""
    empty_count: int
    """Open ones of groups that have no member any more."""
    quiet_count: int
    """Open ones of which all has ended. Of some none of the three is known."""
    open_partition_seconds: float | None
    open_task_seconds: float | None
    open_unknown_count: int
    """Open ones with rebalances of which none has a known cost."""
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
    """How many open incidents of one kind there are, without those that were done on purpose."""

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
