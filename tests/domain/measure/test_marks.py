"""Numbered cases, worked by hand: what marks of one instant say together (docs/definitions.md#bounds)."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from rebalance_audit.domain.kinds import Bound, EvidenceTier
from rebalance_audit.domain.measure.marks import best_estimate, bounds, inside
from rebalance_audit.domain.measure.pauses import Instant, instant
from rebalance_audit.domain.model import Mark

RECORDED, LOGGED, INFERRED = EvidenceTier.RECORDED, EvidenceTier.LOGGED, EvidenceTier.INFERRED


def not_before(at_ms: int, tier: EvidenceTier = RECORDED) -> Mark:
    return Mark(bound=Bound.LOWER, at_ms=at_ms, tier=tier, rank=0, detail=f"not before {at_ms}")


def not_after(at_ms: int, tier: EvidenceTier = RECORDED) -> Mark:
    return Mark(bound=Bound.UPPER, at_ms=at_ms, tier=tier, rank=0, detail=f"not after {at_ms}")


def about(at_ms: int, rank: int = 3, tier: EvidenceTier = RECORDED) -> Mark:
    return Mark(bound=Bound.ESTIMATE, at_ms=at_ms, tier=tier, rank=rank, detail=f"about {at_ms}")


@dataclass(frozen=True)
class Case:
    number: int
    says: str
    marks: tuple[Mark, ...]
    expected: Instant
    """(lower, upper, estimate, tier, detail)."""


CASES = [
    Case(1, "three marks: two bounds and what lies between",
         (not_before(1_000), not_after(1_100), about(1_050)), Instant(1_000, 1_100, 1_050, RECORDED, "about 1050")),
    Case(2, "the latest `not before` and the earliest `not after` bound it",
         (not_before(900), not_before(1_000), not_after(1_300), not_after(1_100), about(1_050)),
         Instant(1_000, 1_100, 1_050, RECORDED, "about 1050")),
    Case(3, "the order of the marks does not matter",
         (about(1_050), not_after(1_100), not_after(1_300), not_before(1_000), not_before(900)),
         Instant(1_000, 1_100, 1_050, RECORDED, "about 1050")),
    Case(4, "the smaller rank is the better estimate, wherever it stands",
         (about(1_090, 4), about(1_020, 2, LOGGED), about(1_050, 3)), Instant(None, None, 1_020, LOGGED, "about 1020")),
    Case(5, "of two estimates of one rank the first is taken",
         (about(1_040, 2), about(1_060, 2)), Instant(None, None, 1_040, RECORDED, "about 1040")),
    Case(6, "a better rank outside the bounds is taken, and moved to the nearest bound",
         (not_before(1_000), not_after(1_100), about(1_500, 1), about(1_050, 3)),
         Instant(1_000, 1_100, 1_100, RECORDED, "about 1500")),
    Case(7, "so it is in front of the bounds",
         (not_before(1_000), not_after(1_100), about(20, 2)), Instant(1_000, 1_100, 1_000, RECORDED, "about 20")),
    Case(8, "bounds that cross by 20 ms are swapped: the truth lies between two clocks",
         (not_before(1_120), not_after(1_100), about(1_110)), Instant(1_100, 1_120, 1_110, RECORDED, "about 1110")),
    Case(9, "bounds that cross by a minute are swapped all the same: as wide as the clocks are apart",
         (not_before(61_000), not_after(1_000), about(1_050)), Instant(1_000, 61_000, 1_050, RECORDED, "about 1050")),
    Case(10, "an estimate beside swapped bounds is moved to them",
         (not_before(1_120), not_after(1_100), about(1_130)), Instant(1_100, 1_120, 1_120, RECORDED, "about 1130")),
    Case(11, "bounds that meet leave one instant",
         (not_before(1_100), not_after(1_100), about(1_050)), Instant(1_100, 1_100, 1_100, RECORDED, "about 1050")),
    Case(12, "open above: nothing says by when",
         (not_before(1_000), about(1_500)), Instant(1_000, None, 1_500, RECORDED, "about 1500")),
    Case(13, "open below: nothing says since when",
         (not_after(1_100), about(500)), Instant(None, 1_100, 500, RECORDED, "about 500")),
    Case(14, "an estimate above the only bound is moved to it",
         (not_after(1_100), about(1_500)), Instant(None, 1_100, 1_100, RECORDED, "about 1500")),
    Case(15, "bounds without an estimate: the middle, rounded down; the tier is that of the first mark that bounds it",
         (not_before(1_000, INFERRED), not_after(1_101)), Instant(1_000, 1_101, 1_050, INFERRED, "not before 1000")),
    Case(16, "`not before` alone is the estimate",
         (not_before(900), not_before(1_000, LOGGED)), Instant(1_000, None, 1_000, LOGGED, "not before 1000")),
    Case(17, "`not after` alone is the estimate",
         (not_after(1_100), not_after(1_300)), Instant(None, 1_100, 1_100, RECORDED, "not after 1100")),
    Case(18, "no mark says nothing: null, and never 0", (), Instant(None, None, None, None, "")),
    Case(19, "before the epoch is an instant like others",
         (not_before(-50), not_after(50), about(0)), Instant(-50, 50, 0, RECORDED, "about 0")),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.number}-{c.says}")
def test_marks_say_together(case: Case) -> None:
    assert instant(case.marks) == case.expected


@pytest.mark.parametrize("case", CASES, ids=lambda c: str(c.number))
def test_the_estimate_never_leaves_its_bounds(case: Case) -> None:
    lower, upper = bounds(case.marks)
    found = instant(case.marks)
    assert (found.lower, found.upper) == (lower, upper)
    assert lower is None or upper is None or lower <= upper
    if found.estimate is not None:
        assert found.estimate == inside(found.estimate, lower, upper)


def test_cases_are_numbered_in_order() -> None:
    assert [case.number for case in CASES] == list(range(1, len(CASES) + 1))


def test_bounds_are_no_estimates() -> None:
    assert best_estimate((not_before(1), not_after(2))) is None
