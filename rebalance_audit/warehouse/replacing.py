"""Works out what changes in a table's files when the rows of some keys are replaced: rows that stay the same are not
written again."""

from __future__ import annotations

import uuid
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import rows_at, rows_where, whole
from rebalance_audit.warehouse.comparing import agreeing, differing_rows, hash_of, is_few, of_keys
from rebalance_audit.warehouse.comparing_on_disk import Places, compared_on_disk
from rebalance_audit.warehouse.file_sizes import (
    JOINED_ROWS,
    SOON_REPLACED_AT_ONCE,
    in_order,
    leading_column,
    most_rows,
    soon_replaced,
)
from rebalance_audit.warehouse.kept_columns import chosen_rows, put_rows, row_group
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import (
    SOON_REPLACED,
    SOON_REPLACED_ROWS,
    TAIL,
    TAIL_ROWS,
    Least,
    held_in,
    is_soon_replaced,
    is_tail,
    row_count_in,
    row_group_bytes,
    row_groups_of,
)
from rebalance_audit.warehouse.storage import relation

_IN_MEMORY_ROWS = 5_000
"""Up to this many rows that are already in files are read and split. Of more rows, a file whose rows are all new is
linked as it is."""
_ASKED_AT_MOST = 5_000
"""For at most this many values of a key's column, only row groups that may hold one are read."""
_PLACED_BYTES = 48 << 20
"""Up to so many bytes of stored rows, as Parquet has them unpacked, are in memory. Few keys may have very many rows:
one group's whole history."""
_TO_TAIL = range(8, 251)
"""So many new rows go into the tail. Of more, several lie in most leaves that are written anyway. Of fewer, few leaves
are written again when the rows come once more, and beside a quiet cluster they do not."""
_LEAF_ROWS_AT_MOST = 2_400
"""If the leaves out of which a commit takes rows hold more rows than this, as in a round of hundreds of groups,
neighbours become one file of SOON_REPLACED_AT_ONCE rows. To open, read and write fifty rows of 155 columns takes more
than half as long as 250, and each stage does it again. A later commit that changes few groups splits those that it
touches."""
_ROUND_ROWS = 2_500
"""If more new rows come, it is no round but a backfill, after which there may be quiet."""


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
    placed = _placed(schema, files, keys, since, read) if keys.num_rows else _placed_schema(schema).empty_table()
    writer = _Writer(table, folder, schema)
    places: Mapping[str, Places]
    if placed is None or parts is None:
        asked = files if placed is not None else _files_asked(files, keys)
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
            placed, schema, pa.concat_tables([schema.empty_table(), *parts]), keys, since, columns, own
        )
        changed = pa.concat_tables([gone.select(columns), new.select(columns)])
        changed = changed.group_by(columns).aggregate([]) if columns else changed
        places = _by_file(gone)
        is_all_new = len(new_at) == sum(part.num_rows for part in parts)
        fresh = data if is_all_new and not isinstance(data, pa.Table) else _chosen(parts, data, _by_part(parts, new_at))
    leaves = {file: at for file, at in places.items() if is_soon_replaced(file)}
    others = {file: at for file, at in places.items() if file not in leaves}
    mixed: list[str] = []
    kept = _join_others(writer, others, read)
    if leaves:
        fresh = _fill_leaves(writer, leaves, fresh, read, kept, mixed)
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


def _part_of(writer: _Writer, places: Mapping[str, Places]) -> list[pa.Table | str]:
    """Some rows of files: a file by its name if all of its rows are meant, else its rows, in new files where they are
    many."""
    fresh: list[pa.Table | str] = [file for file, at in places.items() if len(at) == row_count_in(file)]
    whole_files = set(fresh)
    some = {file: at for file, at in places.items() if file not in whole_files}
    most = most_rows(writer.table, is_soon_replaced=False)
    for rows in _cut(_rows_at(some, writer.schema), most):
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
    return [whole(pa.concat_tables(_row_groups(file)), schema) for file in data]


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
    for chosen in chosen_rows(files, schema, few, _least(keys, since, few)):
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
    return pa.concat_tables([_placed_schema(schema).empty_table(), *parts])


def _row_bytes(file: str) -> float:
    """A row's bytes as Parquet has them unpacked."""
    return sum(row_group_bytes(file)) / max(row_count_in(file), 1)


def _files_asked(files: Sequence[str], keys: pa.Table) -> Sequence[str]:
    """The files that may hold rows of these keys."""
    few = _few(keys)
    if not few:
        return files
    column, values = next(iter(few.items()))
    known = [value for value in values if value is not None]
    asked = row_groups_of(files, column, known, with_null=len(known) < len(values))
    return list(dict.fromkeys(group.file for group in asked))


def _placed_schema(schema: pa.Schema) -> pa.Schema:
    return schema.append(pa.field("filename", pa.string())).append(pa.field("file_row_number", pa.int64()))


def _few(keys: pa.Table) -> dict[str, list[str | None]]:
    """The columns of the keys that have few enough values to choose files by them."""
    few = {}
    for field in keys.schema:
        if pa.types.is_string(field.type) and field.name != "cluster_id":
            values = keys[field.name].unique()
            if 0 < len(values) <= _ASKED_AT_MOST:
                few[field.name] = values.to_pylist()
    return few


def _least(keys: pa.Table, since: str | None, few: Mapping[str, list[str | None]]) -> Least | None:
    of = next(iter(few))
    if since is None or None in few[of]:
        return None
    by_value: dict[str, Any] = {}
    for value, least in zip(keys[of].to_pylist(), keys[since].to_pylist(), strict=True):
        before = by_value.setdefault(value, least)
        by_value[value] = None if None in (before, least) else min(before, least)
    return Least(since, of, by_value)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Writes new files into the table's folder."""

    table: str
    folder: str
    schema: pa.Schema

    def write(self, rows: pa.Table, kind: str) -> str:
        """The new file's name."""
        name = f"{kind}-{uuid.uuid4().hex}.parquet"
        put_rows(self.table, f"{self.folder}/{name}", rows)
        return name


def _join_others(writer: _Writer, gone: Mapping[str, Places], read: Mapping[str, pa.Table]) -> list[str]:
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
        others = _others({file: gone[file] for file in batch}, writer.schema, read)
        kept += [writer.write(rows, "part") for rows in _cut(others, most)]
    return kept


def _fill_leaves(
    writer: _Writer,
    gone: Mapping[str, Places],
    fresh: Sequence[pa.Table | str],
    read: Mapping[str, pa.Table],
    kept: list[str],
    mixed: list[str],
) -> list[pa.Table | str]:
    """Writes what is left of these files, whose rows are replaced before long again, and the new rows of that kind. The
    files' names are added to `kept` and `mixed`. Returns the rest of `fresh`.

    A round's new rows beside a busy cluster go into the tail: most of them come again within seconds, and then one
    small file is written instead of one for each group. Others go into the leaves of their neighbours, so that a group
    stays in one file."""
    schema = writer.schema
    left: list[pa.Table | str] = []
    new: list[pa.Table] = []
    for rows in fresh:
        if isinstance(rows, str) and not (is_soon_replaced(rows) and row_count_in(rows) <= _IN_MEMORY_ROWS):
            left.append(rows)
            continue
        held = whole(pa.concat_tables(_row_groups(rows)), schema) if isinstance(rows, str) else rows
        is_soon = soon_replaced(writer.table, held)
        left += [part for part in [rows_where(held, pc.invert(is_soon))] if part.num_rows]
        new.append(rows_where(held, is_soon))
    arriving = pa.concat_tables([schema.empty_table(), *new])
    if arriving.num_rows in _TO_TAIL:
        _add_to_tail(writer, gone, arriving, read, kept, mixed)
        return left
    is_round = _are_many(gone) and arriving.num_rows <= _ROUND_ROWS
    loose = (_add_to_many_leaves if is_round else _add_to_leaves)(writer, gone, arriving, read, kept, mixed)
    return [*left, loose] if loose.num_rows else left


def _add_to_tail(
    writer: _Writer,
    gone: Mapping[str, Places],
    arriving: pa.Table,
    read: Mapping[str, pa.Table],
    kept: list[str],
    mixed: list[str],
) -> None:
    """Of leaves the rest is written alone. Tails from which rows go become one, in the order in which rows came; where
    it is too long its first rows stay behind in a file of their own, until `small_files` sorts such files into
    leaves."""
    fullest_first = sorted(filter(is_tail, gone), key=lambda file: (-row_count_in(file), file))
    tails = {file: gone[file] for file in fullest_first}
    leaves = {file: places for file, places in sorted(gone.items()) if file not in tails}
    if _are_many(gone):
        _add_to_many_leaves(writer, leaves, writer.schema.empty_table(), read, kept, mixed)
        leaves = {}
    for file, places in leaves.items():
        if row_count_in(file) > len(places):
            kept.append(writer.write(pa.concat_tables(_others({file: places}, writer.schema, read)), SOON_REPLACED))
    waiting = pa.concat_tables([writer.schema.empty_table(), *_others(tails, writer.schema, read)])
    while waiting.num_rows >= SOON_REPLACED_ROWS and waiting.num_rows + arriving.num_rows > TAIL_ROWS:
        kept.append(writer.write(waiting.slice(0, SOON_REPLACED_ROWS), TAIL))
        waiting = waiting.slice(SOON_REPLACED_ROWS)
    if waiting.num_rows or arriving.num_rows:
        name = writer.write(pa.concat_tables([waiting, arriving]), TAIL)
        (mixed if arriving.num_rows else kept).append(name)


def _add_to_leaves(
    writer: _Writer,
    gone: Mapping[str, Places],
    arriving: pa.Table,
    read: Mapping[str, pa.Table],
    kept: list[str],
    mixed: list[str],
) -> pa.Table:
    """Each leaf is written with the new rows that lie between its first and its last one. Returns those that lie in
    none."""
    schema, by = writer.schema, leading_column(writer.table)
    at = arriving[by].to_pylist()
    taken: set[int] = set()
    for file, places in sorted(gone.items()):
        held = read[file] if file in read else pa.concat_tables(_row_groups(file))
        bounds = pc.min_max(held[by]).as_py()
        inside = [
            n for n, value in enumerate(at)
            if n not in taken and None not in (value, bounds["min"]) and bounds["min"] <= value <= bounds["max"]
        ]  # fmt: skip
        taken.update(inside)
        rows = pa.concat_tables(
            [*_others({file: places}, schema, {file: held}), rows_at(arriving, pa.array(inside, pa.int64()))]
        )
        # A process that writes many rows leaves long ones. To part such a one at once takes twice as long as to halve
        # it whenever it is touched.
        most = max(SOON_REPLACED_ROWS, -(-row_count_in(file) // 2))
        parts = _even_parts(in_order(writer.table, rows), most)
        names = [writer.write(part, SOON_REPLACED) for part in parts]
        (mixed if inside else kept).extend(names)
    return rows_at(arriving, pa.array([n for n in range(len(at)) if n not in taken], pa.int64()))


def _are_many(gone: Mapping[str, Places]) -> bool:
    return sum(row_count_in(file) for file in gone if not is_tail(file)) > _LEAF_ROWS_AT_MOST


def _add_to_many_leaves(
    writer: _Writer,
    gone: Mapping[str, Places],
    arriving: pa.Table,
    read: Mapping[str, pa.Table],
    kept: list[str],
    mixed: list[str],
) -> pa.Table:
    """Neighbouring leaves, and what is left of tails, become one file with the new rows between them. Returns no row:
    new ones are in one of them."""
    by, is_new = leading_column(writer.table), "is new"
    first = {file: _first(file, by) for file in gone if not is_tail(file)}
    leaves = sorted(first, key=lambda file: (first[file], file))
    tails = {file: places for file, places in gone.items() if is_tail(file)}
    loose = pa.concat_tables([arriving, *_others(tails, writer.schema, read)])
    loose = loose.append_column(is_new, pa.array(np.arange(loose.num_rows) < arriving.num_rows))
    loose = loose.take(pc.sort_indices(pc.fill_null(loose[by], "")))
    values = [value or "" for value in loose[by].to_pylist()]
    waiting: list[pa.Table] = []
    begin = 0
    for at, file in enumerate(leaves):
        others = pa.concat_tables(_others({file: gone[file]}, writer.schema, read))
        waiting.append(others.append_column(is_new, pa.array(np.zeros(others.num_rows, np.bool_))))
        is_last = at + 1 == len(leaves)
        end = len(values) if is_last else bisect_left(values, first[leaves[at + 1]], begin)
        waiting.append(loose.slice(begin, end - begin))
        begin = end
        if is_last or sum(map(len, waiting)) > SOON_REPLACED_AT_ONCE - SOON_REPLACED_ROWS:
            rows = in_order(writer.table, pa.concat_tables(waiting))
            waiting = []
            for part in _even_parts(rows, SOON_REPLACED_AT_ONCE):
                name = writer.write(part.select(writer.schema.names), SOON_REPLACED)
                (mixed if pc.any(part[is_new]).as_py() else kept).append(name)
    return arriving.slice(0, 0)


def _even_parts(rows: pa.Table, most: int) -> Iterator[pa.Table]:
    """As few parts as hold at most so many rows each, of about one size."""
    parts = -(-rows.num_rows // most)
    size = -(-rows.num_rows // parts) if parts else 0
    return (rows.slice(part * size, size) for part in range(parts))


def _first(file: str, column: str) -> str:
    """The least value of the column; of none the empty one."""
    return min((str(held.first) for held in held_in(file, column) if held.first is not None), default="")


def _others(gone: Mapping[str, Places], schema: pa.Schema, read: Mapping[str, pa.Table]) -> Iterator[pa.Table]:
    """The rows of these files without those in these places, in their order, one row group at a time."""
    for group, is_named in _with_places(gone, read):
        named = np.flatnonzero(is_named).tolist()
        # Not a filter: it would copy all columns.
        edges = zip([0, *(at + 1 for at in named)], [*named, group.num_rows], strict=True)
        parts = [group.slice(begin, end - begin) for begin, end in edges if begin < end]
        yield whole(pa.concat_tables(parts) if parts else group.slice(0, 0), schema)


def _rows_at(places: Mapping[str, Places], schema: pa.Schema) -> Iterator[pa.Table]:
    """The rows of these files in these places, in their order, one row group at a time."""
    for group, is_named in _with_places(places, {}):
        if is_named.any():
            yield whole(group.filter(pa.array(is_named)), schema)


def _with_places(
    places: Mapping[str, Places], read: Mapping[str, pa.Table]
) -> Iterator[tuple[pa.Table, npt.NDArray[np.bool_]]]:
    """The row groups of these files, each with whether a row is in one of the places."""
    for file, rows in places.items():
        is_named = np.zeros(row_count_in(file), np.bool_)
        is_named[np.asarray(rows, np.int64)] = True
        at = 0
        for group in [read[file]] if file in read else _row_groups(file):
            yield group, is_named[at : at + group.num_rows]
            at += group.num_rows


def _row_groups(file: str) -> Iterator[pa.Table]:
    for number in range(len(row_group_bytes(file))):
        yield row_group(file, number)


def _cut(parts: Iterable[pa.Table], most: int) -> Iterator[pa.Table]:
    """The same rows in tables of `most` rows, but for the last one."""
    waiting: list[pa.Table] = []
    count = 0
    for part in parts:
        waiting.append(part)
        count += part.num_rows
        while count >= most:
            joined = pa.concat_tables(waiting)
            yield joined.slice(0, most)
            waiting, count = [joined.slice(most)], count - most
    if count:
        yield pa.concat_tables(waiting)
