"""From landed evidence to published tables, at sizes that double: CPU, time and memory of all processes.

    python -m bench.scale [--sizes 1250 2500 5000 10000] [--times 2] [--engine auto|spark|local] [--skewed 6000]

The evidence is a fleet (bench.fleet), imported before the clock starts. Twice the rebalances come in twice the groups.
`rebalance-audit run` is a process of its own; seconds and memory are of it and of all below it. Then one cluster of
1,001 groups, evenly, and with half of all rebalances in one group: a thousand times as many as in any other.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path

import psutil

from bench.fleet import write_fleet
from bench.growing_cluster import GrowingCluster
from ingest.evidence import import_evidence
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse

TIMES_THE_OTHERS = 1_000


@dataclass(frozen=True, slots=True)
class Spent:
    cpu_s: float
    wall_s: float
    peak_mb: float


class Watched(threading.Thread):
    """A process and all below it. Memory is what is resident, at its highest; pages that they share count once for
    each. CPU time is of each process as seen last: a JVM that nobody waits for is in no parent's books."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._process, self.mb, self.is_over = psutil.Process(pid), 0.0, threading.Event()
        self._cpu_s: dict[tuple[int, float], float] = {}

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu_s.values())

    def spent_so_far(self) -> float:
        """CPU seconds of those who are there now."""
        self._look()
        return self.cpu_s

    def run(self) -> None:
        while not self.is_over.wait(0.1):
            self._look()

    def _look(self) -> None:
        bytes_ = 0
        for each in self._there():
            with suppress(psutil.Error):  # it ended meanwhile
                bytes_ += each.memory_info().rss
                times = each.cpu_times()
                self._cpu_s[each.pid, each.create_time()] = times.user + times.system
        self.mb = max(self.mb, bytes_ / 1e6)

    def _there(self) -> list[psutil.Process]:
        with suppress(psutil.Error):
            return [self._process, *self._process.children(recursive=True)]
        return []


def published(location: str, engine: str) -> Spent:
    began = time.monotonic()
    command = [sys.executable, "-m", "rebalance_audit.cli", "run", "-w", location, "-q", "--engine", engine]
    process = subprocess.Popen(command)
    watched = Watched(process.pid)
    watched.start()
    if process.wait() != 0:
        raise SystemExit("the run failed")
    watched.is_over.set()
    watched.join()
    return Spent(watched.cpu_s, time.monotonic() - began, watched.mb)


def fleet(rebalances: int, location: str) -> None:
    with tempfile.TemporaryDirectory(prefix="bench-scale-") as folder:
        for cluster in write_fleet(Path(folder), rebalances=rebalances):
            import_evidence(cluster, Landing(location))


def one_cluster(rebalances: int, share_of_one: float, location: str) -> None:
    GrowingCluster(TIMES_THE_OTHERS + 1, share_of_one=share_of_one).land(Landing(location), rebalances)


def measured(name: str, land: Callable[[str], None], times: int, engine: str) -> float:
    """Prints a row; the least CPU seconds."""
    costs: list[Spent] = []
    for _ in range(times):
        with tempfile.TemporaryDirectory(prefix="bench-scale-") as location:
            warehouse = Warehouse.open(location, create=True)
            land(location)
            costs.append(published(location, engine))
            counts = warehouse.query(
                "SELECT (SELECT count(*) FROM gold.rebalance), (SELECT count(*) FROM gold.group),"
                " (SELECT count(*) FROM bronze.record), (SELECT count(*) FROM bronze.log_line)"
            )
            size_mb = sum(file.stat().st_size for file in Path(location).rglob("*") if file.is_file()) / 1e6
    columns = [f"{column.to_pylist()[0]:,}" for column in counts.columns] + [f"{size_mb:.1f}"]
    for what in ("cpu_s", "wall_s"):
        columns.append(", ".join(f"{getattr(cost, what):.1f}" for cost in costs))
    columns.append(", ".join(f"{cost.peak_mb:.0f}" for cost in costs))
    print("| " + " | ".join([name, *columns]) + " |", flush=True)
    return min(cost.cpu_s for cost in costs)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="*", default=[1_250, 2_500, 5_000, 10_000])
    arguments.add_argument("--times", type=int, default=2)
    arguments.add_argument("--engine", choices=("auto", "spark", "local"), default="auto")
    arguments.add_argument(
        "--skewed", type=int, default=6_000, help="rebalances of the two clusters; 0: leave them out"
    )
    given = arguments.parse_args()
    print(f"load {os.getloadavg()[0]:.1f}, engine {given.engine}\n")
    print("| evidence | rebalances | groups | records | lines | MB | CPU s | wall s | MB at most |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    took = [measured("a fleet", partial(fleet, size), given.times, given.engine) for size in given.sizes]
    even, skewed = (
        measured(name, partial(one_cluster, given.skewed, share), given.times, given.engine) if given.skewed else 0.0
        for name, share in (("even", 0.0), ("skewed", 0.5))
    )
    print("\neach size beside the one before, CPU: ", ", ".join(f"{b / a:.2f} x" for a, b in pairwise(took)))
    if given.skewed:
        print(f"skewed beside even, CPU: {skewed / even:.2f} x")
    print(f"load at the end {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
