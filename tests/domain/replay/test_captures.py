"""Real histories, replayed as they were: they must come out again. And what the lab measured of other settings."""

from __future__ import annotations

from functools import cache
from statistics import median

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.candidates import candidates
from rebalance_audit.domain.replay.situation import LAST_STEP_MS, Situation, TooLittle, base_of, situation_of
from rebalance_audit.domain.replay.whatif import Option, fit_of, option_of, ranked
from tests.captures import GOLDEN, gathered
from tests.standstill_truth import true_standstill

PAIRS = GOLDEN.parent / "pairs"


@cache
def situation(capture: str) -> Situation:
    """Of the capture's largest group."""
    groups = [[measure(r) for r in reconstruct(g).rebalances] for g in gathered(GOLDEN / capture).groups]
    rows = max(groups, key=len)
    return situation_of(rows, max(r.ended_at_ms or 0 for r in rows) + 1_000)


REPLAYED = [
    "3.9.1/connect_rolling_bounce",
    "4.3.0/connect_bounce_within_delay",
    "4.3.0/connect_eager",
    "4.3.0/connect_worker_joins",
    "4.3.0/connect_worker_lost",
    "2.7.2/cooperative_scale_up",
    "2.7.2/eager_join_leave_kill",
    "3.9.1/cooperative_scale_up",
    "3.9.1/eager_join_leave_kill",
    "4.3.0/cooperative_scale_up",
    "4.3.0/eager_join_leave_kill",
    "4.3.0/kip848_join_leave",
    "4.3.0/kip848_poll_timeout",
    "4.3.0/kip848_static_restart",
    "4.3.0/partition_count_change",
    "4.3.0/poll_timeout",
    "4.3.0/rolling_deploy",
    "4.3.0/static_restart",
    "4.3.0/storm",
]


@pytest.mark.parametrize("capture", REPLAYED)
def test_a_history_comes_out_again_under_its_own_settings(capture: str) -> None:
    fit = fit_of(situation(capture))
    assert fit.rebalances >= 0.98
    assert fit.causes >= 0.98
    assert fit.refused is None
    # A twentieth: Connect's own logs bound the pauses of tasks to some tens of milliseconds in minutes.
    assert fit.cost_seconds >= fit.measured_lower_seconds * 0.95
    assert fit.measured_upper_seconds is None or fit.cost_seconds <= fit.measured_upper_seconds * 1.05


BY_CLIENTS = [
    "2.3.1/eager_join_leave_kill",
    "2.7.2/cooperative_scale_up",
    "3.9.1/eager_join_leave_kill",
    "4.3.0/cooperative_scale_up",
    "4.3.0/eager_join_leave_kill",
    "4.3.0/franz_go_rolling_deploy",
    "4.3.0/kip848_static_restart",
    "4.3.0/partition_count_change",
    "4.3.0/rolling_deploy",
    "4.3.0/sarama_join_leave_kill",
    "4.3.0/static_restart",
    "4.4.0/eager_join_leave_kill",
]
"""Histories without members that are busy beyond their interval, which clients count as work."""


@pytest.mark.parametrize("capture", BY_CLIENTS)
def test_its_cost_is_what_the_clients_own_clocks_say(capture: str) -> None:
    case = situation(capture)
    truth = true_standstill(GOLDEN / capture, case.script.group_id)
    measured_s = truth.between_owners_seconds + truth.owner_idle_seconds
    replayed_s = median(
        run.cost.between_owners_seconds + run.cost.owner_idle_seconds for run in base_of(case, LAST_STEP_MS)
    )
    assert replayed_s == pytest.approx(measured_s, rel=0.1)


@pytest.mark.parametrize("capture", ["4.3.0/rolling_deploy", "4.3.0/cooperative_scale_up", "4.3.0/storm"])
def test_a_history_may_begin_in_the_middle(capture: str) -> None:
    groups = [[measure(r) for r in reconstruct(g).rebalances] for g in gathered(GOLDEN / capture).groups]
    rows = max(groups, key=len)
    case = situation_of(rows[2:], max(r.ended_at_ms or 0 for r in rows) + 1_000, before=rows[1])
    assert fit_of(case).causes == 1.0
    assert fit_of(case).refused is None


def test_a_history_that_does_not_come_out_again_predicts_nothing() -> None:
    # A leader that stood still while the group waited for its assignment: outside the model.
    refused = fit_of(situation("4.3.0/superseded_generation")).refused or ""
    assert "were measured; they differ most in " in refused
    assert refused.endswith(" s measured")


def _ranked(name: str) -> list[Option]:
    of_group = situation(name)
    return ranked(of_group, candidates(of_group))


def test_static_membership_triples_what_a_rolling_restart_costs() -> None:
    # Measured on 4.3.0 with clients' own clocks: 19-28 partition-seconds became 63-72, and no rebalance was left.
    option = option_of(situation("4.3.0/rolling_deploy"), ["group.instance.id=auto", "session.timeout.ms=45s"])
    before = fit_of(situation("4.3.0/rolling_deploy")).cost_seconds
    assert 2.3 < (option.cost_seconds or 0) / before < 3.8
    assert (option.saved_upper_seconds or 0) < 0
    assert option.rebalances == 3  # those of the first start


def test_cooperative_sticky_about_doubles_it() -> None:
    option = option_of(situation("4.3.0/rolling_deploy"), ["partition.assignment.strategy=cooperative-sticky"])
    assert 1.6 < (option.cost_seconds or 0) / fit_of(situation("4.3.0/rolling_deploy")).cost_seconds < 2.8


def test_a_storm_of_poll_timeouts_is_ended_by_a_longer_interval() -> None:
    best = _ranked("4.3.0/storm")[0]
    assert list(best.settings) == ["max.poll.interval.ms"]
    assert best.rebalances == 3


def test_options_come_best_first_and_their_numbers_are_in_order() -> None:
    options: list[Option] = _ranked("4.3.0/eager_join_leave_kill")
    saved = [o.saved_seconds or 0 for o in options]
    assert saved == sorted(saved, reverse=True)
    for option in options:
        assert (option.saved_lower_seconds or 0) <= (option.saved_seconds or 0) <= (option.saved_upper_seconds or 0)
        assert option.why


def test_a_history_too_short_is_said() -> None:
    with pytest.raises(TooLittle, match="too short"):
        situation("4.3.0/duplicate_instance_id")


def test_a_group_that_was_stopped_altogether_stood_still_from_its_first_start_only() -> None:
    """Its deploy stops all three members and starts them again 5.2 s later: nobody runs meanwhile, as in the replay."""
    evidence = next(g for g in gathered(PAIRS / "l43-3").groups if g.group_id == "deploy.at-once.librdkafka.2")
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    fit = fit_of(situation_of(rows, (rows[-1].ended_at_ms or 0) + 1_000))
    assert fit.refused is None
    assert fit.measured_seconds < 6 * 1.0
