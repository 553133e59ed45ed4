"""What the differential against Kafka's classes found, each as it was settled; the bytes are those of the run."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.metadata import decode_metadata
from rebalance_audit.domain.metadata.partitions import PartitionChangeRecord
from rebalance_audit.domain.wire import DecodeError, DecodeReason

CHANGE = "0105{version:02x}" + "00000000" + "00" * 16


def a_change(version: int, tags: str) -> bytes:
    return bytes.fromhex(CHANGE.format(version=version) + tags)


def test_a_known_tagged_field_is_read_by_its_content_and_not_by_its_size() -> None:
    """Kafka looks at the size only of tags it does not know: 3 is said to have one byte, and takes five."""
    value = decode_metadata(a_change(0, "03" + "010400000001" + "020101" + "030102ffffffff")).value
    assert isinstance(value, PartitionChangeRecord)
    assert (value.leader, value.replicas, value.removing_replicas) == (1, (), (-1,))


def test_a_length_that_is_negative_as_javas_int_is_null() -> None:
    value = decode_metadata(a_change(0, "01" + "0003" + "ffffffff7f")).value
    assert isinstance(value, PartitionChangeRecord)
    assert value.isr is None


def test_a_type_that_is_negative_as_javas_int_keeps_its_lower_half() -> None:
    assert decode_metadata(bytes.fromhex("0181808080080000000000000000000000000100")).record_type == 1


def test_a_type_too_large_for_a_short_is_refused() -> None:
    with pytest.raises(DecodeError) as refused:
        decode_metadata(bytes.fromhex("0181800200"))
    assert (refused.value.reason, refused.value.at, refused.value.field) == (DecodeReason.BAD_VALUE, 1, "recordType")


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(a_change(0, "01" + "080101"), id="directories, of version 1"),
        pytest.param(a_change(1, "01" + "060101"), id="eligible leaders, of version 2"),
        pytest.param(
            bytes.fromhex("01110100000000800000000000000001020101"), id="log directories of a broker, of version 2"
        ),
        pytest.param(
            bytes.fromhex("01110000000000800000000000000001010100"), id="a broker's controlled shutdown, of version 1"
        ),
        pytest.param(
            bytes.fromhex("010301" + "00" * 20 + "01" * 4 + "00" * 12 + "01" + "01010101"),
            id="a partition's eligible leaders",
        ),
    ],
)
def test_a_tag_of_a_later_version_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_metadata(data)
    assert refused.value.reason is DecodeReason.BAD_VALUE
    assert 0 <= refused.value.at <= len(data)


def test_an_unknown_tag_is_kept_in_any_version() -> None:
    value = decode_metadata(a_change(0, "01" + "2802f5e7")).value
    assert value.unknown_tags == ((40, b"\xf5\xe7"),)
