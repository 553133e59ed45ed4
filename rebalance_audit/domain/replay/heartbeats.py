"""The heartbeats of a group's members, read off the ends of its join phases: their interval, by how much each comes
later than that, and how late the last member to hear of a rebalance joins.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.model import Rebalance

from .timing import REVOKE_MS

HEARTBEATS_MS = (3_000, 1_000, 2_000, 4_000, 5_000, 6_000, 10_000)
"""The default first: the others are believed only where it does not fit."""
LEAST_DRIFT_MS = 1.0
"""Some: without any, a session of two intervals would end at the very moment of everybody's second heartbeat."""
FEWEST_MEASURED = 3
"""From so many values on, a group's own timing replaces the lab's."""
LATEST_MS = 500
"""What ends later than that after a heartbeat waited for something else; a choice."""
SHORTEST_WAIT_MS = 100
"""A shorter join phase may have waited for no heartbeat; a choice."""
ALL_JOIN_BY_THEMSELVES = frozenset({Cause.CONNECT_CONFIG_CHANGED, Cause.CONNECT_DELAY_EXPIRED})
"""Connect's workers read of these, or wait for them; no heartbeat does."""


@dataclass(frozen=True, slots=True)
class Beats:
    """All of one group's members."""

    interval_ms: int
    drift_ms: float | None = None
    """None: too few join phases show it."""
    late_ms: tuple[float, ...] = ()
    """Of each join phase, from the heartbeat of the member that joined last."""


def beats_of(rows: Sequence[Rebalance]) -> Beats | None:
    """None where the interval does not show."""
    way_ms = _way_ms(rows)
    windows = [(since, took) for since, took in _windows(rows) if took > SHORTEST_WAIT_MS]
    interval_ms = _interval(windows, way_ms)
    if interval_ms is None:
        return None
    late = [(since // interval_ms, max(0.0, since % interval_ms - way_ms)) for since, _ in windows]
    late = [(count, ms) for count, ms in late if ms < LATEST_MS]
    if len(late) < FEWEST_MEASURED:
        return Beats(interval_ms)
    # At most so much: then nobody reacted before it heard.
    drift_ms = max(LEAST_DRIFT_MS, min((ms / count for count, ms in late if count > 0), default=LEAST_DRIFT_MS))
    return Beats(interval_ms, drift_ms, tuple(sorted(max(0.0, ms - count * drift_ms) for count, ms in late)))


def _windows(rows: Sequence[Rebalance]) -> Iterator[tuple[int, int]]:
    """(since the join phase before, since the start) of join phases that members who stayed ended by a heartbeat."""
    joined_ms: int | None = None
    for row in rows:
        stayed = any(m.change == "stayed" for m in row.members)
        hears = row.trigger not in ALL_JOIN_BY_THEMSELVES
        if joined_ms is not None and row.started_at_ms and row.joined_at_ms and stayed and hears:
            if row.started_at_ms - joined_ms < 20 * max(HEARTBEATS_MS):
                yield row.joined_at_ms - joined_ms, row.joined_at_ms - row.started_at_ms
        if row.kind == "rebalance":
            joined_ms = row.joined_at_ms


def _interval(windows: Sequence[tuple[int, int]], way_ms: float) -> int | None:
    if len(windows) < 2:
        return None
    for interval_ms in HEARTBEATS_MS:
        fits = max(took for _, took in windows) <= interval_ms + LATEST_MS
        if fits and statistics.median(since % interval_ms for since, _ in windows) < interval_ms * 0.1 + way_ms:
            return interval_ms
    return None


def _way_ms(rows: Sequence[Rebalance]) -> float:
    """Eager members revoke before they ask to join: what that takes is no part of their reaction."""
    if rows[-1].mode == "cooperative":
        return 0.0
    libraries = {library for row in rows for m in row.members for library in m.client_libraries or ()}
    family = ClientFamily(libraries.pop()) if len(libraries) == 1 else ClientFamily.JAVA
    return statistics.median(REVOKE_MS[family]) if family in REVOKE_MS else 0.0
