"""The completeness ledger: where evidence is continuous, and what was not seen."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource
from rebalance_audit.domain.model import node_of_log
from rebalance_audit.domain.reassign.history import NO_ZONE
from rebalance_audit.warehouse.queries import cursor
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.clock_votes import stored
from spark_jobs.group_evidence import Clocks, node_clocks
from spark_jobs.readings import landing_order, readings_of

_NOT_A_GAP = frozenset({"above_majority", "skipped"})
"""Problems that raise a doubt but do not show that something is missing, and what was left out on purpose."""

_HOURLY = re.compile(r"(log:[^/]+/controller\.log)\.(\d{4}-\d\d-\d\d-\d\d)(?:\.gz)?#\w+")
_HOURS_THAT_SHOW_A_HABIT = 3

Row = dict[str, Any]


def ledger(warehouse: Warehouse, source_version: int | None = None, event_version: int | None = None) -> list[Row]:
    """Rows of gold.coverage, from all readings."""
    clocks = _needed(warehouse, node_clocks(warehouse, event_version, source_version))
    return ledger_rows(readings_of(warehouse, source_version), clocks)


def _needed(warehouse: Warehouse, clocks: Clocks) -> Clocks:
    """Add an assumed clock for each node from whose log reassignments were made without a zone."""
    reassignments = stored(warehouse, "silver.reassignment", None)
    if reassignments is None:
        return clocks
    with cursor() as db:
        rows = db.execute(
            f"SELECT DISTINCT cluster_id, unnest(evidence) FROM {reassignments} WHERE contains(detail, '{NO_ZONE}')"
        ).fetchall()
    known = {cluster_id: dict(by_node) for cluster_id, by_node in clocks.items()}
    for cluster_id, ref in rows:
        if node := node_of_log(ref):
            known.setdefault(cluster_id, {}).setdefault(node, NodeClock(source=ZoneSource.ASSUMED))
    return known


def ledger_rows(readings: Iterable[Mapping[str, Any]], clocks: Clocks) -> list[Row]:
    """One row per continuous stretch, per gap between stretches, and per problem. Any order of readings."""
    by_source: dict[tuple[str, str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for reading in readings:
        by_source[reading["cluster_id"], reading["source"], reading["kind"]].append(reading)
    last_read = _last_read(by_source)
    rows: list[Row] = []
    for (cluster_id, source, kind), of_source in sorted(by_source.items()):
        known = {"cluster_id": cluster_id, "source": source, "kind": kind}
        lasting = [r for r in of_source if landing_order(r) >= last_read.get((cluster_id, source), "")]
        found = [known | row for row in (*_stretches(kind, of_source), *_problems(lasting))]
        if kind == "log":
            found += _clock(known, found, clocks.get(cluster_id, {}).get(node_of_log(source)))
        rows += _distinct(found)
    return rows + list(_missing_hours(by_source))


def _last_read(by_source: Mapping[tuple[str, str, str], Sequence[Mapping[str, Any]]]) -> dict[tuple[str, str], str]:
    """By the place of a log (`log:NODE/NAME`, and `log:NODE/` for the folder): when a file there was read last. That it
    could not be read before is over by then; what the file lacks, its own readings say."""
    found: dict[tuple[str, str], str] = {}
    for (cluster_id, source, kind), readings in by_source.items():
        place, is_file, _ = source.partition("#")
        if kind == "log" and is_file:
            landed = max((landing_order(r) for r in readings if r["from_position"] is not None), default="")
            for each in (place, place.partition("/")[0] + "/"):
                found[cluster_id, each] = max(landed, found.get((cluster_id, each), ""))
    return found


def _missing_hours(sources: Iterable[tuple[str, str, str]]) -> Iterator[Row]:
    """Hourly files of a controller's log that are not there between others. A controller logs every few minutes. If
    most hours have no file, the log is not kept by the hour, and no file is missing."""
    hours: dict[tuple[str, str], set[int]] = defaultdict(set)
    for cluster_id, source, kind in sources:
        if kind == "log" and (found := _HOURLY.fullmatch(source)):
            try:
                at = datetime.strptime(found[2], "%Y-%m-%d-%H").replace(tzinfo=UTC)
            except ValueError:
                continue  # digits that are no hour
            hours[cluster_id, found[1]].add(int(at.timestamp()) // 3600)
    for (cluster_id, source), there in sorted(hours.items()):
        missing_count = max(there) - min(there) + 1 - len(there)
        if len(there) < _HOURS_THAT_SHOW_A_HABIT * missing_count:
            continue
        known = {"cluster_id": cluster_id, "source": source, "kind": "log"}
        for hour in sorted(set(range(min(there), max(there))) - there):
            named = f"{datetime.fromtimestamp(hour * 3600, UTC):%Y-%m-%d, hour %H}"
            problem = f"There is no file for {named} of the log's own zone, and there are files before and after it."
            yield known | _gap(hour, hour + 1, "not_given", problem, None, None)


def _stretches(kind: str, readings: Iterable[Mapping[str, Any]]) -> list[Row]:
    """The readings, overlapping and touching ones joined, and the gaps between."""
    ranges = sorted(
        (r for r in readings if r["from_position"] is not None and (r["to_position"] or 0) > r["from_position"]),
        key=lambda r: (r["from_position"], r["to_position"], r["from_at_ms"] is None, r["from_at_ms"] or 0),
    )
    rows: list[Row] = []
    for reading in ranges:
        last = rows[-1] if rows else None
        if last is not None and reading["from_position"] <= last["to_position"]:
            overlaps = reading["from_position"] < last["to_position"]
            # Of two readings of the same place nobody can say how much of the second was new.
            last["item_count"] = None if overlaps and not _same(last, reading) else _sum(last, reading, overlaps)
            last["to_position"] = max(last["to_position"], reading["to_position"])
            last["from_at_ms"] = _least(last["from_at_ms"], reading["from_at_ms"])
            last["to_at_ms"] = _greatest(last["to_at_ms"], reading["to_at_ms"])
            continue
        if last is not None:
            rows.append(
                _gap(
                    last["to_position"],
                    reading["from_position"],
                    "not_given",
                    "no reading covers this",
                    last["to_at_ms"],
                    reading["from_at_ms"],
                )
            )
        elif reading["from_position"] > 0:
            code, why = ("compacted", "older records were deleted before the first reading, or not given")
            if kind == "log":
                code, why = ("not_given", "the beginning of this file was not read")
            rows.append(_gap(0, reading["from_position"], code, why, None, reading["from_at_ms"]))
        rows.append(
            {name: reading[name] for name in ("from_position", "to_position", "from_at_ms", "to_at_ms", "item_count")}
            | {"is_gap": False, "problem_code": "none", "problem": None}
        )
    return rows


def _same(last: Row, reading: Mapping[str, Any]) -> bool:
    return all(last[name] == reading[name] for name in ("from_position", "to_position", "item_count"))


def _sum(last: Row, reading: Mapping[str, Any], overlaps: bool) -> int | None:
    if overlaps:
        return last["item_count"]
    counts = (last["item_count"], reading["item_count"])
    return None if None in counts else sum(counts)


def _gap(start: int, end: int, code: str, why: str, from_at_ms: int | None, to_at_ms: int | None) -> Row:
    return {
        "from_position": start, "to_position": end, "from_at_ms": from_at_ms, "to_at_ms": to_at_ms,
        "item_count": None, "is_gap": True, "problem_code": code, "problem": why,
    }  # fmt: skip


def _problems(readings: Iterable[Mapping[str, Any]]) -> list[Row]:
    found = []
    for reading in sorted(readings, key=lambda r: (r["problem_position"] or 0, r["read_id"])):
        if reading["problem"] is None:
            continue
        code = reading.get("problem_code") or "unreadable"
        found.append(
            {
                "from_position": reading["problem_position"] or 0,
                "to_position": None,
                "from_at_ms": None,
                "to_at_ms": None,
                "item_count": None,
                "is_gap": code not in _NOT_A_GAP,
                "problem_code": code,
                "problem": reading["problem"],
            }
        )
    return found


def _clock(known: Row, found: list[Row], clock: Any) -> list[Row]:
    """Notes on each row of a log how its times were read, and adds a row if that was only assumed."""
    if clock is None:  # a file that showed nothing: nobody needs its clock
        return []
    for row in found:
        row["utc_offset_ms"], row["utc_offset_source"] = clock.utc_offset_ms, clock.source.value
        if clock.zone is not None:
            row["utc_offset_ms"] = None  # a zone has no one offset
    if clock.source.value != "assumed" or not found:
        return []
    first = found[0]
    return [
        known
        | first
        | {
            "from_position": first["from_position"],
            "to_position": None,
            "item_count": None,
            "is_gap": False,
            "problem_code": "time_zone",
            "problem": "no zone was given and none could be inferred: read as UTC",
        }
    ]


def _distinct(rows: Iterable[Row]) -> list[Row]:
    """The same problem of several readings is one row."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        found.setdefault((row["from_position"], row["problem_code"]), row)
    return list(found.values())


def _least(a: int | None, b: int | None) -> int | None:
    return min((x for x in (a, b) if x is not None), default=None)


def _greatest(a: int | None, b: int | None) -> int | None:
    return max((x for x in (a, b) if x is not None), default=None)
