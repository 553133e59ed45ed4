"""RB004, RB010, RB013, RB015, CN004: who holds what, and what is wrong with that."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rebalance_audit.domain.causes import FOLLOW_UPS
from rebalance_audit.domain.detect import client_advice
from rebalance_audit.domain.detect.history import History, HistoryStep, Spell, bursts, label, refs_of
from rebalance_audit.domain.detect.wording import counted, duration, folded, listed
from rebalance_audit.domain.kinds import GroupType, MemberChange, MovementKind, Outcome, ResourceType, Severity
from rebalance_audit.domain.model import Finding, Member, Rebalance

_STICKY = ("sticky", "cooperative-sticky", "uniform")


def avoidable_movement(history: History) -> list[Finding]:
    """Resources left members that stayed, although a balanced assignment that keeps them there existed.

    Silent where the least movement is not known, and under an assignor that is sticky already: it keeps to what it
    handed out last, and nobody can do better by a setting.
    """
    moved = [s for s in history.attempts if s.rebalance.avoidable_moved_count and s.rebalance.assignor not in _STICKY]
    found: list[Finding] = []
    for part in bursts(moved, history.limits.storm_long_window_ms):
        total = sum(s.rebalance.avoidable_moved_count or 0 for s in part)
        of = sum(s.rebalance.moved_count or 0 for s in part)
        resources = [m.resource for s in part for m in s.rebalance.movements if m.is_avoidable]
        found += history.finding(
            "RB004",
            history.extent(part),
            severity=Severity.INFO,
            title=f"{total:,} of {counted(max(of, total), 'movement')} of {history.group} were avoidable: their "
            f"owners stayed "
            "and a balanced assignment could have left them there",
            detail=f"Concerned: {folded(resources)}" if resources else None,
            numbers={"avoidable_moved_count": total, "moved_count": of, "rebalance_count": len(part)},
            advice=_sticky_advice(history.members_of(part), part[-1].rebalance.group_type),
            evidence=refs_of(part),
        )
    return found


def _sticky_advice(members: Sequence[Member], group_type: GroupType) -> str:
    sticky = client_advice.sticky(client_advice.families(members), group_type)
    if sticky is None:
        return "Range and roundrobin assign from scratch each time."
    if group_type == GroupType.CONSUMER:
        return f"Use a sticky assignor ({sticky}): range assigns from scratch each time."
    return (
        f"Range and roundrobin assign from scratch each time. A sticky assignor ({sticky}) leaves partitions where "
        f"they are, {client_advice.WEIGH_STICKY}."
    )


def _even_advice(members: Sequence[Member], group_type: GroupType) -> str:
    found = "range assigns each topic by itself, from the first member on"
    if group_type == GroupType.CONSUMER:
        return f"{found}: with many small topics take the server's uniform assignor."
    sticky = client_advice.sticky(client_advice.families(members))
    if sticky is None:
        return f"{found}: with many small topics roundrobin assigns more evenly."
    server = " or the server's uniform assignor" if "group.protocol" in sticky else ""
    return f"{found}: with many small topics take cooperative-sticky{server}."


def unbalanced(history: History) -> list[Finding]:
    """The spread of an assignment is above what its resources allow, and stays so.

    Silent for a remainder of one, between two rounds of a hand-over, for members that subscribe to different topics,
    for share and Streams groups, and for Connect (CN004).
    """
    uneven = _by_rebalance(history, lambda step: _unevenness(history, step))
    found: list[Finding] = []
    for spell in _held(history, "RB010", uneven):
        loads: dict[str, int] = uneven[spell.last.rebalance.rebalance_id]
        most, fewest = max(loads.values()), min(loads.values())
        idle = sum(1 for n in loads.values() if n == 0)
        fullest = listed(sorted({name.partition("\x00")[0] for name, n in loads.items() if n == most}))
        found += history.finding(
            "RB010",
            spell.extent,
            severity=Severity.WARNING if idle and most > 1 else Severity.INFO,
            title=f"{history.group} is unbalanced: {fullest} held {counted(most, 'partition')} and others {fewest}"
            + (f"; {counted(idle, 'member')} held none" if idle else ""),
            numbers={"most_count": most, "fewest_count": fewest, "idle_member_count": idle, "member_count": len(loads)},
            advice=_even_advice(history.members_of([spell.last]), spell.last.rebalance.group_type),
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


def no_owner(history: History) -> list[Finding]:
    """Subscribed partitions or configured tasks are assigned to nobody, and stay so.

    Silent during Connect's scheduled delay (CN001), between two rounds of a hand-over, and for an empty group.
    """
    without = _by_rebalance(history, lambda step: step.rebalance.unassigned_count)
    found: list[Finding] = []
    for spell in _held(history, "RB013", without):
        count = max(without[s.rebalance.rebalance_id] for s in spell.steps)
        noun = "task" if spell.first.rebalance.protocol_type == "connect" else "partition"
        lost = [m.resource for s in spell.steps for m in s.rebalance.movements if m.kind == MovementKind.REVOKED]
        found += history.finding(
            "RB013",
            spell.extent,
            severity=Severity.CRITICAL if spell.is_open else Severity.WARNING,
            title=f"{counted(count, noun)} of {history.group} {'are' if spell.is_open else 'were'} without "
            f"an owner for {duration(spell.to_ms - spell.since_ms)}" + (" now" if spell.is_open else ""),
            detail=f"Taken away: {folded(lost)}" if lost else None,
            numbers={"unassigned_count": count, "duration_ms": spell.to_ms - spell.since_ms},
            advice="Restart the group's leader (the member that assigns) and compare the members' subscriptions; a "
            "static leader that restarts can leave new partitions unassigned.",
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


def subscriptions_differ(history: History) -> list[Finding]:
    """Members of one group subscribe to different topics, or are known to offer different assignors, and stay so.

    Silent while a deploy changes the subscription member by member.
    """
    differing = _by_rebalance(history, lambda step: _difference(step.rebalance))
    found: list[Finding] = []
    for spell in _held(history, "RB015", differing, history.limits.quiet_ms):
        what = differing[spell.last.rebalance.rebalance_id]
        found += history.finding(
            "RB015",
            spell.extent,
            severity=Severity.INFO,
            title=f"Members of {history.group} differ for {duration(spell.to_ms - spell.since_ms)}: {what}",
            numbers={"duration_ms": spell.to_ms - spell.since_ms, "rebalance_count": len(spell.steps)},
            advice="Give applications with different topics group ids of their own: each rebalance of one stops the "
            "other.",
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


def worker_imbalance(history: History) -> list[Finding]:
    """Connect workers' loads differ by more than one task, or one connector, and stay so.

    Silent during the scheduled delay and between two rounds of a hand-over.
    """
    spread = _by_rebalance(history, lambda step: _worker_loads(history, step))
    found: list[Finding] = []
    for spell in _held(history, "CN004", spread):
        noun, loads = spread[spell.last.rebalance.rebalance_id]
        found += history.finding(
            "CN004",
            spell.extent,
            severity=Severity.INFO,
            title=f"Workers of {history.group} are unevenly loaded: "
            f"{'/'.join(str(n) for n in sorted(loads, reverse=True))} {noun}s for "
            f"{duration(spell.to_ms - spell.since_ms)}",
            numbers={
                "loads": sorted(loads, reverse=True),
                "kind": noun,
                "duration_ms": spell.to_ms - spell.since_ms,
            },
            advice="Workers before 3.4 stop revoking too early: upgrade, or restart the fullest worker at a quiet "
            "time.",
            evidence=refs_of((spell.first, spell.last)),
        )
    return found


def _by_rebalance(history: History, judge: Any) -> dict[str, Any]:
    """Settled rebalances with nothing under way, by id, each with the answer of `judge`. Empty answers are left out."""
    judged: dict[str, Any] = {}
    settled = [s for s in history.attempts if s.is_settled]
    for at, step in enumerate(settled):
        r = step.rebalance
        if not _is_judged(r):
            continue
        follows = settled[at + 1].rebalance.trigger if at + 1 < len(settled) else None
        if follows not in FOLLOW_UPS and (verdict := judge(step)):
            judged[r.rebalance_id] = verdict
    return judged


def _is_judged(r: Rebalance) -> bool:
    is_settled = r.outcome == Outcome.COMPLETED and not r.connect_delay_ms
    return is_settled and r.group_type not in (GroupType.SHARE, GroupType.STREAMS)


def may_be_found_later(history: History) -> bool:
    """Whether a state lasts as the history ends that is a finding once it has lasted for a while."""
    step = next((s for s in reversed(history.attempts) if s.is_settled), None)
    if step is None or not _is_judged(step.rebalance):
        return False
    r = step.rebalance
    return bool(r.unassigned_count or _unevenness(history, step) or _difference(r) or _worker_loads(history, step))


def _held(history: History, rule_id: str, holds: Mapping[str, Any], least_ms: int | None = None) -> list[Spell]:
    least_ms = history.limits.settled_ms if least_ms is None else least_ms
    spells = history.spells(holds, history.carried(rule_id))
    return [s for s in spells if s.to_ms - s.since_ms >= least_ms]


def _present(rebalance: Rebalance) -> list[Member]:
    return [m for m in rebalance.members if m.change != MemberChange.LEFT]


def _unevenness(history: History, step: HistoryStep) -> dict[str, int] | None:
    r = step.rebalance
    members = _present(r)
    if r.protocol_type == "connect" or r.assignor == "stream" or len(members) < 2:
        return None
    if len({frozenset(m.subscribed_topics) if m.subscribed_topics is not None else None for m in members}) > 1:
        return None
    if any(m.assigned is None for m in members):
        return None
    counts = [len(m.assigned or ()) for m in members]
    fair = -(-sum(counts) // len(counts))
    if max(counts) <= fair or max(counts) < history.limits.uneven_ratio * fair:
        return None
    return {f"{label(m)}\x00{m.member_id}": n for m, n in zip(members, counts, strict=True)}


def _worker_loads(history: History, step: HistoryStep) -> tuple[str, list[int]] | None:
    members = _present(step.rebalance)
    if step.rebalance.protocol_type != "connect" or len(members) < 2 or any(m.assigned is None for m in members):
        return None
    connectors = {m.resource for m in step.rebalance.movements if m.resource_type == ResourceType.CONNECTOR}
    connectors |= {t.connector for t in history.tasks}
    for noun, is_task in (("task", True), ("connector", False)):
        loads = [sum(1 for r in m.assigned or () if _is_task(r, connectors) is is_task) for m in members]
        if max(loads) - min(loads) > history.limits.worker_spread:
            return noun, loads
    return None


def _is_task(resource: str, connectors: set[str]) -> bool:
    """`name-3` is a task, unless it is known as a connector's own name."""
    return resource not in connectors and resource.rpartition("-")[2].isdecimal() and "-" in resource


def _difference(rebalance: Rebalance) -> str | None:
    members = _present(rebalance)
    topics = {frozenset(m.subscribed_topics) for m in members if m.subscribed_topics is not None}
    if rebalance.protocol_type != "connect" and rebalance.assignor != "stream" and len(topics) > 1:
        common = frozenset.intersection(*topics)
        extra = sorted(frozenset.union(*topics) - common)
        return f"not all subscribe to {folded(extra)}"
    assignors = {frozenset(m.supported_assignors) for m in members if m.supported_assignors is not None}
    if len(assignors) > 1:
        extra = sorted(frozenset.union(*assignors) - frozenset.intersection(*assignors))
        return f"not all offer the assignor {folded(extra)}"
    return None
