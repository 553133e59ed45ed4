"""Rows of a table's files by their places, read one row group at a time, and new files with such rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import no_rows, whole
from rebalance_audit.warehouse.comparing_on_disk import Places
from rebalance_audit.warehouse.footers import row_count_in, row_group_bytes
from rebalance_audit.warehouse.kept_columns import put_rows, row_group


@dataclass(frozen=True, slots=True)
class FileWriter:
    """Writes new files into the table's folder."""

    table: str
    folder: str
    schema: pa.Schema

    def write(self, rows: pa.Table, kind: str) -> str:
        """The new file's name."""
        name = f"{kind}-{uuid.uuid4().hex}.parquet"
        put_rows(self.table, f"{self.folder}/{name}", rows)
        return name


def other_rows(gone: Mapping[str, Places], schema: pa.Schema, read: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    """The rows of these files without those in these places, in their order, one row group at a time. `read` has the
    rows of files that were read as a whole."""
    for group, is_named in _with_places(gone, read):
        named = np.flatnonzero(is_named).tolist()
        # Not a filter: it would copy all columns.
        edges = zip([0, *(at + 1 for at in named)], [*named, group.num_rows], strict=True)
        parts = [group.slice(begin, end - begin) for begin, end in edges if begin < end]
        yield whole(pa.concat_tables(parts) if parts else group.slice(0, 0), schema)


def rows_in(places: Mapping[str, Places], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of these files in these places, in their order, one row group at a time."""
    for group, is_named in _with_places(places, {}):
        if is_named.any():
            yield whole(group.filter(pa.array(is_named)), schema)


def _with_places(
    places: Mapping[str, Places], read: Mapping[str, pa.Table]
) -> Iterator[tuple[pa.Table, npt.NDArray[np.bool_]]]:
    """The row groups of these files, each with whether a row is in one of the places."""
    for file, rows in places.items():
        is_named = np.zeros(row_count_in(file), np.bool_)
        is_named[np.asarray(rows, np.int64)] = True
        at = 0
        for group in [read[file]] if file in read else row_groups(file):
            yield group, is_named[at : at + group.num_rows]
            at += group.num_rows


def row_groups(file: str) -> Iterator[pa.Table]:
    """The row groups of a file, one at a time."""
    for number in range(len(row_group_bytes(file))):
        yield row_group(file, number)


def columns_in(file: str, schema: pa.Schema) -> pa.Table:
    """These columns of all rows of a file; one that it lacks is null."""
    numbers = range(len(row_group_bytes(file)))
    return pa.concat_tables(
        [no_rows(schema), *(whole(row_group(file, number, schema.names, schema), schema) for number in numbers)]
    )


def in_tables_of(parts: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """The same rows in tables of `most` rows, but for the last one."""
    waiting: list[pa.Table] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += part.num_rows
        while count >= most:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, most)
            waiting, count = [joined.slice(most)], count - most
    if count:
        yield pa.concat_tables(waiting)
