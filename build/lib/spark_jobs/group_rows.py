"""Rows of some groups out of a table's whole history: of few groups the files are asked, and nothing else is read."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import in_types_of, rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.engine import ArrowTask, Engine, parcel
from spark_jobs.task_files import WRITTEN, TaskWriter, batches_of, files_by_table, numbers_of, row_groups

GROUP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string())])
_LISTED_AT_MOST = 500
"""So many groups are listed for the reader of Parquet, who then skips what holds none of them."""

_ROWS_AT_ONCE = 2_000
"""Rows per batch, each with all that is nested in it."""

Place = tuple[str, str]
"""Cluster and group."""
RowsByTable = Mapping[str, list[dict[str, Any]]]
GroupFold = Callable[[Place, RowsByTable], Iterator[tuple[str, dict[str, Any]]]]
"""Makes (table, row) pairs from the rows of one group, which come in no order. A table with none of the group has no
rows."""


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
) -> pa.Table:
    """The table's rows of these groups (None: of any), as `Warehouse.read` gives them."""
    if groups is None:
        return warehouse.read(table, columns, where, version=version)
    schema = warehouse.schema(table)
    schema = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    files = warehouse.files(table, version)
    if not files or groups.num_rows == 0:
        return schema.empty_table()
    listed = ", ".join(f'"{column}"' for column in schema.names)
    with cursor() as db:
        db.register("wanted", groups)
        found = db.execute(f"SELECT {listed} FROM {of_groups(files, groups)} WHERE {where}").to_arrow_table()
    return in_types_of(found, schema)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupReader:
    """For tasks: what some groups have in some tables."""

    files: Mapping[str, Sequence[str]]
    """By table."""
    columns: Mapping[str, Sequence[str]]
    """By table; cluster_id and group_id among them."""
    groups: pa.Table

    def work(self) -> pa.Table:
        """The reading to do, for `Engine.spread` and `Engine.gather`."""
        return row_groups(self.files, {group_id for _, group_id in _places(self.groups)})

    def batches(self, named: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The groups' rows in what one row of `work` names."""
        table = named["table"]
        columns = self.columns[table]
        wanted = dict.fromkeys(_places(self.groups), 1)
        # Of most files nothing is wanted when little is new.
        if any(
            (numbers_of(head.column(0), head.column(1), wanted) > 0).any()
            for head in batches_of(named, GROUP.names, _ROWS_AT_ONCE)
        ):
            for batch in batches_of(named, columns, _ROWS_AT_ONCE):
                flags = numbers_of(batch["cluster_id"], batch["group_id"], wanted) > 0
                if flags.any():
                    yield batch if flags.all() else batch.filter(pa.array(flags))


# ---- group by group


def histories(
    engine: Engine,
    reader: GroupReader,
    fold: GroupFold,
    folder: str,
) -> dict[str, list[str]]:
    """The files with what `fold` says of each group, by table."""
    places = _places(reader.groups)
    buckets = {place: at * _BUCKETS_PER_TASK * engine.tasks_at_once // len(places) for at, place in enumerate(places)}
    asked = engine.share((reader, buckets))
    count = max(buckets.values(), default=-1) + 1
    return files_by_table(engine.gather(reader.work(), _packing(asked), _folding(fold, folder), WRITTEN, buckets=count))


_BUCKETS_PER_TASK = 4


def _packing(asked: Callable[[], tuple[GroupReader, Mapping[Place, int]]]) -> ArrowTask:
    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        reader, buckets = asked()
        for named in (row for some in work for row in some.to_pylist()):
            for batch in reader.batches(named):
                of_rows = numbers_of(batch["cluster_id"], batch["group_id"], buckets)
                for bucket in np.unique(of_rows).tolist():
                    yield parcel(bucket, 0, named["table"], batch.filter(pa.array(of_rows == bucket)))

    return pack


def _folding(fold: GroupFold, folder: str) -> ArrowTask:
    def run(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        rows = (row for some in parcels for row in some.to_pylist())
        for _, of_bucket in groupby(rows, key=itemgetter("bucket")):
            groups: dict[Place, dict[str, list[dict[str, Any]]]] = {}
            for one in of_bucket:
                for row in pa.ipc.open_stream(one["rows"]).read_all().to_pylist():
                    place = row["cluster_id"], row["group_id"]
                    groups.setdefault(place, defaultdict(list))[one["grain"]].append(row)
            folded: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for table, row in chain.from_iterable(fold(place, groups[place]) for place in sorted(groups)):
                folded[table].append(row)
            for table, of_table in sorted(folded.items()):
                for batch in rows_to_table(table, of_table).to_batches():
                    writer.add(table, batch)
        yield from writer.written()

    return run


# ---- in the words of DuckDB


def of_groups(files: Sequence[str], groups: pa.Table) -> str:
    """Rows of these files of the groups registered as `wanted`."""
    names = sorted(set(groups["group_id"].to_pylist()) - {None})
    few = f" WHERE group_id IN ({', '.join(map(literal, names))})" if 0 < len(names) <= _LISTED_AT_MOST else ""
    return f"(SELECT * FROM (FROM {relation(files)}{few}) SEMI JOIN wanted USING (cluster_id, group_id))"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _places(groups: pa.Table) -> list[Place]:
    return sorted(zip(groups["cluster_id"].to_pylist(), groups["group_id"].to_pylist(), strict=True))
