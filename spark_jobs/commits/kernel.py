"""Offset commits out of Arrow buffers: every field of every row, every length checked, no Python object per record.

Commits are nearly all of __consumer_offsets, and they repeat themselves: a few keys, and values of a few sizes. So each
distinct key is parsed once, and values of one size are looked at together as one block of bytes, in which a field is a
column. The domain decodes, row by row, what does not fit a block's pattern. So this kernel refuses nothing by itself,
and accepts nothing that the domain would refuse.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.records import OffsetCommitValue, decode_record
from rebalance_audit.domain.wire import DecodeError
from spark_jobs.commits.buffers import Bytes, Flags, Ints, buffers_of, plain_binary
from spark_jobs.commits.keys import COMMIT, NO_REASON, REASONS, REFUSED, TOMBSTONE, CommitKeys, decode_keys

_Number = TypeVar("_Number", bound=np.generic)


_LEAST_ROWS = 24
"""Below this many rows of a size the domain is as fast."""
_MOST_BYTES = 4_096
"""The longest value that is looked at in a block; one with more text is decoded by the domain."""
_ROWS_AT_ONCE = 1 << 15
"""The columns of a block then stay in the processor's cache."""
_MOST_TAGS = 8

_METADATA_LENGTH_AT = (10, 10, 10, 14, 14)
_FIXED_BYTES = (20, 28, 20, 24)
"""Bytes of a value besides its metadata text, by version; version 4 ends with tagged fields."""
_UUID_BYTES = 16
_UUID = np.dtype(("V", _UUID_BYTES))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedCommits:
    """One entry per row. Fields of a row whose verdict is not COMMIT are 0."""

    keys: CommitKeys
    key_code: Ints
    """Into `keys`."""
    verdict: Bytes
    offset: Ints
    commit_timestamp: Ints
    leader_epoch: npt.NDArray[np.int32]
    """-1: not known, or before version 3."""
    expire_timestamp: Ints
    """-1: none, or another version than 1."""
    topic_id: npt.NDArray[np.uint8]
    """16 bytes a row; all zero: none."""
    reason: Bytes
    """Index into REASONS where the verdict is REFUSED, else NO_REASON."""
    at: Ints
    """The refused byte, of the key where the key was refused, else of the value; else -1."""

    def topic_ids(self) -> pa.FixedSizeBinaryArray:
        """The topic id of each row as a column of 16 bytes; null where there is none."""
        ids = pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(_UUID_BYTES), len(self.topic_id), [None, pa.py_buffer(np.ascontiguousarray(self.topic_id))]
        )
        has_id = self.topic_id.view(np.uint64).any(axis=1)
        return pc.if_else(pa.array(has_id), ids, pa.scalar(None, pa.binary(_UUID_BYTES)))


def decode_commits(key: pa.Array, value: pa.Array) -> DecodedCommits:
    """Decode two binary columns of equal length, a record in each row. Raises nothing: a row that cannot be decoded has
    the verdict REFUSED, its reason and the byte."""
    key_codes, distinct = _distinct(key)
    keys = decode_keys(distinct)
    rows = _Rows(key, plain_binary(value), keys, key_codes)
    rows.decode()
    return DecodedCommits(
        keys=keys,
        key_code=key_codes,
        verdict=rows.verdict,
        offset=rows.offset,
        commit_timestamp=rows.commit_timestamp,
        leader_epoch=rows.leader_epoch,
        expire_timestamp=rows.expire_timestamp,
        topic_id=rows.topic_id,
        reason=rows.reason,
        at=rows.at,
    )


def _distinct(column: pa.Array) -> tuple[Ints, pa.BinaryArray]:
    """A code per row, and the values the codes stand for; null is a value too. Rows of one cluster that were chosen
    among many come with the keys of all."""
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    codes, values = encoded.indices, plain_binary(encoded.dictionary)
    if codes.null_count:
        codes = codes.fill_null(len(values))
        values = pa.concat_arrays([values, pa.nulls(1, pa.binary())])
    numbers = codes.to_numpy(zero_copy_only=False)
    is_used = np.bincount(numbers, minlength=len(values)) > 0
    if not is_used.all():
        numbers, values = (np.cumsum(is_used) - 1)[numbers], values.filter(pa.array(is_used))
    return numbers, values


# Keys


# Values


class _Rows:
    """The columns of a batch while they are filled."""

    def __init__(self, key: pa.Array, value: pa.BinaryArray, keys: CommitKeys, key_code: Ints) -> None:
        self.key, self.value = key, value
        count = len(value)
        self.start, self.size, self.data = buffers_of(value)
        self.offset = np.zeros(count, np.int64)
        self.commit_timestamp = np.zeros(count, np.int64)
        self.leader_epoch = np.full(count, -1, np.int32)
        self.topic_id = np.zeros((count, _UUID_BYTES), np.uint8)
        # Most batches write nothing into these, and then they take no memory.
        self.expire_timestamp: Ints = np.broadcast_to(np.int64(-1), count)
        self.reason: Bytes = np.broadcast_to(np.uint8(NO_REASON), count)
        self.at: Ints = np.broadcast_to(np.int64(-1), count)
        # REFUSED means "not decoded yet" until the domain has decoded the row.
        self.verdict = np.full(count, REFUSED, np.uint8)
        self.has_commit_key: Flags | None = None
        """None: all have."""
        if not (keys.verdict == COMMIT).all():
            self.verdict = keys.verdict[key_code]
            self.reason, self.at = keys.reason[key_code], keys.at[key_code]
            self.has_commit_key = self.verdict == COMMIT
            self.verdict[self.has_commit_key] = REFUSED

    def decode(self) -> None:
        if self.value.null_count:
            is_null = self.value.is_null().to_numpy(zero_copy_only=False)
            self.verdict[is_null if self.has_commit_key is None else is_null & self.has_commit_key] = TOMBSTONE
        for first in range(0, len(self.size), _ROWS_AT_ONCE):
            self._decode_some(first, min(first + _ROWS_AT_ONCE, len(self.size)))
        is_open = self.verdict == REFUSED
        if self.has_commit_key is not None:
            is_open &= self.has_commit_key
        for row in np.flatnonzero(is_open).tolist():
            self._decode_by_domain(row)

    def _decode_some(self, first: int, end: int) -> None:
        size = self.size[first:end]
        if int(size.max(initial=0)) > _MOST_BYTES:
            size = np.where(size > _MOST_BYTES, 0, size)
        by_size = np.bincount(size)
        for wanted in np.flatnonzero(by_size >= _LEAST_ROWS).tolist():
            if wanted < min(_FIXED_BYTES):
                continue
            if by_size[wanted] == len(size) and self.has_commit_key is None:
                start = int(self.start[first])
                block = self.data[start : start + len(size) * wanted].reshape(len(size), wanted)
                self._decode_block(block, slice(first, end))
                continue
            is_wanted = size == wanted
            if self.has_commit_key is not None:
                is_wanted &= self.has_commit_key[first:end]
            rows = np.flatnonzero(is_wanted) + first
            self._decode_block(self._gather(rows, wanted), rows)

    def _gather(self, rows: Ints, size: int) -> Bytes:
        """The values of these rows, which all have this size."""
        values: npt.NDArray[np.void] = np.ndarray(
            (len(self.data) - size + 1,), np.dtype(("V", size)), buffer=self.data, strides=(1,)
        )
        return values[self.start[rows]].view(np.uint8).reshape(len(rows), size)

    def _decode_block(self, block: Bytes, rows: Ints | slice) -> None:
        """Values of one size, a line each."""
        if not len(block):
            return
        version = int(block[0, 1])
        if version <= 4 and (block[:, 1] == version).all() and not block[:, 0].any():
            self._decode_version(version, block, rows)
            return
        for version in range(5):
            chosen = np.flatnonzero((block[:, 1] == version) & (block[:, 0] == 0))
            if len(chosen):
                self._decode_version(version, block[chosen], _chosen(rows, chosen))

    def _decode_version(self, version: int, block: Bytes, rows: Ints | slice) -> None:
        if version == 4:
            self._decode_flexible(block, rows)
            return
        size, length_at = block.shape[1], _METADATA_LENGTH_AT[version]
        length = size - _FIXED_BYTES[version]
        if not 0 <= length < 0x8000:
            return
        good = (block[:, length_at] == length >> 8) & (block[:, length_at + 1] == length & 0xFF)
        self._store(version, block, rows, good, length_at + 2, length)

    def _decode_flexible(self, block: Bytes, rows: Ints | slice) -> None:
        """Version 4: a compact text, and tagged fields at the end."""
        size, length_at = block.shape[1], _METADATA_LENGTH_AT[4]
        if size < length_at + 1 + 8 + 1:
            return
        known = int(block[0, length_at])
        if 0 < known < 0x80 and length_at + known + 8 + 1 <= size and (block[:, length_at] == known).all():
            self._store(4, block, rows, None, length_at + 1, known - 1)
            return
        first, second = block[:, length_at].astype(np.int32), block[:, length_at + 1].astype(np.int32)
        # A length of two bytes that could be written in one is left to the domain.
        two_bytes = np.where((second > 0) & (second < 0x80), (first & 0x7F) | (second << 7), 0)
        coded = np.where(first < 0x80, first, two_bytes)
        by_length = np.bincount(coded)
        for value in np.flatnonzero(by_length).tolist():
            text_at, length = length_at + (1 if value < 0x80 else 2), value - 1
            if length < 0 or text_at + length + 8 + 1 > size:
                continue
            chosen = np.flatnonzero(coded == value)
            self._store(4, block[chosen], _chosen(rows, chosen), None, text_at, length)

    def _store(
        self, version: int, block: Bytes, rows: Ints | slice, is_good: Flags | None, text_at: int, length: int
    ) -> None:
        """The lines of a block where `is_good` (None: all), whose texts all have this place and length."""
        good = np.ones(len(block), bool) if is_good is None else is_good
        if length and int(block[:, text_at : text_at + length].max()) >= 0x80:
            good &= ~(block[:, text_at : text_at + length] >= 0x80).any(axis=1)
        timestamp_at = text_at + length
        topic_id = None
        if version == 4:
            fits, topic_id = _read_tags(block[:, timestamp_at + 8 :])
            good &= fits
        if not good.all():
            chosen = np.flatnonzero(good)
            block, rows = block[chosen], _chosen(rows, chosen)
            topic_id = None if topic_id is None else topic_id[chosen]
        line = np.ascontiguousarray(block).reshape(-1)
        self.offset[rows] = _column(line, block.shape, ">i8", 2)
        self.commit_timestamp[rows] = _column(line, block.shape, ">i8", timestamp_at)
        if version >= 3:
            self.leader_epoch[rows] = _column(line, block.shape, ">i4", 10)
        if version == 1:
            self.expire_timestamp = _writable(self.expire_timestamp)
            self.expire_timestamp[rows] = _column(line, block.shape, ">i8", timestamp_at + 8)
        if topic_id is not None:
            self.topic_id.view(_UUID)[rows, 0] = topic_id.view(_UUID)[:, 0]
        self.verdict[rows] = COMMIT

    def _decode_by_domain(self, row: int) -> None:
        key, value = self.key[row].as_py(), self.value[row].as_py()
        try:
            decoded = decode_record(key, value).value
        except DecodeError as refused:
            self.reason, self.at = _writable(self.reason), _writable(self.at)
            self.reason[row], self.at[row] = REASONS.index(refused.reason), refused.at
            return
        assert isinstance(decoded, OffsetCommitValue)
        self.verdict[row] = COMMIT
        self.offset[row], self.commit_timestamp[row] = decoded.offset, decoded.commit_timestamp
        self.leader_epoch[row] = -1 if decoded.leader_epoch is None else decoded.leader_epoch
        if decoded.expire_timestamp is not None:
            self.expire_timestamp = _writable(self.expire_timestamp)
            self.expire_timestamp[row] = decoded.expire_timestamp
        if decoded.topic_id is not None:
            self.topic_id[row] = np.frombuffer(uuid_bytes(decoded.topic_id), np.uint8)


def _writable(column: npt.NDArray[_Number]) -> npt.NDArray[_Number]:
    return column if column.flags.writeable else column.copy()


def uuid_bytes(text: str) -> bytes:
    """The 16 bytes of an id in Kafka's form of 22 characters (base64, URL-safe, no padding)."""
    return urlsafe_b64decode(text + "==")


def _chosen(rows: Ints | slice, chosen: Ints) -> Ints:
    return chosen + rows.start if isinstance(rows, slice) else rows[chosen]


def _column(line: Bytes, shape: tuple[int, ...], kind: str, at: int) -> npt.NDArray[np.int64]:
    """One number of every line of a block."""
    fields = np.dtype({"names": ["it"], "formats": [kind], "offsets": [at], "itemsize": shape[1]})
    return line.view(fields)["it"].astype(np.int64)  # in this machine's order first: to scatter foreign bytes is slow


def _read_tags(tail: Bytes) -> tuple[Flags, Bytes | None]:
    """The lines that hold whole tagged fields and nothing after them, and their topic ids (tag 0), if there are any.

    As the domain reads them: tag 0 takes 16 bytes whatever its size says, others the size they have. A number of more
    than one byte is left to the domain.
    """
    count, size = tail.shape
    if size == 1:
        return tail[:, 0] == 0, None
    is_plain_id = (tail[:, 0] == 1) & (tail[:, 1] == 0)
    if size == 3 + _UUID_BYTES and (is_plain_id & (tail[:, 2] < 0x80)).all():
        return is_plain_id, tail[:, 3:]
    good = tail[:, 0] <= _MOST_TAGS
    topic_id = np.zeros((count, _UUID_BYTES), np.uint8)
    position = np.ones(count, np.int64)
    for number in range(_MOST_TAGS):
        rows = np.flatnonzero(good & (tail[:, 0] > number))
        if not len(rows):
            break
        at = position[rows]
        fits = at + 2 <= size
        good[rows[~fits]] = False
        rows, at = rows[fits], at[fits]
        tag, length = tail[rows, at], tail[rows, at + 1].astype(np.int64)
        takes = np.where(tag == 0, _UUID_BYTES, length)
        fits = (tag < 0x80) & (length < 0x80) & (at + 2 + takes <= size)
        good[rows[~fits]] = False
        position[rows] = at + 2 + takes
        holds_id = np.flatnonzero(fits & (tag == 0))
        places = (at[holds_id] + 2)[:, None] + np.arange(_UUID_BYTES)
        topic_id[rows[holds_id]] = tail[rows[holds_id][:, None], places]
    return good & (position == size), topic_id
