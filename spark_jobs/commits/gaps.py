"""The longest and the second longest time without a commit inside each stretch: standstills are found by them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from spark_jobs.commits.buffers import Ints

NONE = -1
_SMALL = 1 << 16
"""Numbers below are sorted by their digits, which is several times as fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gaps:
    """One entry per stretch; NONE where it has too few commits."""

    from_row: Ints
    to_row: Ints
    after_row: Ints
    """The commit after the one that ended the gap."""
    next_row: Ints
    """The stretch's second commit."""
    second_ms: Ints
    """The longest of the other gaps. Of two equal gaps the first counts as the longest."""


def longest_gaps(row: Ints, stretch: Ints, count: int, at_ms: Ints) -> Gaps:
    """`row`: of the batch, in the order of their offsets; `stretch`: of each, below `count`, none without a row."""
    if not count:
        none = np.zeros(0, np.int64)
        return Gaps(from_row=none, to_row=none, after_row=none, next_row=none, second_ms=none)
    order = np.argsort(stretch.astype(np.uint16) if count < _SMALL else stretch, kind="stable")
    sizes = np.bincount(stretch, minlength=count)
    ends = np.cumsum(sizes)
    at = at_ms[row[order]]
    # A clock that was set back makes no gap.
    gap = np.append(np.maximum(np.diff(at), 0), NONE)
    gap[ends - 1] = NONE
    begins = ends - sizes
    longest = np.maximum.reduceat(gap, begins)
    is_longest = gap == np.repeat(longest, sizes)
    has_gap = longest >= 0
    place = np.minimum.reduceat(np.where(is_longest, np.arange(len(gap)), len(gap)), begins)
    place[~has_gap] = NONE
    gap[place[has_gap]] = NONE
    second_ms = np.maximum.reduceat(gap, begins)

    def rows_at(place: Ints, is_there: npt.NDArray[np.bool_]) -> Ints:
        found = np.full(count, NONE, np.int64)
        found[is_there] = row[order[place[is_there]]]
        return found

    return Gaps(
        from_row=rows_at(place, has_gap),
        to_row=rows_at(place + 1, has_gap),
        after_row=rows_at(place + 2, has_gap & (place + 2 < ends)),
        next_row=rows_at(ends - sizes + 1, sizes > 1),
        second_ms=second_ms,
    )
