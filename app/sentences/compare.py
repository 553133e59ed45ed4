"""Did the change help?"""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers.compare import FEWEST, Difference, Side
from app.words import Html, fill
from rebalance_audit.domain.detect.wording import seconds_of


def compare(before: Side, after: Side, found: Sequence[Difference], unwatched: Sequence[str] = ()) -> Html:
    """By cost; where that is not clear, by how often, and nothing is claimed that is not.

    `unwatched`: clusters that were watched on one side and not on the other, or for a part of it.
    """
    counts = [side.rebalance_count for side in (before, after)]
    seen = fill(
        "{a} in {ta} before, {b} in {tb} after.",
        a=words.count(counts[0], "rebalance"),
        ta=words.duration(before.span.length_ms),
        b=words.count(counts[1], "rebalance"),
        tb=words.duration(after.span.length_ms),
    )
    if sum(counts) < FEWEST:
        return fill("<b>Too little was seen to say</b>: {seen}", seen=seen)
    if unwatched:
        return fill(
            "<b>Not comparable</b>: the evidence of {n} does not cover both times ({names}). {seen} Choose one "
            "cluster, or a moment that its evidence surrounds.",
            n=words.count(len(unwatched), "cluster"),
            names=words.join([words.code(c, 30) for c in unwatched[:4]], ", "),
            seen=seen,
        )
    cost, often = found[0], found[1]
    deciding = cost if cost.verdict in ("less", "more") else often
    first = {
        "less": "<b>Yes: it got better.</b>",
        "more": "<b>No: it got worse.</b>",
        "unclear": "<b>No clear difference.</b>",
        "too few": "<b>Too little was seen to say.</b>",
    }[deciding.verdict]
    what = "What standing still costs" if deciding is cost else "The number of rebalances"
    return fill(
        "{first} {what} went from {a} to {b} {unit}{interval}. {seen} A difference is not yet a cause.",
        first=Html(first),
        what=what,
        a=amount(deciding.before),
        b=amount(deciding.after),
        unit=f"{seconds_of('resource')} an hour" if deciding is cost else "an hour",
        interval=f": {interval(deciding)}" if deciding.lower is not None else "",
        seen=seen,
    )


def amount(value: float | None, unit: str = "") -> str:
    if value is None:
        return "not known"
    if unit == "ms":
        return words.duration(value)
    return f"{value:,.0f}" if abs(value) >= 99.5 else f"{value:.1f}" if abs(value) >= 0.95 else f"{value:.2g}"


def interval(d: Difference) -> str:
    """`8.9 less (95 %: 6.2 … 11.7)`: the difference and where it lies in 95 of 100 cases. An interval over zero says
    its sides: `0.4 less (95 %: 3.1 less … 2.2 more)`."""
    if d.before is None or d.after is None:
        return "not known"
    gap = d.after - d.before
    size = "no difference" if gap == 0 else f"{amount(abs(gap), d.unit)} {'more' if gap > 0 else 'less'}"
    if d.lower is None or d.upper is None:
        return f"{size}; too few to say how sure"
    if gap and d.lower * gap >= 0 and d.upper * gap >= 0:
        low, high = (amount(end, d.unit) for end in sorted((abs(d.lower), abs(d.upper))))
        return f"{size} (95 %: {low} \u2026 {high})"
    return f"{size} (95 %: {_either(d.lower, d.unit)} \u2026 {_either(d.upper, d.unit)})"


def _either(value: float, unit: str) -> str:
    said = amount(abs(value), unit)
    return said if value == 0 else f"{said} {'more' if value > 0 else 'less'}"


VERDICT_WORDS = {
    "less": "clearly less",
    "more": "clearly more",
    "unclear": "no clear difference",
    "too few": "too few to say",
}
