"""Where a record of the metadata log stands."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rebalance_audit.domain.model import SourceRecord

METADATA_TOPIC = "__cluster_metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceMetadata(SourceRecord):
    """A record of `__cluster_metadata` exactly as it was, secrets removed.

    In a snapshot `offset` is the record's place in the file and means nothing else: the state is as of `snapshot`.
    """

    node: str
    """The node whose copy of the log it was read from."""
    epoch: int | None = None
    """The epoch of the quorum: a later one begins with another active controller."""
    snapshot: tuple[int, int] | None = None
    """(end offset, epoch) of the checkpoint's name; None in the log itself."""

    @property
    def ref(self) -> str:
        return metadata_ref(self.node, self.offset, self.snapshot)


def metadata_ref(node: str, offset: int, snapshot: tuple[int, int] | None = None) -> str:
    """`metadata:broker-1@1234`; in a checkpoint `metadata:broker-1@<its name>:<place>`."""
    if snapshot is None:
        return f"metadata:{node}@{offset}"
    return f"metadata:{node}@{checkpoint_name(snapshot)}:{offset}"


def checkpoint_name(snapshot: tuple[int, int]) -> str:
    """The name of the file, without its extension."""
    return f"{snapshot[0]:020d}-{snapshot[1]:010d}"


_SNAPSHOT_TOPIC = re.compile(re.escape(METADATA_TOPIC) + r"@(\d{20})-(\d{10})")


def bronze_topic(snapshot: tuple[int, int] | None) -> str:
    """The topic of bronze.record that a record stands under: places in a checkpoint are no offsets of the log."""
    return METADATA_TOPIC if snapshot is None else f"{METADATA_TOPIC}@{checkpoint_name(snapshot)}"


def is_metadata_topic(topic: str) -> bool:
    """Whether this topic of bronze.record is the metadata log or a snapshot of it: neither a group's nor Connect's."""
    return topic == METADATA_TOPIC or _SNAPSHOT_TOPIC.fullmatch(topic) is not None


def metadata_of_bronze(
    *,
    cluster_id: str,
    topic: str,
    offset: int,
    timestamp_ms: int,
    key: bytes | None,
    value: bytes | None,
    node: str | None,
    leader_epoch: int | None,
    is_control: bool | None,
) -> SourceMetadata:
    """A record of the metadata log from its row of bronze.record."""
    return SourceMetadata(
        cluster_id=cluster_id,
        topic=METADATA_TOPIC,
        partition=0,
        offset=offset,
        timestamp_ms=timestamp_ms,
        key=key,
        value=value,
        is_control=bool(is_control),
        node=node or "unknown",
        epoch=leader_epoch,
        snapshot=None if topic == METADATA_TOPIC else _snapshot_of(topic),
    )


def _snapshot_of(topic: str) -> tuple[int, int] | None:
    found = _SNAPSHOT_TOPIC.fullmatch(topic)
    return None if found is None else (int(found[1]), int(found[2]))
