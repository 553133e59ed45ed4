"""Whatever the format can say is read back as it was written; whatever is cut short is refused."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.metadata import decode_metadata, redact_metadata
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests.domain.metadata.dumped_form import as_dumped, holds
from tests.domain.metadata.encoder import _STRUCTS, LAYOUTS, record, topic_id
from tests.encoders import uvarint

_LIMITS = {"int8": 1 << 7, "int16": 1 << 15, "int32": 1 << 31, "int64": 1 << 63}


def a_value(kind: str) -> st.SearchStrategy[Any]:
    if kind.startswith("[]"):
        return st.lists(a_value(kind[2:]), max_size=200 if kind == "[]int32" else 3)
    if kind in _STRUCTS:
        return st.fixed_dictionaries({name: a_value(inner) for name, inner in _STRUCTS[kind]})
    if kind in _LIMITS:
        return st.integers(-_LIMITS[kind], _LIMITS[kind] - 1)
    text = st.text(st.characters(codec="utf-8"), max_size=200)
    return {
        "bool": st.booleans(),
        "uint16": st.integers(0, 65_535),
        "uuid": st.integers(0, (1 << 128) - 1).map(topic_id),
        "string": text,
        "string?": st.none() | text,
    }[kind]


@st.composite
def content_of(draw: st.DrawFn, number: int, version: int) -> dict[str, Any]:
    plain, tags = LAYOUTS[number, version]
    content = {name: draw(a_value(kind)) for name, kind in plain}
    return content | {name: draw(a_value(kind)) for name, kind in tags.values() if draw(st.booleans())}


@st.composite
def records(draw: st.DrawFn) -> tuple[int, int, dict[str, Any]]:
    number, version = draw(st.sampled_from(sorted(LAYOUTS)))
    return number, version, draw(content_of(number, version))


@given(records())
@settings(max_examples=120)
def test_a_record_is_read_back_as_it_was_written(story: tuple[int, int, dict[str, Any]]) -> None:
    number, version, content = story
    read = decode_metadata(record(number, version, content))
    assert (read.record_type, read.version) == (number, version)
    assert holds(as_dumped(read.value), content)


@given(records(), st.integers(40, 1000), st.binary(max_size=20))
@settings(max_examples=60)
def test_tags_of_a_later_release_are_kept_and_harm_nothing(
    story: tuple[int, int, dict[str, Any]], tag: int, content: bytes
) -> None:
    number, version, fields = story
    read = decode_metadata(record(number, version, fields, unknown_tags={tag: content}))
    assert (tag, content) in read.value.unknown_tags
    assert holds(as_dumped(read.value), fields)


@pytest.mark.parametrize(("number", "version"), sorted(LAYOUTS))
@given(data=st.data())
@settings(max_examples=4)
def test_every_proper_prefix_and_what_follows_is_refused_at_its_byte(
    number: int, version: int, data: st.DataObject
) -> None:
    whole = record(number, version, data.draw(content_of(number, version)))
    for cut in {0, 1, 2, 3, len(whole) - 1, data.draw(st.integers(0, len(whole) - 1))}:
        if cut < len(whole):
            with pytest.raises(DecodeError) as refused:
                decode_metadata(whole[:cut])
            assert refused.value.reason is DecodeReason.SHORT_BUFFER
            assert 0 <= refused.value.at <= cut
    with pytest.raises(DecodeError) as refused:
        decode_metadata(whole + b"x")
    assert refused.value.at >= len(whole)
    if number != 12:  # whose layout to 3.2 would go on for longer
        assert (refused.value.reason, refused.value.at) == (DecodeReason.TRAILING_BYTES, len(whole))


@pytest.mark.parametrize(("number", "version"), sorted(LAYOUTS))
@given(data=st.data())
@settings(max_examples=2)
def test_every_layout_is_read_back_with_the_tags_of_a_later_release(
    number: int, version: int, data: st.DataObject
) -> None:
    content = data.draw(content_of(number, version))
    read = decode_metadata(record(number, version, content, unknown_tags={999: b"later"}))
    assert holds(as_dumped(read.value), content)
    assert (999, b"later") in read.value.unknown_tags


@pytest.mark.parametrize("count", [1 << 20, (1 << 31) - 1])
def test_a_count_greater_than_the_bytes_left_allocates_nothing(count: int) -> None:
    head = b"\x01\x03\x02" + bytes(4) + bytes(16)  # a partition's id and topic, then its replicas
    tracemalloc.start()
    with pytest.raises(DecodeError) as refused:
        decode_metadata(head + uvarint(count + 1) + bytes(8))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert refused.value.reason is DecodeReason.SHORT_BUFFER
    assert peak < 20_000


@given(st.binary(max_size=200))
@settings(max_examples=500)
def test_any_bytes_are_read_or_refused_and_never_break(content: bytes) -> None:
    for value in (content, b"\x01" + content, b"\x01\x05\x00" + content, b"\x01\x03\x02" + content):
        with contextlib.suppress(DecodeError):
            decode_metadata(value)
        redact_metadata(value)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\x00\x05\x00", DecodeReason.UNKNOWN_VALUE_VERSION),
        (b"\x01\x7e\x00\x00", DecodeReason.UNKNOWN_RECORD_TYPE),
        (b"\x01\x05\x03\x00", DecodeReason.UNKNOWN_VALUE_VERSION),
        (b"\x01\x14\x00\x00\x00", DecodeReason.TRAILING_BYTES),
        (None, DecodeReason.SHORT_BUFFER),
    ],
    ids=["frame of 2.8", "type of a later release", "version of a later release", "trailing byte", "null"],
)
def test_what_is_not_of_this_format_is_refused_with_its_reason(value: bytes | None, reason: DecodeReason) -> None:
    with pytest.raises(DecodeError) as refused:
        decode_metadata(value)
    assert refused.value.reason is reason


def test_a_feature_level_of_kafka_3_2_is_distinguished_from_a_later_one() -> None:
    old = b"\x01\x0c\x00" + b"\x11metadata.version" + b"\x00\x01" + b"\x00\x05" + b"\x00"
    level = decode_metadata(old).value
    assert (level.min_feature_level, level.feature_level) == (1, 5)
    new = decode_metadata(record(12, 0, {"name": "metadata.version", "featureLevel": 25})).value
    assert (new.min_feature_level, new.feature_level) == (None, 25)


SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    "value",
    [
        record(4, 0, {"resourceType": 4, "resourceName": "1", "name": "ssl.keystore.password", "value": SECRET}),
        record(4, 0, {"resourceType": 2, "resourceName": "t", "name": "x" * 200, "value": SECRET}),
        b"\x01\x0b\x00" + SECRET.encode(),
        b"\x01\x0a\x00" + SECRET.encode(),
        b"\x01\x63\x00" + SECRET.encode(),
        b"\x01\x04\x00" + SECRET.encode(),
        b"\x00" + SECRET.encode(),
    ],
    ids=["config", "config with a long name", "scram", "token", "unknown type", "undecodable config", "other frame"],
)
def test_secrets_do_not_survive(value: bytes) -> None:
    kept = redact_metadata(value)
    assert kept is not None
    assert SECRET.encode() not in kept
    assert redact_metadata(kept) == kept


def test_what_is_no_secret_is_kept_to_the_byte() -> None:
    throttle = record(
        4, 0, {"resourceType": 4, "resourceName": "1", "name": "leader.replication.throttled.rate", "value": "700000"}
    )
    removed = record(4, 0, {"resourceType": 4, "resourceName": "1", "name": "ssl.keystore.password", "value": None})
    change = record(5, 2, {"partitionId": 3, "topicId": topic_id(7), "isr": [1, 2], "leader": 1})
    for value in (throttle, removed, change, record(20, 0, {})):
        assert redact_metadata(value) == value


def test_a_redacted_setting_still_shows_its_name() -> None:
    hidden = redact_metadata(
        record(4, 0, {"resourceType": 4, "resourceName": "1", "name": "sasl.jaas.config", "value": SECRET})
    )
    config = decode_metadata(hidden).value
    assert (config.name, config.value, config.resource_name) == ("sasl.jaas.config", "***", "1")
