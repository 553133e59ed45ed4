"""The metadata log: single records, and a log with transactions, snapshots and control records made of any bytes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from rebalance_audit.domain.metadata import (
    METADATA_TOPIC,
    MetadataReader,
    SourceMetadata,
    decode_control,
    decode_metadata,
    named_topic,
    redact_metadata,
)
from rebalance_audit.domain.wire import DecodeError
from tests.fuzz.split import joined, split

_CONTROL, _SNAPSHOT = 1, 2
_MOST_RECORDS = 500
"""A log has any number of records, and takes its time for each."""


def metadata_record(data: bytes) -> None:
    """Read or refused at a byte of it; and what may be stored is cut from what may not, once and for all."""
    try:
        decode_metadata(data)
    except DecodeError as refused:
        if not 0 <= refused.at <= len(data):
            raise AssertionError(f"refused at byte {refused.at} of {len(data)}") from refused
    kept = redact_metadata(data)
    if redact_metadata(kept) != kept:
        raise AssertionError("what was redacted is redacted otherwise a second time")


def metadata_log(data: bytes) -> None:
    """Every record of a log holds, waits for the end of its transaction, or is refused."""
    sources = list(islice(_log(data), _MOST_RECORDS))
    for source in sources:
        named_topic(source)
        if source.is_control:
            try:
                decode_control(source.key, source.value)
            except DecodeError as refused:
                if not 0 <= refused.at <= len(data):
                    raise AssertionError(f"refused at byte {refused.at} of {len(data)}") from refused
    reader = MetadataReader()
    count = sum(1 for _ in reader.read(sources)) + len(reader.refused)
    if count > len(sources):
        raise AssertionError(f"{count} records of {len(sources)}")


def as_log(records: list[tuple[int, bytes | None, bytes | None]]) -> bytes:
    """What `metadata_log` takes apart: flags (1 control, 2 in a snapshot), key and value of each."""
    parts = [bytes((flags,)) + joined(key, value) for flags, key, value in records]
    return b"".join(len(part).to_bytes(2, "big") + part for part in parts if len(part) < 1 << 16)


def _log(data: bytes) -> Iterator[SourceMetadata]:
    at, offset = 0, 0
    while at + 3 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        flags, (key, value) = data[at + 2], split(data[at + 3 : at + 2 + size])
        at += 2 + size
        yield SourceMetadata(
            cluster_id="lab", topic=METADATA_TOPIC, partition=0, offset=offset, timestamp_ms=offset, key=key,
            value=value, is_control=bool(flags & _CONTROL), node="controller-1", epoch=1,
            snapshot=(offset + flags, 1) if flags & _SNAPSHOT else None,
        )  # fmt: skip
        offset += 1 + (flags >> 6)
