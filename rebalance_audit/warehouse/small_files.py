"""Which small files of a table are joined, and into what. A row is written again a few times at most, and few files
need to be opened for a few groups, however large the table has become.

What joins are the files that came since the last join. Of tables in which rows are replaced the result is a run: files
of bounded size, in the order of the groups, of which a group is in one. Eight runs of a level make one of the next, so
that their number grows with the logarithm of the rows. So each file covers a limited time, too, and a query for the
last hours can skip the older ones. Large files of events join into runs as well.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import whole
from rebalance_audit.warehouse.file_sizes import (
    ASKED_FOR_GROUPS,
    INSTANT_OF,
    in_order,
    is_appended,
    most_rows,
    order_of,
)
from rebalance_audit.warehouse.footers import footer
from rebalance_audit.warehouse.kept_columns import put_rows
from rebalance_audit.warehouse.row_groups import (
    SOON_REPLACED,
    SOON_REPLACED_ROWS,
    ColumnOfGroup,
    held_in,
    is_soon_replaced,
    is_tail,
    least_text,
)
from rebalance_audit.warehouse.spreading import Spread, spread_over
from rebalance_audit.warehouse.storage import located

SMALL_FILES = 32
"""This many are joined at once: some 30 ms of work in one of 32 cycles, and never many files."""
RUNS = 8
"""This many runs of a level are merged."""
_SMALL_ROWS = 1_024
"""A small file has fewer, and less than half of what a file of its table may have."""
_APPENDED_TIERS = (64, 1_024, 16_384)
"""For tables in which no row is ever replaced: a file with fewer rows belongs to the first tier, and so on."""
LARGE_ROWS = _APPENDED_TIERS[-1]
LARGE_FILES = 4
"""Of files with so many rows, in which no row is ever replaced, this many are joined into a run if groups are asked
for."""
LARGE_AT_ONCE = 16 * LARGE_ROWS
"""A run of them has at most so many rows, since a cycle waits for it. `maintain` makes longer ones."""
_AT_ONCE = 4
"""Files of rows that are in memory while runs are merged."""
_TASKS = 8
"""At most so many join the files of a tier."""
_FILE = pa.schema([("file", pa.string())])

Bound: TypeAlias = tuple[tuple[Any, ...], ...]
"""Values of the first columns of those in whose order the table's rows are, each as a tuple of one. Null, which is
lower than any, is an empty one."""


@dataclass(frozen=True, slots=True)
class Tier:
    kind: str
    """How the names of the joined files begin."""
    joined_rows: int
    """At most so many in each."""
    files: tuple[str, ...]
    is_full: bool
    """Whether there are enough files to be joined."""


def tiers_of(
    table: str,
    rows_of: Mapping[str, int | None],
    least: int | None = None,
    large_at_once: int | None = LARGE_AT_ONCE,
) -> list[Tier]:
    """`rows_of`: the rows of each file, by path. A file of unknown or many rows is in no tier. `least`: files that are
    to be joined (None: SMALL_FILES). `large_at_once`: the rows of large files that join (None: any number)."""
    is_whole = large_at_once is None
    least = SMALL_FILES if least is None else least
    of_file = most_rows(table, is_soon_replaced=False)
    bounds = _APPENDED_TIERS if is_appended(table) else (min(_SMALL_ROWS, of_file // 2),)
    most = 2 * bounds[-1] if is_appended(table) else of_file
    soon: list[str] = []
    tails: list[str] = []
    small: list[list[str]] = [[] for _ in bounds]
    large: dict[str, int] = {}
    runs: dict[int, dict[str, list[str]]] = {}
    for path, rows in sorted(rows_of.items()):
        if rows is None:
            continue
        if is_tail(path):
            tails.append(path)
        elif is_soon_replaced(path):
            if rows * 2 <= SOON_REPLACED_ROWS:
                soon.append(path)
        elif (run := _run_of(path)) is not None:
            level, name = run
            runs.setdefault(level, {}).setdefault(name, []).append(path)
        else:
            tier = next((at for at, below in enumerate(bounds) if rows < below), None)
            if tier is not None:
                small[tier].append(path)
            else:
                large[path] = rows
    kind = "part" if is_appended(table) else "run1"
    found = [Tier(SOON_REPLACED, SOON_REPLACED_ROWS, tuple(files), len(files) >= least) for files in (soon, tails)]
    found += [Tier(kind, most, tuple(files), len(files) >= least) for files in small]
    if large and table in ASKED_FOR_GROUPS:
        fitting = tuple(large) if large_at_once is None else _fitting(large, large_at_once)
        found.append(Tier("run1", most, fitting, len(fitting) >= (least if is_whole else LARGE_FILES)))
    for level, of_level in sorted(runs.items()):
        files = tuple(path for name in sorted(of_level) for path in of_level[name])
        is_full = len(of_level) >= RUNS and (is_whole or not is_appended(table))
        found.append(Tier(f"run{level + 1}", most, files, is_full))
    return found


def _fitting(rows_of: Mapping[str, int], most: int) -> tuple[str, ...]:
    """The smallest files, as many as have so many rows together."""
    smallest = sorted(rows_of, key=lambda path: (rows_of[path], path))
    rows = accumulate(rows_of[path] for path in smallest)
    return tuple(path for path, until in zip(smallest, rows, strict=True) if until <= most)


def _run_of(path: str) -> tuple[int, str] | None:
    """The level of the run and its name, by the name of one of its files: run2-5f3a…-part.parquet."""
    kind, _, rest = path.rpartition("/")[2].partition("-")
    level = kind.removeprefix("run")
    return (int(level), rest.partition("-")[0]) if kind.startswith("run") and level.isdigit() else None


@dataclass(frozen=True, slots=True)
class Portion:
    """Rows of some files that are in memory at once."""

    files: Sequence[str]
    low: Bound | None = None
    high: Bound | None = None
    """Only rows from `low` on and below `high`; None: no bound."""


def joined(table: str, portions: Iterable[Portion], schema: pa.Schema, joined_rows: int) -> Iterator[pa.Table]:
    """The rows of these portions, each in the order of the groups, in tables of so many rows but for the last one."""
    by = order_of(table)
    waiting = schema.empty_table()
    for portion in portions:
        parts = [part for file in portion.files for part in _between(file, schema, by, portion)]
        waiting = pa.concat_tables([waiting, in_order(table, pa.concat_tables([schema.empty_table(), *parts]))])
        while waiting.num_rows >= joined_rows:
            yield waiting.slice(0, joined_rows)
            waiting = waiting.slice(joined_rows)
    if waiting.num_rows:
        yield waiting


def portions_of(table: str, files: Sequence[str], joined_rows: int) -> list[Portion]:
    """All rows of these files, one portion after the other, in the order of the groups."""
    if table.startswith("bronze."):  # no row names its group, and every partition's offsets begin anew
        first = tables.BY_NAME[table].key[0]
        in_order_of_rows = sorted(files, key=lambda file: (least_text(file, first), file))
        return list(map(Portion, _cut_by_rows(in_order_of_rows, joined_rows)))
    by = order_of(table)
    bounds = _cuts(files, by, joined_rows * (1 if table in INSTANT_OF else _AT_ONCE))
    extents = {file: _extents(file, by) for file in files}
    return [
        Portion([file for file in files if any(_may_be_in(extent, low, high) for extent in extents[file])], low, high)
        for low, high in zip([None, *bounds], [*bounds, None], strict=True)
    ]


@dataclass(frozen=True, slots=True)
class _JoinTask:
    """What one task joins."""

    kind: str
    joined_rows: int
    portions: Sequence[Portion]


def joined_in_tasks(spread: Spread, table: str, tiers: Sequence[Tier], schema: pa.Schema, folder: str) -> list[str]:
    """New files in this folder with the rows of these tiers. Each task joins neighbours, and its last file may have few
    rows."""
    tasks: list[_JoinTask] = []
    for tier in tiers:
        portions = portions_of(table, tier.files, tier.joined_rows)
        at_once = -(-len(portions) // _TASKS)
        tasks += (
            _JoinTask(tier.kind, tier.joined_rows, portions[at : at + at_once])
            for at in range(0, len(portions), at_once)
        )

    def join(of_task: _JoinTask) -> Iterator[pa.RecordBatch]:
        fs, path = located(folder)
        fs.create_dir(path, recursive=True)
        for rows in joined(table, of_task.portions, schema, of_task.joined_rows):
            file = f"{folder}/{of_task.kind}-{uuid.uuid4().hex}.parquet"
            put_rows(table, file, rows)
            yield pa.RecordBatch.from_pydict({"file": [file]}, _FILE)

    return sorted(spread_over(spread, tasks, join, _FILE)["file"].to_pylist())


def _cut_by_rows(files: Sequence[str], rows_at_once: int) -> Iterator[list[str]]:
    some: list[str] = []
    count = 0
    for file in files:
        some.append(file)
        count += sum(held.row_count for held in held_in(file, None))
        if count >= rows_at_once:
            yield some
            some, count = [], 0
    if some:
        yield some


def _held_of(file: str, by: Sequence[str]) -> Iterator[tuple[ColumnOfGroup, ...]]:
    """The statistics of these columns in each row group of a file."""
    return zip(*(held_in(file, column) for column in by), strict=True)


def _cuts(files: Sequence[str], by: Sequence[str], rows_at_once: int) -> list[Bound]:
    """Values of the columns that cut the rows into parts of about so many. One group may have a long history, so it is
    cut, too."""
    starts = [(start, held[0].row_count) for file in files for held in _held_of(file, by) if (start := _start(held))]
    cuts: list[Bound] = []
    count = 0
    for start, rows in sorted(starts):
        if count >= rows_at_once and (not cuts or start > cuts[-1]):
            cuts.append(start)
            count = 0
        count += rows
    return cuts


def _start(held: Sequence[ColumnOfGroup]) -> Bound:
    """The least values in a row group, as far as it has one of each column before. Null is passed over."""
    start: list[tuple[Any, ...]] = []
    for of_column in held:
        if of_column.first is None:
            break
        start.append((of_column.first,))
        if of_column.first != of_column.last:
            break
    return tuple(start)


def _extents(file: str, by: Sequence[str]) -> list[tuple[Bound, Bound]]:
    """Of each row group of a file the first and the last place that a row of it may have, as far as that is known."""
    return list(map(_extent, _held_of(file, by)))


def _extent(held: Sequence[ColumnOfGroup]) -> tuple[Bound, Bound]:
    first: list[tuple[Any, ...]] = []
    last: list[tuple[Any, ...]] = []
    for of_column in held:
        if of_column.may_be_any:
            break
        has_null = of_column.may_be_null or of_column.first is None
        first.append(() if has_null else (of_column.first,))
        last.append(() if of_column.last is None else (of_column.last,))
        if first[-1] != last[-1]:
            break
    return tuple(first), tuple(last)


def _may_be_in(extent: tuple[Bound, Bound], low: Bound | None, high: Bound | None) -> bool:
    """Whether a row group of this extent may have rows from `low` on and below `high`."""
    first, last = extent
    is_below = low is not None and last < low[: len(last)]
    return not is_below and (high is None or first[: len(high)] < high)


def _between(file: str, schema: pa.Schema, by: Sequence[str], portion: Portion) -> Iterator[pa.Table]:
    """The rows of a file that are of the portion."""
    fs, path = located(file)
    with pq.ParquetFile(path, filesystem=fs, metadata=footer(file)) as opened:
        for number, extent in enumerate(_extents(file, by)):
            if not _may_be_in(extent, portion.low, portion.high):
                continue
            rows = whole(opened.read_row_group(number, use_threads=False), schema)
            if portion.low is not None:
                rows = rows.filter(_from(rows, by, portion.low))
            if portion.high is not None:
                rows = rows.filter(pc.invert(_from(rows, by, portion.high)))
            yield rows


def _from(rows: pa.Table, by: Sequence[str], bound: Bound) -> pa.ChunkedArray:
    """Whether each row is not below the bound. Null is lower than any value."""
    *firsts, (last, (least,)) = zip(by, bound, strict=False)
    found = pc.greater_equal(rows[last], least)
    for column, (value,) in reversed(firsts):
        is_same = pc.and_kleene(pc.equal(rows[column], value), found)
        found = pc.or_kleene(pc.greater(rows[column], value), is_same)
    return pc.fill_null(found, False)
