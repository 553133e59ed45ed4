"""What is going on right now in one cluster, as `watch` says it to the app: a small note beside the tables.

The tables follow within seconds and then hold the same; a note is replaced whole and counts only while it is fresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.explain.present import Awaited, Running, WaitsFor, Whereabouts
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.warehouse.warehouse import Warehouse

FRESH_MS = 10_000
"""While something goes on the note is written every second; an older one is of a `watch` that stopped."""
JUST_IN_MS = 60_000
MOST_RUNNING = 50
"""Groups that the note names, those with most standing still first; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JustIn:
    """An incident that is new or changed, which the tables may not hold yet. Not of those that are expected."""

    incident_id: str
    title: str
    severity: str
    status: str
    cost_seconds: float | None
    at_ms: int
    """So far evidence reached when it was judged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """One cluster's present."""

    cluster_id: str
    written_at_ms: int
    """By the clock of the host that `watch` runs on."""
    running_count: int
    running: tuple[Running, ...]
    just_in: tuple[JustIn, ...]


def present(cluster_id: str, running: Sequence[Running], just_in: Sequence[JustIn], written_at_ms: int) -> Present:
    by_weight = sorted(running, key=lambda r: (-(r.standing_count or 0), -r.lasted_ms, r.group_id))
    return Present(
        cluster_id=cluster_id, written_at_ms=written_at_ms, running_count=len(running),
        running=tuple(by_weight[:MOST_RUNNING]), just_in=tuple(just_in),
    )  # fmt: skip


def just_in(incident: Incident, at_ms: int) -> JustIn:
    return JustIn(
        incident_id=incident.incident_id, title=incident.title, severity=incident.severity, status=incident.status,
        cost_seconds=incident.cost_seconds, at_ms=at_ms,
    )  # fmt: skip


def keep(warehouse: Warehouse, now: Present) -> None:
    warehouse.remember(_note(now.cluster_id), asdict(now))


def kept(warehouse: Warehouse, cluster_id: str) -> Present | None:
    """None where there is none, or one of another version."""
    note = warehouse.recall(_note(cluster_id))
    try:
        return Present(
            cluster_id=note["cluster_id"], written_at_ms=note["written_at_ms"], running_count=note["running_count"],
            running=tuple(_running(row) for row in note["running"]),
            just_in=tuple(JustIn(**row) for row in note["just_in"]),
        )  # fmt: skip
    except (KeyError, TypeError, ValueError):
        return None


def _running(row: dict[str, Any]) -> Running:
    members = tuple(Awaited(**{**m, "whereabouts": Whereabouts(m["whereabouts"])}) for m in row["members"])
    known = {f.name: row[f.name] for f in fields(Running)}
    return Running(
        **{**known, "waits_for": WaitsFor(row["waits_for"]), "cause": cause_of(row["cause"]), "members": members}
    )


def _note(cluster_id: str) -> str:
    return f"present-{hashlib.sha256(cluster_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
