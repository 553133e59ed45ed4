"""A warehouse that an older release wrote gets the columns that its tables lack, one commit per table.

Within a major version tables are only extended, so that old rows stay true: what they lack is null, not known. A table
is rewritten in one commit that changes no data, and published in the next step; a run that is killed between any two
steps is continued by the next one. Decision 0022.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table

if TYPE_CHECKING:
    from rebalance_audit.warehouse.warehouse import Warehouse


@functools.cache
def fingerprint() -> str:
    """A hash of all tables and columns of this release. If `warehouse.json` has the same, no column is missing."""
    text = "\n".join(f"{table.name} {table.ddl()}" for table in sorted(tables.BY_NAME.values(), key=lambda t: t.name))
    return hashlib.sha256(text.encode()).hexdigest()


def lacking(opened: Warehouse) -> list[str]:
    """Tables that were written with fewer columns than they have now, or are published so."""
    found = []
    published = opened.published()
    for name in tables.BY_NAME:
        for version in {None, published.get(name)}:
            columns = opened.stored_columns(name, version)
            if columns is not None and not _has_all(columns, arrow_schema(name)):
                found.append(name)
                break
    return found


def _has_all(stored: pa.Schema, wanted: pa.Schema) -> bool:
    return all(
        field.name in stored.names and _names_in(stored.field(field.name).type) == _names_in(field.type)
        for field in wanted
    )


def _names_in(type_: pa.DataType) -> Any:
    """The names inside a nested type, whatever its items are called; None for a plain one."""
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        return [_names_in(type_.value_type)]
    if pa.types.is_struct(type_):
        return {type_.field(at).name: _names_in(type_.field(at).type) for at in range(type_.num_fields)}
    return None


def upgrade(opened: Warehouse, names: list[str], reached: Callable[[str], None] = lambda point: None) -> None:
    """Extend tables of an older release. Only for the one who holds the lease. `reached` is called after every step,
    for tests."""
    for name in names:
        columns = opened.stored_columns(name, None)
        if columns is not None and not _has_all(columns, arrow_schema(name)):
            opened.extend(name, functools.partial(extended, name))
            reached(f"{name}:written")
        if opened.publish_same_rows(name):
            reached(f"{name}:published")


def extended(name: str, rows: pa.Table) -> pa.Table:
    """The same rows with every column of the table, what they lack being null."""
    schema = arrow_schema(name)
    plain = {
        field.name for field in schema if field.name in rows.column_names and _names_in(field.type) in (None, [None])
    }
    others = [f for f in schema if f.name not in plain]
    made = rows_to_table(name, rows.select([f.name for f in others if f.name in rows.column_names]).to_pylist() or [{}])
    if not any(f.name in rows.column_names for f in others):
        made = pa.table({f.name: pa.nulls(rows.num_rows, f.type) for f in schema}, schema=schema)
    return pa.table(
        {f.name: rows.column(f.name).cast(f.type) if f.name in plain else made.column(f.name) for f in schema},
        schema=schema,
    )
