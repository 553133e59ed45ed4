"""Rebalances of consumer (KIP-848), share and streams groups: epochs that members reach one by one, without a barrier.

An epoch begins with its group epoch record. Members give up and take over at their own heartbeats: a member's
current-assignment records are the anchors of each movement. Source: KIP-848, KIP-932, KIP-1071, formats.md A.8.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from rebalance_audit.domain.model import (
    EvidenceTier,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    LogKind,
    Mark,
    Member,
    Movement,
    Rebalance,
    Trigger,
)
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.wire import DecodeError

from .avoidable import mark_avoidable
from .clients import ClientLines
from .commits import Commits
from .eager import EAGER_ASSIGNORS
from .frame import rebalance_id
from .modern_marks import modern_resume_marks, modern_stop_marks
from .modern_triggers import epoch_triggers
from .reconstruction import Contradiction
from .triggers import EXPECTED

GROUP_TYPES = {"ConsumerGroup": "consumer", "ShareGroup": "share", "StreamsGroup": "streams"}
STABLE_STATES = {"consumer": 0, "share": 0, "streams": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A resource as one member's current-assignment record shows it; partition None for a streams task."""

    resource: str
    topic: str | None
    partition: int | None


@dataclass(slots=True, kw_only=True)
class LiveMember:
    """A member as its latest records show it."""

    member_id: str
    metadata: Any
    joined_epoch: int | None = None
    held: dict[str, Held] = field(default_factory=dict)
    """Assigned or still to be revoked: it works on both."""
    pending: frozenset[str] = frozenset()
    told: dict[str, GroupRecord] = field(default_factory=dict)
    """By resource to be revoked: the record that said so first."""
    member_epoch: int | None = None
    is_stable: bool = False
    current: GroupRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """How a resource lost its owner."""

    member: LiveMember
    told: GroupRecord | None
    """The record that first told the owner to revoke; None if it left."""
    gone: GroupRecord
    """The first record of the owner without the resource, or its tombstone."""
    line: LogEvent | None = None
    is_pending: bool = False
    """`told` named the resource as one to revoke."""
    revoked_in: str | None = None
    """The rebalance that left it without an owner: the group was empty then."""
    rejoined: bool = False
    """An eager classic member of a consumer group: it gave everything up before the JoinGroup that `gone` answers."""


@dataclass(slots=True, kw_only=True)
class Epoch:
    """One group epoch and everything that belongs to it."""

    number: int
    record: GroupRecord | None
    changes: list[GroupRecord] = field(default_factory=list)
    """Member metadata, regular expressions, topics: what came between the epoch before and this one."""
    target: GroupRecord | None = None
    finished: GroupRecord | None = None
    """The record with which the last live member was stable at this epoch."""
    is_reached: bool = False
    is_emptied: bool = False
    is_left_behind: bool = False
    use: int = 0
    """Counts up when numbers start again: the group was deleted and created anew."""
    record_is_conversion: bool = False
    """A classic group with members became this epoch."""
    members: dict[str, LiveMember] = field(default_factory=dict)
    """As the epoch ended."""
    before: dict[str, LiveMember] = field(default_factory=dict)
    """As the epoch began, before the changes that caused it."""
    movements: list[Movement] = field(default_factory=list)


def is_eager_classic(metadata: Any) -> bool:
    """Whether a member of a consumer group speaks the classic protocol and offers an eager assignor."""
    classic = getattr(metadata, "classic_member_metadata", None)
    return classic is not None and any(p.name in EAGER_ASSIGNORS for p in classic.supported_protocols)


def role_of(name: str) -> tuple[str, str] | None:
    """(group type, role) of a record name: epoch, member, target, current or topics."""
    for prefix, group_type in GROUP_TYPES.items():
        if name.startswith(prefix):
            role = {
                "Metadata": "epoch",
                "MemberMetadata": "member",
                "TargetAssignmentMetadata": "target",
                "CurrentMemberAssignment": "current",
                "PartitionMetadata": "topics",
                "RegularExpression": "regex",
                "Topology": "topology",
            }.get(name.removeprefix(prefix))
            return None if role is None else (group_type, role)
    return None


def reconstruct_modern(evidence: GroupEvidence) -> tuple[list[Rebalance], list[Contradiction]]:
    """All epochs of the group, in order, and what was not believed; a converted group's generations are not here."""
    records = [r for r in evidence.records if role_of(r.record.name) is not None or r.record.name == "GroupMetadata"]
    fold = _Fold(evidence)
    for record in sorted(records, key=lambda r: (r.topic, r.partition, r.offset)):
        fold.see(record)
    return fold.rebalances(), fold.contradictions


class _Fold:
    """The group as its records show it, in offset order."""

    def __init__(self, evidence: GroupEvidence) -> None:
        self._evidence = evidence
        self._commits = Commits(evidence.marks)
        self._clients = ClientLines(evidence.lines)
        self._names = dict(evidence.topic_names)
        self._names |= _only_name_left(evidence, self._names)
        self._group_type = "consumer"
        self._live: dict[str, LiveMember] = {}
        self._released: dict[str, Release] = {}
        self._epochs: list[Epoch] = []
        self._changes: list[GroupRecord] = []
        self._before: dict[str, LiveMember] = {}
        self._is_history_known = False
        self.contradictions: list[Contradiction] = []
        self._was_deleted = False
        self._uses: dict[int, int] = {}
        """How often an epoch's number came again."""
        self._inherited: dict[str, str] = {}
        """By resource: the member of the classic group that held it when the group was converted."""

    def see(self, record: GroupRecord) -> None:
        role = role_of(record.record.name)
        if role is None:
            self._see_classic(record)
            return
        self._group_type, kind = role
        if kind == "topics":
            for topic in getattr(record.record.value, "topics", ()):
                if topic.topic_name:
                    self._names[topic.topic_id] = topic.topic_name
            self._changes.append(record)
        elif kind in ("regex", "topology"):
            self._changes.append(record)
        elif kind == "epoch":
            self._see_epoch(record)
        elif kind == "member":
            self._see_member(record)
        elif kind == "target":
            self._see_target(record)
        else:
            self._see_current(record)
        self._settle(record)

    def _see_classic(self, record: GroupRecord) -> None:
        """The classic group before a conversion, its tombstone when it is converted, or its return."""
        value = record.record.value
        if value is None:
            self._changes.append(record)
            return
        self._inherited = {}
        for member in value.members:
            try:
                given = consumer_protocol.decode_assignment(member.assignment).partitions if member.assignment else ()
            except DecodeError:
                continue
            for topic, partition in given:
                self._inherited[f"{topic}-{partition}"] = member.member_id
        self._changes, self._before, self._live, self._released = [], {}, {}, {}

    def _see_epoch(self, record: GroupRecord) -> None:
        value = record.record.value
        if value is None:
            self._changes.append(record)
            self._was_deleted = True
            return
        last = self._epochs[-1] if self._epochs else None
        if last is not None and value.epoch <= last.number:
            if last.record is not None and not self._was_deleted:
                detail = f"epoch {value.epoch} stands after {last.number}, and nothing deleted the group"
                refs = (last.record.ref, record.ref)
                self.contradictions.append(Contradiction(at_ms=record.at_ms, detail=detail, evidence=refs))
            self._uses[value.epoch] = self._uses.get(value.epoch, 0) + 1
        self._was_deleted = False
        if not self._epochs and not self._is_history_known:
            self._is_history_known = value.epoch <= 2 or any(r.record.name == "GroupMetadata" for r in self._changes)
        self._epochs.append(
            Epoch(
                number=value.epoch,
                record=record,
                changes=self._changes,
                before=self._before,
                is_emptied=not self._live,
                record_is_conversion=bool(self._inherited),
                use=self._uses.get(value.epoch, 0),
            )
        )
        self._changes, self._before = [], _copy(self._live)
        if not self._live:
            self._leave_without_owner(self._epochs[-1])

    def _leave_without_owner(self, epoch: Epoch) -> None:
        """The last member went: what it held is nobody's from here on."""
        revoked_in = self._id_of(epoch)
        for name, release in sorted(self._released.items()):
            held = release.member.held.get(name)
            if release.revoked_in is not None or held is None:
                continue
            metadata = release.member.metadata
            epoch.movements.append(
                Movement(
                    resource_type="stream_task" if held.topic is None else "partition",
                    resource=name,
                    topic=held.topic,
                    partition=held.partition,
                    kind="revoked",
                    from_member_id=release.member.member_id,
                    from_client_id=metadata.client_id if metadata else None,
                    evidence=(release.gone.ref,),
                )
            )
            self._released[name] = replace(release, revoked_in=revoked_in)

    def _id_of(self, epoch: Epoch) -> str:
        return rebalance_id(self._evidence.cluster_id, self._evidence.group_id, epoch.number, use=epoch.use, epoch=True)

    def _see_member(self, record: GroupRecord) -> None:
        member_id, value = record.record.key.member_id, record.record.value
        self._changes.append(record)
        if value is None:
            member = self._live.pop(member_id, None)
            if member is not None:
                self._let_go(member, record)
            return
        member = self._live.get(member_id)
        if member is None:
            self._live[member_id] = LiveMember(member_id=member_id, metadata=value)
        else:
            member.metadata = value

    def _see_target(self, record: GroupRecord) -> None:
        value = record.record.value
        if value is None:
            return
        for epoch in self._epochs:
            if epoch.target is None and epoch.number == value.assignment_epoch:
                epoch.target = record
            elif epoch.number < value.assignment_epoch and not epoch.is_reached and not epoch.is_emptied:
                epoch.is_left_behind = True

    def _see_current(self, record: GroupRecord) -> None:
        member_id, value = record.record.key.member_id, record.record.value
        member = self._live.get(member_id)
        if value is None:
            # Written before the tombstone of its metadata: the resources go with the member.
            if member is not None:
                self._let_go(member, record)
            return
        if member is None:
            member = self._live[member_id] = LiveMember(member_id=member_id, metadata=None)
        if value.member_epoch == -2:
            self._let_go(member, record)
            return
        held, pending = self._holdings(value)
        for resource in member.held.keys() - held.keys():
            if resource not in self._released:
                told = member.told.get(resource)
                self._released[resource] = Release(
                    member=_copy_one(member), told=told or member.current, gone=record, is_pending=told is not None
                )
        if (
            is_eager_classic(member.metadata)
            and member.current is not None
            and value.member_epoch != member.member_epoch
        ):
            # It speaks the eager classic protocol: it gave everything up before it re-joined.
            for resource in held.keys() & member.held.keys():
                self._released[resource] = Release(member=_copy_one(member), told=None, gone=record, rejoined=True)
                self._gain(member, held[resource], record)
        for resource in sorted(held.keys() - member.held.keys() - pending):
            self._gain(member, held[resource], record)
        member.held, member.pending = held, pending
        member.told = {resource: member.told.get(resource, record) for resource in pending}
        member.member_epoch, member.current = value.member_epoch, record
        member.is_stable = not pending and getattr(value, "state", None) in (None, STABLE_STATES[self._group_type])

    def _holdings(self, value: Any) -> tuple[dict[str, Held], frozenset[str]]:
        """Everything the member works on, and what of it it is to give up."""
        held: dict[str, Held] = {}
        pending: set[str] = set()
        for name, is_pending in (
            ("assigned_partitions", False), ("partitions_pending_revocation", True),
            ("active_tasks", False), ("active_tasks_pending_revocation", True),
        ):  # fmt: skip
            for entry in getattr(value, name, ()):
                for partition in entry.partitions:
                    topic_id = getattr(entry, "topic_id", None)
                    if topic_id is None:
                        one = Held(resource=f"{entry.subtopology_id}_{partition}", topic=None, partition=None)
                    else:
                        topic = self._names.get(topic_id, topic_id)
                        one = Held(resource=f"{topic}-{partition}", topic=topic, partition=partition)
                    held[one.resource] = one
                    if is_pending:
                        pending.add(one.resource)
        return held, frozenset(pending)

    def _let_go(self, member: LiveMember, record: GroupRecord) -> None:
        line = _departure_line(self._evidence.lines, member.member_id, record.at_ms)
        for resource in member.held:
            self._released[resource] = Release(member=_copy_one(member), told=None, gone=record, line=line)
        member.held, member.pending = {}, frozenset()

    def _gain(self, member: LiveMember, held: Held, record: GroupRecord) -> None:
        """A movement of the epoch in which the new owner takes the resource over."""
        epoch = next((e for e in reversed(self._epochs) if e.number == record.record.value.member_epoch), None)
        if epoch is None:
            epoch = self._epochs[-1] if self._epochs else None
        if epoch is None:
            return
        if self._inherited.pop(held.resource, None) == member.member_id:
            return
        release = self._released.pop(held.resource, None) if self._group_type != "share" else None
        if release is None and not self._is_history_known:
            return
        stops: tuple[Mark, ...] = ()
        resumes: tuple[Mark, ...] = ()
        first_commit = None
        if held.topic is not None and held.partition is not None:
            resource = (held.topic, held.partition)
            first_commit = self._commits.first_between([resource], record.offset, 1 << 62)
            if release is not None:
                stops = modern_stop_marks(release, resource, self._commits, self._clients)
                resumes = modern_resume_marks(member, record, resource, self._commits, self._clients)
        elif release is not None:
            stops = modern_stop_marks(release, None, self._commits, self._clients)
            resumes = modern_resume_marks(member, record, None, self._commits, self._clients)
        old = release.member if release else None
        is_same = old is not None and _is_same(old, member)
        refs = [record.ref, *(m.ref for m in (*stops, *resumes) if m.ref is not None)]
        epoch.movements.append(
            Movement(
                resource_type="stream_task" if held.topic is None else "partition",
                resource=held.resource,
                topic=held.topic,
                partition=held.partition,
                kind="assigned" if old is None else "returned" if is_same else "moved",
                from_member_id=old.member_id if old else None,
                to_member_id=member.member_id,
                from_client_id=old.metadata.client_id if old and old.metadata else None,
                to_client_id=member.metadata.client_id if member.metadata else None,
                revoked_in_rebalance_id=release.revoked_in if release else None,
                stop_marks=stops,
                resume_marks=resumes,
                first_commit_at_ms=first_commit[0] if first_commit else None,
                evidence=tuple(dict.fromkeys(refs)),
            )
        )

    def _settle(self, record: GroupRecord) -> None:
        """Close the running epoch when its last live member is stable at it."""
        if not self._epochs:
            return
        epoch = self._epochs[-1]
        # A member that joins an empty group is written before the epoch it begins.
        if not epoch.is_left_behind and not epoch.is_reached and not epoch.is_emptied:
            epoch.members = _copy(self._live)
            epoch.is_emptied = not self._live
            epoch.is_reached = (
                bool(self._live)
                and epoch.target is not None
                and all(
                    m.is_stable and m.member_epoch is not None and m.member_epoch >= epoch.number
                    for m in self._live.values()
                )
            )
            if epoch.is_reached:
                epoch.finished = record

    def rebalances(self) -> list[Rebalance]:
        result: list[Rebalance] = []
        taken = {self._id_of(epoch) for epoch in self._epochs}
        for index, epoch in enumerate(self._epochs):
            previous = self._epochs[index - 1] if index else None
            if previous is not None:
                result += self._missing(previous.number, epoch.number, taken)
            result.append(mark_avoidable(self._row(index, epoch)))
        return result

    def _missing(self, before: int, number: int, taken: set[str]) -> list[Rebalance]:
        if number <= before + 1:
            return []
        rows = [(n, n) for n in range(before + 1, number)] if number - before <= 100 else [(before + 1, number - 1)]
        return [
            Rebalance(
                cluster_id=self._evidence.cluster_id,
                rebalance_id=self._free_id(first, taken),
                group_id=self._evidence.group_id,
                group_epoch=first,
                group_type=self._group_type,
                outcome="missing",
                mode="server",
                trigger_detail=f"epochs {first} to {last}" if last > first else None,
                is_complete_evidence=False,
            )
            for first, last in rows
        ]

    def _free_id(self, number: int, taken: set[str]) -> str:
        """The number may have been used before the group was deleted."""
        cluster_id, group_id = self._evidence.cluster_id, self._evidence.group_id
        ids = (rebalance_id(cluster_id, group_id, number, use=use, epoch=True) for use in count())
        found = next(one for one in ids if one not in taken)
        taken.add(found)
        return found

    def _row(self, index: int, epoch: Epoch) -> Rebalance:
        evidence = self._evidence
        has_next = index + 1 < len(self._epochs)
        if epoch.is_emptied and not epoch.is_reached:
            outcome = "emptied"
        elif epoch.is_reached:
            outcome = "completed"
        else:
            outcome = "superseded" if has_next or epoch.is_left_behind else "open"
        started_at_ms = epoch.record.at_ms if epoch.record else None
        target = epoch.target
        computed = getattr(target.record.value, "assignment_timestamp", None) if target else None
        finished_at_ms = epoch.finished.at_ms if epoch.finished else None
        triggers = epoch_triggers(epoch, evidence.lines, self._commits, self._group_type)
        first = triggers[0] if triggers else Trigger(trigger="unknown", tier=EvidenceTier.UNKNOWN)
        members = tuple(self._members(epoch))
        assignor = next(
            (
                x.fields.get("assignor")
                for x in evidence.lines
                if x.kind is LogKind.TARGET_COMPUTED and x.fields.get("group_epoch") == epoch.number
            ),
            None,
        )
        refs = [r.ref for r in (epoch.record, epoch.target, epoch.finished) if r is not None]
        refs += [ref for t in triggers for ref in t.evidence]
        times = [t for t in (started_at_ms, target.at_ms if target else None, finished_at_ms) if t is not None]
        held = {r for m in epoch.members.values() for r in m.held}
        moved = {m.resource for m in epoch.movements}
        return Rebalance(
            cluster_id=evidence.cluster_id,
            rebalance_id=self._id_of(epoch),
            group_id=evidence.group_id,
            group_epoch=epoch.number,
            group_type=self._group_type,
            protocol_type=self._group_type,
            outcome=outcome,
            mode="server",
            assignor=assignor,
            coordinator_broker_id=next(
                (x.coordinator_broker_id for x in evidence.lines if x.coordinator_broker_id is not None), None
            ),
            member_count=len(epoch.members),
            static_member_count=sum(
                getattr(m.metadata, "instance_id", None) is not None for m in epoch.members.values()
            ),
            started_at_ms=started_at_ms,
            started_tier=EvidenceTier.RECORDED if started_at_ms is not None else EvidenceTier.UNKNOWN,
            joined_at_ms=computed or (target.at_ms if target else None),
            assigned_at_ms=finished_at_ms,
            ended_at_ms=max(times) if times else None,
            broker_window_ms=finished_at_ms - started_at_ms
            if finished_at_ms is not None and started_at_ms is not None
            else None,
            trigger=first.trigger,
            trigger_tier=first.tier,
            trigger_detail=first.detail or None,
            triggers=tuple(triggers),
            expected=first.trigger in EXPECTED,
            expected_reason=EXPECTED.get(first.trigger),
            resource_count=len(held),
            kept_count=len(held - moved),
            is_complete_evidence=epoch.record is not None,
            is_final=has_next,
            evidence=tuple(dict.fromkeys(refs)),
            members=members,
            movements=_last_of_each(epoch.movements),
        )

    def _members(self, epoch: Epoch) -> Iterable[Member]:
        for member_id, member in sorted({**epoch.before, **epoch.members}.items()):
            was = epoch.before.get(member_id)
            now = epoch.members.get(member_id)
            before = frozenset(was.held) if was else frozenset()
            after = frozenset(now.held) if now else frozenset()
            replaced = was is None and any(_is_same(old, member) for old in epoch.before.values())
            metadata = member.metadata
            yield Member(
                member_id=member_id,
                group_instance_id=getattr(metadata, "instance_id", None),
                client_id=getattr(metadata, "client_id", None),
                client_host=getattr(metadata, "client_host", None),
                change="left" if now is None else "stayed" if was else "replaced" if replaced else "joined",
                member_epoch=member.member_epoch,
                rebalance_timeout_ms=getattr(metadata, "rebalance_timeout_ms", None),
                subscribed_topics=getattr(metadata, "subscribed_topic_names", None),
                owned_before=tuple(sorted(before)),
                assigned=tuple(sorted(after)),
                revoked=tuple(sorted(before - after)),
                added=tuple(sorted(after - before)),
                evidence=(member.current.ref,) if member.current is not None else (),
            )


def _only_name_left(evidence: GroupEvidence, known: Mapping[str, str]) -> dict[str, str]:
    """4.1 tells topics by id alone: where one id is assigned and one subscribed topic is left, they are the same."""
    ids: set[str] = set()
    names: set[str] = set()
    for record in evidence.records:
        value = record.record.value
        for entries in ("assigned_partitions", "partitions_pending_revocation", "topic_partitions"):
            ids.update(entry.topic_id for entry in getattr(value, entries, ()) or () if hasattr(entry, "topic_id"))
        for topic in getattr(value, "topics", ()) or ():
            if getattr(topic, "topic_name", None):
                known = {**known, topic.topic_id: topic.topic_name}
        names.update(getattr(value, "subscribed_topic_names", ()) or ())
    unnamed, left = ids - known.keys(), names - set(known.values())
    return {unnamed.pop(): left.pop()} if len(unnamed) == len(left) == 1 else {}


def _last_of_each(movements: Sequence[Movement]) -> tuple[Movement, ...]:
    """One row a resource, save in share groups, whose partitions have several owners: there the first gain tells."""
    by_resource: dict[str, Movement] = {}
    for movement in movements:
        by_resource[movement.resource] = movement
    return tuple(by_resource[r] for r in sorted(by_resource))


def _copy_one(member: LiveMember) -> LiveMember:
    return replace(member, held=dict(member.held))


def _copy(members: Mapping[str, LiveMember]) -> dict[str, LiveMember]:
    return {m: _copy_one(x) for m, x in members.items()}


def _is_same(one: LiveMember, other: LiveMember) -> bool:
    instance = getattr(one.metadata, "instance_id", None)
    return one.member_id == other.member_id or (
        instance is not None and instance == getattr(other.metadata, "instance_id", None)
    )


def _departure_line(lines: Iterable[LogEvent], member_id: str, at_ms: int) -> LogEvent | None:
    """The coordinator's word on why a member went, near the time of its tombstone."""
    kinds = (LogKind.MEMBER_FENCED, LogKind.MODERN_MEMBER_LEFT, LogKind.MEMBER_LEFT)
    near = [
        x
        for x in lines
        if x.kind in kinds and x.fields.get("member_id") == member_id and abs((x.at_ms or 0) - at_ms) < 5_000
    ]
    return min(near, key=lambda x: abs((x.at_ms or 0) - at_ms), default=None)
