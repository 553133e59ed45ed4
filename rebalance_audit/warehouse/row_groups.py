"""Row groups of Parquet files that may hold rows of some keys, by the statistics in the files' own footers."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import whole
from rebalance_audit.warehouse.storage import located

ROW_GROUP_ROWS = 500
"""In a table that is asked for few groups or keys."""

SOON_REPLACED = "soon"
"""How the names of files begin whose rows will be replaced before long."""
SOON_REPLACED_ROWS = 50
"""In such a file: whoever takes a row away writes the others again."""


def is_soon_replaced(file: str) -> bool:
    return file.rpartition("/")[2].startswith(f"{SOON_REPLACED}-")


def open_writer(path: str, schema: pa.Schema, fs: pafs.FileSystem) -> pq.ParquetWriter:
    """Nobody looks for a row by what is inside its lists, and of marks and refs hardly one is like another: without
    statistics and dictionaries of them a file is written in four fifths of the time and smaller."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(path, schema, filesystem=fs, compression="zstd", write_statistics=flat, use_dictionary=flat)


@functools.lru_cache(maxsize=2_048)
def footer(file: str) -> pq.FileMetaData:
    """The footer of a Parquet file, on whatever store. A file never changes, and a run asks for the same ones often."""
    fs, path = located(file)
    return pq.read_metadata(path, filesystem=fs)


@dataclass(frozen=True, slots=True)
class RowGroup:
    file: str
    number: int
    first_row: int
    """Its place in the file."""


def row_groups_of(
    files: Sequence[str], column: str | None = None, values: Collection[str] = (), *, with_null: bool = False
) -> Iterator[RowGroup]:
    """All row groups, or those in which `column` may be one of the values, or null if asked."""
    wanted = sorted(values)
    for file in files:
        metadata = footer(file)
        at = None if column is None else _place(metadata, column)
        first_row = 0
        for number in range(metadata.num_row_groups):
            group = metadata.row_group(number)
            if at is None or _may_hold(group.column(at).statistics, wanted, with_null=with_null):
                yield RowGroup(file, number, first_row)
            first_row += group.num_rows


@functools.lru_cache(maxsize=2_048)
def _columns(file: str) -> frozenset[str]:
    return frozenset(footer(file).schema.to_arrow_schema().names)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of one row group, with their places in the file."""

    file: str
    rows: pa.Table
    places: pa.Array


def chosen_rows(files: Sequence[str], schema: pa.Schema, column: str, values: Collection[str]) -> Iterator[Chosen]:
    """The rows in which `column` is one of few values; columns that a file lacks are null in it.

    For a handful of rows of a wide table this takes a fifth of what DuckDB does.
    """
    wanted = pa.array(sorted(values), pa.string())
    for file, groups in groupby(row_groups_of(files, column, values), key=lambda group: group.file):
        fs, path = located(file)
        with pq.ParquetFile(path, filesystem=fs, metadata=footer(file)) as opened:
            there = _columns(file)
            listed = [name for name in schema.names if name in there]
            for group in groups:
                held = opened.read_row_group(group.number, [column], use_threads=False)[column]
                at = pc.indices_nonzero(pc.is_in(held, wanted))
                if len(at):
                    rows = opened.read_row_group(group.number, listed, use_threads=False).take(at)
                    yield Chosen(file, whole(rows, schema), pc.add(at.cast(pa.int64()), group.first_row))


@functools.lru_cache(maxsize=1 << 17)
def greatest(file: str, columns: tuple[str, ...]) -> int | None:
    """The greatest number in any of these columns of a file; None if it is not known."""
    metadata = footer(file)
    found: int | None = None
    for column in columns:
        at = _place(metadata, column)
        for number in range(0 if at is None else metadata.num_row_groups):
            statistics = metadata.row_group(number).column(at).statistics
            if statistics is None or (not statistics.has_min_max and statistics.num_values):
                return None
            if statistics.has_min_max:
                found = statistics.max if found is None else max(found, statistics.max)
    return found


def _place(metadata: pq.FileMetaData, column: str) -> int | None:
    names = (metadata.schema.column(at).path for at in range(metadata.num_columns))
    return next((at for at, name in enumerate(names) if name == column), None)


def _may_hold(statistics: pq.Statistics | None, wanted: Sequence[str], *, with_null: bool) -> bool:
    if statistics is None:
        return True
    if with_null and (not statistics.has_null_count or statistics.null_count):
        return True
    if not statistics.has_min_max:
        # Nothing but null, unless the writer kept no bounds.
        return not (statistics.has_null_count and statistics.num_values == 0)
    first = bisect_left(wanted, statistics.min)
    return first < len(wanted) and wanted[first] <= statistics.max
