"""Histories of groups: what a fold makes of all rows that some tables have of each group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain, groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import rows_at, rows_to_table, rows_where
from rebalance_audit.warehouse.row_groups import held_in
from spark_jobs.engine import ArrowTask, Engine, LocalEngine, parcel
from spark_jobs.group_rows import GROUP, GroupReader, Place
from spark_jobs.structs import objects_in
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table, numbers_of, parted

_BUCKETS_PER_TASK = 4
_FEW_PLACES = 500
_BUCKET_ROWS = 10_000
"""About so many are in the memory of a task at once, however many groups there are."""
_PARCEL_ROWS = 2_000
_PORTION_ROWS = 2_000
"""About so many are objects at once, or all of one group."""
_LONG_ROWS = 1_000
"""A parcel of so many rows of one group is a part of a long history."""

ObjectsByTable = Mapping[str, list[Any]]
GroupFold = Callable[[Place, ObjectsByTable], Iterator[tuple[str, dict[str, Any]]]]
"""Makes (table, row) pairs from what one group has in each table: in the order of its `place` where the table has one,
else in none. A table with none of the group has nothing."""


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
    places = sorted(_places_of(reader.groups))
    wanted = 1 if engine.tasks_at_once == 1 else _BUCKETS_PER_TASK * engine.tasks_at_once
    if len(places) > _FEW_PLACES:  # else not even the footers of all files are read
        rows = sum(held.row_count for files in reader.files.values() for file in files for held in held_in(file, None))
        wanted = max(wanted, rows // _BUCKET_ROWS)
    buckets = {place: at * wanted // len(places) for at, place in enumerate(places)}
    shared = engine.share((reader, buckets))
    count = max(buckets.values(), default=-1) + 1
    pack, folding = _packing(shared), _folding(kinds, fold, folder, latest or {}, reader.packed)
    if count <= 1 and isinstance(engine, LocalEngine):  # then no parcel waits for the others
        return files_by_table(engine.spread(reader.work(), lambda work: folding(pack(work)), WRITTEN))
    return files_by_table(engine.gather(reader.work(), pack, folding, WRITTEN, buckets=count))


def _packing(shared: Callable[[], tuple[GroupReader, Mapping[Place, int]]]) -> ArrowTask:
    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, buckets = shared()
        waiting: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        for named in (row for some in work for row in some.to_pylist()):
            for batch in reader.batches(named):
                of_rows = numbers_of(batch["cluster_id"], batch["group_id"], buckets)
                for bucket, rows in parted(batch, of_rows):
                    of_bucket = waiting[bucket, named["table"]]
                    of_bucket.append(rows)
                    if sum(map(len, of_bucket)) >= _PARCEL_ROWS:
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
) -> Iterator[tuple[Place, ObjectsByTable]]:
    """All groups of a bucket's parcels. A parcel of one long history becomes objects as it comes, since they take less
    memory than its rows."""
    parts: dict[str, list[pa.Table]] = defaultdict(list)
    long: dict[Place, dict[str, list[_PartOfHistory]]] = {}
    for one in of_bucket:
        table, rows = one["kind"], pa.ipc.open_stream(one["rows"]).read_all()
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
        for table in list(portion):  # rows go as they become objects
            for place, made in _objects(kinds[table], portion.pop(table), packed):
                groups.setdefault(place, defaultdict(list))[table].append(made)
        for place in sorted(groups):
            yield place, groups[place]


class _PartOfHistory(NamedTuple):
    """Objects of one group, and the place of each in its history, where the table has one."""

    objects: list[Any]
    places: npt.NDArray[np.int64] | None

    @classmethod
    def of(cls, kind: type, rows: pa.Table, packed: Collection[str]) -> _PartOfHistory:
        return cls(objects_in(kind, rows, packed), rows["place"].to_numpy() if "place" in rows.schema.names else None)


def _in_order(parts: Sequence[_PartOfHistory]) -> list[Any]:
    objects = [each for part in parts for each in part.objects]
    places = [part.places for part in parts if part.places is not None]
    return [objects[at] for at in np.argsort(np.concatenate(places), kind="stable").tolist()] if places else objects


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


def _objects(kind: type, rows: pa.Table, packed: Collection[str]) -> Iterator[tuple[Place, Any]]:
    # Some at a time: what is needed meanwhile takes as much memory as the objects.
    objects: list[Any] = []
    for at in range(0, rows.num_rows, _PORTION_ROWS):
        objects += objects_in(kind, rows.slice(at, _PORTION_ROWS), packed)
    places = _places_of(rows)
    return ((places[at], objects[at]) for at in in_places(rows))


def _places_of(rows: pa.Table) -> list[Place]:
    return list(zip(rows["cluster_id"].to_pylist(), rows["group_id"].to_pylist(), strict=True))


def in_places(rows: pa.Table) -> list[int]:
    """The rows' numbers in the order of `place`, or as they stand if there is none. Sorting Arrow's nested rows takes
    longer than making objects from them."""
    if "place" not in rows.schema.names:
        return list(range(rows.num_rows))
    found: list[int] = pc.sort_indices(rows["place"]).to_pylist()
    return found
