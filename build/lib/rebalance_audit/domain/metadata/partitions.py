"""PartitionRecord and PartitionChangeRecord: what every reassignment and election is written in."""

from __future__ import annotations

from dataclasses import dataclass
from struct import unpack
from typing import Any

from rebalance_audit.domain.wire import MAX_INT32, DecodeReason, Reader, UnknownTags

NO_CHANGE = -2
"""PartitionChangeRecord.leader: as it was."""
NO_LEADER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """The whole state of a partition: when it is created, and in snapshots. Source: PartitionRecord.json."""

    partition_id: int
    topic_id: str
    replicas: tuple[int, ...]
    """The first is the preferred leader."""
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[str, ...] | None = None
    """Beside `replicas`; since version 1 (KIP-858, Kafka 3.7)."""
    leader_recovery_state: int = 0
    """0 recovered, 1 recovering."""
    eligible_leader_replicas: tuple[int, ...] | None = None
    """Since version 2 (KIP-966, Kafka 4.0)."""
    last_known_elr: tuple[int, ...] | None = None
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A change of a partition; None is "as it was". Source: PartitionChangeRecord.json.

    It carries no epochs: each one adds 1 to the partition epoch, each with a leader, the same one too, to the leader's.
    """

    partition_id: int
    topic_id: str
    isr: tuple[int, ...] | None = None
    leader: int = NO_CHANGE
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    """Empty: none any more."""
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    eligible_leader_replicas: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    directories: tuple[str, ...] | None = None
    unknown_tags: UnknownTags = ()


def read_partition(reader: Reader, version: int) -> PartitionRecord:
    partition_id = reader.int32("partitionId")
    topic_id = reader.uuid("topicId")
    replicas = _known_ids(reader, "replicas")
    isr = _known_ids(reader, "isr")
    removing = _known_ids(reader, "removingReplicas")
    adding = _known_ids(reader, "addingReplicas")
    leader = reader.int32("leader")
    leader_epoch = reader.int32("leaderEpoch")
    partition_epoch = reader.int32("partitionEpoch")
    directories = reader.array("directories", _read_uuid) if version >= 1 else None
    recovery = 0
    elr: tuple[int, ...] | None = None
    last_elr: tuple[int, ...] | None = None
    unknown: list[tuple[int, bytes]] = []
    for tag, size in reader.tag_heads():
        if tag == 0:
            recovery = reader.int8("leaderRecoveryState")
        elif tag in (1, 2) and version < 2:
            reader.refuse_tag(tag, version)
        elif tag == 1:
            elr = _ids(reader, "eligibleLeaderReplicas")
        elif tag == 2:
            last_elr = _ids(reader, "lastKnownElr")
        else:
            unknown.append((tag, reader.take(size, f"tag {tag}")))
    return PartitionRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        replicas=replicas,
        isr=isr,
        removing_replicas=removing,
        adding_replicas=adding,
        leader=leader,
        leader_epoch=leader_epoch,
        partition_epoch=partition_epoch,
        directories=directories,
        leader_recovery_state=recovery,
        eligible_leader_replicas=elr,
        last_known_elr=last_elr,
        unknown_tags=tuple(unknown),
    )


def read_partition_change(reader: Reader, version: int) -> PartitionChangeRecord:
    partition_id = reader.int32("partitionId")
    topic_id = reader.uuid("topicId")
    key = (version, reader.buf[reader.at :])
    known = _CHANGES.get(key)
    if known is None:
        known = _read_changes(reader, version)
        if len(_CHANGES) >= _CACHED:
            _CHANGES.clear()
        _CHANGES[key] = known
    else:
        reader.at = reader.end
    isr, leader, replicas, removing, adding, recovery, elr, last_elr, directories, unknown = known
    return PartitionChangeRecord(
        partition_id=partition_id,
        topic_id=topic_id,
        isr=isr,
        leader=leader,
        replicas=replicas,
        removing_replicas=removing,
        adding_replicas=adding,
        leader_recovery_state=recovery,
        eligible_leader_replicas=elr,
        last_known_elr=last_elr,
        directories=directories,
        unknown_tags=unknown,
    )


_CACHED = 20_000
_CHANGES: dict[tuple[int, bytes], tuple[Any, ...]] = {}
"""One change is often that of thousands of partitions (a broker went, or came back): read once, by its bytes."""


def _read_changes(reader: Reader, version: int) -> tuple[Any, ...]:
    """The tagged fields in the order of PartitionChangeRecord's own."""
    leader, recovery = NO_CHANGE, -1
    lists: dict[int, tuple[int, ...] | None] = {}
    directories: tuple[str, ...] | None = None
    unknown: list[tuple[int, bytes]] = []
    for tag, size in reader.tag_heads():
        if tag == 1:
            leader = reader.int32("leader")
        elif tag == 5:
            recovery = reader.int8("leaderRecoveryState")
        elif version < _CHANGED_SINCE.get(tag, 0):
            reader.refuse_tag(tag, version)
        elif tag in _CHANGED_LISTS:
            lists[tag] = _ids(reader, _CHANGED_LISTS[tag])
        elif tag == 8:
            directories = reader.nullable_array("directories", _read_uuid)
        else:
            unknown.append((tag, reader.take(size, f"tag {tag}")))
    reader.expect_end()
    return (
        lists.get(0), leader, lists.get(2), lists.get(3), lists.get(4), recovery, lists.get(6), lists.get(7),
        directories, tuple(unknown),
    )  # fmt: skip


_CHANGED_LISTS = {
    0: "isr",
    2: "replicas",
    3: "removingReplicas",
    4: "addingReplicas",
    6: "eligibleLeaderReplicas",
    7: "lastKnownElr",
}
_CHANGED_SINCE = {6: 2, 7: 2, 8: 1}


def _ids(reader: Reader, field: str) -> tuple[int, ...] | None:
    """An array of int32, unpacked at once: half the time of reading a large log."""
    start = reader.at
    count = reader.uvarint(field) - 1
    if not 0 <= count <= MAX_INT32:  # negative as Java's int
        return None
    if 4 * count > reader.remaining:
        raise reader.error(DecodeReason.SHORT_BUFFER, start, field)
    return unpack(f">{count}i", reader.take(4 * count, field))


def _known_ids(reader: Reader, field: str) -> tuple[int, ...]:
    start = reader.at
    ids = _ids(reader, field)
    if ids is None:
        raise reader.error(DecodeReason.NULL_NOT_ALLOWED, start, field)
    return ids


def _read_uuid(reader: Reader) -> str:
    return reader.uuid("")
