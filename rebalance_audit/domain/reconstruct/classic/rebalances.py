"""Rebalances of classic consumer groups: who held what before and after, and when each partition stopped and resumed.

Eager members give everything up before they re-join, so every partition stops; cooperative ones give up what moves,
one round before it is handed on. Source: KIP-429, KIP-345, formats.md G.2; times as measured in observed.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.model import (
    EvidenceTier,
    GroupEvidence,
    LogEvent,
    LogKind,
    Member,
    Movement,
    Rebalance,
    Trigger,
    changed,
)
from rebalance_audit.domain.reconstruct.assignment.avoidable import mark_avoidable
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import STREAMS_ASSIGNOR, as_tasks, tasks_of
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt, classic_attempts
from rebalance_audit.domain.reconstruct.attempts.frame import frames
from rebalance_audit.domain.reconstruct.attempts.triggers import STATIC_RETURN
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource
from rebalance_audit.domain.reconstruct.evidence.marks import LINE_SLACK_MS
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction
from rebalance_audit.domain.records import MemberMetadata

from .causes import Causes
from .conversions import Downgrade, downgrades
from .group_state import GroupState, Holding, is_same
from .hand_overs import HandOvers
from .members import Parsed, mode_of, names, parse, settle_modes

_make_member, _make_holding = maker(Member), maker(Holding)


def reconstruct_classic(evidence: GroupEvidence) -> tuple[list[Rebalance], list[Contradiction]]:
    """All rebalances of the group, in order, and what was not believed."""
    classic = [r for r in evidence.records if r.record.name == "GroupMetadata"]
    attempts, contradictions = classic_attempts(classic, evidence.lines)
    fold = _Fold(evidence, attempts)
    framed = frames(evidence.cluster_id, evidence.group_id, attempts)
    rebalances = [fold.step(index, rebalance) for index, rebalance in enumerate(framed)]
    return settle_modes(rebalances), contradictions


class _Fold:
    """Walks through the attempts of one group and says what each did."""

    def __init__(self, evidence: GroupEvidence, attempts: Sequence[Attempt]) -> None:
        self._evidence = evidence
        self._state = GroupState(attempts=attempts, commits=Commits(evidence.marks))
        instance_ids = (line.fields.get("group_instance_id") for line in evidence.lines)
        loads = tuple(line for line in evidence.lines if line.kind is LogKind.GROUP_LOADED)
        self._causes = Causes(self._state, frozenset(i for i in instance_ids if i is not None), loads)
        self._hand_overs = HandOvers(
            attempts,
            self._state.commits,
            ClientLines(evidence.lines),
            loads,
            self._causes.silence.inferred,
            self._causes.silence.fell_silent,
        )
        self._downgrades = downgrades(evidence)
        self._task_of: dict[Resource, str] = {}

    def step(self, index: int, rebalance: Rebalance) -> Rebalance:
        """The next attempt, given as a rebalance of its own, beside what was before."""
        attempt = self._state.attempts[index]
        value = attempt.value
        if self._starts_fresh(index):
            self._state.holdings, self._state.before, self._state.held_before, self._state.is_history_known = (
                {},
                {},
                {},
                True,
            )
        after = {m.member_id: m for m in value.members} if value is not None else None
        self._causes.silence.note_committers(index)
        rebalance = self._causes.with_triggers(rebalance, index, after)
        if value is None and attempt.converted is not None:
            return _from_consumer_group(rebalance, EvidenceTier.LOGGED, attempt.converted.ref)
        if value is None and attempt.rewrite_seq:
            return _static_return(rebalance, EvidenceTier.LOGGED)
        if value is None or after is None:
            if rebalance.outcome in ("completed", "emptied"):
                # Known from lines alone: who holds what from here on is not.
                self._state.forget(before=None, is_history_known=False)
            return rebalance
        parsed = {m.member_id: parse(m) for m in value.members}
        if attempt.rewrite_seq:
            return self._rewrite(rebalance, index, parsed)
        assert attempt.record is not None
        downgrade = self._downgrades.get(attempt.record.offset)
        if downgrade is not None:
            return self._handed_over(rebalance, index, parsed, downgrade)
        self._state.converted = None
        delivered = mark_avoidable(self._delivered(rebalance, index, parsed))
        if rebalance.assignor == STREAMS_ASSIGNOR:
            for member in value.members:
                self._task_of.update(tasks_of(member))
            delivered = as_tasks(delivered, self._task_of, value.members)
        return delivered

    def _starts_fresh(self, index: int) -> bool:
        attempt = self._state.attempts[index]
        is_new = index == 0 or self._state.attempts[index - 1].incarnation != attempt.incarnation
        return is_new and attempt.number == 1 and not attempt.rewrite_seq

    def _rewrite(self, rebalance: Rebalance, index: int, parsed: Mapping[str, Parsed]) -> Rebalance:
        """A static member came back under a new member id: its partitions stood still, nobody else's."""
        before = self._state.before or {}
        by_instance = {m.group_instance_id: m for m in before.values() if m.group_instance_id is not None}
        members, movements = [], []
        for p in parsed.values():
            old = None
            if p.member.member_id not in before and p.member.group_instance_id is not None:
                old = by_instance.get(p.member.group_instance_id)
            held = frozenset(self._state.held_before.get(old.member_id if old else p.member.member_id, frozenset()))
            assigned = p.assigned if p.assigned is not None else frozenset()
            members.append(self._member(p, rebalance, "replaced" if old else "stayed", held))
            if old is None:
                continue
            holding, fenced = Holding(old, self._state.delivered_index), self._fenced(old, self._state.attempts[index])
            for resource in sorted(assigned):
                movements.append(
                    self._hand_overs.movement(
                        "returned",
                        resource,
                        index,
                        holding=holding,
                        new=p.member,
                        held=held,
                        assigned=assigned,
                        fenced=fenced,
                    )
                )
        rebalance = _static_return(rebalance, EvidenceTier.RECORDED)
        return self._close(rebalance, index, parsed, members, movements, kept=None, mode=rebalance.mode)

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
        self._state.is_history_known = True
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
        rebalance = changed(rebalance, is_complete_evidence=True)
        self._state.holdings = {
            resource: Holding(one.member, index - 1, given=one.given) for resource, one in downgrade.held.items()
        }
        mode = mode_of(rebalance, parsed, None)
        closed = self._close(rebalance, index, parsed, members, (), kept=len(downgrade.held), mode=mode)
        self._state.converted = downgrade
        return closed

    def _delivered(self, rebalance: Rebalance, index: int, parsed: Mapping[str, Parsed]) -> Rebalance:
        state, movement = self._state, self._hand_overs.movement
        mode = mode_of(rebalance, parsed, state.before)
        assigned_to = {r: p for p in parsed.values() for r in p.assigned or ()}
        members, movements, kept = [], [], 0
        for p in parsed.values():
            old, held = state.known(p.member), None
            if state.is_history_known or state.before:
                held = frozenset() if old is None else state.held_before[old.member_id]
            elif mode == "cooperative":
                held = p.owned
            is_known = bool(held) if state.before is None else old is not None
            members.append(self._member(p, rebalance, "stayed" if is_known else "joined", held))
        returned = {p.member.group_instance_id for p in parsed.values()} - {None}
        for member_id, member in (state.before or {}).items():
            if member_id not in parsed and member.group_instance_id not in returned:
                held = state.held_before.get(member_id, frozenset())
                gone = Parsed(member, None, frozenset(), frozenset())
                members.append(self._member(gone, rebalance, "left", held))
        for resource in sorted(assigned_to):
            p, holding = assigned_to[resource], state.holdings.get(resource)
            if holding is None:
                if state.is_history_known:
                    movements.append(movement("assigned", resource, index, new=p.member))
                continue
            same = is_same(holding.member, p.member)
            if same and mode == "cooperative" and holding.revoked_in is None and (resource in p.owned or not p.owned):
                kept += 1
                continue
            held = None if holding.revoked_in is not None else state.held_before.get(holding.member.member_id)
            movements.append(
                movement(
                    "returned" if same else "moved",
                    resource,
                    index,
                    holding=holding,
                    new=p.member,
                    held=held,
                    assigned=p.assigned or frozenset(),
                )
            )
        for resource in sorted(state.holdings.keys() - assigned_to.keys()):
            holding = state.holdings[resource]
            if holding.revoked_in is None:
                movements.append(movement("revoked", resource, index, holding=holding))
                state.holdings[resource] = changed(holding, revoked_in=rebalance.rebalance_id, revoked_index=index)
        return self._close(rebalance, index, parsed, members, movements, kept, mode)

    def _close(
        self,
        rebalance: Rebalance,
        index: int,
        parsed: Mapping[str, Parsed],
        members: Sequence[Member],
        movements: Sequence[Movement],
        kept: int | None,
        mode: str,
    ) -> Rebalance:
        state = self._state
        for p in parsed.values():
            state.holdings.update(dict.fromkeys(p.assigned or (), _make_holding(p.member, index)))
        if parsed:
            # From the first full record on, what is not assigned is known to be nobody's.
            state.is_history_known = True
        state.before = {m: p.member for m, p in parsed.items()}
        state.held_before = {m: p.assigned or frozenset() for m, p in parsed.items()}
        state.delivered_index = index
        held = set().union(*state.held_before.values())
        without_owner = state.holdings.keys() - held
        if without_owner:
            subscribed = set().union(*(p.topics or () for p in parsed.values()))
            without_owner = {r for r in without_owner if r[0] in subscribed}
        return changed(
            rebalance,
            mode=mode,
            members=tuple(members),
            movements=tuple(movements),
            resource_count=len(held),
            kept_count=kept,
            unassigned_count=len(without_owner),
        )

    def _member(self, p: Parsed, rebalance: Rebalance, change: str, held: frozenset[Resource] | None) -> Member:
        assigned = p.assigned
        return _make_member(
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
        mode="unknown",
        trigger="static_member_replaced",
        trigger_tier=tier,
        trigger_detail="a static member came back with a new member id; the generation did not change",
        expected=True,
        expected_reason=STATIC_RETURN,
    )
