"""Rebalances of classic consumer groups: who held what before and after, and when each partition stopped and resumed.

Eager members give everything up before they re-join, so every partition stops; cooperative ones give up what moves,
one round before it is handed on. Source: KIP-429, KIP-345, formats.md G.2; times as measured in observed.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rebalance_audit.domain.model import EvidenceTier, GroupEvidence, Mark, Member, Movement, Rebalance, Trigger
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.records import MemberMetadata
from rebalance_audit.domain.wire import DecodeError

from .attempts import Attempt, classic_attempts
from .clients import ClientLines
from .commits import Commits, Resource
from .departures import infer_departure, logged_departure
from .frame import frame
from .pauses import Stretch, resume_marks, stop_marks
from .triggers import DEPARTURES, EXPECTED, logged_triggers, recorded_triggers

REJOIN_WITHIN = 3
"""A member put out for not polling is looked for in so many attempts after it lost its partitions."""
EAGER_ASSIGNORS = frozenset({"range", "roundrobin", "sticky"})


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


@dataclass(frozen=True, slots=True)
class _Parsed:
    """A member of one record with its embedded bytes read; None where they could not be."""

    member: MemberMetadata
    topics: tuple[str, ...] | None
    owned: frozenset[Resource]
    assigned: frozenset[Resource] | None


def resource_name(resource: Resource) -> str:
    return f"{resource[0]}-{resource[1]}"


def names(resources: Iterable[Resource]) -> tuple[str, ...]:
    return tuple(resource_name(r) for r in sorted(resources))


def reconstruct_classic(evidence: GroupEvidence) -> list[Rebalance]:
    """All rebalances of the group, in order. Lines that contradict the records are left out."""
    classic = [r for r in evidence.records if r.record.name == "GroupMetadata"]
    attempts, _ = classic_attempts(classic, evidence.lines)
    fold = _Fold(evidence, attempts)
    rebalances = [fold.step(i) for i in range(len(attempts))]
    return _settle_modes(rebalances)


class _Fold:
    """What is known of the group while walking through its attempts."""

    def __init__(self, evidence: GroupEvidence, attempts: Sequence[Attempt]) -> None:
        self._evidence = evidence
        self._attempts = attempts
        self._commits = Commits(evidence.marks)
        self._clients = ClientLines(evidence.lines)
        self._holdings: dict[Resource, Holding] = {}
        self._before: dict[str, MemberMetadata] | None = None
        self._held_before: dict[str, frozenset[Resource]] = {}
        self._delivered_index = -1
        self._is_history_known = False
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
        if value is None or after is None:
            if rebalance.outcome in ("completed", "emptied"):
                # Known from lines alone: who holds what from here on is not.
                self._before, self._held_before, self._is_history_known = None, {}, False
                self._holdings = {}
            return rebalance
        parsed = {m.member_id: _parse(m) for m in value.members}
        if attempt.rewrite_seq:
            return self._rewrite(rebalance, index, parsed)
        return self._delivered(rebalance, index, parsed)

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
        triggers = [] if attempt.rewrite_seq else logged_triggers(attempt, self._before, after)
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
        before_topics = {m: _parse(x).topics for m, x in self._before.items()}
        after_topics = {m: _parse(x).topics for m, x in after.items()}
        changed = tuple(sorted(m for m in after if before_topics.get(m) != after_topics[m]))
        if changed:
            return [
                Trigger(
                    trigger="subscription_changed",
                    tier=EvidenceTier.INFERRED,
                    members=changed,
                    detail="subscribed topics differ from the record before",
                )
            ]
        if any(h.revoked_in is not None for h in self._holdings.values()):
            return [
                Trigger(
                    trigger="cooperative_follow_up",
                    tier=EvidenceTier.INFERRED,
                    detail="the generation before took partitions away without giving them on",
                )
            ]
        return []

    def _inferred(self, index: int, member_id: str) -> str:
        """How a member went, from its commits before the record in which it is missing."""
        assert self._before is not None
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

    def _delivered_record_offset(self) -> int | None:
        if self._delivered_index < 0:
            return None
        record = self._attempts[self._delivered_index].record
        return None if record is None else record.offset

    def _rewrite(self, rebalance: Rebalance, index: int, parsed: Mapping[str, _Parsed]) -> Rebalance:
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
                stretch = self._stretch(old, resource, held, self._delivered_index, index)
                movements.append(self._movement("returned", resource, old, p.member, stretch, index, parsed))
        rebalance = replace(
            rebalance,
            mode="unknown",
            trigger="static_member_replaced",
            trigger_tier="recorded",
            trigger_detail="a static member came back with a new member id; the generation did not change",
            expected=True,
            expected_reason="static membership: the member returned within its session timeout",
        )
        return self._close(rebalance, index, parsed, members, movements, kept=None)

    def _delivered(self, rebalance: Rebalance, index: int, parsed: Mapping[str, _Parsed]) -> Rebalance:
        mode = _mode(rebalance, parsed, self._before)
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
                gone = _Parsed(member, None, frozenset(), frozenset())
                members.append(self._member(gone, rebalance, "left", held))
        for resource, p in sorted(assigned_to.items()):
            holding = self._holdings.get(resource)
            if holding is None:
                if self._is_history_known:
                    movements.append(self._movement("assigned", resource, None, p.member, None, index, parsed))
                continue
            same = self._is_same(holding.member, p.member)
            if same and mode == "cooperative" and holding.revoked_in is None and (resource in p.owned or not p.owned):
                kept += 1
                continue
            held = self._held_before.get(holding.member.member_id, frozenset({resource}))
            if holding.revoked_in is not None:
                held = frozenset({resource})
            stretch = self._stretch(holding.member, resource, held, holding.attempt_index, index, holding.revoked_index)
            kind = "returned" if same else "moved"
            movements.append(
                self._movement(kind, resource, holding.member, p.member, stretch, index, parsed, holding.revoked_in)
            )
        for resource, holding in sorted(self._holdings.items()):
            if resource not in assigned_to and holding.revoked_in is None:
                movements.append(self._movement("revoked", resource, holding.member, None, None, index, parsed))
                self._holdings[resource] = replace(holding, revoked_in=rebalance.rebalance_id, revoked_index=index)
        rebalance = replace(rebalance, mode=mode)
        return self._close(rebalance, index, parsed, members, movements, kept)

    def _close(
        self,
        rebalance: Rebalance,
        index: int,
        parsed: Mapping[str, _Parsed],
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

    def _member(self, p: _Parsed, rebalance: Rebalance, change: str, held: frozenset[Resource] | None) -> Member:
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

    def _stretch(
        self,
        owner: MemberMetadata,
        resource: Resource,
        held: frozenset[Resource],
        given_index: int,
        index: int,
        revoked_index: int | None = None,
    ) -> Stretch:
        """Everything between the record that gave `resource` to its old owner and the one that gives it on."""
        attempts = self._attempts[given_index + 1 : index + 1]
        departure = None
        gone_index = next(
            (i for i in range(given_index + 1, index + 1) if self._is_gone(owner, self._attempts[i])), None
        )
        if gone_index is not None:
            departure = logged_departure(owner, attempts, self._attempts[index + 1 : index + 1 + REJOIN_WITHIN])
        return Stretch(
            owner=owner,
            resource=resource,
            held=held,
            given=self._attempts[given_index],
            attempts=attempts,
            is_gone=gone_index is not None,
            gone=self._attempts[gone_index] if gone_index is not None else None,
            departure=departure,
            inferred=self._inferred(index, owner.member_id)
            if gone_index is not None and departure is None and owner.member_id in (self._before or {})
            else None,
            revoked=self._attempts[revoked_index] if revoked_index is not None else None,
        )

    @staticmethod
    def _is_gone(owner: MemberMetadata, attempt: Attempt) -> bool:
        value = attempt.value
        return value is not None and not any(m.member_id == owner.member_id for m in value.members)

    def _movement(
        self,
        kind: str,
        resource: Resource,
        old: MemberMetadata | None,
        new: MemberMetadata | None,
        stretch: Stretch | None,
        index: int,
        parsed: Mapping[str, _Parsed],
        revoked_in: str | None = None,
    ) -> Movement:
        attempt = self._attempts[index]
        stops: tuple[Mark, ...] = ()
        resumes: tuple[Mark, ...] = ()
        first_commit = None
        if attempt.record is not None and new is not None:
            following = next((a for a in self._attempts[index + 1 :] if a.record is not None), None)
            until = following.record.offset if following is not None and following.record is not None else 1 << 62
            first_commit = self._commits.first_between([resource], attempt.record.offset, until)
            if stretch is not None:
                assigned = parsed[new.member_id].assigned or frozenset()
                stops = stop_marks(stretch, self._commits, self._clients)
                resumes = resume_marks(new, resource, assigned, attempt, following, self._commits, self._clients)
        refs = [attempt.record.ref] if attempt.record is not None else []
        refs += [m.ref for m in (*stops, *resumes) if m.ref is not None]
        return Movement(
            resource_type="partition",
            resource=resource_name(resource),
            topic=resource[0],
            partition=resource[1],
            kind=kind,
            from_member_id=old.member_id if old else None,
            to_member_id=new.member_id if new else None,
            from_client_id=old.client_id if old else None,
            to_client_id=new.client_id if new else None,
            revoked_in_rebalance_id=revoked_in,
            stop_marks=stops,
            resume_marks=resumes,
            first_commit_at_ms=first_commit[0] if first_commit else None,
            evidence=tuple(dict.fromkeys(refs)),
        )


def _parse(member: MemberMetadata) -> _Parsed:
    """The member's embedded bytes; what cannot be read is None, never empty."""
    topics: tuple[str, ...] | None = None
    owned: frozenset[Resource] = frozenset()
    assigned: frozenset[Resource] | None
    try:
        subscription = consumer_protocol.decode_subscription(member.subscription)
        topics, owned = subscription.topics, frozenset(subscription.owned_partitions)
    except DecodeError:
        pass
    try:
        # Zero length: the leader's SyncGroup did not name this member.
        assigned = (
            frozenset(consumer_protocol.decode_assignment(member.assignment).partitions)
            if member.assignment
            else frozenset()
        )
    except DecodeError:
        assigned = None
    return _Parsed(member, topics, owned, assigned)


def _mode(rebalance: Rebalance, parsed: Mapping[str, _Parsed], before: Mapping[str, MemberMetadata] | None) -> str:
    """`unknown` also where a cooperative assignor met only new members: later generations settle it."""
    if rebalance.assignor in EAGER_ASSIGNORS:
        return "eager"
    stayed = [p for m, p in parsed.items() if before is None or m in before]
    if any(p.owned for p in stayed):
        return "cooperative"
    held_something = before is not None and any(_parse(before[p.member.member_id]).assigned for p in stayed)
    return "eager" if held_something else "unknown"


def _settle_modes(rebalances: Sequence[Rebalance]) -> list[Rebalance]:
    """Where nobody could show a mode, it is what the group showed next with the same assignor, or before."""
    settled = list(rebalances)
    for order in (range(len(settled) - 1, -1, -1), range(len(settled))):
        known: dict[str | None, str] = {}
        for i in order:
            rebalance = settled[i]
            if rebalance.assignor is None:
                # An empty generation elects nothing; it ends what went before in that group's mode.
                if rebalance.outcome == "emptied" and i and rebalance.mode == "unknown":
                    settled[i] = replace(rebalance, mode=settled[i - 1].mode)
                continue
            if rebalance.mode != "unknown":
                known[rebalance.assignor] = rebalance.mode
            elif rebalance.assignor in known:
                settled[i] = replace(rebalance, mode=known[rebalance.assignor])
    return settled
