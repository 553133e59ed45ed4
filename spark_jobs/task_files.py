"""Parquet that the tasks read and write themselves, straight from and into Arrow.

Spark only says who reads what, and learns what was written. On its own way (columns to rows, rows to Arrow, through a
socket, and back) a row costs more than all that is done with it; decisions 0009 and 0010.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.storage import located
from spark_jobs.stages.stage import footer

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Groups = Mapping[tuple[str, str], int]
"""A number for each (cluster, group) that is wanted."""

NAMED = pa.schema([("table", pa.string()), ("file", pa.string()), ("row_group", pa.int32())])
WRITTEN = pa.schema([("table", pa.string()), ("file", pa.string())])
"""What tasks that write say of it."""
_READ_BYTES = 64 << 20
_ROW_GROUP_BYTES = 32 << 20


# ---- reading


def row_groups(files: Mapping[str, Sequence[str]]) -> pa.Table:
    """What there is to read, a row of (table, file, row_group) each: the work of tasks."""
    named = [
        {"table": table, "file": file, "row_group": number}
        for table, of_table in files.items()
        for file in of_table
        for number in range(footer(file).num_row_groups)
    ]
    return pa.Table.from_pylist(named, NAMED)


def batches_of(
    named: Mapping[str, Any], columns: Sequence[str], most_rows: int, repeated: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """The rows of one row group, with all of these columns in the table's own types: one that a file lacks is null.

    Columns that are `repeated` come as dictionaries.
    """
    fs, path = located(named["file"])
    with pq.ParquetFile(path, filesystem=fs, read_dictionary=list(repeated)) as file:
        of_file = file.schema_arrow.names
        there = [name for name in columns if name in of_file]
        group = file.metadata.row_group(named["row_group"])
        row_count = min(most_rows, max(1, group.num_rows * _READ_BYTES // max(group.total_byte_size, 1)))
        schema = pa.schema([_field(named["table"], name, name in repeated) for name in columns])
        for batch in file.iter_batches(row_count, [named["row_group"]], there, use_threads=False):
            yield _whole(batch, schema)


def _field(table: str, name: str, is_repeated: bool) -> pa.Field:
    field = arrow_schema(table).field(name)
    return field.with_type(pa.dictionary(pa.int32(), field.type)) if is_repeated else field


def _whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    arrays = [
        batch.column(field.name).cast(field.type) if field.name in batch.schema.names
        else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]  # fmt: skip
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def flags_of(column: pa.Array, ask: Callable[[pa.Array], pa.BooleanArray]) -> Flags:
    """The answer for every row, asked once per distinct value; false for null."""
    encoded = _encoded(column)
    answers = ask(encoded.dictionary).fill_null(False).to_numpy(zero_copy_only=False)
    codes = encoded.indices.fill_null(len(answers)).to_numpy(zero_copy_only=False)
    flags: Flags = np.append(answers, False)[codes]
    return flags


def numbers_of(clusters: pa.Array, groups: pa.Array, known: Groups) -> Numbers:
    """The number of each row's (cluster, group), looked up once per distinct one; -1 where there is none."""
    cluster, group = _encoded(clusters), _encoded(groups)
    width = len(group.dictionary) + 1
    codes = cluster.indices.to_numpy(zero_copy_only=False).astype(np.int64) * width
    codes += group.indices.fill_null(width - 1).to_numpy(zero_copy_only=False)
    distinct, places = np.unique(codes, return_inverse=True)
    cluster_ids, group_ids = cluster.dictionary.to_pylist(), [*group.dictionary.to_pylist(), None]
    found = [known.get((cluster_ids[code // width], group_ids[code % width]), -1) for code in distinct.tolist()]
    return np.array(found, np.int64)[places]


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()


# ---- writing


class TaskWriter:
    """The files one task writes into a folder, one for each table that it has rows of."""

    def __init__(self, folder: str, schemas: Mapping[str, pa.Schema] | None = None) -> None:
        """`schemas`: of what is no table of the warehouse."""
        self._folder = folder
        self._schemas = schemas or {}
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        self._bytes: Counter[str] = Counter()
        """Of what waits; to ask it of all of them anew would take longer with each."""
        self._files: dict[str, tuple[str, pq.ParquetWriter]] = {}

    def add(self, table: str, rows: pa.RecordBatch) -> None:
        self._waiting.setdefault(table, []).append(rows)
        self._bytes[table] += rows.nbytes
        if self._bytes[table] >= _ROW_GROUP_BYTES:
            self._write(table)

    def written(self) -> Iterator[pa.RecordBatch]:
        """The names of the files, whole now."""
        for table in list(self._waiting):
            self._write(table)
        for _, writer in self._files.values():
            writer.close()
        files = [file for file, _ in self._files.values()]
        yield pa.RecordBatch.from_pydict({"table": list(self._files), "file": files}, WRITTEN)

    def _write(self, table: str) -> None:
        rows, self._bytes[table] = self._waiting.pop(table), 0
        if table not in self._files:
            # A name of its own: what a task that fails has written is in no one's way.
            file = f"{self._folder}/{table}-{uuid.uuid4().hex}.parquet"
            fs, path = located(file)
            fs.create_dir(path.rpartition("/")[0], recursive=True)
            self._files[table] = file, _writer(path, fs, self._schemas.get(table) or arrow_schema(table))
        self._files[table][1].write_table(pa.Table.from_batches(rows))


def _writer(path: str, fs: pafs.FileSystem, schema: pa.Schema) -> pq.ParquetWriter:
    """Nobody looks for a row by what is inside its lists, and of marks and refs hardly one is like another: without
    statistics and dictionaries of them a file is written in four fifths of the time and smaller."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(path, schema, filesystem=fs, compression="zstd", write_statistics=flat, use_dictionary=flat)


def files_by_table(written: pa.Table) -> dict[str, list[str]]:
    """The files the tasks wrote."""
    found: dict[str, list[str]] = {}
    for row in written.to_pylist():
        found.setdefault(row["table"], []).append(row["file"])
    return {table: sorted(files) for table, files in found.items()}
