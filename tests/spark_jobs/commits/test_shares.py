"""Marks of much news are joined in shares: each group is in one of them, whatever it is called."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.kept_columns import rows_on_disk
from spark_jobs.commits import joining, shares
from spark_jobs.commits.partial_marks import PARTIAL_MARK
from spark_jobs.engine import LocalEngine
from spark_jobs.task_files import WRITTEN, files_by_table

GROUPS = [
    (cluster, group)
    for cluster in ("a", "a-b", "b", "\u00e9", "z'")
    for group in ("", "o", "o'; --", "o\x00p", "orders", "orders-10", "orders-9", "\u00e9", "\U0001f600", "\uffff")
]


def a_mark(cluster_id: str, group_id: str, topic: str, at: int, stretch_from: int = -1) -> dict[str, Any]:
    return dict.fromkeys(PARTIAL_MARK.names) | {
        "cluster_id": cluster_id, "group_id": group_id, "topic": topic, "partition": 0,
        "offsets_topic": "__consumer_offsets", "offsets_partition": 7, "stretch_from": stretch_from,
        "first_offset": at, "first_at_ms": at, "last_offset": at, "last_at_ms": at, "commit_count": 1,
        "first_position": at, "last_position": at,
    }  # fmt: skip


def joined_in(folder: Path, rows: list[dict[str, Any]]) -> list[list[tuple[Any, ...]]]:
    """What each file of marks holds, in two files of the news."""
    files = []
    for at in range(2):
        files.append(str(folder / f"{at}.parquet"))
        pq.write_table(pa.Table.from_pylist(rows[at::2], PARTIAL_MARK), files[-1])
    engine, none = LocalEngine(), joining.GROUP_PLACE.empty_table()
    sources = shares.MarkFiles(partial=files, known=[], events=[])
    work = shares.shares_of(sources)
    floor = pa.schema([*list(joining.GROUP_PLACE)[:1], *list(joining.GROUP_PLACE)[2:], ("floor", pa.int64())])
    shared = engine.share((none, floor.empty_table()))
    held = []
    for share in work.to_batches(1):
        task = shares.joining_shares(str(folder), shared)
        written = files_by_table(engine.spread(pa.Table.from_batches([share]), task, WRITTEN))
        assert not {"replaced", "again"} & set(written)
        tables = [rows_on_disk(file) for file in written.get("silver.commit_mark", [])]
        table = pa.concat_tables([arrow_schema("silver.commit_mark").empty_table(), *tables])
        listed = table.select(["cluster_id", "group_id", "topic", "first_offset", "last_offset", "commit_count"])
        held.append(list(zip(*listed.to_pydict().values(), strict=True)))
    return held


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_every_group_is_in_one_share(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "ROWS", rows)
    news = [a_mark(*place, topic, at) for place in GROUPS for topic in ("t", "u") for at in (5, 9)]
    held = joined_in(tmp_path, news)
    expected = sorted((*place, topic, 5, 9, 2) for place in GROUPS for topic in ("t", "u"))
    assert sorted(mark for marks in held for mark in marks) == expected
    assert all(marks == sorted(marks) for marks in held)
    assert len(held) == {1: len(GROUPS), 7: -(-len(GROUPS) * 4 // 7), 1_000: 1}[rows]


def test_no_news_is_one_share_of_nothing(tmp_path: Path) -> None:
    assert joined_in(tmp_path, []) == [[]]


@pytest.mark.parametrize("rows", [1, 7, 1_000])
def test_a_share_reads_only_files_that_hold_its_groups(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shares, "ROWS", rows)
    files = {}
    for cluster in ("a", "a-b", "b"):
        marks = [a_mark(of, group, "t", 5) for of, group in GROUPS if of == cluster]
        records = [
            {"cluster_id": cluster, "group_id": "orders", "source_kind": "record", "ref": f"record:t-0@{cluster}"}
        ]
        for name, table in (
            ("mark", pa.Table.from_pylist(marks, PARTIAL_MARK)),
            ("event", rows_to_table("silver.group_event", records)),
        ):
            files[name, cluster] = str(tmp_path / f"{name}-{cluster}.parquet")
            pq.write_table(table, files[name, cluster])
    marked, events = ([files[name, of] for of in ("a", "a-b", "b")] for name in ("mark", "event"))
    work = shares.shares_of(shares.MarkFiles(partial=marked, known=[], events=events)).to_pylist()
    reads = Counter(file for share in work for name in ("partial", "events") for file in share[name])
    if rows == 1:
        assert all(len(share["partial"]) == 1 for share in work)
        assert sum(reads.values()) <= 2 * len(work) + len(events)
    assert set(reads) == {*marked, *events}


def test_shares_with_groups_that_are_folded_again_are_joined_once_more() -> None:
    edges = [(None, None), ("a", "m"), ("b", "c"), (None, None)]
    work = pa.Table.from_pylist(
        [
            {"from_cluster": begin[0], "from_group": begin[1], "to_cluster": end[0], "to_group": end[1]}
            for begin, end in pairwise(edges)
        ]
    )
    for places, expected in (
        ([("a", "a")], [0]),
        ([("a", "m")], [1]),
        ([("b", "b"), ("b", "c")], [1, 2]),
        ([], []),
    ):
        groups = pa.table({"cluster_id": [of for of, _ in places], "group_id": [group for _, group in places]})
        found = shares.with_any_of(work, groups)
        assert found.to_pylist() == [work.to_pylist()[at] for at in expected]
