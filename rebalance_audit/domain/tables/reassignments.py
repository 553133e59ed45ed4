"""Partitions that get other replicas or another leader."""

from __future__ import annotations

from rebalance_audit.domain.tables.columns import CLUSTER, EVIDENCE, PARTITION_KEYS, Law, Table, col
from rebalance_audit.domain.tables.incidents import GOLD_FINDING

REASSIGNMENT_OUTCOMES = ("completed", "cancelled", "superseded", "deleted", "open", "refused", "unknown")
REASSIGNMENT_PHASES = ("accepted", "catching_up", "leader_moved", "removing")
REASSIGNMENT_STEP_PHASES = ("before", *REASSIGNMENT_PHASES, "completed", "cancelled", "superseded")
REASSIGNMENT_BLOCKERS = (
    "adding_and_removing_overlap", "no_leader", "broker_down", "old_replica_out_of_sync", "disk_failed", "throttle",
    "replica_not_fetching", "controller_unavailable", "unknown",
)  # fmt: skip
ELECTION_CAUSES = (
    "tool", "znode", "automatic", "preferred", "shutdown", "broker_failure", "broker_return", "reassignment", "unclean",
    "unknown",
)  # fmt: skip
ELECTION_OUTCOMES = ("elected", "no_leader", "not_needed", "failed")
_REASSIGNMENT_ID = col(
    "reassignment_id",
    "string",
    "Partition and the place of its request: an offset of the metadata log, or a log file's byte; never from times.",
    required=True,
)

GOLD_REASSIGNMENT = Table(
    "gold.reassignment",
    "One attempt to give one partition another list of replicas.",
    ("cluster_id", "reassignment_id"),
    (
        CLUSTER,
        _REASSIGNMENT_ID,
        *PARTITION_KEYS,
        col("topic_id", "string", "Null where there are only logs."),
        col("original_replicas", "array<int>", "Before the first of a chain of requests; null if not in evidence."),
        col("target_replicas", "array<int>", "In the asked order; null if not in evidence."),
        col("adding_replicas", "array<int>", "As Kafka has them.", required=True),
        col("removing_replicas", "array<int>", "As Kafka has them; may share brokers with adding.", required=True),
        col("started_at_ms", "bigint", "The request was accepted; null if older than the evidence."),
        col("ended_at_ms", "bigint", "Null while open, and where it ended in a gap."),
        col("outcome", "string", "", required=True, values=REASSIGNMENT_OUTCOMES),
        col("phase", "string", "How far it came.", values=REASSIGNMENT_PHASES),
        col("stalled_since_ms", "bigint", "Open ones that are stalled: their last progress."),
        col(
            "blocked_by", "string", "What holds it up, or did in its longest standstill.", values=REASSIGNMENT_BLOCKERS
        ),
        col("blocked_replicas", "array<int>", "Brokers concerned.", required=True),
        col("longest_standstill_ms", "bigint", "Longest time without progress."),
        col("standstill_from_ms", "bigint", "When that began."),
        col("leader_changes", "int", "While it ran.", required=True),
        col("controller_changes", "int", "While it ran.", required=True),
        col("min_insync_replicas", "int", "Of the topic at its start; null where there are only logs."),
        col("under_min_isr_ms", "bigint", "How long fewer than that were in sync.", required=True),
        col("under_replicated_ms", "bigint", "How long fewer were in sync than the smaller list has.", required=True),
        col("without_leader_ms", "bigint", "", required=True),
        col("superseded_by", "string", "The reassignment that replaced it."),
        col("detail", "string", "Why it was refused, or what is not known."),
        col("source", "string", "", required=True, values=("metadata", "logs")),
        col("is_complete_evidence", "boolean", "Nothing is known to be missing.", required=True),
        col("is_final", "boolean", "It has ended.", required=True),
        col(
            "progress",
            "array<struct<broker_id:int,started_at_ms:bigint,in_isr_at_ms:bigint>>",
            "Per new replica: when it began to fetch (a log says so), and joined the ISR.",
            required=True,
        ),
        EVIDENCE,
    ),
    (
        Law("names its evidence", "size(evidence) >= 1"),
        Law("ends after it begins", "started_at_ms <= ended_at_ms"),
        Law("an open one has not ended", "outcome <> 'open' or ended_at_ms is null"),
        Law("only open ones are stalled", "stalled_since_ms is null or outcome = 'open'"),
        Law("a stall has a reason", "stalled_since_ms is null or blocked_by is not null"),
    ),
)

GOLD_REASSIGNMENT_STEP = Table(
    "gold.reassignment_step",
    "One state of (replicas, leader, in-sync replicas as a set) on the way of a reassignment; 0 is the one before it.",
    ("cluster_id", "reassignment_id", "step"),
    (
        CLUSTER,
        _REASSIGNMENT_ID,
        *PARTITION_KEYS,
        col("step", "int", "", required=True),
        col("at_ms", "bigint", "Since when; null for a step 0 that is older than the evidence."),
        col("phase", "string", "", required=True, values=REASSIGNMENT_STEP_PHASES),
        col("replicas", "array<int>", "All, in Kafka's order: the first is preferred.", required=True),
        col("leader", "int", "Null: nobody leads it, or is_leader_known says that no line shows it."),
        col("isr", "array<int>", "Sorted: it is a set. Empty where is_isr_known says no line shows it.", required=True),
        col("is_leader_known", "boolean", "False: logs alone were at hand, and do not show it. Null in older rows."),
        col("is_isr_known", "boolean", "The same of the in-sync replicas."),
        col("leader_epoch", "int", ""),
        col("partition_epoch", "int", "KRaft."),
        EVIDENCE,
    ),
)

GOLD_LEADER_ELECTION = Table(
    "gold.leader_election",
    "One time a partition was given another leader, or should have been.",
    ("cluster_id", "topic", "partition", "at_ms", "elected"),
    (
        CLUSTER,
        *PARTITION_KEYS,
        col("at_ms", "bigint", "", required=True),
        col(
            "cause",
            "string",
            "`preferred`: by a tool or automatically, not known which.",
            required=True,
            values=ELECTION_CAUSES,
        ),
        col("previous_leader", "int", "Null: nobody led it, or not known."),
        col("preferred_replica", "int", "The first replica."),
        col("elected", "int", "Null: nobody leads it now."),
        col("outcome", "string", "", required=True, values=ELECTION_OUTCOMES),
        col("prevented_by", "string", "Why the preferred replica does not lead after it."),
        col("leader_epoch", "int", ""),
        EVIDENCE,
    ),
    (Law("names its evidence", "size(evidence) >= 1"),),
)


GOLD_LEADER_MOVE = Table(
    "gold.leader_move",
    "A change of a partition's leader beside a group: its coordinator moved, or it rebalanced with what it reads.",
    ("cluster_id", "group_id", "topic", "partition", "at_ms", "elected"),
    (
        CLUSTER,
        col("group_id", "string", "", required=True),
        col(
            "relation",
            "string",
            "`coordinator_moved`: the partition of __consumer_offsets that the group is in. "
            "`coordinator_replica_failed`: a broker failed that followed it; commits waited for that broker, and the "
            "group rebalanced around that.",
            required=True,
            values=("coordinator_moved", "partition_led_by_another", "coordinator_replica_failed"),
        ),
        *PARTITION_KEYS,
        col("at_ms", "bigint", "Of the election.", required=True),
        col("previous_leader", "int", "Of `coordinator_replica_failed` the broker that failed."),
        col("elected", "int", "Null: nobody leads it; of `coordinator_replica_failed`: its leader stayed."),
        col("cause", "string", "Of the election.", required=True, values=ELECTION_CAUSES),
        col("reassignment_id", "string", "The move of the partition it was part of."),
        col("rebalance_id", "string", "The group's first rebalance within a minute; null: none followed."),
        col("after_ms", "bigint", "How long after it that began; a little negative where clocks differ."),
        col("is_cause", "boolean", "The rebalance's own trigger says that the coordinator moved.", required=True),
        EVIDENCE,
    ),
)

SILVER_PARTITION = Table(
    "silver.partition",
    "A partition as the metadata log has it at the end of the evidence.",
    ("cluster_id", "topic", "partition"),
    (
        CLUSTER,
        *PARTITION_KEYS,
        col("replicas", "array<int>", "In Kafka's order: the first is preferred.", required=True),
        col("isr", "array<int>", "", required=True),
        col("leader", "int", "Null: nobody leads it."),
        col("leader_epoch", "int", ""),
        col("ref", "string", "The record that says so.", required=True),
    ),
)


def _in_silver(gold: Table, noun: str | None = None) -> Table:
    """The same before it is published."""
    return Table(f"silver.{noun or gold.name.partition('.')[2]}", gold.doc, gold.key, gold.columns, gold.laws)


SILVER_REASSIGNMENT = _in_silver(GOLD_REASSIGNMENT)
SILVER_REASSIGNMENT_STEP = _in_silver(GOLD_REASSIGNMENT_STEP)
SILVER_LEADER_ELECTION = _in_silver(GOLD_LEADER_ELECTION)
SILVER_REASSIGNMENT_FINDING = _in_silver(GOLD_FINDING, "reassignment_finding")
