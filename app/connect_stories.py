"""What a Connect cluster went through, as the stories one can tell: a worker joined, went and came back, is gone for
good; a connector changed. Told from rebalances and task intervals; nothing is measured anew. Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from app.answers import ConnectTask

JOINS = ("connect_worker_joined", "member_joined")
ROUNDS = ("connect_revocation_follow_up",)
_AT_ONCE_MS = 2_000
"""Tasks of one worker stop within this of each other: status records are written one after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Absence:
    """One worker went; what it ran was lost with it, waited for it, and ran again."""

    worker: str
    resources: tuple[str, ...]
    """What it ran: tasks as `connector-task`, connectors by name."""
    gone_at_ms: int
    """The first of them stopped."""
    noticed_at_ms: int | None
    """The others heard of it and the wait began; None where the tasks did not wait."""
    back_at_ms: int | None
    """The last of them ran again; None: not yet, when evidence ends."""
    returned: tuple[str, ...]
    """Those that run where they ran before."""
    spread: tuple[str, ...]
    """Those that run elsewhere now."""
    to_workers: tuple[str, ...]

    @property
    def kind(self) -> str:
        """`open`, `bounced` (all returned), `gone` (all spread) or `mixed`."""
        if self.back_at_ms is None:
            return "open"
        return "bounced" if not self.spread else "gone" if not self.returned else "mixed"

    @property
    def waited_ms(self) -> int | None:
        return None if self.noticed_at_ms is None or self.back_at_ms is None else self.back_at_ms - self.noticed_at_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """A change and the rounds it took: rebalances of one group, one after the other."""

    rebalance_ids: tuple[str, ...]
    from_ms: int
    to_ms: int
    trigger: str
    detail: str | None
    revoked_counts: tuple[int, ...]
    kept_count: int | None
    """What never stopped, in the last round."""
    changed_connectors: tuple[str, ...] | None
    """None: not known which."""
    cost_seconds: float | None
    """Resource-seconds standing still, of all its rounds."""
    eager_seconds: float | None
    """What the same would have cost had all stopped; None where the tables do not say."""


def name_of(task: ConnectTask) -> str:
    return task.connector if task.task is None else f"{task.connector}-{task.task}"


def absences(tasks: Sequence[ConnectTask]) -> list[Absence]:
    """Workers whose tasks were lost with them or waited for them, oldest first."""
    by_task: dict[tuple[str, int | None], list[ConnectTask]] = {}
    for t in tasks:
        by_task.setdefault((t.connector, t.task), []).append(t)
    gaps: list[tuple[str, int, str, list[ConnectTask], ConnectTask | None]] = []
    for spans in by_task.values():
        ordered = sorted(spans, key=lambda t: (t.from_ms, t.to_ms is None))
        i = 0
        while i < len(ordered):
            j = i
            while j < len(ordered) and ordered[j].state in ("LOST", "WAITING", "UNASSIGNED"):
                j += 1
            if all(t.state == "UNASSIGNED" for t in ordered[i:j]):
                i = j + 1  # handed over, or running: nobody was missed
                continue
            before = next((t for t in reversed(ordered[:i]) if t.state == "RUNNING"), None)
            worker = before.worker_url if before is not None else ordered[i].worker_url
            after = next((t for t in ordered[j:] if t.state == "RUNNING"), None)
            if worker is not None:
                gaps.append((worker, ordered[i].from_ms, name_of(ordered[i]), ordered[i:j], after))
            i = j
    together: list[list[tuple[str, int, str, list[ConnectTask], ConnectTask | None]]] = []
    for gap in sorted(gaps, key=lambda g: (g[0], g[1])):
        if together and together[-1][0][0] == gap[0] and gap[1] - together[-1][-1][1] <= _AT_ONCE_MS:
            together[-1].append(gap)
        else:
            together.append([gap])
    return sorted((_absence(some) for some in together), key=lambda a: a.gone_at_ms)


def _absence(gaps: list[tuple[str, int, str, list[ConnectTask], ConnectTask | None]]) -> Absence:
    worker = gaps[0][0]
    waits = [t.from_ms for _, _, _, parts, _ in gaps for t in parts if t.state == "WAITING"]
    after = [(name, t) for _, _, name, _, t in gaps if t is not None]
    returned = tuple(name for name, t in after if t.worker_url == worker)
    spread = tuple(name for name, t in after if t.worker_url != worker)
    return Absence(
        worker=worker,
        resources=tuple(name for _, _, name, _, _ in gaps),
        gone_at_ms=min(at for _, at, _, _, _ in gaps),
        noticed_at_ms=min(waits, default=None),
        back_at_ms=max(t.from_ms for _, t in after) if len(after) == len(gaps) else None,
        returned=returned,
        spread=spread,
        to_workers=tuple(sorted({t.worker_url for _, t in after if t.worker_url and t.worker_url != worker})),
    )


def rounds(rebalances: pd.DataFrame, triggers: Sequence[str]) -> list[Rounds]:
    """Changes that began with one of these triggers, each with the follow-up rounds after it, oldest first."""
    found: list[Rounds] = []
    rows: list[Any] = list(rebalances[rebalances["kind"] == "rebalance"].itertuples())
    for i, first in enumerate(rows):
        if first.trigger not in triggers or pd.isna(first.at_ms):
            continue
        chain = [first]
        for later in rows[i + 1 :]:
            if later.trigger not in ROUNDS:
                break
            chain.append(later)
        changed = getattr(first, "changed_connectors", None)
        found.append(
            Rounds(
                rebalance_ids=tuple(str(r.rebalance_id) for r in chain),
                from_ms=int(first.at_ms if pd.isna(first.started_at_ms) else first.started_at_ms),
                to_ms=int(chain[-1].at_ms),
                trigger=str(first.trigger),
                detail=first.trigger_detail if isinstance(first.trigger_detail, str) else None,
                revoked_counts=tuple(int(r.revoked_count or 0) for r in chain),
                kept_count=None if pd.isna(chain[-1].kept_count) else int(chain[-1].kept_count),
                changed_connectors=None if changed is None or isinstance(changed, float) else tuple(changed),
                cost_seconds=_sum(chain, "resource_seconds_estimate"),
                eager_seconds=_sum(chain, "eager_seconds_lower"),
            )
        )
    return found


def _sum(rows: Sequence[Any], column: str) -> float | None:
    """Over those that have it; older tables lack the column."""
    known = [float(v) for r in rows if not pd.isna(v := getattr(r, column, None))]
    return sum(known) if known else None


def others_hit(
    change: Rounds, movements: Sequence[Any]
) -> tuple[dict[str, list[int | None]], dict[str, list[int | None]]]:
    """Connectors whose tasks stood still through the change, with each task's pause: the changed ones, and the others.

    `movements`: those of all its rounds. Where it is not known which connector changed, all are others.
    """
    own: dict[str, list[int | None]] = {}
    others: dict[str, list[int | None]] = {}
    for m in movements:
        if m.connector is None or m.task is None or m.kind not in ("moved", "returned", "restarted"):
            continue
        side = own if m.connector in (change.changed_connectors or ()) else others
        side.setdefault(m.connector, []).append(m.pause_estimate_ms)
    return own, others
