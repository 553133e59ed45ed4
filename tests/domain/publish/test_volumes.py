"""Whether as much comes in as before: days worked by hand."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from rebalance_audit.domain.publish.volumes import noted, verdicts

HOUR_MS, DAY_MS = 3_600_000, 86_400_000
NOON_MS = round(datetime(2026, 11, 22, 12, tzinfo=UTC).timestamp() * 1000)


def past(*rows_by_day: int, every_h: int = 6) -> dict[str, Any]:
    """The last number is yesterday's; so many rows came in pieces, every so many hours."""
    found: dict[str, Any] = {}
    for days_ago, rows in zip(range(len(rows_by_day), 0, -1), rows_by_day, strict=True):
        for hour in range(0, 24, every_h):
            at_ms = NOON_MS - 12 * HOUR_MS - days_ago * DAY_MS + hour * HOUR_MS
            found = noted(found, {"bronze.record": rows * every_h // 24, "gold.rebalance": 3}, at_ms)
    return found


def checked(rows_by_day: tuple[int, ...], now_ms: int = NOON_MS) -> dict[str, bool]:
    found = verdicts(past(*rows_by_day), now_ms)
    assert {v["table_name"] for v in found} <= {"bronze.record"}
    assert not any(v["is_fatal"] for v in found)
    return {v["check_name"]: v["success"] for v in found}


@pytest.mark.parametrize(
    ("rows_by_day", "is_usual"),
    [
        ((400, 800, 600, 80), True),  # a fifth of the least
        ((400, 800, 600, 76), False),
        ((400, 800, 600, 4_000), True),  # five times the most
        ((400, 800, 600, 4_004), False),
        ((400, 0, 600, 0), True),  # a day without rows was there before
    ],
)
def test_yesterday_is_held_against_the_days_before(rows_by_day: tuple[int, ...], is_usual: bool) -> None:
    assert checked(rows_by_day)["rows a day as before"] is is_usual


def test_three_days_are_too_few_to_judge_the_third() -> None:
    assert "rows a day as before" not in checked((400, 800, 600))
    assert checked((400, 4)) == {}


@pytest.mark.parametrize(("hours", "is_fresh"), [(12, True), (13, False)])
def test_news_is_late_after_twice_the_longest_wait(hours: int, is_fresh: bool) -> None:
    """The last came at 18:00 of yesterday; six hours were the longest wait."""
    now_ms = NOON_MS - 12 * HOUR_MS - 6 * HOUR_MS + hours * HOUR_MS
    assert checked((400, 400, 400, 400), now_ms)["news as often as before"] is is_fresh


def test_what_is_odd_is_said_in_numbers() -> None:
    (volume, fresh) = verdicts(past(400, 800, 600, 4), NOON_MS + DAY_MS)
    assert volume["examples"] == ["0 rows on 2026-11-22; 4 to 800 a day before"]
    assert fresh["examples"] == ["nothing for 2,520 min; at most 360 min before"]


def test_a_past_is_fourteen_days_and_a_clock_that_goes_back_is_no_wait() -> None:
    found = past(*[10] * 40)
    assert len(found["bronze.record"]["days"]) == 15
    again = noted(found, {"bronze.record": 5}, NOON_MS - 20 * DAY_MS)
    assert again["bronze.record"]["last_at_ms"] == found["bronze.record"]["last_at_ms"]
