"""How much came into a table by day and how often, and whether that goes on: expectations from the table's own past.

A past is a mapping of a table to `{"last_at_ms": int, "days": {"2026-11-22": [rows, longest wait in ms]}}`; a wait is
from one commit with rows to the next and belongs to the day it ends in. Days are the pipeline's own, UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

FOLLOWED = frozenset({"bronze.record", "bronze.log_line", "bronze.source", "silver.group_event", "silver.commit_mark"})
"""Tables that grow with the evidence; in others the number of written rows says nothing."""
DAYS_KEPT = 14
DAYS_NEEDED = 3
"""Chosen: the days cover two weekends, and there is no verdict before three days are known."""
FACTOR = 5
"""Chosen: a day is odd below a fifth of the least and above five times the most of the days before."""
WAITS = 2
LEAST_WAIT_MS = 600_000
"""Chosen: news is late after twice the longest wait of the days before, and not within ten minutes."""
VOLUME_CHECK = "rows a day as before"
FRESHNESS_CHECK = "news as often as before"

Past = Mapping[str, Any]
Verdict = dict[str, Any]
"""A row of gold.check without its batch_id."""


def noted(past: Past, rows_written: Mapping[str, int], at_ms: int) -> dict[str, Any]:
    """What is known of the past, and the rows of one more run. If the clock went back, the wait counts as 0."""
    known = {table: {**of_table, "days": dict(of_table["days"])} for table, of_table in past.items()}
    today = _day(at_ms)
    for table in sorted(FOLLOWED):
        count = rows_written.get(table, 0)
        if not count:
            continue
        of_table = known.setdefault(table, {"last_at_ms": at_ms, "days": {}})
        rows, wait_ms = of_table["days"].get(today, (0, 0))
        waited_ms = max(0, at_ms - of_table["last_at_ms"])
        of_table["days"][today] = [rows + count, max(wait_ms, waited_ms)]
        of_table["last_at_ms"] = max(at_ms, of_table["last_at_ms"])
        oldest = _day(at_ms, -DAYS_KEPT)
        of_table["days"] = {day: counted for day, counted in of_table["days"].items() if day >= oldest}
    return known


def verdicts(past: Past, now_ms: int) -> list[Verdict]:
    """Two verdicts for each table of which enough is known; none of them is fatal. Yesterday is judged, since today is
    not over."""
    found = []
    for table, of_table in sorted(past.items()):
        days: Mapping[str, tuple[int, int]] = of_table["days"]
        yesterday, first = _day(now_ms, -1), _day(now_ms, -DAYS_KEPT)
        before = {day: counted for day, counted in days.items() if first <= day < yesterday}
        # A day without any row counts, once the first one is known.
        span = _days_between(min(before), yesterday) if before else 0
        if span >= DAYS_NEEDED:
            counts = [counted[0] for counted in before.values()] + [0] * (span - len(before))
            rows = days.get(yesterday, (0, 0))[0]
            is_usual = min(counts) / FACTOR <= rows <= max(counts) * FACTOR
            sentence = f"{rows:,} rows on {yesterday}; {min(counts):,} to {max(counts):,} a day before"
            found.append(_verdict(table, VOLUME_CHECK, is_usual, rows, sentence))
        waits = [counted[1] for day, counted in days.items() if first <= day]
        if len(waits) >= DAYS_NEEDED:
            age_ms, usual_ms = now_ms - of_table["last_at_ms"], max(waits)
            is_fresh = age_ms <= max(WAITS * usual_ms, LEAST_WAIT_MS)
            sentence = f"nothing for {_minutes(age_ms)}; at most {_minutes(usual_ms)} before"
            found.append(_verdict(table, FRESHNESS_CHECK, is_fresh, 1, sentence))
    return found


def _verdict(table: str, check: str, success: bool, count: int, sentence: str) -> Verdict:
    return {
        "table_name": table, "check_name": check, "is_fatal": False, "success": success, "checked_count": count,
        "unexpected_count": 0 if success else max(count, 1), "examples": [] if success else [sentence],
    }  # fmt: skip


def _day(at_ms: int, shift: int = 0) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC) + timedelta(days=shift):%Y-%m-%d}"


def _days_between(first: str, last: str) -> int:
    return (datetime.fromisoformat(last) - datetime.fromisoformat(first)).days


def _minutes(ms: int) -> str:
    return f"{ms / 60_000:,.0f} min"
