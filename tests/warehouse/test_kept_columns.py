"""Columns kept in memory are those of the file, whoever asked for which of them before."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse import footers, kept_columns, known_values, unwritten
from rebalance_audit.warehouse.arrow_tables import narrow_schema, rows_to_table
from rebalance_audit.warehouse.footers import columns_of, footer
from rebalance_audit.warehouse.kept_columns import chosen_rows, let_go, let_go_below, linked, put_rows, row_group
from rebalance_audit.warehouse.row_groups import Least, files_from, held_in, row_groups_of
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.task_files import batches_of

ROWS = pa.table(
    {
        "group_id": ["a", "a", "b", "c", "c"],
        "place": pa.array([0, 1, 0, None, 4], pa.int64()),
        "text": ["v", "w", "x", "y", "z"],
    }
)


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "part-1.parquet")
    pq.write_table(ROWS, path, row_group_size=3)
    return path


def test_columns_that_were_asked_for_before_are_read_once(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert row_group(file, 0, ["group_id"])["group_id"].to_pylist() == ["a", "a", "b"]
    assert row_group(file, 0, ["text", "group_id"]).equals(ROWS.slice(0, 3).select(["text", "group_id"]))
    monkeypatch.setattr(kept_columns, "opened", None)  # nothing is read any more
    assert row_group(file, 0, ["group_id", "text"]).equals(ROWS.slice(0, 3).select(["group_id", "text"]))


def test_a_column_that_the_file_lacks_is_left_out(file: str) -> None:
    assert row_group(file, 1, ["group_id", "later"]).schema.names == ["group_id"]


def test_what_was_written_is_what_is_read(tmp_path: Path) -> None:
    name, other = str(tmp_path / "soon-1.parquet"), str(tmp_path / "soon-2.parquet")
    put_rows("gold.group", name, ROWS)
    assert row_group(name, 0).equals(pq.read_table(name))
    assert row_group(name, 0).equals(ROWS)
    assert footer(name).equals(pq.read_metadata(name))  # the writer's is the one in the file
    Path(name).rename(other)
    linked(name, other)
    assert row_group(other, 0).equals(ROWS)


def test_only_so_much_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = kept_columns._Kept()
    rows = pa.table({"a": list(range(100))})
    monkeypatch.setattr(kept_columns, "KEPT_BYTES", 3 * rows.nbytes)
    for at in range(3):
        kept.keep("file", at, rows)
    assert kept.of("file", 0)
    kept.keep("file", 3, rows)
    assert [bool(kept.of("file", at)) for at in range(4)] == [True, False, True, True]


def test_what_is_let_go_makes_room_and_can_be_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_columns, "_kept", kept := kept_columns._Kept())
    monkeypatch.setattr(footers, "_footers", kept_footers := footers._Footers())
    gone, stays = str(tmp_path / "soon-1.parquet"), str(tmp_path / "soon-2.parquet")
    for file in (gone, stays):
        put_rows("gold.group", file, ROWS)
    let_go([gone, "was-never-kept"])
    assert [bool(kept.of(file, 0)) for file in (gone, stays)] == [False, True]
    assert [kept_footers.of(file) is not None for file in (gone, stays)] == [False, True]
    assert (kept._bytes, kept_footers._chunks) == (ROWS.get_total_buffer_size(), ROWS.num_columns)
    assert row_group(gone, 0).equals(ROWS)
    let_go_below(str(tmp_path))
    assert (kept._bytes, kept_footers._chunks) == (0, 0)


def test_a_file_that_left_its_table_is_kept_no_longer(tmp_path: Path) -> None:
    warehouse = Warehouse.open(str(tmp_path), create=True)
    keys = pa.table({"cluster_id": ["lab"], "group_id": ["a"]})
    before = rows_to_table("gold.group", [{"cluster_id": "lab", "group_id": "a", "state": "Empty"}])
    warehouse.append("gold.group", before)
    (old,), version = warehouse.files("gold.group"), warehouse.version("gold.group")
    after = rows_to_table("gold.group", [{"cluster_id": "lab", "group_id": "a", "state": "Stable"}])
    with warehouse.staging_file("gold.group", after) as staged:
        assert unwritten.is_waiting(staged)
        warehouse.replace("gold.group", [staged], keys)
    (new,) = warehouse.files("gold.group")
    assert not unwritten.is_waiting(staged)
    assert [footers._footers.of(file) is not None for file in (old, staged, new)] == [False, False, True]
    assert [bool(kept_columns._kept.of(file, 0)) for file in (old, staged, new)] == [False, False, True]
    # Who reads an older version reads its files again.
    assert warehouse.read("gold.group", version=version)["state"].to_pylist() == ["Empty"]


def test_rows_are_chosen_by_every_column_of_the_keys(file: str) -> None:
    found = list(chosen_rows([file], ROWS.schema, {"group_id": ["a", "b"], "text": ["w", "x", "z"]}))
    assert [(c.rows["text"].to_pylist(), c.places.to_pylist()) for c in found] == [(["w", "x"], [1, 2])]


def test_rows_are_chosen_from_the_least_of_their_own_key_on(file: str) -> None:
    least = Least("place", "group_id", {"a": 1, "c": None})
    found = list(chosen_rows([file], ROWS.schema, {"group_id": ["a", "c"]}, least))
    # Without a least, a row that says nothing of its place is one, too.
    assert [(c.rows["text"].to_pylist(), c.places.to_pylist()) for c in found] == [(["w"], [1]), (["y", "z"], [3, 4])]


def test_what_was_read_or_written_is_not_asked_for_a_value_that_it_lacks(tmp_path: Path) -> None:
    rows = pa.table({"group_id": ["a", "m", "z", None], "rebalance_id": ["a/1", "m/1", "z/1", None]})
    unread, written, renamed = (str(tmp_path / f"{name}.parquet") for name in ("unread", "soon-1", "soon-2"))
    pq.write_table(rows, unread)

    def files_that_may_have(values: Sequence[str], *, with_null: bool = False) -> list[str]:
        asked = row_groups_of([unread, written], "group_id", values, with_null=with_null)
        return [Path(group.file).stem for group in asked]

    put_rows("gold.group", written, rows)
    assert files_that_may_have(["b", "n"]) == ["unread"]
    assert files_that_may_have(["b", "m"]) == ["unread", "soon-1"]
    assert files_that_may_have([], with_null=True) == ["unread", "soon-1"]
    row_group(unread, 0, ["group_id"])
    assert files_that_may_have(["b", "n"]) == []
    assert files_that_may_have(["b", "m"]) == ["unread", "soon-1"]
    Path(written).rename(renamed)
    linked(written, renamed)
    assert list(row_groups_of([renamed], "group_id", ["b"])) == []
    keys = {"group_id": ["m"], "rebalance_id": ["a/1", "m/2"]}  # each column's values are there, but not the pair
    assert list(chosen_rows([renamed], rows.schema, keys)) == []


def test_of_many_files_those_with_a_value_are_found_as_of_few(tmp_path: Path) -> None:
    names = [f"g{number:02}" for number in range(70)]
    files = [str(tmp_path / f"{name}.parquet") for name in names]
    for name, file in zip(names, files, strict=True):
        pq.write_table(pa.table({"group_id": pa.array([name, None] if name == "g07" else [name])}), file)

    def found(of: Sequence[str], values: Sequence[str], *, with_null: bool = False) -> list[str]:
        return [Path(group.file).stem for group in row_groups_of(of, "group_id", values, with_null=with_null)]

    def by_a_look_at_each(of: Sequence[str], values: Sequence[str], *, with_null: bool = False) -> list[str]:
        return [name for file in of for name in found([file], values, with_null=with_null)]

    for of in (files[:66], files, files[3:], files[::-1]):  # files come, and others go
        for values, with_null in ((["g05", "g69"], False), (["g01x"], False), ([], True), (["g08"], True)):
            assert found(of, values, with_null=with_null) == by_a_look_at_each(of, values, with_null=with_null)


def test_row_groups_of_other_clusters_are_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = [str(tmp_path / f"{cluster}.parquet") for cluster in ("east", "west")]
    for file in files:
        cluster = Path(file).stem
        pq.write_table(pa.table({"cluster_id": [cluster] * 3, "group_id": ["a", "b", "c"], "at": [1, 2, 3]}), file)
    read: list[str] = []

    def noted(file: str, number: int, *of: Any) -> pa.Table:
        read.append(file)
        return row_group(file, number, *of)

    monkeypatch.setattr(kept_columns, "row_group", noted)
    schema = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string()), ("at", pa.int64())])
    found = list(chosen_rows(files, schema, {"group_id": ["b"]}, clusters=["north", "west"]))
    assert [chosen.rows.to_pylist() for chosen in found] == [[{"cluster_id": "west", "group_id": "b", "at": 2}]]
    assert set(read) == {files[1]}


def test_files_without_a_column_have_no_value_of_it(tmp_path: Path) -> None:
    lacking, low, high = (str(tmp_path / f"{name}.parquet") for name in ("lacking", "low", "high"))
    pq.write_table(pa.table({"offset": [1, 2]}), lacking)
    pq.write_table(pa.table({"copy": [0, None]}), low)
    pq.write_table(pa.table({"copy": [0, 1]}), high)
    assert files_from([lacking, low, high], "copy", 1) == [high]


def test_only_so_many_values_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    known, hashes = known_values._Known(), known_values.hashes_of(map(str, range(100)))
    monkeypatch.setattr(known_values, "KNOWN_BYTES", 3 * (hashes.nbytes + known_values._BYTES_BESIDE))
    for at in range(3):
        known.keep(f"file-{at}", 0, "group_id", hashes)
    assert known.of("file-0", 0, "group_id") is not None
    known.keep("file-3", 0, "group_id", hashes)
    there = [known.of(f"file-{at}", 0, "group_id") is not None for at in range(4)]
    assert there == [True, False, True, True]


def test_a_row_group_out_of_the_bound_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = str(tmp_path / "of-two.parquet")
    rows = pa.table({"group_id": ["a", "a", "b", "b"], "place": [1, 2, 7, None], "text": list("wxyz")})
    pq.write_table(rows, file, row_group_size=2)
    read: list[int] = []

    def reading(
        file: str, number: int, names: Sequence[str] | None = None, schema: pa.Schema | None = None
    ) -> pa.Table:
        read.append(number)
        return row_group(file, number, names, schema)

    monkeypatch.setattr(kept_columns, "row_group", reading)

    def texts(by_value: dict[str, int | None]) -> list[str]:
        least = Least("place", "group_id", by_value)
        found = chosen_rows([file], rows.schema, {"group_id": list(by_value)}, least)
        return [text for chosen in found for text in chosen.rows["text"].to_pylist()]

    assert texts({"a": 3, "b": 7}) == ["y"]
    assert set(read) == {1}
    # What has no bound is wanted wherever it is.
    assert texts({"a": 3, "b": None}) == ["y", "z"]
    assert texts({"a": 2}) == ["x"]
    read.clear()
    assert texts({"c": None}) == []
    assert not read


def test_a_footer_that_was_asked_is_let_go_at_once(tmp_path: Path) -> None:
    file = str(tmp_path / "asked.parquet")
    pq.write_table(pa.table({"group_id": ["a", "b"], "members": [[{"id": "x"}], []]}), file)
    asked = footer(file)
    known_by = sys.getrefcount(asked)
    assert list(columns_of(file)) == ["group_id", "members"]
    assert held_in(file, "group_id")[0][:3] == (2, "a", "b")
    assert sys.getrefcount(asked) == known_by  # pyarrow would keep a schema in it that keeps it


def test_footers_of_files_that_were_just_written_are_let_go_as_others_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(footers, "_footers", kept := footers._Footers())
    kept.MOST_CHUNKS = 2 * ROWS.num_columns
    files = [str(tmp_path / f"part-{number}.parquet") for number in range(4)]
    for file in files:
        put_rows("silver.group_event", file, ROWS)
    assert [kept.of(file) is not None for file in files] == [False, False, True, True]
    assert [footer(file).num_rows for file in files] == [ROWS.num_rows] * 4


def test_of_a_large_row_group_no_more_fields_are_read_than_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole_type = pa.list_(pa.struct({"mark": pa.string(), "resource": pa.string(), "names": pa.list_(pa.string())}))
    movements = [[{"mark": "m", "resource": "orders-0", "names": ["a", "b"]}], None, []]
    rows = pa.table({"group_id": ["a", "a", "b"], "movements": pa.array(movements, whole_type)})
    file = str(tmp_path / "one.parquet")
    pq.write_table(rows, file)
    monkeypatch.setattr(kept_columns, "SMALL_BYTES", 0)
    schema = narrow_schema(rows.schema, {"movements": {"resource", "names"}})
    read = row_group(file, 0, rows.schema.names, schema)
    assert [field.name for field in read.schema.field("movements").type.value_type] == ["resource", "names"]
    (found,) = chosen_rows([file], schema, {"group_id": ["a"]})
    assert found.rows.schema == schema
    assert found.rows["movements"].to_pylist() == [[{"resource": "orders-0", "names": ["a", "b"]}], None]


def test_of_a_large_row_group_only_narrow_columns_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    things = pa.array([[{"a": 1, "b": 2}], [{"a": 3, "b": 4}]], pa.list_(pa.struct({"a": pa.int64(), "b": pa.int64()})))
    rows = pa.table({"group_id": ["x", "y"], "text": ["z" * 200_000, ""], "things": things})
    file = str(tmp_path / "one.parquet")
    pq.write_table(rows, file)
    monkeypatch.setattr(kept_columns, "SMALL_BYTES", 0)
    monkeypatch.setattr(kept_columns, "_kept", kept := kept_columns._Kept())
    row_group(file, 0, ["group_id"])
    row_group(file, 0, ["things"], narrow_schema(rows.schema, {"things": {"a"}}))  # a part of it is not all of it
    assert row_group(file, 0).equals(rows)
    held = kept.of(file, 0)
    assert held is not None
    assert held.schema.names == ["group_id"]


def test_a_large_row_group_is_read_from_the_file_that_is_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_to_table("gold.group", [{"cluster_id": "lab", "group_id": group_id} for group_id in "abc"])
    file = str(tmp_path / "part-1.parquet")
    pq.write_table(rows, file)
    monkeypatch.setattr(kept_columns, "SMALL_BYTES", 0)
    row_group(file, 0, ["group_id"])
    monkeypatch.setattr(pq, "ParquetFile", None)  # no file is opened any more
    named = {"table": "gold.group", "file": file, "row_group": 0}
    found = pa.Table.from_batches(batches_of(named, ["cluster_id", "group_id"], most_rows=2))
    assert found.equals(rows.select(["cluster_id", "group_id"]))
