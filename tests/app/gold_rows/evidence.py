"""What was found, what was seen and what was checked."""

from __future__ import annotations

import json
from typing import Any

from rebalance_audit.domain.kinds import Severity
from rebalance_audit.domain.model import Finding, record_ref
from tests.app.gold_rows.names import CLUSTER, FILE_ID, HOSTILE_GROUP, T0


def _finding(
    finding_id: str, rule_id: str, severity: str, group: str, title: str, *, seen_ms: tuple[int, int], **facts: Any
) -> Finding:
    """Of a group; `seen_ms`: first and last."""
    return Finding(
        cluster_id=CLUSTER,
        finding_id=finding_id,
        rule_id=rule_id,
        severity=Severity(severity),
        subject_type="group",
        subject=group,
        title=title,
        first_seen_at_ms=seen_ms[0],
        last_seen_at_ms=seen_ms[1],
        **{"status": "open"} | facts,
    )


def findings() -> list[Finding]:
    return [
        _finding(
            "f-storm",
            "RB001",
            "critical",
            "checkout",
            "31 rebalances in 6 h, more than this group's limit of 6 per hour",
            seen_ms=(T0 - 6 * 3_600_000, T0 - 600_000),
            detail="27 of them because c3 processed for longer than max.poll.interval.ms.",
            numbers=json.dumps({"rebalance_count": 31, "window_ms": 21_600_000, "limit_per_hour": 6}),
            advice="Raise max.poll.interval.ms for c3, or lower max.poll.records.",
            evidence=(record_ref("__consumer_offsets", 3, 1_030),),
        ),
        _finding(
            "f-expiry",
            "RB007",
            "warning",
            "orders",
            "c3 sent no heartbeat until its session expired",
            seen_ms=(T0 - 600_000, T0 - 598_000),
            detail="orders-4 and orders-5 stood still 12.3 s (10.0 \u2026 13.4).",
            numbers=json.dumps({"pause_estimate_ms": 12_310, "partition_count": 2}),
            advice="See why c3 died; a group.instance.id would not have helped here.",
            evidence=(record_ref("__consumer_offsets", 7, 231),),
        ),
        _finding(
            "f-wait",
            "CN001",
            "info",
            "connect-lab",
            "2 tasks waited 21.5 s for the scheduled delay",
            seen_ms=(T0 - 1_790_000, T0 - 1_768_500),
            status="resolved",
            evidence=("record:connect-status-0@12",),
        ),
        _finding(
            "f-forged",
            "TR004",
            "warning",
            HOSTILE_GROUP,
            "a log line <b>contradicts</b> the records",
            seen_ms=(T0 - 50_000, T0 - 40_000),
            detail="<script>alert(6)</script>",
            numbers="not json",
            advice="[x](javascript:alert(7))",
            evidence=(record_ref("__consumer_offsets", 2, 5),),
        ),
    ]


def coverage() -> list[dict[str, Any]]:
    return [
        {
            "cluster_id": CLUSTER,
            "source": "record:__consumer_offsets-7",
            "kind": "record",
            "from_position": 200,
            "to_position": 232,
            "from_at_ms": T0 - 7_200_000,
            "to_at_ms": T0,
            "item_count": 30,
            "is_gap": False,
            "problem_code": "none",
        },
        {
            "cluster_id": CLUSTER,
            "source": "record:__consumer_offsets-7",
            "kind": "record",
            "from_position": 0,
            "to_position": 200,
            "is_gap": True,
            "problem_code": "compacted",
            "problem": "Offsets 0 to 199 were compacted away before they were read.",
        },
        {
            "cluster_id": CLUSTER,
            "source": f"log:broker-1/server.log#{FILE_ID}",
            "kind": "log",
            "from_position": 0,
            "to_position": 99_000,
            "from_at_ms": T0 - 7_200_000,
            "to_at_ms": T0 - 1_000,
            "item_count": 412,
            "is_gap": False,
            "problem_code": "none",
            "utc_offset_ms": 3_600_000,
            "utc_offset_source": "inferred",
        },
        {
            "cluster_id": CLUSTER,
            "source": "log:broker-2",
            "kind": "log",
            "from_position": 0,
            "is_gap": True,
            "problem_code": "not_given",
            "problem": "No log of broker-2 was given; a start there would be missing.",
        },
    ]


def checks() -> list[dict[str, Any]]:
    return [
        {
            "batch_id": "b1",
            "table_name": "gold.rebalance",
            "check_name": "pause bounds in order",
            "is_fatal": True,
            "success": True,
            "checked_count": 40,
            "unexpected_count": 0,
            "examples": [],
        },
        {
            "batch_id": "b1",
            "table_name": "gold.rebalance",
            "check_name": "starts before it is assigned",
            "is_fatal": False,
            "success": False,
            "checked_count": 40,
            "unexpected_count": 1,
            "examples": ["lab-cluster, hostile/1<script>"],
        },
    ]
