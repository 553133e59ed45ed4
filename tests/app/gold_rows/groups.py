"""Rows of gold.group, and very many of them."""

from __future__ import annotations

from typing import Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import EvidenceTier, Mode
from rebalance_audit.domain.model import Finding, Rebalance
from tests.app.gold_rows.builders import cost, pause, row_of
from tests.app.gold_rows.names import T0


def group_row(rebalances: list[Rebalance], found: list[Finding]) -> dict[str, Any]:
    last = rebalances[-1]
    times = [t for r in rebalances for t in (r.assigned_at_ms, r.started_lower_ms) if t is not None]
    mine = [f for f in found if f.subject == last.group_id and f.status == "open"]
    return {
        "cluster_id": last.cluster_id,
        "group_id": last.group_id,
        "team": last.team,
        "group_type": last.group_type,
        "protocol_type": last.protocol_type,
        "state": "Stable",
        "mode": last.mode,
        "assignor": last.assignor,
        "generation_id": last.generation_id,
        "member_count": last.member_count,
        "resource_count": last.resource_count,
        "first_seen_at_ms": min(times),
        "last_rebalance_at_ms": max(times),
        "last_rebalance_id": last.rebalance_id,
        "rebalance_count": len(rebalances),
        "rebalance_count_1h": 0,
        "rebalance_count_24h": len(rebalances),
        "open_finding_count": len(mine),
        "worst_severity": mine[0].severity if mine else None,
    }


def many_groups(number: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    groups, rebalances = [], []
    for i in range(number):
        base = Rebalance(
            cluster_id="fleet",
            rebalance_id=f"svc-{i}/1",
            group_id=f"svc-{i:04d}",
            generation_id=1,
            protocol_type="consumer",
            mode=Mode.COOPERATIVE if i % 3 else Mode.EAGER,
            assignor="cooperative-sticky" if i % 3 else "range",
            member_count=3 + i % 5,
            resource_count=12,
            assigned_at_ms=T0 - (i * 37_000) % 80_000_000,
            trigger=Cause.MEMBER_JOINED,
            trigger_tier=EvidenceTier.RECORDED,
            moved_count=1,
            returned_count=0,
            **pause(20, 40 + i % 900, 2_000),
            **cost(0.0, 0.04, 0.1),
            evidence=("record:__consumer_offsets-9@1",),
        )
        groups.append(group_row([base], []))
        rebalances.append(row_of(base))
    return groups, rebalances
