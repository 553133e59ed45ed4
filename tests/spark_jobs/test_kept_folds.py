"""What is kept between runs equals what all rows give, however rows came and went."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.kept_folds import NOTE, folded, keep

TABLE = "silver.undecoded"


class Sum:
    """Of the partitions of all rows; notes which files it read."""

    def __init__(self, most: int = 1_000) -> None:
        self.read: list[int] = []
        self._most = most

    def __call__(self, known: int | None, files: Sequence[str]) -> int | None:
        self.read.append(len(files))
        total = sum(int(row["ref"]) for file in files for row in pq.read_table(file).to_pylist())
        return None if known is not None and total > self._most else total + (known or 0)


def add(warehouse: Warehouse, *numbers: int) -> None:
    rows: list[dict[str, Any]] = [{"cluster_id": "c", "ref": str(number), "reason": "x"} for number in numbers]
    warehouse.append(TABLE, rows_to_table(TABLE, rows))


@pytest.fixture
def warehouse(tmp_path: Path) -> Warehouse:
    opened = Warehouse.open(tmp_path, create=True)
    with opened.lease():
        add(opened, 1, 2)
        assert folded(opened, "sum", TABLE, None, Sum(), value_version=1) == 3
    return opened


def test_only_files_that_came_are_read(warehouse: Warehouse) -> None:
    fold = Sum()
    with warehouse.lease():
        assert folded(warehouse, "sum", TABLE, None, fold, value_version=1) == 3
        add(warehouse, 4)
        add(warehouse, 5)
        assert folded(warehouse, "sum", TABLE, None, fold, value_version=1) == 12
        assert folded(warehouse, "sum", TABLE, None, fold, value_version=1) == 12
    assert fold.read == [2]


def unchanged(known: int | None, files: Sequence[str]) -> int:
    return 3 if known is None else known


def test_a_process_that_begins_reads_what_came_since_the_last_run(warehouse: Warehouse) -> None:
    with warehouse.lease():
        add(warehouse, 4)
        assert folded(warehouse, "sum", TABLE, None, unchanged, value_version=1) == 3  # so its note stays as it was
        keep(warehouse)
        add(warehouse, 5)
    later, fold = Warehouse.open(warehouse.location), Sum()
    with later.lease():
        assert folded(later, "sum", TABLE, None, fold, value_version=1) == 8
    assert fold.read == [1]


def test_what_is_known_of_an_earlier_note_is_not_used_of_a_later_one(warehouse: Warehouse) -> None:
    with warehouse.lease():
        add(warehouse, 4)
        folded(warehouse, "sum", TABLE, None, unchanged, value_version=1)
        keep(warehouse)
        earlier = warehouse.recall("sum")
        add(warehouse, 5)
        assert folded(warehouse, "sum", TABLE, None, Sum(), value_version=1) == 8
        warehouse.remember("sum", {**earlier, "version": earlier["version"] - 1})  # of a backup, for example
    assert warehouse.recall(NOTE)["sum"] == [1, earlier["version"], earlier["version"] + 1]
    fold = Sum()
    folded(Warehouse.open(warehouse.location), "sum", TABLE, None, fold, value_version=1)
    assert fold.read == [3]


def test_values_that_are_not_asked_for_stay_known(warehouse: Warehouse) -> None:
    with warehouse.lease():
        add(warehouse, 4)
        folded(warehouse, "sum", TABLE, None, unchanged, value_version=1)
        keep(warehouse)
        known = warehouse.recall(NOTE)
    later = Warehouse.open(warehouse.location)
    with later.lease():
        keep(later)
    assert warehouse.recall(NOTE) == known


@pytest.mark.parametrize("version", [1, 2])
def test_without_a_note_of_this_version_all_is_read(warehouse: Warehouse, version: int) -> None:
    fold = Sum()
    with warehouse.lease():
        add(warehouse, 4)
        if version == 1:
            warehouse.remember("sum", {})
    later = Warehouse.open(warehouse.location)  # another process: it has kept nothing itself
    with later.lease():
        assert folded(later, "sum", TABLE, None, fold, value_version=version) == 7
    assert fold.read == [2]


def test_rows_that_were_taken_out_no_longer_count(warehouse: Warehouse) -> None:
    with warehouse.lease():
        add(warehouse, 4)
        assert warehouse.rewrite(TABLE, "ref = '1'") == 1
        assert folded(warehouse, "sum", TABLE, None, Sum(), value_version=1) == 6


def test_joined_files_are_no_news(warehouse: Warehouse) -> None:
    fold = Sum()
    with warehouse.lease():
        add(warehouse, 4)
        assert warehouse.join_small_files(TABLE, at_least=2)
        assert folded(warehouse, "sum", TABLE, None, fold, value_version=1) == 7
    assert fold.read == [1]


def test_what_cannot_be_added_is_read_with_all_others(warehouse: Warehouse) -> None:
    fold = Sum(most=10)
    with warehouse.lease():
        add(warehouse, 50)
        assert folded(warehouse, "sum", TABLE, None, fold, value_version=1) == 53
    assert fold.read == [1, 2]


def test_a_reader_writes_no_note(warehouse: Warehouse) -> None:
    with warehouse.lease():
        add(warehouse, 4)
    assert folded(warehouse, "sum", TABLE, None, Sum(), value_version=1) == 7
    assert warehouse.recall("sum")["value"] == 3


def test_of_no_rows_there_is_no_value(tmp_path: Path) -> None:
    assert folded(Warehouse.open(tmp_path, create=True), "sum", TABLE, None, Sum(), value_version=1) is None
