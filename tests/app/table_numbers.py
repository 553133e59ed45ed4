"""Numbers of the tables: made by Python and not by the SQL of the app."""

from __future__ import annotations

import itertools
import math
import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from app.charts.bars import PAUSE_STEPS_MS
from tests.app.reading import Known, Shown, below_zero

NOW_MS = 1_795_400_000_000
Row = dict[str, Any]
Walk = Callable[..., Shown]


def of(gold: dict[str, list[Row]], table: str, **wanted: Any) -> list[Row]:
    return [r for r in gold[table] if all(r[name] == value for name, value in wanted.items())]


def were(changes: Sequence[Row]) -> list[int]:
    """The values of settings beside those that would have helped."""
    return [int(n) for w in changes for setting in w["in_force"] or () for n in re.findall(r"\d+", setting)]


def is_counted(r: Row) -> bool:
    return bool(r["kind"] == "rebalance" and r["outcome"] != "missing")


def at_ms(r: Row) -> int:
    return int(
        next(r[c] for c in ("assigned_at_ms", "ended_at_ms", "joined_at_ms", "started_at_ms") if r[c] is not None)
    )


def total(values: Iterable[float | None]) -> float | None:
    known = [v for v in values if v is not None]
    return math.fsum(known) if known else None


def cost(rows: Sequence[Row]) -> float | None:
    return total(r["resource_seconds_estimate"] for r in rows)


def hands_out_tasks(r: Row) -> bool:
    return r["protocol_type"] in ("connect", "streams")


def booked_causes(incidents: Iterable[Row]) -> dict[tuple[str, str], str]:
    """What a rebalance of an incident is booked on wherever causes are summed."""
    return {
        (i["cluster_id"], r): "reassigned" if i["kind"] == "reassignment" else i["root_cause"]
        for i in incidents
        for r in i["rebalance_ids"]
    }


def costs_of(rows: Sequence[Row], known: Known) -> None:
    """Sums of these rebalances, as any place may add them up: all, by cause, partitions and tasks apart."""
    parts = [list(rows), *([r for r in rows if r["cause"] == t] for t in {r["cause"] for r in rows})]
    parts += [[r for r in rows if hands_out_tasks(r)], [r for r in rows if not hands_out_tasks(r)]]
    for part in parts:
        known.counts |= {sum(map(is_counted, part)), sum(is_counted(r) and r["expected"] for r in part)}
        for end in ("estimate", "lower", "upper", "likely_lower", "likely_upper"):
            if (summed := total(r[f"resource_seconds_{end}"] for r in part)) is not None:
                known.seconds.add(summed)
        known.seconds |= likely_ends([r for r in part if is_counted(r)]) | likely_ends(part)


def likely_ends(rows: Sequence[Row]) -> set[float]:
    """Of what one group's rebalances cost together, by hand. Squared, the error is two fifths of what it would be if
    all went the same way, and three fifths of what it would be if none had to do with another (decision 0089)."""
    found: set[float] = set()
    known = [r for r in rows if r["resource_seconds_likely_lower"] is not None]
    middle = math.fsum(r["resource_seconds_estimate"] for r in known)
    for end, sign, hard, worst in (("lower", -1, 0.0, max), ("upper", 1, math.inf, min)):
        errors = [abs(r[f"resource_seconds_likely_{end}"] - r["resource_seconds_estimate"]) for r in known]
        reach = math.sqrt(0.4 * math.fsum(errors) ** 2 + 0.6 * math.fsum(e * e for e in errors))
        bounds = [hard if r[f"resource_seconds_{end}"] is None else r[f"resource_seconds_{end}"] for r in known]
        found.add(worst(middle + sign * reach, math.fsum(bounds)))
    return found


def headline_of(rows: Sequence[Row], known: Known) -> None:
    """Pauses beside the broker's own window."""
    both = [r for r in rows if is_counted(r) and r["outcome"] == "completed" and r["broker_window_ms"] is not None]
    moved = [
        (max(0, r["pause_estimate_ms"]), r["broker_window_ms"]) for r in both if r["pause_estimate_ms"] is not None
    ]
    if not moved:
        return
    factors = [max(max(1, p) / max(1, b), max(1, b) / max(1, p)) for p, b in moved]
    known.ms |= {statistics.median(p for p, _ in moved), statistics.median(b for _, b in moved)}
    known.counts |= {len(moved), statistics.median(factors), sum(p > b for p, b in moved), len(both) - len(moved)}


def steps_of(rows: Sequence[Row], known: Known) -> list[tuple[str, int, int]]:
    """How many of the counted rebalances had pauses and windows of which length; the steps' own ends are known."""
    known.ms |= set(PAUSE_STEPS_MS)
    paused = [r for r in rows if is_counted(r) and r["pause_estimate_ms"] is not None]
    edges = [-math.inf, 0, *PAUSE_STEPS_MS, math.inf]
    pauses = [sum(a <= r["pause_estimate_ms"] < b for r in paused) for a, b in itertools.pairwise(edges)]
    windows = [
        sum(r["broker_window_ms"] is not None and a <= r["broker_window_ms"] < b for r in paused)
        for a, b in itertools.pairwise(edges)
    ]
    return [(str(n), p, w) for n, (p, w) in enumerate(zip(pauses, windows, strict=True)) if p or w]


def seen(gold: dict[str, list[Row]], cluster: str | None = None) -> list[int]:
    """All moments at which evidence begins or ends."""
    return [
        c[name] for c in gold["coverage"] if cluster in (None, c["cluster_id"])
        for name in ("from_at_ms", "to_at_ms") if c[name] is not None
    ]  # fmt: skip


_AGO = re.compile(r"\b(?:\d[\d,]* (?:d|h|min|s)(?: \d+ (?:h|min|s))? ago|\d{1,2} [A-Z][a-z]{2} \d\d:\d\d)\b")
"""How long ago something was, by the clock, or on which day: `words.ago`, `words.began`."""


def hold(page: Shown, known: Known, *prose: str) -> None:
    """`prose`: what the page says with numbers that no table has, such as limits and percentages of method."""
    known.add(list(prose))
    texts = [_AGO.sub("ago", text) for text in page.texts]
    assert not known.unaccounted(texts), "\n".join(known.unaccounted(texts))
    assert not [text for text in texts if below_zero(text)]
