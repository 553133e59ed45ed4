"""Records of `__consumer_offsets`, encoded from tables that say, per record type and release, which fields follow each
other. A value is a dict of the upstream field names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.encoders.primitives import (
    array,
    bytes_,
    int8,
    int16,
    int32,
    int64,
    string,
    tagged_fields,
    uint16,
    uuid,
    uvarint,
)

# What each record type holds. `?` nullable, `[]` array, `@` a struct of STRUCTS, `tag N` a tagged field.

Fields = Sequence[tuple[str, str]]

_TOPIC_METADATA = "[]@TopicMetadata"
STRUCTS: Mapping[str, Fields] = {
    "TopicPartitions": [("TopicId", "uuid"), ("Partitions", "[]int32")],
    "TopicPartitions4.3": [
        ("TopicId", "uuid"),
        ("Partitions", "[]int32"),
        ("AssignmentEpochs", "tag 0 []int32?"),
    ],
    "UnnamedTopic": [("TopicId", "uuid"), ("NumPartitions", "int32")],
    "TopicMetadata": [
        ("TopicId", "uuid"),
        ("TopicName", "string"),
        ("NumPartitions", "int32"),
        ("PartitionMetadata", "[]@PartitionMetadata"),
    ],
    "PartitionMetadata": [("Partition", "int32"), ("Racks", "[]string")],
    "Assignor": [
        ("Name", "string"),
        ("MinimumVersion", "int16"),
        ("MaximumVersion", "int16"),
        ("Reason", "int8"),
        ("Version", "int16"),
        ("Metadata", "bytes"),
    ],
    "ClassicMemberMetadata": [("SessionTimeoutMs", "int32"), ("SupportedProtocols", "[]@ClassicProtocol")],
    "ClassicProtocol": [("Name", "string"), ("Metadata", "bytes")],
    "TopicPartitionsInfo": [("TopicId", "uuid"), ("TopicName", "string"), ("Partitions", "[]int32")],
    "TopicInfo": [("TopicId", "uuid"), ("TopicName", "string")],
    "KeyValue": [("Key", "string"), ("Value", "string")],
    "Endpoint": [("Host", "string"), ("Port", "uint16")],
    "TaskIds": [("SubtopologyId", "string"), ("Partitions", "[]int32")],
    "TaskIds4.2": [
        ("SubtopologyId", "string"),
        ("Partitions", "[]int32"),
        ("AssignmentEpochs", "tag 0 []int32?"),
    ],
    "InternalTopic": [
        ("Name", "string"),
        ("Partitions", "int32"),
        ("ReplicationFactor", "int16"),
        ("TopicConfigs", "[]@KeyValue"),
    ],
    "CopartitionGroup": [
        ("SourceTopics", "[]int16"),
        ("SourceTopicRegex", "[]int16"),
        ("RepartitionSourceTopics", "[]int16"),
    ],
    "Subtopology": [
        ("SubtopologyId", "string"),
        ("SourceTopics", "[]string"),
        ("SourceTopicRegex", "[]string"),
        ("StateChangelogTopics", "[]@InternalTopic"),
        ("RepartitionSinkTopics", "[]string"),
        ("RepartitionSourceTopics", "[]@InternalTopic"),
        ("CopartitionGroups", "[]@CopartitionGroup"),
    ],
}
for _since in range(4):
    STRUCTS = {
        **STRUCTS,
        f"Member{_since}": [
            ("MemberId", "string"),
            *([("GroupInstanceId", "string?")] if _since >= 3 else []),
            ("ClientId", "string"),
            ("ClientHost", "string"),
            *([("RebalanceTimeout", "int32")] if _since >= 1 else []),
            ("SessionTimeout", "int32"),
            ("Subscription", "bytes"),
            ("Assignment", "bytes"),
        ],
    }


def _offset_commit(version: int) -> Fields:
    return [
        ("Offset", "int64"),
        *([("LeaderEpoch", "int32")] if version >= 3 else []),
        ("Metadata", "string"),
        ("CommitTimestamp", "int64"),
        *([("ExpireTimestamp", "int64")] if version == 1 else []),
        *([("TopicId", "tag 0 uuid")] if version >= 4 else []),
    ]


def _group_metadata(version: int) -> Fields:
    return [
        ("ProtocolType", "string"),
        ("Generation", "int32"),
        ("Protocol", "string?"),
        ("Leader", "string?"),
        *([("CurrentStateTimestamp", "int64")] if version >= 2 else []),
        ("Members", f"[]@Member{min(version, 3)}"),
    ]


_MEMBER_3_5_TO_3_7: Fields = [
    ("InstanceId", "string?"),
    ("RackId", "string?"),
    ("ClientId", "string"),
    ("ClientHost", "string"),
    ("SubscribedTopicNames", "[]string"),
    ("SubscribedTopicRegex", "string?"),
]
_STATE_PARTITIONS: Fields = [
    ("InitializedTopics", "[]@TopicPartitionsInfo"),
    ("DeletingTopics", "[]@TopicInfo"),
]
_TASKS = ("ActiveTasks", "StandbyTasks", "WarmupTasks")
_TARGET_EPOCH: Fields = [("AssignmentEpoch", "int32"), ("AssignmentTimestamp", "tag 0 int64")]

VALUES: Mapping[tuple[int, str], tuple[int, Fields]] = {
    **{(kind, f"v{v}"): (v, _offset_commit(v)) for kind in (0, 1) for v in range(5)},
    **{(2, f"v{v}"): (v, _group_metadata(v)) for v in range(5)},
    (3, "4.1"): (0, [("Epoch", "int32"), ("MetadataHash", "tag 0 int64")]),
    (4, "3.5"): (0, [("Epoch", "int32"), ("Topics", "[]@UnnamedTopic")]),
    (4, "3.6"): (0, [("Epoch", "int32"), ("Topics", _TOPIC_METADATA)]),
    (4, "3.8"): (0, [("Topics", _TOPIC_METADATA)]),
    (5, "3.5"): (0, [("GroupEpoch", "int32"), *_MEMBER_3_5_TO_3_7, ("Assignors", "[]@Assignor")]),
    (5, "3.6"): (
        0,
        [
            *_MEMBER_3_5_TO_3_7,
            ("RebalanceTimeoutMs", "int32"),
            ("ServerAssignor", "string?"),
            ("Assignors", "[]@Assignor"),
        ],
    ),
    (5, "3.8"): (
        0,
        [
            *_MEMBER_3_5_TO_3_7,
            ("RebalanceTimeoutMs", "int32"),
            ("ServerAssignor", "string?"),
            ("ClassicMemberMetadata", "tag 0 @ClassicMemberMetadata?"),
        ],
    ),
    (6, "4.3"): (0, _TARGET_EPOCH),
    (7, "3.5"): (
        0,
        [
            ("Error", "int8"),
            ("TopicPartitions", "[]@TopicPartitions"),
            ("MetadataVersion", "int16"),
            ("MetadataBytes", "bytes"),
        ],
    ),
    (7, "3.8"): (0, [("TopicPartitions", "[]@TopicPartitions")]),
    (8, "3.5"): (
        0,
        [
            ("MemberEpoch", "int32"),
            ("Error", "int8"),
            ("TopicPartitions", "[]@TopicPartitions"),
            ("MetadataVersion", "int16"),
            ("MetadataBytes", "bytes"),
        ],
    ),
    (8, "3.6"): (
        0,
        [
            ("MemberEpoch", "int32"),
            ("PreviousMemberEpoch", "int32"),
            ("TargetMemberEpoch", "int32"),
            ("AssignedPartitions", "[]@TopicPartitions"),
            ("PartitionsPendingRevocation", "[]@TopicPartitions"),
            ("PartitionsPendingAssignment", "[]@TopicPartitions"),
            ("Error", "int8"),
            ("MetadataVersion", "int16"),
            ("MetadataBytes", "bytes"),
        ],
    ),
    (8, "3.8"): (
        0,
        [
            ("MemberEpoch", "int32"),
            ("PreviousMemberEpoch", "int32"),
            ("State", "int8"),
            ("AssignedPartitions", "[]@TopicPartitions4.3"),
            ("PartitionsPendingRevocation", "[]@TopicPartitions4.3"),
        ],
    ),
    (9, "3.9"): (0, _STATE_PARTITIONS),
    (9, "4.0"): (0, [("Topics", _TOPIC_METADATA)]),
    (10, "3.9"): (
        0,
        [
            ("RackId", "string?"),
            ("ClientId", "string"),
            ("ClientHost", "string"),
            ("SubscribedTopicNames", "[]string"),
        ],
    ),
    (11, "3.9"): (0, [("Epoch", "int32")]),
    (11, "4.1"): (0, [("Epoch", "int32"), ("MetadataHash", "int64")]),
    (12, "4.3"): (0, _TARGET_EPOCH),
    (13, "4.0"): (0, [("TopicPartitions", "[]@TopicPartitions")]),
    (14, "4.0"): (
        0,
        [
            ("MemberEpoch", "int32"),
            ("PreviousMemberEpoch", "int32"),
            ("State", "int8"),
            ("AssignedPartitions", "[]@TopicPartitions"),
        ],
    ),
    (15, "4.0"): (0, _STATE_PARTITIONS),
    (15, "4.1"): (0, [("InitializingTopics", "[]@TopicPartitionsInfo"), *_STATE_PARTITIONS]),
    (16, "4.0"): (0, [("Topics", "[]string"), ("Version", "int64"), ("Timestamp", "int64")]),
    (17, "4.4"): (
        0,
        [
            ("Epoch", "int32"),
            ("MetadataHash", "int64"),
            ("ValidatedTopologyEpoch", "tag 0 int32"),
            ("LastAssignmentConfigs", "tag 1 []@KeyValue?"),
            ("StoredDescriptionTopologyEpoch", "tag 2 int32"),
            ("FailedDescriptionTopologyEpoch", "tag 3 int32"),
        ],
    ),
    (19, "4.1"): (
        0,
        [
            ("InstanceId", "string?"),
            ("RackId", "string?"),
            ("ClientId", "string"),
            ("ClientHost", "string"),
            ("RebalanceTimeoutMs", "int32"),
            ("TopologyEpoch", "int32"),
            ("ProcessId", "string"),
            ("UserEndpoint", "@Endpoint?"),
            ("ClientTags", "[]@KeyValue"),
        ],
    ),
    (20, "4.3"): (0, _TARGET_EPOCH),
    (21, "4.1"): (0, [(name, "[]@TaskIds") for name in _TASKS]),
    (22, "4.2"): (
        0,
        [
            ("MemberEpoch", "int32"),
            ("PreviousMemberEpoch", "int32"),
            ("State", "int8"),
            *((name, "[]@TaskIds4.2") for name in _TASKS),
            *((f"{name}PendingRevocation", "[]@TaskIds4.2") for name in _TASKS),
        ],
    ),
    (23, "4.1"): (0, [("Epoch", "int32"), ("Subtopologies", "[]@Subtopology")]),
}
"""Fields by (record type, version or release), with the version number they are written under."""

_KEY_FIELDS: Mapping[int, tuple[str, ...]] = {
    0: ("group", "topic", "partition"),
    1: ("group", "topic", "partition"),
    16: ("groupId", "regularExpression"),
    **dict.fromkeys((5, 7, 8, 10, 13, 14, 19, 21, 22), ("groupId", "memberId")),
}
_FLEXIBLE_FROM = {0: 4, 1: 4, 2: 4}


def _encode(kind: str, value: Any, flexible: bool) -> bytes:
    nullable = kind.endswith("?")
    kind = kind.removesuffix("?")
    if kind.startswith("[]"):
        return array(None if value is None else [_encode(kind[2:], each, flexible) for each in value], flexible)
    if kind.startswith("@"):
        if nullable and value is None:
            return int8(-1)
        return (int8(1) if nullable else b"") + encode_fields(STRUCTS[kind[1:]], value, flexible)
    match kind:
        case "string":
            return string(value, flexible)
        case "bytes":
            return bytes_(value, flexible)
        case "uuid":
            return uuid(value)
    return {"int8": int8, "int16": int16, "uint16": uint16, "int32": int32, "int64": int64}[kind](value)


def encode_fields(fields: Fields, value: Mapping[str, Any], flexible: bool) -> bytes:
    """`value` may hold `unknown_tags`: {tag: bytes}. A tagged field that is missing in it is left out."""
    out = b""
    tags: dict[int, bytes] = dict(value.get("unknown_tags", {}))
    for name, kind in fields:
        if kind.startswith("tag "):
            _, tag, kind = kind.split(" ", 2)
            if name in value:
                tags[int(tag)] = _encode(kind, value[name], flexible)
                if kind.startswith("@") and value[name] is None:
                    tags[int(tag)] = uvarint(0)  # unlike an untagged struct, whose null is -1
        else:
            out += _encode(kind, value[name], flexible)
    return out + (tagged_fields(tags) if flexible else b"")


def key_fields(record_type: int) -> tuple[str, ...]:
    return _KEY_FIELDS.get(record_type, ("group",) if record_type == 2 else ("groupId",))


def record_key(record_type: int, *parts: str | int) -> bytes:
    """Keys are never flexible: strings, and one int32 for a partition."""
    assert len(parts) == len(key_fields(record_type))
    return int16(record_type) + b"".join(string(p) if isinstance(p, str) else int32(p) for p in parts)


def record_value(record_type: int, layout: str, value: Mapping[str, Any]) -> bytes:
    """`layout` is a release, or `v3` for version 3 of types 0 to 2."""
    version, fields = VALUES[record_type, layout]
    return int16(version) + encode_fields(fields, value, version >= _FLEXIBLE_FROM.get(record_type, 0))


# Classic records, with the values a test does not care about filled in


def offset_commit_key(group: str, topic: str, partition: int) -> bytes:
    return record_key(1, group, topic, partition)


def offset_commit_value(
    offset: int,
    at_ms: int,
    version: int = 3,
    metadata: str = "",
    leader_epoch: int = -1,
    topic_id: str | None = None,
) -> bytes:
    value: dict[str, Any] = {
        "Offset": offset,
        "LeaderEpoch": leader_epoch,
        "Metadata": metadata,
        "CommitTimestamp": at_ms,
        "ExpireTimestamp": -1,
    }
    if topic_id is not None:
        value["TopicId"] = topic_id
    return record_value(1, f"v{version}", value)


def group_metadata_key(group: str) -> bytes:
    return record_key(2, group)


def classic_member(
    member_id: str,
    *,
    subscription: bytes = b"",
    assignment: bytes = b"",
    group_instance_id: str | None = None,
    client_id: str = "client",
    client_host: str = "/127.0.0.1",
    rebalance_timeout_ms: int = 300_000,
    session_timeout_ms: int = 45_000,
) -> dict[str, Any]:
    return {
        "MemberId": member_id,
        "GroupInstanceId": group_instance_id,
        "ClientId": client_id,
        "ClientHost": client_host,
        "RebalanceTimeout": rebalance_timeout_ms,
        "SessionTimeout": session_timeout_ms,
        "Subscription": subscription,
        "Assignment": assignment,
    }


def group_metadata_value(
    generation: int,
    members: Iterable[Mapping[str, Any]] = (),
    *,
    version: int = 3,
    protocol_type: str = "consumer",
    protocol: str | None = None,
    leader: str | None = None,
    current_state_timestamp: int = -1,
) -> bytes:
    return record_value(
        2,
        f"v{version}",
        {
            "ProtocolType": protocol_type,
            "Generation": generation,
            "Protocol": protocol,
            "Leader": leader,
            "CurrentStateTimestamp": current_state_timestamp,
            "Members": list(members),
        },
    )
