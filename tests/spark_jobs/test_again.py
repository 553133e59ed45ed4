"""`run --again`: what the tables say of old evidence is what this release says of it, whoever wrote them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit import cli
from rebalance_audit.domain.gather.windows import reconstruct_in_windows
from rebalance_audit.domain.incidents import incident_row
from rebalance_audit.domain.measure.pauses import NOT_PAUSING, MovementNumbers
from rebalance_audit.domain.model import changed
from rebalance_audit.warehouse import worked_out
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import measuring, pipeline
from spark_jobs.incidents import since
from spark_jobs.incidents import tables as incidents
from spark_jobs.stages import detect, reconstruct
from tests.spark_jobs.arrivals import Landed, deliver, gold, landed, rows_of

SCENARIOS = ("4.3.0/eager_join_leave_kill", "4.3.0/connect_worker_lost", "4.3.0/reassign_throttled")
HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def everything(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Landed:
    return landed([golden / name for name in SCENARIOS], tmp_path_factory.mktemp("landed"))


@pytest.fixture(scope="module")
def one_group(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Landed:
    return landed([golden / SCENARIOS[0]], tmp_path_factory.mktemp("landed"))


def made(folder: Path, everything: Landed) -> Warehouse:
    warehouse = Warehouse.open(folder, create=True)
    deliver(warehouse, "all", everything)
    run(warehouse)
    return warehouse


def copied(folder: Path, to: Path) -> Path:
    shutil.copytree(folder, to)
    return to


def run(warehouse: Warehouse, **more: Any) -> pipeline.RunOutcome:
    return pipeline.run(warehouse, engine="local", with_quality=False, **more)


def older_release(patch: pytest.MonkeyPatch) -> None:
    """Every stage finds something else: other words for causes, no pause, no findings, incidents with other titles."""

    def other_words(*args: Any, **more: Any) -> Iterator[Any]:
        for part in reconstruct_in_windows(*args, **more):
            yield replace(part, rebalances=tuple(changed(r, trigger_detail="of old") for r in part.rebalances))

    def no_pauses(kinds: Sequence[str], *_: Any) -> tuple[list[MovementNumbers], list[int]]:
        return [NOT_PAUSING], [0] * len(kinds)

    patch.setattr(reconstruct, "reconstruct_in_windows", other_words)
    patch.setattr(measuring, "_numbers", no_pauses)
    patch.setattr(detect, "detect_group", lambda *_, **__: ())
    for module in (since, incidents):
        patch.setattr(module, "incident_row", lambda incident: incident_row(incident) | {"title": "of old"})


def test_old_evidence_gets_the_answers_of_this_release(
    everything: Landed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = gold(made(tmp_path / "ours", everything))
    with monkeypatch.context() as patch:
        older_release(patch)
        warehouse = made(tmp_path / "older", everything)
    assert run(warehouse).ms_by_stage == {}  # nothing is new
    found = gold(warehouse)
    others = {table for table in expected if found[table] != expected[table]}
    assert others >= {"gold.rebalance", "gold.movement", "gold.finding", "gold.incident", "gold.group"}
    run(warehouse, again=True)
    assert gold(warehouse) == expected
    assert warehouse.read("silver.reopening").num_rows == 0  # no evidence came late
    assert run(warehouse).ms_by_stage == {}


def test_where_all_answers_are_ours_nothing_changes(everything: Landed, tmp_path: Path) -> None:
    warehouse = made(tmp_path / "w", everything)
    before = gold(warehouse), rows_of(warehouse, "gold.rebalance"), rows_of(warehouse, "silver.measured_rebalance")
    run(warehouse, again=True)
    assert (
        gold(warehouse),
        rows_of(warehouse, "gold.rebalance"),
        rows_of(warehouse, "silver.measured_rebalance"),
    ) == before


def test_what_is_new_is_worked_on_too(everything: Landed, tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    deliver(warehouse, "lines", {"log_line": everything["log_line"]})
    run(warehouse)
    deliver(warehouse, "others", {noun: rows for noun, rows in everything.items() if noun != "log_line"})
    run(warehouse, again=True)
    assert gold(warehouse) == gold(made(tmp_path / "at_once", everything))


def test_a_run_that_was_killed_anywhere_is_made_good_by_another(
    one_group: Landed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Killed(Exception):
        pass

    expected = gold(made(tmp_path / "ours", one_group))
    points: list[str] = []
    with monkeypatch.context() as patch:
        older_release(patch)
        made(tmp_path / "older", one_group)
    run(Warehouse.open(copied(tmp_path / "older", tmp_path / "counted")), again=True, reached=points.append)
    for at in range(1, len(points), 6):

        def killed(point: str, left: list[str] = points[: at + 1]) -> None:
            left.pop()
            if not left:
                raise Killed

        folder = copied(tmp_path / "older", tmp_path / f"killed-{at}")
        with pytest.raises(Killed):
            run(Warehouse.open(folder), again=True, reached=killed)
        warehouse = Warehouse.open(folder)
        run(warehouse)
        run(warehouse, again=True)
        assert gold(warehouse) == expected, points[at]


def test_rows_whose_evidence_is_deleted_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruct, "WINDOW", 60)
    monkeypatch.setattr(reconstruct, "AROUND", 15)
    cluster, warehouse = GrowingCluster(groups=2, seed=3, apart_ms=HOUR_MS), Warehouse.open(tmp_path / "w", create=True)
    for _ in range(3):
        cluster.land(Landing(warehouse.location), 24)
        run(warehouse)
    kept = ("--keep-bronze", "1h", "--keep-silver", "24h", "--keep-gold", "400d")
    before, events = gold(warehouse), warehouse.read("silver.group_event", ["ref"]).num_rows
    assert cli.run(["maintain", "-q", "-w", warehouse.location, *kept]) == 0
    warehouse = Warehouse.open(warehouse.location)
    assert warehouse.read("silver.group_event", ["ref"]).num_rows < events
    run(warehouse, again=True)
    assert gold(warehouse) == before
    assert warehouse.read("silver.reopening").num_rows == 0


def test_a_run_and_doctor_say_so_until_it_is_done(
    one_group: Landed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path / "w")
    with monkeypatch.context() as patch:
        patch.setattr(worked_out, "_THIS_RELEASE", {"release": "0.0.9", "fold": 1})
        made(tmp_path / "w", one_group)
    sentence = f"worked out by another release: `rebalance-audit run --again -w {place}`"
    assert cli.run(["run", "-w", place]) == 0
    assert sentence in capsys.readouterr().err
    cli.run(["doctor", "-w", place])
    assert "worked out by another release" in capsys.readouterr().out
    assert cli.run(["run", "--again", "-w", place]) == 0
    assert sentence not in capsys.readouterr().err
    assert cli.run(["run", "-w", place]) == 0
    cli.run(["doctor", "-w", place])
    said = capsys.readouterr()
    assert "another release" not in said.err + said.out


def test_doctor_names_a_destroyed_table_whoever_worked_it_out(
    one_group: Landed, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path / "w", one_group)
    for commit in (tmp_path / "w" / "silver" / "measured_rebalance" / "_delta_log").glob("*.json"):
        commit.write_text("garbage")
    cli.run(["doctor", "-w", str(tmp_path / "w")])
    said = capsys.readouterr().out
    assert any(line.split()[:2] == ["fault", "silver.measured_rebalance"] for line in said.splitlines())


def test_all_stages_or_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Warehouse.open(tmp_path / "w", create=True)
    assert cli.run(["run", "--again", "--stage", "detect", "-w", str(tmp_path / "w")]) == 2
    assert "--again is for all stages" in capsys.readouterr().err
