"""What marks of one instant say together: the latest `not before`, the earliest `not after`, the best estimate."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_audit.domain.model import Mark


def bounds(marks: Sequence[Mark]) -> tuple[int | None, int | None]:
    """(lower, upper). Bounds that exclude each other come from clocks apart: neither is trusted further."""
    lower = max((m.at_ms for m in marks if m.bound == "lower"), default=None)
    upper = min((m.at_ms for m in marks if m.bound == "upper"), default=None)
    if lower is not None and upper is not None and lower > upper:
        return upper, lower
    return lower, upper


def best_estimate(marks: Sequence[Mark]) -> Mark | None:
    return min((m for m in marks if m.bound == "estimate"), key=lambda m: m.rank, default=None)


def inside(at_ms: int, lower: int | None, upper: int | None) -> int:
    """The instant, moved to the nearest bound if it lies outside."""
    if lower is not None:
        at_ms = max(at_ms, lower)
    if upper is not None:
        at_ms = min(at_ms, upper)
    return at_ms
