"""Records of bronze as the tasks read them (see task_files). Each is read once, as a commit or as another record.
Repeated texts stay dictionary-encoded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.records.commit_keys import COMMIT_KEY_TYPES
from spark_jobs.task_files import Flags, batches_of, flags_of

TABLE = "bronze.record"
COLUMNS = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value", "is_control",
           "is_transactional", "producer_id", "copy")  # fmt: skip
_REPEATED = ("cluster_id", "topic", "key")
_ROWS = 1 << 18
"""The more rows at once, the less often a key is parsed. This many take 50 MB."""


def commits_in(
    named: pa.RecordBatch, chosen: Callable[[str, pa.RecordBatch], pa.RecordBatch] = lambda file, rows: rows
) -> Iterator[pa.RecordBatch]:
    """COLUMNS of the records whose key says they are offset commits, as `commit_marks.COMMITS` says it in SQL. Those of
    small files that follow each other come together: beside a busy cluster a file is landed several times a second, and
    each batch has marks of its own. `chosen`: which of a file's."""
    return _together(rows for file, batch in _read(named, is_commit) if len(rows := chosen(file, batch)))


def others_in(named: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return (batch for _, batch in _read(named, lambda batch: ~is_commit(batch)))


def _read(named: pa.RecordBatch, wanted: Callable[[pa.RecordBatch], Flags]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Each with the file that it is from."""
    for row in named.to_pylist():
        for batch in batches_of(row, COLUMNS, _ROWS, _REPEATED):
            flags = wanted(batch)
            if flags.any():
                yield row["file"], batch if flags.all() else batch.filter(pa.array(flags))


def _together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in the same order, as many at once as `_ROWS` allows."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if waiting and sum(map(len, waiting)) + len(batch) > _ROWS:
            yield joined(waiting)
            waiting = []
        waiting.append(batch)
    if waiting:
        yield joined(waiting)


def joined(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    if len(batches) == 1:
        return batches[0]
    (joined,) = pa.Table.from_batches(batches).unify_dictionaries().combine_chunks().to_batches()
    return joined


def is_commit(batch: pa.RecordBatch) -> Flags:
    is_control = batch.column("is_control").fill_null(False).to_numpy(zero_copy_only=False)
    is_first_copy = batch.column("copy").to_numpy(zero_copy_only=False) == 0
    in_offsets_topic = flags_of(batch.column("topic"), lambda topics: pc.equal(topics, OFFSETS_TOPIC))
    types = pa.array(COMMIT_KEY_TYPES, pa.binary())
    has_its_key = flags_of(batch.column("key"), lambda keys: pc.is_in(pc.binary_slice(keys, 0, 2), types))
    return in_offsets_topic & has_its_key & is_first_copy & ~is_control
