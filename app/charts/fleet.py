"""The fleet over time: per cluster, how much rebalanced or stood still, by family of causes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from app import words
from app.answers.rows import ClusterRow, MarkRow, Span
from app.charts.marks import change_marks, together
from app.charts.time_line import BARS, STEPS, Style, TimeLine, empty, typed
from rebalance_audit.domain.detect.wording import seconds_of
from rebalance_audit.domain.incidents.words import is_old

BUCKETS = 120
MOST_CLUSTERS = 7
_LAYERS = (Style.RESTING_LOW, Style.WORKING, Style.FAILURE)
"""From the whole bar to its last part: the protocol's own work shows above the rest, failures at the bottom."""


def fleet_strip(
    counted: pd.DataFrame,
    span: Span,
    marks: Sequence[MarkRow],
    show: str,
    clusters: Sequence[ClusterRow] = (),
) -> TimeLine:
    """Lanes = clusters, those with open incidents first, then by cost; as high as `show` (`rebalances` or `cost`) in
    each stretch of time; failures in the colour for bad. Where the evidence of one of `clusters` ends before the time
    does, the rest of its lane is marked. Many clusters: the others are drawn together, to a scale of their own: a
    hundred clusters in one lane would make every other lane flat. Partition-seconds and task-seconds cannot be added
    up: each has a strip of its own."""
    length = max(1.0, span.length_ms / BUCKETS)
    family = counted["trigger"].map(words.family)
    layer = np.select([family == "failure", family == "protocol"], [2, 0], default=1)
    table = counted.assign(layer=layer, failures=np.where(layer == 2, counted["rebalances"], 0))
    weights = table.groupby("cluster_id")[["rebalances", "cost"]].sum()
    is_open = {c.cluster_id for c in clusters if c.open_incident_count}
    weights["is_open"] = weights.index.isin(is_open)
    order = weights.sort_values(["is_open", "cost", "rebalances"], ascending=False, kind="stable").index.tolist()
    shown, others = order[:MOST_CLUSTERS], order[MOST_CLUSTERS:]
    labels = [words.name(c, 40) for c in shown] + ([f"{len(others):,} more, own scale"] if others else [])
    lane_of = {c: i for i, c in enumerate(shown)} | dict.fromkeys(others, len(shown))
    table["lane"] = table["cluster_id"].map(lane_of)
    bars, texts = _bars(table, span, length, show)
    unseen, unseen_texts = _unseen(clusters, lane_of, span, first_text=len(texts))
    bars, texts = pd.concat([bars, unseen], ignore_index=True), [*texts, *unseen_texts]
    found = together(change_marks(marks), first_text=len(texts))
    tasks = table["task_seconds"]
    strips = [
        _downtime(table["bucket"], cost, unit, span)
        for cost, unit in (
            (table["cost"] - tasks, "partition"),
            (tasks, "task"),
        )
    ]
    below, above = sorted(strips, key=lambda s: s[0].empty)  # of one alone it stands below
    return TimeLine(
        from_ms=span.from_ms,
        to_ms=max(span.to_ms, span.from_ms + 1),
        lanes=tuple(labels),
        bars=bars,
        marks=found.frame,
        texts=(*texts, *found.texts),
        targets=found.targets,
        below=below[0],
        below_name=below[1],
        above=above[0],
        above_name=above[1],
        above_tone="bad",
        lane_height=24,
    )


def _downtime(buckets: pd.Series, cost: pd.Series, unit: str, span: Span) -> tuple[pd.DataFrame, str]:
    """The strip of all costs in this unit, and its name."""
    name = f"downtime, {seconds_of(unit)}"
    sums = cost.groupby(buckets).sum().reindex(range(BUCKETS), fill_value=0.0)
    if not sums.max() > 0.05:  # what is left of a difference is no cost
        return empty(STEPS), name
    at = span.from_ms + max(1.0, span.length_ms / BUCKETS) * sums.index
    return pd.DataFrame({"at": at, "value": sums.to_numpy(dtype=float)}), name


def _unseen(
    clusters: Sequence[ClusterRow], lane_of: Mapping[str, int], span: Span, first_text: int
) -> tuple[pd.DataFrame, list[str]]:
    """From where the evidence of all clusters of a lane has ended to where the time ends; texts count from
    `first_text` on."""
    ends: dict[int, int] = {}
    for c in clusters:
        if c.cluster_id in lane_of and c.last_at_ms is not None:
            lane = lane_of[c.cluster_id]
            ends[lane] = max(c.last_at_ms, ends.get(lane, 0))
    early = [(lane, max(at, span.from_ms)) for lane, at in sorted(ends.items()) if is_old(at, span.to_ms)]
    frame = pd.DataFrame(
        {
            "lane": [lane for lane, _ in early],
            "from": [float(at) for _, at in early],
            "to": float(span.to_ms),
            "level": 1.0,
            "style": int(Style.UNSEEN),
            "tip": range(first_text, first_text + len(early)),
        }
    )
    texts = [f"no evidence for {words.duration(span.to_ms - at)}: what happened is not known" for _, at in early]
    return typed(frame, BARS), texts


def _bars(table: pd.DataFrame, span: Span, length: float, show: str) -> tuple[pd.DataFrame, list[str]]:
    if table.empty:
        return empty(BARS), []
    sums = table.groupby(["lane", "bucket", "layer"])[show].sum().unstack("layer", fill_value=0)
    parts = sums.reindex(columns=[0, 1, 2], fill_value=0).to_numpy(dtype=float)
    heights = np.stack([parts.sum(axis=1), parts[:, 1] + parts[:, 2], parts[:, 2]], axis=1)
    columns = ["rebalances", "failures", "cost", "task_seconds"]
    facts = table.groupby(["lane", "bucket"])[columns].sum().loc[sums.index]
    texts = [
        f"{words.count(int(n), 'rebalance')}"
        + (f", {int(f):,} by failures" if f else "")
        + (f", {words.costs(float(c - t), float(t))}" if c else "")
        for n, f, c, t in facts.itertuples(index=False)
    ]
    lanes = sums.index.get_level_values("lane").to_numpy()
    is_rest = lanes == MOST_CLUSTERS
    most = np.where(is_rest, heights[is_rest, 0].max(initial=0.0), heights[~is_rest, 0].max(initial=0.0))
    most[most == 0] = 1.0
    starts = span.from_ms + length * sums.index.get_level_values("bucket").to_numpy(dtype=float)
    drawn = []
    for layer, style in enumerate(_LAYERS):
        level = np.where(heights[:, layer] > 0, np.maximum(0.14, heights[:, layer] / most), 0.0)
        drawn.append(
            pd.DataFrame(
                {
                    "lane": lanes,
                    "from": starts,
                    "to": starts + length,
                    "level": level,
                    "style": int(style),
                    "tip": range(len(texts)),
                }
            )[heights[:, layer] > 0]
        )
    return typed(pd.concat(drawn, ignore_index=True), BARS), texts
