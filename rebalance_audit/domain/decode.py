"""One record as it was -> what it says, or DecodeError.

Kafka's field names end here: later code uses `group_id`, `at_ms`, refs.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Mapping
from dataclasses import dataclass, is_dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from rebalance_audit.domain import protocols
from rebalance_audit.domain.connect_topics import decode_config, decode_status, key_kind
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, SourceRecord
from rebalance_audit.domain.protocols.consumer_protocol import ConsumerAssignment, ConsumerSubscription
from rebalance_audit.domain.records import (
    CoordinatorRecord,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    decode_record,
    record_name,
)
from rebalance_audit.domain.wire import DecodeError, DecodeReason

OFFSETS_TOPIC = "__consumer_offsets"


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """One offset commit of one group, topic and partition."""

    group_id: str
    topic: str
    partition: int
    ref: str
    at_ms: int
    offsets_topic: str
    offsets_partition: int
    offset: int
    """The record's offset in `offsets_topic`."""
    is_tombstone: bool
    committed_offset: int | None
    """None for a tombstone."""
    topic_id: str | None
    """Kafka 4.1 and later."""
    is_transactional: bool
    """It counts from its transaction's COMMIT marker on, and never if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """Understood, and of no interest to any later stage."""

    kind: str
    why: str


Decoded = GroupRecord | Commit | ConnectRecord | Skipped

_CONTROL = "control"


def decode_source(record: SourceRecord) -> Decoded:
    """Raises DecodeError."""
    if record.is_control:
        return Skipped(kind=_CONTROL, why="a transaction marker")
    if record.topic == OFFSETS_TOPIC:
        return _decode_offsets_topic(record)
    return _decode_connect_topic(record)


def _decode_offsets_topic(record: SourceRecord) -> GroupRecord | Commit:
    decoded = decode_record(record.key, record.value)
    key, value = decoded.key, decoded.value
    if not isinstance(key, OffsetCommitKey):
        return GroupRecord(
            ref=record.ref,
            at_ms=record.timestamp_ms,
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            record=decoded,
        )
    commit = value if isinstance(value, OffsetCommitValue) else None
    return Commit(
        group_id=key.group,
        topic=key.topic,
        partition=key.partition,
        ref=record.ref,
        at_ms=record.timestamp_ms,
        offsets_topic=record.topic,
        offsets_partition=record.partition,
        offset=record.offset,
        is_tombstone=commit is None,
        committed_offset=commit.offset if commit else None,
        topic_id=commit.topic_id if commit else None,
        is_transactional=record.is_transactional,
    )


def _decode_connect_topic(record: SourceRecord) -> ConnectRecord | Skipped:
    if record.key is None:
        raise DecodeError(DecodeReason.NULL_NOT_ALLOWED, 0, "", "key")
    match key_kind(record.key):
        case "status":
            status = decode_status(record.key, record.value)
            if status.kind == "topic":
                return Skipped(kind="status-topic", why="which topics a connector uses")
            return _connect_record(record, status)
        case "config":
            return _connect_record(record, decode_config(record.key, record.value))
        case "offsets":
            return Skipped(kind="connect-offset", why="where a source connector is in its source")
        case None:
            raise DecodeError(DecodeReason.UNKNOWN_RECORD_TYPE, 0, "", "key")


def _connect_record(record: SourceRecord, decoded: object) -> ConnectRecord:
    return ConnectRecord(
        ref=record.ref,
        at_ms=record.timestamp_ms,
        topic=record.topic,
        partition=record.partition,
        offset=record.offset,
        record=decoded,
    )


def source_kind(record: SourceRecord) -> str:
    """The kind under which decode counts a record, decodable or not: its record type, or the kind of its key. Never
    raises."""
    if record.is_control:
        return _CONTROL
    if record.topic == OFFSETS_TOPIC:
        return record_name(record.key) or "unknown"
    return {"status": "status", "config": "config", "offsets": "connect-offset", None: "unknown"}[key_kind(record.key)]


def detail(decoded: Decoded) -> dict[str, Any]:
    """The decoded content as JSON for readers. Bytes of members are decoded where their protocol is known; bytes
    that are not, and could not be, are base64."""
    if isinstance(decoded, GroupRecord):
        return _group_detail(decoded.record)
    if isinstance(decoded, ConnectRecord):
        return _plain_fields(decoded.record)
    return _plain_fields(decoded)


def _group_detail(record: CoordinatorRecord) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "record": record.name,
        "type": record.record_type,
        "version": record.value_version,
        "key": _plain_fields(record.key),
        "value": None if record.value is None else _plain_fields(record.value),
    }
    if record.layout is not None:
        plain["layout"] = record.layout
    if isinstance(record.value, GroupMetadataValue):
        for member, shown in zip(record.value.members, plain["value"]["members"], strict=True):
            given = member.assignment
            shown["subscription"] = _bytes_detail(record.value, member.subscription, _OF_SUBSCRIPTION)
            shown["assignment"] = _bytes_detail(record.value, given, _OF_ASSIGNMENT) if given else None
    return plain


_Decoders: TypeAlias = tuple[Callable[[str, bytes], Any], Callable[[str | None, bytes | None], Any]]
_OF_SUBSCRIPTION: _Decoders = (protocols.decode_member_subscription, protocols.decode_subscription_user_data)
_OF_ASSIGNMENT: _Decoders = (protocols.decode_member_assignment, protocols.decode_assignment_user_data)
_REPEATED_BYTES = 512
"""A group's next record repeats most of what its members put into the last one. What is larger would fill the memory:
some 20 MB are kept at most, by sizes in Python."""


def _bytes_detail(group: GroupMetadataValue, data: bytes, of: _Decoders) -> Any:
    """A member's subscription or assignment, with the user data inside that of a consumer. Not to be changed: others
    hold the same."""
    show = _repeated_detail if len(data) <= _REPEATED_BYTES else _bytes_shown
    return show(group.protocol_type, group.protocol, data, of)


def _bytes_shown(protocol_type: str, protocol: str | None, data: bytes, of: _Decoders) -> Any:
    decode, decode_user_data = of
    try:
        decoded = decode(protocol_type, data)
    except DecodeError as refused:
        return {"undecoded": str(refused), "bytes": _plain(data)}
    if decoded is None:
        return _plain(data)
    shown = _plain_fields(decoded)
    if isinstance(decoded, ConsumerSubscription | ConsumerAssignment):
        try:
            user_data = decode_user_data(protocol, decoded.user_data)
        except DecodeError as refused:
            shown["user_data_undecoded"] = str(refused)
        else:
            if user_data is not None:
                shown["user_data"] = _plain_fields(user_data)
    return shown


_repeated_detail = lru_cache(maxsize=4096)(_bytes_shown)


def _plain_fields(thing: Any) -> dict[str, Any]:
    plain = {}
    for name in thing.__dataclass_fields__:
        value = getattr(thing, name)
        plain[name] = value if type(value) in _AS_THEY_ARE else _plain(value)
    for usually_empty in ("unknown_tags", "rest"):
        if not plain.get(usually_empty, True):
            del plain[usually_empty]
    return plain


_AS_THEY_ARE = frozenset({str, int, bool, type(None)})


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, tuple | list):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {name: _plain(each) for name, each in value.items()}
    if is_dataclass(value):
        return _plain_fields(value)
    return value
