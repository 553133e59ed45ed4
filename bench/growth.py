"""The cost of five new rebalances beside a growing history: CPU seconds of a cycle, stage by stage.

    python -m bench.growth [--sizes 1000 10000 100000] [--new 5] [--cycles 3] [--engine auto|spark|local]
        [--of-a-group 10] [--apart-ms 60000] [--at-once 10000] [--names new|default] [--each]

The warehouse grows to each size in turn (bench.growing_cluster), everything through all stages with every check on.
Then come cycles of a few new rebalances; of these the median is printed, in CPU seconds of this process and all below.
The histories of its groups grow, too: at the first size a group has one rebalance, at the last one ten. With `--each`
every size has a warehouse of its own, with as many more groups, whose histories are equally long.
With `--names new` each member has a client id that nobody had before, so its library is known only when it leaves. With
`default` it is known at once, as that of most Java consumers is.
The last column is a cycle at this size beside one at the first size: flat is 1.0. Below stands what
`rebalance-audit run` takes for such a cycle from a cold start.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time

from bench.growing_cluster import APART_MS, GrowingCluster
from bench.spark import cpu_seconds
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline, plan

STAGES = [stage.name for stage in plan.STAGES]


class Stages:
    """CPU seconds of each stage of one run."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self._started = 0.0

    def note(self, stage: str, what: str) -> None:
        if what == "started":
            self._started = cpu_seconds()
        else:
            self.spent[stage] = cpu_seconds() - self._started


def one_run(warehouse: Warehouse, engine: str) -> tuple[dict[str, float], float]:
    """(CPU seconds by stage, wall seconds)."""
    stages, begun = Stages(), time.monotonic()
    pipeline.run(warehouse, progress=stages.note, engine=engine)
    return stages.spent, time.monotonic() - begun


def cold_run(location: str, engine: str, bytecode: str | None = None) -> tuple[float, float]:
    """(wall, CPU) seconds of the command, start included. `bytecode`: a folder for compiled modules, which an
    installation has. Where PYTHONDONTWRITEBYTECODE is set, as in many images, each start compiles them all."""
    environment = dict(os.environ)
    if bytecode is not None:
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        environment["PYTHONPYCACHEPREFIX"] = bytecode
    before, begun = os.times(), time.monotonic()
    command = [sys.executable, "-m", "rebalance_audit.cli", "run", "-w", location, "-q", "--engine", engine]
    subprocess.run(command, check=True, env=environment)
    wall_s, after = time.monotonic() - begun, os.times()
    return wall_s, after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    arguments.add_argument("--new", type=int, default=5)
    arguments.add_argument("--cycles", type=int, default=3)
    arguments.add_argument("--engine", choices=("auto", "spark", "local"), default="auto")
    arguments.add_argument("--of-a-group", type=int, default=10, help="its rebalances on average, at the largest size")
    arguments.add_argument("--apart-ms", type=int, default=APART_MS, help="between two rebalances of the cluster")
    arguments.add_argument("--at-once", type=int, default=10_000, help="rebalances of history in one landing file")
    arguments.add_argument("--names", choices=("new", "default"), default="new", help="client ids of members")
    arguments.add_argument("--each", action="store_true", help="a warehouse of its own for each size")
    given = arguments.parse_args()
    print(f"{'rebalances':>12}" + "".join(f"{name:>13}" for name in STAGES) + f"{'cycle':>9}{'against first':>15}")
    first: float | None = None
    colds = []
    sizes = sorted(given.sizes)
    with tempfile.TemporaryDirectory(prefix="bench-bytecode-") as bytecode:
        for together in [[size] for size in sizes] if given.each else [sizes]:
            cluster = GrowingCluster(
                groups=max(together[-1] // given.of_a_group, 1),
                apart_ms=given.apart_ms,
                has_default_names=given.names == "default",
            )
            with tempfile.TemporaryDirectory(prefix="bench-growth-") as folder:
                for size in together:
                    spent, cold = _beside(size, cluster, folder, given, bytecode)
                    whole = sum(spent.values())
                    first = whole if first is None else first
                    columns = "".join(f"{spent[name]:>13.2f}" for name in STAGES)
                    print(f"{size:>12,}{columns}{whole:>9.2f}{whole / first:>14.2f}x", flush=True)
                    colds.append((size, *cold))
    print("\nrebalance-audit run from a cold start:")
    for size, wall_s, cpu_s in colds:
        print(f"{size:>12,}  {wall_s:.2f} s wall, {cpu_s:.2f} s CPU")


def _beside(
    size: int, cluster: GrowingCluster, folder: str, given: argparse.Namespace, bytecode: str
) -> tuple[dict[str, float], tuple[float, float]]:
    """Lets the warehouse in the folder grow to this size. The CPU seconds by stage of the median cycle, and what
    `cold_run` gives."""
    warehouse, landing = Warehouse.open(folder, create=True), Landing(folder)
    while cluster.rebalance_count < size:
        cluster.land(landing, min(given.at_once, size - cluster.rebalance_count))
    one_run(warehouse, given.engine)
    cycles = []
    for _ in range(given.cycles + 1):
        cluster.land(landing, given.new)
        cycles.append(one_run(warehouse, given.engine)[0])
    counted = sorted(cycles[1:], key=lambda cycle: sum(cycle.values()))  # the first one warms up
    cold_run(folder, given.engine, bytecode)  # nothing is new: it leaves the compiled modules
    cluster.land(landing, given.new)
    return counted[len(counted) // 2], cold_run(folder, given.engine, bytecode)


if __name__ == "__main__":
    main()
