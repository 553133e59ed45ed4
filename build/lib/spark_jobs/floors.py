"""silver.floor: how far retention has deleted each source."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.warehouse import Warehouse

FLOORS = "silver.floor"


def floors_of(warehouse: Warehouse, columns: Sequence[str], position: str) -> pa.Table:
    """silver.floor with the columns by which bronze knows a source: topic and partition, or node and file id."""
    of_records = position == "offset"
    rows = []
    for row in warehouse.read(FLOORS).to_pylist():
        kind, _, name = row["source"].partition(":")
        if (kind == "record") == of_records:
            first, _, second = name.rpartition("-" if of_records else "#")
            rows.append((row["cluster_id"], first, int(second) if of_records else second, row["position"]))
    schema = pa.schema([arrow_schema("bronze.record" if of_records else "bronze.log_line").field(c) for c in columns])
    arrays = [pa.array([row[at] for row in rows], field.type) for at, field in enumerate(schema)]
    return pa.table([*arrays, pa.array([row[3] for row in rows], pa.int64())], names=[*columns, "floor"])
