"""Every table: its grain, its columns with type, unit and meaning, and the checks a stage must pass.

Types are Spark DDL names; edges turn them into Arrow and Spark schemas and into Great Expectations suites.
A column is nullable unless `required`. Instants end in `_at_ms` (or are `_ms` bounds of one), durations in `_ms`.
"""

from __future__ import annotations

from rebalance_audit.domain.tables.bronze import BRONZE_LOG_LINE, BRONZE_RECORD, BRONZE_SOURCE, SILVER_FLOOR
from rebalance_audit.domain.tables.columns import Column, Law, Table
from rebalance_audit.domain.tables.decoded import (
    SILVER_COMMIT_MARK,
    SILVER_DECODE_COUNT,
    SILVER_GROUP_EVENT,
    SILVER_UNDECODED,
)
from rebalance_audit.domain.tables.groups import (
    GOLD_CONNECT_TASK,
    GOLD_GROUP,
    GOLD_MOVEMENT,
    GOLD_REBALANCE,
    GOLD_REBALANCE_MEMBER,
    GOLD_STANDSTILL,
    MODES,
    MOVEMENT_KINDS,
    OUTCOMES,
    REBALANCE_KINDS,
    TIERS,
    TRIGGERS,
)
from rebalance_audit.domain.tables.incidents import (
    GOLD_FINDING,
    GOLD_INCIDENT,
    GOLD_MARK,
    GOLD_RESPONSE,
    GOLD_WHATIF,
    INCIDENT_KINDS,
    SEVERITIES,
)
from rebalance_audit.domain.tables.reassignments import (
    GOLD_LEADER_ELECTION,
    GOLD_LEADER_MOVE,
    GOLD_REASSIGNMENT,
    GOLD_REASSIGNMENT_STEP,
    SILVER_LEADER_ELECTION,
    SILVER_PARTITION,
    SILVER_REASSIGNMENT,
    SILVER_REASSIGNMENT_FINDING,
    SILVER_REASSIGNMENT_STEP,
)
from rebalance_audit.domain.tables.reconstructed import (
    SILVER_CHECKPOINT,
    SILVER_CONNECT_TASK,
    SILVER_CONTRADICTION,
    SILVER_FINDING,
    SILVER_JUDGED_ERA,
    SILVER_MEASURED,
    SILVER_REOPENING,
)
from rebalance_audit.domain.tables.trust import GOLD_CHECK, GOLD_COVERAGE, GOLD_ERASURE, GOLD_QUARANTINE

SCHEMA_VERSION = 1
"""The version of the whole warehouse. A reader refuses a warehouse with a greater number."""

TABLES: tuple[Table, ...] = (
    BRONZE_RECORD, BRONZE_LOG_LINE, BRONZE_SOURCE, SILVER_FLOOR,
    SILVER_GROUP_EVENT, SILVER_COMMIT_MARK, SILVER_UNDECODED, SILVER_DECODE_COUNT,
    SILVER_MEASURED, SILVER_CONNECT_TASK, SILVER_CONTRADICTION, SILVER_CHECKPOINT,
    SILVER_REOPENING, SILVER_FINDING, SILVER_JUDGED_ERA,
    GOLD_REBALANCE, GOLD_REBALANCE_MEMBER, GOLD_MOVEMENT, GOLD_STANDSTILL, GOLD_CONNECT_TASK, GOLD_FINDING, GOLD_GROUP,
    GOLD_COVERAGE, GOLD_CHECK,
    SILVER_REASSIGNMENT, SILVER_REASSIGNMENT_STEP, SILVER_LEADER_ELECTION, SILVER_REASSIGNMENT_FINDING,
    SILVER_PARTITION,
    GOLD_REASSIGNMENT, GOLD_REASSIGNMENT_STEP, GOLD_LEADER_ELECTION, GOLD_LEADER_MOVE,
    GOLD_INCIDENT, GOLD_MARK, GOLD_RESPONSE, GOLD_WHATIF, GOLD_ERASURE, GOLD_QUARANTINE,
)  # fmt: skip
BY_NAME = {t.name: t for t in TABLES}
RETIRED = frozenset({"silver.rebalance"})
"""Tables that older releases kept, and which the next run takes away."""
MAINTAINED = ("silver.floor", "gold.whatif")
"""Tables that no stage writes."""
UNPUBLISHED = ("gold.check", "gold.response", "gold.erasure", "gold.quarantine")
"""Tables of gold that readers see as they are: they are written between publications."""

__all__ = [
    "BRONZE_LOG_LINE",
    "BRONZE_RECORD",
    "BRONZE_SOURCE",
    "BY_NAME",
    "GOLD_GROUP",
    "GOLD_REASSIGNMENT",
    "GOLD_REBALANCE",
    "INCIDENT_KINDS",
    "MAINTAINED",
    "MODES",
    "MOVEMENT_KINDS",
    "OUTCOMES",
    "REBALANCE_KINDS",
    "RETIRED",
    "SCHEMA_VERSION",
    "SEVERITIES",
    "SILVER_COMMIT_MARK",
    "SILVER_CONNECT_TASK",
    "SILVER_FINDING",
    "SILVER_JUDGED_ERA",
    "SILVER_MEASURED",
    "TABLES",
    "TIERS",
    "TRIGGERS",
    "UNPUBLISHED",
    "Column",
    "Law",
    "Table",
]
