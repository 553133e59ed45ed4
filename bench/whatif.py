"""CPU seconds to weigh a fleet's groups under all settings that could help: `whatif -w W`, without the warehouse.

    python -m bench.whatif [--groups 100] [--rebalances 100]

A group of consumers is one recorded by `python -m infra.lab.pairs` (tests/pairs), which stops its members, waits, and
does the same again until it has so many rebalances. The goal is 1,000,000 rebalances in 5 minutes on two cores: 0.6 ms
each.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, from_row, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.fleet import advice_of
from tests.captures import gathered

PAIRS = Path(__file__).parents[1] / "tests" / "pairs"
CAPTURES = (
    "j43-1-0", "j43-1-1", "j43-2-0", "j43-2-1", "j43-3-0", "j43-3-1", "j43-4-0", "j43-4-1", "l39-0", "l39-1", "l39-2",
    "l43-0", "l43-1", "l43-3", "l43-4", "l43-5", "l43-6", "l43-8",
)  # fmt: skip
EPOCH_MS = 1_000_000_000_000
"""Larger numbers in a row are instants."""
GAPS_MS = (200_000, 3_600_000, 30_000_000)
STOPPED_AFTER_MS = 7_000
_UUID_END = re.compile(r"(?<=[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8})[0-9a-f]{4}")

Row = dict[str, Any]


def recorded() -> Iterator[list[Row]]:
    """In the same order every time: which of them a fleet has is drawn by number."""
    for name in CAPTURES:
        for evidence in gathered(PAIRS / name).groups:
            rows = [to_row(measure(r)) for r in reconstruct(evidence).rebalances]
            if can_be_repeated(rows):
                yield rows


def can_be_repeated(rows: list[Row]) -> bool:
    """Whether one row can say that all members leave: static members do not, and members of KIP-848 leave one by one,
    each by an epoch of its own."""
    are_known = all(row["trigger"] != Cause.UNKNOWN for row in rows)
    are_dynamic = all(m["group_instance_id"] is None for row in rows for m in row["members"])
    return len(rows) > 4 and are_known and are_dynamic and all(row["group_type"] == "classic" for row in rows)


def stopped(rows: list[Row]) -> list[Row]:
    """The rows, with a last row in which all members leave."""
    last = rows[-1]
    members = [m for m in last["members"] if m["change"] != "left"]
    if not members:
        return rows
    at_ms = last["ended_at_ms"] + STOPPED_AFTER_MS
    leaving = {"trigger": Cause.MEMBER_LEFT, "tier": "logged", "detail": "", "evidence": []}
    return [*rows, last | {
        "outcome": "emptied", "kind": "rebalance", "trigger": Cause.MEMBER_LEFT, "movements": [],
        "started_at_ms": at_ms, "started_lower_ms": at_ms - 100, "joined_at_ms": at_ms + 170, "assigned_at_ms": None,
        "ended_at_ms": at_ms + 170, "triggers": [leaving | {"members": [m["member_id"]]} for m in members],
        "members": [
            m | {"change": "left", "owned_before": m["assigned"], "assigned": [], "added": []} for m in members
        ],
    }]  # fmt: skip


def again(value: Any, by_ms: int, number: int) -> Any:
    """The same so much later, of members with other ids."""
    if isinstance(value, dict):
        return {name: again(each, by_ms, number) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [again(each, by_ms, number) for each in value]
    if isinstance(value, str):
        return _UUID_END.sub(lambda found: f"{(int(found[0], 16) + number) % 65_536:04x}", value)
    return value + by_ms if isinstance(value, int) and value > EPOCH_MS else value


def history(rows: list[Row], count: int, gap_ms: int) -> list[Rebalance]:
    once = stopped(rows)
    step_ms = once[-1]["ended_at_ms"] - (rows[0]["started_at_ms"] or rows[0]["ended_at_ms"]) + gap_ms
    times = -(-count // len(once))
    return [from_row(Rebalance, again(row, n * step_ms, n)) for n in range(times) for row in once][:count]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--rebalances", type=int, default=100, help="of each group")
    asked = parser.parse_args()
    rng = Random(7)
    models = list(recorded())
    cpu_seconds, refused, count = 0.0, 0, 0
    for _ in range(asked.groups):
        rows = history(rng.choice(models), asked.rebalances, rng.choice(GAPS_MS))
        with without_cycle_search():
            started = process_time()
            (first, *_) = advice_of(rows, (rows[-1].ended_at_ms or 0) + 1_000)
            cpu_seconds += process_time() - started
        refused += first.saved_seconds is None
        count += len(rows)
    per_rebalance = cpu_seconds / count
    print(
        f"{asked.groups} groups, {count:,} rebalances, {refused} groups refused: {cpu_seconds:.1f} CPU s, "
        f"{per_rebalance * 1000:.2f} ms each; a million on two cores: {per_rebalance * 500_000 / 60:.1f} min"
    )


if __name__ == "__main__":
    main()
