"""The latest known state of one group, from its rebalances and findings: a row of gold.group."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rebalance_audit.domain.kinds import FindingStatus, GroupType, Outcome
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.numbers import happened_at_ms, is_counted
from rebalance_audit.domain.publish.group_sums import GroupSums
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
    rebalances: Sequence[Rebalance],
    findings: Sequence[Finding],
    seen_until_ms: int,
    team: str | None = None,
    *,
    before: Sequence[GroupSums] = (),
    rates: Mapping[int, int] | None = None,
) -> dict[str, Any]:
    """`rebalances` of one group in order, at least one, the latest of all. `before`: what is known of those before
    them. Rates count back from the evidence's end, not from now; `rates`: by their window, where it may reach back
    before these rebalances."""
    last = rebalances[-1]
    sums = GroupSums.together([*before, GroupSums.of(rebalances)])
    mode, member_count, resource_count = sums.settled or (last.mode, last.member_count, last.resource_count)
    if rates is None:
        times = [at_ms for r in rebalances if is_counted(r) and (at_ms := happened_at_ms(r)) is not None]
        rates = {window: sum(at_ms > seen_until_ms - window for at_ms in times) for window in (HOUR_MS, DAY_MS)}
    pauses = [pause_ms for pause_ms, count in sums.pauses for _ in range(count)]
    still = sums.standstill_seconds
    loss = sums.cost.total
    triggers = sums.triggers
    return {
        "cluster_id": last.cluster_id,
        "group_id": last.group_id,
        "team": team,
        "group_type": last.group_type,
        "protocol_type": sums.protocol_type,
        "state": _state(last),
        "mode": mode,
        "assignor": sums.assignor,
        "generation_id": last.generation_id,
        "group_epoch": last.group_epoch,
        "member_count": member_count,
        "resource_count": resource_count,
        "first_seen_at_ms": sums.first_at_ms,
        "last_rebalance_at_ms": sums.last_at_ms,
        "last_rebalance_id": last.rebalance_id,
        "rebalance_count": sums.rebalance_count,
        "rebalance_count_1h": rates[HOUR_MS],
        "rebalance_count_24h": rates[DAY_MS],
        "pause_p50_ms": percentile(pauses, 0.50),
        "pause_p95_ms": percentile(pauses, 0.95),
        "resource_seconds_estimate": None if loss is None else loss.estimate,
        "resource_seconds_likely_lower": None if loss is None else loss.likely_lower,
        "resource_seconds_likely_upper": None if loss is None else loss.likely_upper,
        "standstill_seconds_estimate": None if still is None else math.fsum(still),
        "top_trigger": min(triggers, key=lambda t: (-triggers[t], t)) if triggers else None,
        **of_open_findings([f.severity for f in findings if f.status == FindingStatus.OPEN]),
    }


def of_open_findings(severities: Sequence[str]) -> dict[str, Any]:
    """What such a row says of the group's open findings, of which these are the severities."""
    return {
        "open_finding_count": len(severities),
        "worst_severity": max(severities, key=SEVERITIES.index, default=None),
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
