"""An incident to send, and a round of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rebalance_audit.alerts.news import AlertRound
from rebalance_audit.alerts.sending import AlertReport, send_alerts
from rebalance_audit.alerts.state import Place
from rebalance_audit.domain.incidents import Incident

T_MS = 1_763_733_791_000  # 2025-11-21 14:03:11 UTC


def an_incident(number: int = 1, **changes: Any) -> Incident:
    return replace(
        Incident(
            cluster_id="cluster-a",
            incident_id=f"in:{number:016x}",
            kind="storm",
            root_cause="member_poll_timeout",
            root_cause_tier="logged",
            culprits=("c1",),
            group_ids=("orders",),
            rebalance_ids=("cluster-a/orders/7",),
            finding_ids=("rb001:5a9a491950ba95c1",),
            severity="warning",
            status="open",
            expected=False,
            first_at_ms=T_MS,
            last_at_ms=T_MS + 120_000,
            title="orders rebalanced 19 times in 2 min",
            story="orders rebalanced 19 times in 2 min. It cost 4.2 partition-seconds. It goes on.",
            advice="Process less per poll.",
            evidence=("record:__consumer_offsets-7@231",),
        ),
        **changes,
    )


def send(incidents: Sequence[Incident], targets: Sequence[str], place: Place, **asked: Any) -> AlertReport:
    """Send one round; `asked`: its other fields."""
    return send_alerts(AlertRound(incidents, **asked), targets, place)
