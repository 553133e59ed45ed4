"""A landing file that is bad is put aside, everything else goes on, and there is a way back."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rebalance_audit import cli
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from spark_jobs import pipeline
from spark_jobs.erasing import refuse_unfinished
from spark_jobs.quarantine import held, release
from tests.spark_jobs.arrivals import deliver
from tests.spark_jobs.synthetic import Row, a_generation, a_line, a_record, land

WRONG: dict[str, Row] = {
    "law": a_record(-5, b"k", b"v"),
    "required": a_record(5, b"k", b"v", timestamp_ms=None),
    "closed": a_record(5, b"k", b"v", source="carrier pigeon"),
}


def a_source(name: str, landing: str) -> Row:
    return {
        "cluster_id": "c", "source": name, "read_id": landing, "kind": "record", "from_position": 0, "to_position": 9,
        "item_count": 2, "landing": landing,
    }  # fmt: skip


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.open(tmp_path / "w", create=True)


def offsets(warehouse: Warehouse) -> list[int]:
    return sorted(warehouse.read("bronze.record", ["offset"])["offset"].to_pylist())


def run(warehouse: Warehouse) -> list[str]:
    return pipeline.run(warehouse, engine="local").put_aside


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_batch_that_breaks_a_law_is_put_aside_and_the_others_come_in(warehouse: Warehouse, wrong: Row) -> None:
    land(warehouse, "good-1", [a_generation(1, 1)])
    land(warehouse, "bad", [a_record(8, b"k", b"v"), wrong], [a_line(0, "hello")])
    land(warehouse, "good-2", [a_generation(3, 2)])
    deliver(
        warehouse, "bad", {"source": rows_to_table("bronze.source", [a_source("record:__consumer_offsets-7", "bad")])}
    )
    deliver(warehouse, "good-2", {"source": rows_to_table("bronze.source", [a_source("record:other-1", "good-2")])})
    (said,) = run(warehouse)
    assert said.startswith("bad was put aside: its file for bronze.record breaks ")
    assert "for 1 of 2 rows" in said
    assert f"check -w {warehouse.location} --release bad`" in said
    assert offsets(warehouse) == [1, 3]
    assert len(warehouse.read("bronze.log_line")) == 1  # the landing's other file is good
    assert warehouse.read("bronze.source")["landing"].to_pylist() == ["good-2"]  # no ledger without the evidence
    assert len(warehouse.query("SELECT * FROM gold.rebalance")) == 2
    assert [(row["batch"], row["table_name"], row["row_count"]) for row in held(warehouse)] == [
        ("bad", "bronze.record", 2)
    ]
    assert run(warehouse) == []  # nor does it stand in the way of the next run
    verdicts = warehouse.query("SELECT success FROM gold.check WHERE table_name = 'bronze.record' AND is_fatal")
    assert all(verdicts["success"].to_pylist())  # of what is in the table


def test_a_file_among_overlapping_ones_is_put_aside_alone(warehouse: Warehouse) -> None:
    """Repeats are no fault: they are taken out by the same step."""
    land(warehouse, "first", [a_record(1, b"k", b"v"), a_record(5, b"k", b"v")])
    assert run(warehouse) == []
    land(warehouse, "bad", [a_record(1, b"k", b"v"), a_record(2, b"k", b"v", timestamp_ms=None)])
    land(warehouse, "repeats", [a_record(3, b"k", b"v"), a_record(3, b"k", b"v"), a_record(5, b"k", b"v")])
    (said,) = run(warehouse)
    assert said.startswith("bad was put aside")
    assert offsets(warehouse) == [1, 3, 5]


def test_what_is_no_parquet_is_put_aside_and_comes_back_when_it_is_restored(warehouse: Warehouse) -> None:
    land(warehouse, "whole", [a_record(1, b"k", b"v")])
    land(warehouse, "torn", [a_record(2, b"k", b"v")])
    file = Path(warehouse.location) / "landing" / "record" / "torn.parquet"
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    (said,) = run(warehouse)
    assert said.startswith("torn was put aside: its file for bronze.record cannot be read")
    with pytest.raises(WarehouseError, match=r"torn stays in quarantine: its file for bronze.record cannot be read"):
        release(warehouse, "torn")
    file.write_bytes(content)
    assert release(warehouse, "torn") == 1
    assert held(warehouse) == []
    assert run(warehouse) == []
    assert offsets(warehouse) == [1, 2]
    (row,) = warehouse.query("SELECT status, released_at_ms >= held_at_ms AS later FROM gold.quarantine").to_pylist()
    assert row == {"status": "released", "later": True}


def test_a_bad_ledger_entry_is_put_aside_too(warehouse: Warehouse) -> None:
    row = a_source("record:t-1", "bad") | {"kind": "rumour"}
    deliver(warehouse, "bad", {"source": rows_to_table("bronze.source", [row])})
    deliver(warehouse, "good", {"source": rows_to_table("bronze.source", [a_source("record:t-1", "good")])})
    assert len(run(warehouse)) == 1
    assert warehouse.read("bronze.source")["landing"].to_pylist() == ["good"]


def test_an_unknown_batch_and_one_whose_file_is_gone_are_named(warehouse: Warehouse) -> None:
    with pytest.raises(WarehouseError, match=r"No batch 'x' is in quarantine at .*; nothing is"):
        release(warehouse, "x")
    land(warehouse, "bad", [WRONG["law"]])
    run(warehouse)
    with pytest.raises(WarehouseError, match=r"No batch 'x' is in quarantine at .*; there are bad"):
        release(warehouse, "x")
    (Path(warehouse.location) / "landing" / "record" / "bad.parquet").unlink()
    with pytest.raises(WarehouseError, match=r"bad: its landing file for bronze.record is gone"):
        release(warehouse, "bad")


def test_the_command_says_what_waits_and_refuses_what_is_still_bad(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = Warehouse.open(tmp_path / "w", create=True)
    land(opened, "good", [a_generation(1, 1)])
    land(opened, "bad", [WRONG["closed"]])
    place = opened.location
    assert cli.run(["run", "-q", "-w", place, "--engine", "local", "--no-check"]) == 0  # bronze is always checked
    assert "bad was put aside" in capsys.readouterr().err
    assert cli.run(["check", "-w", place, "--fail-on", "critical"]) == 3
    assert "bad is in quarantine" in capsys.readouterr().err
    assert cli.run(["check", "-w", place, "--release", "bad"]) == 1
    assert "'source is a known value' for 1 of 1 rows, e.g. " in capsys.readouterr().err
    deliver(opened, "bad", {"record": rows_to_table("bronze.record", [a_generation(2, 2, landing="bad")])})
    assert cli.run(["check", "-w", place, "--release", "bad"]) == 0
    assert cli.run(["run", "-q", "-w", place, "--engine", "local"]) == 0
    assert cli.run(["check", "-w", place, "--fail-on", "critical"]) == 0
    assert offsets(Warehouse.open(place)) == [1, 2]


def test_nothing_is_erased_while_evidence_waits_that_may_hold_the_group(warehouse: Warehouse) -> None:
    land(warehouse, "good", [a_generation(1, 1)])
    land(warehouse, "bad", [WRONG["law"]])
    run(warehouse)
    with pytest.raises(WarehouseError, match=r"evidence in quarantine \(bad\)"):
        refuse_unfinished(warehouse)
    (Path(warehouse.location) / "landing" / "record" / "bad.parquet").unlink()
    refuse_unfinished(warehouse)


def test_data_docs_show_every_check_and_run_no_text_of_clients(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Great Expectations puts values into its pages as they are."""
    opened = Warehouse.open(tmp_path / "w", create=True)
    land(opened, "l", [a_generation(1, 1, "<script>alert(1)</script>")])
    pipeline.run(opened, engine="local")
    hostile = {"cluster_id": "c", "finding_id": "f", "severity": "<script>alert(2)</script>"}
    opened.append("gold.finding", rows_to_table("gold.finding", [hostile]))
    folder = tmp_path / "docs"
    assert cli.run(["check", "-w", opened.location, "--docs", str(folder)]) == 0
    assert capsys.readouterr().out == f"{folder / 'index.html'}\n"
    pages = "".join(page.read_text() for page in folder.rglob("*.html"))
    for table in ("bronze.record", "silver.measured_rebalance", "gold.rebalance"):
        assert table in pages
    assert "<script>alert" not in pages
    assert "&lt;script&gt;alert(2)" in pages
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    assert cli.run(["check", "-w", opened.location, "--docs", str(tmp_path / "other")]) == 2
    assert "is not empty" in capsys.readouterr().err


def test_both_projections_ask_the_same_of_every_table(tmp_path: Path) -> None:
    """Columns of the data docs' rows are those that the suites name."""
    from spark_jobs.compiled_checks import projection
    from spark_jobs.quality import suite_of

    for name in ("bronze.record", "silver.measured_rebalance", "gold.incident"):
        file = tmp_path / f"{name}.parquet"
        pq.write_table(rows_to_table(name, [{"cluster_id": "c"}]), file)
        asked = {expectation.column for expectation in suite_of(name).expectations}
        assert set(projection(name, [str(file)]).column_names) == asked
