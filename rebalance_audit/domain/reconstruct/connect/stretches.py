"""One interval of one connector or task while its time line is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.kinds import TaskState
from rebalance_audit.domain.measure.marks import best_estimate, bounds, inside
from rebalance_audit.domain.model import Mark

from .runs import OwnershipRun

HAND_OVER_MS = 10_000
"""From the end of the scheduled delay to the start elsewhere; longer is no longer the delay's doing
(2 to 12 s seen: docs/measured.md#connect-tasks)."""


@dataclass(frozen=True, slots=True)
class BoundedInstant:
    """When something happened: not before, best guess, not after."""

    lower: int | None
    at: int
    upper: int | None

    @staticmethod
    def exactly(at_ms: int) -> BoundedInstant:
        return BoundedInstant(at_ms, at_ms, at_ms)

    def no_earlier_than(self, at_ms: int) -> BoundedInstant:
        """The instant and its bounds, moved behind what it must follow: evidence that is missing may contradict."""
        at = max(self.at, at_ms)
        return BoundedInstant(self.lower, at, None if self.upper is None else max(self.upper, at))


def settle(marks: Sequence[Mark], otherwise: int) -> BoundedInstant:
    """The best estimate inside its bounds; without one, a bound, or else `otherwise`."""
    lower, upper = bounds(marks)
    best = best_estimate(marks)
    at = best.at_ms if best is not None else upper if upper is not None else lower if lower is not None else otherwise
    return BoundedInstant(lower, inside(at, lower, upper), upper)


@dataclass(slots=True, kw_only=True)
class StateInterval:
    """An interval being written."""

    state: str
    start: BoundedInstant
    end: BoundedInstant | None = None
    ended_by: str | None = None
    run: OwnershipRun | None = None
    """The run it belongs to; LOST and WAITING: that of the dead worker, which the status topic still names."""
    generation_id: int | None = None
    expected: bool = False
    detail: str | None = None
    due_ms: int | None = None
    """WAITING: when the announced delay ends."""
    evidence: tuple[str | None, ...] = ()


def cut_overdue(found: list[StateInterval]) -> list[StateInterval]:
    """A wait that lasts longer than its delay becomes a loss where the delay ends."""
    result: list[StateInterval] = []
    for stretch in found:
        result.append(stretch)
        due_ms, end = stretch.due_ms, stretch.end
        if due_ms is None or end is None or end.at <= due_ms + HAND_OVER_MS:
            continue
        late = StateInterval(
            state=TaskState.LOST,
            start=BoundedInstant.exactly(due_ms),
            end=end,
            ended_by=stretch.ended_by,
            run=stretch.run,
            generation_id=stretch.generation_id,
            detail="longer than the delay announced",
            evidence=stretch.evidence,
        )
        stretch.end, stretch.ended_by = BoundedInstant.exactly(due_ms), "delay_expired"
        result.append(late)
    return result
