"""Data frames to time lines, which time_line.js draws on a canvas: tens of thousands of bars.

No reading, no streamlit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np
import pandas as pd

from app import words
from app.answers import NOT_RUNNING, ConnectTask, is_by_design

LONGEST_LANES = 400
"""Lanes beyond this would be thinner than a pixel row; the busiest are shown and the rest are counted."""


class Style(IntEnum):
    """How a bar is drawn; time_line.js has the same numbers."""

    WORKING = 0
    STANDING = 1
    WAITING = 2
    WINDOW = 3
    BOUND = 4
    RESTING = 5
    UNKNOWN = 6


BARS = {"lane": "int32", "from": "float64", "to": "float64", "level": "float32", "style": "int32", "tip": "int32"}
MARKS = {"at": "float64", "family": "int32", "tip": "int32", "target": "int32"}
STEPS = {"at": "float64", "value": "float64"}


def _empty(columns: dict[str, str]) -> pd.DataFrame:
    return pd.DataFrame({name: pd.Series(dtype=dtype) for name, dtype in columns.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeLine:
    """Lanes over time, with marks across them, and a strip of steps above and below."""

    from_ms: float
    to_ms: float
    lanes: tuple[str, ...]
    """Plain text, top to bottom."""
    bars: pd.DataFrame = field(default_factory=lambda: _empty(BARS))
    marks: pd.DataFrame = field(default_factory=lambda: _empty(MARKS))
    texts: tuple[str, ...] = ()
    """What `tip` counts in."""
    targets: tuple[str, ...] = ()
    """What `target` counts in: what a click on a mark opens."""
    above: pd.DataFrame = field(default_factory=lambda: _empty(STEPS))
    above_name: str = ""
    below: pd.DataFrame = field(default_factory=lambda: _empty(STEPS))
    below_name: str = ""
    above_tone: str = "plain"
    """`plain`, or `waiting` where the strip above counts waiting by design."""
    zero_ms: float | None = None
    """Where given, times are said relative to it."""
    left_out: int = 0
    """Lanes not shown."""

    def data(self, zone_name: str, alt: str) -> dict[str, Any]:
        """As the component takes it."""
        return {
            "view": {
                "from": float(self.from_ms),
                "to": float(self.to_ms),
                "zone": zone_name,
                "zero": self.zero_ms,
                "above": self.above_name,
                "aboveTone": self.above_tone,
                "below": self.below_name,
                "alt": alt,
            },
            "lanes": list(self.lanes),
            "texts": list(self.texts),
            "bars": _typed(self.bars, BARS),
            "marks": _typed(self.marks, MARKS),
            "above": _typed(self.above, STEPS),
            "below": _typed(self.below, STEPS),
        }


def _typed(frame: pd.DataFrame, columns: dict[str, str]) -> pd.DataFrame:
    return frame[list(columns)].astype(columns).reset_index(drop=True)


# ---- a group's members over time -----------------------------------------------------------------------------------


def lanes_of(members: pd.DataFrame) -> pd.DataFrame:
    """`member_id` to `lane` (0 on top) and `label`. A pod keeps its lane over restarts.

    The same pod is the same instance id, else the same worker, else the same client id and host. Two members that look
    the same and were there at once get lanes of their own.
    """
    if members.empty:
        return pd.DataFrame({"member_id": [], "lane": pd.Series(dtype="int64"), "label": []})
    present = members[(members["change"] != "left")]
    if present.empty:
        present = members
    seen = (
        present.assign(
            who=_first_of(
                present["group_instance_id"], present["worker_url"], present["client_id"], present["member_id"]
            ),
            where=np.where(
                present["group_instance_id"].notna() | present["worker_url"].notna(),
                "",
                present["client_host"].fillna("").astype(str),
            ),
        )
        .groupby("member_id", sort=False)
        .agg(who=("who", "first"), where=("where", "first"), first=("at_ms", "min"), last=("at_ms", "max"))
        .reset_index()
        .sort_values(["who", "where", "first", "member_id"], kind="stable")
    )
    lane_of: dict[str, int] = {}
    labels: list[str] = []
    looks: tuple[str, str] | None = None
    free_after: list[tuple[float, int]] = []
    columns = (seen[c].tolist() for c in ("member_id", "who", "where", "first", "last"))
    for member_id, who, where, first, last in zip(*columns, strict=True):
        if looks != (who, where):
            looks, free_after = (who, where), []
        slot = next((i for i, (busy_until, _) in enumerate(free_after) if busy_until < first), None)
        if slot is None:
            twin = f" #{len(free_after) + 1}" if free_after else ""
            free_after.append((last, len(labels)))
            lane_of[member_id] = len(labels)
            labels.append(words.name(str(who), 40) + (f" {words.name(str(where), 24)}" if where else "") + twin)
        else:
            lane_of[member_id] = free_after[slot][1]
            free_after[slot] = (last, lane_of[member_id])
    lanes = list(lane_of.values())
    return pd.DataFrame({"member_id": list(lane_of), "lane": lanes, "label": [labels[i] for i in lanes]})


def _first_of(*columns: pd.Series) -> pd.Series:
    chosen = columns[0].astype(object)
    for column in columns[1:]:
        chosen = chosen.where(chosen.notna(), column.astype(object))
    return chosen.fillna("not known")


def group_time_line(
    rebalances: pd.DataFrame, members: pd.DataFrame, movements: pd.DataFrame, from_ms: int, to_ms: int, unit: str
) -> TimeLine:
    """Lanes = members, filled as high as they worked; a gap where they stood still; marks = rebalances."""
    named = lanes_of(members)
    labels = named.drop_duplicates("lane").sort_values("lane")["label"].tolist()
    steps = _held_steps(
        rebalances, members, movements, dict(zip(named["member_id"], named["lane"], strict=True)), to_ms
    )
    bars, texts = _bars_of_steps(steps, from_ms, to_ms, unit)
    left_out = max(0, len(labels) - LONGEST_LANES)
    if left_out:
        busiest = bars.groupby("lane").size().reindex(range(len(labels)), fill_value=0)
        kept = sorted(busiest.sort_values(ascending=False, kind="stable").index[:LONGEST_LANES])
        place = {old: new for new, old in enumerate(kept)}
        bars = bars[bars["lane"].isin(place)].assign(lane=lambda b: b["lane"].map(place))
        labels = [labels[i] for i in kept]
    marks, mark_texts, targets = _marks(rebalances, len(texts))
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(labels),
        bars=bars,
        marks=marks,
        texts=(*texts, *mark_texts),
        targets=targets,
        above=_per_bucket(rebalances, from_ms, to_ms),
        above_name=f"rebalances per {_bucket_words(from_ms, to_ms)}",
        below=standing_steps(movements, from_ms, to_ms),
        below_name=f"{unit}s standing still",
        left_out=left_out,
    )


def stops_and_resumes(movements: pd.DataFrame) -> pd.DataFrame:
    """Adds `stop_ms` and `resume_ms`, the best estimates.

    A resume is close to its lower bound (the record that assigns; the callback follows within 40 ms), while its upper
    bound is often only the first commit after. The stop is the pause before it.
    """

    def middle(lower: pd.Series, upper: pd.Series) -> pd.Series:
        low, high = pd.to_numeric(lower), pd.to_numeric(upper)
        return ((low + high) / 2).fillna(low).fillna(high)

    at = pd.to_numeric(movements["at_ms"])
    resume = pd.to_numeric(movements["resumed_at_lower_ms"])
    resume = resume.fillna(pd.to_numeric(movements["resumed_at_upper_ms"])).fillna(at)
    pause = pd.to_numeric(movements["pause_estimate_ms"])
    stop = (
        (resume - pause).fillna(middle(movements["stopped_at_lower_ms"], movements["stopped_at_upper_ms"])).fillna(at)
    )
    return movements.assign(stop_ms=stop.astype(float), resume_ms=resume.astype(float))


def _held_steps(
    rebalances: pd.DataFrame, members: pd.DataFrame, movements: pd.DataFrame, lane_of: dict[str, int], to_ms: int
) -> pd.DataFrame:
    """Columns lane, at, held: how many resources work in a lane from `at` on.

    Movements say when each resource stopped and went on; the assignments say how many a member holds, and win wherever
    the two disagree (evidence was missing between).
    """
    none = pd.DataFrame({"lane": [], "at": [], "held": []})
    if members.empty or rebalances.empty:
        return none
    order = {rebalance_id: i for i, rebalance_id in enumerate(rebalances["rebalance_id"])}
    moved = stops_and_resumes(movements)
    is_told_before = moved["revoked_in_rebalance_id"].isin(order.keys()) & (moved["kind"] == "moved")
    stopped = moved[moved["from_member_id"].isin(lane_of) & ~is_told_before & (moved["kind"] != "assigned")]
    resumed = moved[moved["to_member_id"].isin(lane_of) & (moved["kind"] != "revoked")]
    events = pd.concat(
        [
            pd.DataFrame(
                {
                    "rebalance_id": stopped["rebalance_id"],
                    "member_id": stopped["from_member_id"],
                    "at": stopped["stop_ms"],
                    "change": -1,
                }
            ),
            pd.DataFrame(
                {
                    "rebalance_id": resumed["rebalance_id"],
                    "member_id": resumed["to_member_id"],
                    "at": resumed["resume_ms"],
                    "change": 1,
                }
            ),
        ],
        ignore_index=True,
    )
    sums = (
        events.groupby(["rebalance_id", "member_id"], sort=False)["change"].sum().rename("net").reset_index()
        if len(events)
        else pd.DataFrame({"rebalance_id": [], "member_id": [], "net": []})
    )
    told = members[members["member_id"].isin(lane_of)].merge(sums, on=["rebalance_id", "member_id"], how="left")
    told["nth"] = told["rebalance_id"].map(order)
    told = told.dropna(subset=["nth"]).sort_values(["member_id", "nth"], kind="stable")
    after = pd.to_numeric(told["after_count"]).where(told["change"] != "left", 0)
    before = after.groupby(told["member_id"]).shift(1)
    first_before = pd.to_numeric(told["before_count"]).fillna(0)
    before = before.fillna(first_before)
    told["correction"] = (after.fillna(before + told["net"].fillna(0)) - before - told["net"].fillna(0)).astype(float)
    first = told.groupby("member_id").head(1)
    opening = pd.DataFrame(
        {"member_id": first["member_id"], "at": -np.inf, "change": pd.to_numeric(first["before_count"]).fillna(0)}
    )
    corrections = told[told["correction"] != 0]
    fixes = pd.DataFrame(
        {
            "member_id": corrections["member_id"],
            "at": corrections["at_ms"].astype(float),
            "change": corrections["correction"],
        }
    )
    changes = pd.concat([opening, events[["member_id", "at", "change"]], fixes], ignore_index=True)
    changes["lane"] = changes["member_id"].map(lane_of)
    steps = changes.groupby(["lane", "at"], sort=True)["change"].sum().reset_index()
    steps["held"] = steps.groupby("lane")["change"].cumsum().clip(lower=0)
    return steps[["lane", "at", "held"]]


def _bars_of_steps(steps: pd.DataFrame, from_ms: int, to_ms: int, unit: str) -> tuple[pd.DataFrame, list[str]]:
    if steps.empty:
        return _empty(BARS), []
    end = steps.groupby("lane")["at"].shift(-1).fillna(float(to_ms))
    bars = steps.assign(**{"from": steps["at"].clip(lower=from_ms), "to": end.clip(upper=to_ms)})
    bars = bars[(bars["held"] > 0) & (bars["to"] > bars["from"])]
    most = max(1.0, float(bars["held"].max())) if len(bars) else 1.0
    counts = sorted(bars["held"].astype(int).unique().tolist())
    tip_of = {n: i for i, n in enumerate(counts)}
    drawn = pd.DataFrame(
        {
            "lane": bars["lane"],
            "from": bars["from"],
            "to": bars["to"],
            "level": bars["held"] / most,
            "style": int(Style.WORKING),
            "tip": bars["held"].astype(int).map(tip_of),
        }
    )
    return drawn, [f"worked on {words.count(n, unit)}" for n in counts]


def _marks(rebalances: pd.DataFrame, first_text: int) -> tuple[pd.DataFrame, list[str], tuple[str, ...]]:
    if rebalances.empty:
        return _empty(MARKS), [], ()
    families = [words.FAMILIES.index(words.family(t)) for t in rebalances["trigger"]]
    texts = [
        f"{words.number_of(_whole(g), _whole(e), int(s))}: {words.trigger(t)}"
        for g, e, s, t in zip(
            rebalances["generation_id"],
            rebalances["group_epoch"],
            rebalances["rewrite_seq"],
            rebalances["trigger"],
            strict=True,
        )
    ]
    marks = pd.DataFrame(
        {
            "at": rebalances["at_ms"].astype(float),
            "family": families,
            "tip": range(first_text, first_text + len(texts)),
            "target": range(len(texts)),
        }
    )
    return marks.dropna(subset=["at"]), texts, tuple(rebalances["rebalance_id"])


def _whole(value: Any) -> int | None:
    return None if value is None or pd.isna(value) else int(value)


_BUCKETS_MS = (1_000, 10_000, 60_000, 600_000, 3_600_000, 86_400_000)
_BUCKET_WORDS = {
    1_000: "second",
    10_000: "10 s",
    60_000: "minute",
    600_000: "10 min",
    3_600_000: "hour",
    86_400_000: "day",
}


def _bucket_ms(from_ms: int, to_ms: int) -> int:
    return next((b for b in _BUCKETS_MS if (to_ms - from_ms) / b <= 400), _BUCKETS_MS[-1])


def _bucket_words(from_ms: int, to_ms: int) -> str:
    return _BUCKET_WORDS[_bucket_ms(from_ms, to_ms)]


def _per_bucket(rebalances: pd.DataFrame, from_ms: int, to_ms: int) -> pd.DataFrame:
    """Steps: how many rebalances each stretch of time had."""
    if rebalances.empty:
        return _empty(STEPS)
    bucket = _bucket_ms(from_ms, to_ms)
    counted = rebalances.loc[rebalances["kind"] == "rebalance", "at_ms"].dropna()
    counts = ((counted // bucket) * bucket).value_counts().sort_index()
    return _closed_steps(counts.index.to_numpy(dtype=float), counts.to_numpy(dtype=float), float(bucket))


def _closed_steps(starts: np.ndarray, values: np.ndarray, length: float) -> pd.DataFrame:
    ends = starts + length
    is_open_end = np.ones(len(starts), dtype=bool)
    is_open_end[:-1] = ends[:-1] < starts[1:]
    at = np.concatenate([starts, ends[is_open_end]])
    value = np.concatenate([values, np.zeros(int(is_open_end.sum()))])
    order = np.argsort(at, kind="stable")
    return pd.DataFrame({"at": at[order], "value": value[order]})


def standing_steps(movements: pd.DataFrame, from_ms: int, to_ms: int) -> pd.DataFrame:
    """Steps: how many resources stood still. Overlaps and first assignments are no standing still."""
    moved = stops_and_resumes(movements)
    paused = moved[moved["kind"].isin(["moved", "returned", "restarted"]) & (moved["resume_ms"] > moved["stop_ms"])]
    paused = paused[
        paused["pause_estimate_ms"].notna() & (paused["resume_ms"] >= from_ms) & (paused["stop_ms"] <= to_ms)
    ]
    if paused.empty:
        return _empty(STEPS)
    at = np.concatenate([paused["stop_ms"].to_numpy(), paused["resume_ms"].to_numpy()])
    change = np.concatenate([np.ones(len(paused)), -np.ones(len(paused))])
    summed = pd.DataFrame({"at": at, "change": change}).groupby("at")["change"].sum()
    return pd.DataFrame({"at": summed.index.to_numpy(dtype=float), "value": summed.cumsum().to_numpy(dtype=float)})


# ---- one rebalance -------------------------------------------------------------------------------------------------


def rebalance_time_line(
    movements: Sequence[Any],
    started_ms: int | None,
    joined_ms: int | None,
    assigned_ms: int | None,
    waiting: Sequence[ConnectTask] = (),
    most: int = 40,
) -> TimeLine | None:
    """The broker's own window on top, and below it how long each resource stood still, to one scale.

    What of a pause was `waiting` by design is drawn so. None if no time of it is known.
    """
    paused = [m for m in movements if m.pause_estimate_ms is not None][:most]
    known = [t for t in (started_ms, joined_ms, assigned_ms) if t is not None]
    bars: list[tuple[int, float, float, float, int, int]] = []
    lanes = ["broker's own window"]
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
        lanes.append(words.name(m.resource, 40))
        texts.append(f"pause {words.pause(m.pause_lower_ms, m.pause_estimate_ms, m.pause_upper_ms)}")
        earliest = m.stopped_at_lower_ms if m.stopped_at_lower_ms is not None else stop
        latest = m.resumed_at_upper_ms if m.resumed_at_upper_ms is not None else resume
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
        (at, family, text)
        for at, family, text in (
            (started_ms, "arrival", "preparing: the broker began to rebalance"),
            (joined_ms, "configuration", "joined: all members had come back"),
            (assigned_ms, "departure", "delivered: the group record was written"),
        )
        if at is not None
    ]
    frame = pd.DataFrame(bars, columns=list(BARS)) if bars else _empty(BARS)
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
        zero_ms=float(started_ms if started_ms is not None else low),
        left_out=max(0, len([m for m in movements if m.pause_estimate_ms is not None]) - len(paused)),
    )


# ---- Connect -------------------------------------------------------------------------------------------------------

_CONNECT_STYLE = {
    "RUNNING": Style.WORKING,
    "WAITING": Style.WAITING,
    "LOST": Style.STANDING,
    "FAILED": Style.STANDING,
    "PAUSED": Style.RESTING,
    "STOPPED": Style.RESTING,
    "RESTARTING": Style.RESTING,
    "UNASSIGNED": Style.UNKNOWN,
}


def connect_time_line(
    tasks: Sequence[Any], rebalances: pd.DataFrame, from_ms: int, to_ms: int, by_worker: bool = False
) -> TimeLine:
    """Lanes = tasks (or workers and their tasks); waiting by design is not drawn as a fault."""

    def lane_key(t: Any) -> tuple[str, str]:
        what = t.connector if t.task is None else f"{t.connector}-{t.task}"
        kind = " (connector)" if t.task is None else ""
        worker = t.worker_url or t.worker_id or "no worker"
        return (worker if by_worker else "", what + kind)

    keys = sorted({lane_key(t) for t in tasks}, key=lambda k: (k[0], words.natural(k[1])))
    place = {key: i for i, key in enumerate(keys[:LONGEST_LANES])}
    texts: dict[str, int] = {}
    bars = []
    for t in tasks:
        lane = place.get(lane_key(t))
        if lane is None:
            continue
        style = _CONNECT_STYLE.get(t.state, Style.UNKNOWN)
        if t.expected and style in (Style.UNKNOWN, Style.STANDING):
            style = Style.WAITING
        end = to_ms if t.to_ms is None else t.to_ms
        where = f" on {words.name(t.worker_url or t.worker_id, 40)}" if t.worker_url or t.worker_id else ""
        text = f"{words.STATE_WORDS.get(t.state, words.name(t.state))}{where}"
        if t.expected and t.state not in ("RUNNING", "WAITING"):
            text += " (by design)"
        tip = texts.setdefault(text, len(texts))
        bars.append((lane, max(t.from_ms, from_ms), min(end, to_ms), 1.0, int(style), tip))
    frame = pd.DataFrame(bars, columns=list(BARS)) if bars else _empty(BARS)
    marks, mark_texts, targets = _marks(rebalances, len(texts))
    labels = [words.name(what, 40) + (f" @ {words.name(worker, 30)}" if worker else "") for worker, what in place]
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(labels),
        bars=frame,
        marks=marks,
        texts=(*texts, *mark_texts),
        targets=targets,
        left_out=max(0, len(keys) - len(place)),
        above=_not_running_steps(tasks, from_ms, to_ms, by_design=True),
        above_name="tasks waiting by design",
        above_tone="waiting",
        below=_not_running_steps(tasks, from_ms, to_ms, by_design=False),
        below_name="tasks not running, not by design",
    )


def _not_running_steps(tasks: Sequence[Any], from_ms: int, to_ms: int, by_design: bool) -> pd.DataFrame:
    ends = [
        (max(t.from_ms, from_ms), min(to_ms if t.to_ms is None else t.to_ms, to_ms))
        for t in tasks
        if t.task is not None and t.state in NOT_RUNNING and is_by_design(t) is by_design
    ]
    ends = [(low, high) for low, high in ends if high > low]
    if not ends:
        return _empty(STEPS)
    at = np.array([e for low, high in ends for e in (low, high)], dtype=float)
    change = np.array([1.0, -1.0] * len(ends))
    summed = pd.DataFrame({"at": at, "change": change}).groupby("at")["change"].sum()
    return pd.DataFrame({"at": summed.index.to_numpy(dtype=float), "value": summed.cumsum().to_numpy(dtype=float)})
