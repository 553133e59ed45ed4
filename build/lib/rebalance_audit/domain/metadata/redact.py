"""Cuts from a metadata record all that must not be stored. Ingest calls it before anything is kept."""

from __future__ import annotations

from rebalance_audit.domain.metadata.others import read_config
from rebalance_audit.domain.metadata.registry import RECORD_TYPES, read_frame
from rebalance_audit.domain.wire import DecodeError

REDACTED = "***"
SHOWN_CONFIGS = frozenset(
    {
        "leader.replication.throttled.rate",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.replicas",
        "follower.replication.throttled.replicas",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "auto.leader.rebalance.enable",
        "leader.imbalance.per.broker.percentage",
        "replica.lag.time.max.ms",
        "num.replica.fetchers",
    }
)
"""Settings whose values answers need; any other may be a password, and only its name is kept."""


def redact_metadata(value: bytes | None) -> bytes | None:
    """The record without secrets: credentials, tokens and records of unknown types are cut to their frame, settings
    keep their names, and their values only if they are in SHOWN_CONFIGS. Never raises.
    """
    if value is None:
        return None
    try:
        reader, number, version = read_frame(value)
    except DecodeError:
        return value[:1]
    kind = RECORD_TYPES.get(number)
    if kind is None or kind.is_secret or version > kind.latest_version:
        return value[: reader.at]
    if kind.name != "Config":
        return value if kind.read is not None else value[: reader.at]
    body = reader.at
    try:
        config = read_config(reader, version)
        reader.expect_end()
    except DecodeError:
        return value[:body]
    if config.name in SHOWN_CONFIGS or config.value is None:
        return value if not config.unknown_tags else value[:body]
    return b"".join(
        (
            value[:body],
            config.resource_type.to_bytes(1, "big", signed=True),
            _compact(config.resource_name),
            _compact(config.name),
            _compact(REDACTED),
            b"\x00",
        )
    )


def _compact(text: str) -> bytes:
    content = text.encode()
    length, head = len(content) + 1, b""
    while length > 0x7F:
        head += bytes([length & 0x7F | 0x80])
        length >>= 7
    return head + bytes([length]) + content
