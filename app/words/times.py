"""Instants in the reader's zone."""

from __future__ import annotations

import re
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from app.words.numbers import duration


def zone(name_of_zone: str | None) -> tzinfo:
    """The reader's zone; UTC where the browser does not say or names one nobody knows."""
    if not name_of_zone:
        return UTC
    try:
        return ZoneInfo(name_of_zone)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


def _moment(at_ms: int, tz: tzinfo) -> datetime | None:
    try:
        return datetime.fromtimestamp(at_ms / 1000, tz)
    except (OverflowError, OSError, ValueError):
        return None


def instant(at_ms: int | None, tz: tzinfo = UTC) -> str:
    """`2026-11-21 14:03:11.231 CET`. Tables keep 0 where no time is known."""
    if not at_ms:
        return "not known"
    moment = _moment(at_ms, tz)
    if moment is None:
        return f"not a date: {at_ms} ms"
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03d} {moment:%Z}"


def minute(at_ms: int | None, tz: tzinfo = UTC) -> str:
    """`2026-11-21 14:03 CET`: where milliseconds would be noise. Tables keep 0 where no time is known."""
    if not at_ms:
        return "not known"
    moment = _moment(at_ms, tz)
    return f"not a date: {at_ms} ms" if moment is None else f"{moment:%Y-%m-%d %H:%M %Z}"


def typed_time(at_ms: int, tz: tzinfo) -> str:
    """`2026-11-21 14:03:11`, as `moment` reads it."""
    found = _moment(at_ms, tz)
    return str(at_ms) if found is None else f"{found:%Y-%m-%d %H:%M:%S}"


_BACK = re.compile(r"[-\u2212](\d{1,5})\s*(min|m|h|d)")
_LONG_AGO_MS = 10 * 86_400_000
"""From here on days are near enough."""
_HOURS_AGO_MS = 10 * 3_600_000
"""From here on hours are near enough."""
_LENGTHS_MS = {"m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def moment(text: str, tz: tzinfo, now_ms: int) -> int | None:
    """A time as people type it: `2026-11-21 14:00`, with a zone of its own or in `tz`; epoch ms; `-2h`; `now`."""
    text = text.strip()
    if text.lower() == "now":
        return now_ms
    if back := _BACK.fullmatch(text):
        return now_ms - int(back[1]) * _LENGTHS_MS[back[2]]
    if text.isascii() and text.isdigit():
        return int(text) if 9 < len(text) < 16 else None
    try:
        found = datetime.fromisoformat(text)
        at_ms = round((found if found.tzinfo is not None else found.replace(tzinfo=tz)).timestamp() * 1000)
    except (ValueError, OverflowError, OSError):
        return None
    return at_ms if at_ms >= 0 else None


_UTC_TEXT = re.compile(r"\b(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC\b")


def utc_in(text: str, tz: tzinfo) -> str:
    """A finding's text, which says its times in UTC, with them in the reader's zone."""

    def there(found: re.Match[str]) -> str:
        try:
            return f"{datetime.fromisoformat(found[1]).replace(tzinfo=UTC).astimezone(tz):%Y-%m-%d %H:%M:%S %Z}"
        except (ValueError, OverflowError):  # no calendar has it
            return found[0]

    return _UTC_TEXT.sub(there, text)


def clock(at_ms: int | None, tz: tzinfo = UTC) -> str:
    """`14:03:11.231`, where the day and zone stand nearby."""
    moment = None if at_ms is None else _moment(at_ms, tz)
    return "not known" if moment is None else f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"


def ago(at_ms: int | None, now_ms: int) -> str:
    if at_ms is None:
        return "not known when"
    gap = now_ms - at_ms
    if abs(gap) < 1000:
        return "just now"
    if gap >= _LONG_AGO_MS:
        return f"{gap // _LENGTHS_MS['d']:,.0f} d ago"
    nearest = 60_000 if abs(gap) < _HOURS_AGO_MS else _LENGTHS_MS["h"]
    rough = duration(gap if abs(gap) < 60_000 else round(abs(gap) / nearest) * nearest)
    return f"{rough} ago" if gap > 0 else f"in {rough.lstrip(chr(0x2212))}"


def began(at_ms: int, now_ms: int, tz: tzinfo) -> str:
    """`12 min ago`; from a day on `21 Nov 14:03`, since nobody subtracts days."""
    return ago(at_ms, now_ms) if now_ms - at_ms < _LENGTHS_MS["d"] else day_and_time(at_ms, now_ms, tz)


def day_and_time(at_ms: int, now_ms: int, tz: tzinfo) -> str:
    """`14:03` of the last 24 hours, else `21 Nov 14:03`, where the zone stands nearby."""
    found = _moment(at_ms, tz)
    if found is None:
        return ago(at_ms, now_ms)
    return f"{found:%H:%M}" if now_ms - at_ms < _LENGTHS_MS["d"] else f"{found.day} {found:%b %H:%M}"


def when(at_ms: int | None, now_ms: int, tz: tzinfo) -> str:
    """Absolute and relative: `2026-11-21 14:03 CET, 12 min ago`."""
    return "not known when" if at_ms is None else f"{minute(at_ms, tz)}, {ago(at_ms, now_ms)}"
