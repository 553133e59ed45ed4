"""Groups whose commits show something new."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import duckdb
import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.domain.reconstruct.standstills import LEAST_MS, MISSED_COMMITS, OPEN_AFTER_MS, SLACK_MS
from rebalance_audit.warehouse.arrow_tables import arrow_schema, distinct
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import Least
from spark_jobs.commits.group_records import records_of_groups
from spark_jobs.group_rows import GROUP, Place, least_by_group, rows_of_groups
from spark_jobs.stages.stage import Batch, Run

_MARKS = "silver.commit_mark"
_KEY = list(tables.SILVER_COMMIT_MARK.key)
_COLUMNS = [
    *_KEY, "first_at_ms", "topic_id", "last_at_ms", "gap_from_at_ms", "gap_to_at_ms", "second_gap_ms", "after_at_ms",
]  # fmt: skip
_FEW_ROWS = 2_000
"""So few marks are compared in this process, in a fraction of the time that a question to DuckDB takes."""


def groups_shown_anew(context: Run, batch: Batch) -> set[Place]:
    """A mark after the group's last record that only became longer shows nothing new: the fold uses its begin, its long
    gaps, and whether others went on long after it."""
    warehouse = context.warehouse
    since, until = batch.since[_MARKS], batch.until[_MARKS]
    if since < 0:
        named = warehouse.changed_keys(_MARKS, GROUP.names, None, until)
        return set(zip(*(named[name].to_pylist() for name in GROUP.names), strict=True))
    changed = warehouse.changed_keys(_MARKS, _KEY, since, until)
    groups = distinct(changed, GROUP.names).cast(GROUP)
    try:
        before = rows_of_groups(warehouse, _MARKS, _COLUMNS, groups, version=since, bound=from_first_changed(changed))
        now = rows_of_groups(warehouse, _MARKS, _COLUMNS, groups, version=until, bound=_that_may_be_silent(before))
    except (duckdb.IOException, FileNotFoundError):  # cleaned up meanwhile
        now = before = arrow_schema(_MARKS).empty_table().select(_COLUMNS)
    last = least_by_group(changed, "first_offset", "offset")
    records = records_of_groups(
        warehouse, [*GROUP.names, "offset"], groups, batch.until["silver.group_event"], bound=last
    )
    is_few = max(rows.num_rows for rows in (changed, now, before, records)) <= _FEW_ROWS
    return (_of_few if is_few else _of_many)(changed, now, before, records)


def from_first_changed(changed: pa.Table) -> Least:
    """The bound on marks which all of these keys are within: of a group with a long history they are its last ones."""
    return least_by_group(changed, "first_offset", "first_offset")


def _that_may_be_silent(before: pa.Table) -> Least:
    """The bound within which are the marks that these became, and those that others go on long after."""
    return least_by_group(before, "last_at_ms", "last_at_ms", less=OPEN_AFTER_MS)


class _ShownMark(NamedTuple):
    """A row of _COLUMNS."""

    cluster_id: str
    group_id: str
    topic: str
    partition: int
    first_offset: int
    first_at_ms: int
    topic_id: str | None
    last_at_ms: int
    gap_from_at_ms: int | None
    gap_to_at_ms: int | None
    second_gap_ms: int | None
    after_at_ms: int | None

    @property
    def place(self) -> Place:
        return self.cluster_id, self.group_id

    @property
    def compared(self) -> tuple[Any, ...]:
        """What shows something new if it is another. Only a gap that may be a standstill counts: the longest gap of any
        group grows now and then."""
        gap = None
        if self.gap_from_at_ms is not None and self.gap_to_at_ms is not None:
            others_ms = 0 if self.second_gap_ms is None else MISSED_COMMITS * self.second_gap_ms + SLACK_MS
            if self.gap_to_at_ms - self.gap_from_at_ms >= max(LEAST_MS, others_ms):
                gap = self.gap_to_at_ms, self.after_at_ms
        return self.first_at_ms, self.topic_id, gap


def _of_few(changed: pa.Table, now: pa.Table, before: pa.Table, records: pa.Table) -> set[Place]:
    """The same as `_of_many`."""
    last_records: dict[Place, int] = {}
    for cluster_id, group_id, offset in _rows_of(records):
        last_records[cluster_id, group_id] = max(offset, last_records.get((cluster_id, group_id), offset))
    present, known = (
        {mark[: len(_KEY)]: mark for mark in map(_ShownMark._make, _rows_of(rows))} for rows in (now, before)
    )
    found: set[Place] = set()
    longer: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for key in _rows_of(changed):
        place = key[0], key[1]
        mark, was = present.get(key), known.get(key)
        if mark is None or was is None:
            found.add(place)
            continue
        if mark.compared != was.compared or mark.first_offset <= last_records.get(place, -1):
            found.add(place)
        if was.last_at_ms < mark.last_at_ms:
            longer[place].append((was.last_at_ms, mark.last_at_ms))
    found.update(
        mark.place
        for mark in present.values()
        if any(from_ms <= mark.last_at_ms + OPEN_AFTER_MS < to_ms for from_ms, to_ms in longer.get(mark.place, ()))
    )
    return found


def _rows_of(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(column.to_pylist() for column in rows.columns), strict=True)


def _of_many(changed: pa.Table, now: pa.Table, before: pa.Table, records: pa.Table) -> set[Place]:
    """The groups of changed marks that are not what they were, apart from their length, or that the group's last record
    lies behind; and of marks that others went on after for long enough by now."""
    keys = ", ".join(_KEY)
    compared = (
        f"{keys}, first_at_ms, topic_id, CASE WHEN gap_to_at_ms - gap_from_at_ms >= "
        f"greatest({LEAST_MS}, {MISSED_COMMITS} * second_gap_ms + {SLACK_MS}) THEN [gap_to_at_ms, after_at_ms] END"
    )
    with cursor() as db:
        for name, data in (("changed", changed), ("now", now), ("known", before), ("record", records)):
            db.register(name, data)
        # Materialized: joined in another order, all marks of a group would meet all others.
        rows: Sequence[tuple[str, str]] = db.execute(
            f"""
            WITH grown AS MATERIALIZED (FROM now SEMI JOIN changed USING ({keys})),
                was AS MATERIALIZED (FROM known SEMI JOIN changed USING ({keys})),
                longer AS MATERIALIZED (
                    SELECT cluster_id, group_id, was.last_at_ms from_ms, grown.last_at_ms to_ms
                    FROM grown JOIN was USING ({keys}) WHERE was.last_at_ms < grown.last_at_ms
                )
            SELECT DISTINCT cluster_id, group_id FROM changed LEFT JOIN (
                SELECT {keys} FROM (SELECT {compared} FROM grown INTERSECT SELECT {compared} FROM was)
                LEFT JOIN (
                    SELECT cluster_id, group_id, max("offset") last_record FROM record GROUP BY ALL
                ) USING (cluster_id, group_id)
                WHERE first_offset > coalesce(last_record, -1)
            ) same USING ({keys}) WHERE same.first_offset IS NULL
            UNION SELECT DISTINCT cluster_id, group_id FROM longer JOIN now silent USING (cluster_id, group_id)
            WHERE silent.last_at_ms + {OPEN_AFTER_MS} < to_ms AND silent.last_at_ms + {OPEN_AFTER_MS} >= from_ms
            """
        ).fetchall()
    return set(rows)
