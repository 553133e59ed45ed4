"""Did the change help? Two sides, number by number, with how sure the difference is. Pure.

Method. Rebalances come in bursts, so single ones are not drawn again but stretches of time: each side's time is cut
into 24 equal slices, slices are drawn with replacement 1,000 times (a block bootstrap), and the middle 95 % of the
differences is the interval. The draws begin from a fixed seed: the same rows give the same interval. Nothing is claimed
on fewer than five values a side; of sums per hour, on fewer than five rebalances together, as none at all is an answer
too. A difference is clear if the interval leaves zero out; what caused it, no statistics say.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from app.answers.rows import Span
from rebalance_audit.domain.detect.wording import seconds_of

SLICES = 24
DRAWS = 1_000
FEWEST = 5
HOUR_MS = 3_600_000

Values = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """Rebalances of one period (and group, cluster or all), summed by slice: see `Reader.compared`."""

    label: str
    span: Span
    cells: pd.DataFrame
    """One row per measure, slice (0 to 23) and value: `measure`, `slice`, `value`, `n`. Of `rebalances` and of sums
    (`cost`, `moved`, `avoidable`) there is one row per slice: the sum, and how many rebalances have it."""
    causes: dict[str, int]

    @property
    def hours(self) -> float:
        return max(self.span.length_ms, 1) / HOUR_MS

    @property
    def rebalance_count(self) -> int:
        return int(self.of("rebalances")["n"].sum())

    def of(self, measure: str) -> pd.DataFrame:
        return self.cells[self.cells["measure"] == measure]

    def sums(self, measure: str) -> tuple[Values, Values]:
        """(sum, how many have it), by slice."""
        mine = self.of(measure)
        sums, counts = np.zeros(SLICES), np.zeros(SLICES)
        np.add.at(sums, mine["slice"].to_numpy(dtype=int), mine["value"].to_numpy(dtype=float))
        np.add.at(counts, mine["slice"].to_numpy(dtype=int), mine["n"].to_numpy(dtype=float))
        return sums, counts

    def values(self, measure: str) -> tuple[Values, Values]:
        """(the values that occur, ascending; how often each does, by slice)."""
        mine = self.of(measure)
        met, place = np.unique(mine["value"].to_numpy(dtype=float), return_inverse=True)
        counts = np.zeros((SLICES, len(met)))
        np.add.at(counts, (mine["slice"].to_numpy(dtype=int), place), mine["n"].to_numpy(dtype=float))
        return met, counts


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
        _per_hour(f"cost, {seconds_of('resource')} per hour", before, after, "cost"),
        _per_hour("rebalances per hour", before, after, "rebalances"),
        _quantile("longest downtime, median", before, after, "pause", 0.5),
        _quantile("longest downtime, 95th percentile", before, after, "pause", 0.95),
        _mean("moved per rebalance", before, after, "moved"),
        _mean("avoidable moves per rebalance", before, after, "avoidable"),
        _quantile("broker's own window, median", before, after, "window", 0.5),
    ]


def _per_hour(name: str, before: Side, after: Side, measure: str) -> Difference:
    """Sums over time; of a measure only where any of it is known."""
    sides = (before, after)
    found = [side.sums(measure) for side in sides]
    rates = [float(sums.sum()) / side.hours for (sums, _), side in zip(found, sides, strict=True)]
    is_known = all(counts.any() or not side.rebalance_count for (_, counts), side in zip(found, sides, strict=True))
    if not is_known or sum(counts.sum() for _, counts in found) < FEWEST:
        return Difference(name=name, unit="", before=rates[0], after=rates[1])
    draws = []
    for (sums, _), side, seed in zip(found, sides, (1, 2), strict=True):
        drawn = np.random.default_rng(seed).integers(0, SLICES, (DRAWS, SLICES))
        draws.append(sums[drawn].sum(axis=1) / side.hours)
    return _between(name, "", [rates[0], rates[1]], draws)


def _mean(name: str, before: Side, after: Side, measure: str) -> Difference:
    """Over the rebalances that have the measure."""
    found = [side.sums(measure) for side in (before, after)]
    means = [float(sums.sum() / counts.sum()) if counts.any() else None for sums, counts in found]
    if any(counts.sum() < FEWEST for _, counts in found):
        return Difference(name=name, unit="", before=means[0], after=means[1])
    draws = []
    for (sums, counts), seed in zip(found, (3, 4), strict=True):
        drawn = _drawn_slices(counts, seed)
        draws.append(sums[drawn].sum(axis=1) / counts[drawn].sum(axis=1))
    return _between(name, "", means, draws)


def _quantile(name: str, before: Side, after: Side, measure: str, share: float) -> Difference:
    """Over the rebalances that have the measure."""
    found = [side.values(measure) for side in (before, after)]
    whole = [_quantile_of(met, counts.sum(axis=0), share) if counts.any() else None for met, counts in found]
    if any(counts.sum() < FEWEST for _, counts in found):
        return Difference(name=name, unit="ms", before=whole[0], after=whole[1])
    draws = []
    for (met, counts), seed in zip(found, (3, 4), strict=True):
        draws.append(_drawn_quantiles(met, counts, share, seed))
    return _between(name, "ms", whole, draws)


def _between(name: str, unit: str, values: list[float | None], draws: list[Values]) -> Difference:
    lower, upper = np.quantile(draws[1] - draws[0], (0.025, 0.975))
    return Difference(name=name, unit=unit, before=values[0], after=values[1], lower=float(lower), upper=float(upper))


def _drawn_slices(counts: Values, seed: int) -> npt.NDArray[np.int64]:
    """A thousand draws of slices; only those that hold anything are drawn from."""
    full = np.flatnonzero(counts)
    return full[np.random.default_rng(seed).integers(0, len(full), (DRAWS, len(full)))]


def _drawn_quantiles(met: Values, counts: Values, share: float, seed: int) -> Values:
    """The quantile of each draw. How many values a draw has up to one met is a sum over its slices; the quantile's
    place is searched by halving, for all draws at once."""
    drawn = _drawn_slices(counts.sum(axis=1), seed)
    times = np.zeros((DRAWS, SLICES))
    np.add.at(times, (np.arange(DRAWS)[:, None], drawn), 1)
    up_to = np.cumsum(counts, axis=1).T
    place = share * (times @ up_to[-1] - 1)
    low, high = (_first_above(up_to, times, ends) for ends in (np.floor(place), np.ceil(place)))
    return np.asarray(met[low] + (met[high] - met[low]) * (place - np.floor(place)))


def _first_above(up_to: Values, times: Values, wanted: Values) -> npt.NDArray[np.int64]:
    """Per draw the first value up to which it has more than `wanted`; its last value has."""
    first, last = np.zeros(len(times), dtype=np.int64), np.full(len(times), len(up_to) - 1)
    while (first < last).any():
        middle = (first + last) // 2
        is_above = (times * up_to[middle]).sum(axis=1) > wanted
        first, last = np.where(is_above, first, middle + 1), np.where(is_above, middle, last)
    return first


def _quantile_of(met: Values, counts: Values, share: float) -> float:
    """Between the two nearest values, as most tools do it."""
    up_to = np.cumsum(counts)
    place = share * (up_to[-1] - 1)
    low, high = np.searchsorted(up_to, (np.floor(place), np.ceil(place)), side="right")
    return float(met[low] + (met[high] - met[low]) * (place - np.floor(place)))
