"""The same before it is published, and the state from which a fold goes on."""

from __future__ import annotations

from rebalance_audit.domain.tables.columns import CLUSTER, REBALANCE_KEYS, Column, Law, Table, col
from rebalance_audit.domain.tables.groups import (
    GOLD_CONNECT_TASK,
    GOLD_MOVEMENT,
    GOLD_REBALANCE,
    GOLD_REBALANCE_MEMBER,
    GOLD_STANDSTILL,
)
from rebalance_audit.domain.tables.incidents import GOLD_FINDING

_CHILD_KEYS = {c.name for c in REBALANCE_KEYS}
_MARKS = (
    "array<struct<bound:string,at_ms:bigint,tier:string,rank:int,detail:string,ref:string,"
    "basis:string,window_from_ms:bigint,window_to_ms:bigint>>"
)


def _struct(columns: tuple[Column, ...]) -> str:
    return "struct<" + ",".join(f"{c.name}:{c.type}" for c in columns if c.name not in _CHILD_KEYS) + ">"


_MOVEMENT_FACTS = (
    *GOLD_MOVEMENT.columns,
    col("first_commit_at_ms", "bigint", "First commit of the resource after it resumed."),
    col("stop_marks", _MARKS, "Evidence of when the old owner let go."),
    col("resume_marks", _MARKS, "Evidence of when the new owner's assigned callback returned."),
)

SILVER_MEASURED = Table(
    "silver.measured_rebalance",
    "One rebalance as reconstructed and measured: its members, its movements and the evidence for their times; what "
    "publish takes apart into tables of gold.",
    ("cluster_id", "rebalance_id"),
    (
        *GOLD_REBALANCE.columns,
        col("place", "int", "Its place in the group's history as reconstructed, from 0.", required=True),
        col(
            "members",
            f"array<{_struct(GOLD_REBALANCE_MEMBER.columns)}>",
            "Rows of gold.rebalance_member.",
            required=True,
        ),
        col("movements", f"array<{_struct(_MOVEMENT_FACTS)}>", "Rows of gold.movement.", required=True),
        col(
            "standstills", f"array<{_struct(GOLD_STANDSTILL.columns)}>", "Rows of gold.standstill, until the next one."
        ),
    ),
    GOLD_REBALANCE.laws,
)

SILVER_CONNECT_TASK = Table(
    "silver.connect_task",
    GOLD_CONNECT_TASK.doc,
    GOLD_CONNECT_TASK.key,
    GOLD_CONNECT_TASK.columns,
    GOLD_CONNECT_TASK.laws,
)

SILVER_CONTRADICTION = Table(
    "silver.contradiction",
    "Evidence about a group that cannot be true beside the rest, and was not believed.",
    ("cluster_id", "group_id", "ref"),
    (
        CLUSTER,
        col("group_id", "string", "", required=True),
        col("ref", "string", "The line or record that was not believed.", required=True),
        col("at_ms", "bigint", "When it says it was; null where no clock shows it."),
        col("detail", "string", "Why, in one sentence.", required=True),
        col("evidence", "array<string>", "", required=True),
    ),
)

SILVER_CHECKPOINT = Table(
    "silver.checkpoint",
    "A point up to which a group's history is settled, and the state of the fold there: new evidence goes on from it.",
    ("cluster_id", "group_id", "read_until_ms"),
    (
        CLUSTER,
        col("group_id", "string", "", required=True),
        col("fold_version", "int", "Of the fold that wrote it; another fold does not use it.", required=True),
        col("read_from_ms", "bigint", "Evidence from here on is read again.", required=True),
        col(
            "read_until_ms",
            "bigint",
            "Evidence before is in it; news that is not later reopens.",
            required=True,
        ),
        col("settled_at_ms", "bigint", "Rebalances that happened before are settled.", required=True),
        col("row_count", "bigint", "How many rebalances are settled.", required=True),
        col("latest", "array<string>", "The latest record of each key before `read_from_ms`.", required=True),
        col("state", "string", "What else the fold needs, as JSON.", required=True),
        col("is_floor", "boolean", "Evidence before `read_from_ms` was deleted by retention.", required=True),
    ),
    (Law("settles what was read", "read_from_ms <= settled_at_ms AND settled_at_ms <= read_until_ms"),),
)

SILVER_REOPENING = Table(
    "silver.reopening",
    "A group whose settled history was worked out again, since evidence came that is older.",
    ("cluster_id", "group_id", "batch_id"),
    (
        CLUSTER,
        col("group_id", "string", "", required=True),
        col("batch_id", "string", "The batch that brought the evidence.", required=True),
        col("settled_at_ms", "bigint", "Up to here the group was settled; null where that is lost."),
        col("evidence_at_ms", "bigint", "The oldest new evidence; null where clocks, names or homes changed."),
        col("from_ms", "bigint", "It was folded again from here on; null: from its beginning."),
        col("is_too_old", "boolean", "Retention has deleted what the news belongs to: rows stay.", required=True),
    ),
)

SILVER_FINDING = Table(
    "silver.finding",
    GOLD_FINDING.doc,
    GOLD_FINDING.key,
    (
        *GOLD_FINDING.columns,
        col("era", "int", "Of a group that is judged in eras: the last one that it was seen in. Else null."),
    ),
    GOLD_FINDING.laws,
)

SILVER_JUDGED_ERA = Table(
    "silver.judged_era",
    "An era of a long history that has ended, and what judging it hands to the next one: news is judged from there.",
    ("cluster_id", "group_id", "era"),
    (
        CLUSTER,
        col("group_id", "string", "", required=True),
        col("era", "int", "From 0: so many times 4,096 rebalances of the group were before it.", required=True),
        col("judged_by", "string", "The version of the judge, and a hash of the group's limits.", required=True),
        col("carried", "string", "The findings that were open as it ended, as JSON.", required=True),
        col("sums", "string", "What its rebalances add to the group's row of gold.group, as JSON."),
        col("storm", "string", "What a storm that went on as it ended had been until then, as JSON. Null: none did."),
        col("storm_rebalance_ids", "array<string>", "The rebalances of this era that belong to that storm."),
    ),
)
