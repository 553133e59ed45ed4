"""The happenings of a group's members (starts, closes, crashes), apart from what the group's protocol made of them.

Instants are epoch milliseconds. An instant that evidence only bounds has both bounds; each run of a replay draws its
own between them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from random import Random

from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.frozen import quick

from .assignors import Partition
from .polls import FullPoll


class End(StrEnum):
    """How a process ended."""

    CLOSED = "closed"
    """It revoked and left, or would have left if its membership were not static."""
    CRASHED = "crashed"
    """Killed, cut off or frozen until its session was over: it said nothing."""
    REMOVED = "removed"
    """An administrator took it out of the group."""


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    at_ms: int
    lower_ms: int
    upper_ms: int

    @classmethod
    def known(cls, at_ms: int) -> Moment:
        return cls(at_ms=at_ms, lower_ms=at_ms, upper_ms=at_ms)

    @classmethod
    def between(cls, lower_ms: int, upper_ms: int) -> Moment:
        upper_ms = max(lower_ms, upper_ms)
        return cls(at_ms=(lower_ms + upper_ms) // 2, lower_ms=lower_ms, upper_ms=upper_ms)

    def draw(self, rng: Random) -> float:
        return self.lower_ms + (self.upper_ms - self.lower_ms) * rng.random()

    def moved(self, by_ms: int) -> Moment:
        return Moment(at_ms=self.at_ms + by_ms, lower_ms=self.lower_ms + by_ms, upper_ms=self.upper_ms + by_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall:
    """The process was busy with what it had polled, and did not poll."""

    since: Moment
    until_ms: int | None
    """Its next poll; None if it never polled again."""
    full_poll: FullPoll | None = None
    """What its commits before show of `max.poll.records`."""

    def moved(self, by_ms: int) -> Stall:
        until_ms = None if self.until_ms is None else self.until_ms + by_ms
        return replace(self, since=self.since.moved(by_ms), until_ms=until_ms)


@quick
@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One process, from its start to its end."""

    slot: str
    """The place it fills: the same for the process that takes over after a restart."""
    member_id: str
    """The member id of its first membership."""
    client_id: str | None = None
    client_host: str | None = None
    instance_id: str | None = None
    topics: tuple[str, ...] = ()
    session_timeout_ms: int | None = None
    rebalance_timeout_ms: int | None = None
    started: Moment | None = None
    """None: it ran before the history begins."""
    owned_at_first: tuple[Partition, ...] = ()
    """Its partitions or tasks when the history began."""
    ended: Moment | None = None
    """None: it runs on after the history ends."""
    end: End | None = None
    stalls: tuple[Stall, ...] = ()
    libraries: tuple[str, ...] | None = None
    """Client libraries that it may use; None: any."""

    @property
    def family(self) -> ClientFamily | None:
        """None where it may be of several."""
        return None if self.libraries is None else _only(self.libraries)


@cache
def _only(libraries: tuple[str, ...]) -> ClientFamily | None:
    return ClientFamily(libraries[0]) if len(libraries) == 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grown:
    """Topics have these numbers of partitions from now on."""

    at_ms: int
    partitions: Mapping[str, int]
    heard_by_heartbeat: frozenset[str] = frozenset()
    """Client ids of Connect's eager workers that did not join for it by themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """All happenings of one group's history."""

    group_id: str
    group_type: str
    protocol_type: str
    assignor: str
    is_cooperative: bool
    from_ms: int
    until_ms: int
    lives: tuple[Life, ...]
    partitions: Mapping[str, int]
    """Partitions of each topic at the beginning."""
    is_new: bool = True
    """The group begins with the history."""
    settled_ms: int | None = None
    """End of the join phase before the history begins, from which its first heartbeats are counted; if known."""
    grown: tuple[Grown, ...] = ()
    requested_ms: tuple[int, ...] = ()
    """A member asked for a rebalance by itself (enforceRebalance)."""
    unexplained: tuple[str, ...] = ()
    """Rebalances whose cause is outside the model, each as a short sentence."""
