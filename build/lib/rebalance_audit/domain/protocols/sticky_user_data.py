"""User data of the sticky assignors inside a subscription. It has no version of its own.

Source: StickyAssignor.java, CooperativeStickyAssignor.java.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.protocols.consumer_protocol import TopicPartition, read_topic_partitions
from rebalance_audit.domain.wire import DecodeError, Reader, none_if_minus_one


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StickyUserData:
    previous_assignment: tuple[TopicPartition, ...]
    """Under `sticky`; cooperative-sticky has it in the subscription's owned partitions."""
    generation: int | None
    """The last one the member completed; None when -1 or not written."""


def decode_sticky(user_data: bytes) -> StickyUserData:
    """`sticky`: the assignment and, since Kafka 2.3, its generation. What follows is ignored, as Kafka does."""
    reader = Reader(user_data, part="user_data")
    partitions = read_topic_partitions(reader, "previousAssignment")
    try:
        generation = none_if_minus_one(reader.int32("generation"))
    except DecodeError:
        generation = None  # Kafka falls back to the older layout in the same way
    return StickyUserData(previous_assignment=partitions, generation=generation)


def decode_cooperative_sticky(user_data: bytes) -> StickyUserData:
    """`cooperative-sticky`: a generation, since Kafka 2.8.1 and 3.0."""
    reader = Reader(user_data, part="user_data")
    return StickyUserData(previous_assignment=(), generation=none_if_minus_one(reader.int32("generation")))
