"""Every record type and layout: what the encoder of the tests wrote is what is read."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.records import RECORD_TYPES, decode_record
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from tests import encoders as enc
from tests.domain.records.refusals import refusal
from tests.domain.records.strategies import TEXTS, assert_says, of_layout

EXAMPLES = int(os.environ.get("EXAMPLES", "4"))
"""Per layout and property; a hundred times more by hand or in the weekly run."""

LAYOUTS = sorted(enc.VALUES)
IDS = [f"{number}-{layout}" for number, layout in LAYOUTS]
quickly = settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def a_key(record_type: int) -> bytes:
    parts: tuple[str | int, ...] = ("group é", "other")[: len(enc.key_fields(record_type))]
    return enc.record_key(record_type, *(("g", "t", 3) if record_type < 2 else parts))


def ours(layout: str) -> str | None:
    return None if layout.startswith("v") else layout


def test_the_encoder_knows_every_layout_the_decoder_knows() -> None:
    decoder = {
        (number, version, layout.since)
        for number, kind in RECORD_TYPES.items()
        for version, layouts in kind.layouts.items()
        for layout in layouts
    }
    several = {(number, since) for number, _, since in decoder if since is not None}
    assert several == {
        (number, layout)
        for number, layout in LAYOUTS
        if number > 2 and sum(1 for other, _ in LAYOUTS if other == number) > 1
    }
    assert {(number, version) for number, version, _ in decoder} == {
        (number, enc.VALUES[number, layout][0]) for number, layout in LAYOUTS
    }
    assert set(RECORD_TYPES) == {*range(24)}
    assert {number for number, _ in LAYOUTS} == {*range(24)} - {18}


@pytest.mark.parametrize(("record_type", "layout"), LAYOUTS, ids=IDS)
class TestEveryLayout:
    @quickly
    @given(data=st.data())
    def test_what_was_written_is_read(self, record_type: int, layout: str, data: st.DataObject) -> None:
        written = data.draw(of_layout(record_type, layout))
        value = enc.record_value(record_type, layout, written)
        record = decode_record(a_key(record_type), value, layout=ours(layout))
        assert record.record_type == record_type
        assert record.value_version == enc.VALUES[record_type, layout][0]
        assert_says(record.value, written, record_type)

    @quickly
    @given(data=st.data())
    def test_every_proper_prefix_is_refused_at_a_byte_of_it(
        self, record_type: int, layout: str, data: st.DataObject
    ) -> None:
        value = enc.record_value(record_type, layout, data.draw(of_layout(record_type, layout)))
        cut = data.draw(st.integers(0, len(value) - 1))
        with pytest.raises(DecodeError) as refused:
            decode_record(a_key(record_type), value[:cut], layout=ours(layout))
        assert refused.value.reason is DecodeReason.SHORT_BUFFER
        assert refused.value.part == "value"
        assert 0 <= refused.value.at <= cut

    @quickly
    @given(data=st.data(), more=st.binary(min_size=1, max_size=4))
    def test_trailing_bytes_are_refused_where_they_begin(
        self, record_type: int, layout: str, data: st.DataObject, more: bytes
    ) -> None:
        value = enc.record_value(record_type, layout, data.draw(of_layout(record_type, layout)))
        with pytest.raises(DecodeError) as refused:
            decode_record(a_key(record_type), value + more, layout=ours(layout))
        assert (refused.value.reason, refused.value.at) == (DecodeReason.TRAILING_BYTES, len(value))

    @settings(quickly, max_examples=2 * EXAMPLES)
    @given(data=st.data())
    def test_damaged_values_are_read_or_refused_and_nothing_else(
        self, record_type: int, layout: str, data: st.DataObject
    ) -> None:
        value = bytearray(enc.record_value(record_type, layout, data.draw(of_layout(record_type, layout))))
        for _ in range(data.draw(st.integers(1, 4))):
            at = data.draw(st.integers(0, len(value) - 1))
            value[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF, value[at] ^ 1]))
        refused = refusal(decode_record, a_key(record_type), bytes(value))
        assert refused is None or 0 <= refused.at <= len(value)

    def test_a_tombstone_has_a_key_and_no_value(self, record_type: int, layout: str) -> None:
        record = decode_record(a_key(record_type), None)
        assert (record.value, record.value_version) == (None, None)
        assert record.key.group_id in ("g", "group é")


@settings(max_examples=50 * EXAMPLES)
@given(st.integers(-1, 26), st.binary(max_size=40), st.one_of(st.none(), st.binary(max_size=60)))
@example(2, b"\x00\x01g", b"\x00\x03" + b"\xff" * 30)
@example(3, b"\x00\x01g", b"\x00\x00" + b"\xff" * 30)
def test_any_bytes_are_read_or_refused_and_nothing_else(number: int, key: bytes, value: bytes | None) -> None:
    refused = refusal(decode_record, enc.int16(number) + key, value)
    if refused is not None:
        assert refused.part in ("key", "value")
        assert 0 <= refused.at <= max(len(key) + 2, len(value or b""))


@given(TEXTS, TEXTS, st.integers(-(2**31), 2**31 - 1))
def test_keys_come_back(group: str, second: str, partition: int) -> None:
    for number in RECORD_TYPES:
        names = enc.key_fields(number)
        parts: tuple[Any, ...] = (group, second, partition)[: len(names)]
        key = decode_record(enc.record_key(number, *parts), None).key
        assert key.group_id == group
        if "memberId" in names:
            assert key.member_id == second  # type: ignore[union-attr]


@pytest.mark.parametrize("number", RECORD_TYPES)
def test_every_proper_prefix_of_a_key_is_refused_at_a_byte_of_it(number: int) -> None:
    key = a_key(number)
    for cut in range(len(key)):
        with pytest.raises(DecodeError) as refused:
            decode_record(key[:cut], None)
        assert (refused.value.reason, refused.value.part) == (DecodeReason.SHORT_BUFFER, "key")
        assert 0 <= refused.value.at <= cut
    with pytest.raises(DecodeError) as refused:
        decode_record(key + b"x", None)
    assert (refused.value.reason, refused.value.at) == (DecodeReason.TRAILING_BYTES, len(key))
