"""The rows of tables that incidents are made from: the columns that are read, and the small tables of all clusters."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.detect import ASKED_OF_MEMBERS
from rebalance_audit.domain.incidents.around import NOTHING_NEW
from rebalance_audit.domain.model import ConnectTask, from_row
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.domain.reassign.model import Reassignment, reassignment_of
from rebalance_audit.domain.tables import GOLD_REBALANCE, SILVER_FINDING
from rebalance_audit.warehouse.arrow_tables import no_rows, rows_at, whole
from rebalance_audit.warehouse.kept_columns import row_group
from rebalance_audit.warehouse.row_groups import WantedValues, held_in, row_groups_of
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.group_rows import INSTANTS, rows_with

REBALANCES, TASKS, FINDINGS = "silver.measured_rebalance", "silver.connect_task", "silver.finding"
REASSIGNMENTS, INCIDENTS = "silver.reassignment", "gold.incident"
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


def shown_incidents(warehouse: Warehouse, columns: Sequence[str], from_ms: int = NOTHING_NEW) -> pa.Table:
    """These columns of the present incidents that are open, or end at this moment or later (NOTHING_NEW: only open
    ones). Each run asks for them: what the statistics of row groups rule out is not read, and what was read is kept."""
    schema = warehouse.schema(INCIDENTS)
    narrow = pa.schema([schema.field(name) for name in ("status", "last_at_ms")])
    schema = pa.schema([schema.field(name) for name in columns])
    parts = [no_rows(schema)]
    is_open = WantedValues.of("status", ["open"], with_null=False)
    for group in row_groups_of(warehouse.files(INCIDENTS)):
        place = group.file, group.number
        if not is_open.may_be_in(*place) and held_in(group.file, "last_at_ms")[group.number].is_outside(from_ms, None):
            continue
        held = whole(row_group(*place, narrow.names), narrow)
        shown = pc.or_kleene(pc.equal(held["status"], "open"), pc.greater_equal(held["last_at_ms"], from_ms))
        at = pc.indices_nonzero(pc.fill_null(shown, False))
        if len(at):
            parts.append(rows_at(whole(row_group(*place, schema.names), schema), at))
    return pa.concat_tables(parts)


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
    wanted: Mapping[str, Sequence[str | None]] = {"rule_id": ["TR003"], "group_id": [None]}
    found = rows_with(warehouse, FINDINGS, ["cluster_id"], wanted, versions[FINDINGS])
    return set(found["cluster_id"].to_pylist())
