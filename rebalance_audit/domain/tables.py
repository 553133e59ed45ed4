"""Every table: its grain, its columns with type, unit and meaning, and the checks a stage must pass.

Types are Spark DDL names; edges turn them into Arrow and Spark schemas and into Great Expectations suites.
A column is nullable unless `required`. Instants end in `_at_ms` (or are `_ms` bounds of one), durations in `_ms`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import (
    EvidenceTier,
    FindingStatus,
    GroupType,
    MemberChange,
    Mode,
    MovementKind,
    Outcome,
    RebalanceKind,
    ResourceType,
    Severity,
)

SCHEMA_VERSION = 1
"""The version of the whole warehouse. A reader refuses a warehouse with a greater number."""

OUTCOMES = tuple(Outcome)
REBALANCE_KINDS = tuple(RebalanceKind)
MODES = tuple(Mode)
TIERS = tuple(EvidenceTier)
MOVEMENT_KINDS = tuple(MovementKind)
TRIGGERS = tuple(Cause)
SEVERITIES = tuple(Severity)


@dataclass(frozen=True, slots=True)
class Column:
    name: str
    type: str
    doc: str
    required: bool = False
    values: tuple[str, ...] = ()
    """The closed set of values, if there is one."""


@dataclass(frozen=True, slots=True)
class Law:
    """A condition each row of a table must meet: SQL that is true for a good row (null counts as good)."""

    name: str
    sql: str
    is_fatal: bool = True
    """A fatal law stops publishing; the others are recorded."""


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """`layer.noun`, the noun in the singular: what one row is."""
    doc: str
    key: tuple[str, ...]
    """The grain: no two rows agree in all of these."""
    columns: tuple[Column, ...]
    laws: tuple[Law, ...] = field(default=())

    @property
    def layer(self) -> str:
        return self.name.partition(".")[0]

    def ddl(self) -> str:
        """The columns as Spark DDL."""
        return ", ".join(f"`{c.name}` {c.type}" for c in self.columns)


def _c(name: str, type_: str, doc: str, *, required: bool = False, values: tuple[str, ...] = ()) -> Column:
    return Column(name, type_, doc, required, values)


_CLUSTER = _c("cluster_id", "string", "Kafka's cluster id, or the name given at import.", required=True)
_EVIDENCE = _c("evidence", "array<string>", "Evidence refs, the strongest first.", required=True)
_GROUP = _c("group_id", "string", "The group, as the client spelt it.", required=True)
_REBALANCE_KEYS = (
    _CLUSTER,
    _c("rebalance_id", "string", "From cluster, group, number and sequence; never from times.", required=True),
    _GROUP,
    _c("generation_id", "int", "Classic groups: the generation this attempt led to."),
    _c("group_epoch", "int", "KIP-848, share and streams groups: the epoch this attempt led to."),
)

BRONZE_RECORD = Table(
    "bronze.record",
    "A record of a topic, exactly as it was (secrets of Connect configurations removed).",
    ("cluster_id", "topic", "partition", "offset", "copy"),
    (
        _CLUSTER,
        _c("topic", "string", "", required=True),
        _c("partition", "int", "", required=True),
        _c("offset", "bigint", "", required=True),
        _c("copy", "int", "0; 1, 2 … for another record seen at the same offset (TR005).", required=True),
        _c("timestamp_ms", "bigint", "Record timestamp, epoch ms.", required=True),
        _c("key", "binary", ""),
        _c("value", "binary", "Null is a tombstone."),
        _c("headers", "array<struct<key:string,value:binary>>", ""),
        _c("source", "string", "`live` (a consumer) or `segment` (a file).", required=True, values=("live", "segment")),
        _c("node", "string", "The node whose file it was read from; null for live records."),
        _c("leader_epoch", "int", "Of the batch; segments, and live where the broker says it."),
        _c("producer_id", "bigint", "Segments only."),
        _c("producer_epoch", "int", "Segments only."),
        _c("is_transactional", "boolean", "Segments only."),
        _c("is_control", "boolean", "A marker, not data. Segments only."),
        _c("batch_crc", "bigint", "CRC-32C as the batch states it. Segments only."),
        _c("batch_base_offset", "bigint", "Segments only."),
        _c("landing", "string", "The file of bronze that brought it; its first arrival.", required=True),
    ),
    (Law("offset is not negative", "offset >= 0"),),
)

BRONZE_LOG_LINE = Table(
    "bronze.log_line",
    "A log event exactly as it was, continuation lines included.",
    ("cluster_id", "node", "file_id", "byte"),
    (
        _CLUSTER,
        _c("node", "string", "Folder or host the file came from.", required=True),
        _c("file_name", "string", "The label the file had when read; rotation changes it.", required=True),
        _c("file_id", "string", "Hash of the first KiB of the uncompressed text.", required=True),
        _c("byte", "bigint", "Start of the event in uncompressed text.", required=True),
        _c("text", "string", "Undecodable bytes become U+FFFD.", required=True),
        _c("landing", "string", "The file of bronze that brought it.", required=True),
    ),
    (Law("byte is not negative", "byte >= 0"),),
)

BRONZE_SOURCE = Table(
    "bronze.source",
    "One reading of one source: what was read from where to where, and what could not be.",
    ("cluster_id", "source", "read_id"),
    (
        _CLUSTER,
        _c("source", "string", "`record:<topic>-<p>` or `log:<node>/<file>#<id>`.", required=True),
        _c("read_id", "string", "The import or collector run that read it.", required=True),
        _c("kind", "string", "", required=True, values=("record", "log")),
        _c("from_position", "bigint", "First offset or byte read."),
        _c("to_position", "bigint", "One past the last offset or byte read."),
        _c("from_at_ms", "bigint", "First record time; null for logs, whose zone is settled later."),
        _c("to_at_ms", "bigint", "Last record time."),
        _c("item_count", "bigint", "Records or log events read and kept.", required=True),
        _c(
            "let_go_count",
            "bigint",
            "Log lines read, not kept: they say nothing about groups, tasks, partitions or clocks. Null before "
            "versions that do so.",
        ),
        _c("problem", "string", "Why something was not read, in one sentence; null if nothing was wrong."),
        _c("problem_code", "string", "unreadable, skipped, rotated, lost, above_majority; null if nothing was wrong."),
        _c("problem_position", "bigint", "Where: offset or byte."),
        _c("log_time_zone", "string", "As configured (meta.json); null = to be inferred."),
        _c("kafka_version", "string", "As configured (meta.json)."),
        _c("landing", "string", "The file of bronze that brought it.", required=True),
    ),
)

SILVER_FLOOR = Table(
    "silver.floor",
    "How far retention has deleted a source: what lies before is not taken in again.",
    ("cluster_id", "source"),
    (
        _CLUSTER,
        _c("source", "string", "`record:<topic>-<p>` or `log:<node>#<file id>`.", required=True),
        _c("position", "bigint", "The first offset or byte that was kept.", required=True),
    ),
)

SILVER_GROUP_EVENT = Table(
    "silver.group_event",
    "One record or log line about one group, with its bytes.",
    ("cluster_id", "ref"),
    (
        _CLUSTER,
        _c("group_id", "string", "Null where the line names no group (coordinator elected, …)."),
        _c("ref", "string", "Its evidence ref.", required=True),
        _c("source_kind", "string", "", required=True, values=("record", "log", "status", "config")),
        _c("kind", "string", "Record type by name, or the log kind.", required=True),
        _c("topic", "string", "Records."),
        _c("partition", "int", "Records."),
        _c("offset", "bigint", "Records."),
        _c("node", "string", "Log lines."),
        _c("file_name", "string", "Log lines."),
        _c("file_id", "string", "Log lines."),
        _c("byte", "bigint", "Log lines."),
        _c("at_ms", "bigint", "Records: record timestamp. Log lines: their local time read as UTC.", required=True),
        _c("key", "binary", "Records: the key's bytes."),
        _c("value", "binary", "Records: the value's bytes; null is a tombstone."),
        _c("text", "string", "Log lines."),
        _c("detail", "string", "What was decoded, as JSON, for readers; the next stage decodes the bytes again."),
    ),
)

SILVER_COMMIT_MARK = Table(
    "silver.commit_mark",
    "Offset commits of a group's partition between two records of the group: the first, the last, the longest gap.",
    ("cluster_id", "group_id", "topic", "partition", "first_offset"),
    (
        _CLUSTER,
        _GROUP,
        _c("topic", "string", "The committed topic.", required=True),
        _c("partition", "int", "The committed partition.", required=True),
        _c("offsets_topic", "string", "Where the commits are.", required=True),
        _c("offsets_partition", "int", "Where the commits are.", required=True),
        _c("first_offset", "bigint", "Offset in __consumer_offsets of the first commit.", required=True),
        _c("first_at_ms", "bigint", "Its record timestamp.", required=True),
        _c("last_offset", "bigint", "Offset in __consumer_offsets of the last commit.", required=True),
        _c("last_at_ms", "bigint", "Its record timestamp.", required=True),
        _c("commit_count", "bigint", "", required=True),
        _c("topic_id", "string", "The topic's id as the commits have it (Kafka 4.1 and later)."),
        _c("first_position", "bigint", "The offset that the first commit committed."),
        _c("last_position", "bigint", "The offset that the last commit committed."),
        _c("next_at_ms", "bigint", "Record timestamp of the second commit."),
        _c("next_position", "bigint", "The offset that it committed."),
        _c("gap_from_offset", "bigint", "The commit before the longest time without one; null: too few, or not known."),
        _c("gap_from_at_ms", "bigint", "Its record timestamp."),
        _c("gap_from_position", "bigint", "The offset that it committed."),
        _c("gap_to_offset", "bigint", "The commit after the longest time without one."),
        _c("gap_to_at_ms", "bigint", "Its record timestamp."),
        _c("gap_to_position", "bigint", "The offset that it committed."),
        _c("after_at_ms", "bigint", "Record timestamp of the commit after that one: by then it had caught up."),
        _c("after_position", "bigint", "The offset that it committed."),
        _c("second_gap_ms", "bigint", "The longest of the other times between two commits."),
    ),
    (
        Law("first is not after last", "first_offset <= last_offset and commit_count >= 1"),
        Law("the gap lies inside", "first_offset <= gap_from_offset and gap_to_offset <= last_offset"),
    ),
)

SILVER_UNDECODED = Table(
    "silver.undecoded",
    "What could not be read, and why.",
    ("cluster_id", "ref"),
    (
        _CLUSTER,
        _c("ref", "string", "Where it stands.", required=True),
        _c("reason", "string", "A DecodeReason.", required=True),
        _c("byte_position", "int", "In key then value, counted through; null for whole lines."),
        _c("part", "string", "key, value, subscription, assignment or line.", required=True),
        _c("field", "string", "The field being read."),
        _c("detail", "string", "One sentence."),
        _c("raw", "binary", "The bytes that were refused."),
        _c("at_ms", "bigint", "Record timestamp, or null."),
    ),
)

SILVER_DECODE_COUNT = Table(
    "silver.decode_count",
    "The decode stage's books per batch: rows in = events + commits + undecoded + skipped.",
    ("cluster_id", "batch_id", "source_kind", "kind"),
    (
        _CLUSTER,
        _c("batch_id", "string", "The run's batch.", required=True),
        _c("source_kind", "string", "", required=True, values=("record", "log")),
        _c("kind", "string", "Record type by name, or log file kind.", required=True),
        _c("in_count", "bigint", "", required=True),
        _c("event_count", "bigint", "", required=True),
        _c("commit_count", "bigint", "Commits (folded into marks).", required=True),
        _c("undecoded_count", "bigint", "", required=True),
        _c("skipped_count", "bigint", "Known, and of no interest to any later stage.", required=True),
    ),
    (Law("rows in = rows out", "in_count = event_count + commit_count + undecoded_count + skipped_count"),),
)

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
        *_REBALANCE_KEYS,
        _c("team", "string", "By name pattern of the settings."),
        _c("group_type", "string", "", required=True, values=tuple(GroupType)),
        _c("protocol_type", "string", "`consumer`, `connect`, …"),
        _c("kind", "string", "", required=True, values=REBALANCE_KINDS),
        _c("rewrite_seq", "int", "1, 2 … for a static member's rewrite of the same number; 0 else.", required=True),
        _c("outcome", "string", "", required=True, values=OUTCOMES),
        _c("mode", "string", "", required=True, values=MODES),
        _c("assignor", "string", "The elected protocol or server assignor."),
        _c("leader_member_id", "string", ""),
        _c("leader_changed", "boolean", "Another member leads than in the rebalance before."),
        _c("coordinator_broker_id", "int", "From log lines."),
        _c("member_count", "int", "Members after it."),
        _c("static_member_count", "int", "Of these, with a group.instance.id."),
        _c("started_at_ms", "bigint", "`Preparing to rebalance`; null where no log shows it."),
        _c("started_lower_ms", "bigint", "It did not start before: the group's last record before, or null."),
        _c("started_tier", "string", "", values=TIERS),
        _c("joined_at_ms", "bigint", "End of the join phase: currentStateTimestamp or `Stabilized`."),
        _c("assigned_at_ms", "bigint", "The assignment was delivered: the group record's time."),
        _c("ended_at_ms", "bigint", "The last of the times known."),
        _c("broker_window_ms", "bigint", "assigned - started: what others call downtime, and is not."),
        _c("trigger", "string", "What started it.", required=True, values=TRIGGERS),
        _c("trigger_tier", "string", "", required=True, values=TIERS),
        _c("trigger_detail", "string", "Who and what, in words."),
        _c(
            "triggers",
            "array<struct<trigger:string,tier:string,members:array<string>,detail:string,evidence:array<string>>>",
            "All causes met during one preparation, the starting one first.",
            required=True,
        ),
        _c("expected", "boolean", "Part of the protocol's normal work.", required=True),
        _c("expected_reason", "string", "Why it is."),
        _c("resource_count", "int", "Resources held by members after it."),
        _c("kept_count", "int", "Stayed with their owner without stopping."),
        _c("moved_count", "int", ""),
        _c("returned_count", "int", ""),
        _c("revoked_count", "int", ""),
        _c("assigned_count", "int", ""),
        _c("restarted_count", "int", "Connect tasks restarted in place."),
        _c("avoidable_moved_count", "int", "Null where the least movement is not known."),
        _c("unassigned_count", "int", "Resources known to exist, with no owner after it."),
        _c("pause_lower_ms", "bigint", "Longest over its resources."),
        _c("pause_estimate_ms", "bigint", "Longest over its resources."),
        _c("pause_upper_ms", "bigint", "Longest over its resources; null if any is unbounded."),
        _c("pause_likely_lower_ms", "bigint", "Longest over its resources."),
        _c("pause_likely_upper_ms", "bigint", "Longest over its resources."),
        _c("pause_tier", "string", "", values=TIERS),
        _c("resource_seconds_lower", "double", "Sum over resources, each once, overlaps as 0."),
        _c("resource_seconds_estimate", "double", ""),
        _c("resource_seconds_upper", "double", "Null if any is unbounded."),
        _c("resource_seconds_likely_lower", "double", "Nine of ten truths lie between this and …"),
        _c("resource_seconds_likely_upper", "double", "… this."),
        _c("connect_delay_ms", "bigint", "Connect: the delay announced in this generation."),
        _c(
            "connect_error", "int", "Connect: the error in this generation's assignment; 1 = nobody was given anything."
        ),
        _c("config_offset", "bigint", "Connect: offset of the config topic the assignment is based on."),
        _c(
            "changed_connectors",
            "array<string>",
            "Connect: whose configuration, tasks or target state changed since the generation before.",
        ),
        _c(
            "eager_seconds_lower",
            "double",
            "Connect, incremental: resource-seconds the same change costs at least under connect.protocol=eager.",
        ),
        _c(
            "is_complete_evidence",
            "boolean",
            "Nothing that could change this row is known to be missing.",
            required=True,
        ),
        _c("is_final", "boolean", "A later rebalance of the group is known, so this row is closed.", required=True),
        _c("revision", "int", "How often this row changed.", required=True),
        _EVIDENCE,
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
        *_REBALANCE_KEYS,
        _c("member_id", "string", "", required=True),
        _c("group_instance_id", "string", "Static members."),
        _c("client_id", "string", ""),
        _c("client_host", "string", "As Kafka has it, leading slash and all."),
        _c("worker_url", "string", "Connect."),
        _c("change", "string", "", required=True, values=tuple(MemberChange)),
        _c("is_leader", "boolean", "", required=True),
        _c("member_epoch", "int", "KIP-848 and after."),
        _c("session_timeout_ms", "bigint", ""),
        _c("rebalance_timeout_ms", "bigint", ""),
        _c("subscribed_topics", "array<string>", ""),
        _c("supported_assignors", "array<string>", "Null where only the elected one is known."),
        _c("owned_before", "array<string>", "All it held before; null if not known."),
        _c("assigned", "array<string>", "All it holds after."),
        _c("revoked", "array<string>", "before - after."),
        _c("added", "array<string>", "after - before."),
        _c("standby_tasks", "array<string>", "Streams: copies it keeps. Classic protocol: warm-up copies among them."),
        _c("warmup_tasks", "array<string>", "Streams protocol: copies that catch up. Null where bytes do not say."),
        _c(
            "client_libraries",
            "array<string>",
            "Classic groups of consumers: those that its bytes and reasons fit, one where they show it; null for any.",
        ),
        _c("undecoded", "string", "What of its subscription or assignment could not be read, and where."),
        _EVIDENCE,
    ),
)

GOLD_MOVEMENT = Table(
    "gold.movement",
    "One resource that stopped, moved or began in one rebalance.",
    ("cluster_id", "rebalance_id", "resource_type", "resource"),
    (
        *_REBALANCE_KEYS,
        _c("resource_type", "string", "", required=True, values=tuple(ResourceType)),
        _c("resource", "string", "`topic-partition`, `connector-task`, or the connector's name.", required=True),
        _c("topic", "string", "Partitions."),
        _c("partition", "int", "Partitions."),
        _c("connector", "string", "Connect."),
        _c("task", "int", "Connect tasks; null for the connector itself."),
        _c("kind", "string", "", required=True, values=MOVEMENT_KINDS),
        _c("from_member_id", "string", "Last owner, however many generations back."),
        _c("to_member_id", "string", ""),
        _c("from_client_id", "string", ""),
        _c("to_client_id", "string", ""),
        _c("from_worker_url", "string", ""),
        _c("to_worker_url", "string", ""),
        _c("revoked_in_rebalance_id", "string", "The rebalance that took it away, if another."),
        _c("is_avoidable", "boolean", "Null where it is not known."),
        _c("stopped_at_lower_ms", "bigint", "The old owner let go not before."),
        _c("stopped_at_upper_ms", "bigint", "… and not after."),
        _c("resumed_at_lower_ms", "bigint", "The new owner's assigned callback returned not before."),
        _c("resumed_at_upper_ms", "bigint", "… and not after."),
        _c("pause_lower_ms", "bigint", "May be negative: an overlap."),
        _c("pause_estimate_ms", "bigint", ""),
        _c("pause_upper_ms", "bigint", "Null: no evidence bounds it."),
        _c("pause_likely_lower_ms", "bigint", "Nine of ten truths lie between this and …"),
        _c("pause_likely_upper_ms", "bigint", "… this: from the measured errors of each kind of evidence."),
        _c("overlap_ms", "bigint", "Two owners at once for so long (estimate)."),
        _c("first_commit_after_ms", "bigint", "From the estimated stop to the first commit after."),
        _c("pause_tier", "string", "", values=TIERS),
        _c("pause_detail", "string", "What marks the stop and the resume, in words."),
        _EVIDENCE,
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
        *_REBALANCE_KEYS,
        _c("member_id", "string", "In the generation or epoch of this rebalance.", required=True),
        _c("group_instance_id", "string", "Static members."),
        _c("client_id", "string", ""),
        _c("client_host", "string", "As Kafka has it, leading slash and all."),
        _c("resources", "array<string>", "Its partitions whose commits stopped: `topic-partition`.", required=True),
        _c("from_lower_ms", "bigint", "It worked until then at least: its last commit.", required=True),
        _c("from_ms", "bigint", "Estimate.", required=True),
        _c("from_upper_ms", "bigint", "Its next commit was due, and did not come.", required=True),
        _c("to_lower_ms", "bigint", "It worked again not before; null: it goes on as far as evidence goes."),
        _c("to_ms", "bigint", "Estimate."),
        _c("to_upper_ms", "bigint", "Its next commit."),
        _c("pause_lower_ms", "bigint", "", required=True),
        _c("pause_estimate_ms", "bigint", "Of one that goes on, until the last commit of others.", required=True),
        _c("pause_upper_ms", "bigint", "Null: it goes on."),
        _c("resource_seconds_lower", "double", "Over its resources.", required=True),
        _c("resource_seconds_estimate", "double", "In no rebalance's sum.", required=True),
        _c("resource_seconds_upper", "double", "Null: it goes on."),
        _c("usual_commit_ms", "bigint", "The longest time between two of its commits otherwise.", required=True),
        _c("tier", "string", "", required=True, values=TIERS),
        _c("detail", "string", "Why, in one sentence.", required=True),
        _EVIDENCE,
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
        _CLUSTER,
        _GROUP,
        _c("resource_type", "string", "", required=True, values=("task", "connector")),
        _c("connector", "string", "", required=True),
        _c("task", "int", "Null for the connector itself."),
        _c("worker_url", "string", ""),
        _c("worker_id", "string", "host:port of the status topic."),
        _c(
            "state", "string", "RUNNING, UNASSIGNED, PAUSED, FAILED, STOPPED, RESTARTING, WAITING, LOST.", required=True
        ),
        _c("generation_id", "int", "Of the status record, or of the assignment."),
        _c("from_ms", "bigint", "", required=True),
        _c("from_lower_ms", "bigint", ""),
        _c("from_upper_ms", "bigint", ""),
        _c("to_ms", "bigint", "Null: still so when evidence ends."),
        _c("to_lower_ms", "bigint", ""),
        _c("to_upper_ms", "bigint", ""),
        _c("ended_by", "string", "What ended it: stopped, worker_lost, failed, paused, restarted, deleted, …"),
        _c("expected", "boolean", "By design (the scheduled delay, a hand-over), not a fault."),
        _c("detail", "string", "FAILED: the trace's first line."),
        _EVIDENCE,
    ),
    (Law("ends after it begins", "from_ms <= to_ms", is_fatal=False),),
)

GOLD_FINDING = Table(
    "gold.finding",
    "One thing that was wrong, from when it opened to when it was resolved.",
    ("cluster_id", "finding_id"),
    (
        _CLUSTER,
        _c("finding_id", "string", "From cluster, rule, subject and the first rebalance or attempt.", required=True),
        _c("rule_id", "string", "", required=True),
        _c("severity", "string", "", required=True, values=SEVERITIES),
        _c("subject_type", "string", "group, partition, connector, source, broker, cluster.", required=True),
        _c("subject", "string", "The bare name of it.", required=True),
        _c("status", "string", "", required=True, values=tuple(FindingStatus)),
        _c("first_seen_at_ms", "bigint", "", required=True),
        _c("last_seen_at_ms", "bigint", "", required=True),
        _c("title", "string", "One sentence.", required=True),
        _c("detail", "string", ""),
        _c("numbers", "string", "JSON."),
        _c("advice", "string", "What to do."),
        _c("group_id", "string", "The group whose history shows it; null where it is about the evidence itself."),
        _c(
            "connectors",
            "array<string>",
            "Connect: those it is about; empty: none, or the workers. Null in older rows.",
        ),
        _EVIDENCE,
    ),
    (
        Law("names its evidence", "size(evidence) >= 1"),
        Law("ends after it begins", "first_seen_at_ms <= last_seen_at_ms"),
    ),
)

GOLD_GROUP = Table(
    "gold.group",
    "Latest known state of one group.",
    ("cluster_id", "group_id"),
    (
        _CLUSTER,
        _GROUP,
        _c("team", "string", ""),
        _c("group_type", "string", "", required=True),
        _c("protocol_type", "string", ""),
        _c("state", "string", "Stable, Empty, PreparingRebalance, … as last seen.", required=True),
        _c("mode", "string", "", required=True),
        _c("assignor", "string", "The last that is known: a group without members has none."),
        _c("generation_id", "int", ""),
        _c("group_epoch", "int", ""),
        _c("member_count", "int", ""),
        _c("resource_count", "int", ""),
        _c("first_seen_at_ms", "bigint", "First rebalance in evidence."),
        _c("last_rebalance_at_ms", "bigint", "Its assigned, else its last known time."),
        _c("last_rebalance_id", "string", ""),
        _c("rebalance_count", "int", "In evidence, static rewrites not counted.", required=True),
        _c("rebalance_count_1h", "int", "In the hour before the evidence's end.", required=True),
        _c("rebalance_count_24h", "int", "", required=True),
        _c("pause_p50_ms", "double", "Over rebalances with an estimate."),
        _c("pause_p95_ms", "double", ""),
        _c("resource_seconds_estimate", "double", "Sum over evidence."),
        _c("resource_seconds_likely_lower", "double", "Nine of ten truths lie between this and …"),
        _c("resource_seconds_likely_upper", "double", "… this."),
        _c(
            "standstill_seconds_estimate",
            "double",
            "Beside that, of members that hung without a rebalance; null: none is known.",
        ),
        _c("top_trigger", "string", "The commonest."),
        _c("open_finding_count", "int", "", required=True),
        _c("worst_severity", "string", "Of its open findings."),
    ),
)

GOLD_COVERAGE = Table(
    "gold.coverage",
    "From where to where one source was seen without a break; what was not seen, and why.",
    ("cluster_id", "source", "from_position", "problem_code"),
    (
        _CLUSTER,
        _c("source", "string", "", required=True),
        _c("kind", "string", "", required=True, values=("record", "log")),
        _c("from_position", "bigint", "", required=True),
        _c("to_position", "bigint", "One past the last."),
        _c("from_at_ms", "bigint", ""),
        _c("to_at_ms", "bigint", ""),
        _c("item_count", "bigint", ""),
        _c("is_gap", "boolean", "This row says what was NOT seen.", required=True),
        _c(
            "problem_code",
            "string",
            "none, compacted, unreadable, rotated, skipped, not_given, time_zone.",
            required=True,
        ),
        _c("problem", "string", "One sentence."),
        _c("utc_offset_ms", "bigint", "Logs: what was subtracted from local time."),
        _c(
            "utc_offset_source",
            "string",
            "configured, inferred, assumed.",
            values=("configured", "inferred", "assumed"),
        ),
    ),
)

GOLD_CHECK = Table(
    "gold.check",
    "One data-quality verdict of one run.",
    ("batch_id", "table_name", "check_name"),
    (
        _c("batch_id", "string", "", required=True),
        _c("table_name", "string", "", required=True),
        _c("check_name", "string", "", required=True),
        _c("is_fatal", "boolean", "", required=True),
        _c("success", "boolean", "", required=True),
        _c("checked_count", "bigint", ""),
        _c("unexpected_count", "bigint", ""),
        _c("examples", "array<string>", "Keys of the first rows that failed."),
    ),
)

_CHILD_KEYS = {c.name for c in _REBALANCE_KEYS}
_MARKS = (
    "array<struct<bound:string,at_ms:bigint,tier:string,rank:int,detail:string,ref:string,"
    "basis:string,window_from_ms:bigint,window_to_ms:bigint>>"
)


def _struct(columns: tuple[Column, ...]) -> str:
    return "struct<" + ",".join(f"{c.name}:{c.type}" for c in columns if c.name not in _CHILD_KEYS) + ">"


_MOVEMENT_FACTS = (
    *GOLD_MOVEMENT.columns,
    _c("first_commit_at_ms", "bigint", "First commit of the resource after it resumed."),
    _c("stop_marks", _MARKS, "Evidence of when the old owner let go."),
    _c("resume_marks", _MARKS, "Evidence of when the new owner's assigned callback returned."),
)

SILVER_REBALANCE = Table(
    "silver.rebalance",
    "One rebalance as reconstructed: its members, its movements and the evidence for their times; no numbers yet.",
    ("cluster_id", "rebalance_id"),
    (
        *GOLD_REBALANCE.columns,
        _c("place", "int", "Its place in the group's history as reconstructed, from 0.", required=True),
        _c(
            "members",
            f"array<{_struct(GOLD_REBALANCE_MEMBER.columns)}>",
            "Rows of gold.rebalance_member.",
            required=True,
        ),
        _c("movements", f"array<{_struct(_MOVEMENT_FACTS)}>", "Rows of gold.movement, unmeasured.", required=True),
        _c("standstills", f"array<{_struct(GOLD_STANDSTILL.columns)}>", "Rows of gold.standstill, until the next one."),
    ),
    tuple(law for law in GOLD_REBALANCE.laws if "pause" not in law.name),
)

SILVER_MEASURED = Table(
    "silver.measured_rebalance",
    "The same rebalance in numbers: what publish takes apart into three tables of gold.",
    ("cluster_id", "rebalance_id"),
    SILVER_REBALANCE.columns,
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
        _CLUSTER,
        _c("group_id", "string", "", required=True),
        _c("ref", "string", "The line or record that was not believed.", required=True),
        _c("at_ms", "bigint", "When it says it was; null where no clock shows it."),
        _c("detail", "string", "Why, in one sentence.", required=True),
        _c("evidence", "array<string>", "", required=True),
    ),
)

SILVER_CHECKPOINT = Table(
    "silver.checkpoint",
    "A point up to which a group's history is settled, and the state of the fold there: new evidence goes on from it.",
    ("cluster_id", "group_id", "read_until_ms"),
    (
        _CLUSTER,
        _c("group_id", "string", "", required=True),
        _c("fold_version", "int", "Of the fold that wrote it; another fold does not use it.", required=True),
        _c("read_from_ms", "bigint", "Evidence from here on is read again.", required=True),
        _c(
            "read_until_ms",
            "bigint",
            "Evidence before is in it; news that is not later reopens.",
            required=True,
        ),
        _c("settled_at_ms", "bigint", "Rebalances that happened before are settled.", required=True),
        _c("row_count", "bigint", "How many rebalances are settled.", required=True),
        _c("latest", "array<string>", "The latest record of each key before `read_from_ms`.", required=True),
        _c("state", "string", "What else the fold needs, as JSON.", required=True),
        _c("is_floor", "boolean", "Evidence before `read_from_ms` was deleted by retention.", required=True),
    ),
    (Law("settles what was read", "read_from_ms <= settled_at_ms AND settled_at_ms <= read_until_ms"),),
)

SILVER_REOPENING = Table(
    "silver.reopening",
    "A group whose settled history was worked out again, since evidence came that is older.",
    ("cluster_id", "group_id", "batch_id"),
    (
        _CLUSTER,
        _c("group_id", "string", "", required=True),
        _c("batch_id", "string", "The batch that brought the evidence.", required=True),
        _c("settled_at_ms", "bigint", "Up to here the group was settled.", required=True),
        _c("evidence_at_ms", "bigint", "The oldest new evidence; null where clocks, names or homes changed."),
        _c("from_ms", "bigint", "It was folded again from here on; null: from its beginning."),
        _c("is_too_old", "boolean", "Retention has deleted what the news belongs to: rows stay.", required=True),
    ),
)

SILVER_FINDING = Table("silver.finding", GOLD_FINDING.doc, GOLD_FINDING.key, GOLD_FINDING.columns, GOLD_FINDING.laws)

TABLES: tuple[Table, ...] = (
    BRONZE_RECORD, BRONZE_LOG_LINE, BRONZE_SOURCE, SILVER_FLOOR,
    SILVER_GROUP_EVENT, SILVER_COMMIT_MARK, SILVER_UNDECODED, SILVER_DECODE_COUNT,
    SILVER_REBALANCE, SILVER_MEASURED, SILVER_CONNECT_TASK, SILVER_CONTRADICTION, SILVER_CHECKPOINT,
    SILVER_REOPENING, SILVER_FINDING,
    GOLD_REBALANCE, GOLD_REBALANCE_MEMBER, GOLD_MOVEMENT, GOLD_STANDSTILL, GOLD_CONNECT_TASK, GOLD_FINDING, GOLD_GROUP,
    GOLD_COVERAGE, GOLD_CHECK,
)  # fmt: skip
BY_NAME = {t.name: t for t in TABLES}

# Reassignments

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
_PARTITION_KEYS = (_c("topic", "string", "", required=True), _c("partition", "int", "", required=True))
_REASSIGNMENT_ID = _c(
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
        _CLUSTER,
        _REASSIGNMENT_ID,
        *_PARTITION_KEYS,
        _c("topic_id", "string", "Null where there are only logs."),
        _c("original_replicas", "array<int>", "Before the first of a chain of requests; null if not in evidence."),
        _c("target_replicas", "array<int>", "In the asked order; null if not in evidence."),
        _c("adding_replicas", "array<int>", "As Kafka has them.", required=True),
        _c("removing_replicas", "array<int>", "As Kafka has them; may share brokers with adding.", required=True),
        _c("started_at_ms", "bigint", "The request was accepted; null if older than the evidence."),
        _c("ended_at_ms", "bigint", "Null while open, and where it ended in a gap."),
        _c("outcome", "string", "", required=True, values=REASSIGNMENT_OUTCOMES),
        _c("phase", "string", "How far it came.", values=REASSIGNMENT_PHASES),
        _c("stalled_since_ms", "bigint", "Open ones that are stalled: their last progress."),
        _c("blocked_by", "string", "What holds it up, or did in its longest standstill.", values=REASSIGNMENT_BLOCKERS),
        _c("blocked_replicas", "array<int>", "Brokers concerned.", required=True),
        _c("longest_standstill_ms", "bigint", "Longest time without progress."),
        _c("standstill_from_ms", "bigint", "When that began."),
        _c("leader_changes", "int", "While it ran.", required=True),
        _c("controller_changes", "int", "While it ran.", required=True),
        _c("min_insync_replicas", "int", "Of the topic at its start; null where there are only logs."),
        _c("under_min_isr_ms", "bigint", "How long fewer than that were in sync.", required=True),
        _c("under_replicated_ms", "bigint", "How long fewer were in sync than the smaller list has.", required=True),
        _c("without_leader_ms", "bigint", "", required=True),
        _c("superseded_by", "string", "The reassignment that replaced it."),
        _c("detail", "string", "Why it was refused, or what is not known."),
        _c("source", "string", "", required=True, values=("metadata", "logs")),
        _c("is_complete_evidence", "boolean", "Nothing is known to be missing.", required=True),
        _c("is_final", "boolean", "It has ended.", required=True),
        _c(
            "progress",
            "array<struct<broker_id:int,started_at_ms:bigint,in_isr_at_ms:bigint>>",
            "Per new replica: when it began to fetch (a log says so), and joined the ISR.",
            required=True,
        ),
        _EVIDENCE,
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
        _CLUSTER,
        _REASSIGNMENT_ID,
        *_PARTITION_KEYS,
        _c("step", "int", "", required=True),
        _c("at_ms", "bigint", "Since when; null for a step 0 that is older than the evidence."),
        _c("phase", "string", "", required=True, values=REASSIGNMENT_STEP_PHASES),
        _c("replicas", "array<int>", "All, in Kafka's order: the first is preferred.", required=True),
        _c("leader", "int", "Null: nobody leads it, or is_leader_known says that no line shows it."),
        _c("isr", "array<int>", "Sorted: it is a set. Empty where is_isr_known says no line shows it.", required=True),
        _c("is_leader_known", "boolean", "False: logs alone were at hand, and do not show it.", required=True),
        _c("is_isr_known", "boolean", "The same of the in-sync replicas.", required=True),
        _c("leader_epoch", "int", ""),
        _c("partition_epoch", "int", "KRaft."),
        _EVIDENCE,
    ),
)

GOLD_LEADER_ELECTION = Table(
    "gold.leader_election",
    "One time a partition was given another leader, or should have been.",
    ("cluster_id", "topic", "partition", "at_ms", "elected"),
    (
        _CLUSTER,
        *_PARTITION_KEYS,
        _c("at_ms", "bigint", "", required=True),
        _c(
            "cause",
            "string",
            "`preferred`: by a tool or automatically, not known which.",
            required=True,
            values=ELECTION_CAUSES,
        ),
        _c("previous_leader", "int", "Null: nobody led it, or not known."),
        _c("preferred_replica", "int", "The first replica."),
        _c("elected", "int", "Null: nobody leads it now."),
        _c("outcome", "string", "", required=True, values=ELECTION_OUTCOMES),
        _c("prevented_by", "string", "Why the preferred replica does not lead after it."),
        _c("leader_epoch", "int", ""),
        _EVIDENCE,
    ),
    (Law("names its evidence", "size(evidence) >= 1"),),
)


def _in_silver(gold: Table, noun: str | None = None) -> Table:
    """The same before it is published."""
    return Table(f"silver.{noun or gold.name.partition('.')[2]}", gold.doc, gold.key, gold.columns, gold.laws)


SILVER_REASSIGNMENT = _in_silver(GOLD_REASSIGNMENT)
SILVER_REASSIGNMENT_STEP = _in_silver(GOLD_REASSIGNMENT_STEP)
SILVER_LEADER_ELECTION = _in_silver(GOLD_LEADER_ELECTION)
SILVER_REASSIGNMENT_FINDING = _in_silver(GOLD_FINDING, "reassignment_finding")
GOLD_LEADER_MOVE = Table(
    "gold.leader_move",
    "A change of a partition's leader beside a group: its coordinator moved, or it rebalanced with what it reads.",
    ("cluster_id", "group_id", "topic", "partition", "at_ms", "elected"),
    (
        _CLUSTER,
        _c("group_id", "string", "", required=True),
        _c(
            "relation",
            "string",
            "`coordinator_moved`: the partition of __consumer_offsets that the group is in.",
            required=True,
            values=("coordinator_moved", "partition_led_by_another"),
        ),
        *_PARTITION_KEYS,
        _c("at_ms", "bigint", "Of the election.", required=True),
        _c("previous_leader", "int", ""),
        _c("elected", "int", "Null: nobody leads it."),
        _c("cause", "string", "Of the election.", required=True, values=ELECTION_CAUSES),
        _c("reassignment_id", "string", "The move of the partition it was part of."),
        _c("rebalance_id", "string", "The group's first rebalance within a minute; null: none followed."),
        _c("after_ms", "bigint", "How long after it that began; a little negative where clocks differ."),
        _c("is_cause", "boolean", "The rebalance's own trigger says that the coordinator moved.", required=True),
        _EVIDENCE,
    ),
)
# Incidents and marks

INCIDENT_KINDS = (
    "storm", "reassignment", "coordinator", "connect_worker", "member_fault", "task_failed", "stuck", "assignment",
    "removal", "deploy", "configuration", "subscription", "protocol", "client", "scaling", "evidence", "unknown",
)  # fmt: skip
INCIDENT_STATES = ("open", "over")
COST_UNITS = ("partition", "task", "resource")

GOLD_INCIDENT = Table(
    "gold.incident",
    "One trouble, from its cause to its last consequence, with every rebalance and finding that belongs to it.",
    ("cluster_id", "incident_id"),
    (
        _CLUSTER,
        _c("incident_id", "string", "From cluster, subject and first rebalance or attempt.", required=True),
        _c("kind", "string", "", required=True, values=INCIDENT_KINDS),
        _c("root_cause", "string", "A trigger, what blocks a reassignment, or a rule's id.", required=True),
        _c("root_cause_tier", "string", "", required=True, values=TIERS),
        _c("culprits", "array<string>", "Client id, instance id, worker URL, `broker 4`.", required=True),
        _c("group_ids", "array<string>", "", required=True),
        _c("connectors", "array<string>", "Connect: those that began it, or that it is about. Null in older rows."),
        _c("rebalance_ids", "array<string>", "By time. Each rebalance with a cost is in one incident.", required=True),
        _c("reassignment_ids", "array<string>", "", required=True),
        _c("finding_ids", "array<string>", "Its symptoms, the gravest first.", required=True),
        _c("first_at_ms", "bigint", "Of the cause, as far as evidence shows.", required=True),
        _c("last_at_ms", "bigint", "Of the last thing that belongs to it.", required=True),
        _c("status", "string", "Over: settled, and quiet for long enough.", required=True, values=INCIDENT_STATES),
        _c("expected", "boolean", "Normal work on purpose; it costs something all the same.", required=True),
        _c("severity", "string", "Of its gravest symptom.", required=True, values=SEVERITIES),
        _c("unit", "string", "What its cost counts; `resource` if both. Null in older rows.", values=COST_UNITS),
        _c("cost_seconds", "double", "Resource-seconds of its rebalances; null: of none known."),
        _c("cost_lower_seconds", "double", ""),
        _c("cost_upper_seconds", "double", "Null if any is unbounded."),
        _c("cost_likely_lower_seconds", "double", "Nine of ten truths lie between this and …"),
        _c("cost_likely_upper_seconds", "double", "… this."),
        _c("title", "string", "One sentence, without a full stop.", required=True),
        _c("story", "string", "What happened, what it did, how it stands.", required=True),
        _c("advice", "string", "What to do."),
        _c(
            "chain",
            "array<struct<at_ms:bigint,what:string,evidence:array<string>>>",
            "From the cause to the last consequence, by time.",
            required=True,
        ),
        _EVIDENCE,
    ),
    (
        Law("names its evidence", "size(evidence) >= 1"),
        Law("ends after it begins", "first_at_ms <= last_at_ms"),
        Law("cost bounds in order", "cost_lower_seconds <= cost_seconds and cost_seconds <= cost_upper_seconds"),
        Law(
            "likely cost inside its bounds",
            "cost_lower_seconds <= cost_likely_lower_seconds and cost_likely_lower_seconds <= cost_seconds "
            "and cost_seconds <= cost_likely_upper_seconds and cost_likely_upper_seconds <= cost_upper_seconds",
        ),
    ),
)

GOLD_MARK = Table(
    "gold.mark",
    "A deploy or a change of configuration, to be drawn on time lines.",
    ("cluster_id", "mark_id"),
    (
        _CLUSTER,
        _c("mark_id", "string", "From cluster, time, source, scope and text.", required=True),
        _c("at_ms", "bigint", "", required=True),
        _c("source", "string", "Found in evidence, or made by `mark`.", required=True, values=("evidence", "told")),
        _c("text", "string", "", required=True),
        _c("scope", "string", "A group, or a pattern of groups; `*` is all.", required=True),
        _c("evidence", "array<string>", "Empty for a mark that `mark` made.", required=True),
    ),
)

GOLD_ERASURE = Table(
    "gold.erasure",
    "What `erase` took out of the warehouse, without saying what it was. Rows are only added; they need no run to be "
    "seen.",
    ("erasure_id",),
    (
        _c("erasure_id", "string", "", required=True),
        _CLUSTER,
        _c("at_ms", "bigint", "When.", required=True),
        _c("by", "string", "Who.", required=True),
        _c("reason", "string", "Why, as it was given."),
        _c("subject_sha256", "string", "SHA-256 of the group's id: who knows the id can find its row.", required=True),
        _c("row_count", "bigint", "Rows that are gone, of all tables.", required=True),
        _c("tables", "array<struct<table:string,row_count:bigint>>", "Of which tables.", required=True),
    ),
)

GOLD_QUARANTINE = Table(
    "gold.quarantine",
    "A landing file that bronze does not take in, since it breaks a law of its table or cannot be read. It stays where "
    "it is; `check --release` lets the next run try again. Written between publications.",
    ("batch", "table_name"),
    (
        _c("batch", "string", "The landing's id: the name of its files.", required=True),
        _c("table_name", "string", "The table of bronze that it would have gone to.", required=True),
        _c("status", "string", "", required=True, values=("held", "released")),
        _c("held_at_ms", "bigint", "When a run put it aside, last.", required=True),
        _c("released_at_ms", "bigint", "When `check --release` let it go; null while it is held."),
        _c("row_count", "bigint", "Its rows; null where it cannot be read."),
        _c("problem", "string", "Which laws it breaks, and for how many rows.", required=True),
        _c("examples", "array<string>", "Keys of the first rows that break one."),
    ),
)

RESPONSE_KINDS = ("acknowledged", "silenced")

GOLD_RESPONSE = Table(
    "gold.response",
    "An answer to incidents: one acknowledged, or alerts silenced. Rows are only added, by `ack`, `silence` and the "
    "app; they need no run to be seen.",
    ("response_id",),
    (
        _c("response_id", "string", "From all other columns.", required=True),
        _c("kind", "string", "", required=True, values=RESPONSE_KINDS),
        _c("cluster_id", "string", "Of the incident; of a silence, null for all clusters."),
        _c("incident_id", "string", "What was acknowledged; the first acknowledgement by `at_ms` stands."),
        _c("pattern", "string", "What was silenced: a shell pattern of groups, culprits or an incident's id."),
        _c("by", "string", "Who.", required=True),
        _c("at_ms", "bigint", "When.", required=True),
        _c("until_ms", "bigint", "When a silence ends (exclusive)."),
        _c("reason", "string", "Why."),
    ),
    (Law("a silence has an end", "kind <> 'silenced' or (until_ms is not null and until_ms >= at_ms)"),),
)

GOLD_WHATIF = Table(
    "gold.whatif",
    "What one change of settings would have saved one group, by replay of its latest rebalances (docs/whatif.md).",
    ("cluster_id", "group_id", "place"),
    (
        _CLUSTER,
        _GROUP,
        _c("place", "int", "1 is the largest saving of the group.", required=True),
        _c("settings", "array<string>", "`name=value`; empty where nothing is predicted.", required=True),
        _c("saved_seconds", "double", "Partition- or task-seconds, median of the runs; below 0 it costs more."),
        _c("saved_lower_seconds", "double", ""),
        _c("saved_upper_seconds", "double", ""),
        _c("cost_seconds", "double", "What the replay under these settings costs, median of the runs."),
        _c("cost_lower_seconds", "double", ""),
        _c("cost_upper_seconds", "double", ""),
        _c("measured_seconds", "double", "Standing still in the replayed rebalances, as measured."),
        _c("rebalances", "int", "Of the replay under these settings."),
        _c("rebalances_replayed", "int", "The group's latest, at most 200.", required=True),
        _c("from_ms", "bigint", "Start of the first rebalance replayed."),
        _c("until_ms", "bigint", "End of the evidence."),
        _c("fit_rebalances", "double", "Share of the rebalances that come out again under the settings in force."),
        _c("fit_causes", "double", "Share of their causes."),
        _c("why", "string", "The answer in words, or why there is none.", required=True),
    ),
    (
        Law("saved bounds in order", "saved_lower_seconds <= saved_seconds and saved_seconds <= saved_upper_seconds"),
        Law("cost bounds in order", "cost_lower_seconds <= cost_seconds and cost_seconds <= cost_upper_seconds"),
    ),
)

SILVER_PARTITION = Table(
    "silver.partition",
    "A partition as the metadata log has it at the end of the evidence.",
    ("cluster_id", "topic", "partition"),
    (
        _CLUSTER,
        *_PARTITION_KEYS,
        _c("replicas", "array<int>", "In Kafka's order: the first is preferred.", required=True),
        _c("isr", "array<int>", "", required=True),
        _c("leader", "int", "Null: nobody leads it."),
        _c("leader_epoch", "int", ""),
        _c("ref", "string", "The record that says so.", required=True),
    ),
)

TABLES = (
    *TABLES,
    SILVER_REASSIGNMENT,
    SILVER_REASSIGNMENT_STEP,
    SILVER_LEADER_ELECTION,
    SILVER_REASSIGNMENT_FINDING,
    SILVER_PARTITION,
    GOLD_REASSIGNMENT,
    GOLD_REASSIGNMENT_STEP,
    GOLD_LEADER_ELECTION,
    GOLD_LEADER_MOVE,
    GOLD_INCIDENT,
    GOLD_MARK,
    GOLD_RESPONSE,
    GOLD_WHATIF,
    GOLD_ERASURE,
    GOLD_QUARANTINE,
)
BY_NAME = {t.name: t for t in TABLES}
MAINTAINED = ("silver.floor", "gold.whatif")
"""Tables that no stage writes."""
UNPUBLISHED = ("gold.check", "gold.response", "gold.erasure", "gold.quarantine")
"""Tables of gold that readers see as they are: they are written between publications."""
