"""Partition reassignments and leader elections: from the metadata log, or from the logs of controllers and brokers.

docs/reassignments.md says how to read what comes out.
"""

from rebalance_audit.domain.reassign.kraft import KRaftFold
from rebalance_audit.domain.reassign.kraft_history import imbalances, kraft_history
from rebalance_audit.domain.reassign.model import (
    Imbalance,
    LeaderElection,
    PartitionState,
    Reassignment,
    ReassignmentHistory,
    ReassignmentStep,
    ReplicaProgress,
    Throttle,
    election_row,
    reassignment_row,
    step_rows,
)
from rebalance_audit.domain.reassign.stall import STALL_LIMIT_MS

__all__ = [
    "STALL_LIMIT_MS",
    "Imbalance",
    "KRaftFold",
    "LeaderElection",
    "PartitionState",
    "Reassignment",
    "ReassignmentHistory",
    "ReassignmentStep",
    "ReplicaProgress",
    "Throttle",
    "election_row",
    "imbalances",
    "kraft_history",
    "reassignment_row",
    "step_rows",
]
