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

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.domain.decode import decode_source, source_kind
from rebalance_audit.domain.frozen import positional_maker
from rebalance_audit.domain.gather.groups import Undecoded, line_row, record_row, undecoded
from rebalance_audit.domain.log_lines import Torn, parse_lines
from rebalance_audit.domain.metadata import is_metadata_topic
from rebalance_audit.domain.model import ConnectRecord, GroupRecord, SourceLine, SourceRecord
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.warehouse.arrow_tables import arrow_schema, rows_to_table
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import located, relation
from rebalance_audit.warehouse.warehouse import Warehouse, WarehouseError
from spark_jobs import record_files
from spark_jobs.commits import partial_marks as commits
from spark_jobs.commits.marks import (
    boundaries_of,
    boundaries_of_any,
    commit_marks,
    concerned_groups,
    group_records_of,
)
from spark_jobs.commits.waiting import (
    ALL_UNFOLDED,
    LEAST_RECORDS,
    MOST_RECORDS,
    Unfolded,
    WaitingCommits,
    groups_named,
    keep_waiting,
    known_waiting,
    unfolded_of,
)
from spark_jobs.engine import ArrowTask, Engine
from spark_jobs.group_rows import Place, literal, places_table
from spark_jobs.plan import DECODE
from spark_jobs.stages.stage import Batch, Run, next_batch, row_count
from spark_jobs.task_files import WRITTEN, Flags, TaskWriter, files_by_table, flags_of, row_groups

NAME, INPUTS, OUTPUTS = DECODE.name, DECODE.reads, DECODE.writes
*_COUNTED, _MARKS = OUTPUTS

TORN_CONTEXT_BYTES = 2 * 131_072
"""How many bytes before a file's new lines the parser looks for a line that a client's text tore
(log_lines.parse_lines)."""
_LINES_AT_ONCE = 5_000
_COUNT = pa.schema(
    [(n, pa.int64()) for n in ("in_count", "event_count", "commit_count", "undecoded_count", "skipped_count")]
)
_BOOK = pa.schema([("cluster_id", pa.string()), ("source_kind", pa.string()), ("kind", pa.string()), *_COUNT])
_END = pa.schema(
    [*((n, pa.string()) for n in ("cluster_id", "node", "file_id")), ("byte", pa.int64()), ("torn", pa.int64())]
)
"""How a log file was left: its last line that was parsed, and the torn one whose end has not come."""
_OF_DRIVER = {"book": _BOOK, "mark": commits.PARTIAL_MARK, "end": _END}
_LOG_FILE = pa.schema(
    [("cluster_id", pa.string()), ("node", pa.string()), ("file_id", pa.string()), ("from_byte", pa.int64())]
)


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, INPUTS, _COUNTED)
    marked = _versions(context, _MARKS)
    if batch is None:
        until = _versions(context, _COUNTED[-1])
        if context.may_wait and known_waiting(context.warehouse, marked["bronze.record"], until["bronze.record"]):
            context.awaited = ()
            return False
        return _catch_up(context, marked, until)
    new_files = _added(context, "bronze.record", batch)
    line_files = _added(context, "bronze.log_line", batch)
    engine = context.engine_for(new_files + line_files)
    with context.staging_folder() as folder:
        written = _Written()
        if new_files:
            written.add(engine.spread(_records_of(new_files), _decoding(folder), WRITTEN))
        ends = _ends_before(context, batch)
        if line_files:
            work = _log_files(line_files)
            older = _older(context, line_files, batch)
            written.add(engine.spread(work, _parsing(folder, line_files, older, ends), WRITTEN))
        event_files = written.files["silver.group_event"]
        context.add("silver.group_event", event_files, batch.batch_id, batch.transaction)

        named = groups_named(event_files) if context.may_wait else None
        waiting = _waiting(context, batch, marked, new_files, named)
        is_behind = waiting is not None or marked["bronze.record"] < batch.since["bronze.record"]
        concerned = None if is_behind else concerned_groups(new_files, event_files)
        group_records = None if concerned is None else group_records_of(context, concerned)
        boundaries: commits.Boundaries | None = None
        if not is_behind:
            boundaries = boundaries_of_any(context) if group_records is None else boundaries_of(group_records)
        if new_files:
            folding = _folding(folder, engine.share(boundaries))
            written.add(engine.spread(_records_of(new_files), folding, WRITTEN))
        context.add("silver.undecoded", written.files["silver.undecoded"], batch.batch_id, batch.transaction)
        _commit_counts(context, batch, written.rows("book"), new_files + line_files)
        if boundaries is not None:
            partial = written.files["mark"]
            commit_marks(context, batch, engine, partial, group_records, boundaries, concerned, new_files)
        elif waiting is not None:
            _mark_awaited(context, batch, engine, waiting, folder)
        _ENDS[context.warehouse] = batch.until["bronze.log_line"], ends | _ends_in(written.rows("end"))
    if waiting is None and is_behind:
        _catch_up(context, marked, batch.until)
    return True


def _versions(context: Run, table: str) -> dict[str, int]:
    """The version of each input up to which the table has what follows from it."""
    found = context.warehouse.transaction_versions(table, [f"{NAME}:{name}" for name in INPUTS])
    return {name: -1 if (version := found[f"{NAME}:{name}"]) is None else version for name in INPUTS}


# ---- marks that come later than all else


def _waiting(
    context: Run, batch: Batch, marked: Mapping[str, int], files: Sequence[str], named: set[Place] | None
) -> WaitingCommits | None:
    """The commits that this run leaves to a later one, those in these files among them; None if it leaves none."""
    since, before = marked["bronze.record"], batch.since["bronze.record"]
    # Evidence that names no group may be of any, whose commits would have to be known.
    if not context.may_wait or since < 0 or named is None:
        return None
    waiting = known_waiting(context.warehouse, since, before)
    if waiting is None and since < before:
        return None
    waiting = waiting or WaitingCommits(since, since)
    if not LEAST_RECORDS <= waiting.row_count + row_count(files) <= MOST_RECORDS:
        return None
    waiting.add(batch.until["bronze.record"], record_files.commits_in(_records_of(files)), named)
    context.awaited = frozenset(waiting.due)
    return waiting


def _mark_awaited(context: Run, batch: Batch, engine: Engine, waiting: WaitingCommits, folder: str) -> None:
    """Commits marks of the groups that are due. It is no part of what the commit of a batch says to be done:
    what is done twice is folded again."""
    group_records = group_records_of(context, places_table(waiting.due))
    boundaries = boundaries_of(group_records)
    out = _Out(folder)
    rows = waiting.of_due()
    marks = commits.fold(record_files.joined(rows), boundaries).marks if rows else commits.PARTIAL_MARK.empty_table()
    for some in marks.to_batches():
        out.add("mark", some)
    written = _Written()
    for done in out.written():
        written.add(pa.Table.from_batches([done]))
    if waiting.due:
        due = places_table(waiting.due)
        commit_marks(context, batch, engine, written.files["mark"], group_records, boundaries, due, None)
    waiting.folded()
    keep_waiting(context.warehouse, waiting)


def _catch_up(context: Run, marked: Mapping[str, int], until: Mapping[str, int]) -> bool:
    """Commits the marks of all commits that earlier runs left, or that a crash did. Whether there were any."""
    record = "bronze.record"
    if marked == until:
        return False
    batch = Batch(stage=NAME, since=marked, until=until)
    files = _added(context, record, batch)
    engine = context.engine_for(files)
    with context.staging_folder() as folder:
        written = _Written()
        if files:
            # Which groups have records among them decides which marks they cut.
            written.add(engine.spread(_records_of(files), _decoding(folder), WRITTEN))
        concerned = concerned_groups(files, written.files["silver.group_event"])
        group_records = None if concerned is None else group_records_of(context, concerned)
        boundaries = boundaries_of_any(context) if group_records is None else boundaries_of(group_records)
        if files:
            unfolded = unfolded_of(context.warehouse, marked[record], until[record])
            folding = _folding(folder, engine.share(boundaries), unfolded)
            written.add(engine.spread(_records_of(files), folding, WRITTEN))
        commit_marks(context, batch, engine, written.files["mark"], group_records, boundaries, concerned, files)
    keep_waiting(context.warehouse, None)
    return True


def _records_of(files: Sequence[str]) -> pa.Table:
    return row_groups({record_files.TABLE: files})


def _added(context: Run, table: str, batch: Batch) -> list[str]:
    changes = context.warehouse.changes(table, batch.since[table], batch.until[table])
    if changes is None:
        raise WarehouseError(
            f"{context.warehouse.location}: the history of {table} since version {batch.since[table]} was cleaned up "
            "before it was decoded; delete the folders silver and gold and run again."
        )
    return [file for change in changes for file in change.added]


class _Written:
    """The output of the stage's tasks: rows of tables, and rows that only the driver reads."""

    def __init__(self) -> None:
        self.files: dict[str, list[str]] = defaultdict(list)

    def add(self, written: pa.Table) -> None:
        for name, files in files_by_table(written).items():
            self.files[name] += files

    def rows(self, name: str) -> pa.Table:
        parts = [pq.ParquetFile(path, filesystem=fs).read() for fs, path in map(located, self.files[name])]
        return pa.concat_tables([_OF_DRIVER[name].empty_table(), *parts])


# ---- records other than commits


class _Out(TaskWriter):
    """Rows of the stage's outputs, and its books."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder, _OF_DRIVER)

    def rows(self, name: str, rows: Sequence[Mapping[str, Any]]) -> None:
        if rows:
            type_ = pa.struct(list(_OF_DRIVER.get(name) or arrow_schema(name)))
            self.add(name, pa.RecordBatch.from_struct_array(pa.array(rows, type_)))


_LINE = ("cluster_id", "node", "file_id", "byte", "file_name", "text")
_Line: TypeAlias = tuple[Any, ...]
"""A value for each of _LINE, and whether the line is new."""
_file_of = itemgetter(0, 1, 2)
_RECORD = tuple(name for name in record_files.COLUMNS if name != "copy")
_make_line, _make_record = positional_maker(SourceLine, _LINE), positional_maker(SourceRecord, _RECORD)


def _records_in(batch: pa.RecordBatch) -> Iterator[tuple[SourceRecord, int]]:
    """Each record and which copy it is. A function of its own, so that a worker finds it by name. As part of a task's
    code it would be sent as a copy, with a class of its own."""
    columns = dict(zip(batch.schema.names, map(_decoded, batch.columns), strict=True))
    flags = {name: columns[name].fill_null(False) for name in ("is_control", "is_transactional")}
    lists = [(columns | flags)[name].to_pylist() for name in _RECORD]
    return zip(map(_make_record, *lists), columns["copy"].to_pylist(), strict=True)


def _decoded(column: pa.Array) -> pa.Array:
    """Without a dictionary, from which each value would be looked up in Python."""
    return column.dictionary_decode() if isinstance(column, pa.DictionaryArray) else column


class _Tally:
    """Rows in and rows out by cluster, source kind and kind."""

    def __init__(self, source_kind: str) -> None:
        self.source_kind = source_kind
        self.counts: defaultdict[tuple[str, str], Counter[str]] = defaultdict(Counter)

    def note(self, cluster_id: str, kind: str, what: str, count: int = 1) -> None:
        self.counts[cluster_id, kind][what] += count

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"cluster_id": cluster_id, "source_kind": self.source_kind, "kind": kind}
            | {name: counter[name] for name in _COUNT.names}
            for (cluster_id, kind), counter in sorted(self.counts.items())
        ]


def _undecoded_row(cluster_id: str, refused: Undecoded) -> dict[str, Any]:
    return {"cluster_id": cluster_id} | {name: getattr(refused, name) for name in refused.__slots__}


def _decoding(folder: str) -> ArrowTask:
    def decode(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = _Out(folder)
        for batch in (batch for some in named for batch in record_files.others_in(some)):
            books = _Tally("record")
            events: list[dict[str, Any]] = []
            refusals: list[dict[str, Any]] = []
            for source, copy in _records_in(batch):
                if is_metadata_topic(source.topic):  # read as a whole by the stage reassign
                    books.note(source.cluster_id, "metadata", "in_count")
                    books.note(source.cluster_id, "metadata", "skipped_count")
                    continue
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
            out.rows("silver.group_event", events)
            out.rows("silver.undecoded", refusals)
            out.rows("book", books.rows())
        yield from out.written()

    return decode


# ---- log lines


def _older(context: Run, files: Sequence[str], batch: Batch) -> list[str]:
    """Files with lines that were decoded before."""
    if batch.since["bronze.log_line"] < 0:
        return []
    return sorted(set(context.warehouse.files("bronze.log_line", batch.until["bronze.log_line"])) - set(files))


LogFile = tuple[str, str, str]
"""Cluster, node and file."""
_Ends = dict[LogFile, tuple[int, int | None]]
"""The byte of the last line that was parsed, and that of the torn one whose end has not come."""
_ENDS: WeakKeyDictionary[Warehouse, tuple[int, _Ends]] = WeakKeyDictionary()
"""How log files were left, and at which version of bronze.log_line: a process that goes on need not read lines again to
know whether new ones stand behind a torn one."""
_ENDS_AT_MOST = 10_000


def _ends_before(context: Run, batch: Batch) -> _Ends:
    version, ends = _ENDS.get(context.warehouse, (None, {}))
    return ends if version == batch.since["bronze.log_line"] and len(ends) < _ENDS_AT_MOST else {}


def _ends_in(rows: pa.Table) -> _Ends:
    return {(row["cluster_id"], row["node"], row["file_id"]): (row["byte"], row["torn"]) for row in rows.to_pylist()}


def _log_files(files: Sequence[str]) -> pa.Table:
    """The work of the tasks that parse: log files with new lines, and where these begin."""
    with cursor() as db:
        found = db.execute(
            f"SELECT cluster_id, node, file_id, min(byte) from_byte FROM {relation(files)} GROUP BY ALL ORDER BY ALL"
        )
        return found.to_arrow_table().cast(_LOG_FILE)


def _parsing(folder: str, files: Sequence[str], older: Sequence[str], ends: _Ends) -> ArrowTask:
    def parse(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = _Out(folder)
        for log_files in named:
            places = zip(*(log_files[name].to_pylist() for name in _LOG_FILE.names), strict=True)
            begins: dict[LogFile, int] = {(cluster, node, file): byte for cluster, node, file, byte in places}
            torn = {place: ends[place][1] for place, byte in begins.items() if place in ends and ends[place][0] < byte}
            _parse_files(_lines_of(log_files, files, older, torn), torn, out)
        yield from out.written()

    return parse


def _lines_of(
    log_files: pa.RecordBatch, files: Sequence[str], older: Sequence[str], known: Collection[LogFile]
) -> Iterator[_Line]:
    """The new lines of these log files, and enough of those before, but for files that are `known`; each file in its
    order."""
    columns, place = ", ".join(_LINE), ", ".join(_LINE[:3])
    sources = [f"SELECT {columns}, true is_new FROM {relation(files)} SEMI JOIN log_file USING ({place})"]
    unknown = [row for row in log_files.to_pylist() if (row["cluster_id"], row["node"], row["file_id"]) not in known]
    if older and unknown:
        ids = ", ".join(literal(name) for name in sorted({row["file_id"] for row in unknown}))
        sources.append(
            f"SELECT {columns}, false FROM {relation(older)} JOIN unknown USING ({place}) WHERE file_id IN ({ids}) "
            f"AND byte < from_byte AND byte >= from_byte - {TORN_CONTEXT_BYTES}"
        )
    with cursor() as db:
        db.register("log_file", pa.Table.from_batches([log_files]))
        db.register("unknown", pa.Table.from_pylist(unknown, _LOG_FILE))
        # A file is parsed in its order: what a client's text tore shows in the lines after it.
        ordered = db.execute(f"{' UNION ALL '.join(sources)} ORDER BY {place}, byte")
        for batch in ordered.to_arrow_reader(_LINES_AT_ONCE):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _parse_files(rows: Iterator[_Line], torn: Mapping[LogFile, int | None], out: _Out) -> None:
    books = _Tally("log")
    new_line: SourceLine | None = None  # one is enough: the parser reports a line before it asks for the next
    in_counts: Counter[tuple[str, str]] = Counter()
    last_byte = 0

    def lines(rows: Iterator[_Line]) -> Iterator[SourceLine]:
        nonlocal new_line, last_byte
        for *fields, is_new in rows:
            line = _make_line(*fields)
            last_byte = line.byte
            if is_new:
                new_line = line
                in_counts[line.cluster_id, line.file_name] += 1
            yield line

    events: list[dict[str, Any]] = []
    ends: list[dict[str, Any]] = []
    for place, file_rows in groupby(rows, key=_file_of):
        state = Torn(torn.get(place))
        for event in parse_lines(lines(file_rows), state):
            line = new_line
            if line is None or line.ref != event.ref:
                continue
            events.append(line_row(line, event))
            books.note(line.cluster_id, _file_kind(line.file_name), "event_count")
            if len(events) >= _LINES_AT_ONCE:
                out.rows("silver.group_event", events)
                events = []
        ends.append(dict(zip(_END.names, (*place, last_byte, state.at_byte), strict=True)))
    out.rows("end", ends)
    out.rows("silver.group_event", events)
    for (cluster_id, file_name), count in in_counts.items():
        books.note(cluster_id, _file_kind(file_name), "in_count", count)
    tallies = books.rows()
    for row in tallies:
        row["skipped_count"] = row["in_count"] - row["event_count"]  # known, and of no interest
    out.rows("book", tallies)


def _file_kind(file_name: str) -> str:
    """`server.log` for server.log.2026-11-21-03.gz: rotation is not a kind."""
    stem, found, _ = file_name.partition(".log")
    return stem + found if found else file_name


# ---- commits


def _folding(
    folder: str, boundaries: Callable[[], commits.Boundaries | None], unfolded: Unfolded = ALL_UNFOLDED
) -> ArrowTask:
    """Books, and marks if `boundaries` are given."""

    def fold(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        out = _Out(folder)
        known = boundaries()
        for batch in (batch for some in named for batch in record_files.commits_in(some, unfolded.chosen)):
            books = _Tally("record")
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
                    for marks in folded.marks.to_batches():
                        out.add("mark", marks)
            out.rows("silver.undecoded", refusals)
            out.rows("book", books.rows())
        yield from out.written()

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
            _filtered(batch, flags_of(column, partial(pc.equal, cluster_id))),
        )


# ---- commits of tables


def _commit_counts(context: Run, batch: Batch, books: pa.Table, files: Sequence[str]) -> None:
    kind = ["cluster_id", "source_kind", "kind"]
    summed = books.group_by(kind).aggregate([(name, "sum") for name in _COUNT.names])
    summed = summed.rename_columns([name.removesuffix("_sum") for name in summed.schema.names])
    rows_in, accounted = row_count(files), sum(summed["in_count"].to_pylist())
    if accounted != rows_in:
        raise AssertionError(f"decode was given {rows_in} rows and accounts for {accounted}")
    data = rows_to_table("silver.decode_count", [book | {"batch_id": batch.batch_id} for book in summed.to_pylist()])
    context.add("silver.decode_count", data, batch.batch_id, batch.transaction)
