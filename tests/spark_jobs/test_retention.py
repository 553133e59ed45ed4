"""What `maintain` deletes by age is not missed: later evidence gives the tables of a warehouse that keeps all."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit import cli
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.stages import reconstruct
from tests.spark_jobs.arrivals import Landed, deliver, gold, landed, rows_of, together

HOUR_MS = 3_600_000
KEPT = ("--keep-bronze", "1h", "--keep-silver", "24h", "--keep-gold", "400d")


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruct, "WINDOW", 60)
    monkeypatch.setattr(reconstruct, "AROUND", 15)


@pytest.fixture
def flushes(tmp_path: Path) -> list[Landed]:
    """Four flushes, a rebalance of one of two groups every hour."""
    cluster, found = GrowingCluster(groups=2, seed=3, apart_ms=HOUR_MS), []
    for at in range(4):
        scratch = tmp_path / f"flush-{at}"
        Warehouse.open(scratch, create=True)
        cluster.land(Landing(scratch), 24)
        found.append(landed([], scratch))
    return found


def run(warehouse: Warehouse, **more: Any) -> None:
    pipeline.run(warehouse, engine="local", with_quality=False, **more)


def maintain(warehouse: Warehouse, *more: str) -> int:
    return cli.run(["maintain", "-q", "-w", warehouse.location, *KEPT, *more])


def counts(warehouse: Warehouse) -> dict[str, int]:
    names = ("bronze.record", "bronze.log_line", "silver.group_event", "silver.commit_mark")
    return {name: warehouse.read(name, ["cluster_id"]).num_rows for name in names}


def test_later_evidence_gives_the_tables_of_one_that_keeps_everything(flushes: list[Landed], tmp_path: Path) -> None:
    keeping = Warehouse.open(tmp_path / "keeping", create=True)
    deleting = Warehouse.open(tmp_path / "deleting", create=True)
    for at, flush in enumerate(flushes):
        for warehouse in (keeping, deleting):
            deliver(warehouse, f"flush-{at}", flush)
            run(warehouse)
        assert maintain(deleting) == 0
        deleting = Warehouse.open(deleting.location)
    run(deleting)
    assert gold(deleting) == gold(keeping)
    assert rows_of(deleting, "silver.measured_rebalance") == rows_of(keeping, "silver.measured_rebalance")
    left, whole = counts(deleting), counts(keeping)
    assert left["bronze.record"] < whole["bronze.record"] // 10
    assert left["silver.group_event"] < whole["silver.group_event"]
    assert left["silver.commit_mark"] < whole["silver.commit_mark"]
    assert cli.run(["audit", "verify", "-w", deleting.location]) == 0


def test_what_was_deleted_is_not_taken_in_again(flushes: list[Landed], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    for at, flush in enumerate(flushes[:3]):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse)
    assert maintain(warehouse) == 0
    warehouse = Warehouse.open(warehouse.location)
    before, shown = counts(warehouse), gold(warehouse)
    for at, flush in enumerate(flushes[:2]):
        deliver(warehouse, f"again-{at}", {noun: rows for noun, rows in flush.items() if noun != "source"})
    run(warehouse)
    assert counts(warehouse) == before
    assert gold(warehouse) == shown


def test_news_from_before_the_floor_leaves_the_rows_and_is_counted(flushes: list[Landed], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    late = flushes[0]["log_line"].slice(0, 1)
    flushes[0]["log_line"] = flushes[0]["log_line"].slice(1)
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse)
    assert maintain(warehouse) == 0
    warehouse = Warehouse.open(warehouse.location)
    before = rows_of(warehouse, "silver.measured_rebalance")
    other = late.set_column(late.schema.get_field_index("file_id"), "file_id", pa.array(["0badcafe"]))
    deliver(warehouse, "late", {"log_line": other})
    run(warehouse)
    reopened = warehouse.read("silver.reopening", None, "is_too_old").to_pylist()
    assert len(reopened) == 1
    assert rows_of(warehouse, "silver.measured_rebalance") == before


def test_nothing_is_deleted_while_a_stage_has_work(
    flushes: list[Landed], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    deliver(warehouse, "all", flushes[0])
    run(warehouse, stages=["bronze"])
    before = counts(warehouse)
    assert maintain(warehouse) == 1
    assert "nothing was deleted by age, since decode" in capfd.readouterr().err
    assert counts(Warehouse.open(warehouse.location)) == before
    assert maintain(warehouse, "--keep-silver", "1000d") == 2
    assert "keep none shorter than that" in capfd.readouterr().err


def test_gold_that_is_old_enough_goes_with_its_members_and_movements(flushes: list[Landed], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    deliver(warehouse, "all", together(flushes))
    run(warehouse)
    (ends,) = warehouse.query("SELECT max(assigned_at_ms) at_ms, count(*) n FROM gold.rebalance").to_pylist()
    assert maintain(warehouse, "--keep-gold", "48h") == 0
    warehouse = Warehouse.open(warehouse.location)
    old = f"FROM gold.rebalance WHERE assigned_at_ms < {ends['at_ms'] - 49 * HOUR_MS}"
    assert warehouse.query(f"SELECT count(*) n {old}").to_pylist() == [{"n": 0}]
    (left,) = warehouse.query("SELECT count(*) n FROM gold.rebalance").to_pylist()
    assert 40 < left["n"] < ends["n"]
    for table in ("rebalance_member", "movement"):
        orphans = f"SELECT count(*) n FROM gold.{table} ANTI JOIN gold.rebalance USING (cluster_id, rebalance_id)"
        assert warehouse.query(orphans).to_pylist() == [{"n": 0}]


def test_checkpoints_of_deleted_evidence_that_break_are_kept_and_said(
    flushes: list[Landed], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    for at, flush in enumerate(flushes[:3]):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse)
    assert maintain(warehouse) == 0
    before = rows_of(warehouse, "silver.measured_rebalance")
    shutil.move(tmp_path / "w", tmp_path / "moved")  # this process knows what was in the files at the other place
    warehouse = Warehouse.open(tmp_path / "moved")
    checkpoints = tmp_path / "moved" / "silver" / "checkpoint"
    for file in checkpoints.glob("*.parquet"):
        file.write_bytes(b"x" * 500)
    deliver(warehouse, "last", flushes[3])
    capfd.readouterr()
    assert cli.run(["run", "-q", "-w", warehouse.location, "--engine", "local"]) == 1
    assert capfd.readouterr().err.count("retention has deleted evidence that it stands for: restore the folder") == 1
    assert rows_of(Warehouse.open(warehouse.location), "silver.measured_rebalance") == before
    shutil.rmtree(checkpoints)  # as the sentence says
    assert cli.run(["run", "-q", "-w", warehouse.location, "--engine", "local"]) == 0
    warehouse = Warehouse.open(warehouse.location)
    assert rows_of(warehouse, "silver.measured_rebalance") == before
    said = {(row["group_id"], row["is_too_old"]) for row in warehouse.read("silver.reopening").to_pylist()}
    assert said == {("group-000000", True), ("group-000001", True)}
