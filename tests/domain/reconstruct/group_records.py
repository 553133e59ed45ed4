"""Group records for stories, read from the bytes that a coordinator writes."""

from __future__ import annotations

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.model import GroupRecord, SourceRecord


def group_record(
    key: bytes, value: bytes | None, *, cluster_id: str, partition: int, offset: int, at_ms: int
) -> GroupRecord:
    decoded = decode_source(
        SourceRecord(
            cluster_id=cluster_id,
            topic="__consumer_offsets",
            partition=partition,
            offset=offset,
            timestamp_ms=at_ms,
            key=key,
            value=value,
        )
    )
    assert isinstance(decoded, GroupRecord)
    return decoded
