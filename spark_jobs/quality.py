"""Great Expectations suites, built from what `domain.tables` says of each table: Airflow's step after each stage, and
checks on demand.

They reach the same verdicts as the checks of what a stage is about to commit (`compiled_checks`, `alike`). This module
is imported only when something is checked so: Great Expectations takes seconds to import, and 200 MB.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import: it is read there

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about itself and its own dependencies
    import great_expectations as gx
    import great_expectations.expectations as gxe

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from spark_jobs.alike import alike_rows
from spark_jobs.checks import EXAMPLES, UNIQUE_COLUMN, Check, Verdict, checks_of, example, law_column
from spark_jobs.compiled_checks import examples_of as compiled_examples
from spark_jobs.compiled_checks import projection
from spark_jobs.engine import Engine
from spark_jobs.spark_engine import SparkEngine, collected
from spark_jobs.stages.stage import row_count
from spark_jobs.task_files import batches_of, row_groups

if TYPE_CHECKING:
    import pandas as pd

ON_DRIVER_ROWS = 50_000
"""Up to so many rows are checked by the Pandas engine, in tenths of a second; Spark's needs seconds per suite."""
_READ_ROWS = 1 << 16
Examples: TypeAlias = Callable[[Check], list[str]]
"""The keys of the first rows that break a check."""


def expectation_of(check: Check) -> Any:
    if check.values is None:
        return gxe.ExpectColumnValuesToNotBeNull(column=check.column, meta={"check": check.name})
    values = list(check.values)
    return gxe.ExpectColumnValuesToBeInSet(column=check.column, value_set=values, meta={"check": check.name})


def _fails(check: Check) -> Any:
    """The rows that break it, as a Spark condition."""
    if check.values is None:
        return F.col(check.column).isNull()
    return F.col(check.column).isNotNull() & ~F.col(check.column).isin(list(check.values))


@functools.cache
def suite_of(name: str) -> Any:
    """The suite of one table, as Great Expectations has it."""
    table = tables.BY_NAME[name]
    return gx.ExpectationSuite(name=name, expectations=[expectation_of(check) for check in checks_of(table)])


def suite_verdicts(engine: Engine, name: str, files: Sequence[str], batch_id: str) -> list[Verdict]:
    """The verdict of every check of this table on the rows of these files; none where there are no rows.

    Rows that do not differ in anything checked are given to the suite as one row, with its engine for Pandas: sorting
    and keeping millions of rows in the JVM took as long as making them. Each row is checked only if something is
    broken.
    """
    table = tables.BY_NAME[name]
    count = row_count(files)
    if not count:
        return []
    alike, is_repeated = alike_rows(engine, name, files)
    if not is_repeated:
        kinds = alike.to_pandas()
        kinds[UNIQUE_COLUMN] = True
        verdicts = _verdicts(table, _rows_on_driver(), kinds, lambda check: [], batch_id)
        if all(verdict["success"] for verdict in verdicts):
            return [{**verdict, "checked_count": count} for verdict in verdicts]
    if not isinstance(engine, SparkEngine):
        rows = projection(name, files).to_pandas()
        return _verdicts(table, _rows_on_driver(), rows, lambda c: compiled_examples(name, c, files), batch_id)
    return frame_verdicts(table, _rows_of(engine.session, table, files), batch_id)


def whole_table_verdicts(name: str, files: Sequence[str], batch_id: str) -> list[Verdict]:
    """The same in this process, for a table of up to ON_DRIVER_ROWS rows; a larger one is Spark's."""
    count = row_count(files)
    if count > ON_DRIVER_ROWS:
        from spark_jobs.session import open_session

        return suite_verdicts(SparkEngine(open_session()), name, files, batch_id)
    if not count:
        return []
    rows, table = projection(name, files).to_pandas(), tables.BY_NAME[name]
    return _verdicts(table, _rows_on_driver(), rows, lambda check: compiled_examples(name, check, files), batch_id)


def _rows_of(session: SparkSession, table: tables.Table, files: Sequence[str]) -> DataFrame:
    if "://" not in files[0]:
        return session.read.schema(table.ddl()).parquet(*files)
    # Spark's own reader of object stores is hundreds of MB of jars; the tasks have a reader.
    columns = [column.name for column in table.columns]

    def read(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in named:
            for row in batch.to_pylist():
                yield from batches_of(row, columns, _READ_ROWS)

    work = session.createDataFrame(row_groups({table.name: files}))
    return work.mapInArrow(read, from_arrow_schema(arrow_schema(table)))


def frame_verdicts(table: tables.Table, data: DataFrame, batch_id: str) -> list[Verdict]:
    projected = _projection(table, data)
    checked = projected.withColumn(UNIQUE_COLUMN, F.count(F.lit(1)).over(Window.partitionBy(*table.key)) == 1)
    small = collected(projected.limit(ON_DRIVER_ROWS + 1))
    if small.num_rows == 0:
        return []
    if small.num_rows <= ON_DRIVER_ROWS:
        rows = small.to_pandas()
        rows[UNIQUE_COLUMN] = ~rows.duplicated(list(table.key), keep=False)
        return _verdicts(table, _rows_on_driver(), rows, partial(_examples, table.key, checked), batch_id)
    checked.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        return _verdicts(table, _rows_in_spark(), checked, partial(_examples, table.key, checked), batch_id)
    finally:
        checked.unpersist()


def _projection(table: tables.Table, data: DataFrame) -> DataFrame:
    """The columns the checks look at: the table's own, and one truth per law."""
    own = list(dict.fromkeys([*table.key, *(c.name for c in table.columns if c.required or c.values)]))
    types = {c.name: c.type for c in table.columns}
    # Of a list or of bytes only its being there is looked at.
    columns = [
        F.col(c) if types[c] in ("string", "int", "bigint", "boolean") else F.when(F.col(c).isNotNull(), True).alias(c)
        for c in own
    ]
    laws = [
        F.coalesce(F.expr(law.sql), F.lit(True)).alias(law_column(at))  # null counts as good
        for at, law in enumerate(table.laws)
    ]
    return data.select(*columns, *laws)


@functools.cache
def _context() -> Any:
    """A context of Great Expectations that lives in memory."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    return context


@functools.cache
def _rows_on_driver() -> Any:
    """The batch definition of the Pandas engine."""
    source = _context().data_sources.add_pandas("driver")
    return source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")


@functools.cache
def _rows_in_spark() -> Any:
    """The batch definition of Spark's engine, made only when asked for: Great Expectations starts a session with it."""
    source = _context().data_sources.add_spark("spark")
    return source.add_dataframe_asset("rows").add_batch_definition_whole_dataframe("all")


def _verdicts(
    table: tables.Table, asset: Any, rows: pd.DataFrame | DataFrame, examples: Examples, batch_id: str
) -> list[Verdict]:
    batch = asset.get_batch(batch_parameters={"dataframe": rows})
    result = batch.validate(suite_of(table.name), result_format="BASIC")
    verdicts = {
        v["check_name"]: v for v in (_verdict(table, r.to_json_dict(), examples, batch_id) for r in result.results)
    }
    return [verdicts[check.name] for check in checks_of(table)]


def _verdict(table: tables.Table, found: Mapping[str, Any], examples: Examples, batch_id: str) -> Verdict:
    if found["exception_info"].get("raised_exception"):
        raise RuntimeError(f"{table.name} could not be checked: {found['exception_info'].get('exception_message')}")
    name = found["expectation_config"]["meta"]["check"]
    rule = next(c for c in checks_of(table) if c.name == name)
    result = found["result"]
    return {
        "batch_id": batch_id,
        "table_name": table.name,
        "check_name": name,
        "is_fatal": rule.is_fatal,
        "success": bool(found["success"]),
        "checked_count": result.get("element_count"),
        "unexpected_count": result.get("unexpected_count"),
        "examples": [] if found["success"] else examples(rule),
    }


def _examples(key: Sequence[str], checked: DataFrame, rule: Check) -> list[str]:
    rows = checked.where(_fails(rule)).select(*key).distinct().sort(*key).limit(EXAMPLES).collect()
    return [example(row.asDict()) for row in rows]
