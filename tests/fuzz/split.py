"""Two byte strings in one input."""

from __future__ import annotations


def split(data: bytes) -> tuple[bytes | None, bytes | None]:
    """A key and a value out of one input: a byte for the key's length, 255 and a missing rest for null."""
    if not data:
        return None, None
    size = data[0]
    key = None if size == 255 else data[1 : 1 + size]
    rest = data[1:] if size == 255 else data[1 + size :]
    return key, rest or None


def joined(key: bytes | None, value: bytes | None) -> bytes:
    """What `split` takes apart; keys of more than 254 bytes are cut."""
    head = b"\xff" if key is None else bytes((min(len(key), 254),)) + key[:254]
    return head + (value or b"")
