"""Tasks, or workers and their tasks, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from app import words
from app.answers.outages import NOT_RUNNING, is_by_design
from app.answers.rows import MarkRow
from app.charts.marks import change_marks, rebalance_marks, together
from app.charts.time_line import BARS, LONGEST_LANES, Style, TimeLine, empty, overlap_steps
from rebalance_audit.domain.detect.history import worker_name
from rebalance_audit.domain.kinds import TaskState

_CONNECT_STYLE = {
    TaskState.RUNNING: Style.WORKING,
    TaskState.WAITING: Style.WAITING,
    TaskState.LOST: Style.STANDING,
    TaskState.FAILED: Style.STANDING,
    TaskState.PAUSED: Style.RESTING,
    TaskState.STOPPED: Style.RESTING,
    TaskState.RESTARTING: Style.RESTING,
    TaskState.UNASSIGNED: Style.UNKNOWN,
}


def connect_time_line(
    tasks: Sequence[Any],
    rebalances: pd.DataFrame,
    from_ms: int,
    to_ms: int,
    by_worker: bool = False,
    marks: Sequence[MarkRow] = (),
) -> TimeLine:
    """Lanes = tasks (or workers and their tasks); waiting by design is not drawn as a fault.

    What nobody runs is drawn where it ran last: there it is waited for.
    """
    last_worker: dict[tuple[str, int | None], str] = {}
    lanes_of_tasks = []
    for t in sorted(tasks, key=lambda t: t.from_ms):
        worker = t.worker_url or t.worker_id or last_worker.get((t.connector, t.task), "no worker")
        last_worker[t.connector, t.task] = worker
        what = f"{t.connector} (connector)" if t.task is None else f"{t.connector}-{t.task}"
        lanes_of_tasks.append((t, (worker if by_worker else "", what)))
    keys = sorted({key for _, key in lanes_of_tasks}, key=lambda k: (k[0], words.natural(k[1])))
    place = {key: i for i, key in enumerate(keys[:LONGEST_LANES])}
    texts: dict[str, int] = {}
    bars = []
    for t, key in lanes_of_tasks:
        lane = place.get(key)
        if lane is None:
            continue
        style = _CONNECT_STYLE.get(t.state, Style.UNKNOWN)
        if t.expected and style in (Style.UNKNOWN, Style.STANDING):
            style = Style.WAITING
        end = to_ms if t.to_ms is None else t.to_ms
        where = f" on {words.name(worker_name(t.worker_url or t.worker_id), 40)}" if t.worker_url or t.worker_id else ""
        text = f"{words.STATE_WORDS.get(t.state, words.name(t.state))}{where}"
        if t.expected and t.state not in (TaskState.RUNNING, TaskState.WAITING):
            text += " (by design)"
        tip = texts.setdefault(text, len(texts))
        bars.append((lane, max(t.from_ms, from_ms), min(end, to_ms), 1.0, int(style), tip))
    frame = pd.DataFrame(bars, columns=list(BARS)) if bars else empty(BARS)
    shown = together(rebalance_marks(rebalances), change_marks(marks), first_text=len(texts))
    labels = [
        f"{words.name(worker_name(worker), 24)} {words.name(what, 30)}".strip() if worker else words.name(what, 40)
        for worker, what in place
    ]
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(labels),
        bars=frame,
        marks=shown.frame,
        texts=(*texts, *shown.texts),
        targets=shown.targets,
        left_out=max(0, len(keys) - len(place)),
        above=_not_running_steps(tasks, from_ms, to_ms, by_design=True),
        above_name="tasks down by design",
        above_tone="waiting",
        below=_not_running_steps(tasks, from_ms, to_ms, by_design=False),
        below_name="tasks down otherwise",
    )


def _not_running_steps(tasks: Sequence[Any], from_ms: int, to_ms: int, by_design: bool) -> pd.DataFrame:
    ends = [
        (max(t.from_ms, from_ms), min(to_ms if t.to_ms is None else t.to_ms, to_ms))
        for t in tasks
        if t.state in NOT_RUNNING and is_by_design(t) is by_design
    ]
    return overlap_steps([low for low, _ in ends], [high for _, high in ends])
