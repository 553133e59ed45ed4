"""`erase`: what is left in the warehouse's folder is looked through byte by byte, as an auditor would."""

from __future__ import annotations

import contextlib
import errno
import getpass
import hashlib
import json
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit import cli
from rebalance_audit.alerts.state import read_state, state_of, write_state
from rebalance_audit.domain import tables
from rebalance_audit.warehouse import known_footers
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline

GONE, KEPT = "group-000000", "group-000001"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of one cluster, in two runs, so that there are older versions, too."""
    cluster = GrowingCluster(groups=2, seed=5)
    warehouse = Warehouse.open(tmp_path_factory.mktemp("erase") / "w", create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(known_footers, "BEHIND", 0)
        for _ in range(2):
            cluster.land(Landing(warehouse.location), 8)
            pipeline.run(warehouse, engine="local")
    return Path(warehouse.location)


@pytest.fixture
def filled(made: Path, tmp_path: Path) -> Warehouse:
    return Warehouse.open(shutil.copytree(made, tmp_path / "w"))


def places_of(name: str, warehouse: Warehouse) -> Iterator[Path]:
    """Files in which the name stands, also where it is compressed."""
    for file in sorted(Path(warehouse.location).rglob("*")):
        if not file.is_file():
            continue
        found = name.encode() in file.read_bytes()
        if not found and file.suffix == ".parquet":
            found = name in repr(pq.read_table(file).to_pylist())
        if found:
            yield file


@contextlib.contextmanager
def full_disk(monkeypatch: pytest.MonkeyPatch, where: str, after: int) -> Iterator[None]:
    """After so many calls of this method of a warehouse nothing can be written any more."""
    whole, calls = getattr(Warehouse, where), iter(range(1000))

    def interrupted(*args: Any, **named: Any) -> Any:
        if next(calls) >= after:
            raise OSError(errno.ENOSPC, "No space left on device")
        return whole(*args, **named)

    with monkeypatch.context() as patch:
        patch.setattr(Warehouse, where, interrupted)
        yield


def rows(warehouse: Warehouse, group_id: str) -> dict[str, list[str]]:
    return {
        table.name: sorted(map(repr, warehouse.read(table.name, None, "group_id = ?", [group_id]).to_pylist()))
        for table in tables.TABLES
        if "group_id" in {column.name for column in table.columns}
    }


def test_an_erased_group_is_in_no_file_and_all_else_stays(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    other = rows(filled, KEPT)
    assert list(places_of(GONE, filled))
    assert cli.run(["erase", GONE, "-w", filled.location, "--by", "anna", "--reason", "ticket 4711"]) == 0
    assert "rows of" in capfd.readouterr().err
    opened = Warehouse.open(filled.location)
    assert list(places_of(GONE, opened)) == []
    assert rows(opened, KEPT) == other
    (noted,) = opened.query("SELECT * FROM gold.erasure").to_pylist()
    assert (noted["by"], noted["reason"], noted["cluster_id"]) == ("anna", "ticket 4711", "bench")
    assert noted["subject_sha256"] == hashlib.sha256(GONE.encode()).hexdigest()
    assert noted["row_count"] == sum(of_table["row_count"] for of_table in noted["tables"]) > 50
    assert GONE not in repr(noted)
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0
    assert opened.query("SELECT DISTINCT group_id FROM gold.rebalance").to_pylist() == [{"group_id": KEPT}]


def test_landing_files_with_nothing_else_in_them_are_gone_on_purpose(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    cluster = GrowingCluster(groups=1, seed=5)
    for _ in range(2):
        cluster.land(Landing(warehouse.location), 8)
        pipeline.run(warehouse, engine="local")
    assert cli.run(["erase", GONE, "-w", warehouse.location]) == 0
    assert list(places_of(GONE, warehouse)) == []
    assert cli.run(["audit", "verify", "-w", warehouse.location]) == 0


def test_runs_after_an_erasure_go_on_with_what_is_left(filled: Warehouse) -> None:
    assert cli.run(["erase", GONE, "-w", filled.location, "-q"]) == 0
    opened = Warehouse.open(filled.location)
    other = rows(opened, KEPT)
    pipeline.run(opened, engine="local")
    assert list(places_of(GONE, opened)) == []
    assert rows(opened, KEPT) == other


def test_what_was_not_worked_through_yet_is_not_erased_by_half(
    filled: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    before = rows(filled, GONE)
    landed = filled.landed("record")[-1]
    Path(landed).rename(Path(landed).with_name("new.parquet"))
    assert cli.run(["erase", GONE, "-w", filled.location]) == 1
    assert "rebalance-audit run -w" in capfd.readouterr().err
    assert rows(filled, GONE) == before


@pytest.mark.parametrize(
    ("where", "after"), [("rewrite", 0), ("rewrite", 4), ("forget_landed", 0), ("delete_unused", 3), ("append", 0)]
)
def test_the_same_command_finishes_an_erasure_that_was_interrupted(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch, where: str, after: int
) -> None:
    other = rows(filled, KEPT)
    with full_disk(monkeypatch, where, after):
        assert cli.run(["erase", GONE, "-w", filled.location, "--reason", "ticket 4711"]) == 1
    opened = Warehouse.open(filled.location)
    assert opened.query("SELECT * FROM gold.erasure").num_rows == 0
    assert cli.run(["erase", GONE, "-w", filled.location, "--reason", "ticket 4711"]) == 0
    assert list(places_of(GONE, opened)) == []
    assert rows(opened, KEPT) == other
    (noted,) = opened.query("SELECT * FROM gold.erasure").to_pylist()
    assert noted["row_count"] == sum(of_table["row_count"] for of_table in noted["tables"]) > 50
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0
    assert cli.run(["erase", GONE, "-w", filled.location]) == 2  # there is no such group now


KILLED = """
import os, signal, sys
from rebalance_audit import cli
from rebalance_audit.warehouse.warehouse import Warehouse

rewrite = Warehouse.rewrite

def killed_after(warehouse, name, *given):
    count = rewrite(warehouse, name, *given)
    if name == "bronze.record":
        os.kill(os.getpid(), signal.SIGKILL)
    return count

Warehouse.rewrite = killed_after
cli.run(sys.argv[1:])
"""
"""Dies after the first rows of bronze went, and before the log of evidence says so."""


@pytest.mark.parametrize("later", [["maintain", "-q"], ["erase", GONE]])
def test_an_erasure_that_was_killed_is_named_by_the_log_of_evidence(
    filled: Warehouse, later: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    given = ["erase", GONE, "-w", filled.location, "-q"]
    assert subprocess.run([sys.executable, "-c", KILLED, *given], check=False).returncode == -signal.SIGKILL
    assert cli.run(["audit", "verify", "-w", filled.location]) == 1
    said = capfd.readouterr().out
    assert "bronze.record: version" in said
    assert "`erase` began before it and did not end" in said
    assert cli.run([*later, "-w", filled.location]) == 0
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0
    assert cli.run(given) == (2 if later[0] == "erase" else 0)
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0
    assert list(places_of(GONE, filled)) == []
    acts = [act for act in _acts(filled) if act["verb"] == "erase"]
    (noted,) = Warehouse.open(filled.location).query("SELECT erasure_id FROM gold.erasure").to_pylist()
    assert {act["detail"]["erasure_id"] for act in acts} == {noted["erasure_id"]}


def test_rows_that_another_program_took_beside_a_killed_erasure_are_not_its_doing(
    filled: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    given = ["erase", GONE, "-w", filled.location, "-q"]
    assert subprocess.run([sys.executable, "-c", KILLED, *given], check=False).returncode == -signal.SIGKILL
    DeltaTable(f"{filled.location}/bronze/record").delete("offset > 3")
    assert cli.run(["maintain", "-q", "-w", filled.location]) == 0
    assert cli.run(["audit", "verify", "-w", filled.location]) == 1
    assert "no verb of ours did it" in capfd.readouterr().out


def _acts(warehouse: Warehouse) -> list[dict[str, Any]]:
    """As the log of evidence has them."""
    files = sorted((Path(warehouse.location) / "audit" / "leaves").iterdir())
    leaves = [json.loads(line.partition(" ")[2]) for file in files for line in file.read_text().splitlines()]
    return [act for leaf in leaves for act in leaf.get("acts", [])]


def test_nothing_is_erased_before_its_record_can_be_written(
    filled: Warehouse, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    before = rows(filled, GONE)
    for reason, why in ((f"{GONE} is to go", "--reason names the group"), ("\udcff", "no character")):
        assert cli.run(["erase", GONE, "-w", filled.location, "--reason", reason]) == 2
        assert why in capfd.readouterr().err
    assert rows(filled, GONE) == before

    def nameless() -> str:  # as for a container's user id
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", nameless)
    assert cli.run(["erase", GONE, "-w", filled.location, "-q"]) == 0
    assert filled.query('SELECT "by" FROM gold.erasure').to_pylist() == [{"by": "somebody"}]


def test_a_group_that_is_not_there_is_said(filled: Warehouse, capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["erase", "nobody", "-w", filled.location]) == 2
    assert "There is no group 'nobody'" in capfd.readouterr().err
    assert cli.run(["erase", GONE, "-w", filled.location, "--cluster-id", "other"]) == 2


def test_maintain_leaves_nothing_that_an_erasure_waits_for(
    filled: Warehouse, capfd: pytest.CaptureFixture[str]
) -> None:
    for _ in range(2):
        assert cli.run(["maintain", "-w", filled.location]) == 0
    assert "nothing was deleted by age" not in capfd.readouterr().err
    assert cli.run(["erase", GONE, "-w", filled.location]) == 0
    assert list(places_of(GONE, filled)) == []
    assert cli.run(["audit", "verify", "-w", filled.location]) == 0


def test_notes_do_not_name_an_erased_group(filled: Warehouse) -> None:
    floors, mine = [["bench", GONE], ["bench", KEPT], ["other", GONE]], {"cluster_id": "bench", "title": f"Of {GONE}."}
    filled.remember("floors", {"groups": floors})
    filled.remember("present-1", {"just_in": {"rows": {"gold.group": "rows that are no text"}}})
    filled.remember("volumes", {"rows": 1})
    sent = {"in:1": {"status": "open", "severity": "warning", "incident": mine},
            "in:2": {"status": "open", "severity": "warning", "incident": mine | {"title": f"Of {GONE}-2."}},
            "in:3": {"status": "over", "severity": "warning"}}  # fmt: skip
    write_state(state_of(filled.location), {"version": 2, "delivered": {"on-call": sent}})
    of_source = {"so:1": {"status": "open", "severity": "critical"}}
    write_state(state_of(filled.location, "watchdog"), {"version": 2, "delivered": {"on-call": of_source}})
    votes = [name for name in filled.notes() if name.startswith("clock-votes")]
    assert len(votes) > 1
    assert cli.run(["erase", GONE, "-w", filled.location]) == 0
    assert not {*votes} & {*filled.notes()}, "their votes are packed, and may name the group"
    assert filled.recall("floors") == {"groups": floors[1:]}
    assert "present-1" not in filled.notes()
    assert filled.recall("volumes") == {"rows": 1}
    assert list(read_state(state_of(filled.location))["delivered"]["on-call"]) == ["in:2", "in:3"]
    assert read_state(state_of(filled.location, "watchdog"))["delivered"]["on-call"] == of_source


def test_a_damaged_note_goes_with_an_erased_group(filled: Warehouse) -> None:
    for name in ("nameless-lines", "floors"):
        (Path(filled.location) / "notes" / f"{name}.json").write_text(f'{{"form": 1, "groups": ["{GONE}"')
    assert cli.run(["erase", GONE, "-w", filled.location]) == 0
    assert list(places_of(GONE, filled)) == []


def test_a_workers_own_clients_go_with_its_group(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    capture = Path(__file__).parents[1] / "golden" / "4.3.0" / "connect_worker_lost"
    assert cli.run(["import", "-q", "-w", warehouse.location, str(capture)]) == 0
    pipeline.run(warehouse, engine="local")
    assert cli.run(["erase", "connect-lab", "-w", warehouse.location]) == 0
    assert list(places_of("connect-lab", warehouse)) == []
