"""Structs that values of several group types share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.wire import Reader, UnknownTags


class MemberState(IntEnum):
    """The state of consumer and share group members (types 8 and 14)."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


def member_state_name(state: int) -> str:
    """The state by its number; a number of a later release is UNKNOWN, as Kafka itself reads it."""
    return MemberState(state).name if state in MemberState._value2member_map_ else MemberState.UNKNOWN.name


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitions:
    topic_id: str
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None
    """Tag 0 (KIP-1251, Kafka 4.3): one per partition, the epoch in which it was assigned."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionMetadata:
    partition: int
    racks: tuple[str, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicMetadata:
    topic_id: str
    topic_name: str | None
    """None in the layout of Kafka 3.5."""
    num_partitions: int
    partition_metadata: tuple[PartitionMetadata, ...] = ()
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class KeyValue:
    """A pair of texts: a client tag, a topic setting, an assignor setting."""

    key: str
    value: str
    unknown_tags: UnknownTags = ()


def read_topic_partitions(reader: Reader) -> TopicPartitions:
    topic_id = reader.uuid("topicId")
    partitions = reader.int32s("partitions")
    return TopicPartitions(topic_id=topic_id, partitions=partitions, unknown_tags=reader.tags({}))


def read_topic_partitions_with_epochs(reader: Reader) -> TopicPartitions:
    """Topics, partitions and their assignment epochs, as in current assignments, where tag 0 is known."""
    topic_id = reader.uuid("topicId")
    partitions = reader.int32s("partitions")
    epochs, unknown_tags = read_epochs_and_tags(reader)
    return TopicPartitions(
        topic_id=topic_id, partitions=partitions, assignment_epochs=epochs, unknown_tags=unknown_tags
    )


def read_epochs_and_tags(reader: Reader) -> tuple[tuple[int, ...] | None, UnknownTags]:
    """The tagged end of a struct whose tag 0 is `AssignmentEpochs`."""
    epochs: tuple[int, ...] | None = None

    def read_epochs(tagged: Reader) -> None:
        nonlocal epochs
        epochs = tagged.nullable_array("assignmentEpochs", _read_epoch)

    unknown_tags = reader.tags({0: read_epochs})
    return epochs, unknown_tags


def _read_epoch(reader: Reader) -> int:
    return reader.int32("")


def read_topic_metadata(reader: Reader) -> TopicMetadata:
    return TopicMetadata(
        topic_id=reader.uuid("topicId"),
        topic_name=reader.string("topicName"),
        num_partitions=reader.int32("numPartitions"),
        partition_metadata=reader.array("partitionMetadata", _read_partition_metadata),
        unknown_tags=reader.tags({}),
    )


def _read_partition_metadata(reader: Reader) -> PartitionMetadata:
    return PartitionMetadata(
        partition=reader.int32("partition"), racks=reader.strings("racks"), unknown_tags=reader.tags({})
    )


def read_key_value(reader: Reader) -> KeyValue:
    return KeyValue(key=reader.string("key"), value=reader.string("value"), unknown_tags=reader.tags({}))


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TargetAssignmentMetadataValue:
    """Types 6, 12 and 20: the epoch the current target assignment was computed for."""

    assignment_epoch: int
    assignment_timestamp: int | None
    """Epoch milliseconds at the end of the computation; tag 0, Kafka 4.3; None when 0: new, emptied or unknown."""
    unknown_tags: UnknownTags = ()


def read_target_assignment_metadata(reader: Reader) -> TargetAssignmentMetadataValue:
    assignment_epoch = reader.int32("assignmentEpoch")
    timestamp = 0

    def read_timestamp(tagged: Reader) -> None:
        nonlocal timestamp
        timestamp = tagged.int64("assignmentTimestamp")

    unknown_tags = reader.tags({0: read_timestamp})
    return TargetAssignmentMetadataValue(
        assignment_epoch=assignment_epoch, assignment_timestamp=timestamp or None, unknown_tags=unknown_tags
    )
