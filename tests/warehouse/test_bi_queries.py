"""The queries of docs/outward.md, as other engines run them over the Delta tables, without anything of ours."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pytest
from deltalake import DeltaTable

from tests.app import gold_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs/outward.md"
QUERIES = re.findall(r"```sql\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
TABLES = ("rebalance", "movement", "incident")


@pytest.fixture(scope="module")
def location(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bi") / "w"
    gold_rows.write(place, many=50)
    return place


def in_duckdb(location: Path, sql: str) -> list[tuple[Any, ...]]:
    with duckdb.connect() as db:
        for name in TABLES:
            db.register(name, DeltaTable(location / "gold" / name).to_pyarrow_table())
        return db.execute(sql).fetchall()


def test_five_queries_answer_in_duckdb(location: Path) -> None:
    assert len(QUERIES) == 5
    for sql in QUERIES:
        assert in_duckdb(location, sql), sql
    storm = [row for row in in_duckdb(location, QUERIES[1]) if row[1] == "checkout"]
    assert storm[0][:3] == ("lab-cluster", "checkout", 31)  # as gold_rows has it
    assert storm[0][3] == pytest.approx(62.0)


@pytest.mark.spark
def test_spark_says_the_same(location: Path, spark: SparkSession) -> None:
    for name in TABLES:
        table = DeltaTable(location / "gold" / name)
        spark.read.parquet(*table.file_uris()).createOrReplaceTempView(name)
    for sql in QUERIES:
        found = [tuple(row) for row in spark.sql(sql.replace('"trigger"', "`trigger`")).collect()]
        expected = in_duckdb(location, sql)
        assert len(found) == len(expected)
        # Nulls stand first in one engine and last in the other.
        for ours, theirs in zip(sorted(found, key=str), sorted(expected, key=str), strict=True):
            for one, other in zip(ours, theirs, strict=True):
                assert one == other or (isinstance(one, float) and math.isclose(one, other, rel_tol=1e-9)), sql
