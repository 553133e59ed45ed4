"""Our decoders beside Kafka's classes of three releases.

`make test-differential` runs a million cases, `make differential` ten.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from rebalance_audit.domain.records import decode_record
from rebalance_audit.domain.records.registry import RECORD_TYPES
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.differential.__main__ import run_captured, run_in
from tests.differential.comparison import RELEASES as KNOWN
from tests.differential.comparison import compare
from tests.differential.counted import LINES
from tests.differential.oracle import RELEASES, Case, Kind, Oracle
from tests.differential.tally import Tally

pytestmark = pytest.mark.differential

CASES = int(os.environ.get("DIFFERENTIAL_CASES", "50000"))
SEED = int(os.environ.get("DIFFERENTIAL_SEED", "1"))
PROCESSES = int(os.environ.get("DIFFERENTIAL_PROCESSES", "2"))


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    with Oracle() as each:
        yield each


def assert_no_disagreement(tally: Tally) -> None:
    LINES.append(str(tally))
    assert not tally.disagreements, "\n".join(str(each) for each in tally.disagreements[:5])


REFUSED_OF_CAPTURES = {
    "kafka-go's subscription leaves the owned partitions out that its version has, of three topics": 3,
    "one of `foreign_assignors` ends inside a topic's name": 1,
    "records of KIP-848 as 3.7 and 3.8 wrote them early, which no later release reads": 28,
}
"""What no release reads of the captures, nor do we."""


def test_captured_records_are_read_as_kafka_reads_them() -> None:
    tally = run_captured()
    assert_no_disagreement(tally)
    assert tally.cases > 1_000
    assert tally.refused == sum(REFUSED_OF_CAPTURES.values()) * len(KNOWN)
    assert tally.accepted == tally.comparisons - tally.refused


def test_generated_and_damaged_records_are_read_or_refused_as_kafka_does() -> None:
    tally = run_in(PROCESSES, CASES, SEED)
    assert_no_disagreement(tally)
    assert tally.cases == CASES // PROCESSES * PROCESSES
    assert min(tally.accepted, tally.refused) > CASES // 2
    if CASES >= 50_000:
        assert tally.seen == set(everything_a_release_reads())


def everything_a_release_reads() -> Iterator[tuple[str, int, int]]:
    for name, release in KNOWN.items():
        for number in release.types:
            versions = release.reads_legacy_commits_of if number == 0 else RECORD_TYPES[number].layouts
            yield from ((name, number, version) for version in versions)


# Every disagreement that was found, and what became of it

A_KEY = enc.record_key(2, "g")
TAGS_IN_ANY_ORDER = enc.uvarint(2) + enc.uvarint(7) + b"\x01a" + enc.uvarint(3) + b"\x01b"
TAG_TWICE = enc.uvarint(2) + enc.uvarint(0) + b"\x08" + enc.int64(1) + enc.uvarint(0) + b"\x08" + enc.int64(2)
MEMBER: dict[str, Any] = {
    "InstanceId": None,
    "RackId": None,
    "ClientId": "c",
    "ClientHost": "/h",
    "RebalanceTimeoutMs": 1,
    "TopologyEpoch": 0,
    "ProcessId": "p",
    "UserEndpoint": {"Host": "h", "Port": 1},
    "ClientTags": [],
}


def changed(content: bytes, old: bytes, new: bytes) -> bytes:
    assert content.count(old) == 1
    return content.replace(old, new)


GROUP = {"ProtocolType": "p", "Generation": 1, "Protocol": None, "Leader": None, "CurrentStateTimestamp": 5}
FOUND = {
    "tagged fields in any order": (enc.record_key(3, "g"), enc.int16(0) + enc.int32(1) + TAGS_IN_ANY_ORDER),
    "a tagged field twice": (enc.record_key(3, "g"), enc.int16(0) + enc.int32(1) + TAG_TWICE),
    "a known tagged field with a size too small": (
        enc.record_key(3, "g"),
        enc.int16(0) + enc.int32(1) + b"\x01\x00\x03" + enc.int64(9),
    ),
    "a known tagged field with a size too large": (
        enc.record_key(3, "g"),
        enc.int16(0) + enc.int32(1) + b"\x01\x00\x63" + enc.int64(9),
    ),
    "a negative number of tagged fields": (
        enc.record_key(3, "g"),
        enc.int16(0) + enc.int32(1) + b"\xff\xff\xff\xff\x0f",
    ),
    "a nullable text of length -3": (
        A_KEY,
        changed(
            enc.record_value(2, "v2", {**GROUP, "Leader": "x" * 9, "Members": []}), b"\x00\x09" + b"x" * 9, b"\xff\xfd"
        ),
    ),
    "a nullable compact text whose length is negative as an int": (
        A_KEY,
        changed(
            enc.record_value(2, "v4", {**GROUP, "Leader": "x" * 9, "Members": []}),
            b"\x0a" + b"x" * 9,
            b"\x81\x80\x80\x80\x08",
        ),
    ),
    "a length with bits beyond the 32nd": (
        A_KEY,
        changed(
            enc.record_value(2, "v4", {**GROUP, "Leader": "xx", "Members": []}), b"\x03xx", b"\x83\x80\x80\x80\x10xx"
        ),
    ),
    "a compact text of more than 32767 bytes": (
        A_KEY,
        enc.record_value(2, "v4", {**GROUP, "ProtocolType": "x" * 32_768, "Members": []}),
    ),
    "a compact text of 32767 bytes": (
        A_KEY,
        enc.record_value(2, "v4", {**GROUP, "ProtocolType": "x" * 32_767, "Members": []}),
    ),
    "a nullable struct after another byte than 1": (
        enc.record_key(19, "g", "m"),
        changed(enc.record_value(19, "4.1", MEMBER), b"\x01\x02h\x00\x01", b"\x05\x02h\x00\x01"),
    ),
    "a null struct written as another negative byte than -1": (
        enc.record_key(19, "g", "m"),
        changed(enc.record_value(19, "4.1", MEMBER), b"\x01\x02h\x00\x01\x00", b"\x80"),
    ),
}


@pytest.mark.parametrize("what", FOUND)
def test_a_record_that_was_read_otherwise_once_is_read_as_kafka_reads_it(oracle: Oracle, what: str) -> None:
    tally, case = Tally(), Case(Kind.RECORD, *FOUND[what])
    compare(case, oracle.ask([case])[0], RELEASES, tally)
    assert not tally.disagreements, str(tally.disagreements[0])
    assert tally.comparisons


EMBEDDED = {
    "an empty rack": (Kind.CONSUMER_SUBSCRIPTION, enc.consumer_subscription(["t"], rack_id="")),
    "generation -2": (Kind.CONSUMER_SUBSCRIPTION, enc.consumer_subscription(["t"], generation_id=-2)),
    "user data of length -3": (Kind.CONSUMER_ASSIGNMENT, enc.consumer_assignment({})[:-4] + enc.int32(-3)),
    "an allocation with header 0": (
        Kind.COOPERATIVE_WORKER_STATE,
        enc.connect_worker_state("u", 1, enc.int16(0) + enc.connect_assignment(None, {"c": [1]})[2:]),
    ),
    "an allocation of length -3": (
        Kind.COOPERATIVE_WORKER_STATE,
        enc.connect_worker_state("u", 1)[:-4] + enc.int32(-3),
    ),
    "nothing after the config offset": (Kind.COOPERATIVE_WORKER_STATE, enc.connect_worker_state("u", 1)[:-4]),
}


@pytest.mark.parametrize("what", EMBEDDED)
def test_embedded_bytes_that_were_read_otherwise_once_are_read_as_kafka_reads_them(oracle: Oracle, what: str) -> None:
    kind, data = EMBEDDED[what]
    tally, case = Tally(), Case(kind, None, data)
    compare(case, oracle.ask([case])[0], RELEASES, tally)
    assert not tally.disagreements, str(tally.disagreements[0])
    assert tally.comparisons == len(RELEASES)


# Where we differ on purpose: README.md has the reasons

COMMIT = enc.offset_commit_key("g", "t", 1), enc.offset_commit_value(1, 2, metadata="é")
REFUSED_BY_US = {
    DecodeReason.TRAILING_BYTES: [(COMMIT[0], COMMIT[1] + b"x"), (COMMIT[0] + b"x", COMMIT[1])],
    DecodeReason.BAD_UTF8: [(COMMIT[0], COMMIT[1].replace(b"\xc3\xa9", b"\xed\xa0"))],
}


@pytest.mark.parametrize("reason", REFUSED_BY_US)
def test_two_things_kafka_tolerates_are_refused_by_us(oracle: Oracle, reason: DecodeReason) -> None:
    for key, value in REFUSED_BY_US[reason]:
        answers = oracle.ask([Case(Kind.RECORD, key, value)])[0]
        assert all(isinstance(answer, dict) for answer in answers)
        with pytest.raises(DecodeError) as refused:
            decode_record(key, value)
        assert refused.value.reason is reason


def test_legacy_commits_of_later_versions_are_read_by_us_and_by_kafka_before_4_1_alone(oracle: Oracle) -> None:
    key, value = enc.record_key(0, "g", "t", 1), enc.offset_commit_value(1, 2, version=1)
    newest, older, oldest = oracle.ask([Case(Kind.RECORD, key, value)])[0]
    assert isinstance(newest, str)
    assert isinstance(older, str)
    assert isinstance(oldest, dict)
    assert decode_record(key, value).value_version == 1


def test_a_value_version_that_no_schema_has_is_refused_by_us_and_by_kafka_since_4_1(oracle: Oracle) -> None:
    key, value = enc.offset_commit_key("g", "t", 1), enc.int16(9) + enc.offset_commit_value(1, 2, version=4)[2:]
    newest, older, oldest = oracle.ask([Case(Kind.RECORD, key, value)])[0]
    assert isinstance(newest, str)
    assert isinstance(older, str)
    assert isinstance(oldest, dict)
    with pytest.raises(DecodeError):
        decode_record(key, value)


def test_a_list_that_is_not_there_is_none_for_us_and_empty_for_kafka(oracle: Oracle) -> None:
    value = enc.int16(0) + enc.int32(1) + enc.int32(0) + b"\x00" + b"\x02" + bytes(16) + b"\x01\x00" + b"\x01\x00"
    key = enc.record_key(8, "g", "m")
    newest = oracle.ask([Case(Kind.RECORD, key, value)])[0][0]
    assert isinstance(newest, dict)
    assert newest["value"]["assignedPartitions"][0]["assignmentEpochs"] == []
    read = decode_record(key, value).value
    assert read is not None
    assert read.assigned_partitions[0].assignment_epochs is None  # type: ignore[union-attr]


# The comparison itself


@pytest.mark.parametrize(
    ("spoil", "what"),
    [
        (lambda answer: answer["value"].update(offset=8), "value"),
        (lambda answer: answer["key"].update(group="h"), "key"),
        (lambda answer: answer.update(version=2), "version"),
        (lambda answer: answer.update(valueLeft=1), "version or bytes left"),
        (lambda answer: answer["value"].update({"~": [[5, ""]]}), "value"),
        (lambda answer: answer["value"].update(surprise=1), "value"),
        (lambda answer: answer["value"].update(leaderEpoch=3), "value"),
    ],
)
def test_a_difference_in_any_part_is_noticed(oracle: Oracle, spoil: object, what: str) -> None:
    case, tally = Case(Kind.RECORD, *COMMIT), Tally()
    answers = oracle.ask([case])[0][:1]
    spoil(answers[0])  # type: ignore[operator]
    compare(case, answers, RELEASES[:1], tally)
    assert [each.what.startswith(what) for each in tally.disagreements] == [True]


def test_a_refusal_by_one_side_alone_is_noticed(oracle: Oracle) -> None:
    for case, other in ((Case(Kind.RECORD, *COMMIT), "refused"), (Case(Kind.RECORD, COMMIT[0], b""), {})):
        tally = Tally()
        answer = oracle.ask([Case(Kind.RECORD, *COMMIT)])[0][0] if other == {} else other
        compare(case, [answer], RELEASES[:1], tally)
        assert len(tally.disagreements) == 1
