"""Which stored rows are not among those that arrive, and the other way round, column by column in Arrow.

Rows are paired by the table's key. DuckDB takes 20 ms for two handfuls of rows with sixty nested columns, since it
hashes all of them. Nearly all columns are the same, and Arrow says so in some microseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

FEW_ROWS = 50_000
"""Up to so many rows on either side are paired in Python."""


def agreeing(columns: Sequence[str], since: str | None) -> str:
    """SQL: the row `t` is one of the key `k`; see `Warehouse.replace`."""
    same = [f't."{c}" IS NOT DISTINCT FROM k."{c}"' for c in columns if c != since]
    if since is not None:
        same.append(f'(k."{since}" IS NULL OR t."{since}" >= k."{since}")')
    return " AND ".join(same) or "true"


def hash_of(schema: pa.Schema) -> str:
    """SQL: the same for rows `t` that are the same."""
    return "hash({" + ", ".join(f"'{c}': t.\"{c}\"" for c in schema.names) + "})"


def is_few(*rows: pa.Table) -> bool:
    return all(table.num_rows <= FEW_ROWS for table in rows)


def of_keys(rows: pa.Table, keys: pa.Table, since: str | None) -> npt.NDArray[np.int64]:
    """The places of rows that are of one of the keys; see `Warehouse.replace`."""
    columns = [name for name in keys.schema.names if name != since]
    floors: dict[tuple[Any, ...], Any] = {}
    bounds = [None] * keys.num_rows if since is None else keys[since].to_pylist()
    for key, floor in zip(_tuples(keys, columns), bounds, strict=True):
        before = floors.setdefault(key, floor)
        floors[key] = None if before is None or floor is None else min(before, floor)
    values = [None] * rows.num_rows if since is None else rows[since].to_pylist()
    found = [
        at
        for at, (key, value) in enumerate(zip(_tuples(rows, columns), values, strict=True))
        if key in floors and ((floor := floors[key]) is None or (value is not None and value >= floor))
    ]
    return np.array(found, np.int64)


def differing_rows(
    stored: pa.Table, arrived: pa.Table, key: Sequence[str]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]] | None:
    """The places of stored rows that are not among the arrived ones, and of arrived ones that are not stored. The same
    columns in the same order; `key` names the columns that pair rows. None where a key occurs twice on a side."""
    before, after = ({of_row: at for at, of_row in enumerate(_tuples(rows, key))} for rows in (stored, arrived))
    if len(before) != stored.num_rows or len(after) != arrived.num_rows:
        return None
    both = [(at, after[of_row]) for of_row, at in before.items() if of_row in after]
    differs = _differing(*(_taken(rows, [pair[side] for pair in both]) for side, rows in enumerate((stored, arrived))))
    same = [pair for at, pair in enumerate(both) if at not in differs]
    gone = np.setdiff1d(np.arange(stored.num_rows), [at for at, _ in same])
    return gone, np.setdiff1d(np.arange(arrived.num_rows), [at for _, at in same])


def _taken(rows: pa.Table, places: Sequence[int]) -> pa.Table:
    return rows if list(places) == list(range(rows.num_rows)) else rows.take(pa.array(places, pa.int64()))


def _differing(before: pa.Table, after: pa.Table) -> set[int]:
    """The places at which these rows differ, pair by pair."""
    found: set[int] = set()
    for name in before.schema.names:
        _add_differing(before[name], after[name], 0, found)
    return found


def _add_differing(before: pa.ChunkedArray, after: pa.ChunkedArray, first: int, found: set[int]) -> None:
    """Halves a column until the values that differ stand alone."""
    if len(before) == 0 or before.equals(after):
        return
    if len(before) == 1:
        # nan is no other value than nan. A list of a whole storm's rebalances is not made objects to be compared.
        if not _may_be_nan(before.type) or repr(before[0].as_py()) != repr(after[0].as_py()):
            found.add(first)
        return
    half = len(before) // 2
    _add_differing(before.slice(0, half), after.slice(0, half), first, found)
    _add_differing(before.slice(half), after.slice(half), first + half, found)


def _may_be_nan(type_: pa.DataType) -> bool:
    """Whether a value of the type may be nan, or have it in it."""
    return pa.types.is_floating(type_) or any(_may_be_nan(type_.field(at).type) for at in range(type_.num_fields))


def _tuples(rows: pa.Table, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    if not columns:
        return iter([()] * rows.num_rows)
    return zip(*(rows[name].to_pylist() for name in columns), strict=True)
