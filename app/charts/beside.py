"""The same resources twice: when each stood still, and when it would have under other settings."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from app import words
from app.charts.marks import Marks, rebalance_marks, together
from app.charts.time_line import BARS, MARKS, Style, TimeLine, empty, overlap_steps, typed
from rebalance_audit.domain.replay.outcome import Replayed
from rebalance_audit.domain.replay.standstill import Stood, Why

MOST_LANES = 16
_WHY_WORDS = {
    Why.BETWEEN_OWNERS: "between two owners",
    Why.OWNER_IDLE: "its owner was away",
    Why.FIRST_WAIT: "before its first assignment",
}


def beside_time_lines(
    was: Sequence[Stood],
    would: Sequence[Stood],
    rebalances: pd.DataFrame,
    replayed: Sequence[Replayed],
    from_ms: float,
    to_ms: float,
    unit: str,
) -> tuple[TimeLine, TimeLine] | None:
    """Two pictures, as it was and as it would have been, on one axis and in the same lanes: the resources that stood
    still the longest. None where nothing stood still in that time."""
    seen = [[s for s in each if s.until_ms >= from_ms and s.from_ms <= to_ms] for each in (was, would)]
    lengths: dict[str, float] = {}
    for each in seen:
        for s in each:
            lengths[s.resource] = lengths.get(s.resource, 0.0) + s.until_ms - s.from_ms
    if not lengths:
        return None
    longest = sorted(lengths, key=lambda r: (-lengths[r], words.natural(r)))[:MOST_LANES]
    lanes = sorted(longest, key=words.natural)
    marks = (rebalance_marks(rebalances), _replayed_marks(replayed))
    first, second = (
        _line(each, lanes, of, from_ms, to_ms, unit, len(lengths) - len(lanes))
        for each, of in zip(seen, marks, strict=True)
    )
    return first, second


def _line(
    stood: Sequence[Stood], lanes: list[str], marks: Marks, from_ms: float, to_ms: float, unit: str, left_out: int
) -> TimeLine:
    lane_of = {resource: i for i, resource in enumerate(lanes)}
    drawn = [s for s in stood if s.resource in lane_of]
    texts = [f"{words.duration(s.until_ms - s.from_ms)} {_WHY_WORDS[s.why]}" for s in drawn]
    bars = pd.DataFrame(
        {
            "lane": [lane_of[s.resource] for s in drawn],
            "from": [s.from_ms for s in drawn],
            "to": [s.until_ms for s in drawn],
            "level": 0.8,
            "style": int(Style.STANDING),
            "tip": range(len(drawn)),
        }
    )
    crossing = together(marks, first_text=len(texts))
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(words.name(resource, 40) for resource in lanes),
        bars=typed(bars, BARS) if drawn else empty(BARS),
        marks=crossing.frame,
        texts=(*texts, *crossing.texts),
        targets=crossing.targets,
        below=overlap_steps([s.from_ms for s in stood], [s.until_ms for s in stood]),
        below_name=f"{unit}s standing still",
        left_out=left_out,
    )


def _replayed_marks(replayed: Sequence[Replayed]) -> Marks:
    if not replayed:
        return Marks(frame=empty(MARKS))
    frame = pd.DataFrame(
        {
            "at": [r.at_ms for r in replayed],
            "family": [words.FAMILIES.index(words.family(r.trigger)) for r in replayed],
            "tip": range(len(replayed)),
            "target": -1,
        }
    )
    return Marks(frame=frame, texts=tuple(f"replayed: {words.trigger(r.trigger)}" for r in replayed))
