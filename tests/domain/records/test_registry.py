from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.records import (
    RECORD_TYPES,
    ConsumerGroupCurrentMemberAssignmentValue,
    ShareGroupMetadataValue,
    StreamsGroupCurrentMemberAssignmentValue,
    decode_record,
    record_group_id,
    record_name,
)
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc

DOCS = Path(__file__).parents[3] / "docs" / "record_types.md"
A_TOPIC = {"TopicId": "3fkd8mT0QJ-wE1lVt5v_Zw", "Partitions": [0, 1]}


@pytest.mark.parametrize("number", [-1, 24, 25, 255, 32767])
def test_a_record_type_nobody_knows_is_refused_by_its_number(number: int) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_record(enc.int16(number) + enc.string("g"), None)
    error = refused.value
    assert (error.reason, error.at, error.part) == (DecodeReason.UNKNOWN_RECORD_TYPE, 0, "key")


@pytest.mark.parametrize(("number", "version"), [(1, 5), (1, -1), (2, 5), (3, 1), (8, 1), (18, 0), (23, 7)])
def test_a_value_version_nobody_knows_is_refused(number: int, version: int) -> None:
    key = enc.record_key(number, *("g", "m", 0)[: len(enc.key_fields(number))]) if number > 1 else b""
    key = key or enc.offset_commit_key("g", "t", 0)
    with pytest.raises(DecodeError) as refused:
        decode_record(key, enc.int16(version) + bytes(40))
    assert (refused.value.reason, refused.value.at) == (DecodeReason.UNKNOWN_VALUE_VERSION, 0)


def test_a_record_without_a_key_is_refused() -> None:
    with pytest.raises(DecodeError) as refused:
        decode_record(None, b"")
    assert (refused.value.reason, refused.value.part) == (DecodeReason.NULL_NOT_ALLOWED, "key")


def test_an_empty_value_is_not_a_tombstone() -> None:
    with pytest.raises(DecodeError) as refused:
        decode_record(enc.group_metadata_key("g"), b"")
    assert (refused.value.reason, refused.value.at) == (DecodeReason.SHORT_BUFFER, 0)


def test_a_value_no_layout_fits_is_refused_where_the_best_one_stopped() -> None:
    value = enc.record_value(7, "3.8", {"TopicPartitions": [A_TOPIC]})
    with pytest.raises(DecodeError) as refused:
        decode_record(enc.record_key(7, "g", "m"), value[:-1])
    assert (refused.value.reason, refused.value.at) == (DecodeReason.UNKNOWN_LAYOUT, len(value) - 1)


def test_a_layout_can_be_forced_where_two_could_fit() -> None:
    """An epoch of Kafka 3.9 with four bytes of unknown tagged fields could be read as a hash."""
    value = enc.int16(0) + enc.int32(3) + enc.tagged_fields({5: bytes(5)})
    key = enc.record_key(11, "g")
    assert decode_record(key, value).layout == "3.9"
    both = enc.int16(0) + enc.int32(3) + enc.tagged_fields({5: bytes(6)})
    assert decode_record(key, both).layout == "4.1"
    forced = decode_record(key, both, layout="3.9")
    assert forced.layout == "3.9"
    assert isinstance(forced.value, ShareGroupMetadataValue)
    assert (forced.value.epoch, forced.value.metadata_hash) == (3, None)


@pytest.mark.parametrize(
    ("layout", "value", "state"),
    [
        ("3.8", {"State": 0}, "STABLE"),
        ("3.8", {"State": 1}, "UNREVOKED_PARTITIONS"),
        ("3.8", {"State": 2}, "UNRELEASED_PARTITIONS"),
        ("3.8", {"State": 127}, "UNKNOWN"),
        ("3.8", {"State": 9}, "UNKNOWN"),
        ("3.6", {"PartitionsPendingRevocation": [A_TOPIC]}, "UNREVOKED_PARTITIONS"),
        ("3.6", {"PartitionsPendingAssignment": [A_TOPIC]}, "UNRELEASED_PARTITIONS"),
        (
            "3.6",
            {"PartitionsPendingRevocation": [A_TOPIC], "PartitionsPendingAssignment": [A_TOPIC]},
            "UNREVOKED_PARTITIONS",
        ),
        ("3.6", {}, "STABLE"),
    ],
)
def test_the_state_of_a_member_is_recorded_or_follows_from_what_is_pending(
    layout: str, value: dict[str, object], state: str
) -> None:
    nothing = {
        "MemberEpoch": 5,
        "PreviousMemberEpoch": 4,
        "TargetMemberEpoch": 6,
        "State": 0,
        "AssignedPartitions": [],
        "PartitionsPendingRevocation": [],
        "PartitionsPendingAssignment": [],
        "Error": 0,
        "MetadataVersion": 0,
        "MetadataBytes": b"",
    }
    record = decode_record(enc.record_key(8, "g", "m"), enc.record_value(8, layout, {**nothing, **value}))
    assert record.layout == layout
    assert isinstance(record.value, ConsumerGroupCurrentMemberAssignmentValue)
    assert record.value.state_name == state


@pytest.mark.parametrize(
    ("number", "name"),
    [(0, "UNKNOWN"), (1, "STABLE"), (2, "UNREVOKED_TASKS"), (3, "UNRELEASED_TASKS"), (127, "UNKNOWN")],
)
def test_streams_members_count_their_states_from_one(number: int, name: str) -> None:
    lists = [f"{kind}Tasks{more}" for kind in ("Active", "Standby", "Warmup") for more in ("", "PendingRevocation")]
    content = {"MemberEpoch": 1, "PreviousMemberEpoch": 0, "State": number, **{each: [] for each in lists}}
    value = decode_record(enc.record_key(22, "g", "m"), enc.record_value(22, "4.2", content)).value
    assert isinstance(value, StreamsGroupCurrentMemberAssignmentValue)
    assert value.state_name == name


@given(st.text(max_size=20))
def test_the_group_is_read_from_the_key_alone(group: str) -> None:
    for number in RECORD_TYPES:
        parts = ("g", "m")[: len(enc.key_fields(number))]
        key = enc.record_key(number, group, *parts[1:]) if number > 1 else enc.offset_commit_key(group, "t", 0)
        assert record_group_id(key) == group
        assert record_name(key) == RECORD_TYPES[number if number > 1 else 1].name


@pytest.mark.parametrize(
    "key",
    [None, b"", b"\x00", b"\x00\x02", b"\x00\x02\x00", enc.int16(2) + b"\x00\x05abc", enc.int16(2) + b"\xff\xff",
     enc.int16(2) + b"\x00\x01\xff", enc.int16(24) + enc.string("g")],
)  # fmt: skip
def test_no_group_can_be_read_from_a_key_that_is_none(key: bytes | None) -> None:
    assert record_group_id(key) is None


def test_names_are_kafkas_and_unique() -> None:
    assert [RECORD_TYPES[number].name for number in (1, 2, 3, 8, 15, 16, 23)] == [
        "OffsetCommit",
        "GroupMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupCurrentMemberAssignment",
        "ShareGroupStatePartitionMetadata",
        "ConsumerGroupRegularExpression",
        "StreamsGroupTopology",
    ]
    assert len({kind.name for kind in RECORD_TYPES.values()}) == len(RECORD_TYPES)


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_every_record_type_is_in_the_documentation(number: int) -> None:
    kind = RECORD_TYPES[number]
    row = next((line for line in DOCS.read_text().splitlines() if line.startswith(f"| {number} | `{kind.name}`")), None)
    assert row is not None
    for layouts in kind.layouts.values():
        for layout in layouts:
            assert layout.since is None or layout.since in row
