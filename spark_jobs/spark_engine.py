"""Spark as an engine, on this machine or on a cluster."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

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

    def spread(self, work: pa.Table, task: ArrowTask, out: pa.Schema) -> pa.Table:
        return collected(self._parted(work).mapInArrow(task, from_arrow_schema(out))).cast(out)

    def gather(self, work: pa.Table, pack: ArrowTask, fold: ArrowTask, out: pa.Schema, *, buckets: int) -> pa.Table:
        packed = self._parted(work).mapInArrow(pack, from_arrow_schema(PARCEL))
        together = packed.repartitionById(max(buckets, 1), "bucket").sortWithinPartitions("bucket", "slice")
        return collected(together.mapInArrow(fold, from_arrow_schema(out))).cast(out)

    def _parted(self, work: pa.Table) -> DataFrame:
        """The work in as many parts as it is to have tasks; neighbours stay together."""
        at_once = self.tasks_at_once
        tasks = min(max(at_once, work.num_rows // _ROWS_OF_A_TASK), at_once * _TIMES_AT_ONCE)
        self.session.conf.set("spark.sql.leafNodeDefaultParallelism", tasks)
        # Not as a list of rows: Spark reads those in Python workers of another daemon, which takes three seconds.
        return self.session.createDataFrame(work)


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
