"""Which of several changes between two records began a rebalance of a classic group, where no line says it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from rebalance_audit.domain.causes import DEPARTURES, SESSION_EXPIRED, Cause
from rebalance_audit.domain.kinds import EvidenceTier
from rebalance_audit.domain.model import Rebalance, Trigger, changed
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR
from rebalance_audit.domain.reconstruct.attempts.triggers import is_static
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.records import MemberMetadata

from . import silence
from .before import Before
from .members import parse


def first_of_several(
    before: Before, rebalance: Rebalance, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """The changes with what began the rebalance first: `unknown` where it may have been either."""
    recorded.sort(key=lambda t: t.trigger not in DEPARTURES)
    recorded = _waited_for_the_dead(before, recorded, after)
    recorded = _left_as_another_came(before, recorded, after)
    recorded = _grew_as_another_died(before, recorded, after)
    if rebalance.kind == "rebalance" and _elected_another(before):
        recorded = [_changed_assignor(t) for t in recorded]
    recorded = _ended_with_a_session(before, recorded, after)
    recorded = _put_out_by_nobody_known(before, recorded, after)
    recorded = _fewer_than_missing(before, recorded)
    return joined_again_at_once(before, recorded, after)


def _waited_for_the_dead(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """Somebody died and somebody came, and no line says which of them began the rebalance. If the newcomer came before
    the dead member's session ended, all waited for that end. Then those that stayed had let go long before the join
    phase ended, or it ended in the same moment as the session."""
    arrived = [t for t in recorded if t.trigger == Cause.MEMBER_JOINED]
    if not arrived or recorded[0].trigger not in SESSION_EXPIRED:
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
    if not recorded or recorded[0].trigger not in SESSION_EXPIRED:
        return recorded
    grown = grown_topics(before, after or {})
    if not grown:
        return recorded
    if _was_waited_for(before, recorded[0], after or {}):
        return [found_new(grown), *recorded]
    detail = f"a session ended and {', '.join(grown)} grew, and nothing says which began it"
    return [Trigger(trigger=Cause.UNKNOWN, tier=EvidenceTier.UNKNOWN, detail=detail), *recorded]


def joined_again_at_once(
    before: Before, recorded: list[Trigger], after: Mapping[str, MemberMetadata] | None
) -> list[Trigger]:
    """A cooperative member joins again as soon as it has let go of what the generation before took away. So that began
    this one, whoever came or went before it ended."""
    if not recorded or after is None:
        return recorded
    stayed = [m for m in before.members or {} if m in after]
    if any(had_to_let_go(before, (m,), but=parse(after[m]).owned) for m in stayed):
        return [follow_up("members joined again after giving partitions up"), *recorded]
    return recorded


def had_to_let_go(before: Before, members: Sequence[str], *, but: frozenset[Resource] = frozenset()) -> bool:
    """Whether the generation before took something, `but` these, away from one of these cooperative members."""
    value = before.delivered_value
    if value is None or value.protocol in {*EAGER_ASSIGNORS, STREAMS_ASSIGNOR}:
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
    are_sessions = all(t.trigger in SESSION_EXPIRED for t in recorded)
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


def _changed_assignor(trigger: Trigger) -> Trigger:
    """A static member that comes back makes no generation, unless another assignor is elected for it."""
    if trigger.trigger != Cause.STATIC_MEMBER_REPLACED:
        return trigger
    return changed(
        trigger, trigger=Cause.ASSIGNOR_CHANGED, detail=f"{trigger.detail}, and another assignor was elected"
    )


def grown_topics(before: Before, after: Mapping[str, MemberMetadata]) -> list[str]:
    """Topics that grew: partitions are handed out with higher numbers than anybody is known to have had."""
    highest: dict[str, int] = {}
    # Those that the record before took away are in no assignment, and in what a member says that it owns.
    owned = chain.from_iterable(parse(member).owned for member in (before.members or {}).values())
    for topic, partition in chain(before.holdings, owned):
        highest[topic] = max(partition, highest.get(topic, -1))
    given = (r for m in after.values() for r in parse(m).assigned or ())
    return sorted({topic for topic, partition in given if topic in highest and partition > highest[topic]})


def follow_up(detail: str) -> Trigger:
    return Trigger(trigger=Cause.COOPERATIVE_FOLLOW_UP, tier=EvidenceTier.INFERRED, detail=detail)


def found_new(grown: Sequence[str]) -> Trigger:
    return Trigger(
        trigger=Cause.TOPIC_METADATA_CHANGED,
        tier=EvidenceTier.INFERRED,
        detail=f"partitions that were not there before: {', '.join(grown)}",
    )
