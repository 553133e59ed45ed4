"""Evidence on its way: golden captures as landing files, whole, cut, shuffled or repeated."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from ingest.evidence import import_evidence
from ingest.folders import EvidenceFolder
from ingest.landing import Landing
from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.storage import files_at
from rebalance_audit.warehouse.warehouse import Warehouse

NOUNS = ("record", "log_line", "source")
GOLD = [t.name for t in tables.TABLES if t.layer == "gold" and t.name not in tables.UNPUBLISHED]
Landed = dict[str, pa.Table]
"""What landed, by noun."""


def landed(folders: Sequence[Path | EvidenceFolder], scratch: Path) -> Landed:
    Warehouse.open(scratch, create=True)
    for folder in folders:
        import_evidence(folder, Landing(scratch))
    warehouse = Warehouse.open(scratch)
    return {
        noun: pa.concat_tables(
            [arrow_schema(f"bronze.{noun}").empty_table(), *map(pq.read_table, warehouse.landed(noun))]
        )
        for noun in NOUNS
    }


def deliver(warehouse: Warehouse, name: str, parts: Mapping[str, pa.Table]) -> None:
    """One landing file per noun."""
    files = files_at(warehouse.location)
    for noun, rows in parts.items():
        if rows.num_rows:
            sink = pa.BufferOutputStream()
            pq.write_table(rows, sink)
            files.write(f"landing/{noun}/{name}.parquet", sink.getvalue())


def together(flushes: Sequence[Landed]) -> Landed:
    return {noun: pa.concat_tables([flush[noun] for flush in flushes]) for noun in flushes[0]}


def some_order(draw: Random, count: int, *, swaps: bool) -> list[int]:
    """The numbers of so many flushes; two of them but the first change places where it `swaps`."""
    order = list(range(count))
    if swaps:
        a, b = draw.sample(range(1, count), 2)
        order[a], order[b] = order[b], order[a]
    return order


def cut(rows: pa.Table, pieces: int) -> list[pa.Table]:
    """Pieces in the order of the rows, of nearly the same size."""
    size = -(-rows.num_rows // pieces)
    return [rows.slice(at * size, size) for at in range(pieces)]


def by_place(everything: Landed) -> Landed:
    """Records of all partitions by their time, lines by their place: as live collectors would meet them."""
    order = {
        "record": [
            ("timestamp_ms", "ascending"),
            ("topic", "ascending"),
            ("partition", "ascending"),
            ("offset", "ascending"),
        ],
        "log_line": [("byte", "ascending"), ("node", "ascending"), ("file_id", "ascending")],
        "source": [("source", "ascending")],
    }
    return {noun: rows.sort_by(order[noun]) for noun, rows in everything.items()}


def rows_of(warehouse: Warehouse, table: str, without: Sequence[str] = ()) -> list[str]:
    """Every row as text, sorted: equal lists are equal tables."""
    columns = ", ".join(f'"{c.name}"' for c in tables.BY_NAME[table].columns if c.name not in without)
    found: list[dict[str, Any]] = warehouse.query(f"SELECT {columns} FROM {table}").to_pylist()
    return sorted(json.dumps(row, sort_keys=True, default=repr) for row in found)


def gold(warehouse: Warehouse) -> dict[str, list[str]]:
    """What readers see. `revision` counts changes and so depends, rightly, on how evidence came."""
    return {table: rows_of(warehouse, table, without=["revision"]) for table in GOLD}
