"""Work that a warehouse may have done in tasks, where its writer has an engine to lend."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import pyarrow as pa

ArrowTask = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
Spread = Callable[[pa.Table, ArrowTask, pa.Schema], pa.Table]
"""Runs a task on all rows of a table, some rows at a time. What comes back is in no order."""
SpreadOf = Callable[[int], Spread | None]
"""For so many bytes of Parquet: how to run tasks on them; None: this process is to do it."""
Piece = TypeVar("Piece")
_NUMBER = pa.schema([("number", pa.int64())])


def in_this_process(byte_count: int) -> None:
    return None


def spread_over(
    spread: Spread, pieces: Sequence[Piece], work: Callable[[Piece], Iterator[pa.RecordBatch]], out: pa.Schema
) -> pa.Table:
    """The results of the work on each piece, in no order."""

    def task(numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for some in numbers for number in some["number"].to_pylist()):
            yield from work(pieces[number])

    return spread(pa.table({"number": range(len(pieces))}, schema=_NUMBER), task, out)
