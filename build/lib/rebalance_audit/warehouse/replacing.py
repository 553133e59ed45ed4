"""What replacing the rows of some keys changes in a table's files: rows that stay the same are not written again."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import in_types_of, whole
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import ROW_GROUP_ROWS, footer, open_writer, row_groups_of
from rebalance_audit.warehouse.storage import located, relation

JOINED_ROWS = 2_000
"""What is left of touched files is joined up to so many rows in a file, so that files do not become ever larger."""
_ASKED_AT_MOST = 500
"""Of so few values of a key's column, only row groups that may hold one are read."""


@dataclass(frozen=True, slots=True)
class Differing:
    touched: list[str]
    """Files that hold rows which must go."""
    kept: list[str]
    """Names of new files in the table's folder, with what else the touched ones held."""
    fresh: pa.Table | Sequence[str]
    """Of the new rows those that are not there yet."""
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
) -> Differing:
    """What differs between `data` and the rows of these files under these keys. Rows are compared by a hash of them."""
    of_keys = agreeing(keys.schema.names, since)
    columns = [column for column in keys.schema.names if column != since]
    listed = ", ".join(f'"{column}"' for column in columns)
    row = "hash({" + ", ".join(f"'{c}': t.\"{c}\"" for c in schema.names) + "})"
    with cursor() as db:
        db.register("k", keys.group_by(keys.schema.names).aggregate([]) if columns else keys)
        stored = _stored(db, schema, files, keys)
        db.execute(
            f"CREATE TEMP TABLE stored AS SELECT {listed}, filename, file_row_number, {row} h FROM {stored} t "
            f"WHERE EXISTS (SELECT 1 FROM k WHERE {of_keys})"
        )
        if len(data) == 0:
            arrived = None
        elif isinstance(data, pa.Table):
            db.register("data", data)
            arrived = "data"
        else:
            arrived = relation(data)
        db.execute(
            f"CREATE TEMP TABLE arrived AS SELECT {listed}, {row} h FROM {arrived} t"
            if arrived
            else "CREATE TEMP TABLE arrived AS SELECT * EXCLUDE (filename, file_row_number) FROM stored LIMIT 0"
        )
        db.execute("CREATE TEMP TABLE gone AS FROM stored ANTI JOIN arrived USING (h)")
        changed = db.execute(
            f"SELECT {listed} FROM gone UNION SELECT {listed} FROM arrived ANTI JOIN stored USING (h)"
        ).to_arrow_table()
        new_count, same_count = _pair(db, "SELECT count(*), count(*) FILTER (h IN (SELECT h FROM stored)) FROM arrived")
        fresh: pa.Table | Sequence[str] = data
        if same_count == new_count:
            fresh = schema.empty_table()
        elif same_count:
            own = ", ".join(f't."{column}"' for column in schema.names)
            new = db.execute(f"SELECT {own} FROM {arrived} t WHERE {row} NOT IN (SELECT h FROM stored)")
            fresh = in_types_of(new.to_arrow_table(), schema)
        touched, kept = _kept(db, folder, schema)
        return Differing(touched, kept, fresh, changed.cast(keys.select(columns).schema))


def _stored(db: duckdb.DuckDBPyConnection, schema: pa.Schema, files: Sequence[str], keys: pa.Table) -> str:
    """Rows among which are all of these keys, each with its file and place there, as DuckDB names them."""
    few = _few(keys)
    if few is None:
        return relation(files, with_name=True, with_row=True)
    parts = []
    column, values = few
    for group in row_groups_of(files, column, values):
        fs, path = located(group.file)
        with pq.ParquetFile(path, filesystem=fs, metadata=footer(group.file)) as file:
            held = file.read_row_group(group.number, [column], use_threads=False)[column]
            chosen = pc.indices_nonzero(pc.is_in(held, pa.array(values, held.type)))
            if len(chosen):
                rows = file.read_row_group(group.number, use_threads=False).take(chosen)
                places = pc.add(chosen.cast(pa.int64()), group.first_row)
                whole = in_types_of(rows.select(schema.names), schema)
                names = pa.array([group.file] * len(chosen), pa.string())
                parts.append(whole.append_column("filename", names).append_column("file_row_number", places))
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


def _kept(db: duckdb.DuckDBPyConnection, folder: str, schema: pa.Schema) -> tuple[list[str], list[str]]:
    gone = db.execute("SELECT filename, count(*) FROM gone GROUP BY 1 ORDER BY 1").fetchall()
    touched = [str(file) for file, _ in gone]
    if not touched:
        return [], []
    left = [(footer(file).num_rows - count, str(file)) for file, count in gone]
    batches: list[list[str]] = []
    filled = 0
    for rows, file in sorted(left):
        if rows == 0:
            continue
        if not batches or filled + rows > JOINED_ROWS:
            batches.append([])
            filled = 0
        batches[-1].append(file)
        filled += rows
    places: dict[str, list[int]] = {}
    for file, row in db.execute("SELECT filename, file_row_number FROM gone").fetchall():
        places.setdefault(str(file), []).append(row)
    kept = []
    for batch in batches:
        name = f"part-{uuid.uuid4().hex}.parquet"
        _write_others(f"{folder}/{name}", schema, {file: places[file] for file in batch})
        kept.append(name)
    return touched, kept


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


def _pair(db: duckdb.DuckDBPyConnection, sql: str) -> tuple[int, int]:
    found = db.execute(sql).fetchone()
    assert found is not None
    return int(found[0]), int(found[1])
