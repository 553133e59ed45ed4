"""A fleet of recorded groups under other names: the stages find in it what was written down for each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from bench.fleet import OF_EACH, write_fleet
from ingest.evidence import import_evidence
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline

FOUND = """
    SELECT cluster_id, group_id, coalesce(generation_id, group_epoch) AS number, kind, outcome, trigger
    FROM gold.rebalance
"""


def content(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


Rows = dict[tuple[str, str], list[tuple[object, ...]]]
"""The rebalances of each (cluster, group), sorted."""


def expected_and_found(folders: Iterator[Path], warehouse: Warehouse) -> tuple[Rows, Rows]:
    """Those that were written down by hand for a fleet, and those that the stages find in it."""
    expected: Rows = {}
    either: dict[tuple[object, ...], tuple[object, ...]] = {}
    for cluster in folders:
        import_evidence(cluster, Landing(warehouse.location))
        for group in json.loads((cluster / "truth" / "fleet.json").read_text())["groups"]:
            rows = [tuple(each[name] for name in OF_EACH) for each in group["rebalances"]]
            expected.setdefault((cluster.name, group["group"]), []).extend(rows)
            for one, each in zip(rows, group["rebalances"], strict=True):
                if "or_trigger" in each:
                    either[cluster.name, group["group"], *one[:-1], each["or_trigger"]] = one
    pipeline.run(warehouse, engine="local", with_quality=False)
    found: Rows = {}
    for row in warehouse.query(FOUND).to_pylist():
        place, one = (row["cluster_id"], row["group_id"]), tuple(row[name] for name in OF_EACH)
        found.setdefault(place, []).append(either.get((*place, *one), one))
    expected, found = ({group: sorted(rows, key=repr) for group, rows in of.items()} for of in (expected, found))
    return expected, found


def test_every_group_has_its_rebalances(tmp_path: Path) -> None:
    folders = write_fleet(tmp_path / "fleet", rebalances=400, seed=7)
    expected, found = expected_and_found(folders, Warehouse.open(tmp_path / "w", create=True))
    assert len(expected) > 50
    assert found == expected


def test_a_group_that_comes_back_contradicts_nothing(tmp_path: Path) -> None:
    """It was deleted in between: without tombstones its generations would begin anew, which TR004 reports."""
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    folders = write_fleet(tmp_path / "fleet", rebalances=800, groups=20, seed=3)
    expected, found = expected_and_found(folders, warehouse)
    assert max(map(len, expected.values())) > 40  # captures have 15 at most
    assert found == expected
    assert warehouse.query("SELECT title FROM gold.finding WHERE rule_id = 'TR004'").to_pylist() == []


def test_a_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    again = count()

    def written(seed: int) -> dict[str, bytes]:
        folder = tmp_path / str(next(again))
        list(write_fleet(folder, rebalances=50, seed=seed))
        return content(folder)

    assert written(1) == written(1)
    assert written(1) != written(2)


def test_so_many_groups_share_the_rebalances(tmp_path: Path) -> None:
    histories = [
        group
        for cluster in write_fleet(tmp_path, rebalances=600, groups=40, seed=7)
        if cluster.name.startswith("fleet-")
        for group in json.loads((cluster / "truth" / "fleet.json").read_text())["groups"]
    ]
    assert len({group["group"] for group in histories}) == 40
    assert sum(len(group["rebalances"]) for group in histories) == pytest.approx(600, abs=15)
