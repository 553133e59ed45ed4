"""Rows of some groups from a table's whole history. For few groups, only the parts of files that hold them are read."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import in_types_of, rows_at, rows_to_table, rows_where
from rebalance_audit.warehouse.kept_columns import chosen_rows
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least, greatest, held_in, least
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import ArrowTask, Engine, LocalEngine, parcel
from spark_jobs.stages.stage import Batch
from spark_jobs.structs import things_in
from spark_jobs.task_files import (
    WRITTEN,
    Flags,
    TaskWriter,
    batches_of,
    files_by_table,
    numbers_of,
    parted,
    row_groups,
)

GROUP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string())])
LISTED_AT_MOST = 5_000
"""For at most this many groups, row groups that hold none of them are skipped."""

_ROWS_AT_ONCE = 2_000
"""Rows per batch, each with all that is nested in it."""

_ROWS_AT_MOST = 5_000
"""If more rows than this changed, reading whole groups costs no more."""
Place = tuple[str, str]
"""Cluster and group."""
ThingsByTable = Mapping[str, list[Any]]
GroupFold = Callable[[Place, ThingsByTable], Iterator[tuple[str, dict[str, Any]]]]
"""Makes (table, row) pairs from what one group has in each table: in the order of its `place` where the table has one,
else in none. A table with none of the group has nothing."""


def places_table(places: Iterable[Place]) -> pa.Table:
    listed = sorted(places)
    return pa.table(
        {"cluster_id": [cluster_id for cluster_id, _ in listed], "group_id": [group_id for _, group_id in listed]},
        schema=GROUP,
    )


def rows_of_groups(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str] | None,
    groups: pa.Table | None,
    where: str = "true",
    version: int | None = None,
    asked: Sequence[str] = (),
    least: Least | None = None,
) -> pa.Table:
    """The table's rows of these groups (None: all groups), as `Warehouse.read` gives them. `asked`: further columns
    that `where` names. `least`: rows outside this bound may be left out."""
    if groups is None:
        return warehouse.read(table, columns, where, version=version)
    schema = warehouse.schema(table)
    schema = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    files = warehouse.files(table, version)
    if not files or groups.num_rows == 0:
        return schema.empty_table()
    listed = ", ".join(f'"{column}"' for column in schema.names)
    of_table = warehouse.schema(table)
    bounded = () if least is None else (least.column,)
    needed = dict.fromkeys((*GROUP.names, *schema.names, *asked, *bounded))
    read = pa.schema([of_table.field(column) for column in needed])
    if where == "true" and (few := few_of_keys(files, groups, read, least)) is not None:
        return few.select(schema.names)
    with cursor() as db:
        source = of_keys(db, files, groups, read, least=least)
        found = db.execute(f"SELECT {listed} FROM {source} WHERE {where}").to_arrow_table()
    return in_types_of(found, schema)


def few_of_keys(files: Sequence[str], keys: pa.Table, schema: pa.Schema, bound: Least | None = None) -> pa.Table | None:
    """These columns of the rows with these keys, as in `of_keys`; None if the keys are many, or one is null."""
    *_, column = keys.schema.names
    listed = set(keys[column].to_pylist())
    if None in listed or len(listed) > LISTED_AT_MOST:
        return None
    rows = pa.concat_tables(
        [schema.empty_table(), *(chosen.rows for chosen in chosen_rows(files, schema, {column: listed}, bound))]
    )
    wanted = set(zip(*(keys[name].to_pylist() for name in keys.schema.names), strict=True))
    own = zip(*(rows[name].to_pylist() for name in keys.schema.names), strict=True)
    return rows_at(rows, pa.array([at for at, key in enumerate(own) if key in wanted], pa.int64()))


def rows_with(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str] | None,
    values: Mapping[str, Collection[str | None]],
    version: int | None = None,
) -> pa.Table:
    """The table's rows with one of few values in each of these columns (None: null). Most row groups hold none, which
    their statistics show: DuckDB takes longer to bind the question than it takes to read the others."""
    schema = warehouse.schema(table)
    schema = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    chosen = chosen_rows(warehouse.files(table, version), schema, values)
    return pa.concat_tables([schema.empty_table(), *(of_group.rows for of_group in chosen)])


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReader:
    """Reads the rows of some groups from some tables, in tasks."""

    files: Mapping[str, Sequence[str]]
    """By table."""
    columns: Mapping[str, Sequence[str]]
    """By table; cluster_id and group_id among them."""
    groups: pa.Table
    column: str = "group_id"
    """The column by which rows are chosen; `groups` has it in place of `group_id`."""
    fields: Mapping[str, Collection[str]] = field(default_factory=dict)
    """By column of lists of structs: the fields that are wanted of these, where not all are."""
    packed: Collection[str] = ()
    """Columns of lists of structs that `histories` makes things of when they are asked for (spark_jobs/packed.py)."""
    _wanted: dict[tuple[str, str], int] = field(default_factory=dict, init=False, repr=False)
    """The keys in `groups`, made once in each task that reads."""

    def work(self) -> pa.Table:
        """The reading to do, for `Engine.spread` and `Engine.gather`, in the order of the keys. What a task writes is
        then in that order, too, so that a file and a row group hold neighbours."""
        work = row_groups(self.files, self.column, set(self.groups[self.column].to_pylist()))
        first = [held_in(file, self.column)[at].first for _, file, at in zip(*work.to_pydict().values(), strict=True)]
        return work.take(pa.array(sorted(range(len(first)), key=lambda at: first[at] or ""), pa.int64()))

    def batches(self, named: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The groups' rows in what one row of `work` names."""
        table = named["table"]
        columns = self.columns[table]
        place = ("cluster_id", self.column)
        if not self._wanted:
            self._wanted.update(dict.fromkeys(zip(*(self.groups[name].to_pylist() for name in place), strict=True), 1))
        wanted = self._wanted

        def flags_of(rows: pa.RecordBatch) -> Flags:
            flags: Flags = numbers_of(rows["cluster_id"], rows[self.column], wanted) > 0
            return flags

        # If little is new, nothing is wanted from most files.
        only_if = (place, lambda head: bool(flags_of(head).any()))
        for batch in batches_of(named, columns, _ROWS_AT_ONCE, only_if=only_if, fields=self.fields):
            places = np.flatnonzero(flags_of(batch))
            if len(places):
                yield from rows_at(pa.Table.from_batches([batch]), pa.array(places)).to_batches()


INSTANTS = ("assigned_at_ms", "joined_at_ms", "started_at_ms", "ended_at_ms", "started_lower_ms")
"""When a rebalance was, by any of these that is known."""


def files_since(files: Sequence[str], from_ms: int, until_ms: int | None = None) -> list[str]:
    """The files of rebalances in which some may have been at or after the first instant, and not all after the last one
    (None: no bound)."""
    found = [file for file in files if (at_ms := greatest(file, INSTANTS)) is None or at_ms >= from_ms]
    if until_ms is None:
        return found
    return [file for file in found if (at_ms := least(file, INSTANTS)) is None or at_ms <= until_ms]


def changed_rebalances(warehouse: Warehouse, table: str, columns: Sequence[str], batch: Batch) -> GroupReader | None:
    """Reads the single rebalances of this table that a batch changed. `groups` names those that are gone, too. None
    where that is not known, or they are many: then whole groups are read."""
    key = [*GROUP.names, "rebalance_id"]
    changes = warehouse.row_changes(table, key, batch.since[table], batch.until[table])
    if changes is None or changes.keys.num_rows > _ROWS_AT_MOST:
        return None
    return GroupReader(files={table: changes.files}, columns={table: columns}, groups=changes.keys, column=key[-1])


# ---- group by group


def histories(
    engine: Engine,
    reader: GroupReader,
    kinds: Mapping[str, type],
    fold: GroupFold,
    folder: str,
    latest: Mapping[str, int] | None = None,
) -> dict[str, list[str]]:
    """The files with what `fold` says of each group, by table. `kinds`: the dataclass of each table that is read.
    `latest`: by table, so many of a group's rows are enough, those with the highest `place`."""
    places = _places(reader.groups)
    wanted = 1 if engine.tasks_at_once == 1 else _BUCKETS_PER_TASK * engine.tasks_at_once
    if len(places) > _FEW_PLACES:  # else not even the footers of all files are read
        rows = sum(held.row_count for files in reader.files.values() for file in files for held in held_in(file, None))
        wanted = max(wanted, rows // _BUCKET_ROWS)
    buckets = {place: at * wanted // len(places) for at, place in enumerate(places)}
    asked = engine.share((reader, buckets))
    count = max(buckets.values(), default=-1) + 1
    pack, folding = _packing(asked), _folding(kinds, fold, folder, latest or {}, reader.packed)
    if count <= 1 and isinstance(engine, LocalEngine):  # then no parcel waits for the others
        return files_by_table(engine.spread(reader.work(), lambda work: folding(pack(work)), WRITTEN))
    return files_by_table(engine.gather(reader.work(), pack, folding, WRITTEN, buckets=count))


_BUCKETS_PER_TASK = 4
_FEW_PLACES = 500
_BUCKET_ROWS = 10_000
"""About so many are in the memory of a task at once, however many groups there are."""
_PORTION_ROWS = 2_000
"""About so many are things at once, or all of one group."""
_LONG_ROWS = 1_000
"""A parcel of so many rows of one group is a part of a long history."""


def _packing(asked: Callable[[], tuple[GroupReader, Mapping[Place, int]]]) -> ArrowTask:
    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, buckets = asked()
        waiting: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        for named in (row for some in work for row in some.to_pylist()):
            for batch in reader.batches(named):
                of_rows = numbers_of(batch["cluster_id"], batch["group_id"], buckets)
                for bucket, rows in parted(batch, of_rows):
                    of_bucket = waiting[bucket, named["table"]]
                    of_bucket.append(rows)
                    if sum(map(len, of_bucket)) >= _ROWS_AT_ONCE:
                        yield parcel(bucket, 0, named["table"], pa.concat_batches(of_bucket))
                        of_bucket.clear()
        for (bucket, table), of_bucket in sorted(waiting.items()):
            if of_bucket:
                yield parcel(bucket, 0, table, pa.concat_batches(of_bucket))

    return pack


def _folding(
    kinds: Mapping[str, type], fold: GroupFold, folder: str, latest: Mapping[str, int], packed: Collection[str]
) -> ArrowTask:
    def run(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        rows = (row for some in parcels for row in some.to_pylist())
        for _, of_bucket in groupby(rows, key=itemgetter("bucket")):
            folded: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for place, known in _groups_in(of_bucket, kinds, latest, packed):
                for table, row in fold(place, known):
                    folded[table].append(row)
            for table, of_table in sorted(folded.items()):
                for batch in rows_to_table(table, of_table).to_batches():
                    writer.add(table, batch)
        yield from writer.written()

    return run


def _groups_in(
    of_bucket: Iterable[Mapping[str, Any]],
    kinds: Mapping[str, type],
    latest: Mapping[str, int],
    packed: Collection[str],
) -> Iterator[tuple[Place, ThingsByTable]]:
    """All groups of a bucket's parcels. A parcel of one long history becomes things as it comes, since they take less
    memory than its rows."""
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    long: dict[Place, dict[str, list[_PartOfHistory]]] = {}
    for one in of_bucket:
        table, rows = one["grain"], pa.ipc.open_stream(one["rows"]).read_all()
        if table not in latest and (place := _only_place(rows)) is not None:
            long.setdefault(place, defaultdict(list))[table].append(_PartOfHistory.of(kinds[table], rows, packed))
        else:
            parts[table].append(rows)
    whole = {table: pa.concat_tables(parts.pop(table)) for table in list(parts)}
    whole = {table: _latest(rows, latest[table]) if table in latest else rows for table, rows in whole.items()}
    for place in sorted(long):
        of_group = long.pop(place)
        for table, rows in whole.items():
            is_of_group = pc.and_(*(pc.equal(rows[name], of) for name, of in zip(GROUP.names, place, strict=True)))
            if pc.any(is_of_group).as_py():
                of_group[table].append(_PartOfHistory.of(kinds[table], rows_where(rows, is_of_group), packed))
                whole[table] = rows_where(rows, pc.invert(is_of_group))
        known = {table: _in_order(of_group.pop(table)) for table in list(of_group)}
        yield place, defaultdict(list, known)
    for portion in _portions(whole):
        groups: dict[Place, dict[str, list[Any]]] = {}
        for table in list(portion):  # rows go as they become things
            for place, thing in _things(kinds[table], portion.pop(table), packed):
                groups.setdefault(place, defaultdict(list))[table].append(thing)
        for place in sorted(groups):
            yield place, groups[place]


class _PartOfHistory(NamedTuple):
    """Things of one group, and the place of each in its history, where the table has one."""

    things: list[Any]
    places: npt.NDArray[np.int64] | None

    @classmethod
    def of(cls, kind: type, rows: pa.Table, packed: Collection[str]) -> _PartOfHistory:
        return cls(things_in(kind, rows, packed), rows["place"].to_numpy() if "place" in rows.schema.names else None)


def _in_order(parts: Sequence[_PartOfHistory]) -> list[Any]:
    things = [thing for part in parts for thing in part.things]
    places = [part.places for part in parts if part.places is not None]
    return [things[at] for at in np.argsort(np.concatenate(places), kind="stable").tolist()] if places else things


def _only_place(rows: pa.Table) -> Place | None:
    """The one group of many rows."""
    if rows.num_rows < _LONG_ROWS:
        return None
    values = [rows[name].unique().to_pylist() for name in GROUP.names]
    if any(len(found) > 1 for found in values):
        return None
    [[cluster_id], [group_id]] = values
    return cluster_id, group_id


def _latest(rows: pa.Table, count: int) -> pa.Table:
    """So many of each group at most, those with the highest place."""
    places = rows["place"].to_numpy()
    numbers: dict[Place, int] = {}
    groups = np.array([numbers.setdefault(place, len(numbers)) for place in _places_of(rows)], np.int64)
    order = np.lexsort((-places, groups))
    begins = np.flatnonzero(np.diff(groups[order], prepend=-1))
    in_group = np.arange(len(order)) - np.repeat(begins, np.diff([*begins, len(order)]))
    if not len(order) or in_group.max() < count:
        return rows
    return rows_at(rows, pa.array(np.sort(order[in_group < count])))


def _portions(of_bucket: dict[str, pa.Table]) -> Iterator[dict[str, pa.Table]]:
    """The same rows by table, some whole groups at a time: what becomes of a row takes ten times the row's memory."""
    if sum(rows.num_rows for rows in of_bucket.values()) <= _PORTION_ROWS:
        yield of_bucket
        return
    places = {table: _places_of(rows) for table, rows in of_bucket.items()}
    counts = Counter(chain.from_iterable(places.values()))
    ends = accumulate(counts[place] for place in sorted(counts))
    portions = {place: (end - 1) // _PORTION_ROWS for place, end in zip(sorted(counts), ends, strict=True)}
    numbers = sorted(set(portions.values()))
    if len(numbers) == 1:
        yield of_bucket
        return
    for portion in numbers:
        yield {
            table: rows.filter(pa.array([portions[place] == portion for place in places[table]], pa.bool_()))
            for table, rows in of_bucket.items()
        }


def _things(kind: type, rows: pa.Table, packed: Collection[str]) -> Iterator[tuple[Place, Any]]:
    # Some at a time: what is needed meanwhile takes as much memory as the things.
    things: list[Any] = []
    for at in range(0, rows.num_rows, _PORTION_ROWS):
        things += things_in(kind, rows.slice(at, _PORTION_ROWS), packed)
    places = _places_of(rows)
    return ((places[at], things[at]) for at in in_places(rows))


def _places_of(rows: pa.Table) -> list[Place]:
    return list(zip(rows["cluster_id"].to_pylist(), rows["group_id"].to_pylist(), strict=True))


def in_places(rows: pa.Table) -> list[int]:
    """The rows' numbers in the order of `place`, or as they stand if there is none. Sorting Arrow's nested rows takes
    longer than making objects from them."""
    if "place" not in rows.schema.names:
        return list(range(rows.num_rows))
    found: list[int] = pc.sort_indices(rows["place"]).to_pylist()
    return found


# ---- in the words of DuckDB


def of_keys(
    db: duckdb.DuckDBPyConnection,
    files: Sequence[str],
    keys: pa.Table,
    schema: pa.Schema | None,
    name: str = "wanted",
    least: Least | None = None,
) -> str:
    """A DuckDB relation of the rows of these files with these keys: groups, or a cluster and one other column.
    `schema`: the wanted columns; None if all rows of the keys may not fit into memory. `name`: for what is registered,
    so it must differ within one query. `least`: rows outside this bound may be left out."""
    db.register(name, keys)
    column = keys.schema.names[-1]
    listed = set(keys[column].to_pylist()) - {None}
    same = ", ".join(keys.schema.names)
    if schema is None or len(listed) > LISTED_AT_MOST:
        few = f" WHERE {column} IN ({', '.join(map(literal, sorted(listed)))})"
        whole = f"(FROM {relation(files)}{few if 0 < len(listed) <= LISTED_AT_MOST else ''})"
        return f"(SELECT * FROM {whole} SEMI JOIN {name} USING ({same}))"
    rows = [chosen.rows for chosen in chosen_rows(files, schema, {column: listed}, least)]
    db.register(f"{name}_rows", pa.concat_tables([schema.empty_table(), *rows]))
    return f"(SELECT * FROM {name}_rows SEMI JOIN {name} USING ({same}))"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _places(groups: pa.Table) -> list[Place]:
    return sorted(_places_of(groups))
