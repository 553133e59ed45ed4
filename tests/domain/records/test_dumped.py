"""Captured segments: what we read is what Kafka's own dump tool says (saved by dump_golden.py).

The tool shows what a consumer subscribed to and was assigned as JSON, and any other protocol's bytes in base64.
"""

from __future__ import annotations

import json
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from ingest.segments import read_segment
from rebalance_audit.domain.protocols import consumer_protocol
from rebalance_audit.domain.records import CoordinatorRecord, GroupMetadataValue, decode_record
from tests.domain.records.strategies import assert_says
from tests.domain.records.test_kafka_written import upstream

GOLDEN = Path(__file__).parents[2] / "golden"
DUMPED = sorted((Path(__file__).parent / "dumped").glob("*.jsonl"))


def read_all(segment: Path) -> dict[int, tuple[int, CoordinatorRecord]]:
    rows = {}
    for batch in read_segment(segment):
        assert isinstance(batch, list), batch
        for offset, at_ms, key, value, *_ in batch:
            rows[offset] = at_ms, decode_record(key, value)
    return rows


def topic_partitions(dumped: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["topic"], partition) for each in dumped for partition in each["partitions"]]


def assert_members_say(value: GroupMetadataValue, dumped: list[dict[str, Any]]) -> None:
    """What the members put in, taken out of `dumped`."""
    for member, shown in zip(value.members, dumped, strict=True):
        subscription, assignment = shown.pop("subscription"), shown.pop("assignment")
        if value.protocol_type != "consumer":
            assert (member.subscription, member.assignment) == (b64decode(subscription), b64decode(assignment))
        else:
            read = consumer_protocol.decode_subscription(member.subscription)
            assert list(read.topics) == subscription["topics"]
            assert list(read.owned_partitions) == topic_partitions(subscription.get("ownedPartitions", []))
            generation_id = subscription.get("generationId", -1)
            assert read.generation_id == (None if generation_id == -1 else generation_id)
            assert read.user_data == (None if subscription["userData"] is None else b64decode(subscription["userData"]))
            assert read.rest == b""
            given = consumer_protocol.decode_assignment(member.assignment)
            assert list(given.partitions) == topic_partitions(assignment["assignedPartitions"])
        shown["subscription"], shown["assignment"] = member.subscription, member.assignment


@pytest.mark.parametrize("path", DUMPED, ids=[path.stem for path in DUMPED])
def test_every_captured_record_says_what_kafkas_dump_tool_says(path: Path) -> None:
    kafka, scenario = path.stem.split("_", 1)
    dumped = [json.loads(line) for line in path.read_text().splitlines()]
    assert dumped
    segments = {name: read_all(GOLDEN / kafka / scenario / name) for name in {each["segment"] for each in dumped}}
    for each in dumped:
        at_ms, record = segments[each["segment"]][each["offset"]]
        number = int(each["key"]["type"])
        assert (at_ms, record.record_type) == (each["at_ms"], number)
        assert_says(record.key, upstream(each["key"]["data"], is_text=True), number)
        if each["value"] is None:
            assert record.value is None
            continue
        assert record.value_version == int(each["value"]["version"])
        content = each["value"]["data"]
        if isinstance(record.value, GroupMetadataValue):
            assert_members_say(record.value, content["members"])
        assert_says(record.value, upstream(content, is_text=True), number)


def test_the_captures_hold_classic_and_new_records_commits_and_tombstones() -> None:
    seen = set()
    for path in DUMPED:
        for line in path.read_text().splitlines():
            each = json.loads(line)
            seen.add((int(each["key"]["type"]), None if each["value"] is None else int(each["value"]["version"])))
    assert {(1, 3), (1, 4), (2, 3), (3, 0), (5, 0), (6, 0), (7, 0), (8, 0), (5, None), (7, None), (8, None)} <= seen
