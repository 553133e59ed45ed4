"""The rows that new incidents and marks replace."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import distinct
from rebalance_audit.warehouse.kept_columns import rows_on_disk
from spark_jobs.group_rows import Place


class Incidents(NamedTuple):
    """The files with the new rows, and the ids of all rows that they replace."""

    incidents: list[str]
    incident_scope: pa.Table
    marks: list[str]
    mark_scope: pa.Table
    left: Mapping[Place, int] = MappingProxyType({})
    """Loud groups that were not worked out, each with the instant of its earliest news."""


def scope_of(key: str, gone: Iterable[Mapping[str, Any]], files: Sequence[str]) -> pa.Table:
    """The keys of the rows that go, and of those that should be."""
    schema = pa.schema([("cluster_id", pa.string()), (key, pa.string())])
    parts = [pa.Table.from_pylist([{name: row[name] for name in schema.names} for row in gone], schema)]
    parts += (rows_on_disk(file, schema.names).select(schema.names) for file in files)
    keys = distinct(pa.concat_tables(parts), schema.names)
    return keys.sort_by([(name, "ascending") for name in schema.names])
