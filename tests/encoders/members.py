"""What members put into classic groups, and workers into Connect's topics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tests.encoders.primitives import array, bytes_, int16, int32, int64, string, uint16

TopicPartitions = Mapping[str, Sequence[int]]


def _topic_partitions(owned: TopicPartitions | Sequence[tuple[str, Sequence[int]]]) -> bytes:
    pairs = owned.items() if isinstance(owned, Mapping) else owned
    return array([string(topic) + array([int32(p) for p in partitions]) for topic, partitions in pairs])


def consumer_subscription(
    topics: Sequence[str],
    *,
    version: int = 3,
    user_data: bytes | None = None,
    owned: TopicPartitions | Sequence[tuple[str, Sequence[int]]] = (),
    generation_id: int = -1,
    rack_id: str | None = None,
) -> bytes:
    out = int16(version) + array([string(topic) for topic in topics]) + bytes_(user_data)
    if version >= 1:
        out += _topic_partitions(owned)
    if version >= 2:
        out += int32(generation_id)
    if version >= 3:
        out += string(rack_id)
    return out


def consumer_assignment(
    partitions: TopicPartitions | Sequence[tuple[str, Sequence[int]]],
    *,
    version: int = 3,
    user_data: bytes | None = None,
) -> bytes:
    return int16(version) + _topic_partitions(partitions) + bytes_(user_data)


def sticky_user_data(previous: TopicPartitions, generation: int | None) -> bytes:
    """Without a generation: the layout before Kafka 2.3."""
    return _topic_partitions(previous) + (b"" if generation is None else int32(generation))


Connectors = Mapping[str, Sequence[int]]
"""Task numbers by connector; -1 is the connector itself."""


def _connectors(connectors: Connectors | None) -> bytes:
    if connectors is None:
        return array(None)
    return _topic_partitions(connectors)


def connect_assignment(
    assigned: Connectors | None,
    revoked: Connectors | None = None,
    *,
    version: int = 2,
    error: int = 0,
    leader: str = "connect-1",
    leader_url: str = "http://localhost:8083/",
    config_offset: int = 1,
    delay_ms: int = 0,
) -> bytes:
    out = int16(version) + int16(error) + string(leader) + string(leader_url) + int64(config_offset)
    out += _connectors(assigned)
    if version >= 1:
        out += _connectors(revoked) + int32(delay_ms)
    return out


def connect_worker_state(url: str, config_offset: int, allocation: bytes | None = None, *, version: int = 2) -> bytes:
    out = int16(version) + string(url) + int64(config_offset)
    return out + (bytes_(allocation) if version >= 1 else b"")


# Java's DataOutput, for Streams' assignments


def java_utf(text: str) -> bytes:
    """writeUTF: each UTF-16 unit on its own, as one, two or three bytes; NUL takes two."""
    out = bytearray()
    units = text.encode("utf-16-be")
    for at in range(0, len(units), 2):
        unit = units[at] << 8 | units[at + 1]
        if 0 < unit < 0x80:
            out.append(unit)
        elif unit < 0x800:
            out += bytes((0xC0 | unit >> 6, 0x80 | unit & 0x3F))
        else:
            out += bytes((0xE0 | unit >> 12, 0x80 | unit >> 6 & 0x3F, 0x80 | unit & 0x3F))
    return uint16(len(out)) + bytes(out)


def java_list(elements: Sequence[bytes]) -> bytes:
    return int32(len(elements)) + b"".join(elements)


# Connect's topics


def connect_json(value: Any, envelope: bool = False) -> bytes:
    return json.dumps({"schema": None, "payload": value} if envelope else value).encode()
