"""What was seen of the evidence, and what was not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReopeningRow:
    """A row of silver.reopening."""

    cluster_id: str
    group_id: str
    settled_at_ms: int | None
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
    protocol_type: str | None
    started_at_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IncompleteCount:
    """How many rebalances lack the same evidence, named as in `HalfSeen`."""

    rebalance_count: int
    outcome: str
    group_epoch: int | None
    protocol_type: str | None
    started_at_ms: int | None


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
class LogOfEvidence:
    """The newest head of the warehouse's log of evidence, and whether the log is what the head says."""

    leaf_count: int
    at_ms: int
    key: str | None
    """Of whoever signed; None: nobody did."""
    faults: tuple[str, ...] | None
    """A sentence for each; None: so many leaves that a page does not read them."""
    held_at_ms: int
    """When the leaves were held against the head."""


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
