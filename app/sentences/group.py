"""Sentences about the history of a group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from app import words
from app.answers.rows import CauseShare, Span, counted
from app.sentences.fleet import normal_work
from app.words import Html, fill
from rebalance_audit.domain.kinds import Outcome, RebalanceKind
from rebalance_audit.domain.ranges import Range, of_one_group

MOST_CAUSES = 4
"""In one sentence. All add up to the number of rebalances."""


def mostly(cause: CauseShare) -> Html | None:
    """The client behind most rebalances of a cause, and how many of them it is behind; None where no client is."""
    if cause.client is None or cause.client_count * 2 <= cause.rebalance_count:
        return None
    share = "mostly"
    if cause.client_count == cause.rebalance_count:
        share = "always" if cause.rebalance_count > 1 else "namely"
    also = f" and {cause.also_count:,} more" if cause.also_count else ""
    return fill("{share} {client}{also}", share=share, client=words.code(cause.client, 40), also=also)


def group(rebalances: pd.DataFrame, causes: Sequence[CauseShare], unit: str, span: Span) -> Html:
    """How many rebalances, why, and what they cost."""
    length = words.duration(span.length_ms)
    if not len(rebalances):
        return fill("No rebalance was seen in these {t}.", t=length)
    real = counted(rebalances)
    parts = [fill("<b>{n} in {t}</b>{why}.", n=words.count(len(real), "rebalance"), t=length, why=_why(causes))]
    if rebalances.iloc[-1]["outcome"] == Outcome.OPEN:
        parts.append(Html("It has not ended." if len(real) == 1 else "The last has not ended."))
    parts.append(_cost(rebalances, unit))
    expected = int(real["expected"].sum())
    if expected:
        signs = sorted({words.FAMILY_SIGN[words.family(t)] for t in real[real["expected"].astype(bool)]["trigger"]})
        parts.append(fill("{n}, drawn as {signs}.", n=normal_work(expected), signs=" or ".join(signs)))
    rewrites = int((rebalances["kind"] != RebalanceKind.REBALANCE).sum())
    if rewrites:
        again = words.count(rewrites, "time a static member", "times a static member")
        parts.append(fill("Besides, {n} came back without a rebalance.", n=again))
    return words.join(parts, " ")


def _why(causes: Sequence[CauseShare]) -> Html:
    said = []
    shown = _named(causes)
    for cause in shown:
        share = mostly(cause)
        who = fill(", {share}", share=share) if share else Html("")
        number = f"{cause.rebalance_count:,} " if len(causes) > 1 else ""
        said.append(fill("{n}{because}{who}", n=number, because=words.because(cause.trigger), who=who))
    if not said:
        return Html("")
    if left := sum(cause.rebalance_count for cause in causes if cause not in shown):
        said.append(fill("{n} for other causes", n=f"{left:,}"))
    return fill("{colon}{said}", colon=": " if len(causes) > 1 else ", ", said=words.join(said, "; "))


def _named(causes: Sequence[CauseShare]) -> Sequence[CauseShare]:
    """The most frequent causes, and the costliest one in any case."""
    if len(causes) <= MOST_CAUSES:
        return causes
    first = causes[: MOST_CAUSES - 1]
    costliest = max(causes, key=lambda cause: cause.resource_seconds or 0.0)
    return first if costliest in first else [*first[:-1], costliest]


def _cost(found: pd.DataFrame, unit: str) -> Html:
    known = found[found["resource_seconds_estimate"].notna()]
    if known.empty:
        if len(found) and ((found["moved_count"] == 0) & (found["returned_count"] == 0)).all():
            return Html("Nothing stood still.")
        return Html("What that cost is not known: no evidence shows who stood still, or for how long.")
    upper = known["resource_seconds_upper"]
    if len(known) == len(found) and (known["resource_seconds_estimate"] == 0).all() and (upper == 0).all():
        return Html("Nothing stood still.")
    estimate = float(known["resource_seconds_estimate"].sum())
    if (cost := _likely(known)) is not None:
        said = words.seconds_likely(cost.likely_lower, cost.estimate, cost.likely_upper, unit)
        return fill("They cost {cost}.", cost=said)
    said = words.seconds_bounds(
        float(known["resource_seconds_lower"].sum()) if known["resource_seconds_lower"].notna().all() else None,
        estimate,
        float(upper.sum()) if upper.notna().all() else None,
        unit,
    )
    return fill("They cost {cost}.", cost=said)


def _likely(known: pd.DataFrame) -> Range | None:
    """What one group's rebalances cost together; None where one of them has no likely range."""
    ends = ["resource_seconds_likely_lower", "resource_seconds_likely_upper"]
    if not {*ends} <= {*known.columns} or known[ends].isna().any(axis=None):
        return None
    rows = known.to_dict("records")
    return of_one_group(Range(*(_number(row[f"resource_seconds_{name}"]) for name in Range._fields)) for row in rows)


def _number(value: Any) -> Any:
    return None if pd.isna(value) else float(value)


def standstill(seconds: float | None, unit: str) -> Html | None:
    """What members that hung cost beside the rebalances, over all evidence; None where none is known."""
    if seconds is None:
        return None
    return fill(
        "In all evidence, members also hung without a rebalance, which cost about {seconds} {unit}-seconds: only "
        "missing commits show it (inferred).",
        seconds=f"{seconds:,.1f}",
        unit=unit,
    )


def doubts(rebalances: pd.DataFrame) -> Html | None:
    """Gaps of a group's history; None where none is known."""
    if not len(rebalances):
        return None
    missing = int((rebalances["outcome"] == Outcome.MISSING).sum())
    partial = int((~rebalances["is_complete_evidence"].astype(bool)).sum())
    said = []
    if missing:
        said.append(f"{words.count(missing, 'number')} skipped, and nothing says why")
    if partial:
        them = "it" if partial == 1 else "them"
        said.append(f"{words.count(partial, 'rebalance')} with incomplete evidence, which may change {them}")
    return fill("Not seen: {what}.", what="; ".join(said)) if said else None
