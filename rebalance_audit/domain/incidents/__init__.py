"""One trouble is one incident: its cause, what followed from it, what it cost, how it stands.

rows of a cluster ─ episodes (per group) ─ troubles (across groups, reassignments) ─ symptoms ─ incidents and marks
"""

from rebalance_audit.domain.incidents.building import has_cost, incidents_of
from rebalance_audit.domain.incidents.model import (
    ChangeMark,
    ClusterRows,
    Incident,
    incident_of,
    incident_row,
    mark_row,
)
from rebalance_audit.domain.incidents.storm_before import Link

__all__ = [
    "ChangeMark",
    "ClusterRows",
    "Incident",
    "Link",
    "has_cost",
    "incident_of",
    "incident_row",
    "incidents_of",
    "mark_row",
]
