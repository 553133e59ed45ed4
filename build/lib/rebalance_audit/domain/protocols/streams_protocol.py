"""User data of Kafka Streams' own assignor (protocol `stream`) inside a consumer subscription and assignment.

SubscriptionInfo is written by Kafka's generator, AssignmentInfo by Java's DataOutput, with texts of its own.
Source: SubscriptionInfoData.json (versions 1 to 11), AssignmentInfo.java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar
from uuid import UUID

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.wire import DecodeReason, Reader

T = TypeVar("T")

LATEST_VERSION = 11
"""Kafka 3.2 and later."""

OFFSET_SUM_RUNNING = -2
"""The task was active and running on this client."""

NO_NEXT_REBALANCE = 2**63 - 1


class AssignorError(IntEnum):
    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1
    VERSION_PROBING = 2
    ASSIGNMENT_ERROR = 3
    SHUTDOWN_REQUESTED = 4


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskId:
    """Printed by Kafka as `0_3`."""

    subtopology: int
    partition: int
    named_topology: str | None = None


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class TaskOffsetSum:
    task: TaskId
    offset_sum: int
    """-2: active and running here; -3: unknown; else state is present."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionInfo:
    version: int
    latest_supported_version: int | None
    """Since version 3."""
    process_id: str | None
    """Shared by the threads of one instance, printed as Java does; None where the version is newer than we know."""
    prev_active_tasks: tuple[TaskId, ...] = ()
    prev_standby_tasks: tuple[TaskId, ...] = ()
    """From version 7 on: every task with state here that was not running."""
    user_end_point: str | None = None
    """`host:port`; None when empty."""
    task_offset_sums: tuple[TaskOffsetSum, ...] = ()
    """Since version 7."""
    unique_field: int | None = None
    error_code: int = 0
    """An AssignorError; since version 9."""
    client_tags: tuple[tuple[str, str], ...] = ()
    """Since version 11."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class StandbyTask:
    task: TaskId
    partitions: tuple[tuple[str, int], ...]


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class HostPartitions:
    host: str
    port: int
    partitions: tuple[tuple[str, int], ...]


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class AssignmentInfo:
    used_version: int
    commonly_supported_version: int | None
    active_tasks: tuple[TaskId, ...]
    """Parallel to the assignment's partitions: one entry each, so a task with two input topics comes twice."""
    standby_tasks: tuple[StandbyTask, ...]
    partitions_by_host: tuple[HostPartitions, ...] = ()
    standby_partitions_by_host: tuple[HostPartitions, ...] = ()
    error_code: int = 0
    """An AssignorError; since version 4."""
    next_rebalance_at_ms: int | None = None
    """When the member is to join again; 0 at once; None: not planned. Since version 7."""


def decode_subscription_info(user_data: bytes) -> SubscriptionInfo:
    """A version newer than ours shows its first two numbers only, as in Kafka's version probing."""
    reader = Reader(user_data, part="user_data")
    version = _read_version(reader)
    latest = reader.int32("latestSupportedVersion") if version >= 3 else None
    if latest is not None and latest < version:
        raise reader.error(DecodeReason.BAD_VALUE, 4, "latestSupportedVersion")
    if version > LATEST_VERSION:
        return SubscriptionInfo(version=version, latest_supported_version=latest, process_id=None)
    process_id = str(UUID(bytes=reader.take(16, "processId")))
    prev_active: tuple[TaskId, ...] = ()
    prev_standby: tuple[TaskId, ...] = ()
    if version <= 6:
        prev_active = reader.array("prevTasks", _read_task)
        prev_standby = reader.array("standbyTasks", _read_task)
    end_point = _text_of_bytes(reader, "userEndPoint") if version >= 2 else ""
    sums: tuple[TaskOffsetSum, ...] = ()
    if version >= 10:
        sums = reader.array("taskOffsetSums", _read_offset_sum)
    elif version >= 7:
        per_subtopology = reader.array("taskOffsetSums", _read_offset_sums_of_subtopology)
        sums = tuple(each for group in per_subtopology for each in group)
    if version >= 7:
        prev_active = tuple(each.task for each in sums if each.offset_sum == OFFSET_SUM_RUNNING)
        prev_standby = tuple(each.task for each in sums if each.offset_sum != OFFSET_SUM_RUNNING)
    unique_field = reader.int8("uniqueField") if version >= 8 else None
    error_code = reader.int32("errorCode") if version >= 9 else 0
    client_tags = reader.array("clientTags", _read_client_tag) if version >= 11 else ()
    reader.expect_end()
    return SubscriptionInfo(
        version=version,
        latest_supported_version=latest,
        process_id=process_id,
        prev_active_tasks=prev_active,
        prev_standby_tasks=prev_standby,
        user_end_point=end_point or None,
        task_offset_sums=sums,
        unique_field=unique_field,
        error_code=error_code,
        client_tags=client_tags,
    )


def decode_assignment_info(user_data: bytes) -> AssignmentInfo:
    reader = Reader(user_data, part="user_data")
    version = _read_version(reader)
    commonly = reader.int32("commonlySupportedVersion") if version >= 3 else None
    if version > LATEST_VERSION:
        raise reader.error(DecodeReason.UNKNOWN_VALUE_VERSION, 0, "usedVersion")

    def read_task(element: Reader) -> TaskId:
        return _read_named_task(element) if version >= 10 else _read_task(element)

    def read_standby(element: Reader) -> StandbyTask:
        return StandbyTask(task=read_task(element), partitions=_counted(element, "partitions", _read_utf_partition))

    active = _counted(reader, "activeTasks", read_task)
    standby = _counted(reader, "standbyTasks", read_standby)
    by_host: tuple[HostPartitions, ...] = ()
    standby_by_host: tuple[HostPartitions, ...] = ()
    if 2 <= version <= 4:
        by_host = _hosts(reader, "partitionsByHost", None)
    elif version >= 5:
        topics = dict(_counted(reader, "topics", _read_indexed_topic))
        by_host = _hosts(reader, "partitionsByHost", topics)
        if version >= 6:
            standby_by_host = _hosts(reader, "standbyPartitionsByHost", topics)
    error_code = reader.int32("errCode") if version >= 4 else 0
    next_rebalance = reader.int64("nextRebalanceMs") if version >= 7 else NO_NEXT_REBALANCE
    reader.expect_end()
    return AssignmentInfo(
        used_version=version,
        commonly_supported_version=commonly,
        active_tasks=active,
        standby_tasks=standby,
        partitions_by_host=by_host,
        standby_partitions_by_host=standby_by_host,
        error_code=error_code,
        next_rebalance_at_ms=None if next_rebalance == NO_NEXT_REBALANCE else next_rebalance,
    )


def _read_version(reader: Reader) -> int:
    version = reader.int32("version")
    if version < 1:
        raise reader.error(DecodeReason.UNKNOWN_VALUE_VERSION, 0, "version")
    return version


def _text_of_bytes(reader: Reader, field: str) -> str:
    content = reader.bytes_(field)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as refused:
        start = reader.at - len(content)
        raise reader.error(DecodeReason.BAD_UTF8, start + refused.start, field) from None


def _read_task(reader: Reader) -> TaskId:
    return TaskId(subtopology=reader.int32("subtopology"), partition=reader.int32("partition"))


def _read_offset_sum(reader: Reader) -> TaskOffsetSum:
    subtopology = reader.int32("topicGroupId")
    partition = reader.int32("partition")
    offset_sum = reader.int64("offsetSum")
    named_topology = reader.nullable_string("namedTopology") or None
    task = TaskId(subtopology=subtopology, partition=partition, named_topology=named_topology)
    return TaskOffsetSum(task=task, offset_sum=offset_sum)


def _read_offset_sums_of_subtopology(reader: Reader) -> tuple[TaskOffsetSum, ...]:
    subtopology = reader.int32("topicGroupId")

    def read(element: Reader) -> TaskOffsetSum:
        task = TaskId(subtopology=subtopology, partition=element.int32("partition"))
        return TaskOffsetSum(task=task, offset_sum=element.int64("offsetSum"))

    return reader.array("partitionToOffsetSum", read)


def _read_client_tag(reader: Reader) -> tuple[str, str]:
    return _text_of_bytes(reader, "key"), _text_of_bytes(reader, "value")


# From here on: Java's DataOutput.


def _counted(reader: Reader, field: str, read: Callable[[Reader], T]) -> tuple[T, ...]:
    """A count that is never null, and as many elements."""
    return reader.items(reader.int32(field), field, read)


def _read_named_task(reader: Reader) -> TaskId:
    task = _read_task(reader)
    char_count = max(0, reader.int32("namedTopology"))  # a negative one is none, as in Kafka
    start = reader.at
    content = reader.take(2 * char_count, "namedTopology")
    try:
        named_topology = content.decode("utf-16-be")
    except UnicodeDecodeError as refused:
        raise reader.error(DecodeReason.BAD_VALUE, start + refused.start, "namedTopology") from None
    return TaskId(subtopology=task.subtopology, partition=task.partition, named_topology=named_topology or None)


def _read_utf(reader: Reader, field: str) -> str:
    """Modified UTF-8: NUL takes two bytes, and what lies beyond the basic plane is a pair of three-byte halves."""
    size = reader.uint16(field)
    start = reader.at
    content = reader.take(size, field)
    try:
        halves = content.replace(b"\xc0\x80", b"\x00").decode("utf-8", "surrogatepass")
        return halves.encode("utf-16-be", "surrogatepass").decode("utf-16-be")
    except UnicodeDecodeError:
        raise reader.error(DecodeReason.BAD_UTF8, start, field) from None


def _read_utf_partition(reader: Reader) -> tuple[str, int]:
    return _read_utf(reader, "topic"), reader.int32("partition")


def _read_indexed_topic(reader: Reader) -> tuple[int, str]:
    return reader.int32("index"), _read_utf(reader, "topic")


def _hosts(reader: Reader, field: str, topics: Mapping[int, str] | None) -> tuple[HostPartitions, ...]:
    """A negative count is none, as in Kafka."""
    return reader.items(max(0, reader.int32(field)), field, lambda element: _read_host(element, topics))


def _read_host(reader: Reader, topics: Mapping[int, str] | None) -> HostPartitions:
    def read_indexed(element: Reader) -> tuple[str, int]:
        start = element.at
        topic = (topics or {}).get(element.int32("topic"))
        if topic is None:
            raise element.error(DecodeReason.BAD_VALUE, start, "topic")
        return topic, element.int32("partition")

    host = _read_utf(reader, "host")
    port = reader.int32("port")
    partitions = _counted(reader, "partitions", _read_utf_partition if topics is None else read_indexed)
    return HostPartitions(host=host, port=port, partitions=partitions)
