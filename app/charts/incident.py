"""One incident on one axis: who held what, what stood still, the broker's own windows, and the links of its chain."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from app import words
from app.answers.rows import AlertNote, ChainLink, ConnectTask, MarkRow, Member, Movement, Reassignment, Rebalance
from app.charts.marks import alert_marks, chain_marks, change_marks, rebalance_marks, together
from app.charts.time_line import BARS, Style, TimeLine, empty, likely_ends
from rebalance_audit.domain.kinds import STOOD_STILL, MemberChange, TaskState

MOST_RESOURCES = 16
MOST_MEMBERS = 24
_SAME_MOMENT_MS = 1_000

Bar = tuple[int, float, float, float, int, int]
NewLane = Callable[[str], int]
"""Its name in, its number out."""
Draw = Callable[[int, float, float, float, Style, str], None]
"""Lane, from, to, height, style, and the text about it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnedStretch:
    """One member held one resource for so long; ends are infinite where evidence shows none."""

    lane: str
    resource: str
    from_ms: float
    to_ms: float


def lane_of(member: object) -> str:
    """The same pod after a restart has the same name."""
    found = getattr(member, "group_instance_id", None)
    return str(found or words.owner(member.client_id, member.worker_url, member.member_id) or "not known")  # type: ignore[attr-defined]


def at_of(r: Rebalance) -> int | None:
    return next((t for t in (r.assigned_at_ms, r.ended_at_ms, r.joined_at_ms, r.started_at_ms) if t is not None), None)


def stop_and_resume(m: Movement, at: float) -> tuple[float, float]:
    """Best estimates: a resume is near its lower bound, the stop is the pause before it."""
    resume = next((t for t in (m.resumed_at_lower_ms, m.resumed_at_upper_ms) if t is not None), at)
    if m.pause_estimate_ms is not None:
        return resume - m.pause_estimate_ms, resume
    ends = [t for t in (m.stopped_at_lower_ms, m.stopped_at_upper_ms) if t is not None]
    return (sum(ends) / len(ends) if ends else at), resume


class _OwnersNow:
    """Who holds what while the rebalances of a group are gone through in order."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self.open: dict[tuple[str, str], float] = {}
        self.found: list[OwnedStretch] = []

    def begin(self, member: str | None, resource: str, at: float) -> None:
        if member is not None:
            self.open.setdefault((member, resource), at)

    def end(self, member: str | None, resource: str, at: float) -> None:
        since = None if member is None else self.open.pop((member, resource), None)
        if since is not None and member is not None and at > since:
            lane = self.names.get(member, member)
            self.found.append(OwnedStretch(lane=lane, resource=resource, from_ms=since, to_ms=at))

    def agree(self, member: Member, at: float) -> None:
        """What the assignment says wins, where the movements leave another picture: evidence was missing between."""
        has_left = member.change == MemberChange.LEFT
        if member.assigned is None and not has_left:
            return
        after = set() if has_left else set(member.assigned or ())
        mine = {resource for owner, resource in self.open if owner == member.member_id}
        for resource in mine - after:
            self.end(member.member_id, resource, at)
        for resource in after - mine:
            self.begin(member.member_id, resource, at)


def held_by_whom(rebalances: Sequence[Rebalance]) -> list[OwnedStretch]:
    """`rebalances` of one group, in order. A resource that a round took away stopped when the round that hands it on
    says so, not when the round was seen."""
    known = [(r, at) for r in rebalances if (at := at_of(r)) is not None]
    later_stop = {
        (m.revoked_in_rebalance_id, m.resource): stop_and_resume(m, at)[0]
        for r, at in known
        for m in r.movements
        if m.revoked_in_rebalance_id is not None and m.pause_estimate_ms is not None
    }
    holding = _OwnersNow()
    for r, at in known:
        is_first = not holding.names
        for member in r.members:
            holding.names[member.member_id] = lane_of(member)
            for resource in (member.owned_before or ()) if is_first else ():
                holding.begin(member.member_id, resource, -math.inf)
        for m in r.movements:
            stop, resume = stop_and_resume(m, at)
            holding.end(m.from_member_id, m.resource, later_stop.get((r.rebalance_id, m.resource), stop))
            holding.begin(m.to_member_id, m.resource, resume)
        for member in r.members:
            holding.agree(member, at)
    for member_id, resource in list(holding.open):
        holding.end(member_id, resource, math.inf)
    return holding.found


def incident_time_line(
    groups: Sequence[tuple[str, Sequence[Rebalance]]],
    own: Collection[str],
    chain: Sequence[ChainLink],
    tasks: Sequence[ConnectTask],
    reassignments: Sequence[Reassignment],
    marks: Sequence[MarkRow],
    alerts: Sequence[AlertNote],
    from_ms: int,
    to_ms: int,
    scrub_ms: int,
) -> TimeLine:
    """Lanes of each group: its members, what stood still, the broker's windows. `own`: ids of the incident's own
    rebalances; the others are there for who held what before and after."""
    lanes: list[str] = []
    heads: list[int] = []
    bars: list[Bar] = []
    texts: dict[str, int] = {}
    left_out = 0

    def tip(text: str) -> int:
        return texts.setdefault(text, len(texts))

    def lane(name: str) -> int:
        lanes.append(name)
        return len(lanes) - 1

    def bar(on: int, a: float, b: float, level: float, style: Style, text: str) -> None:
        a, b = max(a, from_ms), min(b, to_ms)
        if b >= a:
            bars.append((on, a, b, level, int(style), tip(text)))

    for group_id, rebalances in groups:
        if len(groups) > 1:
            heads.append(lane(words.name(group_id, 40)))
        held = held_by_whom(rebalances)
        left_out += _member_lanes(held, lane, bar)
        mine = [r for r in rebalances if r.rebalance_id in own]
        left_out += _resource_lanes(mine, tasks, lane, bar)
        _window_lane(mine, lane, bar)
    _move_lanes(reassignments, to_ms, lane, bar)
    shown = [r for _, some in groups for r in some if (at := at_of(r)) is not None and from_ms <= at <= to_ms]
    frame = pd.DataFrame(
        {
            "rebalance_id": [r.rebalance_id for r in shown],
            "group_id": [r.group_id for r in shown],
            "generation_id": [r.generation_id for r in shown],
            "group_epoch": [r.group_epoch for r in shown],
            "rewrite_seq": [r.rewrite_seq for r in shown],
            "trigger": [r.trigger for r in shown],
            "at_ms": [at_of(r) for r in shown],
        }
    )
    times = frame["at_ms"].tolist()
    apart = [link for link in chain if not any(abs(link.at_ms - at) <= _SAME_MOMENT_MS for at in times)]
    own_marks = rebalance_marks(frame, with_group=len(groups) > 1)
    found = together(own_marks, chain_marks(apart), change_marks(marks), alert_marks(alerts), first_text=len(texts))
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(lanes),
        bars=pd.DataFrame(bars, columns=list(BARS)) if bars else empty(BARS),
        marks=found.frame,
        texts=(*texts, *found.texts),
        targets=found.targets,
        heads=tuple(heads),
        left_out=left_out,
        scrub_ms=float(scrub_ms),
        lane_height=20 if len(lanes) <= 40 else None,
    )


def _member_lanes(held: Sequence[OwnedStretch], lane: NewLane, bar: Draw) -> int:
    """Adds a lane for each member, up to the most; returns how many members were left out."""
    by_lane: dict[str, list[OwnedStretch]] = {}
    for h in held:
        by_lane.setdefault(h.lane, []).append(h)
    order = sorted(by_lane, key=words.natural)
    most = max((_most_at_once(some) for some in by_lane.values()), default=1)
    for name in order[:MOST_MEMBERS]:
        on = lane(words.name(name, 44))
        edges = sorted({e for h in by_lane[name] for e in (h.from_ms, h.to_ms)})
        for a, b in itertools.pairwise(edges):
            there = [h.resource for h in by_lane[name] if h.from_ms <= a and h.to_ms >= b]
            if there:
                bar(on, a, b, max(0.15, len(there) / most), Style.WORKING, words.resources(there, 4))
    return max(0, len(order) - MOST_MEMBERS)


def _most_at_once(some: Sequence[OwnedStretch]) -> int:
    changes = sorted([(h.from_ms, 1) for h in some] + [(h.to_ms, -1) for h in some])
    now = most = 0
    for _, change in changes:
        now += change
        most = max(most, now)
    return max(1, most)


def _resource_lanes(rebalances: Sequence[Rebalance], tasks: Sequence[ConnectTask], lane: NewLane, bar: Draw) -> int:
    """What stood still or had two owners, the longest first."""
    longest: dict[str, float] = {}
    moved: dict[str, list[tuple[Movement, int]]] = {}
    for r in rebalances:
        at = at_of(r)
        for m in r.movements:
            if at is not None and m.kind in STOOD_STILL and m.pause_estimate_ms is not None:
                moved.setdefault(m.resource, []).append((m, at))
                longest[m.resource] = max(longest.get(m.resource, 0), abs(m.pause_estimate_ms))
    order = sorted(moved, key=lambda name: (-longest[name], words.natural(name)))
    for name in sorted(order[:MOST_RESOURCES], key=words.natural):
        on = lane(words.name(name, 40))
        for m, at in moved[name]:
            waited = [t for t in tasks if (t.connector, t.task) == (m.connector, m.task)]
            _stood_still(on, m, at, [t for t in waited if t.state == TaskState.WAITING], bar)
    return max(0, len(order) - MOST_RESOURCES)


def _stood_still(on: int, m: Movement, at: int, waiting: Sequence[ConnectTask], bar: Draw) -> None:
    stop, resume = stop_and_resume(m, at)
    ends = (m.pause_lower_ms, m.pause_estimate_ms, m.pause_upper_ms)
    said = words.pause_likely(*ends, m.pause_likely_lower_ms, m.pause_likely_upper_ms)
    if stop > resume:
        bar(on, resume, stop, 0.7, Style.UNKNOWN, said.removeprefix("none, but "))
        return
    earliest, latest = likely_ends(m, stop, resume)
    bar(on, earliest, latest, 0.2, Style.BOUND, f"may have stood still: {said}")
    bar(on, stop, resume, 0.7, Style.STANDING, f"stood still for {said}")
    for t in waiting:
        if t.from_ms < resume:
            end = resume if t.to_ms is None else min(t.to_ms, resume)
            bar(on, max(t.from_ms, stop), end, 0.7, Style.WAITING, f"waiting by design; in all down for {said}")


def _window_lane(rebalances: Sequence[Rebalance], lane: NewLane, bar: Draw) -> None:
    known = [r for r in rebalances if r.started_at_ms is not None and r.broker_window_ms is not None]
    if not known:
        return
    on = lane("broker's window")
    for r in known:
        number = words.number_of(r.generation_id, r.group_epoch, r.rewrite_seq)
        start, length = r.started_at_ms or 0, r.broker_window_ms or 0
        bar(
            on,
            start,
            start + length,
            0.7,
            Style.WINDOW,
            f"{number}: {words.duration(length)}, which is not the downtime",
        )


def _move_lanes(reassignments: Sequence[Reassignment], to_ms: int, lane: NewLane, bar: Draw) -> None:
    for r in reassignments[:MOST_RESOURCES]:
        on = lane(f"move of {words.name(r.name, 30)}")
        start = r.started_at_ms if r.started_at_ms is not None else -math.inf
        bar(on, start, r.ended_at_ms if r.ended_at_ms is not None else to_ms, 0.6, Style.WORKING, "on its way")
        since = r.stalled_since_ms if r.stalled_since_ms is not None else r.standstill_from_ms
        if since is not None:
            open_end = r.stalled_since_ms is not None or r.longest_standstill_ms is None
            until = to_ms if open_end else since + (r.longest_standstill_ms or 0)
            bar(on, since, until, 0.7, Style.STANDING, "stood still")


def worst_moment(rebalances: Sequence[Rebalance], first_ms: int) -> int:
    """The middle of the longest pause (epoch ms), which the picture first shows the holders of."""
    pauses = [
        (m.pause_estimate_ms, stop_and_resume(m, at))
        for r in rebalances
        if (at := at_of(r)) is not None
        for m in r.movements
        if m.kind in STOOD_STILL and m.pause_estimate_ms is not None
    ]
    if not pauses:
        return first_ms
    _, (stop, resume) = max(pauses, key=lambda p: abs(p[0]))
    return round((stop + resume) / 2)
