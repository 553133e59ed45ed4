"""Which records of a file are offset commits, and that every record is read once, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rebalance_audit.warehouse.arrow_tables import arrow_schema
from spark_jobs import record_files
from spark_jobs.record_files import COLUMNS, commits_in, others_in

A_COMMIT, LEGACY, A_GROUP = b"\x00\x01\x00\x01g", b"\x00\x00\x00\x01g", b"\x00\x02\x00\x01g"
PLAIN: dict[str, Any] = {
    "cluster_id": "lab",
    "topic": "__consumer_offsets",
    "partition": 3,
    "timestamp_ms": 7,
    "copy": 0,
}
ROWS: list[tuple[dict[str, Any], bool]] = [
    ({"key": A_COMMIT, "value": b"v"}, True),
    ({"key": LEGACY, "value": None}, True),
    ({"key": A_COMMIT, "is_control": False, "is_transactional": True, "producer_id": 9}, True),
    ({"key": A_GROUP}, False),
    ({"key": None}, False),
    ({"key": b"\x00"}, False),
    ({"key": b""}, False),
    ({"key": A_COMMIT, "copy": 1}, False),
    ({"key": b"\x00\x00\x00\x01", "is_control": True}, False),
    ({"key": A_COMMIT, "topic": "connect-status"}, False),
]


def written(folder: Path, *, without: tuple[str, ...] = ()) -> pa.RecordBatch:
    """A file of two row groups; what there is to read of it."""
    rows = [PLAIN | {"offset": n} | given for n, (given, _) in enumerate(ROWS)]
    table = pa.Table.from_pylist(rows, schema=arrow_schema("bronze.record")).drop_columns(list(without))
    pq.write_table(table, folder / "a.parquet", row_group_size=6)
    named = {"table": "bronze.record", "file": str(folder / "a.parquet")}
    return pa.RecordBatch.from_pylist([named | {"row_group": n} for n in range(2)])


def offsets(read: Callable[[pa.RecordBatch], Iterator[pa.RecordBatch]], named: pa.RecordBatch) -> list[int]:
    return [offset for batch in read(named) for offset in batch.column("offset").to_pylist()]


@pytest.mark.parametrize("without", [(), ("producer_id", "is_transactional")], ids=["whole", "an older file"])
def test_every_record_is_a_commit_or_another(tmp_path: Path, without: tuple[str, ...]) -> None:
    named = written(tmp_path, without=without)
    assert offsets(commits_in, named) == [n for n, (_, is_commit) in enumerate(ROWS) if is_commit]
    assert offsets(others_in, named) == [n for n, (_, is_commit) in enumerate(ROWS) if not is_commit]


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    first, *_ = commits_in(written(tmp_path))
    rows = pa.Table.from_batches([first]).to_pylist()
    nothing: dict[str, Any] = dict.fromkeys(COLUMNS)
    assert rows == [nothing | PLAIN | {"offset": n} | ROWS[n][0] for n in range(3)]


def test_a_column_a_file_lacks_is_null(tmp_path: Path) -> None:
    first, *_ = commits_in(written(tmp_path, without=("is_control", "producer_id")))
    assert first.column("producer_id").to_pylist() == [None] * 4  # of both row groups
    assert first.schema.names == list(COLUMNS)


def test_commits_of_small_files_come_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [[b"\x00\x01\x00\x01a", A_GROUP], [b"\x00\x01\x00\x01b"], [b"\x00\x01\x00\x01a"] * 2]
    named = []
    for number, of_file in enumerate(keys):
        rows = [PLAIN | {"offset": 10 * number + n, "key": key} for n, key in enumerate(of_file)]
        file = tmp_path / f"{number}.parquet"
        pq.write_table(pa.Table.from_pylist(rows, schema=arrow_schema("bronze.record")), file)
        named.append({"table": "bronze.record", "file": str(file), "row_group": 0})
    work = pa.RecordBatch.from_pylist(named)
    (together,) = commits_in(work)
    assert together.column("offset").to_pylist() == [0, 10, 20, 21]
    assert together.column("key").to_pylist() == [keys[0][0], keys[1][0], *keys[2]]
    monkeypatch.setattr(record_files, "_ROWS", 3)
    assert [batch.column("offset").to_pylist() for batch in commits_in(work)] == [[0, 10], [20, 21]]
