"""bronze: landing files -> bronze.record, bronze.log_line, bronze.source.

Rows in:  landing files, in any order, repeats included.
Rows out: one per (cluster, topic, partition, offset) and per (cluster, node, file id, byte).
Law:      repeats collapse only if key, value, timestamp and headers agree; if they differ both stay, as `copy` 1, 2 …
          The metadata log's copies on several nodes all stay.
A file whose ranges overlap nothing is committed as it is, or joined with others if many are small; only the rest is
compared. Which files came in shows in one transaction id per file. A file that breaks a law is put aside, and the
others come in (`spark_jobs.quarantine`).

    three landed records                                       bronze.record
    __consumer_offsets-7@231, key k, value a              ->   @231, copy 0, value a
    __consumer_offsets-7@231, key k, value a (landed twice)    nothing: it is the same
    __consumer_offsets-7@231, key k, value b              ->   @231, copy 1, value b: a finding (TR005)
"""

from __future__ import annotations

import os
import tempfile
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import duckdb
import pyarrow as pa

from rebalance_audit.domain.metadata import METADATA_TOPIC
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.landing_files import joined_landing_files
from rebalance_audit.warehouse.queries import cursor, database
from rebalance_audit.warehouse.storage import relation
from spark_jobs.checks import QualityError
from spark_jobs.engine import ArrowTask, Engine, LocalEngine
from spark_jobs.floors import floors_of
from spark_jobs.kept_folds import folded
from spark_jobs.landed import LandedFiles
from spark_jobs.quarantine import hold
from spark_jobs.stages.stage import Run
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table

_ROWS_AT_ONCE = 50_000


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
    landed = LandedFiles(context.warehouse, grain.noun)
    landed.delete_old()
    if not landed.new:
        return False
    try:
        _commit(context, grain, landed)
    except (QualityError, duckdb.Error, pa.ArrowInvalid):
        if not _put_aside(context, grain.table, landed.new):
            raise
        _take_in(context, grain)  # what is left of it
    return True


def _put_aside(context: Run, table: str, files: Sequence[str]) -> bool:
    """Whether something is wrong with one of these files by itself; if so, the run goes on without it."""
    aside = hold(context.warehouse, table, files)
    context.put_aside += aside.values()
    return bool(aside)


def _commit(context: Run, grain: Grain, landed: LandedFiles) -> None:
    floors = floors_of(context.warehouse, grain.stretch, grain.position)
    # The note keeps the name that older runs gave it.
    spans = folded(
        context.warehouse, f"taken-{grain.noun}", grain.table, None, partial(spans_of, grain), value_version=1
    )
    alone, overlapping = split_by_overlap(landed.new, spans or [], grain, floors, context.engine_for(landed.new))
    for files, is_alone in ((alone, True), (overlapping, False)):
        if not files:
            continue
        transaction = landed.transaction(files, later=overlapping if is_alone else ())
        batch_id = f"bronze:{grain.noun}:{os.path.basename(files[0])}"
        point = f"{grain.table}:{'adopted' if is_alone else 'merged'}"
        with context.staging_folder() as folder:
            new_rows = (
                joined_landing_files(grain.noun, files, folder)
                if is_alone
                else _unseen(context, grain, files, floors, folder)
            )
            context.add(grain.table, new_rows, batch_id, transaction, point)


def _take_in_sources(context: Run) -> bool:
    landed = LandedFiles(context.warehouse, "source")
    landed.delete_old()
    if not (new := landed.new):
        return False
    try:
        batch_id = f"bronze:source:{os.path.basename(new[0])}"
        with context.staging_folder() as folder:
            new_rows = joined_landing_files("source", new, folder)
            context.add("bronze.source", new_rows, batch_id, landed.transaction(new))
    except (QualityError, duckdb.Error, pa.ArrowInvalid):
        if not _put_aside(context, "bronze.source", new):
            raise
        _take_in_sources(context)
    return True


_SPANS_AT_MOST = 8
"""The most spans that are kept of a stretch. What lies between two near spans counts as there, so that rows that come
in between have to be compared."""


def spans_of(grain: Grain, known: list[Any] | None, files: Sequence[str]) -> list[Any]:
    """[*stretch, first, last] of each span of positions that these files hold or that is `known` already."""
    spans: dict[tuple[Any, ...], list[tuple[int, int]]] = {}
    for *stretch, first, last in known or []:
        spans.setdefault(tuple(stretch), []).append((first, last))
    columns = ", ".join(grain.stretch)
    with cursor() as db:
        for *stretch, first, last in db.execute(
            f'SELECT {columns}, min("{grain.position}"), max("{grain.position}") '
            f"FROM {relation(files, with_name=True)} GROUP BY filename, {columns}"
        ).fetchall():
            spans.setdefault(tuple(stretch), []).append((first, last))
    return [[*stretch, *span] for stretch, of_it in sorted(spans.items()) for span in _joined(of_it)]


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for first, last in sorted(spans):
        if found and first <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(last, found[-1][1])
        else:
            found.append((first, last))
    while len(found) > _SPANS_AT_MOST:
        at = min(range(1, len(found)), key=lambda n: found[n][0] - found[n - 1][1])
        found[at - 1 : at + 1] = [(found[at - 1][0], found[at][1])]
    return found


def split_by_overlap(
    new: Sequence[str],
    spans: Sequence[Sequence[Any]],
    grain: Grain,
    floors: pa.Table | None = None,
    engine: Engine | None = None,
) -> tuple[list[str], list[str]]:
    """New files without repeats, in themselves and beside what is there (`spans`, as `spans_of` gives them) and earlier
    new ones, nor anything below the floor that retention has set; and the other new files.

    Ranges are compared, not rows: a file that would fit into a gap is only rewritten for nothing.
    """
    known = _Spans()
    for *stretch, first, last in spans:
        known.add(tuple(stretch), first, last)
    for *stretch, floor in _tuples(floors) if floors is not None else ():
        known.add(tuple(stretch), -1, floor - 1)
    by_file: dict[str, list[tuple[tuple[Any, ...], int, int]]] = {file: [] for file in new}
    repeating: set[str] = set()
    for file, *stretch, first, last, has_repeats in _tuples(_ranges(new, grain, engine or LocalEngine())):
        by_file[file].append((tuple(stretch), first, last))
        if has_repeats:
            repeating.add(file)
    alone: list[str] = []
    for file, ranges in by_file.items():
        if file not in repeating and not any(known.meets(*span) for span in ranges):
            alone.append(file)
            for span in ranges:
                known.add(*span)
    return alone, [file for file in new if file not in set(alone)]


class _Spans:
    """Stretches of positions, in which none of those that are kept meets another."""

    def __init__(self) -> None:
        self._firsts: dict[tuple[Any, ...], list[int]] = {}
        self._lasts: dict[tuple[Any, ...], list[int]] = {}

    def meets(self, stretch: tuple[Any, ...], first: int, last: int) -> bool:
        at = bisect_right(self._firsts.get(stretch, ()), last) - 1
        return at >= 0 and self._lasts[stretch][at] >= first

    def add(self, stretch: tuple[Any, ...], first: int, last: int) -> None:
        firsts, lasts = self._firsts.setdefault(stretch, []), self._lasts.setdefault(stretch, [])
        begin, end = bisect_left(lasts, first), bisect_right(firsts, last)
        if begin < end:
            first, last = min(first, firsts[begin]), max(last, lasts[end - 1])
        firsts[begin:end], lasts[begin:end] = [first], [last]


def _ranges(files: Sequence[str], grain: Grain, engine: Engine) -> pa.Table:
    """Of each stretch in each file the first and the last position, and whether one is there twice. In tasks, since it
    takes memory for every position. Raises ArrowInvalid if a file cannot be read."""
    schema = arrow_schema(grain.table)
    own = [("first", pa.int64()), ("last", pa.int64()), ("has_repeats", pa.bool_()), ("error", pa.string())]
    out = pa.schema([("filename", pa.string()), *map(schema.field, grain.stretch), *own])
    select = (
        f'filename, {", ".join(grain.stretch)}, min("{grain.position}") AS first, max("{grain.position}") AS last, '
        f'count(*) > count(DISTINCT "{grain.position}") AS has_repeats, NULL AS error'
    )

    def look(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for some in work:
            source = relation(some["file"].to_pylist(), with_name=True)
            try:
                with cursor() as db:
                    found = db.execute(f"SELECT {select} FROM {source} GROUP BY ALL").to_arrow_table()
            except duckdb.Error as error:  # Spark would hand on an error of its own
                found = pa.Table.from_pylist([{"error": str(error)}], out)
            yield from found.cast(out).to_batches()

    found = engine.spread(pa.table({"file": pa.array(files, pa.string())}), look, out)
    if errors := found["error"].drop_null().to_pylist():
        raise pa.ArrowInvalid(errors[0])
    return found.drop_columns("error")


def _tuples(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _unseen(context: Run, grain: Grain, files: Sequence[str], floors: pa.Table, folder: str) -> list[str]:
    """Files with the rows of these files that bronze lacks, or has with other content. The stretches are divided among
    the tasks."""
    engine = context.engine_for(files)
    known = context.warehouse.files(grain.table)
    stretch = ", ".join(grain.stretch)
    with cursor() as db:
        work = db.execute(
            f"SELECT DISTINCT {stretch} FROM {relation(files)} ORDER BY ALL"
        ).to_arrow_table()  # fmt: skip
    merging = _merging(grain, list(files), known, floors, folder)
    return files_by_table(engine.spread(work, merging, WRITTEN)).get(grain.table, [])


def _merging(grain: Grain, files: Sequence[str], known: Sequence[str], floors: pa.Table, folder: str) -> ArrowTask:
    stretch = ", ".join(grain.stretch)
    arrived = (
        f"(SELECT a.* FROM {relation(files)} a LEFT JOIN floor f USING ({stretch}) "
        f'WHERE f.floor IS NULL OR a."{grain.position}" >= f.floor)'
    )

    def merge(stretches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema(grain.table)
        writer = TaskWriter(folder)
        for batch in stretches:
            with database(memory_limit="1GB", temp_directory=tempfile.gettempdir()) as db:
                db.register("stretch", pa.Table.from_batches([batch]))
                db.register("floor", floors)
                sql = (_UNSEEN_RECORDS if grain is RECORD else _UNSEEN_LINES).format(
                    arrived=arrived, known=relation(known) if known else _NONE.format(arrived=arrived)
                )
                for rows in db.execute(sql).to_arrow_reader(_ROWS_AT_ONCE):
                    writer.add(grain.table, rows.select(schema.names).cast(schema))
        yield from writer.written()

    return merge


_NONE = "(FROM {arrived} LIMIT 0)"
_CONTENT = f"""sha256(concat_ws('|',
    coalesce(hex(key), '-'), coalesce(hex(value), '-'), timestamp_ms::VARCHAR,
    coalesce(list_aggregate(list_transform(headers, lambda h: concat_ws(':', coalesce(hex(h.key), '-'),
        coalesce(hex(h.value), '-'))), 'string_agg', ','), ''),
    CASE WHEN starts_with(topic, '{METADATA_TOPIC}') THEN coalesce(node, '') ELSE '' END))"""
"""Columns that must agree for two records at one offset to be one: key, value, timestamp, headers; null is not empty.
No headers and an empty list of them are the same bytes on the wire. The node that holds a record of the metadata log is
part of what is known; the copy that came first is chance."""
_UNSEEN_RECORDS = f"""
WITH arrived AS (
    SELECT *, {_CONTENT} AS content FROM {{arrived}} SEMI JOIN stretch USING (cluster_id, topic, partition)
), span AS (
    SELECT cluster_id, topic, partition, min("offset") lo, max("offset") hi FROM arrived GROUP BY ALL
), known AS (
    SELECT k.cluster_id, k.topic, k.partition, k."offset", k.copy, {_CONTENT} AS content
    FROM {{known}} k JOIN span USING (cluster_id, topic, partition) WHERE k."offset" BETWEEN lo AND hi
), highest AS (
    SELECT cluster_id, topic, partition, "offset", max(copy) highest FROM known GROUP BY ALL
), fresh AS (
    -- The same content: a segment's producer and batch are worth more than the first arrival.
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY cluster_id, topic, partition, "offset", content ORDER BY source DESC, landing, node NULLS FIRST
        ) n FROM arrived
    ) WHERE n = 1
)
SELECT * EXCLUDE (content, n, highest) REPLACE (
    (coalesce(highest, -1) + row_number() OVER (
        PARTITION BY cluster_id, topic, partition, "offset" ORDER BY content
    ))::INTEGER AS copy
)
FROM fresh ANTI JOIN known USING (cluster_id, topic, partition, "offset", content)
LEFT JOIN highest USING (cluster_id, topic, partition, "offset")
ORDER BY topic, partition, "offset"
"""
"""Records that bronze lacks, or has with other content: the latter get the next free `copy`."""
_UNSEEN_LINES = """
SELECT * EXCLUDE n FROM (
    SELECT *, row_number() OVER (PARTITION BY cluster_id, node, file_id, byte ORDER BY file_name, landing) n
    FROM {arrived} SEMI JOIN stretch USING (cluster_id, node, file_id)
) ANTI JOIN (SELECT cluster_id, node, file_id, byte FROM {known} SEMI JOIN stretch USING (cluster_id, node, file_id))
USING (cluster_id, node, file_id, byte)
WHERE n = 1 ORDER BY node, file_id, byte
"""
"""Log events that bronze lacks; a file under two names is one file."""
