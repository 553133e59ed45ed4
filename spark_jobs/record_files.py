"""Records of bronze as the tasks read them: from Parquet straight into Arrow, a row group at a time.

Spark only says who reads what. On its own way (columns to rows, rows to Arrow, through a socket) each record costs ten
times what its decoding does; and here a text that repeats itself stays a dictionary and a code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import DataFrame

from rebalance_audit.arrow_tables import arrow_schema
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from spark_jobs.stage import Run

Flags = npt.NDArray[np.bool_]

COLUMNS = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value", "is_control",
           "is_transactional", "producer_id", "copy")  # fmt: skip
_REPEATED = ("cluster_id", "topic", "key")
_ROWS = 1 << 18
"""The more at once, the less often a key is parsed; this many take 50 MB."""
_TYPES = arrow_schema("bronze.record")


def row_groups(context: Run, files: Sequence[str]) -> DataFrame:
    """What there is to read, a row of (file, row_group) each, spread over the tasks."""
    named = [(file, number) for file in files for number in range(pq.read_metadata(file).num_row_groups)]
    return context.spark.createDataFrame(named, "file string, row_group int")


def commits_in(named: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """COLUMNS of the records whose key says they are offset commits, as `commit_marks.COMMITS` says it in SQL."""
    return _read(named, is_commit)


def others_in(named: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    return _read(named, lambda batch: ~is_commit(batch))


def _read(named: pa.RecordBatch, wanted: Callable[[pa.RecordBatch], Flags]) -> Iterator[pa.RecordBatch]:
    for row in named.to_pylist():
        with pq.ParquetFile(row["file"], read_dictionary=list(_REPEATED)) as file:
            there = [name for name in COLUMNS if name in file.schema_arrow.names]
            for batch in file.iter_batches(_ROWS, [row["row_group"]], there, use_threads=False):
                whole = _whole(batch)
                flags = wanted(whole)
                if flags.any():
                    yield whole if flags.all() else whole.filter(pa.array(flags))


def _whole(batch: pa.RecordBatch) -> pa.RecordBatch:
    """With every column: a file from before a column was added has none."""
    arrays = [
        batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, _TYPES.field(name).type)
        for name in COLUMNS
    ]
    return pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))


def is_commit(batch: pa.RecordBatch) -> Flags:
    is_control = batch.column("is_control").fill_null(False).to_numpy(zero_copy_only=False)
    is_first_copy = batch.column("copy").to_numpy(zero_copy_only=False) == 0
    in_offsets_topic = flags_of(batch.column("topic"), lambda topics: pc.equal(topics, OFFSETS_TOPIC))
    types = pa.array([b"\x00\x00", b"\x00\x01"], pa.binary())
    has_its_key = flags_of(batch.column("key"), lambda keys: pc.is_in(pc.binary_slice(keys, 0, 2), types))
    return in_offsets_topic & has_its_key & is_first_copy & ~is_control


def flags_of(column: pa.Array, ask: Callable[[pa.Array], pa.BooleanArray]) -> Flags:
    """The answer for every row, asked once per distinct value; false for null."""
    encoded = column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()
    answers = ask(encoded.dictionary).fill_null(False).to_numpy(zero_copy_only=False)
    codes = encoded.indices.fill_null(len(answers)).to_numpy(zero_copy_only=False)
    flags: Flags = np.append(answers, False)[codes]
    return flags
