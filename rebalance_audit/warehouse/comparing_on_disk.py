"""Which stored rows are not among those that arrive, and the other way round, where both may be many as in a backfill.

Of each row its hash and its place are kept, in a database that goes to disk where they are much: rows themselves are
never all in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TypeAlias

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rebalance_audit.warehouse.comparing import agreeing, hash_of
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.queries import bounded, cursor, database
from rebalance_audit.warehouse.storage import relation

Places: TypeAlias = Sequence[int] | npt.NDArray[np.int64]
"""Row numbers in a file."""
_MEMORY = "256MB"
_MANY_KEYS, _MANY_ROWS = 20_000, 100_000
"""From here on in a database of its own, which has to read each file's footer once more."""


@dataclass(frozen=True, slots=True)
class Compared:
    gone: dict[str, Places]
    """Rows that go, by their file."""
    new: dict[int, Places]
    """Rows that come, by the number of their file or table."""
    is_all_new: bool
    changed: pa.Table
    """The columns asked for of all of these, each row of them once."""


def compared_on_disk(
    schema: pa.Schema,
    stored: pa.Table | str,
    files: Sequence[str],
    data: Sequence[str] | Sequence[pa.Table],
    keys: pa.Table,
    since: str | None,
    columns: Sequence[str],
) -> Compared:
    """`stored`: the rows of these files, or some that include all of the keys, each with `filename` and
    `file_row_number`; as a table or as SQL. `data`: rows that arrive, in tables or files."""
    row, listed = hash_of(schema), "".join(f't."{column}", ' for column in columns)
    arrived_files = [at if isinstance(at, str) else str(number) for number, at in enumerate(data)]
    rows = max(_row_count(data), _row_count(files) if isinstance(stored, str) else stored.num_rows)
    with _database(keys.num_rows, rows) as db:
        db.register("k", keys.group_by(keys.schema.names).aggregate([]) if keys.num_columns else keys)
        sources = {"stored": stored, "arrived": _together(schema, data)}
        wanted = f" WHERE EXISTS (SELECT 1 FROM k WHERE {agreeing(keys.schema.names, since)})"
        for name, names, where in (("stored", files, wanted), ("arrived", arrived_files, "")):
            if isinstance(source := sources[name], pa.Table):
                db.register(f"{name}_rows", source)
                source = f"{name}_rows"
            # Files by their numbers: a name is longer than all else that is kept of a row.
            numbers = pa.table({"filename": pa.array(names, pa.string()), "file": np.arange(len(names))})
            db.register(f"{name}_file", numbers)
            db.execute(
                f"CREATE TEMP TABLE {name} AS SELECT * EXCLUDE filename FROM (SELECT {listed}t.filename, "
                f"t.file_row_number AS place, {row} AS h FROM {source} t{where}) JOIN {name}_file USING (filename)"
            )
        for name, table, other in (("gone", "stored", "arrived"), ("new", "arrived", "stored")):
            db.execute(f"CREATE TEMP TABLE {name} AS FROM {table} ANTI JOIN (SELECT h FROM {other}) USING (h)")
        chosen = ", ".join(f'"{column}"' for column in columns) or "NULL AS nothing"
        changed = db.execute(f"SELECT DISTINCT {chosen} FROM (FROM gone UNION ALL FROM new)").to_arrow_table()
        gone = {files[number]: at for number, at in _places_in(db, "gone").items()}
        new = _places_in(db, "new")
        arrived_count = db.execute("SELECT count(*) FROM arrived").fetchone()
    is_all_new = arrived_count == (sum(map(len, new.values())),)
    return Compared(gone, new, is_all_new, changed.select(columns))


def _row_count(data: Sequence[str] | Sequence[pa.Table]) -> int:
    return sum(row_count_in(each) if isinstance(each, str) else each.num_rows for each in data)


def _database(keys: int, rows: int) -> AbstractContextManager[duckdb.DuckDBPyConnection]:
    if keys < _MANY_KEYS and rows < _MANY_ROWS:
        shared: AbstractContextManager[duckdb.DuckDBPyConnection] = cursor()
        return shared
    own: AbstractContextManager[duckdb.DuckDBPyConnection] = database(**(bounded() | {"memory_limit": _MEMORY}))
    return own


def _together(schema: pa.Schema, data: Sequence[str] | Sequence[pa.Table]) -> pa.Table | str:
    tables = [each for each in data if not isinstance(each, str)]
    if data and not tables:
        return relation([each for each in data if isinstance(each, str)], with_name=True, with_row=True)
    parts = [
        part.append_column("filename", pa.array([str(number)] * part.num_rows, pa.string())).append_column(
            "file_row_number", pa.array(np.arange(part.num_rows))
        )
        for number, part in enumerate(tables)
    ]
    named = schema.append(pa.field("filename", pa.string())).append(pa.field("file_row_number", pa.int64()))
    return pa.concat_tables([named.empty_table(), *parts])


def _places_in(db: duckdb.DuckDBPyConnection, table: str) -> dict[int, Places]:
    """The places of this table's rows, by the number of their file."""
    rows = db.execute(f"SELECT file, place FROM {table}").to_arrow_table()
    file, at = rows["file"].to_numpy(), rows["place"].to_numpy()
    order = np.lexsort((at, file))
    numbers, begins = np.unique(file[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(at[order], begins)[1:], strict=True))
