"""Why a rebalance of a classic group began, and what else happened while it was prepared.

The `Preparing` line names the cause that began it; others join in before the join phase ends. Where there is no line,
the difference between two records shows the cause as far as it can: `unknown` is better than wrong.
Source: docs/kafka_writes.md#the-preparing-line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain

from rebalance_audit.domain.causes import DEPARTURES, EXPECTED, Cause
from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.log_lines.reasons import classify_fence, classify_leave, classify_reason
from rebalance_audit.domain.model import LogEvent, LogKind, Rebalance, Trigger, changed
from rebalance_audit.domain.records import MemberMetadata

from .attempt import Attempt

STATIC_RETURN = "static membership: the member returned within its session timeout"

_UUID_SUFFIX = 37
_ONE_BATCH_MS = 1_000
"""Lines of one operation of the coordinator are no further apart, load included
(docs/measured.md#lines-and-records)."""

_make_trigger = maker(Trigger)

Members = Mapping[str, MemberMetadata]


def logged_triggers(
    attempt: Attempt, before: Members | None, after: Members | None, instance_ids: frozenset[str] = frozenset()
) -> list[Trigger]:
    """Causes that lines name, the starting one first; departures of members that are still there are not believed."""
    leaves = {m: line for line in attempt.during if line.kind is LogKind.MEMBER_LEFT for m in _member_ids(line)}
    found: list[Trigger] = []
    if attempt.preparing is not None:
        line = attempt.preparing
        fields = line.fields
        trigger, members, detail = classify_reason(fields.get("reason", ""), fields.get("client_reason"))
        evidence = [line.ref]
        if trigger == Cause.GROUP_CONVERTED:
            found += _who_left_the_consumer_group(attempt)
        if trigger == Cause.MEMBER_LEFT:
            departures = [leaves[m] for m in members if m in leaves]
            if not members:
                # 4.x names dynamic members alone in this line: `LeaveGroup` request for () members.
                departures = [x for x in leaves.values() if abs((x.at_ms or 0) - (line.at_ms or 0)) <= _ONE_BATCH_MS]
                members = tuple(m for x in departures for m in _member_ids(x))
            if departures:
                reasons = {classify_leave(x.fields.get("client_reason")).trigger for x in departures}
                trigger = reasons.pop() if len(reasons) == 1 else trigger
                detail = departures[0].fields.get("client_reason") or detail
                evidence += [x.ref for x in departures]
        found.append(
            _make_trigger(
                trigger=trigger, tier=EvidenceTier.LOGGED, members=members, detail=detail, evidence=tuple(evidence)
            )
        )
    for line in attempt.during:
        trigger_of_line = _trigger_of(line)
        if trigger_of_line is None:
            continue
        trigger, detail = trigger_of_line
        found.append(
            _make_trigger(
                trigger=trigger,
                tier=EvidenceTier.LOGGED,
                members=_member_ids(line),
                detail=detail,
                evidence=(line.ref,),
            )
        )
    believed = [_believed(t, attempt, before, after, instance_ids) for t in found]
    return _merged([t for t in believed if t is not None])


def taken_over(attempt: Attempt, before: Attempt) -> list[Trigger]:
    """The trigger if the coordinator moved while it prepared this very generation: the next one restarts the join
    phase. A failover between rebalances causes none: members go on with the new coordinator."""
    one, other = before.preparing, attempt.preparing
    if one is None or other is None or (before.number, before.incarnation) != (attempt.number, attempt.incarnation):
        return []
    brokers = one.coordinator_broker_id, other.coordinator_broker_id
    if before.record is not None or None in brokers or brokers[0] == brokers[1]:
        return []
    return [
        _make_trigger(
            trigger=Cause.COORDINATOR_FAILOVER,
            tier=EvidenceTier.LOGGED,
            detail=f"broker {brokers[0]} had begun to prepare it when broker {brokers[1]} took the group over",
            evidence=(one.ref, other.ref),
        )
    ]


def _who_left_the_consumer_group(attempt: Attempt) -> list[Trigger]:
    """A consumer group turns classic for a member that went; the `Preparing` line does not say which."""
    assert attempt.preparing is not None
    found = []
    for line in attempt.during:
        if abs((line.at_ms or 0) - (attempt.preparing.at_ms or 0)) > _ONE_BATCH_MS:
            continue
        if line.kind is LogKind.MODERN_MEMBER_LEFT:
            reason = classify_leave(line.fields.get("client_reason"))
        elif line.kind is LogKind.MEMBER_FENCED:
            reason = classify_fence(str(line.fields.get("reason") or ""))
        else:
            continue
        found.append(
            _make_trigger(
                trigger=reason.trigger,
                tier=EvidenceTier.LOGGED,
                members=_member_ids(line),
                detail=reason.detail or "left the consumer group",
                evidence=(line.ref,),
            )
        )
    return found


def recorded_triggers(
    before: Members | None, after: Members | None, known: list[Trigger], departed: Callable[[str], Cause]
) -> list[Trigger]:
    """Members that came or went between two records and that no line names. `departed` gives how a member went, as far
    as commits show (see departures.infer_departure)."""
    if before is None or after is None or before.keys() == after.keys():
        return []
    named = {m for t in known for m in t.members}
    instances_before = {m.group_instance_id: m.member_id for m in before.values() if m.group_instance_id}
    found = []
    for member_id in sorted(before.keys() - after.keys()):
        member = before[member_id]
        returned = member.group_instance_id and any(
            m.group_instance_id == member.group_instance_id for m in after.values()
        )
        if member_id in named or returned:
            continue
        trigger = _static(departed(member_id), (member_id,), before)
        tier = EvidenceTier.UNKNOWN if trigger == Cause.UNKNOWN else EvidenceTier.INFERRED
        found.append(
            _make_trigger(
                trigger=trigger, tier=tier, members=(member_id,), detail=f"{member.client_id} is gone from the record"
            )
        )
    for member_id in sorted(after.keys() - before.keys()):
        member = after[member_id]
        if member_id in named:
            continue
        if member.group_instance_id in instances_before and member.group_instance_id is not None:
            trigger = Cause.STATIC_MEMBER_REPLACED
        else:
            trigger = Cause.MEMBER_JOINED
        found.append(
            _make_trigger(
                trigger=trigger,
                tier=EvidenceTier.INFERRED,
                members=(member_id,),
                detail=f"{member.client_id} is new in the record",
            )
        )
    return found


def _trigger_of(line: LogEvent) -> tuple[Cause, str] | None:
    match line.kind:
        case LogKind.MEMBER_LEFT:
            return classify_leave(line.fields.get("client_reason")).trigger, line.fields.get(
                "client_reason"
            ) or "left the group"
        case LogKind.MEMBER_FAILED:
            return Cause.MEMBER_SESSION_EXPIRED, "no heartbeat for its session timeout"
        case LogKind.MEMBERS_NOT_REJOINED:
            return Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, "had not re-joined when the join phase ended"
        case LogKind.MEMBER_JOINED:
            return Cause.MEMBER_JOINED, "joined with an unknown member id"
        case LogKind.JOIN_PHASE_FAILED:
            return Cause.JOIN_PHASE_FAILED, str(line.fields.get("error"))
        case LogKind.STATIC_MEMBER_REPLACED:
            return Cause.STATIC_MEMBER_REPLACED, f"group.instance.id {line.fields.get('group_instance_id')} came back"
        case _:
            return None


def _member_ids(line: LogEvent) -> tuple[str, ...]:
    if "member_ids" in line.fields:
        return tuple(line.fields["member_ids"])
    member_id = line.fields.get("member_id")
    return (member_id,) if member_id else ()


def _believed(
    trigger: Trigger, attempt: Attempt, before: Members | None, after: Members | None, instance_ids: frozenset[str]
) -> Trigger | None:
    if after is None or attempt.record is None:
        return changed(trigger, trigger=_static(trigger.trigger, trigger.members, before, instance_ids))
    if trigger.trigger in DEPARTURES and trigger.members:
        gone = tuple(m for m in trigger.members if m not in after)
        if not gone:
            return None
        return changed(trigger, trigger=_static(trigger.trigger, gone, before, instance_ids), members=gone)
    if trigger.trigger == Cause.MEMBER_JOINED and trigger.members and not any(m in after for m in trigger.members):
        # It asked to join and was not there at the end. It may have gone again, so it is no cause unless its request
        # began the rebalance.
        return trigger if attempt.preparing is not None and attempt.preparing.ref in trigger.evidence else None
    return trigger


def _static(
    trigger: Cause, members: tuple[str, ...], before: Members | None, instance_ids: frozenset[str] = frozenset()
) -> Cause:
    """A static member that expires loses the place its group.instance.id had kept for it: a cause of its own."""
    is_expired = trigger == Cause.MEMBER_SESSION_EXPIRED and is_static(members, before, instance_ids)
    return Cause.STATIC_MEMBER_EXPIRED if is_expired else trigger


def is_static(members: tuple[str, ...], before: Members | None, instance_ids: frozenset[str]) -> bool:
    """Whether one of these members has a group.instance.id, by the record before or by lines."""
    known = before or {}
    # The id a coordinator gives a static member is its instance id, a dash and a UUID.
    return any(
        m[:-_UUID_SUFFIX] in instance_ids or (m in known and known[m].group_instance_id is not None) for m in members
    )


def _merged(triggers: list[Trigger]) -> list[Trigger]:
    """One entry for each cause and member; a leave that a more precise line explains is dropped."""
    merged: list[Trigger] = []
    for trigger in triggers:
        for at, seen in enumerate(merged):
            same = set(seen.members) == set(trigger.members)
            if same and (seen.trigger == trigger.trigger or {seen.trigger, trigger.trigger} <= DEPARTURES):
                keep = seen if seen.trigger != Cause.MEMBER_LEFT else trigger
                merged[at] = changed(keep, evidence=tuple(dict.fromkeys(seen.evidence + trigger.evidence)))
                break
        else:
            merged.append(trigger)
    return merged


def with_triggers(rebalance: Rebalance, triggers: Sequence[Trigger]) -> Rebalance:
    """The rebalance with its causes, of which the first is the trigger."""
    if not triggers:
        return rebalance
    first = triggers[0]
    if first.trigger == Cause.UNKNOWN:
        return changed(rebalance, triggers=tuple(triggers), trigger_detail=first.detail)
    return changed(
        rebalance,
        triggers=tuple(triggers),
        trigger=first.trigger,
        trigger_tier=first.tier,
        trigger_detail=first.detail,
        expected=first.trigger in EXPECTED,
        expected_reason=EXPECTED.get(first.trigger),
        evidence=tuple(dict.fromkeys(chain(rebalance.evidence, *[t.evidence for t in triggers]))),
    )
