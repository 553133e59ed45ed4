"""Group epochs of consumer, share and streams groups, and the members that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rebalance_audit.domain.kinds import GroupType
from rebalance_audit.domain.model import GroupRecord, LogEvent, Movement, changed
from rebalance_audit.domain.reconstruct.assignment.eager import EAGER_ASSIGNORS

GROUP_TYPES = {
    "ConsumerGroup": GroupType.CONSUMER,
    "ShareGroup": GroupType.SHARE,
    "StreamsGroup": GroupType.STREAMS,
}
STABLE_STATES = {GroupType.CONSUMER: 0, GroupType.SHARE: 0, GroupType.STREAMS: 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A resource as one member's current-assignment record shows it; partition None for a streams task."""

    resource: str
    topic: str | None
    partition: int | None


@dataclass(slots=True, kw_only=True)
class LiveMember:
    """A member of a group with epochs, as its latest records show it."""

    member_id: str
    metadata: Any
    held: dict[str, Held] = field(default_factory=dict)
    """Assigned or still to be revoked: it works on both."""
    pending: frozenset[str] = frozenset()
    asked: dict[str, GroupRecord] = field(default_factory=dict)
    """By resource to be revoked: the record that said so first."""
    standby_tasks: tuple[str, ...] | None = None
    warmup_tasks: tuple[str, ...] | None = None
    """Copies that follow the active tasks: nothing stands still when they move."""
    member_epoch: int | None = None
    is_stable: bool = False
    current: GroupRecord | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """How a resource lost its owner."""

    member: LiveMember
    asked: GroupRecord | None
    """The record that first asked the owner to revoke; None if it left."""
    gone: GroupRecord
    """The first record of the owner without the resource, or its tombstone."""
    line: LogEvent | None = None
    is_pending: bool = False
    """The record in `asked` named the resource as one to revoke."""
    revoked_in: str | None = None
    """The rebalance that left it without an owner: the group was empty then."""
    returned: GroupRecord | None = None
    """The record with which the same member joined again: it may have worked on until then."""
    is_idle: bool = False
    """It left because it did not poll."""
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
    without_topics: GroupRecord | None = None
    """The tombstone of the topics' own record, written with the epoch's: brokers have none any more from 4.1 on."""
    finished: GroupRecord | None = None
    """The record with which the last live member was stable at this epoch."""
    is_reached: bool = False
    is_emptied: bool = False
    is_left_behind: bool = False
    rewrite_seq: int = 0
    """Counts the returns of static members, which begin no epoch."""
    returned: str | None = None
    """The static member that came back."""
    use: int = 0
    """Counts up when numbers start again: the group was deleted and created again."""
    record_is_conversion: bool = False
    """A classic group with members became this epoch."""
    members: dict[str, LiveMember] = field(default_factory=dict)
    """Members when the epoch ended."""
    before: dict[str, LiveMember] = field(default_factory=dict)
    """Members when the epoch began, before the changes that caused it."""
    movements: list[Movement] = field(default_factory=list)


def is_eager_classic(metadata: Any) -> bool:
    """Whether a member of a consumer group speaks the classic protocol and offers an eager assignor."""
    classic = getattr(metadata, "classic_member_metadata", None)
    return classic is not None and any(p.name in EAGER_ASSIGNORS for p in classic.supported_protocols)


@cache
def role_of(name: str) -> tuple[GroupType, str] | None:
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


def copy_one(member: LiveMember) -> LiveMember:
    return changed(member, held=dict(member.held))


def copy_all(members: Mapping[str, LiveMember]) -> dict[str, LiveMember]:
    return {m: copy_one(x) for m, x in members.items()}


def is_same(one: LiveMember, other: LiveMember) -> bool:
    instance = getattr(one.metadata, "instance_id", None)
    return one.member_id == other.member_id or (
        instance is not None and instance == getattr(other.metadata, "instance_id", None)
    )


def holdings(value: Any, topic_names: Mapping[str, str]) -> tuple[dict[str, Held], frozenset[str]]:
    """(all that the member works on, the part of it that it is to give up)."""
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
                    topic = topic_names.get(topic_id, topic_id)
                    one = Held(resource=f"{topic}-{partition}", topic=topic, partition=partition)
                held[one.resource] = one
                if is_pending:
                    pending.add(one.resource)
    return held, frozenset(pending)
