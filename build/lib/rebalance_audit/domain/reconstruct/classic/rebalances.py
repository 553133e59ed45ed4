"""Rebalances of classic consumer groups: who held what before and after, and when each partition stopped and resumed.

Eager members give everything up before they re-join, so every partition stops; cooperative ones give up what moves,
one round before it is handed on. Source: KIP-429, KIP-345;
docs/kafka_writes.md#eager-and-cooperative-rounds.
"""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import shown
from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.kinds import Bound, EvidenceTier, MemberChange, Mode, MovementKind, Outcome, ResourceType
from rebalance_audit.domain.model import (
    GroupEvidence,
    LogEvent,
    Mark,
    Member,
    Movement,
    Rebalance,
    Trigger,
    changed,
)
from rebalance_audit.domain.reconstruct.assignment.avoidable import mark_avoidable
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR, as_tasks, tasks_of
from rebalance_audit.domain.reconstruct.attempts.attempt import classic_attempts
from rebalance_audit.domain.reconstruct.attempts.frame import frames
from rebalance_audit.domain.reconstruct.attempts.triggers import STATIC_RETURN
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction
from rebalance_audit.domain.records import MemberMetadata

from . import silence
from .before import Before, Holding, before_all, course_of, created_anew, forgotten, is_same
from .causes import with_causes
from .conversions import Downgrade
from .hand_overs import HandOvers
from .members import Parsed, mode_of, names, parse, resource_name, settle_modes

_make_member, _make_holding = maker(Member), maker(Holding)


def reconstruct_classic(evidence: GroupEvidence) -> tuple[list[Rebalance], list[Contradiction]]:
    """All rebalances of the group, in order, and what was not believed."""
    classic = [r for r in evidence.records if r.record.name == "GroupMetadata"]
    attempts, contradictions = classic_attempts(classic, evidence.lines)
    if not attempts:
        return [], contradictions
    before = before_all(course_of(evidence, attempts))
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
    rebalance = with_causes(before, rebalance, after)
    if value is None and attempt.converted is not None:
        return _from_consumer_group(rebalance, EvidenceTier.LOGGED, attempt.converted.ref), before
    if value is None and attempt.rewrite_seq:
        return _returned_by_line(before, rebalance)
    if value is None or after is None:
        return rebalance, forgotten(before) if rebalance.outcome in (Outcome.COMPLETED, Outcome.EMPTIED) else before
    parsed = {m.member_id: parse(m) for m in value.members}
    if attempt.rewrite_seq:
        return _rewritten(before, rebalance, parsed)
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


def _returned_by_line(before: Before, rebalance: Rebalance) -> tuple[Rebalance, Before]:
    """No record of it is left, or none was written (2.3 and 2.4): the members are those of before, one of them renamed.
    Commits are cut at records alone, so only the line itself shows when it stopped and resumed."""
    rebalance, line = _static_return(rebalance, EvidenceTier.LOGGED), before.attempt.replaced
    there = before.members or {}
    old = there.get(str(line.fields.get("member_id"))) if line is not None else None
    new_id = line.fields.get("new_member_id") if line is not None else None
    if line is None or old is None or not new_id or new_id in there:
        return rebalance, before
    new = changed(old, member_id=new_id)
    members, movements = [], []
    for member in there.values():
        held = before.held.get(member.member_id, frozenset())
        now = Parsed(new if member is old else member, parse(member).topics, frozenset(), held)
        change = MemberChange.REPLACED if member is old else MemberChange.STAYED
        members.append(_member(before, now, rebalance, change, held))
    at_ms = line.at_ms or 0
    stop = _mark(Bound.UPPER, at_ms + LINE_SLACK_MS, "its place was taken by a new process", line)
    resume = _mark(Bound.LOWER, at_ms - LINE_SLACK_MS, "it came back", line)
    for resource in sorted(before.held.get(old.member_id, ())):
        movements.append(
            Movement(
                resource_type=ResourceType.PARTITION,
                resource=resource_name(resource),
                topic=resource[0],
                partition=resource[1],
                kind=MovementKind.RETURNED,
                from_member_id=old.member_id,
                to_member_id=new_id,
                from_client_id=old.client_id,
                to_client_id=new.client_id,
                stop_marks=(stop,),
                resume_marks=(resume,),
                evidence=(line.ref,),
            )
        )
    after = changed(
        before,
        members={m.member_id: m for m in (new if m is old else m for m in there.values())},
        held={new_id if m == old.member_id else m: held for m, held in before.held.items()},
        holdings={
            resource: changed(holding, member=new) if holding.member.member_id == old.member_id else holding
            for resource, holding in before.holdings.items()
        },
    )
    return changed(rebalance, members=tuple(members), movements=tuple(movements)), after


def _mark(bound: Bound, at_ms: int, detail: str, line: LogEvent) -> Mark:
    return Mark(bound=bound, at_ms=at_ms, tier=EvidenceTier.LOGGED, rank=0, detail=detail, ref=line.ref)


def _rewritten(before: Before, rebalance: Rebalance, parsed: Mapping[str, Parsed]) -> tuple[Rebalance, Before]:
    """A static member came back under a new member id: its partitions stood still, nobody else's."""
    there = before.members or {}
    by_instance = {m.group_instance_id: m for m in there.values() if m.group_instance_id is not None}
    hand_overs, members, movements = HandOvers(before), [], []
    for p in parsed.values():
        old = None
        if p.member.member_id not in there and p.member.group_instance_id is not None:
            old = by_instance.get(p.member.group_instance_id)
        held = frozenset(before.held.get(old.member_id if old else p.member.member_id, frozenset()))
        assigned = p.assigned if p.assigned is not None else frozenset()
        members.append(_member(before, p, rebalance, MemberChange.REPLACED if old else MemberChange.STAYED, held))
        if old is None:
            continue
        holding, fenced = Holding(old, before.delivered_index), _fenced(before, old)
        for resource in sorted(assigned):
            movements.append(
                hand_overs.movement(
                    MovementKind.RETURNED,
                    resource,
                    holding=holding,
                    new=p.member,
                    held=held,
                    assigned=assigned,
                    fenced=fenced,
                )
            )
    rebalance = _static_return(rebalance, EvidenceTier.RECORDED)
    rebalance = changed(rebalance, members=tuple(members), movements=tuple(movements), kept_count=None)
    return _closed(before, rebalance, parsed, dict(before.holdings), before.converted)


def _fenced(before: Before, old: MemberMetadata) -> LogEvent | None:
    """The line by which the member whose place was taken learned it: so it had been alive."""
    since_ms = (before.attempt.known_at_ms or 0) - LINE_SLACK_MS
    lines = (
        line
        for line in before.course.fences
        if line.fields.get("member_id") == old.member_id
        and since_ms <= (line.at_ms or 0) <= since_ms + old.session_timeout
    )
    return min(lines, key=lambda line: line.at_ms or 0, default=None)


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
        members.append(_member(before, p, rebalance, change, frozenset(held_of.get(member_id, ()))))
    for member_id, member in downgrade.members.items():
        if member_id not in parsed:
            gone = Parsed(member, None, frozenset(), frozenset())
            members.append(_member(before, gone, rebalance, MemberChange.LEFT, frozenset(held_of[member_id])))
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
    rebalance, after = _closed(before, rebalance, parsed, holdings, downgrade)
    return rebalance, changed(after, is_history_known=True)


def _delivered(before: Before, rebalance: Rebalance, parsed: Mapping[str, Parsed]) -> tuple[Rebalance, Before]:
    movement = HandOvers(before).movement
    mode = mode_of(rebalance, parsed, before.members)
    assigned_to = {r: p for p in parsed.values() for r in p.assigned or ()}
    members, movements, kept = [], [], 0
    for p in parsed.values():
        old, held = before.member(p.member), None
        if before.is_history_known or before.members:
            held = frozenset() if old is None else before.held[old.member_id]
        elif mode == Mode.COOPERATIVE:
            held = p.owned
        is_known = bool(held) if before.members is None else old is not None
        members.append(_member(before, p, rebalance, MemberChange.STAYED if is_known else MemberChange.JOINED, held))
    returned = {p.member.group_instance_id for p in parsed.values()} - {None}
    for member_id, member in (before.members or {}).items():
        if member_id not in parsed and member.group_instance_id not in returned:
            held = before.held.get(member_id, frozenset())
            gone = Parsed(member, None, frozenset(), frozenset())
            members.append(_member(before, gone, rebalance, MemberChange.LEFT, held))
    for resource in sorted(assigned_to):
        p, holding = assigned_to[resource], before.holdings.get(resource)
        if holding is None:
            if before.is_history_known:
                movements.append(movement(MovementKind.ASSIGNED, resource, new=p.member))
            continue
        same = is_same(holding.member, p.member)
        if same and mode == Mode.COOPERATIVE and holding.revoked_in is None and (resource in p.owned or not p.owned):
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
            )
        )
    holdings = dict(before.holdings)
    for resource in sorted(before.holdings.keys() - assigned_to.keys()):
        holding = before.holdings[resource]
        if holding.revoked_in is None:
            movements.append(movement(MovementKind.REVOKED, resource, holding=holding))
            holdings[resource] = changed(holding, revoked_in=rebalance.rebalance_id, revoked_index=before.index)
    rebalance = changed(rebalance, mode=mode, members=tuple(members), movements=tuple(movements), kept_count=kept)
    return _closed(before, rebalance, parsed, holdings, None)


def _closed(
    before: Before,
    rebalance: Rebalance,
    parsed: Mapping[str, Parsed],
    holdings: dict[Resource, Holding],
    converted: Downgrade | None,
) -> tuple[Rebalance, Before]:
    """Fill in the counts of what is held now. `holdings`: those of before; this updates them."""
    held_now = {m: p.assigned or frozenset() for m, p in parsed.items()}
    for p in parsed.values():
        holdings.update(dict.fromkeys(p.assigned or (), _make_holding(p.member, before.index)))
    held = set().union(*held_now.values())
    without_owner = holdings.keys() - held
    if without_owner:
        subscribed = set().union(*(p.topics or () for p in parsed.values()))
        without_owner = {r for r in without_owner if r[0] in subscribed}
    after = changed(
        before,
        members={m: p.member for m, p in parsed.items()},
        held=held_now,
        holdings=holdings,
        converted=converted,
        delivered_index=before.index,
        # From the first full record on, what is not assigned is known to be nobody's.
        is_history_known=before.is_history_known or bool(parsed),
    )
    return changed(rebalance, resource_count=len(held), unassigned_count=len(without_owner)), after


def _member(
    before: Before, p: Parsed, rebalance: Rebalance, change: MemberChange, held: frozenset[Resource] | None
) -> Member:
    assigned, member = p.assigned, p.member
    is_gone = change == MemberChange.LEFT
    families = before.families(member) if is_gone else before.course.families(rebalance.assignor, member)
    return _make_member(
        member_id=p.member.member_id,
        group_instance_id=p.member.group_instance_id,
        client_id=p.member.client_id,
        client_host=p.member.client_host,
        change=change,
        is_leader=not is_gone and p.member.member_id == rebalance.leader_member_id,
        session_timeout_ms=p.member.session_timeout,
        rebalance_timeout_ms=p.member.rebalance_timeout if p.member.rebalance_timeout >= 0 else None,
        subscribed_topics=tuple(sorted(p.topics)) if p.topics is not None else None,
        owned_before=None if held is None else names(held),
        assigned=None if assigned is None else names(assigned),
        revoked=None if held is None or assigned is None else names(held - assigned),
        added=None if held is None or assigned is None else names(assigned - held),
        client_libraries=shown(families),
        undecoded=p.refused,
        evidence=rebalance.evidence[:1],
    )


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


def _static_return(rebalance: Rebalance, tier: EvidenceTier) -> Rebalance:
    return changed(
        rebalance,
        mode=Mode.UNKNOWN,
        trigger=Cause.STATIC_MEMBER_REPLACED,
        trigger_tier=tier,
        trigger_detail="a static member came back with a new member id; the generation did not change",
        expected=True,
        expected_reason=STATIC_RETURN,
    )
