"""Incidents and marks that each run asks for are in files of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.kept_columns import rows_on_disk
from spark_jobs.incidents.by_id import add_rows
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table

RECENT = {"a": 1_000, "b": 5_000}


def incident(number: int, cluster_id: str, status: str, last_at_ms: int) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id, "incident_id": f"i{number}", "kind": "storm", "root_cause": "x",
        "root_cause_tier": "recorded", "first_at_ms": 0, "last_at_ms": last_at_ms, "status": status,
        "expected": False, "severity": "info", "title": "t", "story": "s",
    }  # fmt: skip


def test_open_and_recent_incidents_are_apart(tmp_path: Path) -> None:
    rows = [
        incident(1, "a", "over", 999),
        incident(2, "a", "over", 1_000),
        incident(3, "a", "open", 10),
        incident(4, "b", "over", 1_000),
        incident(5, "b", "over", 5_000),
        incident(6, "of nothing that is known", "over", 0),
    ]
    ids = ids_by_file(tmp_path, "gold.incident", "incident_id", rows)
    assert ids == {("i1", "i4"), ("i2", "i3", "i5", "i6")}


def test_recent_marks_are_apart(tmp_path: Path) -> None:
    rows = [
        {
            "cluster_id": cluster_id,
            "mark_id": f"m{at_ms}",
            "at_ms": at_ms,
            "source": "evidence",
            "text": "t",
            "scope": "g",
        }
        for cluster_id, at_ms in (("a", 999), ("a", 1_000), ("b", 4_999), ("b", 5_000))
    ]
    assert ids_by_file(tmp_path, "gold.mark", "mark_id", rows) == {("m4999", "m999"), ("m1000", "m5000")}


def ids_by_file(folder: Path, table: str, key: str, rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    writer = TaskWriter(str(folder))
    for batch in rows_to_table(table, rows).to_batches():
        add_rows(writer, table, batch, RECENT)
    files = files_by_table(pa.Table.from_batches(list(writer.written()), WRITTEN))[table]
    return {tuple(sorted(rows_on_disk(file, [key])[key].to_pylist())) for file in files}
