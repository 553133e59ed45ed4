"""Did the change help?"""

from __future__ import annotations

from collections.abc import Sequence

from app import words
from app.answers.compare import FEWEST, Difference, Side
from app.words import Html, fill


def compare(before: Side, after: Side, found: Sequence[Difference]) -> Html:
    """By cost; where that is not clear, by how often, and nothing is claimed that is not."""
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
        unit="resource-seconds an hour" if deciding is cost else "an hour",
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
    """`8.9 less (95 %: −11.7 … −6.2)`: the difference and where it lies in 95 of 100 cases."""
    if d.before is None or d.after is None:
        return "not known"
    gap = d.after - d.before
    size = "no difference" if gap == 0 else f"{amount(abs(gap), d.unit)} {'more' if gap > 0 else 'less'}"
    if d.lower is None or d.upper is None:
        return f"{size}; too few to say how sure"
    ends = [_signed(end, d.unit) for end in (d.lower, d.upper)]
    return f"{size} (95 %: {ends[0]} \u2026 {ends[1]})"


def _signed(value: float, unit: str) -> str:
    said = amount(abs(value), unit)
    return said if value == 0 else f"{'+' if value > 0 else chr(0x2212)}{said}"


VERDICT_WORDS = {
    "less": "clearly less",
    "more": "clearly more",
    "unclear": "no clear difference",
    "too few": "too few to say",
}
