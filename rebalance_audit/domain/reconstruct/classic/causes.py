"""Why each rebalance of a classic group began, by its lines, its records and its members' commits together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain

from rebalance_audit.domain import client_families
from rebalance_audit.domain.causes import DEPARTURES, REJOINS_WITHOUT_REASON, Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.kinds import EvidenceTier, Outcome
from rebalance_audit.domain.log_lines.reasons import is_in_free_words
from rebalance_audit.domain.model import Rebalance, Trigger, changed
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR, planned_rejoin
from rebalance_audit.domain.reconstruct.attempts.triggers import (
    is_static,
    logged_triggers,
    recorded_triggers,
    taken_over,
    with_triggers,
)
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, REJOIN_WITHIN, arrivals
from rebalance_audit.domain.reconstruct.evidence.marks import RECENT_COMMIT_MS
from rebalance_audit.domain.records import MemberMetadata

from . import silence
from .before import UUID_LENGTH, Before
from .between import loaded_between
from .conversions import Downgrade
from .members import parse

WITHOUT_REASON = frozenset({"", "left the group"})
"""Details of a leave whose client gave no reason."""
_SESSIONS_ENDED = (Cause.MEMBER_SESSION_EXPIRED, Cause.STATIC_MEMBER_EXPIRED)
TRIED_BEFORE = "rebalance failed due to "
"""A Java client's reason for a JoinGroup after one that got no good answer."""


def with_causes(before: Before, rebalance: Rebalance, after: Mapping[str, MemberMetadata] | None) -> Rebalance:
    """The attempt that comes after `before`, with all that caused it. `after`: the members of its record."""
    attempt = before.attempt
    if attempt.missing_to is not None:
        is_run = attempt.missing_to > attempt.number
        detail = f"generations {attempt.number} to {attempt.missing_to}" if is_run else None
        return changed(rebalance, trigger_detail=detail)
    triggers = (
        [] if attempt.rewrite_seq else logged_triggers(attempt, before.members, after, before.course.instance_ids)
    )
    is_unread = after is None or before.members is None
    if triggers and triggers[0].trigger in REJOINS_WITHOUT_REASON and is_unread:
        # A re-join without a reason is how a rebalance began, not why; only the records around it could show that.
        first = triggers[0]
        if _had_to_let_go(before, first.members):
            detail = "it joined again after the generation before took partitions away from it"
            triggers[0] = changed(first, trigger=Cause.COOPERATIVE_FOLLOW_UP, detail=detail)
        else:
            triggers[0] = changed(
                first, trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=f"re-joined: {first.detail}"
            )
    triggers = [_reasonless(before, t) for t in triggers]
    triggers[:1] = [_requested(before, _interrupted(before, t), after) for t in triggers[:1]]
    if before.converted is not None and after is not None and not attempt.rewrite_seq:
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
        triggers = taken_over(attempt, before.course.attempts[before.index - 1]) + triggers
    if not triggers:
        recorded.sort(key=lambda t: t.trigger not in DEPARTURES)
        recorded = _waited_for_the_dead(before, recorded, after)
        recorded = _left_as_another_came(before, recorded, after)
        recorded = _grew_as_another_died(before, recorded, after)
        if rebalance.kind == "rebalance" and _elected_another(before):
            recorded = [_changed_assignor(t) for t in recorded]
        recorded = _ended_with_a_session(before, recorded, after)
        recorded = _put_out_by_nobody_known(before, recorded, after)
        recorded = _fewer_than_missing(before, recorded)
        recorded = _joined_again_at_once(before, recorded, after)
    elif attempt.preparing is None:
        triggers = _joined_again_at_once(before, triggers, after)
    triggers += recorded
    if not triggers and after is not None:
        triggers = _without_member_change(before, rebalance, after)
    return with_triggers(rebalance, triggers)


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


def _waited_for_the_dead(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """Somebody died and somebody came, and no line says which of them began the rebalance. If the newcomer came before
    the dead member's session ended, all waited for that end. Then those that stayed had let go long before the join
    phase ended, or it ended in the same moment as the session."""
    arrived = [t for t in recorded if t.trigger == Cause.MEMBER_JOINED]
    if not arrived or recorded[0].trigger not in _SESSIONS_ENDED:
        return recorded
    if _was_waited_for(before, recorded[0], after or {}):
        return arrived + [t for t in recorded if t.trigger != Cause.MEMBER_JOINED]
    detail = "a session ended and a member came, and nothing says which began it"
    return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]


def _was_waited_for(before: Before, gone: Trigger, after: Mapping[str, MemberMetadata]) -> bool:
    """Whether another had begun the rebalance before the session of these members ended."""
    stayed = [m for m in before.members or {} if m in after]
    is_ended = any(silence.ended_join_phase(before, m) for m in gone.members)
    return not stayed or is_ended or any(silence.let_go_early(before, m) for m in stayed)


def _left_as_another_came(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """Somebody left while another came, as in a deployment that starts the new one first: either may have begun the
    rebalance that the other joined in. One that comes back under its own name had left before that; and who came in a
    generation without a record began that one."""
    arrived = [m for t in recorded if t.trigger == Cause.MEMBER_JOINED for m in t.members]
    if not arrived or recorded[0].trigger != Cause.MEMBER_LEFT or after is None:
        return recorded
    there = before.members or {}
    left = {there[m].client_id for m in recorded[0].members if m in there}
    is_known = all(after[m].client_id in left for m in arrived if m in after)
    followed_another = before.index > 0 and before.course.attempts[before.index - 1].missing_to is not None
    if is_known or followed_another or not there.keys() & after.keys():
        return recorded
    detail = "a member left and another came, and nothing says which began it"
    return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]


def _grew_as_another_died(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """A member that looks for new partitions may have begun the rebalance, and all waited for the dead one; or the
    session ended, and the leader found the partitions then."""
    if not recorded or recorded[0].trigger not in _SESSIONS_ENDED:
        return recorded
    grown = _grown_topics(before, after or {})
    if not grown:
        return recorded
    if _was_waited_for(before, recorded[0], after or {}):
        return [_found_new(grown), *recorded]
    detail = f"a session ended and {', '.join(grown)} grew, and nothing says which began it"
    return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]


def _joined_again_at_once(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """A cooperative member joins again as soon as it has let go of what the generation before took away. So that began
    this one, whoever came or went before it ended."""
    if not recorded or after is None:
        return recorded
    stayed = [m for m in before.members or {} if m in after]
    if any(_had_to_let_go(before, (m,), but=parse(after[m]).owned) for m in stayed):
        return [_follow_up("members joined again after giving partitions up"), *recorded]
    return recorded


def _had_to_let_go(before: Before, members: Sequence[str], *, but: frozenset[Resource] = frozenset()) -> bool:
    """Whether the generation before took something, `but` these, away from one of these cooperative members."""
    value = before.delivered_value
    if value is None or value.protocol in (*EAGER_ASSIGNORS, STREAMS_ASSIGNOR):
        return False
    return any(
        holding.revoked_index == before.delivered_index == before.index - 1
        and holding.member.member_id in members
        and resource not in but
        for resource, holding in before.holdings.items()
    )


def _ended_with_a_session(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """The join phase ended in the moment in which a session did: the others waited for it, and one of them had begun
    the rebalance."""
    stayed = any(m in (after or {}) for m in before.members or {})
    gone = [m for t in recorded for m in t.members]
    are_sessions = all(t.trigger in _SESSIONS_ENDED for t in recorded)
    if not gone or not stayed or not are_sessions or not all(silence.ended_join_phase(before, m) for m in gone):
        return recorded
    detail = "all waited for a session that ended, and nothing says who began it"
    return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]


def _put_out_by_nobody_known(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """Static members do not leave by themselves, and their return alone makes no generation. If nothing else shows why
    there is one, or one of them is gone beside members that left, somebody put them out."""
    there, here = before.members or {}, after or {}
    came_back = [t for t in recorded if t.trigger == Cause.STATIC_MEMBER_REPLACED]
    topics = {m.group_instance_id: parse(m).topics for m in there.values()}
    if came_back and len(came_back) == len(recorded):
        back = [here[m] for t in came_back for m in t.members if m in here]
        if all(parse(m).topics == topics.get(m.group_instance_id) for m in back):
            detail = "a static member came back in a new generation: it had been put out, and nothing says why"
            return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]
    gone = [t for t in recorded if t.trigger == Cause.UNKNOWN and is_static(t.members, there, frozenset())]
    if gone and recorded[0].trigger == Cause.MEMBER_LEFT:
        return [*gone, *(t for t in recorded if t not in gone)]
    return recorded


def _fewer_than_missing(before: Before, recorded: list[Trigger]) -> list[Trigger]:
    """More generations are missing before this one than members came and went: most of them had other reasons, and so
    may this one have."""
    missing = before.course.attempts[before.index - 1] if before.index else before.attempt
    if missing.missing_to is None or before.delivered is None:
        return recorded
    missing_count = before.attempt.number - before.delivered.number - 1
    if not recorded or missing_count <= sum(max(len(t.members), 1) for t in recorded):
        return recorded
    detail = f"{missing_count} generations are missing before it, and nothing says what began this one"
    return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]


def _elected_another(before: Before) -> bool:
    value, delivered = before.attempt.value, before.delivered_value
    return delivered is not None and value is not None and delivered.protocol != value.protocol


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
    grown = _grown_topics(before, after)
    if grown and not differing:
        return [_found_new(grown)]
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
        return [_follow_up("the generation before took partitions away without giving them on")]
    return []


def _follow_up(detail: str) -> Trigger:
    return Trigger(trigger=Cause.COOPERATIVE_FOLLOW_UP, tier=EvidenceTier.INFERRED, detail=detail)


def _found_new(grown: Sequence[str]) -> Trigger:
    return Trigger(
        trigger=Cause.TOPIC_METADATA_CHANGED,
        tier=EvidenceTier.INFERRED,
        detail=f"partitions that were not there before: {', '.join(grown)}",
    )


def _has_taken_away(before: Before) -> bool:
    """Whether somebody had a partition that nobody was given in the record before, or in one before that."""
    if any(h.revoked_in is not None for h in before.holdings.values()):
        return True
    there = [parse(member) for member in (before.members or {}).values()]
    return bool(set().union(*(p.owned for p in there)) - set().union(*(p.assigned or () for p in there)))


def _grown_topics(before: Before, after: Mapping[str, MemberMetadata]) -> list[str]:
    """Topics that grew: partitions are handed out with higher numbers than anybody is known to have had."""
    highest: dict[str, int] = {}
    # Those that the record before took away are in no assignment, and in what a member says that it owns.
    owned = chain.from_iterable(parse(member).owned for member in (before.members or {}).values())
    for topic, partition in chain(before.holdings, owned):
        highest[topic] = max(partition, highest.get(topic, -1))
    given = (r for m in after.values() for r in parse(m).assigned or ())
    return sorted({topic for topic, partition in given if topic in highest and partition > highest[topic]})


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
    if silent is None and _comes_back(before, member_id):
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


def _changed_assignor(trigger: Trigger) -> Trigger:
    """A static member that comes back makes no generation, unless another assignor is elected for it."""
    if trigger.trigger != Cause.STATIC_MEMBER_REPLACED:
        return trigger
    return changed(
        trigger, trigger=Cause.ASSIGNOR_CHANGED, detail=f"{trigger.detail}, and another assignor was elected"
    )
