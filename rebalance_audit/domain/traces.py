"""An incident as a trace: spans with stable ids, so that a trace that is sent again is the same trace.

One span per incident (the root), per rebalance of it, per phase of that rebalance, per member that took something over,
and per resource that stood still. Only what evidence gives both ends of becomes a span; bounds are attributes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_SPANS = 2_000
"""The most spans of one trace that viewers draw; a choice. The longest standstills stay; how many were left out is an
attribute of the root."""
MOST_REFS = 20
LONGEST_TEXT = 1_000
_PREFIX = "rebalance_audit."
Row = Mapping[str, Any]
Attribute = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpan:
    """One piece of time of one trace. Ids are integers of 128 and 64 bits, never 0."""

    trace_id: int
    span_id: int
    parent_id: int | None
    name: str
    """One of a few names; the attributes say what the span is about."""
    start_ms: int
    end_ms: int
    attributes: Mapping[str, Attribute]
    is_error: bool = False


def trace_id(cluster_id: str, incident_id: str) -> int:
    return _number(16, "trace", cluster_id, incident_id)


def spans_of(
    incident: Row, rebalances: Sequence[Row], members: Iterable[Row] = (), movements: Iterable[Row] = ()
) -> list[TraceSpan]:
    """Rows of gold.incident, gold.rebalance, gold.rebalance_member and gold.movement; the root first."""
    trace = trace_id(incident["cluster_id"], incident["incident_id"])
    root = _number(8, "incident", incident["cluster_id"], incident["incident_id"])
    by_rebalance: dict[str, list[Row]] = {}
    for movement in movements:
        by_rebalance.setdefault(movement["rebalance_id"], []).append(movement)
    names = {(m["rebalance_id"], m["member_id"]): m for m in members}
    made = [
        span
        for rebalance in rebalances
        for span in _rebalance(trace, root, rebalance, names, by_rebalance.get(rebalance["rebalance_id"], []))
    ]
    weight = {"rebalance": 0, "prepare and join": 1, "sync": 1, "reconcile": 2, "standstill": 3}
    kept = sorted(made, key=lambda s: (weight[s.name], -(s.end_ms - s.start_ms), s.span_id))[: MOST_SPANS - 1]
    first = min([incident["first_at_ms"], *(span.start_ms for span in kept)])
    last = max([incident["last_at_ms"], *(span.end_ms for span in kept)])
    attributes = _attributes(
        incident,
        ("incident_id", "kind", "root_cause", "root_cause_tier", "severity", "status", "expected", "title", "story",
         "advice", "cost_seconds", "cost_lower_seconds", "cost_upper_seconds", "culprits", "group_ids", "evidence"),
    )  # fmt: skip
    if len(kept) < len(made):
        attributes[f"{_PREFIX}spans_left_out"] = len(made) - len(kept)
    is_error = not incident["expected"] and incident["severity"] == "critical"
    whole = TraceSpan(
        trace_id=trace, span_id=root, parent_id=None, name="incident", start_ms=first, end_ms=last,
        attributes={"messaging.system": "kafka", **attributes}, is_error=is_error,
    )  # fmt: skip
    return [whole, *sorted(kept, key=lambda s: (s.start_ms, weight[s.name], s.span_id))]


def _rebalance(
    trace: int, root: int, rebalance: Row, names: Mapping[tuple[str, str], Row], movements: Sequence[Row]
) -> Iterator[TraceSpan]:
    started, joined, assigned = (rebalance[f"{name}_at_ms"] for name in ("started", "joined", "assigned"))
    known = [at for at in (started, joined, assigned, rebalance["ended_at_ms"]) if at is not None]
    still = [(movement, times) for movement in movements if (times := _standstill(movement)) is not None]
    if not known:
        return
    own = rebalance["rebalance_id"]
    cluster = rebalance["cluster_id"]
    parent = _number(8, "rebalance", cluster, own)
    group = {"messaging.system": "kafka", "messaging.consumer.group.name": _text(rebalance["group_id"])}
    attributes = _attributes(
        rebalance,
        ("rebalance_id", "group_type", "generation_id", "group_epoch", "outcome", "mode", "assignor", "trigger",
         "trigger_tier", "trigger_detail", "expected", "member_count", "moved_count", "returned_count",
         "pause_estimate_ms", "resource_seconds_estimate", "resource_seconds_lower", "resource_seconds_upper",
         "evidence"),
    )  # fmt: skip
    ends = [*known, *(end for _, (_, end) in still)]
    begins = [*known, *(start for _, (start, _) in still)]
    yield TraceSpan(
        trace_id=trace, span_id=parent, parent_id=root, name="rebalance", start_ms=min(begins), end_ms=max(ends),
        attributes={**group, **attributes}, is_error=rebalance["outcome"] == "failed",
    )  # fmt: skip
    for name, start, end in (("prepare and join", started, joined), ("sync", joined, assigned)):
        if start is not None and end is not None and start <= end:
            yield TraceSpan(
                trace_id=trace, span_id=_number(8, name, cluster, own), parent_id=parent, name=name, start_ms=start,
                end_ms=end, attributes=dict(group),
            )  # fmt: skip
    handed_out = joined if joined is not None else started
    taken: dict[str, list[int]] = {}
    for movement, (_, end) in still:
        if movement["to_member_id"] is not None:
            taken.setdefault(movement["to_member_id"], []).append(end)
    for member_id, ends_of in taken.items() if handed_out is not None else ():
        member = names.get((own, member_id), {})
        yield TraceSpan(
            trace_id=trace, span_id=_number(8, "reconcile", cluster, own, member_id), parent_id=parent,
            name="reconcile", start_ms=handed_out, end_ms=max([handed_out, *ends_of]),
            attributes={
                **group, f"{_PREFIX}member_id": _text(member_id), f"{_PREFIX}resource_count": len(ends_of),
                **_attributes(member, ("client_id", "client_host", "group_instance_id", "worker_url", "change")),
            },
        )  # fmt: skip
    for movement, (start, end) in still:
        place: dict[str, Attribute] = {f"{_PREFIX}resource": _text(movement["resource"])}
        if movement["topic"] is not None and movement["partition"] is not None:
            place["messaging.destination.name"] = _text(movement["topic"])
            place["messaging.destination.partition.id"] = str(movement["partition"])
        yield TraceSpan(
            trace_id=trace,
            span_id=_number(8, "standstill", cluster, own, movement["resource_type"], movement["resource"]),
            parent_id=parent, name="standstill", start_ms=start, end_ms=end,
            attributes={
                **group, **place,
                **_attributes(
                    movement,
                    ("kind", "from_client_id", "to_client_id", "pause_lower_ms", "pause_estimate_ms", "pause_upper_ms",
                     "pause_tier", "overlap_ms", "is_avoidable", "evidence"),
                ),
            },
        )  # fmt: skip


def _standstill(movement: Row) -> tuple[int, int] | None:
    """From when to when it stood still, by the estimate; None where that is not known, or where it did not."""
    estimate = movement["pause_estimate_ms"]
    if estimate is None or estimate <= 0:
        return None
    for at in (movement["resumed_at_upper_ms"], movement["resumed_at_lower_ms"]):
        if at is not None:
            return at - estimate, at
    for at in (movement["stopped_at_lower_ms"], movement["stopped_at_upper_ms"]):
        if at is not None:
            return at, at + estimate
    return None


def _attributes(row: Row, names: Sequence[str]) -> dict[str, Attribute]:
    """The attributes that are known, under our prefix."""
    found: dict[str, Attribute] = {}
    for name in names:
        value = row.get(name)
        if isinstance(value, list | tuple):
            value = tuple(_text(str(each)) for each in value[:MOST_REFS])
        elif isinstance(value, str):
            value = _text(value)
        if value is not None and value != ():
            found[_PREFIX + name] = value
    return found


def _text(text: str) -> str:
    return text[:LONGEST_TEXT]


def _number(size: int, *parts: str) -> int:
    """An id of `size` bytes, hashed from all parts; never 0."""
    digest = hashlib.sha256("\0".join(f"{len(part)}:{part}" for part in parts).encode("utf-8", "surrogatepass"))
    return int.from_bytes(digest.digest()[:size], "big") or 1
