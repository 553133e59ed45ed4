"""Readings of bronze.source as the ledger needs them: of those that follow each other without a gap, one.

A collector states at each flush what it read of each partition, several times a second beside a busy cluster. The
ledger of all readings is that of the joined ones; so a run reads those that are new.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.kept_folds import folded

TABLE = "bronze.source"
_COLUMNS = (
    "cluster_id", "source", "kind", "from_position", "to_position", "from_at_ms", "to_at_ms", "item_count", "problem",
    "problem_code", "problem_position", "read_id", "landing",
)  # fmt: skip
_JOINED = "is_joined"
"""This reading stands for several: another one that overlaps it may be a repeat of one of them."""

Reading = dict[str, Any]


def readings_of(warehouse: Warehouse, version: int | None) -> list[Reading]:
    """All readings at this version (None: the newest), joined, in no order."""
    found = folded(warehouse, "readings", TABLE, version, partial(_with_files, warehouse), value_version=1)
    return found or []


def _with_files(warehouse: Warehouse, known: list[Reading] | None, files: Sequence[str]) -> list[Reading] | None:
    return joined([*(known or ()), *warehouse.read_files(TABLE, files, _COLUMNS, "true").to_pylist()])


def joined(every: Iterable[Reading]) -> list[Reading] | None:
    """The same readings, joined. None where one overlaps a joined one: then all must be joined at once, from the
    rows."""
    by_source: dict[tuple[str, str, str], list[Reading]] = defaultdict(list)
    for reading in every:
        by_source[reading["cluster_id"], reading["source"], reading["kind"]].append(reading)
    found: list[Reading] = []
    for of_source in by_source.values():
        ranges = sorted(filter(_has_range, of_source), key=lambda r: (r["from_position"], r["to_position"]))
        overlaps = _overlapping(ranges)
        if any(reading.get(_JOINED) and is_one for reading, is_one in zip(ranges, overlaps, strict=True)):
            return None
        found += _runs(ranges, overlaps)
        others = [reading for reading in of_source if not _has_range(reading)]
        found += [reading for reading in others if reading["problem"] is not None]
        found += _newest(reading for reading in others if reading["problem"] is None)
    return found


def _has_range(reading: Reading) -> bool:
    return reading["from_position"] is not None and (reading["to_position"] or 0) > reading["from_position"]


def _overlapping(ranges: Sequence[Reading]) -> list[bool]:
    """Of ranges in their order, whether each shares a position with another one."""
    found = [False] * len(ranges)
    furthest = 0
    for at in range(1, len(ranges)):
        if ranges[at]["from_position"] < ranges[furthest]["to_position"]:
            found[at] = found[furthest] = True
        if ranges[at]["to_position"] > ranges[furthest]["to_position"]:
            furthest = at
    return found


def _runs(ranges: Sequence[Reading], overlaps: Sequence[bool]) -> Iterator[Reading]:
    last: Reading | None = None
    for reading, is_one in zip(ranges, overlaps, strict=True):
        stands_alone = is_one or reading["problem"] is not None
        if last is not None and not stands_alone and _follows(last, reading):
            last = _one_of(last, reading)
            continue
        if last is not None:
            yield last
        last = None if stands_alone else reading
        if stands_alone:
            yield reading
    if last is not None:
        yield last


def _follows(first: Reading, then: Reading) -> bool:
    """Right behind it, and not with an earlier instant: a gap before the first one ends with its instant."""
    from_ms, at_ms = first["from_at_ms"], then["from_at_ms"]
    return bool(then["from_position"] == first["to_position"]) and (
        at_ms is None or (from_ms is not None and at_ms >= from_ms)
    )


def _one_of(first: Reading, then: Reading) -> Reading:
    counts = first["item_count"], then["item_count"]
    return first | {
        "to_position": then["to_position"],
        "to_at_ms": max((r["to_at_ms"] for r in (first, then) if r["to_at_ms"] is not None), default=None),
        "item_count": None if None in counts else sum(counts),
        "landing": max(first, then, key=landing_order)["landing"],
        _JOINED: True,
    }


def _newest(empty: Iterable[Reading]) -> Iterable[Reading]:
    """Of readings in which nothing was new, the last one with a position and the last one without."""
    newest: dict[bool, Reading] = {}
    for reading in empty:
        has_place = reading["from_position"] is not None
        newest[has_place] = max(newest.get(has_place, reading), reading, key=landing_order)
    return newest.values()


def landing_order(reading: Mapping[str, Any]) -> str:
    """Sorts landings by time: their names are `PROGRAM-TIME-…-NUMBER`."""
    return (reading.get("landing") or "").partition("-")[2]
