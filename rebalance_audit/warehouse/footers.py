"""Footers of Parquet files. They are kept: a file never changes, and a run asks for the same ones often."""

from __future__ import annotations

import functools
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from rebalance_audit.warehouse import unwritten
from rebalance_audit.warehouse.storage import located


def open_writer(
    where: str | pa.NativeFile,
    schema: pa.Schema,
    fs: pafs.FileSystem,
    compression: str,
    footers: list[pq.FileMetaData] | None = None,
    *,
    has_dictionaries: bool = True,
) -> pq.ParquetWriter:
    """A writer of a Parquet file, to a path or into a stream. It keeps no statistics and no dictionaries for what is
    inside lists. No row is looked up by that, and hardly any two marks or refs are alike: the file is smaller, and is
    written in four fifths of the time. When the file is closed, its footer is added to `footers`."""
    flat = [field.name for field in schema if not pa.types.is_nested(field.type)]
    return pq.ParquetWriter(
        where,
        schema,
        filesystem=fs if isinstance(where, str) else None,
        compression=compression,
        write_statistics=flat,
        use_dictionary=flat if has_dictionaries else [],
        metadata_collector=footers,
    )


class _Footers:
    """The footers of files that were read or written lately. Not all are kept: in memory a footer takes fourteen times
    its bytes, that of a wide table 0.4 MB; what is asked of it often is kept beside it."""

    MOST_CHUNKS = 20_000
    """Columns of row groups that all of them describe: 2.3 kB each. By their own word footers that were just written
    have no bytes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, pq.FileMetaData] = OrderedDict()
        self._chunks = 0

    def of(self, file: str) -> pq.FileMetaData | None:
        with self._lock:
            if found := self._by_file.get(file):
                self._by_file.move_to_end(file)
            return found

    def keep(self, file: str, metadata: pq.FileMetaData) -> None:
        with self._lock:
            known = self._by_file.pop(file, None)
            self._by_file[file] = metadata
            self._chunks += _chunks(metadata) - (0 if known is None else _chunks(known))
            while self._chunks > self.MOST_CHUNKS:
                _, gone = self._by_file.popitem(last=False)
                self._chunks -= _chunks(gone)

    def rename(self, file: str, other: str) -> None:
        with self._lock:
            if known := self._by_file.pop(file, None):
                self._by_file[other] = known

    def let_go(self, file: str) -> None:
        with self._lock:
            if gone := self._by_file.pop(file, None):
                self._chunks -= _chunks(gone)

    def below(self, folder: str) -> list[str]:
        with self._lock:
            return [file for file in self._by_file if file.startswith(f"{folder}/")]


def _chunks(metadata: pq.FileMetaData) -> int:
    return int(metadata.num_columns * max(metadata.num_row_groups, 1))


_footers = _Footers()


class _ColumnNames:
    """The names of the columns of files, in their order."""

    MOST_FILES = 2_048

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._by_file: OrderedDict[str, Mapping[str, None]] = OrderedDict()

    def of(self, file: str) -> Mapping[str, None] | None:
        return self._by_file.get(file)

    def keep(self, file: str, names: Iterable[str]) -> None:
        with self._lock:
            self._by_file[file] = dict.fromkeys(names)
            while len(self._by_file) > self.MOST_FILES:
                self._by_file.popitem(last=False)

    def let_go(self, file: str) -> None:
        with self._lock:
            self._by_file.pop(file, None)


_column_names = _ColumnNames()


def footer(file: str) -> pq.FileMetaData:
    """The footer of a Parquet file, on whatever store. A file never changes, and a run asks for the same ones often."""
    found = _footers.of(file)
    if found is None:
        found = opened(file).metadata
        _footers.keep(file, found)
    return found


@functools.lru_cache(maxsize=1 << 15)
def row_count_in(file: str) -> int:
    """The rows of a file. Of thousands of files the footers are not all kept, and each is asked for before and while it
    is committed."""
    rows = unwritten.rows_of(file)
    return int(footer(file).num_rows if rows is None else rows.num_rows)


@functools.lru_cache(maxsize=1 << 15)
def row_group_bytes(file: str) -> tuple[int, ...]:
    """The bytes of each row group of a file, uncompressed; of one that is not written yet, those in memory."""
    if (waiting := unwritten.byte_count_of(file)) is not None:
        return (waiting,)
    metadata = footer(file)
    return tuple(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def keep_footer(file: str, metadata: pq.FileMetaData, names: Iterable[str]) -> None:
    """Keeps the footer of a file that was just written, and the names of its columns, so that it need not be read."""
    _footers.keep(file, metadata)
    _column_names.keep(file, names)


def rename_footer(file: str, name: str) -> None:
    """The file has another name from now on."""
    if names := _column_names.of(file):
        _column_names.keep(name, names)
    _footers.rename(file, name)


def let_footer_go(file: str) -> None:
    """Nobody is expected to ask for the file again."""
    _footers.let_go(file)
    _column_names.let_go(file)


def footers_below(folder: str) -> list[str]:
    """The files in a folder whose footers are kept."""
    return _footers.below(folder)


class _File(pq.ParquetFile):  # type: ignore[misc]
    """When a file is opened, pyarrow works out in Python which of its columns lie below which name: a quarter of the
    time. Files of a table have the same columns."""

    _known: ClassVar[dict[tuple[tuple[str, ...], ...], tuple[Any, Mapping[str, None]]]] = {}
    names: Mapping[str, None]

    def _build_nested_paths(self) -> Any:
        paths = tuple(map(tuple, self.reader.column_paths))
        if paths not in self._known:
            self._known[paths] = super()._build_nested_paths(), dict.fromkeys(path[0] for path in paths)
        nested, self.names = self._known[paths]
        return nested


@functools.lru_cache(maxsize=16)
def opened(file: str) -> _File:
    """A file to read from, one thread at a time. To open it takes as long as to read some columns of it; an open one
    keeps half a megabyte, if its table is wide."""
    fs, path = located(file)
    found = _File(path, filesystem=fs, metadata=_footers.of(file))
    _column_names.keep(file, found.names)
    return found


def columns_of(file: str) -> Mapping[str, None]:
    """The names of a file's columns, in its order."""
    return _column_names.of(file) or opened(file).names


def parts_of(file: str, schema: pa.Schema, names: Iterable[str]) -> list[str]:
    """What to read of a file for these columns in the types of `schema`: of lists of structs only its fields. A
    measured rebalance's movements take 9 kB, of which a rule asks for a tenth."""
    found: list[str] = []
    for name in names:
        type_ = schema.field(name).type
        parts: list[str] = []
        if pa.types.is_list(type_) and pa.types.is_struct(type_.value_type):
            wanted = {field.name for field in type_.value_type}
            parts = [path for path in _paths_below(file).get(name, ()) if path.split(".")[_FIELD] in wanted]
        found += parts or [name]
    return found


@functools.lru_cache(maxsize=256)
def _paths_below(file: str) -> Mapping[str, Sequence[str]]:
    """The columns of Parquet by the column of the table in which they are nested. To ask a footer for 155 of them takes
    as long as to read a few."""
    found: dict[str, list[str]] = {}
    for path in column_paths(footer(file)):
        found.setdefault(path.partition(".")[0], []).append(path)
    return found


_FIELD = 3
"""The place of a struct's field in the path of a column of Parquet: `movements.list.element.resource`."""


def column_paths(metadata: pq.FileMetaData) -> Iterator[str]:
    """The names of the columns with values; none of a file without row groups. Not asked of `metadata.schema`: pyarrow
    keeps that in the footer, and the footer in it, so that footers which are let go stay until cycles are searched."""
    for first in [metadata.row_group(0)] if metadata.num_row_groups else []:
        yield from (first.column(at).path_in_schema for at in range(metadata.num_columns))
