"""A group's members over time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from app import words
from app.answers.rows import counted
from app.charts.marks import Marks, rebalance_marks, together
from app.charts.time_line import BARS, LONGEST_LANES, STEPS, Style, TimeLine, empty, overlap_steps
from rebalance_audit.domain.detect.history import worker_name
from rebalance_audit.domain.kinds import STOOD_STILL, MemberChange, MovementKind


def lanes_of(members: pd.DataFrame) -> pd.DataFrame:
    """`member_id` to `lane` (0 on top) and `label`. A pod keeps its lane over restarts.

    The same pod is the same instance id, else the same worker, else the same client id and host. Two members that look
    the same and were there at once get lanes of their own.
    """
    if members.empty:
        return pd.DataFrame({"member_id": [], "lane": pd.Series(dtype="int64"), "label": []})
    present = members[(members["change"] != MemberChange.LEFT)]
    if present.empty:
        present = members
    seen = (
        present.assign(
            who=_first_of(
                present["group_instance_id"],
                present["worker_url"].map(worker_name, na_action="ignore"),
                present["client_id"],
                present["member_id"],
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
    rebalances: pd.DataFrame,
    members: pd.DataFrame,
    movements: pd.DataFrame,
    from_ms: int,
    to_ms: int,
    unit: str,
    also: Sequence[Marks] = (),
    waits: pd.DataFrame | None = None,
) -> TimeLine:
    """Lanes = members, filled as high as they worked; a gap where they stood still; marks = rebalances. `waits`: when
    tasks waited by design, `ConnectQuestions.waits_by_design`."""
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
    marks = together(rebalance_marks(rebalances), *also, first_text=len(texts))
    return TimeLine(
        from_ms=from_ms,
        to_ms=max(to_ms, from_ms + 1),
        lanes=tuple(labels),
        bars=bars,
        marks=marks.frame,
        texts=(*texts, *marks.texts),
        targets=marks.targets,
        above=_per_bucket(rebalances, from_ms, to_ms),
        above_name=f"rebalances per {_bucket_words(from_ms, to_ms)}",
        below=standing_steps(movements, from_ms, to_ms),
        below_name=f"{unit}s down",
        below_waiting=empty(STEPS) if waits is None else waiting_steps(movements, waits, from_ms, to_ms),
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
    return _stopped_earlier(movements.assign(stop_ms=stop.astype(float), resume_ms=resume.astype(float)))


def _stopped_earlier(movements: pd.DataFrame) -> pd.DataFrame:
    """What a round took away stopped when the round that hands it on says: a killed worker did not work until its
    session ended."""
    later = movements[movements["revoked_in_rebalance_id"].notna() & movements["pause_estimate_ms"].notna()]
    if later.empty:
        return movements
    known = {
        (revoked_in, resource): stop
        for revoked_in, resource, stop in zip(
            later["revoked_in_rebalance_id"], later["resource"], later["stop_ms"], strict=True
        )
    }
    keys = zip(movements["rebalance_id"], movements["resource"], strict=True)
    stops = [known.get(key, stop) for key, stop in zip(keys, movements["stop_ms"], strict=True)]
    return movements.assign(stop_ms=stops)


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
    is_shown_before = moved["revoked_in_rebalance_id"].isin(order.keys()) & (moved["kind"] == MovementKind.MOVED)
    stopped = moved[moved["from_member_id"].isin(lane_of) & ~is_shown_before & (moved["kind"] != MovementKind.ASSIGNED)]
    resumed = moved[moved["to_member_id"].isin(lane_of) & (moved["kind"] != MovementKind.REVOKED)]
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
    held = members[members["member_id"].isin(lane_of)].merge(sums, on=["rebalance_id", "member_id"], how="left")
    held["nth"] = held["rebalance_id"].map(order)
    held = held.dropna(subset=["nth"]).sort_values(["member_id", "nth"], kind="stable")
    after = pd.to_numeric(held["after_count"]).where(held["change"] != MemberChange.LEFT, 0)
    before = after.groupby(held["member_id"]).shift(1)
    first_before = pd.to_numeric(held["before_count"]).fillna(0)
    before = before.fillna(first_before)
    held["correction"] = (after.fillna(before + held["net"].fillna(0)) - before - held["net"].fillna(0)).astype(float)
    first = held.groupby("member_id").head(1)
    opening = pd.DataFrame(
        {"member_id": first["member_id"], "at": -np.inf, "change": pd.to_numeric(first["before_count"]).fillna(0)}
    )
    corrections = held[held["correction"] != 0]
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
        return empty(BARS), []
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
        return empty(STEPS)
    bucket = _bucket_ms(from_ms, to_ms)
    at = counted(rebalances)["at_ms"].dropna()
    counts = ((at // bucket) * bucket).value_counts().sort_index()
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
    paused = _paused(movements, from_ms, to_ms)
    return overlap_steps(paused["stop_ms"], paused["resume_ms"])


def waiting_steps(movements: pd.DataFrame, waits: pd.DataFrame, from_ms: int, to_ms: int) -> pd.DataFrame:
    """Steps: how many of those that `standing_steps` counts waited by design."""
    both = _paused(movements, from_ms, to_ms).merge(waits, on=["connector", "task"])
    starts = np.maximum(both["stop_ms"].astype(float), both["from_ms"].astype(float))
    ends = np.minimum(both["resume_ms"].astype(float), both["to_ms"].astype(float).fillna(np.inf))
    return overlap_steps(starts, ends)


def _paused(movements: pd.DataFrame, from_ms: int, to_ms: int) -> pd.DataFrame:
    moved = stops_and_resumes(movements)
    paused = moved[moved["kind"].isin(STOOD_STILL) & (moved["resume_ms"] > moved["stop_ms"])]
    return paused[paused["pause_estimate_ms"].notna() & (paused["resume_ms"] >= from_ms) & (paused["stop_ms"] <= to_ms)]
