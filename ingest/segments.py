"""Log segments as they lie on a broker's disk: framing of record batches, checksums, broken places.

A stream is read once, from front to back; no more than one chunk and one batch are in memory. Whatever is broken is
reported with its byte position. Everything before a broken tail is used, and so is what follows a broken batch whose
length is valid.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, cast

import google_crc32c

from ingest.batches import HEADER_BYTES, BatchError, Row, SegmentBatch
from ingest.errors import Problem

CHUNK_BYTES = 1 << 20
MAX_BATCH_BYTES = 64 << 20
"""Refuse greater lengths: message.max.bytes is 1 MiB by default, and a flipped bit must not allocate 2 GiB."""
_OVERHEAD_BYTES = 12
"""Base offset and length stand before what the length counts."""
_FRAME = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, format, checksum; formats 0 and 1 have only length and format at these places."""
_SMALLEST_LENGTH = HEADER_BYTES - _OVERHEAD_BYTES
_SMALLEST_OLD_MESSAGE_BYTES = 14
BROKEN_GZIP = (EOFError, gzip.BadGzipFile, zlib.error)


class Readable(Protocol):
    def read1(self, size: int, /) -> bytes:
        """Some bytes; unlike read, a broken gzip file gives what could be unpacked before it raises."""


class _FileWindow:
    """The part of a stream that is at hand: `buffer[at:]`, and `start`, where the buffer begins in it."""

    def __init__(self, file: Readable) -> None:
        self.file, self.buffer, self.at, self.start = file, b"", 0, 0
        self.fault: str | None = None

    @property
    def position(self) -> int:
        return self.start + self.at

    def has(self, wanted: int) -> bool:
        """Whether so many bytes follow; reads as far as it takes."""
        if len(self.buffer) - self.at >= wanted:
            return True
        parts = [self.buffer[self.at :]]
        size = len(parts[0])
        while size < wanted and self.fault is None:
            try:
                chunk = self.file.read1(CHUNK_BYTES)
            except BROKEN_GZIP as error:
                self.fault, chunk = f"the gzip file is broken ({error})", b""
            if not chunk:
                break
            parts.append(chunk)
            size += len(chunk)
        self.start += self.at
        self.buffer, self.at = b"".join(parts), 0
        return size >= wanted


def read_batches(file: Readable) -> Iterator[SegmentBatch | Problem]:
    """The batches of one segment in file order, and a Problem (position: byte) for each stretch not read."""
    window = _FileWindow(file)
    has_old_format = False
    while window.has(_FRAME.size):
        buffer, at = window.buffer, window.at
        _, length, _, magic, crc = _FRAME.unpack_from(buffer, at)
        if length == 0 and not any(buffer[at : at + _FRAME.size]):
            return  # space that was allocated and never written
        end = at + _OVERHEAD_BYTES + length
        if fault := _frame_fault(magic, length):
            yield Problem(code="unreadable", sentence=fault, position=window.position)
            return
        if end > len(buffer):
            if not window.has(_OVERHEAD_BYTES + length):
                break
            buffer, at, end = window.buffer, 0, _OVERHEAD_BYTES + length
        if magic == 2:
            if google_crc32c.value(buffer[at + _FRAME.size : end]) == crc:
                yield SegmentBatch(buffer[at:end], window.position)
            else:
                sentence = "a batch fails its CRC-32C checksum"
                yield Problem(code="unreadable", sentence=sentence, position=window.position)
        elif not has_old_format:
            has_old_format = True
            sentence = f"message format {magic} (before Kafka 0.11) is not read, here and in what follows of it"
            yield Problem(code="unreadable", sentence=sentence, position=window.position)
        window.at = end
    if window.fault or any(window.buffer[window.at :]):
        sentence = window.fault or "the file ends inside a batch"
        yield Problem(code="unreadable", sentence=sentence, position=window.position)


def _frame_fault(magic: int, length: int) -> str | None:
    if magic == 2 and _SMALLEST_LENGTH <= length <= MAX_BATCH_BYTES:
        return None
    smallest = _SMALLEST_LENGTH if magic == 2 else _SMALLEST_OLD_MESSAGE_BYTES
    if not 0 <= magic <= 2:
        return f"no record batch begins here (format {magic}); the rest of the file is not read"
    if not smallest <= length <= MAX_BATCH_BYTES:
        return f"a batch claims a length of {length} bytes; the rest of the file is not read"
    return None


def open_plain(path: Path) -> io.BufferedReader:
    """A file for reading; `.gz` is unpacked on the way."""
    if path.suffix == ".gz":
        return cast(io.BufferedReader, gzip.open(path, "rb"))  # has what we use of it: read1, readline, seek, close
    return path.open("rb")


def read_segment(path: Path) -> Iterator[list[Row] | Problem]:
    """The records of one segment file, one list per batch, and a Problem for each stretch not read."""
    with open_plain(path) as file:
        for item in read_batches(file):
            yield item if isinstance(item, Problem) else rows_or_problem(item)


def rows_or_problem(batch: SegmentBatch) -> list[Row] | Problem:
    try:
        return batch.rows()
    except BatchError as error:
        return Problem(code="unreadable", sentence=f"a batch {error}", position=batch.position)
