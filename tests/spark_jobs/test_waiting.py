"""Commits of groups that nobody waits for may come into marks later: in the end the tables are those of all at once."""

from __future__ import annotations

import contextlib
import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from bench.group_events import CLUSTER, OFFSETS_TOPIC
from bench.growing_cluster import COMMITS, FlushedRun, WrittenRebalance, commit
from ingest.landing import Landing
from ingest.readings import LogText, SourceReading
from rebalance_audit.warehouse import landing_files, short_lived_rows, upkeep
from rebalance_audit.warehouse.row_groups import is_tail
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import loud, pipeline
from spark_jobs.commits import marks, waiting
from spark_jobs.stages import decode, detect, publish
from tests.encoders import offset_commit_key
from tests.spark_jobs.arrivals import Landed, by_place, cut, deliver, gold, landed, rows_of

GROUPS = 12
SILVER = ("silver.commit_mark", "silver.decode_count", "silver.measured_rebalance")
BASE_MS = 1_795_000_000_000
STEP_MS = 2_000


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(short_lived_rows, "_LEAF_ROWS_AT_MOST", 8)
    monkeypatch.setattr(short_lived_rows, "SOON_REPLACED_AT_ONCE", 5)
    monkeypatch.setattr(decode, "LEAST_RECORDS", 1)
    monkeypatch.setattr(short_lived_rows, "_TO_TAIL", range(1, 5))
    monkeypatch.setattr(short_lived_rows, "TAIL_ROWS", 4)
    monkeypatch.setattr(short_lived_rows, "SOON_REPLACED_ROWS", 2)


class Busy:
    """All groups commit at every step; one or two of them rebalance."""

    def __init__(self, seed: int) -> None:
        self._draw, self._now_ms, self._byte = random.Random(seed), BASE_MS, 0
        self._offsets, self._generations = [0] * 3, [0] * GROUPS
        self._flushes = 0

    def step(self, landing: Landing, rebalancing: list[int] | None = None) -> None:
        self._now_ms += STEP_MS
        self._flushes += 1
        rows: dict[int, list[tuple[int, int, bytes, bytes]]] = {}
        lines: list[LogText] = []

        def put(partition: int, at_ms: int, key: bytes, value: bytes) -> None:
            rows.setdefault(partition, []).append((self._offsets[partition], at_ms, key, value))
            self._offsets[partition] += 1

        drawn = self._draw.sample(range(GROUPS), self._draw.randint(1, 2)) if rebalancing is None else rebalancing
        before = {group: self._draw.random() < 0.5 for group in range(GROUPS)}
        for is_before in (True, False):
            for group in range(GROUPS):
                if before[group] is is_before and self._draw.random() < 0.8:
                    for partition in range(COMMITS):
                        at_ms = self._now_ms + (0 if is_before else 900)
                        put(group % 3, at_ms, *commit(group, partition, self._offsets[0], at_ms))
            for group in drawn if is_before else ():
                self._generations[group] += 1
                what = WrittenRebalance.of(
                    group, self._generations[group], self._now_ms + 300, by_failure=self._draw.random() < 0.3
                )
                lines += map(self._line, what.lines)
                put(group % 3, *what.record)
        name = f"collect-20261118T120000-00000001-{self._flushes:06d}"
        runs = []
        for partition, of_it in sorted(rows.items()):
            offsets, times, keys, values = (list(column) for column in zip(*of_it, strict=True))
            columns: Any = {"offset": offsets, "timestamp_ms": times, "key": keys, "value": values}
            runs.append(FlushedRun(partition, columns))
        landing.write_records(name, CLUSTER, runs)
        landing.write_log_lines(name, CLUSTER, lines)
        landing.write_sources(name, CLUSTER, name, [_reading(run) for run in runs])

    def _line(self, text: str) -> LogText:
        line = LogText(node="broker-1", file_name="server.log", file_id="0", byte=self._byte, text=text)
        self._byte += len(text) + 1
        return line


def _reading(run: FlushedRun) -> SourceReading:
    offsets, times = run.columns["offset"], run.columns["timestamp_ms"]
    return SourceReading(
        source=f"record:{OFFSETS_TOPIC}-{run.partition}", kind="record", from_position=offsets[0],
        to_position=offsets[-1] + 1, from_at_ms=times[0], to_at_ms=times[-1], item_count=len(offsets),
    )  # fmt: skip


@pytest.fixture(scope="module")
def steps(tmp_path_factory: pytest.TempPathFactory) -> list[Landed]:
    """All groups begin in the first; in the last one nothing but commits comes."""
    cluster, found = Busy(seed=5), []
    for at in range(10):
        scratch = tmp_path_factory.mktemp(f"step-{at}")
        Warehouse.open(scratch, create=True)
        cluster.step(Landing(scratch), {0: list(range(GROUPS)), 9: []}.get(at))
        found.append(landed([], scratch))
    return found


def run(warehouse: Warehouse, **more: Any) -> pipeline.RunOutcome:
    return pipeline.run(warehouse, engine="local", with_quality=False, **more)


def everything_of(warehouse: Warehouse) -> dict[str, list[str]]:
    """But for what says how evidence came: counts by batch."""
    counts = ("batch_id", "in_count", "event_count", "commit_count", "undecoded_count", "skipped_count")
    found = gold(warehouse) | {table: rows_of(warehouse, table) for table in SILVER if table != "silver.decode_count"}
    summed = ", ".join(f"sum({name}) {name}" for name in counts[1:])
    books = warehouse.query(f"SELECT source_kind, kind, {summed} FROM silver.decode_count GROUP BY ALL ORDER BY ALL")
    return found | {"books": [repr(row) for row in books.to_pylist()]}


@pytest.fixture(scope="module")
def expected(steps: list[Landed], tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    warehouse = Warehouse.open(tmp_path_factory.mktemp("at_once"), create=True)
    deliver(warehouse, "all", {noun: pa.concat_tables([step[noun] for step in steps]) for noun in steps[0]})
    run(warehouse)
    return everything_of(warehouse)


def test_runs_that_wait_and_one_that_does_not_give_the_tables_of_all_at_once(
    steps: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    has_tail = False
    for at, step in enumerate(steps):
        deliver(warehouse, f"step-{at}", step)
        outcome = run(warehouse, may_wait=True)
        assert outcome.is_complete == (at == 0), "nothing waits before all were folded once"
        has_tail |= any(map(is_tail, warehouse.files("gold.rebalance")))
    counted = sum(warehouse.read("silver.commit_mark", ["commit_count"])["commit_count"].to_pylist())
    assert counted < 0.8 * sum(len(step["record"]) for step in steps)
    assert has_tail
    assert run(warehouse).is_complete
    assert everything_of(warehouse) == expected
    assert run(warehouse).ms_by_stage == {}


def loud_by_chance(draw: random.Random, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Any group may be loud, at each look another one. Returns how many each look named."""
    named: list[int] = []

    def some_ids(files: Sequence[str]) -> frozenset[str]:
        found = frozenset(f"group-{group:06d}" for group in range(GROUPS) if draw.random() < 0.4)
        named.append(len(found))
        return found

    for module in (loud, detect, publish):
        monkeypatch.setattr(module, "loud_ids", some_ids)
    return named


@pytest.mark.parametrize("with_loud", [False, True])
@pytest.mark.parametrize("seed", range(2))  # evidence in its order, and out of it
def test_any_order_repeat_crash_and_restart_give_the_same_tables(
    steps: list[Landed],
    expected: dict[str, list[str]],
    tmp_path: Path,
    seed: int,
    with_loud: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    named = loud_by_chance(random.Random(seed), monkeypatch) if with_loud else [1]
    monkeypatch.setattr(upkeep, "SMALL_FILES", 3)  # tails are joined all the time
    monkeypatch.setattr(landing_files, "MANY_FILES", 2)
    draw = random.Random(seed)
    order = list(range(1, len(steps)))
    if seed % 2:
        for _ in range(2):
            a, b = draw.sample(range(len(order)), 2)
            order[a], order[b] = order[b], order[a]
    warehouse = Warehouse.open(tmp_path, create=True)
    for number in [0, *order]:
        deliver(warehouse, f"step-{number}", steps[number])
        if draw.random() < 0.3:  # collected twice
            deliver(warehouse, f"again-{number}", {k: v for k, v in steps[draw.choice(order)].items() if k == "record"})
        may_wait, dies_at = draw.random() < 0.8, draw.randint(1, 25) if draw.random() < 0.5 else None
        with contextlib.suppress(KeyboardInterrupt):
            run(warehouse, may_wait=may_wait, reached=_dying(dies_at))
        if draw.random() < 0.3:
            warehouse = Warehouse.open(tmp_path)  # another process, which knows of what waits what the note says
            if draw.random() < 0.5:
                warehouse.forget(waiting.NOTE)
    for number, step in enumerate(steps):  # in order or not, all has come at least once
        deliver(warehouse, f"last-{number}", {"record": step["record"]})
    assert run(warehouse).is_complete
    assert everything_of(warehouse) == expected
    assert any(named)


def test_a_loud_group_is_judged_by_runs_that_do_not_wait_and_its_rows_do_not_wait(
    steps: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    group_id = "group-000003"
    for module in (loud, detect, publish):
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset([group_id]))
    warehouse = Warehouse.open(tmp_path, create=True)
    judged = (("silver.finding", "group_id = ?"), ("gold.group", "group_id = ?"), ("gold.incident", "group_ids = [?]"))
    for at, step in enumerate(steps):
        before = [warehouse.read(table, where=of, params=[group_id]).to_pylist() for table, of in judged]
        deliver(warehouse, f"step-{at}", step)
        outcome = run(warehouse, may_wait=at > 0)
        if at:
            assert not outcome.is_complete
            assert before == [warehouse.read(table, where=of, params=[group_id]).to_pylist() for table, of in judged]
            whole = _of(warehouse, "silver.measured_rebalance", {group_id})
            assert len(_of(warehouse, "gold.rebalance", {group_id})) == len(whole)
    for note in ("detect", "publish"):
        assert [of_left[1] for of_left in warehouse.recall(note)["left"]] == [group_id]
    assert run(warehouse).is_complete
    assert everything_of(warehouse) == expected
    assert run(warehouse).ms_by_stage == {}


def test_what_was_left_is_judged_although_nothing_is_new_and_the_notes_are_lost(
    steps: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud_by_chance(random.Random(1), monkeypatch)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, step in enumerate(steps):
        deliver(warehouse, f"step-{at}", step)
        run(warehouse, may_wait=at > 2)
    for module in (loud, detect, publish):
        monkeypatch.setattr(module, "loud_ids", lambda files: frozenset(f"group-{g:06d}" for g in range(GROUPS)))
    assert not run(warehouse, may_wait=True).is_complete
    for note in ("detect", "publish"):
        warehouse.forget(note)
    assert run(warehouse).is_complete
    assert everything_of(warehouse) == expected


def _dying(commits: int | None) -> Any:
    left = [commits]

    def reached(point: str) -> None:
        if left[0] is not None:
            left[0] -= 1
            if left[0] == 0:
                raise KeyboardInterrupt(point)

    return reached


def floors_folded_again(monkeypatch: pytest.MonkeyPatch) -> list[dict[tuple[str, str], int]]:
    """By and by, from which offset on the commits of which groups were folded again."""
    folded: list[dict[tuple[str, str], int]] = []

    def noted(rows: pa.RecordBatch, floors: dict[tuple[str, str], int]) -> pa.RecordBatch:
        folded.append(floors)
        return from_floors(rows, floors)

    from_floors = marks._from_floors
    monkeypatch.setattr(marks, "_from_floors", noted)
    return folded


def test_a_process_that_goes_on_after_runs_that_waited_folds_only_what_waited(
    steps: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = floors_folded_again(monkeypatch)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, step in enumerate(steps):
        if at in (4, 8):
            assert warehouse.recall(waiting.NOTE)["done"]
            warehouse = Warehouse.open(tmp_path)
        deliver(warehouse, f"step-{at}", step)
        run(warehouse, may_wait=True)
        assert (waiting.NOTE in warehouse.notes()) == (at not in (0, 4, 8))
    assert folded == []
    assert run(warehouse).is_complete
    assert everything_of(warehouse) == expected


def test_without_the_note_groups_are_folded_again_from_their_last_record_before_what_waits(
    steps: list[Landed], expected: dict[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded = floors_folded_again(monkeypatch)
    warehouse = Warehouse.open(tmp_path, create=True)
    for at, step in enumerate(steps[:8]):
        deliver(warehouse, f"step-{at}", step)
        run(warehouse, may_wait=at > 5)
    assert warehouse.recall(waiting.NOTE)["done"]
    warehouse.forget(waiting.NOTE)
    warehouse = Warehouse.open(tmp_path)
    run(warehouse)
    assert folded
    assert all(floor > 0 for floors in folded for floor in floors.values())
    for at, step in enumerate(steps[8:], 8):
        deliver(warehouse, f"step-{at}", step)
    run(warehouse)
    assert everything_of(warehouse) == expected


def test_a_note_of_later_tables_than_there_are_is_not_believed(
    steps: list[Landed], expected: dict[str, list[str]], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    for at, step in enumerate(steps[:3]):
        deliver(warehouse, f"step-{at}", step)
        run(warehouse, may_wait=at > 0)
        if at == 1:
            shutil.copytree(tmp_path / "w", tmp_path / "put_back")
    later = warehouse.recall(waiting.NOTE)
    warehouse = Warehouse.open(tmp_path / "put_back")
    assert later["since"] == warehouse.recall(waiting.NOTE)["since"]
    warehouse.remember(waiting.NOTE, later)
    for at, step in enumerate(steps[2:], 2):
        deliver(warehouse, f"step-{at}", step)
    run(warehouse)
    assert everything_of(warehouse) == expected


def test_commits_right_after_a_rebalance_are_due_however_long_the_round_is_that_they_come_in() -> None:
    def commits(*of: tuple[str, int]) -> list[pa.RecordBatch]:
        texts = pa.array(["c"] * len(of)), pa.array([offset_commit_key(group_id, "orders", 0) for group_id, _ in of])
        arrays = [*(column.dictionary_encode() for column in texts), pa.array([at_ms for _, at_ms in of])]
        return [pa.RecordBatch.from_arrays(arrays, names=["cluster_id", "key", "timestamp_ms"])]

    known = waiting.WaitingCommits(0, 0)
    known.add(1, commits(("other", 10_000)), [("c", "rebalanced")])
    known.folded()
    long_ms = 10 * waiting.AWAITED_MS
    known.add(2, commits(("rebalanced", 13_000), ("other", 13_000), ("other", 10_000 + long_ms)), [])
    assert known.due == {("c", "rebalanced")}
    known.folded()
    known.add(3, commits(("rebalanced", 12_000 + long_ms)), [])  # it was not asked for so long
    assert known.due == set()


def test_what_is_waited_for_is_as_if_nothing_waited_and_nothing_new_is_said_of_others(
    steps: list[Landed], tmp_path: Path
) -> None:
    warehouse = Warehouse.open(tmp_path / "waits", create=True)
    for at, step in enumerate(steps[:6]):
        deliver(warehouse, f"step-{at}", step)
        before = _findings(warehouse)
        run(warehouse, may_wait=True)
        if at == 0:
            continue
        known = waiting._WAITING[warehouse]
        awaited, due = ({group_id for _, group_id in places} for places in (known.asked_at_ms, known.due))
        assert 0 < len(due) <= len(awaited) < GROUPS
        assert {f for f in _findings(warehouse) ^ before if f[0] not in due} == set()
        shutil.copytree(tmp_path / "waits", tmp_path / f"whole-{at}")
        whole = Warehouse.open(tmp_path / f"whole-{at}")
        run(whole)
        assert _of(warehouse, "silver.measured_rebalance", awaited) == _of(whole, "silver.measured_rebalance", awaited)
        assert _of(warehouse, "silver.commit_mark", due) == _of(whole, "silver.commit_mark", due)


def _findings(warehouse: Warehouse) -> set[tuple[str, str]]:
    if warehouse.version("silver.finding") is None:
        return set()
    return {(row["group_id"], repr(row)) for row in warehouse.read("silver.finding").to_pylist() if row["group_id"]}


def _of(warehouse: Warehouse, table: str, groups: set[str]) -> list[str]:
    rows = warehouse.read(table, where="list_contains(?, group_id)", params=[sorted(groups)])
    return sorted(map(repr, rows.to_pylist()))


@pytest.mark.parametrize(
    "name", ["4.3.0/eager_join_leave_kill", "4.3.0/kip848_join_leave", "4.3.0/connect_worker_lost"]
)
def test_a_capture_in_pieces_of_which_commits_wait(golden: Path, tmp_path: Path, name: str) -> None:
    whole = by_place(landed([golden / name], tmp_path / "landed"))
    at_once = Warehouse.open(tmp_path / "at_once", create=True)
    deliver(at_once, "all", whole)
    run(at_once)
    warehouse = Warehouse.open(tmp_path / "pieces", create=True)
    parts = {noun: cut(rows, 5) for noun, rows in whole.items()}
    for at in range(5):
        deliver(warehouse, f"piece-{at}", {noun: of_noun[at] for noun, of_noun in parts.items() if at < len(of_noun)})
        run(warehouse, may_wait=at not in (0, 3))
    run(warehouse)
    assert everything_of(warehouse) == everything_of(at_once)
