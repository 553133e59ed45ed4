"""One group in a storm beside a hundred others: what a run costs as its history grows, stage by stage.

    python -m bench.storm [--sizes 5000 20000 80000] [--new 200] [--cycles 3] [--step 24000] [--warehouse FOLDER]

The storm rebalances 200 times a second. For each size it grows to so many rebalances in runs of a step; then come
runs over one second of it, the same as rounds of `watch` that may wait, and, to compare, runs over one rebalance of
another group alone. CPU seconds are medians of this process, MB the most that a stage held.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from statistics import median

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline, plan

STAGES = [stage.name for stage in plan.STAGES]
OTHERS = 100
APART_MS = 5


class StormRun:
    """CPU seconds and the most memory of each stage of one run."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}
        self.most_mb: dict[str, int] = {}
        self._started = 0.0

    def note(self, stage: str, what: str) -> None:
        if what == "started":
            Path("/proc/self/clear_refs").write_text("5")  # the most from here on
            self._started = time.process_time()
        else:
            self.cpu_s[stage] = time.process_time() - self._started
            self.most_mb[stage] = _most_mb()


def _most_mb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) // 1024


def one_run(warehouse: Warehouse, *, may_wait: bool = False) -> StormRun:
    spent = StormRun()
    pipeline.run(warehouse, progress=spent.note, engine="local", may_wait=may_wait)
    return spent


def printed(name: str, runs: list[StormRun]) -> None:
    cpu = {stage: median(run.cpu_s[stage] for run in runs) for stage in STAGES}
    most = {stage: max(run.most_mb[stage] for run in runs) for stage in STAGES}
    listed = "".join(f"{cpu[stage]:>9.2f} {most[stage]:>5}" for stage in STAGES)
    print(
        f"{name:>24}{listed}{median(sum(run.cpu_s.values()) for run in runs):>9.2f} {max(most.values()):>5}", flush=True
    )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[5_000, 20_000, 80_000])
    arguments.add_argument("--new", type=int, default=200)
    arguments.add_argument("--cycles", type=int, default=3)
    arguments.add_argument("--step", type=int, default=100_000, help="the most new ones in a run while it grows")
    arguments.add_argument("--warehouse", help="a new folder, kept")
    given = arguments.parse_args()
    print(f"{'rebalances of the storm':>24}" + "".join(f"{name:>15}" for name in STAGES) + f"{'all':>15}   (CPU s, MB)")
    with tempfile.TemporaryDirectory(prefix="bench-storm-") as folder:
        place = given.warehouse or folder
        warehouse, landing = Warehouse.open(place, create=True), Landing(place)
        cluster = GrowingCluster(groups=OTHERS + 1, apart_ms=APART_MS)
        cluster.land(landing, 10 * OTHERS)
        one_run(warehouse)
        for size in sorted(given.sizes):
            while (missing := size - cluster.generations_of(0)) > 0:
                cluster.land(landing, min(missing, given.step), of=0)
                printed(f"{cluster.generations_of(0):,}, grown to", [one_run(warehouse)])
            cases = (
                ("new", given.new, 0, False),
                ("new, which may wait", given.new, 0, True),
                ("of another group", 1, 1, True),
            )
            for name, count, of, may_wait in cases:
                runs = []
                for _ in range(given.cycles + 1):
                    cluster.land(landing, count, of=of)
                    runs.append(one_run(warehouse, may_wait=may_wait))
                printed(f"{count} {name}", runs[1:])


if __name__ == "__main__":
    main()
