"""What goes on right now in one cluster, and what came in last: a note beside the tables, from `watch` for the app.

The tables follow within seconds and then hold the same; a note is replaced whole and counts only while it is fresh.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from rebalance_audit.domain.causes import cause_of
from rebalance_audit.domain.explain.present import Awaited, Running, WaitsFor, Whereabouts
from rebalance_audit.warehouse.just_in import NOTES, NOTHING, JustInRows, from_note, to_note
from rebalance_audit.warehouse.warehouse import Warehouse

FRESH_MS = 10_000
"""While something goes on, the note is written every second; an older note is from a `watch` that stopped."""
MOST_RUNNING = 50
"""Groups that the note names, those with most standing still first; the rest is counted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Present:
    """One cluster's present."""

    cluster_id: str
    written_at_ms: int
    """By the clock of the host that `watch` runs on."""
    running_count: int
    running: tuple[Running, ...]
    just_in: JustInRows = NOTHING
    """What the tables do not hold yet."""

    def is_fresh(self, now_ms: int) -> bool:
        return now_ms - self.written_at_ms <= FRESH_MS


def present(cluster_id: str, running: Sequence[Running], just_in: JustInRows, written_at_ms: int) -> Present:
    by_weight = sorted(running, key=lambda r: (-(r.standing_count or 0), -r.lasted_ms, r.group_id))
    return Present(
        cluster_id=cluster_id, written_at_ms=written_at_ms, running_count=len(running),
        running=tuple(by_weight[:MOST_RUNNING]), just_in=just_in,
    )  # fmt: skip


def keep(warehouse: Warehouse, now: Present) -> None:
    running = [asdict(each) for each in now.running]
    content = {
        "cluster_id": now.cluster_id, "written_at_ms": now.written_at_ms, "running_count": now.running_count,
        "running": running, "just_in": to_note(now.just_in),
    }  # fmt: skip
    warehouse.remember(_note(now.cluster_id), content)


def kept(warehouse: Warehouse, cluster_id: str) -> Present | None:
    """What was kept of this cluster's present state; None if nothing was, or by another version."""
    return _present(warehouse.recall(_note(cluster_id)))


def all_kept(warehouse: Warehouse) -> list[Present]:
    """What was kept of the present state of all clusters, in the order of the notes' names."""
    notes = (warehouse.recall(name) for name in sorted(warehouse.notes()) if name.startswith(NOTES))
    return [now for now in map(_present, notes) if now is not None]


def _present(note: Mapping[str, Any]) -> Present | None:
    try:
        return Present(
            cluster_id=note["cluster_id"], written_at_ms=note["written_at_ms"], running_count=note["running_count"],
            running=tuple(_running(row) for row in note["running"]),
            just_in=from_note(note["just_in"]),
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
    return f"{NOTES}{hashlib.sha256(cluster_id.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
