from __future__ import annotations

import pickle
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.wire import DecodeError, DecodeReason, Reader
from tests import encoders as enc


def refused(read: object, *args: object) -> DecodeError:
    with pytest.raises(DecodeError) as caught:
        read(*args)  # type: ignore[operator]
    return caught.value


@pytest.mark.parametrize(
    ("method", "content", "expected"),
    [
        ("int8", b"\xff", -1),
        ("int8", b"\x80", -128),
        ("int16", b"\x80\x00", -32768),
        ("uint16", b"\xff\xff", 65535),
        ("int32", b"\x00\x00\x01\x00", 256),
        ("int32", b"\xff\xff\xff\xfe", -2),
        ("int64", b"\x7f" + b"\xff" * 7, 2**63 - 1),
        ("uvarint", b"\x00", 0),
        ("uvarint", b"\x7f", 127),
        ("uvarint", b"\x80\x01", 128),
        ("uvarint", b"\xac\x02", 300),
        ("uvarint", b"\xff\xff\xff\xff\x0f", 2**32 - 1),
        ("uvarint", b"\xff\xff\xff\xff\x1f", 2**32 - 1),  # Kafka drops what does not fit into 32 bits
        ("uuid", bytes(16), "AAAAAAAAAAAAAAAAAAAAAA"),
        ("uuid", b"\xfb" + bytes(14) + b"\xff", "-wAAAAAAAAAAAAAAAAAA_w"),
    ],
)
def test_a_number_is_what_the_format_says(method: str, content: bytes, expected: object) -> None:
    reader = Reader(content)
    assert getattr(reader, method)("f") == expected
    assert reader.remaining == 0


@pytest.mark.parametrize(
    ("method", "flexible", "content", "expected"),
    [
        ("string", False, b"\x00\x02ab", "ab"),
        ("string", False, b"\x00\x00", ""),
        ("nullable_string", False, b"\xff\xff", None),
        ("nullable_string", False, b"\x00\x00", ""),
        ("string", True, b"\x03ab", "ab"),
        ("string", True, b"\x01", ""),
        ("nullable_string", True, b"\x00", None),
        ("nullable_bytes", False, b"\xff\xff\xff\xff", None),
        ("nullable_bytes", False, b"\x00\x00\x00\x00", b""),
        ("bytes_", True, b"\x02\xff", b"\xff"),
        ("strings", False, b"\x00\x00\x00\x02\x00\x01a\x00\x01b", ("a", "b")),
        ("int32s", True, b"\x02\x00\x00\x00\x07", (7,)),
        ("int32s", True, b"\x01", ()),
        # Kafka takes any negative length for null, also one that is only negative as a Java int.
        ("nullable_string", False, b"\xff\xfe", None),
        ("nullable_bytes", False, b"\x80\x00\x00\x00", None),
        ("nullable_string", True, b"\xff\xff\xff\xff\x0f", None),
        ("nullable_bytes", True, b"\x81\x80\x80\x80\x08", None),
    ],
)
def test_null_and_empty_are_two_things(method: str, flexible: bool, content: bytes, expected: object) -> None:
    reader = Reader(content, flexible=flexible)
    assert getattr(reader, method)("f") == expected
    assert reader.remaining == 0


@pytest.mark.parametrize(
    ("method", "flexible", "content", "reason", "at"),
    [
        ("int32", False, b"\x00\x00\x00", DecodeReason.SHORT_BUFFER, 0),
        ("string", False, b"\x00\x03ab", DecodeReason.SHORT_BUFFER, 2),
        ("string", False, b"\xff\xff", DecodeReason.NULL_NOT_ALLOWED, 0),
        ("string", True, b"\x00", DecodeReason.NULL_NOT_ALLOWED, 0),
        ("string", False, b"\xff\xfe", DecodeReason.NEGATIVE_LENGTH, 0),
        ("bytes_", False, b"\x80\x00\x00\x00", DecodeReason.NEGATIVE_LENGTH, 0),
        ("string", True, b"\xff\xff\xff\xff\x0f", DecodeReason.NULL_NOT_ALLOWED, 0),
        ("string", True, b"\x81\x80\x02" + bytes(32768), DecodeReason.BAD_VALUE, 3),
        ("bytes_", True, b"\x80\x80\x80\x80\x08", DecodeReason.SHORT_BUFFER, 5),
        ("bytes_", False, b"\xff\xff\xff\xff", DecodeReason.NULL_NOT_ALLOWED, 0),
        ("int32s", False, b"\xff\xff\xff\xfe", DecodeReason.NEGATIVE_LENGTH, 0),
        ("int32s", False, b"\xff\xff\xff\xff", DecodeReason.NULL_NOT_ALLOWED, 0),
        ("string", False, b"\x00\x03a\xffb", DecodeReason.BAD_UTF8, 3),
        ("uvarint", False, b"\x80\x80\x80\x80\x80\x01", DecodeReason.VARINT_TOO_LONG, 0),
        ("uvarint", False, b"\x80\x80", DecodeReason.SHORT_BUFFER, 0),
        ("strings", False, b"\x00\x00\x00\x02\x00\x01a\x00\x05b", DecodeReason.SHORT_BUFFER, 9),
    ],
)
def test_a_refusal_names_reason_and_byte(
    method: str, flexible: bool, content: bytes, reason: DecodeReason, at: int
) -> None:
    error = refused(getattr(Reader(content, flexible=flexible), method), "f")
    assert (error.reason, error.at) == (reason, at)


def test_an_error_inside_an_array_names_the_element() -> None:
    content = enc.array([enc.string("a"), b"\xff\xff"])
    error = refused(Reader(content).strings, "topics")
    assert (error.field, error.reason) == ("topics[1]", DecodeReason.NULL_NOT_ALLOWED)


@pytest.mark.parametrize("count", [1_000, 2**31 - 1])
def test_a_count_greater_than_the_bytes_left_allocates_nothing(count: int) -> None:
    content = enc.int32(count) + bytes(8)
    tracemalloc.start()
    try:
        error = refused(Reader(content).int32s, "partitions")
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (error.reason, error.at) == (DecodeReason.SHORT_BUFFER, 4)
    assert peak_bytes < 10_000


@given(st.text(max_size=300), st.booleans())
def test_texts_come_back_whatever_their_length(text: str, flexible: bool) -> None:
    reader = Reader(enc.string(text, flexible), flexible=flexible)
    assert reader.string("f") == text
    assert reader.remaining == 0


@given(st.integers(0, 2**32 - 1))
def test_unsigned_varints_come_back(number: int) -> None:
    assert Reader(enc.uvarint(number)).uvarint("f") == number


class TestTaggedFields:
    def read(self, content: bytes) -> tuple[tuple[tuple[int, bytes], ...], list[int]]:
        known: list[int] = []
        reader = Reader(content, flexible=True)
        unknown = reader.tags({0: lambda r: known.append(r.int32("epoch"))})
        assert reader.remaining == 0
        return unknown, known

    def test_unknown_ones_are_kept_by_number(self) -> None:
        assert self.read(enc.tagged_fields({0: enc.int32(5), 7: b"new", 300: b""})) == (
            ((7, b"new"), (300, b"")),
            [5],
        )

    def test_none_at_all_is_one_byte(self) -> None:
        assert self.read(b"\x00") == ((), [])

    @pytest.mark.parametrize(
        ("content", "unknown", "known"),
        [
            (b"\x02\x05\x00\x05\x00", ((5, b""), (5, b"")), []),
            (b"\x02\x05\x00\x04\x01x", ((5, b""), (4, b"x")), []),
            (b"\x01\x00\x02" + enc.int32(5), (), [5]),
            (b"\x01\x00\x09" + enc.int32(5), (), [5]),
            (b"\x02\x00\x04" + enc.int32(5) + b"\x00\x04" + enc.int32(6), (), [5, 6]),
            (b"\xff\xff\xff\xff\x0f", (), []),
        ],
    )
    def test_neither_order_nor_the_size_of_a_known_one_is_asked_for_as_in_kafka(
        self, content: bytes, unknown: tuple[tuple[int, bytes], ...], known: list[int]
    ) -> None:
        assert self.read(content) == (unknown, known)

    @pytest.mark.parametrize(
        ("content", "reason", "at"),
        [
            (enc.tagged_fields({0: enc.int64(5)}), DecodeReason.TRAILING_BYTES, 7),
            (enc.tagged_fields({0: enc.int16(5)}), DecodeReason.SHORT_BUFFER, 3),
            (b"\x01\x05\x09abc", DecodeReason.SHORT_BUFFER, 3),
            (b"\x01\x05\xff\xff\xff\xff\x0fabc", DecodeReason.SHORT_BUFFER, 7),
            (b"\x01", DecodeReason.SHORT_BUFFER, 1),
        ],
    )
    def test_what_does_not_fit_is_refused(self, content: bytes, reason: DecodeReason, at: int) -> None:
        reader = Reader(content, flexible=True)

        def read_epoch(tag: Reader) -> None:
            tag.int32("epoch")

        def read_all() -> None:
            reader.tags({0: read_epoch})
            reader.expect_end()

        error = refused(read_all)
        assert (error.reason, error.at) == (reason, at)

    def test_a_classic_struct_has_none(self) -> None:
        reader = Reader(b"\x01\x02")
        assert reader.tags({}) == ()
        assert reader.at == 0


def test_a_nullable_struct_says_whether_it_is_there() -> None:
    assert Reader(b"\xff").nullable_struct("s", lambda r: r.int8("x")) is None
    assert Reader(b"\x01\x05").nullable_struct("s", lambda r: r.int8("x")) == 5
    assert Reader(b"\x02\x05").nullable_struct("s", lambda r: r.int8("x")) == 5  # Kafka asks for the sign alone
    assert Reader(b"\x80").nullable_struct("s", lambda r: r.int8("x")) is None
    assert refused(Reader(b"\x01").nullable_struct, "s", lambda r: r.int8("x")).field == "s.x"


def test_a_tagged_nullable_struct_has_another_null_than_an_untagged_one() -> None:
    """Kafka's generator writes -1 for a null struct among the fields, and 0 for one in a tag."""
    assert Reader(b"\x00").tagged_nullable_struct("s", lambda r: r.int8("x")) is None
    assert Reader(b"\x01\x05").tagged_nullable_struct("s", lambda r: r.int8("x")) == 5
    assert Reader(b"\xff\x01\x05").tagged_nullable_struct("s", lambda r: r.int8("x")) == 5
    assert Reader(b"\xff\xff\xff\xff\x0f").tagged_nullable_struct("s", lambda r: r.int8("x")) is None


def test_an_error_travels_between_processes() -> None:
    error = DecodeError(DecodeReason.BAD_UTF8, 17, "members[0].memberId", "key")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.reason, copy.at, copy.field, copy.part) == (error.reason, 17, "members[0].memberId", "key")
    assert str(copy) == "bad_utf8 at byte 17 of the key, field members[0].memberId"
