"""A warehouse in an object store holds what one in a folder holds, row for row."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit import cli
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from tests import object_store as faults
from tests.object_store import ObjectStore
from tests.spark_jobs.arrivals import Landed, by_place, cut, deliver, landed, rows_of

CAPTURES = (
    "4.3.0/eager_join_leave_kill",
    "4.3.0/reassign_moves",
)


@pytest.fixture(scope="module")
def evidence(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Landed:
    return landed([golden / name for name in CAPTURES], tmp_path_factory.mktemp("landing"))


def filled(location: str, evidence: Landed) -> Warehouse:
    """In two parts, so that the second replaces some of what the first brought."""
    warehouse = Warehouse.open(location, create=True)
    parts = {noun: cut(rows, 2) for noun, rows in by_place(evidence).items()}
    for at in range(2):
        deliver(warehouse, f"part-{at}", {noun: pieces[at] for noun, pieces in parts.items()})
        pipeline.run(warehouse, engine="local")
    return warehouse


def contents(warehouse: Warehouse) -> dict[str, list[str]]:
    """Every table; of gold.check the versions in a batch's name differ with nothing, so that stays in."""
    return {table.name: rows_of(warehouse, table.name) for table in tables.TABLES}


def test_every_table_is_the_same_as_in_a_folder(store_url: str, tmp_path: Path, evidence: Landed) -> None:
    in_folder = contents(filled(str(tmp_path / "w"), evidence))
    in_store = filled(store_url, evidence)
    assert contents(in_store) == in_folder
    assert in_folder["gold.rebalance"]
    for table in tables.TABLES:
        if in_store.exists(table.name):
            in_store.compact(table.name, keep_hours=1)
    assert contents(Warehouse.open(store_url)) == in_folder


def test_every_verb_takes_a_stores_url(
    object_store: ObjectStore, store_url: str, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From landing to the alert, by nothing but the command line and the environment."""
    target = f"{object_store.url}/alerts"
    object_store.fault = lambda request, _: ("200 OK", "ok") if request["PATH_INFO"].startswith("/alerts") else None
    for arguments in (
        ["import", "-w", store_url, str(golden / CAPTURES[0])],
        ["run", "-w", store_url, "--engine", "local"],
        ["mark", "-w", store_url, "--at", "2026-11-01T00:00", "--text", "release 7"],
        ["report", "-w", store_url],
        ["export", "rebalance", "-w", store_url, "-o", "csv"],
        ["alert", "-w", store_url, "--to", target],
        ["maintain", "-w", store_url],
        ["doctor", "-w", store_url],
    ):
        status = cli.run(arguments)
        said = capsys.readouterr()
        assert status == 0, f"{arguments}: {said.err}"
        assert "test-secret-value" not in said.out + said.err
    # What was sent is remembered in the store: a second sender, wherever it runs, has nothing to say.
    assert cli.run(["alert", "-w", store_url, "--to", target]) == 0
    assert "0 incidents sent" in capsys.readouterr().err


def test_a_run_that_the_store_refuses_changes_nothing_and_says_so(
    object_store: ObjectStore, store_url: str, golden: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run(["import", "-w", store_url, str(golden / CAPTURES[0])]) == 0
    object_store.fault = faults.refuses_writes(*faults.FULL, after=12)
    capsys.readouterr()
    assert cli.run(["run", "-w", store_url, "--engine", "local", "-q"]) == 1
    said = capsys.readouterr().err.strip().splitlines()
    assert len(said) == 1
    assert "is full" in said[0]
    object_store.fault = None
    assert Warehouse.open(store_url).published() == {}
    assert cli.run(["run", "-w", store_url, "--engine", "local", "-q"]) == 0
