"""Why each rebalance of a classic group began, by its lines, its records and its members' commits together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from rebalance_audit.domain.model import EvidenceTier, LogEvent, Rebalance, Trigger, changed
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR, planned_rejoin
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.attempts.triggers import (
    DEPARTURES,
    is_static,
    logged_triggers,
    recorded_triggers,
    taken_over,
    with_triggers,
)
from rebalance_audit.domain.reconstruct.evidence.departures import AS_IT_LEFT_MS, arrivals
from rebalance_audit.domain.reconstruct.evidence.marks import RECENT_COMMIT_MS
from rebalance_audit.domain.records import MemberMetadata

from .between import loaded_between
from .conversions import Downgrade
from .group_state import GroupState
from .hand_overs import REJOIN_WITHIN
from .members import parse
from .silence import Silence

UUID_LENGTH = 36
WITHOUT_REASON = frozenset({"", "left the group"})
"""Details of a leave whose client gave no reason."""
TRIED_BEFORE = "rebalance failed due to "
"""A Java client's reason for a JoinGroup after one that got no good answer."""
SAID_WITHOUT_REASON = frozenset({"leader_rejoined", "subscription_changed", "unknown"})
"""What a re-join is called when the client does not say why."""


class Causes:
    """Asked once for every attempt, in order, before the state moves on to it."""

    def __init__(self, state: GroupState, instance_ids: frozenset[str], loads: Sequence[LogEvent]) -> None:
        self._state = state
        self._loads = loads
        """Lines of coordinators that took the group over."""
        self.silence = Silence(state)
        self._instance_ids = instance_ids
        """Of static members, as lines name them; records say so themselves."""

    def with_triggers(self, rebalance: Rebalance, index: int, after: Mapping[str, MemberMetadata] | None) -> Rebalance:
        state = self._state
        attempt = state.attempts[index]
        if attempt.missing_to is not None:
            detail = (
                f"generations {attempt.number} to {attempt.missing_to}" if attempt.missing_to > attempt.number else None
            )
            return changed(rebalance, trigger_detail=detail)
        triggers = [] if attempt.rewrite_seq else logged_triggers(attempt, state.before, after, self._instance_ids)
        if triggers and triggers[0].trigger in SAID_WITHOUT_REASON and after is None:
            # A re-join without a reason is how a rebalance began, not why; only records could tell.
            first = triggers[0]
            triggers[0] = changed(
                first, trigger="unknown", tier=EvidenceTier.UNKNOWN, detail=f"re-joined: {first.detail}"
            )
        triggers = [self._reasonless(t, index) for t in triggers]
        triggers[:1] = [self._interrupted(t, attempt) for t in triggers[:1]]
        if state.converted is not None and after is not None and not attempt.rewrite_seq:
            triggers = self._departed_before_conversion(attempt, state.converted, after, triggers) + triggers
        if triggers and triggers[0].trigger in SAID_WITHOUT_REASON and after is not None:
            # Clients before 3.2 and librdkafka send no reason: what the records show says more than the re-join.
            shown = self._without_member_change(rebalance, after)
            if shown:
                first = triggers[0]
                refs = tuple(dict.fromkeys((*first.evidence, *shown[0].evidence)))
                triggers[0] = changed(shown[0], members=first.members or shown[0].members, evidence=refs)
        recorded = recorded_triggers(state.before, after, triggers, partial(self.silence.inferred, index))
        if index:
            triggers = taken_over(attempt, state.attempts[index - 1]) + triggers
        if not triggers:
            # A departure starts a rebalance before an arrival can join it.
            recorded.sort(key=lambda t: t.trigger not in DEPARTURES)
            if rebalance.kind == "rebalance" and self._elected_another(attempt):
                recorded = [_changed_assignor(t) for t in recorded]
        triggers += recorded
        if not triggers and after is not None:
            triggers = self._without_member_change(rebalance, after)
        return with_triggers(rebalance, triggers)

    def _interrupted(self, trigger: Trigger, attempt: Attempt) -> Trigger:
        """A re-join whose first try had failed, at a coordinator that took the group over just then."""
        if trigger.trigger not in SAID_WITHOUT_REASON or not trigger.detail.startswith(TRIED_BEFORE):
            return trigger
        load = loaded_between(self._loads, self._state.attempts[self._state.delivered_index], attempt)
        if load is None:
            return trigger
        return changed(trigger, trigger="coordinator_failover", evidence=(*trigger.evidence, load.ref))

    def _elected_another(self, attempt: Attempt) -> bool:
        before = self._state.attempts[self._state.delivered_index].value
        return before is not None and attempt.value is not None and before.protocol != attempt.value.protocol

    def _without_member_change(self, rebalance: Rebalance, after: Mapping[str, MemberMetadata]) -> list[Trigger]:
        """The same members met again and no line says why: only some reasons leave a trace in the records."""
        if self._state.before is None or not self._state.before or rebalance.outcome != "completed":
            if self._state.before == {} and after and rebalance.generation_id == 1:
                return [
                    Trigger(
                        trigger="member_joined",
                        tier=EvidenceTier.INFERRED,
                        members=tuple(sorted(after)),
                        detail="first generation of the group",
                    )
                ]
            return []
        before_topics = {m: parse(x).topics for m, x in self._state.before.items()}
        after_topics = {m: parse(x).topics for m, x in after.items()}
        differing = tuple(sorted(m for m in after if m in before_topics and before_topics[m] != after_topics[m]))
        grown = self._grown_topics(after)
        if grown and not differing:
            return [
                Trigger(
                    trigger="topic_metadata_changed",
                    tier=EvidenceTier.INFERRED,
                    detail=f"partitions that were not there before: {', '.join(grown)}",
                )
            ]
        if differing:
            return [
                Trigger(
                    trigger="subscription_changed",
                    tier=EvidenceTier.INFERRED,
                    members=differing,
                    detail="subscribed topics differ from the record before",
                )
            ]
        if rebalance.assignor == STREAMS_ASSIGNOR:
            planned = planned_rejoin(self._state.before.values(), rebalance.joined_at_ms)
            if planned:
                return planned
        if any(h.revoked_in is not None for h in self._state.holdings.values()):
            return [
                Trigger(
                    trigger="cooperative_follow_up",
                    tier=EvidenceTier.INFERRED,
                    detail="the generation before took partitions away without giving them on",
                )
            ]
        return []

    def _grown_topics(self, after: Mapping[str, MemberMetadata]) -> list[str]:
        """Topics of which higher partitions are handed out than ever before."""
        highest: dict[str, int] = {}
        for topic, partition in self._state.holdings:
            highest[topic] = max(partition, highest.get(topic, -1))
        given = (r for m in after.values() for r in parse(m).assigned or ())
        return sorted({topic for topic, partition in given if topic in highest and partition > highest[topic]})

    def _reasonless(self, trigger: Trigger, index: int) -> Trigger:
        """A client before 3.2, or librdkafka, leaves for a poll timeout as it leaves for good, and an administrator of
        those days removes it without a word: its commits tell. Where they do not, its coming back leaves ways open.
        """
        if trigger.trigger != "member_left" or trigger.detail not in WITHOUT_REASON or len(trigger.members) != 1:
            return trigger
        member_id, attempt = trigger.members[0], self._state.attempts[index]
        at_ms = attempt.preparing.at_ms if attempt.preparing is not None else attempt.known_at_ms
        if is_static(trigger.members, self._state.before, self._instance_ids):
            detail = "a static member does not leave when it is closed: it was removed, or unsubscribed"
            return changed(trigger, trigger="unknown", tier=EvidenceTier.UNKNOWN, detail=detail)
        silent = self.silence.fell_silent(index, member_id, at_ms or 0)
        if silent:
            detail = "it left, and had not committed for its max.poll.interval.ms"
            return changed(trigger, trigger="member_poll_timeout", tier=EvidenceTier.INFERRED, detail=detail)
        last_ms = self.silence.last_commit_ms(index, member_id)
        if silent is False and last_ms is not None and (at_ms or 0) - last_ms > AS_IT_LEFT_MS:
            silent = None  # a consumer that commits on a timer would have committed as it was closed
        if silent is None and self._comes_back(member_id, index):
            detail = "it left without a reason and came back: closed, put out for not polling, or removed"
            return changed(trigger, trigger="unknown", tier=EvidenceTier.UNKNOWN, detail=detail)
        return trigger

    def _comes_back(self, member_id: str, index: int) -> bool:
        """Whether the same client joins again in one of the next attempts."""
        prefix = member_id[:-UUID_LENGTH]
        return any(
            joined.startswith(prefix)
            for attempt in self._state.attempts[index : index + 1 + REJOIN_WITHIN]
            for _, joined in arrivals(attempt)
        )

    def _departed_before_conversion(
        self, attempt: Attempt, converted: Downgrade, after: Mapping[str, MemberMetadata], known: Sequence[Trigger]
    ) -> list[Trigger]:
        """Members that were not taken over: the group became classic because they went."""
        told = {m for t in known for m in t.members}
        kept = self._state.before or {}
        found = []
        for member_id, member in sorted(converted.members.items()):
            if member_id in kept or member_id in after or member_id in told:
                continue
            held = [r for r, h in converted.held.items() if h.member.member_id == member_id]
            last = self._state.commits.last_between(held, -1, converted.offset)
            converted_at_ms = self._state.attempts[self._state.delivered_index].known_at_ms or 0
            left = last is not None and converted_at_ms - last[0] < RECENT_COMMIT_MS
            found.append(
                Trigger(
                    trigger="member_left" if left else "unknown",
                    tier=EvidenceTier.INFERRED if left else EvidenceTier.UNKNOWN,
                    members=(member_id,),
                    detail=f"{member.client_id} was not taken over into the classic group",
                    evidence=(last[1],) if last is not None else (),
                )
            )
        return found


def _changed_assignor(trigger: Trigger) -> Trigger:
    """A static member that comes back makes no generation, unless another assignor is elected for it."""
    if trigger.trigger != "static_member_replaced":
        return trigger
    return changed(trigger, trigger="assignor_changed", detail=f"{trigger.detail}, and another assignor was elected")
