"""All clusters, the whole of what they hold, and times."""

from __future__ import annotations

from dataclasses import dataclass


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
    """How much of each kind of evidence the warehouse holds."""

    group_count: int
    record_count: int
    line_count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterRow:
    cluster_id: str
    group_count: int
    rebalance_count: int
    reassignment_count: int
    open_incident_count: int
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
class Place:
    """A group, incident, connector or topic that a search finds, and the id that leads to its page."""

    kind: str
    """`group`, `incident`, `connector`, `topic` (one that was reassigned) or `reader` (a group that reads a topic)."""
    cluster_id: str
    found_id: str
    """A group, an incident's id, a connector's group, a topic, or a topic's reader."""
    name: str
