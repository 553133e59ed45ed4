"""Rows in groups through `mapInArrow`: one group in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa

Rows = list[dict[str, Any]]
FLUSH_ROWS = 500


def each_group(
    key: Sequence[str],
    out: Mapping[str, pa.DataType],
    do: Callable[[tuple[Any, ...], Rows], Iterator[tuple[str, Any]]],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """For input sorted by `key`: `do(key, rows)` yields (output column, row); the other output columns are null."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        waiting: dict[str, list[Any]] = {column: [] for column in out}
        for values, members in groupby(rows, key=itemgetter(*key)):
            for column, row in do(values if len(key) > 1 else (values,), list(members)):
                waiting[column].append(row)
                if len(waiting[column]) >= FLUSH_ROWS:
                    yield _batch(out, column, waiting.pop(column))
                    waiting[column] = []
        for column, left in waiting.items():
            if left:
                yield _batch(out, column, left)

    return run


def _batch(out: Mapping[str, pa.DataType], column: str, rows: list[Any]) -> pa.RecordBatch:
    arrays = [pa.array(rows, type_) if name == column else pa.nulls(len(rows), type_) for name, type_ in out.items()]
    return pa.RecordBatch.from_arrays(arrays, names=list(out))


def struct_of(schema: pa.Schema) -> pa.DataType:
    return pa.struct(list(schema))
