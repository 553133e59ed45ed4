"""RB005: members that leave and return again and again."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, median_low

from rebalance_audit.domain.detect import client_advice
from rebalance_audit.domain.detect.history import (
    History,
    HistoryStep,
    Identity,
    bursts,
    identity,
    most_at_once,
    refs_of,
)
from rebalance_audit.domain.detect.wording import duration
from rebalance_audit.domain.kinds import MemberChange, Severity
from rebalance_audit.domain.model import Finding, Member, Rebalance


def flapping(history: History) -> list[Finding]:
    """The same client, instance or worker leaves and returns again and again, more often than the others.

    Silent when all members do the same: that is a deploy (or, if it goes on, a storm). Of several members that share
    a name nobody can tell which one returns: together they may return as often as each of them might.
    """
    limits = history.limits
    gone: set[Identity] = set()
    returns: dict[Identity, list[HistoryStep]] = {}
    for step in history.attempts:
        gone.update(step.left)
        for who in step.joined:
            if who in gone:
                gone.discard(who)
                returns.setdefault(who, []).append(step)
    found: list[Finding] = []
    for who, steps in sorted(returns.items()):
        if len(steps) < limits.flapping_returns:
            continue
        others = [len(returns.get(other, ())) for other in history.same_identity if other != who]
        usual = median(others) if others else 0
        returns_at_least = limits.flapping_returns * _sharing(history, who)
        for part in bursts(steps, limits.flapping_window_ms):
            most = most_at_once(part, limits.flapping_window_ms)
            if most < returns_at_least or len(part) < usual + 2:
                continue
            apart_ms = (part[-1].at_ms - part[0].at_ms) / (len(part) - 1)
            put_out = sum(history.was_put_out_by_poll_timeout(who, s) for s in history.attempts)
            found += history.finding(
                "RB005",
                history.extent(part, quiet_ms=limits.flapping_window_ms, about=" ".join(who)),
                severity=Severity.WARNING,
                title=f"{history.who(who)} left {history.group} and came back {len(part)} times, "
                f"once in {duration(apart_ms)}",
                numbers={"return_count": len(part), "apart_ms": round(apart_ms), "others_median_count": usual},
                advice=_flapping_advice(
                    [m for s in part for m in s.rebalance.members if identity(m) == who],
                    is_static=who[0] == "instance",
                    by_poll_timeout=put_out * 2 >= len(part),
                    rebalance=part[-1].rebalance,
                ),
                evidence=refs_of(part),
            )
    return found


def _sharing(history: History, who: Identity) -> int:
    """How many members bear this name at once, in most rebalances: for a moment, one that was killed is there beside
    its successor."""
    counts = (
        sum(identity(m) == who for m in s.rebalance.members if m.change != MemberChange.LEFT) for s in history.attempts
    )
    present = [count for count in counts if count]
    return median_low(present) if present else 1


def _flapping_advice(members: Sequence[Member], *, is_static: bool, by_poll_timeout: bool, rebalance: Rebalance) -> str:
    """`rebalance`: the last of these."""
    if rebalance.protocol_type == "connect":
        return client_advice.WORKER_RESTARTS
    if by_poll_timeout:
        return "Its poll interval puts it out each time (RB006): let it do less per poll, or allow more time."
    if is_static:
        return client_advice.FIND_OUT
    return client_advice.restarts(client_advice.families(members), rebalance.group_type)
