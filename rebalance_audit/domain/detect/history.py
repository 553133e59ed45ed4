"""One group's rebalances in order, with who came and went in each: what every rule looks at."""

from __future__ import annotations

import ipaddress
import re
from bisect import bisect_left, bisect_right
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from rebalance_audit.domain.causes import ARRIVALS, DEPARTURES, Cause
from rebalance_audit.domain.detect.due import shown_until
from rebalance_audit.domain.detect.finding import Extent, capped, make_finding, numbers_of
from rebalance_audit.domain.detect.instants import at_of, generation_count, times_of
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.wording import shown
from rebalance_audit.domain.kinds import MemberChange, MovementKind, Outcome, RebalanceKind, Severity
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import ConnectTask, Finding, Member, Movement, Rebalance

_RANDOM_TAIL = re.compile(r"-[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\Z")
_SCHEME = re.compile(r"\Ahttps?://", re.IGNORECASE)

Identity = tuple[str, ...]
"""A member's identity over restarts: its instance id, its worker's address, or client id and host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryStep:
    """One rebalance at its place in the group's history."""

    index: int
    rebalance: Rebalance
    at_ms: int
    """When it happened, by the best clock there is: the group record's own time before any log line's."""
    first_at_ms: int
    """When it began, as far as known."""
    joined: tuple[Identity, ...]
    left: tuple[Identity, ...]
    generation_count: int = 1
    """How many it stands for: one row stands for a long run of skipped numbers."""

    @property
    def is_settled(self) -> bool:
        """Whether it says who holds what from here on."""
        return self.rebalance.outcome in (Outcome.COMPLETED, Outcome.EMPTIED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spell:
    """Consecutive settled rebalances after which the same thing was true."""

    steps: tuple[HistoryStep, ...]
    to_ms: int
    """Of one that lasts: see `due.shown_until`."""
    is_open: bool
    lasts: bool
    """Whether it was true up to the last of these rebalances. It is not open if more follow."""
    before: Finding | None = None
    """What was found of it in an earlier era."""

    @property
    def first(self) -> HistoryStep:
        return self.steps[0]

    @property
    def last(self) -> HistoryStep:
        return self.steps[-1]

    @property
    def since_ms(self) -> int:
        return self.first.at_ms if self.before is None else self.before.first_seen_at_ms

    @property
    def extent(self) -> Extent:
        return Extent(
            key=self.first.rebalance.rebalance_id,
            is_open=self.lasts,
            first_seen_at_ms=self.first.first_at_ms,
            last_seen_at_ms=self.to_ms,
            before=self.before,
        )


class History:
    """`rebalances` of one group in order. `now_ms` is the end of the evidence, never the wall clock.

    Of a long history these may be one era. `carried`: findings that were open as the era before ended. `goes_on`: more
    rebalances follow, so nothing is open for good. `as_written`: the same rebalances, each with the libraries that were
    known by then (domain/libraries.py).
    """

    def __init__(
        self,
        rebalances: Sequence[Rebalance],
        tasks: Sequence[ConnectTask],
        limits: Limits,
        seen_until_ms: int | None = None,
        *,
        carried: Sequence[Finding] = (),
        goes_on: bool = False,
        as_written: Sequence[Rebalance] | None = None,
    ) -> None:
        first: Rebalance | ConnectTask = rebalances[0] if rebalances else tasks[0]
        self.cluster_id, self.group_id = first.cluster_id, first.group_id
        self.limits = limits
        self.tasks = tuple(tasks)
        self._carried, self.goes_on = tuple(carried), goes_on
        self._as_written = rebalances if as_written is None else as_written
        self._members = _latest_members(rebalances)
        self.now_ms = max(
            chain(
                [seen_until_ms] if seen_until_ms is not None else [],
                (at for r in rebalances for at in times_of(r)),
                (at for t in tasks for at in (t.from_ms, t.to_ms) if at is not None),
            ),
            default=0,
        )
        self.steps = self._place(rebalances)
        self.attempts = tuple(s for s in self.steps if s.rebalance.kind == RebalanceKind.REBALANCE)
        """Without the rewrites of returning static members, which no rule about frequency may count."""
        self.rewrites = tuple(s for s in self.steps if s.rebalance.kind == RebalanceKind.STATIC_REWRITE)
        self.same_identity = _most_at_once(rebalances)
        self._steps_from: dict[str, list[int]] | None = None
        self._steps_joined: dict[str, list[int]] | None = None

    @property
    def group(self) -> str:
        """The group id as a title may show it."""
        return shown(self.group_id)

    def member(self, member_id: str) -> Member:
        return self._members.get(member_id) or Member(member_id=member_id, client_id=client_part(member_id))

    def members_of(self, steps: Iterable[HistoryStep]) -> list[Member]:
        """The members of these rebalances, with the libraries that these rebalances and those before them show. So what
        comes out later, as a member leaves, changes nothing of a finding that is over."""
        return [m for r in with_libraries([self._as_written[s.index] for s in steps]) for m in r.members]

    def who(self, identity: Identity) -> str:
        if identity[0] == "worker":
            return f"worker {worker_name(identity[1])}"
        return " at ".join(shown(part) for part in identity[1:])

    def was_put_out_by_poll_timeout(self, who: Identity, step: HistoryStep) -> bool:
        return any(
            identity(self.member(m)) == who
            for t in step.rebalance.triggers
            if t.trigger == Cause.MEMBER_POLL_TIMEOUT
            for m in t.members
        )

    def movements_from(self, member_ids: Iterable[str], step: HistoryStep) -> list[Movement]:
        """Resources that these members gave up in this rebalance or, if they never came back, in a later one. A worker
        that comes back has another member id, under which it gets its own again; a KIP-848 member has its old one."""
        if self._steps_from is None:
            self._steps_from = {}
            for s in self.steps:
                for member_id in dict.fromkeys(movement.from_member_id for movement in s.rebalance.movements):
                    if member_id is not None:
                        self._steps_from.setdefault(member_id, []).append(s.index)
        found: dict[str, Movement] = {}
        for member_id in member_ids:
            indexes = self._steps_from.get(member_id, [])
            back = self._back_after(member_id, step)
            for index in indexes[bisect_left(indexes, step.index) : bisect_right(indexes, back)]:
                for movement in self.steps[index].rebalance.movements:
                    # The taking away and the giving are two rows of one hand-over: the later one has the pause.
                    is_back = movement.kind == MovementKind.RETURNED and movement.to_member_id == member_id
                    if movement.from_member_id == member_id and not is_back:
                        found[movement.resource] = movement
        return list(found.values())

    def _back_after(self, member_id: str, step: HistoryStep) -> int:
        """The index of the rebalance in which the member joined again under this id, after it had gone in `step`; that
        of the last one if it did not."""
        if self._steps_joined is None:
            self._steps_joined = {}
            for s in self.steps:
                for member in s.rebalance.members:
                    if member.change == MemberChange.JOINED:
                        self._steps_joined.setdefault(member.member_id, []).append(s.index)
        joined = self._steps_joined.get(member_id, [])
        later = bisect_right(joined, step.index)
        return joined[later] if later < len(joined) else len(self.steps)

    def carried(self, rule_id: str, number: str | None = None) -> Finding | None:
        """What this rule found in an earlier era and was open at its end; `number`: one of the finding's numbers, where
        the rule finds several things."""
        of_rule = (finding for finding in self._carried if finding.rule_id == rule_id)
        return next((f for f in of_rule if number is None or number in numbers_of(f.numbers)), None)

    def spells(self, holds: Mapping[str, Any], before: Finding | None = None) -> Iterator[Spell]:
        """Runs of settled rebalances whose ids are keys of `holds`. A rebalance that did not settle ends no run.
        `before`: the same of an earlier era, which the first run goes on with if it begins with the first rebalance."""
        run: list[HistoryStep] = []
        for step in self.attempts:
            if not step.is_settled:
                continue
            if step.rebalance.rebalance_id in holds:
                run.append(step)
                continue
            if run:
                to_ms = max(step.at_ms, run[-1].at_ms)
                yield Spell(steps=tuple(run), to_ms=to_ms, is_open=False, lasts=False, before=before)
                run = []
            before = None
        if run:
            first_ms = run[0].first_at_ms if before is None else before.first_seen_at_ms
            to_ms = max(shown_until(first_ms, self.now_ms), run[-1].at_ms)
            yield Spell(steps=tuple(run), to_ms=to_ms, is_open=not self.goes_on, lasts=True, before=before)

    def finding(
        self,
        rule_id: str,
        extent: Extent,
        *,
        severity: Severity,
        title: str,
        advice: str,
        evidence: Iterable[str],
        detail: str | None = None,
        numbers: Mapping[str, Any] | None = None,
        connectors: Iterable[str] = (),
    ) -> list[Finding]:
        """One finding about this group; none if there is no evidence to name."""
        refs = capped(evidence)
        if not refs:
            return []
        return [
            make_finding(
                self.cluster_id,
                rule_id,
                "group",
                self.group_id,
                extent,
                severity=severity,
                title=title,
                advice=advice,
                evidence=refs,
                detail=detail,
                numbers=numbers or {},
                connectors=tuple(sorted(set(connectors))),
            )
        ]

    def extent(
        self,
        steps: Sequence[HistoryStep],
        *,
        quiet_ms: int | None = None,
        about: str | None = None,
        before: Finding | None = None,
    ) -> Extent:
        """The finding made of `steps`, in order; open until `quiet_ms` after the last. `about`: the member, connector
        or cause that it is about. `before`: what was found of it in an earlier era."""
        first, last = steps[0], steps[-1]
        first_id = first.rebalance.rebalance_id
        return Extent(
            key=first_id if about is None else f"{about} {first_id}",
            is_open=self.now_ms - last.at_ms <= (self.limits.quiet_ms if quiet_ms is None else quiet_ms),
            first_seen_at_ms=first.first_at_ms,
            last_seen_at_ms=last.at_ms,
            before=before,
        )

    def _place(self, rebalances: Sequence[Rebalance]) -> tuple[HistoryStep, ...]:
        steps: list[HistoryStep] = []
        previous_at_ms: int | None = None
        for index, rebalance in enumerate(rebalances):
            at_ms = at_of(rebalance)
            if at_ms is None:  # a skipped number: somewhere between its neighbours
                at_ms = previous_at_ms
            if at_ms is None:
                at_ms = next((t for r in rebalances[index + 1 :] if (t := at_of(r)) is not None), self.now_ms)
            previous_at_ms = at_ms
            joined, left = self._changes(rebalance)
            started = rebalance.started_at_ms
            steps.append(
                HistoryStep(
                    index=index,
                    rebalance=rebalance,
                    at_ms=at_ms,
                    first_at_ms=min(at_ms, started) if started is not None else at_ms,
                    joined=joined,
                    left=left,
                    generation_count=generation_count(rebalances, index),
                )
            )
        return tuple(steps)

    def _changes(self, rebalance: Rebalance) -> tuple[tuple[Identity, ...], tuple[Identity, ...]]:
        came = {m.member_id for m in rebalance.members if m.change in (MemberChange.JOINED, MemberChange.REPLACED)}
        went = {m.member_id for m in rebalance.members if m.change in (MemberChange.LEFT, MemberChange.REPLACED)}
        for trigger in rebalance.triggers:  # an attempt that was never written has no members of its own
            if trigger.trigger in ARRIVALS:
                came.update(trigger.members)
            elif trigger.trigger in DEPARTURES:
                went.update(trigger.members)
        return tuple(identity(self.member(m)) for m in sorted(came)), tuple(
            identity(self.member(m)) for m in sorted(went)
        )


def identity(member: Member) -> Identity:
    if member.group_instance_id is not None:
        return ("instance", member.group_instance_id)
    if member.worker_url is not None:
        return ("worker", member.worker_url)
    name = member.client_id if member.client_id is not None else client_part(member.member_id)
    return ("client", name) if member.client_host is None else ("client", name, member.client_host)


def label(member: Member) -> str:
    """`c3 (/10.0.0.9)`, with the instance id of a static member or the worker's address where there is one."""
    if member.worker_url is not None:
        return f"worker {worker_name(member.worker_url)}"
    name = shown(member.client_id if member.client_id is not None else client_part(member.member_id))
    marks = [shown(member.client_host)] if member.client_host else []
    if member.group_instance_id is not None:
        marks.append(f"instance {shown(member.group_instance_id)}")
    return f"{name} ({', '.join(marks)})" if marks else name


def host_of(member: Member) -> str | None:
    """Where a member ran, as Kafka writes it: `/10.0.0.9`. None if evidence does not say it, as of a loopback
    address."""
    return member.client_host if member.client_host and not is_loopback(member.client_host) else None


@lru_cache(maxsize=10_000)
def is_loopback(host: str) -> bool:
    """Whether an address says nothing about where a member ran: all of a laptop's members are there."""
    try:
        return ipaddress.ip_address(host.lstrip("/")).is_loopback
    except ValueError:
        return not host


def worker_name(url: str) -> str:
    """`connect-1:8083`: the REST address without what all of them share."""
    return shown(_SCHEME.sub("", url).rstrip("/") or url)


def refs_of(steps: Iterable[HistoryStep], *triggers: str) -> list[str]:
    """The strongest refs of each rebalance: those of the named causes first, then its own first two."""
    refs: list[str] = []
    for step in steps:
        for trigger in step.rebalance.triggers:
            if trigger.trigger in triggers:
                refs.extend(trigger.evidence[:2])
        refs.extend(step.rebalance.evidence[:2])
    return refs


def bursts(steps: Sequence[HistoryStep], quiet_ms: int) -> list[list[HistoryStep]]:
    """Steps parted wherever more than `quiet_ms` lie between two of them."""
    parts: list[list[HistoryStep]] = []
    for step in steps:
        if parts and step.at_ms - parts[-1][-1].at_ms <= quiet_ms:
            parts[-1].append(step)
        else:
            parts.append([step])
    return parts


def most_at_once(steps: Iterable[HistoryStep], window_ms: int) -> int:
    """The number of steps, given in order, that the fullest `window_ms` held."""
    window: deque[HistoryStep] = deque()
    most = 0
    for step in steps:
        window.append(step)
        while window and window[0].at_ms <= step.at_ms - window_ms:
            window.popleft()
        most = max(most, len(window))
    return most


def client_part(member_id: str) -> str:
    """The client id that a coordinator puts before the random tail of a member id."""
    return _RANDOM_TAIL.sub("", member_id)


def _latest_members(rebalances: Sequence[Rebalance]) -> dict[str, Member]:
    members: dict[str, Member] = {}
    for rebalance in rebalances:
        for member in rebalance.members:
            if member.member_id not in members or member.client_id is not None:
                members[member.member_id] = member
    return members


def _most_at_once(rebalances: Sequence[Rebalance]) -> dict[Identity, int]:
    """How many members shared an identity at the same time: Java's default client ids repeat from host to host."""
    most: dict[Identity, int] = {}
    for rebalance in rebalances:
        present = Counter(identity(m) for m in rebalance.members if m.change != MemberChange.LEFT)
        for who, count in present.items():
            most[who] = max(count, most.get(who, 0))
    return most
