"""`export`: every table with its columns, by group and time, in each form; hostile text stays in its cell."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rebalance_audit.commands import options
from rebalance_audit.commands.rows import known_table, selection
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.app import gold_rows
from tests.commands.saying import ROOT, assert_one_sentence


def test_export_has_every_table_with_its_own_columns(call: Any, filled: Path) -> None:
    for table in tables.TABLES:
        result = call("export", table.name, "-w", filled, "-o", "csv")
        assert result.status == 0, result.err
        assert result.out.splitlines()[0].split(",") == [column.name for column in table.columns]


def test_numbers_of_findings_are_numbers_in_json(call: Any, filled: Path) -> None:
    rows = [json.loads(line) for line in call("export", "finding", "-w", filled).out.splitlines()]
    stored = Warehouse.open(filled).query("SELECT finding_id, numbers FROM gold.finding").to_pylist()
    texts = {row["finding_id"]: row["numbers"] for row in stored}
    assert any(text and text.startswith("{") for text in texts.values())
    for row in rows:
        text = texts[row["finding_id"]]
        assert row["numbers"] == (json.loads(text) if text and text.startswith("{") else text)


def test_export_picks_group_and_time(call: Any, filled: Path) -> None:
    rows = [json.loads(line) for line in call("export", "rebalance", "-w", filled, "-g", "orders").out.splitlines()]
    assert rows
    assert {row["group_id"] for row in rows} == {"orders"}
    last = max(row["assigned_at_ms"] or row["ended_at_ms"] for row in rows)
    later = call("export", "rebalance", "-w", filled, "-g", "orders", "--from", str(last)).out.splitlines()
    assert len(later) == 1
    before = call("export", "rebalance", "-w", filled, "-g", "orders", "--to", str(last)).out.splitlines()
    assert len(before) == len(rows) - 1


@pytest.mark.parametrize("form", ["jsonl", "csv", "parquet"])
@pytest.mark.parametrize("table", ["rebalance", "incident", "whatif"])
def test_export_of_a_group_that_is_not_there_fails(call: Any, filled: Path, table: str, form: str) -> None:
    result = call("export", table, "-w", filled, "-g", "ordres", "-o", form)
    assert_one_sentence(result, 2)
    assert "There is no group 'ordres'" in result.err


def test_export_and_report_count_the_same_rebalances_of_a_period(call: Any, filled: Path) -> None:
    """One that begins before a bound and takes effect after it is of the time in which it takes effect."""
    counted = [
        row
        for row in map(json.loads, call("export", "rebalance", "-w", filled).out.splitlines())
        if row["kind"] == "rebalance" and row["outcome"] != "missing" and row["started_at_ms"]
    ]
    for at_ms in {row["started_at_ms"] + 1 for row in counted}:
        period = ("-w", filled, "--from", str(at_ms), "--to", str(at_ms + 60_000))
        rows = map(json.loads, call("export", "rebalance", *period).out.splitlines())
        exported = sum(row["kind"] == "rebalance" and row["outcome"] != "missing" for row in rows)
        assert exported == json.loads(call("report", *period, "-o", "json").out)["rebalance_count"]


def test_export_of_movements_takes_the_time_of_their_rebalance(call: Any, filled: Path) -> None:
    rows = [json.loads(line) for line in call("export", "movement", "-w", filled, "-g", "orders").out.splitlines()]
    assert rows
    none = call("export", "movement", "-w", filled, "-g", "orders", "--to", "2026-01-01")
    assert none.out == ""
    assert "No row" in none.err


def test_export_to_parquet_keeps_types_and_every_character(filled: Path, tmp_path: Path) -> None:
    target = tmp_path / "groups.parquet"
    with target.open("wb") as file:
        subprocess.run(
            [sys.executable, "-m", "rebalance_audit.cli", "export", "group", "-w", str(filled), "-o", "parquet"],
            cwd=ROOT, stdout=file, check=True,
        )  # fmt: skip
    found = pq.read_table(target)
    assert found.schema.equals(Warehouse.open(filled).schema("gold.group"))
    assert gold_rows.HOSTILE_GROUP in found.column("group_id").to_pylist()


def test_hostile_text_stays_on_its_line_in_jsonl_and_csv(call: Any, filled: Path) -> None:
    lines = call("export", "group", "-w", filled).out.splitlines()
    assert gold_rows.HOSTILE_GROUP in [json.loads(line)["group_id"] for line in lines]
    printed = call("export", "group", "-w", filled, "-o", "csv").out
    rows = list(csv.DictReader(io.StringIO(printed)))
    assert len(rows) == len(lines) == len(printed.splitlines()) - 1


def test_a_table_that_is_not_there_is_a_usage_error_that_names_the_others(call: Any, filled: Path) -> None:
    result = call("export", "rebalances", "-w", filled)
    assert_one_sentence(result, status=2)
    assert "gold.rebalance" in result.err


@pytest.mark.parametrize("table", tables.TABLES, ids=lambda t: t.name)
def test_every_selection_a_table_allows_is_valid_sql(table: tables.Table, filled: Path) -> None:
    opened = Warehouse.open(filled)
    # A mark of all groups is one of any group.
    of_group = {"group": "x"} if table.name != "gold.mark" else {"group": "x", "cluster_id": "x"}
    for wishes in (of_group, {"cluster_id": "x"}, {"from_ms": 1, "to_ms": 2}):
        try:
            sql, params = selection(table, **wishes)
        except options.UsageError:
            continue
        assert opened.query(sql, params).num_rows == 0


def test_short_names_mean_gold_first() -> None:
    assert known_table("rebalance").name == "gold.rebalance"
    assert known_table("undecoded").name == "silver.undecoded"
    assert known_table("record").name == "bronze.record"


def test_rows_written_for_tests_have_all_columns() -> None:
    """`rows_to_table` fills what a row lacks, so the warehouse above is of the real schema."""
    assert rows_to_table("gold.group", [{}]).schema.names == [c.name for c in tables.GOLD_GROUP.columns]
