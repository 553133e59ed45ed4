"""Texts inside Java's class files: what a program can print. Format: The Java Virtual Machine Specification, 4.4."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_MAGIC = 0xCAFEBABE
_UTF8, _STRING, _LONG, _DOUBLE = 1, 8, 5, 6
_SIZES = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}
"""Bytes of a constant's content, by its tag."""


def texts(content: bytes) -> Iterator[str]:
    """Every string constant of a class. Where text and values are joined (`"a" + x`), javac writes one constant with
    U+0001 for each value. Raises ValueError for what is no class file."""
    utf8, strings = _constants(content)
    for index in strings:
        if index in utf8:
            yield utf8[index].decode("utf-8", "replace")


def names(content: bytes) -> frozenset[bytes]:
    """All names and texts of a class: whom it calls, what it says. They stay where only the compiler is another."""
    return frozenset(_constants(content)[0].values())


def _constants(content: bytes) -> tuple[dict[int, bytes], list[int]]:
    """(texts and names by number, the numbers of string constants)."""
    if len(content) < 10 or struct.unpack_from(">I", content)[0] != _MAGIC:
        raise ValueError("these bytes are no class file")
    (count,) = struct.unpack_from(">H", content, 8)
    at, number = 10, 1
    utf8: dict[int, bytes] = {}
    strings: list[int] = []
    while number < count:
        tag = content[at]
        at += 1
        if tag == _UTF8:
            (size,) = struct.unpack_from(">H", content, at)
            utf8[number] = content[at + 2 : at + 2 + size]
            at += 2 + size
        else:
            if tag not in _SIZES:
                raise ValueError(f"constant {number} has the unknown tag {tag}")
            if tag == _STRING:
                strings.append(struct.unpack_from(">H", content, at)[0])
            at += _SIZES[tag]
        number += 2 if tag in (_LONG, _DOUBLE) else 1
    return utf8, strings
