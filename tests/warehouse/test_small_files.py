"""Small files are joined in tiers, and nothing but the files changes."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.domain.tables import BY_NAME
from rebalance_audit.warehouse import small_files
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.file_sizes import in_order
from rebalance_audit.warehouse.footers import footer
from rebalance_audit.warehouse.small_files import (
    LARGE_AT_ONCE,
    LARGE_FILES,
    RUNS,
    SMALL_FILES,
    joined,
    portions_of,
    tiers_of,
)
from rebalance_audit.warehouse.spreading import Spread, SpreadOf, in_this_process
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import LocalEngine

REBALANCE = "gold.rebalance"


def a_row(number: int, *, is_final: bool) -> dict[str, object]:
    required = {c.name: "x" for c in BY_NAME[REBALANCE].columns if c.required and c.type == "string"}
    group_id = f"group-{number % 7}"
    return required | {
        "cluster_id": "lab", "group_id": group_id, "rebalance_id": f"lab/{group_id}/{number}", "is_final": is_final,
    }  # fmt: skip


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    """Of each of 40 commits one row that is final and one that is not."""
    opened = Warehouse.open(tmp_path, create=True)
    for number in range(40):
        rows = [a_row(2 * number, is_final=True), a_row(2 * number + 1, is_final=False)]
        opened.append(REBALANCE, rows_to_table(REBALANCE, rows), ("t", number))
    return opened


def ids(warehouse: Warehouse) -> list[str]:
    return sorted(warehouse.read(REBALANCE, ["rebalance_id"])["rebalance_id"].to_pylist())


def test_many_small_files_become_few_with_the_same_rows(warehouse: Warehouse) -> None:
    before, version = ids(warehouse), warehouse.version(REBALANCE)
    warehouse.publish({REBALANCE: version or 0}, {"silver.finding": 3})
    assert warehouse.join_small_files(REBALANCE)
    files = warehouse.files(REBALANCE)
    assert [footer(file).num_rows for file in files] == [40, 40]
    assert sum("/soon-" in file for file in files) == 1  # what is not final stays apart
    assert ids(warehouse) == before
    assert warehouse.transaction_version(REBALANCE, "t") == 39
    assert warehouse.published() == {REBALANCE: warehouse.version(REBALANCE)}
    assert warehouse.publication()["consumed"] == {"silver.finding": 3}


def test_joining_is_no_change_and_changed_rows_are_still_found(warehouse: Warehouse) -> None:
    version = warehouse.version(REBALANCE)
    warehouse.append(REBALANCE, rows_to_table(REBALANCE, [a_row(100, is_final=True)]), ("t", 40))
    assert warehouse.join_small_files(REBALANCE)
    assert warehouse.changed_keys(REBALANCE, ["rebalance_id"], warehouse.version(REBALANCE)).num_rows == 0
    changes = warehouse.row_changes(REBALANCE, ["cluster_id", "rebalance_id"], version)
    assert changes is not None
    assert changes.keys["rebalance_id"].to_pylist() == ["lab/group-2/100"]
    assert changes.files == warehouse.files(REBALANCE)  # the file that came with it is not there any more


def test_few_small_files_stay_where_they_are(warehouse: Warehouse) -> None:
    assert warehouse.join_small_files(REBALANCE)
    version = warehouse.version(REBALANCE)
    for number in range(SMALL_FILES - 1):
        warehouse.append(REBALANCE, rows_to_table(REBALANCE, [a_row(200 + number, is_final=True)]))
        assert not warehouse.join_small_files(REBALANCE)
    assert warehouse.version(REBALANCE) == (version or 0) + SMALL_FILES - 1
    warehouse.append(REBALANCE, rows_to_table(REBALANCE, [a_row(300, is_final=True)]))
    assert warehouse.join_small_files(REBALANCE)


def test_a_file_joins_in_its_tier() -> None:
    rows = {"part-a": 5, "part-b": 63, "part-c": 64, "part-d": 1_023, "part-e": 1_024, "soon-f": 25, "soon-g": 26}
    rows_of = {**rows, "part-h": None, "soon-tail-i": 60}
    found = [set(tier.files) for tier in tiers_of("silver.connect_task", rows_of)]
    assert found == [{"soon-f"}, {"soon-tail-i"}, {"part-a", "part-b", "part-c", "part-d"}]
    assert set(tiers_of(REBALANCE, rows_of)[-1].files) == {"part-a", "part-b", "part-c"}  # files of 1,000 rows at most
    assert set(tiers_of("silver.group_event", rows_of)[-1].files) == {"part-e"}


def test_large_files_of_events_join_into_runs_for_which_no_cycle_waits_long() -> None:
    def joined(rows_of: dict[str, int], at_once: int | None = LARGE_AT_ONCE) -> set[str]:
        tiers = tiers_of("silver.group_event", rows_of, None if at_once else 2, at_once)
        return {file for tier in tiers if tier.is_full and tier.kind.startswith("run") for file in tier.files}

    alike = {f"part-{at}": 20_000 for at in range(LARGE_FILES)}
    assert joined(dict(list(alike.items())[1:])) == set()
    assert joined(alike) == set(alike)
    assert joined(alike | {"part-x": 300_000}) == set(alike)
    larger = {f"part-{at}": 50_000 for at in range(6)}
    assert joined(larger) == {f"part-{at}" for at in range(5)}  # the sixth does not fit
    of_a_first_run = {f"part-{at}": 90_000 for at in range(20)}
    assert joined(of_a_first_run) == set()
    assert joined(of_a_first_run, 20 * 90_000) == set(of_a_first_run)
    runs = {f"run1-{at:x}-{file}": 30_000 for at in range(RUNS) for file in "ab"}
    assert joined(runs) == set()
    assert joined(runs | larger, None) == {*runs, *larger}  # as `maintain` does
    assert tiers_of("silver.undecoded", alike)[-1].files == ()  # nobody asks it for a group


def test_joined_events_are_in_the_order_of_time_within_a_group(tmp_path: Path) -> None:
    warehouse, table = Warehouse.open(tmp_path, create=True), "silver.group_event"
    required: dict[str, object] = {c.name: "x" for c in BY_NAME[table].columns if c.required and c.type == "string"}
    for number in range(SMALL_FILES):
        rows = [
            required | {"cluster_id": "lab", "group_id": group_id, "ref": f"{(number * 7) % 10}-{number}-{group_id}",
                        "at_ms": (number * 13) % SMALL_FILES}
            for group_id in ("b", "a", None)
        ]  # fmt: skip
        warehouse.append(table, rows_to_table(table, rows))
    assert warehouse.join_small_files(table)
    (file,) = warehouse.files(table)
    read = pq.read_table(file, columns=["group_id", "at_ms"]).to_pylist()
    assert [(row["group_id"], row["at_ms"]) for row in read] == [
        (group_id, at_ms) for group_id in ("a", "b", None) for at_ms in range(SMALL_FILES)
    ]


@pytest.mark.parametrize("seed", range(5))
def test_a_group_of_a_long_history_is_joined_in_pieces_of_time(seed: int, tmp_path: Path) -> None:
    random, schema = Random(seed), arrow_schema("silver.group_event")
    files, rows = [], []
    for number in range(12):
        of_file = [
            {
                "cluster_id": "c", "group_id": random.choice((*"aaaaaaaabbc", None)), "ref": f"{number}-{at}",
                "at_ms": random.choice((None, *[number * 10 + random.randrange(25)] * 9)),
            }
            for at in range(20)
        ]  # fmt: skip
        rows += of_file
        files.append(str(tmp_path / f"{number}.parquet"))
        table = rows_to_table("silver.group_event", of_file)
        pq.write_table(in_order("silver.group_event", table) if number % 3 else table, files[-1], row_group_size=4)
    portions = portions_of("silver.group_event", files, 20)
    read = [list(joined("silver.group_event", [portion], schema, 1_000)) for portion in portions]
    refs = [ref for of_portion in read for part in of_portion for ref in part["ref"].to_pylist()]
    assert sorted(refs) == sorted(row["ref"] for row in rows), "each row once"
    assert max(part.num_rows for of_portion in read for part in of_portion) < 100, "of 240, most of them one group's"
    firsts = [[(g or "", at or -1) for g, at in zip(*(part[n].to_pylist() for n in ("group_id", "at_ms")), strict=True)]
              for of_portion in read for part in of_portion]  # fmt: skip
    assert all(max(one) <= min(other) for one, other in pairwise(firsts))


@pytest.mark.parametrize("seed", range(5))
def test_a_long_history_of_wide_rows_is_joined_piece_by_piece(seed: int, tmp_path: Path) -> None:
    random, schema = Random(seed), arrow_schema(REBALANCE)
    files = []
    for number in range(16):
        of_file = [
            a_row(0, is_final=True) | {"cluster_id": random.choice("ccccd"), "rebalance_id": f"{random.random()}/{at}"}
            for at in range(25)
        ]
        files.append(str(tmp_path / f"{number}.parquet"))
        table = rows_to_table(REBALANCE, of_file)
        pq.write_table(in_order(REBALANCE, table) if number % 4 else table, files[-1], row_group_size=5)
    rows = pa.concat_tables(map(pq.read_table, files))
    portions = portions_of(REBALANCE, files, 10)
    read = [sum(part.num_rows for part in joined(REBALANCE, [portion], schema, 1_000)) for portion in portions]
    assert max(read) <= 200, "of 400 of one group"
    parts = [*joined(REBALANCE, portions, schema, 10)]
    assert [part.num_rows for part in parts] == [10] * 40
    assert pa.concat_tables(parts).equals(in_order(REBALANCE, rows).cast(schema)), "as all of them at once"


def test_runs_are_merged_into_one_in_the_order_of_the_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 3
    monkeypatch.setattr(small_files, "RUNS", runs)
    warehouse = Warehouse.open(tmp_path, create=True)
    number = 0
    for _ in range(runs):
        for _ in range(SMALL_FILES):
            rows = [a_row(n, is_final=True) for n in range(number, number + 40)]
            warehouse.append(REBALANCE, rows_to_table(REBALANCE, rows))
            number += 40
        assert warehouse.join_small_files(REBALANCE)
    assert warehouse.join_small_files(REBALANCE, at_least=2)
    files = warehouse.files(REBALANCE)
    assert all(re.search(r"/run2-[0-9a-f]+-[0-9a-f]+\.parquet$", file) for file in files)
    assert sorted(footer(file).num_rows for file in files)[1:] == [1_000] * (number // 1_000)
    of_files = sorted(pq.read_table(file, columns=["group_id"])["group_id"].to_pylist() for file in files)
    assert [name for names in of_files for name in names] == sorted(f"group-{n % 7}" for n in range(number))
    assert len(ids(warehouse)) == len(set(ids(warehouse))) == number


def in_tasks(byte_count: int) -> Spread:
    return LocalEngine().spread


@pytest.mark.parametrize("spread_of", [in_this_process, in_tasks])
def test_tasks_join_as_this_process_does(spread_of: SpreadOf, tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for first in range(0, 12_000, 300):
        rows = [a_row(n, is_final=n % 10 > 0) for n in range(first, first + 300)]
        warehouse.append(REBALANCE, rows_to_table(REBALANCE, rows))
    warehouse.spread_of = spread_of
    before = ids(warehouse)
    assert warehouse.join_small_files(REBALANCE)
    assert ids(warehouse) == before
    joined = [file for file in warehouse.files(REBALANCE) if "/run1-" in file]
    assert sum(footer(file).num_rows for file in joined) == 12_000 * 9 // 10
    assert 11 <= len(joined) <= 13
    for file in joined:
        groups = pq.read_table(file, columns=["group_id"])["group_id"].to_pylist()
        assert groups == sorted(groups)
    assert not list((tmp_path / "staging").glob("*"))


@pytest.mark.parametrize("spread_of", [in_this_process, in_tasks])
def test_tiers_that_are_full_at_once_lose_no_row(spread_of: SpreadOf, tmp_path: Path) -> None:
    warehouse, table = Warehouse.open(tmp_path, create=True), "silver.undecoded"
    warehouse.spread_of = spread_of
    for number, row_count in enumerate((1, 2, 70, 80)):
        rows = [{"cluster_id": "lab", "ref": f"log:b/server.log#0@{number}-{at}"} for at in range(row_count)]
        warehouse.append(table, rows_to_table(table, rows))
    assert len([tier for tier in tiers_of(table, {"a": 1, "b": 2, "c": 70, "d": 80}, 2) if tier.is_full]) == 2
    before = sorted(warehouse.read(table, ["ref"])["ref"].to_pylist())
    assert warehouse.join_small_files(table, at_least=2)
    assert sorted(warehouse.read(table, ["ref"])["ref"].to_pylist()) == before
    assert len(before) == 153


def test_rows_of_no_group_come_first_and_are_not_lost(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for number in range(SMALL_FILES):
        rows = [
            {
                "cluster_id": "lab", "finding_id": f"{number}-{group_id}", "group_id": group_id, "status": "resolved",
            }
            for group_id in (None, "a", f"group-{number}")
        ]  # fmt: skip
        warehouse.append("silver.finding", rows_to_table("silver.finding", rows))
    assert warehouse.join_small_files("silver.finding")
    [file] = warehouse.files("silver.finding")
    groups = pq.read_table(file, columns=["group_id"])["group_id"].to_pylist()
    assert groups.count(None) == groups.count("a") == SMALL_FILES
    assert len(groups) == 3 * SMALL_FILES


def test_rows_that_changed_are_named_one_by_one(warehouse: Warehouse) -> None:
    version = warehouse.version(REBALANCE)
    rows = [a_row(0, is_final=False), a_row(7, is_final=False), a_row(14, is_final=True)]  # 0: not final any more
    keys = rows_to_table(REBALANCE, rows).select(["cluster_id", "group_id"])
    warehouse.replace(REBALANCE, rows_to_table(REBALANCE, rows), keys, ("t", 40))
    changes = warehouse.row_changes(REBALANCE, ["cluster_id", "rebalance_id"], version)
    assert changes is not None
    named = changes.keys["rebalance_id"].to_pylist()
    gone = [f"lab/group-0/{number}" for number in range(21, 80, 7)]
    assert sorted(named) == sorted(["lab/group-0/0", *gone])
    assert sum(footer(file).num_rows for file in changes.files) == 1


def test_of_a_table_that_was_replaced_as_a_whole_no_single_rows_are_named(warehouse: Warehouse) -> None:
    version = warehouse.version(REBALANCE)
    warehouse.replace(REBALANCE, rows_to_table(REBALANCE, [a_row(0, is_final=True)]), None)
    assert warehouse.row_changes(REBALANCE, ["cluster_id", "rebalance_id"], version) is None
