"""When a group has settled, by what its members wrote."""

from __future__ import annotations

from collections.abc import Sequence

from infra.lab.clients import Event
from infra.lab.processes import now_ms

NOT_A_MOVE = {"first_record", "in_generation"}
"""Events of clients that neither take a partition nor let one go."""
QUIET_S = 6.0
"""Two heartbeats: a follow-up rebalance starts within one. It also lets the five-second auto-commit happen."""


def holds_all_once(held: dict[str, set[str]], wanted: set[str]) -> bool:
    union = set().union(*held.values()) if held else set()
    return union == wanted and sum(map(len, held.values())) == len(wanted)


def is_quiet(events: Sequence[Event], names: set[str], quiet_s: float) -> bool:
    moves = [event["at_ms"] for event in events if event["client"] in names and event["event"] not in NOT_A_MOVE]
    return not moves or now_ms() - max(moves) > quiet_s * 1000
