"""The latest known state of one group, from its rebalances and findings: a row of gold.group."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import FindingStatus, GroupType, Outcome
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.numbers import cost_of, happened_at_ms, is_counted, standstill_seconds
from rebalance_audit.domain.tables import SEVERITIES

READS = (
    "cluster_id", "rebalance_id", "group_id", "generation_id", "group_epoch", "group_type", "protocol_type", "kind",
    "outcome", "mode", "assignor", "member_count", "started_at_ms", "joined_at_ms", "assigned_at_ms", "ended_at_ms",
    "trigger", "resource_count", "pause_estimate_ms", "resource_seconds_lower", "resource_seconds_estimate",
    "resource_seconds_upper", "resource_seconds_likely_lower", "resource_seconds_likely_upper", "standstills",
)  # fmt: skip
"""All that `group_row` asks of a rebalance."""
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


def group_row(
    rebalances: Sequence[Rebalance], findings: Sequence[Finding], seen_until_ms: int, team: str | None = None
) -> dict[str, Any]:
    """`rebalances` of one group in order, at least one. Rates count back from the evidence's end, not from now."""
    last = rebalances[-1]
    counted = [r for r in rebalances if is_counted(r)]
    settled = next((r for r in reversed(rebalances) if r.outcome in (Outcome.COMPLETED, Outcome.EMPTIED)), last)
    times = [at_ms for r in counted if (at_ms := happened_at_ms(r)) is not None]
    pauses = sorted(r.pause_estimate_ms for r in rebalances if r.pause_estimate_ms is not None)
    loss = cost_of(rebalances)
    still_open = [f for f in findings if f.status == FindingStatus.OPEN]
    triggers = Counter(r.trigger for r in counted if r.trigger != Cause.UNKNOWN)
    return {
        "cluster_id": last.cluster_id,
        "group_id": last.group_id,
        "team": team,
        "group_type": last.group_type,
        "protocol_type": next((r.protocol_type for r in reversed(rebalances) if r.protocol_type), None),
        "state": _state(last),
        "mode": settled.mode,
        "assignor": next((r.assignor for r in reversed(rebalances) if r.assignor), None),
        "generation_id": last.generation_id,
        "group_epoch": last.group_epoch,
        "member_count": settled.member_count,
        "resource_count": settled.resource_count,
        "first_seen_at_ms": next((at for r in rebalances if (at := happened_at_ms(r)) is not None), None),
        "last_rebalance_at_ms": next((at for r in reversed(rebalances) if (at := happened_at_ms(r)) is not None), None),
        "last_rebalance_id": last.rebalance_id,
        "rebalance_count": len(counted),
        "rebalance_count_1h": sum(at_ms > seen_until_ms - HOUR_MS for at_ms in times),
        "rebalance_count_24h": sum(at_ms > seen_until_ms - DAY_MS for at_ms in times),
        "pause_p50_ms": percentile(pauses, 0.50),
        "pause_p95_ms": percentile(pauses, 0.95),
        "resource_seconds_estimate": loss.estimate,
        "resource_seconds_likely_lower": loss.likely_lower,
        "resource_seconds_likely_upper": loss.likely_upper,
        "standstill_seconds_estimate": standstill_seconds(rebalances),
        "top_trigger": min(triggers, key=lambda t: (-triggers[t], t)) if triggers else None,
        "open_finding_count": len(still_open),
        "worst_severity": max((f.severity for f in still_open), key=SEVERITIES.index, default=None),
    }


def percentile(ascending: Sequence[int], share: float) -> float | None:
    """Interpolated between the two nearest values, as most tools do; None without values."""
    if not ascending:
        return None
    place = share * (len(ascending) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ascending) - 1)
    return ascending[low] + (ascending[high] - ascending[low]) * (place - low)


def _state(last: Rebalance) -> str:
    """In Kafka's words, as the last attempt leaves the group."""
    if last.outcome == Outcome.EMPTIED or last.member_count == 0:
        return "Empty"
    if last.outcome == Outcome.OPEN:
        if last.group_type != GroupType.CLASSIC:
            return "Reconciling"
        return "CompletingRebalance" if last.joined_at_ms is not None else "PreparingRebalance"
    return "Stable"
