"""What was seen and what was not, and what was checked, put aside or erased."""

from __future__ import annotations

from rebalance_audit.domain.tables.columns import CLUSTER, Table, col

GOLD_COVERAGE = Table(
    "gold.coverage",
    "From where to where one source was seen without a break; what was not seen, and why.",
    ("cluster_id", "source", "from_position", "problem_code"),
    (
        CLUSTER,
        col("source", "string", "", required=True),
        col("kind", "string", "", required=True, values=("record", "log")),
        col("from_position", "bigint", "", required=True),
        col("to_position", "bigint", "One past the last."),
        col("from_at_ms", "bigint", ""),
        col("to_at_ms", "bigint", ""),
        col("item_count", "bigint", ""),
        col("is_gap", "boolean", "This row says what was NOT seen.", required=True),
        col(
            "problem_code",
            "string",
            "none, compacted, unreadable, rotated, skipped, not_given, time_zone.",
            required=True,
        ),
        col("problem", "string", "One sentence."),
        col("utc_offset_ms", "bigint", "Logs: what was subtracted from local time."),
        col(
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
        col("batch_id", "string", "", required=True),
        col("table_name", "string", "", required=True),
        col("check_name", "string", "", required=True),
        col("is_fatal", "boolean", "", required=True),
        col("success", "boolean", "", required=True),
        col("checked_count", "bigint", ""),
        col("unexpected_count", "bigint", ""),
        col("examples", "array<string>", "Keys of the first rows that failed."),
    ),
)

GOLD_QUARANTINE = Table(
    "gold.quarantine",
    "A landing file that bronze does not take in, since it breaks a law of its table or cannot be read. It stays where "
    "it is; `check --release` lets the next run try again. Written between publications.",
    ("batch", "table_name"),
    (
        col("batch", "string", "The landing's id: the name of its files.", required=True),
        col("table_name", "string", "The table of bronze that it would have gone to.", required=True),
        col("status", "string", "", required=True, values=("held", "released")),
        col("held_at_ms", "bigint", "When a run put it aside, last.", required=True),
        col("released_at_ms", "bigint", "When `check --release` let it go; null while it is held."),
        col("row_count", "bigint", "Its rows; null where it cannot be read."),
        col("problem", "string", "Which laws it breaks, and for how many rows.", required=True),
        col("examples", "array<string>", "Keys of the first rows that break one."),
    ),
)

GOLD_ERASURE = Table(
    "gold.erasure",
    "What `erase` took out of the warehouse, without saying what it was. Rows are only added; they need no run to be "
    "seen.",
    ("erasure_id",),
    (
        col("erasure_id", "string", "", required=True),
        CLUSTER,
        col("at_ms", "bigint", "When.", required=True),
        col("by", "string", "Who.", required=True),
        col("reason", "string", "Why, as it was given."),
        col(
            "subject_sha256",
            "string",
            "SHA-256 of the group's id, or of the cluster's if all of it went: who knows the id can find its row.",
            required=True,
        ),
        col("subject_type", "string", "What went; null in older rows: a group.", values=("group", "cluster")),
        col("row_count", "bigint", "Rows that are gone, of all tables.", required=True),
        col("tables", "array<struct<table:string,row_count:bigint>>", "Of which tables.", required=True),
    ),
)
