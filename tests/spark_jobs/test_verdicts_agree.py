"""Both programs that check rows reach the same verdict, on good and on broken rows, for every check of every table."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from spark_jobs import alike
from spark_jobs.alike import verdicts_in_tasks, verdicts_in_this_process
from spark_jobs.checks import KEY_CHECK, Verdict, checks_of
from spark_jobs.compiled_checks import verdicts_of
from spark_jobs.engine import LocalEngine

ROOT = Path(__file__).parents[2]
GOOD: dict[str, dict[str, Any]] = {
    "silver.decode_count": {
        "in_count": 10,
        "event_count": 4,
        "commit_count": 3,
        "undecoded_count": 2,
        "skipped_count": 1,
    },
    "silver.measured_rebalance": {"group_epoch": None, "trigger_tier": "unknown"},
    "gold.rebalance": {"group_epoch": None, "trigger_tier": "unknown"},
    "gold.movement": {"kind": "moved"},
    "gold.standstill": {"tier": "inferred"},
    "silver.reassignment": {"outcome": "completed", "stalled_since_ms": None},
    "gold.reassignment": {"outcome": "completed", "stalled_since_ms": None},
}
"""What of a row is not like every other row's: 1, the first known value, a text, one item."""
BREAKS: dict[str, list[dict[str, Any]]] = {
    "offset is not negative": [{"offset": -1}],
    "byte is not negative": [{"byte": -1}],
    "first is not after last": [{"first_offset": 9, "last_offset": 8}, {"commit_count": 0}],
    "the gap lies inside": [{"gap_from_offset": 0}, {"gap_to_offset": 2}],
    "begins in order": [{"from_lower_ms": 2}, {"from_upper_ms": 0}],
    "ends in order": [{"to_lower_ms": 2}, {"to_upper_ms": 0}],
    "standstill bounds in order": [{"pause_lower_ms": 2}, {"pause_upper_ms": 0}],
    "inferred, with evidence": [{"tier": "logged"}, {"evidence": []}, {"resources": []}],
    "rows in = rows out": [{"in_count": 11}],
    "settles what was read": [{"settled_at_ms": 0}, {"settled_at_ms": 2}],
    "names its evidence": [{"evidence": []}],
    "one number, of its own kind": [
        {"generation_id": None, "group_epoch": None},
        {"generation_id": 1, "group_epoch": 1},
    ],
    "pause bounds in order": [{"pause_lower_ms": 2}, {"pause_upper_ms": 0}],
    "likely pause inside its bounds": [{"pause_likely_lower_ms": 2}, {"pause_likely_upper_ms": 0}],
    "likely cost inside its bounds": [
        {"resource_seconds_likely_lower": 2.0},
        {"resource_seconds_likely_upper": 0.5},
    ],
    "starts before it is assigned": [{"started_at_ms": 5_000, "assigned_at_ms": 1}],
    "an unknown trigger claims no tier": [{"trigger": "unknown", "trigger_tier": "logged"}],
    "stop bounds in order": [{"stopped_at_lower_ms": 2}],
    "resume bounds in order": [{"resumed_at_lower_ms": 2}],
    "a first assignment has no pause": [{"kind": "assigned"}],
    "a revocation has no pause": [{"kind": "revoked"}],
    "an open one has not ended": [{"outcome": "open"}],
    "only open ones are stalled": [{"stalled_since_ms": 1}],
    "a stall has a reason": [{"outcome": "open", "ended_at_ms": None, "stalled_since_ms": 1, "blocked_by": None}],
}
OF_TABLE: dict[tuple[str, str], list[dict[str, Any]]] = {
    ("gold.incident", "ends after it begins"): [{"last_at_ms": 0}],
    ("gold.incident", "cost bounds in order"): [{"cost_lower_seconds": 2.0}, {"cost_upper_seconds": 0.5}],
    ("gold.whatif", "saved bounds in order"): [{"saved_lower_seconds": 2.0}, {"saved_upper_seconds": 0.5}],
    ("gold.whatif", "cost bounds in order"): [{"cost_lower_seconds": 2.0}, {"cost_upper_seconds": 0.5}],
    ("gold.response", "a silence has an end"): [
        {"kind": "silenced", "until_ms": None},
        {"kind": "silenced", "until_ms": 0},
    ],
    ("gold.incident", "likely cost inside its bounds"): [
        {"cost_likely_lower_seconds": 2.0},
        {"cost_likely_upper_seconds": 0.5},
    ],
    ("gold.connect_task", "ends after it begins"): [{"to_ms": 0}],
    ("silver.connect_task", "ends after it begins"): [{"to_ms": 0}],
    ("silver.reassignment", "ends after it begins"): [{"ended_at_ms": 0}],
    ("gold.reassignment", "ends after it begins"): [{"ended_at_ms": 0}],
}
FINDING_ENDS = [{"last_seen_at_ms": 0}]
PLAIN = {"string": "x", "int": 1, "bigint": 1, "double": 1.0, "boolean": True, "binary": b"x"}


def good_row(table: tables.Table, number: int) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in table.columns:
        if column.values:
            row[column.name] = column.values[0]
        elif column.type in PLAIN:
            row[column.name] = PLAIN[column.type]
        else:
            row[column.name] = ["x"] if column.type == "array<string>" else []
    row |= GOOD.get(table.name, {})
    name = next(
        c.name
        for c in table.columns
        if c.name in table.key and c.type == "string" and c.name != "cluster_id" and not c.values
    )
    return row | {name: f"row-{number:03d}"}


def breaks_of(table: tables.Table) -> list[tuple[str, dict[str, Any]]]:
    """(check, changes that break it)."""
    required = [(f"{c.name} is there", {c.name: None}) for c in table.columns if c.required]
    closed = [(f"{c.name} is a known value", {c.name: "nobody's"}) for c in table.columns if c.values]
    laws = [
        (law.name, changes)
        for law in table.laws
        for changes in OF_TABLE.get((table.name, law.name)) or BREAKS.get(law.name) or FINDING_ENDS
    ]
    return [*required, *closed, *laws]


def compiled(table: tables.Table, rows: list[dict[str, Any]]) -> list[Verdict]:
    return verdicts_of(table.name, rows_to_table(table.name, rows), "test:1")


@pytest.mark.parametrize("table", tables.BY_NAME.values(), ids=tables.BY_NAME)
def test_each_check_is_broken_by_the_rows_made_for_it(table: tables.Table) -> None:
    """Else the agreement below would say little."""
    whole = [good_row(table, 0), good_row(table, 1)]
    assert [v["check_name"] for v in compiled(table, whole) if not v["success"]] == []
    assert {name for name, _ in breaks_of(table)} | {KEY_CHECK} == {check.name for check in checks_of(table)}
    for name, changes in breaks_of(table):
        broken = {v["check_name"]: v for v in compiled(table, [*whole, good_row(table, 2) | changes])}
        assert not broken[name]["success"], name
        assert (broken[name]["unexpected_count"], broken[name]["checked_count"]) == (1, 3), name
    repeated = {v["check_name"]: v for v in compiled(table, [*whole, whole[0]])}
    assert repeated[KEY_CHECK]["unexpected_count"] == 2


@pytest.mark.parametrize("table", tables.BY_NAME.values(), ids=tables.BY_NAME)
def test_few_rows_get_the_verdicts_of_many(table: tables.Table, tmp_path: Path) -> None:
    whole = [good_row(table, 0), good_row(table, 1)]
    cases = [
        [], whole, [*whole, whole[0]], *([*whole, good_row(table, 2) | changes] for _, changes in breaks_of(table)),
    ]  # fmt: skip
    for number, rows in enumerate(cases):
        held, file = rows_to_table(table.name, rows), str(tmp_path / f"{number}.parquet")
        pq.write_table(held, file, row_group_size=1)
        assert verdicts_in_this_process(table.name, held, "test:1") == compiled(table, rows)
        assert verdicts_in_this_process(table.name, [file], "test:1") == compiled(table, rows)


@pytest.mark.parametrize("table", tables.BY_NAME.values(), ids=tables.BY_NAME)
def test_rows_in_which_nothing_is_broken_are_not_counted(
    table: tables.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of values from a closed set, too, where no row has one."""
    optional = {c.name: None for c in table.columns if c.values and not c.required}
    rows = [good_row(table, number) | optional for number in range(2)]
    expected, file = compiled(table, rows), str(tmp_path / "rows.parquet")
    pq.write_table(rows_to_table(table.name, rows), file)
    monkeypatch.setattr(alike, "verdicts_of", None)
    if all(verdict["success"] for verdict in expected):  # else a law asks for one of these values
        assert verdicts_in_tasks(LocalEngine(), table.name, [file], "test:1") == expected
        if not table.name.startswith("bronze."):
            assert verdicts_in_this_process(table.name, [file], "test:1") == expected


@pytest.mark.spark
@pytest.mark.parametrize("table", tables.BY_NAME.values(), ids=tables.BY_NAME)
def test_a_query_and_a_suite_reach_the_same_verdicts(table: tables.Table, spark: SparkSession) -> None:
    from spark_jobs.quality import frame_verdicts

    good = [good_row(table, number) for number in range(3)]
    broken = [good_row(table, 10 + number) | changes for number, (_, changes) in enumerate(breaks_of(table))]
    for rows in (good, [*good, *broken, good[0]]):
        frame = spark.createDataFrame(rows_to_table(table.name, rows), table.ddl())
        assert frame_verdicts(table, frame, "test:1") == compiled(table, rows)


@pytest.mark.parametrize("table", tables.BY_NAME.values(), ids=tables.BY_NAME)
def test_a_suite_without_a_jvm_reaches_them_too(table: tables.Table, tmp_path: Path) -> None:
    from spark_jobs.quality import whole_table_verdicts

    good = [good_row(table, number) for number in range(3)]
    broken = [good_row(table, 10 + number) | changes for number, (_, changes) in enumerate(breaks_of(table))]
    rows, file = [*good, *broken, good[0]], tmp_path / "rows.parquet"
    pq.write_table(rows_to_table(table.name, rows), file)
    assert whole_table_verdicts(table.name, [str(file)], "test:1") == compiled(table, rows)


@pytest.mark.parametrize("table", tables.BY_NAME.values(), ids=tables.BY_NAME)
def test_nor_does_it_matter_that_rows_which_are_alike_are_shown_as_one(table: tables.Table, tmp_path: Path) -> None:
    """In a suite, and where tasks check what a stage is about to commit."""
    from spark_jobs.quality import suite_verdicts

    good = [good_row(table, number) for number in range(40)]
    broken = [good_row(table, 50 + number) | changes for number, (_, changes) in enumerate(breaks_of(table))]
    files: list[str] = []
    for number, rows in enumerate((good[:25], good[25:], broken, good[:1])):
        files.append(str(tmp_path / f"{number}.parquet"))
        pq.write_table(rows_to_table(table.name, rows), files[-1])
    for also, rows in ([], []), (files[2:3], broken), (files[3:], good[:1]):
        for judge in (suite_verdicts, verdicts_in_tasks):
            assert judge(LocalEngine(), table.name, files[:2] + also, "test:1") == compiled(table, good + rows)


CHECK = (
    "import sys; from spark_jobs.quality import whole_table_verdicts as v; v('bronze.source', sys.argv[1:], 'test:1')"
)


def test_no_java_is_needed_for_that(tmp_path: Path) -> None:
    """In a process of its own: Great Expectations starts a session with an asset of Spark's engine."""
    table, file = tables.BY_NAME["bronze.source"], tmp_path / "rows.parquet"
    pq.write_table(rows_to_table(table.name, [good_row(table, 1)]), file)
    without = os.environ | {"PATH": str(tmp_path), "JAVA_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", CHECK, file], env=without, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
