"""What this process commits, another program reads as Delta; `deltalake` is asked."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from tests.warehouse.test_warehouse import findings

NAME = "silver.finding"


def as_others_read_it(location: Path) -> tuple[int, list[str], list[str]]:
    """Version, paths and subjects."""
    table = DeltaTable(location / "silver/finding")
    return (
        int(table.version()),
        sorted(pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()),
        sorted(table.to_pyarrow_table(columns=["subject"])["subject"].to_pylist()),
    )


def as_read_here(warehouse: Warehouse) -> tuple[int | None, list[str], list[str]]:
    files = sorted(file.rpartition("/")[2] for file in warehouse.files(NAME))
    return warehouse.version(NAME), files, sorted(warehouse.read(NAME, ["subject"])["subject"].to_pylist())


def test_others_read_the_same_version_files_rows_and_transactions(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for number in range(45):  # past two checkpoints
        subject = f"s{number % 7}"
        if number % 3:
            warehouse.append(NAME, findings(f"n{number}"), ("counting", number))
        else:
            keys = pa.table({"subject": pa.array([subject])})
            warehouse.replace(NAME, findings(subject), keys, {"counting": number, f"of-{number % 2}": number})
        assert as_others_read_it(tmp_path) == as_read_here(warehouse)
    assert as_read_here(Warehouse.open(tmp_path)) == as_read_here(warehouse)
    stored = DeltaTable(tmp_path / "silver/finding")
    for application in ("counting", "of-0", "of-1", "nobody"):
        assert stored.transaction_version(application) == warehouse.transaction_version(NAME, application)
    assert warehouse.transaction_version(NAME, "counting") == 44
    assert (tmp_path / "silver/finding/_delta_log/00000000000000000040.checkpoint.parquet").exists()


def test_sizes_and_rows_are_those_of_the_log(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    warehouse.append(NAME, findings("a", "b"))
    warehouse.append(NAME, findings("c"))
    listed = pa.table(DeltaTable(tmp_path / "silver/finding").get_add_actions(flatten=True))
    assert sorted(listed["num_records"].to_pylist()) == [1, 2]
    for path, size in zip(listed["path"].to_pylist(), listed["size_bytes"].to_pylist(), strict=True):
        assert (tmp_path / "silver/finding" / path).stat().st_size == size


def test_a_table_with_settings_of_another_program_is_committed_to_by_the_library(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    warehouse.append(NAME, findings("a"))
    DeltaTable(tmp_path / "silver/finding").alter.set_table_properties({"delta.appendOnly": "true"})
    warehouse = Warehouse.open(tmp_path)
    warehouse.append(NAME, findings("b"))
    assert as_others_read_it(tmp_path) == as_read_here(warehouse)
    with pytest.raises(Exception, match="append-only"):
        warehouse.replace(NAME, findings(), pa.table({"subject": ["a"]}))
    assert as_others_read_it(tmp_path)[2] == ["a", "b"]


def test_a_file_whose_name_stands_encoded_in_the_log_is_found(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    warehouse.append(NAME, findings("a"))
    file = tmp_path / "of another é.parquet"
    pq.write_table(findings("b"), file)
    warehouse.adopt(NAME, [str(file)])
    warehouse.append(NAME, findings("c"))
    for opened in (warehouse, Warehouse.open(tmp_path / "w")):
        assert sorted(opened.read(NAME, ["subject"])["subject"].to_pylist()) == ["a", "b", "c"]
        assert file.name in {name.rpartition("/")[2] for name in opened.files(NAME)}


def test_what_another_took_meanwhile_is_not_taken_again(tmp_path: Path) -> None:
    warehouse, other = Warehouse.open(tmp_path, create=True), Warehouse.open(tmp_path)
    warehouse.append(NAME, findings("a", "b"))
    with warehouse.lease():
        assert warehouse.version(NAME) == 1  # from here on it takes nobody else for a writer
        other.append(NAME, findings("c"))
        with pytest.raises(WarehouseError, match="at the same moment"):
            warehouse.replace(NAME, findings("d"), pa.table({"subject": ["a"]}))
        warehouse.append(NAME, findings("e"))
    assert as_others_read_it(tmp_path)[2] == ["a", "b", "c", "e"]
    assert as_others_read_it(tmp_path) == as_read_here(warehouse)


def test_every_table_is_one_that_this_process_commits_to(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    for table in tables.TABLES:
        warehouse.append(table.name, rows_to_table(table.name, []), ("made", 1))
        logged = tmp_path / table.name.replace(".", "/") / "_delta_log/00000000000000000001.json"
        assert b'"engineInfo":"rebalance-audit"' in logged.read_bytes()
