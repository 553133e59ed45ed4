"""The marks of silver.commit_mark: joins the partial marks of a batch with what bronze holds already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.records import decode_record
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.warehouse.arrow_tables import arrow_schema, distinct
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least, held_in
from rebalance_audit.warehouse.storage import relation
from spark_jobs import record_files
from spark_jobs.commits import joining, joining_few, partial_marks, shares
from spark_jobs.commits.buffers import Ints
from spark_jobs.commits.concerned import (
    DUCK_COMMITS,
    NO_OFFSET,
    PLACE,
    Concerned,
    groups_in,
    last_records,
    least_of,
    records_of,
)
from spark_jobs.commits.keys import groups_of_commits
from spark_jobs.commits.partial_marks import PARTIAL_MARK
from spark_jobs.commits.stretches import Boundaries, Place
from spark_jobs.commits.waiting import numbers_by_row
from spark_jobs.engine import ArrowTask, Engine, LocalEngine
from spark_jobs.floors import floors_of
from spark_jobs.group_rows import GROUP, rows_of_groups
from spark_jobs.group_rows import Place as GroupPlace
from spark_jobs.stages.stage import Batch, Run, row_count
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table, row_groups, rows_for_driver


def boundaries_of_any(context: Run) -> Boundaries:
    """Places of group records of all groups: on a first run they are many, and their offsets are few bytes of them."""
    files = context.warehouse.files("silver.group_event")
    if not files:
        return {}
    with cursor() as db:
        listed = db.execute(
            f'SELECT {", ".join(PLACE)}, list("offset") offset_list FROM {relation(files)} '
            "WHERE source_kind = 'record' GROUP BY ALL"
        ).to_arrow_table()
    return _by_place(listed)


def boundaries_of(group_records: pa.Table) -> Boundaries:
    """Offsets of each group's records, in any order of rows: pyarrow promises none for the groups it returns."""
    return _by_place(group_records.group_by(list(PLACE)).aggregate([("offset", "list")]))


def _by_place(listed: pa.Table) -> Boundaries:
    places = zip(*(listed.column(name).to_pylist() for name in PLACE), strict=True)
    lists = listed.column("offset_list").combine_chunks()
    ends, offsets = lists.offsets.to_pylist(), lists.values.to_numpy()
    found: dict[Place, dict[str, Ints]] = {}
    for (*place, group_id), (begin, end) in zip(places, pairwise(ends), strict=True):
        cluster_id, topic, partition = place
        of_group = offsets[begin:end] if end - begin == 1 else np.unique(offsets[begin:end])
        found.setdefault((cluster_id, topic, partition), {})[group_id] = of_group
    return found


def commit_marks(
    context: Run,
    batch: Batch,
    engine: Engine,
    partial: Sequence[str],
    group_records: pa.Table | None,
    boundaries: Boundaries,
    concerned: Concerned,
    files: Sequence[str] | None,
) -> None:
    """Marks of this batch, in the files `partial`, joined with the known ones. A mark that a new group record cuts in
    two is folded again from bronze. So a mark depends on what bronze holds, not on the order or the batches in which
    that came. `group_records`: as `records_behind` gives them; None where any group is concerned. `files`: those that
    the batch brought; None if these are not all of its marks. Then the commit does not say that the batch is done, and
    transactions wait.
    """
    uncertain = _transactional_groups(context, batch, files or ())
    floor = floors_of(context.warehouse, ("cluster_id", "topic", "partition"), "offset")
    floor = floor.rename_columns(["cluster_id", "offsets_topic", "offsets_partition", "floor"])
    most = shares.ROWS if isinstance(engine, LocalEngine) else shares.ROWS_IN_DRIVER
    if concerned is None or (files is not None and row_count(partial) > most):
        boundaries = boundaries if concerned is None else boundaries_of_any(context)
        _commit_shares(context, batch, engine, partial, boundaries, uncertain, floor)
        return
    groups = groups_in(concerned)
    if uncertain.num_rows:
        groups = distinct(pa.concat_tables([groups, uncertain.select(GROUP.names)]), GROUP.names)
        group_records = records_of(context, groups)
        boundaries = boundaries_of(group_records)
    least = None if uncertain.num_rows else least_of(last_records(concerned, group_records))
    new = rows_for_driver(partial, PARTIAL_MARK)
    joined = None if least is None else _joined_few(context, new, group_records, groups, least, files)
    if joined is None:
        with cursor() as db:
            inputs = {"partial": new, "cut": group_records, "uncertain": uncertain, "floor": floor}
            for name, data in inputs.items():
                db.register(name, data)
            again = _look_at_known(db, context, groups, least)
            if least is not None and again.num_rows and joining.begin_before(db, least):
                least, group_records = None, records_of(context, groups)
                boundaries = boundaries_of(group_records)
                db.register("cut", group_records)
                again = _look_at_known(db, context, groups, None)
            db.register("rebuilt", _rebuilt(context, batch, engine, again, boundaries, least))
            joined = joining.join(db)
    # Most are no one's yet: named all the same, so that few files are asked for them.
    keys = pa.concat_tables([joined.replaced, joined.rows.select(joining.KEY.names)])
    keys = distinct(keys, joining.KEY.names)
    done = None if files is None else batch.transaction
    context.replace("silver.commit_mark", joined.rows, keys, batch.batch_id, done)


def _joined_few(
    context: Run,
    partial: pa.Table,
    group_records: pa.Table,
    groups: pa.Table,
    least: Least,
    files: Sequence[str] | None,
) -> joining.Joined | None:
    """None where marks are many, or commits must be folded again."""
    if max(partial.num_rows, group_records.num_rows, 0 if files is None else row_count(files)) > joining_few.FEW_ROWS:
        return None
    known = rows_of_groups(context.warehouse, "silver.commit_mark", None, groups, bound=least)
    return None if known.num_rows > joining_few.FEW_ROWS else joining_few.joined(partial, known, group_records)


def _commit_shares(
    context: Run,
    batch: Batch,
    engine: Engine,
    partial: Sequence[str],
    boundaries: Boundaries,
    uncertain: pa.Table,
    floor: pa.Table,
) -> None:
    """The same for marks of any group, in tasks."""
    events, known = (context.warehouse.files(name) for name in ("silver.group_event", "silver.commit_mark"))
    sources = shares.MarkFiles(partial=partial, known=known, events=events)
    work = shares.shares_of(sources)
    with context.staging_folder() as folder:
        shared = engine.share((uncertain, floor))
        written = engine.spread(work, shares.joining_shares(folder, shared), WRITTEN)
        again = shares.rows_in(written, "again")
        if again.num_rows:
            marks = _rebuilt(context, batch, engine, again, boundaries)
            rebuilt = engine.share(shares.Rebuilt(again=again, marks=marks))
            joining_again = shares.joining_shares(folder, shared, rebuilt)
            more = engine.spread(shares.with_any_of(work, again), joining_again, WRITTEN)
            written = pa.concat_tables([written, more])
        rows = files_by_table(written).get("silver.commit_mark", [])
        replaced = shares.rows_in(written, "replaced")
        if replaced.num_rows:
            context.replace("silver.commit_mark", rows, replaced, batch.batch_id, batch.transaction)
        else:
            context.add("silver.commit_mark", rows, batch.batch_id, batch.transaction)


def _rebuilt(
    context: Run, batch: Batch, engine: Engine, again: pa.Table, boundaries: Boundaries, least: Least | None = None
) -> pa.Table:
    """Partial marks of these groups, folded again from bronze: all of them, or those within this bound."""
    rebuilt = _folded_again(context, batch, engine, again, boundaries, least)
    torn = joining.torn_in(rebuilt)
    if torn.num_rows == 0:
        return rebuilt
    # Files that hold every second commit, for example: the commits of these groups are put in order one by one.
    whole = _folded_again(context, batch, engine, torn, boundaries, least, one_by_one=True)
    with cursor() as db:
        db.register("rebuilt", rebuilt)
        db.register("torn", torn)
        rest = db.execute("SELECT * FROM rebuilt ANTI JOIN torn USING (cluster_id, group_id)").to_arrow_table()
    return pa.concat_tables([rest.cast(PARTIAL_MARK), whole])


def _look_at_known(db: duckdb.DuckDBPyConnection, context: Run, groups: pa.Table, least: Least | None) -> pa.Table:
    """The groups whose commits are folded again. `least`: marks out of this bound are not looked at."""
    db.register("known", rows_of_groups(context.warehouse, "silver.commit_mark", None, groups, bound=least))
    joining.place_known(db)
    return joining.find_again(db)


_TRANSACTIONAL = f"{DUCK_COMMITS} AND coalesce(is_transactional, false)"
_MARKER = f"topic = '{OFFSETS_TOPIC}' AND copy = 0 AND coalesce(is_control, false)"


def _transactional_groups(context: Run, batch: Batch, files: Sequence[str]) -> pa.Table:
    """Groups about whose transactional commits this batch says something: commits themselves, or a marker."""
    if not files or not _has_transactions(files):
        return joining.GROUP_PLACE.empty_table()
    stretch = "cluster_id, topic, partition, producer_id"
    whole = relation(context.warehouse.files("bronze.record", batch.until["bronze.record"]))
    with cursor() as db:
        keys = db.execute(
            f"SELECT DISTINCT cluster_id, topic, partition, key FROM {whole} SEMI JOIN (SELECT DISTINCT {stretch} "
            f"FROM {relation(files)} WHERE ({_TRANSACTIONAL}) OR ({_MARKER})) USING ({stretch}) WHERE {_TRANSACTIONAL}"
        ).to_arrow_table()
    rows = set()
    for row in keys.to_pylist():
        try:
            group_id = decode_record(row["key"], None).key.group_id
        except DecodeError:
            continue  # it is in silver.undecoded
        rows.add((row["cluster_id"], group_id, row["topic"], row["partition"]))
    return pa.Table.from_pylist(
        [dict(zip(joining.GROUP_PLACE.names, row, strict=True)) for row in sorted(rows)], joining.GROUP_PLACE
    )


def _has_transactions(files: Sequence[str]) -> bool:
    with cursor() as db:
        found = db.execute(
            f"SELECT 1 FROM {relation(files)} "
            f"WHERE topic = '{OFFSETS_TOPIC}' AND (is_transactional OR is_control) LIMIT 1"
        ).fetchone()
    return found is not None


def _folded_again(
    context: Run,
    batch: Batch,
    engine: Engine,
    groups: pa.Table,
    known: Boundaries,
    least: Least | None,
    *,
    one_by_one: bool = False,
) -> pa.Table:
    """Marks of these groups from bronze. A transactional commit counts if its producer's next marker says so."""
    if groups.num_rows == 0:
        return PARTIAL_MARK.empty_table()
    renamed = groups.rename_columns(["cluster_id", "group_id", "topic", "partition"])
    partitions = renamed.select(["cluster_id", "topic", "partition"])
    named = zip(renamed["cluster_id"].to_pylist(), renamed["group_id"].to_pylist(), strict=True)
    floors = {place: 0 if least is None else least.by_value[place[1]] for place in named}
    files = context.warehouse.files("bronze.record", batch.until["bronze.record"])
    work = row_groups({record_files.TABLE: files})
    if (floor := min(floors.values())) > 0:
        places = zip(work["file"].to_pylist(), work["row_group"].to_pylist(), strict=True)
        reaches = [not held_in(file, "offset")[number].is_outside(floor, None) for file, number in places]
        work = work.filter(pa.array(reaches, pa.bool_()))
    asked = engine.share((known, floors, set(map(tuple, zip(*partitions.to_pydict().values(), strict=True)))))
    with context.staging_folder() as folder:
        written = files_by_table(engine.spread(work, _folding_again(folder, asked, one_by_one), WRITTEN))
        parts = [rows_for_driver(written.get("mark", []), PARTIAL_MARK)]
    held = sorted(set(work["file"].to_pylist()))
    parts += [
        partial_marks.fold(own, known, one_by_one=one_by_one, in_transactions=True).marks
        for rows in (_decided(held, partitions).to_batches() if held else ())
        if len(own := _from_floors(rows, floors))
    ]
    return pa.concat_tables(parts)


_Floors = dict[GroupPlace, int]
"""The wanted groups, each with the least offset that is wanted of its commits."""
_Asked = tuple[Boundaries, _Floors, set[tuple[str, str, int]]]
"""Boundaries, wanted groups, and the partitions their commits are in."""


def _folding_again(folder: str, asked: Callable[[], _Asked], one_by_one: bool) -> ArrowTask:
    def fold(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known, floors, partitions = asked()
        writer = TaskWriter(folder, {"mark": PARTIAL_MARK})
        for batch in (batch for some in named for batch in record_files.commits_in(some)):
            places = zip(*(batch[name].to_pylist() for name in ("cluster_id", "topic", "partition")), strict=True)
            is_plain = pc.invert(batch["is_transactional"].fill_null(False))
            own = batch.filter(pc.and_(is_plain, pa.array([place in partitions for place in places], pa.bool_())))
            own = _from_floors(own, floors)
            if own.num_rows:
                for marks in partial_marks.fold(own, known, one_by_one=one_by_one).marks.to_batches():
                    writer.add("mark", marks)
        yield from writer.written()

    return fold


def _from_floors(commits: pa.RecordBatch, floors: _Floors) -> pa.RecordBatch:
    """The commits of these groups from the floor of each on."""
    least = numbers_by_row(commits, groups_of_commits(commits), floors, without=NO_OFFSET)
    return commits.filter(pa.array(commits["offset"].to_numpy() >= least))


def _decided(files: Sequence[str], partitions: pa.Table) -> pa.Table:
    """Transactional commits of these partitions whose producer's next marker says that they count."""
    columns = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value")
    listed = ", ".join(f'"{column}"' for column in columns)
    with cursor() as db:
        db.register("wanted", partitions)
        found = db.execute(
            f"""
            SELECT {listed} FROM (
                SELECT *, first_value(CASE WHEN {_MARKER} THEN key[3:4] END IGNORE NULLS) OVER (
                    PARTITION BY cluster_id, topic, partition, producer_id ORDER BY "offset"
                    ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING
                ) next_marker
                FROM {relation(files)} SEMI JOIN wanted USING (cluster_id, topic, partition)
                WHERE ({_TRANSACTIONAL}) OR ({_MARKER})
            ) WHERE NOT ({_MARKER}) AND next_marker = '\\x00\\x01'::BLOB
            ORDER BY cluster_id, topic, partition, "offset"
            """
        ).to_arrow_table()
    types = arrow_schema("bronze.record")
    return found.cast(pa.schema([types.field(column) for column in columns]))
