"""bronze: landing files -> bronze.record, bronze.log_line, bronze.source.

Rows in:  landing files, in any order, repeats included.
Rows out: one per (cluster, topic, partition, offset) and per (cluster, node, file id, byte).
Law:      repeats collapse only if key, value, timestamp and headers agree; if they differ both stay, as `copy` 1, 2 …
          The metadata log's copies on several nodes all stay.
A file whose ranges overlap nothing is committed as it is; only the others are rewritten. Which files came in shows
in one transaction id per file.

    three landed records                                       bronze.record
    __consumer_offsets-7@231, key k, value a              ->   @231, copy 0, value a
    __consumer_offsets-7@231, key k, value a (landed twice)    nothing: it is the same
    __consumer_offsets-7@231, key k, value b              ->   @231, copy 1, value b: a finding (TR005)
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import duckdb
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from rebalance_audit.domain.metadata import METADATA_TOPIC
from rebalance_audit.warehouse.storage import relation
from spark_jobs.pipeline import landing_application
from spark_jobs.stages.stage import Run


@dataclass(frozen=True, slots=True)
class Grain:
    """Where a row stands: rows of one `stretch` are in order of `position`."""

    table: str
    noun: str
    stretch: tuple[str, ...]
    position: str


RECORD = Grain("bronze.record", "record", ("cluster_id", "topic", "partition"), "offset")
LOG_LINE = Grain("bronze.log_line", "log_line", ("cluster_id", "node", "file_id"), "byte")


def run(context: Run) -> bool:
    # Sources last: a ledger entry must never stand for evidence that is not there yet.
    did = [_take_in(context, RECORD), _take_in(context, LOG_LINE), _take_in_sources(context)]
    return any(did)


def _take_in(context: Run, grain: Grain) -> bool:
    new = _new_files(context, grain.table, grain.noun)
    if not new:
        return False
    alone, overlapping = split_by_overlap(new, context.warehouse.files(grain.table), grain)
    for files, is_alone in ((alone, True), (overlapping, False)):
        if not files:
            continue
        transaction = {landing_application(grain.noun, file): 1 for file in files}
        batch_id = f"bronze:{grain.noun}:{os.path.basename(files[0])}"
        if is_alone:
            context.add(grain.table, files, batch_id, transaction, f"{grain.table}:adopted")
        else:
            unseen = (_unseen_records if grain is RECORD else _unseen_lines)(context, files)
            with context.staged(grain.table, unseen) as staged:
                context.add(grain.table, staged, batch_id, transaction, f"{grain.table}:merged")
    return True


def _take_in_sources(context: Run) -> bool:
    new = _new_files(context, "bronze.source", "source")
    if not new:
        return False
    transaction = {landing_application("source", file): 1 for file in new}
    context.add("bronze.source", new, f"bronze:source:{os.path.basename(new[0])}", transaction)
    return True


def _new_files(context: Run, table: str, noun: str) -> list[str]:
    landed = context.warehouse.landed(noun)
    done = context.warehouse.transaction_versions(table, [landing_application(noun, file) for file in landed])
    return [file for file in landed if done[landing_application(noun, file)] is None]


def split_by_overlap(new: Sequence[str], committed: Sequence[str], grain: Grain) -> tuple[list[str], list[str]]:
    """Of the new files, those without repeats, in themselves and beside committed and earlier new ones; and the others.

    Ranges are compared, not rows: a file that would fit into a gap is only rewritten for nothing.
    """
    stretch = ", ".join(grain.stretch)

    def ranges(files: Sequence[str]) -> str:
        return (
            f'SELECT filename, {stretch}, min("{grain.position}") lo, max("{grain.position}") hi, '
            f'count(*) > count(DISTINCT "{grain.position}") has_repeats '
            f"FROM {relation(files, with_name=True)} GROUP BY ALL"
        )

    with duckdb.connect() as db:
        db.execute(f"CREATE TABLE arrived AS {ranges(new)}")
        db.execute(f"CREATE TABLE taken AS {ranges(committed) if committed else 'FROM arrived LIMIT 0'}")
        alone: list[str] = []
        for file in new:
            hit = db.execute(
                f"SELECT 1 FROM arrived a LEFT JOIN taken t USING ({stretch}) "
                "WHERE a.filename = ? AND (a.has_repeats OR (a.lo <= t.hi AND t.lo <= a.hi)) LIMIT 1",
                [file],
            ).fetchone()
            if hit is None:
                alone.append(file)
                db.execute("INSERT INTO taken SELECT * FROM arrived WHERE filename = ?", [file])
    return alone, [file for file in new if file not in set(alone)]


def _unseen_records(context: Run, files: Sequence[str]) -> DataFrame:
    """Records of these files that bronze lacks, or has otherwise: those get the next free `copy`."""
    place = ["cluster_id", "topic", "partition", "offset"]
    arrived = context.scan("bronze.record", files).withColumn("content", _content())
    stretches = F.broadcast(
        arrived.groupBy(*RECORD.stretch).agg(F.min("offset").alias("lo"), F.max("offset").alias("hi"))
    )
    known = (
        context.scan("bronze.record")
        .join(stretches, list(RECORD.stretch))
        .where("offset between lo and hi")
        .withColumn("content", _content())
        .select(*place, "content", "copy")
    )
    # The same content: what a segment holds besides (producer, batch) is worth more than the first arrival.
    first = Window.partitionBy(*place, "content").orderBy(F.col("source").desc(), F.col("landing"), F.col("node"))
    distinct = arrived.withColumn("n", F.row_number().over(first)).where("n = 1").drop("n")
    highest = known.groupBy(*place).agg(F.max("copy").alias("highest"))
    numbering = Window.partitionBy(*place).orderBy("content")
    return (
        distinct.join(known.select(*place, "content"), [*place, "content"], "left_anti")
        .join(highest, place, "left")
        .withColumn("copy", (F.coalesce(F.col("highest"), F.lit(-1)) + F.row_number().over(numbering)).cast("int"))
        .select(*(c for c in context.warehouse.schema("bronze.record").names))
        .sort("topic", "partition", "offset")
    )


def _content() -> Column:
    """What must agree for two records at one offset to be one: key, value, timestamp, headers; null is not empty."""
    headers = F.transform(
        F.col("headers"),
        lambda h: F.concat_ws(":", F.coalesce(F.hex(h["key"]), F.lit("-")), F.coalesce(F.hex(h["value"]), F.lit("-"))),
    )
    # No headers and an empty list of them are the same bytes on the wire.
    parts = [
        F.coalesce(F.hex("key"), F.lit("-")),
        F.coalesce(F.hex("value"), F.lit("-")),
        F.col("timestamp_ms").cast("string"),
        F.coalesce(F.concat_ws(",", headers), F.lit("")),
        # Who holds a record of the metadata log is part of what is known, and which copy came first is chance.
        F.when(F.col("topic").startswith(METADATA_TOPIC), F.coalesce(F.col("node"), F.lit(""))).otherwise(F.lit("")),
    ]
    return F.sha2(F.concat_ws("|", *parts), 256)


def _unseen_lines(context: Run, files: Sequence[str]) -> DataFrame:
    """Log events of these files that bronze lacks; a file under two names is one file."""
    place = ["cluster_id", "node", "file_id", "byte"]
    first = Window.partitionBy(*place).orderBy("file_name", "landing")
    return (
        context.scan("bronze.log_line", files)
        .withColumn("n", F.row_number().over(first))
        .where("n = 1")
        .drop("n")
        .join(context.scan("bronze.log_line").select(*place), place, "left_anti")
        .select(*(c for c in context.warehouse.schema("bronze.log_line").names))
        .sort("node", "file_id", "byte")
    )
