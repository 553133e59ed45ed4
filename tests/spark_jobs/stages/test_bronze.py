"""bronze: repeats collapse only if key, value, timestamp and headers agree."""

from __future__ import annotations

import os
from itertools import accumulate
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.domain.tables import BRONZE_RECORD
from rebalance_audit.warehouse import landing_files
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.row_digests import digests_by_landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.stages.bronze import LOG_LINE, RECORD, spans_of, split_by_overlap
from tests.spark_jobs.synthetic import a_commit, a_line, a_record, land


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    return Warehouse.open(tmp_path, create=True)


def take_in(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    pipeline.run(warehouse, ["bronze"], **engine, with_quality=False)


def records(warehouse: Warehouse) -> list[tuple[int, int, bytes | None]]:
    rows = warehouse.read("bronze.record", ["offset", "copy", "value"]).to_pylist()
    return sorted((row["offset"], row["copy"], row["value"]) for row in rows)


def test_files_that_overlap_nothing_are_committed_as_they_are(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    land(warehouse, "a", [a_commit(1), a_commit(2)])
    land(warehouse, "b", [a_commit(3)])
    take_in(warehouse, engine)
    assert sorted(os.path.basename(f) for f in warehouse.files("bronze.record")) == ["a.parquet", "b.parquet"]
    assert warehouse.version("bronze.record") == 1
    take_in(warehouse, engine)
    assert warehouse.version("bronze.record") == 1


def test_many_small_files_become_few_in_their_order(
    warehouse: Warehouse, engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(landing_files, "SMALL_ROWS", 2)
    monkeypatch.setattr(landing_files, "JOINED_ROWS", 5)
    counts = [1, 1, 2, 2, 3, 1, 1, 1, 1, 1]  # the fifth is not small
    firsts = [0, *accumulate(counts)]
    names = [f"collect-{at:02d}" for at in range(len(counts))]
    for name, first, count in zip(names, firsts, counts, strict=False):
        of_file = range(first, first + count)
        land(warehouse, name, [a_commit(n) for n in of_file], [a_line(100 * n, f"line {n}") for n in of_file])
    take_in(warehouse, engine)
    for table, position in (("bronze.record", "offset"), ("bronze.log_line", "byte")):
        held = [pq.read_table(file, columns=["landing", position]) for file in warehouse.files(table)]
        assert [rows.num_rows for rows in held] == [4, 2, 3, 5]
        rows = pa.concat_tables(held)
        scale = 100 if position == "byte" else 1
        assert rows[position].to_pylist() == [scale * n for n in range(sum(counts))]
        expected = [name for name, count in zip(names, counts, strict=True) for _ in range(count)]
        assert rows["landing"].to_pylist() == expected
    take_in(warehouse, engine)
    assert warehouse.version("bronze.record") == 1


def test_what_joins_has_the_digests_of_the_files_that_were_landed(warehouse: Warehouse, tmp_path: Path) -> None:
    for n in range(landing_files.MANY_FILES):
        headers = [{"key": "h", "value": b"\x00"}] if n % 2 else None
        land(warehouse, f"collect-{n}", [a_commit(2 * n, headers=headers), a_record(2 * n + 1, b"k", None)])
    landed = warehouse.landed("record")
    joined = landing_files.joined_landing_files("record", landed, str(tmp_path / "joined"))
    assert len(joined) == 1
    schema, key = arrow_schema("bronze.record"), BRONZE_RECORD.key
    assert digests_by_landing(joined, schema, key) == digests_by_landing(landed, schema, key)
    few = landed[1:]
    assert landing_files.joined_landing_files("record", few, str(tmp_path / "few")) == few


def test_a_file_among_many_that_cannot_be_read_is_put_aside_alone(warehouse: Warehouse) -> None:
    for n in range(landing_files.MANY_FILES + 1):
        land(warehouse, f"collect-{n}", [a_record(n, b"k", os.urandom(10_000))])
    bad = warehouse.landed("record")[3]
    footer = pq.read_metadata(bad).row_group(0)
    at = next(footer.column(n) for n in range(footer.num_columns) if footer.column(n).path_in_schema == "value")
    with open(bad, "r+b") as file:
        file.seek(at.data_page_offset + at.total_compressed_size // 2)
        file.write(b"\xff" * 4_000)
    outcome = pipeline.run(warehouse, ["bronze"], engine="local")
    assert [said.partition(" ")[0] for said in outcome.put_aside] == ["collect-3"]
    assert [offset for offset, _, _ in records(warehouse)] == [0, 1, 2, 4, 5, 6, 7, 8]


def test_repeats_that_agree_collapse(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    land(warehouse, "a", [a_commit(1), a_commit(2)])
    take_in(warehouse, engine)
    land(warehouse, "b", [a_commit(2, node="broker-2", batch_crc=5), a_commit(3)])
    land(warehouse, "c", [a_commit(3, source="live"), a_commit(4)])
    take_in(warehouse, engine)
    assert [(offset, copy) for offset, copy, _ in records(warehouse)] == [(1, 0), (2, 0), (3, 0), (4, 0)]


@pytest.mark.parametrize(
    "change",
    [
        {"value": b"other"},
        {"value": None},
        {"value": b""},
        {"timestamp_ms": 5},
        {"headers": [{"key": "h", "value": None}]},
    ],
    ids=["value", "tombstone", "empty", "timestamp", "headers"],
)
def test_repeats_that_differ_both_stay(warehouse: Warehouse, engine: dict[str, Any], change: dict[str, object]) -> None:
    land(warehouse, "a", [a_record(1, b"key", b"value")])
    take_in(warehouse, engine)
    land(warehouse, "b", [a_record(1, b"key", b"value") | change])
    take_in(warehouse, engine)
    assert [(offset, copy) for offset, copy, _ in records(warehouse)] == [(1, 0), (1, 1)]


def test_every_further_copy_gets_the_next_number_once(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    land(warehouse, "a", [a_record(1, b"k", b"1"), a_record(1, b"k", b"2"), a_record(1, b"k", b"1")])
    land(warehouse, "b", [a_record(1, b"k", b"2"), a_record(1, b"k", b"3")])
    take_in(warehouse, engine)
    land(warehouse, "c", [a_record(1, b"k", b"3"), a_record(1, b"k", b"4")])
    take_in(warehouse, engine)
    found = records(warehouse)
    assert sorted(value or b"" for _, _, value in found) == [b"1", b"2", b"3", b"4"]
    assert [copy for _, copy, _ in found] == [0, 1, 2, 3]
    assert found[3][2] == b"4"


def test_no_headers_and_an_empty_list_of_them_are_the_same(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    land(warehouse, "a", [a_record(1, b"k", b"v", headers=None)])
    land(warehouse, "b", [a_record(1, b"k", b"v", headers=[])])
    take_in(warehouse, engine)
    assert len(records(warehouse)) == 1


def test_one_file_under_two_names_is_one_file(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    land(warehouse, "a", lines=[a_line(0, "first"), a_line(10, "second")])
    take_in(warehouse, engine)
    rotated = {"file_name": "server.log.2026-11-21"}
    land(warehouse, "b", lines=[a_line(10, "second", **rotated), a_line(20, "third", **rotated)])
    take_in(warehouse, engine)
    rows = warehouse.read("bronze.log_line", ["byte", "file_name"]).to_pylist()
    assert sorted((r["byte"], r["file_name"]) for r in rows) == [
        (0, "server.log"),
        (10, "server.log"),
        (20, "server.log.2026-11-21"),
    ]


def test_the_same_byte_of_another_node_is_another_event(warehouse: Warehouse, engine: dict[str, Any]) -> None:
    land(warehouse, "a", lines=[a_line(0, "x"), a_line(0, "x", node="broker-2"), a_line(0, "x", file_id="f2")])
    take_in(warehouse, engine)
    assert warehouse.read("bronze.log_line", ["byte"]).num_rows == 3


def test_ranges_show_which_files_need_a_closer_look(warehouse: Warehouse) -> None:
    land(warehouse, "a", [a_commit(1), a_commit(5)], [a_line(0, "x")])
    land(warehouse, "b", [a_commit(3)], [a_line(5, "x")])
    land(warehouse, "c", [a_commit(6), a_commit(3) | {"partition": 8}])
    land(warehouse, "d", [a_commit(9), a_commit(9)])
    record_files, line_files = warehouse.landed("record"), warehouse.landed("log_line")
    alone, overlapping = split_by_overlap(record_files, [], RECORD)
    assert [os.path.basename(f) for f in alone] == ["a.parquet", "c.parquet"]
    assert [os.path.basename(f) for f in overlapping] == ["b.parquet", "d.parquet"]
    assert split_by_overlap(line_files, [], LOG_LINE) == (line_files, [])
    first, every = (spans_of(LOG_LINE, None, files) for files in (line_files[:1], line_files))
    assert split_by_overlap(line_files[1:], first, LOG_LINE) == (line_files[1:], [])
    assert split_by_overlap(line_files, every, LOG_LINE) == ([], line_files)


def test_of_many_stretches_with_gaps_the_nearest_are_counted_as_one(warehouse: Warehouse) -> None:
    known: list[Any] = []
    for number in range(20):
        land(warehouse, f"a{number:02}", [a_commit(1_000 * number), a_commit(1_000 * number + 10 * number)])
        known = spans_of(RECORD, known, warehouse.landed("record")[-1:])
    assert [span[-2:] for span in known] == [
        [0, 0], [1_000, 1_010], [2_000, 2_020], [3_000, 3_030], [4_000, 4_040], [5_000, 5_050], [6_000, 6_060],
        [7_000, 19_190],
    ]  # fmt: skip
