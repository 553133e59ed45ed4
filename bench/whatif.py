"""CPU seconds to weigh a fleet's groups under all settings that could help.

    python -m bench.whatif [--groups 100] [--rebalances 100]                     # the replays alone
    python -m bench.whatif --warehouse --groups 10000 [--engine spark|local]     # `rebalance-audit whatif -w W`

A group of consumers is one recorded by `python -m infra.lab.pairs` (tests/pairs), which stops its members, waits, and
does the same again until it has so many rebalances. In a warehouse every fifth group is of another kind, as long as it
was recorded: KIP-848, Connect, or with static members; the others make up for it. Its clusters have 100 groups each,
the same ones. The goal is 1,000,000 rebalances in 5 minutes on two cores: 0.6 ms each.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random
from time import monotonic, process_time
from typing import Any

import pyarrow as pa

from bench.scale import Spent, Watched
from rebalance_audit.cycles import without_cycle_search
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, from_row, to_row
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.fleet import advice_of
from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.captures import gathered

PAIRS = Path(__file__).parents[1] / "tests" / "pairs"
CAPTURES = (
    "j43-1-0", "j43-1-1", "j43-2-0", "j43-2-1", "j43-3-0", "j43-3-1", "j43-4-0", "j43-4-1", "l39-0", "l39-1", "l39-2",
    "l43-0", "l43-1", "l43-3", "l43-4", "l43-5", "l43-6", "l43-8",
)  # fmt: skip
EPOCH_MS = 1_000_000_000_000
"""Larger numbers in a row are instants."""
OTHERS = ("c-bounce-workers-1", "c-loss-delay-5-1", "c-loss-eager-1", "k43-0", "k43-1", "l43-0")
"""Connect's workers, members of KIP-848, and static ones."""
GROUPS_OF_A_CLUSTER = 100
OTHERS_OF_A_CLUSTER = 20
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


def of_replays(group_count: int, rebalances: int) -> None:
    rng = Random(7)
    models = list(recorded())
    cpu_seconds, refused, count = 0.0, 0, 0
    for _ in range(group_count):
        rows = history(rng.choice(models), rebalances, rng.choice(GAPS_MS))
        with without_cycle_search():
            started = process_time()
            (first, *_) = advice_of(rows, (rows[-1].ended_at_ms or 0) + 1_000)
            cpu_seconds += process_time() - started
        refused += first.saved_seconds is None
        count += len(rows)
    print(f"{group_count} groups, {count:,} rebalances, {refused} groups refused: {spent(cpu_seconds, count)}")


def spent(cpu_seconds: float, count: int) -> str:
    per_rebalance = cpu_seconds / count
    return (
        f"{cpu_seconds:.1f} CPU s, {per_rebalance * 1000:.2f} ms each; a million on two cores: "
        f"{per_rebalance * 500_000 / 60:.1f} min"
    )


def of_a_warehouse(group_count: int, rebalances: int, engine: str) -> None:
    cluster_count = max(1, group_count // GROUPS_OF_A_CLUSTER)
    with tempfile.TemporaryDirectory(prefix="bench-whatif-") as location:
        count = fill(Warehouse.open(location, create=True), cluster_count, a_cluster(rebalances))
        took = weighed(location, engine)
    print(
        f"{cluster_count * GROUPS_OF_A_CLUSTER:,} groups, {count:,} rebalances, engine {engine}: "
        f"{spent(took.cpu_s, count)}; {took.wall_s:.0f} s, {took.peak_mb:.0f} MB at most; load {os.getloadavg()[0]:.1f}"
    )


def a_cluster(rebalances: int) -> list[list[Rebalance]]:
    """So many for each group, in the mean."""
    rng = Random(7)
    whole = [e for name in OTHERS for e in gathered(PAIRS / name).groups]
    others = [rows for e in whole if (rows := [measure(r) for r in reconstruct(e).rebalances]) and is_other(rows)]
    found = [rng.choice(others) for _ in range(OTHERS_OF_A_CLUSTER)]
    models = list(recorded())
    left, groups_left = rebalances * GROUPS_OF_A_CLUSTER - sum(map(len, found)), GROUPS_OF_A_CLUSTER - len(found)
    for n in range(groups_left):
        each = (left * (n + 1)) // groups_left - (left * n) // groups_left
        found.append(history(rng.choice(models), each, rng.choice(GAPS_MS)))
    return found


def is_other(rows: Sequence[Rebalance]) -> bool:
    """What `can_be_repeated` leaves out."""
    has_static = any(m.group_instance_id is not None for row in rows for m in row.members)
    return has_static or rows[-1].group_type != "classic" or rows[-1].protocol_type == "connect"


def fill(warehouse: Warehouse, cluster_count: int, groups: Sequence[Sequence[Rebalance]]) -> int:
    """The rows as the stages would have written them; how many rebalances there are."""
    rows = [
        to_row(row) | {"group_id": f"{row.group_id}-{n:03d}", "rebalance_id": f"{n}-{at}", "place": at}
        for n, of_group in enumerate(groups)
        for at, row in enumerate(of_group)
    ]
    until_ms = max(row.ended_at_ms or 0 for of_group in groups for row in of_group) + 1_000
    for name in ("silver.measured_rebalance", "gold.rebalance"):
        columns = set(warehouse.schema(name).names)
        once = rows_to_table(name, [{k: v for k, v in row.items() if k in columns} for row in rows])
        at = once.schema.get_field_index("cluster_id")
        for n in range(cluster_count):
            warehouse.append(name, once.set_column(at, once.schema.field(at), pa.array([f"fleet-{n:03d}"] * len(rows))))
    sources = [{"cluster_id": f"fleet-{n:03d}", "to_at_ms": until_ms} for n in range(cluster_count)]
    warehouse.append("bronze.source", rows_to_table("bronze.source", sources))
    warehouse.publish({"gold.rebalance": warehouse.version("gold.rebalance") or 0})
    return cluster_count * len(rows)


def weighed(location: str, engine: str) -> Spent:
    began = monotonic()
    command = [sys.executable, "-m", "rebalance_audit.cli", "whatif", "-w", location, "-q", "--engine", engine]
    process = subprocess.Popen([*command, "--seconds", "100000"])
    watched = Watched(process.pid)
    watched.start()
    if process.wait() != 0:
        raise SystemExit("it failed")
    watched.is_over.set()
    watched.join()
    return Spent(watched.cpu_s, monotonic() - began, watched.mb)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=100)
    parser.add_argument("--rebalances", type=int, default=100, help="of each group")
    parser.add_argument("--warehouse", action="store_true", help="all of `whatif -w W`, in processes of its own")
    parser.add_argument("--engine", choices=("spark", "local"), default="spark", help="of a warehouse")
    asked = parser.parse_args()
    if asked.warehouse:
        of_a_warehouse(asked.groups, asked.rebalances, asked.engine)
    else:
        of_replays(asked.groups, asked.rebalances)


if __name__ == "__main__":
    main()
