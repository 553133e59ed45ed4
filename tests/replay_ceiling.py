"""In how many pairs a prediction without any fault would have all that is asked of it (tests/replay_pairs.py).

Its median is the true mean of B, its range holds nine in ten of B's runs, and the lab runs both sides as often as it
did. Runs come from normal distributions with B's measured mean and the spread of the lab's runs. Three runs show that
badly, so it is taken in two ways: each side's own, and that of all sides of a story and library together, as a share of
the cost. Nothing is asked of the model.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol

CLOSE_SHARE = 0.2
CLOSE_SECONDS = 0.2
"""A median is right if it is within a fifth of what was measured, or within so much."""
MIDDLE = 1.645
"""The middle 90 % of a normal distribution reach so many standard deviations to either side."""


class RunsOfPair(Protocol):
    """What was measured of a pair; seconds."""

    @property
    def story(self) -> str: ...
    @property
    def library(self) -> str: ...
    @property
    def before(self) -> Sequence[float]: ...
    @property
    def after(self) -> Sequence[float]: ...


@dataclass(frozen=True, slots=True)
class Ceiling:
    """Pairs in which all three conditions hold: their mean number, and where nine in ten draws of all runs lie if each
    pair is drawn by itself. `by_library` adds up to `mean`."""

    mean: float
    lower: float
    upper: float
    by_library: Mapping[str, float]


def own_spread(_: RunsOfPair, runs: Sequence[float]) -> float:
    """The standard deviation of a side, by its runs alone."""
    return statistics.stdev(runs)


def pooled_spread(pairs: Sequence[RunsOfPair]) -> Callable[[RunsOfPair, Sequence[float]], float]:
    """The same by all sides of a story and library: the root of the mean square, as a share of the cost."""
    squares: dict[tuple[str, str], float] = defaultdict(float)
    degrees: dict[tuple[str, str], int] = defaultdict(int)
    for story, library, runs in sorted({(p.story, p.library, tuple(r)) for p in pairs for r in (p.before, p.after)}):
        squares[story, library] += (len(runs) - 1) * (statistics.stdev(runs) / statistics.mean(runs)) ** 2
        degrees[story, library] += len(runs) - 1
    shares = {key: math.sqrt(squares[key] / degrees[key]) for key in squares}
    return lambda pair, runs: shares[pair.story, pair.library] * statistics.mean(runs)


def ceiling_of(pairs: Sequence[RunsOfPair], spread: Callable[[RunsOfPair, Sequence[float]], float]) -> Ceiling:
    by_library: dict[str, float] = defaultdict(float)
    variance = 0.0
    for pair in pairs:
        chance = chance_of(pair, spread(pair, pair.before), spread(pair, pair.after))
        by_library[pair.library] += chance
        variance += chance * (1 - chance)
    mean, reach = sum(by_library.values()), MIDDLE * math.sqrt(variance)
    return Ceiling(mean, mean - reach, mean + reach, by_library)


def chance_of(pair: RunsOfPair, before_sd: float, after_sd: float) -> float:
    """How likely all three hold. The mean of normal runs does not depend on what they differ by."""
    return _is_right(pair, after_sd) * (1 - chance_of_wide(pair, before_sd, after_sd))


def _is_right(pair: RunsOfPair, after_sd: float) -> float:
    """How likely the mean of B's runs lies in the range, and the true one within a fifth of it or 0.2 s."""
    true = statistics.mean(pair.after)
    lowest = max(true - MIDDLE * after_sd, min(true - CLOSE_SECONDS, true / (1 + CLOSE_SHARE)))
    highest = min(true + MIDDLE * after_sd, max(true + CLOSE_SECONDS, true / (1 - CLOSE_SHARE)))
    means = statistics.NormalDist(true, after_sd / math.sqrt(len(pair.after)))
    return means.cdf(highest) - means.cdf(lowest)


def chance_of_wide(pair: RunsOfPair, before_sd: float, after_sd: float) -> float:
    """How likely the range is wider than twice what the runs of either side differ by."""
    return math.prod(
        spread_below(round(MIDDLE * after_sd / sd, 3), len(runs))
        for sd, runs in ((before_sd, pair.before), (after_sd, pair.after))
    )


@cache
def spread_below(width: float, count: int) -> float:
    """How likely so many draws of a normal distribution all lie within `width` standard deviations."""
    normal, step = statistics.NormalDist(), 0.01
    lows = [n * step for n in range(-800, 800)]
    return sum(
        count * normal.pdf(low) * (normal.cdf(low + width) - normal.cdf(low)) ** (count - 1) * step for low in lows
    )
