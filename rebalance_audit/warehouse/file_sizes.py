"""How many rows go into one file of a table: to remove one row, the others of its file are written again."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_in_order
from rebalance_audit.warehouse.row_groups import ROW_GROUP_ROWS, SOON_REPLACED_ROWS, is_soon_replaced

APPENDED: Final = frozenset({"silver.group_event", "silver.undecoded"})
"""Beside bronze, the tables in which no row is ever replaced."""
ASKED_FOR_GROUPS: Final = frozenset({"silver.group_event"})
"""Of these, the tables that each run asks for a few groups, most often for what is not long ago."""
INSTANT_OF: Final = dict.fromkeys(ASKED_FOR_GROUPS, ("at_ms",))
"""The column of these tables in whose order the rows of a group are."""
_WIDE = frozenset({"silver.measured_rebalance"})
JOINED_ROWS: Final = 100
"""The rows that are left of small files are joined into files of at most this many rows. The next commits that remove a
row would have to read and write more."""
_MOST_ROWS = {
    # Every row has sixty nested columns, and one of a member's whole life changes when its client library is known.
    "silver.measured_rebalance": 250,
    "silver.group_event": 100_000,
    "gold.rebalance": 1_000,
    "gold.rebalance_member": 1_000,
    # Each cycle takes a few rows away from wherever they are.
    "gold.movement": 4_000,
    # Neighbours lie together, and each cycle changes some that are over wherever they are.
    "gold.finding": 4_000,
    "silver.commit_mark": 2_000,
    # They lie in the order of their ids, so the few that a cycle changes are all in files of their own.
    "gold.incident": 500,
}
_MOST_OF_OTHERS, _MOST_OF_APPENDED = 20_000, 1_000_000
_MOST_AT_ONCE = {"silver.measured_rebalance": 1_000, "gold.incident": 2_000}
"""The most rows in a file, for rows that are written together. Opening 155 columns of a file takes as long as reading
or writing 250 rows. If one of the rows is removed later, the others are split into smaller files."""

SOON_REPLACED_AT_ONCE: Final = 250
"""The most rows that are soon replaced in a file of a process that writes many. A tenth of a first run went into files
of fifty wide rows, which each stage opened again. Such a file is halved whenever one of its rows goes."""
_WIDE_ROW_GROUP_ROWS = 250
"""Who asks for a group wants some ten rows. To read 250 of 157 columns takes 3 ms, 1,000 take 11. To write 1,000 in
four row groups takes a third longer, to read them all a seventh."""
_is_much = False


def expect_much() -> None:
    """From here on this process writes many rows at once, as a worker of Spark does."""
    global _is_much
    _is_much = True


def is_appended(table: str) -> bool:
    return table.startswith("bronze.") or table in APPENDED


def most_rows(table: str, *, is_soon_replaced: bool) -> int:
    """The most rows in one file of the table."""
    if is_soon_replaced:
        return SOON_REPLACED_ROWS
    return _MOST_ROWS.get(table, _MOST_OF_APPENDED if is_appended(table) else _MOST_OF_OTHERS)


def most_rows_at_once(table: str, *, is_soon_replaced: bool) -> int:
    """The most rows in one file if all its rows are new."""
    most = most_rows(table, is_soon_replaced=is_soon_replaced)
    if is_soon_replaced:
        return SOON_REPLACED_AT_ONCE if _is_much else most
    return _MOST_AT_ONCE.get(table, most)


def row_group_rows(table: str) -> int:
    """Rows per row group of the table's files, where it is read by few groups or keys at a time."""
    return _WIDE_ROW_GROUP_ROWS if table in _WIDE else ROW_GROUP_ROWS


def compression_of(table: str, file: str, row_count: int) -> str:
    """The codec of a file of the table. A few hundred rows of 150 columns are thousands of tiny pages. zstd takes half
    as long again to write and to read them as Snappy, and every stage reads such rows. A file that is soon replaced or
    joined need not be small either. LZ4 is as quick, but fewer programs read it."""
    is_short_lived = is_soon_replaced(file) or row_count <= JOINED_ROWS
    return "snappy" if is_short_lived or table in _WIDE else "zstd"


def has_dictionaries(table: str, row_count: int) -> bool:
    """Whether columns of a file of the table have dictionaries. zstd finds what repeats itself: without them a file of
    gold is up to a tenth smaller, is written in three quarters of the time and read in four fifths. So is one of few
    rows. Of bronze a key that repeats itself is to be one in memory, too."""
    return table.startswith("bronze.") or (table in _WIDE and row_count > JOINED_ROWS)


def leading_column(table: str) -> str:
    """The column by which rows are asked for and ordered in files."""
    known = tables.BY_NAME[table]
    return "group_id" if any(c.name == "group_id" for c in known.columns) else known.key[-1]


def order_of(table: str) -> list[str]:
    """The columns in whose order rows are in files: those of a group together, then by time where that is asked for,
    else by the key."""
    return [*dict.fromkeys((leading_column(table), *INSTANT_OF.get(table, ()), *tables.BY_NAME[table].key))]


def in_order(table: str, rows: pa.Table) -> pa.Table:
    by = order_of(table)
    places = pc.sort_indices(rows.select(by), sort_keys=[(name, "ascending") for name in by])
    return rows_in_order(rows, places.to_numpy())


def soon_replaced(table: str, rows: pa.Table | pa.RecordBatch) -> pa.BooleanArray | pa.ChunkedArray:
    """For each row, whether it will be replaced before long: it is not final, or it shows the present state."""
    if "is_final" in rows.schema.names:
        return pc.invert(pc.fill_null(rows["is_final"], False))
    if table == "gold.group":
        return pa.array([True] * rows.num_rows, pa.bool_())
    if table in ("silver.finding", "gold.finding"):
        return pc.fill_null(pc.equal(rows["status"], "open"), True)
    return pa.array([False] * rows.num_rows, pa.bool_())
