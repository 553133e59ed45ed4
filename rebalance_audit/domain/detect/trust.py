"""TR001 to TR005: what the evidence itself has wrong with it. Over tables, not over one group's history."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rebalance_audit.domain.detect.finding import Extent, make_finding
from rebalance_audit.domain.detect.wording import counted, duration, shown
from rebalance_audit.domain.gather.clocks import CLOCK_APART_MS, NodeClock, ZoneSource
from rebalance_audit.domain.kinds import Severity
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
class ContradictionCount:
    """silver.contradiction, counted per cluster, group and kind of evidence."""

    cluster_id: str
    group_id: str
    is_line: bool
    """If false, it is about records."""
    count: int
    first_detail: str
    first_ref: str
    last_ref: str
    first_at_ms: int | None = None
    last_at_ms: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockReading:
    """A node's clock by those of its lines that belong to records."""

    cluster_id: str
    node: str
    zone: str | None
    """The time zone as configured."""
    clock: NodeClock
    """The time zone by which the lines are read."""
    first_ref: str
    last_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClockStep:
    """Records of one partition whose times go back by more than a moment: another leader's clock wrote on."""

    cluster_id: str
    source: str
    back_ms: int
    before_ref: str
    ref: str
    at_ms: int


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


def _extent(key: str, first_at_ms: int | None, last_at_ms: int | None, seen_until_ms: int = 0) -> Extent:
    """Open for good: the evidence stays as it is. What has no time is seen at the end of the evidence."""
    last_ms = seen_until_ms if last_at_ms is None else last_at_ms
    return Extent(
        key=key,
        is_open=True,
        first_seen_at_ms=last_ms if first_at_ms is None else first_at_ms,
        last_seen_at_ms=last_ms,
    )


def undecoded_findings(rows: Iterable[UndecodedCount], seen_until_ms: int) -> list[Finding]:
    """TR002: records or lines of a type, version or form that was not understood; one finding per source and reason.

    Silent for what is known and of no interest: that is counted as skipped, not as undecoded.
    """
    found: list[Finding] = []
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.source, r.reason)):
        if row.count <= 0:
            continue
        is_newer = row.reason in _NEWER
        found.append(
            make_finding(
                row.cluster_id,
                "TR002",
                "source",
                row.source,
                _extent(row.reason, row.first_at_ms, row.last_at_ms, seen_until_ms),
                severity=Severity.WARNING,
                title=f"{counted(row.count, 'record')} of {shown(row.source)} could not be read: "
                f"{row.reason.replace('_', ' ')}",
                detail="Everything else of this source was read; what these would have shown is missing.",
                numbers={"count": row.count, "reason": row.reason},
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
        source, times = f"{row.topic}-{row.partition}", (row.first_at_ms, row.last_at_ms)
        found.append(
            make_finding(
                row.cluster_id,
                "TR005",
                "source",
                source,
                _extent(row.first_ref, min(times), max(times)),
                severity=Severity.WARNING,
                title=f"{counted(row.count, 'offset')} of {shown(source)} came with different bytes from different "
                f"sources",
                detail="Both are kept; the copy read first is the one the rebalances are built from.",
                numbers={"count": row.count},
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
        end = "the end" if row.to_position is None else str(row.to_position)
        why = shown(row.problem.removesuffix("."), 160)
        found.append(
            make_finding(
                row.cluster_id,
                "TR001",
                "source",
                row.source,
                _extent(f"{row.problem_code} {row.from_position}", row.from_at_ms, row.to_at_ms, seen_until_ms),
                severity=Severity.INFO if row.problem_code == "skipped" else Severity.WARNING,
                title=f"{shown(row.source)} was not seen from {row.from_position} to {end}: {why}",
                numbers={"from_position": row.from_position, "to_position": row.to_position},
                advice="Give the missing file or let the collector run without a break; rebalances in the gap are "
                "marked as incomplete.",
                evidence=(f"{row.source}@{row.from_position}",),
            )
        )
    return found


def clock_findings(rows: Iterable[ClockReading]) -> list[Finding]:
    """TR003: a configured log zone that the records contradict, or a host's clock apart from the brokers'.

    Silent where fewer than three lines belong to records, where these scatter, and below a second.
    """
    found: list[Finding] = []
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.node)):
        fault = _wrong_zone(row) or _apart(row)
        if fault is None:
            continue
        title, advice, numbers = fault
        found.append(
            make_finding(
                row.cluster_id,
                "TR003",
                "source",
                row.node,
                _extent(row.first_ref, row.last_at_ms, row.last_at_ms),
                severity=Severity.WARNING,
                title=title,
                numbers=numbers,
                advice=advice,
                evidence=(row.first_ref,),
            )
        )
    return found


_Fault = tuple[str, str, dict[str, object]]
"""Title, advice, numbers."""


def _wrong_zone(row: ClockReading) -> _Fault | None:
    clock = row.clock
    if row.zone is None or clock.source is not ZoneSource.INFERRED:
        return None
    offset = _offset(clock.utc_offset_ms)
    return (
        f"The log zone of {shown(row.node)} is {shown(row.zone)}, but its lines agree with the records at {offset}",
        f"Set the log zone of {shown(row.node)} to {offset}, or leave it out. Its lines were read at {offset}.",
        {
            "pair_count": clock.pair_count,
            "agreeing_count": clock.agreeing_count,
            "utc_offset_ms": clock.utc_offset_ms,
        },
    )


def _apart(row: ClockReading) -> _Fault | None:
    skew_ms, spread_ms = row.clock.skew_ms, row.clock.spread_ms
    if skew_ms is None or not row.clock.is_apart:
        return None
    side = "ahead of" if skew_ms > 0 else "behind"
    return (
        f"The clock of {shown(row.node)} is {duration(abs(skew_ms))} {side} the brokers'",
        f"Let {shown(row.node)} keep time (chrony, NTP); its lines were put right by that much.",
        {"skew_ms": skew_ms, "spread_ms": spread_ms, "agreeing_count": row.clock.agreeing_count},
    )


def _offset(utc_offset_ms: int) -> str:
    minutes = abs(utc_offset_ms) // 60_000
    return f"{'-' if utc_offset_ms < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}"


def clock_step_findings(rows: Iterable[ClockStep]) -> list[Finding]:
    """TR003, too: the times of a partition's records go back, as when a broker with a slower clock leads it on.

    One finding per partition, with the largest step. Silent below a second.
    """
    largest: dict[tuple[str, str], ClockStep] = {}
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.source, r.back_ms, r.ref)):
        if row.back_ms > CLOCK_APART_MS:
            largest[row.cluster_id, row.source] = row
    return [
        make_finding(
            row.cluster_id,
            "TR003",
            "source",
            row.source,
            _extent(row.ref, row.at_ms, row.at_ms),
            severity=Severity.WARNING,
            title=f"Times of {shown(row.source)} go back by {duration(row.back_ms)}: its leaders' clocks disagree",
            detail="Order is by offset and stays right; durations across this place are off by that much.",
            numbers={"back_ms": row.back_ms},
            advice="Let the brokers keep time (chrony, NTP).",
            evidence=(row.before_ref, row.ref),
        )
        for row in largest.values()
    ]


def contradiction_findings(rows: Iterable[ContradictionCount], seen_until_ms: int) -> list[Finding]:
    """TR004: lines that no record supports, or records of one group that cannot stand behind each other.

    One finding per group and kind. Silent for lines of generations from before the first record: nothing contradicts
    them.
    """
    found: list[Finding] = []
    for row in sorted(rows, key=lambda r: (r.cluster_id, r.group_id, r.is_line)):
        if row.count <= 0:
            continue
        group, verb = shown(row.group_id), "contradicts" if row.count == 1 else "contradict"
        found.append(
            make_finding(
                row.cluster_id,
                "TR004",
                "group",
                row.group_id,
                _extent(
                    f"{'line' if row.is_line else 'record'} {row.first_ref}",
                    row.first_at_ms,
                    row.last_at_ms,
                    seen_until_ms,
                ),
                severity=Severity.WARNING,
                title=f"{counted(row.count, 'log line')} about {group} {verb} the records"
                if row.is_line
                else f"Records of {group} contradict each other in {counted(row.count, 'place')}",
                detail=f"The first: {shown(row.first_detail, 160)}. The records were believed."
                if row.is_line
                else f"The first: {shown(row.first_detail, 160)}. What stands later counts on from there.",
                numbers={"count": row.count},
                advice="A client can write any text into a broker's log by its ids and reasons: look who connects as "
                "this group. Else the lines are another cluster's, or the log zone is wrong (TR003)."
                if row.is_line
                else "Two clusters may share one cluster id here, or an unclean leader election cut the partition: "
                "compare the replicas' segments at the named offsets.",
                evidence=tuple(dict.fromkeys((row.first_ref, row.last_ref))),
            )
        )
    return found
