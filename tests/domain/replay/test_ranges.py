"""How wide a predicted range is: as the runs differ, and as far as the model may be wrong (tests/pairs)."""

from __future__ import annotations

from functools import cache
from math import hypot
from pathlib import Path

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.outcome import ReplayRun
from rebalance_audit.domain.replay.situation import Situation, situation_of
from rebalance_audit.domain.replay.standstill import Standstill
from rebalance_audit.domain.replay.whatif import CHANGED_ERROR, MISSED_SHARE, _model_error, fit_of, option_of
from tests.captures import GOLDEN, gathered

PAIRS = Path(__file__).parents[2] / "pairs"


@cache
def bounced() -> Situation:
    """A Connect worker is stopped and back after 5 s; nine connectors and tasks wait for the delay of 20 s."""
    (evidence,) = gathered(PAIRS / "c-bounce-workers-1").groups
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    return situation_of(rows, (rows[-1].ended_at_ms or 0) + 1_000)


def test_what_a_setting_does_not_change_is_known_from_the_history() -> None:
    same = option_of(bounced(), ["connect.protocol=compatible"])
    assert (same.cost_upper_seconds or 0) - (same.cost_lower_seconds or 0) < 0.03 * (same.cost_seconds or 0)


def test_what_it_changes_the_model_may_be_wrong_about() -> None:
    """Both ways, by a share of that."""
    shorter = option_of(bounced(), ["scheduled.rebalance.max.delay.ms=5000"])
    width = (shorter.cost_upper_seconds or 0) - (shorter.cost_lower_seconds or 0)
    assert width == pytest.approx(2 * CHANGED_ERROR * (shorter.saved_seconds or 0), rel=0.1)


def test_errors_about_two_columns_do_not_depend_on_each_other() -> None:
    """Static membership: partitions wait for their owners, which is one thing, and no longer move, which is another. An
    error about one says nothing about the other, so both together are the root of their squares, and no more."""
    (evidence,) = gathered(GOLDEN / "4.3.0" / "rolling_deploy").groups
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    deployed = situation_of(rows, (rows[-1].ended_at_ms or 0) + 1_000)
    before = Standstill(between_owners_seconds=100.0)
    after = Standstill(owner_idle_seconds=200.0)
    error = _model_error(deployed, [ReplayRun((), before)], [ReplayRun((), after)])
    missed = abs(fit_of(deployed).cost_seconds - deployed.measured.cost.standstill_seconds)
    assert error == pytest.approx(hypot(CHANGED_ERROR * 100, CHANGED_ERROR * 200, MISSED_SHARE * missed), abs=0.01)


def test_a_range_that_begins_just_below_nothing_begins_at_nothing() -> None:
    (evidence,) = gathered(GOLDEN / "2.7.2" / "eager_join_leave_kill").groups
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    found = option_of(situation_of(rows, rows[-1].ended_at_ms or 0), ["session.timeout.ms=6000"])
    assert -0.05 < (found.saved_lower_seconds or 0) < 0
    assert found.why.startswith("may save ")
    assert " less to 0.0 more);" in found.why
