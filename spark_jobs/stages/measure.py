"""measure: silver.rebalance -> silver.measured_rebalance.

Rows in:  rebalances that a fold made, or made otherwise.
Rows out: the same rows, with the numbers; each from its own row alone.
Law:      one row per rebalance; what cannot be known is null with a reason, never 0.

`measure_rows` shows three rows in and what comes out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain import tables
from rebalance_audit.domain.measure.errors import Pace
from rebalance_audit.domain.measure.pauses import (
    Instant,
    MovementNumbers,
    RebalanceNumbers,
    instant,
    movement_numbers,
    pace_of,
    rebalance_numbers,
)
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from spark_jobs.engine import ArrowTask
from spark_jobs.group_evidence import seen_until_ms
from spark_jobs.group_rows import INSTANTS, GroupReader, changed_rebalances
from spark_jobs.plan import MEASURE
from spark_jobs.stages.stage import Run, added_files
from spark_jobs.structs import distinct, lists_of
from spark_jobs.task_files import WRITTEN, Flags, TaskWriter, files_by_table

NAME, (INPUT,), (OUTPUT,) = MEASURE.name, MEASURE.reads, MEASURE.writes
_GROUP = ("cluster_id", "group_id")
_RECENT_MS = 25 * 3_600_000
"""What follows asks for the last hour, for the last day, and for what is going on with three hours before it."""
_COLUMNS = tuple(c.name for c in tables.SILVER_REBALANCE.columns)


def run(context: Run) -> bool:
    batch = context.next_batch(NAME, (INPUT,), (OUTPUT,))
    if batch is None:
        return False
    reader = changed_rebalances(context.warehouse, INPUT, _COLUMNS, batch)
    if reader is None:
        groups = context.warehouse.changed_keys(INPUT, _GROUP, batch.since[INPUT], batch.until[INPUT])
        files = {INPUT: context.warehouse.files(INPUT, batch.until[INPUT])}
        reader = GroupReader(files=files, columns={INPUT: _COLUMNS}, groups=groups)
    if reader.groups.num_rows == 0:
        context.replace(OUTPUT, arrow_schema(OUTPUT).empty_table(), reader.groups, batch.batch_id, batch.transaction)
        return True
    engine = context.engine_for(added_files(context, INPUT, batch))
    with context.staging_folder() as folder:
        recent = {cluster_id: at_ms - _RECENT_MS for cluster_id, at_ms in seen_until_ms(context.warehouse).items()}
        measured = engine.spread(reader.work(), _measuring(folder, engine.share(reader), recent), WRITTEN)
        written = files_by_table(measured).get(OUTPUT, [])
        context.replace(OUTPUT, written, reader.groups, batch.batch_id, batch.transaction)
    return True


def _measuring(folder: str, shared: Callable[[], GroupReader], recent: Mapping[str, int]) -> ArrowTask:
    def run_task(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer, reader = TaskWriter(folder), shared()
        for row in (row for some in named for row in some.to_pylist()):
            for rebalances in measure_rows(reader.batches(row)):
                writer.add(OUTPUT, rebalances, _is_recent(rebalances, recent))
        yield from writer.written()

    return run_task


def _is_recent(rebalances: pa.RecordBatch, recent: Mapping[str, int]) -> Flags:
    """For each rebalance, whether it was in the last day, or nobody knows when."""
    latest = pc.max_element_wise(*(rebalances[name] for name in INSTANTS))
    clusters = rebalances["cluster_id"].to_pylist()
    since = pa.array([recent.get(cluster_id, 0) for cluster_id in clusters], pa.int64())
    flags: Flags = pc.greater_equal(latest, since).fill_null(True).to_numpy(zero_copy_only=False)
    return flags


def measure_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows with their numbers. Three rebalances of one resource each: moved with all marks but a last one,
    moved and never resumed as far as evidence goes, and one in which nothing moved:

    >>> from rebalance_audit.warehouse.arrow_tables import arrow_schema
    >>> def mark(bound, at_ms):
    ...     return {"bound": bound, "at_ms": at_ms, "tier": "recorded", "rank": 3, "detail": ""}
    >>> stop = [mark("lower", 1_000), mark("estimate", 1_050), mark("upper", 1_100)]
    >>> resume = [mark("lower", 1_300), mark("estimate", 1_308)]
    >>> moved = {"kind": "moved", "is_avoidable": False, "stop_marks": stop, "resume_marks": resume}
    >>> rows = [
    ...     {"rebalance_id": "lab/orders/7", "resource_count": 1, "movements": [moved]},
    ...     {"rebalance_id": "lab/orders/8", "resource_count": 1, "movements": [moved | {"resume_marks": []}]},
    ...     {"rebalance_id": "lab/orders/9", "resource_count": 1, "movements": []},
    ... ]
    >>> schema = arrow_schema("silver.rebalance")
    >>> [measured] = measure_rows(iter([pa.RecordBatch.from_pylist(rows, schema=schema)]))
    >>> for row in measured.to_pylist():
    ...     print(row["rebalance_id"], row["pause_lower_ms"], row["pause_estimate_ms"], row["pause_upper_ms"])
    lab/orders/7 200 258 None
    lab/orders/8 None None None
    lab/orders/9 None None None
    """
    for batch in batches:
        rebalances = dict(zip(batch.schema.names, batch.columns, strict=True))
        movements = lists_of(rebalances["movements"])
        type_ = movements.items.type
        facts = dict(zip(type_.names, movements.items.flatten(), strict=True))
        kinds, avoidable = facts["kind"].to_pylist(), facts["is_avoidable"].to_pylist()
        instants = rebalances["joined_at_ms"].to_pylist(), rebalances["assigned_at_ms"].to_pylist()
        paces = [pace_of(*of_one) for of_one in zip(*instants, strict=True)]
        of_movements = [
            pace for pace, (a, b) in zip(paces, pairwise(movements.offsets), strict=True) for _ in range(a, b)
        ]
        distinct_numbers, places = _numbers(kinds, facts, of_movements)
        numbers = [distinct_numbers[place] for place in places]
        is_known = rebalances["resource_count"].is_valid().to_pylist()
        totals = [
            rebalance_numbers(kinds[a:b], avoidable[a:b], numbers[a:b], is_known=known)
            for (a, b), known in zip(pairwise(movements.offsets), is_known, strict=True)
        ]
        taken = pa.array(places, pa.int64())
        facts |= {name: column.take(taken) for name, column in _columns(distinct_numbers, type_).items()}
        rebalances["movements"] = movements.around(pa.StructArray.from_arrays(list(facts.values()), fields=list(type_)))
        rebalances |= _columns(totals, batch.schema)
        yield pa.RecordBatch.from_arrays(list(rebalances.values()), schema=batch.schema)


def _numbers(
    kinds: list[str], facts: Mapping[str, pa.Array], paces: list[Pace]
) -> tuple[list[MovementNumbers], list[int]]:
    """Numbers of movements, each once, and the place of every movement's: resources that go together share them.
    `paces`: of its rebalance, for each movement."""
    stops, stop_places = _instants(facts["stop_marks"])
    resumes, resume_places = _instants(facts["resume_marks"])
    first_commits = facts["first_commit_at_ms"].to_pylist()
    asked, places = distinct(zip(kinds, stop_places, resume_places, first_commits, paces, strict=True))
    numbers = [
        movement_numbers(kind, stops[stop], resumes[resume], at_ms, pace) for kind, stop, resume, at_ms, pace in asked
    ]
    return numbers, places


class _MarkFields(NamedTuple):
    """The fields of a mark that an instant is made of: several times cheaper to make than a Mark."""

    bound: str
    at_ms: int
    tier: str
    rank: int
    detail: str
    basis: str | None
    window_from_ms: int | None
    window_to_ms: int | None


def _instants(column: pa.ListArray) -> tuple[list[Instant], list[int]]:
    """Instants of lists of marks, each once, and the place of every list's among them."""
    marks, places = lists_of(column).of_fields(_MarkFields._fields).distinct()
    made = list(map(_MarkFields._make, zip(*(values.to_pylist() for values in marks.items.flatten()), strict=True)))
    return [instant(made[a:b]) for a, b in pairwise(marks.offsets)], places


def _columns(
    rows: Sequence[MovementNumbers | RebalanceNumbers], types: pa.StructType | pa.Schema
) -> dict[str, pa.Array]:
    if not rows:
        return {}
    values = zip(rows[0]._fields, zip(*rows, strict=True), strict=True)
    return {name: pa.array(of_name, types.field(name).type) for name, of_name in values}
