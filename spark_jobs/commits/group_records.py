"""The group records among the events of some groups."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import rows_where
from rebalance_audit.warehouse.row_groups import Least, row_count_of, row_groups_within
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import GROUP, LISTED_AT_MOST, rows_of_few_keys, rows_of_groups

_FEW_ROWS = 20_000
"""Of row groups with so few rows, those that are wanted are chosen without DuckDB."""


def records_of_groups(
    warehouse: Warehouse,
    columns: Sequence[str],
    groups: pa.Table | None,
    version: int | None = None,
    bound: Least | None = None,
) -> pa.Table:
    """These columns of the groups' records among their events (None: of all groups). `bound`: records outside it may be
    left out."""
    events, kind = "silver.group_event", "source_kind"
    if groups is not None and 0 < groups.num_rows <= LISTED_AT_MOST:
        files, of_table = warehouse.files(events, version), warehouse.schema(events)
        may_hold = row_groups_within(files, "group_id", set(groups["group_id"].to_pylist()) - {None}, bound)
        bounded = () if bound is None else (bound.column,)
        schema = pa.schema([of_table.field(name) for name in dict.fromkeys((*GROUP.names, *columns, kind, *bounded))])
        if row_count_of(may_hold) <= _FEW_ROWS and (rows := rows_of_few_keys(files, groups, schema, bound)) is not None:
            return rows_where(rows, pc.equal(rows[kind], "record")).select(list(columns))
    return rows_of_groups(
        warehouse, events, columns, groups, f"{kind} = 'record'", version=version, where_columns=[kind], bound=bound
    )
