"""Lanes over time with marks across them: what time_line.js draws on a canvas, tens of thousands of bars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd

LONGEST_LANES = 400
"""Lanes beyond this would be thinner than a pixel row; the busiest are shown and the rest are counted."""


class Style(IntEnum):
    """How a bar is drawn; time_line.js has the same numbers."""

    WORKING = 0
    STANDING = 1
    WAITING = 2
    WINDOW = 3
    BOUND = 4
    RESTING = 5
    UNKNOWN = 6
    FAILURE = 7
    """From the lane's floor, as WORKING is."""
    RESTING_LOW = 8
    """From the lane's floor, faint."""
    UNSEEN = 9
    """No evidence: where it ended, and a broken line for as long as there is none."""


STYLE_WORDS = {
    Style.WORKING: "working",
    Style.STANDING: "stood still",
    Style.BOUND: "likely most",
    Style.WAITING: "of it, waiting by design",
    Style.UNKNOWN: "two owners at once",
    Style.WINDOW: "broker's window",
}
"""Keys of a picture of pauses, in order, on a page and in a file."""
Target = tuple[str, str]
"""A view, and the id of what it shows: its parameter in the address is named like the view."""

BARS = {"lane": "int16", "from": "float64", "to": "float64", "level": "float32", "style": "int8", "tip": "int32"}
MARKS = {"at": "float64", "family": "int32", "tip": "int32", "target": "int32"}
STEPS = {"at": "float64", "value": "float64"}


def empty(columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """Lanes over time, with marks across them, and a strip of steps above and below."""

    from_ms: float
    to_ms: float
    lanes: tuple[str, ...]
    """Plain text, top to bottom."""
    bars: pd.DataFrame = field(default_factory=lambda: empty(BARS))
    marks: pd.DataFrame = field(default_factory=lambda: empty(MARKS))
    texts: tuple[str, ...] = ()
    """The unit of `tip`."""
    targets: tuple[Target, ...] = ()
    """What `target` counts in: what a click on a mark opens."""
    above: pd.DataFrame = field(default_factory=lambda: empty(STEPS))
    above_name: str = ""
    """Of what the strip counts, in the plural: `tasks down`. A comma may part it from a word before: `downtime,
    partition-seconds`."""
    below: pd.DataFrame = field(default_factory=lambda: empty(STEPS))
    below_name: str = ""
    below_waiting: pd.DataFrame = field(default_factory=lambda: empty(STEPS))
    """How much of `below` waits by design."""
    above_tone: str = "plain"
    """`plain`, `bad` where the strip above counts downtime, or `waiting` where it counts waiting by design."""
    zero_ms: float | None = None
    """If given, times are shown relative to it."""
    left_out: int = 0
    """Lanes not shown."""
    lane_height: int | None = None
    """Pixels; as their number allows where not given."""
    heads: tuple[int, ...] = ()
    """Lanes that head those below them."""
    mark_names: tuple[str, ...] = ()
    """A few words beside each mark's sign, where there are few marks."""
    scrub_ms: float | None = None
    """Where given, what every lane says at a moment is listed below, first of this moment."""

    def data(self, zone_name: str, alt: str) -> dict[str, Any]:
        """The data that the component takes."""
        return {
            "view": {
                "from": float(self.from_ms),
                "to": float(self.to_ms),
                "zone": zone_name,
                "zero": self.zero_ms,
                "above": self.above_name,
                "aboveTone": self.above_tone,
                "below": self.below_name,
                "alt": alt,
                "laneHeight": self.lane_height,
                "heads": list(self.heads),
                "scrub": self.scrub_ms,
                "markNames": list(self.mark_names),
            },
            "lanes": list(self.lanes),
            "texts": list(self.texts),
            "bars": typed(self.bars, BARS),
            "marks": typed(self.marks, MARKS),
            "above": typed(self.above, STEPS),
            "below": typed(self.below, STEPS),
            "belowWaiting": typed(self.below_waiting, STEPS),
        }


def likely_ends(m: Any, stop: float, resume: float) -> tuple[float, float]:
    """From when to when a resource may have stood still: as long as nine of ten truths, within what is certain; all
    that is certain where no likely range is known."""
    earliest = stop if m.stopped_at_lower_ms is None else min(stop, m.stopped_at_lower_ms)
    latest = resume if m.resumed_at_upper_ms is None else max(resume, m.resumed_at_upper_ms)
    if m.pause_likely_upper_ms is None:
        return earliest, latest
    more = max(0.0, m.pause_likely_upper_ms - (resume - stop))
    before = min(more, stop - earliest)
    return stop - before, min(latest, resume + more - before)


def typed(frame: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    return frame[list(columns)].astype(columns).reset_index(drop=True)


def overlap_steps(starts: Sequence[float] | pd.Series, ends: Sequence[float] | pd.Series) -> pd.DataFrame:
    """Steps: how many of these stretches lie over each moment."""
    low, high = np.asarray(starts, dtype=float), np.asarray(ends, dtype=float)
    is_stretch = high > low
    if not is_stretch.any():
        return empty(STEPS)
    at = np.concatenate([low[is_stretch], high[is_stretch]])
    change = np.repeat([1.0, -1.0], int(is_stretch.sum()))
    summed = pd.Series(change).groupby(at).sum()
    return pd.DataFrame({"at": summed.index.to_numpy(dtype=float), "value": summed.cumsum().to_numpy(dtype=float)})
