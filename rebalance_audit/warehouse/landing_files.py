"""The form of a landing file, the same from the collector, an import, and Spark's tasks; and how many small ones become
few."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rebalance_audit.warehouse.storage import Files, located

MANY_FILES = 8
"""So many small files are joined before anybody reads them."""
SMALL_ROWS = 16_384
"""A file of more rows stays as it is: to open it takes little of the time in which it is read."""
JOINED_ROWS = 100_000
"""The most rows that are in memory at once, and in one file."""
_REPEATED = ("cluster_id", "topic", "key", "source", "node", "landing")
"""Texts that are read as dictionaries: of 100,000 records they take a tenth of the memory."""
_DICTIONARY_BYTES = 8 << 20
"""The keys of 40,000 partitions that are committed. Beyond a limit Parquet writes each value, and a key of a dictionary
is parsed once."""

_ENCODINGS: dict[str, dict[str, Any]] = {
    "record": {
        # What rises by little is written as differences, what repeats once: a third of the size, two thirds of the
        # time.
        "column_encoding": dict.fromkeys(("offset", "timestamp_ms", "batch_base_offset"), "DELTA_BINARY_PACKED"),
        "use_dictionary": [
            "cluster_id", "topic", "partition", "copy", "key", "leader_epoch", "producer_id", "producer_epoch",
            "source", "node", "landing", "batch_crc",
        ],
        "write_statistics": ["cluster_id", "topic", "partition", "offset", "timestamp_ms"],  # nobody asks of the others
        "store_schema": False,
    }
}  # fmt: skip


def write_landing_file(files: Files, noun: str, landing_id: str, data: pa.Table) -> None:
    """Rows of bronze as `landing/<noun>/<id>.parquet`: there whole or not at all. The same name replaces."""
    sink = pa.BufferOutputStream()
    pq.write_table(data, sink, compression="zstd", **_ENCODINGS.get(noun, {}))
    files.write(f"landing/{noun}/{landing_id}.parquet", sink.getvalue())


def joined_landing_files(noun: str, files: Sequence[str], folder: str) -> list[str]:
    """Files with the rows of these landing files in their order, which is kept: stages fold what follows each other.
    If files are many, small ones that follow each other are joined into new files in the folder; others stay what they
    are. Raises ArrowInvalid if a file cannot be read."""
    if len(files) < MANY_FILES:
        return list(files)
    fs, path = located(folder)
    fs.create_dir(path, recursive=True)
    form = _ENCODINGS.get(noun, {}) | {"dictionary_pagesize_limit": _DICTIONARY_BYTES, "store_schema": False}
    stem = f"landed-{uuid.uuid4().hex}"  # what a killed run left behind in the table may have other rows
    found: list[str] = []
    for names, rows in _parts(files):
        if len(names) == 1:
            found += names
            continue
        name = f"{stem}-{len(found):05d}.parquet"
        pq.write_table(rows, f"{path}/{name}", filesystem=fs, compression="zstd", **form)
        found.append(f"{folder}/{name}")
    return found


def _parts(files: Sequence[str]) -> Iterator[tuple[list[str], pa.Table | None]]:
    """Small files that follow each other and have the same columns, as many as may be in memory at once, with their
    rows; and each of the others alone."""
    names: list[str] = []
    waiting: list[pa.Table] = []
    for file in files:
        rows = _rows_of_small(file)
        is_full = sum(map(len, waiting)) + (0 if rows is None else len(rows)) > JOINED_ROWS
        if waiting and (rows is None or is_full or not rows.schema.equals(waiting[0].schema)):
            yield names, pa.concat_tables(waiting).unify_dictionaries()
            names, waiting = [], []
        if rows is None:
            yield [file], None
        else:
            names.append(file)
            waiting.append(rows)
    if waiting:
        yield names, pa.concat_tables(waiting).unify_dictionaries()


def _rows_of_small(file: str) -> pa.Table | None:
    """None if it has more rows than a small one. Nothing that is known of a file of this name counts: somebody may have
    mended it."""
    fs, path = located(file)
    try:
        footer = pq.read_metadata(path, filesystem=fs)
        if footer.num_rows > SMALL_ROWS:
            return None
        repeated = [name for name in _REPEATED if name in footer.schema.to_arrow_schema().names]
        with pq.ParquetFile(path, filesystem=fs, metadata=footer, read_dictionary=repeated) as opened:
            return opened.read(use_threads=False)
    except OSError as error:
        if error.errno is None:  # Arrow's own, for bytes that are no page of Parquet
            raise pa.ArrowInvalid(f"{file}: {error}") from error
        raise
