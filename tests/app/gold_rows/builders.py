"""Rebalances, movements and their times, with what stays the same filled in."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rebalance_audit.domain.kinds import ResourceType
from rebalance_audit.domain.model import Movement, Rebalance
from tests.app.gold_rows.names import CLUSTER


def a_rebalance(group: str, number: int, **facts: Any) -> Rebalance:
    return Rebalance(
        cluster_id=CLUSTER, rebalance_id=f"{group}/{number}", group_id=group, generation_id=number, **facts
    )


def times(started_at_ms: int, joined_ms: int, assigned_ms: int) -> dict[str, Any]:
    """A log line says when it began; it is joined and assigned so long after that."""
    return {
        "started_at_ms": started_at_ms,
        "started_tier": "logged",
        "joined_at_ms": started_at_ms + joined_ms,
        "assigned_at_ms": started_at_ms + assigned_ms,
        "ended_at_ms": started_at_ms + assigned_ms,
        "broker_window_ms": assigned_ms,
    }


def pause(lower_ms: int | None, estimate_ms: int | None, upper_ms: int | None) -> dict[str, Any]:
    return {"pause_lower_ms": lower_ms, "pause_estimate_ms": estimate_ms, "pause_upper_ms": upper_ms}


def cost(lower_s: float, estimate_s: float, upper_s: float | None) -> dict[str, Any]:
    return {
        "resource_seconds_lower": lower_s,
        "resource_seconds_estimate": estimate_s,
        "resource_seconds_upper": upper_s,
    }


def stopped(lower_ms: int, upper_ms: int) -> dict[str, Any]:
    return {"stopped_at_lower_ms": lower_ms, "stopped_at_upper_ms": upper_ms}


def resumed(lower_ms: int, upper_ms: int) -> dict[str, Any]:
    return {"resumed_at_lower_ms": lower_ms, "resumed_at_upper_ms": upper_ms}


def partition_of(
    topic: str, partition: int, kind: str, from_member: str, to_member: str | None, **facts: Any
) -> Movement:
    """One partition's way; a client id is what its member ids begin with."""
    way = _way(f"{topic}-{partition}", kind, from_member, to_member)
    clients: dict[str, Any] = {"from_client_id": from_member[:2], "to_client_id": to_member and to_member[:2]}
    return Movement(resource_type=ResourceType.PARTITION, topic=topic, partition=partition, **way, **clients, **facts)


def task_of(connector: str, task: int, kind: str, from_member: str, to_member: str, **facts: Any) -> Movement:
    way = _way(f"{connector}-{task}", kind, from_member, to_member)
    return Movement(resource_type=ResourceType.TASK, connector=connector, task=task, **way, **facts)


def _way(resource: str, kind: str, from_member: str, to_member: str | None) -> dict[str, Any]:
    return {"resource": resource, "kind": kind, "from_member_id": from_member, "to_member_id": to_member}


EAGER: dict[str, Any] = {
    "team": "shop",
    "protocol_type": "consumer",
    "mode": "eager",
    "assignor": "range",
    "leader_member_id": "c1-0001",
    "static_member_count": 0,
    "trigger_tier": "logged",
    "kept_count": 0,
    "revoked_count": 0,
    "assigned_count": 0,
    "unassigned_count": 0,
}
"""Of an eager group, in which everybody gives up everything: nothing is kept, and all of it is moved or returned."""


def row_of(thing: Any) -> dict[str, Any]:
    """Its columns; members and movements have tables of their own."""
    return {
        k: list(v) if isinstance(v, tuple) else v for k, v in asdict(thing).items() if k not in ("members", "movements")
    }
