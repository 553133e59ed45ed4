"""When rebalances were, file by file: each cycle asks about the last hours, and a file never changes."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import arrow_schema, whole
from rebalance_audit.warehouse.kept_columns import row_group
from rebalance_audit.warehouse.row_groups import footer
from spark_jobs.group_rows import GROUP, INSTANTS

_REBALANCES = "silver.measured_rebalance"
_STORED = pa.schema([arrow_schema(_REBALANCES).field(name) for name in (*GROUP.names, *INSTANTS)])
TIMES = pa.schema([*GROUP, *((name, pa.int64()) for name in ("first_at_ms", "at_ms", "counted_at_ms"))])
"""`first_at_ms` and `at_ms` as in HistoryStep, `counted_at_ms` by which a group's rates count it."""


def times_of(files: Sequence[str]) -> pa.Table:
    """When each rebalance in these files was (TIMES)."""
    return pa.concat_tables([TIMES.empty_table(), *map(_times_of, files)])


@functools.lru_cache(maxsize=1_024)
def _times_of(file: str) -> pa.Table:
    parts = [whole(row_group(file, at, _STORED.names), _STORED) for at in range(footer(file).num_row_groups)]
    rows = pa.concat_tables([_STORED.empty_table(), *parts])
    at_ms = pc.coalesce(*(rows[name] for name in INSTANTS))
    counted = pc.coalesce(*(rows[name] for name in ("assigned_at_ms", "ended_at_ms", "joined_at_ms", "started_at_ms")))
    first = pc.min_element_wise(at_ms, rows["started_at_ms"])
    columns = [*(rows[name] for name in GROUP.names), first, at_ms, counted]
    return pa.Table.from_arrays(columns, schema=TIMES).combine_chunks()
