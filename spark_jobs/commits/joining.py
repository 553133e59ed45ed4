"""Joins partial marks of the news with the known marks: questions to DuckDB tell which belong together.

Each question is about the groups whose rows were registered: a few of them or all, on the driver or in a task.
"""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least
from spark_jobs.commits.merging import merged
from spark_jobs.commits.partial_marks import PARTIAL_MARK

GROUP_PLACE = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("offsets_topic", pa.string()),
        ("offsets_partition", pa.int32()),
    ]
)
KEY = pa.schema([arrow_schema("silver.commit_mark").field(name) for name in tables.SILVER_COMMIT_MARK.key])
_PLACE = "cluster_id, group_id, topic, partition, offsets_topic, offsets_partition, stretch_from"
_PARTIAL = ", ".join(PARTIAL_MARK.names)


class Joined(NamedTuple):
    rows: pa.Table
    """Rows of silver.commit_mark."""
    replaced: pa.Table
    """The keys of the known marks that these stand for."""


def place_known(db: duckdb.DuckDBPyConnection) -> None:
    """Make the table `placed`, the marks in `known` with the stretch each is in: the offset of the group's last record
    before its first commit. `cut`: where group records are."""
    # Not by an ASOF join: with five keys and all columns of a mark that takes twenty times as long.
    group = ", ".join(GROUP_PLACE.names)
    db.execute(
        f"""
        CREATE OR REPLACE TEMP TABLE placed AS SELECT * EXCLUDE (cut_at) FROM (
            SELECT *, coalesce(max(cut_at) OVER (
                PARTITION BY {group} ORDER BY first_offset, cut_at NULLS FIRST
                ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ), -1) stretch_from
            FROM (
                SELECT *, NULL::BIGINT cut_at FROM known
                UNION ALL BY NAME
                SELECT cluster_id, group_id, topic offsets_topic, partition offsets_partition, "offset" first_offset,
                    "offset" cut_at FROM cut
            )
        ) WHERE cut_at IS NULL
        """
    )


def find_again(db: duckdb.DuckDBPyConnection) -> pa.Table:
    """Make the table `again`, and return it: the groups whose commits are folded again. They are `uncertain`, or a new
    group record cuts a mark in two."""
    db.execute(
        "CREATE OR REPLACE TEMP TABLE again AS SELECT * FROM uncertain UNION SELECT DISTINCT m.cluster_id, m.group_id, "
        "m.offsets_topic, m.offsets_partition FROM placed m "
        f"ASOF LEFT JOIN cut c ON {_SAME} AND m.last_offset > c.offset WHERE {_STRETCH} <> m.stretch_from"
    )
    # New commits that lie between known ones fill a hole, and another gap may be the longest then.
    db.execute(
        f"INSERT INTO again SELECT * FROM ({_interleaved('SELECT * FROM partial', 'SELECT * FROM placed')}) "
        "EXCEPT SELECT * FROM again"
    )
    return db.execute("SELECT * FROM again").to_arrow_table()


_STRETCH = "coalesce(c.offset, -1)"
_SAME = (
    "m.cluster_id = c.cluster_id AND m.group_id = c.group_id AND m.offsets_topic = c.topic"
    " AND m.offsets_partition = c.partition"
)


def begin_before(db: duckdb.DuckDBPyConnection, least: Least) -> bool:
    """Whether any of the marks in `placed` that are within this bound on their ends begins before it."""
    begins = db.execute("SELECT group_id, min(first_offset) FROM placed GROUP BY group_id").fetchall()
    return any(first_offset < least.by_value[group_id] for group_id, first_offset in begins)


def torn_in(marks: pa.Table) -> pa.Table:
    """The groups whose marks overlap."""
    if marks.num_rows == 0:
        return GROUP_PLACE.empty_table()
    with cursor() as db:
        db.register("marks", marks)
        return db.execute(_interleaved("SELECT * FROM marks")).to_arrow_table()


def _interleaved(*parts: str) -> str:
    """The query for groups with partial marks that are not one behind the other."""
    every = " UNION ALL ".join(f"SELECT {_PLACE}, first_offset, last_offset FROM ({part})" for part in parts)
    return (
        f"SELECT DISTINCT {', '.join(GROUP_PLACE.names)} FROM (SELECT *, max(last_offset) OVER (PARTITION BY {_PLACE} "
        f"ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) reached FROM ({every})) "
        "WHERE reached >= first_offset"
    )


def join(db: duckdb.DuckDBPyConnection) -> Joined:
    """Join `partial`, the marks of the news, with `placed`, the known ones. Of the groups in `again` the marks in
    `rebuilt` are taken instead, with the known ones below a `floor`."""
    untouched = "NOT EXISTS (SELECT 1 FROM again a WHERE a.cluster_id = p.cluster_id AND a.group_id = p.group_id)"
    db.execute(
        f"CREATE TEMP TABLE old AS SELECT p.* FROM placed p WHERE NOT ({untouched}) "
        "OR EXISTS (SELECT 1 FROM partial n WHERE "
        + " AND ".join(f"n.{column} = p.{column}" for column in _PLACE.split(", "))
        + ")"
    )
    db.execute(
        f"""
        CREATE TEMP TABLE every AS
            SELECT {_PARTIAL} FROM rebuilt
            UNION ALL SELECT {_PARTIAL} FROM partial p WHERE {untouched}
            UNION ALL SELECT {_PARTIAL} FROM old p WHERE {untouched}
            -- What retention has deleted cannot be folded again: marks stay, their counts are upper bounds, and
            -- the longest gap of two that overlap is not known. Nor is that of marks of earlier releases.
            UNION ALL SELECT {_PARTIAL} FROM old p JOIN floor f USING (cluster_id, offsets_topic,
                offsets_partition) WHERE NOT ({untouched}) AND p.first_offset < f.floor
        """
    )
    rows = merged(db.execute("SELECT * FROM every").to_arrow_table()).select(arrow_schema("silver.commit_mark").names)
    replaced = db.execute(f"SELECT DISTINCT {', '.join(KEY.names)} FROM old").to_arrow_table()
    return Joined(rows.cast(arrow_schema("silver.commit_mark")), replaced.cast(KEY))
