"""Times in which no process of a group can have run: they cost the same under any settings of the protocol."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from .life import Script
from .standstill import LONGEST_OUTAGE_MS


class CertainOutage(NamedTuple):
    until_ms: float
    """The earliest time at which the first process is back."""
    lasts_ms: float
    """At least."""


def outages_of(script: Script) -> Iterator[CertainOutage]:
    """Outages that are certain, however a run draws the script's instants between their bounds."""
    spans = sorted(
        (
            (script.from_ms, script.from_ms)
            if life.started is None
            else (life.started.lower_ms, life.started.upper_ms),
            (inf, inf) if life.ended is None else (life.ended.lower_ms, life.ended.upper_ms),
        )
        for life in script.lives
    )
    ran_until: tuple[float, float] | None = None
    for (since_ms, at_latest_ms), until in spans:
        if ran_until is not None and since_ms > ran_until[1] and at_latest_ms - ran_until[0] <= LONGEST_OUTAGE_MS:
            yield CertainOutage(since_ms, since_ms - ran_until[1])
        earlier = until if ran_until is None else ran_until
        ran_until = max(earlier[0], until[0]), max(earlier[1], until[1])
