"""Works out what changes in a table's files when the rows of some keys are replaced: rows that stay the same are not
written again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import distinct, no_rows, whole
from rebalance_audit.warehouse.comparing import agreeing, differing_rows, hash_of, is_few, of_keys
from rebalance_audit.warehouse.comparing_on_disk import Places, compared_on_disk
from rebalance_audit.warehouse.file_sizes import JOINED_ROWS, in_order, leading_column, most_rows, soon_replaced
from rebalance_audit.warehouse.footers import row_count_in, row_group_bytes
from rebalance_audit.warehouse.kept_columns import chosen_rows, row_groups_with, wanted_values
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least, is_soon_replaced, least_text
from rebalance_audit.warehouse.rows_in_files import FileWriter, in_tables_of, other_rows, row_groups, rows_in
from rebalance_audit.warehouse.short_lived_rows import LeafWriter
from rebalance_audit.warehouse.storage import relation

_IN_MEMORY_ROWS = 5_000
"""Up to this many rows that arrive in files are compared in memory. Of more, a file whose rows are all new is linked as
it is."""
_ASKED_AT_MOST = 5_000
"""For at most this many values of a key's column, only row groups that may hold one are read."""
_ASKED_OF_FEW = 50_000
"""The same of further columns, where another has so few: of the long history of a group, the end that changes."""
_PLACED_BYTES = 48 << 20
"""Up to so many bytes of stored rows, as Parquet has them unpacked, are in memory. Few keys may have very many rows:
one group's whole history."""


@dataclass(frozen=True, slots=True)
class Differing:
    touched: list[str]
    """Files that hold rows which must go."""
    kept: list[str]
    """Names of new files in the table's folder, with what else the touched ones held."""
    mixed: list[str]
    """Like `kept`, for new files that hold some of the new rows as well."""
    fresh: Sequence[pa.Table | str]
    """The other new rows that are not in the table yet. Files whose rows are all new stand here as they were given."""
    keys: pa.Table
    """The keys under which something changes."""


def differing(
    table: str,
    folder: str,
    schema: pa.Schema,
    files: Sequence[str],
    data: pa.Table | Sequence[str],
    keys: pa.Table,
    since: str | None = None,
    own: Sequence[str] = (),
) -> Differing:
    """What differs between `data` and the rows of the table's files under these keys. `own`: the table's key, by which
    what changed is named as well."""
    columns = list(dict.fromkeys([*(column for column in keys.schema.names if column != since), *own]))
    parts = _in_memory(data, schema)
    read: dict[str, pa.Table] = {}
    placed = _placed(schema, files, keys, since, read) if keys.num_rows else no_rows(_placed_schema(schema))
    writer = FileWriter(table, folder, schema)
    places: Mapping[str, Places]
    if placed is None or parts is None:
        asked = files if placed is not None else _files_asked(files, keys, since)
        source = relation(asked, with_name=True, with_row=True) if placed is None else placed
        found = compared_on_disk(schema, source, asked, data if parts is None else parts, keys, since, columns)
        places, changed = found.gone, found.changed
        if found.is_all_new and not isinstance(data, pa.Table):
            fresh = data
        elif parts is None:
            fresh = _part_of(writer, {data[at]: rows for at, rows in found.new.items()})
        else:
            fresh = _chosen(parts, data, found.new)
    else:
        gone, new, new_at = _compared(
            placed, schema, pa.concat_tables([no_rows(schema), *parts]), keys, since, columns, own
        )
        changed = pa.concat_tables([gone.select(columns), new.select(columns)])
        changed = distinct(changed, columns) if columns else changed
        places = _by_file(gone)
        is_all_new = len(new_at) == sum(part.num_rows for part in parts)
        fresh = data if is_all_new and not isinstance(data, pa.Table) else _chosen(parts, data, _by_part(parts, new_at))
    leaves = {file: at for file, at in places.items() if is_soon_replaced(file)}
    others = {file: at for file, at in places.items() if file not in leaves}
    kept, mixed = _join_others(writer, others, read), []
    if leaves:
        of_leaves = LeafWriter(writer, leaves, read)
        fresh = of_leaves.write(fresh)
        kept, mixed = [*kept, *of_leaves.kept], of_leaves.mixed
    key_schema = pa.schema([schema.field(column) for column in columns])
    return Differing(sorted(places), kept, mixed, fresh, changed.cast(key_schema))


def _compared(
    placed: pa.Table,
    schema: pa.Schema,
    arrived: pa.Table,
    keys: pa.Table,
    since: str | None,
    columns: Sequence[str],
    own: Sequence[str],
) -> tuple[pa.Table, pa.Table, npt.NDArray[np.int64]]:
    """Rows that go, rows that come, both with these columns at least, and the places of those that come: by the table's
    key `own` in Arrow; by hashes of DuckDB where rows are many, or a key occurs twice."""
    if own and is_few(placed, arrived):
        at = of_keys(placed, keys, since)
        own_rows = placed if len(at) == placed.num_rows else placed.take(at)
        if (found := differing_rows(own_rows.select(schema.names), arrived, own)) is not None:
            gone_at, new_at = found
            # Only keys and places are asked of these from here on.
            gone = own_rows.select([*columns, "filename", "file_row_number"]).take(gone_at)
            return gone, arrived.select(columns).take(new_at), new_at
    listed = ", ".join(f't."{column}"' for column in columns)
    row = hash_of(schema)
    with cursor() as db:
        db.register("k", keys.group_by(keys.schema.names).aggregate([]) if keys.num_columns else keys)
        db.register("placed", placed)
        stored = db.execute(
            f"SELECT {listed}, filename, file_row_number, {row} h FROM placed t "
            f"WHERE EXISTS (SELECT 1 FROM k WHERE {agreeing(keys.schema.names, since)})"
        ).to_arrow_table()
        db.register("data", arrived.append_column("file_row_number", pa.array(np.arange(arrived.num_rows))))
        hashed = db.execute(f"SELECT {listed}, file_row_number, {row} h FROM data t").to_arrow_table()
    gone = stored.filter(pc.invert(pc.is_in(stored["h"], hashed["h"].combine_chunks())))
    new = hashed.filter(pc.invert(pc.is_in(hashed["h"], stored["h"].combine_chunks())))
    return gone, new, np.sort(new["file_row_number"].to_numpy())


def _by_file(rows: pa.Table) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for file, at in zip(rows["filename"].to_pylist(), rows["file_row_number"].to_pylist(), strict=True):
        places.setdefault(file, []).append(at)
    return places


def _part_of(writer: FileWriter, places: Mapping[str, Places]) -> list[pa.Table | str]:
    """Some rows of files: a file by its name if all of its rows are meant, else its rows, in new files where they are
    many. Files are named by chance: taken as they come, a new file would have the last groups of one and the first ones
    of another, and might hold any group."""
    fresh: list[pa.Table | str] = [file for file, at in places.items() if len(at) == row_count_in(file)]
    by = leading_column(writer.table)
    in_order_of_rows = sorted({*places} - {*fresh}, key=lambda file: (least_text(file, by), file))
    some = {file: places[file] for file in in_order_of_rows}
    most = most_rows(writer.table, is_soon_replaced=False)
    for rows in in_tables_of(rows_in(some, writer.schema), most):
        if rows.num_rows < most:
            fresh.append(rows)
            continue
        is_soon = soon_replaced(writer.table, rows)
        lasting, soon = rows.filter(pc.invert(is_soon)), rows.filter(is_soon)
        fresh += [soon] if soon.num_rows else []
        if lasting.num_rows:
            fresh.append(f"{writer.folder}/{writer.write(in_order(writer.table, lasting), 'part')}")
    return fresh


def _in_memory(data: pa.Table | Sequence[str], schema: pa.Schema) -> list[pa.Table] | None:
    """The rows, a table for each file; None if these are many in files."""
    if isinstance(data, pa.Table):
        return [whole(data, schema)]
    if sum(row_count_in(file) for file in data) > _IN_MEMORY_ROWS:
        return None
    return [whole(pa.concat_tables(row_groups(file)), schema) for file in data]


def _by_part(parts: Sequence[pa.Table], rows: npt.NDArray[np.int64]) -> dict[int, Places]:
    """Places, counted over all tables together, by the number of their table."""
    begins = np.cumsum([0, *(part.num_rows for part in parts)])
    return {
        at: rows[(rows >= begin) & (rows < end)] - begin
        for at, (begin, end) in enumerate(pairwise(begins.tolist()))
        if ((rows >= begin) & (rows < end)).any()
    }


def _chosen(
    parts: Sequence[pa.Table], data: pa.Table | Sequence[str], places: Mapping[int, Places]
) -> list[pa.Table | str]:
    """The rows of these tables in these places. Where they are all rows of a file: its name."""
    return [
        data[at]
        if len(rows) == parts[at].num_rows and not isinstance(data, pa.Table)
        else parts[at].take(pa.array(rows))
        for at, rows in sorted(places.items())
    ]


def _placed(
    schema: pa.Schema, files: Sequence[str], keys: pa.Table, since: str | None, read: dict[str, pa.Table]
) -> pa.Table | None:
    """Rows that include all rows of these keys, each with its file and its place there, as DuckDB names them; None
    where the keys or their rows are many. Files that were read as a whole are added to `read`, as far as there is
    room."""
    few = _few(keys)
    if not few:
        return None
    parts = []
    placed_bytes = read_bytes = 0.0
    for chosen in chosen_rows(files, schema, few, _least(keys, since, few), _clusters(keys)):
        row_bytes = _row_bytes(chosen.file)
        placed_bytes += chosen.rows.num_rows * row_bytes
        if placed_bytes > _PLACED_BYTES:
            read.clear()
            return None
        names = pa.array([chosen.file] * chosen.rows.num_rows, pa.string())
        read_bytes += chosen.of_group.num_rows * row_bytes
        if chosen.of_group.num_rows == row_count_in(chosen.file) and read_bytes <= _PLACED_BYTES:
            read[chosen.file] = chosen.of_group
        parts.append(chosen.rows.append_column("filename", names).append_column("file_row_number", chosen.places))
    return pa.concat_tables([no_rows(_placed_schema(schema)), *parts])


def _row_bytes(file: str) -> float:
    """A row's bytes as Parquet has them unpacked."""
    return sum(row_group_bytes(file)) / max(row_count_in(file), 1)


def _files_asked(files: Sequence[str], keys: pa.Table, since: str | None) -> Sequence[str]:
    """The files that may hold rows of these keys: of a long history, few."""
    few = _few(keys)
    if not few:
        return files
    found = row_groups_with(files, wanted_values(few), _least(keys, since, few), _clusters(keys))
    return list(dict.fromkeys(group.file for group in found))


def _clusters(keys: pa.Table) -> list[str | None]:
    return keys["cluster_id"].unique().to_pylist() if "cluster_id" in keys.schema.names else []


def _placed_schema(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("filename", pa.string())).append(pa.field("file_row_number", pa.int64()))


def _few(keys: pa.Table) -> dict[str, list[str | None]]:
    """The columns of the keys that have few enough values to choose files by them."""
    few: dict[str, list[str | None]] = {}
    for field in keys.schema:
        if pa.types.is_string(field.type) and field.name != "cluster_id":
            values = keys[field.name].unique()
            if 0 < len(values) <= (_ASKED_OF_FEW if few else _ASKED_AT_MOST):
                few[field.name] = values.to_pylist()
    return few


def _least(keys: pa.Table, since: str | None, few: Mapping[str, list[str | None]]) -> Least | None:
    """The least wanted `since`; without it, of the keys' last number, which tells rows of a long history best: the
    offset at which a mark begins."""
    of = next(iter(few))
    numbers = [field.name for field in keys.schema if pa.types.is_integer(field.type)]
    column = since or next(reversed(numbers), None)
    if column is None or None in few[of]:
        return None
    by_value: dict[str, Any] = {}
    for value, least in zip(keys[of].to_pylist(), keys[column].to_pylist(), strict=True):
        before = by_value.setdefault(value, least)
        by_value[value] = None if None in (before, least) else min(before, least)
    bound = Least(column, of, by_value)
    return None if bound.is_open else bound


def _join_others(writer: FileWriter, gone: Mapping[str, Places], read: Mapping[str, pa.Table]) -> list[str]:
    """The new files with the other rows of these files. Files with few rows left are joined into one."""
    batches: list[list[str]] = []
    filled = 0
    for rows, file in sorted((row_count_in(file) - len(at), file) for file, at in gone.items()):
        if rows == 0:
            continue
        if not batches or filled + rows > JOINED_ROWS:
            batches.append([])
            filled = 0
        batches[-1].append(file)
        filled += rows
    most = most_rows(writer.table, is_soon_replaced=False)
    kept = []
    for batch in batches:
        others = other_rows({file: gone[file] for file in batch}, writer.schema, read)
        kept += [writer.write(rows, "part") for rows in in_tables_of(others, most)]
    return kept
