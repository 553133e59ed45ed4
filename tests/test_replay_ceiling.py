"""How many pairs a faultless prediction would have right: numbers from tables of the normal distribution, by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from tests.replay_ceiling import ceiling_of, chance_of, own_spread, pooled_spread, spread_below


@dataclass(frozen=True)
class Runs:
    before: Sequence[float]
    after: Sequence[float]
    story: str = "deploy"
    library: str = "java"


def test_how_likely_runs_lie_close_is_what_tables_have() -> None:
    """Two: their difference is normal, times the root of 2. Three: the 95 % point of the studentized range is 3.314."""
    assert spread_below(1.414, 2) == pytest.approx(0.6827, abs=0.001)
    assert spread_below(3.314, 3) == pytest.approx(0.95, abs=0.001)


def test_a_right_range_is_often_wider_than_twice_what_three_runs_differ_by() -> None:
    """Three runs lie within half of the range's width, 1.645, with a chance of 0.525; on both sides with 0.276. The
    mean of three lies 1.645 deviations off, 2.849 of its own, in 4 of 1,000."""
    three = Runs((99, 100, 101), (99, 100, 101))
    assert chance_of(three, 1, 1) == pytest.approx(0.996 * (1 - 0.276), abs=0.005)
    six = (99, 100, 101, 99, 100, 101)
    assert chance_of(Runs(six, six), 1, 1) == pytest.approx(0.98, abs=0.01)


def test_a_true_median_is_off_by_more_than_a_fifth_where_runs_differ_a_lot() -> None:
    """Their mean is 10 give or take 2.5. 10 is within a fifth of 8.33 … 12.5: the chance of -0.667 … 1 is 0.589. A has
    runs so far apart that no range is wide."""
    assert chance_of(Runs((0, 100, 200), (5, 5, 15, 15)), 1_000_000, 5) == pytest.approx(0.589, abs=0.001)


def test_small_costs_are_right_within_a_fifth_of_a_second() -> None:
    """0.1 is within 0.2 of any mean below 0.3, four deviations of the mean of four runs; the range ends before, after
    3.29 of them."""
    assert chance_of(Runs((0, 100, 200), (0.1, 0.1, 0.1, 0.1)), 1_000_000, 0.1) == pytest.approx(0.999, abs=0.001)


def test_sides_of_one_story_and_library_have_one_share_of_their_cost_for_a_spread() -> None:
    """Sides of 10, 20 and 10 %, equal ones once: the root of (0.01 + 0.01 + 0.04) / 3 = 0.1414."""
    tenth, fifth = (90, 100, 110), (8, 10, 12)
    one = Runs(tenth, tenth)
    other = Runs(fifth, (45, 50, 55))
    spread = pooled_spread([one, other])
    assert spread(one, one.before) == pytest.approx(14.14, abs=0.01)
    assert spread(other, other.before) == pytest.approx(1.414, abs=0.001)
    assert own_spread(other, other.before) == pytest.approx(2)


def test_chances_of_pairs_add_up() -> None:
    pair, other = Runs((99, 100, 101), (99, 100, 101)), Runs((99, 100, 101), (99, 100, 101), library="connect")
    found = ceiling_of([pair, pair, other], own_spread)
    one = chance_of(pair, 1, 1)
    assert found.mean == pytest.approx(3 * one)
    assert found.by_library == pytest.approx({"java": 2 * one, "connect": one})
    assert found.lower == pytest.approx(3 * one - 1.645 * (3 * one * (1 - one)) ** 0.5)
