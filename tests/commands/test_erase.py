"""`erase`: what is left in the warehouse's folder is looked through byte by byte, as an auditor would."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit import cli
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline

GONE, KEPT = "group-000000", "group-000001"


@pytest.fixture
def filled(tmp_path: Path) -> Warehouse:
    """Two groups of one cluster, in two runs, so that there are older versions, too."""
    cluster = GrowingCluster(groups=2, seed=5)
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    for _ in range(2):
        cluster.land(Landing(warehouse.location), 8)
        pipeline.run(warehouse, engine="local")
    return warehouse


def places_of(name: str, warehouse: Warehouse) -> Iterator[Path]:
    """Files in which the name stands, also where it is compressed."""
    for file in sorted(Path(warehouse.location).rglob("*")):
        if not file.is_file():
            continue
        found = name.encode() in file.read_bytes()
        if not found and file.suffix == ".parquet":
            found = name in repr(pq.read_table(file).to_pylist())
        if found:
            yield file


def rows(warehouse: Warehouse, group_id: str) -> dict[str, list[str]]:
    return {
        table.name: sorted(map(repr, warehouse.read(table.name, None, "group_id = ?", [group_id]).to_pylist()))
        for table in tables.TABLES
        if "group_id" in {column.name for column in table.columns}
    }


def test_an_erased_group_is_in_no_file_and_all_else_stays(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    other = rows(filled, KEPT)
    assert list(places_of(GONE, filled))
    assert cli.run(["erase", GONE, "-w", filled.location, "--by", "anna", "--reason", "ticket 4711"]) == 0
    assert "rows of" in capfd.readouterr().err
    opened = Warehouse.open(filled.location)
    assert list(places_of(GONE, opened)) == []
    assert rows(opened, KEPT) == other
    (noted,) = opened.query("SELECT * FROM gold.erasure").to_pylist()
    assert (noted["by"], noted["reason"], noted["cluster_id"]) == ("anna", "ticket 4711", "bench")
    assert noted["subject_sha256"] == hashlib.sha256(GONE.encode()).hexdigest()
    assert noted["row_count"] == sum(of_table["row_count"] for of_table in noted["tables"]) > 50
    assert GONE not in repr(noted)
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0
    assert opened.query("SELECT DISTINCT group_id FROM gold.rebalance").to_pylist() == [{"group_id": KEPT}]


def test_runs_after_an_erasure_go_on_with_what_is_left(filled: Warehouse) -> None:
    assert cli.run(["erase", GONE, "-w", filled.location, "-q"]) == 0
    opened = Warehouse.open(filled.location)
    other = rows(opened, KEPT)
    pipeline.run(opened, engine="local")
    assert list(places_of(GONE, opened)) == []
    assert rows(opened, KEPT) == other


def test_what_was_not_worked_through_yet_is_not_erased_by_half(
    filled: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = GrowingCluster(groups=2, seed=6)
    cluster.land(Landing(filled.location), 2)
    before = rows(filled, GONE)
    Path(filled.location, "landing", "record", "flush-000001.parquet").rename(
        Path(filled.location, "landing", "record", "new-000001.parquet")
    )
    assert cli.run(["erase", GONE, "-w", filled.location]) == 1
    assert "rebalance-audit run -w" in capfd.readouterr().err
    assert rows(filled, GONE) == before


def test_a_group_that_is_not_there_is_said(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["erase", "nobody", "-w", filled.location]) == 2
    assert "There is no group 'nobody'" in capfd.readouterr().err
    assert cli.run(["erase", GONE, "-w", filled.location, "--cluster-id", "other"]) == 2
