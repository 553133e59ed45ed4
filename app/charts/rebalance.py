"""One rebalance: the broker's own window, and how long each resource stood still, to one scale."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from app import words
from app.answers.rows import ConnectTask
from app.charts.time_line import BARS, Style, TimeLine, empty, likely_ends


def _way(m: Any) -> str:
    """`c3 → c1`; nothing where the owner stayed."""
    before = words.owner(m.from_client_id, m.from_worker_url, m.from_member_id)
    after = words.owner(m.to_client_id, m.to_worker_url, m.to_member_id)
    if not before or not after or (m.from_member_id == m.to_member_id and before == after):
        return ""
    return f"{words.name(before, 16)} \u2192 {words.name(after, 16)}"


def _still(m: Any) -> str:
    ends = (m.pause_lower_ms, m.pause_estimate_ms, m.pause_upper_ms)
    return words.pause_likely(*ends, m.pause_likely_lower_ms, m.pause_likely_upper_ms)


def rebalance_time_line(
    movements: Sequence[Any],
    started_ms: int | None,
    joined_ms: int | None,
    assigned_ms: int | None,
    waiting: Sequence[ConnectTask] = (),
    most: int = 40,
) -> TimeLine | None:
    """The broker's own window on top, and below it how long each resource stood still, to one scale.

    The part of a pause that was `waiting` by design is drawn in its own style. None if no time of it is known.
    """
    paused = [m for m in movements if m.pause_estimate_ms is not None][:most]
    known = [t for t in (started_ms, joined_ms, assigned_ms) if t is not None]
    bars: list[tuple[int, float, float, float, int, int]] = []
    lanes = ["broker's window"]
    texts: list[str] = []
    if started_ms is not None and assigned_ms is not None and assigned_ms >= started_ms:
        ends = [
            started_ms,
            *([joined_ms] if joined_ms is not None and started_ms <= joined_ms <= assigned_ms else []),
            assigned_ms,
        ]
        what = ["members come back", "the leader assigns"] if len(ends) == 3 else ["from preparing to the group record"]
        for a, b, phase in zip(ends, ends[1:], what, strict=False):
            bars.append((0, a, b, 0.7, Style.WINDOW, len(texts)))
            texts.append(f"{phase}: {words.duration(b - a)}; not the pause")
    else:
        lanes[0] += ": not known"
    for m in paused:
        resume = next((t for t in (m.resumed_at_lower_ms, m.resumed_at_upper_ms, assigned_ms) if t is not None), None)
        if resume is None:
            continue
        stop = resume - m.pause_estimate_ms
        lane = len(lanes)
        lanes.append(f"{words.name(m.resource, 30)}  {_way(m)}".rstrip())
        texts.append(f"{_still(m)}; for certain {words.ends(m.pause_lower_ms, m.pause_upper_ms)}")
        earliest, latest = likely_ends(m, stop, resume)
        bars.append((lane, earliest, max(latest, earliest), 0.2, Style.BOUND, len(texts) - 1))
        if m.pause_estimate_ms >= 0:
            bars.append((lane, stop, resume, 0.8, Style.STANDING, len(texts) - 1))
        else:
            bars.append((lane, resume, stop, 0.8, Style.UNKNOWN, len(texts) - 1))
            latest = max(latest, stop)
        for t in waiting:
            if (t.connector, t.task) == (m.connector, m.task) and t.from_ms < resume:
                texts.append("waiting by design (scheduled delay)")
                end = resume if t.to_ms is None else min(t.to_ms, resume)
                bars.append((lane, max(t.from_ms, stop), end, 0.8, Style.WAITING, len(texts) - 1))
        known += [int(earliest), int(latest)]
    if not known:
        return None
    low, high = min(known), max(known)
    room = max(20.0, (high - low) * 0.03)
    marks = [
        (at, name, text)
        for at, name, text in (
            (started_ms, "began", "preparing: the broker began to rebalance"),
            (joined_ms, "joined", "joined: all members had come back"),
            (assigned_ms, "assigned", "delivered: the group record was written"),
        )
        if at is not None
    ]
    frame = pd.DataFrame(bars, columns=list(BARS)) if bars else empty(BARS)
    mark_frame = pd.DataFrame(
        {
            "at": [float(at) for at, _, _ in marks],
            "family": [len(words.FAMILIES) for _ in marks],
            "tip": range(len(texts), len(texts) + len(marks)),
            "target": [-1] * len(marks),
        }
    )
    return TimeLine(
        from_ms=low - room,
        to_ms=high + room,
        lanes=tuple(lanes),
        bars=frame,
        marks=mark_frame,
        texts=(*texts, *(text for _, _, text in marks)),
        mark_names=tuple(name for _, name, _ in marks),
        zero_ms=float(started_ms if started_ms is not None else low),
        left_out=max(0, len([m for m in movements if m.pause_estimate_ms is not None]) - len(paused)),
    )
