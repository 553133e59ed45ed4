"""One group in a storm beside a hundred others: what a run costs as its history grows, stage by stage.

    python -m bench.storm [--sizes 5000 20000 80000] [--new 200] [--cycles 3] [--step 24000] [--warehouse FOLDER]
    python -m bench.storm --hour [--seconds 3600] [--warehouse FOLDER]

The storm rebalances 200 times a second. For each size it grows to so many rebalances in runs of a step; then come
runs over one second of it, the same as rounds of `watch` that may wait, and, to compare, runs over one rebalance of
another group alone. CPU seconds are medians of this process, MB the most that a stage held, or what came after the
stages (`joins`: files are joined, the log of evidence is written).

`--hour` is the storm from its begin, as `watch` takes it: each ten seconds of it, and rebalances of five other groups,
are one round of one process. Rounds may wait, but for those that `watch` would let judge loud groups. Lines for each
20,000 rebalances: CPU seconds of both kinds of rounds, what the process holds, the most that it ever held, and how
long after a round began the rows of the other groups were published.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from random import Random
from statistics import median

import pyarrow as pa

from bench.growing_cluster import GrowingCluster
from ingest.landing import Landing
from rebalance_audit.commands.watching.live import OTHERS_S, SHARE_OF_OTHERS
from rebalance_audit.commands.watching.rounds import give_memory_back
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import pipeline, plan

JOINS = "joins"
"""What comes after the stages: files are joined."""
STAGES = [*(stage.name for stage in plan.STAGES), JOINS]
OTHERS = 100
APART_MS = 5
ROUND_S = 10
ROUNDS_OF_A_LINE = 10
QUIET = 5
"""Rebalances of other groups in a round of the hour."""


class StormRun:
    """CPU seconds and the most memory of each stage of one run."""

    def __init__(self) -> None:
        self.cpu_s: dict[str, float] = {}
        self.most_mb: dict[str, int] = {}
        self.published_s = 0.0
        """How long after the begin its rows were published."""
        self._began, self._started = time.monotonic(), 0.0

    @property
    def all_s(self) -> float:
        return sum(self.cpu_s.values())

    def note(self, stage: str, what: str) -> None:
        if what != "started":
            self.cpu_s[stage] = time.process_time() - self._started
            self.most_mb[stage] = _memory_mb("VmHWM")
            if stage == plan.PUBLISH.name:
                self.published_s = time.monotonic() - self._began
        Path("/proc/self/clear_refs").write_text("5")  # the most from here on
        self._started = time.process_time()


def _memory_mb(what: str) -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{what}:")[2].split()[0]) // 1024


def one_run(warehouse: Warehouse, *, may_wait: bool = False) -> StormRun:
    spent = StormRun()
    pipeline.run(warehouse, progress=spent.note, engine="local", may_wait=may_wait)
    spent.note(JOINS, "ended")
    return spent


def printed(name: str, runs: list[StormRun]) -> None:
    cpu = {stage: median(run.cpu_s[stage] for run in runs) for stage in STAGES}
    most = {stage: max(run.most_mb[stage] for run in runs) for stage in STAGES}
    listed = "".join(f"{cpu[stage]:>9.2f} {most[stage]:>5}" for stage in STAGES)
    print(f"{name:>24}{listed}{median(run.all_s for run in runs):>9.2f} {max(most.values()):>5}", flush=True)


def storm_of(seconds: int, warehouse: Warehouse, landing: Landing, cluster: GrowingCluster) -> None:
    random, judged_at_s, most_mb = Random(2), float(OTHERS_S[0]), 0
    waiting: list[StormRun] = []
    judging: list[StormRun] = []
    for round_number, now_s in enumerate(range(0, seconds, ROUND_S), 1):
        cluster.land(landing, ROUND_S * 1000 // APART_MS, of=0)
        for other in random.sample(range(1, OTHERS + 1), QUIET):
            cluster.land(landing, 1, of=other)
        may_wait = now_s < judged_at_s
        spent = one_run(warehouse, may_wait=may_wait)
        give_memory_back()
        (waiting if may_wait else judging).append(spent)
        if not may_wait:
            judged_at_s = now_s + min(max(spent.all_s / SHARE_OF_OTHERS, OTHERS_S[0]), OTHERS_S[1])
        most_mb = max(most_mb, *spent.most_mb.values())
        if round_number % ROUNDS_OF_A_LINE == 0:
            for name, runs in (("may wait", waiting), ("judge", judging)):
                if runs:
                    printed(f"{cluster.generations_of(0):,}, {len(runs)} {name}", runs)
            ages = sorted(run.published_s for run in (*waiting, *judging))
            print(
                f"{'':>24}  holds {_memory_mb('VmRSS'):,} MB, most so far {most_mb:,}; others published after "
                f"{median(ages):.1f} s, most {ages[-1]:.1f}; load {os.getloadavg()[0]:.0f}",
                flush=True,
            )
            waiting, judging = [], []


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--sizes", type=int, nargs="+", default=[5_000, 20_000, 80_000])
    arguments.add_argument("--new", type=int, default=200)
    arguments.add_argument("--cycles", type=int, default=3)
    arguments.add_argument("--step", type=int, default=100_000, help="the most new ones in a run while it grows")
    arguments.add_argument("--warehouse", help="a new folder, kept")
    arguments.add_argument("--hour", action="store_true", help="the storm from its begin, in rounds of ten seconds")
    arguments.add_argument("--seconds", type=int, default=3_600, help="so much of the hour")
    given = arguments.parse_args()
    if pa.default_memory_pool().backend_name != "system":
        arguments.error("set ARROW_DEFAULT_MEMORY_POOL=system, as `watch` does")
    print(f"{'rebalances of the storm':>24}" + "".join(f"{name:>15}" for name in STAGES) + f"{'all':>15}   (CPU s, MB)")
    with tempfile.TemporaryDirectory(prefix="bench-storm-") as folder:
        place = given.warehouse or folder
        warehouse, landing = Warehouse.open(place, create=True), Landing(place)
        cluster = GrowingCluster(groups=OTHERS + 1, apart_ms=APART_MS)
        cluster.land(landing, 10 * OTHERS)
        one_run(warehouse)
        if given.hour:
            return storm_of(given.seconds, warehouse, landing, cluster)
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
