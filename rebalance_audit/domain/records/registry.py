"""Every record type of `__consumer_offsets` by number, and how its key and each layout of its value is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from struct import Struct
from typing import Protocol

from rebalance_audit.domain.frozen import maker, quick
from rebalance_audit.domain.records import (
    consumer_group,
    group_metadata,
    keys,
    offset_commit,
    share_group,
    streams_group,
    structs,
)
from rebalance_audit.domain.records.keys import ReadKey, RecordKey
from rebalance_audit.domain.wire import DecodeError, DecodeReason, Reader

RecordValue = (
    offset_commit.OffsetCommitValue
    | group_metadata.GroupMetadataValue
    | structs.TargetAssignmentMetadataValue
    | consumer_group.ConsumerGroupMetadataValue
    | consumer_group.ConsumerGroupPartitionMetadataValue
    | consumer_group.ConsumerGroupMemberMetadataValue
    | consumer_group.ConsumerGroupTargetAssignmentMemberValue
    | consumer_group.ConsumerGroupCurrentMemberAssignmentValue
    | consumer_group.ConsumerGroupRegularExpressionValue
    | share_group.ShareGroupPartitionMetadataValue
    | share_group.ShareGroupMemberMetadataValue
    | share_group.ShareGroupMetadataValue
    | share_group.ShareGroupTargetAssignmentMemberValue
    | share_group.ShareGroupCurrentMemberAssignmentValue
    | share_group.ShareGroupStatePartitionMetadataValue
    | streams_group.StreamsGroupMetadataValue
    | streams_group.StreamsGroupMemberMetadataValue
    | streams_group.StreamsGroupTargetAssignmentMemberValue
    | streams_group.StreamsGroupCurrentMemberAssignmentValue
    | streams_group.StreamsGroupTopologyValue
)
ReadValue = Callable[[Reader], RecordValue]


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorRecord:
    """One record of `__consumer_offsets`, decoded."""

    record_type: int
    name: str
    value_version: int | None
    key: RecordKey
    value: RecordValue | None
    """None is a tombstone."""
    layout: str | None = None
    """The first release with this layout, where layouts share a version number."""


_make_record = maker(CoordinatorRecord)


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    read: ReadValue
    flexible: bool
    since: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordType:
    number: int
    name: str
    read_key: ReadKey
    layouts: Mapping[int, tuple[Layout, ...]]
    """Layouts by value version, newest first. Only the one that uses up the value exactly is right."""


class _ReadVersion(Protocol):
    def __call__(self, reader: Reader, version: int) -> RecordValue: ...


def _by_version(read: _ReadVersion, versions: range, flexible_from: int) -> dict[int, tuple[Layout, ...]]:
    return {v: (Layout(read=partial(read, version=v), flexible=v >= flexible_from),) for v in versions}


def _one(read: ReadValue) -> dict[int, tuple[Layout, ...]]:
    return {0: (Layout(read=read, flexible=True),)}


def _several(**by_release: ReadValue) -> dict[int, tuple[Layout, ...]]:
    """Newest first; `v3_8=` is the layout that Kafka 3.8 brought."""
    return {
        0: tuple(
            Layout(read=read, flexible=True, since=name[1:].replace("_", ".")) for name, read in by_release.items()
        )
    }


_commit_versions = _by_version(
    offset_commit.read_offset_commit_value, offset_commit.VERSIONS, offset_commit.FLEXIBLE_FROM
)
_group_versions = _by_version(
    group_metadata.read_group_metadata_value, group_metadata.VERSIONS, group_metadata.FLEXIBLE_FROM
)
_TYPES: tuple[tuple[int, str, ReadKey, Mapping[int, tuple[Layout, ...]]], ...] = (
    (0, "LegacyOffsetCommit", keys.read_offset_commit_key, _commit_versions),
    (1, "OffsetCommit", keys.read_offset_commit_key, _commit_versions),
    (2, "GroupMetadata", keys.read_group_metadata_key, _group_versions),
    (3, "ConsumerGroupMetadata", keys.read_group_key, _one(consumer_group.read_group_metadata)),
    (
        4,
        "ConsumerGroupPartitionMetadata",
        keys.read_group_key,
        _several(
            v3_8=consumer_group.read_partition_metadata_3_8,
            v3_6=consumer_group.read_partition_metadata_3_6,
            v3_5=consumer_group.read_partition_metadata_3_5,
        ),
    ),
    (
        5,
        "ConsumerGroupMemberMetadata",
        keys.read_member_key,
        _several(
            v3_8=consumer_group.read_member_metadata_3_8,
            v3_6=consumer_group.read_member_metadata_3_6,
            v3_5=consumer_group.read_member_metadata_3_5,
        ),
    ),
    (
        6,
        "ConsumerGroupTargetAssignmentMetadata",
        keys.read_group_key,
        _one(structs.read_target_assignment_metadata),
    ),
    (
        7,
        "ConsumerGroupTargetAssignmentMember",
        keys.read_member_key,
        _several(
            v3_8=consumer_group.read_target_assignment_member_3_8,
            v3_5=consumer_group.read_target_assignment_member_3_5,
        ),
    ),
    (
        8,
        "ConsumerGroupCurrentMemberAssignment",
        keys.read_member_key,
        _several(
            v3_8=consumer_group.read_current_member_assignment_3_8,
            v3_6=consumer_group.read_current_member_assignment_3_6,
            v3_5=consumer_group.read_current_member_assignment_3_5,
        ),
    ),
    (
        9,
        "ShareGroupPartitionMetadata",
        keys.read_group_key,
        _several(v4_0=share_group.read_partition_metadata_4_0, v3_9=share_group.read_state_partition_metadata_3_9),
    ),
    (10, "ShareGroupMemberMetadata", keys.read_member_key, _one(share_group.read_member_metadata)),
    (
        11,
        "ShareGroupMetadata",
        keys.read_group_key,
        _several(v4_1=share_group.read_group_metadata_4_1, v3_9=share_group.read_group_metadata_3_9),
    ),
    (
        12,
        "ShareGroupTargetAssignmentMetadata",
        keys.read_group_key,
        _one(structs.read_target_assignment_metadata),
    ),
    (
        13,
        "ShareGroupTargetAssignmentMember",
        keys.read_member_key,
        _one(share_group.read_target_assignment_member),
    ),
    (
        14,
        "ShareGroupCurrentMemberAssignment",
        keys.read_member_key,
        _one(share_group.read_current_member_assignment),
    ),
    (
        15,
        "ShareGroupStatePartitionMetadata",
        keys.read_group_key,
        _several(
            v4_1=share_group.read_state_partition_metadata_4_1,
            v4_0=share_group.read_state_partition_metadata_3_9,
        ),
    ),
    (
        16,
        "ConsumerGroupRegularExpression",
        keys.read_regular_expression_key,
        _one(consumer_group.read_regular_expression),
    ),
    (17, "StreamsGroupMetadata", keys.read_group_key, _one(streams_group.read_group_metadata)),
    # Only ever on Kafka's trunk, between December 2024 and June 2025: the key is read, a value is refused.
    (18, "StreamsGroupPartitionMetadata", keys.read_group_key, {}),
    (19, "StreamsGroupMemberMetadata", keys.read_member_key, _one(streams_group.read_member_metadata)),
    (
        20,
        "StreamsGroupTargetAssignmentMetadata",
        keys.read_group_key,
        _one(structs.read_target_assignment_metadata),
    ),
    (
        21,
        "StreamsGroupTargetAssignmentMember",
        keys.read_member_key,
        _one(streams_group.read_target_assignment_member),
    ),
    (
        22,
        "StreamsGroupCurrentMemberAssignment",
        keys.read_member_key,
        _one(streams_group.read_current_member_assignment),
    ),
    (23, "StreamsGroupTopology", keys.read_group_key, _one(streams_group.read_topology)),
)
RECORD_TYPES: Mapping[int, RecordType] = {
    number: RecordType(number=number, name=name, read_key=read_key, layouts=layouts)
    for number, name, read_key, layouts in _TYPES
}

_TYPE_AND_LENGTH = Struct(">hh")


def record_name(key: bytes | None) -> str | None:
    """The record type by name, from the first two bytes of the key; None if there is no such type."""
    if key is None or len(key) < 2:
        return None
    known = RECORD_TYPES.get(int.from_bytes(key[:2], "big", signed=True))
    return known.name if known else None


def record_group_id(key: bytes | None) -> str | None:
    """The group a record belongs to, read from its key alone; None where the key is not one we know."""
    if key is None or len(key) < 4:
        return None
    number, size = _TYPE_AND_LENGTH.unpack_from(key)
    if number not in RECORD_TYPES or not 0 <= size <= len(key) - 4:
        return None
    try:
        return key[4 : 4 + size].decode("utf-8")
    except UnicodeDecodeError:
        return None


def decode_record(key: bytes | None, value: bytes | None, *, layout: str | None = None) -> CoordinatorRecord:
    """The record of these bytes. `layout` forces the layout of one release where several share a version number.

    Raises DecodeError. Trailing bytes are refused; tagged fields we do not know are kept.
    """
    if key is None:
        raise DecodeError(DecodeReason.NULL_NOT_ALLOWED, 0, "", "key")
    reader = Reader(key, part="key")
    number = reader.int16("type")
    record_type = RECORD_TYPES.get(number)
    if record_type is None:
        raise DecodeError(DecodeReason.UNKNOWN_RECORD_TYPE, 0, "type", "key")
    typed_key = record_type.read_key(reader)
    reader.expect_end()
    if value is None:
        return CoordinatorRecord(
            record_type=number, name=record_type.name, value_version=None, key=typed_key, value=None
        )
    reader = Reader(value)
    version = reader.int16("version")
    layouts = record_type.layouts.get(version)
    if layouts is None:
        raise DecodeError(DecodeReason.UNKNOWN_VALUE_VERSION, 0, "version")
    if layout is not None:
        layouts = tuple(each for each in layouts if each.since == layout) or layouts
    typed_value, since = _read_value(reader, layouts)
    return _make_record(
        record_type=number,
        name=record_type.name,
        value_version=version,
        key=typed_key,
        value=typed_value,
        layout=since,
    )


def _read_value(reader: Reader, layouts: tuple[Layout, ...]) -> tuple[RecordValue, str | None]:
    """The bytes behind the version, where the reader is."""
    start = reader.at
    furthest: DecodeError | None = None
    for candidate in layouts:
        reader.at, reader.flexible = start, candidate.flexible
        try:
            typed_value = candidate.read(reader)
            reader.expect_end()
        except DecodeError as refused:
            if furthest is None or refused.at > furthest.at:
                furthest = refused
            continue
        return typed_value, candidate.since
    assert furthest is not None
    if len(layouts) == 1:
        raise furthest
    raise DecodeError(DecodeReason.UNKNOWN_LAYOUT, furthest.at, furthest.field)
