"""Evidence that names no group is placed as it comes in as when all of it is looked at once."""

from __future__ import annotations

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import belonging as module
from spark_jobs.belonging import EVENTS, Belonging, belonging, homes_of_nameless
from tests.captures import GOLDEN
from tests.spark_jobs.test_parcels import event_rows
from tests.steps import steps_in

CAPTURES = ("connect_worker_lost", "connect_eager", "hostile_names", "kip848_join_leave")


def homes(place: Path, *parts: list[dict[str, Any]]) -> list[Belonging]:
    """After each part, by one process that goes on, with the lease as a run has it."""
    warehouse = Warehouse.open(place, create=True)
    found = []
    with warehouse.lease():
        for part in parts:
            warehouse.append(EVENTS, rows_to_table(EVENTS, part))
            found.append(belonging(warehouse, None))
    return found


def a_line_of_a_member(rows: list[dict[str, Any]], number: int) -> dict[str, Any]:
    """One that names a member and no group."""
    line = next(row for row in rows if row["source_kind"] == "log" and row["group_id"] is not None)
    of_members = (json.loads(row["detail"]).get("fields", {}).get("member_id") for row in rows if row["detail"])
    member_id = next(m for m in of_members if m)
    detail = json.dumps(json.loads(line["detail"]) | {"fields": {"member_id": member_id}})
    return line | {"group_id": None, "ref": f"log:broker-1/other.log#{number}@0", "detail": detail}


@pytest.mark.parametrize("name", CAPTURES)
def test_any_order_and_any_cut_place_it_as_all_at_once(name: str, tmp_path: Path) -> None:
    rows = event_rows(GOLDEN / "4.3.0" / name)
    rows += [a_line_of_a_member(rows, number) for number in (1, 2)]
    (whole,) = homes(tmp_path / "whole", rows)
    assert whole.lines
    dice = random.Random(name)
    shuffled = dice.sample(rows, len(rows))
    cuts = sorted(dice.sample(range(1, len(rows)), 3))
    parts = [shuffled[a:b] for a, b in zip([0, *cuts], [*cuts, len(rows)], strict=True)]
    kept = homes(tmp_path / "kept", *parts)
    for at, found in enumerate(kept, 1):
        (whole,) = homes(tmp_path / f"{at}", [row for part in parts[:at] for row in part])
        assert found == whole
    assert kept[-1] == whole
    assert belonging(Warehouse.open(tmp_path / "kept"), None) == whole  # a process that begins


def test_only_new_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = event_rows(GOLDEN / "4.3.0" / "connect_worker_lost")
    whole = homes(tmp_path, rows[:100], rows[100:])[-1]
    warehouse = Warehouse.open(tmp_path)
    asked: list[int] = []

    def counted(files: list[str]) -> str:
        asked.append(len(files))
        return relation(files)

    monkeypatch.setattr(module, "relation", counted)
    with warehouse.lease():
        assert homes_of_nameless(warehouse, None) == whole
        asked.clear()
        warehouse.append(EVENTS, rows_to_table(EVENTS, rows[:1]))
        homes_of_nameless(warehouse, None)
        assert homes_of_nameless(warehouse, None) is homes_of_nameless(warehouse, None)
    assert asked == [1, 1, 1]


def test_ten_times_the_clusters_take_ten_times_the_steps(tmp_path: Path) -> None:
    rows = event_rows(GOLDEN / "4.3.0" / "connect_worker_lost")
    line = a_line_of_a_member(rows, 1)
    steps = []
    for clusters in (20, 200):
        file = str(tmp_path / f"{clusters}.parquet")
        of_each = [line | {"cluster_id": f"cluster-{number}"} for number in range(clusters)]
        pq.write_table(rows_to_table(EVENTS, of_each), file)
        known = module._with_lines(None, [file])
        assert known is not None
        assert len(known) == clusters
        steps.append(steps_in(module, partial(module._with_lines, None, [file])))
    assert steps[1] < 11 * steps[0]
