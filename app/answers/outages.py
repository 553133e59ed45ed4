"""Stretches in which a task or a connector did not run, worked out from its states. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from app.answers.rows import Span
from rebalance_audit.domain.kinds import TaskState
from rebalance_audit.domain.model import ConnectTask

NOT_RUNNING = (TaskState.WAITING, TaskState.LOST, TaskState.FAILED, TaskState.UNASSIGNED, TaskState.RESTARTING)
_SAME_OUTAGE_MS = 1_000
"""States that follow each other within this are one outage: status records of two workers are some ms apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outage:
    """One stretch in which a task or a connector did not run, whatever its states were called meanwhile."""

    connector: str
    task: int | None
    """None: the connector itself."""
    from_ms: int
    to_ms: int
    is_over: bool
    parts: tuple[tuple[str, int, bool], ...]
    """State, how long within the span, and whether that was by design; in order."""

    @property
    def length_ms(self) -> int:
        """Without what it ran between two of its states."""
        return sum(length for _, length, _ in self.parts)

    def waited_ms(self, by_design: bool) -> int:
        return sum(length for _, length, designed in self.parts if designed is by_design)


def is_by_design(task: ConnectTask) -> bool:
    return task.expected or task.state == TaskState.WAITING


def by_design_seconds(tasks: Sequence[ConnectTask], span: Span) -> float:
    """How long tasks and connectors waited by design, summed."""
    return sum(o.waited_ms(by_design=True) for o in outages(tasks, span)) / 1000


def outages(tasks: Sequence[ConnectTask], span: Span) -> list[Outage]:
    """Stretches without running, cut to the span, the longest first.

    A connector counts as its tasks do: it moves and waits with them. What is paused or stopped does not.
    """
    by_task: dict[tuple[str, int | None], list[ConnectTask]] = {}
    for t in tasks:
        if t.state in NOT_RUNNING:
            by_task.setdefault((t.connector, t.task), []).append(t)
    found = []
    for (connector, task), down in by_task.items():
        stretch: list[ConnectTask] = []
        end = 0
        for t in sorted(down, key=lambda t: t.from_ms):
            if stretch and t.from_ms > end + _SAME_OUTAGE_MS:
                found.append(_outage(connector, task, stretch, span))
                stretch = []
            stretch.append(t)
            end = max(end if len(stretch) > 1 else 0, span.to_ms if t.to_ms is None else t.to_ms)
        found.append(_outage(connector, task, stretch, span))
    return sorted(
        (o for o in found if o.length_ms > 0),
        key=lambda o: (-o.length_ms, o.connector, -1 if o.task is None else o.task),
    )


def _outage(connector: str, task: int | None, stretch: list[ConnectTask], span: Span) -> Outage:
    parts: list[tuple[str, int, bool]] = []
    at = max(span.from_ms, stretch[0].from_ms)
    first = at
    for i, t in enumerate(stretch):
        end = span.to_ms if t.to_ms is None else min(span.to_ms, t.to_ms)
        if i + 1 < len(stretch):
            end = min(end, stretch[i + 1].from_ms)  # the later state is the better known one
        start = max(at, t.from_ms)  # it may have run for a moment before
        parts.append((t.state, max(0, end - start), is_by_design(t)))
        at = max(at, end)
    return Outage(
        connector=connector,
        task=task,
        from_ms=first,
        to_ms=max(first, at),
        is_over=stretch[-1].to_ms is not None,
        parts=tuple(p for p in parts if p[1] > 0),
    )
