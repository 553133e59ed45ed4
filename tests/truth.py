"""What the instrumented clients of a capture saw, and how a reconstruction compares with it.

Times are the clients' own clock, which in the lab is the brokers' clock, too.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


def written_events(capture: Path) -> list[dict[str, Any]]:
    """What `truth/clients.jsonl` holds, packed or not: line by line, under the names the lab gave."""
    plain = capture / "truth" / "clients.jsonl"
    text = plain.read_text() if plain.exists() else gzip.decompress(Path(f"{plain}.gz").read_bytes()).decode()
    return [json.loads(line) for line in text.splitlines()]


def client_events(capture: Path) -> list[dict[str, Any]]:
    """In time order; `client` is the client id, which a scenario may choose to differ from the client's name."""
    id_of = {c["client"]: _client_id(c) for c in scenario(capture)["clients"]}
    events = written_events(capture)
    # A group that was deleted, or that brokers forgot, starts again: what it hands out then had no owner before.
    events += [
        {"at_ms": action["at_ms"], "client": "administrator", "event": "group_deleted", "group": action["subject"]}
        for action in scenario(capture)["actions"]
        if action["action"] in ("delete group", "offsets expired")
    ]
    return sorted(
        ({**event, "client": id_of.get(event["client"], event["client"])} for event in events), key=lambda e: e["at_ms"]
    )


def group_of_clients(capture: Path) -> dict[str, str]:
    return {_client_id(c): c["group"] for c in scenario(capture)["clients"]}


def library_of_clients(capture: Path) -> dict[tuple[str, str], str]:
    """By group and client id, in the names that the group knows: two groups may share a client id."""
    clients = scenario(capture)["clients"]
    return {(c["group"], c.get("known_as", _client_id(c))): c["library"] for c in clients} | {
        (c["group"], _client_id(c)): c["library"] for c in clients
    }


def client_of_members(capture: Path) -> dict[str, str]:
    """By member id, as far as clients wrote down theirs: logs alone name no client."""
    return {e["member_id"]: e["client"] for e in client_events(capture) if e.get("member_id")}


def _client_id(client: dict[str, Any]) -> str:
    chosen = str(client.get("client_id", client["client"]))
    return chosen if client["library"] != "streams" or "Thread" in chosen else f"{chosen}-StreamThread-1-consumer"


def scenario(capture: Path) -> dict[str, Any]:
    return json.loads((capture / "truth" / "scenario.json").read_text())


def as_known(capture: Path, pauses: Iterable[TruePause], steps: Mapping[Place, list[Step]]) -> Known:
    """The truth in the names the group has: a static member keeps the client id of the one whose place it took."""
    names = {_client_id(c): c["known_as"] for c in scenario(capture)["clients"] if "known_as" in c}
    named = [
        replace(p, from_client=names.get(p.from_client, p.from_client), to_client=names.get(p.to_client, p.to_client))
        for p in pauses
    ]
    return named, {
        place: [(names.get(a, a) if a is not None else None, names.get(b, b)) for a, b in chain]
        for place, chain in steps.items()
    }


Step = tuple[str | None, str]
"""(owner before, owner after) by client id."""
Place = tuple[str, str]
"""(group, resource)."""
Known = tuple[list["TruePause"], dict[Place, list[Step]]]


def true_steps(events: Iterable[dict[str, Any]], group_of: dict[str, str]) -> dict[tuple[str, str], list[Step]]:
    """By (group, resource): every time it was handed out, as the assigned callbacks show."""
    steps: dict[Place, list[Step]] = {}
    last: dict[Place, str] = {}
    for event in events:
        if event["event"] == "group_deleted":
            for place in steps:
                if place[0] == event["group"]:
                    last.pop(place, None)
        if event["event"] != "assigned_end":
            continue
        group = event.get("group") or group_of.get(event["client"], "")
        for resource in event["partitions"]:
            place = (group, resource)
            steps.setdefault(place, []).append((last.get(place), event["client"]))
            last[place] = event["client"]
    return steps


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
            case "group_deleted":
                stopped = {key: value for key, value in stopped.items() if key[0] != group}
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
    likely: int = 0
    """Inside the likely range."""
    likely_widths_ms: list[int] = field(default_factory=list)
    unbounded: int = 0
    unmatched: list[TruePause] = field(default_factory=list)
    outside: list[tuple[TruePause, Movement, int]] = field(default_factory=list)


Match = tuple[TruePause, Rebalance, Movement]


def matched(rebalances: Iterable[Rebalance], truth: Iterable[TruePause]) -> tuple[list[Match], list[TruePause]]:
    """Each true pause with the movement that shows it, and those that none shows. A movement shows one pause, the
    nearest."""
    movements: dict[tuple[str, str, str | None], list[tuple[int, Rebalance, Movement]]] = {}
    for r in rebalances:
        for m in r.movements:
            resumed_at_ms = _resumed_at_ms(r, m)
            if m.kind in ("moved", "returned") and resumed_at_ms is not None:
                movements.setdefault((r.group_id, m.resource, m.to_client_id), []).append((resumed_at_ms, r, m))
    truth = list(truth)
    near = sorted(
        (
            (abs(at_ms - pause.resumed_at_ms), place, number)
            for place, pause in enumerate(truth)
            for number, (at_ms, _, _) in enumerate(movements.get(_place(pause), ()))
        ),
    )
    shown: dict[int, tuple[int, Rebalance, Movement]] = {}
    taken: set[tuple[tuple[str, str, str], int]] = set()
    for apart_ms, place, number in near:
        key = _place(truth[place]), number
        if apart_ms <= 5_000 and place not in shown and key not in taken:
            taken.add(key)
            shown[place] = movements[key[0]][number]
    found = [(truth[place], shown[place][1], shown[place][2]) for place in sorted(shown)]
    return found, [pause for place, pause in enumerate(truth) if place not in shown]


def _place(pause: TruePause) -> tuple[str, str, str]:
    return pause.group_id, pause.resource, pause.to_client


def score_pauses(rebalances: Sequence[Rebalance], truth: Sequence[TruePause]) -> Score:
    """Compare measured rebalances of all groups with the clients' hand-overs."""
    found, unmatched = matched(rebalances, truth)
    score = Score(pauses=len(truth), unmatched=unmatched)
    for pause, _, movement in found:
        if movement.pause_estimate_ms is not None:
            score.errors_ms.append(abs(movement.pause_estimate_ms - pause.pause_ms))
        if movement.pause_likely_lower_ms is not None and movement.pause_likely_upper_ms is not None:
            score.likely_widths_ms.append(movement.pause_likely_upper_ms - movement.pause_likely_lower_ms)
            score.likely += _is_inside(pause.pause_ms, movement.pause_likely_lower_ms, movement.pause_likely_upper_ms)
        lower, upper = movement.pause_lower_ms, movement.pause_upper_ms
        if _is_inside(pause.pause_ms, lower, upper):
            score.inside += 1
        else:
            score.outside.append((pause, movement, pause.pause_ms))
        if lower is not None and upper is not None:
            score.widths_ms.append(upper - lower)
        else:
            score.unbounded += 1
    return score


def _is_inside(ms: int, lower: int | None, upper: int | None) -> bool:
    return (lower is None or lower - CLOCK_GRAIN_MS <= ms) and (upper is None or ms <= upper + CLOCK_GRAIN_MS)


def _resumed_at_ms(rebalance: Rebalance, movement: Movement) -> int | None:
    estimates = [m for m in movement.resume_marks if m.bound == "estimate"]
    if estimates:
        return min(estimates, key=lambda m: m.rank).at_ms
    return rebalance.assigned_at_ms
