"""Weighs the marks of one instant: the latest `not before`, the earliest `not after`, the best estimate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

from rebalance_audit.domain.kinds import LOWER, UPPER, Basis


class Weighed(Protocol):
    """A mark, or the part of its row that counts here: all but the ref."""

    @property
    def bound(self) -> str: ...
    @property
    def at_ms(self) -> int: ...
    @property
    def tier(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def detail(self) -> str: ...
    @property
    def basis(self) -> Basis | str | None: ...
    @property
    def window_from_ms(self) -> int | None: ...
    @property
    def window_to_ms(self) -> int | None: ...


AnyMark = TypeVar("AnyMark", bound=Weighed)


def weigh(marks: Iterable[AnyMark]) -> tuple[int | None, int | None, AnyMark | None]:
    """(lower, upper, best estimate) of marks, in one pass. Bounds that exclude each other come from clocks that differ:
    neither is trusted further."""
    lower: int | None = None
    upper: int | None = None
    best: AnyMark | None = None
    for mark in marks:
        bound, at_ms = mark.bound, mark.at_ms
        if bound == LOWER:
            if lower is None or at_ms > lower:
                lower = at_ms
        elif bound == UPPER:
            if upper is None or at_ms < upper:
                upper = at_ms
        elif best is None or mark.rank < best.rank:
            best = mark
    if lower is not None and upper is not None and lower > upper:
        lower, upper = upper, lower
    return lower, upper, best


def bounds(marks: Iterable[Weighed]) -> tuple[int | None, int | None]:
    return weigh(marks)[:2]


def best_estimate(marks: Iterable[AnyMark]) -> AnyMark | None:
    return weigh(marks)[2]


def inside(at_ms: int, lower: int | None, upper: int | None) -> int:
    """The instant, moved to the nearest bound if it lies outside."""
    if lower is not None:
        at_ms = max(at_ms, lower)
    if upper is not None:
        at_ms = min(at_ms, upper)
    return at_ms
