"""Static members that return within their session: the same generation, written again or shown by a line alone (up to
2.4), with the partitions of one member standing still. Source: KIP-345; docs/versions.md."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import (
    ESTIMATE,
    LOWER,
    UPPER,
    Basis,
    Bound,
    EvidenceTier,
    MemberChange,
    Mode,
    MovementKind,
    ResourceType,
)
from rebalance_audit.domain.model import LogEvent, Mark, Movement, Rebalance, Trigger, changed
from rebalance_audit.domain.reconstruct.attempts.triggers import STATIC_RETURN
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.marks import (
    ASSIGNED_CALLBACK_MS,
    LINE_SLACK_MS,
    logged,
    recorded,
)
from rebalance_audit.domain.records import MemberMetadata

from .after import closed, member_row
from .before import Before, Holding
from .hand_overs import HandOvers
from .members import Parsed, parse, resource_name
from .stretch import commit_slack_ms


def returned_by_line(before: Before, rebalance: Rebalance) -> tuple[Rebalance, Before]:
    """The rebalance of a static member that returned and of which no record is left, or none was written (2.3 and 2.4):
    the members are the same as before, one of them renamed. Commits are cut at records alone: where its longest time
    without one holds the line, that is when it stood still."""
    line, there = before.attempt.replaced, before.members or {}
    old = there.get(str(line.fields.get("member_id"))) if line is not None else None
    new_id = line.fields.get("new_member_id") if line is not None else None
    rebalance = _static_return(rebalance, EvidenceTier.LOGGED, (str(new_id),) if new_id else ())
    if line is None or old is None or not new_id or new_id in there:
        return rebalance, before
    new = changed(old, member_id=new_id)
    members, movements = [], []
    for member in there.values():
        held = before.held.get(member.member_id, frozenset())
        now = Parsed(new if member is old else member, parse(member).topics, frozenset(), held)
        change = MemberChange.REPLACED if member is old else MemberChange.STAYED
        members.append(member_row(before, now, rebalance, change, held))
    at_ms = line.at_ms or 0
    stop = _mark(Bound.UPPER, at_ms + LINE_SLACK_MS, "its place was taken by a new process", line)
    resume = _mark(Bound.LOWER, at_ms - LINE_SLACK_MS, "it came back", line)
    for resource in sorted(before.held.get(old.member_id, ())):
        stops, resumes = _from_commits(before, resource, line, commit_slack_ms(before.families(old)))
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
                stop_marks=(stop, *stops),
                resume_marks=(resume, *resumes),
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


def _from_commits(
    before: Before, resource: Resource, line: LogEvent, slack_ms: int
) -> tuple[tuple[Mark, ...], tuple[Mark, ...]]:
    at_ms, since = line.at_ms, before.delivered_offset
    if at_ms is None or since is None:
        return (), ()
    mark = before.course.commits.gap_at(resource, since, at_ms)
    if mark is None or mark.gap_from_at_ms is None or mark.gap_to_at_ms is None:
        return (), ()
    last_ms, first_ms, (last_ref, first_ref) = mark.gap_from_at_ms, mark.gap_to_at_ms, mark.gap_refs
    detail, basis = "its last commit before it came back", Basis.LAST_COMMIT
    stops = (
        recorded(LOWER, last_ms - slack_ms, "the owner's last commit", last_ref),
        recorded(ESTIMATE, last_ms, detail, last_ref, rank=2, basis=basis),
    )
    detail = "the assignment is sent as it comes back, without a record"
    resumes = (
        logged(ESTIMATE, at_ms + ASSIGNED_CALLBACK_MS, detail, line.ref, rank=3, basis=Basis.DELIVERY),
        recorded(UPPER, first_ms + LINE_SLACK_MS, "the new owner's first commit", first_ref),
    )
    return stops, resumes


def rewritten(before: Before, rebalance: Rebalance, parsed: Mapping[str, Parsed]) -> tuple[Rebalance, Before]:
    """The movements of a static member that came back under a new member id: its partitions stood still, nobody
    else's."""
    there = before.members or {}
    by_instance = {m.group_instance_id: m for m in there.values() if m.group_instance_id is not None}
    hand_overs, members, movements = HandOvers(before), [], []
    for p in parsed.values():
        old = None
        if p.member.member_id not in there and p.member.group_instance_id is not None:
            old = by_instance.get(p.member.group_instance_id)
        held = frozenset(before.held.get(old.member_id if old else p.member.member_id, frozenset()))
        assigned = p.assigned if p.assigned is not None else frozenset()
        members.append(member_row(before, p, rebalance, MemberChange.REPLACED if old else MemberChange.STAYED, held))
        if old is None:
            continue
        fenced = _fenced(before, old)
        for resource in sorted(assigned):
            holding = before.holdings.get(resource)
            if holding is None or holding.member.member_id != old.member_id:
                holding = Holding(old, before.delivered_index)
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
    came_back = tuple(sorted(m.member_id for m in members if m.change == MemberChange.REPLACED))
    rebalance = _static_return(rebalance, EvidenceTier.RECORDED, came_back)
    rebalance = changed(rebalance, members=tuple(members), movements=tuple(movements), kept_count=None)
    rebalance, after = closed(before, rebalance, parsed, dict(before.holdings), before.converted)
    others = {
        resource: holding
        for resource, holding in before.holdings.items()
        if resource in after.held.get(holding.member.member_id, ())
    }
    return rebalance, changed(after, holdings={**after.holdings, **others})


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


def _static_return(rebalance: Rebalance, tier: EvidenceTier, came_back: tuple[str, ...]) -> Rebalance:
    """`came_back`: the new member ids."""
    detail = "a static member came back with a new member id; the generation did not change"
    cause = Cause.STATIC_MEMBER_REPLACED
    return changed(
        rebalance,
        mode=Mode.UNKNOWN,
        trigger=cause,
        trigger_tier=tier,
        trigger_detail=detail,
        triggers=(Trigger(trigger=cause, tier=tier, members=came_back, detail=detail, evidence=rebalance.evidence),),
        expected=True,
        expected_reason=STATIC_RETURN,
    )


def _mark(bound: Bound, at_ms: int, detail: str, line: LogEvent) -> Mark:
    return Mark(bound=bound, at_ms=at_ms, tier=EvidenceTier.LOGGED, rank=0, detail=detail, ref=line.ref)
