"""Subscription and assignment of consumers in a classic group (`protocol_type` "consumer"), versions 0 to 3.

Source: ConsumerProtocolSubscription.json, ConsumerProtocolAssignment.json; KIP-429, KIP-792, KIP-881. Versions only
append: a version we do not know is read as the newest we know, as Kafka's own consumer does, and its rest kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, repeat

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.wire import DecodeReason, Reader

TopicPartition = tuple[str, int]


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerSubscription:
    version: int
    topics: tuple[str, ...]
    user_data: bytes | None
    owned_partitions: tuple[TopicPartition, ...]
    """The partitions the member held when it joined; since version 1. Always empty under an eager assignor."""
    generation_id: int | None
    """In which it held them; since version 2; None when negative, as Kafka's own consumer takes it."""
    rack_id: str | None
    """Since version 3; None when empty, as Kafka's own consumer takes it."""
    rest: bytes = b""
    """Fields of a later version."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerAssignment:
    version: int
    """The leader's newest version; the member's own may be older."""
    partitions: tuple[TopicPartition, ...]
    """The member's full set, in the leader's order."""
    user_data: bytes | None
    rest: bytes = b""
    """Fields of a later version."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionHead:
    """The fields that every version of a subscription begins with."""

    version: int
    topics: tuple[str, ...]
    is_all: bool
    """Nothing follows: of a version above 0 the rest is missing."""


def decode_subscription_head(data: bytes) -> SubscriptionHead:
    """The first fields of a subscription that decode_subscription refuses: segmentio/kafka-go says version 1 and writes
    version 0. Raises DecodeError."""
    reader = Reader(data, part="subscription")
    version, topics = read_version(reader), reader.strings("topics")
    reader.nullable_bytes("userData")
    return SubscriptionHead(version=version, topics=topics, is_all=not reader.rest())


def decode_subscription(data: bytes) -> ConsumerSubscription:
    reader = Reader(data, part="subscription")
    version = read_version(reader)
    return ConsumerSubscription(
        version=version,
        topics=reader.strings("topics"),
        user_data=reader.nullable_bytes("userData"),
        owned_partitions=read_topic_partitions(reader, "ownedPartitions") if version >= 1 else (),
        generation_id=_generation(reader) if version >= 2 else None,
        rack_id=reader.nullable_string("rackId") or None if version >= 3 else None,
        rest=reader.rest(),
    )


def decode_assignment(data: bytes) -> ConsumerAssignment:
    """A consumer's assignment. Raises DecodeError. Bytes of length 0 are no assignment: ask before calling."""
    reader = Reader(data, part="assignment")
    return ConsumerAssignment(
        version=read_version(reader),
        partitions=read_topic_partitions(reader, "assignedPartitions"),
        user_data=reader.nullable_bytes("userData"),
        rest=reader.rest(),
    )


def read_version(reader: Reader) -> int:
    """The number every message of the consumer and of the Connect protocol begins with. Raises DecodeError below 0."""
    start = reader.at
    version = reader.int16("version")
    if version < 0:
        raise reader.error(DecodeReason.UNKNOWN_VALUE_VERSION, start, "version")
    return version


def _generation(reader: Reader) -> int | None:
    generation_id = reader.int32("generationId")
    return None if generation_id < 0 else generation_id


def read_topic_partitions(reader: Reader, field: str) -> tuple[TopicPartition, ...]:
    """[]{topic, []partition}, flat, in order; a topic may come more than once."""
    return _flat(reader.array(field, _read_topic))


def _read_topic(reader: Reader) -> tuple[str, tuple[int, ...]]:
    return reader.string("topic"), reader.int32s("partitions")


def _flat(topics: Iterable[tuple[str, tuple[int, ...]]]) -> tuple[TopicPartition, ...]:
    return tuple(dict.fromkeys(chain.from_iterable(zip(repeat(topic), partitions) for topic, partitions in topics)))
