"""Rows of some groups from a table's whole history. For few groups, only the parts of files that hold them are read."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import in_types_of, no_rows, rows_at
from rebalance_audit.warehouse.kept_columns import chosen_rows
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import (
    Least,
    WantedValues,
    greatest,
    held_in,
    least,
    row_count_of,
    row_groups_within,
)
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.stages.stage import Batch
from spark_jobs.task_files import Flags, batches_of, numbers_of, row_groups

GROUP = pa.schema([("cluster_id", pa.string()), ("group_id", pa.string())])
LISTED_AT_MOST = 5_000
"""For at most this many groups, row groups that hold none of them are skipped."""

_ROWS_AT_ONCE = 2_000
"""Rows per batch, each with all that is nested in it."""

_ROWS_AT_MOST = 5_000
"""If more rows than this changed, reading whole groups costs no more."""
_ROWS_OF_FEW_GROUPS, _FEW_GROUPS = 50_000, 100
"""Unless they are of few groups, which may have a long history."""
_IN_MEMORY_ROWS = 50_000
"""Of row groups with more rows DuckDB reads what is asked for: all of a long history may be too much for the memory."""
Place = tuple[str, str]
"""Cluster and group."""
PLACE = "place"
"""The column with a rebalance's place in its group's history."""


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
    where_columns: Sequence[str] = (),
    bound: Least | None = None,
) -> pa.Table:
    """The table's rows of these groups (None: all groups), as `Warehouse.read` gives them. `where_columns`: further
    columns that `where` names. `bound`: rows outside it may be left out."""
    if groups is None:
        return warehouse.read(table, columns, where, version=version)
    schema = warehouse.schema(table)
    schema = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    files = warehouse.files(table, version)
    if not files or groups.num_rows == 0:
        return no_rows(schema)
    listed = ", ".join(f'"{column}"' for column in schema.names)
    of_table = warehouse.schema(table)
    bounded = () if bound is None else (bound.column,)
    needed = dict.fromkeys((*GROUP.names, *schema.names, *where_columns, *bounded))
    read = pa.schema([of_table.field(column) for column in needed])
    if where == "true" and (few := rows_of_few_keys(files, groups, read, bound)) is not None:
        return few.select(schema.names)
    held = list(row_groups_within(files, "group_id", set(groups["group_id"].to_pylist()) - {None}, bound))
    is_much = row_count_of(held) > _IN_MEMORY_ROWS  # of which `where` may want little
    asked = list(dict.fromkeys(group.file for group in held)) if is_much else files
    with cursor() as db:
        source = relation_of_keys(db, asked, groups, None if is_much else read, bound=bound)
        found = db.execute(f"SELECT {listed} FROM {source} WHERE {where}").to_arrow_table()
    return in_types_of(found, schema)


def rows_of_few_keys(
    files: Sequence[str], keys: pa.Table, schema: pa.Schema, bound: Least | None = None
) -> pa.Table | None:
    """The rows with these keys in memory, with the columns of `schema`; None if the keys are many, or one is null.
    `keys` and `bound` as in `relation_of_keys`."""
    *_, column = keys.schema.names
    listed = set(keys[column].to_pylist())
    if None in listed or len(listed) > LISTED_AT_MOST:
        return None
    found = chosen_rows(files, schema, {column: listed}, bound, set(keys["cluster_id"].to_pylist()))
    rows = pa.concat_tables([no_rows(schema), *(chosen.rows for chosen in found)])
    wanted = set(zip(*(keys[name].to_pylist() for name in keys.schema.names), strict=True))
    own = zip(*(rows[name].to_pylist() for name in keys.schema.names), strict=True)
    return rows_at(rows, pa.array([at for at, key in enumerate(own) if key in wanted], pa.int64()))


def rows_with(
    warehouse: Warehouse,
    table: str,
    columns: Sequence[str] | None,
    values: Mapping[str, Collection[str | None]],
    version: int | None = None,
    bound: Least | None = None,
) -> pa.Table:
    """The table's rows with one of few values in each of these columns (None: null), within the bound, whose column is
    one of `columns`. Most row groups hold none, which their statistics show: DuckDB takes longer to bind the question
    than it takes to read the others."""
    schema = warehouse.schema(table)
    schema = schema if columns is None else pa.schema([schema.field(column) for column in columns])
    chosen = chosen_rows(warehouse.files(table, version), schema, values, bound)
    return pa.concat_tables([no_rows(schema), *(of_group.rows for of_group in chosen)])


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
    """Columns of lists of structs that `histories` makes objects of when they are asked for (spark_jobs/packed.py)."""
    floors: Mapping[Place, int] = field(default_factory=dict)
    """For some of the groups, the least `place` that is wanted, of tables that have one."""
    ceilings: Mapping[Place, int] = field(default_factory=dict)
    """For some of the groups with a floor, the place from which on none is wanted."""
    _wanted: dict[tuple[str, str], int] = field(default_factory=dict, init=False, repr=False)
    """The keys in `groups`, each with its floor and one: made once in each task that reads."""
    _values: list[WantedValues] = field(default_factory=list, init=False, repr=False)
    """The same keys, without their cluster."""

    def work(self) -> pa.Table:
        """The reading to do, for `Engine.spread` and `Engine.gather`, in the order of the keys. What a task writes is
        then in that order, too, so that a file and a row group hold neighbours."""
        work = row_groups(self.files, self.column, set(self.groups[self.column].to_pylist()))
        if self.floors:
            work = work.filter(pa.array(self._may_reach(work), pa.bool_()))
        first = [held_in(file, self.column)[at].first for _, file, at in zip(*work.to_pydict().values(), strict=True)]
        return work.take(pa.array(sorted(range(len(first)), key=lambda at: first[at] or ""), pa.int64()))

    def _may_reach(self, work: pa.Table) -> list[bool]:
        """Whether each of these row groups may have a place that is not below the floor of its group."""
        floors: dict[str, int] = {}
        for cluster_id, key in zip(
            *(self.groups[name].to_pylist() for name in ("cluster_id", self.column)), strict=True
        ):
            floor = self.floors.get((cluster_id, key), 0)
            floors[key] = min(floor, floors.get(key, floor))
        test = Least(PLACE, self.column, floors).row_group_test()
        beyond = max(self.ceilings.values()) if len(self.ceilings) == self.groups.num_rows else None
        places = zip(*(work[name].to_pylist() for name in work.schema.names), strict=True)
        return [
            PLACE not in self.columns[table]
            or (test(file, number) and not held_in(file, PLACE)[number].is_outside(None, beyond))
            for table, file, number in places
        ]

    def batches(self, named: Mapping[str, Any]) -> Iterator[pa.RecordBatch]:
        """The groups' rows in what one row of `work` names."""
        table = named["table"]
        columns = self.columns[table]
        has_floors = bool(self.floors) and PLACE in columns
        place = ("cluster_id", self.column, PLACE) if has_floors else ("cluster_id", self.column)
        if not self._wanted:
            keys = zip(*(self.groups[name].to_pylist() for name in place[:2]), strict=True)
            self._wanted.update((key, 1 + self.floors.get(key, 0)) for key in keys)
            self._values.append(WantedValues.of(self.column, {key for _, key in self._wanted}, with_null=False))
        wanted = self._wanted

        def flags_of(rows: pa.RecordBatch) -> Flags:
            numbers = numbers_of(rows["cluster_id"], rows[self.column], wanted)
            flags: Flags = numbers > 0
            if not has_floors:
                return flags
            places = rows[PLACE].to_numpy()
            flags &= places >= numbers - 1
            if self.ceilings:
                beyond = numbers_of(rows["cluster_id"], rows[self.column], self.ceilings)
                flags &= (beyond < 0) | (places < beyond)
            return flags

        # If little is new, nothing is wanted from most files.
        only_if = (place, lambda head: bool(flags_of(head).any()))
        surely = None if has_floors else self._values[0]
        for batch in batches_of(named, columns, _ROWS_AT_ONCE, only_if=only_if, surely=surely, fields=self.fields):
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


def least_by_group(rows: pa.Table, value: str, column: str, less: int = 0) -> Least:
    """The bound on `column` of rows of these groups: for each its least `value` in `rows`, or so much `less`."""
    least = rows.group_by("group_id").aggregate([(value, "min")])
    listed = zip(least["group_id"].to_pylist(), least[f"{value}_min"].to_pylist(), strict=True)
    return Least(column, "group_id", {group_id: found - less for group_id, found in listed})


def changed_rebalances(warehouse: Warehouse, table: str, columns: Sequence[str], batch: Batch) -> GroupReader | None:
    """Reads the single rebalances of this table that a batch changed. `groups` names those that are gone, too. None
    where that is not known, or they are many: then whole groups are read."""
    key = [*GROUP.names, "rebalance_id"]
    changes = warehouse.row_changes(table, key, batch.since[table], batch.until[table])
    if changes is None or changes.keys.num_rows > _ROWS_OF_FEW_GROUPS:
        return None
    if changes.keys.num_rows > _ROWS_AT_MOST:
        if changes.keys.group_by(GROUP.names).aggregate([]).num_rows > _FEW_GROUPS:
            return None
    return GroupReader(files={table: changes.files}, columns={table: columns}, groups=changes.keys, column=key[-1])


# ---- as relations of DuckDB


def relation_of_keys(
    db: duckdb.DuckDBPyConnection,
    files: Sequence[str],
    keys: pa.Table,
    schema: pa.Schema | None,
    name: str = "wanted",
    bound: Least | None = None,
) -> str:
    """A DuckDB relation of the rows of these files with these keys: groups, or a cluster and one other column.
    `schema`: the wanted columns; None if all rows of the keys may not fit into memory. `name`: for what is registered,
    so it must differ within one query. `bound`: rows outside this bound may be left out."""
    db.register(name, keys)
    column = keys.schema.names[-1]
    listed = set(keys[column].to_pylist()) - {None}
    same = ", ".join(keys.schema.names)
    if schema is None or len(listed) > LISTED_AT_MOST:
        few = f" WHERE {column} IN ({', '.join(map(literal, sorted(listed)))})"
        whole = f"(FROM {relation(files)}{few if 0 < len(listed) <= LISTED_AT_MOST else ''})"
        return f"(SELECT * FROM {whole} SEMI JOIN {name} USING ({same}))"
    rows = [chosen.rows for chosen in chosen_rows(files, schema, {column: listed}, bound)]
    db.register(f"{name}_rows", pa.concat_tables([no_rows(schema), *rows]))
    return f"(SELECT * FROM {name}_rows SEMI JOIN {name} USING ({same}))"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
