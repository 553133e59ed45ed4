"""Types 9 to 15: share groups (KIP-932). Source: ShareGroup*Value.json of Kafka 3.9 to 4.3."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.records.structs import (
    TopicMetadata,
    TopicPartitions,
    member_state_name,
    read_topic_metadata,
    read_topic_partitions,
)
from rebalance_audit.domain.wire import Reader, UnknownTags


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicPartitionsInfo:
    topic_id: str
    topic_name: str
    partitions: tuple[int, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TopicInfo:
    topic_id: str
    topic_name: str
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupPartitionMetadataValue:
    """Type 9, layout 4.0: the subscribed topics. Gone in Kafka 4.1."""

    topics: tuple[TopicMetadata, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMemberMetadataValue:
    """Type 10."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupMetadataValue:
    """Type 11: the group epoch."""

    epoch: int
    metadata_hash: int | None
    """Untagged, unlike a consumer group's; layout 4.1; None when 0."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupTargetAssignmentMemberValue:
    """Type 13: what a member is to share in; a partition may have several members."""

    topic_partitions: tuple[TopicPartitions, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupCurrentMemberAssignmentValue:
    """Type 14. There is no revocation phase."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """A MemberState."""
    assigned_partitions: tuple[TopicPartitions, ...]
    unknown_tags: UnknownTags = ()

    @property
    def state_name(self) -> str:
        return member_state_name(self.state)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ShareGroupStatePartitionMetadataValue:
    """Type 15, and type 9 as Kafka 3.9 wrote it: whose delivery state exists, is being made, is being deleted."""

    initializing_topics: tuple[TopicPartitionsInfo, ...] = ()
    """Layout 4.1."""
    initialized_topics: tuple[TopicPartitionsInfo, ...]
    deleting_topics: tuple[TopicInfo, ...]
    unknown_tags: UnknownTags = ()


def read_partition_metadata_4_0(reader: Reader) -> ShareGroupPartitionMetadataValue:
    return ShareGroupPartitionMetadataValue(
        topics=reader.array("topics", read_topic_metadata), unknown_tags=reader.tags({})
    )


def read_member_metadata(reader: Reader) -> ShareGroupMemberMetadataValue:
    return ShareGroupMemberMetadataValue(
        rack_id=reader.nullable_string("rackId"),
        client_id=reader.string("clientId"),
        client_host=reader.string("clientHost"),
        subscribed_topic_names=reader.strings("subscribedTopicNames"),
        unknown_tags=reader.tags({}),
    )


def read_group_metadata_4_1(reader: Reader) -> ShareGroupMetadataValue:
    return ShareGroupMetadataValue(
        epoch=reader.int32("epoch"),
        metadata_hash=reader.int64("metadataHash") or None,
        unknown_tags=reader.tags({}),
    )


def read_group_metadata_3_9(reader: Reader) -> ShareGroupMetadataValue:
    return ShareGroupMetadataValue(epoch=reader.int32("epoch"), metadata_hash=None, unknown_tags=reader.tags({}))


def read_target_assignment_member(reader: Reader) -> ShareGroupTargetAssignmentMemberValue:
    return ShareGroupTargetAssignmentMemberValue(
        topic_partitions=reader.array("topicPartitions", read_topic_partitions), unknown_tags=reader.tags({})
    )


def read_current_member_assignment(reader: Reader) -> ShareGroupCurrentMemberAssignmentValue:
    return ShareGroupCurrentMemberAssignmentValue(
        member_epoch=reader.int32("memberEpoch"),
        previous_member_epoch=reader.int32("previousMemberEpoch"),
        state=reader.int8("state"),
        assigned_partitions=reader.array("assignedPartitions", read_topic_partitions),
        unknown_tags=reader.tags({}),
    )


def read_state_partition_metadata_4_1(reader: Reader) -> ShareGroupStatePartitionMetadataValue:
    return ShareGroupStatePartitionMetadataValue(
        initializing_topics=reader.array("initializingTopics", _read_topic_partitions_info),
        initialized_topics=reader.array("initializedTopics", _read_topic_partitions_info),
        deleting_topics=reader.array("deletingTopics", _read_topic_info),
        unknown_tags=reader.tags({}),
    )


def read_state_partition_metadata_3_9(reader: Reader) -> ShareGroupStatePartitionMetadataValue:
    """Partitions with a delivery state: type 9 in Kafka 3.9, type 15 in 4.0."""
    return ShareGroupStatePartitionMetadataValue(
        initialized_topics=reader.array("initializedTopics", _read_topic_partitions_info),
        deleting_topics=reader.array("deletingTopics", _read_topic_info),
        unknown_tags=reader.tags({}),
    )


def _read_topic_partitions_info(reader: Reader) -> TopicPartitionsInfo:
    return TopicPartitionsInfo(
        topic_id=reader.uuid("topicId"),
        topic_name=reader.string("topicName"),
        partitions=reader.int32s("partitions"),
        unknown_tags=reader.tags({}),
    )


def _read_topic_info(reader: Reader) -> TopicInfo:
    return TopicInfo(
        topic_id=reader.uuid("topicId"),
        topic_name=reader.string("topicName"),
        unknown_tags=reader.tags({}),
    )
