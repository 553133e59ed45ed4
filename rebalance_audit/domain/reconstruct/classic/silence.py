"""Commits of members that are missing in a record show when they were alive, and how they can have gone."""

from __future__ import annotations

from rebalance_audit.domain import client_families
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.departures import (
    AS_IT_LEFT_MS,
    HEARTBEAT_MS,
    REGULARLY,
    REJOIN_WITHIN,
    infer_departure,
)
from rebalance_audit.domain.reconstruct.evidence.marks import AUTO_COMMIT_MS, RECENT_COMMIT_MS
from rebalance_audit.domain.records import MemberMetadata

from .before import Before

AGAIN_MS = 1_000
"""Commits this far apart belong to different moments: the client commits while it works."""
TO_THE_MOMENT_MS = 50
"""A commit restarts the session, as a heartbeat does, and the broker notices the session's end this soon. If all
others waited for that, the join phase ended then (0 to 4 ms later in the lab)."""
POLL_TIMER_MS = 500
"""A Java consumer restarts its poll timer before it commits: seen 43 ms apart, more under load."""


def committers(before: Before, attempt: Attempt) -> frozenset[str]:
    """The committers known before, and the clients that committed more than once since they were last given partitions,
    up to the attempt's record."""
    since, record = before.delivered_offset, attempt.record
    if since is None or record is None or not before.members:
        return before.committers
    found = []
    for member_id, member in before.members.items():
        if member.client_id not in before.committers:
            span_ms = before.course.commits.span_ms(before.held[member_id], since, record.offset)
            if span_ms is not None and span_ms > AGAIN_MS:
                found.append(member.client_id)
    return before.committers.union(found) if found else before.committers


def inferred(before: Before, member_id: str) -> Cause:
    """How a member went (a Departure), from its commits before the record in which it is missing."""
    member = (before.members or {}).get(member_id)
    attempt, since = before.attempt, _given_offset(before, member_id)
    if member is None or attempt.record is None or since is None or attempt.value is None:
        return Cause.UNKNOWN
    last = before.course.commits.last_between(_held(before, member_id), since, attempt.record.offset)
    commits_often = member.client_id in before.committers
    if last is None and not commits_often:
        return Cause.UNKNOWN
    alive_at_ms = last[0] if last is not None else _given_at_ms(before, member_id)
    joined_at_ms = attempt.value.current_state_timestamp
    is_last, polls = not attempt.value.members, client_families.may_poll_out(before.families(member))
    late_ms = committed_late_ms(before.families(member))
    departure = infer_departure(member, alive_at_ms, joined_at_ms, commits_often, is_last, polls, late_ms)
    silence_ms = (joined_at_ms or 0) - (alive_at_ms or 0)
    if not polls and silence_ms >= member.rebalance_timeout and may_be_dropped(before, member):
        return Cause.UNKNOWN
    if departure == Cause.MEMBER_LEFT and commits_often and silence_ms > HEARTBEAT_MS + AS_IT_LEFT_MS:
        # It did not commit as it went, unless somebody made all others wait. If it lives on, it was removed.
        return Cause.UNKNOWN if _is_there_again(before, member) else departure
    if departure == Cause.MEMBER_LEFT and _may_have_been_stuck(before, member, since):
        return Cause.UNKNOWN
    if departure == Cause.MEMBER_LEFT and last is None and _may_have_joined_stuck(before, member):
        return Cause.UNKNOWN
    if departure == Cause.MEMBER_LEFT or departure == Cause.UNKNOWN:
        return departure
    if departure == Cause.MEMBER_POLL_TIMEOUT:
        if not client_families.must_poll_out(before.families(member)) or may_be_dropped(before, member):
            return Cause.UNKNOWN
    if departure == Cause.MEMBER_SESSION_EXPIRED and _may_have_left_early(before, member_id, since):
        return Cause.UNKNOWN
    if departure == Cause.MEMBER_SESSION_EXPIRED and last is not None and _is_to_the_moment(member, silence_ms):
        return departure
    return departure if _speaks(before, member_id, alive_at_ms or 0, joined_at_ms or 0) else Cause.UNKNOWN


def _may_have_been_stuck(before: Before, member: MemberMetadata, since: int) -> bool:
    """Whether its application may not have polled in time, though it committed until it left, or shortly before: its
    library commits meanwhile, or once more, the timer was the reason of its last commit, and the same client came
    back."""
    record = before.attempt.record
    if record is None or not client_families.may_commit_late(before.families(member)):
        return False
    is_on_beat = before.course.commits.is_on_beat(_held(before, member.member_id), since, record.offset)
    return is_on_beat and _is_there_again(before, member)


def may_have_been_stuck(before: Before, member_id: str) -> bool:
    """Whether a member that left without a reason may have been put out by its library, though it had just committed:
    the timer was the reason of that commit, and the same client came back."""
    member, since = (before.members or {}).get(member_id), _given_offset(before, member_id)
    return member is not None and since is not None and _may_have_been_stuck(before, member, since)


def _may_have_joined_stuck(before: Before, member: MemberMetadata) -> bool:
    """Whether its application may not have polled since before it was given anything in this generation, in which it
    committed nothing: a cooperative member joins again without its application, and the same client came back."""
    value = before.delivered_value
    if value is None or value.protocol in EAGER_ASSIGNORS or not client_families.may_poll_out(before.families(member)):
        return False
    return _is_there_again(before, member)


def committed_late_ms(families: client_families.Families) -> int:
    """How long after it polled for the last time such a member may make its last commit."""
    return AUTO_COMMIT_MS if client_families.may_commit_late(families) else 0


def _may_have_left_early(before: Before, member_id: str, since: int) -> bool:
    """Whether this member may have left long before, while all waited for the session of another one that is gone, too.
    It may have if its library commits nothing as it leaves, or if the timer was not the reason of its last commit."""
    members, record, value = before.members or {}, before.attempt.record, before.attempt.value
    if record is None or value is None:
        return False
    there = {m.member_id for m in value.members}
    if not any(other not in there and other != member_id for other in members):
        return False
    if not client_families.may_commit_at_close(before.families(members[member_id])):
        return True
    return before.course.commits.is_off_beat(_held(before, member_id), since, record.offset)


def _is_to_the_moment(member: MemberMetadata, silence_ms: int) -> bool:
    """Whether the session, counted from the last commit, ended at that very moment. Then the member was silent since,
    idle or not."""
    return 0 <= silence_ms - member.session_timeout <= TO_THE_MOMENT_MS


def fell_silent(before: Before, member_id: str, left_at_ms: int) -> bool | None:
    """Whether a member had not committed for its max.poll.interval.ms when it left; None where its silence shows
    nothing."""
    member = (before.members or {}).get(member_id)
    since, record = _given_offset(before, member_id), before.attempt.record
    if member is None or since is None or record is None:
        return None
    held, commits = _held(before, member_id), before.course.commits
    last = commits.last_between(held, since, record.offset)
    if member.client_id not in before.committers and (last is None or not before.committers):
        return None
    interval_ms = commits.interval_between(held, since, record.offset)
    if interval_ms is not None and interval_ms * REGULARLY > member.rebalance_timeout > 0:
        return None
    given_at_ms = _given_at_ms(before, member_id)
    alive_at_ms = last[0] if last is not None else given_at_ms if given_at_ms is not None else left_at_ms
    if member.rebalance_timeout <= 0 or left_at_ms - alive_at_ms < member.rebalance_timeout - POLL_TIMER_MS:
        return False
    return True if _speaks(before, member_id, alive_at_ms, left_at_ms) else None


def _speaks(before: Before, member_id: str, from_ms: int, to_ms: int) -> bool:
    """Whether it means something that a member did not commit in this time.

    Some clients commit at every interval, whether they read anything or not. Other clients, and those that may be of
    either kind, say nothing on a topic that falls silent: then another member of the same kind must have committed
    until the end. They say nothing either where their own partitions alone got no messages: their next owner must have
    read some.
    """
    members = before.members or {}
    families = before.families(members[member_id])
    if client_families.commits_when_idle(families):
        return True
    since, record = before.delivered_offset, before.attempt.record
    if since is None or record is None or before.course.commits.got_nothing(_held(before, member_id), record.offset):
        return False
    latest_ms = max(from_ms + AGAIN_MS, to_ms - RECENT_COMMIT_MS)
    for other_id, other in members.items():
        if other_id == member_id:
            continue
        others = before.families(other)
        if others == families or client_families.never_commits_when_idle(others):
            last = before.course.commits.last_between(_held(before, other_id), since, record.offset)
            if last is not None and last[0] >= latest_ms:
                return True
    return False


def ended_join_phase(before: Before, member_id: str) -> bool:
    """Whether a member's session ran out in the very moment in which the join phase ended. Then another member had
    begun the rebalance, since the members that stay take a while to hear of one."""
    member, value = (before.members or {}).get(member_id), before.attempt.value
    last_ms = last_commit_ms(before, member_id)
    joined_at_ms = None if value is None else value.current_state_timestamp
    if member is None or last_ms is None or joined_at_ms is None:
        return False
    return _is_to_the_moment(member, joined_at_ms - last_ms)


def let_go_early(before: Before, member_id: str) -> bool:
    """Whether an eager member that stayed let go before it could hear of a departure at its next heartbeat: its last
    commit was that long before the join phase ended, and it had messages to commit."""
    value, record = before.attempt.value, before.attempt.record
    since, ended_ms = before.delivered_offset, None if value is None else value.current_state_timestamp
    if value is None or record is None or since is None or ended_ms is None or value.protocol not in EAGER_ASSIGNORS:
        return False
    held = _held(before, member_id)
    last = before.course.commits.last_between(held, since, record.offset)
    interval_ms = before.course.commits.interval_between(held, since, record.offset)
    if last is None or interval_ms is None:
        return False
    families = before.families((before.members or {})[member_id])
    if not client_families.commits_when_idle(families) and before.course.commits.got_nothing(held, record.offset):
        return False
    return ended_ms - last[0] > HEARTBEAT_MS + max(interval_ms * REGULARLY, AS_IT_LEFT_MS)


def was_idle(before: Before, member_id: str) -> bool:
    """Whether a member that is gone may have had nothing to commit for a while."""
    if before.members is None or member_id not in before.members:
        return False
    joined_at_ms = before.attempt.value.current_state_timestamp if before.attempt.value is not None else None
    committed_at_ms = last_commit_ms(before, member_id)
    alive_at_ms = committed_at_ms or _given_at_ms(before, member_id)
    if joined_at_ms is None or alive_at_ms is None or joined_at_ms - alive_at_ms < RECENT_COMMIT_MS:
        return False
    if committed_at_ms is not None and _is_to_the_moment(before.members[member_id], joined_at_ms - committed_at_ms):
        return False
    return not _speaks(before, member_id, alive_at_ms, joined_at_ms)


def last_commit_ms(before: Before, member_id: str) -> int | None:
    since, record = _given_offset(before, member_id), before.attempt.record
    if since is None or record is None:
        return None
    last = before.course.commits.last_between(_held(before, member_id), since, record.offset)
    return None if last is None else last[0]


def _held(before: Before, member_id: str) -> frozenset[Resource]:
    return before.held.get(member_id, frozenset())


def _given_at_ms(before: Before, member_id: str) -> int | None:
    given = before.given(member_id)
    return None if given is None or given.record is None else given.record.at_ms


def _given_offset(before: Before, member_id: str) -> int | None:
    given = before.given(member_id)
    return None if given is None or given.record is None else given.record.offset


def _is_there_again(before: Before, member: MemberMetadata) -> bool:
    """Whether the same client is a new member in one of the next records."""
    coming = before.course.attempts[before.index : before.index + 1 + REJOIN_WITHIN]
    values = (a.value for a in coming)
    return any(m.client_id == member.client_id for v in values if v is not None for m in v.members)


def may_be_dropped(before: Before, member: MemberMetadata) -> bool:
    """Whether the others may have waited for this silent member: somebody else had begun a rebalance, or the attempt
    before came to nothing."""
    attempt = before.attempt
    there = attempt.value.members if attempt.value is not None else ()
    new = (m for m in there if m.member_id not in (before.members or {}))
    has_arrivals = any(m.client_id != member.client_id for m in new)
    return has_arrivals or (before.index > 0 and before.course.attempts[before.index - 1].record is None)
