"""Members that a broker put out: it stood still, was cut off or died, and they could not send heartbeats (decisions
0103, 0111 and 0112)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping

from rebalance_audit.domain.causes import SESSION_EXPIRED
from rebalance_audit.domain.detect.history import History, HistoryStep, Identity
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.wording import listed
from rebalance_audit.domain.incidents.episodes import CHANGE_GAP_MS, faults_in
from rebalance_audit.domain.publish.leader_moves import LeaderMove

SESSION_MS = 45_000
"""session.timeout.ms by default, for members of which it is not known (docs/measured.md#defaults-of-kafka)."""
LOADING_MS = 5_000
"""Chosen: so long a new coordinator may load the group before it gives each member a whole session. Measured 0.2 s on a
lab of three brokers."""

_STOOD_STILL = (
    "Look for what held up {brokers} at that moment: a kill, a paused machine, a long garbage collection, a disk that "
    "did not answer, a lost network. {members}"
)
_ARE_BACK = "The members are back; they need no other settings."
_NOT_ALL_BACK = "Members that are back need no other settings; of those that do not return, look at the hosts."


def expired_by_brokers(history: History, moves: Iterable[LeaderMove]) -> dict[str, LeaderMove]:
    """The rebalances in which members expired that did not fail themselves, each with the failure of the broker that
    expired them. `moves`: leader moves of this group, in any order.

    A broker that goes on after it stood still expires all whose heartbeats it did not read, and just then is taken for
    failed. If it fails while others go on, the group's commits wait for it, and the heartbeats behind them: members
    expire within one session of the moment at which it is taken for failed, and are back. Who is not back in time may
    have died himself, and is blamed then.
    """
    of_rebalance: dict[str, list[LeaderMove]] = defaultdict(list)
    for move in sorted(moves, key=lambda m: (abs(m.after_ms or 0), m.at_ms, m.topic, m.partition)):
        if move.is_failure_before and move.rebalance_id is not None:
            of_rebalance[move.rebalance_id].append(move)
    found: dict[str, LeaderMove] = {}
    for step in history.steps if of_rebalance else ():
        near = of_rebalance.get(step.rebalance.rebalance_id)
        if near is None or not _expired(history, step):
            continue
        failure = next((m for m in near if m.is_failure_at_once or _in_time(history, step, m)), None)
        if failure is not None:
            found[step.rebalance.rebalance_id] = failure
    return found


def _expired(history: History, step: HistoryStep) -> bool:
    faults = faults_in(history, step)
    return bool(faults) and SESSION_EXPIRED.issuperset(faults.values())


def _in_time(history: History, step: HistoryStep, move: LeaderMove) -> bool:
    """Whether they expired soon after the broker failed, and came back or still may."""
    failed = {m for t in step.rebalance.triggers if t.trigger in SESSION_EXPIRED for m in t.members}
    sessions = [history.member(m).session_timeout_ms or SESSION_MS for m in failed]
    assert move.after_ms is not None  # else it is no failure before a rebalance
    if move.after_ms > max(sessions, default=SESSION_MS) + LOADING_MS:
        return False
    return not not_back(history, step) or history.now_ms <= back_until_ms(move, history.limits)


def not_back(history: History, step: HistoryStep) -> set[Identity]:
    """Members that failed in this rebalance and did not join within the quiet time of an incident."""
    missing = set(faults_in(history, step))
    for later in history.steps[step.index :]:
        if later.first_at_ms - step.at_ms > history.limits.quiet_ms or not missing:
            break
        missing.difference_update(later.joined)
    return missing


def back_until_ms(move: LeaderMove, limits: Limits) -> int:
    """Until when members may return that expired in the rebalance around this failure, before they are blamed: while
    their incident is still open."""
    return move.at_ms + (move.after_ms or 0) + min(CHANGE_GAP_MS, limits.quiet_ms)


def ends_of_waiting(moves: Iterable[LeaderMove], limits: Callable[[str], Limits]) -> Iterator[tuple[int, str, int]]:
    """The last moments at which a failed broker is blamed for members that are not back, each with the group and with
    the begin of the rebalance: after them time alone may make the fault the members'."""
    for move in moves:
        if move.is_failure_before and not move.is_failure_at_once:
            yield back_until_ms(move, limits(move.group_id)), move.group_id, move.at_ms + (move.after_ms or 0)


def advice(brokers: Iterable[int], missing: int) -> str:
    """What to do about brokers that put out members, of which so many are not back."""
    named = listed([f"broker {broker}" for broker in brokers])
    return _STOOD_STILL.format(brokers=named, members=_NOT_ALL_BACK if missing else _ARE_BACK)


def by_group(moves: Iterable[LeaderMove]) -> Mapping[str, list[LeaderMove]]:
    found: dict[str, list[LeaderMove]] = defaultdict(list)
    for move in moves:
        found[move.group_id].append(move)
    return found
