from __future__ import annotations

import gzip
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.segments import read_segment
from rebalance_audit.domain.connect_topics import ConnectConfig, ConnectStatus
from rebalance_audit.domain.decode import Commit, Decoded, Skipped, decode_source, detail, source_kind
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, SourceRecord
from rebalance_audit.domain.records import GroupMetadataValue
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.domain.records.refusals import refusal

GOLDEN = Path(__file__).parents[1] / "golden"
OFFSETS = "__consumer_offsets"


def a_record(key: bytes | None, value: bytes | None, topic: str = OFFSETS, **more: Any) -> SourceRecord:
    place = {"cluster_id": "lab", "topic": topic, "partition": 7, "offset": 11, "timestamp_ms": 1_795_276_800_123}
    return SourceRecord(**{**place, "key": key, "value": value, **more})


def test_an_offset_commit() -> None:
    value = enc.offset_commit_value(42, 1_795_276_800_120, version=4, topic_id="3fkd8mT0QJ-wE1lVt5v_Zw")
    assert decode_source(a_record(enc.offset_commit_key("g", "orders", 3), value)) == Commit(
        group_id="g",
        topic="orders",
        partition=3,
        ref="record:__consumer_offsets-7@11",
        at_ms=1_795_276_800_123,
        offsets_topic=OFFSETS,
        offsets_partition=7,
        offset=11,
        is_tombstone=False,
        committed_offset=42,
        topic_id="3fkd8mT0QJ-wE1lVt5v_Zw",
        is_transactional=False,
    )


def test_a_deleted_offset_is_a_commit_that_is_a_tombstone() -> None:
    decoded = decode_source(a_record(enc.offset_commit_key("g", "orders", 3), None, is_transactional=True))
    assert isinstance(decoded, Commit)
    assert (decoded.is_tombstone, decoded.committed_offset, decoded.is_transactional) == (True, None, True)


@pytest.mark.parametrize("value", [None, enc.group_metadata_value(3)])
def test_a_group_record_and_its_tombstone_stay_at_their_place(value: bytes | None) -> None:
    decoded = decode_source(a_record(enc.group_metadata_key("g"), value))
    assert isinstance(decoded, GroupRecord)
    assert (decoded.ref, decoded.partition, decoded.offset) == ("record:__consumer_offsets-7@11", 7, 11)
    assert decoded.record.key.group_id == "g"
    assert (decoded.record.value is None) == (value is None)


def test_connect_topics_are_known_by_their_keys() -> None:
    status = decode_source(a_record(b"status-task-a-0", b'{"state":"RUNNING"}', "my-status"))
    config = decode_source(a_record(b"commit-a", b'{"tasks":2}', "my-configs"))
    assert isinstance(status, ConnectRecord)
    assert isinstance(status.record, ConnectStatus)
    assert isinstance(config, ConnectRecord)
    assert isinstance(config.record, ConnectConfig)
    assert config.ref == "record:my-configs-7@11"


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (a_record(b"\x00\x00\x00\x01", bytes(6), is_control=True), "control"),
        (a_record(b"status-topic-t:connector-a", b'{"topic":{}}', "s"), "status-topic"),
        (a_record(b'["a",{"file":"x"}]', b'{"position":1}', "o"), "connect-offset"),
    ],
)
def test_what_nobody_needs_is_skipped_by_name(record: SourceRecord, kind: str) -> None:
    decoded = decode_source(record)
    assert isinstance(decoded, Skipped)
    assert decoded.kind == kind
    assert decoded.why


@pytest.mark.parametrize(
    ("record", "reason", "part"),
    [
        (a_record(None, b""), DecodeReason.NULL_NOT_ALLOWED, "key"),
        (a_record(b"", None), DecodeReason.SHORT_BUFFER, "key"),
        (a_record(enc.int16(24) + enc.string("g"), None), DecodeReason.UNKNOWN_RECORD_TYPE, "key"),
        (a_record(enc.group_metadata_key("g"), enc.int16(5)), DecodeReason.UNKNOWN_VALUE_VERSION, "value"),
        (a_record(enc.group_metadata_key("g"), b"\x00"), DecodeReason.SHORT_BUFFER, "value"),
        (a_record(None, b"{}", "connect-status"), DecodeReason.NULL_NOT_ALLOWED, "key"),
        (a_record(b"hello", b"{}", "connect-status"), DecodeReason.UNKNOWN_RECORD_TYPE, "key"),
    ],
)
def test_what_cannot_be_read_is_refused(record: SourceRecord, reason: DecodeReason, part: str) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_source(record)
    assert (refused.value.reason, refused.value.part) == (reason, part)


@pytest.mark.parametrize(
    ("record", "kind"),
    [
        (a_record(enc.group_metadata_key("g"), b"broken"), "GroupMetadata"),
        (a_record(enc.int16(1), None), "OffsetCommit"),
        (a_record(enc.int16(99), None), "unknown"),
        (a_record(None, None), "unknown"),
        (a_record(b"status-task-a-0", b"broken", "s"), "status"),
        (a_record(b"session-key", None, "c"), "config"),
        (a_record(b"hello", None, "c"), "unknown"),
        (a_record(b"", b"", is_control=True), "control"),
    ],
)
def test_the_books_have_a_name_for_every_record(record: SourceRecord, kind: str) -> None:
    assert source_kind(record) == kind


@settings(max_examples=300)
@given(
    st.one_of(st.none(), st.binary(max_size=30)),
    st.one_of(st.none(), st.binary(max_size=50)),
    st.sampled_from([OFFSETS, "connect-configs"]),
    st.booleans(),
)
def test_any_record_is_decoded_skipped_or_refused(
    key: bytes | None, value: bytes | None, topic: str, is_control: bool
) -> None:
    record = a_record(key, value, topic, is_control=is_control)
    assert source_kind(record)
    refused = refusal(decode_source, record)
    if refused is None:
        assert json.dumps(detail(decode_source(record)))
    else:
        assert refused.part in ("key", "value")


class TestDetail:
    def of_group(self, protocol_type: str, protocol: str, subscription: bytes, assignment: bytes) -> Any:
        member = enc.classic_member("m", subscription=subscription, assignment=assignment)
        value = enc.group_metadata_value(1, [member], protocol_type=protocol_type, protocol=protocol, leader="m")
        shown = detail(decode_source(a_record(enc.group_metadata_key("g"), value)))
        json.dumps(shown)
        assert shown["key"] == {"group": "g"}
        return shown["value"]["members"][0]

    def test_a_consumer(self) -> None:
        subscription = enc.consumer_subscription(["t"], user_data=enc.sticky_user_data({"t": [1]}, 4), version=1)
        member = self.of_group("consumer", "sticky", subscription, enc.consumer_assignment({"t": [0, 1]}))
        assert member["subscription"]["topics"] == ["t"]
        assert member["subscription"]["user_data"] == {"previous_assignment": [["t", 1]], "generation": 4}
        assert member["assignment"]["partitions"] == [["t", 0], ["t", 1]]

    def test_a_connect_worker(self) -> None:
        state = enc.connect_worker_state("http://h:8083/", 3, enc.connect_assignment({"a": [-1]}))
        member = self.of_group("connect", "sessioned", state, enc.connect_assignment({"a": [0]}, {"b": [1]}))
        assert member["subscription"]["url"] == "http://h:8083/"
        assert member["subscription"]["allocation"]["assigned"] == [{"connector": "a", "task": None}]
        assert member["assignment"]["revoked"] == [{"connector": "b", "task": 1}]

    def test_nothing_assigned_is_null_and_not_an_empty_assignment(self) -> None:
        assert self.of_group("consumer", "range", enc.consumer_subscription([]), b"")["assignment"] is None

    def test_bytes_nobody_knows_are_base64(self) -> None:
        member = self.of_group("mine", "p", b"\x00\x01", b"\xff")
        assert (member["subscription"], member["assignment"]) == ("AAE=", "/w==")

    def test_one_members_broken_bytes_do_not_hide_the_record(self) -> None:
        member = self.of_group("consumer", "range", b"\x00", enc.consumer_assignment({"t": [0]}))
        assert member["subscription"] == {
            "undecoded": "short_buffer at byte 0 of the subscription, field version",
            "bytes": "AA==",
        }
        assert member["assignment"]["partitions"] == [["t", 0]]

    def test_broken_user_data_are_said_and_kept(self) -> None:
        subscription = enc.consumer_subscription(["t"], user_data=b"\x01")
        shown = self.of_group("consumer", "cooperative-sticky", subscription, b"")["subscription"]
        assert shown["user_data"] == "AQ=="
        assert "short_buffer" in shown["user_data_undecoded"]

    def test_new_groups_say_their_layout(self) -> None:
        value = enc.record_value(7, "3.8", {"TopicPartitions": [{"TopicId": "A" * 22, "Partitions": [1]}]})
        shown = detail(decode_source(a_record(enc.record_key(7, "g", "m"), value)))
        assert shown == {
            "record": "ConsumerGroupTargetAssignmentMember",
            "type": 7,
            "version": 0,
            "layout": "3.8",
            "key": {"group_id": "g", "member_id": "m"},
            "value": {
                "topic_partitions": [{"topic_id": "A" * 22, "partitions": [1], "assignment_epochs": None}],
                "error": None,
                "metadata_version": None,
                "metadata_bytes": None,
            },
        }


SCENARIOS = sorted({path.parents[2] for path in GOLDEN.glob("*/*/data/*/__consumer_offsets-*")})


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda p: f"{p.parent.name}-{p.name}")
def test_every_captured_record_of_every_scenario_is_understood(scenario: Path) -> None:
    kinds: Counter[str] = Counter()
    malformed = clients_with_malformed_subscriptions(scenario)
    for segment in sorted(scenario.glob("data/*/*/*.log.gz")):
        topic, _, partition = segment.parent.name.rpartition("-")
        if topic == "__cluster_metadata":
            continue
        for batch in read_segment(segment):
            assert isinstance(batch, list), batch
            for offset, at_ms, key, value, _, _, _, _, is_transactional, is_control, *_ in batch:
                record = a_record(
                    key,
                    value,
                    topic,
                    partition=int(partition),
                    offset=offset,
                    timestamp_ms=at_ms,
                    is_control=bool(is_control),
                    is_transactional=bool(is_transactional),
                )
                decoded: Decoded = decode_source(record)
                assert_embedded_bytes_are_understood(decoded, malformed)
                kinds[source_kind(record)] += 1
    assert kinds["unknown"] == 0
    assert kinds.total() > 0


def clients_with_malformed_subscriptions(scenario: Path) -> set[str]:
    """kafka-go says version 1 and leaves the array of owned partitions out (docs/clients.md); those of `unread-app` end
    before their second topic."""
    described = json.loads((scenario / "truth/scenario.json").read_text())
    return {c["client_id"] for c in described["clients"] if c["library"] == "kafka-go" or c["group"] == "unread-app"}


def assert_embedded_bytes_are_understood(decoded: Decoded, malformed: set[str]) -> None:
    shown = detail(decoded)
    if isinstance(decoded, GroupRecord) and isinstance(decoded.record.value, GroupMetadataValue):
        for member in shown["value"]["members"]:
            if member["client_id"] in malformed:
                del member["subscription"]
    assert "undecoded" not in json.dumps(shown)
    if isinstance(decoded, GroupRecord) and isinstance(decoded.record.value, GroupMetadataValue):
        for member in decoded.record.value.members:
            assert member.client_host.startswith("/")


def test_golden_scenarios_are_there() -> None:
    assert {path.name for path in SCENARIOS} >= {"eager_join_leave_kill"}
    for path in SCENARIOS:
        for segment in path.glob("data/*/*/*.log.gz"):
            assert gzip.decompress(segment.read_bytes())
