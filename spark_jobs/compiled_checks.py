"""The checks of one table as one query, milliseconds for a small batch: no JVM, nothing heavy to import.

The same verdicts as `quality`'s suites reach: tests/spark_jobs/test_verdicts_agree.py.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any, TypeAlias

import duckdb
import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse import unwritten
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.kept_columns import rows_on_disk
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from spark_jobs.checks import EXAMPLES, KEY_CHECK, UNIQUE_COLUMN, Check, Verdict, checks_of, example, verdict_of

_WORD = r"'[^']*'|\w+"
"""Of SQL: a text or a name."""
_THERE, _UNKNOWN = "there", "no known value"
Rows: TypeAlias = pa.Table | Sequence[str]
"""Rows in memory, or the Parquet files that hold them."""


def verdicts_of(name: str, rows: Rows, batch_id: str) -> list[Verdict]:
    """The verdict of every check of this table on these rows; no verdicts if there are no rows."""
    table = tables.BY_NAME[name]
    if len(rows) == 0:
        return []
    with cursor() as db:
        source = _source(db, rows)
        checks = checks_of(table)
        whole = frozenset() if isinstance(rows, pa.Table) else _whole_lists(name, rows)
        row_count, key_count, *failed = _one(db, _counting(table, whole).format(source=source))
        if row_count == 0:
            return []
        if key_count < row_count:
            failed[_place_of_key(table)] = _one(db, _repeated_rows(table).format(source=source))[0]
        return [
            verdict_of(name, check, batch_id, row_count, count, _examples(db, table, check, source) if count else ())
            for check, count in zip(checks, failed, strict=True)
        ]


def do_laws_hold(name: str, rows: Rows) -> bool:
    """Whether these rows keep all laws of this table, apart from what single columns and the key must be."""
    table = tables.BY_NAME[name]
    if not table.laws:
        return True
    broken = " OR ".join(f"({_fails(table, check)})" for check in checks_of(table) if check.is_law)
    with cursor() as db:
        source = _source(db, rows, _named_in_laws(table))
        return _one(db, f"SELECT count(*) FILTER ({broken}) FROM {source}") == (0,)


@functools.cache
def _named_in_laws(table: tables.Table) -> tuple[str, ...]:
    """The columns that the table's laws look at."""
    words = {word for law in table.laws for word in re.findall(_WORD, law.sql)}
    return tuple(column.name for column in table.columns if column.name in words)


def projection(name: str, files: Sequence[str]) -> pa.Table:
    """The columns that the checks of this table need: each checked column once, and one column of truth values per law.
    Text is escaped for HTML, which changes no value of a closed set."""
    table = tables.BY_NAME[name]
    plain = {"string": "replace(replace(replace(\"{0}\", '&', '&amp;'), '<', '&lt;'), '>', '&gt;')"}
    types = {column.name: column.type for column in table.columns}
    key = ", ".join(f'"{column}"' for column in table.key)
    chosen = {UNIQUE_COLUMN: f"count(*) OVER (PARTITION BY {key}) = 1"}
    whole = _whole_lists(name, files)
    for check in checks_of(table):
        if check.name == KEY_CHECK:
            continue
        if check.values == (True,):
            chosen[check.column] = f"coalesce(({_law(table, check)}), true)"
        elif check.column in whole:
            chosen[check.column] = "true"
        elif types[check.column] in ("string", "int", "bigint", "boolean"):
            chosen[check.column] = plain.get(types[check.column], '"{0}"').format(check.column)
        else:  # a list or bytes are only checked for null
            chosen[check.column] = f'CASE WHEN "{check.column}" IS NOT NULL THEN true END'
    listed = ", ".join(f'{sql} AS "{column}"' for column, sql in chosen.items())
    with cursor() as db:
        return db.execute(f"SELECT {listed} FROM {relation(files)}").to_arrow_table()


def kinds_of_rows(name: str, files: Sequence[str]) -> pa.Table:
    """What the checks of this table look at, without the key's check: each kind of row once, with the number of its
    rows (`n`). A column stands with its value if the set of values is closed, else with whether it is null. So there
    are few kinds, however many rows."""
    table = tables.BY_NAME[name]
    chosen: dict[str, str] = {}
    whole = _whole_lists(name, files)
    for check in sorted(checks_of(table), key=lambda check: check.values is not None):
        if check.name == KEY_CHECK:
            continue
        if check.column in whole:
            chosen[check.column] = f"'{_THERE}'"
        elif check.values is None:
            chosen[check.column] = f"CASE WHEN \"{check.column}\" IS NOT NULL THEN '{_THERE}' END"
        elif check.values == (True,):
            chosen[check.column] = f"coalesce(({_law(table, check)}), true)"
        else:
            listed = ", ".join(map(_literal, check.values))
            known = f'CASE WHEN "{check.column}" IN ({listed}) THEN "{check.column}"'
            chosen[check.column] = f"{known} WHEN \"{check.column}\" IS NOT NULL THEN '{_UNKNOWN}' END"
    listed = "".join(f'{sql} AS "{column}", ' for column, sql in chosen.items())
    with cursor() as db:
        return db.execute(f"SELECT {listed}count(*) AS n FROM {relation(files)} GROUP BY ALL").to_arrow_table()


def key_hashes(name: str, files: Sequence[str]) -> pa.Table:
    """`h`, a number for each row of these files: the same where their keys are."""
    key = ", ".join(f'"{column}"' for column in tables.BY_NAME[name].key)
    with cursor() as db:
        return db.execute(f"SELECT hash({key}) AS h FROM {relation(files)}").to_arrow_table()


def examples_of(name: str, check: Check, files: Sequence[str]) -> list[str]:
    """Keys of the first rows of these files that break the check."""
    with cursor() as db:
        return _examples(db, tables.BY_NAME[name], check, relation(files))


def _whole_lists(name: str, files: Sequence[str]) -> frozenset[str]:
    """Required lists of structs that are null in no row, as one of their fields shows. Asked whether such a list is
    null, DuckDB reads all that is nested in it: a third of what a run's checks took."""
    schema = arrow_schema(name)
    asked = {
        check.column: f"{check.column}.list.element.{schema.field(check.column).type.value_type.field(0).name}"
        for check in checks_of(tables.BY_NAME[name])
        if check.values is None and _is_list_of_structs(schema.field(check.column).type)
    }
    for file in files if asked else ():
        held = rows_on_disk(file, list(asked.values()))
        asked = {c: leaf for c, leaf in asked.items() if c in held.schema.names and not held[c].null_count}
    return frozenset(asked)


def _is_list_of_structs(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) and pa.types.is_struct(type_.value_type))


def _source(db: duckdb.DuckDBPyConnection, rows: Rows, columns: Sequence[str] | None = None) -> str:
    """The rows, with these columns at least (None: all), as DuckDB names them. Of rows in memory it looks at the type
    of each column before it knows which are asked for."""
    if not isinstance(rows, pa.Table) and not all(map(unwritten.is_waiting, rows)):
        return relation(rows)
    parts = [rows] if isinstance(rows, pa.Table) else map(rows_on_disk, rows)
    db.register("checked", pa.concat_tables(part if columns is None else part.select(columns) for part in parts))
    return "checked"


@functools.cache
def _counting(table: tables.Table, whole: frozenset[str]) -> str:
    """The number of rows, of distinct keys, and of rows that fail each check. Rows that share their key are not counted
    here: there are none as a rule, and counting them takes a second reading. So hashes are enough. `whole`: columns
    that are null in no row."""
    counts = [
        "0"
        if check.name == KEY_CHECK or (check.values is None and check.column in whole)
        else f"count(*) FILTER ({_fails(table, check)})"
        for check in checks_of(table)
    ]
    key = ", ".join(f'"{column}"' for column in table.key)
    return f"SELECT count(*), count(DISTINCT hash({key})), {', '.join(counts)} FROM {{source}}"


def _place_of_key(table: tables.Table) -> int:
    return next(at for at, check in enumerate(checks_of(table)) if check.name == KEY_CHECK)


def _repeated_rows(table: tables.Table) -> str:
    key = ", ".join(f'"{column}"' for column in table.key)
    return f"SELECT coalesce(sum(n), 0)::BIGINT FROM (SELECT count(*) n FROM {{source}} GROUP BY {key}) WHERE n > 1"


def _fails(table: tables.Table, check: Check) -> str:
    """The SQL condition of the rows that break the check. Null counts as good, unless the column is required."""
    if check.values is None:
        return f'"{check.column}" IS NULL'
    if check.values == (True,):
        return f"NOT coalesce(({_law(table, check)}), true)"
    return f'"{check.column}" NOT IN ({", ".join(map(_literal, check.values))})'


def _law(table: tables.Table, check: Check) -> str:
    """The check's SQL with every column quoted: `offset` is one of DuckDB's own words."""
    columns = {column.name for column in table.columns}
    sql = next(law.sql for law in table.laws if law.name == check.name)
    return re.sub(_WORD, lambda word: f'"{word[0]}"' if word[0] in columns else word[0], sql)


def _literal(value: Any) -> str:
    return "'" + str(value).replace("'", "''") + "'"


def _examples(db: duckdb.DuckDBPyConnection, table: tables.Table, check: Check, source: str) -> list[str]:
    key = ", ".join(f'"{column}"' for column in table.key)
    if check.name == KEY_CHECK:
        chosen = f"SELECT {key} FROM {source} GROUP BY {key} HAVING count(*) > 1"
    else:
        chosen = f"SELECT DISTINCT {key} FROM {source} WHERE {_fails(table, check)}"
    ordered = ", ".join(f'"{column}" ASC NULLS FIRST' for column in table.key)
    rows = db.execute(f"{chosen} ORDER BY {ordered} LIMIT {EXAMPLES}").fetchall()
    return [example(dict(zip(table.key, row, strict=True))) for row in rows]


def _one(db: duckdb.DuckDBPyConnection, sql: str) -> tuple[Any, ...]:
    found = db.execute(sql).fetchone()
    assert found is not None, sql
    return found
