"""Evidence as it came: records, log lines, and what was read of each source."""

from __future__ import annotations

from rebalance_audit.domain.tables.columns import CLUSTER, Law, Table, col

BRONZE_RECORD = Table(
    "bronze.record",
    "A record of a topic, exactly as it was (secrets of Connect configurations removed).",
    ("cluster_id", "topic", "partition", "offset", "copy"),
    (
        CLUSTER,
        col("topic", "string", "", required=True),
        col("partition", "int", "", required=True),
        col("offset", "bigint", "", required=True),
        col("copy", "int", "0; 1, 2 … for another record seen at the same offset (TR005).", required=True),
        col("timestamp_ms", "bigint", "Record timestamp, epoch ms.", required=True),
        col("key", "binary", ""),
        col("value", "binary", "Null is a tombstone."),
        col("headers", "array<struct<key:string,value:binary>>", ""),
        col(
            "source", "string", "`live` (a consumer) or `segment` (a file).", required=True, values=("live", "segment")
        ),
        col("node", "string", "The node whose file it was read from; null for live records."),
        col("leader_epoch", "int", "Of the batch; segments, and live where the broker says it."),
        col("producer_id", "bigint", "Segments only."),
        col("producer_epoch", "int", "Segments only."),
        col("is_transactional", "boolean", "Segments only."),
        col("is_control", "boolean", "A marker, not data. Segments only."),
        col("batch_crc", "bigint", "CRC-32C as the batch states it. Segments only."),
        col("batch_base_offset", "bigint", "Segments only."),
        col("landing", "string", "The file of bronze that brought it; its first arrival.", required=True),
    ),
    (Law("offset is not negative", "offset >= 0"),),
)

BRONZE_LOG_LINE = Table(
    "bronze.log_line",
    "A log event exactly as it was, continuation lines included.",
    ("cluster_id", "node", "file_id", "byte"),
    (
        CLUSTER,
        col("node", "string", "Folder or host the file came from.", required=True),
        col("file_name", "string", "The label the file had when read; rotation changes it.", required=True),
        col("file_id", "string", "Hash of the first KiB of the uncompressed text.", required=True),
        col("byte", "bigint", "Start of the event in uncompressed text.", required=True),
        col("text", "string", "Undecodable bytes become U+FFFD.", required=True),
        col("landing", "string", "The file of bronze that brought it.", required=True),
    ),
    (Law("byte is not negative", "byte >= 0"),),
)

BRONZE_SOURCE = Table(
    "bronze.source",
    "One reading of one source: what was read from where to where, and what could not be.",
    ("cluster_id", "source", "read_id"),
    (
        CLUSTER,
        col("source", "string", "`record:<topic>-<p>` or `log:<node>/<file>#<id>`.", required=True),
        col("read_id", "string", "The import or collector run that read it.", required=True),
        col("kind", "string", "", required=True, values=("record", "log")),
        col("from_position", "bigint", "First offset or byte read."),
        col("to_position", "bigint", "One past the last offset or byte read."),
        col("from_at_ms", "bigint", "First record time; null for logs, whose zone is settled later."),
        col("to_at_ms", "bigint", "Last record time."),
        col("item_count", "bigint", "Records or log events read and kept.", required=True),
        col(
            "let_go_count",
            "bigint",
            "Log lines read, not kept: they say nothing about groups, tasks, partitions or clocks. Null before "
            "versions that do so.",
        ),
        col("problem", "string", "Why something was not read, in one sentence; null if nothing was wrong."),
        col("problem_code", "string", "unreadable, skipped, rotated, lost, above_majority; null if nothing was wrong."),
        col("problem_position", "bigint", "Where: offset or byte."),
        col("log_time_zone", "string", "As configured (meta.json); null = to be inferred."),
        col("kafka_version", "string", "As configured (meta.json)."),
        col("landing", "string", "The file of bronze that brought it.", required=True),
    ),
)

SILVER_FLOOR = Table(
    "silver.floor",
    "How far retention has deleted a source: what lies before is not taken in again.",
    ("cluster_id", "source"),
    (
        CLUSTER,
        col("source", "string", "`record:<topic>-<p>` or `log:<node>#<file id>`.", required=True),
        col("position", "bigint", "The first offset or byte that was kept.", required=True),
    ),
)
