"""The engine that is Spark, on this machine or many."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from spark_jobs.engine import PARCEL, ArrowTask, Shared


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
        # Not as a list of rows: Spark reads those in Python workers of another daemon, which takes three seconds.
        found = self.session.createDataFrame(work).mapInArrow(task, from_arrow_schema(out))
        return found.toArrow().cast(out)

    def gather(self, work: pa.Table, pack: ArrowTask, fold: ArrowTask, out: pa.Schema, *, buckets: int) -> pa.Table:
        packed = self.session.createDataFrame(work).mapInArrow(pack, from_arrow_schema(PARCEL))
        together = packed.repartitionById(max(buckets, 1), "bucket").sortWithinPartitions("bucket", "slice")
        return together.mapInArrow(fold, from_arrow_schema(out)).toArrow().cast(out)
