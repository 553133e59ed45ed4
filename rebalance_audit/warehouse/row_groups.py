"""Row groups of Parquet files that may hold rows of some keys, by the statistics in the files' own footers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq

from rebalance_audit.warehouse.storage import located


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
        fs, path = located(file)
        metadata = pq.read_metadata(path, filesystem=fs)
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
