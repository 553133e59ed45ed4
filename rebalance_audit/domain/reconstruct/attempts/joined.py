"""The attempts of a classic group to reach a generation, merged from its records and its coordinator's log lines.

A record is written when the leader's SyncGroup arrives. Order is offset order for records; a line finds its record by
number and time. Source: docs/kafka_writes.md#when-a-group-record-is-written (GroupCoordinator.scala,
GroupMetadataManager.java).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate

from rebalance_audit.domain.model import GroupRecord, LogEvent
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.attempts.by_lines import attempts_by_lines
from rebalance_audit.domain.reconstruct.attempts.by_records import attempts_by_records
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction, of_line

LINE_TO_RECORD_MS = 600_000
"""A line and a record of one number belong together within this time; clocks apart by more are a TR003."""
MISSING_ROWS_PER_GAP = 100
"""A gap longer than this is one row, not millions."""


def classic_attempts(
    records: Iterable[GroupRecord], lines: Iterable[LogEvent]
) -> tuple[list[Attempt], list[Contradiction]]:
    """All attempts in order, and the evidence that contradicts the rest and was not believed. Records and lines come in
    order."""
    spine, contradicting = attempts_by_records(records)
    logged = attempts_by_lines(lines)
    contradicting += _join(spine, logged)
    attempts = sorted(spine + [a for a in logged if a.record is None], key=_order)
    for attempt in attempts:
        if attempt.unwritten is not None:
            attempt.undelivered, attempt.record = attempt.record, None
    attempts = _with_missing(attempts)
    _number_uses(attempts)
    return attempts, contradicting


def _join(spine: list[Attempt], logged: list[Attempt]) -> list[Contradiction]:
    """Joins each attempt that lines show with the record of its number that is nearest in time.

    Returns the lines of attempts that cannot be true beside the records: a number that the records had left
    behind, or had not reached, at that time.
    """
    by_number: dict[int, list[Attempt]] = {}
    for attempt in spine:
        if attempt.rewrite_seq == 0:
            by_number.setdefault(attempt.number, []).append(attempt)
    _join_rewrites(spine, logged)
    logged_by_number: dict[int, list[Attempt]] = {}
    for line_attempt in logged:
        if not line_attempt.rewrite_seq:
            logged_by_number.setdefault(line_attempt.number, []).append(line_attempt)
    # The last of several tries at one number is the one that got the record.
    for line_attempt in reversed(logged):
        if line_attempt.rewrite_seq:
            continue
        candidates = [a for a in by_number.get(line_attempt.number, []) if not a.lines]
        best = _nearest(candidates, line_attempt)
        if best is None or _is_of_another_life(best, line_attempt, logged_by_number[line_attempt.number]):
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


def _nearest(candidates: Iterable[Attempt], logged: Attempt) -> Attempt | None:
    """The one nearest in time, if it is near enough to be the same attempt."""
    logged_at_ms = logged.known_at_ms or 0
    best, best_ms = None, LINE_TO_RECORD_MS + 1
    for attempt in candidates:
        apart_ms = abs((attempt.known_at_ms or 0) - logged_at_ms)
        if apart_ms < best_ms:
            best, best_ms = attempt, apart_ms
    return best


def _is_of_another_life(found: Attempt, logged: Attempt, of_number: Iterable[Attempt]) -> bool:
    """Whether the lines of another life of the group are nearer to this record: of a group that is deleted and created
    anew all the time, the last life has lines whose record has not come."""
    found_at_ms = found.known_at_ms or 0
    apart_ms = abs((logged.known_at_ms or 0) - found_at_ms)
    others = (a for a in of_number if a.incarnation != logged.incarnation)
    return any(abs((other.known_at_ms or 0) - found_at_ms) < apart_ms for other in others)


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
    """Within each life of the group the use that counted comes first, so that neither logs which arrive later nor a
    later life rename it."""
    by_number: dict[tuple[int, int], list[Attempt]] = {}
    for attempt in attempts:
        by_number.setdefault((attempt.number, attempt.rewrite_seq), []).append(attempt)
    for uses in by_number.values():
        if len(uses) > 1:
            uses.sort(key=_counted_first)
        for use, attempt in enumerate(uses):
            attempt.use = use


def _counted_first(attempt: Attempt) -> tuple[int, bool, bool]:
    has_record = attempt.record is not None
    is_bare = not has_record and attempt.received is None and attempt.emptied is None
    return attempt.incarnation, not has_record, is_bare


def _order(attempt: Attempt) -> tuple[int, int, int, int]:
    # A try without a record came before the one that got it.
    return (
        attempt.incarnation,
        attempt.number,
        0 if attempt.record is None and not attempt.rewrite_seq else 1 + attempt.rewrite_seq,
        attempt.known_at_ms or 0,
    )
