"""Joins partial marks of the news with the known marks, by questions to DuckDB.

Each question is about the groups whose rows were registered: a few of them or all, on the driver or in a task.
"""

from __future__ import annotations

from typing import NamedTuple

import duckdb
import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.queries import cursor
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
_AFTER = "after_at_ms, after_position"
_GAP_ENDS = ", ".join(
    [*(f"gap_{end}_{what}" for end in ("from", "to") for what in ("offset", "at_ms", "position")), _AFTER]
)
# What a part does not hold any more is the first commit of the part behind it.
_NEXT_AT = "coalesce(next_at_ms, later.a)"
_NEXT_POSITION = "CASE WHEN next_at_ms IS NULL THEN later.p ELSE next_position END"
_NEXT = f"{_NEXT_AT}, {_NEXT_POSITION}"
_SEEN_AFTER = ", ".join(
    f"CASE WHEN after_at_ms IS NULL AND gap_to_offset = last_offset THEN later.{of} ELSE after_{name} END after_{name}"
    for of, name in (("a", "at_ms"), ("p", "position"))
)


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
    columns = ", ".join(c.name for c in tables.SILVER_COMMIT_MARK.columns)
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
    db.execute(f"CREATE TEMP TABLE crowded AS SELECT {_PLACE} FROM every GROUP BY ALL HAVING count(*) > 1")
    db.execute(
        f"""
        CREATE TEMP TABLE part AS SELECT *, (
            coalesce(max(last_offset) OVER (
                PARTITION BY {_PLACE} ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) >= first_offset, false) OR (commit_count > 1 AND gap_from_offset IS NULL)
        ) is_unknown, lag(struct_pack(f := last_offset, a := last_at_ms, p := last_position))
            OVER (PARTITION BY {_PLACE} ORDER BY first_offset) previous,
            lead(struct_pack(a := first_at_ms, p := first_position))
            OVER (PARTITION BY {_PLACE} ORDER BY first_offset) later
        FROM every SEMI JOIN crowded USING ({_PLACE})
        """
    )
    db.execute(
        f"""
        CREATE TEMP TABLE gap AS SELECT *, greatest(gap_to_at_ms - gap_from_at_ms, 0) gap_ms FROM (
            SELECT {_PLACE}, {_GAP_ENDS.replace(_AFTER, _SEEN_AFTER)} FROM part WHERE gap_from_offset IS NOT NULL
            UNION ALL SELECT {_PLACE}, previous.f, previous.a, previous.p, first_offset, first_at_ms,
                first_position, {_NEXT} FROM part WHERE previous IS NOT NULL
        ) UNION ALL SELECT {_PLACE}, {", ".join("NULL" for _ in _GAP_ENDS.split(","))}, second_gap_ms FROM part
        WHERE second_gap_ms IS NOT NULL
        """
    )
    ends = ", ".join(f"CASE WHEN NOT is_unknown THEN longest.{name} END {name}" for name in _GAP_ENDS.split(", "))
    data = db.execute(
        f"""
        SELECT {columns} FROM (
            SELECT * EXCLUDE (longest, gaps, is_unknown), {ends},
                CASE WHEN NOT is_unknown THEN gaps[2] END second_gap_ms
            FROM (
                SELECT {_PLACE}, min(first_offset) first_offset, arg_min(first_at_ms, first_offset) first_at_ms,
                   max(last_offset) last_offset, arg_max(last_at_ms, last_offset) last_at_ms,
                   sum(commit_count)::BIGINT commit_count,
                   arg_min(topic_id, first_offset) FILTER (topic_id IS NOT NULL) topic_id,
                   arg_min_null(first_position, first_offset) first_position,
                   arg_max_null(last_position, last_offset) last_position,
                   arg_max_null(in_transaction, last_offset) in_transaction,
                   arg_min_null({_NEXT_AT}, first_offset) next_at_ms,
                   arg_min_null({_NEXT_POSITION}, first_offset) next_position,
                   bool_or(is_unknown) is_unknown
                FROM part GROUP BY {_PLACE}
            ) LEFT JOIN (
                SELECT {_PLACE}, max(gap_ms, 2) gaps, arg_min(
                    struct_pack({", ".join(f"{name} := {name}" for name in _GAP_ENDS.split(", "))}),
                    struct_pack(ms := -gap_ms, f := gap_from_offset)
                ) FILTER (gap_from_offset IS NOT NULL) longest
                FROM gap GROUP BY {_PLACE}
            ) USING ({_PLACE})
            UNION ALL BY NAME SELECT {_PARTIAL} FROM every ANTI JOIN crowded USING ({_PLACE})
        ) ORDER BY cluster_id, group_id, topic, partition, first_offset
        """
    ).to_arrow_table()
    replaced = db.execute(f"SELECT DISTINCT {', '.join(KEY.names)} FROM old").to_arrow_table()
    return Joined(data.cast(arrow_schema("silver.commit_mark")), replaced.cast(KEY))
