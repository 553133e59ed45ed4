from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.protocols.consumer_protocol import decode_assignment, decode_subscription
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.domain.records.refusals import assert_read_or_refused

NAMES = st.one_of(st.text(max_size=5), st.sampled_from(["t" * 200, "é"]))
OWNED = st.lists(
    st.tuples(NAMES, st.lists(st.integers(0, 9), max_size=3, unique=True)), max_size=3, unique_by=lambda x: x[0]
)
USER_DATA = st.one_of(st.none(), st.binary(max_size=5))


def flat(owned: list[tuple[str, list[int]]]) -> tuple[tuple[str, int], ...]:
    return tuple((topic, partition) for topic, partitions in owned for partition in partitions)


@given(
    st.integers(0, 3),
    st.lists(NAMES, max_size=3),
    USER_DATA,
    OWNED,
    st.integers(-1, 2**31 - 1),
    st.one_of(st.none(), NAMES),
)
def test_a_subscription_holds_what_its_version_has(
    version: int,
    topics: list[str],
    user_data: bytes | None,
    owned: list[tuple[str, list[int]]],
    generation_id: int,
    rack_id: str | None,
) -> None:
    data = enc.consumer_subscription(
        topics, version=version, user_data=user_data, owned=owned, generation_id=generation_id, rack_id=rack_id
    )
    read = decode_subscription(data)
    assert (read.version, read.topics, read.user_data, read.rest) == (version, tuple(topics), user_data, b"")
    assert read.owned_partitions == (flat(owned) if version >= 1 else ())
    assert read.generation_id == (generation_id if version >= 2 and generation_id >= 0 else None)
    assert read.rack_id == ((rack_id or None) if version >= 3 else None)
    for cut in range(len(data)):
        with pytest.raises(DecodeError) as refused:
            decode_subscription(data[:cut])
        assert refused.value.reason is DecodeReason.SHORT_BUFFER
        assert refused.value.part == "subscription"
        assert refused.value.at <= cut


@given(st.integers(0, 3), OWNED, USER_DATA)
def test_an_assignment_is_the_same_in_all_versions(
    version: int, partitions: list[tuple[str, list[int]]], user_data: bytes | None
) -> None:
    data = enc.consumer_assignment(partitions, version=version, user_data=user_data)
    read = decode_assignment(data)
    assert (read.version, read.partitions, read.user_data) == (version, flat(partitions), user_data)
    for cut in range(len(data)):
        with pytest.raises(DecodeError) as refused:
            decode_assignment(data[:cut])
        assert refused.value.part == "assignment"


def test_a_newer_version_is_read_as_the_newest_known_and_its_rest_kept() -> None:
    data = enc.consumer_subscription(["a"], version=3, owned={"a": [1]}, generation_id=4, rack_id="r")
    newer = decode_subscription(enc.int16(9) + data[2:] + b"\x00\x07")
    assert (newer.version, newer.generation_id, newer.rack_id, newer.rest) == (9, 4, "r", b"\x00\x07")


@pytest.mark.parametrize("read", [decode_subscription, decode_assignment])
def test_a_version_below_zero_is_refused(read: object) -> None:
    with pytest.raises(DecodeError) as refused:
        read(enc.int16(-1) + bytes(20))  # type: ignore[operator]
    assert (refused.value.reason, refused.value.at) == (DecodeReason.UNKNOWN_VALUE_VERSION, 0)


def test_a_topic_that_comes_twice_is_merged() -> None:
    read = decode_assignment(enc.consumer_assignment([("a", [2, 0]), ("b", [1]), ("a", [0, 3])]))
    assert read.partitions == (("a", 2), ("a", 0), ("b", 1), ("a", 3))


def test_an_assignment_of_no_partitions_is_ten_bytes() -> None:
    assert enc.consumer_assignment({}).hex() == "0003" + "00000000" + "ffffffff"
    assert decode_assignment(enc.consumer_assignment({})).partitions == ()


@settings(max_examples=200)
@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_and_nothing_else(data: bytes) -> None:
    for read in (decode_subscription, decode_assignment):
        assert_read_or_refused(read, data)
