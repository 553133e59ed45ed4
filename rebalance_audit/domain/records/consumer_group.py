"""Types 3 to 8 and 16: consumer groups of KIP-848.

The value version stayed 0 while the layout changed; a function per layout, named by the first release that had it.
Source: ConsumerGroup*Value.json of Kafka 3.5 to 4.3.
"""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.records.structs import (
    MemberState,
    TopicMetadata,
    TopicPartitions,
    member_state_name,
    read_topic_metadata,
    read_topic_partitions,
    read_topic_partitions_with_epochs,
)
from rebalance_audit.domain.wire import Reader, UnknownTags, none_if_minus_one


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """Type 3: the group epoch. A change of it is the start of a rebalance."""

    epoch: int
    metadata_hash: int | None
    """The hash of the subscribed topics; tag 0, Kafka 4.1; None when 0."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupPartitionMetadataValue:
    """Type 4: the subscribed topics by id and name. Not written since Kafka 4.1."""

    epoch: int | None
    """Layouts 3.5 and 3.6 only."""
    topics: tuple[TopicMetadata, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Assignor:
    """A client-side assignor of the early-access layouts."""

    name: str
    minimum_version: int
    maximum_version: int
    reason: int
    version: int
    metadata: bytes
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    name: str
    metadata: bytes
    """A consumer protocol subscription."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """There when the member still speaks the classic protocol."""

    session_timeout_ms: int
    supported_protocols: tuple[ClassicProtocol, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """Type 5: a member and what it subscribed to."""

    group_epoch: int | None = None
    """Layout 3.5 only."""
    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: int | None = None
    """None when -1."""
    server_assignor: str | None = None
    assignors: tuple[Assignor, ...] = ()
    """Layouts 3.5 and 3.6 only."""
    classic_member_metadata: ClassicMemberMetadata | None = None
    """Tag 0, layout 3.8."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """Type 7: what a member is to own."""

    topic_partitions: tuple[TopicPartitions, ...]
    error: int | None = None
    """Layout 3.5 only, with the two below."""
    metadata_version: int | None = None
    metadata_bytes: bytes | None = None
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """Type 8: what a member owns and how far it has come."""

    member_epoch: int
    """-2: a static member that left for a while."""
    previous_member_epoch: int | None
    state: int | None
    """A MemberState; since layout 3.8."""
    assigned_partitions: tuple[TopicPartitions, ...]
    partitions_pending_revocation: tuple[TopicPartitions, ...] = ()
    target_member_epoch: int | None = None
    """Layout 3.6 only."""
    partitions_pending_assignment: tuple[TopicPartitions, ...] = ()
    """Layout 3.6 only."""
    error: int | None = None
    """Layouts 3.5 and 3.6 only, with the two below."""
    metadata_version: int | None = None
    metadata_bytes: bytes | None = None
    unknown_tags: UnknownTags = ()

    @property
    def state_name(self) -> str:
        """Recorded since layout 3.8; before that it follows from what is pending."""
        if self.state is not None:
            return member_state_name(self.state)
        if self.partitions_pending_revocation:
            return MemberState.UNREVOKED_PARTITIONS.name
        if self.partitions_pending_assignment:
            return MemberState.UNRELEASED_PARTITIONS.name
        return MemberState.STABLE.name


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """Type 16: what a regular expression stood for."""

    topics: tuple[str, ...]
    version: int
    """The metadata offset it was resolved at."""
    timestamp: int
    """Epoch milliseconds."""
    unknown_tags: UnknownTags = ()


def read_group_metadata(reader: Reader) -> ConsumerGroupMetadataValue:
    epoch = reader.int32("epoch")
    metadata_hash = 0

    def read_hash(tagged: Reader) -> None:
        nonlocal metadata_hash
        metadata_hash = tagged.int64("metadataHash")

    unknown_tags = reader.tags({0: read_hash})
    return ConsumerGroupMetadataValue(epoch=epoch, metadata_hash=metadata_hash or None, unknown_tags=unknown_tags)


def read_partition_metadata_3_8(reader: Reader) -> ConsumerGroupPartitionMetadataValue:
    return ConsumerGroupPartitionMetadataValue(
        epoch=None, topics=reader.array("topics", read_topic_metadata), unknown_tags=reader.tags({})
    )


def read_partition_metadata_3_6(reader: Reader) -> ConsumerGroupPartitionMetadataValue:
    return ConsumerGroupPartitionMetadataValue(
        epoch=reader.int32("epoch"),
        topics=reader.array("topics", read_topic_metadata),
        unknown_tags=reader.tags({}),
    )


def read_partition_metadata_3_5(reader: Reader) -> ConsumerGroupPartitionMetadataValue:
    return ConsumerGroupPartitionMetadataValue(
        epoch=reader.int32("epoch"),
        topics=reader.array("topics", _read_unnamed_topic),
        unknown_tags=reader.tags({}),
    )


def _read_unnamed_topic(reader: Reader) -> TopicMetadata:
    return TopicMetadata(
        topic_id=reader.uuid("topicId"),
        topic_name=None,
        num_partitions=reader.int32("numPartitions"),
        unknown_tags=reader.tags({}),
    )


def read_member_metadata_3_8(reader: Reader) -> ConsumerGroupMemberMetadataValue:
    instance_id = reader.nullable_string("instanceId")
    rack_id = reader.nullable_string("rackId")
    client_id = reader.string("clientId")
    client_host = reader.string("clientHost")
    subscribed_topic_names = reader.strings("subscribedTopicNames")
    subscribed_topic_regex = reader.nullable_string("subscribedTopicRegex")
    rebalance_timeout_ms = none_if_minus_one(reader.int32("rebalanceTimeoutMs"))
    server_assignor = reader.nullable_string("serverAssignor")
    classic: ClassicMemberMetadata | None = None

    def read_classic(tagged: Reader) -> None:
        nonlocal classic
        classic = tagged.tagged_nullable_struct("classicMemberMetadata", _read_classic_member)

    unknown_tags = reader.tags({0: read_classic})
    return ConsumerGroupMemberMetadataValue(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        subscribed_topic_names=subscribed_topic_names,
        subscribed_topic_regex=subscribed_topic_regex,
        rebalance_timeout_ms=rebalance_timeout_ms,
        server_assignor=server_assignor,
        classic_member_metadata=classic,
        unknown_tags=unknown_tags,
    )


def read_member_metadata_3_6(reader: Reader) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=reader.nullable_string("instanceId"),
        rack_id=reader.nullable_string("rackId"),
        client_id=reader.string("clientId"),
        client_host=reader.string("clientHost"),
        subscribed_topic_names=reader.strings("subscribedTopicNames"),
        subscribed_topic_regex=reader.nullable_string("subscribedTopicRegex"),
        rebalance_timeout_ms=none_if_minus_one(reader.int32("rebalanceTimeoutMs")),
        server_assignor=reader.nullable_string("serverAssignor"),
        assignors=reader.array("assignors", _read_assignor),
        unknown_tags=reader.tags({}),
    )


def read_member_metadata_3_5(reader: Reader) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        group_epoch=reader.int32("groupEpoch"),
        instance_id=reader.nullable_string("instanceId"),
        rack_id=reader.nullable_string("rackId"),
        client_id=reader.string("clientId"),
        client_host=reader.string("clientHost"),
        subscribed_topic_names=reader.strings("subscribedTopicNames"),
        subscribed_topic_regex=reader.nullable_string("subscribedTopicRegex"),
        assignors=reader.array("assignors", _read_assignor),
        unknown_tags=reader.tags({}),
    )


def _read_assignor(reader: Reader) -> Assignor:
    return Assignor(
        name=reader.string("name"),
        minimum_version=reader.int16("minimumVersion"),
        maximum_version=reader.int16("maximumVersion"),
        reason=reader.int8("reason"),
        version=reader.int16("version"),
        metadata=reader.bytes_("metadata"),
        unknown_tags=reader.tags({}),
    )


def _read_classic_member(reader: Reader) -> ClassicMemberMetadata:
    return ClassicMemberMetadata(
        session_timeout_ms=reader.int32("sessionTimeoutMs"),
        supported_protocols=reader.array("supportedProtocols", _read_classic_protocol),
        unknown_tags=reader.tags({}),
    )


def _read_classic_protocol(reader: Reader) -> ClassicProtocol:
    return ClassicProtocol(name=reader.string("name"), metadata=reader.bytes_("metadata"), unknown_tags=reader.tags({}))


def read_target_assignment_member_3_8(reader: Reader) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        topic_partitions=reader.array("topicPartitions", read_topic_partitions), unknown_tags=reader.tags({})
    )


def read_target_assignment_member_3_5(reader: Reader) -> ConsumerGroupTargetAssignmentMemberValue:
    return ConsumerGroupTargetAssignmentMemberValue(
        error=reader.int8("error"),
        topic_partitions=reader.array("topicPartitions", read_topic_partitions),
        metadata_version=reader.int16("metadataVersion"),
        metadata_bytes=reader.bytes_("metadataBytes"),
        unknown_tags=reader.tags({}),
    )


def read_current_member_assignment_3_8(reader: Reader) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=reader.int32("memberEpoch"),
        previous_member_epoch=reader.int32("previousMemberEpoch"),
        state=reader.int8("state"),
        assigned_partitions=reader.array("assignedPartitions", read_topic_partitions_with_epochs),
        partitions_pending_revocation=reader.array("partitionsPendingRevocation", read_topic_partitions_with_epochs),
        unknown_tags=reader.tags({}),
    )


def read_current_member_assignment_3_6(reader: Reader) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        state=None,
        member_epoch=reader.int32("memberEpoch"),
        previous_member_epoch=reader.int32("previousMemberEpoch"),
        target_member_epoch=reader.int32("targetMemberEpoch"),
        assigned_partitions=reader.array("assignedPartitions", read_topic_partitions),
        partitions_pending_revocation=reader.array("partitionsPendingRevocation", read_topic_partitions),
        partitions_pending_assignment=reader.array("partitionsPendingAssignment", read_topic_partitions),
        error=reader.int8("error"),
        metadata_version=reader.int16("metadataVersion"),
        metadata_bytes=reader.bytes_("metadataBytes"),
        unknown_tags=reader.tags({}),
    )


def read_current_member_assignment_3_5(reader: Reader) -> ConsumerGroupCurrentMemberAssignmentValue:
    return ConsumerGroupCurrentMemberAssignmentValue(
        state=None,
        previous_member_epoch=None,
        member_epoch=reader.int32("memberEpoch"),
        error=reader.int8("error"),
        assigned_partitions=reader.array("topicPartitions", read_topic_partitions),
        metadata_version=reader.int16("metadataVersion"),
        metadata_bytes=reader.bytes_("metadataBytes"),
        unknown_tags=reader.tags({}),
    )


def read_regular_expression(reader: Reader) -> ConsumerGroupRegularExpressionValue:
    return ConsumerGroupRegularExpressionValue(
        topics=reader.strings("topics"),
        version=reader.int64("version"),
        timestamp=reader.int64("timestamp"),
        unknown_tags=reader.tags({}),
    )
