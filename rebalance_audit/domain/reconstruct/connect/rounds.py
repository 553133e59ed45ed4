"""The generations of a Connect group: what each worker ran before, was given, had to give up, and runs after."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.kinds import Mode, ResourceType
from rebalance_audit.domain.model import LogEvent, LogKind
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.records import MemberMetadata

Resource = tuple[str, int | None]
"""(connector, task); task None is the connector itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Worker:
    """One worker in one generation."""

    key: str
    """The same over restarts: host:port. The member id where workers share it, the node where there are only logs."""
    member_id: str
    worker_id: str | None
    """host:port, as the status topic names it."""
    url: str | None
    node: str | None
    """The node whose log is this worker's."""
    metadata: MemberMetadata | None
    seen_config_offset: int | None = None
    """One past the last config record it had read itself when it joined."""
    held: frozenset[Resource] | None
    """All it ran when it joined; None if not known."""
    given: frozenset[Resource] = frozenset()
    taken: frozenset[Resource] = frozenset()
    running: frozenset[Resource] | None
    """All it runs after; None if not known."""
    joined: LogEvent | None = None
    """Its own line that it joined."""

    @property
    def is_of_3_7(self) -> bool:
        """Whether the worker is of 3.7 or later: since then its client id, with which its member id begins, is its own
        address, if nobody chose another. False also where it is not known."""
        return self.worker_id is not None and self.member_id.startswith(f"connect-{self.worker_id}-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """One generation that was delivered, or in which the group became empty."""

    index: int
    """The index of its attempt."""
    attempt: Attempt
    mode: Mode
    assignor: str | None
    workers: tuple[Worker, ...]
    leader_member_id: str | None = None
    config_offset: int | None = None
    delay_ms: int | None = None
    error: int = 0
    """In the assignment: nothing changed and everybody joined again."""
    is_partial: bool = False
    """Read from logs: workers whose logs were not collected are missing."""

    @property
    def is_failed(self) -> bool:
        return self.error != 0

    @property
    def number(self) -> int:
        return self.attempt.number

    @property
    def at_ms(self) -> int:
        return self.attempt.known_at_ms or 0

    @property
    def heard_at_ms(self) -> int | None:
        """When members could first hear of the rebalance that led here."""
        return self.attempt.preparing.at_ms if self.attempt.preparing is not None else None

    def worker(self, member_id: str) -> Worker | None:
        return next((w for w in self.workers if w.member_id == member_id), None)

    @property
    def delivered_at_ms(self) -> int | None:
        """When the coordinator had the assignment. Workers' own lines come later: first they stop what was revoked."""
        received = self.attempt.received
        if self.attempt.record is not None:
            return self.attempt.record.at_ms
        return received.at_ms if received is not None and received.kind is LogKind.ASSIGNMENT_RECEIVED else None

    @property
    def ref(self) -> str | None:
        if self.attempt.record is not None:
            return self.attempt.record.ref
        return self.attempt.received.ref if self.attempt.received else None

    @property
    def joined_at_ms(self) -> int | None:
        """The end of the join phase, epoch ms."""
        value = self.attempt.value
        if value is not None and value.current_state_timestamp is not None:
            return value.current_state_timestamp
        return self.attempt.stabilized.at_ms if self.attempt.stabilized is not None else None


class Rounds:
    """All rounds of a group in order, found by the index of their attempt."""

    def __init__(self, rounds: Iterable[Round]) -> None:
        self.all = tuple(rounds)
        self._places = [r.index for r in self.all]

    def at(self, index: int) -> Round | None:
        place = bisect_left(self._places, index)
        return self.all[place] if place < len(self.all) and self._places[place] == index else None

    def before(self, index: int) -> Round | None:
        """The last round before that attempt."""
        place = bisect_left(self._places, index)
        return self.all[place - 1] if place else None

    def after(self, index: int) -> Round | None:
        """The first round after that attempt."""
        place = bisect_right(self._places, index)
        return self.all[place] if place < len(self.all) else None

    def between(self, first: int, until: int) -> Sequence[Round]:
        """Rounds with first <= index < until."""
        return self.all[bisect_left(self._places, first) : bisect_left(self._places, until)]


def worker_id_of(url: str | None) -> str | None:
    """`http://host:8083/` -> `host:8083`, as the status topic has it."""
    if not url:
        return None
    return url.partition("://")[2].strip("/") or url


def resource_name(resource: Resource) -> str:
    connector, task = resource
    return connector if task is None else f"{connector}-{task}"


def resource_type(resource: Resource) -> ResourceType:
    return ResourceType.CONNECTOR if resource[1] is None else ResourceType.TASK


def order(resource: Resource) -> tuple[str, int]:
    return resource[0], -1 if resource[1] is None else resource[1]


def names(resources: Iterable[Resource]) -> tuple[str, ...]:
    return tuple(resource_name(r) for r in sorted(resources, key=order))
