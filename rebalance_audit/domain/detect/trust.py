"""TR001, TR002, TR005: what the evidence itself has wrong with it. Over tables, not over one group's history."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rebalance_audit.domain.detect.history import as_json, finding_id
from rebalance_audit.domain.detect.wording import counted, shown
from rebalance_audit.domain.model import Finding

_RECORD_REF = re.compile(r"record:(.+)@\d+\Z", re.DOTALL)
_LOG_REF = re.compile(r"log:(.+)#[0-9a-fA-F]+@\d+\Z", re.DOTALL)

_NEWER = frozenset({"unknown_record_type", "unknown_value_version", "unknown_layout"})
"""A newer Kafka, most likely; the other reasons say that the bytes are damaged or not what they should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UndecodedCount:
    """silver.undecoded, counted per cluster, source and reason."""

    cluster_id: str
    source: str
    """`__consumer_offsets-7`, or `broker-1/server.log`."""
    reason: str
    count: int
    first_ref: str
    last_ref: str
    first_at_ms: int | None = None
    last_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CopyConflict:
    """bronze.record with `copy` > 0, counted per cluster and partition."""

    cluster_id: str
    topic: str
    partition: int
    count: int
    first_ref: str
    last_ref: str
    first_at_ms: int
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CoverageGap:
    """A row of gold.coverage with `is_gap`."""

    cluster_id: str
    source: str
    problem_code: str
    problem: str
    from_position: int
    to_position: int | None = None
    from_at_ms: int | None = None
    to_at_ms: int | None = None


def source_of(ref: str) -> str:
    """The topic-partition or file an evidence ref lies in; the ref itself if it is of no known form."""
    match = _RECORD_REF.match(ref) or _LOG_REF.match(ref)
    return match[1] if match else ref


def undecoded_findings(rows: Iterable[UndecodedCount], seen_until_ms: int) -> list[Finding]:
    """TR002: records or lines of a type, version or form that was not understood; one finding per source and reason.

    Silent for what is known and of no interest: that is counted as skipped, not as undecoded.
    """
    found: list[Finding] = []
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.source, r.reason)):
        if row.count <= 0:
            continue
        is_newer = row.reason in _NEWER
        last_ms = row.last_at_ms if row.last_at_ms is not None else seen_until_ms
        first_ms = row.first_at_ms if row.first_at_ms is not None else last_ms
        found.append(
            Finding(
                cluster_id=row.cluster_id,
                finding_id=finding_id(row.cluster_id, "TR002", row.source, row.reason),
                rule_id="TR002",
                severity="warning",
                subject_type="source",
                subject=row.source,
                status="open",
                first_seen_at_ms=min(first_ms, last_ms),
                last_seen_at_ms=last_ms,
                title=f"{counted(row.count, 'record')} of {shown(row.source)} could not be read: "
                f"{row.reason.replace('_', ' ')}",
                detail="Everything else of this source was read; what these would have told is missing.",
                numbers=as_json({"count": row.count, "reason": row.reason}),
                advice="This cluster writes something newer than this release knows: update it, then run again; the "
                "bytes "
                "are kept."
                if is_newer
                else "The bytes are not what the format says: compare the refs with kafka-dump-log, and look for "
                "damaged "
                "or foreign files.",
                evidence=tuple(dict.fromkeys((row.first_ref, row.last_ref))),
            )
        )
    return found


def copy_conflict_findings(rows: Iterable[CopyConflict]) -> list[Finding]:
    """TR005: two copies of one offset differ in key, value, timestamp or headers; one finding per partition.

    Silent for copies that agree, which collapse into one.
    """
    found: list[Finding] = []
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.topic, r.partition)):
        if row.count <= 0:
            continue
        source = f"{row.topic}-{row.partition}"
        found.append(
            Finding(
                cluster_id=row.cluster_id,
                finding_id=finding_id(row.cluster_id, "TR005", source, row.first_ref),
                rule_id="TR005",
                severity="warning",
                subject_type="source",
                subject=source,
                status="open",
                first_seen_at_ms=min(row.first_at_ms, row.last_at_ms),
                last_seen_at_ms=max(row.first_at_ms, row.last_at_ms),
                title=f"{counted(row.count, 'offset')} of {shown(source)} came with different bytes from different "
                f"sources",
                detail="Both are kept; the copy read first is the one the rebalances are built from.",
                numbers=as_json({"count": row.count}),
                advice="Either two clusters share one cluster id here, or an unclean leader election replaced "
                "records: compare "
                "the replicas' segments at the named offsets.",
                evidence=tuple(dict.fromkeys((row.first_ref, row.last_ref))),
            )
        )
    return found


def coverage_findings(rows: Iterable[CoverageGap], seen_until_ms: int) -> list[Finding]:
    """TR001: compaction, rotation, retention, damage or a stopped collector took something.

    Silent for compaction before the first reading: a topic that cleans itself is no fault. Info for what was left
    out on purpose.
    """
    found: list[Finding] = []
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.source, r.from_position, r.problem_code)):
        if row.problem_code in ("none", "compacted", "time_zone", "not_given"):
            continue
        last_ms = row.to_at_ms if row.to_at_ms is not None else seen_until_ms
        first_ms = row.from_at_ms if row.from_at_ms is not None else last_ms
        end = "the end" if row.to_position is None else str(row.to_position)
        found.append(
            Finding(
                cluster_id=row.cluster_id,
                finding_id=finding_id(row.cluster_id, "TR001", row.source, f"{row.problem_code} {row.from_position}"),
                rule_id="TR001",
                severity="info" if row.problem_code == "skipped" else "warning",
                subject_type="source",
                subject=row.source,
                status="open",
                first_seen_at_ms=min(first_ms, last_ms),
                last_seen_at_ms=last_ms,
                title=f"{shown(row.source)} was not seen from {row.from_position} to {end}: {shown(row.problem, 160)}",
                numbers=as_json({"from_position": row.from_position, "to_position": row.to_position}),
                advice="Give the missing file or let the collector run without a break; rebalances in the gap are "
                "marked as incomplete.",
                evidence=(f"{row.source}@{row.from_position}",),
            )
        )
    return found
