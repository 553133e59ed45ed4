"""Columns of small row groups, kept in memory while there is room: the stages of a cycle ask for the same ones."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rebalance_audit.warehouse import unwritten
from rebalance_audit.warehouse.arrow_tables import rows_at, whole
from rebalance_audit.warehouse.file_sizes import compression_of, has_dictionaries, row_group_rows
from rebalance_audit.warehouse.footers import (
    columns_of,
    footers_below,
    keep_footer,
    let_footer_go,
    open_writer,
    opened,
    parts_of,
    rename_footer,
    row_group_bytes,
)
from rebalance_audit.warehouse.known_values import let_values_go, note_values, rename_values
from rebalance_audit.warehouse.row_groups import (
    Least,
    RowGroup,
    WantedValues,
    held_in,
    row_count_of,
    row_groups_of,
)
from rebalance_audit.warehouse.storage import located

KEPT_BYTES = 96 << 20
"""The size of all kept columns together, as Arrow has them. A cycle of five groups needs a third of it."""
SMALL_BYTES = 4 << 20
"""Of a row group of more, uncompressed, only narrow columns are kept. The others are read again each time."""
_NARROW_BYTES = 128 << 10
"""The keys of a thousand rows take half of it."""


class _Kept:
    """The columns of row groups by (file, number), as one table each: a cycle asks seven hundred times, and to make a
    table of 150 columns takes longer than to look it up. Those asked for least recently go first."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._columns: OrderedDict[tuple[str, int], pa.Table] = OrderedDict()
        self._sizes: dict[tuple[str, int], int] = {}
        """Of the buffers, not of the rows: that takes a tenth of the time for nested columns, and slices keep what they
        are slices of."""
        self._bytes = 0
        self._numbers: dict[str, set[int]] = {}
        """Of the row groups of a file."""

    def of(self, file: str, number: int) -> pa.Table | None:
        with self._lock:
            found = self._columns.get((file, number))
            if found is not None:
                self._columns.move_to_end((file, number))
            return found

    def rename(self, file: str, other: str) -> None:
        """The file has another name now: its kept columns go under that name."""
        with self._lock:
            for number in self._numbers.pop(file, ()):
                self._columns[other, number] = self._columns.pop((file, number))
                self._sizes[other, number] = self._sizes.pop((file, number))
                self._numbers.setdefault(other, set()).add(number)

    def keep(self, file: str, number: int, rows: pa.Table) -> None:
        with self._lock:
            place = file, number
            held = self._columns.get(place)
            new = rows if held is None else rows.drop_columns([*{*rows.schema.names} & {*held.schema.names}])
            self._columns[place] = new if held is None else beside(held, new)
            self._numbers.setdefault(file, set()).add(number)
            size = new.get_total_buffer_size()
            self._sizes[place] = self._sizes.get(place, 0) + size
            self._bytes += size
            while self._bytes > KEPT_BYTES:
                gone = next(iter(self._columns))
                self._drop(*gone)
                self._numbers[gone[0]].discard(gone[1])
                if not self._numbers[gone[0]]:
                    del self._numbers[gone[0]]

    def let_go(self, file: str) -> None:
        with self._lock:
            for number in self._numbers.pop(file, ()):
                self._drop(file, number)

    def _drop(self, file: str, number: int) -> None:
        del self._columns[file, number]
        self._bytes -= self._sizes.pop((file, number))


_kept = _Kept()
_is_keeping = True


def keep_nothing() -> None:
    """Keep no columns, values or footers in this process from here on: a task of Spark hardly reads a file twice, and
    others read what it writes."""
    global _is_keeping
    _is_keeping = False


_reading = threading.Lock()


def is_small(file: str, number: int) -> bool:
    return row_group_bytes(file)[number] <= SMALL_BYTES


def row_group(file: str, number: int, names: Sequence[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """These columns of a row group (None: all), without those that the file lacks. They are kept, since a file never
    changes. `schema`: fields of structs that it does not name may be left out."""
    if (rows := unwritten.rows_of(file)) is not None:
        return _columns(rows, names)
    there = columns_of(file)
    listed = list(there) if names is None else [name for name in names if name in there]
    held = _kept.of(file, number)
    known = [] if held is None else held.schema.names
    if held is not None and known == listed:
        return held
    if lacking := [name for name in listed if name not in known]:
        parts = lacking if schema is None or is_small(file, number) else parts_of(file, schema, lacking)
        with _reading:
            read = opened(file).read_row_group(number, parts, use_threads=False)
        held = read if held is None else beside(held, read)
        if _is_keeping:
            note_values(file, number, read)
            if is_small(file, number) or (parts == lacking and read.get_total_buffer_size() <= _NARROW_BYTES):
                _kept.keep(file, number, read)
    return pa.table({}) if held is None else held.select(listed)


def beside(rows: pa.Table, others: pa.Table) -> pa.Table:
    """The columns of both; of a name that both have, one."""
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    columns |= dict(zip(others.schema.names, others.columns, strict=True))
    return pa.table(columns)


def _columns(rows: pa.Table, names: Sequence[str] | None) -> pa.Table:
    """These columns (None: all), without those that are not there."""
    return rows if names is None else rows.select([name for name in names if name in rows.schema.names])


def rows_on_disk(file: str, names: Sequence[str] | None = None) -> pa.Table:
    """These columns of a file (None: all) as it is, whatever is kept of it; of one that is not written yet, as it will
    be."""
    if (rows := unwritten.rows_of(file)) is not None:
        return _columns(rows, names)
    fs, path = located(file)
    with pq.ParquetFile(path, filesystem=fs) as opened_anew:
        return opened_anew.read(names, use_threads=False)


def stage_rows(table: str, file: str, rows: pa.Table) -> None:
    """As `put_rows`, for a file that belongs to no table yet: one of few rows is written once it is asked for
    (`unwritten`). Not by a task of Spark, since another process is given the name."""

    def write() -> None:
        fs, folder = located(file.rpartition("/")[0])
        fs.create_dir(folder, recursive=True)
        put_rows(table, file, rows)

    is_few = 0 < rows.num_rows <= row_group_rows(table) and rows.get_total_buffer_size() <= SMALL_BYTES
    if not (_is_keeping and is_few and unwritten.put(file, rows, write)):
        write()


def put_rows(table: str, file: str, rows: pa.Table) -> None:
    """Write a new file into a folder that is there. Its columns are kept, since the next stage reads it."""
    fs, path = located(file)
    footers: list[pq.FileMetaData] = []
    compression, with_dictionaries = compression_of(table, file, rows.num_rows), has_dictionaries(table, rows.num_rows)
    size = row_group_rows(table)
    is_little = rows.num_rows <= size and rows.get_total_buffer_size() <= SMALL_BYTES
    # Into a local file each page would be a write of its own, which takes a sixth of the time.
    sink = pa.BufferOutputStream() if is_little and isinstance(fs, pafs.LocalFileSystem) else None
    writer = open_writer(sink or path, rows.schema, fs, compression, footers, has_dictionaries=with_dictionaries)
    try:
        writer.write_table(rows, row_group_size=size)
        writer.close()
    except BaseException:
        writer.is_open = False  # pyarrow closes it again when it is let go, and what fails then is printed
        raise
    if sink is not None:
        with fs.open_output_stream(path, compression=None) as output:
            output.write(sink.getvalue())
    if not _is_keeping:
        return
    keep_footer(file, footers[0], rows.schema.names)
    if "group_id" in rows.schema.names:
        held_in(file, "group_id")  # a fact that the next process asks for
    for number, first_row in enumerate(range(0, rows.num_rows, size)):
        note_values(file, number, rows.slice(first_row, size))
    if is_little and rows.num_rows:
        _kept.keep(file, 0, rows)


def linked(file: str, name: str) -> None:
    """A file has another name from now on."""
    rename_footer(file, name)
    rename_values(file, name)
    _kept.rename(file, name)


def let_go(files: Iterable[str]) -> None:
    """Nobody is expected to ask for these files again: what is kept of others gets their room."""
    for file in files:
        unwritten.let_go(file)
        let_footer_go(file)
        let_values_go(file)
        _kept.let_go(file)


def let_go_below(folder: str) -> None:
    """The folder is gone, with its files."""
    let_go([*unwritten.below(folder), *footers_below(folder)])


@dataclass(frozen=True, slots=True)
class Chosen:
    """Rows of one row group, with their places in the file."""

    file: str
    rows: pa.Table
    places: pa.Array
    of_group: pa.Table
    """All rows of the row group."""


def row_groups_with(
    files: Sequence[str],
    wanted: Sequence[WantedValues],
    least: Least | None = None,
    clusters: Collection[str | None] = (),
) -> Iterator[RowGroup]:
    """The row groups that may hold rows with a wanted value in each of these columns, by what is known of them; `least`
    and `clusters` as in `chosen_rows`."""
    first, *others = [*wanted, *wanted_values({"cluster_id": clusters} if clusters else {})]
    may_hold = None if least is None else least.row_group_test()
    for group in row_groups_of(files, first.column, first.values, with_null=first.with_null):
        if may_hold is not None and not may_hold(group.file, group.number):
            continue
        if all(of_column.may_be_in(group.file, group.number) for of_column in others):
            yield group


def wanted_values(keys: Mapping[str, Collection[str | None]]) -> list[WantedValues]:
    """The values of each column, as `chosen_rows` is given them."""
    listed = {name: [value for value in values if value is not None] for name, values in keys.items()}
    return [WantedValues.of(name, listed[name], with_null=None in values) for name, values in keys.items()]


def chosen_rows(
    files: Sequence[str],
    schema: pa.Schema,
    keys: Mapping[str, Collection[str | None]],
    least: Least | None = None,
    clusters: Collection[str | None] = (),
) -> Iterator[Chosen]:
    """The rows that have one of few values in each column of `keys`; the value None stands for null. Columns that a
    file lacks are null. `clusters`: rows of other clusters may be left out.

    Wide columns are read only from row groups with such a row. For a handful of rows of a wide table this takes a fifth
    of what DuckDB does.
    """
    asked = wanted_values(keys)
    sets = {w.column: pa.array([*w.values, *([None] if w.with_null else [])], pa.string()) for w in asked}
    narrow = [*keys, *(() if least is None else (least.column,))]
    holds = None if least is None else least.test(schema.field(least.column).type)
    is_all_asked = least is None and not {*narrow} - {*schema.names}
    for group in row_groups_with(files, asked, least, clusters):
        # A call to Parquet takes as long as a column or two: the keys are not read first where such a row is there.
        is_there = is_all_asked and all(wanted.is_in(group.file, group.number) for wanted in asked)
        held = row_group(group.file, group.number, *((schema.names, schema) if is_there else (narrow,)))
        wanted = [
            pc.is_in(held[name] if name in held.schema.names else pa.nulls(row_count_of([group]), pa.string()), values)
            for name, values in sets.items()
        ]
        if holds is not None:
            wanted.append(holds(held))
        at = pc.indices_nonzero(pc.fill_null(functools.reduce(pc.and_kleene, wanted), False))
        if len(at):
            of_group = row_group(group.file, group.number, schema.names, schema)
            places = pc.add(at.cast(pa.int64()), group.first_row)
            yield Chosen(group.file, whole(rows_at(of_group, at), schema), places, of_group)
