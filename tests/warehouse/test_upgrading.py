"""Warehouses of older releases: refused to readers with a sentence, extended by the next writer, whatever kills it."""

from __future__ import annotations

import json
import shutil
import tarfile
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rebalance_audit import cli
from rebalance_audit.domain import tables
from rebalance_audit.warehouse import upgrading
from rebalance_audit.warehouse.evidence_log.verifying import verify
from rebalance_audit.warehouse.upgrading import fingerprint, lacking, upgrade
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from tests import schema_page

ROOT = Path(__file__).parents[2]
RELEASES = sorted((Path(__file__).parent / "releases").glob("*.tar.gz"))
OTHER = ROOT / "tests" / "golden" / "4.3.0" / "cooperative_scale_up"


@pytest.fixture(params=RELEASES, ids=lambda path: path.name.removesuffix(".tar.gz"))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    with tarfile.open(request.param) as packed:
        packed.extractall(tmp_path, filter="data")
    return tmp_path / "w"


def rows_as_stored(warehouse: Path, name: str) -> list[dict[str, Any]]:
    """Without our code: the Parquet files that the table's log names."""
    from deltalake import DeltaTable

    files = DeltaTable(str(warehouse / name.replace(".", "/"))).file_uris()
    if not files:
        return []
    found = duckdb.sql(f"SELECT * FROM read_parquet({files!r})").to_arrow_table().to_pylist()
    return sorted(found, key=lambda row: [str(row[column]) for column in tables.BY_NAME[name].key])


def only(row: Any, like: Any) -> Any:
    """The row with no more than the names that another has, nested ones too."""
    if isinstance(like, dict):
        return {name: only(row[name], value) for name, value in like.items()}
    if isinstance(like, list):
        return [only(*pair) for pair in zip(row, like, strict=True)]
    return row


def tables_in(warehouse: Path) -> list[str]:
    return [name for name in tables.BY_NAME if (warehouse / name.replace(".", "/") / "_delta_log").is_dir()]


def test_every_release_has_a_small_fixture() -> None:
    assert {path.name for path in RELEASES} >= {"0.1.0.tar.gz"}
    assert all(path.stat().st_size <= 300_000 for path in RELEASES)


def test_readers_of_an_older_warehouse_get_a_sentence(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in old.rglob("*") if path.is_file()}
    assert cli.run(["export", "rebalance_member", "-w", str(old)]) == 1
    said = capsys.readouterr().err
    assert "was written by an older release: gold.rebalance_member lacks columns of this one" in said
    assert f"rebalance-audit run -w {old}" in said
    assert {path: path.read_bytes() for path in old.rglob("*") if path.is_file()} == before


def test_what_an_older_release_lacks_need_not_be_there(old: Path) -> None:
    """Its rows are null in a newer column, so no column that is always there may be added to its tables."""
    from deltalake import DeltaTable

    for name in tables_in(old):
        stored = {field.name for field in DeltaTable(str(old / name.replace(".", "/"))).schema().fields}
        assert {c.name for c in tables.BY_NAME[name].columns if c.required} <= stored, name


def test_what_an_older_release_did_not_work_out_is_not_known(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alert = ["alert", "-w", str(old), "--to", "http://127.0.0.1:9/api/v2/alerts", "--dry-run"]
    refused = (alert, ["export", "incident", "-w", str(old)], ["trace", "-w", str(old), "--to", "http://127.0.0.1:9"])
    for _ in range(2):
        for verb in refused:
            assert cli.run(verb) == 1
            assert "published by an older release: gold.incident is not there yet. Run" in capsys.readouterr().err
        assert cli.run(["maintain", "-w", str(old)]) == 0  # it extends, and works out nothing
        capsys.readouterr()
    assert cli.run(["run", "-q", "-w", str(old), "--engine", "local"]) == 0
    assert cli.run(["export", "incident", "-w", str(old)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown
    assert cli.run(alert) == 0
    assert "0 messages" not in capsys.readouterr().err


def test_tables_that_a_newer_release_left_empty_are_empty(tmp_path: Path) -> None:
    opened = Warehouse.open(tmp_path / "w", create=True)
    opened.publish({}, {"silver.finding": 1})
    stated = json.loads((tmp_path / "w" / "warehouse.json").read_text())
    of_newer = stated | {"tables": "other", "names": [*stated["names"], "gold.later"]}
    (tmp_path / "w" / "warehouse.json").write_text(json.dumps(of_newer))
    assert Warehouse.open(tmp_path / "w").query("SELECT * FROM gold.incident").num_rows == 0


def test_the_next_run_extends_it_and_every_old_value_stays(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {name: rows_as_stored(old, name) for name in tables_in(old)}
    assert lacking(Warehouse.open(old))
    with Warehouse.open(old).lease("test"):
        pass
    for name, rows in before.items():
        after = rows_as_stored(old, name)
        assert len(after) == len(rows)
        if rows:
            assert list(after[0]) == [column.name for column in tables.BY_NAME[name].columns]
        assert [only(row, was) for row, was in zip(after, rows, strict=True)] == rows
    assert lacking(Warehouse.open(old)) == []
    assert json.loads((old / "warehouse.json").read_text())["tables"] == fingerprint()
    assert cli.run(["export", "rebalance_member", "-w", str(old)]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(before["gold.rebalance_member"])
    assert verify(str(old)).faults == []


def test_an_upgrade_that_is_killed_anywhere_is_continued(old: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Killed(Exception):
        pass

    steps: list[str] = []

    def killed_at(wanted: int, warehouse: Warehouse, names: list[str]) -> None:
        def reached(point: str) -> None:
            steps.append(point)
            if len(steps) == wanted:
                raise Killed

        steps.clear()
        upgrade(warehouse, names, reached)

    counts = {name: len(rows_as_stored(old, name)) for name in tables_in(old)}
    kills = 0
    while True:  # each time it comes one step further, since what is done is not done again
        monkeypatch.setattr("rebalance_audit.warehouse.warehouse.upgrade", lambda w, names: killed_at(1, w, names))
        try:
            with Warehouse.open(old).lease("test"):
                break
        except Killed:
            kills += 1
    assert kills >= 4
    assert {name: len(rows_as_stored(old, name)) for name in tables_in(old)} == counts
    assert lacking(Warehouse.open(old)) == []


def test_an_extended_warehouse_takes_in_more(old: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = len(rows_as_stored(old, "gold.rebalance"))
    assert cli.run(["import", "-q", "-w", str(old), str(OTHER)]) == 0
    assert cli.run(["run", "-q", "-w", str(old), "--engine", "local"]) == 0, capsys.readouterr().err
    assert len(Warehouse.open(old).read("gold.rebalance")) > before
    assert cli.run(["report", "-w", str(old)]) == 0
    assert verify(str(old)).faults == []


@pytest.mark.parametrize("had_measured", [True, False])
def test_rebalances_without_numbers_go_once_all_are_measured(
    old: Path, capsys: pytest.CaptureFixture[str], *, had_measured: bool
) -> None:
    """Releases before decision 0123 kept them in a table of their own, and might die before they had measured them."""
    without, measured = old / "silver" / "rebalance", old / "silver" / "measured_rebalance"
    before = {row["rebalance_id"] for row in rows_as_stored(old, "silver.measured_rebalance")}
    assert without.is_dir()
    if not had_measured:
        shutil.rmtree(measured)
    for _ in range(2):
        assert cli.run(["run", "-q", "-w", str(old), "--engine", "local"]) == 0, capsys.readouterr().err
    assert not without.exists()
    assert {row["rebalance_id"] for row in rows_as_stored(old, "silver.measured_rebalance")} == before


def test_a_newer_warehouse_is_refused(tmp_path: Path) -> None:
    Warehouse.open(tmp_path / "w", create=True)
    stated = json.dumps({"schema_version": tables.SCHEMA_VERSION + 1, "tables": "other"})
    (tmp_path / "w" / "warehouse.json").write_text(stated)
    with pytest.raises(WarehouseError, match="was written by a newer version"):
        Warehouse.open(tmp_path / "w")


def test_a_new_warehouse_lacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Warehouse.open(tmp_path / "w", create=True)
    monkeypatch.setattr(upgrading, "lacking", lambda opened: pytest.fail("nothing has to be looked for"))
    Warehouse.open(tmp_path / "w")


def test_the_page_of_tables_is_made_from_them() -> None:
    published = (ROOT / "docs" / "SCHEMA.md").read_text()
    assert published == schema_page.page(), "make it again: python -m tests.schema_page > docs/SCHEMA.md"
