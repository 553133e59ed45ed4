"""The time between the record that gave partitions to their owners and the record that gives them to the next ones. It
is the same for all these partitions, so it is worked out once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.kinds import ESTIMATE, LOWER, UPPER, Basis
from rebalance_audit.domain.model import LogEvent, LogKind, Mark
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS, inferred, joined, logged, recorded
from rebalance_audit.domain.records import GroupMetadataValue

_SYNC_MS = 10_000
"""From the end of a join phase to its record: as long as the leader takes to assign."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Between:
    given: Attempt
    attempts: Sequence[Attempt]
    """After `given`, up to and with the one that gives them on."""
    first: Attempt
    """The first of these that is neither a gap nor a rewrite, if there is one."""
    heard_at_ms: int | None
    """When members could first hear of the rebalance."""
    loaded_at_ms: int | None
    """When a coordinator took the group over meanwhile. Some members let go as soon as they cannot reach theirs."""
    joined_at_ms: int | None
    """The end of the first join phase that is known."""
    survivor_count: int
    """How many members were there before and after, at least one."""
    may_have_waited: bool
    """The join phase may have waited for a member that died: who came, or another, had begun the rebalance before."""
    given_mark: Mark | None
    """A stop is not before the owner was given the partition."""
    heard_mark: Mark | None
    """An owner that stayed did not stop before it could hear of the rebalance."""
    joined_mark: Mark | None
    """An owner that stayed had stopped when the join phase ended."""
    joining_mark: Mark | None
    """An owner that stayed, where nothing shows its own stop: as the join phase ended."""


def between(given: Attempt, before: Attempt, attempts: Sequence[Attempt], loads: Sequence[LogEvent]) -> Between:
    """The time between two records. `before`: the attempt before these, mostly `given` itself. `loads`: the lines of
    coordinators that took the group over."""
    first = next((a for a in attempts if a.missing_to is None and not a.rewrite_seq), attempts[-1])
    joined_at_ms, joined_ref = joined(attempts)
    preparing = first.preparing
    # If a coordinator loaded the group and the log of the one before is not there, the rebalance may have begun
    # earlier. So may a generation that left no evidence.
    is_unseen = loaded_between(loads, before, first) is not None or any(a.missing_to is not None for a in attempts)
    if preparing is None or preparing.at_ms is None or is_unseen:
        heard_at_ms = heard_mark = None
    else:
        heard_at_ms, detail = preparing.at_ms, "nobody knew before the rebalance began"
        heard_mark = logged(LOWER, heard_at_ms - LINE_SLACK_MS, detail, preparing.ref)
    given_mark = joined_mark = joining_mark = None
    count = max(_survivor_count(given, attempts[-1]), 1)
    given_at_ms = _given_at_ms(given)
    if given_at_ms is not None:
        ref = given.record.ref if given.record else None
        given_mark = recorded(LOWER, given_at_ms, "the owner was given it then", ref)
    if joined_at_ms is not None:
        detail = "the join phase ended: it had re-joined"
        joined_mark = recorded(UPPER, joined_at_ms + LINE_SLACK_MS, detail, joined_ref)
        # Members began their heartbeats together, as the generation before ended. So they hear of it at about the same
        # time, and the join phase ends with the last one (docs/measured.md#heartbeats-of-one-generation).
        detail = "as the join phase ended: members of one generation send their heartbeats together"
        joining_mark = inferred(ESTIMATE, joined_at_ms, detail, joined_ref, rank=5, basis=Basis.JOIN_PHASE)
    return Between(
        given=given,
        attempts=attempts,
        first=first,
        heard_at_ms=heard_at_ms,
        loaded_at_ms=_loaded_at_ms(loads, given, preparing),
        joined_at_ms=joined_at_ms,
        survivor_count=count,
        may_have_waited=_may_have_waited(given, attempts[-1], first),
        given_mark=given_mark,
        heard_mark=heard_mark,
        joined_mark=joined_mark,
        joining_mark=joining_mark,
    )


def _loaded_at_ms(loads: Sequence[LogEvent], given: Attempt, preparing: LogEvent | None) -> int | None:
    since_ms, until_ms = given.known_at_ms, preparing.at_ms if preparing is not None else None
    if since_ms is None or until_ms is None:
        return None
    found = (x.at_ms for x in loads if x.at_ms is not None and since_ms < x.at_ms <= until_ms)
    return max(found, default=None)


def _given_at_ms(given: Attempt) -> int | None:
    """When these partitions were given. If the first record in evidence has static members, it may have been written
    again long after the generation began, since compaction leaves the last one. That record gave the other members
    nothing."""
    at_ms, value = given.known_at_ms, given.value
    if at_ms is None or given.rewrite_seq or not isinstance(value, GroupMetadataValue):
        return at_ms
    began_ms = value.current_state_timestamp
    is_static = any(m.group_instance_id is not None for m in value.members)
    return began_ms if is_static and began_ms is not None and at_ms - began_ms > _SYNC_MS else at_ms


def _survivor_count(given: Attempt, last: Attempt) -> int:
    """How many members were there before and after."""
    return 1 if given.member_ids is None or last.member_ids is None else len(given.member_ids & last.member_ids)


def _may_have_waited(given: Attempt, last: Attempt, first: Attempt) -> bool:
    if first.preparing is not None and first.preparing.at_ms is not None:
        begun_ms = first.preparing.at_ms + LINE_SLACK_MS
        return any(x.kind is LogKind.MEMBER_FAILED and (x.at_ms or 0) > begun_ms for x in first.during)
    there, here = given.member_ids or frozenset(), last.member_ids or frozenset()
    return bool(there - here) and bool(here - there)


def loaded_between(loads: Sequence[LogEvent], given: Attempt, attempt: Attempt) -> LogEvent | None:
    """The line by which the coordinator that prepares `attempt` took the group over after `given`.

    None where the log of the coordinator before is there: it would show a join phase that it had begun.
    """
    if given.lines or attempt.preparing is None or attempt.preparing.at_ms is None:
        return None
    since_ms, preparing = given.known_at_ms or 0, attempt.preparing
    return next(
        (x for x in loads if x.node == preparing.node and since_ms < (x.at_ms or 0) <= (preparing.at_ms or 0)), None
    )
