"""Primitive types as Kafka writes them."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping, Sequence


def int8(value: int) -> bytes:
    return struct.pack(">b", value)


def int16(value: int) -> bytes:
    return struct.pack(">h", value)


def uint16(value: int) -> bytes:
    return struct.pack(">H", value)


def int32(value: int) -> bytes:
    return struct.pack(">i", value)


def int64(value: int) -> bytes:
    return struct.pack(">q", value)


def uvarint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def uuid(text: str) -> bytes:
    """From Kafka's 22 characters."""
    return base64.urlsafe_b64decode(text + "==")


def string(text: str | None, flexible: bool = False) -> bytes:
    if text is None:
        return uvarint(0) if flexible else int16(-1)
    content = text.encode()
    return (uvarint(len(content) + 1) if flexible else int16(len(content))) + content


def bytes_(content: bytes | None, flexible: bool = False) -> bytes:
    if content is None:
        return uvarint(0) if flexible else int32(-1)
    return (uvarint(len(content) + 1) if flexible else int32(len(content))) + content


def array(elements: Sequence[bytes] | None, flexible: bool = False) -> bytes:
    if elements is None:
        return uvarint(0) if flexible else int32(-1)
    return (uvarint(len(elements) + 1) if flexible else int32(len(elements))) + b"".join(elements)


def tagged_fields(fields: Mapping[int, bytes] | None = None) -> bytes:
    fields = fields or {}
    out = uvarint(len(fields))
    for tag in sorted(fields):
        out += uvarint(tag) + uvarint(len(fields[tag])) + fields[tag]
    return out
