"""What happened to groups and Connect clusters, as readers see it."""

from __future__ import annotations

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import (
    EvidenceTier,
    GroupType,
    MemberChange,
    Mode,
    MovementKind,
    Outcome,
    RebalanceKind,
    ResourceType,
)
from rebalance_audit.domain.tables.columns import CLUSTER, EVIDENCE, GROUP, REBALANCE_KEYS, Law, Table, col

OUTCOMES = tuple(Outcome)
REBALANCE_KINDS = tuple(RebalanceKind)
MODES = tuple(Mode)
TIERS = tuple(EvidenceTier)
MOVEMENT_KINDS = tuple(MovementKind)
TRIGGERS = tuple(Cause)
_LIKELY_PAUSE = Law(
    "likely pause inside its bounds",
    "pause_lower_ms <= pause_likely_lower_ms and pause_likely_lower_ms <= pause_estimate_ms "
    "and pause_estimate_ms <= pause_likely_upper_ms and pause_likely_upper_ms <= pause_upper_ms",
)
_LIKELY_COST = Law(
    "likely cost inside its bounds",
    "resource_seconds_lower <= resource_seconds_likely_lower "
    "and resource_seconds_likely_lower <= resource_seconds_estimate "
    "and resource_seconds_estimate <= resource_seconds_likely_upper "
    "and resource_seconds_likely_upper <= resource_seconds_upper",
)

GOLD_REBALANCE = Table(
    "gold.rebalance",
    "One attempt of one group to reach a new generation or epoch, whether it completed or not.",
    ("cluster_id", "rebalance_id"),
    (
        *REBALANCE_KEYS,
        col("team", "string", "By name pattern of the settings."),
        col("group_type", "string", "", required=True, values=tuple(GroupType)),
        col("protocol_type", "string", "`consumer`, `connect`, …"),
        col("kind", "string", "", required=True, values=REBALANCE_KINDS),
        col("rewrite_seq", "int", "1, 2 … for a static member's rewrite of the same number; 0 else.", required=True),
        col("outcome", "string", "", required=True, values=OUTCOMES),
        col("mode", "string", "", required=True, values=MODES),
        col("assignor", "string", "The elected protocol or server assignor."),
        col("leader_member_id", "string", ""),
        col("leader_changed", "boolean", "Another member leads than in the rebalance before."),
        col("coordinator_broker_id", "int", "From log lines."),
        col("member_count", "int", "Members after it."),
        col("static_member_count", "int", "Of these, with a group.instance.id."),
        col("started_at_ms", "bigint", "`Preparing to rebalance`; null where no log shows it."),
        col("started_lower_ms", "bigint", "It did not start before: the group's last record before, or null."),
        col("started_tier", "string", "", values=TIERS),
        col("joined_at_ms", "bigint", "End of the join phase: currentStateTimestamp or `Stabilized`."),
        col("assigned_at_ms", "bigint", "The assignment was delivered: the group record's time."),
        col("ended_at_ms", "bigint", "The last of the times known."),
        col("broker_window_ms", "bigint", "assigned - started: what others call downtime, and is not."),
        col("trigger", "string", "What started it.", required=True, values=TRIGGERS),
        col("trigger_tier", "string", "", required=True, values=TIERS),
        col("trigger_detail", "string", "Who and what, in words."),
        col(
            "triggers",
            "array<struct<trigger:string,tier:string,members:array<string>,detail:string,evidence:array<string>>>",
            "All causes of one preparation, the starting one first.",
            required=True,
        ),
        col("expected", "boolean", "Part of the protocol's normal work.", required=True),
        col("expected_reason", "string", "Why it is."),
        col("resource_count", "int", "Resources held by members after it."),
        col("kept_count", "int", "Stayed with their owner without stopping."),
        col("moved_count", "int", ""),
        col("returned_count", "int", ""),
        col("revoked_count", "int", ""),
        col("assigned_count", "int", ""),
        col("restarted_count", "int", "Connect tasks restarted in place."),
        col("avoidable_moved_count", "int", "Null where the least movement is not known."),
        col("unassigned_count", "int", "Resources known to exist, with no owner after it."),
        col("pause_lower_ms", "bigint", "Longest over its resources."),
        col("pause_estimate_ms", "bigint", "Longest over its resources."),
        col("pause_upper_ms", "bigint", "Longest over its resources; null if any is unbounded."),
        col("pause_likely_lower_ms", "bigint", "Longest over its resources."),
        col("pause_likely_upper_ms", "bigint", "Longest over its resources."),
        col("pause_tier", "string", "", values=TIERS),
        col("resource_seconds_lower", "double", "Sum over resources, each once, overlaps as 0."),
        col("resource_seconds_estimate", "double", ""),
        col("resource_seconds_upper", "double", "Null if any is unbounded."),
        col("resource_seconds_likely_lower", "double", "Nine of ten truths lie between this and …"),
        col("resource_seconds_likely_upper", "double", "… this."),
        col("connect_delay_ms", "bigint", "Connect: the delay announced in this generation."),
        col(
            "connect_error", "int", "Connect: the error in this generation's assignment; 1 = nobody was given anything."
        ),
        col("config_offset", "bigint", "Connect: offset of the config topic the assignment is based on."),
        col(
            "changed_connectors",
            "array<string>",
            "Connect: whose configuration, tasks or target state changed since the generation before.",
        ),
        col(
            "commanded_connectors",
            "array<string>",
            "Connect: those of them whose own configuration or target state was written, not only their tasks'.",
        ),
        col(
            "grown_topics",
            "array<string>",
            "Topics with partitions that nobody had held, where topics or partitions changed; else null.",
        ),
        col(
            "eager_seconds_lower",
            "double",
            "Connect, incremental: resource-seconds the same change costs at least under connect.protocol=eager.",
        ),
        col(
            "is_complete_evidence",
            "boolean",
            "Nothing that could change this row is known to be missing.",
            required=True,
        ),
        col("is_final", "boolean", "A later rebalance of the group is known, so this row is closed.", required=True),
        col("revision", "int", "How often this row changed.", required=True),
        EVIDENCE,
    ),
    (
        Law("names its evidence", "size(evidence) >= 1 or outcome = 'missing'"),
        Law("one number, of its own kind", "(generation_id is null) <> (group_epoch is null)"),
        Law("pause bounds in order", "pause_lower_ms <= pause_estimate_ms and pause_estimate_ms <= pause_upper_ms"),
        _LIKELY_PAUSE,
        _LIKELY_COST,
        Law("starts before it is assigned", "started_at_ms <= assigned_at_ms + 1000", is_fatal=False),
        Law("an unknown trigger claims no tier", "trigger <> 'unknown' or trigger_tier = 'unknown'"),
    ),
)

GOLD_REBALANCE_MEMBER = Table(
    "gold.rebalance_member",
    "One member in one rebalance: what it held before and after.",
    ("cluster_id", "rebalance_id", "member_id"),
    (
        *REBALANCE_KEYS,
        col("member_id", "string", "", required=True),
        col("group_instance_id", "string", "Static members."),
        col("client_id", "string", ""),
        col("client_host", "string", "As Kafka has it, leading slash and all."),
        col("worker_url", "string", "Connect."),
        col("change", "string", "", required=True, values=tuple(MemberChange)),
        col("is_leader", "boolean", "", required=True),
        col("member_epoch", "int", "KIP-848 and after."),
        col("session_timeout_ms", "bigint", ""),
        col("rebalance_timeout_ms", "bigint", ""),
        col("subscribed_topics", "array<string>", ""),
        col("supported_assignors", "array<string>", "Null where only the elected one is known."),
        col("owned_before", "array<string>", "All it held before; null if not known."),
        col("assigned", "array<string>", "All it holds after."),
        col("revoked", "array<string>", "before - after."),
        col("added", "array<string>", "after - before."),
        col("standby_tasks", "array<string>", "Streams: copies it keeps. Classic protocol: warm-up copies among them."),
        col("warmup_tasks", "array<string>", "Streams protocol: copies that catch up. Null where bytes do not say."),
        col(
            "client_libraries",
            "array<string>",
            "Classic groups of consumers: those that its bytes fit, and reasons given so far; null for any.",
        ),
        col("undecoded", "string", "What of its subscription or assignment could not be read, and where."),
        EVIDENCE,
    ),
)

GOLD_MOVEMENT = Table(
    "gold.movement",
    "One resource that stopped, moved or began in one rebalance.",
    ("cluster_id", "rebalance_id", "resource_type", "resource"),
    (
        *REBALANCE_KEYS,
        col("resource_type", "string", "", required=True, values=tuple(ResourceType)),
        col("resource", "string", "`topic-partition`, `connector-task`, or the connector's name.", required=True),
        col("topic", "string", "Partitions."),
        col("partition", "int", "Partitions."),
        col("connector", "string", "Connect."),
        col("task", "int", "Connect tasks; null for the connector itself."),
        col("kind", "string", "", required=True, values=MOVEMENT_KINDS),
        col("from_member_id", "string", "Last owner, however many generations back."),
        col("to_member_id", "string", ""),
        col("from_client_id", "string", ""),
        col("to_client_id", "string", ""),
        col("from_worker_url", "string", ""),
        col("to_worker_url", "string", ""),
        col("revoked_in_rebalance_id", "string", "The rebalance that took it away, if another."),
        col("is_avoidable", "boolean", "Null where it is not known."),
        col("stopped_at_lower_ms", "bigint", "The old owner let go not before."),
        col("stopped_at_upper_ms", "bigint", "… and not after."),
        col("resumed_at_lower_ms", "bigint", "The new owner's assigned callback returned not before."),
        col("resumed_at_upper_ms", "bigint", "… and not after."),
        col("pause_lower_ms", "bigint", "May be negative: an overlap."),
        col("pause_estimate_ms", "bigint", ""),
        col("pause_upper_ms", "bigint", "Null: no evidence bounds it."),
        col("pause_likely_lower_ms", "bigint", "Nine of ten truths lie between this and …"),
        col("pause_likely_upper_ms", "bigint", "… this: from the measured errors of each kind of evidence."),
        col("overlap_ms", "bigint", "Two owners at once for so long (estimate)."),
        col("first_commit_after_ms", "bigint", "From the estimated stop to the first commit after."),
        col("pause_tier", "string", "", values=TIERS),
        col("pause_detail", "string", "What marks the stop and the resume; or why the pause is not known."),
        EVIDENCE,
    ),
    (
        Law("pause bounds in order", "pause_lower_ms <= pause_estimate_ms and pause_estimate_ms <= pause_upper_ms"),
        _LIKELY_PAUSE,
        Law("stop bounds in order", "stopped_at_lower_ms <= stopped_at_upper_ms"),
        Law("resume bounds in order", "resumed_at_lower_ms <= resumed_at_upper_ms"),
        Law("a first assignment has no pause", "kind <> 'assigned' or pause_estimate_ms is null"),
        Law("a revocation has no pause", "kind <> 'revoked' or pause_estimate_ms is null"),
    ),
)

GOLD_STANDSTILL = Table(
    "gold.standstill",
    "One time in which a member did nothing and its group did not notice: no rebalance shows it, its commits do. "
    "Inferred against what the member does otherwise, and only where its partitions are known to have moved.",
    ("cluster_id", "rebalance_id", "member_id", "from_lower_ms"),
    (
        *REBALANCE_KEYS,
        col("member_id", "string", "In the generation or epoch of this rebalance.", required=True),
        col("group_instance_id", "string", "Static members."),
        col("client_id", "string", ""),
        col("client_host", "string", "As Kafka has it, leading slash and all."),
        col("resources", "array<string>", "Its partitions whose commits stopped: `topic-partition`.", required=True),
        col("from_lower_ms", "bigint", "It worked until then at least: its last commit.", required=True),
        col("from_ms", "bigint", "Estimate.", required=True),
        col("from_upper_ms", "bigint", "Its next commit was due, and did not come.", required=True),
        col("to_lower_ms", "bigint", "It worked again not before; null: it goes on as far as evidence goes."),
        col("to_ms", "bigint", "Estimate."),
        col("to_upper_ms", "bigint", "Its next commit."),
        col("pause_lower_ms", "bigint", "", required=True),
        col("pause_estimate_ms", "bigint", "Of one that goes on, until the last commit of others.", required=True),
        col("pause_upper_ms", "bigint", "Null: it goes on."),
        col("resource_seconds_lower", "double", "Over its resources.", required=True),
        col("resource_seconds_estimate", "double", "In no rebalance's sum.", required=True),
        col("resource_seconds_upper", "double", "Null: it goes on."),
        col("usual_commit_ms", "bigint", "The longest time between two of its commits otherwise.", required=True),
        col("tier", "string", "", required=True, values=TIERS),
        col("detail", "string", "Why, in one sentence.", required=True),
        EVIDENCE,
    ),
    (
        Law("begins in order", "from_lower_ms <= from_ms and from_ms <= from_upper_ms"),
        Law("ends in order", "to_lower_ms <= to_ms and to_ms <= to_upper_ms"),
        Law(
            "standstill bounds in order", "pause_lower_ms <= pause_estimate_ms and pause_estimate_ms <= pause_upper_ms"
        ),
        Law("inferred, with evidence", "tier = 'inferred' and size(evidence) >= 1 and size(resources) >= 1"),
    ),
)

GOLD_CONNECT_TASK = Table(
    "gold.connect_task",
    "One interval in which one connector or task was in one state.",
    ("cluster_id", "group_id", "resource_type", "connector", "task", "from_ms", "state"),
    (
        CLUSTER,
        GROUP,
        col("resource_type", "string", "", required=True, values=("task", "connector")),
        col("connector", "string", "", required=True),
        col("task", "int", "Null for the connector itself."),
        col("worker_url", "string", ""),
        col("worker_id", "string", "host:port of the status topic."),
        col(
            "state", "string", "RUNNING, UNASSIGNED, PAUSED, FAILED, STOPPED, RESTARTING, WAITING, LOST.", required=True
        ),
        col("generation_id", "int", "Of the status record, or of the assignment."),
        col("from_ms", "bigint", "", required=True),
        col("from_lower_ms", "bigint", ""),
        col("from_upper_ms", "bigint", ""),
        col("to_ms", "bigint", "Null: still so when evidence ends."),
        col("to_lower_ms", "bigint", ""),
        col("to_upper_ms", "bigint", ""),
        col("ended_by", "string", "What ended it: stopped, worker_lost, failed, paused, restarted, deleted, …"),
        col("expected", "boolean", "By design (the scheduled delay, a hand-over), not a fault."),
        col("detail", "string", "FAILED: the trace's first line."),
        EVIDENCE,
    ),
    (Law("ends after it begins", "from_ms <= to_ms", is_fatal=False),),
)

GOLD_GROUP = Table(
    "gold.group",
    "Latest known state of one group.",
    ("cluster_id", "group_id"),
    (
        CLUSTER,
        GROUP,
        col("team", "string", ""),
        col("group_type", "string", "", required=True),
        col("protocol_type", "string", ""),
        col("state", "string", "Stable, Empty, PreparingRebalance, … as last seen.", required=True),
        col("mode", "string", "", required=True),
        col("assignor", "string", "The last that is known: a group without members has none."),
        col("generation_id", "int", ""),
        col("group_epoch", "int", ""),
        col("member_count", "int", ""),
        col("resource_count", "int", ""),
        col("first_seen_at_ms", "bigint", "First rebalance in evidence."),
        col("last_rebalance_at_ms", "bigint", "Its assigned, else its last known time."),
        col("last_rebalance_id", "string", ""),
        col("rebalance_count", "int", "In evidence, static rewrites not counted.", required=True),
        col("rebalance_count_1h", "int", "In the hour before the evidence's end.", required=True),
        col("rebalance_count_24h", "int", "", required=True),
        col("pause_p50_ms", "double", "Over rebalances with an estimate."),
        col("pause_p95_ms", "double", ""),
        col("resource_seconds_estimate", "double", "Sum over evidence, of those whose cost is known."),
        col("resource_seconds_likely_lower", "double", "Nine of ten truths lie between this and …"),
        col("resource_seconds_likely_upper", "double", "… this."),
        col(
            "standstill_seconds_estimate",
            "double",
            "Beside that, of members that hung without a rebalance; null: none is known.",
        ),
        col("top_trigger", "string", "The commonest."),
        col("open_finding_count", "int", "", required=True),
        col("worst_severity", "string", "Of its open findings."),
    ),
)
