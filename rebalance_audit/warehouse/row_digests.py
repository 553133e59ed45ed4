"""The digest of the rows that one landing file brought: the same in whatever files and order the rows stand later.

Rows are sorted by the table's key, texts by their bytes. A column's digest is the SHA-256 of three SHA-256, one after
the other, of

    a byte for each row: 1 where there is a value, 0 for null;
    eight bytes for each row, little-endian: the number, 1 or 0 for true or false, of a text its length, of null 0;
    the bytes of the texts, one after the other.

Of a list the text is its JSON without blanks and with sorted names, bytes in it hexadecimal. The digest of the rows is
the SHA-256 of the columns' digests, one after the other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rebalance_audit.warehouse.arrow_tables import whole
from rebalance_audit.warehouse.footers import columns_of
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.spreading import Spread, SpreadOf, in_this_process, spread_over
from rebalance_audit.warehouse.storage import located, relation

LANDING = "landing"
_ROWS_AT_ONCE = 100_000
_ROWS_OF_A_FILE_AT_ONCE = 20_000
_LARGE_BYTES = 1 << 14
"""To open a smaller file takes longer than to sort its rows."""
_DIGEST = pa.schema([(LANDING, pa.string()), ("rows", pa.int64()), ("sha256", pa.string())])
_PART_BYTES = 1 << 18
"""Bytes of Parquet sorted at once: a million commits are 8 MB there and 800 MB while they are sorted. With four
times as many a driver held 70 MB more, at the same CPU time."""


@dataclass(frozen=True, slots=True)
class RowDigest:
    rows: int
    sha256: str


class _ColumnHash:
    """The hash of a column whose rows come piece by piece."""

    def __init__(self) -> None:
        self._parts = hashlib.sha256(), hashlib.sha256(), hashlib.sha256()

    def add(self, values: pa.Array) -> None:
        present, numbers, texts = self._parts
        count = len(values)
        if values.null_count == count:
            present.update(bytes(count))
            numbers.update(bytes(8 * count))
            return
        present.update(pc.is_valid(values).cast(pa.uint8()).to_numpy().data)
        if pa.types.is_list(values.type):
            values = pa.array([None if v is None else _list_text(v) for v in values.to_pylist()], pa.string())
        if pa.types.is_string(values.type) or pa.types.is_binary(values.type):
            whole = pc.fill_null(values, pa.scalar("" if pa.types.is_string(values.type) else b"", values.type))
            numbers.update(_as_bytes(pc.binary_length(whole)))
            _, offsets, data = whole.buffers()
            ends = np.frombuffer(offsets, np.int32)[whole.offset : whole.offset + count + 1]
            if data is not None:
                texts.update(memoryview(data)[ends[0] : ends[-1]])
            return
        numbers.update(_as_bytes(pc.fill_null(values, pa.scalar(0).cast(values.type)).cast(pa.int64())))

    @property
    def digest(self) -> bytes:
        return hashlib.sha256(b"".join(part.digest() for part in self._parts)).digest()


def _as_bytes(numbers: pa.Array) -> memoryview:
    return np.ascontiguousarray(numbers.to_numpy(zero_copy_only=False), "<i8").data


def _list_text(value: Any) -> str:
    return json.dumps(value, default=bytes.hex, sort_keys=True, separators=(",", ":"))


class _LandingHash:
    def __init__(self, columns: int) -> None:
        self._columns = [_ColumnHash() for _ in range(columns)]
        self._count = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self._count += rows.num_rows
        for column, values in zip(self._columns, rows.columns, strict=True):
            column.add(values)

    @property
    def digest(self) -> RowDigest:
        return RowDigest(self._count, hashlib.sha256(b"".join(c.digest for c in self._columns)).hexdigest())


NO_ROWS = _LandingHash(0).digest


def digests_by_landing(
    files: Sequence[str],
    schema: pa.Schema,
    key: Sequence[str],
    landings: Sequence[str] | None = None,
    spread_of: SpreadOf = in_this_process,
) -> dict[str, RowDigest]:
    """The digests of the rows in these files, by the landing file that brought them; `landings`: only of these."""
    if not files:
        return {}
    order = [LANDING, *(name for name in key if name in schema.names)]
    if landings is None and (found := _part_by_part(files, schema, order, spread_of)) is not None:
        return found
    return _sorted_anew(files, schema, order, landings)


def _part_by_part(
    files: Sequence[str], schema: pa.Schema, order: Sequence[str], spread_of: SpreadOf
) -> dict[str, RowDigest] | None:
    """None if two parts have rows of one landing file."""
    sizes = {file: fs.get_file_info(path).size for file, (fs, path) in zip(files, map(located, files), strict=True)}
    parts = _parts(sizes)
    if (spread := spread_of(sum(sizes.values()))) is None:
        found: Iterable[tuple[str, RowDigest]] = chain.from_iterable(_of_part(p, schema, order).items() for p in parts)
    else:
        found = _in_tasks(spread, parts, schema, order)
    digests: dict[str, RowDigest] = {}
    for landing, digest in found:
        if landing in digests:
            return None
        digests[landing] = digest
    return digests


def _parts(sizes: Mapping[str, int]) -> list[list[str]]:
    """A large file by itself, smaller ones together."""
    large = [[file] for file, size in sizes.items() if size >= _LARGE_BYTES]
    parts: list[list[str]] = []
    left = 0
    for file, size in sizes.items():
        if size >= _LARGE_BYTES:
            continue
        if not parts or size > left:
            parts.append([])
            left = _PART_BYTES
        parts[-1].append(file)
        left -= size
    return large + parts


def _of_part(files: Sequence[str], schema: pa.Schema, order: Sequence[str]) -> dict[str, RowDigest]:
    found = _as_it_stands(files[0], schema, order) if len(files) == 1 else None
    return _sorted_anew(files, schema, order) if found is None else found


def _in_tasks(
    spread: Spread, parts: Sequence[Sequence[str]], schema: pa.Schema, order: Sequence[str]
) -> Iterator[tuple[str, RowDigest]]:
    def look(files: Sequence[str]) -> Iterator[pa.RecordBatch]:
        rows = [(landing, each.rows, each.sha256) for landing, each in _of_part(files, schema, order).items()]
        yield pa.RecordBatch.from_pylist([dict(zip(_DIGEST.names, row, strict=True)) for row in rows], _DIGEST)

    for row in spread_over(spread, parts, look, _DIGEST).to_pylist():
        yield row[LANDING], RowDigest(row["rows"], row["sha256"])


def _sorted_anew(
    files: Sequence[str], schema: pa.Schema, order: Sequence[str], landings: Sequence[str] | None = None
) -> dict[str, RowDigest]:
    kinds = {frozenset(columns_of(file)) for file in files}  # an older release wrote fewer
    there = frozenset().union(*kinds)
    listed = ", ".join(f'"{name}"' for name in schema.names if name in there)
    by = ", ".join(f'"{name}"' for name in order)
    running: dict[str, _LandingHash] = {}
    with cursor() as db:
        condition = ""
        if landings is not None:
            db.register("wanted", pa.table({LANDING: pa.array(landings, pa.string())}))
            condition = f" SEMI JOIN wanted USING ({LANDING})"
        rows = db.execute(f"SELECT {listed} FROM {relation(files, are_alike=len(kinds) == 1)}{condition} ORDER BY {by}")
        for batch in rows.to_arrow_reader(_ROWS_AT_ONCE):
            for part in whole(pa.Table.from_batches([batch]), schema).to_batches():
                _add(running, part)
    return {landing: each.digest for landing, each in running.items()}


def _as_it_stands(file: str, schema: pa.Schema, order: Sequence[str]) -> dict[str, RowDigest] | None:
    """None if the file is not sorted. Collectors write files that are: some of their rows are in memory at a time, and
    to sort a million again takes a second.
    """
    running: dict[str, _LandingHash] = {}
    last = schema.empty_table()
    fs, path = located(file)
    with pq.ParquetFile(path, filesystem=fs) as opened:
        for batch in opened.iter_batches(_ROWS_OF_A_FILE_AT_ONCE, columns=schema.names, use_threads=False):
            rows = whole(pa.Table.from_batches([batch]), schema)
            if not _is_sorted(pa.concat_tables([last, rows]), order):
                return None
            last = rows.slice(rows.num_rows - 1)
            for part in rows.to_batches():
                _add(running, part)
    return {landing: each.digest for landing, each in running.items()}


def _add(running: dict[str, _LandingHash], batch: pa.RecordBatch) -> None:
    start = 0
    runs = pc.run_end_encode(batch.column(LANDING))
    for landing, end in zip(runs.values.to_pylist(), runs.run_ends.to_pylist(), strict=True):
        if landing not in running:
            running[landing] = _LandingHash(batch.num_columns)
        running[landing].add(batch.slice(start, end - start))
        start = end


def _is_sorted(rows: pa.Table, order: Sequence[str]) -> bool:
    still_equal: Any = None
    for name in order:
        values = rows.column(name).combine_chunks()
        before, after = values[:-1], values[1:]
        greater = pc.greater(before, after)
        if still_equal is not None:
            greater = pc.and_(greater, still_equal)
        if pc.any(greater).as_py():
            return False
        equal = pc.equal(before, after)
        still_equal = equal if still_equal is None else pc.and_(still_equal, equal)
    return True
