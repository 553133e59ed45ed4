"""What a process that begins knows of files from the note is what their footers say."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.domain import tables
from rebalance_audit.warehouse import known_footers, known_values, row_groups
from rebalance_audit.warehouse.row_groups import greatest, held_in, least, row_groups_of
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import kept_footers, pipeline

TABLES = ("silver.measured_rebalance", "gold.rebalance", "gold.group")


@pytest.fixture(autouse=True, params=[0, 100_000], ids=["the note of all", "the note of news"])
def _behind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_footers, "BEHIND", request.param)


def begin_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what was read, as a process that begins."""
    monkeypatch.setattr(known_footers, "_known", known_footers._FooterFacts())
    monkeypatch.setattr(known_values, "_known", known_values._Known())
    for kept in (held_in, greatest, least):
        kept.cache_clear()


def files_of(warehouse: Warehouse) -> set[str]:
    return {file for table in tables.TABLES for file in warehouse.files(table.name)}


def test_the_note_says_what_the_footers_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew(monkeypatch)
    warehouse, cluster = Warehouse.open(tmp_path, create=True), GrowingCluster(groups=3, seed=2)
    for _ in range(3):
        cluster.land(Landing(tmp_path), 6)
        pipeline.run(warehouse, engine="local")
    [name] = {*warehouse.notes()} & {*known_footers.NOTES}
    noted = warehouse.recall(name)["files"]
    assert len(noted) > 20
    assert {f"{tmp_path}/{name}" for name in noted} <= files_of(warehouse), "files that are gone leave the note"
    begin_anew(monkeypatch)
    kept_footers.recall(Warehouse.open(tmp_path))
    count = 0
    for name, facts in noted.items():
        file = f"{tmp_path}/{name}"
        for column in [asked.removeprefix("held ") for asked in facts if asked.startswith("held ")]:
            if column == "None":  # how many rows there are, whatever the column
                continue
            with monkeypatch.context() as unread:
                unread.setattr(row_groups, "footer", None)  # no file is opened
                found = held_in(file, column)
            assert found == row_groups._held_in(file, column)
            is_there = column in pq.read_schema(file).names
            values = pq.read_table(file, columns=[column])[column] if is_there else pa.chunked_array([], pa.string())
            for held, begin in zip(found, range(0, len(values), row_groups.ROW_GROUP_ROWS), strict=False):
                rows = values.slice(begin, row_groups.ROW_GROUP_ROWS)
                assert held.row_count == len(rows)
                assert held.may_be_any or {held.first, held.last} == {*pc.min_max(rows).as_py().values()}
            count += 1
    assert count > 20


def test_a_process_that_begins_knows_which_groups_are_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew(monkeypatch)
    warehouse, cluster = Warehouse.open(tmp_path, create=True), GrowingCluster(groups=40, seed=2)
    for _ in range(3):
        cluster.land(Landing(tmp_path), 15)
        pipeline.run(warehouse, engine="local")
    begin_anew(monkeypatch)
    warehouse = Warehouse.open(tmp_path)
    kept_footers.recall(warehouse)
    files = [file for table in TABLES for file in warehouse.files(table)]
    in_files = {file: {*pq.read_table(file, columns=["group_id"])["group_id"].to_pylist()} for file in files}
    groups = sorted(set().union(*in_files.values()))
    assert len(groups) > 20
    for group_id in groups:
        with monkeypatch.context() as unread:
            unread.setattr(row_groups, "footer", None)
            found = {group.file for group in row_groups_of(files, "group_id", [group_id])}
        assert found == {file for file in files if group_id in in_files[file]}


def test_a_run_from_the_note_makes_the_tables_of_one_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    said = []
    for with_note in (True, False):
        folder = tmp_path / str(with_note)
        warehouse, cluster = Warehouse.open(folder, create=True), GrowingCluster(groups=3, seed=2)
        for _ in range(3):
            cluster.land(Landing(folder), 6)
            pipeline.run(warehouse, engine="local")
            begin_anew(monkeypatch)
            warehouse = Warehouse.open(folder)
            if not with_note:
                for name in known_footers.NOTES:
                    warehouse.forget(name)
        rows = [warehouse.read(name).to_pylist() for name in TABLES]
        said.append([sorted(json.dumps(row, sort_keys=True, default=str) for row in of_table) for of_table in rows])
    assert said[0] == said[1]


def test_a_note_of_another_form_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew(monkeypatch)
    file = str(tmp_path / "part-1.parquet")
    pq.write_table(pa.table({"group_id": ["a", "b"]}), file)
    note = {"form": 0, "files": {"part-1.parquet": {"held group_id": [[9, "x", "y", False, False]]}}}
    known_footers.take_in(str(tmp_path), note, as_news=False)
    assert [(held.row_count, held.first, held.last) for held in held_in(file, "group_id")] == [(2, "a", "b")]


def test_what_a_process_that_begins_adds_is_in_one_of_the_notes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin_anew(monkeypatch)
    cluster = GrowingCluster(groups=3, seed=2)
    steps = [(1_000, {"footers-news"}), (1_000, {"footers-news"}), (0, {"footers"}), (1_000, {*known_footers.NOTES})]
    for behind, expected in steps:
        monkeypatch.setattr(known_footers, "BEHIND", behind)
        warehouse = Warehouse.open(tmp_path, create=True)
        cluster.land(Landing(tmp_path), 6)
        pipeline.run(warehouse, engine="local")
        begin_anew(monkeypatch)
        assert {*warehouse.notes()} & {*known_footers.NOTES} == expected
        noted = {file for name in known_footers.NOTES for file in warehouse.recall(name).get("files", {})}
        stored = {file.removeprefix(f"{tmp_path}/") for file in warehouse.files("silver.measured_rebalance")}
        assert stored <= noted
