"""A staged file of few rows is written once somebody asks for the file itself, and is then what it would have been."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse import kept_columns, unwritten
from rebalance_audit.warehouse.footers import row_count_in, row_group_bytes
from rebalance_audit.warehouse.kept_columns import let_go_below, row_group, rows_on_disk, stage_rows
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import row_groups_of
from rebalance_audit.warehouse.rows_in_files import row_groups
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.warehouse.test_replacing import FINDING, findings

ROWS = pa.table({"cluster_id": ["main"] * 3, "group_id": ["a", "b", None], "n": pa.array([1, 2, 3], pa.int64())})


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "staging" / "1" / "gold.group-1.parquet")
    stage_rows("gold.group", path, ROWS)
    return path


def test_its_rows_are_known_without_a_file(file: str) -> None:
    assert row_count_in(file) == 3
    assert len(row_group_bytes(file)) == 1
    assert row_group(file, 0, ["n", "group_id", "lacking"]).equals(ROWS.select(["n", "group_id"]))
    assert pa.concat_tables(row_groups(file)).equals(ROWS)
    assert rows_on_disk(file, ["n"]).equals(ROWS.select(["n"]))
    assert not Path(file).exists()


def test_who_asks_for_the_file_finds_it(file: str) -> None:
    with cursor() as db:
        assert db.execute(f"SELECT sum(n) FROM {relation([file])}").fetchall() == [(6,)]
    assert pq.read_table(file).equals(ROWS)
    assert row_group(file, 0).equals(ROWS)
    assert row_count_in(file) == 3


def test_its_bounds_are_those_of_the_file(file: str) -> None:
    assert not list(row_groups_of([file], "group_id", ["c"]))
    assert len(list(row_groups_of([file], "group_id", ["b"]))) == 1
    assert Path(file).exists()


def test_another_process_is_given_names_of_files_that_are_there(file: str) -> None:
    unwritten.write_all()
    assert pq.read_table(file).equals(ROWS)


def test_it_goes_with_its_folder(file: str) -> None:
    let_go_below(str(Path(file).parent))
    unwritten.write([file])
    assert not Path(file).exists()
    assert unwritten.rows_of(file) is None


def test_many_rows_and_rows_without_room_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many, full = str(tmp_path / "many.parquet"), str(tmp_path / "full.parquet")
    stage_rows("gold.group", many, pa.concat_tables([ROWS] * 500))
    monkeypatch.setattr(unwritten, "MOST_BYTES", 10)
    stage_rows("gold.group", full, ROWS)
    assert row_count_in(many) == 1_500
    assert Path(many).exists()
    assert Path(full).exists()


def test_a_task_of_spark_writes_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_columns, "_is_keeping", False)
    path = str(tmp_path / "one.parquet")
    stage_rows("gold.group", path, ROWS)
    assert pq.read_table(path).equals(ROWS)


def test_a_commit_takes_it_in(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    with warehouse.staging_file(FINDING, findings(a="1", b="1")) as staged:
        assert not Path(staged).exists()
        warehouse.adopt(FINDING, [staged])
    assert sorted(warehouse.read(FINDING, ["group_id"])["group_id"].to_pylist()) == ["a", "b"]
