"""How and when a member went: from its coordinator's lines, or from its silence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.log_lines.reasons import classify_leave, classify_reason
from rebalance_audit.domain.model import LogEvent, LogKind, changed
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.marks import EXPIRY_SLACK_MS, LINE_SLACK_MS
from rebalance_audit.domain.records import MemberMetadata

HEARTBEAT_MS = 3_000
"""heartbeat.interval.ms is nowhere in evidence; 3 s is the default of every client
(docs/measured.md#defaults-of-kafka)."""
REGULARLY = 1.1
"""A silence means something if it is this many times as long as the time between two commits."""
AS_IT_LEFT_MS = 1_000
"""The commit of a client that closes comes some ms before its LeaveGroup, a second under load
(docs/measured.md#commit-and-revoked-callback)."""
REJOIN_WITHIN = 3
"""A member put out for not polling is looked for in so many attempts after it lost its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Departure:
    trigger: Cause
    at_ms: int | None
    """Instant of the line that says so; None when there are only records."""
    ref: str | None = None
    rejoined_at_ms: int | None = None
    """A member of the same client id asked to join again at this time."""
    rejoined_ref: str | None = None
    has_reason: bool = True
    """False: a LeaveGroup of a client that sends no reasons (before 3.2, librdkafka)."""
    renewed: LogEvent | None = None
    """A coordinator took the group over then, and restarted the session that ran out: that was no sign of life."""


def logged_departure(
    member: MemberMetadata,
    attempts: Sequence[Attempt],
    later: Sequence[Attempt] = (),
    loads: Sequence[LogEvent] = (),
) -> Departure | None:
    """How the member went, by lines of these attempts; None if they do not say.

    `later` attempts may hold the re-join of a member that worked on after it was put out. `loads`: the lines of
    coordinators that took the group over.
    """
    found: Departure | None = None
    lines = [line for a in attempts for line in a.during]
    for line in lines:
        names = (*line.fields.get("member_ids", ()), line.fields.get("member_id"))
        if member.member_id not in names:
            continue
        if line.kind is LogKind.MEMBER_FAILED:
            renewed = _renewed(loads, line.at_ms, member.session_timeout)
            found = Departure(trigger=Cause.MEMBER_SESSION_EXPIRED, at_ms=line.at_ms, ref=line.ref, renewed=renewed)
        elif line.kind is LogKind.MEMBER_LEFT:
            reason = classify_leave(line.fields.get("client_reason"))
            found = Departure(trigger=reason.trigger, at_ms=line.at_ms, ref=line.ref, has_reason=bool(reason.detail))
        elif line.kind is LogKind.MEMBERS_NOT_REJOINED:
            found = Departure(trigger=Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, at_ms=line.at_ms, ref=line.ref)
    if found is None:
        for line in (a.preparing for a in attempts if a.preparing):
            trigger, members, detail = classify_reason(line.fields.get("reason", ""), line.fields.get("client_reason"))
            if member.member_id in members and trigger.startswith("member_") and trigger != Cause.MEMBER_JOINED:
                found = Departure(trigger=trigger, at_ms=line.at_ms, ref=line.ref, has_reason=bool(detail))
                break
    if found is None or found.at_ms is None:
        return found
    for attempt in (*attempts, *later):
        for line, new_id in arrivals(attempt):
            if new_id.startswith(f"{member.client_id}-") and (line.at_ms or 0) >= found.at_ms:
                return changed(found, rejoined_at_ms=line.at_ms, rejoined_ref=line.ref)
    return found


def _renewed(loads: Sequence[LogEvent], expired_at_ms: int | None, session_ms: int) -> LogEvent | None:
    """The load that began the session which ran out. Each restarts the sessions of all members
    (docs/kafka_writes.md#sessions-and-a-new-coordinator)."""
    if expired_at_ms is None or session_ms <= 0:
        return None
    begun_ms = expired_at_ms - session_ms
    return next((x for x in loads if -LINE_SLACK_MS <= begun_ms - (x.at_ms or 0) <= EXPIRY_SLACK_MS), None)


def arrivals(attempt: Attempt) -> list[tuple[LogEvent, str]]:
    """Lines by which members asked to join, and the ids they were given. Before 3.0 only `Preparing` shows it."""
    found = [
        (line, str(line.fields.get("member_id") or "")) for line in attempt.during if line.kind is LogKind.MEMBER_JOINED
    ]
    if attempt.preparing is not None:
        fields = attempt.preparing.fields
        trigger, members, _ = classify_reason(fields.get("reason", ""), fields.get("client_reason"))
        if trigger == Cause.MEMBER_JOINED:
            found += [(attempt.preparing, member_id) for member_id in members]
    return found


def infer_departure(
    member: MemberMetadata,
    last_commit_at_ms: int | None,
    joined_at_ms: int | None,
    commits_often: bool,
    is_last: bool = False,
    polls: bool = True,
    late_ms: int = 0,
) -> Cause:
    """How a member went, by its last sign of life before the join phase ended; `unknown` unless only one way is left.
    `polls`: its library may have a max.poll.interval.ms, which is its rebalance timeout then. `late_ms`: so long after
    its last poll that commit may have come.

    A commit counts as a heartbeat, so a session cannot have expired sooner than session.timeout after the last one. A
    member that commits often and was silent for longer than its session cannot have left in good order: a client
    commits when it lets go. A static member does not leave by itself: an administrator may have removed it. The same
    holds for one that was the last (`is_last`: the record was written as it went) and made no commit then.
    """
    if last_commit_at_ms is None or joined_at_ms is None:
        return Cause.UNKNOWN
    silence_ms = joined_at_ms - last_commit_at_ms
    rebalance_timeout_ms = member.rebalance_timeout if member.rebalance_timeout > 0 else member.session_timeout
    if not polls:
        rebalance_timeout_ms = max(silence_ms, member.session_timeout) + 1
    if silence_ms < min(member.session_timeout, rebalance_timeout_ms):
        may_be_removed = member.group_instance_id is not None or (is_last and silence_ms > AS_IT_LEFT_MS)
        return Cause.UNKNOWN if may_be_removed else Cause.MEMBER_LEFT
    if commits_often and member.session_timeout <= silence_ms < rebalance_timeout_ms - (late_ms if polls else 0):
        return Cause.MEMBER_SESSION_EXPIRED
    if commits_often and rebalance_timeout_ms <= silence_ms < member.session_timeout:
        return Cause.MEMBER_POLL_TIMEOUT
    return Cause.UNKNOWN
