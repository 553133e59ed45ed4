"""Record batches as a broker writes them, encoded from docs/record_types.md#record-batches and not from our reader."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import cramjam

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_CRC_TABLE = []
for _byte in range(256):
    for _ in range(8):
        _byte = _byte >> 1 ^ (0x82F63B78 if _byte & 1 else 0)
    _CRC_TABLE.append(_byte)


def crc32c(data: bytes) -> int:
    """Castagnoli's polynomial, bit-reflected; a table and a loop, to have a second opinion on the library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _CRC_TABLE[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


def varint(number: int) -> bytes:
    """Zig-zag, then seven bits a byte, low first."""
    unsigned = number << 1 if number >= 0 else (-number << 1) - 1
    out = b""
    while unsigned > 0x7F:
        out += bytes([unsigned & 0x7F | 0x80])
        unsigned >>= 7
    return out + bytes([unsigned])


def sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def a_record(
    offset_delta: int,
    key: bytes | None = b"k",
    value: bytes | None = b"v",
    *,
    timestamp_delta: int = 0,
    headers: Sequence[tuple[str, bytes | None]] = (),
) -> bytes:
    body = b"\0" + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value) + varint(len(headers))
    for name, content in headers:
        body += sized(name.encode()) + sized(content)
    return varint(len(body)) + body


def packed(codec: str, records: bytes) -> bytes:
    if codec == "gzip":
        return bytes(cramjam.gzip.compress(records))
    if codec == "lz4":
        return bytes(cramjam.lz4.compress(records))
    if codec == "zstd":
        return bytes(cramjam.zstd.compress(records))
    if codec == "snappy":  # xerial: magic, version 1, compatible 1, then blocks of at most 32 KiB
        out = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
        for at in range(0, len(records), 32768):
            block = bytes(cramjam.snappy.compress_raw(records[at : at + 32768]))
            out += struct.pack(">i", len(block)) + block
        return out
    return records


def a_batch(
    base_offset: int,
    records: Sequence[bytes],
    *,
    codec: str = "none",
    base_timestamp: int = 1_700_000_000_000,
    max_timestamp: int = 1_700_000_000_000,
    last_offset_delta: int | None = None,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = -1,
    leader_epoch: int = 0,
    record_count: int | None = None,
    magic: int = 2,
    checksum: Callable[[bytes], int] = crc32c,
) -> bytes:
    content = packed(codec, b"".join(records))
    count = len(records) if record_count is None else record_count
    last = max(len(records) - 1, 0) if last_offset_delta is None else last_offset_delta
    checked: Any = struct.pack(
        ">hiqqqhii", attributes | CODECS[codec], last, base_timestamp, max_timestamp, producer_id, producer_epoch, -1,
        count,
    ) + content  # fmt: skip
    rest = struct.pack(">ibI", leader_epoch, magic, checksum(checked)) + checked
    return struct.pack(">qi", base_offset, len(rest)) + rest
