"""What the evidence says about a deploy: settled, too costly, or worse than before. Needs no Airflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

REGRESSIONS = ("RB002",)
"""Rules whose findings say that a group behaves worse than it did."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Judgement:
    """The verdict of the gate about a group since a moment."""

    is_settled: bool
    refusal: str | None
    """Why the deploy must not pass; null: nothing speaks against it so far."""
    sentence: str


def judge(
    group: str,
    since_ms: int,
    rebalances: Sequence[Row],
    findings: Sequence[Row],
    coverage: Sequence[Row],
    *,
    most_seconds: float | None,
    quiet_ms: int,
    regressions: Sequence[str] = REGRESSIONS,
) -> Judgement:
    """Settled: nothing is open, and evidence goes on for `quiet_ms` after the last rebalance (or after `since_ms`).

    Rows as `rebalance-audit export` prints them. What a rebalance cost is not always known; then it counts nothing, and
    the sentence says so.
    """
    since = [row for row in rebalances if (at := _began(row)) is not None and at >= since_ms]
    costs = [row["resource_seconds_estimate"] for row in since]
    cost = sum(each for each in costs if each is not None)
    unknown = sum(each is None for each in costs)
    ends = [row["to_at_ms"] for row in coverage if row["to_at_ms"] is not None and not row["is_gap"]]
    seen_until = max(ends, default=None)
    last = max([since_ms, *(row["ended_at_ms"] or _began(row) or since_ms for row in since)])
    is_open = any(row["outcome"] == "open" for row in since)
    is_settled = not is_open and seen_until is not None and seen_until >= last + quiet_ms
    sentence = f"{group}: {len(since)} rebalances since the deploy, {cost:.1f} partition-seconds lost"
    if unknown:
        sentence += f" (of {unknown} rebalances it is not known)"
    worse = sorted(
        {f"{row['rule_id']}: {row['title']}" for row in findings
         if row["rule_id"] in regressions and row["last_seen_at_ms"] >= since_ms}
    )  # fmt: skip
    refusal = None
    if most_seconds is not None and cost > most_seconds:
        refusal = f"{sentence}; at most {most_seconds:g} were allowed."
    elif worse:
        refusal = f"{sentence}; a regression appeared: {'; '.join(worse)}."
    return Judgement(is_settled, refusal, sentence + ".")


def _began(row: Row) -> int | None:
    for name in ("started_at_ms", "joined_at_ms", "assigned_at_ms", "ended_at_ms", "started_lower_ms"):
        if row.get(name) is not None:
            return int(row[name])
    return None
