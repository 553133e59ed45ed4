"""All rebalances of one group, from everything known about it. Any order of evidence gives the same result."""

from __future__ import annotations

from bisect import bisect_right
from operator import attrgetter

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import MovementKind, Outcome
from rebalance_audit.domain.model import NO_END, GroupEvidence, LogKind, Rebalance, changed
from rebalance_audit.domain.numbers import happened_at_ms
from rebalance_audit.domain.reconstruct.attempts.by_lines import line_order
from rebalance_audit.domain.reconstruct.attempts.frame import rebalance_id
from rebalance_audit.domain.reconstruct.classic.rebalances import reconstruct_classic
from rebalance_audit.domain.reconstruct.connect.rebalances import is_connect_group, reconstruct_connect
from rebalance_audit.domain.reconstruct.epochs.epoch import GROUP_TYPES
from rebalance_audit.domain.reconstruct.epochs.lines import epochs_of_lines
from rebalance_audit.domain.reconstruct.epochs.rebalances import reconstruct_modern
from rebalance_audit.domain.reconstruct.standstills import with_standstills

from .reconstruction import Contradiction, Reconstruction, in_time, of_line

__all__ = ["Contradiction", "Reconstruction", "is_connect_group", "rebalance_id", "reconstruct"]

EPOCH_RECORDS = frozenset(f"{prefix}Metadata" for prefix in GROUP_TYPES)


def reconstruct(evidence: GroupEvidence) -> Reconstruction:
    """All rebalances of one group, from everything known about it. Each event of the evidence belongs to one rebalance
    or to none; commits alone make no rebalance."""
    evidence = in_order(evidence)
    if is_connect_group(evidence):
        return reconstruct_connect(evidence)
    found = _of_consumers(evidence)
    return changed(found, rebalances=tuple(map(_with_grown_topics, with_standstills(found.rebalances, evidence.marks))))


def _with_grown_topics(rebalance: Rebalance) -> Rebalance:
    if rebalance.trigger != Cause.TOPIC_METADATA_CHANGED:
        return rebalance
    grown = {m.topic for m in rebalance.movements if m.kind == MovementKind.ASSIGNED and m.topic is not None}
    return changed(rebalance, grown_topics=tuple(sorted(grown)))


def _of_consumers(evidence: GroupEvidence) -> Reconstruction:
    if not evidence.records and not evidence.group_id.replace("\t", " ").isprintable():
        # A name with line breaks tears its lines apart: what is known of it from lines alone is what a client made up.
        detail = "the group's name holds control characters, and no record names it"
        return Reconstruction(rebalances=(), contradictions=tuple(of_line(line, detail) for line in evidence.lines))
    classic, contradictions = reconstruct_classic(evidence)
    modern, more = reconstruct_modern(evidence)
    from_lines, not_believed = epochs_of_lines(evidence, [r for r in modern if r.outcome != Outcome.MISSING])
    contradicting = in_time(contradictions + more + not_believed)
    modern += from_lines
    if not modern:
        return Reconstruction(rebalances=tuple(classic), contradictions=contradicting)
    if not classic and not from_lines:
        return Reconstruction(rebalances=tuple(modern), contradictions=contradicting)
    # A converted group goes on counting: numbers one side lacks are the other side's.
    numbers = {r.group_epoch for r in modern if r.outcome != Outcome.MISSING} | {
        r.generation_id for r in classic if r.outcome != Outcome.MISSING
    }
    rows = [r for r in (*classic, *modern) if r.outcome != Outcome.MISSING or _number(r) not in numbers]
    places, lives = _places(evidence), _lives(evidence)
    rows.sort(
        key=lambda r: (
            bisect_right(lives, happened_at_ms(r) or 0),
            _number(r),
            places.get((r.group_epoch is not None, _number(r)), NO_END),
            r.rewrite_seq,
            r.ended_at_ms or 0,
        )
    )
    return Reconstruction(rebalances=tuple(rows), contradictions=contradicting)


def in_order(evidence: GroupEvidence) -> GroupEvidence:
    """The same evidence, each piece once, in the order of the log it stands in."""
    records = {r.ref: r for r in sorted(evidence.records, key=attrgetter("topic", "partition", "offset", "at_ms"))}
    lines = {line.ref: line for line in sorted(evidence.lines, key=line_order)}
    marks = sorted(set(evidence.marks), key=attrgetter("topic", "partition", "first_offset", "last_offset"))
    return changed(
        evidence,
        records=tuple(records.values()),
        lines=tuple(lines.values()),
        marks=tuple(marks),
        statuses=tuple({r.ref: r for r in evidence.statuses}.values()),
        configs=tuple({r.ref: r for r in evidence.configs}.values()),
    )


def _number(rebalance: Rebalance) -> int:
    return (rebalance.generation_id if rebalance.generation_id is not None else rebalance.group_epoch) or 0


def _lives(evidence: GroupEvidence) -> list[int]:
    """When numbers began anew, in the order of time: where an empty classic group gave way to another protocol, or the
    group was deleted."""
    starts: list[int] = []
    last = 0
    for record in sorted(evidence.records, key=attrgetter("topic", "partition", "offset")):
        name, value = record.record.name, record.record.value
        if value is None or (name != "GroupMetadata" and name not in EPOCH_RECORDS):
            continue
        number = value.generation if name == "GroupMetadata" else value.epoch
        if number < last:
            starts.append(record.at_ms)
        last = number
    starts += [
        line.at_ms
        for line in evidence.lines
        if line.kind is LogKind.GROUP_CONVERTED and line.fields.get("was_empty") and line.at_ms is not None
    ]
    return sorted(starts)


def _places(evidence: GroupEvidence) -> dict[tuple[bool, int], int]:
    """Offset of the record of each (is an epoch, number): a conversion gives both sides the same number."""
    places: dict[tuple[bool, int], int] = {}
    for record in evidence.records:
        name, value = record.record.name, record.record.value
        if value is None:
            continue
        if name == "GroupMetadata":
            places.setdefault((False, value.generation), record.offset)
        elif name in EPOCH_RECORDS:
            places.setdefault((True, value.epoch), record.offset)
    return places
