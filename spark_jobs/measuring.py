"""measure: rebalances as a fold made them, with numbers. `reconstruct` does it in the tasks that fold (decision 0123).

Rows in:  rebalances that a fold made, or made otherwise.
Rows out: the same rows, with the numbers; each from its own row alone.
Law:      one row per rebalance; what cannot be known is null with a reason, never 0.

`with_numbers` shows three rows in and what comes out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import pyarrow as pa

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
from spark_jobs.structs import distinct, lists_of


def with_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
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
    >>> schema = arrow_schema("silver.measured_rebalance")
    >>> measured = with_numbers(pa.RecordBatch.from_pylist(rows, schema=schema))
    >>> for row in measured.to_pylist():
    ...     print(row["rebalance_id"], row["pause_lower_ms"], row["pause_estimate_ms"], row["pause_upper_ms"])
    lab/orders/7 200 258 None
    lab/orders/8 None None None
    lab/orders/9 None None None
    """
    rebalances = dict(zip(batch.schema.names, batch.columns, strict=True))
    movements = lists_of(rebalances["movements"])
    type_ = movements.items.type
    facts = dict(zip(type_.names, movements.items.flatten(), strict=True))
    kinds, avoidable = facts["kind"].to_pylist(), facts["is_avoidable"].to_pylist()
    instants = rebalances["joined_at_ms"].to_pylist(), rebalances["assigned_at_ms"].to_pylist()
    paces = [pace_of(*of_one) for of_one in zip(*instants, strict=True)]
    of_movements = [pace for pace, (a, b) in zip(paces, pairwise(movements.offsets), strict=True) for _ in range(a, b)]
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
    return pa.RecordBatch.from_arrays(list(rebalances.values()), schema=batch.schema)


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
