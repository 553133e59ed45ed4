"""The checks between the stages: what they say, and that a broken fatal law stops the way to the readers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rebalance_audit.domain import tables
from rebalance_audit.warehouse import unwritten
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.checks import Books, QualityError, Verdict, checks_of, refuse_broken
from spark_jobs.compiled_checks import verdicts_of
from spark_jobs.stages import reconstruct
from spark_jobs.task_files import files_by_table
from tests.spark_jobs.synthetic import a_generation, land


def a_finding(finding_id: str, **changes: Any) -> dict[str, Any]:
    return {
        "cluster_id": "c", "finding_id": finding_id, "rule_id": "RB001", "severity": "info", "subject_type": "group",
        "subject": "g", "status": "open", "first_seen_at_ms": 1, "last_seen_at_ms": 2, "title": "t", "evidence": ["e"],
    } | changes  # fmt: skip


Judge = Callable[[str, list[dict[str, Any]]], list[Verdict]]


@pytest.fixture(params=["compiled", pytest.param("suite", marks=pytest.mark.spark)])
def judge(request: pytest.FixtureRequest) -> Judge:
    """Verdicts on rows of a table: by one query, or by Great Expectations."""
    if request.param == "compiled":
        return lambda table, rows: verdicts_of(table, rows_to_table(table, rows), "batch:1")
    session: SparkSession = request.getfixturevalue("spark")

    def by_suite(table: str, rows: list[dict[str, Any]]) -> list[Verdict]:
        from spark_jobs.quality import frame_verdicts

        known = tables.BY_NAME[table]
        return frame_verdicts(known, session.createDataFrame(rows_to_table(table, rows), known.ddl()), "batch:1")

    return by_suite


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.open(tmp_path, create=True)


def by_name(verdicts: list[Verdict]) -> dict[str, tuple[bool, list[str]]]:
    return {row["check_name"]: (row["success"], row["examples"]) for row in verdicts}


def test_every_column_rule_key_and_law_of_every_table_is_checked() -> None:
    from spark_jobs.quality import suite_of

    for table in tables.TABLES:
        expected = (
            sum(c.required for c in table.columns) + sum(bool(c.values) for c in table.columns) + len(table.laws) + 1
        )
        assert len(checks_of(table)) == expected
        assert len(suite_of(table.name).expectations) == expected


def test_good_rows_pass(judge: Judge) -> None:
    found = judge("silver.finding", [a_finding("f1"), a_finding("f2")])
    assert [verdict["check_name"] for verdict in found] == [
        check.name for check in checks_of(tables.BY_NAME["silver.finding"])
    ]
    assert all(verdict["success"] for verdict in found)
    assert judge("silver.finding", []) == []


def test_of_each_check_the_newest_verdict_stands(warehouse: Warehouse) -> None:
    for version, severity in ((1, "grave"), (2, "info")):
        books = Books(warehouse)
        rows = rows_to_table("silver.finding", [a_finding("f1", severity=severity)])
        books.note(verdicts_of("silver.finding", rows, f"detect:finding@0-{version}"))
        books.note(verdicts_of("silver.finding", rows, "check:silver.finding@1"))  # by hand
        books.write()
        stored = warehouse.query("SELECT * FROM gold.check WHERE check_name = 'severity is a known value'").to_pylist()
        assert {(row["batch_id"].partition(":")[0], row["success"]) for row in stored} == {
            ("detect", severity == "info"),
            ("check", severity == "info"),
        }
    assert warehouse.read("gold.check").num_rows == 2 * len(checks_of(tables.BY_NAME["silver.finding"]))


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
    judge: Judge, rows: list[dict[str, Any]], check_name: str, example: str
) -> None:
    verdicts = judge("silver.finding", rows)
    assert by_name(verdicts)[check_name] == (False, [example])
    with pytest.raises(QualityError) as refused:
        refuse_broken("silver.finding", verdicts)
    assert "silver.finding" in str(refused.value)
    assert repr(check_name) in str(refused.value)
    assert example in str(refused.value)


def test_a_broken_law_that_is_not_fatal_is_only_written_down(judge: Judge) -> None:
    row = {
        "cluster_id": "c", "group_id": "g", "resource_type": "task", "connector": "x", "task": 0, "state": "RUNNING",
        "from_ms": 5, "to_ms": 4, "evidence": ["e"],
    }  # fmt: skip
    verdicts = judge("gold.connect_task", [row])
    refuse_broken("gold.connect_task", verdicts)
    success, examples = by_name(verdicts)["ends after it begins"]
    assert not success
    assert examples == ["cluster_id=c, group_id=g, resource_type=task, connector=x, task=0, from_ms=5, state=RUNNING"]


@pytest.mark.spark
def test_the_spark_engine_of_the_suites_says_the_same_of_many_rows(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spark_jobs import quality

    monkeypatch.setattr(quality, "ON_DRIVER_ROWS", 1)
    known = tables.BY_NAME["silver.finding"]
    rows = rows_to_table(known.name, [a_finding("f1"), a_finding("f2", evidence=[]), a_finding("f3")])
    verdicts = quality.frame_verdicts(known, spark.createDataFrame(rows, known.ddl()), "batch:1")
    with pytest.raises(QualityError, match="'names its evidence' for 1 of 3 rows"):
        refuse_broken(known.name, verdicts)


def test_a_stage_that_breaks_a_law_commits_nothing_and_readers_keep_what_they_had(
    warehouse: Warehouse, engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    land(warehouse, "a", [a_generation(1, 1)])
    pipeline.run(warehouse, **engine)
    before = warehouse.query("SELECT * FROM gold.rebalance").to_pylist()
    assert [row["generation_id"] for row in before] == [1]
    version = warehouse.version("silver.measured_rebalance")

    land(warehouse, "b", [a_generation(2, 2)])
    with monkeypatch.context() as broken:

        def spoilt(written: Any) -> dict[str, list[str]]:
            files = files_by_table(written)
            unwritten.write(files["silver.measured_rebalance"])
            for file in files["silver.measured_rebalance"]:
                rows = pq.read_table(file)
                at = rows.schema.get_field_index("trigger")
                pq.write_table(rows.set_column(at, "trigger", pa.nulls(rows.num_rows, pa.string())), file)
            return files

        broken.setattr(reconstruct, "files_by_table", spoilt)
        for _ in range(2):  # it does not slip through the second time
            with pytest.raises(QualityError, match=r"silver\.measured_rebalance breaks its law.*'trigger is there'"):
                pipeline.run(warehouse, **engine)
    assert warehouse.version("silver.measured_rebalance") == version
    assert warehouse.query("SELECT * FROM gold.rebalance").to_pylist() == before

    pipeline.run(warehouse, **engine)
    rows = warehouse.query("SELECT generation_id FROM gold.rebalance").to_pylist()
    assert sorted(row["generation_id"] for row in rows) == [1, 2]
