"""Record batches of format 2: what one batch holds.

Source: DefaultRecordBatch.java, DefaultRecord.java (KIP-98; delete horizon: KIP-534).
"""

from __future__ import annotations

import struct
from typing import Final

import cramjam

Headers = tuple[tuple[str, bytes | None], ...]
Row = tuple[
    int,  # offset
    int,  # timestamp_ms
    bytes | None,  # key
    bytes | None,  # value
    Headers | None,
    int | None,  # leader_epoch
    int | None,  # producer_id
    int | None,  # producer_epoch
    bool | None,  # is_transactional
    bool | None,  # is_control
    int | None,  # batch_crc
    int | None,  # batch_base_offset
]
"""One record. A plain tuple: millions are made, and zip(*rows) turns them into columns."""
OFFSET: Final = 0
TIMESTAMP: Final = 1
KEY: Final = 2
VALUE: Final = 3
HEADERS: Final = 4
IS_CONTROL: Final = 9
ROW_COLUMNS = (
    "offset", "timestamp_ms", "key", "value", "headers", "leader_epoch", "producer_id", "producer_epoch",
    "is_transactional", "is_control", "batch_crc", "batch_base_offset",
)  # fmt: skip
"""The columns of bronze.record a Row holds, in its order."""

MAX_DECOMPRESSED_BYTES = 256 << 20
_HEADER = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES = _HEADER.size
_SMALLEST_RECORD_BYTES = 7
_MOST = 1 << 62
"""The greatest offset and time in ms: with any delta that a record may have, the sum still fits into a long, and a
column."""
_XERIAL_MAGIC = b"\x82SNAPPY\x00"


class BatchError(Exception):
    """The content of a batch is not what the format says."""


class SegmentBatch:
    """One batch whose frame and checksum are sound; its records are unpacked on demand.

    `last_offset` is that of the batch as produced: compaction removes records and leaves it.
    """

    __slots__ = (
        "attributes", "base_offset", "base_timestamp_ms", "crc", "data", "last_offset", "leader_epoch",
        "max_timestamp_ms", "position", "producer_epoch", "producer_id", "record_count",
    )  # fmt: skip

    def __init__(self, data: bytes, position: int) -> None:
        (
            self.base_offset, _, self.leader_epoch, _, self.crc, self.attributes, last_delta, self.base_timestamp_ms,
            self.max_timestamp_ms, self.producer_id, self.producer_epoch, _, self.record_count,
        ) = _HEADER.unpack_from(data)  # fmt: skip
        self.last_offset = self.base_offset + last_delta
        self.data = data
        self.position = position

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    def rows(self) -> list[Row]:
        """The batch's records in offset order; none if compaction emptied it. Raises BatchError."""
        attributes, size, at = self.attributes, self.record_count, HEADER_BYTES
        if size == 0:
            return []
        data = self.data
        if attributes & 0x07:
            data, at = decompress(attributes & 0x07, memoryview(data)[HEADER_BYTES:]), 0
        if not (0 <= self.base_offset < _MOST and -_MOST < self.base_timestamp_ms < _MOST):
            raise BatchError("has offsets or times that reach beyond a long")
        if size < 0 or size * _SMALLEST_RECORD_BYTES > len(data) - at:
            raise BatchError(f"claims {size} records in {len(data) - at} bytes")
        try:
            rows = self._parse(data, at)
        except IndexError as error:
            raise BatchError("holds fewer records than it claims") from error
        except UnicodeDecodeError as error:
            raise BatchError(f"has a header key that is not UTF-8 ({error})") from error
        if rows[0][0] < self.base_offset or rows[-1][0] > self.last_offset:
            raise BatchError("holds offsets outside its own range")
        return rows

    def _parse(self, data: bytes, at: int) -> list[Row]:  # noqa: C901  (one loop on purpose)
        # The hot loop of every import. Varints of one byte (of a record's length: two) are read in place; calling a
        # function for each of the seven would take three times as long.
        attributes, base_offset, crc, leader_epoch = self.attributes, self.base_offset, self.crc, self.leader_epoch
        base_timestamp = self.base_timestamp_ms  # with bit 6 the delete horizon: the deltas are relative to it, too
        log_append_time = self.max_timestamp_ms if attributes & 0x08 else None
        producer_id = self.producer_id if self.producer_id >= 0 else None
        producer_epoch = self.producer_epoch if self.producer_id >= 0 else None
        is_transactional, is_control = bool(attributes & 0x10), bool(attributes & 0x20)
        size = len(data)
        rows: list[Row] = []
        append = rows.append
        for _ in range(self.record_count):
            first = data[at]
            if first < 0x80:
                at += 1
            elif data[at + 1] < 0x80:
                first, at = (first & 0x7F) | data[at + 1] << 7, at + 2
            else:
                first, at = _uvarint(data, at)
            end = at + (first >> 1)
            if first & 1 or end > size:
                raise BatchError("has a record that reaches beyond its end")
            at += 1  # attributes, unused
            delta = data[at]
            if delta < 0x80:
                at += 1
            else:
                delta, at = _uvarint(data, at)
                if delta >= _MOST:
                    raise BatchError("has offsets or times that reach beyond a long")
            timestamp = base_timestamp + ((delta >> 1) ^ -(delta & 1)) if log_append_time is None else log_append_time
            delta = data[at]
            if delta < 0x80:
                at += 1
            else:
                delta, at = _uvarint(data, at)
                if delta >> 32:
                    raise BatchError("holds offsets outside its own range")
            length = data[at]
            if length < 0x80:
                at += 1
            else:
                length, at = _uvarint(data, at)
            if length & 1:
                if length != 1:
                    raise BatchError("has a length below -1")
                key = None
            else:
                stop = at + (length >> 1)
                key = data[at:stop]
                at = stop
            length = data[at]
            if length < 0x80:
                at += 1
            else:
                length, at = _uvarint(data, at)
            if length & 1:
                if length != 1:
                    raise BatchError("has a length below -1")
                value = None
            else:
                stop = at + (length >> 1)
                value = data[at:stop]
                at = stop
            headers: Headers | None = None
            if data[at] == 0:
                at += 1
            else:
                headers, at = _headers(data, at, end)
            if at != end:
                raise BatchError("has a record whose fields do not fill its length")
            append((
                base_offset + ((delta >> 1) ^ -(delta & 1)), timestamp, key, value, headers, leader_epoch, producer_id,
                producer_epoch, is_transactional, is_control, crc, base_offset,
            ))  # fmt: skip
        return rows


def _uvarint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise BatchError("has a varint longer than ten bytes")


def _headers(data: bytes, at: int, end: int) -> tuple[Headers, int]:
    count, at = _uvarint(data, at)
    if count & 1 or count >> 1 > end - at:
        raise BatchError("claims more headers than its bytes can hold")
    headers = []
    for _ in range(count >> 1):
        length, at = _uvarint(data, at)
        if length & 1 or at + (length >> 1) > end:
            raise BatchError("has a header key that is null or too long")
        key = data[at : at + (length >> 1)].decode()
        at += length >> 1
        length, at = _uvarint(data, at)
        value = None
        if not length & 1:
            value = data[at : at + (length >> 1)]
            at += length >> 1
        headers.append((key, value))
    return tuple(headers), at


def decompress(codec: int, data: memoryview) -> bytes:
    """The records block of a batch. Raises BatchError if it is broken or larger than MAX_DECOMPRESSED_BYTES."""
    if codec == 2:
        return _unsnappy(data)
    into = {1: cramjam.gzip.decompress_into, 3: cramjam.lz4.decompress_into, 4: cramjam.zstd.decompress_into}.get(codec)
    if into is None:
        raise BatchError(f"uses compression codec {codec}, which Kafka does not have")
    packed = bytes(data)
    # Into a buffer of fixed size, so that a bomb cannot grow: first for the usual ratio, then eight times as much.
    room = min(max(4096, 10 * len(packed)), MAX_DECOMPRESSED_BYTES)
    while True:
        scratch = bytearray(room)
        try:
            return bytes(memoryview(scratch)[: into(packed, scratch)])
        except cramjam.DecompressionError as error:
            if room == MAX_DECOMPRESSED_BYTES or "whole buffer" not in str(error):
                raise BatchError(f"cannot be decompressed: {error}") from error
        room = min(8 * room, MAX_DECOMPRESSED_BYTES)


def _unsnappy(data: memoryview) -> bytes:
    # xerial framing (what Java writes): magic, two versions, then int32 length and a raw block, repeated.
    raw = bytes(data)
    blocks = []
    if raw[:8] == _XERIAL_MAGIC:
        at = 16
        while at < len(raw):
            length = int.from_bytes(raw[at : at + 4], "big")
            blocks.append(raw[at + 4 : at + 4 + length])
            at += 4 + length
    else:
        blocks.append(raw)
    room = MAX_DECOMPRESSED_BYTES
    out = []
    try:
        for block in blocks:
            length = cramjam.snappy.decompress_raw_len(block)
            room -= length
            if room < 0:
                raise BatchError("unpacks to more than is allowed")
            out.append(bytes(cramjam.snappy.decompress_raw(block)))
    except cramjam.DecompressionError as error:
        raise BatchError(f"cannot be decompressed: {error}") from error
    return b"".join(out)
