"""Likely ranges: each number worked out by hand from the table of errors, which a case sets for itself where it can."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance_audit.domain.kinds import Basis, MovementKind, ResourceType
from rebalance_audit.domain.measure import likely
from rebalance_audit.domain.measure.errors import ALL, ANYWHERE, ERRORS, ERRORS_OF_PACE, Pace, Spread
from rebalance_audit.domain.measure.likely import likely_instant
from rebalance_audit.domain.measure.pauses import Instant, measure, movement_numbers, pace_of, rebalance_numbers
from rebalance_audit.domain.model import Movement, Rebalance
from rebalance_audit.domain.ranges import Range, Reach, of_groups, of_one_group, of_sums
from tests.captures import CAPTURES
from tests.domain.measure.test_marks import about
from tests.likely import IN_THE_CODE, PAUSES, Coverage, Sample, coverage, errors, left_out, table_of
from tests.score import reconstructed

TABLE: Mapping[Basis, Spread] = dict(ERRORS) | {
    Basis.DELIVERY: Spread(4, 30, 100),
    Basis.COMMIT_AS_IT_LET_GO: Spread(3, 40, 100),
    Basis.SIGNS_OF_LIFE: Spread(0, 0, 0, (0.1, 0.9)),
}
OF_PACE: Mapping[Pace, Mapping[Basis, Spread]] = {
    Pace.QUICK: {Basis.DELIVERY: Spread(4, 6, 30)},
    Pace.SLOW: {Basis.DELIVERY: Spread(5, 110, 30)},
}


@pytest.fixture(autouse=True)
def _a_table_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(likely, "ERRORS", TABLE)
    monkeypatch.setattr(likely, "ERRORS_OF_PACE", OF_PACE)


def test_every_kind_of_evidence_has_its_errors() -> None:
    assert set(ERRORS) == set(Basis)
    assert set(ERRORS_OF_PACE) == {Pace.QUICK, Pace.SLOW}
    assert all(set(of_pace) < set(Basis) for of_pace in ERRORS_OF_PACE.values())


def test_an_instant_reaches_as_far_as_its_kind_errs_and_no_further_than_its_bounds() -> None:
    assert likely_instant(1_000, None, None, Basis.DELIVERY, None) == (996, 1_030)
    assert likely_instant(1_000, 999, 1_010, Basis.DELIVERY, None) == (999, 1_010)


def test_a_callback_of_a_slow_rebalance_may_be_later_and_of_a_quick_one_less() -> None:
    assert likely_instant(1_000, None, None, Basis.DELIVERY, None, pace=Pace.SLOW) == (995, 1_110)
    assert likely_instant(1_000, None, None, Basis.DELIVERY, None, pace=Pace.QUICK) == (996, 1_006)
    of_no_kind_that_was_measured = likely_instant(1_000, None, None, Basis.COMMIT_AS_IT_LET_GO, None, pace=Pace.SLOW)
    assert of_no_kind_that_was_measured == likely_instant(1_000, None, None, Basis.COMMIT_AS_IT_LET_GO, None)


@pytest.mark.parametrize(
    ("joined_at_ms", "assigned_at_ms", "pace"),
    [
        (1_000, 1_000, Pace.QUICK),
        (1_000, 1_002, Pace.QUICK),
        (1_000, 1_003, Pace.USUAL),
        (1_000, 1_015, Pace.USUAL),
        (1_000, 1_016, Pace.SLOW),
        (None, 1_016, Pace.USUAL),
        (1_000, None, Pace.USUAL),
        (1_016, 1_000, Pace.USUAL),
    ],
)
def test_a_rebalance_has_the_pace_of_its_own_record(
    joined_at_ms: int | None, assigned_at_ms: int | None, pace: Pace
) -> None:
    assert pace_of(joined_at_ms, assigned_at_ms) is pace


def test_pauses_of_a_slow_rebalance_have_wider_ranges_and_of_a_quick_one_narrower() -> None:
    movement = Movement(
        resource_type=ResourceType.PARTITION,
        resource="t-0",
        kind=MovementKind.MOVED,
        stop_marks=(replace(about(1_000), basis=Basis.COMMIT_AS_IT_LET_GO),),
        resume_marks=(replace(about(3_000), basis=Basis.DELIVERY),),
    )
    ranges = []
    for assigned_at_ms in (2_901, 2_905, 2_930):
        [seen] = measure(
            Rebalance(
                cluster_id="c",
                rebalance_id="c/g/7",
                group_id="g",
                resource_count=1,
                movements=(movement,),
                joined_at_ms=2_900,
                assigned_at_ms=assigned_at_ms,
            )
        ).movements
        ranges.append((seen.pause_likely_lower_ms, seen.pause_likely_upper_ms))
    # Below √(40² + 4²) of a quick and a usual one, √(40² + 5²) of a slow one.
    # Above √(3² + 6²), √(3² + 30²), √(3² + 110²).
    assert ranges == [(1_959, 2_007), (1_959, 2_031), (1_959, 2_111)]


def test_a_death_lies_in_the_middle_of_the_time_between_two_signs_of_life() -> None:
    assert likely_instant(2_500, 0, 20_000, Basis.SIGNS_OF_LIFE, (1_000, 4_000)) == (1_300, 3_700)
    assert likely_instant(1_000, 0, 20_000, Basis.SIGNS_OF_LIFE, (1_000, 4_000)) == (1_000, 3_700), "and it holds 1,000"


def test_an_instant_of_bounds_alone_is_anywhere_between_them() -> None:
    assert likely_instant(1_500, 1_000, 2_000, None, None) == (1_040, 1_960)


def test_the_two_errors_of_a_pause_add_up_by_their_squares() -> None:
    stop = Instant(None, None, 1_000, "recorded", "", Basis.COMMIT_AS_IT_LET_GO)
    resume = Instant(None, None, 3_000, "recorded", "", Basis.DELIVERY)
    numbers = movement_numbers("moved", stop, resume, None)
    # Shorter: it stopped 40 ms later, √(40² + 4²) = 40.2; longer: it resumed 30 ms later, √(30² + 3²) = 30.1.
    assert (numbers.pause_likely_lower_ms, numbers.pause_likely_upper_ms) == (1_959, 2_031)


def test_ten_partitions_of_one_member_err_together() -> None:
    stop = Instant(None, None, 1_000, "recorded", "", Basis.COMMIT_AS_IT_LET_GO)
    resume = Instant(None, None, 3_000, "recorded", "", Basis.DELIVERY)
    numbers = [movement_numbers("moved", stop, resume, None)] * 10
    total = rebalance_numbers(["moved"] * 10, [False] * 10, numbers, is_known=True)
    assert (total.resource_seconds_likely_lower, total.resource_seconds_likely_upper) == (19.59, 20.31)
    assert (total.pause_likely_lower_ms, total.pause_likely_upper_ms) == (1_959, 2_031)


def test_an_overlap_costs_nothing_in_any_case() -> None:
    stop = Instant(None, None, 9_000, "recorded", "", Basis.COMMIT_AS_IT_LET_GO)
    resume = Instant(None, None, 3_000, "recorded", "", Basis.DELIVERY)
    total = rebalance_numbers(["moved"], [False], [movement_numbers("moved", stop, resume, None)], is_known=True)
    assert (total.resource_seconds_likely_lower, total.resource_seconds_likely_upper) == (0, 0)


def test_errors_of_one_group_go_together_in_part_and_those_of_two_add_up_by_their_squares() -> None:
    cost = Range(10, 5, 20, 7, 14)
    one = of_one_group([cost, cost])
    assert one is not None
    assert (one.estimate, one.lower, one.upper) == (20, 10, 40)
    # Two fifths of (3 + 3)² and three fifths of 3² + 3²: 14.4 + 10.8 below; of 4 above: 25.6 + 19.2.
    assert (one.likely_lower, one.likely_upper) == (pytest.approx(20 - 25.2**0.5), pytest.approx(20 + 44.8**0.5))
    # 3 below and 4 above, each twice: √(3² + 3²), √(4² + 4²).
    both = of_groups({"a": [cost], "b": [cost]})
    assert both is not None
    assert (both.lower, both.estimate, both.upper) == (10, 20, 40)
    assert (both.likely_lower, both.likely_upper) == (pytest.approx(20 - 18**0.5), pytest.approx(20 + 32**0.5))
    assert of_groups({}) is None
    assert of_groups({"a": []}) is None


def test_what_nothing_bounds_has_a_likely_range_all_the_same() -> None:
    total = of_one_group([Range(10, 5, None, 7, 14), Range(1, None, 2, 1, 1)])
    assert total == Range(11, 5, None, 8, 15)  # the second has no error


def test_sums_of_parts_give_what_the_rebalances_give() -> None:
    costs = [Range(10, 5, 20, 7, 14), Range(3, 0, 9, 1, 4), Range(6, 6, 6, 6, 6)]
    parts = [Reach(3, 4, 9, 16), Reach(2 + 0, 1 + 0, 4, 1)]
    assert of_one_group(costs) == pytest.approx(of_sums(19, 11, 35, parts))


@pytest.mark.parametrize("capture", CAPTURES[::5], ids=lambda c: f"{c.parent.name}-{c.name}")
def test_likely_ranges_of_captures_lie_inside_the_bounds_and_hold_the_estimate(
    capture: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(likely, "ERRORS", ERRORS)
    for found in reconstructed(capture, "all").values():
        for r in found.rebalances:
            likely_of: tuple[Rebalance | Movement, ...] = (r, *r.movements)
            for it in likely_of:
                values = (
                    it.pause_lower_ms, it.pause_likely_lower_ms, it.pause_estimate_ms,
                    it.pause_likely_upper_ms, it.pause_upper_ms,
                )  # fmt: skip
                assert (it.pause_estimate_ms is None) == (it.pause_likely_lower_ms is None)
                known = [v for v in values if v is not None]
                assert known == sorted(known)


def _of_captures(captures: int, errors_ms: Iterable[int]) -> list[Sample]:
    return [Sample(Basis.DELIVERY, e, f"capture-{n % captures}", n, None) for n, e in enumerate(errors_ms)]


def test_the_furthest_of_few_instants_is_widened() -> None:
    # Five: -10 and 40, and as much again for another one to lie beyond.
    assert errors(_of_captures(5, [-10, 0, 1, 2, 40]))[Basis.DELIVERY][:3] == (20, 80, 5)


def test_partitions_that_go_together_are_one_instant() -> None:
    alike = [Sample(Basis.DELIVERY, 5, "capture-0", 1_000, None)] * 30
    assert errors(alike)[Basis.DELIVERY].instants == 1


def test_what_few_captures_show_is_known_less_well() -> None:
    # Of 0 to 100 eight of a hundred lie beyond each end, less half of √(0.08 · 0.92 / captures): 7.3 of 400 captures,
    # 3.7 of ten.
    many = errors(_of_captures(400, range(-50, 51)))[Basis.DELIVERY]
    few = errors(_of_captures(10, range(-50, 51)))[Basis.DELIVERY]
    assert (many.early_ms, few.early_ms) == (44, 47)


def _in_windows(captures: int, count: int) -> list[Sample]:
    """In the middle tenth of the time in which they must have been."""
    places = [0.45 + 0.1 * n / (count - 1) for n in range(count)]
    return [Sample(Basis.COMMIT_AFTER_FETCHES, 0, f"capture-{n % captures}", n, p) for n, p in enumerate(places)]


def test_a_time_that_was_measured_often_is_as_wide_as_it_was_measured() -> None:
    # Of 100 captures 6.6 of a hundred lie beyond each end: 0.45 + 0.0066 and 0.55 - 0.0066, to whole hundredths.
    assert errors(_in_windows(100, 101))[Basis.COMMIT_AFTER_FETCHES].window == (0.45, 0.55)
    assert errors(_in_windows(10, 19))[Basis.COMMIT_AFTER_FETCHES].window == ALL


def test_a_time_that_is_reasoned_stays_as_it_is() -> None:
    dead = [s._replace(basis=Basis.SIGNS_OF_LIFE) for s in _in_windows(100, 101)]
    assert errors(dead)[Basis.SIGNS_OF_LIFE].window == ANYWHERE


def test_slow_rebalances_have_a_table_of_their_own_where_twenty_are_known() -> None:
    usual, slow = _of_captures(10, range(40)), [s._replace(pace=Pace.SLOW) for s in _of_captures(10, range(60, 80))]
    table = table_of([*usual, *(s._replace(true_ms=s.true_ms + 1_000) for s in slow)])
    assert (table.of_all[Basis.DELIVERY].instants, table.of_pace[Pace.SLOW][Basis.DELIVERY].instants) == (60, 20)
    assert table_of([*usual, *slow[:19]]).of_pace == {Pace.QUICK: {}, Pace.SLOW: {}}


def test_a_cost_is_judged_alike_whether_it_is_of_a_rebalance_or_of_its_incident() -> None:
    capture = Path("tests/golden/4.3.0/kafkajs_join_leave_kill")
    costs: list[tuple[float, float, float]] = []

    def note(into: Coverage, truth: float, shown: Range, pauses: int) -> None:
        costs.append((truth, shown.likely_lower, pauses))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("tests.likely._add_cost", note)
        coverage([capture], {capture: IN_THE_CODE})
    # Of each incident of one rebalance the same truth, the same range and as many pauses as of the rebalance.
    assert any(costs.count(cost) >= 2 for cost in costs)
    assert {p for _, _, p in costs} != {1}


def test_a_capture_is_checked_by_what_the_others_show() -> None:
    one, other = (Path("tests/golden/4.3.0") / name for name in ("kafka_go_join_leave_kill", "kafkajs_join_leave_kill"))
    tables = left_out([one, other])
    assert tables[one].of_all[Basis.COMMIT_AFTER_CALLBACK].instants == 0, "kafkajs's shows nothing of kafka-go's"
    assert tables[other].of_all[Basis.COMMIT_AFTER_CALLBACK].early_ms >= 13
    found = coverage([one], tables)["all", PAUSES]
    assert found.inside < found.count
