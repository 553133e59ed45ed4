"""Records as bytes: an encoder of its own, from the format's definition."""

from __future__ import annotations

import struct


def text(value: str | None) -> bytes:
    if value is None:
        return struct.pack(">h", -1)
    raw = value.encode()
    return struct.pack(">h", len(raw)) + raw


def blob(value: bytes) -> bytes:
    return struct.pack(">i", len(value)) + value


def group_key(group: str) -> bytes:
    return struct.pack(">h", 2) + text(group)


def assignment(partitions: dict[str, list[int]]) -> bytes:
    topics = b"".join(text(t) + struct.pack(f">i{len(p)}i", len(p), *p) for t, p in partitions.items())
    return struct.pack(">hi", 1, len(partitions)) + topics + struct.pack(">i", -1)


def subscription(topics: list[str]) -> bytes:
    return struct.pack(">hi", 1, len(topics)) + b"".join(text(t) for t in topics) + struct.pack(">ii", -1, 0)


def group_value(generation: int, at_ms: int, members: list[tuple[str, str, str, dict[str, list[int]]]]) -> bytes:
    """Members are (member id, client id, host, partitions)."""
    encoded = b"".join(
        text(m)
        + text(None)
        + text(c)
        + text(h)
        + struct.pack(">ii", 300_000, 10_000)
        + blob(subscription(["orders"]))
        + blob(assignment(p))
        for m, c, h, p in members
    )
    head = (
        struct.pack(">h", 3)
        + text("consumer")
        + struct.pack(">i", generation)
        + text("range")
        + text(members[0][0] if members else None)
    )
    return head + struct.pack(">q", at_ms) + struct.pack(">i", len(members)) + encoded
