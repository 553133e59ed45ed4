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

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, from_row, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.fleet import advice_of
from tests.captures import gathered

PAIRS = Path(__file__).parents[1] / "tests" / "pairs"
EPOCH_MS = 1_000_000_000_000
"""Larger numbers in a row are instants."""
GAPS_MS = (200_000, 3_600_000, 30_000_000)
STOPPED_AFTER_MS = 7_000
_UUID_END = re.compile(r"(?<=[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{8})[0-9a-f]{4}")

Row = dict[str, Any]


def recorded() -> Iterator[list[Row]]:
    for origin in sorted(PAIRS.rglob("origin.json")):
        for evidence in gathered(origin.parent).groups:
            rows = [to_row(measure(r)) for r in reconstruct(evidence).rebalances]
            # Workers that stop and come back make other rebalances than a history that is only repeated has.
            if rows and rows[0]["protocol_type"] != "connect":
                yield rows


def stopped(rows: list[Row]) -> list[Row]:
    """With a last row in which all members leave."""
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
    models = [rows for rows in recorded() if len(rows) > 4]
    cpu_seconds, refused, count = 0.0, 0, 0
    for _ in range(asked.groups):
        rows = history(rng.choice(models), asked.rebalances, rng.choice(GAPS_MS))
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
