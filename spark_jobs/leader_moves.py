"""gold.leader_move: elections beside rebalances, of all clusters, from silver as it stands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.model import from_row
from rebalance_audit.domain.publish.leader_moves import (
    DEFAULT_OFFSETS_PARTITIONS,
    FOLLOWS_WITHIN_MS,
    OFFSETS_TOPIC,
    UNNOTICED_MS,
    Rebalanced,
    leader_move_row,
    leader_moves,
)
from rebalance_audit.domain.reassign import LeaderElection
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from rebalance_audit.warehouse.warehouse import Warehouse

_NEAR = f"""
SELECT r.* FROM (
    SELECT cluster_id, coalesce(started_at_ms, joined_at_ms, assigned_at_ms) at_ms, filename, file_row_number
    FROM {{files}} WHERE kind = 'rebalance'
) r ASOF JOIN (SELECT cluster_id, at_ms FROM election) e
ON r.cluster_id = e.cluster_id AND r.at_ms + {UNNOTICED_MS} >= e.at_ms
WHERE r.at_ms - e.at_ms <= {FOLLOWS_WITHIN_MS}
"""
"""Rebalances that begin soon after some election: all others are none of ours."""


def leader_move_rows(warehouse: Warehouse, versions: Mapping[str, int]) -> pa.Table:
    def rows(table: str, columns: list[str] | None = None) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = warehouse.read(table, columns, version=versions[table]).to_pylist()
        return found

    elections: dict[str, list[LeaderElection]] = defaultdict(list)
    for row in rows("silver.leader_election"):
        elections[row["cluster_id"]].append(from_row(LeaderElection, row))
    if not elections:
        return rows_to_table("gold.leader_move", [])
    reassigned: dict[str, dict[tuple[str, int], list[Any]]] = defaultdict(lambda: defaultdict(list))
    columns = ["cluster_id", "topic", "partition", "started_at_ms", "ended_at_ms", "reassignment_id", "outcome"]
    for row in rows("silver.reassignment", columns):
        if row["started_at_ms"] is not None and (row["ended_at_ms"] is not None or row["outcome"] == "open"):
            spans = reassigned[row["cluster_id"]][row["topic"], row["partition"]]
            spans.append((row["started_at_ms"], row["ended_at_ms"], row["reassignment_id"]))
    replicas: dict[str, dict[int, list[int]]] = defaultdict(dict)
    for row in rows("silver.partition", ["cluster_id", "topic", "partition", "replicas"]):
        if row["topic"] == OFFSETS_TOPIC:
            replicas[row["cluster_id"]][row["partition"]] = row["replicas"] or []
    groups: dict[str, set[str]] = defaultdict(set)
    for row in (
        warehouse.read(
            "silver.measured_rebalance", ["cluster_id", "group_id"], version=versions["silver.measured_rebalance"]
        )
        .group_by(["cluster_id", "group_id"])
        .aggregate([])
        .to_pylist()
    ):
        groups[row["cluster_id"]].add(row["group_id"])
    near = _near(warehouse, versions, {cluster_id: [e.at_ms for e in found] for cluster_id, found in elections.items()})
    return rows_to_table(
        "gold.leader_move",
        [
            leader_move_row(move)
            for cluster_id, found in sorted(elections.items())
            for move in leader_moves(
                found,
                near.get(cluster_id, ()),
                groups[cluster_id],
                offsets_partitions=len(replicas[cluster_id]) or DEFAULT_OFFSETS_PARTITIONS,
                reassigned=reassigned[cluster_id],
                replicas=replicas[cluster_id],
            )
        ],
    )


def _near(
    warehouse: Warehouse, versions: Mapping[str, int], elections: Mapping[str, list[int]]
) -> dict[str, list[Rebalanced]]:
    files = warehouse.files("silver.measured_rebalance", versions["silver.measured_rebalance"])
    if not files:
        return {}
    with cursor() as db:
        pairs = [(cluster_id, at_ms) for cluster_id, times in elections.items() for at_ms in times]
        db.register("election", pa.table({"cluster_id": [c for c, _ in pairs], "at_ms": [at for _, at in pairs]}))
        near = db.execute(_NEAR.format(files=relation(files, with_name=True, with_row=True))).to_arrow_table()
        if near.num_rows == 0:
            return {}
        db.register("near", near)
        # Movements are wide: they are read where there are such rebalances.
        held = relation(sorted(set(near["filename"].to_pylist())), with_name=True, with_row=True)
        rows = (
            db.execute(
                "SELECT r.cluster_id, group_id, rebalance_id, trigger, near.at_ms, "
                "[{'topic': m.topic, 'partition': m.partition} FOR m IN movements IF m.topic IS NOT NULL] partitions "
                f"FROM {held} r JOIN near USING (filename, file_row_number)"
            )
            .to_arrow_table()
            .to_pylist()
        )
    found: dict[str, list[Rebalanced]] = defaultdict(list)
    for row in rows:
        found[row.pop("cluster_id")].append(
            Rebalanced(**row | {"partitions": frozenset((p["topic"], p["partition"]) for p in row["partitions"])})
        )
    return found
