"""The engines that run a stage's tasks: this process for little news, Spark for much (decision 0011).

A task is a function over Arrow batches. It is given the names of the warehouse's files, and reads and writes them
itself. So both engines run the same functions, and the tables are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Protocol, TypeVar

import pyarrow as pa

from rebalance_audit.warehouse.spreading import ArrowTask

__all__ = ["ENGINES", "PARCEL", "SPARK_FROM_BYTES", "ArrowTask", "Engine", "LocalEngine", "Shared", "parcel"]

Shared = TypeVar("Shared")

PARCEL = pa.schema([("bucket", pa.int32()), ("slice", pa.int32()), ("kind", pa.string()), ("rows", pa.binary())])
"""Thousands of rows as Arrow bytes in one. `kind` tells the task that folds what rows they are."""
SPARK_FROM_BYTES = 16 << 20
"""This process needs about as long for news of this many bytes of Parquet as Spark needs to start."""
_FEW_ROWS = 100
"""So few are not compressed in a parcel."""
ENGINES = ("auto", "spark", "local")


class Engine(Protocol):
    """Runs tasks. Their results come back in no order."""

    @property
    def name(self) -> str: ...

    @property
    def tasks_at_once(self) -> int: ...

    def share(self, value: Shared) -> Callable[[], Shared]:
        """Makes a value available to tasks: it is sent once to each place where they run."""

    def spread(
        self, work: pa.Table, task: ArrowTask, out: pa.Schema, *, sizes: Sequence[int] | None = None
    ) -> pa.Table:
        """Runs the task on all rows of `work`, some rows at a time. `sizes`: how much each row is beside the others,
        where they are not about as much; none is 0."""

    def gather(self, work: pa.Table, pack: ArrowTask, fold: ArrowTask, out: pa.Schema, *, buckets: int) -> pa.Table:
        """Brings together the parcels (see PARCEL) that `pack` makes from `work`: those of one bucket go to one `fold`,
        in the order of their slices."""


class LocalEngine:
    """This process, one task after the other."""

    name = "local"
    tasks_at_once = 1

    def share(self, value: Shared) -> Callable[[], Shared]:
        return lambda: value

    def spread(
        self, work: pa.Table, task: ArrowTask, out: pa.Schema, *, sizes: Sequence[int] | None = None
    ) -> pa.Table:
        return pa.Table.from_batches(list(task(iter(work.to_batches()))), out)

    def gather(self, work: pa.Table, pack: ArrowTask, fold: ArrowTask, out: pa.Schema, *, buckets: int) -> pa.Table:
        # Each parcel by itself: joined they would be copied, and sorting binary beyond 2 GB is refused.
        parcels = [batch.slice(at, 1) for batch in pack(iter(work.to_batches())) for at in range(batch.num_rows)]
        places = [(batch["bucket"][0].as_py(), batch["slice"][0].as_py(), at) for at, batch in enumerate(parcels)]
        ordered = map(itemgetter(2), sorted(places))
        return pa.Table.from_batches(list(fold(parcels[at] for at in ordered)), out)


def parcel(bucket: int, slice_: int, kind: str, rows: pa.RecordBatch) -> pa.RecordBatch:
    sink = pa.BufferOutputStream()
    # A tenth of the bytes, and more quickly than Spark would press them. Of few rows it takes longer to begin with each
    # of 157 columns than to copy it: five take 0.2 ms to write and read in place of 2.3.
    compression = "lz4" if rows.num_rows > _FEW_ROWS else None
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as stream:
        stream.write_batch(rows)
    content = pa.array([bytes(sink.getvalue())], pa.binary())
    arrays = [pa.array([bucket], pa.int32()), pa.array([slice_], pa.int32()), pa.array([kind]), content]
    return pa.RecordBatch.from_arrays(arrays, schema=PARCEL)
