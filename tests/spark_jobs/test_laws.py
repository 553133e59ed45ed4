"""The laws of the stages, on golden captures: the same at scale, in any order, in any pieces, through any crash."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain.gather.clocks import NodeClock
from rebalance_audit.domain.gather.groups import gather
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import SourceLine, SourceRecord, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.group_evidence import node_clocks
from spark_jobs.plan import STAGES
from tests.spark_jobs.arrivals import GOLD, Landed, by_place, cut, deliver, gold, landed, rows_of

SCENARIOS = (
    "4.3.0/eager_join_leave_kill",
    "4.3.0/connect_worker_lost",
    "4.3.0/kip848_join_leave",
    "3.9.1/cooperative_scale_up",
)
Runner = Callable[[Warehouse], pipeline.RunOutcome]


@pytest.fixture(scope="module")
def everything(golden: Path, tmp_path_factory: pytest.TempPathFactory) -> Landed:
    folders = [golden / name for name in SCENARIOS]
    assert all(folder.is_dir() for folder in folders)
    return landed(folders, tmp_path_factory.mktemp("landed"))


@pytest.fixture(scope="module")
def run(engine: dict[str, Any]) -> Runner:
    return lambda warehouse: pipeline.run(warehouse, **engine, with_quality=False)


@pytest.fixture(scope="module")
def at_once(everything: Landed, engine: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Warehouse:
    """All evidence in one run, with every check on."""
    warehouse = Warehouse.open(tmp_path_factory.mktemp("at_once"), create=True)
    deliver(warehouse, "all", everything)
    pipeline.run(warehouse, **engine)
    return warehouse


def test_the_stages_say_what_the_domain_says(at_once: Warehouse, everything: Landed) -> None:
    expected = []
    for cluster_id in everything["record"].column("cluster_id").unique().to_pylist():
        gathered = gather(_records(everything, cluster_id), _lines(everything, cluster_id))
        for group in gathered.groups:
            for place, rebalance in enumerate(reconstruct(group).rebalances):
                expected.append(to_row(measure(rebalance)) | {"place": place})
    assert len(expected) >= 20
    table = rows_to_table("silver.measured_rebalance", expected)
    assert sorted(json.dumps(r, sort_keys=True, default=repr) for r in table.to_pylist()) == rows_of(
        at_once, "silver.measured_rebalance"
    )


def test_every_check_passed_and_was_written_down(at_once: Warehouse) -> None:
    verdicts = at_once.query("SELECT table_name, check_name, success, examples FROM gold.check").to_pylist()
    assert [v for v in verdicts if not v["success"]] == []
    written = {name for stage in STAGES for name in stage.writes}
    assert written - {v["table_name"] for v in verdicts} <= {
        "silver.undecoded",
        "silver.connect_task",
        "silver.contradiction",
        "silver.reopening",
        "gold.standstill",
        "silver.checkpoint",  # no history here is longer than a window
        "silver.judged_era",  # or than an era
        "gold.connect_task",
        # nobody reassigned anything in these captures of one broker
        *(
            f"{layer}.{noun}"
            for layer in ("silver", "gold")
            for noun in ("reassignment", "reassignment_step", "leader_election")
        ),
        "silver.reassignment_finding",
        "silver.partition",
        "gold.leader_move",
    }


def test_rows_in_are_rows_out_in_every_book(at_once: Warehouse, everything: Landed) -> None:
    books = at_once.query("SELECT source_kind, sum(in_count) n FROM silver.decode_count GROUP BY 1").to_pylist()
    assert {b["source_kind"]: b["n"] for b in books} == {
        "record": everything["record"].num_rows,
        "log": everything["log_line"].num_rows,
    }


def test_a_run_without_anything_new_writes_nothing(at_once: Warehouse, run: Runner) -> None:
    before = {name: at_once.version(name) for name in (*GOLD, "silver.finding", "silver.group_event", "gold.check")}
    assert run(at_once).ms_by_stage == {}
    assert {name: at_once.version(name) for name in before} == before


def test_evidence_that_comes_twice_changes_nothing(
    everything: Landed, at_once: Warehouse, run: Runner, tmp_path: Path
) -> None:
    shutil.copytree(at_once.location, tmp_path / "copy")
    warehouse = Warehouse.open(tmp_path / "copy")
    versions = {name: warehouse.version(name) for name in GOLD}
    again = {noun: rows.slice(rows.num_rows // 3) for noun, rows in everything.items() if noun != "source"}
    deliver(warehouse, "second", again)
    run(warehouse)
    assert warehouse.read("bronze.record", ["offset"]).num_rows == everything["record"].num_rows
    assert warehouse.read("bronze.log_line", ["byte"]).num_rows == everything["log_line"].num_rows
    assert gold(warehouse) == gold(at_once)
    assert {name: warehouse.version(name) for name in GOLD} == versions


@pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["in order", "out of order"])
def test_any_cut_and_any_order_give_the_same_rows(
    everything: Landed, at_once: Warehouse, run: Runner, tmp_path: Path, order: tuple[int, ...]
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    pieces = {noun: cut(rows, len(order)) for noun, rows in by_place(everything).items()}
    for at in order:
        deliver(warehouse, f"piece-{at}", {noun: parts[at] for noun, parts in pieces.items()})
        run(warehouse)
    assert gold(warehouse) == gold(at_once)


def test_log_lines_that_come_late_change_the_rows_they_belong_to(
    everything: Landed, at_once: Warehouse, run: Runner, tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    deliver(warehouse, "records", {"record": everything["record"]})
    run(warehouse)
    unseen = warehouse.query("SELECT count(*) n FROM gold.rebalance WHERE started_tier = 'logged'").to_pylist()
    assert unseen == [{"n": 0}]
    deliver(warehouse, "rest", {noun: everything[noun] for noun in ("log_line", "source")})
    run(warehouse)
    assert gold(warehouse) == gold(at_once)
    revisions = warehouse.query("SELECT revision, count(*) n FROM gold.rebalance GROUP BY 1").to_pylist()
    assert {r["revision"] for r in revisions} <= {1, 2}
    assert 2 in {r["revision"] for r in revisions}


class Killed(Exception):
    pass


def test_a_crash_after_any_commit_leaves_nothing_that_a_rerun_does_not_mend(
    everything: Landed, engine: dict[str, Any], tmp_path: Path
) -> None:
    """Killed after every commit in turn, as often as there are commits, and run again each time."""
    of_one_group = _only(everything, at_most_clusters=2)
    expected = Warehouse.open(tmp_path / "whole", create=True)
    deliver(expected, "all", of_one_group)
    points: list[str] = []
    pipeline.run(expected, **engine, with_quality=False, reached=points.append)
    assert len(points) >= 15

    warehouse = Warehouse.open(tmp_path / "killed", create=True)
    deliver(warehouse, "all", of_one_group)
    died: list[str] = []

    def die_once(point: str) -> None:
        if point not in died:
            died.append(point)
            raise Killed(point)

    for _ in range(len(points)):
        with pytest.raises(Killed):
            pipeline.run(warehouse, **engine, with_quality=False, reached=die_once)
    pipeline.run(warehouse, **engine, with_quality=False, reached=die_once)
    assert died == points
    assert gold(warehouse) == gold(expected)
    assert rows_of(warehouse, "gold.rebalance") == rows_of(expected, "gold.rebalance")  # revisions too
    for table in ("silver.decode_count", "silver.commit_mark", "silver.group_event"):
        assert rows_of(warehouse, table) == rows_of(expected, table)


def _only(everything: Landed, at_most_clusters: int) -> Landed:
    clusters = sorted(everything["record"].column("cluster_id").unique().to_pylist())[:at_most_clusters]
    return {
        noun: rows.filter(pa.array([c in clusters for c in rows.column("cluster_id").to_pylist()]))
        for noun, rows in everything.items()
    }


def _records(everything: Landed, cluster_id: str) -> list[SourceRecord]:
    rows = [r for r in everything["record"].to_pylist() if r["cluster_id"] == cluster_id]
    names = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value", "producer_id")
    return [
        SourceRecord(
            **{n: r[n] for n in names}, is_control=bool(r["is_control"]), is_transactional=bool(r["is_transactional"])
        )
        for r in sorted(rows, key=lambda r: (r["topic"], r["partition"], r["offset"]))
    ]


def _lines(everything: Landed, cluster_id: str) -> list[SourceLine]:
    rows = [r for r in everything["log_line"].to_pylist() if r["cluster_id"] == cluster_id]
    names = ("cluster_id", "node", "file_name", "file_id", "byte", "text")
    ordered = sorted(rows, key=lambda r: (r["node"], r["file_id"], r["byte"]))
    return [SourceLine(**{n: r[n] for n in names}) for r in ordered]


def test_clocks_that_nobody_configured_are_inferred_from_a_sample_as_from_everything(
    at_once: Warehouse, everything: Landed
) -> None:
    for cluster_id, clocks in node_clocks(at_once, None, source_version=-1).items():
        whole = gather(_records(everything, cluster_id), _lines(everything, cluster_id)).clocks
        for node, clock in clocks.items():
            assert _deciding(clock) == _deciding(whole[node])
            assert clock.source == whole[node].source


def _deciding(clock: NodeClock) -> tuple[object, ...]:
    return clock.zone, clock.offsets
