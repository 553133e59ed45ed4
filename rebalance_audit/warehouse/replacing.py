"""What replacing the rows of some keys changes in a table's files: rows that stay the same are not written again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import in_types_of, whole
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import (
    ROW_GROUP_ROWS,
    SOON_REPLACED,
    SOON_REPLACED_ROWS,
    chosen_rows,
    footer,
    is_soon_replaced,
    open_writer,
)
from rebalance_audit.warehouse.storage import located, relation

JOINED_ROWS = 100
"""What is left of small files is joined up to so many rows in a file. More would be read and written again by the next
commits that take a row away."""
_IN_MEMORY_ROWS = 5_000
"""So many rows that are already in files are read and split; of more, a file that is new as a whole is linked."""
_ASKED_AT_MOST = 500
"""Of so few values of a key's column, only row groups that may hold one are read."""


@dataclass(frozen=True, slots=True)
class Differing:
    touched: list[str]
    """Files that hold rows which must go."""
    kept: list[str]
    """Names of new files in the table's folder, with what else the touched ones held."""
    fresh: Sequence[pa.Table | str]
    """Of the new rows those that are not there yet; files of which all rows are new as they were given."""
    keys: pa.Table
    """Under which anything changes."""


def agreeing(columns: Sequence[str], since: str | None) -> str:
    """SQL: the row `t` is one of the key `k`; see `Warehouse.replace`."""
    same = [f't."{c}" IS NOT DISTINCT FROM k."{c}"' for c in columns if c != since]
    if since is not None:
        same.append(f'(k."{since}" IS NULL OR t."{since}" >= k."{since}")')
    return " AND ".join(same) or "true"


def differing(
    folder: str,
    schema: pa.Schema,
    files: Sequence[str],
    data: pa.Table | Sequence[str],
    keys: pa.Table,
    since: str | None = None,
    own: Sequence[str] = (),
) -> Differing:
    """What differs between `data` and the rows of these files under these keys. Rows are compared by a hash of them.
    `own`: the table's key, by which what changed is named as well."""
    of_keys = agreeing(keys.schema.names, since)
    columns = list(dict.fromkeys([*(column for column in keys.schema.names if column != since), *own]))
    listed = ", ".join(f't."{column}"' for column in columns)
    row = "hash({" + ", ".join(f"'{c}': t.\"{c}\"" for c in schema.names) + "})"
    parts = _in_memory(data, schema)
    with cursor() as db:
        db.register("k", keys.group_by(keys.schema.names).aggregate([]) if keys.num_columns else keys)
        stored = db.execute(
            f"SELECT {listed}, filename, file_row_number, {row} h FROM {_stored(db, schema, files, keys)} t "
            f"WHERE EXISTS (SELECT 1 FROM k WHERE {of_keys})"
        ).to_arrow_table()
        if parts is None:
            arrived = db.execute(f"SELECT {listed}, {row} h FROM {relation(data)} t").to_arrow_table()
        else:
            joined = pa.concat_tables([schema.empty_table(), *parts])
            numbers = pa.array(np.arange(joined.num_rows))
            db.register("data", joined.append_column("file_row_number", numbers))
            arrived = db.execute(f"SELECT {listed}, file_row_number, {row} h FROM data t").to_arrow_table()
        gone = stored.filter(pc.invert(pc.is_in(stored["h"], arrived["h"].combine_chunks())))
        new = arrived.filter(pc.invert(pc.is_in(arrived["h"], stored["h"].combine_chunks())))
        fresh: Sequence[pa.Table | str]
        if new.num_rows == arrived.num_rows and not isinstance(data, pa.Table):
            fresh = data
        elif parts is not None:
            fresh = _chosen(parts, data, np.sort(new["file_row_number"].to_numpy()))
        elif new.num_rows == 0:
            fresh = []
        else:
            own_columns = ", ".join(f't."{column}"' for column in schema.names)
            db.register("new", new.select(["h"]))
            found = db.execute(f"SELECT {own_columns} FROM {relation(data)} t WHERE {row} IN (SELECT h FROM new)")
            fresh = [in_types_of(found.to_arrow_table(), schema)]
    key_schema = pa.schema([schema.field(column) for column in columns])
    changed = pa.concat_tables([gone.select(columns), new.select(columns)]).cast(key_schema)
    touched, kept = _kept(gone, folder, schema)
    return Differing(touched, kept, fresh, changed.group_by(columns).aggregate([]) if columns else changed)


def _in_memory(data: pa.Table | Sequence[str], schema: pa.Schema) -> list[pa.Table] | None:
    """The rows, a table for each file; None if these are many in files."""
    if isinstance(data, pa.Table):
        return [whole(data, schema)]
    if sum(footer(file).num_rows for file in data) > _IN_MEMORY_ROWS:
        return None
    return [whole(pq.read_table(path, filesystem=fs), schema) for fs, path in map(located, data)]


def _chosen(
    parts: Sequence[pa.Table], data: pa.Table | Sequence[str], rows: npt.NDArray[np.int64]
) -> list[pa.Table | str]:
    """Of each table the rows with these places in all of them together; of all rows of a file, its name."""
    found: list[pa.Table | str] = []
    begin = 0
    for at, part in enumerate(parts):
        inside = rows[(rows >= begin) & (rows < begin + part.num_rows)] - begin
        begin += part.num_rows
        if len(inside) == part.num_rows and not isinstance(data, pa.Table):
            found.append(data[at])
        elif len(inside):
            found.append(part.take(pa.array(inside)))
    return found


def _stored(db: duckdb.DuckDBPyConnection, schema: pa.Schema, files: Sequence[str], keys: pa.Table) -> str:
    """Rows among which are all of these keys, each with its file and place there, as DuckDB names them."""
    few = _few(keys)
    if few is None:
        return relation(files, with_name=True, with_row=True)
    parts = []
    for chosen in chosen_rows(files, schema, *few):
        names = pa.array([chosen.file] * chosen.rows.num_rows, pa.string())
        parts.append(chosen.rows.append_column("filename", names).append_column("file_row_number", chosen.places))
    placed = schema.append(pa.field("filename", pa.string())).append(pa.field("file_row_number", pa.int64()))
    db.register("placed", pa.concat_tables([placed.empty_table(), *parts]))
    return "placed"


def _few(keys: pa.Table) -> tuple[str, list[str]] | None:
    """A column of the keys with so few values that files are asked for them."""
    for field in keys.schema:
        if pa.types.is_string(field.type) and field.name != "cluster_id":
            values = keys[field.name].unique()
            if 0 < len(values) <= _ASKED_AT_MOST and not values.null_count:
                return field.name, values.to_pylist()
    return None


def _kept(gone: pa.Table, folder: str, schema: pa.Schema) -> tuple[list[str], list[str]]:
    """The files that hold rows which must go, and new ones with all others that these hold."""
    places: dict[str, list[int]] = {}
    for file, row in zip(gone["filename"].to_pylist(), gone["file_row_number"].to_pylist(), strict=True):
        places.setdefault(file, []).append(row)
    batches: list[list[str]] = []
    filled: dict[bool, int] = {}
    last: dict[bool, list[str]] = {}
    for rows, file in sorted((footer(file).num_rows - len(rows), file) for file, rows in places.items()):
        if rows == 0:
            continue
        soon = is_soon_replaced(file)
        most = SOON_REPLACED_ROWS if soon else JOINED_ROWS
        if soon not in last or filled[soon] + rows > most:
            last[soon], filled[soon] = [], 0
            batches.append(last[soon])
        last[soon].append(file)
        filled[soon] += rows
    kept = []
    for batch in batches:
        name = f"{SOON_REPLACED if is_soon_replaced(batch[0]) else 'part'}-{uuid.uuid4().hex}.parquet"
        _write_others(f"{folder}/{name}", schema, {file: places[file] for file in batch})
        kept.append(name)
    return sorted(places), kept


def _write_others(target: str, schema: pa.Schema, gone: Mapping[str, Sequence[int]]) -> None:
    """The rows of these files but for those in these places, in their order, one row group at a time."""
    to_fs, to_path = located(target)
    with open_writer(to_path, schema, to_fs) as writer:
        for file, rows in gone.items():
            at, places = 0, pa.array(sorted(rows), pa.int64())
            fs, path = located(file)
            with pq.ParquetFile(path, filesystem=fs, metadata=footer(file)) as held:
                for number in range(held.metadata.num_row_groups):
                    group = held.read_row_group(number, use_threads=False)
                    here = pa.array(range(at, at + group.num_rows), pa.int64())
                    others = group.filter(pc.invert(pc.is_in(here, places)))
                    at += group.num_rows
                    if others.num_rows:
                        writer.write_table(whole(others, schema), row_group_size=ROW_GROUP_ROWS)
