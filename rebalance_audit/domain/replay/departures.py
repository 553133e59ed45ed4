"""Departures whose cause the evidence leaves open: each is played as the only cause that fits.

librdkafka sends the same LeaveGroup when it is closed and when its application has not polled for too long, and a
client that an administrator removed looks the same, too. Reconstruction leaves that open where commits do not decide
it; a replay needs one of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.model import Member, Rebalance

COMMITS_MS = 5_000
"""auto.commit.interval.ms of clients that set nothing."""
SLACK_MS = 300
"""A last commit or a rejoining comes so much earlier or later; a choice."""


def with_poll_timeouts(rows: Sequence[Rebalance], heartbeat_ms: int) -> list[Rebalance]:
    """`rows` in the order they happened, measured. Those in which a member can only have been busy beyond its poll
    interval say so."""
    found = []
    for number, row in enumerate(rows):
        gone = _leaves_without_reason(row)
        if gone is not None and _was_busy(row, gone) and _is_away_longer(rows[number:], gone, heartbeat_ms):
            first = replace(row.triggers[0], trigger=Cause.MEMBER_POLL_TIMEOUT)
            row = replace(row, trigger=Cause.MEMBER_POLL_TIMEOUT, triggers=(first, *row.triggers[1:]))
        found.append(row)
    return found


def _leaves_without_reason(row: Rebalance) -> Member | None:
    if row.trigger != Cause.UNKNOWN or not row.triggers or row.started_at_ms is None:
        return None
    named = row.triggers[0].members
    return next((m for m in row.members if m.change == "left" and (m.member_id,) == tuple(named)), None)


def _was_busy(row: Rebalance, member: Member) -> bool:
    """Its last commit came after what it polled last, and before the next one was due. If it had been closed it would
    have committed then."""
    if member.rebalance_timeout_ms is None or ClientFamily.LIBRDKAFKA not in (member.client_libraries or ()):
        return False
    lasts = [m.stopped_at_lower_ms for m in row.movements if m.from_member_id == member.member_id]
    commits = [ms for ms in lasts if ms is not None]
    if not commits:
        return False
    polled_ms = (row.started_at_ms or 0) - member.rebalance_timeout_ms
    return polled_ms - SLACK_MS <= max(commits) <= polled_ms + COMMITS_MS + SLACK_MS


def _is_away_longer(rows: Sequence[Rebalance], member: Member, heartbeat_ms: int) -> bool:
    """Whether it came back later than a removed member would, which learns of it at its next heartbeat and joins
    again."""
    back_ms = next(
        (
            row.started_at_ms
            for row in rows
            for m in row.members
            if m.change == "joined" and (m.client_id, m.client_host) == (member.client_id, member.client_host)
        ),
        None,
    )
    return back_ms is not None and back_ms - (rows[0].started_at_ms or 0) > heartbeat_ms + SLACK_MS
