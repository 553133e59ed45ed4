"""Rows of many tasks in the order of their ids, which are by chance: each file then has a part of them, and a run that
replaces a few rows need not look into all files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.file_sizes import leading_column
from rebalance_audit.warehouse.footers import row_count_in
from spark_jobs.engine import ArrowTask, Engine, parcel
from spark_jobs.task_files import WRITTEN, TaskWriter, batches_of, files_by_table, row_groups

_BUCKET_ROWS = 20_000
_ROWS_AT_ONCE = 2_000
_PARCEL_ROWS = 500
_DIGITS = 4
"""Of an id's hash, so many hexadecimal digits part the rows evenly."""


def add_rows(writer: TaskWriter, table: str, rows: pa.RecordBatch, recent: Mapping[str, int]) -> None:
    """Incidents that are open, or end at the moment `recent` of their cluster or later, go into files of their own, and
    so do marks from that moment on: each run asks for them, and by their ids they would be in all files."""
    since = pa.array([recent.get(cluster_id, 0) for cluster_id in rows["cluster_id"].to_pylist()], pa.int64())
    is_recent = pc.greater_equal(rows["last_at_ms" if table == "gold.incident" else "at_ms"], since)
    if table == "gold.incident":
        is_recent = pc.or_kleene(pc.equal(rows["status"], "open"), is_recent)
    writer.add(table, rows, is_recent.fill_null(True).to_numpy(zero_copy_only=False))


def ordered_by_id(
    engine: Engine, files: Mapping[str, Sequence[str]], recent: Mapping[str, int], folder: str
) -> dict[str, list[str]]:
    """By table, new files with all rows of these. `recent`: as in `add_rows`."""
    bounds: dict[str, list[str]] = {}
    buckets: dict[str, int] = {}
    count = 0
    for table, of_table in files.items():
        parts = 1 + sum(map(row_count_in, of_table)) // _BUCKET_ROWS
        bounds[table] = [f"{part * 16**_DIGITS // parts:0{_DIGITS}x}" for part in range(1, parts)]
        buckets[table] = count
        count += parts
    work = row_groups(files)
    return files_by_table(
        engine.gather(work, _packing(bounds, buckets), _writing(folder, recent), WRITTEN, buckets=count)
    )


def _packing(bounds: Mapping[str, Sequence[str]], buckets: Mapping[str, int]) -> ArrowTask:
    """`bounds`: by table the least hash of each bucket but the first; `buckets`: the number of its first."""

    def pack(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        waiting: dict[tuple[int, str], list[pa.RecordBatch]] = defaultdict(list)
        for named in (row for some in work for row in some.to_pylist()):
            table = named["table"]
            key = leading_column(table)
            for batch in batches_of(named, arrow_schema(table).names, _ROWS_AT_ONCE):
                rows = batch.sort_by(key)
                hashes = [row_id.rpartition(":")[2] for row_id in rows[key].to_pylist()]
                cuts = [0, *np.searchsorted(hashes, bounds[table]).tolist(), len(hashes)]
                for part, (begin, end) in enumerate(pairwise(cuts)):
                    if begin < end:
                        of_bucket = waiting[buckets[table] + part, table]
                        of_bucket.append(rows.slice(begin, end - begin))
                        if sum(map(len, of_bucket)) >= _PARCEL_ROWS:
                            yield parcel(buckets[table] + part, 0, table, pa.concat_batches(of_bucket))
                            of_bucket.clear()
        for (bucket, table), of_bucket in waiting.items():
            if of_bucket:
                yield parcel(bucket, 0, table, pa.concat_batches(of_bucket))

    return pack


def _writing(folder: str, recent: Mapping[str, int]) -> ArrowTask:
    def write(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        rows = (row for some in parcels for row in some.to_pylist())
        for _, of_bucket in groupby(rows, key=itemgetter("bucket")):
            parts: dict[str, list[pa.Table]] = defaultdict(list)
            for one in of_bucket:
                parts[one["kind"]].append(pa.ipc.open_stream(one["rows"]).read_all())
            for table, of_table in parts.items():
                for batch in pa.concat_tables(of_table).sort_by(leading_column(table)).to_batches():
                    add_rows(writer, table, batch, recent)
        yield from writer.written()

    return write
