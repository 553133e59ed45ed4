"""What stages note beside the tables costs only work when it is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests.spark_jobs.arrivals import gold


@pytest.mark.parametrize("damage", [b"", b'{"form": 1, "fi', b"\xff\xfe\x00", b"[1, 2]"])
def test_damaged_notes_change_no_table(tmp_path: Path, damage: bytes) -> None:
    for name in ("whole", "damaged"):
        warehouse, cluster = Warehouse.open(tmp_path / name, create=True), GrowingCluster(groups=3, seed=2)
        for _ in range(2):
            cluster.land(Landing(tmp_path / name), 6)
            pipeline.run(warehouse, engine="local")
            notes = sorted((tmp_path / name / "notes").glob("*.json"))
            assert len(notes) > 3
            for note in notes if name == "damaged" else []:
                note.write_bytes(damage)
    whole = gold(Warehouse.open(tmp_path / "whole"))
    assert whole["gold.rebalance"]
    assert gold(Warehouse.open(tmp_path / "damaged")) == whole
