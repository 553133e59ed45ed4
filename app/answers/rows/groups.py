"""Groups, why they rebalanced, and what they depend on."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from rebalance_audit.domain.kinds import Outcome, RebalanceKind


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


def counted(rebalances: pd.DataFrame) -> pd.DataFrame:
    """Those that count as rebalances, as `numbers.IS_COUNTED` has it."""
    is_counted = (rebalances["kind"] == RebalanceKind.REBALANCE) & (rebalances["outcome"] != Outcome.MISSING)
    return rebalances[is_counted]
