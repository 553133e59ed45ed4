"""Marks of much news, joined in tasks: each takes some groups' share, so that nobody holds all marks at once."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

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
_PLACED = pa.schema([(f"{end}_{name}", pa.string()) for end in ("from", "to") for name in ("cluster", "group")])
"""From this group on, up to that one without it; null: from the first, up to the last."""
_FILES = ("partial", "known", "events")
_SHARE = pa.schema([*_PLACED, *((name, pa.list_(pa.string())) for name in _FILES)])
"""And the files that hold anything of its groups: of a first run's many files few do."""
_OF_TASKS = {"again": joining.GROUP_PLACE, "replaced": joining.KEY}
_RECORD = ("cluster_id", "topic", "partition", "group_id", "offset")


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkFiles:
    """Files with rows of any group."""

    partial: Sequence[str]
    """Marks of the news."""
    known: Sequence[str]
    """Files of silver.commit_mark."""
    events: Sequence[str]
    """Files of silver.group_event, with those of the news."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebuilt:
    """What the driver made of the groups whose commits are folded again."""

    again: pa.Table
    marks: pa.Table


def shares_of(sources: MarkFiles) -> pa.Table:
    """The work of the tasks: shares of about the same number of marks, which together are all groups."""
    files = [*sources.partial, *sources.known]
    firsts = _first_groups(files) if files else []
    clusters = _clusters_with_records(sources.events) if sources.events else []
    edges: list[tuple[str | None, str | None]]
    edges = [(None, None), *(first for first, _ in firsts[1:]), (None, None)]
    work: list[dict[str, Any]] = []
    for (begin, end), held in zip(pairwise(edges), [held for _, held in firsts] or [[]], strict=True):
        of_share = {
            "partial": sorted(set(sources.partial).intersection(held)),
            "known": sorted(set(sources.known).intersection(held)),
            "events": sorted({file for file, cluster_id in clusters if _has_groups_of(cluster_id, begin[0], end[0])}),
        }
        work.append(dict(zip(_PLACED.names, (*begin, *end), strict=True)) | of_share)
    return pa.Table.from_pylist(work, _SHARE)


def _first_groups(files: Sequence[str]) -> list[tuple[tuple[str, str], list[str]]]:
    """The first group of each share, and the files with marks of its groups; none if there are no marks."""
    with cursor() as db:
        return db.execute(
            f"""
            WITH held AS (
                SELECT filename, cluster_id, group_id, count(*) AS marks
                FROM {relation(files, with_name=True)} GROUP BY ALL
            ),
            placed AS (
                SELECT *, (sum(marks) OVER (ORDER BY cluster_id, group_id) - marks) // {ROWS} AS share FROM (
                    SELECT cluster_id, group_id, sum(marks) AS marks FROM held GROUP BY ALL
                )
            )
            SELECT min(row(cluster_id, group_id)) AS first, list(DISTINCT filename)
            FROM held JOIN placed USING (cluster_id, group_id) GROUP BY share ORDER BY first
            """
        ).fetchall()


def _clusters_with_records(files: Sequence[str]) -> list[tuple[str, str]]:
    """Each of these files of events with each cluster of which it holds records."""
    with cursor() as db:
        return db.execute(
            f"SELECT DISTINCT filename, cluster_id FROM {relation(files, with_name=True)} WHERE source_kind = 'record'"
        ).fetchall()


def _has_groups_of(cluster_id: str, first: str | None, last: str | None) -> bool:
    return (first is None or cluster_id >= first) and (last is None or cluster_id <= last)


def with_any_of(work: pa.Table, groups: pa.Table) -> pa.Table:
    """The shares with any of these groups."""
    places = sorted(set(zip(groups["cluster_id"].to_pylist(), groups["group_id"].to_pylist(), strict=True)))

    def has_any(share: Mapping[str, Any]) -> bool:
        begin, end = (tuple(share[f"{edge}_{name}"] for name in ("cluster", "group")) for edge in ("from", "to"))
        at = 0 if None in begin else bisect_left(places, begin)
        return at < len(places) and (None in end or places[at] < end)

    return work.filter(pa.array(map(has_any, work.to_pylist()), pa.bool_()))


def joining_shares(
    folder: str,
    shared: Callable[[], tuple[pa.Table, pa.Table]],
    rebuilt: Callable[[], Rebuilt] | None = None,
) -> ArrowTask:
    """The task that writes the marks, and as the table `replaced` the keys of the known ones that they replace.

    `shared`: the groups that are `uncertain`, and the `floor` of each partition. If commits of a share's groups are to
    be folded again, the task writes these groups as the table `again`, and none of the share's marks; it is given such
    a share once more, with what was `rebuilt`.
    """

    def join(shares: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder, _OF_TASKS)
        uncertain, floor = shared()
        for share in (share for some in shares for share in some.to_pylist()):
            with _opened(share) as db:
                db.register("floor", floor)
                if rebuilt is None:
                    _take(db, share, "uncertain", uncertain)
                    again = joining.find_again(db).cast(joining.GROUP_PLACE)
                    if again.num_rows:
                        for batch in again.to_batches():
                            writer.add("again", batch)
                        continue
                    db.register("rebuilt", PARTIAL_MARK.empty_table())
                else:
                    _take(db, share, "again", rebuilt().again)
                    _take(db, share, "rebuilt", rebuilt().marks)
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
def _opened(share: Mapping[str, Any]) -> Iterator[duckdb.DuckDBPyConnection]:
    """A database with the share's `partial` and `placed` marks, and where its groups' records `cut` them."""
    types = {
        "partial": (share["partial"], PARTIAL_MARK, "true"),
        "known": (share["known"], arrow_schema("silver.commit_mark"), "true"),
        "cut": (
            share["events"],
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


def _take(db: duckdb.DuckDBPyConnection, share: Mapping[str, Any], name: str, rows: pa.Table) -> None:
    """The share's rows of these as a table of this name."""
    within, params = _within(share)
    db.register(f"all_{name}", rows)
    db.execute(f"CREATE TEMP TABLE {name} AS SELECT * FROM all_{name} WHERE {within}", params)


def _within(share: Mapping[str, Any]) -> tuple[str, list[str]]:
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
