"""Row groups of Parquet files that may hold rows of some keys, by the statistics in the files' own footers."""

from __future__ import annotations

import functools
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.warehouse.footers import column_paths, footer
from rebalance_audit.warehouse.intervals import Intervals, TextRange
from rebalance_audit.warehouse.known_footers import known
from rebalance_audit.warehouse.known_values import (
    Hashes,
    distinct_count,
    hash_of,
    hashes_of,
    places_among,
)

_INDEXED_FILES, _FILES_OF_A_VALUE = 64, 8
"""Of so many files, and so many for each value that is asked for, not each is looked at."""
_MOST_INDEXES = 64
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
    is_few = wanted is not None and len(files) >= max(_INDEXED_FILES, _FILES_OF_A_VALUE * len(wanted.values))
    for file in _files_around(files, wanted) if wanted is not None and is_few else files:
        first_row = 0
        for number, held in enumerate(held_in(file, column)):
            if wanted is None or wanted.may_be_in(file, number):
                yield RowGroup(file, number, first_row)
            first_row += held.row_count


class _FileIndex:
    """The files of a table by the bounds of a column in each of them. Files are added as they come. Those that left the
    table stay until they are many."""

    def __init__(self, column: str) -> None:
        self._column = column
        self._begin()

    def _begin(self) -> None:
        self._most_asked = 0
        self._known: set[str] = set()
        self._ranges: Intervals[str] = Intervals(())
        self._with_null: set[str] = set()
        self._unbounded: set[str] = set()
        """Files of which the bounds are not known."""

    def around(self, files: Sequence[str], wanted: WantedValues) -> list[str]:
        """Those of these files that may hold a wanted value, in their order."""
        asked = dict.fromkeys(files)
        self._most_asked = max(len(asked), self._most_asked)  # some ask for the files of the last day alone
        if len(self._known) > 2 * self._most_asked:
            self._begin()
        self._add([file for file in asked if file not in self._known])
        found = self._ranges.with_any(wanted.values) | self._unbounded
        found = found | self._with_null if wanted.with_null else found
        return [file for file in asked if file in found]

    def _add(self, files: Iterable[str]) -> None:
        ranges = []
        for file in files:
            self._known.add(file)
            held = held_in(file, self._column)
            if any(group.may_be_null for group in held):
                self._with_null.add(file)
            if any(group.may_be_any for group in held):
                self._unbounded.add(file)
                continue
            bounded = [group for group in held if group.first is not None]
            if bounded:
                first, last = min(group.first for group in bounded), max(group.last for group in bounded)
                ranges.append(TextRange(first, last, file))
        self._ranges.add_all(ranges)


_indexes: OrderedDict[tuple[str, str], _FileIndex] = OrderedDict()
_indexing = threading.Lock()


def _files_around(files: Sequence[str], wanted: WantedValues) -> list[str]:
    """Those of a table's files that may hold a wanted value, by their bounds. To look at each of them, dozens of times
    in a cycle, took longer the more there were."""
    place = files[0].rpartition("/")[0], wanted.column
    with _indexing:
        if place not in _indexes:
            _indexes[place] = _FileIndex(wanted.column)
        _indexes.move_to_end(place)
        if len(_indexes) > _MOST_INDEXES:
            _indexes.popitem(last=False)
        return _indexes[place].around(files, wanted)


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
        return len(held.among(self.values)) > 0 and self._count_in(file, number) != 0

    def is_in(self, file: str, number: int) -> bool:
        """Whether a row group is known to hold one of them."""
        return bool(self._count_in(file, number))

    def share_in(self, file: str, number: int) -> float:
        """Their share of the distinct values that a row group is known to hold; 1 if that is not known."""
        found, all_there = self._count_in(file, number), distinct_count(file, number, self.column)
        return 1.0 if found is None or all_there is None else found / max(all_there, 1)

    def _count_in(self, file: str, number: int) -> int | None:
        """How many of them, told by their hashes, a row group holds; None: not known."""
        found = places_among(file, number, self.column, self.hashes)
        return None if found is None else len(found)


def row_count_of(groups: Iterable[RowGroup]) -> int:
    """The number of all rows of these row groups, wanted ones and others."""
    return sum(held_in(group.file, "group_id")[group.number].row_count for group in groups)


def files_with_values(files: Sequence[str], column: str) -> list[str]:
    """The files in which the column may have a value other than null."""
    return [file for file in files if any(held.may_be_any or held.first is not None for held in held_in(file, column))]


def files_from(files: Sequence[str], column: str, least: int) -> list[str]:
    """The files in which the column may be this much or more."""
    return [file for file in files if any(not held.is_outside(least, None) for held in held_in(file, column))]


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


@functools.lru_cache(maxsize=1 << 14)
def held_in(file: str, column: str | None) -> tuple[ColumnOfGroup, ...]:
    """The statistics of the column in each row group of a file. They are kept, since a cycle asks the same files dozens
    of times: a cycle has some 200 new ones of 600 bytes. Those of files that left their tables go as others come; what
    goes too early is still in `known_footers`."""
    return tuple(map(ColumnOfGroup._make, known(file, f"held {column}", lambda: _held_in(file, column))))


def least_text(file: str, column: str) -> str:
    """The least value of the column in a file, as text; of none the empty one."""
    return min((str(held.first) for held in held_in(file, column) if held.first is not None), default="")


def _held_in(file: str, column: str | None) -> tuple[ColumnOfGroup, ...]:
    metadata = footer(file)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    at = None if column is None else _place(metadata, column)
    if at is None:  # a column that a file lacks is null
        return tuple(ColumnOfGroup(group.num_rows, may_be_any=column is None) for group in groups)
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


@functools.lru_cache(maxsize=1 << 13)
def greatest(file: str, columns: tuple[str, ...]) -> int | None:
    """The greatest number in any of these columns of a file; None if it is not known."""
    bounds = known(file, f"bounds {columns}", lambda: _bounds(file, columns))
    return None if bounds is None else max((last for _, last in bounds), default=None)


@functools.lru_cache(maxsize=1 << 13)
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
    return next((at for at, path in enumerate(column_paths(metadata)) if path == column), None)


@dataclass(frozen=True, slots=True)
class Least:
    """A bound on the rows of some keys."""

    column: str
    of: str
    """A column of the keys."""
    by_value: Mapping[str, Any]
    """For each wanted value of `of`, the least value of `column` in a wanted row; None: any value."""

    @property
    def is_open(self) -> bool:
        """Whether it leaves nothing out of the rows of its keys."""
        return all(least is None for least in self.by_value.values())

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
            before = by_hash.setdefault(hash_of(value), floor)
            by_hash[hash_of(value)] = None if None in (before, floor) else min(before, floor)
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


def row_groups_within(
    files: Sequence[str], column: str, values: Collection[str], bound: Least | None
) -> Iterator[RowGroup]:
    """The row groups in which `column` may be one of the values, and a row within the bound: of a long history, few."""
    asked = row_groups_of(files, column, values)
    if bound is None or bound.is_open:
        return asked
    may_hold = bound.row_group_test()
    return (found for found in asked if may_hold(found.file, found.number))
