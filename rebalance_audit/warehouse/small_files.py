"""Which small files of a table are joined, and into what: in tiers, so that a row is written again a few times at most.

What joins are the files that came since the last join. So files stay apart by time, and whoever asks for the last hours
passes the older ones over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_audit.domain.tables import BY_NAME
from rebalance_audit.warehouse.arrow_tables import whole
from rebalance_audit.warehouse.row_groups import SOON_REPLACED, SOON_REPLACED_ROWS, is_soon_replaced
from rebalance_audit.warehouse.storage import located

SMALL_FILES = 32
"""So many of a tier are joined: some 30 ms of work in one of 32 cycles, and never many files."""
_TIERS = (64, 1_024)
"""Rows of a file below which it belongs to the first tier, to the second one."""
_APPENDED_TIERS = (*_TIERS, 16_384)
"""Of tables in which no row is ever replaced: nobody writes a large file of theirs again."""
_APPENDED = frozenset({"silver.group_event", "silver.undecoded"})


def is_appended(table: str) -> bool:
    return table.startswith("bronze.") or table in _APPENDED


@dataclass(frozen=True, slots=True)
class Tier:
    kind: str
    """How the names of the joined files begin."""
    joined_rows: int
    """At most so many in each."""
    files: tuple[str, ...]


def tiers_of(table: str, rows_of: Mapping[str, int | None]) -> list[Tier]:
    """`rows_of`: the rows of each file, by path. A file of unknown or many rows is in no tier."""
    tiers = _APPENDED_TIERS if is_appended(table) else _TIERS
    soon: list[str] = []
    cold: list[list[str]] = [[] for _ in tiers]
    for path, rows in sorted(rows_of.items()):
        if rows is None:
            continue
        if is_soon_replaced(path):
            if rows * 2 <= SOON_REPLACED_ROWS:
                soon.append(path)
            continue
        tier = next((at for at, below in enumerate(tiers) if rows < below), None)
        if tier is not None:
            cold[tier].append(path)
    return [
        Tier(SOON_REPLACED, SOON_REPLACED_ROWS, tuple(soon)),
        *(Tier("part", 2 * tiers[-1], tuple(files)) for files in cold),
    ]


def sorted_rows(table: str, files: Iterable[str], schema: pa.Schema) -> pa.Table:
    """Their rows, those of a group together, else in the order of the table's key."""
    parts = []
    for file in files:
        fs, path = located(file)
        parts.append(whole(pq.read_table(path, filesystem=fs, partitioning=None), schema))
    joined = pa.concat_tables(parts)
    names = dict.fromkeys(("cluster_id", *(("group_id",) if "group_id" in schema.names else ()), *BY_NAME[table].key))
    return joined.sort_by([(name, "ascending") for name in names if not pa.types.is_nested(schema.field(name).type)])
