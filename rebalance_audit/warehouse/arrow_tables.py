"""Tables of `domain.tables` as Arrow has them."""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables

_Column = TypeVar("_Column", pa.Array, pa.ChunkedArray)

_FEW_ROWS = 500
"""A set knows so many as soon as Arrow's groups do."""
_FEW_RUNS = 8
"""Of wide rows so many neighbours are joined in a tenth of the time that copying takes."""
_SCALARS: dict[str, pa.DataType] = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
}


def arrow_type(ddl: str) -> pa.DataType:
    """A Spark DDL type, as far as `domain.tables` uses them, as an Arrow type."""
    text = ddl.strip()
    if text in _SCALARS:
        return _SCALARS[text]
    if text.startswith("array<") and text.endswith(">"):
        return pa.list_(arrow_type(text[6:-1]))
    if text.startswith("struct<") and text.endswith(">"):
        fields = (part.split(":", 1) for part in _split_top(text[7:-1]))
        return pa.struct([pa.field(name.strip(), arrow_type(type_)) for name, type_ in fields])
    raise ValueError(f"no Arrow type for {ddl!r}")


def _split_top(text: str) -> Iterator[str]:
    depth = start = 0
    for at, char in enumerate(text):
        depth += (char == "<") - (char == ">")
        if char == "," and depth == 0:
            yield text[start:at]
            start = at + 1
    yield text[start:]


@functools.cache
def arrow_schema(table: str | tables.Table) -> pa.Schema:
    """The Arrow schema of a table; every column nullable, since `required` is a check and not a storage property."""
    known = tables.BY_NAME[table] if isinstance(table, str) else table
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in known.columns])


def rows_to_table(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Rows as a table of this name; keys a row lacks are null, keys the table lacks are left out."""
    schema = arrow_schema(name)
    return pa.table({f.name: pa.array([row.get(f.name) for row in rows], f.type) for f in schema}, schema=schema)


def no_rows(schema: pa.Schema) -> pa.Table:
    """An empty table. Arrow's own `empty_table` makes an array for all that is nested: half a millisecond for 66
    columns."""
    return pa.Table.from_batches([], schema)


def in_types_of(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows in the table's own types; DuckDB names list items otherwise, and uses 64-bit offsets at times."""
    return data if data.schema.equals(schema) else data.cast(schema)


def whole(data: pa.Table, schema: pa.Schema) -> pa.Table:
    """The same rows with all columns of the schema; one that is not there, since an older release wrote the rows, is
    null."""
    if data.schema.equals(schema):
        return data
    there = set(data.schema.names)
    arrays = [
        in_type(data[field.name], field.type) if field.name in there else pa.nulls(data.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(arrays, schema=schema)


def narrow_schema(schema: pa.Schema, fields: Mapping[str, Collection[str]]) -> pa.Schema:
    """The same columns with only these fields of the structs in their lists, by column."""

    def narrow(field: pa.Field) -> pa.Field:
        if field.name not in fields:
            return field
        kept = [one for one in field.type.value_type if one.name in fields[field.name]]
        return field.with_type(pa.list_(field.type.value_field.with_type(pa.struct(kept))))

    return pa.schema([narrow(field) for field in schema])


def rows_at(rows: pa.Table, places: pa.Array) -> pa.Table:
    """The rows at these places, which are in order. Neighbours are not copied: that takes ten times as long, column by
    column."""
    if len(places) == 0:
        return rows.slice(0, 0)
    if len(places) == rows.num_rows:
        return rows
    first, last = places[0].as_py(), places[-1].as_py()
    return rows.slice(first, len(places)) if last - first + 1 == len(places) else rows.take(places)


def rows_in_order(rows: pa.Table, places: npt.NDArray[np.int64]) -> pa.Table:
    """The rows at these places, in that order. Where few of them leave the order in which they are, neighbours are not
    copied."""
    begins = [0, *(np.flatnonzero(np.diff(places) != 1) + 1).tolist()]
    if len(begins) > _FEW_RUNS or len(places) == 0:
        return rows.take(pa.array(places))
    if len(begins) == 1 and len(places) == rows.num_rows:
        return rows
    ends = [*begins[1:], len(places)]
    return pa.concat_tables(rows.slice(places[b], e - b) for b, e in zip(begins, ends, strict=True))


def distinct(rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    """The different rows of these columns, in no order. Arrow takes a millisecond to begin to group; of a handful a set
    knows them sooner."""
    named = rows.select(columns)
    if named.num_rows <= 1:
        return named
    if named.num_rows > _FEW_ROWS:
        return named.group_by(named.schema.names).aggregate([]).select(columns)
    values = dict.fromkeys(zip(*(column.to_pylist() for column in named.columns), strict=True))
    of_columns = zip(zip(*values, strict=True), named.schema.types, strict=True)
    return pa.Table.from_arrays([pa.array(*column) for column in of_columns], schema=named.schema)


def rows_where(rows: pa.Table, flags: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The rows for which the flag is true. Often that is all of them, or neighbours."""
    return rows_at(rows, pc.indices_nonzero(flags))


def in_type(column: _Column, type_: pa.DataType) -> _Column:
    """The same values; Arrow casts to no dictionary but from one."""
    if column.type == type_:
        return column
    if pa.types.is_dictionary(type_) and not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.cast(type_)
