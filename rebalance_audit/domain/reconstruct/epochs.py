"""Group epochs of consumer, share and streams groups, and the members that reach them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from rebalance_audit.domain.model import GroupRecord, LogEvent, Movement, changed

from .eager import EAGER_ASSIGNORS

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


@cache
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


def copy_one(member: LiveMember) -> LiveMember:
    return changed(member, held=dict(member.held))


def copy_all(members: Mapping[str, LiveMember]) -> dict[str, LiveMember]:
    return {m: copy_one(x) for m, x in members.items()}


def is_same(one: LiveMember, other: LiveMember) -> bool:
    instance = getattr(one.metadata, "instance_id", None)
    return one.member_id == other.member_id or (
        instance is not None and instance == getattr(other.metadata, "instance_id", None)
    )
