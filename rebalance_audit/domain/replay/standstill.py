"""How long each partition or task stood still, and who is to blame.

A partition stands still while the group has at least one running process and no process works on it. A group that
somebody stopped altogether costs nothing; unless it is back soon, and settings are compared: then it was an outage.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rebalance_audit.domain.frozen import quick

LONGEST_OUTAGE_MS = 600_000
"""A group that is away longer was stopped on purpose; a choice."""


class Why(StrEnum):
    BETWEEN_OWNERS = "between_owners"
    """Its owner gave it up or was put out; the next one has not begun."""
    OWNER_IDLE = "owner_idle"
    """It belongs to a process that is dead, frozen, or busy beyond its poll interval."""
    FIRST_WAIT = "first_wait"
    """The group has just come up, and nobody was given it yet."""


BETWEEN_OWNERS: Final = Why.BETWEEN_OWNERS
OWNER_IDLE: Final = Why.OWNER_IDLE
"""Asked for by these names where it is done often: compiled code looks a member of an enum up each time."""


@quick
@dataclass(frozen=True, slots=True)
class Stood:
    """One resource, named as in gold.movement, from when to when nobody worked on it; epoch ms."""

    resource: str
    from_ms: float
    until_ms: float
    why: Why


@dataclass(slots=True)
class Standstill:
    """Seconds, summed over partitions. `standstill_seconds` is the sum that settings are compared by."""

    between_owners_seconds: float = 0.0
    owner_idle_seconds: float = 0.0
    first_wait_seconds: float = 0.0

    @property
    def standstill_seconds(self) -> float:
        return self.between_owners_seconds + self.owner_idle_seconds + self.first_wait_seconds

    def add(self, why: Why, duration_ms: float) -> None:
        if why is Why.BETWEEN_OWNERS:
            self.between_owners_seconds += duration_ms / 1000
        elif why is Why.OWNER_IDLE:
            self.owner_idle_seconds += duration_ms / 1000
        else:
            self.first_wait_seconds += duration_ms / 1000


class Ledger:
    """Each resource's workers, and since when it has none. It may have two for a while: no standstill."""

    def __init__(
        self, resources: Iterable[Hashable], *, counts_outages: bool = False, keeps_stood: bool = True
    ) -> None:
        self.counts_outages = counts_outages
        self.keeps_stood = keeps_stood
        self._dark_since: float | None = None
        """The instant since which no process runs at all."""
        self.stood: list[tuple[Hashable, float, float, Why]] = []
        """The parts of the cost, if they are kept: to make them takes as long as to find them."""
        self.stretches = 0
        """Their number."""
        self.outages_ms = 0.0
        """The part of the cost in which no process ran."""
        self._workers: dict[Hashable, set[Hashable]] = {r: set() for r in resources}
        self._since: dict[Hashable, tuple[float, Why]] = {}
        self._had_owner: set[Hashable] = set()
        self._running: set[Hashable] = set()
        self.cost_ms = 0.0
        """The cost of standstills that are over. It can only grow."""
        self._between_owners_ms = self._owner_idle_ms = self._first_wait_ms = 0.0

    def appears(self, resource: Hashable) -> None:
        """A new partition: when its topic grew is not in the group's evidence, so its first wait is not counted."""
        self._workers.setdefault(resource, set())

    def are_gone(self, resources: Iterable[Hashable], at_ms: float) -> None:
        """These resources were deleted: none of them stands still any more, even if a process still works on one."""
        for resource in resources:
            if resource in self._since:
                self._close(resource, at_ms)
            self._workers.pop(resource, None)
            self._had_owner.discard(resource)

    def process_starts(self, process: Hashable, at_ms: float) -> None:
        if not self._running:
            dark_ms = 0.0 if self._dark_since is None else at_ms - self._dark_since
            if self.counts_outages and 0 < dark_ms <= LONGEST_OUTAGE_MS:
                for resource in self._workers:
                    self._ends(resource, at_ms - dark_ms, at_ms, Why.OWNER_IDLE)
                self.outages_ms += dark_ms * len(self._workers)
            for resource, workers in self._workers.items():
                if not workers:
                    why = Why.OWNER_IDLE if resource in self._had_owner else Why.FIRST_WAIT
                    self._since[resource] = (at_ms, why)
        self._running.add(process)

    def process_ends(self, process: Hashable, at_ms: float) -> None:
        """The process works on nothing any more."""
        works_on = [resource for resource, workers in self._workers.items() if process in workers]
        self.stops(works_on, process, at_ms, Why.OWNER_IDLE)
        self._running.discard(process)
        if not self._running:
            self._dark_since = at_ms
            for resource in list(self._since):
                self._close(resource, at_ms)

    def works(self, resources: Iterable[Hashable], process: Hashable, at_ms: float) -> None:
        for resource in resources:
            workers = self._workers.get(resource)
            if workers is None:
                continue
            stopped = self._since.pop(resource, None)
            if stopped is not None:
                self._ends(resource, stopped[0], at_ms, stopped[1])
            workers.add(process)
            self._had_owner.add(resource)

    def stops(
        self, resources: Iterable[Hashable], process: Hashable, at_ms: float, why: Why = Why.BETWEEN_OWNERS
    ) -> None:
        for resource in resources:
            workers = self._workers.get(resource)
            if workers is None or process not in workers:
                continue
            workers.discard(process)
            if not workers and self._running:
                self._since[resource] = (at_ms, why)

    def are_given_up(self, resources: Iterable[Hashable], at_ms: float) -> None:
        """The group took these from an owner that does not work: from here on they wait for the next owner."""
        for resource in resources:
            if resource in self._since:
                if self._since[resource][1] is Why.OWNER_IDLE:
                    self._close(resource, at_ms)
                    self._since[resource] = (at_ms, Why.BETWEEN_OWNERS)
            elif not self._running:
                self._had_owner.discard(resource)

    def has_no_owner(self) -> None:
        """The group is empty: the next member starts it cold."""
        self._had_owner = {r for r, workers in self._workers.items() if workers}

    def finish(self, at_ms: float) -> Standstill:
        for resource in list(self._since):
            self._close(resource, at_ms)
        return Standstill(
            between_owners_seconds=self._between_owners_ms / 1000,
            owner_idle_seconds=self._owner_idle_ms / 1000,
            first_wait_seconds=self._first_wait_ms / 1000,
        )

    def _close(self, resource: Hashable, at_ms: float) -> None:
        since_ms, why = self._since.pop(resource)
        self._ends(resource, since_ms, at_ms, why)

    def _ends(self, resource: Hashable, since_ms: float, until_ms: float, why: Why) -> None:
        lasted_ms = until_ms - since_ms
        self.stretches += 1
        self.cost_ms += lasted_ms
        if why is BETWEEN_OWNERS:
            self._between_owners_ms += lasted_ms
        elif why is OWNER_IDLE:
            self._owner_idle_ms += lasted_ms
        else:
            self._first_wait_ms += lasted_ms
        if self.keeps_stood:
            self.stood.append((resource, since_ms, until_ms, why))
