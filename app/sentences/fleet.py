"""Sentences about all groups: trouble now, cost of a time, gaps of evidence."""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers.rows import CheckRow, Coverage, Fleet, Headline, Span
from app.words import Html, fill

IS_NOW_MS = 900_000
"""Evidence that ends longer ago than this says nothing of now: a collector that works is minutes behind at most."""


def fleet(
    group_count: int, move_count: int, critical_count: int, in_time: Fleet, span: Span, ended_before_ms: int
) -> Html:
    """What is wrong now (in so many groups, and with moves of replicas), and what the span cost.

    `ended_before_ms`: how long ago the evidence ends; of what was later, nothing is said.
    """
    is_now = ended_before_ms < IS_NOW_MS
    when = "now" if is_now else f"when the evidence ends, {words.ago(0, ended_before_ms)}"
    first = fill("<b>Nothing is known to be wrong</b> {when}.", when=when)
    if group_count or move_count:
        counts = ((group_count, "group", "groups"), (move_count, "move of replicas", "moves of replicas"))
        said = " and ".join(words.count(n, one, many) for n, one, many in counts if n)
        have = "had" if not is_now else "has" if group_count + move_count == 1 else "have"
        critical = f", {critical_count:,} of them critical" if critical_count else ""
        first = fill(
            "<b>{said} {have} something wrong</b> {when}{critical}.", said=said, have=have, when=when, critical=critical
        )
    length = words.duration(span.length_ms)
    if not in_time.rebalance_count:
        return fill("{first} No rebalance was seen in the {t} before the evidence ends.", first=first, t=length)
    costs = [
        words.seconds(cost, unit)
        for cost, unit in ((in_time.partition_seconds, "partition"), (in_time.task_seconds, "task"))
        if cost is not None
    ]
    unknown = in_time.unknown_cost_count
    return fill(
        "{first} In the {t} before{end}, {rebalances} of {groups} cost {cost}; {expected}.{unknown}",
        first=first,
        t=length,
        end=" the evidence ends" if is_now else " that",
        rebalances=words.count(in_time.rebalance_count, "rebalance"),
        groups=words.count(in_time.group_count, "group"),
        cost=" and ".join(costs) if costs else "a time that is not known",
        expected=normal_work(in_time.expected_count),
        unknown=f" {words.count(unknown, 'rebalance')} more cost a time that is not known." if unknown else "",
    )


def headline(found: Headline) -> Html | None:
    """Pauses of clients beside the broker's window, and how wrong the window is; None where nothing has both."""
    if found.pause_median_ms is None or found.window_median_ms is None or found.factor_median is None:
        return None
    parts = [
        fill(
            "<b>Clients stood still for {pause} in the median rebalance; the broker's own window, which dashboards "
            "call downtime, says {window}</b>.",
            pause=words.duration(found.pause_median_ms),
            window=words.duration(found.window_median_ms),
        ),
        _how_wrong(found, found.factor_median),
    ]
    if found.unmoved_count:
        parts.append(
            fill("In {n} more it shows a window, and nothing stood still at all.", n=f"{found.unmoved_count:,}")
        )
    return words.join(parts, " ")


def _how_wrong(found: Headline, factor: float) -> Html:
    said = f"wrong by a factor of {factor:,.0f}" if factor >= 9.5 else f"wrong by a factor of {factor:.1f}"
    if factor < 1.25:
        said = "by chance about the same"
    if found.compared_count == 1:
        return fill("It is {said} in the only rebalance that has both.", said=said)
    return fill(
        "It is {said} in the median of {n}{short}.",
        said=said,
        n=words.count(found.compared_count, "rebalance"),
        short=f", and too short in {found.too_short_count:,} of them" if found.too_short_count else "",
    )


def normal_work(number: int) -> str:
    return f"{number:,} {'was' if number == 1 else 'were'} part of the protocol's normal work"


def trust(coverage: Sequence[Coverage], undecoded_count: int, failed: Sequence[CheckRow]) -> Html:
    """Gaps, what was not understood, and failed checks."""
    sources = words.count(len({(c.cluster_id, c.source) for c in coverage}), "source")
    gap_count = sum(c.is_gap for c in coverage)
    parts = [fill("<b>No gap</b> is known in {s}.", s=sources)]
    if not coverage:
        parts = [Html("<b>What was seen is not known</b>: no ledger of sources was published yet.")]
    elif gap_count:
        parts = [fill("<b>{n}</b> in {s}.", n=words.count(gap_count, "gap"), s=sources)]
    if undecoded_count:
        what = words.count(undecoded_count, "record or line", "records and lines")
        parts.append(fill("{n} could not be read.", n=what))
    else:
        parts.append(Html("Everything that was read was understood."))
    if failed:
        parts.append(fill("{n} failed.", n=words.count(len(failed), "check")))
    else:
        parts.append(Html("No check failed."))
    return words.join(parts, " ")
