"""reassign: bronze.record, bronze.log_line -> silver.reassignment, .reassignment_step, .leader_election, and findings.

Rows in:  the whole metadata log and all controller lines of each cluster with anything new of these.
Rows out: that cluster's reassignments, their steps, elections and findings, in place of what was there.
Law:      any order of arrival gives the same rows, since a cluster is read as a whole.
It runs on the driver, one cluster after the other: the state of all partitions is one fold over one log. Memory follows
the largest cluster's log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.clocks import NodeClock
from rebalance_audit.domain.detect import detect_reassignments
from rebalance_audit.domain.model import to_row
from rebalance_audit.domain.reassign import election_row, reassignment_row, step_rows
from rebalance_audit.domain.reassign.history import reassignment_history
from rebalance_audit.warehouse import rows_to_table
from spark_jobs.group_evidence import node_clocks, settings_of
from spark_jobs.metadata_log import OF_CONTROLLERS, OF_METADATA, controller_lines, metadata_of
from spark_jobs.stage import Batch, Run, next_batch

NAME = "reassign"
INPUTS = ("bronze.record", "bronze.log_line", "silver.group_event", "bronze.source")
OUTPUTS = (
    "silver.reassignment",
    "silver.reassignment_step",
    "silver.leader_election",
    "silver.reassignment_finding",
)
CLUSTER = pa.schema([("cluster_id", pa.string())])
Rows = dict[str, list[dict[str, Any]]]


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, INPUTS, OUTPUTS)
    if batch is None:
        return False
    clocks = node_clocks(context.warehouse, batch.until["silver.group_event"], batch.until["bronze.source"])
    settings = settings_of(clocks)
    dirty = sorted(_dirty(context, batch, settings))
    rows: Rows = {table: [] for table in OUTPUTS}
    for cluster_id in dirty:
        _tell(context, batch, cluster_id, clocks.get(cluster_id, {}), rows)
    keys = pa.table({"cluster_id": dirty}, schema=CLUSTER)
    for table in OUTPUTS:
        data = rows_to_table(table, rows[table])
        if data.num_rows:
            context.gate(table, context.frame(table, data), batch.batch_id)
        context.warehouse.replace(table, data, keys, batch.transaction)
        context.committed(table, table, data.num_rows)
    # After the commits: lost, it only makes some clusters dirty once more.
    context.warehouse.remember(NAME, {"clocks": settings})
    return True


def _dirty(context: Run, batch: Batch, settings: Mapping[str, Any]) -> set[str]:
    """Clusters with new records or lines, and those whose nodes' clocks are understood otherwise now."""
    found: set[str] = set()
    for table, where in (("bronze.record", OF_METADATA), ("bronze.log_line", OF_CONTROLLERS)):
        keys = context.warehouse.changed_keys(
            table, CLUSTER.names, batch.since[table], batch.until[table], where
        )  # fmt: skip
        found.update(keys.column("cluster_id").to_pylist())
    before = context.warehouse.recall(NAME).get("clocks", {})
    return found | {cluster_id for cluster_id, known in settings.items() if known != before.get(cluster_id)}


def _tell(context: Run, batch: Batch, cluster_id: str, clocks: Mapping[str, NodeClock], rows: Rows) -> None:
    history = reassignment_history(
        metadata_of(context.warehouse, cluster_id, batch.until["bronze.record"]),
        controller_lines(context.warehouse, cluster_id, clocks, batch.until["bronze.log_line"]),
        cluster_id=cluster_id,
    )
    rows["silver.reassignment"] += map(reassignment_row, history.reassignments)
    rows["silver.reassignment_step"] += (row for r in history.reassignments for row in step_rows(r))
    rows["silver.leader_election"] += map(election_row, history.elections)
    findings = detect_reassignments(history)
    rows["silver.reassignment_finding"] += (to_row(finding) | {"group_id": None} for finding in findings)
