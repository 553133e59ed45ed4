"""The bytes are Kafka's (kafka_written/KafkaStreamsWrites.java); the story in them is shown here a second time."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.protocols.streams_protocol import (
    AssignorError,
    HostPartitions,
    StandbyTask,
    TaskId,
    decode_assignment_info,
    decode_subscription_info,
)
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.domain.records.refusals import assert_read_or_refused

WRITTEN = {
    name: bytes.fromhex(content)
    for name, content in json.loads((Path(__file__).parent / "kafka_written" / "streams.json").read_text()).items()
}
VERSIONS = range(1, 12)
NAMED = TaskId(subtopology=2, partition=0, named_topology="named")


def task(subtopology: int, partition: int) -> TaskId:
    return TaskId(subtopology=subtopology, partition=partition)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_subscription_of_every_version(version: int) -> None:
    read = decode_subscription_info(WRITTEN[f"subscription-{version}"])
    assert read.version == version
    assert read.latest_supported_version == (11 if version >= 3 else None)
    assert read.process_id == "c2d3e4f5-0617-2839-4a5b-6c7d8e9fa0b1"
    assert read.prev_active_tasks == (task(0, 1),)
    assert set(read.prev_standby_tasks) == {task(0, 2), task(1, 0)} | ({NAMED} if version >= 10 else set())
    sums = {each.task: each.offset_sum for each in read.task_offset_sums}
    known = {task(0, 1): -2, task(0, 2): 1234567890123, task(1, 0): -3}
    assert sums == ({} if version < 7 else known if version < 10 else {**known, NAMED: 0})
    assert read.user_end_point == ("host:8080" if version >= 2 else None)
    assert read.unique_field == (-5 if version >= 8 else None)
    assert read.error_code == (AssignorError.SHUTDOWN_REQUESTED if version >= 9 else AssignorError.NONE)
    assert read.client_tags == ((("zone", "eu-é"),) if version >= 11 else ())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_assignment_of_every_version(version: int) -> None:
    read = decode_assignment_info(WRITTEN[f"assignment-{version}"])
    assert read.used_version == version
    assert read.commonly_supported_version == (11 if version >= 3 else None)
    last = TaskId(subtopology=2, partition=0, named_topology="näméd" if version >= 10 else None)
    assert read.active_tasks == (task(0, 1), task(0, 1), last)
    assert read.standby_tasks == (StandbyTask(task=task(1, 3), partitions=(("t-\x00-é-😀", 3),)),)
    hosts = (HostPartitions(host="host", port=8080, partitions=(("in", 1),)),)
    standby_hosts = (HostPartitions(host="other", port=1, partitions=(("in", 2),)),)
    assert read.partitions_by_host == (hosts if version >= 2 else ())
    assert read.standby_partitions_by_host == (standby_hosts if version >= 6 else ())
    assert read.error_code == (AssignorError.VERSION_PROBING if version >= 4 else AssignorError.NONE)
    assert read.next_rebalance_at_ms == (1795276800123 if version >= 7 else None)


@pytest.mark.parametrize("name", WRITTEN)
def test_every_proper_prefix_and_every_byte_more_is_refused(name: str) -> None:
    read = decode_subscription_info if name.startswith("subscription") else decode_assignment_info
    content = WRITTEN[name]
    for cut in range(len(content)):
        with pytest.raises(DecodeError) as refused:
            read(content[:cut])
        assert (refused.value.reason, refused.value.part) == (DecodeReason.SHORT_BUFFER, "user_data")
        assert refused.value.at <= cut
    with pytest.raises(DecodeError) as refused:
        read(content + b"\x00")
    assert (refused.value.reason, refused.value.at) == (DecodeReason.TRAILING_BYTES, len(content))


def test_a_newer_subscription_shows_its_versions_only() -> None:
    read = decode_subscription_info(enc.int32(12) + enc.int32(13) + b"anything")
    assert (read.version, read.latest_supported_version, read.process_id) == (12, 13, None)


@pytest.mark.parametrize("version", [0, -1, 12])
def test_an_unknown_version_of_an_assignment_is_refused(version: int) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_assignment_info(enc.int32(version) + bytes(40))
    assert refused.value.reason is DecodeReason.UNKNOWN_VALUE_VERSION


def test_no_planned_rebalance_is_none_and_at_once_is_zero() -> None:
    content = WRITTEN["assignment-7"]
    assert decode_assignment_info(content[:-8] + enc.int64(2**63 - 1)).next_rebalance_at_ms is None
    assert decode_assignment_info(content[:-8] + enc.int64(0)).next_rebalance_at_ms == 0


@given(st.text(max_size=20))
def test_javas_utf_comes_back(topic: str) -> None:
    standby = enc.int32(1) + enc.int32(0) + enc.int32(1) + enc.java_list([enc.java_utf(topic) + enc.int32(4)])
    read = decode_assignment_info(enc.int32(1) + enc.java_list([]) + standby)
    assert read.standby_tasks[0].partitions == ((topic, 4),)


@pytest.mark.parametrize("broken", [b"\xff", b"\xed\xa0\x80", b"\xc3"])
def test_text_that_is_not_javas_utf_is_refused(broken: bytes) -> None:
    topic = enc.uint16(len(broken)) + broken
    content = enc.int32(1) + enc.java_list([]) + enc.int32(1) + bytes(8) + enc.java_list([topic + enc.int32(4)])
    with pytest.raises(DecodeError) as refused:
        decode_assignment_info(content)
    assert (refused.value.reason, refused.value.field) == (DecodeReason.BAD_UTF8, "standbyTasks[0].partitions[0].topic")


def test_a_partition_of_a_topic_missing_in_the_dictionary_is_refused() -> None:
    content = bytearray(WRITTEN["assignment-5"])
    at = content.index(enc.java_utf("in")) - 4
    content[at + 3] = 9
    with pytest.raises(DecodeError) as refused:
        decode_assignment_info(bytes(content))
    assert refused.value.reason is DecodeReason.BAD_VALUE


def test_a_version_above_the_latest_that_its_writer_supports_is_refused() -> None:
    """Found by the differential: Kafka's `version must be between 1 and 1; was: 11`."""
    content = bytearray(WRITTEN["subscription-11"])
    content[4:8] = enc.int32(10)
    with pytest.raises(DecodeError) as refused:
        decode_subscription_info(bytes(content))
    assert (refused.value.reason, refused.value.at) == (DecodeReason.BAD_VALUE, 4)


def test_a_negative_number_of_hosts_or_of_a_names_letters_is_none() -> None:
    """Found by the differential; the bytes are those of the run."""
    no_hosts = "0000000200000001000000000000000200000001000000000000000000000000ffffffff"
    read = decode_assignment_info(bytes.fromhex(no_hosts))
    assert (read.active_tasks, read.standby_tasks) == ((task(0, 2),), (StandbyTask(task=task(0, 0), partitions=()),))
    assert read.partitions_by_host == ()
    named = enc.int32(10) + enc.int32(10) + enc.int32(1) + enc.int32(0) + enc.int32(1) + enc.int32(-5)
    assert decode_assignment_info(named + bytes(4 * 5 + 8)).active_tasks == (task(0, 1),)


@settings(max_examples=300)
@given(st.sampled_from(sorted(WRITTEN)), st.data())
def test_damaged_bytes_are_read_or_refused_and_nothing_else(name: str, data: st.DataObject) -> None:
    content = bytearray(WRITTEN[name])
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(4, len(content) - 1))] = data.draw(st.integers(0, 255))
    for read in (decode_subscription_info, decode_assignment_info):
        assert_read_or_refused(read, bytes(content))
