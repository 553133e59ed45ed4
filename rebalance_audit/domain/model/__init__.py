"""The things every stage works on: evidence, events, rebalances.

Instants are epoch milliseconds UTC (`_at_ms`), durations milliseconds (`_ms`). None means not known, never 0 or "".
"""

from __future__ import annotations

from rebalance_audit.domain.frozen import changed
from rebalance_audit.domain.model.evidence import (
    NO_END,
    CommitMark,
    ConnectRecord,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    SourceLine,
    SourceRecord,
    log_ref,
    node_of_log,
    record_ref,
)
from rebalance_audit.domain.model.log_kinds import LogKind
from rebalance_audit.domain.model.rebalances import (
    ConnectTask,
    Finding,
    Mark,
    Member,
    MemberStandstill,
    Movement,
    Rebalance,
    Trigger,
)
from rebalance_audit.domain.model.rows import StoredColumn, from_row, stored_columns, to_row

__all__ = [
    "NO_END",
    "CommitMark",
    "ConnectRecord",
    "ConnectTask",
    "Finding",
    "GroupEvidence",
    "GroupRecord",
    "LogEvent",
    "LogKind",
    "Mark",
    "Member",
    "MemberStandstill",
    "Movement",
    "Rebalance",
    "SourceLine",
    "SourceRecord",
    "StoredColumn",
    "Trigger",
    "changed",
    "from_row",
    "log_ref",
    "node_of_log",
    "record_ref",
    "stored_columns",
    "to_row",
]
