"""Finds movements that a balanced assignment could have spared: more than must move by the assignor's own balance.

range balances each topic by itself, the others the total. Balanced means that no two members differ by more than one.
Among all balanced assignments those that let members keep most are the measure; what moved beyond that was avoidable.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping

from rebalance_audit.domain.kinds import MemberChange, MovementKind, Outcome
from rebalance_audit.domain.model import Member, Movement, Rebalance, changed

PER_TOPIC = frozenset({"range"})
BY_TOTAL = frozenset({"roundrobin", "sticky", "cooperative-sticky", "uniform"})


def mark_avoidable(rebalance: Rebalance) -> Rebalance:
    """`is_avoidable` of each `moved` row. None where balance is not known: own assignors, different subscriptions."""
    moved = {m.resource: m for m in rebalance.movements if m.kind == MovementKind.MOVED}
    if not moved or rebalance.outcome != Outcome.COMPLETED:
        return rebalance
    members = [m for m in rebalance.members if m.change != MemberChange.LEFT]
    if not _is_known(rebalance.assignor, members):
        return rebalance
    owner_after = {r: m.member_id for m in members for r in m.assigned or ()}
    stayed = {m.member_id for m in members}
    new = {m.resource for m in rebalance.movements if m.kind == MovementKind.ASSIGNED}
    owner_before = {r: owner for r, owner in owner_after.items() if r not in moved and r not in new}
    owner_before |= {r: m.from_member_id for r, m in moved.items() if m.from_member_id in stayed}
    verdicts: dict[str, bool | None] = {}
    for resources, eligible in _units(rebalance.assignor or "", owner_after, members):
        verdicts |= _judge(resources, eligible, owner_before, owner_after)
    return changed(rebalance, movements=tuple([_judged(m, verdicts) for m in rebalance.movements]))


def _judged(movement: Movement, verdicts: Mapping[str, bool | None]) -> Movement:
    verdict = verdicts.get(movement.resource) if movement.kind == MovementKind.MOVED else None
    return movement if verdict is None else changed(movement, is_avoidable=verdict)


def _is_known(assignor: str | None, members: Iterable[Member]) -> bool:
    subscriptions = [m.subscribed_topics for m in members]
    if assignor in PER_TOPIC:
        return None not in subscriptions
    return assignor in BY_TOTAL and None not in subscriptions and len(set(subscriptions)) <= 1


def _units(
    assignor: str, owner_after: Mapping[str, str], members: Iterable[Member]
) -> list[tuple[list[str], list[str]]]:
    """Parts that are balanced by themselves: (resources, members that may have them)."""
    if assignor not in PER_TOPIC:
        return [(sorted(owner_after), [m.member_id for m in members])]
    by_topic: dict[str, list[str]] = defaultdict(list)
    for resource in sorted(owner_after):
        by_topic[resource.rpartition("-")[0]].append(resource)
    return [
        (resources, [m.member_id for m in members if topic in (m.subscribed_topics or ())])
        for topic, resources in by_topic.items()
    ]


def _judge(
    resources: list[str],
    eligible: list[str],
    owner_before: Mapping[str, str | None],
    owner_after: Mapping[str, str],
) -> dict[str, bool | None]:
    lost: dict[str, list[str]] = defaultdict(list)
    held, given = dict.fromkeys(eligible, 0), dict.fromkeys(eligible, 0)
    for resource in resources:
        before, after = owner_before.get(resource), owner_after[resource]
        if after not in given:
            return dict.fromkeys(resources)
        given[after] += 1
        if before in held:
            held[before] += 1
        if before is not None and before != after:
            lost[before].append(resource)
    everything: dict[str, bool | None] = dict.fromkeys(resources, False)
    if not eligible:
        return everything
    floor, larger = divmod(len(resources), len(eligible))
    if any(given[m] not in (floor, floor + 1) for m in eligible):
        return dict.fromkeys(resources)
    above = [m for m in eligible if held[m] > floor]
    least = sum(held[m] - floor for m in above) - min(larger, len(above))
    excess = sum(map(len, lost.values())) - least
    if excess <= 0:
        return everything
    # A member that gave up one and was given another could have kept the one; beyond that, one that was left with less
    # than it might have had.
    swapped = {m: len(lost[m]) - max(0, held.get(m, 0) - given.get(m, 0)) for m in lost}
    for taken in (swapped, {m: len(lost[m]) - swapped[m] for m in lost}):
        for member in sorted(lost, key=lambda m: (given.get(m, 0), m)):
            for _ in range(min(taken[member], excess)):
                everything[lost[member].pop()] = True
                excess -= 1
    return everything
