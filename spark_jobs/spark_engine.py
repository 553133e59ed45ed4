"""Spark as an engine, on this machine or on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from rebalance_audit.warehouse import unwritten
from spark_jobs.engine import PARCEL, ArrowTask, Shared

_WITHOUT_OUR_PYTHON = re.compile(
    r"No module named '?[\w.]+'?|PYTHON_VERSION_MISMATCH|"
    r"Cannot run program \"[^\"]*python[^\"]*\"|\S*python\S*: not found"
)
_ROWS_OF_A_TASK = 16
"""A row of work is a file or a part of one: reading it takes about as long as a task takes to begin."""
_TIMES_AT_ONCE = 8
"""At most so many times the tasks that run at once: while the last one runs, other cores may have nothing to do."""


class WorkerError(Exception):
    """A worker cannot run our tasks at all: one sentence with the remedy."""


class SparkEngine:
    name = "spark"

    def __init__(self, session: SparkSession) -> None:
        self.session = session

    @property
    def tasks_at_once(self) -> int:
        return int(self.session.sparkContext.defaultParallelism)

    def share(self, value: Shared) -> Callable[[], Shared]:
        shared = self.session.sparkContext.broadcast(value)
        return lambda: shared.value

    def spread(
        self, work: pa.Table, task: ArrowTask, out: pa.Schema, *, sizes: Sequence[int] | None = None
    ) -> pa.Table:
        if sizes is not None:
            parts = _parts_of(work, sizes, self.tasks_at_once * _TIMES_AT_ONCE)
            frame = self._in_tasks(parts, parts.num_rows).mapInArrow(_of_parts(task), from_arrow_schema(out))
            return collected(frame).cast(out)
        return collected(self._parted(work).mapInArrow(task, from_arrow_schema(out))).cast(out)

    def gather(self, work: pa.Table, pack: ArrowTask, fold: ArrowTask, out: pa.Schema, *, buckets: int) -> pa.Table:
        packed = self._parted(work).mapInArrow(pack, from_arrow_schema(PARCEL))
        together = packed.repartitionById(max(buckets, 1), "bucket").sortWithinPartitions("bucket", "slice")
        return collected(together.mapInArrow(fold, from_arrow_schema(out))).cast(out)

    def _parted(self, work: pa.Table) -> DataFrame:
        """The work in as many parts as it is to have tasks; neighbours stay together."""
        at_once = self.tasks_at_once
        tasks = min(max(at_once, work.num_rows // _ROWS_OF_A_TASK), at_once * _TIMES_AT_ONCE)
        return self._in_tasks(work, tasks)

    def _in_tasks(self, work: pa.Table, tasks: int) -> DataFrame:
        unwritten.write_all()  # the work names files
        self.session.conf.set("spark.sql.leafNodeDefaultParallelism", tasks)
        # Not as a list of rows: Spark reads those in Python workers of another daemon, which takes three seconds.
        return self.session.createDataFrame(work)


def _parts_of(work: pa.Table, sizes: Sequence[int], at_most: int) -> pa.Table:
    """The work in so many parts of about one size, each a row with a list of rows: Spark cuts by their number alone.
    Neighbours stay together."""
    middles = np.cumsum(sizes) - np.array(sizes) / 2
    of_row = (middles * at_most // sum(sizes)).astype(np.int64)
    ends = [*(np.flatnonzero(np.diff(of_row)) + 1).tolist(), work.num_rows]
    rows = pa.StructArray.from_arrays([column.combine_chunks() for column in work.columns], work.schema.names)
    return pa.table({"rows": pa.ListArray.from_arrays(pa.array([0, *ends], pa.int32()), rows)})


def _of_parts(task: ArrowTask) -> ArrowTask:
    def run(parts: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(pa.RecordBatch.from_struct_array(some["rows"].flatten()) for some in parts if some.num_rows)

    return run


def _said_by(error: Exception) -> str:
    """The error's text with the texts of its causes in the JVM."""
    said, cause = [str(error)], getattr(error, "java_exception", None)
    while cause is not None:
        said.append(str(cause.toString()))
        cause = cause.getCause()
    return "\n".join(said)


def collected(frame: DataFrame) -> pa.Table:
    """The workers' results. Raises WorkerError if they lack our Python."""
    try:
        return frame.toArrow()
    except Exception as error:
        if (lacking := _WITHOUT_OUR_PYTHON.search(_said_by(error))) is None:
            raise
        raise WorkerError(
            f"The Spark workers lack the Python that the stages need ({lacking[0].strip()}); give them the archive "
            "(make archive, docs/cluster.md), or name the right one in PYSPARK_PYTHON."
        ) from error
