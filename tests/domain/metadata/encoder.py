"""Records of the metadata log as Kafka writes them: from the tables of the format's description, not from our decoder.

A record is a dict of the upstream field names. Fields that are missing are zero, empty or null; tags that are missing
are not written.
"""

from __future__ import annotations

import base64
from typing import Any

from tests.encoders import int8, int16, int32, int64, string, uint16, uuid, uvarint

Fields = list[tuple[str, str]]
_ENDPOINT: Fields = [("name", "string"), ("host", "string"), ("port", "uint16"), ("securityProtocol", "int16")]
_FEATURE: Fields = [("name", "string"), ("minSupportedVersion", "int16"), ("maxSupportedVersion", "int16")]
_STRUCTS = {"endpoint": _ENDPOINT, "feature": _FEATURE}
_PARTITION: Fields = [
    ("partitionId", "int32"), ("topicId", "uuid"), ("replicas", "[]int32"), ("isr", "[]int32"),
    ("removingReplicas", "[]int32"), ("addingReplicas", "[]int32"), ("leader", "int32"), ("leaderEpoch", "int32"),
    ("partitionEpoch", "int32"),
]  # fmt: skip
_PARTITION_TAGS = {0: ("leaderRecoveryState", "int8")}
_CHANGE_TAGS = {
    0: ("isr", "[]int32"), 1: ("leader", "int32"), 2: ("replicas", "[]int32"), 3: ("removingReplicas", "[]int32"),
    4: ("addingReplicas", "[]int32"), 5: ("leaderRecoveryState", "int8"),
}  # fmt: skip
_REGISTER: Fields = [
    ("incarnationId", "uuid"), ("brokerEpoch", "int64"), ("endPoints", "[]endpoint"), ("features", "[]feature"),
    ("rack", "string?"), ("fenced", "bool"),
]  # fmt: skip
_ID: Fields = [("brokerId", "int32")]
_LOG_DIRS = {0: ("logDirs", "[]uuid")}
_CHANGE: Fields = [("partitionId", "int32"), ("topicId", "uuid")]
_ELR = ("eligibleLeaderReplicas", "[]int32"), ("lastKnownElr", "[]int32")
_REGISTRATION: Fields = [*_ID, ("brokerEpoch", "int64")]
Tags = dict[int, tuple[str, str]]

LAYOUTS: dict[tuple[int, int], tuple[Fields, Tags]] = {
    (0, 0): (_ID + _REGISTER, {}),
    (0, 1): ([*_ID, *_REGISTER, ("inControlledShutdown", "bool")], {}),
    (0, 2): ([*_ID, ("isMigratingZkBroker", "bool"), *_REGISTER, ("inControlledShutdown", "bool")], {}),
    (0, 3): ([*_ID, ("isMigratingZkBroker", "bool"), *_REGISTER, ("inControlledShutdown", "bool")], _LOG_DIRS),
    (0, 4): (
        [*_ID, ("isMigratingZkBroker", "bool"), *_REGISTER, ("inControlledShutdown", "bool")],
        {**_LOG_DIRS, 1: ("cordonedLogDirs", "[]uuid")},
    ),
    (1, 0): (_REGISTRATION, {}),
    (2, 0): ([("name", "string"), ("topicId", "uuid")], {}),
    (3, 0): (_PARTITION, _PARTITION_TAGS),
    (3, 1): ([*_PARTITION, ("directories", "[]uuid")], _PARTITION_TAGS),
    (3, 2): ([*_PARTITION, ("directories", "[]uuid")], {**_PARTITION_TAGS, 1: _ELR[0], 2: _ELR[1]}),
    (4, 0): ([("resourceType", "int8"), ("resourceName", "string"), ("name", "string"), ("value", "string?")], {}),
    (5, 0): (_CHANGE, _CHANGE_TAGS),
    (5, 1): (_CHANGE, {**_CHANGE_TAGS, 8: ("directories", "[]uuid")}),
    (5, 2): (_CHANGE, {**_CHANGE_TAGS, 6: _ELR[0], 7: _ELR[1], 8: ("directories", "[]uuid")}),
    (7, 0): ([("id", "int32"), ("epoch", "int64")], {}),
    (8, 0): ([("id", "int32"), ("epoch", "int64")], {}),
    (9, 0): ([("topicId", "uuid")], {}),
    (12, 0): ([("name", "string"), ("featureLevel", "int16")], {}),
    (17, 0): (_REGISTRATION, {0: ("fenced", "int8")}),
    (17, 1): (_REGISTRATION, {0: ("fenced", "int8"), 1: ("inControlledShutdown", "int8")}),
    (17, 2): (
        _REGISTRATION,
        {0: ("fenced", "int8"), 1: ("inControlledShutdown", "int8"), 2: ("logDirs", "[]uuid")},
    ),
    (17, 3): (
        _REGISTRATION,
        {
            0: ("fenced", "int8"),
            1: ("inControlledShutdown", "int8"),
            2: ("logDirs", "[]uuid"),
            3: ("cordonedLogDirs", "[]uuid"),
        },
    ),
    (20, 0): ([], {}),
    (23, 0): ([], {0: ("name", "string?")}),
    (24, 0): ([], {}),
    (25, 0): ([], {0: ("reason", "string?")}),
    (27, 0): (
        [
            ("controllerId", "int32"),
            ("incarnationId", "uuid"),
            ("zkMigrationReady", "bool"),
            ("endPoints", "[]endpoint"),
            ("features", "[]feature"),
        ],
        {},
    ),
    (28, 0): ([("topicName", "string")], {}),
    (29, 0): ([("controllerId", "int32")], {}),
}


def topic_id(number: int) -> str:
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


def record(number: int, version: int, fields: dict[str, Any], *, unknown_tags: dict[int, bytes] | None = None) -> bytes:
    """Frame and message."""
    plain, tags = LAYOUTS[number, version]
    content = b"".join(_field(kind, fields.get(name)) for name, kind in plain)
    tagged = {tag: _field(kind, fields[name]) for tag, (name, kind) in tags.items() if name in fields}
    return uvarint(1) + uvarint(number) + uvarint(version) + content + _tags(tagged | (unknown_tags or {}))


def _tags(tagged: dict[int, bytes]) -> bytes:
    parts = [uvarint(tag) + uvarint(len(content)) + content for tag, content in sorted(tagged.items())]
    return uvarint(len(parts)) + b"".join(parts)


def _field(kind: str, value: Any) -> bytes:
    if kind.startswith("[]"):
        items = value or ()
        return uvarint(len(items) + 1) + b"".join(_field(kind[2:], item) for item in items)
    if kind in _STRUCTS:
        return b"".join(_field(inner, value.get(name)) for name, inner in _STRUCTS[kind]) + uvarint(0)
    match kind:
        case "string":
            return string(value or "", flexible=True)
        case "string?":
            return string(value, flexible=True)
        case "bool":
            return int8(1 if value else 0)
        case "uuid":
            return uuid(value or topic_id(0))
        case "uint16":
            return uint16(value or 0)
    return {"int8": int8, "int16": int16, "int32": int32, "int64": int64}[kind](value or 0)
