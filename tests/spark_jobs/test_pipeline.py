"""The plan: what each stage reads was written before, and reading the plan starts nothing."""

from __future__ import annotations

import ast
import importlib.util
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.plan import STAGES
from spark_jobs.stages.stage import next_batch


def test_every_stage_reads_what_stages_before_it_wrote() -> None:
    written: set[str] = set()
    for stage in STAGES:
        assert {*stage.reads, *stage.looks_up} <= written, stage.name
        written |= set(stage.writes)


def test_every_table_is_written_by_one_stage() -> None:
    written = [name for stage in STAGES for name in stage.writes]
    assert len(written) == len(set(written))
    assert set(tables.BY_NAME) - set(written) == {
        *tables.UNPUBLISHED,
        *tables.MAINTAINED,
    }  # written by checks and people


def test_no_stage_names_its_inputs_and_outputs_again() -> None:
    """They come from the plan, so that it cannot say something else than what a stage does."""
    for stage in STAGES:
        source = Path(str(importlib.util.find_spec(stage.module).origin)).read_text(encoding="utf-8")  # type: ignore[union-attr]
        assigned = {
            name.id: node.value
            for node in ast.walk(ast.parse(source))
            if isinstance(node, ast.Assign)
            for target in node.targets
            for name in ast.walk(target)
            if isinstance(name, ast.Name)
        }
        for name in {"NAME", "INPUT", "INPUTS", "OUTPUT", "OUTPUTS"} & set(assigned):
            used = {n.id for n in ast.walk(assigned[name]) if isinstance(n, ast.Name)}
            assert used == {stage.name.upper()}, f"{stage.module}: {name}"


def test_reading_the_plan_does_not_import_spark() -> None:
    program = (
        "import sys, spark_jobs.plan, spark_jobs.pipeline; "
        "print('pyspark' in sys.modules, 'great_expectations' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["False", "False"]


def test_an_empty_warehouse_needs_no_spark(tmp_path: Path) -> None:
    steps: list[tuple[str, str]] = []
    outcome = pipeline.run(Warehouse.open(tmp_path, create=True), progress=lambda *what: steps.append(what))
    assert outcome.ms_by_stage == {}
    assert [what for _, what in steps] == ["started", "nothing new"] * len(STAGES)


def test_a_run_removes_what_a_killed_one_left_in_staging(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    left = tmp_path / "staging" / "half" / "part-0.parquet"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"PAR1")
    pipeline.run(warehouse)
    assert not (tmp_path / "staging").exists()


def test_an_unknown_stage_is_named(tmp_path: Path) -> None:
    Warehouse.open(tmp_path, create=True)
    with pytest.raises(ValueError, match="no stage silver; stages are bronze, decode"):
        pipeline.run(str(tmp_path), ["silver"])


# ---- what is new for a stage

INPUTS = ("silver.measured_rebalance", "silver.connect_task")
OUTPUTS = ("silver.finding", "silver.undecoded")


def write(warehouse: Warehouse, table: str, transaction: dict[str, int] | None = None) -> None:
    warehouse.append(table, rows_to_table(table, [{"cluster_id": "c"}]), transaction)


def test_a_batch_reaches_from_what_was_consumed_to_what_is_there(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    assert next_batch(warehouse, "s", INPUTS, OUTPUTS) is None
    write(warehouse, "silver.measured_rebalance")
    first = next_batch(warehouse, "s", INPUTS, OUTPUTS)
    assert first is not None
    assert (first.since, first.until) == (
        {"silver.measured_rebalance": -1, "silver.connect_task": -1},
        {"silver.measured_rebalance": 1, "silver.connect_task": -1},
    )
    for output in OUTPUTS:
        write(warehouse, output, first.transaction)
    assert next_batch(warehouse, "s", INPUTS, OUTPUTS) is None


def test_the_last_output_says_what_is_done_and_others_may_lack_what_changed_nothing(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    nothing = rows_to_table(OUTPUTS[0], [])
    for number in (1, 2):
        write(warehouse, "silver.measured_rebalance")
        batch = next_batch(warehouse, "s", INPUTS, OUTPUTS)
        assert batch is not None
        assert batch.until["silver.measured_rebalance"] == number
        # The first time, so that the table is there.
        assert warehouse.append(OUTPUTS[0], nothing, batch.transaction, only_if_changed=True) == (number == 1)
        assert next_batch(warehouse, "s", INPUTS, OUTPUTS) == replace(batch, is_repeated=number == 1)
        write(warehouse, OUTPUTS[1], batch.transaction)
        assert next_batch(warehouse, "s", INPUTS, OUTPUTS) is None
    write(warehouse, "silver.measured_rebalance")
    later = next_batch(warehouse, "s", INPUTS, OUTPUTS)
    assert later is not None
    assert later.since["silver.measured_rebalance"] == 2
    write(warehouse, OUTPUTS[0], later.transaction)  # and then the power went
    assert next_batch(warehouse, "s", INPUTS, OUTPUTS) == replace(later, is_repeated=True)


def test_an_interrupted_batch_is_finished_before_anything_newer(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    write(warehouse, "silver.measured_rebalance")
    first = next_batch(warehouse, "s", INPUTS, OUTPUTS)
    assert first is not None
    write(warehouse, OUTPUTS[0], first.transaction)  # and then the power went
    write(warehouse, "silver.measured_rebalance")
    assert next_batch(warehouse, "s", INPUTS, OUTPUTS) == replace(first, is_repeated=True)
    write(warehouse, OUTPUTS[1], first.transaction)
    second = next_batch(warehouse, "s", INPUTS, OUTPUTS)
    assert second is not None
    assert (second.since["silver.measured_rebalance"], second.until["silver.measured_rebalance"]) == (1, 2)
