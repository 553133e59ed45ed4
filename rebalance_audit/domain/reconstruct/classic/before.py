"""The state of a classic group just before one of its attempts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.client_families import (
    ALL,
    WITH_STATIC_MEMBERS,
    Families,
    families_of,
    families_shown,
    narrowed,
)
from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.log_lines.reasons import instance_id_of
from rebalance_audit.domain.model import GroupEvidence, LogEvent, LogKind, changed
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.evidence.clients import ClientLines
from rebalance_audit.domain.reconstruct.evidence.commits import Commits, Resource
from rebalance_audit.domain.reconstruct.evidence.stated import stated_families, statements
from rebalance_audit.domain.records import GroupMetadataValue, MemberMetadata

from .conversions import Downgrade, downgrades


@quick
@dataclass(frozen=True, slots=True, eq=False)
class Holding:
    """The last holder of partitions, and the attempt that gave them. All partitions that were given together share one
    object, and objects are compared by identity."""

    member: MemberMetadata
    attempt_index: int
    revoked_in: str | None = None
    """The rebalance that took it away without giving it on."""
    revoked_index: int | None = None
    given: Attempt | None = None
    """The record that gave it, where that is no attempt of the classic group: a consumer group that was converted."""


@quick
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Course:
    """A group's whole history by its evidence: the same before each attempt."""

    attempts: Sequence[Attempt]
    commits: Commits
    clients: ClientLines
    loads: Sequence[LogEvent]
    """Lines of coordinators that took the group over."""
    fences: Sequence[LogEvent]
    """Lines by which members heard that another has their place."""
    stated_families: Mapping[str, Families]
    """By client id: the libraries that send the reasons which lines quote."""
    stated_since: Mapping[str, Sequence[tuple[int, Families]]]
    """By client id: the same, each from the attempt on whose lines state it."""
    instance_ids: frozenset[str]
    """Ids of static members, as lines name them; records show it themselves."""
    downgrades: Mapping[int, Downgrade]
    """By the offset of the classic record that a consumer group was converted to."""

    def families(self, assignor: str | None, member: MemberMetadata) -> Families:
        """The client libraries that the member may be of, by its bytes and by what lines quote of its client id."""
        return self._families(assignor, member, self.stated_families.get(member.client_id, ALL))

    def families_by(self, index: int, assignor: str | None, member: MemberMetadata) -> Families:
        """The same by lines of the attempt at `index` and of those before it: what follows does not change it."""
        stated = ALL
        for since, families in self.stated_since.get(member.client_id, ()):
            if since <= index:
                stated = families
        return self._families(assignor, member, stated)

    def _families(self, assignor: str | None, member: MemberMetadata, stated: Families) -> Families:
        found = families_of(assignor, member.subscription, member.client_id)
        if member.group_instance_id is not None and found != ALL:
            found = narrowed(found, WITH_STATIC_MEMBERS)
        return narrowed(found, stated)


@quick
@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Before:
    """The group between two attempts. One is made for each attempt, from the one before it, and never changes."""

    course: Course
    index: int
    attempt: Attempt
    """The one that comes, at `index` of the course."""
    members: Mapping[str, MemberMetadata] | None = None
    """Members of the last record; None where lines alone show the last generation."""
    held: Mapping[str, frozenset[Resource]]
    """By member of the last record."""
    holdings: Mapping[Resource, Holding]
    ownerless: frozenset[Resource] = frozenset()
    """Those that had an owner before the evidence begins, and no holding since."""
    delivered_index: int = -1
    """Index of the last attempt whose record has members, or has none."""
    is_history_known: bool = False
    """A partition that is not in `holdings` has no owner. Without this, its owner is not known."""
    converted: Downgrade | None = None
    """The attempt before was a conversion."""
    committers: frozenset[str] = frozenset()
    """Client ids that were seen to commit again and again."""
    task_of: Mapping[Resource, str]
    """The task that reads each partition of a Streams group."""

    @property
    def delivered(self) -> Attempt | None:
        return None if self.delivered_index < 0 else self.course.attempts[self.delivered_index]

    @property
    def delivered_offset(self) -> int | None:
        delivered = self.delivered
        return None if delivered is None or delivered.record is None else delivered.record.offset

    @property
    def delivered_value(self) -> GroupMetadataValue | None:
        delivered = self.delivered
        return None if delivered is None else delivered.value

    @property
    def assignor(self) -> str | None:
        """That of the last record with members, or without any."""
        value = self.delivered_value
        return None if value is None else value.protocol

    def given(self, member_id: str) -> Attempt | None:
        """The record that gave a member what it holds. A record that was written again for a static member gave the
        others nothing, so it is no sign that they were there."""
        held = (self.holdings.get(resource) for resource in self.held.get(member_id, ()))
        found = next((one for one in held if one is not None and one.member.member_id == member_id), None)
        return self.delivered if found is None or found.given is not None else self.course.attempts[found.attempt_index]

    def families(self, member: MemberMetadata) -> Families:
        """The client libraries that a member of the last record may be of."""
        return self.course.families(self.assignor, member)

    def member(self, member: MemberMetadata) -> MemberMetadata | None:
        """The member, or its static predecessor, as the last record has it."""
        if self.members is None:
            return None
        found = self.members.get(member.member_id)
        if found is not None or member.group_instance_id is None:
            return found
        return next((m for m in self.members.values() if m.group_instance_id == member.group_instance_id), None)


def course_of(evidence: GroupEvidence, attempts: Sequence[Attempt]) -> Course:
    stated = {client_id: families_shown(libraries) for client_id, libraries in evidence.stated}
    return Course(
        attempts=attempts,
        commits=Commits(evidence.marks),
        clients=ClientLines(evidence.lines),
        loads=tuple(line for line in evidence.lines if line.kind is LogKind.GROUP_LOADED),
        fences=tuple(line for line in evidence.lines if line.kind is LogKind.MEMBER_FENCED),
        stated_families=stated_families(evidence.lines, stated),
        stated_since=_stated_since(attempts, stated),
        instance_ids=_instance_ids(evidence.lines),
        downgrades=downgrades(evidence),
    )


def _instance_ids(lines: Iterable[LogEvent]) -> frozenset[str]:
    """Those that lines name. Up to 2.4 only the line of the first join does."""
    named = {line.fields.get("group_instance_id") for line in lines}
    named |= {instance_id_of(str(line.fields.get("reason"))) for line in lines if line.kind is LogKind.PREPARING}
    return frozenset(str(i) for i in named if i is not None)


def _stated_since(attempts: Iterable[Attempt], before: Mapping[str, Families]) -> dict[str, list[tuple[int, Families]]]:
    """`before`: what lines before the first attempt state."""
    found = {client_id: [(-1, families)] for client_id, families in before.items()}
    for index, attempt in enumerate(attempts):
        first = () if attempt.preparing is None else (attempt.preparing,)
        for client_id, families in statements((*first, *attempt.during)):
            known = found.setdefault(client_id, [])
            if not known:
                known.append((index, families))
            elif families != known[-1][1] != ALL:
                known.append((index, ALL))
    return found


def before_all(course: Course, ownerless: Iterable[Resource]) -> Before:
    """The state before the first attempt: nothing else is known yet. There must be at least one attempt."""
    return Before(
        course=course,
        index=0,
        attempt=course.attempts[0],
        held={},
        holdings={},
        ownerless=frozenset(ownerless),
        task_of={},
    )


def created_anew(before: Before) -> Before:
    """The state of a group that starts again: it has no members, and nobody owns anything."""
    return changed(before, members={}, held={}, holdings={}, ownerless=frozenset(), is_history_known=True)


def forgotten(before: Before) -> Before:
    """The state after an attempt was delivered that only lines show: nobody knows who holds what from there on."""
    return changed(before, members=None, held={}, holdings={}, ownerless=frozenset(), is_history_known=False)


def is_same(one: MemberMetadata, other: MemberMetadata) -> bool:
    if one.member_id == other.member_id:
        return True
    return one.group_instance_id is not None and one.group_instance_id == other.group_instance_id
