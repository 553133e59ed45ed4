"""The outcome of one run of a replay."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import NamedTuple

from .standstill import Standstill, Why


class Replayed(NamedTuple):
    """One rebalance of the replay; `trigger` as in gold.rebalance."""

    at_ms: float
    trigger: str


class TooDear(Exception):
    """A run that costs more than was asked for, and so was not played to its end."""


@dataclass(frozen=True, slots=True)
class ReplayRun:
    rebalances: tuple[Replayed, ...]
    cost: Standstill
    rewrite_count: int = 0
    """Static members that came back without a rebalance."""
    stretches: int = 0
    """The number of the cost's parts."""
    stood: tuple[tuple[Hashable, float, float, Why], ...] = ()
    """(resource, from, until in ms, why): the parts of the cost, if the run was asked to keep them."""
    outages_seconds: float = 0.0
    """The part of the cost in which no process ran."""
