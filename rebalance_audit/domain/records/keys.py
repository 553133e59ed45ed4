"""Keys of `__consumer_offsets`: an int16 record type, then one of these. Keys are never flexible, even where the value
is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.wire import Reader


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """Types 0 and 1."""

    group: str
    topic: str
    partition: int

    @property
    def group_id(self) -> str:
        return self.group


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    """Type 2: a classic group."""

    group: str

    @property
    def group_id(self) -> str:
        return self.group


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class GroupKey:
    """The key of a record there is one of per group; upstream has one identical schema per record type."""

    group_id: str


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class MemberKey:
    """The key of a record there is one of per member; upstream has one identical schema per record type."""

    group_id: str
    member_id: str


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class RegularExpressionKey:
    """Type 16."""

    group_id: str
    regular_expression: str


RecordKey = OffsetCommitKey | GroupMetadataKey | GroupKey | MemberKey | RegularExpressionKey
ReadKey = Callable[[Reader], RecordKey]


def read_offset_commit_key(reader: Reader) -> OffsetCommitKey:
    return OffsetCommitKey(
        group=reader.string("group"), topic=reader.string("topic"), partition=reader.int32("partition")
    )


def read_group_metadata_key(reader: Reader) -> GroupMetadataKey:
    return GroupMetadataKey(group=reader.string("group"))


def read_group_key(reader: Reader) -> GroupKey:
    return GroupKey(group_id=reader.string("groupId"))


def read_member_key(reader: Reader) -> MemberKey:
    return MemberKey(group_id=reader.string("groupId"), member_id=reader.string("memberId"))


def read_regular_expression_key(reader: Reader) -> RegularExpressionKey:
    return RegularExpressionKey(
        group_id=reader.string("groupId"), regular_expression=reader.string("regularExpression")
    )
