"""Small bars and legends as HTML: they print, wrap on a phone and can be read aloud. No reading, no streamlit."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from app import words
from app.charts.marks import ALERT_MARK, CHAIN_MARK, CHANGE_MARK
from app.charts.time_line import STYLE_WORDS, Style, TimeLine
from app.words import Html, fill


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One bar: what, how much (None: not known), said how, and whether it is bad, waiting or neither."""

    label: Html
    value: float | None
    said: str
    tone: str = "plain"


def cause_label(trigger: str) -> Html:
    family = words.family(trigger)
    return fill(
        '<span class="ra-sign ra-family-{f}">{sign}</span> {said}',
        f=family,
        sign=words.FAMILY_SIGN[family],
        said=words.trigger(trigger),
    )


def cause_tone(trigger: str) -> str:
    return {"failure": "bad", "protocol": "dim"}.get(words.family(trigger), "plain")


def _bar(value: float, most: float, tone: str) -> Html:
    if value <= 0:
        return Html("")
    return fill(
        '<div class="ra-row-bar ra-{tone}" style="width:{width:.1f}%"></div>', tone=tone, width=100 * value / most
    )


def rows_html(rows: Sequence[Row]) -> Html:
    """Bars from one common zero."""
    most = max((r.value for r in rows if r.value is not None), default=0) or 1
    drawn = [
        fill(
            '<div class="ra-row"><div class="ra-row-label">{label}</div><div class="ra-row-track">{bar}</div>'
            '<div class="ra-row-said">{said}</div></div>',
            label=r.label,
            bar=_bar(r.value or 0.0, most, r.tone),
            said=r.said,
        )
        for r in rows
    ]
    return fill('<div class="ra-rows">{rows}</div>', rows=words.join(drawn))


def headline_html(pause_ms: float, window_ms: float) -> Html:
    """The two medians from one zero."""
    return rows_html(
        [
            Row(label=Html("clients stood still"), value=pause_ms, said=words.duration(pause_ms), tone="bad"),
            Row(label=Html("the broker's window"), value=window_ms, said=words.duration(window_ms), tone="window"),
        ]
    )


PAUSE_STEPS_MS = (10, 100, 1_000, 5_000, 10_000, 30_000, 60_000, 300_000)


def pause_distribution_html(pauses_ms: Sequence[float], windows_ms: Sequence[float]) -> Html:
    """How long the longest pause was, in how many rebalances; beside it the broker's own window of the same ones."""
    left, right = (pauses_ms, np.ones(len(pauses_ms))), (windows_ms, np.ones(len(windows_ms)))
    return pair_distribution_html(left, right, "longest downtime", "broker's window", tones=("bad", "window"))


def pair_distribution_html(
    left_ms: tuple[Any, Any], right_ms: tuple[Any, Any], left: str, right: str, tones: tuple[str, str] = ("bad", "bad")
) -> Html:
    """How many of both sides were how long, from the shortest step met to the longest. A side: lengths, and how often
    each was met."""
    edges = [-np.inf, -1e-9, *PAUSE_STEPS_MS, np.inf]
    said = ["none, two owners at once", f"under {words.duration(PAUSE_STEPS_MS[0])}"]
    said += [f"{words.duration(a)} \u2013 {words.duration(b)}" for a, b in itertools.pairwise(PAUSE_STEPS_MS)]
    said += [f"over {words.duration(PAUSE_STEPS_MS[-1])}"]
    counts = [np.histogram(np.asarray(met, dtype=float), edges, weights=n)[0] for met, n in (left_ms, right_ms)]
    used = [i for i in range(len(said)) if counts[0][i] or counts[1][i]]
    if not used:
        return Html("")
    rows = [(Html(said[i]), int(counts[0][i]), int(counts[1][i])) for i in range(used[0], used[-1] + 1)]
    return pairs_html(rows, left, right, "length", tones)


def pairs_html(
    rows: Sequence[tuple[Html, int, int]],
    left: str,
    right: str,
    head: str = "",
    tones: tuple[str, str] = ("plain", "plain"),
) -> Html:
    """Two counts per row, side by side, from a common scale."""
    most = max((max(a, b) for _, a, b in rows), default=0) or 1
    drawn = [
        fill(
            '<div class="ra-pair"><div class="ra-pair-label">{label}</div>'
            '<div class="ra-row-track">{a}</div><div class="ra-pair-n">{n}</div><div '
            'class="ra-row-track">{b}</div><div class="ra-pair-n">{m}</div></div>',
            label=label,
            a=_bar(a, most, tones[0]),
            n=f"{a:,}",
            b=_bar(b, most, tones[1]),
            m=f"{b:,}",
        )
        for label, a, b in rows
    ]
    top = fill(
        '<div class="ra-pair ra-head"><div class="ra-pair-label">{head}</div><div>{left}</div><div></div>'
        "<div>{right}</div><div></div></div>",
        head=head,
        left=left,
        right=right,
    )
    return fill('<div class="ra-pairs">{top}{rows}</div>', top=top, rows=words.join(drawn))


def family_legend_html(families: Sequence[str], with_changes: bool = False) -> Html:
    items = [
        fill(
            '<span class="ra-key"><span class="ra-sign ra-family-{family}">{sign}</span> {said}</span>',
            family=f,
            sign=words.FAMILY_SIGN[f],
            said=words.FAMILY_WORDS[f],
        )
        for f in words.FAMILIES
        if f in families
    ]
    if with_changes:
        items.append(Html('<span class="ra-key"><span class="ra-sign ra-change">\u2691</span> deploy or change</span>'))
    return fill('<div class="ra-legend">rebalances by cause: {items}</div>', items=words.join(items, " "))


FLEET_LEGEND = Html(
    '<div class="ra-legend"><span class="ra-key"><span class="ra-swatch ra-swatch-bad"></span> by failures</span> '
    '<span class="ra-key"><span class="ra-swatch ra-swatch-working"></span> members or configurations '
    "changed</span> "
    '<span class="ra-key"><span class="ra-swatch ra-swatch-resting"></span> the protocol\'s own work</span> '
    '<span class="ra-key"><span class="ra-swatch ra-swatch-unseen"></span> no evidence</span> '
    '<span class="ra-key"><span class="ra-sign ra-change">\u2691</span> deploy or change, click it</span></div>'
)

CONNECT_LEGEND = Html(
    '<div class="ra-legend"><span class="ra-key"><span class="ra-swatch ra-swatch-working"></span> running</span> '
    '<span class="ra-key"><span class="ra-swatch ra-swatch-waiting"></span> not running, by design: '
    "waiting for a worker, or handed over</span> "
    '<span class="ra-key"><span class="ra-swatch ra-swatch-bad"></span> lost or failed</span> '
    '<span class="ra-key"><span class="ra-swatch ra-swatch-resting"></span> paused, stopped, restarting</span> '
    '<span class="ra-key"><span class="ra-swatch ra-swatch-unknown"></span> unassigned</span></div>'
)

_PAUSE_KEYS = (
    (Style.WORKING, "working", " (thicker: holds more)"),
    (Style.STANDING, "bad", ""),
    (Style.BOUND, "bound", "; nine times in ten it was less"),
    (Style.WAITING, "waiting", " (scheduled delay)"),
    (Style.UNKNOWN, "unknown", ": the new one began before the old one stopped"),
    (Style.WINDOW, "window", ", not the downtime"),
)
"""Styles in order, how each is drawn, and what a page adds to its words (`STYLE_WORDS`)."""
_PAUSE_SIGNS = (
    (CHAIN_MARK, Html("\u25cf"), "a step of the list below"),
    (CHANGE_MARK, Html("\u2691"), "deploy or change"),
    (ALERT_MARK, Html("\u2709\ufe0e"), "an alert"),
)


def pauses_legend_html(drawn: TimeLine) -> Html:
    """What is in the picture of an incident or of one rebalance."""
    styles, families = set(drawn.bars["style"]), set(drawn.marks["family"])
    keys = [
        fill(
            '<span class="ra-key"><span class="ra-swatch ra-swatch-{c}"></span> {said}</span>',
            c=name,
            said=STYLE_WORDS[style] + more,
        )
        for style, name, more in _PAUSE_KEYS
        if style in styles
    ]
    keys += [
        fill(
            '<span class="ra-key"><span class="ra-sign ra-family-{f}">{s}</span> {said}</span>', f=f, s=sign, said=said
        )
        for f, sign, said in (
            (family, words.FAMILY_SIGN[family], words.FAMILY_WORDS[family])
            for number, family in enumerate(words.FAMILIES)
            if number in families
        )
    ]
    keys += [
        fill('<span class="ra-key"><span class="ra-sign">{s}</span> {said}</span>', s=sign, said=said)
        for number, sign, said in _PAUSE_SIGNS
        if number in families
    ]
    return fill('<div class="ra-legend">{keys}</div>', keys=words.join(keys, " "))


DOWN_LEGEND = Html(
    '<div class="ra-legend">tasks down: <span class="ra-key"><span class="ra-swatch ra-swatch-bad"></span> stood '
    'still</span> <span class="ra-key"><span class="ra-swatch ra-swatch-waiting"></span> of it, waiting by design '
    "(scheduled delay)</span></div>"
)

REPLICAS_LEGEND = Html(
    '<div class="ra-legend">partitions it hangs on: <span class="ra-key"><span class="ra-sign">\u25c6</span> a leader '
    'changed</span> <span class="ra-key"><span class="ra-sign">\u25c7</span> a move was asked for or ended</span></div>'
)


def brokers_legend_html(*, with_groups: bool) -> Html:
    """`with_groups`: rebalances of groups are drawn, too."""
    return fill(
        '<div class="ra-legend"><span class="ra-key"><span class="ra-swatch ra-swatch-working"></span> replicas on '
        "their way to the broker</span> "
        '<span class="ra-key"><span class="ra-swatch ra-swatch-bad"></span> stalled, or held up by it</span> '
        '<span class="ra-key"><span class="ra-sign">\u25c6</span> a leader changed</span> {groups}</div>',
        groups=Html('<span class="ra-key">other signs: a group rebalanced</span>') if with_groups else "",
    )


PARTITION_LEGEND = Html(
    '<div class="ra-legend"><span class="ra-key"><span class="ra-swatch ra-swatch-working"></span> leads (full), '
    "in sync (half)</span> "
    '<span class="ra-key"><span class="ra-swatch ra-swatch-waiting"></span> a replica, not in sync</span> '
    '<span class="ra-key"><span class="ra-swatch ra-swatch-bad"></span> stalled</span> '
    '<span class="ra-key"><span class="ra-sign">\u25c6</span> its leader changed</span></div>'
)


def coverage_html(rows: Sequence[tuple[Html, Sequence[tuple[int, int, bool]]]], from_ms: int, to_ms: int) -> Html:
    """Per row the stretches that were seen, and between them the gaps: (from, to, is a gap), to scale."""
    length = max(1, to_ms - from_ms)
    drawn = []
    for label, stretches in rows:
        parts = [
            fill(
                '<div class="ra-seen{gap}" style="left:{left}%;width:{width}%"></div>',
                gap=" ra-seen-gap" if is_gap else "",
                left=f"{100 * (start - from_ms) / length:.2f}",
                width=f"{max(0.2, 100 * (end - start) / length):.2f}",
            )
            for start, end, is_gap in stretches
        ]
        drawn.append(
            fill(
                '<div class="ra-seen-row"><div class="ra-seen-label">{label}</div><div class="ra-seen-track">{parts}'
                "</div></div>",
                label=label,
                parts=words.join(parts),
            )
        )
    return words.join(drawn)
