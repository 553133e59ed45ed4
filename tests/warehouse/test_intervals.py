"""Ranges of text that hold a value, found without a look at each."""

from random import Random

import pytest

from rebalance_audit.warehouse.intervals import Intervals, TextRange


@pytest.mark.parametrize("seed", range(8))
def test_those_that_hold_a_value_are_found_as_by_a_look_at_each(seed: int) -> None:
    random = Random(seed)

    def text() -> str:
        return "".join(random.choices("abc", k=random.randrange(6)))

    intervals: Intervals[int] = Intervals(())
    ranges: list[TextRange[int]] = []
    for _ in range(12):
        coming = []
        for at in range(random.randrange(60)):
            first, last = sorted((text(), text()))
            coming.append(TextRange(first, last, len(ranges) + at))
        ranges += coming
        intervals.add_all(coming)
        values = [text() for _ in range(5)]
        found = {range_.key for value in values for range_ in ranges if range_.first <= value <= range_.last}
        assert intervals.with_any(values) == found
