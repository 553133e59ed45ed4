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

from collections.abc import Mapping, Sequence

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import WarehouseError
from spark_jobs import record_files
from spark_jobs.commits.concerned import concerned_by, concerned_groups, records_behind
from spark_jobs.commits.marks import boundaries_of, boundaries_of_any, commit_marks
from spark_jobs.commits.partial_marks import PARTIAL_MARK, fold
from spark_jobs.commits.stretches import Boundaries
from spark_jobs.commits.waiting import (
    LEAST_RECORDS,
    MOST_RECORDS,
    WaitingCommits,
    groups_named,
    keep_waiting,
    known_waiting,
    unfolded_of,
)
from spark_jobs.decoding.log_files import ends_before, keep_ends, log_files_in, parse_files
from spark_jobs.decoding.offset_commits import fold_commits
from spark_jobs.decoding.other_records import decode_records
from spark_jobs.decoding.output import COUNTS, DecodedFiles, DecodedRows
from spark_jobs.engine import Engine
from spark_jobs.group_rows import Place
from spark_jobs.plan import DECODE
from spark_jobs.stages.stage import Batch, Run, next_batch, row_count
from spark_jobs.task_files import WRITTEN, row_groups

NAME, INPUTS, OUTPUTS = DECODE.name, DECODE.reads, DECODE.writes
*_COUNTED, _MARKS = OUTPUTS


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
        written = DecodedFiles()
        if new_files:
            written.add(engine.spread(_records_of(new_files), decode_records(folder), WRITTEN))
        ends = ends_before(context.warehouse, batch.since["bronze.log_line"])
        if line_files:
            work, line_counts = log_files_in(line_files)
            older = _older(context, line_files, batch)
            written.add(engine.spread(work, parse_files(folder, older, ends), WRITTEN, sizes=line_counts))
        event_files = written.files["silver.group_event"]
        context.add("silver.group_event", event_files, batch.batch_id, batch.transaction)

        named = groups_named(event_files) if context.may_wait else None
        waiting = _waiting(context, batch, marked, new_files, named)
        is_behind = waiting is not None or marked["bronze.record"] < batch.since["bronze.record"]
        concerned = None if is_behind else concerned_groups(new_files, event_files)
        group_records = None if concerned is None else records_behind(context, concerned)
        boundaries: Boundaries | None = None
        if not is_behind:
            boundaries = boundaries_of_any(context) if group_records is None else boundaries_of(group_records)
        if new_files:
            folding = fold_commits(folder, engine.share(boundaries))
            written.add(engine.spread(_records_of(new_files), folding, WRITTEN))
        context.add("silver.undecoded", written.files["silver.undecoded"], batch.batch_id, batch.transaction)
        _commit_counts(context, batch, written.rows("count"), new_files + line_files)
        if boundaries is not None:
            partial = written.files["mark"]
            commit_marks(context, batch, engine, partial, group_records, boundaries, concerned, new_files)
        elif waiting is not None:
            _mark_awaited(context, batch, engine, waiting, folder, event_files)
        keep_ends(context.warehouse, batch.until["bronze.log_line"], ends, written.rows("end"))
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


def _mark_awaited(
    context: Run, batch: Batch, engine: Engine, waiting: WaitingCommits, folder: str, event_files: Sequence[str]
) -> None:
    """Commits marks of the groups that are due. It is no part of what the commit of a batch says to be done:
    what is done twice is folded again. `event_files`: the events of this batch."""
    rows = waiting.of_due()
    concerned = concerned_by(rows, event_files)
    group_records = records_behind(context, concerned)
    boundaries = boundaries_of(group_records)
    out = DecodedRows(folder)
    marks = fold(record_files.joined(rows), boundaries).marks if rows else PARTIAL_MARK.empty_table()
    for some in marks.to_batches():
        out.add("mark", some)
    written = DecodedFiles()
    for done in out.written():
        written.add(pa.Table.from_batches([done]))
    if concerned.num_rows:
        commit_marks(context, batch, engine, written.files["mark"], group_records, boundaries, concerned, None)
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
        written = DecodedFiles()
        if files:
            # Which groups have records among them decides which marks they cut.
            written.add(engine.spread(_records_of(files), decode_records(folder), WRITTEN))
        concerned = concerned_groups(files, written.files["silver.group_event"])
        group_records = None if concerned is None else records_behind(context, concerned)
        boundaries = boundaries_of_any(context) if group_records is None else boundaries_of(group_records)
        if files:
            unfolded = unfolded_of(context.warehouse, marked[record], until[record])
            folding = fold_commits(folder, engine.share(boundaries), unfolded)
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


def _older(context: Run, files: Sequence[str], batch: Batch) -> list[str]:
    """Files with lines that were decoded before."""
    if batch.since["bronze.log_line"] < 0:
        return []
    return sorted(set(context.warehouse.files("bronze.log_line", batch.until["bronze.log_line"])) - set(files))


def _commit_counts(context: Run, batch: Batch, counts: pa.Table, files: Sequence[str]) -> None:
    summed = counts.group_by(["cluster_id", "source_kind", "kind"]).aggregate([(name, "sum") for name in COUNTS])
    summed = summed.rename_columns([name.removesuffix("_sum") for name in summed.schema.names])
    rows_in, accounted = row_count(files), sum(summed["in_count"].to_pylist())
    if accounted != rows_in:
        raise AssertionError(f"decode was given {rows_in} rows and accounts for {accounted}")
    data = rows_to_table("silver.decode_count", [row | {"batch_id": batch.batch_id} for row in summed.to_pylist()])
    context.add("silver.decode_count", data, batch.batch_id, batch.transaction)
