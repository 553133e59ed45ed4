"""What a commit that replaces rows writes: what changed, and no more than small files of what did not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse import comparing, comparing_on_disk, replacing, short_lived_rows, upkeep
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.footers import footer
from rebalance_audit.warehouse.row_groups import is_tail, row_groups_of
from rebalance_audit.warehouse.warehouse import Warehouse

FINDING = "silver.finding"


def findings(**titles: str) -> pa.Table:
    return rows_to_table(
        FINDING,
        [
            {
                "cluster_id": "c", "finding_id": f"{group}-1", "rule_id": "RB001", "severity": "info", "title": title,
                "subject_type": "group", "subject": group, "group_id": group, "status": "open", "first_seen_at_ms": 1,
                "last_seen_at_ms": 2, "evidence": ["e", group],
            }
            for group, title in titles.items()
        ],
    )  # fmt: skip


def keys(*groups: str) -> pa.Table:
    return pa.table({"cluster_id": ["c"] * len(groups), "group_id": list(groups)})


@pytest.fixture(autouse=True, params=["few", "many", "long", "backfill"])
def compared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few rows are compared by Arrow, many by DuckDB, and those of many keys, or of few with a long history, by
    hashes that may lie on disk."""
    if request.param == "many":
        monkeypatch.setattr(comparing, "FEW_ROWS", -1)
    if request.param == "long":
        monkeypatch.setattr(replacing, "_PLACED_BYTES", 0)
        monkeypatch.setattr(comparing_on_disk, "_MANY_ROWS", 0)
    if request.param == "backfill":
        monkeypatch.setattr(replacing, "_ASKED_AT_MOST", 0)
        monkeypatch.setattr(comparing_on_disk, "_MANY_KEYS", 0)


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    opened = Warehouse.open(tmp_path, create=True)
    opened.append(FINDING, findings(a="1", b="1"))
    opened.append(FINDING, findings(c="1", d="1"))
    return opened


def titles(warehouse: Warehouse) -> dict[str, str]:
    rows: list[dict[str, Any]] = warehouse.read(FINDING, ["group_id", "title"]).to_pylist()
    assert len(rows) == len({row["group_id"] for row in rows})
    return {row["group_id"]: row["title"] for row in rows}


def test_a_row_that_stays_the_same_stays_where_it_is(warehouse: Warehouse) -> None:
    before, version = set(warehouse.files(FINDING)), warehouse.version(FINDING)
    warehouse.replace(FINDING, findings(a="1", c="2"), keys("a", "c"), ("t", 1))
    assert titles(warehouse) == {"a": "1", "b": "1", "c": "2", "d": "1"}
    assert len(before & set(warehouse.files(FINDING))) == 1  # the file of a and b
    changed = warehouse.changed_keys(FINDING, ["group_id"], version)
    assert changed["group_id"].to_pylist() == ["c"]


def test_nothing_that_changes_is_a_commit_that_only_consumes(warehouse: Warehouse) -> None:
    files, version = set(warehouse.files(FINDING)), warehouse.version(FINDING)
    assert not warehouse.replace(FINDING, findings(a="1"), keys("a"))
    assert warehouse.version(FINDING) == version
    assert warehouse.replace(FINDING, findings(a="1"), keys("a"), ("t", 1))
    assert warehouse.transaction_version(FINDING, "t") == 1
    assert set(warehouse.files(FINDING)) == files
    assert warehouse.changed_keys(FINDING, ["group_id"], version).num_rows == 0


def test_where_nothing_changes_a_commit_can_be_left_out(warehouse: Warehouse) -> None:
    files, version = warehouse.files(FINDING), warehouse.version(FINDING)
    assert not warehouse.replace(FINDING, findings(a="1"), keys("a"), ("t", 1), only_if_changed=True)
    assert (warehouse.files(FINDING), warehouse.version(FINDING)) == (files, version)
    assert warehouse.transaction_version(FINDING, "t") is None
    assert warehouse.replace(FINDING, findings(a="2"), keys("a"), ("t", 1), only_if_changed=True)
    assert titles(warehouse)["a"] == "2"


def test_rows_that_are_gone_and_rows_that_came_are_both_named(warehouse: Warehouse) -> None:
    version = warehouse.version(FINDING)
    warehouse.replace(FINDING, findings(e="1"), keys("a", "d", "e"), ("t", 1))
    assert titles(warehouse) == {"b": "1", "c": "1", "e": "1"}
    changed = warehouse.changed_keys(FINDING, ["group_id"], version)
    assert sorted(changed["group_id"].to_pylist()) == ["a", "d", "e"]


def test_staged_files_are_linked_where_all_of_their_rows_are_new(warehouse: Warehouse, tmp_path: Path) -> None:
    pq.write_table(findings(a="2", e="1"), tmp_path / "staged.parquet")
    warehouse.replace(FINDING, [str(tmp_path / "staged.parquet")], keys("a", "e"), ("t", 1))
    assert titles(warehouse) == {"a": "2", "b": "1", "c": "1", "d": "1", "e": "1"}
    assert any(file.endswith("/staged.parquet") for file in warehouse.files(FINDING))


def test_of_many_staged_files_only_rows_that_are_new_are_written(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    many = {f"g{n:04}": "1" for n in range(120)}
    warehouse.append(FINDING, findings(**many))
    many |= {group: "2" for group in many if int(group[1:]) % 2}
    staged = [tmp_path / f"staged-{at}.parquet" for at in range(3)]
    for at, file in enumerate(staged):
        part = {group: title for group, title in many.items() if int(group[1:]) // 40 == at}
        pq.write_table(findings(**part), file, row_group_size=7)
    pq.write_table(findings(new="1", newer="1"), tmp_path / "new.parquet")
    many |= {"new": "1", "newer": "1"}
    monkeypatch.setattr(replacing, "_IN_MEMORY_ROWS", 0)
    monkeypatch.setattr(replacing, "most_rows", lambda table, *, is_soon_replaced: 13)
    data = [str(file) for file in (*staged, tmp_path / "new.parquet")]
    warehouse.replace(FINDING, data, keys(*many, "b"), ("t", 1))
    assert titles(warehouse) == {"a": "1", "c": "1", "d": "1"} | many
    files = {file.rpartition("/")[2] for file in warehouse.files(FINDING)}
    assert "new.parquet" in files
    assert not files & {file.name for file in staged}


def test_new_rows_of_staged_files_lie_together_whatever_the_names_of_these(
    warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def over(**titles: str) -> pa.Table:
        rows = findings(**titles)
        return rows.set_column(
            rows.schema.get_field_index("status"), rows.schema.field("status"), pa.array(["resolved"] * len(rows))
        )

    names = [f"g{n:04}" for n in range(120)]
    warehouse.append(FINDING, over(**dict.fromkeys(names[::2], "1")))
    before = set(warehouse.files(FINDING))
    staged = [tmp_path / f"{name}.parquet" for name in ("m", "z", "a")]
    for at, file in enumerate(staged):
        pq.write_table(over(**dict.fromkeys(names[40 * at : 40 * at + 40], "1")), file)
    monkeypatch.setattr(replacing, "_IN_MEMORY_ROWS", 0)
    monkeypatch.setattr(replacing, "most_rows", lambda table, *, is_soon_replaced: 15)
    warehouse.replace(FINDING, sorted(map(str, staged)), keys(*names), ("t", 1))
    new = [pq.read_table(file)["group_id"].to_pylist() for file in {*warehouse.files(FINDING)} - before]
    assert sorted(name for part in new for name in part) == names[1::2]
    assert sorted(map(len, new)) == [15] * 4
    spans = sorted((min(part), max(part)) for part in new)
    assert all(last < first for (_, last), (first, _) in pairwise(spans))


def test_a_row_replaced_before_long_stays_in_the_file_of_its_neighbours(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    many = {f"g{n:04}": "1" for n in range(200)}
    warehouse.append(FINDING, findings(**many))
    assert len(warehouse.files(FINDING)) == 4
    for number in range(2, 30):
        some = {f"g{n:04}": str(number) for n in (7, 60, 61)}
        warehouse.replace(FINDING, findings(**some), keys(*some))
        many |= some
    assert titles(warehouse) == many
    bounds = []
    for file in warehouse.files(FINDING):
        names = pq.read_table(file, columns=["group_id"])["group_id"].to_pylist()
        bounds.append((names[0], names[-1]))
    assert sorted(bounds) == [("g0000", "g0049"), ("g0050", "g0099"), ("g0100", "g0149"), ("g0150", "g0199")]


def test_rows_that_come_together_and_again_go_into_one_small_file(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    many = {f"g{n:04}": "1" for n in range(200)}
    warehouse.append(FINDING, findings(**many))
    again = [*range(40, 47), 60, 61]
    some = {f"g{n:04}": "2" for n in again}
    warehouse.replace(FINDING, findings(**some), keys(*some))
    before = set(warehouse.files(FINDING))
    assert sorted(footer(file).num_rows for file in before) == [9, 43, 48, 50, 50]
    for number in range(3, 30):
        some = {f"g{n:04}": str(number) for n in again}
        warehouse.replace(FINDING, findings(**some), keys(*some))
    assert titles(warehouse) == many | some
    [tail] = set(warehouse.files(FINDING)) - before
    assert is_tail(tail)
    assert footer(tail).num_rows == 9


def test_what_came_first_into_a_full_tail_stays_behind_and_is_sorted_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tail_rows, small_files = 20, 5
    monkeypatch.setattr(upkeep, "SMALL_FILES", small_files)
    monkeypatch.setattr(short_lived_rows, "TAIL_ROWS", tail_rows)
    monkeypatch.setattr(short_lived_rows, "SOON_REPLACED_ROWS", 10)
    warehouse = Warehouse.open(tmp_path, create=True)
    many = {f"g{n:04}": "1" for n in range(400)}
    warehouse.append(FINDING, findings(**many))
    draw = random.Random(1)
    times_sorted = 0
    for number in range(2, 17):
        some = {name: str(number) for name in draw.sample(sorted(many), 8)}
        version = warehouse.version(FINDING)
        warehouse.replace(FINDING, findings(**some), keys(*some))
        many |= some
        changes = warehouse.row_changes(FINDING, ["finding_id"], version)
        assert changes is not None
        assert set(changes.keys["finding_id"].to_pylist()) == {f"{group}-1" for group in some}
        [tail] = changes.files
        assert footer(tail).num_rows <= tail_rows
        times_sorted += warehouse.join_small_files(FINDING)
        assert sum(map(is_tail, warehouse.files(FINDING))) < small_files
    assert times_sorted
    assert titles(warehouse) == many
    warehouse.compact(FINDING)
    assert titles(warehouse) == many
    assert sum(map(is_tail, warehouse.files(FINDING))) <= 1


def test_many_rows_go_into_the_files_of_their_neighbours(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    warehouse.append(FINDING, findings(**{f"g{n:04}": "1" for n in range(0, 300, 2)}))
    grown = {f"g{n:04}": "2" for n in range(300)}
    version = warehouse.version(FINDING)
    warehouse.replace(FINDING, findings(**grown), keys(*grown))
    assert titles(warehouse) == grown
    # Of three files with 50 rows each became two; g0099, g0199 and g0299 lie behind.
    assert sorted(footer(file).num_rows for file in warehouse.files(FINDING)) == [3, 49, 49, 49, 50, 50, 50]
    changes = warehouse.row_changes(FINDING, ["cluster_id", "finding_id"], version)
    assert changes is not None
    assert changes.keys.num_rows == 300


def test_a_long_leaf_is_halved_whenever_it_is_touched(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "warehouse", create=True)
    many = {f"g{n:04}": "1" for n in range(200)}
    pq.write_table(findings(**many), tmp_path / "soon-of-a-first-run.parquet")
    warehouse.adopt(FINDING, [str(tmp_path / "soon-of-a-first-run.parquet")])
    for title, row_counts in (("2", [100, 100]), ("3", [50, 50, 100]), ("4", [50, 50, 100])):
        warehouse.replace(FINDING, findings(g0003=title), keys("g0003"))
        assert titles(warehouse) == many | {"g0003": title}
        assert sorted(footer(file).num_rows for file in warehouse.files(FINDING)) == row_counts


def test_a_round_of_many_groups_joins_neighbours_into_larger_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(short_lived_rows, "_LEAF_ROWS_AT_MOST", 500)
    warehouse = Warehouse.open(tmp_path, create=True)
    many = {f"g{n:04}": "1" for n in range(1_000)}
    warehouse.append(FINDING, findings(**many))
    assert len(warehouse.files(FINDING)) == 20
    draw = random.Random(1)
    for number, count in enumerate((300, 40, 300, 400), 2):
        some = {name: str(number) for name in draw.sample(sorted(many), count - 10)}
        some |= {f"h{number}{n:03}": "1" for n in range(10)}
        version = warehouse.version(FINDING)
        warehouse.replace(FINDING, findings(**some), keys(*some))
        many |= some
        assert titles(warehouse) == many
        changes = warehouse.row_changes(FINDING, ["finding_id"], version)
        assert changes is not None
        assert set(changes.keys["finding_id"].to_pylist()) == {f"{group}-1" for group in some}
        changed = [name for file in changes.files for name in pq.read_table(file)["group_id"].to_pylist()]
        assert set(some) <= set(changed)
    assert len(warehouse.files(FINDING)) < 8
    bounds = []
    for file in warehouse.files(FINDING):
        names = pq.read_table(file, columns=["group_id"])["group_id"].to_pylist()
        assert names == sorted(names)
        bounds.append((names[0], names[-1]))
    bounds.sort()
    assert all(last < first for (_, last), (first, _) in pairwise(bounds))


def test_rows_go_from_a_place_on(warehouse: Warehouse) -> None:
    seen = pa.table({"cluster_id": ["c", "c", "c"], "group_id": ["a", "c", "d"], "last_seen_at_ms": [3, None, 2]})
    warehouse.replace(FINDING, findings(e="1"), seen, since="last_seen_at_ms")
    assert titles(warehouse) == {"a": "1", "b": "1", "e": "1"}


def test_a_value_that_is_null_is_one_of_the_key_null(warehouse: Warehouse) -> None:
    rows = findings(x="1")
    at = rows.schema.get_field_index("group_id")
    warehouse.append(FINDING, rows.set_column(at, "group_id", pa.nulls(1, pa.string())))
    null = pa.table({"finding_id": ["x-1", "a-1"], "group_id": pa.nulls(2, pa.string())})
    warehouse.replace(FINDING, findings(e="1"), null)
    assert titles(warehouse) == dict.fromkeys("abcde", "1")


def test_many_keys_are_replaced_as_few_are(warehouse: Warehouse) -> None:
    many = {f"g{n:04}": "1" for n in range(2_000)}
    warehouse.replace(FINDING, findings(**many), keys(*many), ("t", 1))
    again = many | {"g0007": "2"}
    warehouse.replace(FINDING, findings(**again), keys(*again), ("t", 2))
    assert titles(warehouse) == {"a": "1", "b": "1", "c": "1", "d": "1"} | again


def test_only_row_groups_that_may_hold_a_value_are_named(tmp_path: Path) -> None:
    path = str(tmp_path / "t.parquet")
    column = pa.array(["a", "b", "d", "e", None, "g"])
    pq.write_table(pa.table({"group_id": column}), path, row_group_size=2)

    def found(*values: str, with_null: bool = False) -> list[tuple[int, int]]:
        asked = row_groups_of([path], "group_id", values, with_null=with_null)
        return [(group.number, group.first_row) for group in asked]

    assert found("b", "c") == [(0, 0)]
    assert found("c", "f") == []
    assert found("d", "g") == [(1, 2), (2, 4)]
    assert found("c", with_null=True) == [(2, 4)]
    assert [group.number for group in row_groups_of([path])] == [0, 1, 2]


def test_a_column_of_the_table_may_be_named_place(tmp_path: Path) -> None:
    table = "silver.measured_rebalance"

    def rebalances(*places: int) -> pa.Table:
        rows = [{"cluster_id": "c", "group_id": "a", "rebalance_id": f"c/a/{at}", "place": at} for at in places]
        return rows_to_table(table, rows)

    opened = Warehouse.open(tmp_path, create=True)
    opened.append(table, rebalances(1, 2))
    opened.replace(table, rebalances(2, 3), keys("a"))
    assert sorted(opened.read(table, ["place"])["place"].to_pylist()) == [2, 3]


def test_of_a_long_history_only_files_from_the_first_place_on_are_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the end of it is too much to be in memory: all of it would be, file by file."""
    table = "silver.measured_rebalance"
    asked: list[str] = []

    def compared(schema: pa.Schema, stored: Any, files: Sequence[str], *others: Any) -> comparing_on_disk.Compared:
        asked.extend(files)
        return comparing_on_disk.compared_on_disk(schema, stored, files, *others)

    monkeypatch.setattr(replacing, "compared_on_disk", compared)
    monkeypatch.setattr(replacing, "_PLACED_BYTES", 0)
    monkeypatch.setattr(replacing, "_ASKED_AT_MOST", 5_000)
    opened = Warehouse.open(tmp_path, create=True)
    for at in range(10):
        rows = [{"cluster_id": "c", "group_id": "a", "rebalance_id": f"c/a/{at}", "place": at}]
        opened.append(table, rows_to_table(table, rows))
    from_place = keys("a").append_column("place", pa.array([8], pa.int32()))
    opened.replace(table, rows_to_table(table, rows), from_place, since="place")
    assert len(asked) == 2
    asked.clear()
    of_rows = keys("a", "a").append_column("rebalance_id", pa.array(["c/a/3", "c/a/4"]))
    opened.replace(table, rows_to_table(table, []), of_rows)
    assert len(asked) == 2
    assert sorted(opened.read(table, ["place"])["place"].to_pylist()) == [0, 1, 2, 5, 6, 7, 9]


def test_rows_of_a_long_history_are_told_apart_by_their_offset(tmp_path: Path) -> None:
    """As marks of commits are: a group has very many, and those that change are its last ones."""
    name = "silver.commit_mark"

    def marks(**ends: tuple[int, int]) -> pa.Table:
        return rows_to_table(
            name,
            [
                {
                    "cluster_id": "c", "group_id": key[0], "topic": "t", "partition": 0, "first_offset": int(key[1:]),
                    "last_offset": last, "commit_count": count, "in_transaction": False,
                }
                for key, (last, count) in ends.items()
            ],
        )  # fmt: skip

    warehouse = Warehouse.open(tmp_path, create=True)
    warehouse.append(name, marks(a0=(9, 2), b0=(9, 2), a10=(19, 2), a20=(29, 2)))
    warehouse.append(name, marks(a30=(30, 1), b40=(40, 1)))
    of_keys = marks(a20=(0, 0), a30=(0, 0), b40=(0, 0), b50=(0, 0)).select(
        ["cluster_id", "group_id", "topic", "partition", "first_offset"]
    )
    warehouse.replace(name, marks(a20=(29, 2), a30=(35, 5), b50=(50, 1)), of_keys, ("t", 1))
    found = warehouse.read(name, ["group_id", "first_offset", "last_offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in found) == [
        ("a", 0, 9), ("a", 10, 19), ("a", 20, 29), ("a", 30, 35), ("b", 0, 9), ("b", 50, 50),
    ]  # fmt: skip
