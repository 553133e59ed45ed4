"""gold.leader_move from tables as the stages before leave them; the meaning is shown in tests/domain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rebalance_audit.domain.publish.leader_moves import offsets_partition
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.leader_moves import leader_move_rows

TABLES = ("silver.leader_election", "silver.reassignment", "silver.partition", "silver.measured_rebalance")
LAB: dict[str, Any] = {"cluster_id": "lab"}


def rebalance(group_id: str, at_ms: int, **more: Any) -> dict[str, Any]:
    known = {"group_id": group_id, "rebalance_id": f"{group_id}@{at_ms}", "started_at_ms": at_ms, "kind": "rebalance"}
    return LAB | known | {"trigger": "member_joined", "movements": []} | more


def election(topic: str, partition: int, at_ms: int) -> dict[str, Any]:
    known = {"topic": topic, "partition": partition, "at_ms": at_ms, "cause": "reassignment", "outcome": "elected"}
    return LAB | known | {"previous_leader": 1, "elected": 2, "evidence": ["metadata:n@1"]}


def test_elections_and_rebalances_meet_by_cluster_time_and_partition(tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    versions = dict.fromkeys(TABLES, -1)
    assert leader_move_rows(warehouse, versions).num_rows == 0
    home = offsets_partition("shop", 3)
    rows = {
        "silver.leader_election": [
            election("__consumer_offsets", home, 10_000),
            election("orders", 4, 500_000),
            LAB | election("orders", 4, 500_000) | {"cluster_id": "other"},
        ],
        "silver.reassignment": [
            LAB
            | {"topic": "__consumer_offsets", "partition": home, "reassignment_id": "moved", "outcome": "completed"}
            | {"started_at_ms": 9_000, "ended_at_ms": 10_000}
        ],
        "silver.partition": [LAB | {"topic": "__consumer_offsets", "partition": p} for p in range(3)],
        "silver.measured_rebalance": [
            rebalance("shop", 12_000, trigger="coordinator_failover"),
            rebalance("shop", 502_000, movements=[{"topic": "orders", "partition": 4}]),
            rebalance("shop", 900_000),
        ],
    }
    for table, listed in rows.items():
        warehouse.append(table, rows_to_table(table, listed))
    versions = {table: warehouse.version(table) or 0 for table in TABLES}
    found = leader_move_rows(warehouse, versions).to_pylist()
    facts = ("group_id", "relation", "partition", "reassignment_id", "rebalance_id", "after_ms", "is_cause")
    assert [tuple(row[name] for name in facts) for row in found] == [
        ("shop", "coordinator_moved", home, "moved", "shop@12000", 2_000, True),
        ("shop", "partition_led_by_another", 4, None, "shop@502000", 2_000, False),
    ]
