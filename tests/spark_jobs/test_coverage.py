"""The ledger: an empty answer and an unseen window never look alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.evidence import import_evidence
from ingest.landing import Landing
from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.coverage import ledger_rows
from tests.ingest.test_metadata import CHECKPOINT, a_checkpoint, batches, folder, log_name, the_rest

Row = dict[str, Any]


def a_reading(start: int | None, end: int | None, count: int = 0, **others: Any) -> Row:
    return {
        "cluster_id": "c", "source": "record:t-0", "read_id": "r1", "kind": "record", "from_position": start,
        "to_position": end, "from_at_ms": start, "to_at_ms": end, "item_count": count, "problem": None,
        "problem_code": None, "problem_position": None,
    } | others  # fmt: skip


def shown(rows: list[Row]) -> list[tuple[Any, ...]]:
    return [(r["from_position"], r["to_position"], r["is_gap"], r["problem_code"]) for r in rows]


def test_touching_and_overlapping_readings_are_one_stretch() -> None:
    rows = ledger_rows([a_reading(5, 9, 4), a_reading(0, 5, 5), a_reading(0, 5, 5, read_id="r2")], {})
    assert shown(rows) == [(0, 9, False, "none")]
    assert (rows[0]["item_count"], rows[0]["from_at_ms"], rows[0]["to_at_ms"]) == (9, 0, 9)


def test_readings_that_overlap_in_part_have_no_known_count() -> None:
    assert ledger_rows([a_reading(0, 5, 5), a_reading(3, 9, 6)], {})[0]["item_count"] is None


def test_what_no_reading_covers_is_a_gap() -> None:
    rows = ledger_rows([a_reading(0, 5), a_reading(8, 9)], {})
    assert shown(rows) == [(0, 5, False, "none"), (5, 8, True, "not_given"), (8, 9, False, "none")]


def test_offsets_before_the_first_reading_may_have_been_compacted_away() -> None:
    assert shown(ledger_rows([a_reading(7, 9)], {})) == [(0, 7, True, "compacted"), (7, 9, False, "none")]


def test_a_problem_is_shown_once_however_often_it_was_met() -> None:
    problem: dict[str, Any] = {"problem": "cut short", "problem_code": "unreadable", "problem_position": 4}
    rows = ledger_rows([a_reading(0, 5), *(a_reading(None, None, read_id=r, **problem) for r in ("r1#1", "r2#1"))], {})
    assert shown(rows) == [(0, 5, False, "none"), (4, None, True, "unreadable")]


def test_doubt_is_no_gap() -> None:
    doubt: dict[str, Any] = {"problem": "beyond the majority", "problem_code": "above_majority", "problem_position": 4}
    assert shown(ledger_rows([a_reading(None, None, **doubt)], {})) == [(4, None, False, "above_majority")]


def a_refusal(source: str, landing: str) -> Row:
    denied: dict[str, Any] = {"problem": "Permission denied", "problem_code": "unreadable", "problem_position": 0}
    return a_reading(None, None, kind="log", source=source, landing=landing, **denied)


def test_what_could_not_be_read_at_first_is_no_gap_once_a_file_there_was_read() -> None:
    refused = [a_refusal(f"log:broker-1/{name}", "collect-20261125T183000-ab-00000") for name in ("", "server.log")]
    read: dict[str, Any] = {
        "kind": "log",
        "source": "log:broker-1/server.log#f1",
        "landing": "import-20261125T183100-cd-00000",
    }
    assert shown(ledger_rows(refused, {})) == [(0, None, True, "unreadable")] * 2
    assert shown(ledger_rows([*refused, a_reading(0, 10, **read)], {})) == [(0, 10, False, "none")]


def test_what_can_no_longer_be_read_is_a_gap() -> None:
    read: dict[str, Any] = {
        "kind": "log",
        "source": "log:broker-1/server.log#f1",
        "landing": "collect-20261125T183000-ab-00000",
    }
    refused = [a_refusal("log:broker-1/server.log", "collect-20261125T183000-ab-00001")]
    other = [a_refusal("log:broker-1/controller.log", "collect-20261125T182000-ab-00001")]
    assert (0, None, True, "unreadable") in shown(ledger_rows([*refused, a_reading(0, 10, **read)], {}))
    assert (0, None, True, "unreadable") in shown(ledger_rows([*other, a_reading(0, 10, **read)], {}))


def test_a_log_says_how_its_times_were_read() -> None:
    log: dict[str, Any] = {"kind": "log", "source": "log:broker-1/server.log#f1", "from_at_ms": None, "to_at_ms": None}
    inferred = NodeClock(source=ZoneSource.INFERRED, offsets=((0, 7_200_000),))
    rows = ledger_rows([a_reading(0, 10, **log)], {"c": {"broker-1": inferred}})
    assert [(r["utc_offset_ms"], r["utc_offset_source"]) for r in rows] == [(7_200_000, "inferred")]
    assumed = NodeClock(source=ZoneSource.ASSUMED)
    rows = ledger_rows([a_reading(0, 10, **log)], {"c": {"broker-1": assumed}})
    assert shown(rows) == [(0, 10, False, "none"), (0, None, False, "time_zone")]
    assert "utc_offset_source" not in ledger_rows([a_reading(0, 10, **log)], {})[0]


def hourly(*hours: int) -> list[dict[str, object]]:
    files = [f"log:broker-1/controller.log.2026-11-21-{hour:02}.gz#{hour}a" for hour in hours]
    empty = dict.fromkeys(("from_at_ms", "to_at_ms", "problem", "problem_code", "problem_position"))
    known = {"cluster_id": "lab", "kind": "log", "read_id": "r", "from_position": 0, "to_position": 9, "item_count": 1}
    return [known | empty | {"source": source} for source in files]


def gaps(readings: list[dict[str, object]]) -> list[tuple[object, object]]:
    return [(row["source"], row["problem"]) for row in ledger_rows(readings, {}) if row["is_gap"]]


def test_an_hour_of_a_controllers_log_that_is_missing_between_others_is_a_gap() -> None:
    said = "There is no file for 2026-11-21, hour 12 of the log's own zone, and there are files before and after it."
    assert gaps(hourly(10, 11, 13, 14)) == [("log:broker-1/controller.log", said)]
    assert gaps(hourly(10, 11, 12, 13)) == []


def test_hours_of_a_log_that_seldom_says_anything_are_no_gap() -> None:
    assert gaps(hourly(1, 9, 17)) == []
    assert gaps([*hourly(1), *(row | {"source": "log:b/controller.log.9999-99-99-99#a"} for row in hourly(2))]) == []


def test_what_was_not_whole_of_a_metadata_log_stands_in_the_ledger(tmp_path: Path) -> None:
    files = {
        log_name(500): batches(the_rest(500).sources)[:-7],
        CHECKPOINT: batches(a_checkpoint(500).sources[:-1]),
    }
    root = folder(tmp_path / "evidence", "controller-100", files)
    Warehouse.open(tmp_path / "w", create=True)
    import_evidence(root, Landing(tmp_path / "w"))
    landed = pa.concat_tables([pq.read_table(file) for file in Warehouse.open(tmp_path / "w").landed("source")])
    found = [row for row in ledger_rows(landed.to_pylist(), {}) if row["source"] == "record:__cluster_metadata-0"]
    said = " ".join(str(row["problem"]) for row in found if row["is_gap"])
    assert "ends inside a batch" in said
    assert "has no footer: this snapshot is not used" in said
