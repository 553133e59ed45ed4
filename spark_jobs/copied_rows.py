"""Rows of silver that are rows of gold as they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from rebalance_audit.domain import tables
from spark_jobs.engine import ArrowTask, Engine
from spark_jobs.group_rows import GroupReader, rows_of_groups
from spark_jobs.stages.stage import Run
from spark_jobs.task_files import ASKED_AT_MOST, WRITTEN, TaskWriter


def rows_or_files(
    context: Run, engine: Engine, table: str, version: int, scope: pa.Table, folder: str
) -> pa.Table | list[str]:
    """The rows that a table of silver has of these groups, with the columns of the table of gold: those of many groups
    in files, which tasks write."""
    of_gold = table.replace("silver.", "gold.")
    columns = [column.name for column in tables.BY_NAME[of_gold].columns]
    if scope.num_rows <= ASKED_AT_MOST:
        return rows_of_groups(context.warehouse, table, columns, scope, version=version)
    reader = GroupReader(files={table: context.warehouse.files(table, version)}, columns={table: columns}, groups=scope)
    copying = _copying(of_gold, folder, engine.share(reader))
    return [str(file) for file in engine.spread(reader.work(), copying, WRITTEN)["file"].to_pylist()]


def _copying(table: str, folder: str, shared: Callable[[], GroupReader]) -> ArrowTask:
    def copy(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, reader = TaskWriter(folder), shared()
        for named in (row for some in work for row in some.to_pylist()):
            for batch in reader.batches(named):
                writer.add(table, batch)
        yield from writer.written()

    return copy


def written_in(table: str, batches: Iterable[pa.RecordBatch], folder: str) -> list[str]:
    writer = TaskWriter(folder)
    for batch in batches:
        writer.add(table, batch)
    [written] = writer.written()
    return [str(file) for file in written["file"].to_pylist()]
