"""Times in which nobody ran, and runs that are given up since they cost too much."""

from __future__ import annotations

from random import Random

import pytest

from rebalance_audit.domain.replay.life import End, Life, Moment
from rebalance_audit.domain.replay.outages import CertainOutage, outages_of
from rebalance_audit.domain.replay.outcome import TooDear
from rebalance_audit.domain.replay.replay import replay
from rebalance_audit.domain.replay.settings import GroupSettings
from tests.domain.replay.stories import AT_ONCE, a_life, a_script

BEFORE = (a_life("a", 0, 20_000, End.CLOSED), a_life("b", 1_000, 10_000, End.CLOSED))


def test_an_outage_lasts_from_the_last_end_to_the_next_start() -> None:
    script = a_script(*BEFORE, a_life("b", 50_000), a_life("a", 51_000))
    assert list(outages_of(script)) == [CertainOutage(50_000, 30_000)]


def test_what_bounds_leave_open_is_not_counted() -> None:
    between = Life(slot="a", member_id="a-1", started=Moment.between(18_000, 60_000))
    assert list(outages_of(a_script(*BEFORE, between))) == []
    later = Life(slot="a", member_id="a-1", started=Moment.between(30_000, 60_000))
    assert list(outages_of(a_script(*BEFORE, later))) == [CertainOutage(30_000, 10_000)]


def test_a_group_that_was_stopped_on_purpose_had_no_outage() -> None:
    assert list(outages_of(a_script(*BEFORE, a_life("a", 620_001)))) == []


@pytest.mark.parametrize("least_beside_ms", [0, 119_000])
def test_a_run_is_given_up_only_where_it_costs_more(least_beside_ms: int) -> None:
    """Four partitions stand still for 30 s while nobody runs; the members' own waits come on top."""
    script = a_script(*BEFORE, a_life("b", 50_000), a_life("a", 51_000), until_ms=90_000)
    settings = GroupSettings(initial_delay_ms=3_000)
    whole = replay(script, settings, AT_ONCE, Random(1), counts_outages=True)
    cost_ms = whole.cost.standstill_seconds * 1000
    assert cost_ms > 120_000
    again = replay(script, settings, AT_ONCE, Random(1), counts_outages=True, most_ms=cost_ms + 1)
    assert again == whole
    with pytest.raises(TooDear):
        replay(script, settings, AT_ONCE, Random(1), counts_outages=True, most_ms=least_beside_ms)
