"""Rebalances of classic consumer groups: who held what before and after, and when each partition stopped and resumed.

Eager members give everything up before they re-join, so every partition stops; cooperative ones give up what moves,
one round before it is handed on. Source: KIP-429, KIP-345;
docs/kafka_writes.md#eager-and-cooperative-rounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily, Families
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, Mode, MovementKind, Outcome
from rebalance_audit.domain.model import (
    GroupEvidence,
    Rebalance,
    Trigger,
    changed,
)
from rebalance_audit.domain.reconstruct.assignment.avoidable import mark_avoidable
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR, as_tasks, tasks_of
from rebalance_audit.domain.reconstruct.attempts.frame import frames
from rebalance_audit.domain.reconstruct.attempts.joined import classic_attempts
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction

from . import silence
from .after import closed, member_row
from .before import Before, Holding, before_all, course_of, created_anew, forgotten, is_same
from .causes import with_causes
from .conversions import Downgrade
from .hand_overs import HandOvers
from .members import Parsed, mode_of, parse, settle_modes
from .refused import set_aside_refused
from .static_returns import returned_by_line, rewritten
from .untaken import untaken

JAVA: Families = frozenset({ClientFamily.JAVA})


def reconstruct_classic(evidence: GroupEvidence) -> tuple[list[Rebalance], list[Contradiction]]:
    """All rebalances of the group, in order, and what was not believed."""
    classic = [r for r in evidence.records if r.record.name == "GroupMetadata"]
    attempts, contradictions = classic_attempts(classic, evidence.lines)
    if not attempts:
        return [], contradictions
    course = course_of(evidence, attempts)
    set_aside_refused(attempts, course.commits)
    before = before_all(course, evidence.ownerless)
    rebalances = []
    for index, framed in enumerate(frames(evidence.cluster_id, evidence.group_id, attempts)):
        rebalance, before = _step(_turned_to(before, index), framed)
        rebalances.append(rebalance)
    return settle_modes(rebalances), contradictions


def _turned_to(before: Before, index: int) -> Before:
    """The same group before the attempt at `index`."""
    attempts = before.course.attempts
    attempt = attempts[index]
    if attempt.number == 1 and not attempt.rewrite_seq:
        if index == 0 or attempts[index - 1].incarnation != attempt.incarnation:
            before = created_anew(before)
    return changed(before, index=index, attempt=attempt, committers=silence.committers(before, attempt))


def _step(before: Before, rebalance: Rebalance) -> tuple[Rebalance, Before]:
    """The next attempt, which is given as a rebalance of its own, and what is known after it."""
    attempt = before.attempt
    value = attempt.value
    after = {m.member_id: m for m in value.members} if value is not None else None
    refused = attempt.refused
    who_joined = after if refused is None else {m.member_id: m for m in refused.members}
    rebalance = with_causes(before, rebalance, who_joined)
    if value is None and attempt.converted is not None:
        return _from_consumer_group(rebalance, EvidenceTier.LOGGED, attempt.converted.ref), before
    if value is None and attempt.rewrite_seq:
        return returned_by_line(before, rebalance)
    if value is None or after is None:
        return rebalance, forgotten(before) if rebalance.outcome in (Outcome.COMPLETED, Outcome.EMPTIED) else before
    parsed = {m.member_id: parse(m) for m in value.members}
    if attempt.rewrite_seq:
        return rewritten(before, rebalance, parsed)
    assert attempt.record is not None
    downgrade = before.course.downgrades.get(attempt.record.offset)
    if downgrade is not None:
        return _handed_over(before, rebalance, parsed, downgrade)
    rebalance, known = _delivered(before, rebalance, parsed)
    delivered = mark_avoidable(rebalance)
    if rebalance.assignor == STREAMS_ASSIGNOR:
        task_of = dict(before.task_of)
        for member in value.members:
            task_of.update(tasks_of(member))
        known = changed(known, task_of=task_of)
        delivered = as_tasks(delivered, task_of, value.members)
    return delivered, known


def _handed_over(
    before: Before, rebalance: Rebalance, parsed: Mapping[str, Parsed], downgrade: Downgrade
) -> tuple[Rebalance, Before]:
    """A consumer group became classic with all it had: nothing stops, and who went is seen in the next round."""
    members = []
    held_of: dict[str, set[Resource]] = {m: set() for m in downgrade.members}
    for resource, one in downgrade.held.items():
        held_of[one.member.member_id].add(resource)
    for member_id, p in parsed.items():
        change = MemberChange.STAYED if member_id in held_of else MemberChange.JOINED
        members.append(member_row(before, p, rebalance, change, frozenset(held_of.get(member_id, ()))))
    for member_id, member in downgrade.members.items():
        if member_id not in parsed:
            gone = Parsed(member, None, frozenset(), frozenset())
            members.append(member_row(before, gone, rebalance, MemberChange.LEFT, frozenset(held_of[member_id])))
    rebalance = _from_consumer_group(rebalance, EvidenceTier.RECORDED, rebalance.evidence[0])
    rebalance = changed(
        rebalance,
        is_complete_evidence=True,
        mode=mode_of(rebalance, parsed, None),
        members=tuple(members),
        movements=(),
        kept_count=len(downgrade.held),
    )
    holdings = {
        resource: Holding(one.member, before.index - 1, given=one.given) for resource, one in downgrade.held.items()
    }
    rebalance, after = closed(before, rebalance, parsed, holdings, downgrade)
    return rebalance, changed(after, is_history_known=True)


def _delivered(before: Before, rebalance: Rebalance, parsed: Mapping[str, Parsed]) -> tuple[Rebalance, Before]:
    movement = HandOvers(before).movement
    mode = mode_of(rebalance, parsed, before.members)
    assigned_to = {r: p for p in parsed.values() for r in p.assigned or ()}
    missed = untaken(before, parsed)
    members, movements, kept = [], [], 0
    for p in parsed.values():
        old, held = before.member(p.member), None
        if before.is_history_known or before.members:
            held = frozenset() if old is None else before.held[old.member_id]
        elif mode == Mode.COOPERATIVE:
            held = p.owned
        is_known = bool(held) if before.members is None else old is not None
        members.append(member_row(before, p, rebalance, MemberChange.STAYED if is_known else MemberChange.JOINED, held))
    returned = {p.member.group_instance_id for p in parsed.values()} - {None}
    for member_id, member in (before.members or {}).items():
        if member_id not in parsed and member.group_instance_id not in returned:
            held = before.held.get(member_id, frozenset())
            gone = Parsed(member, None, frozenset(), frozenset())
            members.append(member_row(before, gone, rebalance, MemberChange.LEFT, held))
    for resource in sorted(assigned_to.keys() - missed):
        p, holding = assigned_to[resource], before.holdings.get(resource)
        if holding is None:
            if before.is_history_known:
                movements.append(movement(MovementKind.ASSIGNED, resource, new=p.member))
            continue
        same = is_same(holding.member, p.member)
        if same and mode == Mode.COOPERATIVE and _is_kept(before, p, resource, holding):
            kept += 1
            continue
        held = None if holding.revoked_in is not None else before.held.get(holding.member.member_id)
        movements.append(
            movement(
                MovementKind.RETURNED if same else MovementKind.MOVED,
                resource,
                holding=holding,
                new=p.member,
                held=held,
                assigned=p.assigned or frozenset(),
                kept=p.owned & (p.assigned or frozenset()) if mode == Mode.COOPERATIVE else frozenset(),
            )
        )
    holdings = dict(before.holdings)
    for resource in sorted(before.holdings.keys() - (assigned_to.keys() - missed)):
        holding = before.holdings[resource]
        if holding.revoked_in is None:
            movements.append(movement(MovementKind.REVOKED, resource, holding=holding))
            holdings[resource] = changed(holding, revoked_in=rebalance.rebalance_id, revoked_index=before.index)
        elif any(resource in p.owned for p in parsed.values() if p.member.member_id == holding.member.member_id):
            # It joined this generation with what the one before took away, which it had not heard of yet.
            holdings[resource] = changed(holding, revoked_index=before.index)
    rebalance = changed(rebalance, mode=mode, members=tuple(members), movements=tuple(movements), kept_count=kept)
    return closed(before, rebalance, parsed, holdings, None, missed)


def _is_kept(before: Before, p: Parsed, resource: Resource, holding: Holding) -> bool:
    """Whether it had not let go to re-join. Not all libraries say what they own. Java's say so always: one that owns
    nothing gave all up, since it still offers an eager assignor beside the cooperative one, or had lost it. What was
    taken away is kept if it still owned it as it joined: it never heard of the generation before."""
    if resource in p.owned:
        return True
    return holding.revoked_in is None and not (p.owned or before.families(p.member) == JAVA)


def _from_consumer_group(rebalance: Rebalance, tier: EvidenceTier, ref: str) -> Rebalance:
    detail = "the consumer group became a classic group"
    trigger = Trigger(trigger=Cause.GROUP_CONVERTED, tier=tier, detail=detail, evidence=(ref,))
    return changed(
        rebalance,
        trigger=trigger.trigger,
        trigger_tier=trigger.tier,
        trigger_detail=trigger.detail,
        triggers=(trigger,),
        expected=False,
        expected_reason=None,
    )
