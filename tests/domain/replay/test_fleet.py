"""A fleet's answers come from fewer runs than those of one group: they must be as good."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, from_row, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.candidates import candidates
from rebalance_audit.domain.replay.fleet import (
    ASKED_OF_LISTED,
    ASKED_OF_REBALANCES,
    FLEET_RUNS,
    OPTIONS_KEPT,
    advice_of,
    fit_in_few_runs,
)
from rebalance_audit.domain.replay.settings import ADVISED_WITHOUT_ASKING
from rebalance_audit.domain.replay.situation import FEWEST_REBALANCES, LAST_STEP_MS, RUNS_BY_NAME, base_of, situation_of
from rebalance_audit.domain.replay.whatif import SMALL_SHARE, fit_of, option_of, ranked
from tests.captures import GOLDEN, gathered

PAIRS = Path(__file__).parents[2] / "pairs"


@pytest.mark.parametrize(
    "capture",
    [
        GOLDEN / "4.3.0" / "rolling_deploy",
        GOLDEN / "4.3.0" / "storm",
        GOLDEN / "4.3.0" / "eager_join_leave_kill",
        GOLDEN / "4.3.0" / "connect_worker_lost",
        GOLDEN / "4.3.0" / "kip848_join_leave",
        PAIRS / "l43-0",
        PAIRS / "j43-3-1",
    ],
    ids=lambda capture: capture.name,
)
def test_the_first_of_few_runs_is_as_good_as_the_first_of_all(capture: Path) -> None:
    compared = 0
    for evidence in gathered(capture).groups:
        rows = [measure(r) for r in reconstruct(evidence).rebalances]
        until_ms = max(r.ended_at_ms or 0 for r in rows) + 1_000
        (first, *_) = advice_of(rows, until_ms)
        if first.saved_seconds is None:
            continue
        situation = situation_of(rows, until_ms)
        cost_seconds = fit_of(situation).cost_seconds
        by_all = {option.pairs: option for option in ranked(situation, candidates(situation))}
        best = next(iter(by_all.values()))
        lost_seconds = (best.saved_seconds or 0) - (by_all[first.settings].saved_seconds or 0)
        assert lost_seconds <= max(0.2, SMALL_SHARE * cost_seconds), (evidence.group_id, first.settings, best.pairs)
        compared += 1
    assert compared > 0


def test_runs_that_are_kept_from_the_choice_change_no_number() -> None:
    """The same settings weighed again, without any run made before but those that the fit needs."""
    (evidence,) = gathered(GOLDEN / "4.3.0" / "rolling_deploy").groups
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    until_ms = max(r.ended_at_ms or 0 for r in rows) + 1_000
    advised = advice_of(rows, until_ms)
    assert advised[0].settings
    for advice in advised:
        situation = situation_of(rows, until_ms, run_count=FLEET_RUNS)
        fit_in_few_runs(situation)
        (option,) = ranked(situation, [advice.settings])
        for name in (
            "saved_seconds",
            "saved_lower_seconds",
            "saved_upper_seconds",
            "cost_seconds",
            "rebalances",
            "why",
        ):
            assert getattr(option, name) == getattr(advice, name)


def test_of_the_costliest_groups_what_is_advised_to_all_is_answered_too() -> None:
    """Static membership and a cooperative assignor cost this group more; who reads the advice must be told."""
    (evidence,) = gathered(GOLDEN / "4.3.0" / "rolling_deploy").groups
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    until_ms = max(r.ended_at_ms or 0 for r in rows) + 1_000
    few, all_runs = advice_of(rows, until_ms), advice_of(rows, until_ms, RUNS_BY_NAME)
    assert not ADVISED_WITHOUT_ASKING & {setting for advice in few for setting in advice.settings}
    advised = [a for a in all_runs if ADVISED_WITHOUT_ASKING & set(a.settings)]
    assert {a.settings[0] for a in advised} == ADVISED_WITHOUT_ASKING - {"connect.protocol=sessioned"}
    assert all((a.saved_upper_seconds or 0) < 0 for a in advised)
    assert [a.place for a in all_runs] == list(range(1, len(all_runs) + 1))
    assert all_runs == sorted(all_runs, key=lambda a: -(a.saved_seconds or 0))
    assert all_runs[0].settings == few[0].settings


@pytest.mark.parametrize(("capture", "count"), [("rolling_deploy", 1), ("kip848_slow_revocation", FLEET_RUNS)])
def test_the_fit_takes_one_run_where_that_is_far_from_being_refused(capture: str, count: int) -> None:
    (evidence,) = gathered(GOLDEN / "4.3.0" / capture).groups
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    situation = situation_of(rows, max(r.ended_at_ms or 0 for r in rows) + 1_000, run_count=FLEET_RUNS)
    fit_in_few_runs(situation)
    assert len(base_of(situation, LAST_STEP_MS)) == count


@pytest.mark.parametrize(
    "capture",
    [GOLDEN / "4.3.0" / name for name in ("storm", "connect_worker_lost", "connect_eager", "kip848_join_leave")]
    + [PAIRS / "j43-3-1", PAIRS / "l39-4", PAIRS / "k43-0"],
    ids=lambda capture: capture.name,
)
def test_answers_are_those_of_every_setting_played_to_its_end_from_all_that_is_known(capture: Path) -> None:
    for evidence in gathered(capture).groups:
        rows = [measure(r) for r in reconstruct(evidence).rebalances]
        until_ms = max(r.ended_at_ms or 0 for r in rows) + 1_000
        answers = advice_of([only_asked(row) for row in rows], until_ms)
        if answers[0].saved_seconds is None:
            continue
        situation = situation_of(rows, until_ms, run_count=1)
        situation.kept = {}
        fit_in_few_runs(situation)
        found = [o for o in ranked(situation, candidates(situation)) if o.refused is None]
        kept = [o.pairs for o in found if not o.is_small][:OPTIONS_KEPT] or [found[0].pairs]
        assert {answer.settings for answer in answers} == set(kept)


@pytest.mark.parametrize(
    "capture",
    [GOLDEN / "4.3.0" / "rolling_deploy", PAIRS / "l43-1", PAIRS / "j43-3-1"],
    ids=lambda capture: capture.name,
)
def test_an_initial_delay_that_is_not_tried_saves_nothing(capture: Path) -> None:
    delay = ["group.initial.rebalance.delay.ms=3000"]
    compared = 0
    for evidence in gathered(capture).groups:
        rows = [measure(r) for r in reconstruct(evidence).rebalances]
        if len(rows) < FEWEST_REBALANCES:
            continue
        situation = situation_of(rows, max(r.ended_at_ms or 0 for r in rows) + 1_000)
        is_classic = situation.in_force.group_protocol == "classic" and situation.in_force.initial_delay_ms < 3_000
        if is_classic and delay not in candidates(situation):
            assert option_of(situation, delay).is_small, evidence.group_id
            compared += 1
    assert compared > 0


def only_asked(row: Rebalance) -> Rebalance:
    stored = to_row(row)
    listed = {
        name: [{field: each[field] for field in fields} for each in stored[name]]
        for name, fields in ASKED_OF_LISTED.items()
    }
    return from_row(Rebalance, {name: stored[name] for name in ASKED_OF_REBALANCES} | listed)
