"""What a group is going through right now: a rebalance that has not ended, or tasks that wait for a lost worker.

Who has joined again already is hardly known of a classic group: its coordinator writes no line when a known member
rejoins. What evidence does show is kept apart from what it does not (`Whereabouts`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect.history import label
from rebalance_audit.domain.detect.wording import counted, duration, listed, shown
from rebalance_audit.domain.kinds import GroupType, MemberChange, Mode, Outcome
from rebalance_audit.domain.model import Member, Rebalance

WORTH_SAYING_MS = 1_000
"""A member that commits so soon after a rebalance began has hardly had time to hear of it."""


class WaitsFor(StrEnum):
    """The event that a group waits for."""

    JOIN = "join"
    """For members to join."""
    SYNC = "sync"
    """For the leader's assignment."""
    RECONCILE = "reconcile"
    """For members to reach the group's epoch (KIP-848)."""
    DELAY = "delay"
    """For a lost Connect worker to come back (KIP-415)."""


class Whereabouts(StrEnum):
    """The state of one member while its group waits, as evidence shows it."""

    GONE = "gone"
    """It left, or the coordinator put it out."""
    BEHIND = "behind"
    """It has not reached the epoch."""
    WORKED = "worked"
    """A commit of what it owns came after the rebalance began: by then it had not joined (eager members stop first)."""
    NOT_KNOWN = "not_known"


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaited:
    """One member of the generation before, and what it held."""

    name: str
    whereabouts: Whereabouts
    resource_count: int
    until_ms: int | None = None
    """Where it worked: its last commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """One group that waits for something. Times are epoch milliseconds by the cluster's clocks."""

    cluster_id: str
    group_id: str
    rebalance_id: str
    number: int | None
    waits_for: WaitsFor
    cause: Cause
    since_ms: int
    now_ms: int
    """So far evidence reaches."""
    until_ms: int | None
    """When a delay ends at the latest."""
    unit: str
    """`partition` or `task`."""
    standing_count: int | None
    """How many stand still; None where that is not known before the members say what they gave up."""
    standing_ms: int | None
    """How long the longest of them has at most."""
    members: tuple[Awaited, ...]

    @property
    def lasted_ms(self) -> int:
        return max(0, self.now_ms - self.since_ms)


def going_on(rebalances: Sequence[Rebalance], last_commits: Mapping[str, int], now_ms: int) -> Running | None:
    """The wait of one group that is not over, from its rebalances in order; None if it waits for nothing.
    `last_commits`: the last commit of each partition (`topic-partition`) of the group."""
    if not rebalances:
        return None
    last = rebalances[-1]
    if last.outcome == Outcome.OPEN and last.started_at_ms is not None:
        now_ms = max(now_ms, last.started_at_ms)
        if last.group_type == GroupType.CLASSIC:
            return _classic(rebalances, last_commits, now_ms)
        return _reconciling(last, now_ms)
    return _delayed(last, now_ms)


def _classic(rebalances: Sequence[Rebalance], last_commits: Mapping[str, int], now_ms: int) -> Running:
    """Since the first attempt after the last assignment that arrived: nothing was handed out in between."""
    last = rebalances[-1]
    first, before = len(rebalances) - 1, None
    for place in range(len(rebalances) - 2, -1, -1):
        if rebalances[place].outcome in (Outcome.COMPLETED, Outcome.EMPTIED):
            before = rebalances[place]
            break
        first = place
    waiting = rebalances[first:]
    since_ms = next(r.started_at_ms for r in waiting if r.started_at_ms is not None)
    gone = {id_ for r in waiting for t in r.triggers if t.trigger.facts.going is not None for id_ in t.members}
    members = _owners(before)
    is_eager = before is not None and before.mode == Mode.EAGER
    awaited = []
    standing: list[int] = []
    for member in members:
        held = member.assigned or ()
        commits = [at for name in held if (at := last_commits.get(name)) is not None]
        worked_ms = max((at for at in commits if at >= since_ms + WORTH_SAYING_MS), default=None) if is_eager else None
        where = Whereabouts.NOT_KNOWN if worked_ms is None else Whereabouts.WORKED
        if member.member_id in gone:
            where = Whereabouts.GONE
        if where == Whereabouts.GONE:  # it worked until its last commit at least, whenever the group heard of it
            standing += [now_ms - min(since_ms, last_commits.get(name, since_ms)) for name in held]
        elif is_eager:
            standing += [max(0, now_ms - max(since_ms, last_commits.get(name, since_ms))) for name in held]
        awaited.append(Awaited(name=label(member), whereabouts=where, resource_count=len(held), until_ms=worked_ms))
    return Running(
        cluster_id=last.cluster_id, group_id=last.group_id, rebalance_id=last.rebalance_id, number=last.generation_id,
        waits_for=WaitsFor.JOIN if last.joined_at_ms is None else WaitsFor.SYNC, cause=waiting[0].trigger,
        since_ms=since_ms, now_ms=now_ms, until_ms=None, unit=_unit(last if before is None else before),
        standing_count=len(standing) if before is not None else None,
        standing_ms=max(standing, default=None), members=tuple(awaited),
    )  # fmt: skip


def _reconciling(last: Rebalance, now_ms: int) -> Running | None:
    assert last.started_at_ms is not None
    awaited = []
    for member in last.members:
        held = len(member.owned_before or ())
        if member.change == MemberChange.LEFT:
            awaited.append(Awaited(name=label(member), whereabouts=Whereabouts.GONE, resource_count=held))
        elif last.group_epoch is not None and (member.member_epoch or 0) < last.group_epoch:
            awaited.append(Awaited(name=label(member), whereabouts=Whereabouts.BEHIND, resource_count=held))
    return Running(
        cluster_id=last.cluster_id, group_id=last.group_id, rebalance_id=last.rebalance_id, number=last.group_epoch,
        waits_for=WaitsFor.RECONCILE, cause=last.trigger, since_ms=last.started_at_ms, now_ms=now_ms, until_ms=None,
        unit=_unit(last), standing_count=None, standing_ms=None, members=tuple(awaited),
    )  # fmt: skip


def _delayed(last: Rebalance, now_ms: int) -> Running | None:
    """Connect's scheduled delay: from the round that left tasks without a worker."""
    if not last.connect_delay_ms or not last.unassigned_count or last.assigned_at_ms is None:
        return None
    until_ms = last.assigned_at_ms + last.connect_delay_ms
    if now_ms > until_ms:
        return None
    stops = [m.stopped_at_lower_ms for m in last.movements if m.to_member_id is None and m.stopped_at_lower_ms]
    gone = [m for m in last.members if m.change == MemberChange.LEFT]
    return Running(
        cluster_id=last.cluster_id, group_id=last.group_id, rebalance_id=last.rebalance_id, number=last.generation_id,
        waits_for=WaitsFor.DELAY, cause=last.trigger, since_ms=last.assigned_at_ms, now_ms=now_ms, until_ms=until_ms,
        unit=_unit(last), standing_count=last.unassigned_count, standing_ms=now_ms - min(stops) if stops else None,
        members=tuple(
            Awaited(name=label(m), whereabouts=Whereabouts.GONE, resource_count=len(m.owned_before or ()))
            for m in gone
        ),
    )  # fmt: skip


def _owners(before: Rebalance | None) -> list[Member]:
    return [m for m in before.members if m.change != MemberChange.LEFT] if before is not None else []


def _unit(rebalance: Rebalance) -> str:
    return "task" if rebalance.protocol_type == "connect" else "partition"


_SAID = {
    WaitsFor.JOIN: "its members to join",
    WaitsFor.SYNC: "its leader's assignment",
    WaitsFor.RECONCILE: "members to reach the new epoch",
    WaitsFor.DELAY: "a lost worker to come back",
}


def headline(running: Running) -> str:
    """`orders-app waits for its members to join, for 9.3 s: a member's session expired`."""
    ends = ""
    if running.until_ms is not None:
        ends = f", at most {duration(running.until_ms - running.now_ms)} more"
    return (
        f"{shown(running.group_id)} waits for {_SAID[running.waits_for]}, for {duration(running.lasted_ms)}{ends}: "
        f"{running.cause.facts.phrase}"
    )


def details(running: Running) -> list[str]:
    """Who the group waits for, and what stands still, a sentence each."""
    said = []
    if running.standing_count:
        long_ = f" for up to {duration(running.standing_ms)}" if running.standing_ms is not None else ""
        stands = "stands" if running.standing_count == 1 else "stand"
        said.append(f"{counted(running.standing_count, running.unit)} {stands} still{long_}")
    elif running.standing_count == 0:
        said.append("nothing that was assigned stands still")
    by = {where: [m for m in running.members if m.whereabouts == where] for where in Whereabouts}
    if gone := by[Whereabouts.GONE]:
        said.append(f"gone: {_names(gone)}")
    if behind := by[Whereabouts.BEHIND]:
        said.append(f"behind: {_names(behind)}")
    if worked := by[Whereabouts.WORKED]:
        after_ms = max(m.until_ms or 0 for m in worked) - running.since_ms
        said.append(f"not joined {duration(after_ms)} after it began, as their commits show: {_names(worked)}")
    if unknown := by[Whereabouts.NOT_KNOWN]:
        said.append(f"not known whether joined again: {_names(unknown)}")
    return said


def _names(members: Sequence[Awaited]) -> str:
    return listed([m.name for m in members])
