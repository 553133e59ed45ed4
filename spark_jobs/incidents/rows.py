"""The rows of tables that incidents are made from: the columns that are read, and the small tables of all clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa

from rebalance_audit.domain.detect import ASKED_OF_MEMBERS
from rebalance_audit.domain.model import ConnectTask, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment, reassignment_of
from rebalance_audit.domain.tables import GOLD_REBALANCE, SILVER_FINDING
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import INSTANTS

REBALANCES, TASKS, FINDINGS = "silver.measured_rebalance", "silver.connect_task", "silver.finding"
REASSIGNMENTS = "silver.reassignment"
AT = f"coalesce({', '.join(INSTANTS)})"
_OWN = [c.name for c in GOLD_REBALANCE.columns]
READ = tuple(dict.fromkeys((*_OWN, "place", "members", "movements", "triggers")))
"""The columns of a measured rebalance that are read."""
_MEMBERS = "list_filter(members, lambda m: m.change <> 'stayed')"
_GONE = "flatten([t.members FOR t IN triggers])"
OF_MOVEMENTS = ("resource_type", "resource", "kind", "from_member_id", "stopped_at_lower_ms")
"""The fields of movements in NARROWED."""
FIELDS = {"members": ASKED_OF_MEMBERS, "movements": OF_MOVEMENTS}
"""The fields of members and movements in READ that are read."""
_FIELDS = ", ".join(f"'{name}': m.{name}" for name in OF_MOVEMENTS)
_MOVEMENTS = f"[{{{_FIELDS}}} FOR m IN movements IF list_contains({_GONE}, m.from_member_id)]"
NARROWED = ", ".join((*dict.fromkeys((*_OWN, "place")), f"{_MEMBERS} members", f"{_MOVEMENTS} movements"))
"""The part of READ that a ClusterRows needs."""
FINDING = tuple(c.name for c in SILVER_FINDING.columns)


def open_tasks(warehouse: Warehouse, versions: Mapping[str, int]) -> dict[str, list[ConnectTask]]:
    """Intervals of tasks that still last, by cluster."""
    tasks: dict[str, list[ConnectTask]] = defaultdict(list)
    for row in warehouse.read(TASKS, None, "to_ms IS NULL", version=versions[TASKS]).to_pylist():
        tasks[row["cluster_id"]].append(from_row(ConnectTask, row))
    return tasks


def reassignments_since(
    warehouse: Warehouse, versions: Mapping[str, int], since: Mapping[str, int]
) -> dict[str, list[Reassignment]]:
    """Reassignments by cluster that are open, or ended since its moment."""
    found: dict[str, list[Reassignment]] = defaultdict(list)
    where = "coalesce(ended_at_ms, started_at_ms, ?) >= ? OR outcome = 'open'"
    asked = [min(since.values()), min(since.values())]
    for row in warehouse.read(REASSIGNMENTS, None, where, asked, version=versions[REASSIGNMENTS]).to_pylist():
        ended_ms = row["started_at_ms"] if row["ended_at_ms"] is None else row["ended_at_ms"]
        from_ms = since.get(row["cluster_id"])
        if from_ms is not None and (row["outcome"] == "open" or ended_ms is None or ended_ms >= from_ms):
            found[row["cluster_id"]].append(reassignment_of(row))
    return found


def moves_of(leader_moves: pa.Table) -> dict[str, list[LeaderMove]]:
    """Changes of leaders beside groups, by cluster."""
    moves: dict[str, list[LeaderMove]] = defaultdict(list)
    for row in leader_moves.to_pylist():
        moves[row["cluster_id"]].append(from_row(LeaderMove, row))
    return moves


def clusters_of_wrong_clocks(warehouse: Warehouse, versions: Mapping[str, int]) -> set[str]:
    """Clusters in which a clock ever jumped back or was wrong: there, later events may have much earlier times."""
    where = "group_id IS NULL AND rule_id = 'TR003'"
    found = warehouse.read(FINDINGS, ["cluster_id"], where, version=versions[FINDINGS])
    return set(found["cluster_id"].to_pylist())
