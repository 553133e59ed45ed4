"""Times in which nobody ran, and runs that are given up since they cost too much."""

from __future__ import annotations

from random import Random

import pytest

from rebalance_audit.domain.replay.life import End, Life, Moment
from rebalance_audit.domain.replay.measured import Measured
from rebalance_audit.domain.replay.outages import CertainOutage, outages_of
from rebalance_audit.domain.replay.outcome import TooDear
from rebalance_audit.domain.replay.replay import replay
from rebalance_audit.domain.replay.settings import GroupSettings
from rebalance_audit.domain.replay.situation import Situation
from rebalance_audit.domain.replay.standstill import Standstill
from rebalance_audit.domain.replay.whatif import option_of
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


def stopped_for(outage_ms: int) -> Situation:
    """a and b restart one by one at 20 and 30 s, for 5 s each; both are stopped at 60 s and back after the outage."""
    lives = (
        a_life("a", 0, 20_000, End.CLOSED),
        a_life("b", 1_000, 30_000, End.CLOSED),
        a_life("a", 25_000, 60_000, End.CLOSED),
        a_life("b", 35_000, 60_000, End.CLOSED),
        a_life("a", 60_000 + outage_ms),
        a_life("b", 61_000 + outage_ms),
    )
    script = a_script(*lives, until_ms=100_000 + outage_ms)
    measured = Measured(Standstill(), 0.0, 0.0)
    return Situation(script, AT_ONCE, measured, (), GroupSettings(heartbeat_ms=3_000), run_count=5)


def test_an_outage_that_no_setting_changes_is_no_part_of_the_cost() -> None:
    beats = "heartbeat.interval.ms=1000"
    short, long = option_of(stopped_for(100_000), [beats]), option_of(stopped_for(300_000), [beats])
    assert short.saved_seconds is not None
    assert short.cost_seconds is not None
    # Four partitions stand still for 400 s or 1,200 s while nobody runs.
    assert short.saved_seconds + short.cost_seconds < 50
    assert long.saved_seconds is not None
    assert long.cost_seconds is not None
    assert long.saved_seconds + long.cost_seconds < 50
    assert "no member" not in short.why


def test_an_outage_that_a_deploy_in_another_order_would_not_have_is_named() -> None:
    option = option_of(stopped_for(100_000), ["deploy.order=one-by-one"])
    assert option.saved_seconds == pytest.approx(400, abs=30)
    assert "in 400" in option.why or "in 39" in option.why
    assert "s of what is saved no member ran: no saving if the group was stopped on purpose" in option.why
