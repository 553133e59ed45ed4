"""RB006 to RB009: members that vanish, are put out, are waited for, or fight over an instance id."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect import client_advice
from rebalance_audit.domain.detect.failures import failures
from rebalance_audit.domain.detect.history import (
    History,
    HistoryStep,
    Identity,
    bursts,
    identity,
    label,
    most_at_once,
    refs_of,
)
from rebalance_audit.domain.detect.modes import number
from rebalance_audit.domain.detect.wording import (
    clock,
    counted,
    duration,
    folded,
    likely,
    listed,
    shown,
    things,
    two_owners,
)
from rebalance_audit.domain.kinds import GroupType, MemberChange, Severity
from rebalance_audit.domain.model import Finding, Member, Movement


@dataclass(frozen=True, slots=True, kw_only=True)
class _GoneTogether:
    """Members gone in one rebalance by one cause, and what stood still because of it."""

    step: HistoryStep
    members: tuple[Member, ...]
    movements: tuple[Movement, ...]

    @property
    def who(self) -> str:
        return listed([label(m) for m in self.members]) or "a member no evidence names"

    @property
    def held_count(self) -> int:
        if self.movements:
            return len(self.movements)
        return sum(len(m.owned_before or ()) for m in self.members)

    @property
    def worst(self) -> Movement | None:
        return max(
            (m for m in self.movements if m.pause_estimate_ms is not None),
            key=lambda m: m.pause_estimate_ms or 0,
            default=None,
        )

    @property
    def harm_ms(self) -> tuple[int, int]:
        """The longest downtime, and the longest time with two owners."""
        still = (self.worst.pause_estimate_ms or 0) if self.worst else 0
        return max(0, still), max((m.overlap_ms or 0 for m in self.movements), default=0)

    def cost(self, noun: str) -> str:
        """`its 2 partitions stood still for 12.3 s (10 s … 13.4 s)`."""
        if not self.held_count:
            return "it held nothing" if self._is_known_empty else f"which {noun}s it held is not known"
        held = f"its {things(self.held_count, noun, self.step.rebalance.protocol_type)}"
        if self.worst is None:
            if any(m.to_member_id is not None for m in self.movements):
                return (
                    f"{held} went to others; how long nobody had {'it' if self.held_count == 1 else 'them'} is unknown"
                )
            if self.step.rebalance.group_type == GroupType.SHARE:
                return f"{held} had other owners, too"
            return f"{held} got no new owner that the evidence shows"
        w = self.worst
        if w.overlap_ms and (w.pause_estimate_ms or 0) <= 0:
            longest = max(m.overlap_ms or 0 for m in self.movements)
            return f"{held} had {two_owners(longest, w.pause_likely_upper_ms)}"
        return f"{held} stood still for {likely(w.pause_estimate_ms, w.pause_likely_lower_ms, w.pause_likely_upper_ms)}"

    @property
    def _is_known_empty(self) -> bool:
        return bool(self.members) and all(m.owned_before == () for m in self.members)


def _departures(history: History, trigger: str) -> list[_GoneTogether]:
    found: list[_GoneTogether] = []
    for step in history.attempts:
        causes = [t for t in step.rebalance.triggers if t.trigger == trigger]
        if not causes and step.rebalance.trigger != trigger:
            continue
        ids = list(dict.fromkeys(m for m, cause in failures(history, step) if cause.trigger == trigger))
        if not ids and any(cause.members for cause in causes):
            continue
        if not ids:  # no cause names anybody: those the records show gone
            ids = [m.member_id for m in step.rebalance.members if m.change == MemberChange.LEFT]
        here = {m.member_id: m for m in step.rebalance.members}
        found.append(
            _GoneTogether(
                step=step,
                members=tuple(here.get(i) or history.member(i) for i in ids),
                movements=tuple(history.movements_from(ids, step)),
            )
        )
    return found


def _episodes(history: History, departures: Sequence[_GoneTogether]) -> Iterator[list[_GoneTogether]]:
    """Departures that follow each other within `quiet_ms`: each episode is one finding."""
    by_index = {d.step.index: d for d in departures}
    for part in bursts([d.step for d in departures], history.limits.quiet_ms):
        yield [by_index[s.index] for s in part]


def _departure_finding(
    history: History,
    rule_id: str,
    trigger: str,
    episode: Sequence[_GoneTogether],
    *,
    did: str,
    severity: Severity,
    advice: str,
    more_numbers: dict[str, object] | None = None,
) -> list[Finding]:
    noun = "task" if episode[0].step.rebalance.protocol_type == "connect" else "partition"
    steps = [d.step for d in episode]
    costliest = max(episode, key=lambda d: (*d.harm_ms, d.held_count))
    names = list(dict.fromkeys(label(m) for d in episode for m in d.members))
    if len(episode) == 1:
        title = f"{episode[0].who} of {history.group} {did}; {episode[0].cost(noun)}"
    else:
        title = (
            f"{counted(len(episode), 'time')} in {duration(steps[-1].at_ms - steps[0].first_at_ms)} a member of "
            f"{history.group} {did}: {listed(names) or 'nobody is named'}; worst: {costliest.cost(noun)}"
        )
    worst = costliest.worst
    lines = [f"{clock(d.step.at_ms)}, {number(d.step.rebalance)}: {d.who}; {d.cost(noun)}" for d in episode[:10]]
    if len(episode) > 10:
        lines.append(f"and {len(episode) - 10} more")
    held = [m.resource for d in episode for m in d.movements]
    if held:
        lines.append(f"Concerned: {folded(held)}")
    return history.finding(
        rule_id,
        history.extent(steps, about=trigger),
        severity=severity,
        title=title,
        detail="\n".join(lines),
        numbers={
            "times": len(episode),
            "members": names[:20],
            "resource_count": sum(d.held_count for d in episode),
            "pause_lower_ms": worst.pause_lower_ms if worst else None,
            "pause_estimate_ms": worst.pause_estimate_ms if worst else None,
            "pause_upper_ms": worst.pause_upper_ms if worst else None,
            **(more_numbers or {}),
        },
        advice=advice,
        evidence=refs_of(steps, trigger),
    )


def session_expiry(history: History) -> list[Finding]:
    """A member sent no heartbeat until its session expired.

    Silent for members that left, for static members (RB009) and for those put out by their poll interval (RB006).
    Info only for Streams on the classic protocol, whose clients close without leaving.
    """
    found: list[Finding] = []
    for episode in _episodes(history, _departures(history, Cause.MEMBER_SESSION_EXPIRED)):
        timeouts = [m.session_timeout_ms for d in episode for m in d.members if m.session_timeout_ms is not None]
        silent_for = f"the session timeout of {duration(max(timeouts))}" if timeouts else "the whole session timeout"
        is_streams = all(d.step.rebalance.assignor == "stream" for d in episode)
        found += _departure_finding(
            history,
            "RB007",
            Cause.MEMBER_SESSION_EXPIRED,
            episode,
            did=f"sent no heartbeat for {silent_for}",
            severity=Severity.INFO if is_streams else Severity.WARNING,
            advice=_expiry_advice(history, episode, is_streams=is_streams),
            more_numbers={"session_timeout_ms": max(timeouts, default=None)},
        )
    return found


def _expiry_advice(history: History, episode: Sequence[_GoneTogether], *, is_streams: bool) -> str:
    if is_streams:
        return (
            "Streams clients on the classic protocol close without leaving: nothing to do if they were stopped. "
            "Else look for kills, memory limits and long pauses of the process."
        )
    gone = [m for d in episode for m in d.members]
    if episode[0].step.rebalance.protocol_type == "connect":
        return f"{client_advice.look_at_host(gone)} {client_advice.WORKER_BACK}"
    until_ms = episode[-1].step.at_ms + history.limits.quiet_ms
    back = {
        who
        for s in history.attempts
        if episode[0].step.at_ms <= s.at_ms <= until_ms and not _was_joined_first(s)
        for who in s.joined
    }
    came_back = bool(gone) and all(identity(m) in back for m in gone)
    if came_back and _group_type(episode) == GroupType.CONSUMER and _are_the_same(history, episode, gone, until_ms):
        return client_advice.expired_alive(client_advice.families(gone), gone)
    return client_advice.expiry(client_advice.families(gone), gone, _group_type(episode), came_back=came_back)


def _are_the_same(history: History, episode: Sequence[_GoneTogether], gone: Iterable[Member], until_ms: int) -> bool:
    """Whether each of these members joined again under its old member id."""
    joined = {
        m.member_id
        for s in history.attempts
        if episode[0].step.at_ms < s.at_ms <= until_ms
        for m in s.rebalance.members
        if m.change == MemberChange.JOINED
    }
    return all(m.member_id in joined for m in gone)


def _was_joined_first(step: HistoryStep) -> bool:
    """Whether somebody may have joined before a session ended in the same rebalance. That was another process: a member
    that comes back first learns that it was put out."""
    rebalance = step.rebalance
    expired = any(t.trigger == Cause.MEMBER_SESSION_EXPIRED for t in rebalance.triggers)
    return expired and rebalance.trigger != Cause.MEMBER_SESSION_EXPIRED


def _group_type(episode: Sequence[_GoneTogether]) -> GroupType:
    """A classic member of a group that the server assigns to has a session timeout of its own still."""
    if any(m.session_timeout_ms is not None for d in episode for m in d.members):
        return GroupType.CLASSIC
    return episode[0].step.rebalance.group_type


def poll_timeout(history: History) -> list[Finding]:
    """A member was put out, or left, because processing exceeded max.poll.interval.ms.

    Silent for members that close, vanish, or are dropped while they should re-join (RB008).
    """
    found: list[Finding] = []
    for episode in _episodes(history, _departures(history, Cause.MEMBER_POLL_TIMEOUT)):
        first_type = episode[0].step.rebalance.protocol_type
        intervals = [m.rebalance_timeout_ms for d in episode for m in d.members if m.rebalance_timeout_ms is not None]
        interval = f" of {duration(max(intervals))}" if intervals and first_type == "consumer" else ""
        overlaps = [m.overlap_ms for d in episode for m in d.movements if m.overlap_ms]
        twice = (
            f" It worked on for {duration(max(overlaps))} beside the new owner: look for records processed twice."
            if overlaps
            else ""
        )
        of = client_advice.families(m for d in episode for m in d.members)
        name = client_advice.poll_interval(of)
        found += _departure_finding(
            history,
            "RB006",
            Cause.MEMBER_POLL_TIMEOUT,
            episode,
            did=f"took longer between two polls than its {name}{interval}",
            severity=Severity.WARNING,
            advice=f"{client_advice.poll_timeout(of)}{twice}",
            more_numbers={
                "max_poll_interval_ms": max(intervals, default=None) if first_type == "consumer" else None,
                "overlap_ms": max(overlaps, default=None),
            },
        )
    return found


def dropped_member(history: History) -> list[Finding]:
    """A member made the others wait until the rebalance timeout, and was dropped then.

    Silent for slow members that still came in time.
    """
    found: list[Finding] = []
    for trigger, did in (
        (Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, "did not re-join before the rebalance timeout"),
        (Cause.MEMBER_SYNC_TIMEOUT, "did not fetch its assignment before the rebalance timeout"),
    ):
        for episode in _episodes(history, _departures(history, trigger)):
            windows = [w for d in episode if (w := d.step.rebalance.broker_window_ms) is not None]
            timeouts = [
                m.rebalance_timeout_ms for d in episode for m in d.members if m.rebalance_timeout_ms is not None
            ]
            waited = f" (the group was rebalancing for {duration(max(windows))})" if windows else ""
            limit = f" of {duration(max(timeouts))}" if timeouts else ""
            found += _departure_finding(
                history,
                "RB008",
                trigger,
                episode,
                did=f"{did}{limit}{waited}",
                severity=Severity.WARNING,
                advice=_dropped_advice(episode),
                more_numbers={
                    "rebalance_timeout_ms": max(timeouts, default=None),
                    "broker_window_ms": max(windows, default=None),
                },
            )
    return found


def _dropped_advice(episode: Sequence[_GoneTogether]) -> str:
    if episode[0].step.rebalance.protocol_type == "connect":
        return client_advice.WORKER_DROPPED
    return client_advice.dropped(client_advice.families(m for d in episode for m in d.members))


def static_membership(history: History) -> list[Finding]:
    """A static member expired, its dead slot holding its partitions, or two processes fight over one instance id.

    Silent for a static member that restarts within its session timeout: that is what static membership is for.
    """
    found: list[Finding] = []
    for episode in _episodes(history, _departures(history, Cause.STATIC_MEMBER_EXPIRED)):
        timeouts = [m.session_timeout_ms for d in episode for m in d.members if m.session_timeout_ms is not None]
        limit = f" of {duration(max(timeouts))}" if timeouts else ""
        found += _departure_finding(
            history,
            "RB009",
            Cause.STATIC_MEMBER_EXPIRED,
            episode,
            did=f"(static) did not come back within its session timeout{limit}",
            severity=Severity.WARNING,
            advice=client_advice.static_slot(
                client_advice.families(m for d in episode for m in d.members), _group_type(episode)
            ),
            more_numbers={"session_timeout_ms": max(timeouts, default=None)},
        )
    return found + _instance_fights(history)


def _instance_fights(history: History) -> list[Finding]:
    limits = history.limits
    rewrites: dict[Identity, list[HistoryStep]] = {}
    for step in history.steps:
        for member in step.rebalance.members:
            if member.change == MemberChange.REPLACED and member.group_instance_id is not None:
                rewrites.setdefault(identity(member), []).append(step)
    found: list[Finding] = []
    for who, steps in sorted(rewrites.items()):
        for part in bursts(steps, limits.instance_fight_window_ms):
            most = most_at_once(part, limits.instance_fight_window_ms)
            if most < limits.instance_fight_rewrites:
                continue
            found += history.finding(
                "RB009",
                history.extent(part, about=who[1]),
                severity=Severity.WARNING,
                title=f"Instance id {shown(who[1])} of {history.group} was taken over {len(part)} times in "
                f"{duration(part[-1].at_ms - part[0].at_ms)}: two processes seem to share it",
                numbers={"replaced_count": len(part), "group_instance_id": who[1]},
                advice="Give every process a group.instance.id of its own (a StatefulSet's pod name, never a "
                "constant).",
                evidence=refs_of(part),
            )
    return found
