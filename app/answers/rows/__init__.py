"""Rows that the queries answer with. Pure."""

from app.answers.rows.fleet import ClusterRow, Contents, Fleet, Headline, Place, Span
from app.answers.rows.groups import CauseShare, ClusterMovesRow, Coordination, Group, Neighbours, counted
from app.answers.rows.incidents import (
    AlertNote,
    ChainLink,
    FindingFilter,
    FindingRow,
    FindingSums,
    GroupCost,
    IncidentCount,
    IncidentKind,
    IncidentRow,
    MarkRow,
)
from app.answers.rows.trust import (
    CheckRow,
    ContradictionRow,
    Coverage,
    IncompleteRow,
    LetGoRow,
    ReopeningRow,
    SilentRow,
    UndecodedRow,
)
from rebalance_audit.domain.model import ConnectTask, Member, Movement, Rebalance, Trigger
from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentStep

__all__ = [
    "AlertNote",
    "CauseShare",
    "ChainLink",
    "CheckRow",
    "ClusterMovesRow",
    "ClusterRow",
    "ConnectTask",
    "Contents",
    "ContradictionRow",
    "Coordination",
    "Coverage",
    "FindingFilter",
    "FindingRow",
    "FindingSums",
    "Fleet",
    "Group",
    "GroupCost",
    "Headline",
    "IncidentCount",
    "IncidentKind",
    "IncidentRow",
    "IncompleteRow",
    "LetGoRow",
    "MarkRow",
    "Member",
    "Movement",
    "Neighbours",
    "Place",
    "Reassignment",
    "ReassignmentStep",
    "Rebalance",
    "ReopeningRow",
    "SilentRow",
    "Span",
    "Trigger",
    "UndecodedRow",
    "counted",
]
