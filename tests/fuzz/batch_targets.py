"""Whole files, record batches and columns of commits: what ingestion and the kernel make of foreign bytes."""

from __future__ import annotations

import io
import struct
from random import Random

import google_crc32c

from ingest.batches import HEADER_BYTES, BatchError, SegmentBatch
from ingest.errors import Problem
from ingest.log_files import EventReader, LastEvent
from ingest.segments import read_batches, rows_or_problem
from tests.differential.cases import damage
from tests.fuzz.split import split
from tests.spark_jobs.kernel_rows import Pair, assert_as_the_domain_reads

_CHECKED_FROM = 21
"""What the checksum covers begins after base offset, length, leader epoch, format and the checksum itself."""
_BLOCK_ROWS = 30
"""Enough of one size for the kernel to look at them as a block."""


def segment(data: bytes) -> None:
    """A log file: every stretch is read or reported, and what is reported stands in the file."""
    for item in read_batches(io.BytesIO(data)):
        found = item if isinstance(item, Problem) else rows_or_problem(item)
        if isinstance(found, Problem) and not 0 <= (found.position or 0) <= len(data):
            raise AssertionError(f"a problem at byte {found.position} of {len(data)}")


def log_file(data: bytes) -> None:
    """A log file: every byte of it is in one event, or the file is refused as no log."""
    reader = EventReader(io.BufferedReader(io.BytesIO(data)))
    events = list(reader.events(LastEvent.GIVEN))
    if reader.is_unknown_layout:
        return
    starts = [byte for byte, _ in events]
    if starts != sorted(set(starts)) or starts[:1] not in ([], [0]) or reader.position != len(data):
        raise AssertionError(f"events at {starts[:5]}, read up to {reader.position} of {len(data)}")


def record_batch(data: bytes) -> None:
    """One batch whose frame and checksum are made right, so that its content is what is looked at."""
    if len(data) < HEADER_BYTES:
        return
    frame = struct.pack(">qiib", 0, len(data) - 12, 0, 2)
    rest = data[_CHECKED_FROM:]
    whole = frame + struct.pack(">I", google_crc32c.value(rest)) + rest
    found = list(read_batches(io.BytesIO(whole)))
    if len(found) != 1 or not isinstance(found[0], SegmentBatch):
        raise AssertionError(f"{found} in one sound frame")
    try:
        rows = found[0].rows()
    except BatchError:
        return
    if len(rows) != found[0].record_count:
        raise AssertionError(f"{len(rows)} rows of {found[0].record_count}")
    if any(not -(1 << 63) <= number < 1 << 63 for row in rows for number in row[:2]):
        raise AssertionError("an offset or a time that no column holds")


def commit_rows(data: bytes) -> None:
    """One commit many times, some of them damaged: the kernel says of each what the domain says."""
    key, value = split(data)
    random = Random(data)
    pairs: list[Pair] = [(key, value)] * _BLOCK_ROWS
    for row in random.sample(range(_BLOCK_ROWS), 6):
        key_is_damaged = random.random() < 0.3
        damaged_key = damage(random, key, key) if key and key_is_damaged else key
        damaged_value = damage(random, value, value) if value and not key_is_damaged else value
        pairs[row] = damaged_key, damaged_value
    assert_as_the_domain_reads(pairs)
