"""Great Expectations suites, built from what `domain.tables` says of each table.

They run on what a stage is about to commit. So a stage that breaks a fatal law commits nothing, and readers keep what
they had. Verdicts go to gold.check.
This module is imported only when something is checked: Great Expectations takes seconds to import.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

os.environ["GX_ANALYTICS_ENABLED"] = "false"  # before the import: it is read there

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # about itself and its own dependencies
    import great_expectations as gx
    import great_expectations.expectations as gxe

from pyspark import StorageLevel
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse

if TYPE_CHECKING:
    import pandas as pd  # type: ignore[import-untyped]  # ships no types

ON_DRIVER_ROWS = 50_000
"""Up to so many rows are checked by the Pandas engine, in tenths of a second; Spark's needs seconds per suite."""
EXAMPLES = 5
KEY_CHECK = "key is unique"


class QualityError(Exception):
    """A fatal law does not hold: which, in which table, for which rows."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """One expectation about one column of the checked projection."""

    name: str
    column: str
    is_fatal: bool
    values: tuple[Any, ...] | None = None
    """None: not null."""

    def expectation(self) -> Any:
        if self.values is None:
            return gxe.ExpectColumnValuesToNotBeNull(column=self.column, meta={"check": self.name})
        return gxe.ExpectColumnValuesToBeInSet(
            column=self.column, value_set=list(self.values), meta={"check": self.name}
        )

    def fails(self) -> Any:
        """The rows that break it, as a Spark condition."""
        if self.values is None:
            return F.col(self.column).isNull()
        return F.col(self.column).isNotNull() & ~F.col(self.column).isin(list(self.values))


def checks_of(table: tables.Table) -> list[Expectation]:
    required = [Expectation(f"{c.name} is there", c.name, True) for c in table.columns if c.required]
    closed = [Expectation(f"{c.name} is a known value", c.name, True, c.values) for c in table.columns if c.values]
    laws = [Expectation(law.name, _law_column(at), law.is_fatal, (True,)) for at, law in enumerate(table.laws)]
    return [*required, *closed, Expectation(KEY_CHECK, "_is_unique", True, (True,)), *laws]


@functools.cache
def suite_of(name: str) -> Any:
    """The suite of one table, as Great Expectations has it."""
    table = tables.BY_NAME[name]
    return gx.ExpectationSuite(name=name, expectations=[check.expectation() for check in checks_of(table)])


def check(warehouse: Warehouse, name: str, data: DataFrame, batch_id: str) -> None:
    """Write the verdicts on these rows to gold.check. Raises QualityError if a fatal one failed."""
    table = tables.BY_NAME[name]
    projected = _projection(table, data)
    checked = projected.withColumn("_is_unique", F.count(F.lit(1)).over(Window.partitionBy(*table.key)) == 1)
    small = projected.limit(ON_DRIVER_ROWS + 1).toArrow()
    if small.num_rows == 0:
        return
    if small.num_rows <= ON_DRIVER_ROWS:
        rows = small.to_pandas()
        rows["_is_unique"] = ~rows.duplicated(list(table.key), keep=False)
        verdicts = _verdicts(table, _assets()[True], rows, checked, batch_id)
    else:
        checked.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            verdicts = _verdicts(table, _assets()[False], checked, checked, batch_id)
        finally:
            checked.unpersist()
    told = rows_to_table("gold.check", verdicts)
    warehouse.replace("gold.check", told, told.select(["batch_id", "table_name"]).slice(0, 1))
    broken = [v for v in verdicts if v["is_fatal"] and not v["success"]]
    if broken:
        raise QualityError(
            f"{name} breaks its law{'s' if len(broken) > 1 else ''}: "
            + "; ".join(
                f"{v['check_name']!r} for {v['unexpected_count']} of {v['checked_count']} rows, e.g. {v['examples'][0]}"
                for v in broken
            )
            + ". Nothing was published; the verdicts are in gold.check."
        )


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
        F.coalesce(F.expr(law.sql), F.lit(True)).alias(_law_column(at))  # null counts as good
        for at, law in enumerate(table.laws)
    ]
    return data.select(*columns, *laws)


def _law_column(at: int) -> str:
    return f"_law_{at}"


@functools.cache
def _assets() -> Mapping[bool, Any]:
    """Batch definitions for the Pandas engine (True) and Spark's (False), in one context that lives in memory."""
    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = {"globally": False}
    pandas_asset = context.data_sources.add_pandas("driver").add_dataframe_asset("rows")
    spark_asset = context.data_sources.add_spark("spark").add_dataframe_asset("rows")
    return {
        True: pandas_asset.add_batch_definition_whole_dataframe("all"),
        False: spark_asset.add_batch_definition_whole_dataframe("all"),
    }


def _verdicts(
    table: tables.Table, asset: Any, rows: pd.DataFrame | DataFrame, checked: DataFrame, batch_id: str
) -> list[dict[str, Any]]:
    batch = asset.get_batch(batch_parameters={"dataframe": rows})
    result = batch.validate(suite_of(table.name), result_format="BASIC")
    return [_verdict(table, found.to_json_dict(), checked, batch_id) for found in result.results]


def _verdict(table: tables.Table, found: Mapping[str, Any], checked: DataFrame, batch_id: str) -> dict[str, Any]:
    if found["exception_info"].get("raised_exception"):
        raise RuntimeError(f"{table.name} could not be checked: {found['exception_info'].get('exception_message')}")
    name = found["expectation_config"]["meta"]["check"]
    rule = next(c for c in checks_of(table) if c.name == name)
    told = found["result"]
    return {
        "batch_id": batch_id,
        "table_name": table.name,
        "check_name": name,
        "is_fatal": rule.is_fatal,
        "success": bool(found["success"]),
        "checked_count": told.get("element_count"),
        "unexpected_count": told.get("unexpected_count"),
        "examples": [] if found["success"] else _examples(table.key, checked, rule),
    }


def _examples(key: Sequence[str], checked: DataFrame, rule: Expectation) -> list[str]:
    rows = checked.where(rule.fails()).select(*key).distinct().sort(*key).limit(EXAMPLES).collect()
    return [", ".join(f"{column}={value}" for column, value in row.asDict().items()) for row in rows]
