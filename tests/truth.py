"""What the instrumented clients of a capture saw, and how a reconstruction compares with it.

Times are the clients' own clock, which in the lab is the brokers' clock, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rebalance_audit.domain.model import Movement, Rebalance

CLOCK_GRAIN_MS = 2
"""Two processes rounding one clock to milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TruePause:
    """One hand-over of one partition as its two owners saw it."""

    group_id: str
    resource: str
    from_client: str
    to_client: str
    stopped_at_ms: int
    """Entry of the revoked or lost callback, or the kill."""
    resumed_at_ms: int
    """Exit of the new owner's assigned callback."""

    @property
    def pause_ms(self) -> int:
        return self.resumed_at_ms - self.stopped_at_ms


def client_events(capture: Path) -> list[dict[str, Any]]:
    lines = (capture / "truth" / "clients.jsonl").read_text().splitlines()
    return sorted((json.loads(line) for line in lines), key=lambda e: e["at_ms"])


def scenario(capture: Path) -> dict[str, Any]:
    return json.loads((capture / "truth" / "scenario.json").read_text())  # type: ignore[no-any-return]


def true_pauses(events: Iterable[dict[str, Any]], group_of: dict[str, str]) -> list[TruePause]:
    """Every hand-over in which the partition had an owner before, in time order of the resume."""
    held: dict[str, set[tuple[str, str]]] = {}
    stopped: dict[tuple[str, str], tuple[str, int]] = {}
    overlapping: dict[tuple[str, str, str], tuple[str, int]] = {}
    pauses: list[TruePause] = []
    for event in events:
        client = event["client"]
        group = event.get("group") or group_of.get(client, "")
        mine = held.setdefault(client, set())
        match event["event"]:
            case "revoked_start" | "lost_start":
                for partition in event["partitions"]:
                    mine.discard((group, partition))
                    late = overlapping.pop((group, partition, client), None)
                    if late is not None:
                        # A member put out and replaced stops after the new owner began: an overlap.
                        pauses.append(
                            TruePause(
                                group_id=group,
                                resource=partition,
                                from_client=client,
                                to_client=late[0],
                                stopped_at_ms=event["at_ms"],
                                resumed_at_ms=late[1],
                            )
                        )
                    else:
                        stopped[(group, partition)] = (client, event["at_ms"])
            case "killed" | "frozen":
                for key in mine:
                    stopped[key] = (client, event["at_ms"])
                mine.clear()
            case "assigned_end":
                for partition in event["partitions"]:
                    key = (group, partition)
                    holder = next((c for c, keys in held.items() if c != client and key in keys), None)
                    if holder is not None:
                        overlapping[(*key, holder)] = (client, event["at_ms"])
                    elif key in stopped:
                        who, at_ms = stopped[key]
                        pauses.append(
                            TruePause(
                                group_id=group,
                                resource=partition,
                                from_client=who,
                                to_client=client,
                                stopped_at_ms=at_ms,
                                resumed_at_ms=event["at_ms"],
                            )
                        )
                    mine.add(key)
    return pauses


@dataclass(slots=True)
class Score:
    """How a reconstruction of one capture compares with the truth."""

    pauses: int = 0
    inside: int = 0
    errors_ms: list[int] = field(default_factory=list)
    widths_ms: list[int] = field(default_factory=list)
    unbounded: int = 0
    unmatched: list[TruePause] = field(default_factory=list)
    outside: list[tuple[TruePause, Movement, int]] = field(default_factory=list)


def score_pauses(rebalances: Sequence[Rebalance], truth: Sequence[TruePause]) -> Score:
    """Compare measured rebalances of all groups with the clients' hand-overs."""
    score = Score()
    movements = [
        (r, m)
        for r in rebalances
        for m in r.movements
        if m.kind in ("moved", "returned") and r.assigned_at_ms is not None
    ]
    for pause in truth:
        score.pauses += 1
        near = [
            (r, m)
            for r, m in movements
            if r.group_id == pause.group_id and m.resource == pause.resource and m.to_client_id == pause.to_client
        ]
        best = min(near, key=lambda rm: abs((rm[0].assigned_at_ms or 0) - pause.resumed_at_ms), default=None)
        if best is None or abs((best[0].assigned_at_ms or 0) - pause.resumed_at_ms) > 5_000:
            score.unmatched.append(pause)
            continue
        movement = best[1]
        if movement.pause_estimate_ms is not None:
            score.errors_ms.append(abs(movement.pause_estimate_ms - pause.pause_ms))
        lower, upper = movement.pause_lower_ms, movement.pause_upper_ms
        is_inside = (lower is None or lower - CLOCK_GRAIN_MS <= pause.pause_ms) and (
            upper is None or pause.pause_ms <= upper + CLOCK_GRAIN_MS
        )
        if is_inside:
            score.inside += 1
        else:
            score.outside.append((pause, movement, pause.pause_ms))
        if lower is not None and upper is not None:
            score.widths_ms.append(upper - lower)
        else:
            score.unbounded += 1
    return score
