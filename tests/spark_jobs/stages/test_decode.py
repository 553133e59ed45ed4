"""decode: rows in = rows out, and marks that depend on what bronze holds, not on when it came."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline
from spark_jobs.commits import concerned, joining_few, shares
from spark_jobs.decoding import log_files
from tests.spark_jobs.synthetic import BASE_MS, Row, a_commit, a_generation, a_line, a_marker, a_record, land


def decoded(
    folder: Path, engine: dict[str, Any], *batches: Sequence[Row], lines: Sequence[Sequence[Row]] = ()
) -> Warehouse:
    warehouse = Warehouse.open(folder, create=True)
    for at in range(max(len(batches), len(lines))):
        land(warehouse, f"batch-{at}", batches[at] if at < len(batches) else (), lines[at] if at < len(lines) else ())
        pipeline.run(warehouse, ["bronze", "decode"], **engine, with_quality=False)
    return warehouse


def marks(warehouse: Warehouse, group: str = "orders") -> list[tuple[int, int, int]]:
    """(first, last, count) of a group's commits."""
    rows = warehouse.read("silver.commit_mark", where="group_id = ?", params=[group]).to_pylist()
    assert all(r["first_at_ms"] == BASE_MS + r["first_offset"] for r in rows)
    assert all(r["last_at_ms"] == BASE_MS + r["last_offset"] for r in rows)
    return sorted((r["first_offset"], r["last_offset"], r["commit_count"]) for r in rows)


def test_each_record_is_an_event_a_commit_undecoded_or_skipped(engine: dict[str, Any], tmp_path: Path) -> None:
    warehouse = decoded(
        tmp_path,
        engine,
        [
            a_generation(1, 1),
            a_commit(2),
            a_commit(3, value=None),
            a_commit(4, value=b"\x00\x09"),
            a_record(5, b"\x00\x63", b"x"),
            a_record(6, None, b"x"),
            a_marker(7, commits=True),
            a_record(
                8, b"status-connector-c1", b'{"state":"RUNNING","worker_id":"w:1","generation":2}', topic="status"
            ),
            a_record(9, b"status-connector-c1", b"{", topic="status"),
        ],
    )
    books = warehouse.read("silver.decode_count").to_pylist()
    counted = {
        b["kind"]: (b["in_count"], b["event_count"], b["commit_count"], b["undecoded_count"], b["skipped_count"])
        for b in books
    }
    assert counted == {
        "GroupMetadata": (1, 1, 0, 0, 0),
        "OffsetCommit": (3, 0, 1, 1, 1),
        "unknown": (2, 0, 0, 2, 0),
        "control": (1, 0, 0, 0, 1),
        "status": (2, 1, 0, 1, 0),
    }
    refused = {r["ref"]: (r["reason"], r["part"]) for r in warehouse.read("silver.undecoded").to_pylist()}
    assert refused == {
        "record:__consumer_offsets-7@4": ("unknown_value_version", "value"),
        "record:__consumer_offsets-7@5": ("unknown_record_type", "key"),
        "record:__consumer_offsets-7@6": ("null_not_allowed", "key"),
        "record:status-7@9": ("bad_json", "value"),
    }
    events = {
        r["ref"]: (r["group_id"], r["source_kind"], r["kind"]) for r in warehouse.read("silver.group_event").to_pylist()
    }
    assert events == {
        "record:__consumer_offsets-7@1": ("orders", "record", "GroupMetadata"),
        "record:status-7@8": (None, "status", "connector"),
    }


STORY = [
    a_commit(1), a_commit(2, partition=1), a_generation(3, 1), a_commit(4), a_commit(5), a_generation(6, 2),
    a_generation(7, 9, group="another"), a_commit(8), a_commit(9, partition=1), a_commit(10),
]  # fmt: skip
STORY_MARKS = [(1, 1, 1), (2, 2, 1), (4, 5, 2), (8, 10, 2), (9, 9, 1)]


@pytest.fixture(params=["few", "some", "many"])
def news(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Marks of few news are joined in one piece, those of many in tasks, some groups to each. DuckDB joins all but
    few."""
    monkeypatch.setattr(joining_few, "FEW_ROWS", joining_few.FEW_ROWS if request.param == "few" else 0)
    if request.param == "many":
        monkeypatch.setattr(concerned, "_KEYS_AT_MOST", 0)
        monkeypatch.setattr(shares, "ROWS", 1)
    return str(request.param)


@pytest.mark.usefixtures("news")
@pytest.mark.parametrize(
    "cuts",
    [
        [range(10)],
        [range(5), range(5, 10)],
        [[0, 1, 3, 4, 7, 8, 9], [2, 5, 6]],
        [[9, 8], [0, 1, 2, 3], [5], [4, 6, 7]],
    ],
    ids=["at once", "in order", "group records late", "shuffled"],
)
def test_marks_do_not_depend_on_how_records_came(
    engine: dict[str, Any], tmp_path: Path, cuts: list[Sequence[int]]
) -> None:
    warehouse = decoded(tmp_path, engine, *[[STORY[at] for at in cut] for cut in cuts])
    assert marks(warehouse) == STORY_MARKS


@pytest.mark.usefixtures("news")
@pytest.mark.parametrize("cut_at", [None, 2, 4])
def test_a_transactional_commit_counts_once_its_commit_marker_is_known(
    engine: dict[str, Any], tmp_path: Path, cut_at: int | None
) -> None:
    in_transaction: dict[str, Any] = {"is_transactional": True, "producer_id": 9}
    story = [
        a_generation(1, 1), a_commit(2, **in_transaction), a_commit(3, topic="u"), a_marker(4, commits=False),
        a_commit(5, **in_transaction), a_marker(6, commits=True), a_commit(7, **in_transaction),
    ]  # fmt: skip
    batches = [story] if cut_at is None else [story[:cut_at], story[cut_at:]]
    assert marks(decoded(tmp_path, engine, *batches)) == [(3, 3, 1), (5, 5, 1)]


def test_a_second_copy_of_an_offset_is_no_evidence(engine: dict[str, Any], tmp_path: Path) -> None:
    warehouse = decoded(tmp_path, engine, [a_generation(1, 1)], [a_generation(1, 2)])
    assert warehouse.read("silver.group_event", ["ref"]).num_rows == 1
    assert sum(warehouse.read("silver.decode_count", ["skipped_count"]).column(0).to_pylist()) == 1


HEAD = "[2026-11-21 10:00:00,{ms:03d}] INFO {message} (kafka.coordinator.group.GroupCoordinator)"
EMPTY = "[GroupCoordinator 1]: Group {group} with generation 3 is now empty (__consumer_offsets-7)"


def test_lines_become_events_in_their_local_time(engine: dict[str, Any], tmp_path: Path) -> None:
    lines = [
        a_line(0, HEAD.format(ms=5, message=EMPTY.format(group="orders"))),
        a_line(200, HEAD.format(ms=6, message="[LogCleaner 1] nothing of interest")),
    ]
    warehouse = decoded(tmp_path, engine, lines=[lines])
    rows = warehouse.read("silver.group_event", ["ref", "group_id", "kind", "at_ms"]).to_pylist()
    assert rows == [
        {"ref": "log:broker-1/server.log#f1@0", "group_id": "orders", "kind": "emptied", "at_ms": 1_795_255_200_005}
    ]
    book = warehouse.read("silver.decode_count").to_pylist()[0]
    assert (book["kind"], book["in_count"], book["event_count"], book["skipped_count"]) == ("server.log", 2, 1, 1)


def test_a_line_torn_by_a_clients_text_is_seen_across_batches(engine: dict[str, Any], tmp_path: Path) -> None:
    torn = "[2026-11-21 10:00:00,001] INFO [GroupCoordinator 1]: Preparing to rebalance group x"
    lines = [a_line(0, torn), a_line(100, HEAD.format(ms=5, message=EMPTY.format(group="orders")))]
    at_once = decoded(tmp_path / "at-once", engine, lines=[lines])
    in_two = decoded(tmp_path / "in-two", engine, lines=[lines[:1], lines[1:]])
    details = [w.read("silver.group_event", ["detail"]).column(0).to_pylist() for w in (at_once, in_two)]
    assert details[0] == details[1]
    assert "could_be_forged" in details[0][0]


def test_a_process_that_goes_on_says_of_torn_lines_what_one_that_begins_says(
    engine: dict[str, Any], tmp_path: Path
) -> None:
    torn = "[2026-11-21 10:00:00,001] INFO [GroupCoordinator 1]: Preparing to rebalance group x"
    whole = [HEAD.format(ms=5 + at, message=EMPTY.format(group=f"orders-{at}")) for at in range(4)]
    end = HEAD.format(ms=3, message=EMPTY.format(group="evil") + "\nx (kafka.Other)")
    lines = [
        [a_line(0, whole[0])], [a_line(300, torn)], [a_line(600, whole[1]), a_line(900, end)],
        [a_line(1_300, whole[2])], [a_line(500, whole[3])],  # late
    ]  # fmt: skip
    warehouses = [decoded(tmp_path / "goes-on", engine, lines=lines)]
    for has_note in (True, False):
        for at, batch in enumerate(lines):
            begins = Warehouse.open(tmp_path / f"begins, {has_note}", create=at == 0)
            land(begins, f"batch-{at}", (), batch)
            pipeline.run(begins, ["bronze", "decode"], **engine, with_quality=False)
            assert log_files.NOTE in begins.notes()
            if not has_note:
                begins.forget(log_files.NOTE)
        warehouses.append(begins)
    found = [
        sorted(map(tuple, zip(*w.read("silver.group_event", ["ref", "detail"]).to_pydict().values(), strict=True)))
        for w in warehouses
    ]
    assert found[0] == found[1] == found[2]
    assert [ref.rpartition("@")[2] for ref, detail in found[0] if "could_be_forged" in detail] == ["500", "600"]
