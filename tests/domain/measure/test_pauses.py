"""The heart of the claim: numbered pauses, each number worked out by hand from the marks (docs/definitions.md#pause).

A pause is the resume less the stop: its lower bound is `resume not before` less `stop not after`, its upper bound
`resume not after` less `stop not before`. Add cases freely. Who changes an expectation gives the reason in the change.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from rebalance_audit.domain.kinds import Basis, GroupType, MovementKind, ResourceType
from rebalance_audit.domain.measure.pauses import (
    MovementNumbers,
    instant,
    measure,
    movement_numbers,
    rebalance_numbers,
)
from rebalance_audit.domain.model import Mark, Movement, Rebalance
from tests.domain.measure.test_marks import INFERRED, LOGGED, RECORDED, about, not_after, not_before

Marks = tuple[Mark, ...]


@dataclass(frozen=True)
class Case:
    number: int
    says: str
    stop: Marks
    resume: Marks
    pause: tuple[int | None, int | None, int | None]
    """(lower, estimate, upper)."""
    overlap_ms: int | None = None
    tier: str | None = RECORDED


# A survivor's resume by the group record at 1,300: not before it, about 8 ms after, and a first commit at 1,390 + 10.
RESUME = (not_before(1_300), about(1_308), not_after(1_400))

CASES = [
    # Bounds
    Case(1, "stop in [1000, 1100], about 1050; resume in [1300, 1400], about 1308",
         (not_before(1_000), not_after(1_100), about(1_050)), RESUME, (200, 258, 400)),
    Case(2, "more marks only narrow it: stop in [1040, 1060]",
         (not_before(1_000), not_after(1_100), about(1_050), not_before(1_040), not_after(1_060)), RESUME,
         (240, 258, 360)),
    Case(3, "the client's own line beats the commit: 1308 - 1071",
         (not_before(1_000), not_after(1_100), about(1_050, 2), about(1_071, 1, LOGGED)), RESUME, (200, 237, 400),
         tier=LOGGED),
    Case(4, "both instants known to the millisecond",
         (not_before(1_050), not_after(1_050), about(1_050)),
         (not_before(1_308), not_after(1_308), about(1_308)), (258, 258, 258)),
    Case(5, "it stopped and resumed in one millisecond: a pause of 0 is a pause",
         (not_before(1_300), not_after(1_300), about(1_300)),
         (not_before(1_300), not_after(1_300), about(1_300)), (0, 0, 0)),
    Case(6, "bounds without estimates: the middles, 1350 - 1050",
         (not_before(1_000), not_after(1_100)), (not_before(1_300), not_after(1_400)), (200, 300, 400)),
    # Crossed bounds
    Case(7, "the stop's bounds cross by 20 ms and are swapped: [1100, 1120]",
         (not_before(1_120), not_after(1_100), about(1_110)), RESUME, (180, 198, 300)),
    Case(8, "the resume's bounds cross by 30 ms and are swapped: [1280, 1310]",
         (not_before(1_000), not_after(1_100), about(1_050)),
         (not_before(1_310), not_after(1_280), about(1_300)), (180, 250, 310)),
    Case(9, "both cross: stop in [1100, 1120], resume in [1280, 1310]",
         (not_before(1_120), not_after(1_100), about(1_110)),
         (not_before(1_310), not_after(1_280), about(1_300)), (160, 190, 210)),
    # Two clocks
    Case(10, "the old owner's host runs 40 ms ahead: its line at 1140 against the join phase's end at 1100",
         (not_before(1_130, LOGGED), about(1_140, 1, LOGGED), not_after(1_100)), RESUME,
         # Swapped, [1100, 1130]: the line is moved to 1130.
         (170, 178, 300), tier=LOGGED),
    Case(11, "it runs 3 s ahead: shown as an overlap of at most 2.7 s, and the upper bound keeps the truth inside",
         (not_before(4_040, LOGGED), about(4_050, 1, LOGGED), not_after(1_100)), RESUME,
         # Swapped, [1100, 4040]: 1300 - 4040, 1308 - 4040, 1400 - 1100.
         (-2_740, -2_732, 300), overlap_ms=2_732, tier=LOGGED),
    Case(12, "the new owner's host runs 50 ms behind: its line at 1258 says it resumed before the record at 1300",
         (not_before(1_000), not_after(1_100), about(1_050)),
         (about(1_258, 1, LOGGED), not_before(1_300), not_after(1_400)),
         # The line is moved to the record.
         (200, 250, 400), tier=LOGGED),
    # The slack of 100 ms
    Case(13, "a lower bound of -1 is rounding, and 0",
         (not_before(1_250), not_after(1_301), about(1_290)), RESUME, (0, 18, 150)),
    Case(14, "so is -100",
         (not_before(1_250), not_after(1_400), about(1_290)), RESUME, (0, 18, 150)),
    Case(15, "-101 is not: it may have been an overlap",
         (not_before(1_250), not_after(1_401), about(1_290)), RESUME, (-101, 18, 150)),
    Case(16, "inside the slack a negative estimate is 0, too, and no overlap is shown",
         (not_before(1_250), not_after(1_400), about(1_350)), RESUME, (0, 0, 150)),
    Case(17, "beyond it the estimate stays negative: 1308 - 1390",
         (not_before(1_250), not_after(1_401), about(1_390)), RESUME, (-101, -82, 150), overlap_ms=82),
    Case(18, "a whole pause inside the slack, [-80, -20], is 0: the three numbers stay in order",
         (not_before(1_320), not_after(1_380), about(1_350)), (not_before(1_300), not_after(1_300), about(1_300)),
         (0, 0, 0)),
    # Open ends
    Case(19, "nothing says by when it stopped: no lower bound",
         (not_before(1_000), about(1_050)), RESUME, (None, 258, 400)),
    Case(20, "nothing says since when it had stopped: no upper bound",
         (not_after(1_100), about(1_050)), RESUME, (200, 258, None)),
    Case(21, "nothing says by when the new owner began (it never commits): no upper bound",
         (not_before(1_000), not_after(1_100), about(1_050)), (not_before(1_300), about(1_308)), (200, 258, None)),
    Case(22, "logs alone, and no line of the new owner: no lower bound of the resume, none of the pause",
         (not_before(1_000), not_after(1_100), about(1_050)), (about(1_308, 4, LOGGED), not_after(1_400)),
         (None, 258, 400), tier=LOGGED),
    Case(23, "estimates alone, unbounded on both sides",
         (about(1_050),), (about(1_308, 5, INFERRED),), (None, 258, None), tier=INFERRED),
    Case(24, "no mark of the stop: no pause, and never 0", (), RESUME, (None, None, None), tier=None),
    Case(25, "no mark of the resume: no pause", (not_before(1_000), about(1_050)), (), (None, None, None), tier=None),
    # Kills: session of 10 s, the line of the expiry at 15200, last commit at 5000, record at 15260, first commit 15900
    Case(26, "killed: stopped in [4950, 15210], about 15200 - 10000 + 1500 = 6700",
         (not_before(4_950), not_before(3_700, LOGGED), not_after(15_210, LOGGED), about(6_700, 4, LOGGED)),
         (not_before(15_260), about(15_268), not_after(15_910)), (50, 8_568, 10_960), tier=LOGGED),
    Case(27, "killed without a commit: a heartbeat came at least 10 s and a slack of 1.5 s before its expiry, 3700",
         (not_before(3_700, LOGGED), not_after(15_210, LOGGED), about(6_700, 4, LOGGED)),
         (not_before(15_260), about(15_268), not_after(15_910)), (50, 8_568, 12_210), tier=LOGGED),
    Case(28, "killed right after a commit at 7000, later than the guess: it lived then",
         (not_before(6_950), not_after(15_210, LOGGED), about(7_000, 4, LOGGED)),
         (not_before(15_260), about(15_268), not_after(15_910)), (50, 8_268, 8_960), tier=LOGGED),
    Case(29, "killed, and records alone: not after the join phase that misses it, about its last commit",
         (not_before(4_950), not_after(15_250), about(5_000, 4)),
         (not_before(15_260), about(15_268), not_after(15_910)), (10, 10_268, 10_960)),
    Case(30, "killed, and the one that takes over is killed, too: no upper bound",
         (not_before(4_950), not_after(15_210, LOGGED), about(6_700, 4, LOGGED)),
         (not_before(15_260), about(15_268)), (50, 8_568, None), tier=LOGGED),
    # Freezes, and members that worked on: the record that gives the partition on at 60000
    Case(31, "frozen and dropped at the rebalance timeout, 59990: about its last commit at 12000",
         (not_before(11_950), not_after(60_000, LOGGED), about(12_000, 4, LOGGED)),
         (not_before(60_000), about(60_008), not_after(60_400)), (0, 48_008, 48_450), tier=LOGGED),
    Case(32, "put out by its poll timeout at 58000 and back at 63000: it worked on beside the new owner, 60008 - 63000",
         (not_before(57_950, LOGGED), about(63_000, 4, LOGGED), not_after(63_010, LOGGED)),
         (not_before(60_000), about(60_008), not_after(60_400)), (-3_010, -2_992, 2_450), overlap_ms=2_992,
         tier=LOGGED),
    Case(33, "put out and never back: nothing says by when it noticed, so no lower bound; about 2 s after it left",
         (not_before(57_950, LOGGED), about(60_000, 5, INFERRED)),
         (not_before(60_000), about(60_008), not_after(60_400)), (None, 8, 2_450), tier=INFERRED),
    Case(34, "frozen, thawed at 70000, and only then asked to revoke: its own line says when it let go",
         (not_before(69_990, LOGGED), about(70_000, 1, LOGGED), not_after(70_100, LOGGED)),
         (not_before(60_000), about(60_008), not_after(60_400)), (-10_100, -9_992, -9_590), overlap_ms=9_992,
         tier=LOGGED),
    # By epochs: the current-assignment record of the new owner at 2000, whose callback may be 1.5 s before it
    Case(35, "KIP-848: asked to revoke at 1000, commit at 1030, gone from its record at 1200",
         (not_before(990), about(1_000), about(1_030, 2), not_after(1_210)),
         (not_before(500), about(2_099), not_after(2_410)), (-710, 1_069, 1_420)),
    # Connect: stop() and start() of a task
    Case(36, "a task's statuses: UNASSIGNED at 509 follows stop() by 9 ms, RUNNING at 1502 follows start() by 2 ms",
         (not_before(450), about(500, 2), not_after(559)),
         (not_before(1_000), about(1_500, 2), not_after(1_552)), (441, 1_000, 1_102)),
]  # fmt: skip


def numbers_of(case: Case) -> MovementNumbers:
    return movement_numbers("moved", instant(case.stop), instant(case.resume), None)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.number}-{c.says}")
def test_the_pause_of_the_case(case: Case) -> None:
    found = numbers_of(case)
    assert (found.pause_lower_ms, found.pause_estimate_ms, found.pause_upper_ms) == case.pause
    assert (found.overlap_ms, found.pause_tier) == (case.overlap_ms, case.tier)


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c.number))
def test_lower_estimate_and_upper_are_in_order(case: Case) -> None:
    found = numbers_of(case)
    known = [n for n in (found.pause_lower_ms, found.pause_estimate_ms, found.pause_upper_ms) if n is not None]
    assert known == sorted(known)


def test_cases_are_numbered_in_order() -> None:
    assert [case.number for case in CASES] == list(range(1, len(CASES) + 1))


class TestKinds:
    @pytest.mark.parametrize("kind", ["moved", "returned", "restarted"])
    def test_what_was_given_on_given_back_or_restarted_stood_still(self, kind: str) -> None:
        found = movement_numbers(kind, instant(CASES[0].stop), instant(CASES[0].resume), None)
        assert found.pause_estimate_ms == 258

    @pytest.mark.parametrize("kind", ["assigned", "revoked"])
    def test_what_had_no_owner_before_or_has_none_now_has_no_pause(self, kind: str) -> None:
        found = movement_numbers(kind, instant(CASES[0].stop), instant(CASES[0].resume), 2_000)
        assert found == MovementNumbers()

    def test_the_first_commit_is_counted_from_the_stop(self) -> None:
        found = movement_numbers("moved", instant(CASES[0].stop), instant(CASES[0].resume), 1_390)
        assert found.first_commit_after_ms == 1_390 - 1_050

    def test_a_stop_that_is_unknown_leaves_what_is_known_of_the_resume(self) -> None:
        found = movement_numbers("moved", instant(()), instant(RESUME), 1_390)
        assert (found.resumed_at_lower_ms, found.resumed_at_upper_ms) == (1_300, 1_400)
        assert found.first_commit_after_ms is None

    @pytest.mark.parametrize(
        ("stop", "resume", "why"),
        [
            ((), RESUME, "not known: no evidence shows when the old owner stopped"),
            (CASES[0].stop, (), "not known: no evidence shows when the new one began"),
            ((), (), "not known: no evidence shows when the old owner stopped and when the new one began"),
        ],
    )
    def test_a_pause_that_is_unknown_says_why(self, stop: Marks, resume: Marks, why: str) -> None:
        found = movement_numbers("moved", instant(stop), instant(resume), None)
        assert (found.pause_estimate_ms, found.pause_detail) == (None, why)
        assert movement_numbers("assigned", instant(stop), instant(resume), None).pause_detail is None


def numbers(*places: int) -> list[MovementNumbers]:
    """Of the numbered cases."""
    return [numbers_of(CASES[place - 1]) for place in places]


class TestSums:
    def test_a_rebalance_has_its_longest_pause_and_the_sum_of_all(self) -> None:
        found = rebalance_numbers(["moved", "moved"], [False, True], numbers(1, 2), is_known=True)
        assert (found.pause_lower_ms, found.pause_estimate_ms, found.pause_upper_ms) == (240, 258, 400)
        assert found.resource_seconds_lower == pytest.approx(0.440)
        assert found.resource_seconds_estimate == pytest.approx(0.516)
        assert found.resource_seconds_upper == pytest.approx(0.760)
        assert (found.moved_count, found.avoidable_moved_count) == (2, 1)

    def test_an_overlap_counts_as_nothing_in_the_sum(self) -> None:
        found = rebalance_numbers(["moved", "moved"], [False, False], numbers(1, 32), is_known=True)
        assert (found.pause_lower_ms, found.pause_estimate_ms) == (200, 258)
        assert found.resource_seconds_lower == pytest.approx(0.200)
        assert found.resource_seconds_estimate == pytest.approx(0.258)
        assert found.resource_seconds_upper == pytest.approx(0.400 + 2.450)

    def test_one_open_end_opens_the_upper_bounds_of_the_whole(self) -> None:
        found = rebalance_numbers(["moved", "returned"], [False, None], numbers(1, 30), is_known=True)
        assert (found.pause_upper_ms, found.resource_seconds_upper) == (None, None)
        assert found.pause_estimate_ms == 8_568
        assert found.resource_seconds_estimate == pytest.approx(8.826)
        assert found.pause_tier == LOGGED

    def test_a_movement_nobody_can_measure_adds_nothing_and_takes_the_upper_bounds_away(self) -> None:
        """It was (258, 400) once: but the one that nobody can measure may have stood still for longer."""
        found = rebalance_numbers(["moved", "moved"], [False, False], numbers(1, 24), is_known=True)
        assert (found.pause_estimate_ms, found.pause_upper_ms) == (258, None)
        assert found.resource_seconds_estimate == pytest.approx(0.258)
        assert found.resource_seconds_upper is None

    def test_where_nothing_moved_the_damage_is_zero_and_the_pause_is_null(self) -> None:
        found = rebalance_numbers([], [], [], is_known=True)
        assert (found.moved_count, found.resource_seconds_estimate, found.pause_estimate_ms) == (0, 0.0, None)

    def test_where_it_is_unknown_what_was_handed_out_counts_are_null_and_never_zero(self) -> None:
        found = rebalance_numbers([], [], [], is_known=False)
        assert (found.moved_count, found.resource_seconds_estimate) == (None, None)

    def test_one_movement_without_a_verdict_makes_the_avoidable_ones_uncountable(self) -> None:
        found = rebalance_numbers(["moved", "moved"], [True, None], numbers(1, 2), is_known=True)
        assert (found.moved_count, found.avoidable_moved_count) == (2, None)


def test_a_rebalance_is_measured_movement_by_movement() -> None:
    stop, resume = CASES[0].stop, CASES[0].resume
    first = Movement(
        resource_type=ResourceType.PARTITION,
        resource="t-0",
        kind=MovementKind.MOVED,
        stop_marks=stop,
        resume_marks=resume,
    )
    movements = (
        first,
        replace(first, resource="t-1", resume_marks=CASES[3].resume),
        replace(first, kind=MovementKind.ASSIGNED),
    )
    rebalance = Rebalance(
        cluster_id="c",
        rebalance_id="c/g/7",
        group_id="g",
        group_type=GroupType.CLASSIC,
        resource_count=3,
        movements=movements,
    )
    measured = measure(rebalance)
    assert [m.pause_estimate_ms for m in measured.movements] == [258, 258, None]
    assert [m.pause_upper_ms for m in measured.movements] == [400, 308, None]
    assert (measured.pause_upper_ms, measured.moved_count, measured.assigned_count) == (400, 2, 1)
    assert measured.resource_seconds_estimate == pytest.approx(0.516)


def test_what_stopped_for_nobody_knows_how_long_is_not_summed_as_nothing() -> None:
    known = movement_numbers("moved", instant((about(1_000),)), instant((about(3_000),)), None)
    unknown = movement_numbers("moved", instant(()), instant((about(3_000),)), None)
    alone = rebalance_numbers(["moved"], [None], [unknown], is_known=True)
    assert (alone.resource_seconds_lower, alone.resource_seconds_estimate, alone.resource_seconds_upper) == (None,) * 3
    both = rebalance_numbers(["moved", "moved"], [None, None], [known, unknown], is_known=True)
    assert (both.resource_seconds_estimate, both.resource_seconds_upper) == (2.0, None)
    nothing = rebalance_numbers(
        ["revoked"], [None], [movement_numbers("revoked", instant(()), instant(()), None)], is_known=True
    )
    assert nothing.resource_seconds_estimate == 0.0


def test_an_owner_that_was_put_out_may_work_on_beside_the_next_one_for_some_ms() -> None:
    """As seen on 3.3.2: an administrator removed it, and it heard of that 47 ms after the other was given its
    partitions. Of an owner that had to re-join, the same marks are rounding."""
    stop = not_before(1_000), not_after(1_360), about(1_350, 3, LOGGED)
    put_out = stop[0], stop[1], replace(stop[2], basis=Basis.REJOIN)
    for marks, pause in ((stop, (0, 0, 400)), (put_out, (-60, -42, 400))):
        found = movement_numbers("moved", instant(marks), instant(RESUME), None)
        assert (found.pause_lower_ms, found.pause_estimate_ms, found.pause_upper_ms) == pause
