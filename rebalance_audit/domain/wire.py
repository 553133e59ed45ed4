"""Kafka's primitive encodings, and the one error for bytes that are not what the format says.

Source: KIP-482 (flexible versions) and the rules of Kafka's message generator.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from struct import Struct, unpack_from
from typing import NoReturn, TypeVar

T = TypeVar("T")

_INT16 = Struct(">h").unpack_from
_INT32 = Struct(">i").unpack_from

_MAX_UVARINT_BYTES = 5
MAX_INT32 = 0x7FFFFFFF
_MAX_STRING_BYTES = 0x7FFF
"""The limit of a compact string; a classic one cannot be longer."""

UnknownTags = tuple[tuple[int, bytes], ...]
"""Tagged fields of a newer release, by number, as they came."""


class DecodeReason(StrEnum):
    """Why bytes were refused. A closed list: it is a column of silver.undecoded."""

    SHORT_BUFFER = "short_buffer"
    TRAILING_BYTES = "trailing_bytes"
    NEGATIVE_LENGTH = "negative_length"
    NULL_NOT_ALLOWED = "null_not_allowed"
    BAD_UTF8 = "bad_utf8"
    VARINT_TOO_LONG = "varint_too_long"
    UNKNOWN_RECORD_TYPE = "unknown_record_type"
    UNKNOWN_VALUE_VERSION = "unknown_value_version"
    BAD_JSON = "bad_json"
    UNKNOWN_LAYOUT = "unknown_layout"
    BAD_VALUE = "bad_value"


class DecodeError(Exception):
    """Bytes that are not what the format says: why, at which byte of which part, in which field.

    `at` is where the refused number, length or content begins, counted from the start of `part`.
    """

    def __init__(self, reason: DecodeReason, at: int, field: str = "", part: str = "value") -> None:
        super().__init__(reason, at, field, part)  # args make it picklable between Spark workers
        self.reason, self.at, self.field, self.part = reason, at, field, part

    def __str__(self) -> str:
        where = f", field {self.field}" if self.field else ""
        return f"{self.reason.value} at byte {self.at} of the {self.part}{where}"


def _number(format_: str) -> Callable[[Reader, str], int]:
    """A method that reads one number of fixed size."""
    layout = Struct(format_)
    size, read = layout.size, layout.unpack_from

    def number(self: Reader, field: str) -> int:
        at = self.at
        end = at + size
        if end > self.end:
            raise self.error(DecodeReason.SHORT_BUFFER, at, field)
        self.at = end
        value: int = read(self.buf, at)[0]
        return value

    return number


class Reader:
    """A place in a buffer. Every method reads one thing there and moves past it, or raises DecodeError.

    Lengths are compared with the bytes that are left before anything is allocated, so that what a value can
    cost in memory is bounded by its own size.
    """

    __slots__ = ("at", "buf", "end", "flexible", "part")

    def __init__(self, buf: bytes, at: int = 0, *, flexible: bool = False, part: str = "value") -> None:
        self.buf, self.at, self.end = buf, at, len(buf)
        self.flexible = flexible
        """Strings, bytes and arrays are compact, and every struct ends with tagged fields."""
        self.part = part

    def error(self, reason: DecodeReason, at: int, field: str) -> DecodeError:
        return DecodeError(reason, at, field, self.part)

    @property
    def remaining(self) -> int:
        return self.end - self.at

    def expect_end(self) -> None:
        if self.at != self.end:
            raise self.error(DecodeReason.TRAILING_BYTES, self.at, "")

    def rest(self) -> bytes:
        """All bytes that are left."""
        return self.take(self.end - self.at, "")

    def take(self, size: int, field: str) -> bytes:
        at = self.at
        end = at + size
        if end > self.end:
            raise self.error(DecodeReason.SHORT_BUFFER, at, field)
        self.at = end
        return self.buf[at:end]

    int8 = _number(">b")
    int16 = _number(">h")
    uint16 = _number(">H")
    int32 = _number(">i")
    int64 = _number(">q")

    def uuid(self, field: str) -> str:
        """The uuid as Kafka prints it: 22 characters of URL-safe base64."""
        return urlsafe_b64encode(self.take(16, field))[:22].decode("ascii")

    def uvarint(self, field: str) -> int:
        """Unsigned LEB128 of at most five bytes; bits beyond the 32nd are dropped, as Kafka does it."""
        start = at = self.at
        if at < self.end and (byte := self.buf[at]) < 0x80:  # as nearly all are
            self.at = at + 1
            return byte
        value = shift = 0
        while True:
            if at >= self.end:
                raise self.error(DecodeReason.SHORT_BUFFER, start, field)
            byte = self.buf[at]
            at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if at - start == _MAX_UVARINT_BYTES:
                raise self.error(DecodeReason.VARINT_TOO_LONG, start, field)
        self.at = at
        return value & 0xFFFFFFFF

    def _length(self, field: str, size: int, read: Callable[[bytes, int], tuple[int]]) -> int | None:
        """The length or count before a string, bytes or an array, in classic versions of `size` bytes; None is null.

        Null is -1, but Kafka takes any negative number for it, and a compact length that is negative as a Java int.
        """
        if self.flexible:
            length = self.uvarint(field) - 1
        else:
            at = self.at
            end = at + size
            if end > self.end:
                raise self.error(DecodeReason.SHORT_BUFFER, at, field)
            self.at = end
            length = read(self.buf, at)[0]
        return None if length < 0 or length > MAX_INT32 else length

    def _no_null(self, start: int, field: str) -> DecodeError:
        """For a length that means null where there must be something."""
        is_minus_one = self.flexible or self.buf[start] == self.buf[self.at - 1] == 0xFF
        return self.error(DecodeReason.NULL_NOT_ALLOWED if is_minus_one else DecodeReason.NEGATIVE_LENGTH, start, field)

    def nullable_string(self, field: str) -> str | None:
        size = self._length(field, 2, _INT16)
        if size is None:
            return None
        start = self.at
        end = start + size
        if size > _MAX_STRING_BYTES:
            raise self.error(DecodeReason.BAD_VALUE, start, field)
        if end > self.end:
            raise self.error(DecodeReason.SHORT_BUFFER, start, field)
        self.at = end
        try:
            return self.buf[start:end].decode()
        except UnicodeDecodeError as refused:
            raise self.error(DecodeReason.BAD_UTF8, start + refused.start, field) from None

    def string(self, field: str) -> str:
        start = self.at
        text = self.nullable_string(field)
        if text is None:
            raise self._no_null(start, field)
        return text

    def nullable_bytes(self, field: str) -> bytes | None:
        size = self._length(field, 4, _INT32)
        return None if size is None else self.take(size, field)

    def bytes_(self, field: str) -> bytes:
        start = self.at
        size = self._length(field, 4, _INT32)
        if size is None:
            raise self._no_null(start, field)
        return self.take(size, field)

    def nullable_array(self, field: str, read: Callable[[Reader], T]) -> tuple[T, ...] | None:
        count = self._length(field, 4, _INT32)
        return None if count is None else self.items(count, field, read)

    def array(self, field: str, read: Callable[[Reader], T]) -> tuple[T, ...]:
        start = self.at
        count = self._length(field, 4, _INT32)
        if count is None:
            raise self._no_null(start, field)
        return self.items(count, field, read)

    def items(self, count: int, field: str, read: Callable[[Reader], T]) -> tuple[T, ...]:
        """`count` elements; an error inside one names it, as in `members[3].subscription`."""
        if count < 0:
            raise self.error(DecodeReason.NEGATIVE_LENGTH, self.at, field)
        if count > self.end - self.at:  # no element is smaller than a byte
            raise self.error(DecodeReason.SHORT_BUFFER, self.at, field)
        elements: list[T] = []
        try:
            for _ in range(count):
                elements.append(read(self))
        except DecodeError as refused:
            inside = f"{field}[{len(elements)}]" + (f".{refused.field}" if refused.field else "")
            raise DecodeError(refused.reason, refused.at, inside, refused.part) from None
        return tuple(elements)

    def strings(self, field: str) -> tuple[str, ...]:
        return self.array(field, _read_string)

    def int16s(self, field: str) -> tuple[int, ...]:
        return self._numbers(field, 2, "h", Reader.int16)

    def int32s(self, field: str) -> tuple[int, ...]:
        return self._numbers(field, 4, "i", Reader.int32)

    def _numbers(self, field: str, size: int, code: str, read: Callable[[Reader, str], int]) -> tuple[int, ...]:
        start = self.at
        count = self._length(field, 4, _INT32)
        if count is None or count * size > self.end - self.at:
            self.at = start
            return self.array(field, lambda reader: read(reader, ""))  # which says what of it is wrong
        at = self.at
        self.at = at + count * size
        return unpack_from(f">{count}{code}", self.buf, at)

    def nullable_struct(self, field: str, read: Callable[[Reader], T]) -> T | None:
        """A struct after the byte that says whether it is there: -1 null, 1 present. Kafka asks for the sign alone."""
        return None if self.int8(field) < 0 else self._inside(field, read)

    def tagged_nullable_struct(self, field: str, read: Callable[[Reader], T]) -> T | None:
        """The same inside a tag, where null is 0: brokers of 4.x write it out, though it is the default."""
        return self._inside(field, read) if 0 < self.uvarint(field) <= MAX_INT32 else None

    def _inside(self, field: str, read: Callable[[Reader], T]) -> T:
        try:
            return read(self)
        except DecodeError as refused:
            inside = f"{field}.{refused.field}" if refused.field else field
            raise DecodeError(refused.reason, refused.at, inside, refused.part) from None

    def tags(self, known: Mapping[int, Callable[[Reader], None]]) -> UnknownTags:
        """The tagged fields at the end of a struct: known ones are read, others are kept. A struct that is not flexible
        has none.

        Like Kafka, this does not ask that tags ascend, nor that a known field uses up its stated size: only a reader
        that does not know the field skips by that size. If a field comes twice, the last one counts.
        """
        if not self.flexible:
            return ()
        unknown: list[tuple[int, bytes]] = []
        for tag, size in self.tag_heads():
            read = known.get(tag)
            if read is not None:
                read(self)
            else:
                unknown.append((tag, self.take(size, f"tag {tag}")))
        return tuple(unknown)

    def tag_heads(self) -> Iterator[tuple[int, int]]:
        """Number and size of each tagged field; whoever asks reads the field before asking for the next."""
        count = self.uvarint("tagged fields")
        for _ in range(count if count <= MAX_INT32 else 0):
            tag = self.uvarint("tag")
            yield tag, self.uvarint(f"tag {tag}")

    def refuse_tag(self, tag: int, version: int) -> NoReturn:
        """A tag that a later version of the same record has; Kafka refuses it, too."""
        raise self.error(DecodeReason.BAD_VALUE, self.at, f"tag {tag}, not of version {version}")


def _read_string(reader: Reader) -> str:
    return reader.string("")


def none_if_minus_one(number: int) -> int | None:
    """None for -1, which is how Kafka writes an instant, an epoch or a duration it does not know."""
    return None if number == -1 else number
