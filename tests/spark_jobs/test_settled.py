"""Settled history: a group's fold goes on from a checkpoint, and the tables are those of folding everything at once.

On this process's engine; `test_laws.py` runs the same stages on both.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.domain.gather.windows import reconstruct_in_windows
from rebalance_audit.warehouse import short_lived_rows, small_files, upkeep
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import kept_votes, node_tallies, pipeline
from spark_jobs.group_evidence import node_readings
from spark_jobs.stages import reconstruct
from tests.spark_jobs.arrivals import Landed, by_place, cut, deliver, gold, landed, rows_of

GOLDEN = ("4.3.0/eager_join_leave_kill", "4.3.0/kip848_join_leave", "4.3.0/connect_worker_lost")
SILVER = ("silver.measured_rebalance", "silver.contradiction", "silver.checkpoint")


@pytest.fixture(autouse=True)
def _small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconstruct, "WINDOW", 60)
    monkeypatch.setattr(reconstruct, "AROUND", 15)


def run(warehouse: Warehouse, **more: Any) -> None:
    pipeline.run(warehouse, engine="local", with_quality=False, **more)


def step(warehouse: Warehouse, **more: Any) -> None:
    """What the other stages do follows from silver alone: they run once, at the end."""
    run(warehouse, stages=("bronze", "decode", "reconstruct"), **more)


@pytest.fixture(scope="module")
def long_lives(tmp_path_factory: pytest.TempPathFactory) -> list[Landed]:
    """Two groups with some forty rebalances each, in six flushes."""
    cluster, flushes = GrowingCluster(groups=2, seed=3), []
    for at in range(6):
        scratch = tmp_path_factory.mktemp(f"flush-{at}")
        Warehouse.open(scratch, create=True)
        cluster.land(Landing(scratch), 14)
        flushes.append(landed([], scratch))
    return flushes


def joined(flushes: list[Landed]) -> Landed:
    return {noun: pa.concat_tables([flush[noun] for flush in flushes]) for noun in flushes[0]}


def everything_of(warehouse: Warehouse) -> dict[str, list[str]]:
    run(warehouse)
    return gold(warehouse) | {table: rows_of(warehouse, table) for table in SILVER}


def at_once(flushes: list[Landed], folder: Path) -> dict[str, list[str]]:
    warehouse = Warehouse.open(folder, create=True)
    deliver(warehouse, "all", joined(flushes))
    run(warehouse)
    return everything_of(warehouse)


@pytest.fixture(scope="module")
def expected(long_lives: list[Landed], tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, list[str]]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconstruct, "WINDOW", 60)
        patch.setattr(reconstruct, "AROUND", 15)
        yield at_once(long_lives, tmp_path_factory.mktemp("at_once"))


def points(warehouse: Warehouse) -> int:
    return warehouse.read("silver.checkpoint", ["group_id"]).num_rows


def test_history_in_its_order_is_folded_on_from_checkpoints(
    long_lives: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []

    def counted(pieces: Any, *args: Any, **kwargs: Any) -> Any:
        listed = list(pieces)
        read.append(len(listed))
        return reconstruct_in_windows(listed, *args, **kwargs)

    monkeypatch.setattr(reconstruct, "reconstruct_in_windows", counted)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, flush in enumerate(long_lives):
        deliver(warehouse, f"flush-{at}", flush)
        read.clear()
        step(warehouse)
    assert points(warehouse) > 6
    assert max(read) < 200, "of 400 pieces of each group, the last few windows"
    assert warehouse.read("silver.reopening").num_rows == 0
    assert everything_of(warehouse) == expected
    for point in warehouse.read("silver.checkpoint").to_pylist():
        where, of_point = "group_id = ? AND place < ?", [point["group_id"], point["row_count"]]
        settled = warehouse.read("silver.measured_rebalance", ["is_final"], where, of_point)["is_final"].to_pylist()
        assert settled == [True] * point["row_count"]


@pytest.mark.parametrize("seed", range(2))
def test_any_order_and_any_repeat_give_the_rows_of_folding_at_once(
    long_lives: list[Landed], expected: dict[str, list[str]], tmp_path: Path, seed: int
) -> None:
    draw = random.Random(seed)
    order = list(range(len(long_lives)))
    for _ in range(2):  # mostly in order, some of it late
        a, b = draw.sample(range(len(order)), 2)
        order[a], order[b] = order[b], order[a]
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, number in enumerate(order):
        deliver(warehouse, f"piece-{at}", long_lives[number])
        if at == 3:
            again = {noun: rows for noun, rows in long_lives[order[1]].items() if noun != "source"}
            deliver(warehouse, "again", again)
        step(warehouse)
    assert everything_of(warehouse) == expected
    assert warehouse.read("silver.reopening").num_rows > 0


def test_lines_that_come_after_everything_reopen_the_group(
    long_lives: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    whole = joined(long_lives)
    warehouse = Warehouse.open(tmp_path, create=True)
    deliver(warehouse, "records", {"record": whole["record"]})
    step(warehouse)
    for at, lines in enumerate(cut(whole["log_line"], 2)):
        deliver(warehouse, f"lines-{at}", {"log_line": lines})
        step(warehouse)
    deliver(warehouse, "sources", {"source": whole["source"]})
    step(warehouse)
    assert everything_of(warehouse) == expected
    reopened = warehouse.read("silver.reopening").to_pylist()
    assert {row["group_id"] for row in reopened} == {"group-000000", "group-000001"}
    assert all(row["evidence_at_ms"] is None or row["evidence_at_ms"] < row["settled_at_ms"] for row in reopened)


def test_a_crash_after_any_commit_is_mended_by_a_rerun(
    long_lives: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    deliver(warehouse, "first", joined(long_lives[:4]))
    step(warehouse)
    died: set[str] = set()

    def die_once(point: str) -> None:
        if point not in died:
            died.add(point)
            raise KeyboardInterrupt(point)

    deliver(warehouse, "second", joined(long_lives[4:]))
    while True:
        try:
            step(warehouse, reached=die_once)
            break
        except KeyboardInterrupt:
            continue
    assert {"silver.measured_rebalance", "silver.checkpoint", "silver.reopening"} <= died
    assert everything_of(warehouse) == expected


def test_state_of_another_fold_is_made_again(
    long_lives: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    deliver(warehouse, "first", joined(long_lives[:5]))
    step(warehouse)
    stored = warehouse.read("silver.checkpoint")
    other = stored.set_column(
        stored.schema.get_field_index("fold_version"), "fold_version", pa.array([-1] * len(stored), pa.int32())
    )
    other = other.set_column(other.schema.get_field_index("state"), "state", pa.array(["?"] * len(stored)))
    warehouse.replace("silver.checkpoint", other, None)
    deliver(warehouse, "last", long_lives[5])
    step(warehouse)
    assert everything_of(warehouse) == expected


def files_of(checkpoints: Path, pattern: str) -> list[Path]:
    return sorted(checkpoints.glob(pattern))


def without_files(checkpoints: Path) -> None:
    for file in files_of(checkpoints, "*.parquet"):
        file.unlink()


def with_another_state(checkpoints: Path) -> None:
    for file in files_of(checkpoints, "*.parquet"):
        stored = pq.read_table(file)
        at = stored.schema.get_field_index("state")
        pq.write_table(stored.set_column(at, "state", pa.array(["?"] * len(stored))), file)


@pytest.fixture(scope="module")
def until_the_last(long_lives: list[Landed], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("until_the_last") / "w"
    warehouse = Warehouse.open(folder, create=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconstruct, "WINDOW", 60)
        patch.setattr(reconstruct, "AROUND", 15)
        for at, part in enumerate((joined(long_lives[:3]), joined(long_lives[3:5]))):
            deliver(warehouse, f"part-{at}", part)
            step(warehouse)
    assert points(warehouse) > 6
    return folder


@pytest.mark.parametrize(
    "destroy",
    [
        pytest.param(shutil.rmtree, id="the folder is gone"),
        pytest.param(lambda c: [f.write_bytes(b"x" * 500) for f in files_of(c, "*.parquet")], id="files are damaged"),
        pytest.param(without_files, id="files are gone"),
        pytest.param(lambda c: [f.write_text("{") for f in files_of(c, "_delta_log/*.json")], id="the log is broken"),
        pytest.param(with_another_state, id="the state is no JSON"),
    ],
)
def test_a_broken_table_of_checkpoints_is_made_again_by_the_next_run(
    until_the_last: Path,
    long_lives: list[Landed],
    expected: dict[str, list[str]],
    tmp_path: Path,
    destroy: Callable[[Path], object],
) -> None:
    shutil.copytree(until_the_last, tmp_path / "w")
    destroy(tmp_path / "w" / "silver" / "checkpoint")
    warehouse = Warehouse.open(tmp_path / "w")
    deliver(warehouse, "last", long_lives[5])
    run(warehouse)
    assert gold(warehouse) | {table: rows_of(warehouse, table) for table in SILVER} == expected


@pytest.mark.parametrize("name", GOLDEN)
def test_a_capture_in_pieces_gives_the_tables_of_the_whole(golden: Path, tmp_path: Path, name: str) -> None:
    whole = by_place(landed([golden / name], tmp_path / "landed"))
    expected = at_once([whole], tmp_path / "at_once")
    warehouse = Warehouse.open(tmp_path / "pieces", create=True)
    parts = {noun: cut(rows, 4) for noun, rows in whole.items()}
    for at in range(4):
        deliver(warehouse, f"piece-{at}", {noun: of_noun[at] for noun, of_noun in parts.items() if at < len(of_noun)})
        step(warehouse)
    assert everything_of(warehouse) == expected


def test_all_stages_at_every_step_change_single_rows_and_say_the_same(
    long_lives: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What measure and publish take from row to row, with files that are joined all the time."""
    monkeypatch.setattr(upkeep, "SMALL_FILES", 3)
    monkeypatch.setattr(short_lived_rows, "_TO_TAIL", range(1, 5))
    monkeypatch.setattr(short_lived_rows, "TAIL_ROWS", 4)
    monkeypatch.setattr(short_lived_rows, "_LEAF_ROWS_AT_MOST", 8)
    monkeypatch.setattr(small_files, "RUNS", 2)
    monkeypatch.setattr(small_files, "_APPENDED_TIERS", (2, 4, 8))
    monkeypatch.setattr(small_files, "LARGE_FILES", 2)
    monkeypatch.setattr(node_tallies, "BEHIND", 2)
    warehouse = Warehouse.open(tmp_path, create=True)
    joins: list[str] = []
    for at, flush in enumerate(long_lives):
        deliver(warehouse, f"flush-{at}", flush)
        run(warehouse, reached=lambda point: joins.append(point) if point.endswith(":joined") else None)
        kept, noted = node_readings(warehouse, None, None), node_readings(Warehouse.open(tmp_path), None, None)
        with monkeypatch.context() as without_note:
            without_note.setattr(kept_votes, "kept", lambda *_: None)
            read_anew = node_readings(Warehouse.open(tmp_path), None, None)
        for found in (kept, noted):
            assert found == read_anew
    assert {"silver.measured_rebalance:joined", "gold.rebalance:joined"} <= set(joins)
    assert any("/run1-" in file for file in warehouse.files("silver.group_event"))
    assert gold(warehouse) | {table: rows_of(warehouse, table) for table in SILVER} == expected


def test_the_note_of_votes_keeps_up_with_a_version_of_many_events(
    long_lives: list[Landed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)

    def noted_after(flush: int) -> int:
        deliver(warehouse, f"flush-{flush}", long_lives[flush])
        step(warehouse)
        return int(warehouse.recall(kept_votes.NOTE)["versions"][0])

    first = noted_after(0)
    assert noted_after(1) == first, "few events came"
    monkeypatch.setattr(node_tallies, "BEHIND_ROWS", 100)
    assert noted_after(2) == warehouse.version("silver.group_event"), "those of two flushes are more"
    assert noted_after(3) < (warehouse.version("silver.group_event") or 0), "and it begins anew"


@pytest.mark.parametrize("hours", [-1, 24])
def test_a_clock_that_jumps_for_a_while_gives_the_rows_of_folding_at_once_and_settled_rows_stay(
    long_lives: list[Landed], tmp_path: Path, hours: int
) -> None:
    """Some lines of the fourth flush have a time that is an hour back, or a day ahead."""
    jumped = dict(long_lives[3])
    lines = jumped["log_line"]
    texts = [_moved(text, hours) if at < len(lines) // 3 else text for at, text in enumerate(lines["text"].to_pylist())]
    place = lines.schema.get_field_index("text")
    jumped["log_line"] = lines.set_column(place, lines.schema.field(place), pa.array(texts, pa.string()))
    flushes = [*long_lives[:3], jumped, *long_lives[4:]]
    warehouse = Warehouse.open(tmp_path / "pieces", create=True)
    settled: list[str] = []
    for at, flush in enumerate(flushes):
        deliver(warehouse, f"flush-{at}", flush)
        step(warehouse)
        if at == 2:
            settled = final_rows(warehouse)
    assert len(settled) > 20
    assert {*settled} <= {*final_rows(warehouse)}
    assert everything_of(warehouse) == at_once(flushes, tmp_path / "at_once")


def final_rows(warehouse: Warehouse) -> list[str]:
    return [row for row in rows_of(warehouse, "silver.measured_rebalance") if '"is_final": true' in row]


def _moved(text: str, hours: int) -> str:
    at = datetime.strptime(text[1:20], "%Y-%m-%d %H:%M:%S") + timedelta(hours=hours)
    return f"[{at:%Y-%m-%d %H:%M:%S}{text[20:]}"
