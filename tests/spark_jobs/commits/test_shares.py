"""Marks of much news are joined in shares: each group is in one of them, whatever it is called."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse.arrow_tables import arrow_schema
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
    asked = shares.DriverTables(again=none, rebuilt=PARTIAL_MARK.empty_table(), floor=floor.empty_table())
    looked = engine.spread(work, shares.looking(str(folder), sources, engine.share(none)), WRITTEN)
    assert shares.rows_in(looked, "again").num_rows == 0
    held = []
    for share in work.to_batches(1):
        task = shares.joining_shares(str(folder), sources, engine.share(asked))
        written = files_by_table(engine.spread(pa.Table.from_batches([share]), task, WRITTEN))
        assert "replaced" not in written
        tables = [pq.read_table(file) for file in written.get("silver.commit_mark", [])]
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
