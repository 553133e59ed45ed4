"""Replicas on their way: what each broker was given over time, and one partition's ladder to scale."""

from __future__ import annotations

import pandas as pd

from app import words
from app.answers.rows import Reassignment, ReassignmentStep
from app.charts.marks import election_marks, rebalance_marks, together
from app.charts.time_line import BARS, Style, TimeLine, empty, overlap_steps


def brokers_time_line(
    copies: pd.DataFrame,
    stalls: pd.DataFrame,
    elections: pd.DataFrame,
    rebalances: pd.DataFrame,
    from_ms: int,
    to_ms: int,
) -> TimeLine:
    """Lanes = brokers, filled as high as the replicas on their way to them, or as the partitions that they hold up;
    marks = leaders' changes and rebalances."""
    known = copies.assign(to_ms=copies[["from_ms", "to_ms"]].max(axis=1))
    held_up = stalls.explode("kept").dropna(subset="kept")
    brokers = sorted({int(b) for b in (*known["broker_id"], *held_up["kept"])})
    bars, texts = [], []
    most = 1.0
    counted: list[tuple[int, Style, str, pd.DataFrame]] = []
    for lane, broker in enumerate(brokers):
        mine = known[known["broker_id"] == broker]
        stuck = mine[mine["stood_from_ms"].notna()]
        moved_until = mine["stood_from_ms"].astype(float).fillna(mine["to_ms"].astype(float))
        moved_from = pd.concat([mine["from_ms"], stuck["stood_to_ms"]])
        moved_to = pd.concat([moved_until, stuck["to_ms"]])
        kept = held_up[held_up["kept"] == broker]
        for style, what, steps in (
            (Style.WORKING, "replica on the way here", overlap_steps(moved_from, moved_to)),
            (
                Style.STANDING,
                "replica on the way here, stalled",
                overlap_steps(stuck["stood_from_ms"], stuck["stood_to_ms"]),
            ),
            (Style.STANDING, "partition stalled by it", overlap_steps(kept["from_ms"], kept["to_ms"])),
        ):
            most = max(most, float(steps["value"].max()) if len(steps) else 0.0)
            counted.append((lane, style, what, steps))
    tips: dict[str, int] = {}
    for lane, style, what, steps in counted:
        ends = steps["at"].shift(-1).fillna(float(to_ms))
        for at, end, value in zip(steps["at"], ends, steps["value"], strict=True):
            if value > 0 and end > at:
                noun, _, rest = what.partition(" ")
                tip = tips.setdefault(f"{words.count(int(value), noun)} {rest}", len(tips))
                bars.append((lane, max(at, from_ms), min(end, to_ms), max(0.12, value / most), int(style), tip))
    texts = list(tips)
    marks = together(rebalance_marks(rebalances, with_group=True), election_marks(elections), first_text=len(texts))
    moving = overlap_steps(known["from_ms"], known["to_ms"])
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(f"broker {b}" for b in brokers),
        bars=pd.DataFrame(bars, columns=list(BARS)) if bars else empty(BARS),
        marks=marks.frame,
        texts=(*texts, *marks.texts),
        targets=marks.targets,
        above=moving,
        above_name="replicas moving",
        below=overlap_steps(stalls["from_ms"], stalls["to_ms"]),
        below_name="partitions stalled",
    )


def brokers_of(r: Reassignment) -> list[int]:
    """All that ever had or were to have a replica of it, by number."""
    named = [b for step in r.steps for b in step.replicas]
    lists = (r.original_replicas or (), r.target_replicas or (), r.adding_replicas, r.removing_replicas)
    return sorted({*named, *(b for some in lists for b in some)})


def standing(step: ReassignmentStep, broker: int) -> str:
    """`leader`, `in_sync`, `copying` or `none`: what the broker is to the partition in that state."""
    if broker == step.leader:
        return "leader"
    if broker in step.isr:
        return "in_sync"
    return "copying" if broker in step.replicas else "none"


_LOOKS = {
    "leader": (Style.WORKING, 1.0, "leads"),
    "in_sync": (Style.WORKING, 0.5, "in sync"),
    "copying": (Style.WAITING, 0.8, "a replica, not in sync"),
}


def moments(r: Reassignment) -> list[int]:
    """All known times of it, but that of the state before it: that may be of years ago."""
    return [t for t in (r.started_at_ms, r.ended_at_ms, *(s.at_ms for s in r.steps[1:])) if t is not None]


def partition_time_line(
    r: Reassignment, elections: pd.DataFrame, rebalances: pd.DataFrame, to_ms: int
) -> TimeLine | None:
    """Lanes = brokers, to scale: leading, in sync, copying, stalled. None where no time or broker is known."""
    known = moments(r)
    lanes = brokers_of(r)
    if not known or not lanes:
        return None
    low = min(known)
    high = r.ended_at_ms if r.ended_at_ms is not None else to_ms
    room = max(50, (max(high, *known) - low) // 25)
    low, high = low - room, max(high, *known) + (room if r.ended_at_ms is not None else 0)
    texts = [text for _, _, text in _LOOKS.values()]
    place = {look: i for i, look in enumerate(_LOOKS)}
    bars = []
    for i, step in enumerate(r.steps):
        begins = low if step.at_ms is None or i == 0 else step.at_ms
        ends = next((s.at_ms for s in r.steps[i + 1 :] if s.at_ms is not None), high)
        for lane, broker in enumerate(lanes):
            look = standing(step, broker)
            if look != "none" and ends > begins:
                style, level, _ = _LOOKS[look]
                bars.append((lane, begins, ends, level, int(style), place[look]))
    since, until = r.standstill_from_ms, None
    if r.stalled_since_ms is not None:
        since, until = r.stalled_since_ms, high
    elif since is not None and r.longest_standstill_ms is not None and r.blocked_by is not None:
        until = since + r.longest_standstill_ms
    if since is not None and until is not None:
        texts.append("stalled")
        for broker in r.blocked_replicas:
            if broker in lanes:
                bars.append((lanes.index(broker), max(since, low), until, 0.35, int(Style.STANDING), len(texts) - 1))
    marks = together(rebalance_marks(rebalances, with_group=True), election_marks(elections), first_text=len(texts))
    return TimeLine(
        from_ms=low,
        to_ms=high,
        lanes=tuple(_lane_name(r, b) for b in lanes),
        bars=pd.DataFrame(bars, columns=list(BARS)) if bars else empty(BARS),
        marks=marks.frame,
        texts=(*texts, *marks.texts),
        targets=marks.targets,
    )


def _lane_name(r: Reassignment, broker: int) -> str:
    what = [word for word, some in (("new", r.adding_replicas), ("leaving", r.removing_replicas)) if broker in some]
    return f"{broker}" + (f", {' and '.join(what)}" if what else "")
