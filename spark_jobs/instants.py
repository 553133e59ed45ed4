"""When rebalances were, file by file: each cycle asks about the last hours, and a file never changes."""

from __future__ import annotations

import functools
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rebalance_audit.domain.kinds import Outcome, RebalanceKind
from rebalance_audit.warehouse.arrow_tables import arrow_schema, distinct, no_rows
from rebalance_audit.warehouse.known_footers import known
from rebalance_audit.warehouse.row_groups import row_groups_of
from rebalance_audit.warehouse.rows_in_files import columns_in
from spark_jobs.group_rows import GROUP, INSTANTS

_REBALANCES = "silver.measured_rebalance"
_STORED = pa.schema([arrow_schema(_REBALANCES).field(name) for name in (*GROUP.names, *INSTANTS, "kind", "outcome")])
TIMES = pa.schema(
    [
        *GROUP,
        *((name, pa.int64()) for name in ("first_at_ms", "at_ms", "counted_at_ms")),
        ("is_counted", pa.bool_()),
    ]
)
"""`first_at_ms` and `at_ms` as in HistoryStep; `counted_at_ms` by which rates count it, if it `is_counted`."""
_SPAN_MS = 600_000
_FEW_GROUPS = 8
_MOST_SPANS = 250
"""A file with more is read. So many rows are in one that a process wrote with many others."""


def times_of(files: Sequence[str]) -> pa.Table:
    """When each rebalance in these files was (TIMES)."""
    return pa.concat_tables([no_rows(TIMES), *map(_times_of, files)])


def groups_within(files: Sequence[str], bounds: Mapping[str, tuple[int, int]]) -> pa.Table:
    """The groups with a rebalance in these files that counts after the first instant of its cluster, and not after the
    second. All clusters at once: each file has rows of many."""
    times = times_of([file for file in files if _may_count_within(file, bounds.values())])
    coded = times["cluster_id"].combine_chunks().dictionary_encode()
    nothing = (0, -1)
    of_clusters = np.array([bounds.get(name, nothing) for name in coded.dictionary.to_pylist()] or [nothing], np.int64)
    after, until = of_clusters[coded.indices.to_numpy()].T
    at_ms = times["counted_at_ms"].fill_null(-1).to_numpy()
    is_within = (at_ms > after) & (at_ms <= until) & times["counted_at_ms"].is_valid().to_numpy()
    return distinct(times.filter(pa.array(is_within)), GROUP.names).cast(GROUP)


def counts_within(
    files: Sequence[str], places: Sequence[tuple[str, str]], until_ms: Mapping[str, int], window_ms: int
) -> list[int]:
    """For each of these groups, how many of its rebalances in these files count in the window that ends where the
    evidence of its cluster does, or later."""
    counts = dict.fromkeys(places, 0)
    groups = {group_id for _, group_id in places}
    after = {cluster_id: until_ms.get(cluster_id, 0) - window_ms for cluster_id, _ in places}
    some: list[str] = []
    for file in dict.fromkeys(group.file for group in row_groups_of(files, "group_id", groups)):
        of_file = known(file, "counted of few groups", functools.partial(_counted_of_few, file))
        asked = [_Counted(*each) for each in of_file or () if (each[0], each[1]) in counts]
        if of_file is None or any(c.first_ms <= after[c.cluster_id] < c.last_ms for c in asked):
            some.append(file)
            continue
        for counted in asked:
            if counted.first_ms > after[counted.cluster_id]:
                counts[counted.cluster_id, counted.group_id] += counted.row_count
    times = times_of(some)
    is_asked = pc.is_in(times["group_id"], pa.array(sorted(groups), pa.string()))
    times = times.filter(pc.and_(pc.and_(times["is_counted"], times["counted_at_ms"].is_valid()), is_asked))
    coded = times["cluster_id"].combine_chunks().dictionary_encode()
    bounds = np.array([after.get(name, 0) for name in coded.dictionary.to_pylist()] or [0], np.int64)
    is_within = times["counted_at_ms"].to_numpy() > bounds[coded.indices.to_numpy()]
    within = times.filter(pa.array(is_within)).group_by(GROUP.names).aggregate([([], "count_all")])
    for row in within.to_pylist():
        if (place := (row["cluster_id"], row["group_id"])) in counts:
            counts[place] += row["count_all"]
    return [counts[place] for place in places]


class _Counted(NamedTuple):
    """The rebalances of a group in a file that count, with the instants of the first and the last."""

    cluster_id: str
    group_id: str
    row_count: int
    first_ms: int
    last_ms: int


def _counted_of_few(file: str) -> list[_Counted] | None:
    """What counts in a file that has rebalances of few groups, so that a long history is not looked at whole; None of
    any other."""
    times = _times_of(file)
    if len(times["group_id"].unique()) > _FEW_GROUPS:
        return None
    counted = times.filter(pc.and_(times["is_counted"], times["counted_at_ms"].is_valid()))
    named = [*GROUP.names, *(f"counted_at_ms_{asked}" for asked in ("count", "min", "max"))]
    found = counted.group_by(GROUP.names).aggregate([("counted_at_ms", asked) for asked in ("count", "min", "max")])
    return list(map(_Counted._make, zip(*(found[name].to_pylist() for name in named), strict=True)))


def _may_count_within(file: str, bounds: Iterable[tuple[int, int]]) -> bool:
    """Whether one of the file's rebalances may count within one of these bounds. A file of groups' last rebalances is
    about all times, and hardly one of them is at the edge of a window."""
    spans = known(file, f"counted {_SPAN_MS}", lambda: _spans(file))
    if spans is None:
        return True
    return any(
        bisect_left(spans, (after + 1) // _SPAN_MS) < bisect_right(spans, until // _SPAN_MS) for after, until in bounds
    )


def _spans(file: str) -> list[int] | None:
    """The spans of ten minutes in which rebalances of the file count; None where these are many."""
    spans = np.unique(_times_of(file)["counted_at_ms"].drop_null().to_numpy() // _SPAN_MS)
    return spans.tolist() if len(spans) <= _MOST_SPANS else None


@functools.lru_cache(maxsize=1_024)
def _times_of(file: str) -> pa.Table:
    rows = columns_in(file, _STORED)
    at_ms = pc.coalesce(*(rows[name] for name in INSTANTS))
    counted = pc.coalesce(*(rows[name] for name in ("assigned_at_ms", "ended_at_ms", "joined_at_ms", "started_at_ms")))
    first = pc.min_element_wise(at_ms, rows["started_at_ms"])
    is_counted = pc.and_(
        pc.equal(rows["kind"], RebalanceKind.REBALANCE.value), pc.not_equal(rows["outcome"], Outcome.MISSING.value)
    )
    columns = [*(rows[name] for name in GROUP.names), first, at_ms, counted, is_counted.fill_null(False)]
    return pa.Table.from_arrays(columns, schema=TIMES).combine_chunks()
