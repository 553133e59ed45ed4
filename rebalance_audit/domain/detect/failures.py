"""Who failed in a rebalance, and who only left a member id behind that was missed."""

from __future__ import annotations

from collections.abc import Iterator

from rebalance_audit.domain.causes import ARRIVALS, MEMBER_FAILED, Cause
from rebalance_audit.domain.detect.history import History, HistoryStep, Identity, identity
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.model import Trigger


def failures(history: History, step: HistoryStep) -> Iterator[tuple[str, Trigger]]:
    """The ids of members that failed in this rebalance, each with the cause that names it, in the order of causes."""
    failed = [cause for cause in step.rebalance.triggers if cause.trigger in MEMBER_FAILED]
    if failed:
        behind = _left_behind(history, step)
        for cause in failed:
            yield from ((member_id, cause) for member_id in cause.members if member_id not in behind)


def _left_behind(history: History, step: HistoryStep) -> frozenset[str]:
    """The ids that expired after their members had joined anew under others, as clients do that lost their coordinator:
    nobody failed. None if nobody else failed: then a member that died and was started again is what it is about.
    Lines show the order, records do not.
    """
    came: set[Identity] = set()
    failed: set[str] = set()
    behind: set[str] = set()
    for cause in step.rebalance.triggers:
        people = {m: identity(history.member(m)) for m in cause.members}
        if cause.trigger in ARRIVALS and cause.tier == EvidenceTier.LOGGED:
            came.update(who for who in people.values() if history.same_identity.get(who, 1) == 1)
        elif cause.trigger in MEMBER_FAILED:
            failed.update(people)
            if cause.trigger == Cause.MEMBER_SESSION_EXPIRED:
                behind.update(m for m, who in people.items() if who in came)
    return frozenset(behind) if failed - behind else frozenset()
