"""Records of generations that nobody was given, because the coordinator could not have them copied in time.

From 4.0 on the record is in its log before the other replicas have it. If they do not get it within
offsets.commit.timeout.ms, members are refused and join again at once. Lines say so (`Attempt.unwritten`); without lines
several such records in a row do (docs/kafka_writes.md#when-a-group-record-is-written).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily, families_of
from rebalance_audit.domain.log_lines.reasons import classify_reason
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Commits
from rebalance_audit.domain.reconstruct.evidence.marks import COMMIT_TIMEOUT_MS
from rebalance_audit.domain.records import GroupMetadataValue as _Value

from .members import parse

_JOINED_AGAIN_MS = 1_000
"""From the refusal to the end of the next join phase: 90 to 240 ms were seen."""
_TIMES = 2
"""So often in a row: once may be anybody's re-join. In 217 captures no other consumer group did it twice."""


def set_aside_refused(attempts: Sequence[Attempt], commits: Commits) -> None:
    """Takes from each attempt the record that was refused, and keeps it as `undelivered`. Attempts are in order."""
    run: list[Attempt] = []
    for attempt, following in pairwise(attempts):
        if attempt.record is not None and not attempt.lines and _says_so(following, attempt.number):
            # With lines of its own it would have been found by them.
            attempt.unwritten = following.preparing
            attempt.undelivered, attempt.record = attempt.record, None
        if attempt.unwritten is not None or _is_refused(attempt, following, commits):
            run.append(attempt)
            continue
        _set_aside(run)
        run = []
    _set_aside(run)


def _says_so(following: Attempt, number: int) -> bool:
    """Whether a line says that the next one began because the record of generation `number` could not be written."""
    line = following.preparing
    if line is None or line.fields.get("generation_id") != number:
        return False
    return classify_reason(str(line.fields.get("reason", "")), None).trigger == Cause.APPEND_FAILED


def _set_aside(run: Sequence[Attempt]) -> None:
    if len(run) < _TIMES:
        return
    for attempt in run:
        if attempt.record is not None:
            attempt.undelivered, attempt.record = attempt.record, None


def _is_refused(attempt: Attempt, following: Attempt, commits: Commits) -> bool:
    """Whether all that took part in `attempt` were there again as soon as the coordinator had stopped to wait."""
    record, next_record = attempt.record, following.record or following.undelivered
    if record is None or next_record is None or attempt.rewrite_seq or following.rewrite_seq:
        return False
    value, after = record.record.value, next_record.record.value
    if following.preparing is not None or not (isinstance(value, _Value) and isinstance(after, _Value)):
        return False  # the line says why the next one began
    joined_at_ms, given_at_ms = after.current_state_timestamp, record.at_ms
    if joined_at_ms is None or given_at_ms is None:
        return False
    if not 0 <= joined_at_ms - given_at_ms - COMMIT_TIMEOUT_MS <= _JOINED_AGAIN_MS:
        return False
    facts = [(v.protocol_type, v.protocol, v.leader, {m.member_id for m in v.members}) for v in (value, after)]
    if facts[0] != facts[1] or value.protocol_type != "consumer" or not value.members:
        return False
    # A sarama leader whose handler fails over and over joins again each time, too.
    led = next((m for m in value.members if m.member_id == value.leader), None)
    if led is None or ClientFamily.SARAMA in families_of(value.protocol, led.subscription, led.client_id):
        return False
    given = frozenset(r for m in value.members for r in parse(m).assigned or ())
    return commits.first_between(given, record.offset, next_record.offset) is None
