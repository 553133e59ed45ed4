"""The broker's own window beside what members that stayed lived through: what the README leads with, from the truth.

Over every completed rebalance of an eager group in which a member was given back what it had: the time from
`Preparing to rebalance` to the group record, which dashboards show; the longest pause of such a partition by its
client's callbacks; the longest we show for one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from rebalance_audit.domain.model import Rebalance
from tests.truth import TruePause

RESUMED_WITHIN_MS = 5_000
"""Of the group record; the next rebalance is further away in every scenario."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One rebalance, in ms."""

    broker_ms: int
    clients_ms: int
    shown_ms: int


def windows(rebalances: Iterable[Rebalance], truth: Sequence[TruePause]) -> list[Window]:
    found = []
    for r in rebalances:
        if (r.kind, r.outcome, r.mode) != ("rebalance", "completed", "eager") or r.protocol_type != "consumer":
            continue
        if r.broker_window_ms is None or r.assigned_at_ms is None:
            continue
        kept = {(m.resource, m.to_client_id): m for m in r.movements if m.kind == "returned"}
        lived = [
            p.pause_ms
            for p in truth
            if p.group_id == r.group_id and p.from_client == p.to_client and (p.resource, p.to_client) in kept
            if abs(p.resumed_at_ms - r.assigned_at_ms) < RESUMED_WITHIN_MS
        ]
        shown = [m.pause_estimate_ms for m in kept.values() if m.pause_estimate_ms is not None]
        if lived and shown:
            found.append(Window(broker_ms=r.broker_window_ms, clients_ms=max(lived), shown_ms=max(shown)))
    return found


def table(found: Sequence[Window]) -> str:
    """Markdown: what, median, 90th percentile."""
    rows = [
        ("the broker's window", [w.broker_ms for w in found]),
        ("longest pause of a partition that came back, by its client", [w.clients_ms for w in found]),
        ("the same as measured", [w.shown_ms for w in found]),
    ]
    lines = [f"| {len(found)} rebalances of eager groups, ms | median | 90 % |", "|---|---|---|"]
    for what, values in rows:
        ordered = sorted(values)
        numbers = f"{statistics.median(ordered):.0f} | {ordered[ceil(0.9 * len(ordered)) - 1]}" if ordered else "– | –"
        lines.append(f"| {what} | {numbers} |")
    return "\n".join(lines)
