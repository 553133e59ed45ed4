"""Did the change help? Two sides, number by number, with how sure the difference is. Pure.

Method. Rebalances come in bursts, so single ones are not drawn again but stretches of time: each side's time is cut
into 24 equal slices, slices are drawn with replacement 1,000 times (a block bootstrap), and the middle 95 % of the
differences is the interval. The draws begin from a fixed seed: the same rows give the same interval. Nothing is claimed
on fewer than five values a side; of sums per hour, on fewer than five rebalances together, as none at all is an answer
too. A difference is clear if the interval leaves zero out; what caused it, no statistics say.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from app.answers.rows import Span

SLICES = 24
DRAWS = 1_000
FEWEST = 5
HOUR_MS = 3_600_000

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Rebalances of one period (and group, cluster or all), one row each: see `Reader.samples`."""

    label: str
    span: Span
    rows: pd.DataFrame

    @property
    def hours(self) -> float:
        return max(self.span.length_ms, 1) / HOUR_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """One number on both sides. `lower` and `upper` bound after minus before; None where too little was seen."""

    name: str
    unit: str
    """`ms`, or none: then the name says it."""
    before: float | None
    after: float | None
    lower: float | None = None
    upper: float | None = None

    @property
    def verdict(self) -> str:
        """`less`, `more`, `unclear`, or `too few`."""
        if self.lower is None or self.upper is None:
            return "too few"
        return "less" if self.upper < 0 else "more" if self.lower > 0 else "unclear"


def differences(before: Side, after: Side) -> list[Difference]:
    """The cost first: that is what a change is to help."""
    return [
        _per_hour("cost, resource-seconds per hour", before, after, "resource_seconds_estimate"),
        _per_hour("rebalances per hour", before, after, None),
        _of_each("longest pause, median", "ms", before, after, "pause_estimate_ms", _median),
        _of_each("longest pause, 95th percentile", "ms", before, after, "pause_estimate_ms", _p95),
        _of_each("moved per rebalance", "", before, after, "moved_count", _mean),
        _of_each("moved per rebalance, though avoidable", "", before, after, "avoidable_moved_count", _mean),
        _of_each("broker's own window, median", "ms", before, after, "broker_window_ms", _median),
    ]


def _mean(values: Values) -> float:
    return float(values.mean())


def _median(values: Values) -> float:
    return float(np.median(values))


def _p95(values: Values) -> float:
    return float(np.quantile(values, 0.95))


def _per_hour(name: str, before: Side, after: Side, column: str | None) -> Difference:
    """Sums over time; of a column only where any of it is known."""
    slices = [_slices(side, column) for side in (before, after)]
    is_known = column is None or all(len(found) == 0 or any(len(s) for s in found) for found in slices)
    totals = [float(sum(part.sum() for part in found)) for found in slices]
    counts = [sum(len(part) for part in found) for found in slices]
    rates = [total / side.hours for total, side in zip(totals, (before, after), strict=True)]
    if not is_known or sum(counts) < FEWEST:
        return Difference(name=name, unit="", before=rates[0], after=rates[1])
    draws = []
    for found, side, seed in zip(slices, (before, after), (1, 2), strict=True):
        sums = np.array([part.sum() for part in found])
        drawn = np.random.default_rng(seed).integers(0, SLICES, (DRAWS, SLICES))
        draws.append(sums[drawn].sum(axis=1) / side.hours)
    lower, upper = np.quantile(draws[1] - draws[0], (0.025, 0.975))
    return Difference(name=name, unit="", before=rates[0], after=rates[1], lower=float(lower), upper=float(upper))


def _of_each(name: str, unit: str, before: Side, after: Side, column: str, of: Callable[[Values], float]) -> Difference:
    """A statistic over the rebalances that have the column."""
    slices = [_slices(side, column) for side in (before, after)]
    pooled = [np.concatenate(found) for found in slices]
    values = [of(all_) if len(all_) else None for all_ in pooled]
    if any(len(all_) < FEWEST for all_ in pooled):
        return Difference(name=name, unit=unit, before=values[0], after=values[1])
    draws = [_drawn(found, of, seed) for found, seed in zip(slices, (3, 4), strict=True)]
    lower, upper = np.quantile(draws[1] - draws[0], (0.025, 0.975))
    return Difference(name=name, unit=unit, before=values[0], after=values[1], lower=float(lower), upper=float(upper))


def _drawn(slices: list[Values], of: Callable[[Values], float], seed: int) -> Values:
    """The statistic of each draw; only slices that hold anything are drawn from."""
    full = [part for part in slices if len(part)]
    draws = np.random.default_rng(seed).integers(0, len(full), (DRAWS, len(full)))
    return np.array([of(np.concatenate([full[i] for i in draw])) for draw in draws])


def _slices(side: Side, column: str | None) -> list[Values]:
    """The column's known values (or a one for each row), by slice of time."""
    values = np.ones(len(side.rows)) if column is None else side.rows[column].to_numpy(dtype=float, na_value=np.nan)
    at = side.rows["at_ms"].to_numpy(dtype=float)
    place = ((at - side.span.from_ms) / max(1, side.span.length_ms) * SLICES).astype(int).clip(0, SLICES - 1)
    known = ~np.isnan(values)
    return [values[known & (place == i)] for i in range(SLICES)]
