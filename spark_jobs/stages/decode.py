"""decode: bronze.record, bronze.log_line -> silver.group_event, .undecoded, .decode_count, .commit_mark.

Rows in:  records (copy 0; other copies are a finding and no evidence) and log events that are new since last time.
Rows out: per group record or line about a group one event, per refused record one undecoded row; commits as marks.
Law:      rows in = events + commits + undecoded + skipped, per record type.
Offset commits are known by the first two bytes of their key, natively, and never become Python objects; see commits.

    bronze                                                     silver
    record @231, key type 2, group orders                 ->   group_event: @231, GroupMetadata, orders
    record @232, key type 1, orders commits t-0 at 17     ->   commit_mark: orders, t-0, first and last @232
    record @233, key type 99                              ->   undecoded: @233, unknown_record_type
    line `Preparing to rebalance group orders …`          ->   group_event: preparing, orders
    line `Started data-plane processor …`                 ->   nothing: it says nothing about a group
                                                               decode_count: of 3 records 1 each
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import StorageLevel
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rebalance_audit.domain import tables
from rebalance_audit.domain.decode import decode_source, source_kind
from rebalance_audit.domain.gather.groups import Undecoded, line_row, record_row, undecoded
from rebalance_audit.domain.log_lines import parse_lines
from rebalance_audit.domain.metadata import is_metadata_topic
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, SourceLine, SourceRecord
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.warehouse import WarehouseError
from spark_jobs import record_files
from spark_jobs.commits import partial_marks as commits
from spark_jobs.commits.marks import SPARK_MARK, boundaries_of, commit_marks, group_records_of
from spark_jobs.plan import DECODE
from spark_jobs.stages.stage import Batch, Run, next_batch, row_count
from spark_jobs.task_files import Flags, flags_of, row_groups

NAME, INPUTS, OUTPUTS = DECODE.name, DECODE.reads, DECODE.writes

_TORN_CONTEXT_BYTES = 2 * 131_072
"""So far before a file's new lines the parser looks for a line that a client's text tore: log_lines.parse_lines."""
_COUNT = pa.schema(
    [(n, pa.int64()) for n in ("in_count", "event_count", "commit_count", "undecoded_count", "skipped_count")]
)
_BOOK = pa.struct([("cluster_id", pa.string()), ("source_kind", pa.string()), ("kind", pa.string()), *_COUNT])
_SPARK_BOOK = (
    "struct<cluster_id:string,source_kind:string,kind:string,in_count:bigint,event_count:bigint,commit_count:bigint,"
    "undecoded_count:bigint,skipped_count:bigint>"
)


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, INPUTS, OUTPUTS)
    if batch is None:
        return False
    new_files = _added(context, "bronze.record", batch)
    line_files = _added(context, "bronze.log_line", batch)
    kept: list[DataFrame] = []
    try:
        parts = []
        if new_files:
            parts.append(_decoded_records(context, new_files))
        if line_files:
            parts.append(_decoded_lines(context, line_files, batch))
        told = [part.persist(StorageLevel.MEMORY_AND_DISK) for part in parts]
        kept += told
        _commit_events(context, batch, told)

        group_records = group_records_of(context)
        folded = _folded_commits(context, new_files, group_records)
        if folded is not None:
            folded = folded.persist(StorageLevel.MEMORY_AND_DISK)
            kept.append(folded)
            told.append(folded)
        _commit_undecoded(context, batch, told)
        _commit_counts(context, batch, told, new_files + line_files)
        commit_marks(context, batch, folded, group_records, new_files)
    finally:
        for frame in kept:
            frame.unpersist()
    return True


def _added(context: Run, table: str, batch: Batch) -> list[str]:
    changes = context.warehouse.changes(table, batch.since[table], batch.until[table])
    if changes is None:
        raise WarehouseError(
            f"{context.warehouse.location}: the history of {table} since version {batch.since[table]} was cleaned up "
            "before it was decoded; delete the folders silver and gold and run again."
        )
    return [file for change in changes for file in change.added]


# ---- records other than commits


def _out_schema() -> str:
    event = ",".join(f"{c.name}:{c.type}" for c in tables.SILVER_GROUP_EVENT.columns)
    refused = ",".join(f"{c.name}:{c.type}" for c in tables.SILVER_UNDECODED.columns)
    return f"event struct<{event}>, undecoded struct<{refused}>, book {_SPARK_BOOK}, mark {SPARK_MARK}"


class _Out:
    """Rows of the stage's one output: each fills one of the columns event, undecoded, book and mark."""

    def __init__(self) -> None:
        self.types = {
            "event": pa.struct(list(arrow_schema("silver.group_event"))),
            "undecoded": pa.struct(list(arrow_schema("silver.undecoded"))),
            "book": _BOOK,
            "mark": pa.struct(list(commits.PARTIAL_MARK)),
        }

    def of(self, column: str, values: pa.Array) -> pa.RecordBatch:
        arrays = [values if name == column else pa.nulls(len(values), type_) for name, type_ in self.types.items()]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.types))

    def rows(self, column: str, rows: Sequence[Mapping[str, Any]]) -> Iterator[pa.RecordBatch]:
        if rows:
            yield self.of(column, pa.array(rows, self.types[column]))


class _Books:
    """Rows in and rows out by cluster, source kind and kind."""

    def __init__(self, source_kind: str) -> None:
        self.source_kind = source_kind
        self.counts: dict[tuple[str, str], Counter[str]] = {}

    def note(self, cluster_id: str, kind: str, what: str, count: int = 1) -> None:
        counter = self.counts.setdefault((cluster_id, kind), Counter())
        counter[what] += count

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"cluster_id": cluster_id, "source_kind": self.source_kind, "kind": kind}
            | {name: counter[name] for name in _COUNT.names}
            for (cluster_id, kind), counter in sorted(self.counts.items())
        ]


def _undecoded_row(cluster_id: str, refused: Undecoded) -> dict[str, Any]:
    return {"cluster_id": cluster_id} | {name: getattr(refused, name) for name in refused.__slots__}


def _decoded_records(context: Run, files: Sequence[str]) -> DataFrame:
    def decode(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = _Out()
        for batch in (batch for some in named for batch in record_files.others_in(some)):
            books = _Books("record")
            events: list[dict[str, Any]] = []
            refusals: list[dict[str, Any]] = []
            for row in batch.to_pylist():
                copy = row.pop("copy")
                if is_metadata_topic(row["topic"]):  # read as a whole by the stage reassign
                    books.note(row["cluster_id"], "metadata", "in_count")
                    books.note(row["cluster_id"], "metadata", "skipped_count")
                    continue
                row["is_control"], row["is_transactional"] = bool(row["is_control"]), bool(row["is_transactional"])
                source = SourceRecord(**row)
                kind = source_kind(source)
                books.note(source.cluster_id, kind, "in_count")
                if copy:
                    books.note(source.cluster_id, kind, "skipped_count")
                    continue
                try:
                    decoded = decode_source(source)
                except DecodeError as error:
                    refusals.append(_undecoded_row(source.cluster_id, undecoded(source, error)))
                    books.note(source.cluster_id, kind, "undecoded_count")
                    continue
                if isinstance(decoded, GroupRecord | ConnectRecord):
                    events.append(record_row(source, decoded))
                    books.note(source.cluster_id, kind, "event_count")
                else:
                    books.note(source.cluster_id, kind, "skipped_count")
            yield from out.rows("event", events)
            yield from out.rows("undecoded", refusals)
            yield from out.rows("book", books.rows())

    return row_groups(context, {record_files.TABLE: files}).mapInArrow(decode, _out_schema())


# ---- log lines


def _decoded_lines(context: Run, files: Sequence[str], batch: Batch) -> DataFrame:
    new = context.scan("bronze.log_line", files).withColumn("is_new", F.lit(True))
    lines = new
    older = set(context.warehouse.files("bronze.log_line", max(batch.until["bronze.log_line"], 0))) - set(files)
    if batch.since["bronze.log_line"] >= 0 and older:
        starts = F.broadcast(new.groupBy("cluster_id", "node", "file_id").agg(F.min("byte").alias("from_byte")))
        before = (
            context.scan("bronze.log_line", sorted(older))
            .join(starts, ["cluster_id", "node", "file_id"])
            .where(f"byte < from_byte and byte >= from_byte - {_TORN_CONTEXT_BYTES}")
            .drop("from_byte")
            .withColumn("is_new", F.lit(False))
        )
        lines = new.unionByName(before)
    columns = ["cluster_id", "node", "file_id", "byte", "file_name", "text", "is_new"]
    # A file is parsed in its order: what a client's text tore shows in the lines after it.
    ordered = lines.select(*columns).repartition("cluster_id", "node", "file_id").sortWithinPartitions(*columns[:4])
    return ordered.mapInArrow(_parse_files, _out_schema())


def _parse_files(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    out = _Out()
    books = _Books("log")
    new_lines: dict[str, SourceLine] = {}

    def lines(rows: Iterator[dict[str, Any]]) -> Iterator[SourceLine]:
        for row in rows:
            is_new = row.pop("is_new")
            line = SourceLine(**row)
            if is_new:
                new_lines.clear()  # one line is enough: the parser reports a line before it asks for the next
                new_lines[line.ref] = line
                books.note(line.cluster_id, _file_kind(line.file_name), "in_count")
            yield line

    rows = (row for batch in batches for row in batch.to_pylist())
    events: list[dict[str, Any]] = []
    for _, file_rows in _grouped(rows, ("cluster_id", "node", "file_id")):
        for event in parse_lines(lines(file_rows)):
            line = new_lines.get(event.ref)
            if line is None:
                continue
            events.append(line_row(line, event))
            books.note(line.cluster_id, _file_kind(line.file_name), "event_count")
            if len(events) >= 5_000:
                yield from out.rows("event", events)
                events = []
    yield from out.rows("event", events)
    told = books.rows()
    for row in told:
        row["skipped_count"] = row["in_count"] - row["event_count"]  # known, and of no interest
    yield from out.rows("book", told)


def _grouped(rows: Iterator[dict[str, Any]], columns: Sequence[str]) -> Iterator[tuple[Any, Iterator[dict[str, Any]]]]:
    yield from groupby(rows, key=lambda row: tuple(row[c] for c in columns))


def _file_kind(file_name: str) -> str:
    """`server.log` for server.log.2026-11-21-03.gz: rotation is not a kind."""
    stem, found, _ = file_name.partition(".log")
    return stem + found if found else file_name


# ---- commits


def _folded_commits(context: Run, files: Sequence[str], group_records: pa.Table) -> DataFrame | None:
    if not files:
        return None
    boundaries = context.spark.sparkContext.broadcast(boundaries_of(group_records))
    return row_groups(context, {record_files.TABLE: files}).mapInArrow(_folder(lambda: boundaries.value), _out_schema())


def _folder(
    boundaries: Callable[[], commits.Boundaries],
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def fold(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = _Out()
        known = boundaries()
        for batch in (batch for some in named for batch in record_files.commits_in(some)):
            books = _Books("record")
            refusals = []
            legacy = _is_legacy(batch)
            for kind, part in (
                ("LegacyOffsetCommit", _filtered(batch, legacy)),
                ("OffsetCommit", _filtered(batch, ~legacy)),
            ):
                for cluster_id, rows in _by_cluster(part):
                    folded = commits.fold(rows, known)
                    books.note(cluster_id, kind, "in_count", rows.num_rows)
                    books.note(cluster_id, kind, "commit_count", folded.commit_count)
                    books.note(cluster_id, kind, "skipped_count", folded.tombstone_count)
                    books.note(cluster_id, kind, "undecoded_count", len(folded.refused))
                    refusals += [
                        _undecoded_row(source.cluster_id, undecoded(source, e)) for source, e in folded.refused
                    ]
                    if folded.marks.num_rows:
                        yield out.of("mark", folded.marks.to_struct_array().combine_chunks())
            yield from out.rows("undecoded", refusals)
            yield from out.rows("book", books.rows())

    return fold


def _is_legacy(batch: pa.RecordBatch) -> Flags:
    legacy = pa.scalar(b"\x00\x00", pa.binary())
    return flags_of(batch.column("key"), lambda keys: pc.equal(pc.binary_slice(keys, 0, 2), legacy))


def _filtered(batch: pa.RecordBatch, flags: Flags) -> pa.RecordBatch:
    return batch if flags.all() else batch.filter(pa.array(flags))


def _by_cluster(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    column = batch.column("cluster_id")
    for cluster_id in column.unique().to_pylist():
        yield (
            cluster_id,
            _filtered(batch, flags_of(column, lambda ids, own=cluster_id: pc.equal(ids, own))),
        )


# ---- commits of tables


def _commit_events(context: Run, batch: Batch, told: Sequence[DataFrame]) -> None:
    rows = _united(context, told, "event", "silver.group_event")
    with context.staged("silver.group_event", rows) as files:
        context.add("silver.group_event", files, batch.batch_id, batch.transaction)


def _commit_undecoded(context: Run, batch: Batch, told: Sequence[DataFrame]) -> None:
    rows = _united(context, told, "undecoded", "silver.undecoded")
    with context.staged("silver.undecoded", rows) as files:
        context.add("silver.undecoded", files, batch.batch_id, batch.transaction)


def _united(context: Run, told: Sequence[DataFrame], column: str, table: str) -> DataFrame:
    found = [frame.where(f"{column} is not null").select(f"{column}.*") for frame in told]
    if not found:
        return context.scan(table, [])
    united = found[0]
    for frame in found[1:]:
        united = united.unionByName(frame)
    return united


def _commit_counts(context: Run, batch: Batch, told: Sequence[DataFrame], files: Sequence[str]) -> None:
    books: list[dict[str, Any]] = []
    for frame in told:
        summed = frame.where("book is not null").select("book.*").groupBy("cluster_id", "source_kind", "kind")
        books += [row.asDict() for row in summed.agg(*(F.sum(n).alias(n) for n in _COUNT.names)).collect()]
    rows_in = row_count(files)
    if sum(book["in_count"] for book in books) != rows_in:
        raise AssertionError(f"decode was given {rows_in} rows and accounts for {sum(b['in_count'] for b in books)}")
    data = rows_to_table("silver.decode_count", [book | {"batch_id": batch.batch_id} for book in books])
    context.add("silver.decode_count", data, batch.batch_id, batch.transaction)
