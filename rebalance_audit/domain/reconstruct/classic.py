"""Rebalances of classic consumer groups: who held what before and after, and when each partition stopped and resumed.

Eager members give everything up before they re-join, so every partition stops; cooperative ones give up what moves,
one round before it is handed on. Source: KIP-429, KIP-345, formats.md G.2; times as measured in observed.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from rebalance_audit.domain.model import (
    EvidenceTier,
    GroupEvidence,
    LogEvent,
    LogKind,
    Member,
    Movement,
    Rebalance,
    Trigger,
)
from rebalance_audit.domain.records import MemberMetadata

from .attempts import Attempt, classic_attempts
from .avoidable import mark_avoidable
from .clients import ClientLines
from .commits import Commits, Resource
from .conversions import Downgrade, downgrades
from .departures import arrivals, infer_departure
from .frame import frame
from .hand_overs import REJOIN_WITHIN, HandOvers
from .members import Parsed, mode_of, names, parse, settle_modes
from .pauses import LINE_SLACK_MS, RECENT_COMMIT_MS
from .reconstruction import Contradiction
from .stream_tasks import STREAMS_ASSIGNOR, as_tasks, planned_rejoin, tasks_of
from .triggers import DEPARTURES, EXPECTED, logged_triggers, recorded_triggers

UUID_LENGTH = 36
WITHOUT_REASON = frozenset({"", "left the group"})
"""Details of a leave whose client gave no reason."""
SAID_WITHOUT_REASON = frozenset({"leader_rejoined", "subscription_changed", "unknown"})
"""What a re-join is called when the client does not say why."""


@dataclass(frozen=True, slots=True)
class Holding:
    """Who held a partition last, and since which attempt."""

    member: MemberMetadata
    attempt_index: int
    revoked_in: str | None = None
    """The rebalance that took it away without giving it on."""
    revoked_index: int | None = None
    given: Attempt | None = None
    """What gave it, where that is no attempt of the classic group: a consumer group that was converted."""


def reconstruct_classic(evidence: GroupEvidence) -> tuple[list[Rebalance], list[Contradiction]]:
    """All rebalances of the group, in order, and what was not believed."""
    classic = [r for r in evidence.records if r.record.name == "GroupMetadata"]
    attempts, contradictions = classic_attempts(classic, evidence.lines)
    fold = _Fold(evidence, attempts)
    rebalances = [fold.step(i) for i in range(len(attempts))]
    return settle_modes(rebalances), contradictions


class _Fold:
    """What is known of the group while walking through its attempts."""

    def __init__(self, evidence: GroupEvidence, attempts: Sequence[Attempt]) -> None:
        self._evidence = evidence
        self._attempts = attempts
        self._commits = Commits(evidence.marks)
        self._hand_overs = HandOvers(
            attempts, self._commits, ClientLines(evidence.lines), self._inferred, self._fell_silent
        )
        self._holdings: dict[Resource, Holding] = {}
        self._before: dict[str, MemberMetadata] | None = None
        self._held_before: dict[str, frozenset[Resource]] = {}
        self._delivered_index = -1
        self._is_history_known = False
        self._downgrades = downgrades(evidence)
        self._converted: Downgrade | None = None
        """The attempt before was a conversion."""
        self._instance_ids = frozenset(
            line.fields["group_instance_id"]
            for line in evidence.lines
            if line.fields.get("group_instance_id") is not None
        )
        """Of static members, as lines name them; records say so themselves."""
        self._task_of: dict[Resource, str] = {}
        self._committers: set[str] = set()
        """Client ids seen to commit again and again."""

    def step(self, index: int) -> Rebalance:
        attempt = self._attempts[index]
        rebalance = frame(self._evidence.cluster_id, self._evidence.group_id, self._attempts, index)
        value = attempt.value
        if self._starts_fresh(index):
            self._holdings, self._before, self._held_before, self._is_history_known = {}, {}, {}, True
        after = {m.member_id: m for m in value.members} if value is not None else None
        self._note_committers(index)
        rebalance = self._with_triggers(rebalance, index, after)
        if value is None and attempt.converted is not None:
            return _from_consumer_group(rebalance, EvidenceTier.LOGGED, attempt.converted.ref)
        if value is None and attempt.rewrite_seq:
            return _static_return(rebalance, EvidenceTier.LOGGED)
        if value is None or after is None:
            if rebalance.outcome in ("completed", "emptied"):
                # Known from lines alone: who holds what from here on is not.
                self._before, self._held_before, self._is_history_known = None, {}, False
                self._holdings = {}
            return rebalance
        parsed = {m.member_id: parse(m) for m in value.members}
        if attempt.rewrite_seq:
            return self._rewrite(rebalance, index, parsed)
        assert attempt.record is not None
        downgrade = self._downgrades.get(attempt.record.offset)
        if downgrade is not None:
            return self._handed_over(rebalance, index, parsed, downgrade)
        self._converted = None
        delivered = mark_avoidable(self._delivered(rebalance, index, parsed))
        if rebalance.assignor == STREAMS_ASSIGNOR:
            for member in value.members:
                self._task_of.update(tasks_of(member))
            delivered = as_tasks(delivered, self._task_of)
        return delivered

    def _starts_fresh(self, index: int) -> bool:
        attempt = self._attempts[index]
        is_new = index == 0 or self._attempts[index - 1].incarnation != attempt.incarnation
        return is_new and attempt.number == 1 and not attempt.rewrite_seq

    def _note_committers(self, index: int) -> None:
        """Which members committed more than once since they were last given partitions."""
        since, record = self._delivered_record_offset(), self._attempts[index].record
        if since is None or record is None:
            return
        for member_id, held in self._held_before.items():
            first = self._commits.first_between(held, since, record.offset)
            last = self._commits.last_between(held, since, record.offset)
            if self._before and first is not None and last is not None and last[0] - first[0] > 1_000:
                self._committers.add(self._before[member_id].client_id)

    def _with_triggers(self, rebalance: Rebalance, index: int, after: Mapping[str, MemberMetadata] | None) -> Rebalance:
        attempt = self._attempts[index]
        if attempt.missing_to is not None:
            detail = (
                f"generations {attempt.number} to {attempt.missing_to}" if attempt.missing_to > attempt.number else None
            )
            return replace(rebalance, trigger_detail=detail)
        triggers = [] if attempt.rewrite_seq else logged_triggers(attempt, self._before, after, self._instance_ids)
        if triggers and triggers[0].trigger in SAID_WITHOUT_REASON and after is None:
            # A re-join without a reason is how a rebalance began, not why; only records could tell.
            first = triggers[0]
            triggers[0] = replace(
                first, trigger="unknown", tier=EvidenceTier.UNKNOWN, detail=f"re-joined: {first.detail}"
            )
        triggers = [self._reasonless(t, index) for t in triggers]
        if self._converted is not None and after is not None and not attempt.rewrite_seq:
            triggers = self._departed_before_conversion(attempt, self._converted, after, triggers) + triggers
        if triggers and triggers[0].trigger in SAID_WITHOUT_REASON and after is not None:
            # Clients before 3.2 and librdkafka send no reason: what the records show says more than the re-join.
            shown = self._without_member_change(rebalance, after)
            if shown:
                first = triggers[0]
                refs = tuple(dict.fromkeys((*first.evidence, *shown[0].evidence)))
                triggers[0] = replace(shown[0], members=first.members or shown[0].members, evidence=refs)
        inferred = {}
        if self._before is not None and after is not None:
            inferred = {m: self._inferred(index, m) for m in self._before.keys() - after.keys()}
        recorded = recorded_triggers(self._before, after, triggers, inferred)
        if not triggers:
            # A departure starts a rebalance before an arrival can join it.
            recorded.sort(key=lambda t: t.trigger not in DEPARTURES)
        triggers += recorded
        if not triggers and after is not None:
            triggers = self._without_member_change(rebalance, after)
        if not triggers:
            return rebalance
        first = triggers[0]
        if first.trigger == "unknown":
            return replace(rebalance, triggers=tuple(triggers), trigger_detail=first.detail)
        return replace(
            rebalance,
            triggers=tuple(triggers),
            trigger=first.trigger,
            trigger_tier=first.tier,
            trigger_detail=first.detail,
            expected=first.trigger in EXPECTED,
            expected_reason=EXPECTED.get(first.trigger),
            evidence=tuple(dict.fromkeys((*rebalance.evidence, *(ref for t in triggers for ref in t.evidence)))),
        )

    def _without_member_change(self, rebalance: Rebalance, after: Mapping[str, MemberMetadata]) -> list[Trigger]:
        """The same members met again and no line says why: only some reasons leave a trace in the records."""
        if self._before is None or not self._before or rebalance.outcome != "completed":
            if self._before == {} and after and rebalance.generation_id == 1:
                return [
                    Trigger(
                        trigger="member_joined",
                        tier=EvidenceTier.INFERRED,
                        members=tuple(sorted(after)),
                        detail="first generation of the group",
                    )
                ]
            return []
        before_topics = {m: parse(x).topics for m, x in self._before.items()}
        after_topics = {m: parse(x).topics for m, x in after.items()}
        changed = tuple(sorted(m for m in after if before_topics.get(m) != after_topics[m]))
        grown = self._grown_topics(after)
        if grown and not changed:
            return [
                Trigger(
                    trigger="topic_metadata_changed",
                    tier=EvidenceTier.INFERRED,
                    detail=f"partitions that were not there before: {', '.join(grown)}",
                )
            ]
        if changed:
            return [
                Trigger(
                    trigger="subscription_changed",
                    tier=EvidenceTier.INFERRED,
                    members=changed,
                    detail="subscribed topics differ from the record before",
                )
            ]
        if rebalance.assignor == STREAMS_ASSIGNOR:
            planned = planned_rejoin(self._before.values(), rebalance.joined_at_ms)
            if planned:
                return planned
        if any(h.revoked_in is not None for h in self._holdings.values()):
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
        for topic, partition in self._holdings:
            highest[topic] = max(partition, highest.get(topic, -1))
        given = (r for m in after.values() for r in parse(m).assigned or ())
        return sorted({topic for topic, partition in given if topic in highest and partition > highest[topic]})

    def _inferred(self, index: int, member_id: str) -> str:
        """How a member went, from its commits before the record in which it is missing."""
        if self._before is None or member_id not in self._before:
            return "unknown"
        member = self._before[member_id]
        held = self._held_before.get(member_id, frozenset())
        record = self._attempts[index].record
        since = self._delivered_record_offset()
        value = self._attempts[index].value
        if record is None or since is None or value is None:
            return "unknown"
        last = self._commits.last_between(held, since, record.offset)
        if last is None and member.client_id not in self._committers:
            return "unknown"
        given = self._attempts[self._delivered_index].record
        alive_at_ms = last[0] if last else given.at_ms if given else None
        commits_often = member.client_id in self._committers
        return infer_departure(member, alive_at_ms, value.current_state_timestamp, commits_often)

    def _reasonless(self, trigger: Trigger, index: int) -> Trigger:
        """A client before 3.2, or librdkafka, leaves for a poll timeout as it leaves for good: its commits tell.

        Where it does not commit, its coming back leaves two ways open.
        """
        if trigger.trigger != "member_left" or trigger.detail not in WITHOUT_REASON or len(trigger.members) != 1:
            return trigger
        member_id, attempt = trigger.members[0], self._attempts[index]
        at_ms = attempt.preparing.at_ms if attempt.preparing is not None else attempt.known_at_ms
        silent = self._fell_silent(index, member_id, at_ms or 0)
        if silent:
            detail = "it left, and had not committed for its max.poll.interval.ms"
            return replace(trigger, trigger="member_poll_timeout", tier=EvidenceTier.INFERRED, detail=detail)
        if silent is None and self._comes_back(member_id, index):
            detail = "it left without a reason and came back: closed, or put out for not polling"
            return replace(trigger, trigger="unknown", tier=EvidenceTier.UNKNOWN, detail=detail)
        return trigger

    def _fell_silent(self, index: int, member_id: str, left_at_ms: int) -> bool | None:
        """Whether it had not committed for its max.poll.interval.ms when it left; None if it never commits."""
        member = (self._before or {}).get(member_id)
        since, record = self._delivered_record_offset(), self._attempts[index].record
        if member is None or since is None or record is None:
            return None
        last = self._commits.last_between(self._held_before.get(member_id, frozenset()), since, record.offset)
        if member.client_id not in self._committers and (last is None or not self._committers):
            return None
        given = self._attempts[self._delivered_index].record
        alive_at_ms = last[0] if last is not None else given.at_ms if given is not None else left_at_ms
        return member.rebalance_timeout > 0 and left_at_ms - alive_at_ms >= member.rebalance_timeout

    def _comes_back(self, member_id: str, index: int) -> bool:
        """Whether the same client joins again in one of the next attempts."""
        prefix = member_id[:-UUID_LENGTH]
        return any(
            joined.startswith(prefix)
            for attempt in self._attempts[index : index + 1 + REJOIN_WITHIN]
            for _, joined in arrivals(attempt)
        )

    def _delivered_record_offset(self) -> int | None:
        if self._delivered_index < 0:
            return None
        record = self._attempts[self._delivered_index].record
        return None if record is None else record.offset

    def _rewrite(self, rebalance: Rebalance, index: int, parsed: Mapping[str, Parsed]) -> Rebalance:
        """A static member came back under a new member id: its partitions stood still, nobody else's."""
        before = self._before or {}
        by_instance = {m.group_instance_id: m for m in before.values() if m.group_instance_id is not None}
        members, movements = [], []
        for p in parsed.values():
            old = None
            if p.member.member_id not in before and p.member.group_instance_id is not None:
                old = by_instance.get(p.member.group_instance_id)
            held = frozenset(self._held_before.get(old.member_id if old else p.member.member_id, frozenset()))
            assigned = p.assigned if p.assigned is not None else frozenset()
            members.append(self._member(p, rebalance, "replaced" if old else "stayed", held))
            if old is None:
                continue
            for resource in sorted(assigned):
                movements.append(
                    self._hand_overs.movement(
                        "returned",
                        resource,
                        index,
                        old=old,
                        new=p.member,
                        held=held,
                        assigned=assigned,
                        given_index=self._delivered_index,
                        fenced=self._fenced(old, self._attempts[index]),
                        is_hand_over=True,
                    )
                )
        rebalance = _static_return(rebalance, EvidenceTier.RECORDED)
        return self._close(rebalance, index, parsed, members, movements, kept=None)

    def _departed_before_conversion(
        self, attempt: Attempt, converted: Downgrade, after: Mapping[str, MemberMetadata], known: Sequence[Trigger]
    ) -> list[Trigger]:
        """Members that were not taken over: the group became classic because they went."""
        told = {m for t in known for m in t.members}
        kept = self._before or {}
        found = []
        for member_id, member in sorted(converted.members.items()):
            if member_id in kept or member_id in after or member_id in told:
                continue
            held = [r for r, h in converted.held.items() if h.member.member_id == member_id]
            last = self._commits.last_between(held, -1, converted.offset)
            converted_at_ms = self._attempts[self._delivered_index].known_at_ms or 0
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

    def _fenced(self, old: MemberMetadata, rewrite: Attempt) -> LogEvent | None:
        """The line by which the member whose place was taken learned it: so it had been alive."""
        since_ms = (rewrite.known_at_ms or 0) - LINE_SLACK_MS
        lines = (
            line
            for line in self._evidence.lines
            if line.kind is LogKind.MEMBER_FENCED
            and line.fields.get("member_id") == old.member_id
            and since_ms <= (line.at_ms or 0) <= since_ms + old.session_timeout
        )
        return min(lines, key=lambda line: line.at_ms or 0, default=None)

    def _handed_over(
        self, rebalance: Rebalance, index: int, parsed: Mapping[str, Parsed], downgrade: Downgrade
    ) -> Rebalance:
        """A consumer group became classic with all it had: nothing stops, and who went is seen in the next round."""
        self._is_history_known = True
        members = []
        held_of: dict[str, set[Resource]] = {m: set() for m in downgrade.members}
        for resource, one in downgrade.held.items():
            held_of[one.member.member_id].add(resource)
        for member_id, p in parsed.items():
            change = "stayed" if member_id in held_of else "joined"
            members.append(self._member(p, rebalance, change, frozenset(held_of.get(member_id, ()))))
        for member_id, member in downgrade.members.items():
            if member_id not in parsed:
                gone = Parsed(member, None, frozenset(), frozenset())
                members.append(self._member(gone, rebalance, "left", frozenset(held_of[member_id])))
        rebalance = _from_consumer_group(rebalance, EvidenceTier.RECORDED, rebalance.evidence[0])
        rebalance = replace(rebalance, mode=mode_of(rebalance, parsed, None), is_complete_evidence=True)
        self._holdings = {
            resource: Holding(one.member, index - 1, given=one.given) for resource, one in downgrade.held.items()
        }
        closed = self._close(rebalance, index, parsed, members, (), kept=len(downgrade.held))
        self._converted = downgrade
        return closed

    def _delivered(self, rebalance: Rebalance, index: int, parsed: Mapping[str, Parsed]) -> Rebalance:
        mode = mode_of(rebalance, parsed, self._before)
        assigned_to = {r: p for p in parsed.values() for r in p.assigned or ()}
        members, movements, kept = [], [], 0
        for p in parsed.values():
            was_there = self._before is None or p.member.member_id in self._before or self._same_instance(p.member)
            held = self._held_of(p.member) if self._is_history_known or self._before else None
            if held is None and mode == "cooperative":
                held = p.owned
            if self._before is None:
                change = "stayed" if held else "joined"
            else:
                change = "stayed" if was_there else "joined"
            members.append(self._member(p, rebalance, change, held))
        for member_id, member in (self._before or {}).items():
            if member_id not in parsed and not any(self._is_same(member, p.member) for p in parsed.values()):
                held = self._held_before.get(member_id, frozenset())
                gone = Parsed(member, None, frozenset(), frozenset())
                members.append(self._member(gone, rebalance, "left", held))
        for resource, p in sorted(assigned_to.items()):
            holding = self._holdings.get(resource)
            if holding is None:
                if self._is_history_known:
                    movements.append(self._hand_overs.movement("assigned", resource, index, new=p.member))
                continue
            same = self._is_same(holding.member, p.member)
            if same and mode == "cooperative" and holding.revoked_in is None and (resource in p.owned or not p.owned):
                kept += 1
                continue
            held = self._held_before.get(holding.member.member_id, frozenset({resource}))
            if holding.revoked_in is not None:
                held = frozenset({resource})
            movements.append(
                self._hand_overs.movement(
                    "returned" if same else "moved",
                    resource,
                    index,
                    old=holding.member,
                    new=p.member,
                    held=held,
                    assigned=p.assigned or frozenset(),
                    given_index=holding.attempt_index,
                    revoked_index=holding.revoked_index,
                    given=holding.given,
                    revoked_in=holding.revoked_in,
                    is_hand_over=True,
                )
            )
        for resource, holding in sorted(self._holdings.items()):
            if resource not in assigned_to and holding.revoked_in is None:
                movements.append(self._hand_overs.movement("revoked", resource, index, old=holding.member))
                self._holdings[resource] = replace(holding, revoked_in=rebalance.rebalance_id, revoked_index=index)
        rebalance = replace(rebalance, mode=mode)
        return self._close(rebalance, index, parsed, members, movements, kept)

    def _close(
        self,
        rebalance: Rebalance,
        index: int,
        parsed: Mapping[str, Parsed],
        members: Sequence[Member],
        movements: Sequence[Movement],
        kept: int | None,
    ) -> Rebalance:
        for p in parsed.values():
            for resource in p.assigned or ():
                self._holdings[resource] = Holding(p.member, index)
        if parsed and not self._is_history_known:
            # From the first full record on, what is not assigned is known to be nobody's.
            self._is_history_known = True
        self._before = {m: p.member for m, p in parsed.items()}
        self._held_before = {m: p.assigned or frozenset() for m, p in parsed.items()}
        self._delivered_index = index
        held = {r for p in parsed.values() for r in p.assigned or ()}
        subscribed = {t for p in parsed.values() for t in p.topics or ()}
        without_owner = [r for r, h in self._holdings.items() if r not in held and r[0] in subscribed]
        return replace(
            rebalance,
            members=tuple(members),
            movements=tuple(movements),
            resource_count=len(held),
            kept_count=kept,
            unassigned_count=len(without_owner),
        )

    def _held_of(self, member: MemberMetadata) -> frozenset[Resource]:
        if member.member_id in self._held_before:
            return self._held_before[member.member_id]
        for old in (self._before or {}).values():
            if self._is_same(old, member):
                return self._held_before.get(old.member_id, frozenset())
        return frozenset()

    def _same_instance(self, member: MemberMetadata) -> bool:
        return any(self._is_same(old, member) for old in (self._before or {}).values())

    @staticmethod
    def _is_same(one: MemberMetadata, other: MemberMetadata) -> bool:
        if one.member_id == other.member_id:
            return True
        return one.group_instance_id is not None and one.group_instance_id == other.group_instance_id

    def _member(self, p: Parsed, rebalance: Rebalance, change: str, held: frozenset[Resource] | None) -> Member:
        assigned = p.assigned
        return Member(
            member_id=p.member.member_id,
            group_instance_id=p.member.group_instance_id,
            client_id=p.member.client_id,
            client_host=p.member.client_host,
            change=change,
            is_leader=change != "left" and p.member.member_id == rebalance.leader_member_id,
            session_timeout_ms=p.member.session_timeout,
            rebalance_timeout_ms=p.member.rebalance_timeout if p.member.rebalance_timeout >= 0 else None,
            subscribed_topics=tuple(sorted(p.topics)) if p.topics is not None else None,
            owned_before=None if held is None else names(held),
            assigned=None if assigned is None else names(assigned),
            revoked=None if held is None or assigned is None else names(held - assigned),
            added=None if held is None or assigned is None else names(assigned - held),
            evidence=rebalance.evidence[:1],
        )


def _from_consumer_group(rebalance: Rebalance, tier: EvidenceTier, ref: str) -> Rebalance:
    detail = "the consumer group became a classic group"
    trigger = Trigger(trigger="group_converted", tier=tier, detail=detail, evidence=(ref,))
    return replace(
        rebalance,
        trigger=trigger.trigger,
        trigger_tier=trigger.tier,
        trigger_detail=trigger.detail,
        triggers=(trigger,),
        expected=False,
        expected_reason=None,
    )


def _static_return(rebalance: Rebalance, tier: EvidenceTier) -> Rebalance:
    return replace(
        rebalance,
        mode="unknown",
        trigger="static_member_replaced",
        trigger_tier=tier,
        trigger_detail="a static member came back with a new member id; the generation did not change",
        expected=True,
        expected_reason="static membership: the member returned within its session timeout",
    )
