"""The attempts of a classic group to reach a generation, merged from its records and its coordinator's log lines.

A record is written when the leader's SyncGroup arrives; lines tell when the join phase began and ended, and of
generations that never got a record. Order is offset order for records; a line finds its record by number and time.
Source: formats.md A.7, D.2, D.3 (GroupCoordinator.scala, GroupMetadataManager.java).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rebalance_audit.domain.model import GroupRecord, LogEvent, LogKind
from rebalance_audit.domain.records import GroupMetadataValue

LINE_TO_RECORD_MS = 600_000
"""A line and a record of one number belong together within this time; clocks apart by more are a TR003."""
MISSING_ROWS_PER_GAP = 100
"""A gap longer than this is told by one row, not by millions."""

_CLOSING = (LogKind.STABILIZED, LogKind.EMPTIED)
_MEMBER_KINDS = frozenset(
    {
        LogKind.MEMBERS_NOT_REJOINED,
        LogKind.LEADER_REPLACED,
        LogKind.MEMBER_JOINED,
        LogKind.MEMBER_LEFT,
        LogKind.MEMBER_FAILED,
        LogKind.MEMBER_FENCED,
        LogKind.STATIC_MEMBER_REPLACED,
        LogKind.EMPTY_ASSIGNMENT,
    }
)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """One try to reach generation `number`, with every piece of evidence that belongs to it."""

    number: int
    incarnation: int = 0
    """Counts up when numbers start again: the group was deleted and created anew."""
    record: GroupRecord | None = None
    rewrite_seq: int = 0
    preparing: LogEvent | None = None
    stabilized: LogEvent | None = None
    received: LogEvent | None = None
    emptied: LogEvent | None = None
    failure: LogEvent | None = None
    during: list[LogEvent] = field(default_factory=list)
    """Member lines from the end of the join phase before to the end of this one."""
    missing_to: int | None = None
    """The last number of a run of missing ones told by this row."""
    use: int = 0
    """Which use of the number this is; 0 for the one that counted."""

    @property
    def value(self) -> GroupMetadataValue | None:
        return None if self.record is None else self.record.record.value

    @property
    def lines(self) -> list[LogEvent]:
        named = (self.preparing, self.stabilized, self.received, self.emptied, self.failure)
        return [line for line in named if line is not None]

    @property
    def known_at_ms(self) -> int | None:
        """When this attempt ended as far as evidence tells, for ordering."""
        if self.record is not None:
            return self.record.at_ms
        times = [line.at_ms for line in self.lines if line.at_ms is not None]
        return max(times) if times else None

    @property
    def outcome(self) -> str:
        """Without the two that need to know what follows: `open` stands for superseded and failed, too."""
        if self.missing_to is not None:
            return "missing"
        if self.value is not None:
            return "completed" if self.value.members else "emptied"
        if self.received is not None:
            return "completed"
        if self.emptied is not None:
            return "emptied"
        return "open"


def classic_attempts(records: Iterable[GroupRecord], lines: Iterable[LogEvent]) -> tuple[list[Attempt], list[LogEvent]]:
    """All attempts in order, and the lines that contradict the records and were not believed."""
    spine = _from_records(records)
    told = _from_lines(lines)
    contradicting = _join(spine, told)
    attempts = sorted(spine + [a for a in told if a.record is None], key=_order)
    attempts = _with_missing(attempts)
    _number_uses(attempts)
    return attempts, contradicting


def _from_records(records: Iterable[GroupRecord]) -> list[Attempt]:
    """One attempt per classic record in offset order; none for tombstones and for the record of a new group."""
    ordered = sorted(records, key=lambda r: (r.topic, r.partition, r.offset))
    attempts: list[Attempt] = []
    incarnation = 0
    last: Attempt | None = None
    was_deleted = False
    for record in ordered:
        value: GroupMetadataValue | None = record.record.value
        if value is None:
            was_deleted = True
            continue
        if value.generation == 0 and not value.members:
            if last is not None:
                incarnation, last = incarnation + 1, None
            continue
        attempt = Attempt(number=value.generation, incarnation=incarnation, record=record)
        if last is not None and value.generation <= last.number:
            before = last.value
            if value.generation == last.number and not was_deleted and value.members and before and before.members:
                attempt.rewrite_seq = last.rewrite_seq + 1
            else:
                incarnation += 1
                attempt.incarnation = incarnation
        attempts.append(attempt)
        last, was_deleted = attempt, False
    return attempts


def _from_lines(lines: Iterable[LogEvent]) -> list[Attempt]:
    """One attempt per `Preparing` line, or per closing line whose `Preparing` was not seen."""
    attempts: list[Attempt] = []
    running: Attempt | None = None
    waiting: list[LogEvent] = []
    for line in sorted((x for x in lines if x.at_ms is not None), key=_line_order):
        number = line.fields.get("generation_id")
        if line.kind is LogKind.PREPARING and isinstance(number, int):
            running = Attempt(number=number + 1, preparing=line, during=waiting)
            waiting = []
            attempts.append(running)
        elif line.kind in _CLOSING and isinstance(number, int):
            if running is None or running.number != number:
                running = Attempt(number=number, during=waiting)
                waiting = []
                attempts.append(running)
            if line.kind is LogKind.STABILIZED:
                running.stabilized = line
            else:
                running.emptied = line
            running = None
        elif line.kind is LogKind.ASSIGNMENT_RECEIVED and isinstance(number, int):
            owner = next((a for a in reversed(attempts) if a.number == number), None)
            if owner is None:
                owner = Attempt(number=number)
                attempts.append(owner)
            owner.received = line
        elif line.kind is LogKind.NO_MEMBER_REJOINED and running is not None:
            running.failure = line
            running = None
        elif line.kind is LogKind.PERSIST_FAILED and attempts:
            attempts[-1].failure = line
        elif line.kind in _MEMBER_KINDS:
            (waiting if running is None else running.during).append(line)
    return attempts


def _join(spine: list[Attempt], told: list[Attempt]) -> list[LogEvent]:
    """Give each told attempt to the record of its number nearest in time; `told` ones so given get that record.

    Returns the lines of attempts that cannot be true beside the records: a number that the records had left
    behind, or had not reached, at that time.
    """
    by_number: dict[int, list[Attempt]] = {}
    for attempt in spine:
        if attempt.rewrite_seq == 0:
            by_number.setdefault(attempt.number, []).append(attempt)
    # The last of several tries at one number is the one that got the record.
    for line_attempt in reversed(told):
        candidates = [a for a in by_number.get(line_attempt.number, []) if not a.lines]
        best = min(candidates, key=lambda a: _apart_ms(a, line_attempt), default=None)
        if best is None or _apart_ms(best, line_attempt) > LINE_TO_RECORD_MS:
            continue
        best.preparing, best.stabilized = line_attempt.preparing, line_attempt.stabilized
        best.received, best.emptied = line_attempt.received, line_attempt.emptied
        best.failure, best.during = line_attempt.failure, line_attempt.during
        line_attempt.record = best.record
    contradicting: list[LogEvent] = []
    if not spine:
        return contradicting
    for line_attempt in [a for a in told if a.record is None]:
        at_ms = line_attempt.known_at_ms or 0
        before = [a for a in spine if (a.known_at_ms or 0) <= at_ms]
        after = [a for a in spine if (a.known_at_ms or 0) > at_ms]
        line_attempt.incarnation = before[-1].incarnation if before else spine[0].incarnation
        same = [a.number for a in before if a.incarnation == line_attempt.incarnation]
        left_behind = bool(same) and line_attempt.number < max(same)
        not_reached = (
            bool(after) and after[0].incarnation == line_attempt.incarnation and (line_attempt.number > after[0].number)
        )
        forged = bool(after) and any(line.could_be_forged for line in line_attempt.lines)
        if left_behind or not_reached or forged:
            contradicting += line_attempt.lines
            told.remove(line_attempt)
    return contradicting


def _apart_ms(one: Attempt, other: Attempt) -> int:
    return abs((one.known_at_ms or 0) - (other.known_at_ms or 0))


def _with_missing(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Numbers that were skipped, as rows of their own. What came before the first record is coverage, not missing."""
    result: list[Attempt] = []
    for attempt in attempts:
        if result and result[-1].incarnation == attempt.incarnation:
            first, last = result[-1].number + 1, attempt.number - 1
            if last - first < MISSING_ROWS_PER_GAP:
                gaps = [(n, n) for n in range(first, last + 1)]
            else:
                gaps = [(first, last)]
            result += [Attempt(number=a, incarnation=attempt.incarnation, missing_to=b) for a, b in gaps]
        result.append(attempt)
    return result


def _number_uses(attempts: Sequence[Attempt]) -> None:
    """The use that counted keeps the plain number, so that logs which arrive later do not rename it."""
    by_number: dict[tuple[int, int], list[Attempt]] = {}
    for attempt in attempts:
        by_number.setdefault((attempt.number, attempt.rewrite_seq), []).append(attempt)
    for uses in by_number.values():
        uses.sort(key=lambda a: (a.record is None, a.received is None and a.emptied is None))
        for use, attempt in enumerate(uses):
            attempt.use = use


def _order(attempt: Attempt) -> tuple[int, int, int, int]:
    # A try without a record came before the one that got it.
    return (
        attempt.incarnation,
        attempt.number,
        0 if attempt.record is None else 1 + attempt.rewrite_seq,
        attempt.known_at_ms or 0,
    )


def _line_order(line: LogEvent) -> tuple[int, str, str]:
    # Within one file the byte decides; refs end in it, so pad the number.
    head, _, byte = line.ref.rpartition("@")
    return (line.at_ms or 0, head, byte.rjust(20, "0"))
