"""`erase --cluster`: what is left in the warehouse's folder is looked through byte by byte, as an auditor would."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from ingest.landing import positions_name
from rebalance_audit import cli
from rebalance_audit.alerts.state import read_state, state_of, write_state
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.damage import damages
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests.captures import GOLDEN
from tests.commands.test_erase import full_disk, places_of

GONE, KEPT = "gone-cluster", "kept-cluster"
OF_EACH = {GONE: "4.3.0/connect_worker_lost", KEPT: "4.3.0/group_cannot_be_written"}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clusters, one mixed in by mistake."""
    warehouse = Warehouse.open(tmp_path_factory.mktemp("erase") / "w", create=True)
    for cluster_id, capture in OF_EACH.items():
        given = ["import", "-q", "-w", warehouse.location, "--cluster-id", cluster_id, str(GOLDEN / capture)]
        assert cli.run(given) == 0
    pipeline.run(warehouse, engine="local")
    return Path(warehouse.location)


@pytest.fixture
def filled(made: Path, tmp_path: Path) -> Warehouse:
    return Warehouse.open(shutil.copytree(made, tmp_path / "w"))


def rows(warehouse: Warehouse, cluster_id: str) -> dict[str, list[str]]:
    return {
        table.name: sorted(map(repr, warehouse.read(table.name, None, "cluster_id = ?", [cluster_id]).to_pylist()))
        for table in tables.TABLES
        if table.name != "gold.erasure" and "cluster_id" in {column.name for column in table.columns}
    }


def left_of(cluster_id: str, warehouse: Warehouse) -> set[str]:
    """Where its name stands, but for the record of the erasure and the log that is never erased."""
    found = {str(file.relative_to(warehouse.location)) for file in places_of(cluster_id, warehouse)}
    return {name for name in found if not name.startswith(("gold/erasure/", "audit/")) and name != "notes/erased.json"}


@pytest.mark.parametrize("first", [["erase", "unwritten-app"], ["maintain"]], ids=" ".join)
def test_what_readers_see_is_whole_after_an_erasure_that_follows_another_verb(
    filled: Warehouse, first: list[str]
) -> None:
    """An erasure deletes files that nobody needs, and that is a commit of each table which changes no row."""
    for given in (first, ["erase", "--cluster", GONE]):
        assert cli.run([*given, "-q", "-w", filled.location]) == 0
    opened = Warehouse.open(filled.location)
    assert damages(opened) == {}
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0


def test_an_erased_cluster_is_in_no_file_and_all_else_stays(filled: Warehouse) -> None:
    other = rows(filled, KEPT)
    assert left_of(GONE, filled)
    given = ["erase", "--cluster", GONE, "-w", filled.location, "--by", "anna", "--reason", "mixed in by mistake"]
    assert cli.run(given) == 0
    opened = Warehouse.open(filled.location)
    assert left_of(GONE, opened) == set()
    assert not any(rows(opened, GONE).values())
    assert rows(opened, KEPT) == other
    (noted,) = opened.query("SELECT * FROM gold.erasure").to_pylist()
    assert (noted["cluster_id"], noted["subject_type"], noted["by"]) == (GONE, "cluster", "anna")
    assert noted["row_count"] == sum(of_table["row_count"] for of_table in noted["tables"]) > 100
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0
    pipeline.run(opened, engine="local")
    assert left_of(GONE, opened) == set()
    assert rows(opened, KEPT) == other


def test_a_cluster_that_was_erased_can_be_read_again(filled: Warehouse) -> None:
    before = rows(filled, GONE)["gold.rebalance"]
    assert cli.run(["erase", "--cluster", GONE, "-w", filled.location, "-q"]) == 0
    given = ["import", "-q", "-w", filled.location, "--cluster-id", GONE, str(GOLDEN / OF_EACH[GONE])]
    assert cli.run(given) == 0
    opened = Warehouse.open(filled.location)
    pipeline.run(opened, engine="local")
    assert len(rows(opened, GONE)["gold.rebalance"]) == len(before)


@pytest.mark.parametrize(("where", "after"), [("rewrite", 3), ("forget_landed", 0), ("append", 0)])
def test_the_same_command_finishes_an_erasure_that_was_interrupted(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch, where: str, after: int
) -> None:
    other = rows(filled, KEPT)
    with full_disk(monkeypatch, where, after):
        assert cli.run(["erase", "--cluster", GONE, "-w", filled.location]) == 1
    assert cli.run(["erase", "--cluster", GONE, "-w", filled.location]) == 0
    opened = Warehouse.open(filled.location)
    assert left_of(GONE, opened) == set()
    assert rows(opened, KEPT) == other
    (noted,) = opened.query("SELECT * FROM gold.erasure").to_pylist()
    assert noted["row_count"] > 100
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0


def test_nothing_more_is_sent_of_an_erased_cluster(filled: Warehouse) -> None:
    sent = {
        "in:1": {"status": "open", "severity": "warning", "incident": {"cluster_id": GONE, "title": "Of it."}},
        "in:2": {"status": "open", "severity": "warning", "incident": {"cluster_id": KEPT, "title": "Of another."}},
    }
    write_state(state_of(filled.location), {"version": 2, "delivered": {"on-call": sent}})
    assert cli.run(["erase", "--cluster", GONE, "-w", filled.location, "-q"]) == 0
    assert list(read_state(state_of(filled.location))["delivered"]["on-call"]) == ["in:2"]


def test_positions_of_other_clusters_stay(filled: Warehouse) -> None:
    folder = Path(filled.location) / "positions"
    own = (positions_name("live", GONE), positions_name("logs", f"{GONE}-host-1"))
    others = (positions_name("live", f"{GONE}-2"), positions_name("metadata", f"not-{GONE}"))
    for name in (*own, *others):
        (folder / f"{name}.json").write_text("{}")
    assert cli.run(["erase", "--cluster", GONE, "-w", filled.location, "-q"]) == 0
    there = {file.stem for file in folder.iterdir()}
    assert there == {*others, positions_name("import", KEPT)}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "Name either a group, or a whole cluster"),
        (["orders", "--cluster", GONE], "Name either a group, or a whole cluster"),
        (["--cluster", GONE, "--cluster-id", GONE], "--cluster alone"),
        (["--cluster", "nobody"], "There is no cluster 'nobody'"),
        (["--cluster", "no\x1b[31mbody"], "There is no cluster"),
    ],
)
def test_what_is_not_named_rightly_is_not_erased(
    filled: Warehouse, given: list[str], why: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["erase", *given, "-w", filled.location]) == 2
    assert why in capfd.readouterr().err
    assert filled.query("SELECT * FROM gold.erasure").num_rows == 0
