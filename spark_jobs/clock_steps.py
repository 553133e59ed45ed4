"""The largest step back of each partition's timestamps: a clock was put back. Kept from run to run (`kept_folds`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from rebalance_audit.domain.detect import CLOCK_APART_MS
from rebalance_audit.domain.model import record_ref
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from rebalance_audit.warehouse.kept_columns import row_group
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.row_groups import row_groups_of
from rebalance_audit.warehouse.storage import relation
from spark_jobs.stages.stage import row_count

_PLACE = ("cluster_id", "topic", "partition")
_LAST = pa.schema([arrow_schema("silver.group_event").field(c) for c in (*_PLACE, "offset", "at_ms", "ref")])
_ROWS_AT_ONCE = 1_000_000
_FEW_ROWS = 2_000
"""So few rows are looked at in this process, in a fraction of the time that three questions to DuckDB take."""

Place = tuple[str, str, int]
"""Cluster, topic and partition."""
Found = tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]
"""Steps (place, instant, offset, instant and offset before), and the last (place, offset, instant) of each partition;
both in no order."""


def with_steps(known: dict[str, Any] | None, files: Sequence[str]) -> dict[str, Any] | None:
    """`last`: the last record of each partition; `steps`: of each the largest step back. None if a record came that
    lies before the last one. `files`: new ones of silver.group_event."""
    before = known or {"last": [], "steps": []}
    last: list[dict[str, Any]] = []
    steps: list[dict[str, Any]] = list(before["steps"])
    found = _of_few(before["last"], files) if row_count(files) <= _FEW_ROWS else _of_many(before["last"], files)
    for part in found:
        if part is None:
            return None
        steps += (_step(*row) for row in part[0])
        last += (dict(zip(_LAST.names, (*row, record_ref(*row[1:4])), strict=True)) for row in sorted(part[1]))
    largest: dict[tuple[str, str], dict[str, Any]] = {}
    for step in sorted(steps, key=lambda s: (-s["back_ms"], s["ref"])):
        largest.setdefault((step["cluster_id"], step["source"]), step)
    return {"last": last, "steps": [largest[key] for key in sorted(largest)]}


def _of_few(last: Sequence[dict[str, Any]], files: Sequence[str]) -> Iterator[Found | None]:
    """The same as `_of_many`, in one part."""
    ends: dict[Place, tuple[int, int]] = {
        (row["cluster_id"], row["topic"], row["partition"]): (row["offset"], row["at_ms"]) for row in last
    }
    fresh: dict[Place, list[tuple[int, int]]] = defaultdict(list)
    for group in row_groups_of(files):
        rows = row_group(group.file, group.number, ("source_kind", *_PLACE, "offset", "at_ms"))
        values = zip(*(column.to_pylist() for column in rows.columns), strict=True)
        for kind, cluster_id, topic, partition, offset, at_ms in values:
            if kind == "record":
                fresh[cluster_id, topic, partition].append((offset, at_ms))
    steps: list[tuple[Any, ...]] = []
    for place, records in fresh.items():
        records.sort()
        if place in ends:
            if records[0][0] <= ends[place][0]:
                yield None
                return
            records.insert(0, ends[place])
        steps += (
            (*place, at_ms, offset, before_at_ms, before_offset)
            for (before_offset, before_at_ms), (offset, at_ms) in pairwise(records)
            if before_at_ms - at_ms > CLOCK_APART_MS
        )
        ends[place] = records[-1]
    yield steps, [(*place, *end) for place, end in ends.items()]


def _of_many(last: Sequence[dict[str, Any]], files: Sequence[str]) -> Iterator[Found | None]:
    """What is found of some partitions at a time; None if a record lies before the last one."""
    place, partition = "cluster_id, topic, partition", "hash(cluster_id, topic, partition)"
    parts = row_count(files) // _ROWS_AT_ONCE + 1
    with cursor() as db:
        db.register("last", pa.Table.from_pylist(list(last), _LAST))
        for part in range(parts):
            fresh = (
                f'SELECT {place}, "offset", at_ms FROM {relation(files)} '
                f"WHERE source_kind = 'record' AND {partition} % {parts} = {part}"
            )
            late = db.execute(
                f'SELECT 1 FROM ({fresh}) fresh JOIN last USING ({place}) WHERE fresh."offset" <= last."offset" LIMIT 1'
            ).fetchone()
            if late is not None:
                yield None
                return
            of_part = f'SELECT {place}, "offset", at_ms FROM last WHERE {partition} % {parts} = {part}'
            event = f"({of_part} UNION ALL {fresh})"
            steps = db.execute(
                f"""
                SELECT {place}, at_ms, "offset", before_at_ms, before_offset
                FROM (
                    SELECT *, lag(at_ms) OVER place before_at_ms, lag("offset") OVER place before_offset FROM {event}
                    WINDOW place AS (PARTITION BY {place} ORDER BY "offset")
                ) WHERE before_at_ms - at_ms > {CLOCK_APART_MS}
                """
            ).fetchall()
            ends = db.execute(f'SELECT {place}, max("offset"), arg_max(at_ms, "offset") FROM {event} GROUP BY ALL')
            yield steps, ends.fetchall()


def _step(
    cluster_id: str, topic: str, partition: int, at_ms: int, offset: int, before_at_ms: int, before_offset: int
) -> dict[str, Any]:
    return {
        "cluster_id": cluster_id, "source": f"{topic}-{partition}", "back_ms": before_at_ms - at_ms,
        "before_ref": record_ref(topic, partition, before_offset), "ref": record_ref(topic, partition, offset),
        "at_ms": at_ms,
    }  # fmt: skip
