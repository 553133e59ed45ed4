"""Rebalances of consumer (KIP-848), share and streams groups: epochs that members reach one by one, without a barrier.

An epoch begins with its group epoch record. Members give up and take over at their own heartbeats: a member's
current-assignment records are the anchors of each movement. Source: KIP-848, KIP-932, KIP-1071;
docs/kafka_writes.md#groups-by-epochs.
"""

from __future__ import annotations

from rebalance_audit.domain.kinds import GroupType
from rebalance_audit.domain.model import GroupEvidence, GroupRecord, LogKind, Rebalance, changed
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.reconstruct.assignment.stream_tasks import task_names
from rebalance_audit.domain.reconstruct.attempts.frame import rebalance_id
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits
from rebalance_audit.domain.reconstruct.evidence.topic_names import only_name_left
from rebalance_audit.domain.reconstruct.reconstruction import Contradiction
from rebalance_audit.domain.wire import DecodeError

from .causes import departure_line, is_static_return, stopped_polling
from .epoch import (
    STABLE_STATES,
    Epoch,
    Held,
    LiveMember,
    Release,
    copy_all,
    copy_one,
    holdings,
    is_eager_classic,
    role_of,
)
from .movements import left_without_owner, taken_over
from .rows import EpochRows, epoch_id


def reconstruct_modern(evidence: GroupEvidence) -> tuple[list[Rebalance], list[Contradiction]]:
    """All epochs of the group, in order, and what was not believed; a converted group's generations are not here."""
    if all(role_of(r.record.name) is None for r in evidence.records):
        return [], []
    records = [r for r in evidence.records if role_of(r.record.name) is not None or r.record.name == "GroupMetadata"]
    fold = _Fold(evidence)
    for record in sorted(records, key=lambda r: (r.topic, r.partition, r.offset)):
        fold.see(record)
    rows = EpochRows(evidence, fold.epochs, fold.commits, fold.group_type, fold.comes_back)
    return rows.rebalances(), fold.contradictions


class _Fold:
    """The group as its records show it, in offset order."""

    def __init__(self, evidence: GroupEvidence) -> None:
        self._evidence = evidence
        self.commits = Commits(evidence.marks)
        self._clients = ClientLines(evidence.lines)
        self._names = dict(evidence.topic_names)
        self._names |= only_name_left(evidence, self._names)
        self.group_type = GroupType.CONSUMER
        self._live: dict[str, LiveMember] = {}
        self._released: dict[str, Release] = {}
        self.epochs: list[Epoch] = []
        self._changes: list[GroupRecord] = []
        self._before: dict[str, LiveMember] = {}
        """Members when the last epoch began, with their metadata of then."""
        self._joins: dict[str, list[GroupRecord]] = {}
        """Member metadata by member id: one that went and is here again later was not closed."""
        for one in evidence.records:
            if one.record.name.endswith("MemberMetadata") and one.record.value is not None:
                self._joins.setdefault(one.record.key.member_id, []).append(one)
        self._gone: dict[str, LiveMember] = {}
        """Members that went since then, with what they held."""
        self._is_history_known = evidence.is_continued
        self.contradictions: list[Contradiction] = []
        self._was_deleted = False
        self._uses: dict[int, int] = {}
        """How often an epoch's number came again."""
        self._inherited: dict[str, str] = {}
        """By resource: the member of the classic group that held it when the group was converted."""
        self._classic: dict[str, LiveMember] = {}
        """By resource: the member that the last classic record gave it to."""

    def comes_back(self, member_id: str, after: int) -> GroupRecord | None:
        """The record with which the member joins again under the same id after this offset, as a process does that
        lives on."""
        return next((r for r in self._joins.get(member_id, ()) if r.offset > after), None)

    def see(self, record: GroupRecord) -> None:
        role = role_of(record.record.name)
        if role is None:
            self._see_classic(record)
            return
        self.group_type, kind = role
        if kind == "topics":
            for topic in getattr(record.record.value, "topics", ()):
                if topic.topic_name:
                    self._names[topic.topic_id] = topic.topic_name
            last = self.epochs[-1] if self.epochs else None
            if record.record.value is None and last is not None and last.record is not None and last.target is None:
                last.without_topics = record
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
        self._changes, self._before, self._gone, self._live, self._released = [], {}, {}, {}, {}
        if not value.members:
            # What members held as they went stands still until a member of the new protocol takes it.
            self._released = {
                resource: Release(
                    member=member, asked=None, gone=record, revoked_in=self._generation_id(value.generation)
                )
                for resource, member in self._classic.items()
            }
        self._classic = {}
        for member in value.members:
            try:
                given = consumer_protocol.decode_assignment(member.assignment).partitions if member.assignment else ()
            except DecodeError:
                continue
            live = LiveMember(member_id=member.member_id, metadata=member, current=record)
            for topic, partition in given:
                resource = f"{topic}-{partition}"
                self._classic[resource] = live
                live.held[resource] = Held(resource=resource, topic=topic, partition=partition)
        self._inherited = {resource: member.member_id for resource, member in self._classic.items()}

    def _generation_id(self, number: int) -> str:
        return rebalance_id(self._evidence.cluster_id, self._evidence.group_id, number)

    def _see_epoch(self, record: GroupRecord) -> None:
        value = record.record.value
        if value is None:
            self._changes.append(record)
            self._was_deleted = True
            self._released = {}  # who comes under its name later takes nothing over from it
            return
        last = self.epochs[-1] if self.epochs else None
        if last is not None and value.epoch <= last.number:
            if last.record is not None and not self._was_deleted:
                detail = f"epoch {value.epoch} stands after {last.number}, and nothing deleted the group"
                refs = (last.record.ref, record.ref)
                self.contradictions.append(Contradiction(at_ms=record.at_ms, detail=detail, evidence=refs))
        self._was_deleted = False
        self._without_changes()
        if not self.epochs and not self._is_history_known:
            self._is_history_known = value.epoch <= 2 or any(r.record.name == "GroupMetadata" for r in self._changes)
        self.epochs.append(
            Epoch(
                number=value.epoch,
                record=record,
                changes=self._changes,
                before=self._held_before(),
                is_emptied=not self._live,
                record_is_conversion=bool(self._inherited),
                use=self._uses.setdefault(value.epoch, 0),
            )
        )
        self._uses[value.epoch] += 1
        self._changes, self._before, self._gone = [], copy_all(self._live), {}
        if not self._live:
            self._leave_without_owner(self.epochs[-1])

    def _without_changes(self) -> None:
        """A member's metadata stand before the epoch that it begins, and its tombstones before the one that its end
        begins: an epoch that was not reached by then had no part in either, though it is a joiner's first epoch where
        the assignor takes its time."""
        joined = {
            r.record.key.member_id
            for r in self._changes
            if r.record.name.endswith("MemberMetadata") and r.record.key.member_id not in self._before
        }
        gone = {m: member for m, member in self._held_before().items() if m not in self._live}
        for epoch in reversed(self.epochs):
            is_waiting = not epoch.is_reached and not epoch.is_emptied
            if is_waiting:
                epoch.members = {m: member for m, member in epoch.members.items() if m not in joined}
            if is_waiting or _ended_without_somebody(epoch):
                epoch.members |= gone
            if not epoch.rewrite_seq:
                return

    def _held_before(self) -> dict[str, LiveMember]:
        """The members before the changes that cause the epoch, with all they hold as it begins."""
        now = {m: self._live.get(m) or self._gone.get(m) or was for m, was in self._before.items()}
        return {m: changed(copy_one(x), metadata=self._before[m].metadata) for m, x in now.items()}

    def _leave_without_owner(self, epoch: Epoch) -> None:
        """The last member went: what it held is nobody's from here on."""
        revoked_in = epoch_id(self._evidence, epoch)
        for name, release in sorted(self._released.items()):
            held = release.member.held.get(name)
            if release.revoked_in is not None or held is None:
                continue
            epoch.movements.append(left_without_owner(held, release))
            self._released[name] = changed(release, revoked_in=revoked_in)

    def _see_member(self, record: GroupRecord) -> None:
        member_id, value = record.record.key.member_id, record.record.value
        self._changes.append(record)
        if value is None:
            member = self._live.pop(member_id, None)
            if member is not None:
                self._let_go(member, record)
            return
        member = self._live.get(member_id)
        if member is not None:
            member.metadata = value
            return
        self._live[member_id] = LiveMember(member_id=member_id, metadata=value)
        if self.epochs and is_static_return(value, self._gone.values()):
            self._begin_return(record)

    def _begin_return(self, record: GroupRecord) -> None:
        """A static member took its own place again under a new member id: a row of its own, and no epoch."""
        last = self.epochs[-1]
        self.epochs.append(
            Epoch(
                number=last.number,
                record=record,
                before=self._held_before(),
                use=last.use,
                rewrite_seq=last.rewrite_seq + 1,
                returned=record.record.key.member_id,
            )
        )
        self._changes, self._before, self._gone = [], copy_all(self._live), {}

    def _see_target(self, record: GroupRecord) -> None:
        value = record.record.value
        if value is None:
            return
        for epoch in reversed(self.epochs):
            if epoch.rewrite_seq or epoch.number > value.assignment_epoch:
                continue
            if epoch.is_reached or epoch.is_emptied or epoch.is_left_behind:
                break
            if epoch.number < value.assignment_epoch:
                epoch.is_left_behind = True
            elif epoch.target is None:
                epoch.target = record

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
            # A static member that left for a while: its assignment waits for it.
            if not member.held:
                member.held, _ = holdings(value, self._names)
            self._let_go(member, record)
            member.member_epoch, member.current = value.member_epoch, record
            self._gone[member_id] = changed(self._gone[member_id], member_epoch=value.member_epoch, current=record)
            return
        held, pending = holdings(value, self._names)
        for resource in member.held.keys() - held.keys():
            if resource not in self._released:
                asked = member.asked.get(resource)
                self._released[resource] = Release(
                    member=copy_one(member), asked=asked or member.current, gone=record, is_pending=asked is not None
                )
        if (
            is_eager_classic(member.metadata)
            and member.current is not None
            and value.member_epoch != member.member_epoch
        ):
            # It speaks the eager classic protocol: it gave everything up before it re-joined.
            for resource in held.keys() & member.held.keys():
                self._released[resource] = Release(member=copy_one(member), asked=None, gone=record, rejoined=True)
                self._gain(member, held[resource], record)
        for resource in sorted(held.keys() - member.held.keys() - pending):
            self._gain(member, held[resource], record)
        member.held, member.pending = held, pending
        member.standby_tasks, member.warmup_tasks = task_names(value, "standby"), task_names(value, "warmup")
        member.asked = {resource: member.asked.get(resource, record) for resource in pending}
        member.member_epoch, member.current = value.member_epoch, record
        waits = bool(getattr(value, "partitions_pending_assignment", ()))  # 3.6 and 3.7 write no state
        member.is_stable = (
            not pending and not waits and getattr(value, "state", None) in (None, STABLE_STATES[self.group_type])
        )

    def _let_go(self, member: LiveMember, record: GroupRecord) -> None:
        line = departure_line(self._evidence.lines, member.member_id, record.at_ms)
        self._gone.setdefault(member.member_id, copy_one(member))
        returned = self.comes_back(member.member_id, record.offset)
        is_idle = line is not None and line.kind is LogKind.MODERN_MEMBER_LEFT
        if is_idle:
            others = [other for other in self._live.values() if other.member_id != member.member_id]
            left = record.at_ms, record.offset
            is_idle = stopped_polling(member, *left, self.commits, others, comes_back=returned is not None) is True
        for resource in member.held:
            self._released[resource] = Release(
                member=copy_one(member), asked=None, gone=record, line=line, returned=returned, is_idle=is_idle
            )
        member.held, member.pending = {}, frozenset()

    def _gain(self, member: LiveMember, held: Held, record: GroupRecord) -> None:
        """A movement of the epoch in which the new owner takes the resource over."""
        if self.group_type == GroupType.SHARE:
            return  # several owners at once: share_movements looks at the whole epoch
        epoch = next((e for e in reversed(self.epochs) if e.number == record.record.value.member_epoch), None)
        if epoch is None:
            epoch = self.epochs[-1] if self.epochs else None
        is_inherited = self._inherited.pop(held.resource, None) == member.member_id
        release = self._released.pop(held.resource, None)
        if epoch is None or is_inherited:  # an epoch that began before the evidence has no row
            return
        if release is None and not self._is_history_known:
            return
        epoch.movements.append(taken_over(member, held, record, release, self.commits, self._clients))

    def _settle(self, record: GroupRecord) -> None:
        """Close what runs when its last live member is stable at it: an epoch, and the return of a static member."""
        for epoch in reversed(self.epochs):
            self._settle_one(epoch, record)
            if not epoch.rewrite_seq:
                return

    def _settle_one(self, epoch: Epoch, record: GroupRecord) -> None:
        # A member that joins an empty group is written before the epoch it begins.
        if not epoch.is_left_behind and not epoch.is_reached and not epoch.is_emptied:
            epoch.members = copy_all(self._live)
            epoch.is_emptied = not self._live
            epoch.is_reached = (
                bool(self._live)
                and (epoch.target is not None or epoch.returned is not None)
                and all(
                    m.is_stable and m.member_epoch is not None and m.member_epoch >= epoch.number
                    for m in self._live.values()
                    if epoch.returned in (None, m.member_id)
                )
            )
            if epoch.is_reached:
                epoch.finished = record


def _ended_without_somebody(epoch: Epoch) -> bool:
    """Whether it was reached only as the last member that had not reached it was taken away."""
    return epoch.finished is not None and epoch.finished.record.value is None
