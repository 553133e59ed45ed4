"""The marks of silver.commit_mark: from partial ones of a batch to what bronze as a whole says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import duckdb
import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from rebalance_audit.domain import tables
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.records import decode_record
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.storage import relation
from spark_jobs.commits import partial_marks as commits
from spark_jobs.stages.stage import Batch, Run

COMMITS = (
    f"topic = '{OFFSETS_TOPIC}' and copy = 0 and not coalesce(is_control, false)"
    " and coalesce(substring(key, 1, 2) in (X'0000', X'0001'), false)"
)

"""Natively, what `domain.records` calls an offset commit: the first two bytes of the key."""
SPARK_MARK = (
    "struct<cluster_id:string,group_id:string,topic:string,partition:int,offsets_topic:string,offsets_partition:int,"
    "stretch_from:bigint,first_offset:bigint,first_at_ms:bigint,last_offset:bigint,last_at_ms:bigint,commit_count:bigint,topic_id:string>"
)

_PLACE = ("cluster_id", "topic", "partition", "group_id")


def group_records_of(context: Run) -> pa.Table:
    """Where all known group records stand. The events of this batch are committed already, so theirs are among them."""
    known = context.warehouse.read("silver.group_event", [*_PLACE, "offset"], "source_kind = 'record'")
    return known.sort_by([(column, "ascending") for column in (*_PLACE, "offset")])


def boundaries_of(group_records: pa.Table) -> commits.Boundaries:
    """Offsets of each group's records, in any order of rows: pyarrow promises none for the groups it returns."""
    listed = group_records.group_by(list(_PLACE)).aggregate([("offset", "list")])
    places = zip(*(listed.column(name).to_pylist() for name in _PLACE), strict=True)
    return {
        place: np.unique(offsets.values.to_numpy())
        for place, offsets in zip(places, listed.column("offset_list"), strict=True)
    }


def commit_marks(
    context: Run, batch: Batch, folded: DataFrame | None, group_records: pa.Table, files: Sequence[str]
) -> None:
    """Marks of this batch joined with the known ones; what new group records cut through is folded again from bronze.

    So a mark depends on what bronze holds, and not on when it came or with what.
    """
    partial = commits.PARTIAL_MARK.empty_table()
    if folded is not None:
        partial = folded.where("mark is not null").select("mark.*").toArrow().cast(commits.PARTIAL_MARK)
    known = context.warehouse.read("silver.commit_mark")
    uncertain = _transactional_groups(context, batch, files)
    with duckdb.connect() as db:
        for name, data in (("partial", partial), ("known", known), ("cut", group_records), ("uncertain", uncertain)):
            db.register(name, data)
        stretch = "coalesce(c.offset, -1)"
        same = (
            "m.cluster_id = c.cluster_id AND m.group_id = c.group_id AND m.offsets_topic = c.topic"
            " AND m.offsets_partition = c.partition"
        )
        db.execute(
            f"CREATE TABLE placed AS SELECT m.*, {stretch} stretch_from FROM known m "
            f"ASOF LEFT JOIN cut c ON {same} AND m.first_offset > c.offset"
        )
        db.execute(
            "CREATE TABLE again AS SELECT * FROM uncertain UNION SELECT DISTINCT m.cluster_id, m.group_id, "
            "m.offsets_topic, m.offsets_partition FROM placed m "
            f"ASOF LEFT JOIN cut c ON {same} AND m.last_offset > c.offset WHERE {stretch} <> m.stretch_from"
        )
        again = db.execute("SELECT * FROM again").to_arrow_table()
        db.register("rebuilt", _folded_again(context, batch, again, group_records))
        place = "cluster_id, group_id, topic, partition, offsets_topic, offsets_partition, stretch_from"
        untouched = "NOT EXISTS (SELECT 1 FROM again a WHERE a.cluster_id = p.cluster_id AND a.group_id = p.group_id)"
        db.execute(
            f"CREATE TABLE old AS SELECT p.* FROM placed p WHERE NOT ({untouched}) "
            "OR EXISTS (SELECT 1 FROM partial n WHERE "
            + " AND ".join(f"n.{column} = p.{column}" for column in place.split(", "))
            + ")"
        )
        columns = ", ".join(c.name for c in tables.SILVER_COMMIT_MARK.columns)
        data = db.execute(
            f"""
            SELECT {columns} FROM (
                SELECT {place}, min(first_offset) first_offset, arg_min(first_at_ms, first_offset) first_at_ms,
                       max(last_offset) last_offset, arg_max(last_at_ms, last_offset) last_at_ms,
                       sum(commit_count)::BIGINT commit_count,
                       arg_min(topic_id, first_offset) FILTER (topic_id IS NOT NULL) topic_id
                FROM (
                    SELECT {_PARTIAL} FROM rebuilt
                    UNION ALL SELECT {_PARTIAL} FROM partial p WHERE {untouched}
                    UNION ALL SELECT {_PARTIAL} FROM old p WHERE {untouched}
                ) GROUP BY {place}
            ) ORDER BY cluster_id, group_id, topic, partition, first_offset
            """
        ).to_arrow_table()
        db.register("data", data)
        grain = ", ".join(tables.SILVER_COMMIT_MARK.key)
        keys = db.execute(f"SELECT {grain} FROM old UNION SELECT {grain} FROM data").to_arrow_table()
    rows = data.cast(arrow_schema("silver.commit_mark"))
    context.replace("silver.commit_mark", rows, keys, batch.batch_id, batch.transaction)


_PARTIAL = ", ".join(commits.PARTIAL_MARK.names)
_GROUP_PLACE = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("offsets_topic", pa.string()),
        ("offsets_partition", pa.int32()),
    ]
)
_TRANSACTIONAL = f"{COMMITS} and coalesce(is_transactional, false)"
_MARKER = f"topic = '{OFFSETS_TOPIC}' and copy = 0 and coalesce(is_control, false)"


def _transactional_groups(context: Run, batch: Batch, files: Sequence[str]) -> pa.Table:
    """Groups about whose transactional commits this batch says something: commits themselves, or a marker."""
    if not files or not _has_transactions(files):
        return _GROUP_PLACE.empty_table()
    stretch = ["cluster_id", "topic", "partition", "producer_id"]
    producers = (
        context.scan("bronze.record", files).where(f"({_TRANSACTIONAL}) or ({_MARKER})").select(*stretch).distinct()
    )
    whole = context.warehouse.files("bronze.record", batch.until["bronze.record"])
    keys = (
        context.scan("bronze.record", whole)
        .where(_TRANSACTIONAL)
        .join(F.broadcast(producers), stretch)
        .select("cluster_id", "topic", "partition", "key")
        .distinct()
        .toArrow()
    )
    rows = set()
    for row in keys.to_pylist():
        try:
            group_id = decode_record(row["key"], None).key.group_id
        except DecodeError:
            continue  # it is in silver.undecoded
        rows.add((row["cluster_id"], group_id, row["topic"], row["partition"]))
    return pa.Table.from_pylist([dict(zip(_GROUP_PLACE.names, row, strict=True)) for row in sorted(rows)], _GROUP_PLACE)


def _has_transactions(files: Sequence[str]) -> bool:
    with duckdb.connect() as db:
        found = db.execute(
            f"SELECT 1 FROM {relation(files)} "
            f"WHERE topic = '{OFFSETS_TOPIC}' AND (is_transactional OR is_control) LIMIT 1"
        ).fetchone()
    return found is not None


def _folded_again(context: Run, batch: Batch, groups: pa.Table, group_records: pa.Table) -> pa.Table:
    """Marks of these groups from all of bronze. A transactional commit counts if its producer's next marker says so."""
    if groups.num_rows == 0:
        return commits.PARTIAL_MARK.empty_table()
    place = ["cluster_id", "topic", "partition"]
    renamed = groups.rename_columns(["cluster_id", "group_id", "topic", "partition"])
    partitions = F.broadcast(context.spark.createDataFrame(renamed.select(place).group_by(place).aggregate([])))
    whole = context.warehouse.files("bronze.record", batch.until["bronze.record"])
    records = context.scan("bronze.record", whole).join(partitions, place)
    plain = records.where(f"{COMMITS} and not coalesce(is_transactional, false)")
    following = Window.partitionBy(*place, "producer_id").orderBy("offset").rowsBetween(1, Window.unboundedFollowing)
    decided = (
        records.where(f"({_TRANSACTIONAL}) or ({_MARKER})")
        .withColumn("marker", F.when(F.expr(_MARKER), F.substring("key", 3, 2)))
        .withColumn("next_marker", F.first("marker", ignorenulls=True).over(following))
        .where(f"not ({_MARKER}) and next_marker = X'0001'")
    )
    columns = ["cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value"]
    boundaries = context.spark.sparkContext.broadcast(boundaries_of(group_records))
    wanted = {(row["cluster_id"], row["group_id"]) for row in groups.to_pylist()}

    def fold(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known = boundaries.value
        for batch_ in batches:
            marks = commits.fold(batch_, known).marks
            pairs = zip(marks.column("cluster_id").to_pylist(), marks.column("group_id").to_pylist(), strict=True)
            yield from marks.filter(pa.array([pair in wanted for pair in pairs], pa.bool_())).to_batches()

    folded = (
        plain.select(*columns)
        .unionByName(decided.select(*columns))
        .mapInArrow(fold, SPARK_MARK[7:-1].replace(":", " "))
    )
    return folded.toArrow().cast(commits.PARTIAL_MARK)
