"""Lengths of time by name, and which of them a page begins with. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from app.answers.rows import IncidentRow, Span

HOUR_MS = 3_600_000
PRESETS_MS = {"1 h": HOUR_MS, "6 h": 6 * HOUR_MS, "24 h": 24 * HOUR_MS, "7 d": 168 * HOUR_MS, "all": None}
_UNITS_MS = {"m": 60_000, "h": HOUR_MS, "d": 24 * HOUR_MS}
_LAST = re.compile(r"([1-9]\d{0,4})([mhd])")


def last(text: str, whole: Span) -> Span | None:
    """`90m`, `24h`, `7d`, `all`: the length of the span, which ends with the evidence."""
    if text == "all":
        return whole
    found = _LAST.fullmatch(text)
    if found is None:
        return None
    return Span(from_ms=max(whole.from_ms, whole.to_ms - int(found[1]) * _UNITS_MS[found[2]]), to_ms=whole.to_ms)


def preset(name: str, whole: Span) -> Span:
    return last(name.replace(" ", ""), whole) or whole


def that_shows(at_ms: int | None, whole: Span) -> str:
    """The shortest preset of a day or more in which this moment lies; all where it is not known."""
    if at_ms is None:
        return "all"
    return next((name for name in ("24 h", "7 d") if at_ms >= preset(name, whole).from_ms), "all")


def of_home(open_: Sequence[IncidentRow], whole: Span) -> str:
    """A day, or longer if the worst open incident, which the page names first, lies before it."""
    return that_shows(open_[0].last_at_ms if open_ else whole.to_ms, whole)
