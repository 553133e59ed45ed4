"""What commits state of their files, and that files are chosen by it without their footers."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from rebalance_audit.warehouse import delta_tables, row_groups
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.row_groups import files_with_values, greatest, least, row_groups_of
from rebalance_audit.warehouse.warehouse import Warehouse

TABLE = "silver.measured_rebalance"


def rows(*groups: str | None, at_ms: int | None = None) -> pa.Table:
    return rows_to_table(
        TABLE,
        [{"cluster_id": "c", "rebalance_id": f"c/{g}/1", "group_id": g, "assigned_at_ms": at_ms} for g in groups],
    )


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files of a table that a later process lists: their footers cannot be read."""
    written = Warehouse.open(tmp_path, create=True)
    written.append(TABLE, rows("a", "c", at_ms=10))
    written.append(TABLE, rows("b", None, at_ms=30))
    written.append(TABLE, rows(None))

    monkeypatch.setattr(delta_tables, "_STATED_FROM", 1)

    def refuse(file: str) -> None:
        raise AssertionError(f"{file} was opened")

    listed = Warehouse.open(tmp_path).files(TABLE)
    monkeypatch.setattr(row_groups, "footer", refuse)
    for cached in (row_groups.held_in, row_groups.greatest, row_groups.least):
        cached.cache_clear()
    return sorted(listed, key=lambda file: (row_groups._stated(file, "group_id") or (0, "z"))[1] or "z")


def test_the_log_states_bounds_and_nulls(tmp_path: Path, files: list[str]) -> None:
    log = (tmp_path / "silver/measured_rebalance/_delta_log").glob("*.json")
    adds = [json.loads(line)["add"] for file in sorted(log) for line in file.open() if '"add"' in line]
    stats = json.loads(adds[1]["stats"])
    assert (stats["numRecords"], stats["minValues"]["group_id"], stats["maxValues"]["group_id"]) == (2, "b", "b")
    assert (stats["nullCount"]["group_id"], stats["minValues"]["assigned_at_ms"]) == (1, 30)


def test_files_without_a_wanted_value_are_not_opened(files: list[str]) -> None:
    assert list(row_groups_of(files, "group_id", ["0", "d"])) == []
    with pytest.raises(AssertionError, match="was opened"):
        list(row_groups_of(files, "group_id", ["b"]))


def test_a_file_with_null_may_be_wanted(files: list[str]) -> None:
    assert list(row_groups_of(files[:1], "group_id", [], with_null=True)) == []
    with pytest.raises(AssertionError, match="was opened"):
        list(row_groups_of(files[1:2], "group_id", [], with_null=True))


def test_least_and_greatest_and_whether_there_is_a_value_are_stated(files: list[str]) -> None:
    assert [greatest(file, ("assigned_at_ms", "ended_at_ms")) for file in files] == [10, 30, None]
    assert [least(file, ("assigned_at_ms",)) for file in files] == [10, 30, None]
    assert files_with_values(files, "group_id") == files[:2]


def test_files_of_an_older_release_are_chosen_by_their_footers(tmp_path: Path) -> None:
    written = Warehouse.open(tmp_path, create=True)
    written.append(TABLE, rows("a", "c"))
    for log in (tmp_path / "silver/measured_rebalance/_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in log.open()]
        for action in actions:
            if "add" in action:
                action["add"]["stats"] = json.dumps({"numRecords": 2})
        log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    listed = Warehouse.open(tmp_path).files(TABLE)
    assert len(list(row_groups_of(listed, "group_id", ["b"]))) == 1
    assert list(row_groups_of(listed, "group_id", ["d"])) == []
