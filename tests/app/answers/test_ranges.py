from app.answers import ranges
from app.answers.rows import Span

DAY_MS = 86_400_000
MONTH = Span(from_ms=0, to_ms=30 * DAY_MS)


def test_a_length_ends_with_the_evidence_and_begins_no_earlier_than_it() -> None:
    assert ranges.last("90m", MONTH) == Span(from_ms=30 * DAY_MS - 5_400_000, to_ms=30 * DAY_MS)
    assert ranges.last("99d", MONTH) == ranges.last("all", MONTH) == MONTH
    assert ranges.last("0h", MONTH) is ranges.last("a day", MONTH) is None


def test_the_shortest_time_that_shows_a_moment() -> None:
    assert ranges.that_shows(29 * DAY_MS, MONTH) == "24 h"
    assert ranges.that_shows(29 * DAY_MS - 1, MONTH) == "7 d"
    assert ranges.that_shows(23 * DAY_MS - 1, MONTH) == "all"
    assert ranges.that_shows(None, MONTH) == "all"


def test_home_begins_with_a_day_where_nothing_is_open() -> None:
    assert ranges.of_home([], MONTH) == "24 h"
