"""One DuckDB for all questions of this process."""

from __future__ import annotations

import functools

import duckdb


@functools.cache
def _database() -> duckdb.DuckDBPyConnection:
    db = duckdb.connect()  # in memory, and empty: the tables are files
    db.execute("SET parquet_metadata_cache = true")  # a run asks the same files dozens of times
    return db


def cursor() -> duckdb.DuckDBPyConnection:
    """For one piece of work, in any thread; close it. Not a database of its own: making that takes 20 ms.

    What is registered, and temporary tables and views, are this cursor's; make no others.
    """
    return _database().cursor()
