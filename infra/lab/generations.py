"""The generations that clients and workers say they were in, and whether they are those of a scenario."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from .clients import Event


def generations_assigned(events: Iterable[Event], group: str) -> dict[int, set[str]]:
    """The clients that were given an assignment, by generation. librdkafka does not say, so its clients are missing;
    kafkajs says it with its first heartbeat."""
    seen: dict[int, set[str]] = {}
    for event in events:
        if (
            event.get("group") == group
            and event["event"] in ("assigned_end", "in_generation")
            and "generation" in event
        ):
            seen.setdefault(event["generation"], set()).add(event["client"])
    return seen


def generations_joined(connect_logs: Mapping[str, str], group: str | None = None) -> dict[int, set[str]]:
    """The workers whose own log says that they joined, by generation. MirrorMaker's log is of several groups."""
    seen: dict[int, set[str]] = {}
    of_group = rf"groupId={re.escape(group)}\].*?" if group is not None else ""
    for worker, text in connect_logs.items():
        for number in re.findall(rf"{of_group}Joined group at generation (\d+) ", text):
            seen.setdefault(int(number), set()).add(worker)
    return seen


def unexpected_generations(
    seen: Mapping[int, set[str]], story: dict[str, Any], silent: Collection[str] = ()
) -> list[str]:
    """Sentences about generations that members saw and the scenario does not expect of a classic group, or the other
    way round.

    `silent` members do not say their generations. A member may miss a generation: its SyncGroup fails when a follow-up
    has begun already.
    """
    wanted: dict[int, set[str]] = {}
    for row in story["rebalances"]:
        if row["outcome"] == "completed":
            wanted.setdefault(row["number"], set()).update(row["members"])
    return [
        f"generation {number} was seen by {sorted(seen.get(number, ()))}, expected {sorted(wanted.get(number, ()))}"
        for number in sorted(seen.keys() | wanted.keys())
        if (number not in seen and not wanted[number] <= set(silent))
        or not seen.get(number, set()) <= wanted.get(number, set())
    ]
