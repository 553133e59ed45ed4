"""Offset commits of one Arrow batch folded into partial commit marks, on the vectorised kernel.

The domain decodes what the kernel refuses, row by row, and gives the reason of a refusal.
"""

from __future__ import annotations

from base64 import urlsafe_b64encode
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.model import SourceRecord
from rebalance_audit.domain.wire import DecodeError
from spark_jobs.commits.buffers import Ints
from spark_jobs.commits.gaps import longest_gaps
from spark_jobs.commits.kernel import DecodedCommits, decode_commits
from spark_jobs.commits.keys import COMMIT, TOMBSTONE
from spark_jobs.commits.stretches import Boundaries, Place, stretches

PARTIAL_MARK = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offsets_topic", pa.string()),
        ("offsets_partition", pa.int32()),
        ("stretch_from", pa.int64()),
        ("first_offset", pa.int64()),
        ("first_at_ms", pa.int64()),
        ("last_offset", pa.int64()),
        ("last_at_ms", pa.int64()),
        ("commit_count", pa.int64()),
        ("topic_id", pa.string()),
        ("first_position", pa.int64()),
        ("last_position", pa.int64()),
        ("next_at_ms", pa.int64()),
        ("next_position", pa.int64()),
        ("gap_from_offset", pa.int64()),
        ("gap_from_at_ms", pa.int64()),
        ("gap_from_position", pa.int64()),
        ("gap_to_offset", pa.int64()),
        ("gap_to_at_ms", pa.int64()),
        ("gap_to_position", pa.int64()),
        ("after_at_ms", pa.int64()),
        ("after_position", pa.int64()),
        ("second_gap_ms", pa.int64()),
        ("in_transaction", pa.bool_()),
    ]
)
_SOURCE_COLUMNS = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value")


@dataclass(frozen=True, slots=True)
class Folded:
    marks: pa.Table
    """Rows of PARTIAL_MARK, one per group, topic, partition and stretch of this batch."""
    commit_count: int
    tombstone_count: int
    refused: list[tuple[SourceRecord, DecodeError]]


def fold(
    batch: pa.RecordBatch,
    boundaries: Boundaries | None,
    *,
    one_by_one: bool = False,
    in_transactions: bool = False,
) -> Folded:
    """Partial marks of one batch of records whose keys say they are commits. `one_by_one`: a mark for each commit.
    `boundaries` None: the commits are counted, and their marks are made later. `in_transactions`: all came so.

    Columns: cluster_id, topic, partition, offset, timestamp_ms, key, value, and is_transactional if some may be: those
    are counted and not folded, since only their marker shows whether they count. Any order of rows.
    """
    decoded = decode_commits(batch.column("key"), batch.column("value"))
    is_commit = decoded.verdict == COMMIT
    is_tombstone = decoded.verdict == TOMBSTONE
    refused = [_refused(batch, row) for row in np.flatnonzero(~is_commit & ~is_tombstone).tolist()]
    counts = int(is_commit.sum()), int(is_tombstone.sum()), refused
    if boundaries is None:
        return Folded(PARTIAL_MARK.empty_table(), *counts)
    is_certain = is_commit
    if "is_transactional" in batch.schema.names:
        is_certain = is_commit & ~batch.column("is_transactional").fill_null(False).to_numpy(zero_copy_only=False)
    rows = np.flatnonzero(is_certain)
    return Folded(_marks(batch, decoded, rows, boundaries, one_by_one, in_transactions), *counts)


def _refused(batch: pa.RecordBatch, row: int) -> tuple[SourceRecord, DecodeError]:
    source = SourceRecord(**{name: batch.column(name)[row].as_py() for name in _SOURCE_COLUMNS})
    try:
        decoded = decode_source(source)
    except DecodeError as error:
        return source, error
    # The kernel may be quicker than the domain, never stricter.
    raise AssertionError(f"{source.ref} is refused by the kernel and {type(decoded).__name__} for the domain")


def _marks(
    batch: pa.RecordBatch,
    decoded: DecodedCommits,
    rows: Ints,
    boundaries: Boundaries,
    one_by_one: bool,
    in_transactions: bool,
) -> pa.Table:
    if len(rows) == 0:
        return PARTIAL_MARK.empty_table()
    place_code, where = _places(batch)
    offset = batch.column("offset").to_numpy(zero_copy_only=False)
    at_ms = batch.column("timestamp_ms").to_numpy(zero_copy_only=False)
    found = stretches(decoded, rows, offset, place_code, where, boundaries)
    if one_by_one:
        of = found.stretch
        found = replace(
            found,
            key_code=found.key_code[of],
            place_code=found.place_code[of],
            stretch_from=found.stretch_from[of],
            first_row=found.row,
            last_row=found.row,
            count=np.ones(len(found.row), np.int64),
            stretch=np.arange(len(found.row)),
        )
    gaps = longest_gaps(found.row, found.stretch, len(found.count), at_ms)
    keys, place = decoded.keys, found.place_code
    columns: dict[str, Any] = {
        "cluster_id": pa.array([p[0] for p in where]).take(place),
        "group_id": keys.group.take(found.key_code),
        "topic": keys.topic.take(found.key_code),
        "partition": keys.partition[found.key_code],
        "offsets_topic": pa.array([p[1] for p in where]).take(place),
        "offsets_partition": np.array([p[2] for p in where])[place],
        "stretch_from": found.stretch_from,
        "first_offset": offset[found.first_row],
        "first_at_ms": at_ms[found.first_row],
        "last_offset": offset[found.last_row],
        "last_at_ms": at_ms[found.last_row],
        "commit_count": found.count,
        "topic_id": _topic_ids(decoded, found.first_row, found.last_row),
        "first_position": decoded.offset[found.first_row],
        "last_position": decoded.offset[found.last_row],
        "second_gap_ms": _or_none(gaps.second_ms, gaps.second_ms >= 0),
        "in_transaction": np.full(len(found.count), in_transactions),
    }
    places = {"gap_from": gaps.from_row, "gap_to": gaps.to_row, "after": gaps.after_row, "next": gaps.next_row}
    for name, row in places.items():
        columns |= {
            f"{name}_{what}": _or_none(values[row], row >= 0)
            for what, values in (("offset", offset), ("at_ms", at_ms), ("position", decoded.offset))
        }
    return pa.table({f.name: pa.array(columns[f.name]).cast(f.type) for f in PARTIAL_MARK}, schema=PARTIAL_MARK)


def _or_none(values: Ints, is_there: npt.NDArray[np.bool_]) -> pa.Array:
    return pa.array(values, pa.int64(), mask=~is_there)


def _topic_ids(decoded: DecodedCommits, first: Ints, last: Ints) -> pa.Array:
    """Topic ids as Kafka prints them: the first commit's, else the last one's."""
    ids = np.concatenate([decoded.topic_id[first], decoded.topic_id[last]])
    coded = pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(ids), [None, pa.py_buffer(ids.tobytes())])
    coded = coded.dictionary_encode()
    texts = [urlsafe_b64encode(one)[:22].decode("ascii") if any(one) else None for one in coded.dictionary.to_pylist()]
    by_row = pa.array(texts, pa.string()).take(coded.indices)
    return pc.coalesce(by_row[: len(first)], by_row[len(first) :])


def _places(batch: pa.RecordBatch) -> tuple[Ints, list[Place]]:
    """A code per row for its cluster, offsets topic and offsets partition, and the places; few in a batch."""
    topic_code, topics = _codes(batch.column("topic"))
    cluster_code, clusters = _codes(batch.column("cluster_id"))
    partition = batch.column("partition").to_numpy(zero_copy_only=False).astype(np.int64)
    joined = ((cluster_code * len(topics) + topic_code) << 32) | partition
    encoded = pa.array(joined).dictionary_encode()
    places: list[Place] = []
    for code in encoded.dictionary.to_pylist():
        cluster, topic = divmod(code >> 32, len(topics))
        places.append((clusters[cluster], topics[topic], code & 0xFFFFFFFF))
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), places


def _codes(column: pa.Array) -> tuple[Ints, list[str]]:
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64), encoded.dictionary.to_pylist()
