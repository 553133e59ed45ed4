"""Keys of offset commits out of Arrow buffers: each distinct key of a batch is parsed once, all of them together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_audit.domain.records import OffsetCommitKey, decode_record
from rebalance_audit.domain.wire import DecodeError, DecodeReason
from spark_jobs.commits.buffers import Bytes, Flags, Ints, buffers_of, int16_at, plain_binary

COMMIT, TOMBSTONE, REFUSED, OTHER = range(4)
"""Verdicts: a commit, a commit's tombstone, undecodable, a record of another type (whose value was not looked at)."""
REASONS = tuple(DecodeReason)
NO_REASON = 255
_KEY_BYTES = 10
"""Bytes of a key besides its two texts: type, two lengths, partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitKeys:
    """The distinct keys of a batch, in order of appearance. Texts are null where a key is no commit's."""

    group: pa.StringArray
    topic: pa.StringArray
    partition: npt.NDArray[np.int32]
    verdict: Bytes
    """COMMIT, REFUSED or OTHER."""
    reason: Bytes
    at: Ints


def groups_of(keys: pa.Array) -> pa.StringArray:
    """The group of each key of a binary column; null where a key is no commit's."""
    return decode_keys(plain_binary(keys)).group


def decode_keys(column: pa.BinaryArray) -> CommitKeys:
    start, size, data = buffers_of(column)
    count = len(column)
    rows = np.flatnonzero(size >= _KEY_BYTES)
    at = start[rows].astype(np.int64)
    group_size, kind = int16_at(data, at + 2), int16_at(data, at)
    fits = ((kind == 0) | (kind == 1)) & (group_size >= 0) & (size[rows] >= _KEY_BYTES + group_size)
    rows, at, group_size = rows[fits], at[fits], group_size[fits].astype(np.int64)
    topic_size = int16_at(data, at + 4 + group_size).astype(np.int64)
    fits = (topic_size >= 0) & (size[rows] == _KEY_BYTES + group_size + topic_size)
    rows, at, group_size, topic_size = rows[fits], at[fits], group_size[fits], topic_size[fits]

    verdict = np.full(count, REFUSED, np.uint8)
    reason, refused_at = np.full(count, NO_REASON, np.uint8), np.full(count, -1, np.int64)
    verdict[rows] = COMMIT
    texts = _texts(data, at + 4, group_size, rows, count), _texts(data, at + 6 + group_size, topic_size, rows, count)
    by_domain = verdict != COMMIT
    by_domain[rows[~(_is_ascii(texts[0])[rows] & _is_ascii(texts[1])[rows])]] = True
    for row in np.flatnonzero(by_domain).tolist():
        try:
            decoded = decode_record(column[row].as_py(), None).key
        except DecodeError as refused:
            verdict[row], reason[row], refused_at[row] = REFUSED, REASONS.index(refused.reason), refused.at
        else:
            verdict[row] = COMMIT if isinstance(decoded, OffsetCommitKey) else OTHER
    good = verdict[rows] == COMMIT
    if not good.all():
        rows, at, group_size, topic_size = rows[good], at[good], group_size[good], topic_size[good]
        texts = (
            _texts(data, at + 4, group_size, rows, count),
            _texts(data, at + 6 + group_size, topic_size, rows, count),
        )
    partition = np.zeros(count, np.int32)
    partition_at = at + 6 + group_size + topic_size
    partition[rows] = (int16_at(data, partition_at) << 16) | (int16_at(data, partition_at + 2) & 0xFFFF)
    return CommitKeys(
        group=texts[0],
        topic=texts[1],
        partition=partition,
        verdict=verdict,
        reason=reason,
        at=refused_at,
    )


def _texts(data: Bytes, at: Ints, size: Ints, rows: Ints, count: int) -> pa.StringArray:
    """`count` texts, those of `rows` from these places, the others null."""
    sizes = np.zeros(count, np.int64)
    sizes[rows] = size
    ends = np.concatenate([[0], np.cumsum(sizes)])
    shift = np.repeat(at - ends[rows], size)
    content = data[np.arange(len(shift)) + shift]
    is_there = np.zeros(count, bool)
    is_there[rows] = True
    return pa.StringArray.from_buffers(
        count,
        pa.py_buffer(ends.astype(np.int32)),
        pa.py_buffer(content),
        pa.py_buffer(np.packbits(is_there, bitorder="little")),
    )


def _is_ascii(texts: pa.StringArray) -> Flags:
    """Texts that are not valid may be asked about too."""
    _, ends, content = texts.buffers()
    is_high = np.frombuffer(content, np.uint8) >= 0x80
    if not is_high.any():
        return np.ones(len(texts), bool)
    high_bytes = np.concatenate([[0], np.cumsum(is_high)])[np.frombuffer(ends, np.int32)[: len(texts) + 1]]
    return high_bytes[1:] == high_bytes[:-1]


def groups_of_commits(commits: pa.RecordBatch) -> pa.DictionaryArray:
    keys = commits["key"]
    encoded = keys if isinstance(keys, pa.DictionaryArray) else keys.dictionary_encode()
    groups = groups_of(encoded.dictionary).dictionary_encode()
    return pa.DictionaryArray.from_arrays(groups.indices.take(encoded.indices), groups.dictionary)
