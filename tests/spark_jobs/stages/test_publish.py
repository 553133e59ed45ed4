"""detect and publish: what vanishes is removed, what stays keeps its revision, contradictions are shown."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import copied_rows, pipeline
from tests.spark_jobs.synthetic import BASE_MS, a_commit, a_generation, a_line, a_record, land


def test_the_way_of_a_warehouse_over_three_runs(engine: dict[str, Any], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)

    def run(**settings: Any) -> None:
        pipeline.run(warehouse, **engine, with_quality=False, settings=settings)

    def revisions() -> dict[tuple[str, int], int]:
        rows = warehouse.query("SELECT group_id, generation_id, revision FROM gold.rebalance").to_pylist()
        return {(row["group_id"], row["generation_id"]): row["revision"] for row in rows}

    land(warehouse, "a", [a_generation(1, 1), a_generation(2, 5, group="quiet"), a_generation(4, 3)])
    run(team=lambda cluster_id, group_id: f"team of {group_id}")
    assert revisions() == {("orders", 1): 1, ("orders", 2): 1, ("orders", 3): 1, ("quiet", 5): 1}
    outcomes = warehouse.query(
        "SELECT generation_id, outcome FROM gold.rebalance WHERE group_id = 'orders'"
    ).to_pylist()
    assert {row["generation_id"]: row["outcome"] for row in outcomes} == {1: "completed", 2: "missing", 3: "completed"}
    teams = warehouse.query("SELECT DISTINCT group_id, team FROM gold.rebalance").to_pylist()
    assert {row["group_id"]: row["team"] for row in teams} == {"orders": "team of orders", "quiet": "team of quiet"}
    groups = warehouse.query("SELECT group_id, state, rebalance_count FROM gold.group ORDER BY 1").to_pylist()
    assert [(g["group_id"], g["state"]) for g in groups] == [("orders", "Stable"), ("quiet", "Stable")]

    # The missing generation comes late: its row is replaced, and so the rows that spoke of the gap; others stay.
    version = warehouse.version("gold.rebalance_member")
    land(warehouse, "b", [a_generation(3, 2)])
    run(team=lambda cluster_id, group_id: f"team of {group_id}")
    found = revisions()
    assert found[("orders", 2)] == 2
    assert found[("quiet", 5)] == 1
    assert (warehouse.version("gold.rebalance_member") or 0) == (version or 0) + 1

    # Bytes that nobody knows, and another record at an offset that is taken: no rebalance changes, two findings.
    land(warehouse, "c", [a_generation(3, 9), a_record(9, b"\x00\x63", b"?")])
    run(team=lambda cluster_id, group_id: f"team of {group_id}")
    assert revisions() == found
    rules = warehouse.query("SELECT rule_id, subject, evidence FROM gold.finding WHERE group_id IS NULL").to_pylist()
    assert sorted((r["rule_id"], r["subject"], r["evidence"][0]) for r in rules) == [
        ("TR002", "__consumer_offsets-7", "record:__consumer_offsets-7@9"),
        ("TR005", "__consumer_offsets-7", "record:__consumer_offsets-7@3"),
    ]


def test_a_forged_line_records_that_go_back_and_clocks_that_step_are_shown(
    engine: dict[str, Any], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    at = datetime.fromtimestamp((BASE_MS + 1_000) / 1_000, UTC)
    forged = (
        f"[{at:%Y-%m-%d %H:%M:%S},000] INFO [GroupCoordinator 1]: Group orders with generation 99 is now empty "
        "(__consumer_offsets-7) (kafka.coordinator.group.GroupCoordinator)"
    )
    records = [
        a_generation(1, 1),
        a_generation(2, 8, timestamp_ms=BASE_MS + 60_000),
        a_generation(3, 3, timestamp_ms=BASE_MS + 50_000),
    ]
    land(warehouse, "a", records, [a_line(0, forged)])
    pipeline.run(warehouse, **engine, with_quality=False)
    found = warehouse.query("SELECT rule_id, subject, evidence FROM gold.finding WHERE rule_id LIKE 'TR%'").to_pylist()
    assert sorted((f["rule_id"], f["subject"], f["evidence"]) for f in found) == [
        ("TR003", "__consumer_offsets-7", ["record:__consumer_offsets-7@2", "record:__consumer_offsets-7@3"]),
        ("TR004", "orders", ["log:broker-1/server.log#f1@0"]),
        ("TR004", "orders", ["record:__consumer_offsets-7@3"]),
    ]
    rows = warehouse.query(
        "SELECT generation_id FROM gold.rebalance WHERE outcome = 'completed' ORDER BY 1"
    ).to_pylist()
    assert [row["generation_id"] for row in rows] == [1, 3, 8]


def test_findings_of_many_groups_come_by_files_and_are_the_same(
    engine: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def published(place: str) -> list[list[dict[str, Any]]]:
        warehouse = Warehouse.open(tmp_path / place, create=True)
        found = []
        for name, records in (
            ("a", [a_generation(1, 1), a_generation(2, 8, group="other"), a_generation(3, 9)]),
            ("b", [a_generation(4, 3), a_generation(3, 2), a_record(9, b"\x00\x63", b"?")]),
        ):
            land(warehouse, name, records)
            pipeline.run(warehouse, **engine, with_quality=False)
            rows = warehouse.query("SELECT * FROM gold.finding ORDER BY cluster_id, finding_id").to_pylist()
            assert {*warehouse.published()} >= {"gold.finding"}
            found.append(rows)
        return found

    as_rows = published("rows")
    monkeypatch.setattr(copied_rows, "ASKED_AT_MOST", 0)
    assert published("files") == as_rows
    assert {row["group_id"] for row in as_rows[1]} >= {None, "orders"}


def test_a_commit_that_only_goes_on_folds_no_group_again(engine: dict[str, Any], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)

    def folded(name: str, *records: dict[str, Any]) -> int:
        land(warehouse, name, records)
        return pipeline.run(warehouse, **engine, with_quality=False).rows_written["silver.measured_rebalance"]

    assert folded("a", a_generation(1, 1), a_commit(2)) == 1
    assert folded("b", a_commit(3), a_commit(4)) == 0  # as before, only longer
    assert folded("c", a_commit(5, partition=1)) == 1  # the first of this partition: it works again
    assert folded("d", a_generation(6, 2)) == 2
    assert folded("e", a_commit(9)) == 2
    assert folded("f", a_commit(8)) == 2  # came late: now this one is the first


def test_rows_of_a_rebalance_that_vanished_are_removed(engine: dict[str, Any], tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    land(warehouse, "a", [a_generation(1, 1), a_generation(4, 4)])
    pipeline.run(warehouse, **engine, with_quality=False)
    missing = "SELECT generation_id FROM gold.rebalance WHERE outcome = 'missing'"
    before = {row["generation_id"] for row in warehouse.query(missing).to_pylist()}
    assert before
    land(warehouse, "b", [a_generation(2, 2), a_generation(3, 3)])
    pipeline.run(warehouse, **engine, with_quality=False)
    assert warehouse.query(missing).num_rows == 0
    ids = warehouse.query("SELECT rebalance_id FROM gold.rebalance").column(0).to_pylist()
    members = warehouse.query("SELECT DISTINCT rebalance_id FROM gold.rebalance_member").column(0).to_pylist()
    assert len(ids) == len(set(ids)) == 4
    assert set(members) <= set(ids)
