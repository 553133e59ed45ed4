"""Records of the metadata log about topics, settings, features and transactions."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.wire import DecodeError, DecodeReason, Reader, UnknownTags

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4
"""ConfigRecord.resource_type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    name: str
    topic_id: str
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    topic_id: str
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One setting; `value` is REDACTED unless it is known to hold no secret. Source: ConfigRecord.json."""

    resource_type: int
    resource_name: str
    """Empty for brokers: the default of all."""
    name: str
    value: str | None
    """None: removed."""
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    name: str
    feature_level: int
    """The finalized level; in the layout to 3.2 the greatest of a range."""
    min_feature_level: int | None = None
    """To Kafka 3.2, under the same version number."""
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """The eligible leader replicas of one topic, or of all, were cleared. Source: ClearElrRecord.json (KIP-966, Kafka
    4.0)."""

    topic_name: str
    """Empty: of all topics."""
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    """A transaction of the controller begins: the records behind it become effective at its end, or never (KIP-868,
    Kafka 3.6)."""

    name: str | None = None
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    unknown_tags: UnknownTags = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    reason: str | None = None
    unknown_tags: UnknownTags = ()


def read_topic(reader: Reader, version: int) -> TopicRecord:
    name, topic_id = reader.string("name"), reader.uuid("topicId")
    return TopicRecord(name=name, topic_id=topic_id, unknown_tags=reader.tags({}))


def read_remove_topic(reader: Reader, version: int) -> RemoveTopicRecord:
    return RemoveTopicRecord(topic_id=reader.uuid("topicId"), unknown_tags=reader.tags({}))


def read_config(reader: Reader, version: int) -> ConfigRecord:
    return ConfigRecord(
        resource_type=reader.int8("resourceType"),
        resource_name=reader.string("resourceName"),
        name=reader.string("name"),
        value=reader.nullable_string("value"),
        unknown_tags=reader.tags({}),
    )


def read_feature_level(reader: Reader, version: int) -> FeatureLevelRecord:
    """The feature's name and level. Two layouts share version 0; the later one is taken if it uses up the bytes."""
    start = reader.at
    name, level = reader.string("name"), reader.int16("featureLevel")
    try:
        tags = reader.tags({})
        reader.expect_end()
    except DecodeError:
        reader.at = start
        name, lowest = reader.string("name"), reader.int16("minFeatureLevel")
        level = reader.int16("maxFeatureLevel")
        return FeatureLevelRecord(
            name=name, feature_level=level, min_feature_level=lowest, unknown_tags=reader.tags({})
        )
    return FeatureLevelRecord(name=name, feature_level=level, unknown_tags=tags)


def read_clear_elr(reader: Reader, version: int) -> ClearElrRecord:
    return ClearElrRecord(topic_name=reader.string("topicName"), unknown_tags=reader.tags({}))


def read_no_op(reader: Reader, version: int) -> NoOpRecord:
    return NoOpRecord(unknown_tags=reader.tags({}))


def read_begin_transaction(reader: Reader, version: int) -> BeginTransactionRecord:
    text, unknown = _tagged_text(reader, "name")
    return BeginTransactionRecord(name=text, unknown_tags=unknown)


def read_end_transaction(reader: Reader, version: int) -> EndTransactionRecord:
    return EndTransactionRecord(unknown_tags=reader.tags({}))


def read_abort_transaction(reader: Reader, version: int) -> AbortTransactionRecord:
    text, unknown = _tagged_text(reader, "reason")
    return AbortTransactionRecord(reason=text, unknown_tags=unknown)


def _tagged_text(reader: Reader, field: str) -> tuple[str | None, UnknownTags]:
    text: str | None = None

    def read(tagged: Reader) -> None:
        nonlocal text
        text = tagged.nullable_string(field)

    unknown = reader.tags({0: read})
    return text, unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlRecord:
    """A record of a control batch in the metadata log or a snapshot."""

    name: str
    """leader_change, snapshot_header, snapshot_footer, kraft_version, kraft_voters, or the number."""
    leader_id: int | None = None
    """leader_change: the active controller from here on."""
    last_contained_log_timestamp_ms: int | None = None
    """snapshot_header: the time of the last record the snapshot is made of."""
    kraft_version: int | None = None


_CONTROL_NAMES = {2: "leader_change", 3: "snapshot_header", 4: "snapshot_footer", 5: "kraft_version", 6: "kraft_voters"}


def decode_control(key: bytes | None, value: bytes | None) -> ControlRecord:
    """A control record by its key and value, without the voters in it. Raises DecodeError."""
    reader = Reader(key or b"", part="key")
    reader.int16("version")
    number = reader.int16("type")
    reader.expect_end()
    name = _CONTROL_NAMES.get(number, str(number))
    body = Reader(value or b"", flexible=True)
    if number in _CONTROL_NAMES and body.int16("version") < 0:
        raise DecodeError(DecodeReason.BAD_VALUE, 0, "version")
    match number:
        case 2:
            return ControlRecord(name=name, leader_id=body.int32("leaderId"))
        case 3:
            return ControlRecord(name=name, last_contained_log_timestamp_ms=body.int64("lastContainedLogTimestamp"))
        case 5:
            return ControlRecord(name=name, kraft_version=body.int16("kRaftVersion"))
        case _:
            return ControlRecord(name=name)
