"""measure: silver.rebalance -> silver.measured_rebalance.

Rows in:  rebalances of groups that were folded again.
Rows out: the same rows, with the numbers; each from its own row alone.
Law:      one row per rebalance; what cannot be known is null with a reason, never 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.domain.measure import (
    Instant,
    MovementNumbers,
    RebalanceNumbers,
    instant,
    movement_numbers,
    rebalance_numbers,
)
from spark_jobs.stage import Run, next_batch, row_count
from spark_jobs.structs import lists_of
from spark_jobs.task_files import (
    WRITTEN,
    ArrowTask,
    Groups,
    TaskWriter,
    batches_of,
    files_by_table,
    numbers_of,
    row_groups,
)

NAME = "measure"
INPUT, OUTPUT = "silver.rebalance", "silver.measured_rebalance"
_GROUP = ("cluster_id", "group_id")
_COLUMNS = tuple(c.name for c in tables.SILVER_REBALANCE.columns)
_MOST_ROWS = 2_000


def run(context: Run) -> bool:
    batch = next_batch(context.warehouse, NAME, (INPUT,), (OUTPUT,))
    if batch is None:
        return False
    groups = context.warehouse.changed_keys(INPUT, _GROUP, batch.since[INPUT], batch.until[INPUT])
    if groups.num_rows == 0:
        context.warehouse.replace(OUTPUT, [], groups, batch.transaction)
        context.committed(OUTPUT, OUTPUT, 0)
        return True
    wanted = {(row["cluster_id"], row["group_id"]): 1 for row in groups.to_pylist()}
    shared = context.spark.sparkContext.broadcast(wanted)
    named = row_groups(context, {INPUT: context.warehouse.files(INPUT, batch.until[INPUT])})
    with context.staging_folder() as folder:
        measured = named.mapInArrow(_measuring(folder, lambda: shared.value), WRITTEN)
        files = files_by_table(measured).get(OUTPUT, [])
        context.gate(OUTPUT, context.scan(OUTPUT, files), batch.batch_id)
        context.warehouse.replace(OUTPUT, files, groups, batch.transaction)
        context.committed(OUTPUT, OUTPUT, row_count(files))
    return True


def _measuring(folder: str, wanted: Callable[[], Groups]) -> ArrowTask:
    def run_task(named: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        writer = TaskWriter(folder)
        for row in (row for some in named for row in some.to_pylist()):
            for rebalances in measure_rows(_of_groups(row, wanted())):
                writer.add(OUTPUT, rebalances)
        yield from writer.written()

    return run_task


def _of_groups(named: Mapping[str, Any], wanted: Groups) -> Iterator[pa.RecordBatch]:
    """The wanted groups' rebalances. Of most files nothing is wanted when little is new."""
    heads = batches_of(named, _GROUP, _MOST_ROWS)
    if not any((numbers_of(*head.columns, wanted) > 0).any() for head in heads):
        return
    for batch in batches_of(named, _COLUMNS, _MOST_ROWS):
        flags = numbers_of(batch["cluster_id"], batch["group_id"], wanted) > 0
        yield batch if flags.all() else batch.filter(pa.array(flags))


def measure_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rebalances = dict(zip(batch.schema.names, batch.columns, strict=True))
        movements = lists_of(rebalances["movements"])
        facts = dict(zip(movements.items.type.names, movements.items.flatten(), strict=True))
        kinds, avoidable = facts["kind"].to_pylist(), facts["is_avoidable"].to_pylist()
        numbers = list(
            map(
                movement_numbers,
                kinds,
                _instants(facts["stop_marks"]),
                _instants(facts["resume_marks"]),
                facts["first_commit_at_ms"].to_pylist(),
            )
        )
        is_known = rebalances["resource_count"].is_valid().to_pylist()
        totals = [
            rebalance_numbers(kinds[a:b], avoidable[a:b], numbers[a:b], is_known=known)
            for (a, b), known in zip(pairwise(movements.offsets), is_known, strict=True)
        ]
        rebalances["movements"] = movements.around(_with(facts, movements.items.type, MovementNumbers, numbers))
        measured = _with(rebalances, pa.struct(list(batch.schema)), RebalanceNumbers, totals)
        yield pa.RecordBatch.from_struct_array(measured)


class _Told(NamedTuple):
    """What of a mark its instant depends on: several times cheaper to make than a Mark."""

    bound: str
    at_ms: int
    tier: str
    rank: int
    detail: str


def _instants(column: pa.ListArray) -> Iterator[Instant]:
    """What each list of marks tells together. Resources that go together have equal marks and mostly follow each
    other: what the list before has told is not worked out anew."""
    marks, places = lists_of(column).of_fields(_Told._fields).without_repeats()
    made = list(map(_Told._make, zip(*(told.to_pylist() for told in marks.items.flatten()), strict=True)))
    instants = [instant(made[a:b]) for a, b in pairwise(marks.offsets)]
    return map(instants.__getitem__, places)


def _with(
    columns: dict[str, pa.Array], type_: pa.StructType, kind: type[MovementNumbers | RebalanceNumbers], rows: list[Any]
) -> pa.StructArray:
    """The columns as structs, those of `kind` from `rows`."""
    told = dict(zip(kind._fields, zip(*rows, strict=True), strict=False))
    arrays = [pa.array(told[f.name], f.type) if f.name in told else columns[f.name] for f in type_]
    return pa.StructArray.from_arrays(arrays, fields=list(type_))
