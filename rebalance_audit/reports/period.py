"""A period's numbers: what a report lays out as text, JSON or HTML."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain.detect.wording import likely_seconds, seconds_bounds, seconds_of
from rebalance_audit.domain.reassign.model import Reassignment


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Resource-seconds. A null upper bound: nothing bounds at least one pause; a null estimate: nothing is known."""

    lower: float | None
    estimate: float | None
    upper: float | None
    likely_lower: float | None = None
    """Nine of ten truths lie between this and the next."""
    likely_upper: float | None = None

    def __str__(self) -> str:
        return likely_seconds(self.estimate, self.likely_lower, self.likely_upper)

    def text(self, *, bounds: bool) -> str:
        """The cost in words, with hard bounds where they are asked for."""
        return f"{self} {seconds_bounds(self.lower, self.upper)}" if bounds and self.estimate is not None else str(self)

    def of(self, unit: str, *, bounds: bool) -> str:
        """The cost in words: `91.6 task-seconds (likely 88.0 to 95.2)`."""
        number, _, rest = self.text(bounds=bounds).partition(" ")
        return self.text(bounds=bounds) if self.estimate is None else f"{number} {seconds_of(unit)} {rest}".rstrip()

    @property
    def total(self) -> str:
        return likely_seconds(self.estimate, None, None)

    @property
    def likely(self) -> str:
        """The likely range: `88.0 to 95.2`; empty where it is not known."""
        return str(self).partition(" (likely ")[2].rstrip(")")

    @property
    def bounds(self) -> str:
        """The hard bounds: `20.1 … 27.0`; empty where nothing is known."""
        return "" if self.estimate is None else seconds_bounds(self.lower, self.upper).strip("[]")


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRow:
    cluster_id: str
    group_id: str
    group_type: str
    protocol_type: str | None
    mode: str
    assignor: str | None
    state: str
    member_count: int | None
    rebalance_count: int
    expected_count: int
    static_return_count: int
    worst_pause_ms: int | None
    longest_window_ms: int | None
    cost: Cost
    standstill_seconds_estimate: float | None
    """Without a rebalance, over all evidence; None: none is known."""
    unit: str
    """What stands still in it: see `numbers.UNIT`."""
    top_trigger: str | None
    """The costliest cause, as `CauseRow.trigger`; of equal ones the commonest."""
    open_finding_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceRow:
    cluster_id: str
    group_id: str
    rebalance_id: str
    at_ms: int | None
    number: str
    outcome: str
    trigger: str
    trigger_tier: str
    trigger_detail: str | None
    expected: bool
    moved_count: int | None
    pause_lower_ms: int | None
    pause_estimate_ms: int | None
    pause_upper_ms: int | None
    pause_likely_lower_ms: int | None
    pause_likely_upper_ms: int | None
    broker_window_ms: int | None
    cost: Cost
    is_complete_evidence: bool
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseRow:
    """Rebalances and their cost by what they are booked on (`numbers.CAUSE`)."""

    trigger: str
    """The root cause of their incident; of those in none, their own trigger."""
    rebalance_count: int
    expected_count: int
    cost: Cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Bucket:
    from_ms: int
    rebalance_count: int
    expected_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    from_ms: int | None
    to_ms: int | None
    cluster_ids: tuple[str, ...]
    group_count: int
    rebalance_count: int
    expected_count: int
    cost: Cost
    costs: dict[str, Cost]
    """The cost of partitions and of tasks, in this order; without those of which nothing is known."""
    incidents: tuple[dict[str, Any], ...]
    """Order: trouble before normal work, open before past, then the gravest and costliest. `answers`: who acknowledged
    it or silenced its alerts, in words."""
    incident_count: int
    longer_incident_count: int
    """Of these, those with a cost that began before the period or ended after it: their cost is that of the whole."""
    open_findings: tuple[dict[str, Any], ...]
    past_findings: tuple[dict[str, Any], ...]
    past_finding_count: int
    groups: tuple[GroupRow, ...]
    """The costliest first."""
    rebalances: tuple[RebalanceRow, ...]
    """The newest of each shown group."""
    causes: tuple[CauseRow, ...]
    bucket_ms: int
    buckets: tuple[Bucket, ...]
    reassignments: tuple[Reassignment, ...]
    """Order: those that are stalled, the other open ones, then the longest. Their steps are left out."""
    reassignment_counts: dict[str, int]
    """By outcome; of open ones those without progress are `stalled`."""
    changes: tuple[dict[str, Any], ...]
    """Changes of settings that would have saved the most, rows of gold.whatif; not of this period alone."""
    gaps: tuple[dict[str, Any], ...]
    gap_count: int
    undecoded: tuple[dict[str, Any], ...]
    failed_checks: tuple[dict[str, Any], ...]
    unknown_cause_count: int
    unknown_cost_count: int
    """Rebalances in which something stopped and nobody knows for how long; no sum holds them."""
    incomplete_count: int
