"""Why each rebalance of a classic group began, by its lines, its records and its members' commits together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from rebalance_audit.domain import client_families
from rebalance_audit.domain.causes import REJOINS_WITHOUT_REASON, Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.kinds import EvidenceTier, Outcome
from rebalance_audit.domain.log_lines.reasons import is_in_free_words
from rebalance_audit.domain.model import Rebalance, Trigger, changed
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR, planned_rejoin
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.attempts.triggers import (
    is_static,
    logged_triggers,
    recorded_triggers,
    taken_over,
    with_triggers,
)
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, REJOIN_WITHIN, arrivals
from rebalance_audit.domain.reconstruct.evidence.marks import RECENT_COMMIT_MS
from rebalance_audit.domain.reconstruct.evidence.stated import UUID_LENGTH
from rebalance_audit.domain.records import MemberMetadata

from . import silence
from .before import Before
from .beginnings import first_of_several, follow_up, found_new, grown_topics, had_to_let_go, joined_again_at_once
from .between import loaded_between
from .conversions import Downgrade
from .members import parse

WITHOUT_REASON = frozenset({"", "left the group"})
"""Details of a leave whose client gave no reason."""
TRIED_BEFORE = "rebalance failed due to "
"""A Java client's reason for a JoinGroup after one that got no good answer."""


def with_causes(before: Before, rebalance: Rebalance, after: Mapping[str, MemberMetadata] | None) -> Rebalance:
    """The attempt that comes after `before`, with all that caused it. `after`: the members of its record."""
    attempt = before.attempt
    if attempt.missing_to is not None:
        is_run = attempt.missing_to > attempt.number
        detail = f"generations {attempt.number} to {attempt.missing_to}" if is_run else None
        return changed(rebalance, trigger_detail=detail)
    if attempt.rewrite_seq:
        return rebalance  # its one cause is what makes it a rewrite
    triggers = logged_triggers(attempt, before.members, after, before.course.instance_ids)
    is_unread = after is None or before.members is None
    if triggers and triggers[0].trigger in REJOINS_WITHOUT_REASON and is_unread:
        # A re-join without a reason is how a rebalance began, not why; only the records around it could show that.
        first = triggers[0]
        if had_to_let_go(before, first.members):
            detail = "it joined again after the generation before took partitions away from it"
            triggers[0] = changed(first, trigger=Cause.COOPERATIVE_FOLLOW_UP, detail=detail)
        else:
            triggers[0] = changed(
                first, trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=f"re-joined: {first.detail}"
            )
    triggers = [_reasonless(before, t) for t in triggers]
    triggers[:1] = [_requested(before, _interrupted(before, t), after) for t in triggers[:1]]
    if before.converted is not None and after is not None:
        triggers = _departed_before_conversion(before, before.converted, after, triggers) + triggers
    if triggers and triggers[0].trigger in REJOINS_WITHOUT_REASON and after is not None and not is_unread:
        # Clients before 3.2 and librdkafka send no reason: what the records show says more than the re-join.
        shown = _without_member_change(before, rebalance, after)
        if shown:
            first = triggers[0]
            refs = tuple(dict.fromkeys((*first.evidence, *shown[0].evidence)))
            triggers[0] = changed(shown[0], members=first.members or shown[0].members, evidence=refs)
        elif _is_leaders(before, triggers[0]):
            triggers[0] = changed(triggers[0], trigger=Cause.LEADER_REJOINED)
    recorded = recorded_triggers(before.members, after, triggers, partial(silence.inferred, before))
    if before.index:
        last = before.course.attempts[before.index - 1]
        triggers = taken_over(attempt, last) + (triggers or _refused(last))
    if not triggers:
        recorded = first_of_several(before, rebalance, recorded, after)
    elif attempt.preparing is None:
        triggers = joined_again_at_once(before, triggers, after)
    triggers += recorded
    if not triggers and after is not None:
        triggers = _without_member_change(before, rebalance, after)
    return with_triggers(rebalance, triggers)


def _refused(last: Attempt) -> list[Trigger]:
    """Members that were refused what the attempt before would have given them join again at once."""
    if last.refused is None or last.undelivered is None:
        return []
    detail = "the record before was given to nobody: its members joined again as the coordinator stopped to wait"
    evidence = (last.undelivered.ref,)
    return [Trigger(trigger=Cause.APPEND_FAILED, tier=EvidenceTier.INFERRED, detail=detail, evidence=evidence)]


def _is_leaders(before: Before, trigger: Trigger) -> bool:
    """Up to 2.5 a leader that joins again is logged like a follower with another subscription. Its topics are the same,
    or the records would show others."""
    led = before.delivered_value
    return trigger.trigger == Cause.SUBSCRIPTION_CHANGED and led is not None and trigger.members == (led.leader,)


def _interrupted(before: Before, trigger: Trigger) -> Trigger:
    """Whether a first try to re-join had failed, and a coordinator had just taken the group over."""
    if trigger.trigger not in REJOINS_WITHOUT_REASON or not trigger.detail.startswith(TRIED_BEFORE):
        return trigger
    delivered = before.delivered
    load = None if delivered is None else loaded_between(before.course.loads, delivered, before.attempt)
    if load is None:
        return trigger
    return changed(trigger, trigger=Cause.COORDINATOR_FAILOVER, evidence=(*trigger.evidence, load.ref))


def _requested(before: Before, trigger: Trigger, after: Mapping[str, MemberMetadata] | None) -> Trigger:
    """If no library sends these words by itself and the client is Java's, they are a user's reason for
    enforceRebalance("…"). If the client may be sarama's, they may be the text of any error: then they are quoted, and
    show no cause."""
    if trigger.trigger != Cause.CLIENT_REQUESTED or not is_in_free_words(trigger.detail):
        return trigger
    known = {**(before.members or {}), **(after or {})}
    members = [known[m] for m in trigger.members if m in known]
    families = {f for m in members for f in before.families(m)}
    if not members:
        stated = [before.course.stated_families.get(m[:-UUID_LENGTH], client_families.ALL) for m in trigger.members]
        families = {f for each in stated for f in each}
    if families and ClientFamily.SARAMA not in families:
        return trigger
    return changed(
        trigger,
        trigger=Cause.UNKNOWN,
        tier=EvidenceTier.UNKNOWN,
        detail=f"re-joined; the client says: {trigger.detail}",
    )


def _without_member_change(before: Before, rebalance: Rebalance, after: Mapping[str, MemberMetadata]) -> list[Trigger]:
    """The same members joined again and no line says why: only some reasons leave a trace in the records."""
    if not before.members or rebalance.outcome != Outcome.COMPLETED:
        if before.members == {} and after and rebalance.generation_id == 1:
            return [
                Trigger(
                    trigger=Cause.MEMBER_JOINED,
                    tier=EvidenceTier.INFERRED,
                    members=tuple(sorted(after)),
                    detail="first generation of the group",
                )
            ]
        return []
    before_topics = {m: parse(x).topics for m, x in before.members.items()}
    after_topics = {m: parse(x).topics for m, x in after.items()}
    differing = tuple(sorted(m for m in after if m in before_topics and before_topics[m] != after_topics[m]))
    grown = grown_topics(before, after)
    if grown and not differing:
        return [found_new(grown)]
    if differing:
        return [
            Trigger(
                trigger=Cause.SUBSCRIPTION_CHANGED,
                tier=EvidenceTier.INFERRED,
                members=differing,
                detail="subscribed topics differ from the record before",
            )
        ]
    if rebalance.assignor == STREAMS_ASSIGNOR:
        planned = planned_rejoin(before.members.values(), rebalance.joined_at_ms)
        if planned:
            return planned
    # An eager leader without metadata hands nothing out, and joins again when it has metadata: that is no follow-up.
    if rebalance.assignor not in EAGER_ASSIGNORS and _has_taken_away(before):
        return [follow_up("the generation before took partitions away from members that stayed")]
    return []


def _has_taken_away(before: Before) -> bool:
    """Whether somebody had a partition that nobody was given in the record before, or in one before that; or a member
    owned some as it joined, and was not given them again. It gives these up and joins again even if another was given
    them at once."""
    if any(h.revoked_in is not None for h in before.holdings.values()):
        return True
    there = [parse(member) for member in (before.members or {}).values()]
    return any(p.assigned is not None and p.owned - p.assigned for p in there)


def _reasonless(before: Before, trigger: Trigger) -> Trigger:
    """A client before 3.2, or librdkafka, sends the same LeaveGroup after a poll timeout as when it closes, and
    administrators' tools of that time give no reason either. Its commits may show which it was. If they do not and the
    client comes back, the cause stays open.
    """
    if trigger.trigger != Cause.MEMBER_LEFT or trigger.detail not in WITHOUT_REASON or len(trigger.members) != 1:
        return trigger
    member_id, attempt = trigger.members[0], before.attempt
    at_ms = attempt.preparing.at_ms if attempt.preparing is not None else attempt.known_at_ms
    if is_static(trigger.members, before.members, before.course.instance_ids):
        detail = "a static member does not leave when it is closed: it was removed, or unsubscribed"
        return changed(trigger, trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail)
    member = (before.members or {}).get(member_id)
    if member is not None and not client_families.may_poll_out(before.families(member)):
        return trigger  # its library leaves when it is closed, or when its handler has failed
    silent = silence.fell_silent(before, member_id, at_ms or 0)
    if silent:
        detail = "it left, and had not committed for its max.poll.interval.ms"
        return changed(trigger, trigger=Cause.MEMBER_POLL_TIMEOUT, tier=EvidenceTier.INFERRED, detail=detail)
    last_ms = silence.last_commit_ms(before, member_id)
    if silent is False and last_ms is not None and (at_ms or 0) - last_ms > AS_IT_LEFT_MS:
        silent = None  # a consumer that commits on a timer would have committed as it was closed
    is_open = silent is None and _comes_back(before, member_id)
    if is_open or (silent is False and silence.may_have_been_stuck(before, member_id)):
        detail = "it left without a reason and came back: closed, put out for not polling, or removed"
        return changed(trigger, trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail)
    return trigger


def _comes_back(before: Before, member_id: str) -> bool:
    """Whether the same client joins again in one of the next attempts."""
    prefix = f"{member_id[:-UUID_LENGTH]}-"
    return any(
        joined.startswith(prefix)
        for attempt in before.course.attempts[before.index : before.index + 1 + REJOIN_WITHIN]
        for _, joined in arrivals(attempt)
    )


def _departed_before_conversion(
    before: Before, converted: Downgrade, after: Mapping[str, MemberMetadata], known: Sequence[Trigger]
) -> list[Trigger]:
    """Members that were not taken over: the group became classic because they went."""
    named = {m for t in known for m in t.members}
    kept = before.members or {}
    found = []
    for member_id, member in sorted(converted.members.items()):
        if member_id in kept or member_id in after or member_id in named:
            continue
        held = [r for r, h in converted.held.items() if h.member.member_id == member_id]
        last = before.course.commits.last_between(held, -1, converted.offset)
        converted_at_ms = (before.delivered.known_at_ms if before.delivered is not None else None) or 0
        left = last is not None and converted_at_ms - last[0] < RECENT_COMMIT_MS
        found.append(
            Trigger(
                trigger=Cause.MEMBER_LEFT if left else Cause.UNKNOWN,
                tier=EvidenceTier.INFERRED if left else EvidenceTier.UNKNOWN,
                members=(member_id,),
                detail=f"{member.client_id} was not taken over into the classic group",
                evidence=(last[1],) if last is not None else (),
            )
        )
    return found
