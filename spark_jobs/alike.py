"""Checks many rows by tasks on any engine: rows that do not differ in anything that is checked are looked at once.
Checks few rows in this process, in memory.

It is not part of `quality`, since a worker imports the module of the task that it runs: Great Expectations would take
each worker seconds and a hundred megabytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.footers import row_count_in
from rebalance_audit.warehouse.kept_columns import rows_on_disk
from spark_jobs.checks import KEY_CHECK, Check, Verdict, checks_of, verdict_of
from spark_jobs.compiled_checks import do_laws_hold, key_hashes, kinds_of_rows, verdicts_of
from spark_jobs.engine import ArrowTask, Engine, parcel
from spark_jobs.stages.stage import row_count

_FEW_ROWS = 2_000
"""So few are in memory at once."""
_PARTS_PER_TASK = 2
_FILES_AT_ONCE = 500
_HASHES_OF_A_PARCEL = 1 << 19
_HASHES_OF_A_BUCKET = 8_000_000
_KINDS, _HASHES = "kinds", "hashes"
_FOUND = pa.schema([("kinds", pa.binary()), ("is_repeated", pa.bool_())])


def verdicts_in_tasks(engine: Engine, name: str, files: Sequence[str], batch_id: str) -> list[Verdict]:
    """The verdicts that `compiled_checks.verdicts_of` reaches on the rows of these files, with little memory in this
    process. It looks at each row only if something is broken: for counts and examples."""
    count = row_count(files)
    if not count:
        return []
    kinds, is_repeated = alike_rows(engine, name, files)
    checks = checks_of(tables.BY_NAME[name])
    if is_repeated or any(_is_broken(kinds, check) for check in checks):
        return verdicts_of(name, files, batch_id)
    return [verdict_of(name, check, batch_id, count, 0, ()) for check in checks]


def verdicts_in_this_process(name: str, rows: pa.Table | Sequence[str], batch_id: str) -> list[Verdict]:
    """The same verdicts. On few rows DuckDB is asked for the laws alone, and counts only if something is broken: to
    bind thirty sums over a wide table takes longer than to read the rows."""
    if name.startswith("bronze."):  # a landing file may have any form
        return verdicts_of(name, rows, batch_id)
    checks = checks_of(tables.BY_NAME[name])
    plain = [check for check in checks if check.name != KEY_CHECK and not check.is_law]
    key = tables.BY_NAME[name].key
    held = _few_rows(rows, list(dict.fromkeys([*key, *(check.column for check in plain)])))
    if (
        held is None
        or any(_is_broken(held, check) for check in plain)
        or _is_repeated(held.select(key))
        or not do_laws_hold(name, rows)
    ):
        return verdicts_of(name, rows, batch_id)
    return [verdict_of(name, check, batch_id, held.num_rows, 0, ()) for check in checks]


def _few_rows(rows: pa.Table | Sequence[str], columns: Sequence[str]) -> pa.Table | None:
    """These columns, from the files themselves, whatever is kept of them; None if rows are many or none, or lack a
    column."""
    if isinstance(rows, pa.Table):
        parts = [rows]
    else:
        parts, left = [], _FEW_ROWS
        for file in rows:
            left -= row_count_in(file)
            if left < 0:  # of a large commit no other file is opened
                return None
            parts.append(rows_on_disk(file, columns))
    if not 0 < sum(part.num_rows for part in parts) <= _FEW_ROWS:
        return None
    if not all(set(columns) <= set(part.schema.names) for part in parts):
        return None
    return pa.concat_tables(part.select(columns) for part in parts)


def _is_repeated(keys: pa.Table) -> bool:
    return len(set(zip(*(column.to_pylist() for column in keys.columns), strict=True))) < keys.num_rows


def _is_broken(kinds: pa.Table, check: Check) -> bool:
    if check.name == KEY_CHECK:
        return False  # shown by the hashes
    found = kinds[check.column]
    if check.values is None:
        return bool(found.null_count)
    return not pc.all(pc.is_in(found.drop_null(), pa.array(check.values)), min_count=0).as_py()  # true of no value


def alike_rows(engine: Engine, name: str, files: Sequence[str]) -> tuple[pa.Table, bool]:
    """One row of each kind in the table's files, in no order, and whether two rows may have the same key."""
    buckets = max(1, row_count(files) // _HASHES_OF_A_BUCKET)
    parts = engine.tasks_at_once * _PARTS_PER_TASK
    chunks = [list(files[at::parts]) for at in range(min(parts, len(files)))]
    work = pa.table({"files": pa.array(chunks, pa.list_(pa.string()))})
    found = engine.gather(work, _looking(name, buckets), _repeated, _FOUND, buckets=buckets)
    rows = [pa.ipc.open_stream(kinds).read_all() for kinds in found["kinds"].drop_null().to_pylist()]
    whole = pa.concat_tables(rows).drop_columns(["n"])
    return whole.group_by(whole.schema.names).aggregate([]), any(found["is_repeated"].to_pylist())


def _looking(name: str, buckets: int) -> ArrowTask:
    def look(work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for files in (row["files"] for some in work for row in some.to_pylist()):
            for batch in kinds_of_rows(name, files).combine_chunks().to_batches():
                yield parcel(0, 0, _KINDS, batch)
            for start in range(0, len(files), _FILES_AT_ONCE):
                for batch in key_hashes(name, files[start : start + _FILES_AT_ONCE]).to_batches(_HASHES_OF_A_PARCEL):
                    of_rows = batch["h"].to_numpy() % buckets
                    for bucket in range(buckets):
                        yield parcel(bucket, 0, _HASHES, batch.filter(pa.array(of_rows == bucket)))

    return look


def _repeated(parcels: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for some in parcels for row in some.to_pylist())
    for _, of_bucket in groupby(rows, key=itemgetter("bucket")):
        hashes: list[Any] = []
        kinds: list[bytes] = []
        for one in of_bucket:
            if one["kind"] == _KINDS:
                kinds.append(one["rows"])
            else:
                hashes.append(pa.ipc.open_stream(one["rows"]).read_all()["h"].to_numpy())
        ordered = np.sort(np.concatenate(hashes)) if hashes else np.empty(0, np.uint64)
        is_repeated = bool((ordered[1:] == ordered[:-1]).any())
        found = {"kinds": [*kinds, None], "is_repeated": [is_repeated] * (len(kinds) + 1)}
        yield pa.RecordBatch.from_pydict(found, _FOUND)
