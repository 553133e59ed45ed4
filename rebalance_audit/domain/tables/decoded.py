"""What decode makes of bronze."""

from __future__ import annotations

from rebalance_audit.domain.tables.columns import CLUSTER, GROUP, Law, Table, col

SILVER_GROUP_EVENT = Table(
    "silver.group_event",
    "One record or log line about one group, with its bytes.",
    ("cluster_id", "ref"),
    (
        CLUSTER,
        col("group_id", "string", "Null where the line names no group (coordinator elected, …)."),
        col("ref", "string", "Its evidence ref.", required=True),
        col("source_kind", "string", "", required=True, values=("record", "log", "status", "config")),
        col("kind", "string", "Record type by name, or the log kind.", required=True),
        col("topic", "string", "Records."),
        col("partition", "int", "Records."),
        col("offset", "bigint", "Records."),
        col("node", "string", "Log lines."),
        col("file_name", "string", "Log lines."),
        col("file_id", "string", "Log lines."),
        col("byte", "bigint", "Log lines."),
        col("at_ms", "bigint", "Records: record timestamp. Log lines: their local time read as UTC.", required=True),
        col("key", "binary", "Records: the key's bytes."),
        col("value", "binary", "Records: the value's bytes; null is a tombstone."),
        col("text", "string", "Log lines."),
        col("detail", "string", "What was decoded, as JSON, for readers; the next stage decodes the bytes again."),
    ),
)

SILVER_COMMIT_MARK = Table(
    "silver.commit_mark",
    "Offset commits of a group's partition between two records of the group: the first, the last, the longest gap.",
    ("cluster_id", "group_id", "topic", "partition", "first_offset"),
    (
        CLUSTER,
        GROUP,
        col("topic", "string", "The committed topic.", required=True),
        col("partition", "int", "The committed partition.", required=True),
        col("offsets_topic", "string", "Where the commits are.", required=True),
        col("offsets_partition", "int", "Where the commits are.", required=True),
        col("first_offset", "bigint", "Offset in __consumer_offsets of the first commit.", required=True),
        col("first_at_ms", "bigint", "Its record timestamp.", required=True),
        col("last_offset", "bigint", "Offset in __consumer_offsets of the last commit.", required=True),
        col("last_at_ms", "bigint", "Its record timestamp.", required=True),
        col("commit_count", "bigint", "", required=True),
        col("topic_id", "string", "The topic's id as the commits have it (Kafka 4.1 and later)."),
        col("first_position", "bigint", "The offset that the first commit committed."),
        col("last_position", "bigint", "The offset that the last commit committed."),
        col("next_at_ms", "bigint", "Record timestamp of the second commit."),
        col("next_position", "bigint", "The offset that it committed."),
        col(
            "gap_from_offset", "bigint", "The commit before the longest time without one; null: too few, or not known."
        ),
        col("gap_from_at_ms", "bigint", "Its record timestamp."),
        col("gap_from_position", "bigint", "The offset that it committed."),
        col("gap_to_offset", "bigint", "The commit after the longest time without one."),
        col("gap_to_at_ms", "bigint", "Its record timestamp."),
        col("gap_to_position", "bigint", "The offset that it committed."),
        col("after_at_ms", "bigint", "Record timestamp of the commit after that one: by then it had caught up."),
        col("after_position", "bigint", "The offset that it committed."),
        col("second_gap_ms", "bigint", "The longest of the other times between two commits."),
        col("in_transaction", "boolean", "Whether the last commit came in a transaction; null: not known."),
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
        CLUSTER,
        col("ref", "string", "Where it stands.", required=True),
        col("reason", "string", "A DecodeReason.", required=True),
        col("byte_position", "int", "In key then value, counted through; null for whole lines."),
        col("part", "string", "key, value, subscription, assignment or line.", required=True),
        col("field", "string", "The field being read."),
        col("detail", "string", "One sentence."),
        col("raw", "binary", "The bytes that were refused."),
        col("at_ms", "bigint", "Record timestamp, or null."),
    ),
)

SILVER_DECODE_COUNT = Table(
    "silver.decode_count",
    "What decode counted in each batch: rows in = events + commits + undecoded + skipped.",
    ("cluster_id", "batch_id", "source_kind", "kind"),
    (
        CLUSTER,
        col("batch_id", "string", "The run's batch.", required=True),
        col("source_kind", "string", "", required=True, values=("record", "log")),
        col("kind", "string", "Record type by name, or log file kind.", required=True),
        col("in_count", "bigint", "", required=True),
        col("event_count", "bigint", "", required=True),
        col("commit_count", "bigint", "Commits (folded into marks).", required=True),
        col("undecoded_count", "bigint", "", required=True),
        col("skipped_count", "bigint", "Known, and of no interest to any later stage.", required=True),
    ),
    (Law("rows in = rows out", "in_count = event_count + commit_count + undecoded_count + skipped_count"),),
)
