"""Row groups of Parquet files that may hold rows of some keys, by the statistics in the files' own footers."""

from __future__ import annotations

import functools
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rebalance_audit.warehouse.known_footers import known
from rebalance_audit.warehouse.known_values import Hashes, hashes_of, may_have, places_among
from rebalance_audit.warehouse.storage import located

ROW_GROUP_ROWS = 1_000
"""Rows per row group in a table that is read by few groups or keys at a time."""

SOON_REPLACED = "soon"
"""How the names of files begin whose rows will be replaced before long."""
SOON_REPLACED_ROWS = 50
"""Rows per row group in such a file: to remove a row, the others are written again."""
TAIL = f"{SOON_REPLACED}-tail"
"""How the names of those files begin that hold the latest of these rows, in the order in which they came."""
TAIL_ROWS = 100
"""At most so many rows that came earlier and later are in one of them."""


def is_soon_replaced(file: str) -> bool:
    return file.rpartition("/")[2].startswith(f"{SOON_REPLACED}-")


def is_tail(file: str) -> bool:
    return file.rpartition("/")[2].startswith(f"{TAIL}-")


def open_writer(
    path: str,
    schema: pa.Schema,
    fs: pafs.FileSystem,
    compression: str,
    footers: list[pq.FileMetaData] | None = None,
    *,
    has_dictionaries: bool = True,
) -> pq.ParquetWriter:
    """A writer of a Parquet file that keeps no statistics and no dictionaries for what is inside lists. No row is
    looked up by that, and hardly any two marks or refs are alike: the file is smaller, and is written in four fifths of
    the time. When the file is closed, its footer is added to `footers`."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(
        path,
        schema,
        filesystem=fs,
        compression=compression,
        write_statistics=flat,
        use_dictionary=flat if has_dictionaries else [],
        metadata_collector=footers,
    )


class _Footers:
    """The footers of files that were read or written lately. Not all are kept: in memory a footer takes fourteen times
    its bytes, that of a wide table 0.4 MB; what is asked of it often is kept beside it."""

    MOST_CHUNKS = 20_000
    """Columns of row groups that all of them describe: 2.3 kB each. By their own word footers that were just written
    have no bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._chunks = 0

    def of(self, file: str) -> pq.FileMetaData | None:
        with self._lock:
            if found := self._by_file.get(file):
                self._by_file.move_to_end(file)
            return found

    def keep(self, file: str, metadata: pq.FileMetaData) -> None:
        with self._lock:
            known = self._by_file.pop(file, None)
            self._by_file[file] = metadata
            self._chunks += _chunks(metadata) - (0 if known is None else _chunks(known))
            while self._chunks > self.MOST_CHUNKS:
                _, gone = self._by_file.popitem(last=False)
                self._chunks -= _chunks(gone)

    def rename(self, file: str, other: str) -> None:
        with self._lock:
            if known := self._by_file.pop(file, None):
                self._by_file[other] = known

    def let_go(self, file: str) -> None:
        with self._lock:
            if gone := self._by_file.pop(file, None):
                self._chunks -= _chunks(gone)

    def below(self, folder: str) -> list[str]:
        with self._lock:
            return [file for file in self._by_file if file.startswith(f"{folder}/")]


def _chunks(metadata: pq.FileMetaData) -> int:
    return int(metadata.num_columns * max(metadata.num_row_groups, 1))


_footers = _Footers()


class _ColumnNames:
    """The names of the columns of files, in their order."""

    MOST_FILES = 2_048

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, Mapping[str, None]] = OrderedDict()

    def of(self, file: str) -> Mapping[str, None] | None:
        return self._by_file.get(file)

    def keep(self, file: str, names: Iterable[str]) -> Mapping[str, None]:
        found = dict.fromkeys(names)
        with self._lock:
            self._by_file[file] = found
            while len(self._by_file) > self.MOST_FILES:
                self._by_file.popitem(last=False)
        return found

    def let_go(self, file: str) -> None:
        with self._lock:
            self._by_file.pop(file, None)


_column_names = _ColumnNames()


def footer(file: str) -> pq.FileMetaData:
    """The footer of a Parquet file, on whatever store. A file never changes, and a run asks for the same ones often."""
    found = _footers.of(file)
    if found is None:
        found = opened(file).metadata
        _footers.keep(file, found)
    return found


@functools.lru_cache(maxsize=1 << 15)
def row_count_in(file: str) -> int:
    """The rows of a file. Of thousands of files the footers are not all kept, and each is asked for before and while it
    is committed."""
    return int(footer(file).num_rows)


@functools.lru_cache(maxsize=1 << 15)
def row_group_bytes(file: str) -> tuple[int, ...]:
    """The bytes of each row group of a file, uncompressed."""
    metadata = footer(file)
    return tuple(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def keep_footer(file: str, metadata: pq.FileMetaData, names: Iterable[str]) -> None:
    """Keeps the footer of a file that was just written, and the names of its columns, so that it need not be read."""
    _footers.keep(file, metadata)
    _column_names.keep(file, names)


def rename_footer(file: str, name: str) -> None:
    """The file has another name from now on."""
    if names := _column_names.of(file):
        _column_names.keep(name, names)
    _footers.rename(file, name)


def let_footer_go(file: str) -> None:
    """Nobody is expected to ask for the file again."""
    _footers.let_go(file)
    _column_names.let_go(file)


def footers_below(folder: str) -> list[str]:
    """The files in a folder whose footers are kept."""
    return _footers.below(folder)


class _File(pq.ParquetFile):  # type: ignore[misc]
    """When a file is opened, pyarrow works out in Python which of its columns lie below which name: a quarter of the
    time. Files of a table have the same columns."""

    _known: ClassVar[dict[tuple[tuple[str, ...], ...], Any]] = {}

    def _build_nested_paths(self) -> Any:
        paths = tuple(map(tuple, self.reader.column_paths))
        if paths not in self._known:
            self._known[paths] = super()._build_nested_paths()
        return self._known[paths]


@functools.lru_cache(maxsize=16)
def opened(file: str) -> pq.ParquetFile:
    """A file to read from, one thread at a time. To open it takes as long as to read some columns of it; an open one
    keeps half a megabyte, if its table is wide."""
    fs, path = located(file)
    return _File(path, filesystem=fs, metadata=_footers.of(file))


@dataclass(frozen=True, slots=True)
class RowGroup:
    file: str
    number: int
    first_row: int
    """Its place in the file."""


def row_groups_of(
    files: Sequence[str], column: str | None = None, values: Collection[str] = (), *, with_null: bool = False
) -> Iterator[RowGroup]:
    """All row groups, or those in which `column` may be one of the values, or null if asked."""
    wanted = None if column is None else WantedValues.of(column, values, with_null=with_null)
    for file in files:
        first_row = 0
        for number, held in enumerate(held_in(file, column)):
            if wanted is None or wanted.may_be_in(file, number):
                yield RowGroup(file, number, first_row)
            first_row += held.row_count


@dataclass(frozen=True, slots=True)
class WantedValues:
    """Values of a column, to ask which row groups may hold one of them."""

    column: str
    values: Sequence[str]
    """Sorted."""
    with_null: bool
    hashes: Hashes

    @classmethod
    def of(cls, column: str, values: Collection[str], *, with_null: bool) -> WantedValues:
        return cls(column, sorted(values), with_null, hashes_of(values))

    def may_be_in(self, file: str, number: int) -> bool:
        """By the bounds that the file states, and by what is known of a row group that was read or written before."""
        held = held_in(file, self.column)[number]
        if self.with_null and held.may_be_null:
            return True
        return len(held.among(self.values)) > 0 and may_have(file, number, self.column, self.hashes)


def row_count_of(groups: Iterable[RowGroup]) -> int:
    """The number of all rows of these row groups, wanted ones and others."""
    return sum(held_in(group.file, "group_id")[group.number].row_count for group in groups)


def files_with_values(files: Sequence[str], column: str) -> list[str]:
    """The files in which the column may have a value other than null."""
    return [file for file in files if any(held.may_be_any or held.first is not None for held in held_in(file, column))]


class ColumnOfGroup(NamedTuple):
    """The statistics of one column of a row group."""

    row_count: int
    first: Any = None
    last: Any = None
    may_be_any: bool = True
    """Bounds are not known. Where they are and are None, there is no value."""
    may_be_null: bool = True

    def among(self, values: Sequence[str]) -> Sequence[str]:
        """The values, of these sorted ones, that the row group may hold."""
        if self.may_be_any:
            return values
        if self.first is None or self.last is None:
            return ()
        return values[bisect_left(values, self.first) : bisect_right(values, self.last)]

    def is_outside(self, low: Any, high: Any) -> bool:
        """Whether no value is at least `low` and below `high` (None: no bound); null is lower than any."""
        if self.may_be_any or (low is None and self.may_be_null):
            return False
        if self.first is None or self.last is None:
            return True
        return (low is not None and self.last < low) or (high is not None and self.first >= high)


@functools.lru_cache(maxsize=1 << 16)
def held_in(file: str, column: str | None) -> tuple[ColumnOfGroup, ...]:
    """The statistics of the column in each row group of a file. They are kept, since a cycle asks the same files dozens
    of times."""
    return tuple(map(ColumnOfGroup._make, known(file, f"held {column}", lambda: _held_in(file, column))))


def _held_in(file: str, column: str | None) -> tuple[ColumnOfGroup, ...]:
    metadata = footer(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    at = None if column is None else _place(metadata, column)
    if at is None:
        return tuple(ColumnOfGroup(group.num_rows) for group in groups)
    return tuple(_of_statistics(group.num_rows, group.column(at).statistics) for group in groups)


def _of_statistics(row_count: int, statistics: pq.Statistics | None) -> ColumnOfGroup:
    if statistics is None:
        return ColumnOfGroup(row_count)
    may_be_null = not statistics.has_null_count or statistics.null_count > 0
    if statistics.has_min_max:
        return ColumnOfGroup(row_count, statistics.min, statistics.max, False, may_be_null)
    # Nothing but null, unless the writer kept no bounds.
    is_all_null = statistics.has_null_count and statistics.num_values == 0
    return ColumnOfGroup(row_count, None, None, not is_all_null, may_be_null)


def columns_of(file: str) -> Mapping[str, None]:
    """The names of a file's columns, in its order."""
    return _column_names.of(file) or _column_names.keep(file, _names_in(footer(file)))


def _names_in(metadata: pq.FileMetaData) -> Iterable[str]:
    if not metadata.num_row_groups:
        return list(metadata.schema.to_arrow_schema().names)
    return (path.partition(".")[0] for path in _paths(metadata))


@functools.lru_cache(maxsize=1 << 17)
def greatest(file: str, columns: tuple[str, ...]) -> int | None:
    """The greatest number in any of these columns of a file; None if it is not known."""
    bounds = known(file, f"bounds {columns}", lambda: _bounds(file, columns))
    return None if bounds is None else max((last for _, last in bounds), default=None)


@functools.lru_cache(maxsize=1 << 17)
def least(file: str, columns: tuple[str, ...]) -> int | None:
    """The least number in any of these columns of a file; None if it is not known."""
    bounds = known(file, f"bounds {columns}", lambda: _bounds(file, columns))
    return None if bounds is None else min((first for first, _ in bounds), default=None)


def _bounds(file: str, columns: tuple[str, ...]) -> list[tuple[int, int]] | None:
    """The least and the greatest number of each of these columns in each row group that has one; None if one is not
    known."""
    metadata = footer(file)
    found: list[tuple[int, int]] = []
    for column in columns:
        at = _place(metadata, column)
        for number in range(0 if at is None else metadata.num_row_groups):
            statistics = metadata.row_group(number).column(at).statistics
            if statistics is None or (not statistics.has_min_max and statistics.num_values):
                return None
            if statistics.has_min_max:
                found.append((statistics.min, statistics.max))
    return found


def _place(metadata: pq.FileMetaData, column: str) -> int | None:
    return next((at for at, path in enumerate(_paths(metadata)) if path == column), None)


def parts_of(file: str, schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """What to read of a file for these columns in the types of `schema`: of lists of structs only its fields. A
    measured rebalance's movements take 9 kB, of which a rule asks for a tenth."""
    found: list[str] = []
    for name in names:
        type_ = schema.field(name).type
        parts: list[str] = []
        if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
            wanted = {field.name for field in type_.value_type}
            parts = [path for path in _paths_below(file).get(name, ()) if path.split(".")[_FIELD] in wanted]
        found += parts or [name]
    return found


@functools.lru_cache(maxsize=256)
def _paths_below(file: str) -> Mapping[str, Sequence[str]]:
    """The columns of Parquet by the column of the table in which they are nested. To ask a footer for 155 of them takes
    as long as to read a few."""
    found: dict[str, list[str]] = {}
    for path in _paths(footer(file)):
        found.setdefault(path.partition(".")[0], []).append(path)
    return found


_FIELD = 3
"""The place of a struct's field in the path of a column of Parquet: `movements.list.element.resource`."""


def _paths(metadata: pq.FileMetaData) -> Iterator[str]:
    """The names of the columns with values; none of a file without row groups. Not asked of `metadata.schema`: pyarrow
    keeps that in the footer, and the footer in it, so that footers which are let go stay until cycles are searched."""
    for first in [metadata.row_group(0)] if metadata.num_row_groups else []:
        yield from (first.column(at).path_in_schema for at in range(metadata.num_columns))


@dataclass(frozen=True, slots=True)
class Least:
    """A bound on the rows of some keys."""

    column: str
    of: str
    """A column of the keys."""
    by_value: Mapping[str, Any]
    """For each wanted value of `of`, the least value of `column` in a wanted row; None: any value."""

    def test(self, type_: pa.DataType) -> Callable[[pa.Table], pa.ChunkedArray]:
        """The test whether rows whose `column` has this type are within the bound."""
        values = pa.array(sorted(self.by_value), pa.string())
        floors = pa.array([self.by_value[value] for value in values.to_pylist()], type_)

        def holds(rows: pa.Table) -> pa.ChunkedArray:
            floor = floors.take(pc.index_in(rows[self.of].combine_chunks(), values))
            return pc.or_kleene(pc.is_null(floor), pc.greater_equal(rows[self.column], floor))

        return holds

    def row_group_test(self) -> Callable[[str, int], bool]:
        """Whether a file's row group of this number may hold a row within the bound, by its statistics."""
        values = sorted(self.by_value)
        hashes = hashes_of(values)
        by_hash: dict[int, Any] = {}
        for value, floor in self.by_value.items():
            before = by_hash.setdefault(hash(value), floor)
            by_hash[hash(value)] = None if None in (before, floor) else min(before, floor)
        of_hashes = [by_hash[each] for each in hashes.tolist()]

        def may_hold(file: str, number: int) -> bool:
            if (found := places_among(file, number, self.of, hashes)) is None:
                floors = [self.by_value[value] for value in held_in(file, self.of)[number].among(values)]
            else:
                floors = [of_hashes[at] for at in found.tolist()]
            if not floors or None in floors:
                return bool(floors)
            return not held_in(file, self.column)[number].is_outside(min(floors), None)

        return may_hold
