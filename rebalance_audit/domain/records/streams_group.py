"""Types 17 and 19 to 23: streams groups (KIP-1071). Source: StreamsGroup*Value.json of Kafka 4.1 to 4.3."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.records.structs import KeyValue, read_epochs_and_tags, read_key_value
from rebalance_audit.domain.wire import Reader, UnknownTags, none_if_minus_one


class StreamsMemberState(IntEnum):
    """The state of a member of a streams group (type 22). The numbers are not those of consumer groups."""

    STABLE = 1
    UNREVOKED_TASKS = 2
    UNRELEASED_TASKS = 3
    UNKNOWN = 127


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMetadataValue:
    """Type 17: the group epoch."""

    epoch: int
    metadata_hash: int | None
    """None when 0."""
    validated_topology_epoch: int | None = None
    """Tag 0, Kafka 4.2; None when -1."""
    last_assignment_configs: tuple[KeyValue, ...] | None = None
    """Tag 1, Kafka 4.2."""
    stored_description_topology_epoch: int | None = None
    """Tag 2, Kafka 4.4; None when -1; -2 is uncertain."""
    failed_description_topology_epoch: int | None = None
    """Tag 3, Kafka 4.4; None when -1."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class UserEndpoint:
    host: str
    port: int
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupMemberMetadataValue:
    """Type 19."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int | None
    topology_epoch: int
    process_id: str
    """Shared by the threads of one instance."""
    user_endpoint: UserEndpoint | None
    client_tags: tuple[KeyValue, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskIds:
    subtopology_id: str
    partitions: tuple[int, ...]
    assignment_epochs: tuple[int, ...] | None = None
    """Tag 0, in current assignments; one per partition."""
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTargetAssignmentMemberValue:
    """Type 21: what a member is to run."""

    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupCurrentMemberAssignmentValue:
    """Type 22: what a member runs and how far it has come."""

    member_epoch: int
    previous_member_epoch: int
    state: int
    """A StreamsMemberState."""
    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]
    active_tasks_pending_revocation: tuple[TaskIds, ...]
    standby_tasks_pending_revocation: tuple[TaskIds, ...]
    warmup_tasks_pending_revocation: tuple[TaskIds, ...]
    unknown_tags: UnknownTags = ()

    @property
    def state_name(self) -> str:
        known = StreamsMemberState._value2member_map_
        return StreamsMemberState(self.state).name if self.state in known else StreamsMemberState.UNKNOWN.name


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """Upstream: TopicInfo of a changelog or repartition topic."""

    name: str
    partitions: int
    replication_factor: int
    topic_configs: tuple[KeyValue, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class CopartitionGroup:
    """Indexes into the three topic lists of the subtopology."""

    source_topics: tuple[int, ...]
    source_topic_regex: tuple[int, ...]
    repartition_source_topics: tuple[int, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Subtopology:
    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]
    unknown_tags: UnknownTags = ()


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StreamsGroupTopologyValue:
    """Type 23."""

    epoch: int
    """The epoch of the topology; not the group epoch."""
    subtopologies: tuple[Subtopology, ...]
    unknown_tags: UnknownTags = ()


def read_group_metadata(reader: Reader) -> StreamsGroupMetadataValue:
    epoch = reader.int32("epoch")
    metadata_hash = reader.int64("metadataHash")
    epochs: dict[int, int] = {}
    configs: tuple[KeyValue, ...] | None = None

    def read_validated(tagged: Reader) -> None:
        epochs[0] = tagged.int32("validatedTopologyEpoch")

    def read_configs(tagged: Reader) -> None:
        nonlocal configs
        configs = tagged.nullable_array("lastAssignmentConfigs", read_key_value)

    def read_stored(tagged: Reader) -> None:
        epochs[2] = tagged.int32("storedDescriptionTopologyEpoch")

    def read_failed(tagged: Reader) -> None:
        epochs[3] = tagged.int32("failedDescriptionTopologyEpoch")

    unknown_tags = reader.tags({0: read_validated, 1: read_configs, 2: read_stored, 3: read_failed})
    return StreamsGroupMetadataValue(
        epoch=epoch,
        metadata_hash=metadata_hash or None,
        validated_topology_epoch=none_if_minus_one(epochs.get(0, -1)),
        last_assignment_configs=configs,
        stored_description_topology_epoch=none_if_minus_one(epochs.get(2, -1)),
        failed_description_topology_epoch=none_if_minus_one(epochs.get(3, -1)),
        unknown_tags=unknown_tags,
    )


def read_member_metadata(reader: Reader) -> StreamsGroupMemberMetadataValue:
    return StreamsGroupMemberMetadataValue(
        instance_id=reader.nullable_string("instanceId"),
        rack_id=reader.nullable_string("rackId"),
        client_id=reader.string("clientId"),
        client_host=reader.string("clientHost"),
        rebalance_timeout_ms=none_if_minus_one(reader.int32("rebalanceTimeoutMs")),
        topology_epoch=reader.int32("topologyEpoch"),
        process_id=reader.string("processId"),
        user_endpoint=reader.nullable_struct("userEndpoint", _read_endpoint),
        client_tags=reader.array("clientTags", read_key_value),
        unknown_tags=reader.tags({}),
    )


def _read_endpoint(reader: Reader) -> UserEndpoint:
    return UserEndpoint(host=reader.string("host"), port=reader.uint16("port"), unknown_tags=reader.tags({}))


def _read_task_ids(reader: Reader) -> TaskIds:
    subtopology_id = reader.string("subtopologyId")
    partitions = reader.int32s("partitions")
    return TaskIds(subtopology_id=subtopology_id, partitions=partitions, unknown_tags=reader.tags({}))


def _read_task_ids_with_epochs(reader: Reader) -> TaskIds:
    subtopology_id = reader.string("subtopologyId")
    partitions = reader.int32s("partitions")
    epochs, unknown_tags = read_epochs_and_tags(reader)
    return TaskIds(
        subtopology_id=subtopology_id,
        partitions=partitions,
        assignment_epochs=epochs,
        unknown_tags=unknown_tags,
    )


def read_target_assignment_member(reader: Reader) -> StreamsGroupTargetAssignmentMemberValue:
    return StreamsGroupTargetAssignmentMemberValue(
        active_tasks=reader.array("activeTasks", _read_task_ids),
        standby_tasks=reader.array("standbyTasks", _read_task_ids),
        warmup_tasks=reader.array("warmupTasks", _read_task_ids),
        unknown_tags=reader.tags({}),
    )


def read_current_member_assignment(reader: Reader) -> StreamsGroupCurrentMemberAssignmentValue:
    return StreamsGroupCurrentMemberAssignmentValue(
        member_epoch=reader.int32("memberEpoch"),
        previous_member_epoch=reader.int32("previousMemberEpoch"),
        state=reader.int8("state"),
        active_tasks=reader.array("activeTasks", _read_task_ids_with_epochs),
        standby_tasks=reader.array("standbyTasks", _read_task_ids_with_epochs),
        warmup_tasks=reader.array("warmupTasks", _read_task_ids_with_epochs),
        active_tasks_pending_revocation=reader.array("activeTasksPendingRevocation", _read_task_ids_with_epochs),
        standby_tasks_pending_revocation=reader.array("standbyTasksPendingRevocation", _read_task_ids_with_epochs),
        warmup_tasks_pending_revocation=reader.array("warmupTasksPendingRevocation", _read_task_ids_with_epochs),
        unknown_tags=reader.tags({}),
    )


def read_topology(reader: Reader) -> StreamsGroupTopologyValue:
    return StreamsGroupTopologyValue(
        epoch=reader.int32("epoch"),
        subtopologies=reader.array("subtopologies", _read_subtopology),
        unknown_tags=reader.tags({}),
    )


def _read_subtopology(reader: Reader) -> Subtopology:
    return Subtopology(
        subtopology_id=reader.string("subtopologyId"),
        source_topics=reader.strings("sourceTopics"),
        source_topic_regex=reader.strings("sourceTopicRegex"),
        state_changelog_topics=reader.array("stateChangelogTopics", _read_internal_topic),
        repartition_sink_topics=reader.strings("repartitionSinkTopics"),
        repartition_source_topics=reader.array("repartitionSourceTopics", _read_internal_topic),
        copartition_groups=reader.array("copartitionGroups", _read_copartition_group),
        unknown_tags=reader.tags({}),
    )


def _read_internal_topic(reader: Reader) -> InternalTopic:
    return InternalTopic(
        name=reader.string("name"),
        partitions=reader.int32("partitions"),
        replication_factor=reader.int16("replicationFactor"),
        topic_configs=reader.array("topicConfigs", read_key_value),
        unknown_tags=reader.tags({}),
    )


def _read_copartition_group(reader: Reader) -> CopartitionGroup:
    return CopartitionGroup(
        source_topics=reader.int16s("sourceTopics"),
        source_topic_regex=reader.int16s("sourceTopicRegex"),
        repartition_source_topics=reader.int16s("repartitionSourceTopics"),
        unknown_tags=reader.tags({}),
    )
