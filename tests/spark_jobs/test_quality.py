"""The checks between the stages: what they say, and that a broken fatal law stops the way to the readers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.stages import measure as stage_measure
from spark_jobs.stages.stage import spark_ddl
from tests.spark_jobs.synthetic import a_generation, land

pytestmark = pytest.mark.spark


def a_finding(finding_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c", "finding_id": finding_id, "rule_id": "RB001", "severity": "info", "subject_type": "group",
        "subject": "g", "status": "open", "first_seen_at_ms": 1, "last_seen_at_ms": 2, "title": "t", "evidence": ["e"],
    } | changes  # fmt: skip


def check(warehouse: Warehouse, spark: SparkSession, *rows: dict[str, Any]) -> None:
    from spark_jobs.quality import check as run_check

    data = spark.createDataFrame(rows_to_table("silver.finding", rows), schema=spark_ddl("silver.finding"))
    run_check(warehouse, "silver.finding", data, "batch-1")


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.open(tmp_path, create=True)


def verdicts(warehouse: Warehouse) -> dict[str, tuple[bool, list[str]]]:
    rows = warehouse.query("SELECT check_name, success, examples FROM gold.check").to_pylist()
    return {row["check_name"]: (row["success"], row["examples"]) for row in rows}


def test_every_column_rule_key_and_law_of_every_table_is_checked() -> None:
    from spark_jobs.quality import checks_of, suite_of

    for table in tables.TABLES:
        expected = (
            sum(c.required for c in table.columns) + sum(bool(c.values) for c in table.columns) + len(table.laws) + 1
        )
        assert len(checks_of(table)) == expected
        assert len(suite_of(table.name).expectations) == expected


def test_good_rows_pass_and_the_verdicts_are_kept(warehouse: Warehouse, spark: SparkSession) -> None:
    check(warehouse, spark, a_finding("f1"), a_finding("f2"))
    check(warehouse, spark, a_finding("f1"), a_finding("f2"))  # the same batch again overwrites its verdicts
    found = verdicts(warehouse)
    assert len(found) == warehouse.query("SELECT * FROM gold.check").num_rows
    assert all(success for success, _ in found.values())


@pytest.mark.parametrize(
    ("rows", "check_name", "example"),
    [
        ([a_finding("f1"), a_finding("f1")], "key is unique", "cluster_id=c, finding_id=f1"),
        ([a_finding("f1", title=None)], "title is there", "cluster_id=c, finding_id=f1"),
        ([a_finding("f1", severity="grave")], "severity is a known value", "cluster_id=c, finding_id=f1"),
        ([a_finding("f1"), a_finding("f2", evidence=[])], "names its evidence", "cluster_id=c, finding_id=f2"),
        ([a_finding("f1", first_seen_at_ms=3)], "ends after it begins", "cluster_id=c, finding_id=f1"),
    ],
)
def test_a_broken_fatal_rule_names_table_rule_and_rows(
    warehouse: Warehouse, spark: SparkSession, rows: list[dict[str, Any]], check_name: str, example: str
) -> None:
    from spark_jobs.quality import QualityError

    with pytest.raises(QualityError) as refused:
        check(warehouse, spark, *rows)
    assert "silver.finding" in str(refused.value)
    assert repr(check_name) in str(refused.value)
    assert example in str(refused.value)
    assert verdicts(warehouse)[check_name] == (False, [example])


def test_a_broken_law_that_is_not_fatal_is_only_written_down(warehouse: Warehouse, spark: SparkSession) -> None:
    from spark_jobs.quality import check as run_check

    row = {
        "cluster_id": "c", "group_id": "g", "resource_type": "task", "connector": "x", "task": 0, "state": "RUNNING",
        "from_ms": 5, "to_ms": 4, "evidence": ["e"],
    }  # fmt: skip
    data = spark.createDataFrame(rows_to_table("gold.connect_task", [row]), schema=spark_ddl("gold.connect_task"))
    run_check(warehouse, "gold.connect_task", data, "batch-1")
    success, examples = verdicts(warehouse)["ends after it begins"]
    assert not success
    assert examples == ["cluster_id=c, group_id=g, resource_type=task, connector=x, task=0, from_ms=5, state=RUNNING"]


def test_the_spark_engine_says_the_same_of_many_rows(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs import quality

    monkeypatch.setattr(quality, "ON_DRIVER_ROWS", 1)
    with pytest.raises(quality.QualityError, match="'names its evidence' for 1 of 3 rows"):
        check(warehouse, spark, a_finding("f1"), a_finding("f2", evidence=[]), a_finding("f3"))


def test_a_stage_that_breaks_a_law_commits_nothing_and_readers_keep_what_they_had(
    warehouse: Warehouse, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs.quality import QualityError

    land(warehouse, "a", [a_generation(1, 1)])
    pipeline.run(warehouse, spark=spark)
    before = warehouse.query("SELECT * FROM gold.rebalance").to_pylist()
    assert [row["generation_id"] for row in before] == [1]
    version = warehouse.version("silver.measured_rebalance")

    land(warehouse, "b", [a_generation(2, 2)])
    with monkeypatch.context() as broken:

        def spoilt(written: Any) -> dict[str, list[str]]:
            files = original(written)
            for file in files["silver.measured_rebalance"]:
                rows = pq.read_table(file)
                at = rows.schema.get_field_index("trigger")
                pq.write_table(rows.set_column(at, "trigger", pa.nulls(rows.num_rows, pa.string())), file)
            return files

        original = stage_measure.files_by_table
        broken.setattr(stage_measure, "files_by_table", spoilt)
        for _ in range(2):  # it does not slip through the second time
            with pytest.raises(QualityError, match=r"silver\.measured_rebalance breaks its law.*'trigger is there'"):
                pipeline.run(warehouse, spark=spark)
    assert warehouse.version("silver.measured_rebalance") == version
    assert warehouse.query("SELECT * FROM gold.rebalance").to_pylist() == before

    pipeline.run(warehouse, spark=spark)
    rows = warehouse.query("SELECT generation_id FROM gold.rebalance").to_pylist()
    assert sorted(row["generation_id"] for row in rows) == [1, 2]
