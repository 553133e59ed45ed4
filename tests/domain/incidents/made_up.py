"""Incidents of made-up histories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.incidents import (
    ChangeMark,
    ClusterRows,
    Incident,
    incidents_of,
)
from rebalance_audit.domain.model import Finding, Rebalance
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory

MINUTE_S, HOUR_S = 60, 3_600


def a_group(group_id: str = "orders", **facts: object) -> GroupStory:
    """Three members that joined long ago."""
    story = GroupStory(group_id, **facts)  # type: ignore[arg-type]
    return story.joins("c1", "c2", "c3", at_s=-2 * HOUR_S)


def incidents_and_marks(
    *stories: GroupStory, until_s: float = 12 * HOUR_S, **more: object
) -> tuple[list[Incident], list[ChangeMark]]:
    now_ms = T0_MS + round(until_s * 1000)
    findings: list[tuple[str | None, Finding]] = [
        (s.group_id, f) for s in stories for f in detect_group(s.rebalances, s.tasks, seen_until_ms=now_ms)
    ]
    return incidents_of(
        ClusterRows(
            cluster_id=CLUSTER,
            now_ms=now_ms,
            groups={s.group_id: costing(s.rebalances) for s in stories},
            tasks=[t for s in stories for t in s.tasks],
            findings=findings,
            **more,  # type: ignore[arg-type]
        )
    )


def costing(rebalances: Sequence[Rebalance]) -> list[Rebalance]:
    """Each a cost of its own, so that sums show what is missing."""
    return [
        r
        if r.outcome in ("missing", "open", "superseded")
        else replace(
            r, resource_seconds_lower=1.0 * n, resource_seconds_estimate=2.0 * n, resource_seconds_upper=4.0 * n
        )
        for n, r in enumerate(rebalances)
    ]


def kinds(incidents: Sequence[Incident]) -> list[tuple[str, int]]:
    return [(i.kind, len(i.rebalance_ids)) for i in incidents]
