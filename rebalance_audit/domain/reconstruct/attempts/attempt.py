"""The attempts of a classic group to reach a generation, merged from its records and its coordinator's log lines.

A record is written when the leader's SyncGroup arrives; lines say when the join phase began and ended, and of
generations that never got a record. Order is offset order for records; a line finds its record by number and time.
Source: docs/kafka_writes.md#when-a-group-record-is-written (GroupCoordinator.scala, GroupMetadataManager.java).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import Outcome
from rebalance_audit.domain.log_lines.reasons import classify_reason
from rebalance_audit.domain.model import GroupRecord, LogEvent, LogKind
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction, of_line
from rebalance_audit.domain.records import GroupMetadataValue

LINE_TO_RECORD_MS = 600_000
"""A line and a record of one number belong together within this time; clocks apart by more are a TR003."""
MISSING_ROWS_PER_GAP = 100
"""A gap longer than this is one row, not millions."""

_LOOK_BACK = 20
"""An assignment arrives while its generation is among the last."""
_DOWNGRADE = "Downgrade group "

_ONE_OPERATION_MS = 200
"""Lines that one request caused are no further apart (docs/measured.md#lines-and-records)."""

_CLOSING = (LogKind.STABILIZED, LogKind.EMPTIED)
_MEMBER_KINDS = frozenset(
    {
        LogKind.MEMBERS_NOT_REJOINED,
        LogKind.LEADER_REPLACED,
        LogKind.MEMBER_JOINED,
        LogKind.MEMBER_LEFT,
        LogKind.MODERN_MEMBER_LEFT,
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
    """Counts up when numbers start again: the group was deleted and created again."""
    record: GroupRecord | None = None
    rewrite_seq: int = 0
    preparing: LogEvent | None = None
    stabilized: LogEvent | None = None
    received: LogEvent | None = None
    emptied: LogEvent | None = None
    failure: LogEvent | None = None
    unwritten: LogEvent | None = None
    """The `Preparing` line of the next one, if it says that the record of this one could not be written."""
    undelivered: GroupRecord | None = None
    """A record that was written after all, when its members had been refused the assignment in it."""
    replaced: LogEvent | None = None
    """The line by which a static member came back; None unless this is a rewrite."""
    converted: LogEvent | None = None
    """A consumer group became classic with this number: the `Preparing` line of the next one says so."""
    during: list[LogEvent] = field(default_factory=list)
    """Member lines from the end of the join phase before to the end of this one."""
    missing_to: int | None = None
    """The last number of a run of missing ones that this row stands for."""
    use: int = 0
    """Counts the uses of the number; 0 for the one that counted."""
    _member_ids: frozenset[str] | None = field(default=None, init=False, repr=False)

    @property
    def value(self) -> GroupMetadataValue | None:
        return None if self.record is None else self.record.record.value

    @property
    def member_ids(self) -> frozenset[str] | None:
        """The members in its record; None without a record of a classic group. Ask when it has got its record."""
        if self._member_ids is None and isinstance(self.value, GroupMetadataValue):
            self._member_ids = frozenset(m.member_id for m in self.value.members)
        return self._member_ids

    @property
    def lines(self) -> list[LogEvent]:
        named = (
            self.preparing,
            self.stabilized,
            self.received,
            self.emptied,
            self.failure,
            self.unwritten,
            self.replaced,
            self.converted,
        )
        return [line for line in named if line is not None]

    @property
    def known_at_ms(self) -> int | None:
        """The end of this attempt as far as evidence shows it, for ordering."""
        if self.record is not None:
            return self.record.at_ms
        times = [line.at_ms for line in self.lines if line.at_ms is not None]
        return max(times) if times else None

    @property
    def outcome(self) -> Outcome:
        """Without the two that need to know what follows: `open` stands for superseded and failed, too."""
        if self.missing_to is not None:
            return Outcome.MISSING
        if self.value is not None:
            return Outcome.COMPLETED if self.value.members else Outcome.EMPTIED
        if self.unwritten is not None:
            return Outcome.FAILED
        if self.received is not None or self.rewrite_seq or self.converted is not None:
            return Outcome.COMPLETED
        if self.emptied is not None:
            return Outcome.EMPTIED
        return Outcome.OPEN


def classic_attempts(
    records: Iterable[GroupRecord], lines: Iterable[LogEvent]
) -> tuple[list[Attempt], list[Contradiction]]:
    """All attempts in order, and what contradicts the rest and was not believed. Records and lines come in order."""
    spine, contradicting = _from_records(records)
    logged = _from_lines(lines)
    contradicting += _join(spine, logged)
    attempts = sorted(spine + [a for a in logged if a.record is None], key=_order)
    for attempt in attempts:
        if attempt.unwritten is not None:
            attempt.undelivered, attempt.record = attempt.record, None
    attempts = _with_missing(attempts)
    _number_uses(attempts)
    return attempts, contradicting


def _from_records(records: Iterable[GroupRecord]) -> tuple[list[Attempt], list[Contradiction]]:
    """One attempt per classic record in offset order; none for tombstones and for the record of a new group.

    A number that goes back without a deletion in between is a contradiction, and so is one that is written twice with
    other members or assignments: two logs of one partition, or a truncation. What stands later counts on from there.
    """
    contradicting: list[Contradiction] = []
    attempts: list[Attempt] = []
    incarnation = 0
    last: Attempt | None = None
    was_deleted = False
    for record in records:
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
            is_twice = value.generation == last.number and not was_deleted and before is not None
            if is_twice and before is not None and _is_rewritten(before, value):
                attempt.rewrite_seq = last.rewrite_seq + 1
            else:
                if not was_deleted:
                    detail = f"generation {value.generation} stands after {last.number}, and nothing deleted the group"
                    if is_twice:
                        detail = f"generation {value.generation} was written twice, not for a returning static member"
                    refs = (last.record.ref, record.ref) if last.record is not None else (record.ref,)
                    contradicting.append(Contradiction(at_ms=record.at_ms, detail=detail, evidence=refs))
                incarnation += 1
                attempt.incarnation = incarnation
        attempts.append(attempt)
        last, was_deleted = attempt, False
    return attempts, contradicting


def _is_rewritten(before: GroupMetadataValue, after: GroupMetadataValue) -> bool:
    """Whether a static member came back: the same places with the same assignments, under new member ids."""
    places = [{m.group_instance_id or m.member_id: m.assignment for m in value.members} for value in (before, after)]
    return bool(after.members) and places[0] == places[1]


class _LineReader:
    """Reads attempts from lines: one per `Preparing` line, or per closing line whose `Preparing` is not in evidence."""

    def __init__(self) -> None:
        self.attempts: list[Attempt] = []
        self._running: Attempt | None = None
        self._incarnation = 0
        self._closed: Attempt | None = None
        self._waiting: list[LogEvent] = []

    def hear(self, line: LogEvent) -> None:
        number = line.fields.get("generation_id")
        running = self._running
        if line.kind is LogKind.PREPARING and isinstance(number, int):
            self._prepare(line, number)
        elif line.kind in _CLOSING and isinstance(number, int):
            self._close(line, number)
        elif line.kind is LogKind.ASSIGNMENT_RECEIVED and isinstance(number, int):
            owner = next(
                (a for a in reversed(self.attempts[-_LOOK_BACK:]) if a.number == number and not a.rewrite_seq), None
            )
            (owner or self._begin(number)).received = line
        elif line.kind is LogKind.JOIN_PHASE_FAILED:
            if running is not None:
                running.during.append(line)
        elif line.kind is LogKind.NO_MEMBER_REJOINED and running is not None:
            running.failure, self._running = line, None
        elif line.kind is LogKind.PERSIST_FAILED and self.attempts:
            self.attempts[-1].failure = line
        elif line.kind is LogKind.STATIC_MEMBER_REPLACED and running is None and self.attempts:
            last = self.attempts[-1]
            self._begin(last.number, rewrite_seq=last.rewrite_seq + 1, replaced=line)
        elif line.kind in _MEMBER_KINDS:
            (self._waiting if running is None else running.during).append(line)

    def ended(self) -> list[Attempt]:
        """All attempts; there are no more lines."""
        self._end_waiting(None)
        return self.attempts

    def _begin(
        self,
        number: int,
        *,
        rewrite_seq: int = 0,
        preparing: LogEvent | None = None,
        replaced: LogEvent | None = None,
        converted: LogEvent | None = None,
    ) -> Attempt:
        attempt = Attempt(
            number=number,
            incarnation=self._incarnation,
            rewrite_seq=rewrite_seq,
            preparing=preparing,
            replaced=replaced,
            converted=converted,
        )
        self.attempts.append(attempt)
        return attempt

    def _prepare(self, line: LogEvent, number: int) -> None:
        last = self.attempts[-1] if self.attempts else None
        if last is not None and last.replaced is not None and _is_near(last.replaced, line):
            # It came back with another subscription or protocol: a rebalance, not a rewrite.
            self._waiting.insert(0, last.replaced)
            self.attempts.pop()
        reason = str(line.fields.get("reason", ""))
        if reason.startswith(_DOWNGRADE):
            self._begin(number, converted=line)
        if last is not None and last.number == number and classify_reason(reason, None).trigger == Cause.APPEND_FAILED:
            last.unwritten = line
        if number == 0 and self.attempts and self.attempts[-1].number > 1:
            self._incarnation += 1  # deleted meanwhile, and started again
        self._end_waiting(line)
        self._running = self._begin(number + 1, preparing=line)
        self._running.during, self._waiting = self._waiting, []

    def _close(self, line: LogEvent, number: int) -> None:
        running = self._running
        if running is None or running.number != number:
            running = self._begin(number)
            running.during, self._waiting = self._waiting, []
        if line.kind is LogKind.STABILIZED:
            running.stabilized = line
        else:
            running.emptied = line
        self._running, self._closed = None, running

    def _end_waiting(self, next_line: LogEvent | None) -> None:
        """Gives the lines that were put aside to the attempt that has just ended. Before 4.0 the line of a LeaveGroup
        comes after the lines of what it caused, so the line of the member for which the join phase waited comes after
        its end."""
        if self._closed is None:
            return
        end = self._closed.stabilized or self._closed.emptied
        of_end = [
            line for line in self._waiting
            if line.kind is LogKind.MEMBER_LEFT and end is not None and _is_near(end, line)
            and (next_line is None or _apart_ms(end, line) < _apart_ms(line, next_line))
        ]  # fmt: skip
        self._closed.during += of_end
        self._waiting = [line for line in self._waiting if line not in of_end]


def _from_lines(lines: Iterable[LogEvent]) -> list[Attempt]:
    reader = _LineReader()
    for line in lines:
        if line.at_ms is not None:
            reader.hear(line)
    return reader.ended()


def _join(spine: list[Attempt], logged: list[Attempt]) -> list[Contradiction]:
    """Joins each attempt that lines show with the record of its number that is nearest in time.

    Returns the lines of attempts that cannot be true beside the records: a number that the records had left
    behind, or had not reached, at that time.
    """
    by_number: dict[int, list[Attempt]] = {}
    for attempt in spine:
        if attempt.rewrite_seq == 0:
            by_number.setdefault(attempt.number, []).append(attempt)
    # The last of several tries at one number is the one that got the record.
    _join_rewrites(spine, logged)
    for line_attempt in reversed(logged):
        if line_attempt.rewrite_seq:
            continue
        candidates = [a for a in by_number.get(line_attempt.number, []) if not a.lines]
        best = _nearest(candidates, line_attempt)
        if best is None:
            continue
        best.preparing, best.stabilized = line_attempt.preparing, line_attempt.stabilized
        best.received, best.emptied = line_attempt.received, line_attempt.emptied
        best.failure, best.during = line_attempt.failure, line_attempt.during
        best.unwritten = line_attempt.unwritten
        best.converted = line_attempt.converted
        line_attempt.record = best.record
    if not spine or all(a.record is not None for a in logged):
        return []
    contradicting: list[Contradiction] = []
    times = [a.known_at_ms or 0 for a in spine]
    highest = list(accumulate(((a.incarnation, a.number) for a in spine), max))
    kept: list[Attempt] = []
    for line_attempt in logged:
        if line_attempt.record is not None:
            kept.append(line_attempt)
            continue
        # Records stand in the order of their offsets; where their clocks go back, the line is placed among neighbours.
        at = bisect_right(times, line_attempt.known_at_ms or 0)
        line_attempt.incarnation = spine[at - 1].incarnation if at else spine[0].incarnation
        following = spine[at] if at < len(spine) else None
        left_behind = bool(at) and highest[at - 1] > (line_attempt.incarnation, line_attempt.number)
        not_reached = (
            following is not None
            and following.incarnation == line_attempt.incarnation
            and line_attempt.number > following.number
        )
        forged = following is not None and any(line.could_be_forged for line in line_attempt.lines)
        if left_behind or not_reached or forged:
            detail = f"it names generation {line_attempt.number}, which the records had " + (
                "left behind then" if left_behind else "not reached then" if not_reached else "no room for"
            )
            contradicting += [of_line(line, detail) for line in line_attempt.lines]
        else:
            kept.append(line_attempt)
    logged[:] = kept
    return contradicting


def _join_rewrites(spine: list[Attempt], logged: list[Attempt]) -> None:
    """Where there are records, a line alone makes no rewrite: the member may have gone again before the record was
    written. But 2.3 and 2.4, whose line names no group, write no such record."""
    by_number: dict[int, list[Attempt]] = {}
    for attempt in spine:
        if attempt.rewrite_seq:
            by_number.setdefault(attempt.number, []).append(attempt)
    for line_attempt in logged:
        if not line_attempt.rewrite_seq:
            continue
        candidates = [a for a in by_number.get(line_attempt.number, ()) if a.replaced is None]
        best = _nearest(candidates, line_attempt)
        if best is not None:
            best.replaced = line_attempt.replaced
    if spine:
        logged[:] = [a for a in logged if not a.rewrite_seq or (a.replaced is not None and a.replaced.group_id is None)]


def _is_near(one: LogEvent, other: LogEvent) -> bool:
    return _apart_ms(one, other) <= _ONE_OPERATION_MS


def _apart_ms(one: LogEvent, other: LogEvent) -> int:
    return abs((one.at_ms or 0) - (other.at_ms or 0))


def _nearest(candidates: Iterable[Attempt], logged: Attempt) -> Attempt | None:
    """The one nearest in time, if it is near enough to be the same attempt."""
    logged_at_ms = logged.known_at_ms or 0
    best, best_ms = None, LINE_TO_RECORD_MS + 1
    for attempt in candidates:
        apart_ms = abs((attempt.known_at_ms or 0) - logged_at_ms)
        if apart_ms < best_ms:
            best, best_ms = attempt, apart_ms
    return best


def _with_missing(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Numbers that were skipped, as rows of their own. What came before the first record is coverage, not missing."""
    result: list[Attempt] = []
    for attempt in attempts:
        before = result[-1] if result else attempt
        if before.number + 1 < attempt.number and before.incarnation == attempt.incarnation:
            first, last = before.number + 1, attempt.number - 1
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
        if len(uses) > 1:
            uses.sort(key=lambda a: (a.record is None, a.received is None and a.emptied is None))
        for use, attempt in enumerate(uses):
            attempt.use = use


def _order(attempt: Attempt) -> tuple[int, int, int, int]:
    # A try without a record came before the one that got it.
    return (
        attempt.incarnation,
        attempt.number,
        0 if attempt.record is None and not attempt.rewrite_seq else 1 + attempt.rewrite_seq,
        attempt.known_at_ms or 0,
    )


def line_order(line: LogEvent) -> tuple[int, str, str]:
    # Within one file the byte decides; refs end in it, so pad the number.
    head, _, byte = line.ref.rpartition("@")
    return (line.at_ms or 0, head, byte.rjust(20, "0"))
