"""DuckDB for all queries of this process, over files in folders and in object stores."""

from __future__ import annotations

import contextlib
import functools
import os
import tempfile
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb

_THREAD_MB, _MOST_MB = 192, 1_024
"""The memory limit of a database that asks many files, for each thread and in all. It is filled in any case where there
are many wide files, by their footers, so it is part of what a large run takes; a thread needs some 60 MB to read."""
_lock = threading.Lock()
_databases: list[duckdb.DuckDBPyConnection] = []
"""Those that are open."""
_schemes: set[str] = set()
"""Stores that some query has named."""
_is_small = False
"""Whether the shared database has one thread."""
_of_process: dict[str, Any] = {}
"""Settings of every database."""


def use_one_thread() -> None:
    """Before the first query of a process that has one core: other threads would only look for work."""
    _of_process["threads"] = 1


def quoted(files: Sequence[str]) -> str:
    """The files' names as SQL texts. From here on this process's databases can read and write in the stores where these
    files are."""
    for scheme in {file.partition("://")[0] for file in files if "://" in file} - _schemes:
        with _lock:
            _schemes.add(scheme)
            for db in _databases:
                _register(db, scheme)
    return ", ".join("'" + file.replace("'", "''") + "'" for file in files)


@contextlib.contextmanager
def database(**settings: Any) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database of its own, in memory and empty: the tables are files."""
    db = _opened(settings)
    try:
        yield db
    finally:
        close(db)


def close(db: duckdb.DuckDBPyConnection) -> None:
    with _lock:
        _databases.remove(db)
    db.close()


def shared_database(**settings: Any) -> duckdb.DuckDBPyConnection:
    """One that is kept until it is given to `close`."""
    return _opened(settings)


def _opened(settings: Mapping[str, Any]) -> duckdb.DuckDBPyConnection:
    db = duckdb.connect(config=_of_process | dict(settings))
    with _lock:
        _databases.append(db)
        for scheme in _schemes:
            _register(db, scheme)
    return db


def _register(db: duckdb.DuckDBPyConnection, scheme: str) -> None:
    # DuckDB's own reader of object stores is an extension that must be downloaded; fsspec it knows without one.
    from rebalance_audit.warehouse.object_store import file_system

    db.register_filesystem(file_system(scheme))
    db.execute("SET enable_external_file_cache = true")


def bounded() -> dict[str, Any]:
    """Settings for a database that asks many files: else it takes four fifths of the machine, for footers (a third of
    a megabyte of a wide table's) and for copies of what the system holds of files on disk anyway. What is sorted or
    joined goes to disk where it is more, outside the working folder, in a folder that no other database uses."""
    folder = f"{tempfile.gettempdir()}/rebalance-audit-duckdb-{uuid.uuid4().hex}"
    threads = max(2, _of_process.get("threads") or os.cpu_count() or 1)
    limit = f"{min(threads * _THREAD_MB, _MOST_MB)}MB"
    return {"memory_limit": limit, "temp_directory": folder, "enable_external_file_cache": False}


@functools.cache
def _shared() -> duckdb.DuckDBPyConnection:
    db = shared_database(**bounded())
    db.execute("SET parquet_metadata_cache = true")  # a run asks the same files dozens of times
    db.execute("CREATE MACRO size(items) AS len(items)")  # laws are Spark's SQL
    return db


def expect_small(is_small: bool) -> None:
    """Whether the next queries to `cursor` are about few rows. One thread answers those with half of the CPU time,
    since other threads only look for work."""
    global _is_small
    if is_small != _is_small:
        _shared().execute("SET threads = 1" if is_small else "RESET threads")
        _is_small = is_small


def cursor() -> duckdb.DuckDBPyConnection:
    """A cursor for one piece of work, in any thread; close it. It is no database of its own: making one takes 20 ms.
    What is registered, and temporary tables and views, are this cursor's; make no others."""
    return _shared().cursor()
