"""What commits tell of members that are missing in a record: when they were alive, and how they can have gone."""

from __future__ import annotations

from rebalance_audit.domain.reconstruct.evidence.departures import (
    AS_IT_LEFT_MS,
    HEARTBEAT_MS,
    REGULARLY,
    infer_departure,
)
from rebalance_audit.domain.records import MemberMetadata

from .group_state import GroupState
from .hand_overs import REJOIN_WITHIN


class Silence:
    """Asked as Causes is: for every attempt, in order, before the state moves on to it."""

    def __init__(self, state: GroupState) -> None:
        self._state = state

    def note_committers(self, index: int) -> None:
        """Which members committed more than once since they were last given partitions."""
        state = self._state
        since, record = state.delivered_offset, state.attempts[index].record
        if since is None or record is None:
            return
        for member_id, member in (state.before or {}).items():
            if member.client_id not in state.committers:
                span_ms = state.commits.span_ms(state.held_before[member_id], since, record.offset)
                if span_ms is not None and span_ms > 1_000:
                    state.committers.add(member.client_id)

    def inferred(self, index: int, member_id: str) -> str:
        """How a member went, from its commits before the record in which it is missing."""
        if self._state.before is None or member_id not in self._state.before:
            return "unknown"
        member = self._state.before[member_id]
        held = self._state.held_before.get(member_id, frozenset())
        record = self._state.attempts[index].record
        since = self._state.delivered_offset
        value = self._state.attempts[index].value
        if record is None or since is None or value is None:
            return "unknown"
        last = self._state.commits.last_between(held, since, record.offset)
        if last is None and member.client_id not in self._state.committers:
            return "unknown"
        given = self._state.attempts[self._state.delivered_index].record
        alive_at_ms = last[0] if last else given.at_ms if given else None
        commits_often = member.client_id in self._state.committers
        told = infer_departure(member, alive_at_ms, value.current_state_timestamp, commits_often, not value.members)
        if told == "member_poll_timeout" and self._may_be_dropped(index, member):
            return "unknown"
        silence_ms = (value.current_state_timestamp or 0) - (alive_at_ms or 0)
        if told == "member_left" and commits_often and silence_ms > HEARTBEAT_MS + AS_IT_LEFT_MS:
            # It did not commit as it went, unless somebody made all wait; and if it lives on, it was removed.
            return "unknown" if self._is_there_again(index, member) else told
        return told

    def _is_there_again(self, index: int, member: MemberMetadata) -> bool:
        """Whether the same client is a new member in one of the next records."""
        last = min(index + REJOIN_WITHIN, len(self._state.attempts) - 1)
        values = (self._state.attempts[i].value for i in range(index, last + 1))
        return any(m.client_id == member.client_id for v in values if v is not None for m in v.members)

    def _may_be_dropped(self, index: int, member: MemberMetadata) -> bool:
        """Whether one that was silent may have been waited for: somebody else had begun a rebalance, or one before came
        to nothing."""
        attempt = self._state.attempts[index]
        there = attempt.value.members if attempt.value is not None else ()
        new = (m for m in there if m.member_id not in (self._state.before or {}))
        has_arrivals = any(m.client_id != member.client_id for m in new)
        return has_arrivals or (index > 0 and self._state.attempts[index - 1].record is None)

    def fell_silent(self, index: int, member_id: str, left_at_ms: int) -> bool | None:
        """Whether it had not committed for its max.poll.interval.ms when it left; None if it never commits."""
        member = (self._state.before or {}).get(member_id)
        since, record = self._state.delivered_offset, self._state.attempts[index].record
        if member is None or since is None or record is None:
            return None
        last = self._state.commits.last_between(
            self._state.held_before.get(member_id, frozenset()), since, record.offset
        )
        if member.client_id not in self._state.committers and (last is None or not self._state.committers):
            return None
        held = self._state.held_before.get(member_id, frozenset())
        interval_ms = self._state.commits.interval_between(held, since, record.offset)
        if interval_ms is not None and interval_ms * REGULARLY > member.rebalance_timeout > 0:
            return None
        given = self._state.attempts[self._state.delivered_index].record
        alive_at_ms = last[0] if last is not None else given.at_ms if given is not None else left_at_ms
        return member.rebalance_timeout > 0 and left_at_ms - alive_at_ms >= member.rebalance_timeout

    def last_commit_ms(self, index: int, member_id: str) -> int | None:
        since, record = self._state.delivered_offset, self._state.attempts[index].record
        if since is None or record is None:
            return None
        held = self._state.held_before.get(member_id, frozenset())
        last = self._state.commits.last_between(held, since, record.offset)
        return None if last is None else last[0]
