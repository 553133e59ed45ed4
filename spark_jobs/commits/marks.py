"""The marks of silver.commit_mark: joins the partial marks of a batch with what bronze holds already."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.domain import tables
from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.domain.records import decode_record
from rebalance_audit.domain.wire import DecodeError
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least
from rebalance_audit.warehouse.storage import located, relation
from spark_jobs import record_files
from spark_jobs.commits import partial_marks as commits
from spark_jobs.engine import ArrowTask, Engine
from spark_jobs.floors import floors_of
from spark_jobs.group_rows import GROUP, places_table, rows_of_groups
from spark_jobs.stages.stage import Batch, Run
from spark_jobs.task_files import WRITTEN, TaskWriter, files_by_table, row_groups

_PLACE = ("cluster_id", "topic", "partition", "group_id")


Concerned: TypeAlias = pa.Table | None
"""(cluster, group) of the groups whose marks the news may change; None: any group."""
_KEYS_AT_MOST = 100_000
_NO_OFFSET = (1 << 63) - 1
"""Beyond every offset."""


def concerned_groups(files: Sequence[str], event_files: Sequence[str]) -> Concerned:
    """Groups with commits or records in the news. If little is new they are few, and only their marks are made. None if
    there are too many keys to read one by one.
    """
    if not files:
        return GROUP.empty_table()
    with cursor() as db:
        keys = db.execute(
            f"SELECT DISTINCT cluster_id, key FROM {relation(files)} WHERE {_DUCK_COMMITS} LIMIT {_KEYS_AT_MOST + 1}"
        ).fetchall()
        if len(keys) > _KEYS_AT_MOST:
            return None
        found = set()
        if event_files:
            found |= set(
                db.execute(
                    f"SELECT DISTINCT cluster_id, group_id FROM {relation(event_files)} "
                    "WHERE source_kind = 'record' AND group_id IS NOT NULL"
                ).fetchall()
            )
    for cluster_id, key in keys:
        try:
            found.add((cluster_id, decode_record(key, None).key.group_id))
        except DecodeError:
            continue  # it is in silver.undecoded
    return places_table(found)


def group_records_of(context: Run, concerned: Concerned) -> pa.Table:
    """Where known group records stand. The events of this batch are committed already, so theirs are among them."""
    columns = [*_PLACE, "offset"]
    where, asked = "source_kind = 'record'", ["source_kind"]
    known = rows_of_groups(context.warehouse, "silver.group_event", columns, concerned, where, asked=asked)
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
    context: Run,
    batch: Batch,
    engine: Engine,
    partial: pa.Table,
    group_records: pa.Table,
    concerned: Concerned,
    files: Sequence[str],
) -> None:
    """Marks of this batch joined with the known ones. A mark that a new group record cuts in two is folded again from
    bronze. So a mark depends on what bronze holds, not on the order or the batches in which that came.
    """
    uncertain = _transactional_groups(context, batch, files)
    if concerned is not None and uncertain.num_rows:
        more = uncertain.select(GROUP.names)
        concerned = pa.concat_tables([concerned, more]).group_by(GROUP.names).aggregate([])
        group_records = group_records_of(context, concerned)
    floors = floors_of(context.warehouse, ("cluster_id", "topic", "partition"), "offset")
    inputs = {
        "partial": partial, "cut": group_records, "uncertain": uncertain,
        "floor": floors.rename_columns(["cluster_id", "offsets_topic", "offsets_partition", "floor"]),
    }  # fmt: skip
    with cursor() as db:
        for name, data in inputs.items():
            db.register(name, data)
        place = "cluster_id, group_id, topic, partition, offsets_topic, offsets_partition, stretch_from"
        least = None if concerned is None or uncertain.num_rows else _least(db, files, concerned)
        again = _place_known(db, context, concerned, place, least)
        if least is not None and again.num_rows:
            again = _place_known(db, context, concerned, place, None)
        db.register("rebuilt", _folded_again(context, batch, engine, again, group_records))
        torn = db.execute(_interleaved(place, "SELECT * FROM rebuilt")).to_arrow_table()
        if torn.num_rows:
            # Files that hold every second commit, for example: the commits of these groups are put in order one by one.
            whole = _folded_again(context, batch, engine, torn, group_records, one_by_one=True)
            db.register("whole", whole)
            db.register("torn", torn)
            rest = db.execute("SELECT * FROM rebuilt ANTI JOIN torn USING (cluster_id, group_id)").to_arrow_table()
            db.unregister("rebuilt")
            db.register("rebuilt", pa.concat_tables([rest.cast(commits.PARTIAL_MARK), whole]))
        untouched = "NOT EXISTS (SELECT 1 FROM again a WHERE a.cluster_id = p.cluster_id AND a.group_id = p.group_id)"
        db.execute(
            f"CREATE TEMP TABLE old AS SELECT p.* FROM placed p WHERE NOT ({untouched}) "
            "OR EXISTS (SELECT 1 FROM partial n WHERE "
            + " AND ".join(f"n.{column} = p.{column}" for column in place.split(", "))
            + ")"
        )
        columns = ", ".join(c.name for c in tables.SILVER_COMMIT_MARK.columns)
        db.execute(
            f"""
            CREATE TEMP TABLE part AS SELECT *, (
                coalesce(max(last_offset) OVER (
                    PARTITION BY {place} ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) >= first_offset, false) OR (commit_count > 1 AND gap_from_offset IS NULL)
            ) is_unknown, lag(struct_pack(f := last_offset, a := last_at_ms, p := last_position))
                OVER (PARTITION BY {place} ORDER BY first_offset) previous,
                lead(struct_pack(a := first_at_ms, p := first_position))
                OVER (PARTITION BY {place} ORDER BY first_offset) later
            FROM (
                SELECT {_PARTIAL} FROM rebuilt
                UNION ALL SELECT {_PARTIAL} FROM partial p WHERE {untouched}
                UNION ALL SELECT {_PARTIAL} FROM old p WHERE {untouched}
                -- What retention has deleted cannot be folded again: marks stay, their counts are upper bounds, and
                -- the longest gap of two that overlap is not known. Nor is that of marks of earlier releases.
                UNION ALL SELECT {_PARTIAL} FROM old p JOIN floor f USING (cluster_id, offsets_topic,
                    offsets_partition) WHERE NOT ({untouched}) AND p.first_offset < f.floor
            )
            """
        )
        db.execute(
            f"""
            CREATE TEMP TABLE gap AS SELECT *, greatest(gap_to_at_ms - gap_from_at_ms, 0) gap_ms FROM (
                SELECT {place}, {_GAP_ENDS.replace(_AFTER, _SEEN_AFTER)} FROM part WHERE gap_from_offset IS NOT NULL
                UNION ALL SELECT {place}, previous.f, previous.a, previous.p, first_offset, first_at_ms,
                    first_position, {_NEXT} FROM part WHERE previous IS NOT NULL
            ) UNION ALL SELECT {place}, {", ".join("NULL" for _ in _GAP_ENDS.split(","))}, second_gap_ms FROM part
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
                    SELECT {place}, min(first_offset) first_offset, arg_min(first_at_ms, first_offset) first_at_ms,
                       max(last_offset) last_offset, arg_max(last_at_ms, last_offset) last_at_ms,
                       sum(commit_count)::BIGINT commit_count,
                       arg_min(topic_id, first_offset) FILTER (topic_id IS NOT NULL) topic_id,
                       arg_min_null(first_position, first_offset) first_position,
                       arg_max_null(last_position, last_offset) last_position,
                       arg_min_null({_NEXT_AT}, first_offset) next_at_ms,
                       arg_min_null({_NEXT_POSITION}, first_offset) next_position,
                       bool_or(is_unknown) is_unknown
                    FROM part GROUP BY {place}
                ) LEFT JOIN (
                    SELECT {place}, max(gap_ms, 2) gaps, arg_min(
                        struct_pack({", ".join(f"{name} := {name}" for name in _GAP_ENDS.split(", "))}),
                        struct_pack(ms := -gap_ms, f := gap_from_offset)
                    ) FILTER (gap_from_offset IS NOT NULL) longest
                    FROM gap GROUP BY {place}
                ) USING ({place})
            ) ORDER BY cluster_id, group_id, topic, partition, first_offset
            """
        ).to_arrow_table()
        db.register("data", data)
        grain = ", ".join(tables.SILVER_COMMIT_MARK.key)
        keys = db.execute(f"SELECT {grain} FROM old UNION SELECT {grain} FROM data").to_arrow_table()
    rows = data.cast(arrow_schema("silver.commit_mark"))
    context.replace("silver.commit_mark", rows, keys, batch.batch_id, batch.transaction)


def _least(db: duckdb.DuckDBPyConnection, files: Sequence[str], concerned: pa.Table) -> Least:
    """The bound on the known marks of each group that the news in these files may change, if no group is folded again.

    All that is new in a partition of the offsets topic has the least new offset or a later one. What ends before the
    last group record before that is in an earlier stretch than any new commit, and no new group record cuts it.
    """
    where = "cluster_id, topic, partition"
    floors = dict.fromkeys(concerned["group_id"].to_pylist(), _NO_OFFSET)
    if not files:
        return Least("last_offset", "group_id", floors)
    rows = db.execute(
        f"""
        WITH news AS (SELECT {where}, min("offset") AS first_new FROM {relation(files)} GROUP BY ALL),
        place AS (
            SELECT {where}, group_id FROM cut
            UNION SELECT cluster_id, offsets_topic, offsets_partition, group_id FROM partial
        ),
        before AS (
            SELECT {where}, group_id, max("offset") AS last_old FROM cut JOIN news USING ({where})
            WHERE "offset" < first_new GROUP BY ALL
        )
        SELECT group_id, min(coalesce(last_old, -1)) FROM place JOIN news USING ({where})
        LEFT JOIN before USING ({where}, group_id) GROUP BY group_id
        """
    ).fetchall()
    floors |= {group_id: last_old + 1 for group_id, last_old in rows}
    return Least("last_offset", "group_id", floors)


def _place_known(
    db: duckdb.DuckDBPyConnection, context: Run, concerned: Concerned, place: str, least: Least | None
) -> pa.Table:
    """Make the tables `placed`, the known marks with the stretch that each is in, and `again`, the groups whose commits
    are folded again, which is returned. `least`: marks out of this bound are not looked at."""
    db.register("known", rows_of_groups(context.warehouse, "silver.commit_mark", None, concerned, least=least))
    stretch = "coalesce(c.offset, -1)"
    same = (
        "m.cluster_id = c.cluster_id AND m.group_id = c.group_id AND m.offsets_topic = c.topic"
        " AND m.offsets_partition = c.partition"
    )
    db.execute(
        f"CREATE OR REPLACE TEMP TABLE placed AS SELECT m.*, {stretch} stretch_from FROM known m "
        f"ASOF LEFT JOIN cut c ON {same} AND m.first_offset > c.offset"
    )
    db.execute(
        "CREATE OR REPLACE TEMP TABLE again AS SELECT * FROM uncertain UNION SELECT DISTINCT m.cluster_id, m.group_id, "
        "m.offsets_topic, m.offsets_partition FROM placed m "
        f"ASOF LEFT JOIN cut c ON {same} AND m.last_offset > c.offset WHERE {stretch} <> m.stretch_from"
    )
    # New commits that lie between known ones fill a hole, and another gap may be the longest then.
    db.execute(
        f"INSERT INTO again SELECT * FROM ({_interleaved(place, 'SELECT * FROM partial', 'SELECT * FROM placed')}) "
        "EXCEPT SELECT * FROM again"
    )
    return db.execute("SELECT * FROM again").to_arrow_table()


_PARTIAL = ", ".join(commits.PARTIAL_MARK.names)
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
_GROUP_PLACE = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("group_id", pa.string()),
        ("offsets_topic", pa.string()),
        ("offsets_partition", pa.int32()),
    ]
)
_DUCK_COMMITS = (
    f"topic = '{OFFSETS_TOPIC}' AND copy = 0 AND NOT coalesce(is_control, false) "
    "AND coalesce(key[1:2] IN ('\\x00\\x00'::BLOB, '\\x00\\x01'::BLOB), false)"
)
_TRANSACTIONAL = f"{_DUCK_COMMITS} AND coalesce(is_transactional, false)"
_MARKER = f"topic = '{OFFSETS_TOPIC}' AND copy = 0 AND coalesce(is_control, false)"


def _transactional_groups(context: Run, batch: Batch, files: Sequence[str]) -> pa.Table:
    """Groups about whose transactional commits this batch says something: commits themselves, or a marker."""
    if not files or not _has_transactions(files):
        return _GROUP_PLACE.empty_table()
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
    return pa.Table.from_pylist([dict(zip(_GROUP_PLACE.names, row, strict=True)) for row in sorted(rows)], _GROUP_PLACE)


def _has_transactions(files: Sequence[str]) -> bool:
    with cursor() as db:
        found = db.execute(
            f"SELECT 1 FROM {relation(files)} "
            f"WHERE topic = '{OFFSETS_TOPIC}' AND (is_transactional OR is_control) LIMIT 1"
        ).fetchone()
    return found is not None


def _interleaved(place: str, *parts: str) -> str:
    """The query for groups with partial marks that are not one behind the other."""
    every = " UNION ALL ".join(f"SELECT {place}, first_offset, last_offset FROM ({part})" for part in parts)
    return (
        f"SELECT DISTINCT {', '.join(_GROUP_PLACE.names)} FROM (SELECT *, max(last_offset) OVER (PARTITION BY {place} "
        f"ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) reached FROM ({every})) "
        "WHERE reached >= first_offset"
    )


def _folded_again(
    context: Run,
    batch: Batch,
    engine: Engine,
    groups: pa.Table,
    group_records: pa.Table,
    *,
    one_by_one: bool = False,
) -> pa.Table:
    """Marks of these groups from all of bronze. A transactional commit counts if its producer's next marker says so."""
    if groups.num_rows == 0:
        return commits.PARTIAL_MARK.empty_table()
    files = context.warehouse.files("bronze.record", batch.until["bronze.record"])
    renamed = groups.rename_columns(["cluster_id", "group_id", "topic", "partition"])
    partitions = renamed.select(["cluster_id", "topic", "partition"])
    wanted = set(zip(renamed["cluster_id"].to_pylist(), renamed["group_id"].to_pylist(), strict=True))
    known = boundaries_of(group_records)
    asked = engine.share((known, wanted, set(map(tuple, zip(*partitions.to_pydict().values(), strict=True)))))
    with context.staging_folder() as folder:
        written = files_by_table(
            engine.spread(row_groups({record_files.TABLE: files}), _folding_again(folder, asked, one_by_one), WRITTEN)
        )
        parts = [pq.read_table(path, filesystem=fs) for fs, path in map(located, written.get("mark", []))]
    decided = _decided(files, partitions)
    parts += [
        _of_groups(commits.fold(rows, known, one_by_one=one_by_one).marks, wanted) for rows in decided.to_batches()
    ]
    return pa.concat_tables([commits.PARTIAL_MARK.empty_table(), *parts])


_Asked = tuple[commits.Boundaries, set[tuple[str, str]], set[tuple[str, str, int]]]
"""Boundaries, wanted groups, and the partitions their commits are in."""


def _folding_again(folder: str, asked: Callable[[], _Asked], one_by_one: bool) -> ArrowTask:
    def fold(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        known, wanted, partitions = asked()
        writer = TaskWriter(folder, {"mark": commits.PARTIAL_MARK})
        for batch in (batch for some in named for batch in record_files.commits_in(some)):
            places = zip(*(batch[name].to_pylist() for name in ("cluster_id", "topic", "partition")), strict=True)
            is_plain = pc.invert(batch["is_transactional"].fill_null(False))
            own = batch.filter(pc.and_(is_plain, pa.array([place in partitions for place in places], pa.bool_())))
            if own.num_rows:
                folded = commits.fold(own, known, one_by_one=one_by_one)
                for marks in _of_groups(folded.marks, wanted).to_batches():
                    writer.add("mark", marks)
        yield from writer.written()

    return fold


def _of_groups(marks: pa.Table, wanted: set[tuple[str, str]]) -> pa.Table:
    pairs = zip(marks["cluster_id"].to_pylist(), marks["group_id"].to_pylist(), strict=True)
    return marks.filter(pa.array([pair in wanted for pair in pairs], pa.bool_()))


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
