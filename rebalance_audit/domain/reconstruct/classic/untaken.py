"""Assignments that members never took, because the next generation began before they had read them.

kafka-python drops the result of its own join where a heartbeat says meanwhile that the group rebalances again, and
joins again. The record shows the assignment all the same (docs/clients.md#assignments-that-are-dropped).
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.client_families import may_drop_its_assignment
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.departures import HEARTBEAT_MS
from rebalance_audit.domain.reconstruct.evidence.marks import joined

from .before import Before
from .members import Parsed, parse

_SOON_MS = 1_000
"""From a record to the next preparation: 17 to 44 ms were seen. One that takes its assignment commits as it lets go,
whatever came; so this need not be narrow."""
_SOON_JOINED_MS = HEARTBEAT_MS + _SOON_MS
"""The same to the end of the next join phase, which waits for the heartbeats of those that took theirs."""


def untaken(before: Before, parsed: Mapping[str, Parsed]) -> frozenset[Resource]:
    """What the record of `before.attempt` gives to members that went on to the next generation without it. `parsed`:
    the members of that record."""
    attempt, following = before.attempt, _next(before)
    if following is None or not _is_soon(attempt, following):
        return frozenset()
    value, after = attempt.value, following.value
    if value is None or after is None or attempt.record is None or following.record is None:
        return frozenset()
    found: frozenset[Resource] = frozenset()
    for member in after.members:
        p = parsed.get(member.member_id)
        if p is None or not may_drop_its_assignment(before.course.families(value.protocol, p.member)):
            continue
        given = (p.assigned or frozenset()) - p.owned - parse(member).owned
        commits = before.course.commits
        if not given or commits.first_between(given, attempt.record.offset, following.record.offset) is not None:
            continue
        # In silence other libraries commit nothing, whatever they took.
        if not commits.got_nothing(given, following.record.offset):
            found |= given
    return found


def _next(before: Before) -> Attempt | None:
    """The next attempt, if it is a generation with a record."""
    attempts, index = before.course.attempts, before.index + 1
    following = attempts[index] if index < len(attempts) else None
    is_generation = following is not None and not following.rewrite_seq and following.member_ids is not None
    return following if is_generation else None


def _is_soon(attempt: Attempt, following: Attempt) -> bool:
    given_at_ms = None if attempt.record is None else attempt.record.at_ms
    if given_at_ms is None:
        return False
    preparing = following.preparing
    if preparing is not None and preparing.at_ms is not None:
        return preparing.at_ms - given_at_ms <= _SOON_MS
    joined_at_ms, _ = joined([following])
    return joined_at_ms is not None and joined_at_ms - given_at_ms <= _SOON_JOINED_MS
