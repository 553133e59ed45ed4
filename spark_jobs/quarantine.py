"""Landing files that bronze does not take in, and their way back. Decision 0031.

A file that breaks a law of its table, or that cannot be read, stays in `landing/`, and a row of gold.quarantine says
so. Everything else goes on. The ledger's entry of the same landing waits as well: it must not stand for evidence that
is not there. `release` looks again, with the laws of today.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.storage import located
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from spark_jobs.checks import KEY_CHECK
from spark_jobs.compiled_checks import verdicts_of

TABLE = "gold.quarantine"
_KEY = ["batch", "table_name"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a landing file is not taken in."""

    problem: str
    row_count: int | None = None
    examples: list[str] = field(default_factory=list)


def batch_of(file: str) -> str:
    """The landing's id, by which a file is called."""
    return PurePosixPath(file).stem


def held(warehouse: Warehouse) -> list[dict[str, Any]]:
    """Rows of gold.quarantine that wait, by batch."""
    rows = warehouse.read(TABLE, where="status = 'held'").to_pylist()
    return sorted(rows, key=lambda row: (row["batch"], row["table_name"]))


def refusal_of(table: str, file: str) -> Refusal | None:
    """The fault of this landing file by itself, as a sentence; None if there is none. A repeat inside it is no fault,
    since bronze removes repeats."""
    try:
        fs, path = located(file)
        footer = pq.read_metadata(path, filesystem=fs)  # afresh: somebody may have mended it
        row_count = footer.num_rows
        if lacking := sorted(_required(table) - set(footer.schema.to_arrow_schema().names)):
            return Refusal(f"has no column {', '.join(lacking)}", row_count)
        broken = [
            v
            for v in verdicts_of(table, [file], "quarantine")
            if v["is_fatal"] and not v["success"] and v["check_name"] != KEY_CHECK
        ]
    except (duckdb.Error, pa.ArrowInvalid):
        return Refusal("cannot be read: it is no whole Parquet file with the columns of its table")
    if not broken:
        return None
    laws = ", ".join(f"{v['check_name']!r} for {v['unexpected_count']:,} of {row_count:,} rows" for v in broken)
    return Refusal(f"breaks {laws}", row_count, [str(v["examples"][0]) for v in broken])


def hold(warehouse: Warehouse, table: str, files: Iterable[str]) -> dict[str, str]:
    """Put aside those of these files with which something is wrong: a sentence by file. For the one writer."""
    found = {file: refusal for file in files if (refusal := refusal_of(table, file)) is not None}
    now_ms = time.time_ns() // 1_000_000
    rows = [
        {
            "batch": batch_of(file), "table_name": table, "status": "held", "held_at_ms": now_ms,
            "row_count": refusal.row_count, "problem": refusal.problem, "examples": refusal.examples,
        }
        for file, refusal in found.items()
    ]  # fmt: skip
    _replace(warehouse, rows)
    place = warehouse.location
    return {file: _sentence(place, batch_of(file), table, refusal.problem) for file, refusal in found.items()}


def _sentence(location: str, batch: str, table: str, problem: str) -> str:
    return (
        f"{batch} was put aside: its file for {table} {problem}. Everything else goes on; when that is mended, "
        f"`rebalance-audit check -w {location} --release {batch}` brings it back."
    )


def release(warehouse: Warehouse, batch: str) -> int:
    """Let the next run take the batch in. How many files. Raises WarehouseError where there is no such batch, or where
    something is still wrong with it: then nothing is released. For the one writer.
    """
    waiting = held(warehouse)
    mine = [row for row in waiting if row["batch"] == batch]
    if not mine:
        names = sorted({row["batch"] for row in waiting})
        known = f"there are {', '.join(names)}" if names else "nothing is"
        raise WarehouseError(f"No batch {batch!r} is in quarantine at {warehouse.location}; {known}.")
    for row in mine:
        files = {batch_of(file): file for file in warehouse.landed(row["table_name"].partition(".")[2])}
        if batch not in files:
            raise WarehouseError(
                f"{batch}: its landing file for {row['table_name']} is gone; put it back, or read its source again."
            )
        refusal = refusal_of(row["table_name"], files[batch])
        if refusal is not None:
            raise WarehouseError(
                f"{batch} stays in quarantine: its file for {row['table_name']} {refusal.problem}"
                + (f", e.g. {refusal.examples[0]}" if refusal.examples else "")
                + "."
            )
    now_ms = time.time_ns() // 1_000_000
    _replace(warehouse, [row | {"status": "released", "released_at_ms": now_ms} for row in mine])
    return len(mine)


def _replace(warehouse: Warehouse, rows: Sequence[dict[str, Any]]) -> None:
    if rows:
        data = rows_to_table(TABLE, list(rows))
        warehouse.replace(TABLE, data, data.select(_KEY))


def _required(table: str) -> set[str]:
    return {column.name for column in tables.BY_NAME[table].columns if column.required}
