"""Row groups of Parquet files that may hold rows of some keys, by the statistics in the files' own footers."""

from __future__ import annotations

import functools
from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rebalance_audit.warehouse.storage import located

ROW_GROUP_ROWS = 500
"""In a table that is asked for few groups or keys."""


def open_writer(path: str, schema: pa.Schema, fs: pafs.FileSystem) -> pq.ParquetWriter:
    """Nobody looks for a row by what is inside its lists, and of marks and refs hardly one is like another: without
    statistics and dictionaries of them a file is written in four fifths of the time and smaller."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(path, schema, filesystem=fs, compression="zstd", write_statistics=flat, use_dictionary=flat)


@functools.lru_cache(maxsize=512)
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
