"""Types 0 and 1: an offset commit. It names no generation and no member. Source: OffsetCommitValue.json."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.frozen import quick
from rebalance_audit.domain.wire import Reader, UnknownTags, none_if_minus_one

VERSIONS = range(5)
FLEXIBLE_FROM = 4

_ZERO_UUID = "A" * 22


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    offset: int
    """The committed offset: the next one to be read."""
    leader_epoch: int | None
    """Since version 3; None when -1."""
    metadata: str
    """Free text of the client."""
    commit_timestamp: int
    """Epoch milliseconds, as the coordinator saw it."""
    expire_timestamp: int | None
    """Epoch milliseconds; version 1 only; None when -1."""
    topic_id: str | None
    """Tag 0, Kafka 4.1 and later; None when all zero."""
    unknown_tags: UnknownTags = ()


def read_offset_commit_value(reader: Reader, version: int) -> OffsetCommitValue:
    offset = reader.int64("offset")
    leader_epoch = none_if_minus_one(reader.int32("leaderEpoch")) if version >= 3 else None
    metadata = reader.string("metadata")
    commit_timestamp = reader.int64("commitTimestamp")
    expire_timestamp = none_if_minus_one(reader.int64("expireTimestamp")) if version == 1 else None
    topic_id: str | None = None

    def read_topic_id(tagged: Reader) -> None:
        nonlocal topic_id
        topic_id = tagged.uuid("topicId")

    unknown_tags = reader.tags({0: read_topic_id})
    return OffsetCommitValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp=commit_timestamp,
        expire_timestamp=expire_timestamp,
        topic_id=None if topic_id == _ZERO_UUID else topic_id,
        unknown_tags=unknown_tags,
    )
