"""Parquet files that the tasks read and write themselves, directly from and into Arrow.

Spark only assigns the files to tasks, and is given the names of what they wrote. If Spark read the rows itself (columns
to rows, rows to Arrow, through a socket, and back), a row would cost more than all that is done with it; decisions 0009
and 0010.
"""

from __future__ import annotations

import functools
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import arrow_schema, in_type, narrow_schema
from rebalance_audit.warehouse.file_sizes import (
    compression_of,
    has_dictionaries,
    leading_column,
    most_rows_at_once,
    row_group_rows,
    soon_replaced,
)
from rebalance_audit.warehouse.footers import columns_of, footer, open_writer, parts_of, row_group_bytes
from rebalance_audit.warehouse.kept_columns import is_small, row_group, rows_on_disk, stage_rows
from rebalance_audit.warehouse.row_groups import SOON_REPLACED, WantedValues, row_groups_of
from rebalance_audit.warehouse.storage import located

Flags = npt.NDArray[np.bool_]
Numbers = npt.NDArray[np.int64]
Groups = Mapping[tuple[str, str], int]
"""A number for each (cluster, group) that is wanted."""

NAMED = pa.schema([("table", pa.string()), ("file", pa.string()), ("row_group", pa.int32())])
"""One row group to read: what `row_groups` lists, and one task after the other takes."""
WRITTEN = pa.schema([("table", pa.string()), ("file", pa.string())])
"""The rows in which tasks report the files they wrote."""
ASKED_AT_MOST = 5_000
_READ_BYTES = 64 << 20
_FEW_ROWS = 300
"""So few are looked up one by one in less time than it takes to find the distinct ones."""
_ROW_GROUP_BYTES = 32 << 20
_SORTED = frozenset({"silver.group_event", "gold.incident", "gold.mark"})
"""A row group then holds few groups, or few ids, and is skipped where none of them is wanted. Rows of other tables come
in the order of the groups."""


# ---- reading


def row_groups(
    files: Mapping[str, Sequence[str]],
    column: str = "group_id",
    values: Collection[str] | None = None,
    *,
    with_nameless: bool = False,
) -> pa.Table:
    """The row groups to read, as rows of (table, file, row_group): the work of tasks. For few `values` of the column,
    only row groups that may hold one of them, or null if asked.
    """
    few = values is not None and len(values) <= ASKED_AT_MOST
    named = [
        {"table": table, "file": found.file, "row_group": found.number}
        for table, of_table in files.items()
        for found in row_groups_of(of_table, column if few else None, values or (), with_null=with_nameless)
    ]
    return pa.Table.from_pylist(named, NAMED)


def batches_of(
    named: Mapping[str, Any],
    columns: Sequence[str],
    most_rows: int,
    repeated: Sequence[str] = (),
    only_if: tuple[Sequence[str], Callable[[pa.RecordBatch], bool]] | None = None,
    surely: WantedValues | None = None,
    fields: Mapping[str, Collection[str]] | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one row group, with all of these columns in the table's own types: one that a file lacks is null.

    Columns that are `repeated` come as dictionaries. `only_if`: columns that are read first, and whether anything of
    them is wanted; where it is not, nothing else is read. `fields`: by column of lists of structs the fields that are
    wanted of these, where not all are.
    """

    def read(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = _schema_of(named["table"], tuple(names), tuple(repeated))
        schema = narrow_schema(schema, fields) if fields else schema
        for batch in _read(named["file"], named["row_group"], schema, most_rows, repeated):
            yield _whole(batch, schema)

    is_known = surely is not None and surely.is_in(named["file"], named["row_group"])
    if only_if is None or is_known or any(map(only_if[1], read(only_if[0]))):
        yield from read(columns)


def _read(
    file: str, number: int, schema: pa.Schema, most_rows: int, repeated: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    if is_small(file, number) or (not repeated and row_group_bytes(file)[number] <= _READ_BYTES):
        yield from row_group(file, number, schema.names, schema).to_batches(most_rows)
        return
    fs, path = located(file)
    with pq.ParquetFile(path, filesystem=fs, metadata=footer(file), read_dictionary=list(repeated)) as opened:
        group = opened.metadata.row_group(number)
        row_count = min(most_rows, max(1, group.num_rows * _READ_BYTES // max(group.total_byte_size, 1)))
        held = parts_of(file, schema, [name for name in schema.names if name in columns_of(file)])
        yield from opened.iter_batches(row_count, [number], held, use_threads=False)


@functools.lru_cache(maxsize=256)
def _schema_of(table: str, names: tuple[str, ...], repeated: tuple[str, ...]) -> pa.Schema:
    return pa.schema([_field(table, name, name in repeated) for name in names])


def _field(table: str, name: str, is_repeated: bool) -> pa.Field:
    field = arrow_schema(table).field(name)
    return field.with_type(pa.dictionary(pa.int32(), field.type)) if is_repeated else field


def _whole(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(schema):
        return batch
    there = set(batch.schema.names)
    arrays = [
        in_type(batch.column(field.name), field.type) if field.name in there else pa.nulls(batch.num_rows, field.type)
        for field in schema
    ]
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
    if len(clusters) <= _FEW_ROWS:
        of_rows = zip(clusters.to_pylist(), groups.to_pylist(), strict=True)
        return np.array([known.get(place, -1) for place in of_rows], np.int64)
    places, at = places_of(clusters, groups)
    return np.array([known.get(place, -1) for place in places], np.int64)[at]


def places_of(clusters: pa.Array, groups: pa.Array) -> tuple[list[tuple[str, Any]], Numbers]:
    """The distinct (cluster, group or None), and for each row which of them it has."""
    cluster, group = _encoded(clusters), _encoded(groups)
    width = len(group.dictionary) + 1
    codes = cluster.indices.to_numpy(zero_copy_only=False).astype(np.int64) * width
    codes += group.indices.fill_null(width - 1).to_numpy(zero_copy_only=False)
    distinct, at = np.unique(codes, return_inverse=True)
    cluster_ids, group_ids = cluster.dictionary.to_pylist(), [*group.dictionary.to_pylist(), None]
    return [(cluster_ids[code // width], group_ids[code % width]) for code in distinct.tolist()], at


def parted(rows: pa.RecordBatch, numbers: Numbers) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of each number. Most batches hold neighbours, which have one, and nothing is copied then."""
    distinct = np.unique(numbers).tolist()
    for number in distinct:
        yield number, rows if len(distinct) == 1 else rows.filter(pa.array(numbers == number))


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    return column if isinstance(column, pa.DictionaryArray) else column.dictionary_encode()


# ---- writing


class _FilePart(NamedTuple):
    """Rows of a table that go into the same files."""

    table: str
    is_replaced_soon: bool
    is_recent: bool = False


class TaskWriter:
    """The files one task writes into a folder."""

    def __init__(self, folder: str, schemas: Mapping[str, pa.Schema] | None = None) -> None:
        """`schemas`: of what is no table of the warehouse."""
        self._folder = folder
        self._schemas = schemas or {}
        self._waiting: dict[_FilePart, list[pa.RecordBatch]] = {}
        self._rows: Counter[_FilePart] = Counter()
        """In the file that is being written, and in what waits for it."""
        self._bytes: Counter[_FilePart] = Counter()
        """Bytes that wait, kept here: to count them again would take longer with each batch."""
        self._files: dict[_FilePart, tuple[str, pq.ParquetWriter]] = {}
        self._written: list[tuple[str, str]] = []

    def add(self, table: str, rows: pa.RecordBatch, is_recent: Flags | None = None) -> None:
        """Rows that are not final will be replaced before long: they have small files of their own, so that final rows
        need not be written again with them. So have recent ones, if the caller names them: who asks for the last hours
        passes the other files over."""
        soon = soon_replaced(table, rows).to_numpy(zero_copy_only=False)
        recent = np.zeros(rows.num_rows, np.bool_) if is_recent is None else is_recent
        for of_time, is_of_time in ((False, ~recent), (True, recent)):
            for is_soon, is_so in ((False, ~soon), (True, soon)):
                chosen = is_of_time & is_so
                if chosen.any():
                    part = rows if chosen.all() else rows.filter(pa.array(chosen))
                    self._add(_FilePart(table, is_soon, of_time), part)

    def _add(self, part: _FilePart, rows: pa.RecordBatch) -> None:
        at_most = most_rows_at_once(part.table, is_soon_replaced=part.is_replaced_soon)
        for start in range(0, rows.num_rows, at_most):
            batch = rows.slice(start, at_most)
            if self._rows[part] + batch.num_rows > at_most:
                self._end(part)
            self._waiting.setdefault(part, []).append(batch)
            self._bytes[part] += batch.nbytes
            self._rows[part] += batch.num_rows
            if self._bytes[part] >= _ROW_GROUP_BYTES:
                self._write(part)

    def written(self) -> Iterator[pa.RecordBatch]:
        """The names of the files, whole now."""
        for part in list(self._rows):
            self._end(part)
        tables, files = zip(*self._written, strict=True) if self._written else ((), ())
        yield pa.RecordBatch.from_pydict({"table": list(tables), "file": list(files)}, WRITTEN)

    def _end(self, part: _FilePart) -> None:
        self._rows[part] = 0
        if part in self._files:
            if part in self._waiting:
                self._write(part)
            file, writer = self._files.pop(part)
            writer.close()
        elif part in self._waiting:
            file = self._new_file(part)
            stage_rows(part.table, file, self._taken(part))
        else:
            return
        self._written.append((part.table, file))

    def _write(self, part: _FilePart) -> None:
        if part not in self._files:
            file = self._new_file(part)
            fs, path = located(file)
            fs.create_dir(path.rpartition("/")[0], recursive=True)
            compression = compression_of(part.table, file, self._rows[part])
            with_dictionaries = has_dictionaries(part.table, self._rows[part])
            schema = self._schema(part.table)
            self._files[part] = file, open_writer(path, schema, fs, compression, has_dictionaries=with_dictionaries)
        self._files[part][1].write_table(self._taken(part), row_group_size=row_group_rows(part.table))

    def _new_file(self, part: _FilePart) -> str:
        """A name of its own: what a task that fails has written is in no one's way."""
        return f"{self._folder}/{SOON_REPLACED if part.is_replaced_soon else part.table}-{uuid.uuid4().hex}.parquet"

    def _taken(self, part: _FilePart) -> pa.Table:
        """The rows that wait."""
        rows = pa.Table.from_batches(self._waiting.pop(part), self._schema(part.table))
        self._bytes[part] = 0
        if part.table not in _SORTED:
            return rows
        return rows.sort_by([(leading_column(part.table), "ascending"), ("cluster_id", "ascending")])

    def _schema(self, table: str) -> pa.Schema:
        return self._schemas.get(table) or arrow_schema(table)


def rows_for_driver(files: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The rows that tasks wrote into these files, which are of no table of the warehouse."""
    return pa.concat_tables([schema.empty_table(), *map(rows_on_disk, files)])


def files_by_table(written: pa.Table) -> dict[str, list[str]]:
    """The files the tasks wrote."""
    found: dict[str, list[str]] = {}
    for row in written.to_pylist():
        found.setdefault(row["table"], []).append(row["file"])
    return {table: sorted(files) for table, files in found.items()}
