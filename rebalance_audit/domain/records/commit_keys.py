"""Keys of offset commits, looked at without decoding them: nearly all records are commits."""

from __future__ import annotations

import struct

COMMIT_KEY_TYPES = (b"\x00\x00", b"\x00\x01")
"""How the key of an offset commit begins: its record type, 0 or 1."""


def is_commit_key(key: bytes | None) -> bool:
    return key is not None and key[:2] in COMMIT_KEY_TYPES


def group_of_commit_key(key: bytes) -> bytes:
    """The group's name in the key of a commit, as it stands there."""
    (length,) = struct.unpack_from(">h", key, 2) if len(key) >= 4 else (0,)
    return key[4 : 4 + max(length, 0)]
