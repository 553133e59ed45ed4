"""measure: silver.rebalance -> silver.measured_rebalance.

Rows in:  rebalances of groups that were folded again.
Rows out: the same rows, with the numbers; each from its own row alone.
Law:      one row per rebalance; what cannot be known is null with a reason, never 0.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import functions as F

from rebalance_audit.domain import tables
from rebalance_audit.domain.measure import measure
from rebalance_audit.domain.model import Rebalance, from_row, to_row
from rebalance_audit.warehouse import rows_to_table
from spark_jobs.stage import Run, next_batch, row_count

NAME = "measure"
INPUT, OUTPUT = "silver.rebalance", "silver.measured_rebalance"


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, (INPUT,), (OUTPUT,))
    if batch is None:
        return False
    groups = context.warehouse.changed_keys(INPUT, ["cluster_id", "group_id"], batch.since[INPUT], batch.until[INPUT])
    if groups.num_rows == 0:
        context.warehouse.replace(OUTPUT, [], groups, batch.transaction)
        context.committed(OUTPUT, OUTPUT, 0)
        return True
    rebalances = context.scan(INPUT, context.warehouse.files(INPUT, batch.until[INPUT]))
    dirty = rebalances.join(F.broadcast(context.spark.createDataFrame(groups)), ["cluster_id", "group_id"])
    columns = [c.name for c in tables.SILVER_REBALANCE.columns]
    measured = dirty.select(*columns).mapInArrow(_measure_rows, tables.SILVER_MEASURED.ddl())
    with context.staged(OUTPUT, measured) as files:
        context.gate(OUTPUT, context.scan(OUTPUT, files), batch.batch_id)
        context.warehouse.replace(OUTPUT, files, groups, batch.transaction)
        context.committed(OUTPUT, OUTPUT, row_count(files))
    return True


def _measure_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows = [to_row(measure(from_row(Rebalance, row))) | {"place": row["place"]} for row in batch.to_pylist()]
        yield from rows_to_table(OUTPUT, rows).to_batches()
