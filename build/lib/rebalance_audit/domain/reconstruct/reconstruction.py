"""The result of `reconstruct`: rebalances, task intervals, and evidence that was not believed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rebalance_audit.domain.model import ConnectTask, LogEvent, Rebalance


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """Evidence that cannot be true beside the rest, and was not believed: what TR004 reports."""

    at_ms: int | None
    detail: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconstruction:
    """Rebalances in the order they happened, unmeasured; intervals of Connect's connectors and tasks."""

    rebalances: tuple[Rebalance, ...]
    connect_tasks: tuple[ConnectTask, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()
    """In the order of their times."""


def in_time(contradictions: Iterable[Contradiction]) -> tuple[Contradiction, ...]:
    return tuple(sorted(contradictions, key=lambda c: (c.at_ms or 0, c.evidence)))


def of_line(line: LogEvent, detail: str) -> Contradiction:
    return Contradiction(at_ms=line.at_ms, detail=detail, evidence=(line.ref,))
