"""A measured rebalance taken apart: rows of gold.rebalance, .rebalance_member, .movement and .standstill."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import arrow_schema

FLAT = ("gold.rebalance", "gold.rebalance_member", "gold.movement", "gold.standstill")
TeamOfGroup = Callable[[str, str], str | None] | None
_CHILDREN = {"gold.rebalance_member": "members", "gold.movement": "movements", "gold.standstill": "standstills"}
_CHILD_KEYS = ["cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch"]


def flat_rows(batch: pa.RecordBatch, team: TeamOfGroup) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each table in FLAT, of rows of silver.measured_rebalance."""
    yield "gold.rebalance", _rebalances(batch, team)
    for table, column in _CHILDREN.items():
        yield table, _children(batch, column, table)


def _rebalances(batch: pa.RecordBatch, team: TeamOfGroup) -> pa.RecordBatch:
    schema = arrow_schema("gold.rebalance")
    arrays = dict(zip(schema.names, batch.select(schema.names).columns, strict=True))
    arrays["revision"] = pa.array([1] * batch.num_rows, pa.int32())
    if team is not None:
        places = zip(batch["cluster_id"].to_pylist(), batch["group_id"].to_pylist(), strict=True)
        arrays["team"] = pa.array([team(*place) for place in places], pa.string())
    return pa.RecordBatch.from_arrays(list(arrays.values()), schema=schema)


def _children(batch: pa.RecordBatch, column: str, table: str) -> pa.RecordBatch:
    """One row per element of an array of the rebalance, with the rebalance's keys."""
    schema = arrow_schema(table)
    children = pc.list_flatten(batch[column])
    own = dict(zip(children.type.names, children.flatten(), strict=True))
    keys = batch.select(_CHILD_KEYS).take(pc.list_parent_indices(batch[column]))
    arrays = [keys[name] if name in _CHILD_KEYS else own[name] for name in schema.names]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
