"""When a rebalance was, and for how many generations its row stands."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_audit.domain.kinds import Outcome
from rebalance_audit.domain.model import Rebalance


def at_of(rebalance: Rebalance) -> int | None:
    """The best instant there is: the group record's own time before any log line's."""
    for at_ms in (rebalance.assigned_at_ms, rebalance.joined_at_ms, rebalance.started_at_ms, rebalance.ended_at_ms):
        if at_ms is not None:
            return at_ms
    return rebalance.started_lower_ms


def times_of(rebalance: Rebalance) -> Iterator[int]:
    """All of its instants that are known."""
    for at_ms in (rebalance.started_at_ms, rebalance.joined_at_ms, rebalance.assigned_at_ms, rebalance.ended_at_ms):
        if at_ms is not None:
            yield at_ms


def generation_count(rebalances: Sequence[Rebalance], index: int) -> int:
    """How many the row at this index stands for: one row stands for a run of skipped numbers."""
    one = rebalances[index]
    following = rebalances[index + 1] if index + 1 < len(rebalances) else None
    if one.outcome != Outcome.MISSING or following is None or None in (one.generation_id, following.generation_id):
        return 1
    return max((following.generation_id or 0) - (one.generation_id or 0), 1)
