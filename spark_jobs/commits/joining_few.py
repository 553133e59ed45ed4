"""Joins partial marks of the news with the known marks, where both are few and no commit must be folded again.

It finds what `joining` does, in this process: to plan its eight questions takes DuckDB longer than to answer them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import pyarrow as pa

from rebalance_audit.domain import tables
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from spark_jobs.commits.joining import GROUP_PLACE, KEY, Joined

FEW_ROWS = 2_000
_PLACE = ("cluster_id", "group_id", "topic", "partition", "offsets_topic", "offsets_partition", "stretch_from")
_NO_RECORD = -1

Mark = dict[str, Any]
"""A row of PARTIAL_MARK."""
Place = tuple[Any, ...]
"""Cluster, group, and topic and partition of its records."""


def joined(partial: pa.Table, known: pa.Table, cut: pa.Table) -> Joined | None:
    """`partial`: marks of the news; `known`: rows of silver.commit_mark; `cut`: where the groups' records are. None if
    a record cuts a known mark in two, or commits of one mark lie between those of another: then some are folded
    again."""
    cuts: dict[Place, list[int]] = defaultdict(list)
    for cluster_id, group_id, topic, partition, offset in _values(
        cut, ("cluster_id", "group_id", "topic", "partition", "offset")
    ):
        cuts[cluster_id, group_id, topic, partition].append(offset)
    for offsets in cuts.values():
        offsets.sort()
    by_place: dict[Place, list[Mark]] = defaultdict(list)
    for mark in partial.to_pylist():
        by_place[(*map(mark.__getitem__, _PLACE),)].append(mark)
    fresh = set(by_place)
    replaced: list[Mark] = []
    for mark in known.to_pylist():
        offsets = cuts.get((*map(mark.__getitem__, GROUP_PLACE.names),), [])
        mark["stretch_from"] = _last_before(offsets, mark["first_offset"])
        if _last_before(offsets, mark["last_offset"]) != mark["stretch_from"]:
            return None
        place = (*map(mark.__getitem__, _PLACE),)
        by_place[place].append(mark)
        if place in fresh:
            replaced.append(mark)
    for parts in by_place.values():
        parts.sort(key=lambda mark: mark["first_offset"])
        if any(mark["last_offset"] >= later["first_offset"] for mark, later in pairwise(parts)):
            return None
    rows = [_one_of(by_place[place]) for place in fresh]
    rows.sort(key=lambda mark: (*map(mark.__getitem__, tables.SILVER_COMMIT_MARK.key),))
    return Joined(rows_to_table("silver.commit_mark", rows), pa.Table.from_pylist(replaced, KEY))


def _values(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _last_before(offsets: Sequence[int], offset: int) -> int:
    """The last of these offsets, in order, before the one."""
    at = bisect_left(offsets, offset)
    return offsets[at - 1] if at else _NO_RECORD


def _one_of(parts: Sequence[Mark]) -> Mark:
    """The mark of these parts of one stretch, one behind the other."""
    first, last = parts[0], parts[-1]
    if len(parts) == 1:
        return first
    next_at_ms, next_position = _next_of(first, parts[1])
    mark = {
        **first,
        **{name: last[name] for name in ("last_offset", "last_at_ms", "last_position", "in_transaction")},
        "commit_count": sum(part["commit_count"] for part in parts),
        "topic_id": next((part["topic_id"] for part in parts if part["topic_id"] is not None), None),
        "next_at_ms": next_at_ms,
        "next_position": next_position,
        **dict.fromkeys((*_GAP, "second_gap_ms")),
    }
    if any(part["commit_count"] > 1 and part["gap_from_offset"] is None for part in parts):
        return mark  # of an earlier release: the longest gap is not known
    gaps = list(_gaps_of(parts))
    if whole := [(-gap_ms, ends) for gap_ms, ends in gaps if ends]:
        mark |= dict(zip(_GAP, min(whole)[1], strict=True))
    lengths = sorted((gap_ms for gap_ms, _ in gaps), reverse=True)
    return mark | {"second_gap_ms": lengths[1] if len(lengths) > 1 else None}


_GAP = (
    *(f"gap_{end}_{what}" for end in ("from", "to") for what in ("offset", "at_ms", "position")),
    "after_at_ms", "after_position",
)  # fmt: skip


def _gaps_of(parts: Sequence[Mark]) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """(milliseconds, values of _GAP) of the known gaps in and between these parts. Of each part's second longest gap
    the ends are not known."""
    for previous, part, later in zip([None, *parts[:-1]], parts, [*parts[1:], None], strict=True):
        if part["gap_from_offset"] is not None:
            is_last = part["after_at_ms"] is None and part["gap_to_offset"] == part["last_offset"]
            after = _begin_of(later) if is_last else (part["after_at_ms"], part["after_position"])
            yield _ms(part["gap_from_at_ms"], part["gap_to_at_ms"]), (*(part[name] for name in _GAP[:-2]), *after)
        if previous is not None:
            ends = [previous[f"last_{what}"] for what in ("offset", "at_ms", "position")]
            ends += [part[f"first_{what}"] for what in ("offset", "at_ms", "position")]
            yield _ms(previous["last_at_ms"], part["first_at_ms"]), (*ends, *_next_of(part, later))
        if part["second_gap_ms"] is not None:
            yield part["second_gap_ms"], ()


def _ms(from_ms: int, to_ms: int) -> int:
    return max(to_ms - from_ms, 0)


def _next_of(part: Mark, later: Mark | None) -> tuple[int | None, int | None]:
    """(instant, position) of the commit after the part's first one. What it does not hold is the first of the part
    behind it."""
    return (part["next_at_ms"], part["next_position"]) if part["next_at_ms"] is not None else _begin_of(later)


def _begin_of(part: Mapping[str, Any] | None) -> tuple[int | None, int | None]:
    return (None, None) if part is None else (part["first_at_ms"], part["first_position"])
