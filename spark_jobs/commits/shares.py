"""Marks of much news, joined in tasks: each takes some groups' share, so that nobody holds all marks at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

import duckdb
import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.storage import relation
from spark_jobs.commits import joining
from spark_jobs.commits.partial_marks import PARTIAL_MARK
from spark_jobs.engine import ArrowTask
from spark_jobs.task_files import TaskWriter, files_by_table, rows_for_driver

ROWS = 100_000
"""Marks of a share, roughly: while they are joined they take 170 MB, those of half as many 110. Another share costs
0.2 s of CPU at a load of 20."""
ROWS_IN_DRIVER = 20_000
"""Of more marks than these the driver of a cluster joins none: 92,000 took 270 MB there."""
_SHARE = pa.schema([(f"{end}_{name}", pa.string()) for end in ("from", "to") for name in ("cluster", "group")])
"""From this group on, up to that one without it; null: from the first, up to the last."""
_OF_TASKS = {"again": joining.GROUP_PLACE, "replaced": joining.KEY}
_RECORD = ("cluster_id", "topic", "partition", "group_id", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkFiles:
    """Files of partial marks, of any group."""

    partial: Sequence[str]
    """Marks of the news."""
    known: Sequence[str]
    """Files of silver.commit_mark."""
    events: Sequence[str]
    """Files of silver.group_event, with those of the news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTables:
    """Tables that the driver made of all groups, for the tasks that join."""

    again: pa.Table
    rebuilt: pa.Table
    floor: pa.Table


def shares_of(sources: MarkFiles) -> pa.Table:
    """The work of the tasks: shares of about the same number of marks, which together are all groups."""
    files = [*sources.partial, *sources.known]
    if not files:
        return pa.Table.from_pylist([dict.fromkeys(_SHARE.names)], _SHARE)
    with cursor() as db:
        firsts = db.execute(
            f"""
            SELECT min(row(cluster_id, group_id)) AS first FROM (
                SELECT *, (sum(marks) OVER (ORDER BY cluster_id, group_id) - marks) // {ROWS} AS share FROM (
                    SELECT cluster_id, group_id, count(*) AS marks FROM {relation(files)} GROUP BY ALL
                )
            ) GROUP BY share ORDER BY first
            """
        ).fetchall()
    edges = [(None, None), *(first for (first,) in firsts[1:]), (None, None)]
    return pa.Table.from_pylist(
        [dict(zip(_SHARE.names, (*begin, *end), strict=True)) for begin, end in pairwise(edges)], _SHARE
    )


def looking(folder: str, sources: MarkFiles, uncertain: Callable[[], pa.Table]) -> ArrowTask:
    """The task that writes, as the table `again`, which groups' commits are folded again."""

    def look(shares: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder, _OF_TASKS)
        for share in (share for some in shares for share in some.to_pylist()):
            with _opened(share, sources) as db:
                _take(db, share, "uncertain", uncertain())
                for rows in joining.find_again(db).cast(joining.GROUP_PLACE).to_batches():
                    writer.add("again", rows)
        yield from writer.written()

    return look


def joining_shares(folder: str, sources: MarkFiles, asked: Callable[[], DriverTables]) -> ArrowTask:
    """The task that writes the marks, and as the table `replaced` the keys of the known ones that they replace."""

    def join(shares: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder, _OF_TASKS)
        for share in (share for some in shares for share in some.to_pylist()):
            with _opened(share, sources) as db:
                _take(db, share, "again", asked().again)
                _take(db, share, "rebuilt", asked().rebuilt)
                db.register("floor", asked().floor)
                joined = joining.join(db)
            for table, rows in (("silver.commit_mark", joined.rows), ("replaced", joined.replaced)):
                for batch in rows.to_batches():
                    writer.add(table, batch)
        yield from writer.written()

    return join


def rows_in(written: pa.Table, table: str) -> pa.Table:
    """The rows that the tasks wrote into one of their own tables."""
    return rows_for_driver(files_by_table(written).get(table, []), _OF_TASKS[table])


@contextmanager
def _opened(share: Mapping[str, str | None], sources: MarkFiles) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the share's `partial` and `placed` marks, and where its groups' records `cut` them."""
    types = {
        "partial": (sources.partial, PARTIAL_MARK, "true"),
        "known": (sources.known, arrow_schema("silver.commit_mark"), "true"),
        "cut": (
            sources.events,
            pa.schema([arrow_schema("silver.group_event").field(name) for name in _RECORD]),
            "source_kind = 'record'",
        ),
    }
    inside, params = _within(share)
    with cursor() as db:
        for name, (files, schema, where) in types.items():
            if not files:
                db.register(name, schema.empty_table())
                continue
            columns = ", ".join(f'"{column}"' for column in schema.names)
            chosen = f"SELECT {columns} FROM {relation(files)} WHERE {where} AND {inside}"
            db.execute(f"CREATE TEMP TABLE {name} AS {chosen}", params)
        joining.place_known(db)
        yield db


def _take(db: duckdb.DuckDBPyConnection, share: Mapping[str, str | None], name: str, rows: pa.Table) -> None:
    """The share's rows of these as a table of this name."""
    within, params = _within(share)
    db.register(f"all_{name}", rows)
    db.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM all_{name} WHERE {within}", params)


def _within(share: Mapping[str, str | None]) -> tuple[str, list[str]]:
    """SQL: a group is in the share; and what its question marks stand for. Conditions on one column alone let row
    groups be passed over."""
    conditions, params = ["true"], []
    for end, at_or_beyond, beyond, of_groups in (("from", ">=", ">", ">="), ("to", "<=", "<", "<")):
        cluster, group = share[f"{end}_cluster"], share[f"{end}_group"]
        if cluster is None or group is None:
            continue
        conditions.append(f"cluster_id {at_or_beyond} ? AND (cluster_id {beyond} ? OR group_id {of_groups} ?)")
        params += [cluster, cluster, group]
        if share["from_cluster"] == share["to_cluster"]:
            conditions.append(f"group_id {of_groups} ?")
            params.append(group)
    return " AND ".join(conditions), params
