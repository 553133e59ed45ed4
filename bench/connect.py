"""Eager and incremental Connect compared: how long a cluster takes to start, and how long its tasks stand still
meanwhile.

    python -m bench.connect [--connectors 10] [--tasks 10] [--start-ms 200] [--kafka 4.3.0]

Repeats, at this machine's size, the comparison published with KIP-415 (900 tasks on 3 workers: about 14 minutes against
less than one): the connectors are created one right after the other on three workers, then one worker is restarted.
Every number twice: by the tasks themselves, which write down each start() and stop(), and from outside, by this
software from the topics and the brokers' logs alone.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import urllib.error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from infra.lab import jars
from infra.lab.capture import write_capture
from infra.lab.clients import put_connector
from infra.lab.cluster import Cluster
from infra.lab.driver import Driver
from infra.lab.processes import now_ms
from infra.lab.run_folder import remove_run_folder
from infra.lab.shape import ClusterShape
from tests.connect_scores import shown_runs
from tests.connect_truth import true_runs, words, worker_urls
from tests.score import reconstructed

PROTOCOLS = {"eager": "default", "sessioned": "sessioned"}
"""connect.protocol, and the name the group elects."""
DELAY_MS = 30_000
GROUP = "connect-lab"
_CONFLICT = 409


@dataclass(frozen=True, slots=True, kw_only=True)
class Phase:
    name: str
    from_ms: int
    to_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeCost:
    stands_after_s: float
    starts: int
    still_s: float
    """Task-seconds between a stop and the next start, over all connectors and tasks."""
    longest_s: float
    rebalances: int


Runs = Mapping[str, Sequence[tuple[int, int | None]]]
"""(start, stop) of each resource, in order."""


def cost(runs: Runs, rebalances_ms: Sequence[int], phase: Phase) -> ChangeCost:
    starts = [start for found in runs.values() for start, _ in found if phase.from_ms <= start < phase.to_ms]
    gaps = [
        later - stop
        for found in runs.values()
        for (_, stop), (later, _) in pairwise(found)
        if stop is not None and phase.from_ms <= later < phase.to_ms
    ]
    return ChangeCost(
        stands_after_s=(max(starts, default=phase.from_ms) - phase.from_ms) / 1000,
        starts=len(starts),
        still_s=sum(max(gap, 0) for gap in gaps) / 1000,
        longest_s=max(gaps, default=0) / 1000,
        rebalances=sum(phase.from_ms <= at < phase.to_ms for at in rebalances_ms),
    )


def run(version: str, protocol: str, connectors: int, tasks: int, start_ms: int, output: Path) -> list[Phase]:
    """Both phases on a fresh cluster, captured to `output`."""
    cluster = Cluster(
        ClusterShape(
            connect_workers=3,
            worker_properties={"connect.protocol": protocol, "scheduled.rebalance.max.delay.ms": DELAY_MS},
        ),
        version=version,
    )
    with cluster:
        driver = Driver(cluster, lambda text: print(text, file=sys.stderr, flush=True))
        try:
            driver.connect_group(assignor=PROTOCOLS[protocol])
            driver.topics(events=2)
            phases = [_create(driver, connectors, tasks, start_ms), _restart(driver)]
            write_capture(cluster, output, scenario=driver.story("bench", "bench"), command="python -m bench.connect")
        finally:
            driver.end()
    remove_run_folder(cluster.folder)
    return phases


def _create(driver: Driver, connectors: int, tasks: int, start_ms: int) -> Phase:
    from_ms = now_ms()
    url = driver.cluster.worker_url(1)
    for number in range(connectors):
        driver.connectors[f"c{number}"] = tasks
        while True:
            try:
                put_connector(url, f"c{number}", tasks=tasks, topic="events", start_ms=start_ms)
                break
            except urllib.error.HTTPError as error:
                # While it rebalances, a worker refuses: a script asks again.
                if error.code != _CONFLICT:
                    raise
                time.sleep(0.5)
    driver.settle_connect(timeout_s=1_200)
    return Phase(name=f"{connectors} connectors are created", from_ms=from_ms, to_ms=now_ms())


def _restart(driver: Driver) -> Phase:
    from_ms = now_ms()
    driver.worker_stopped(3)
    driver.worker_joins(3)
    driver.cluster.wait_for_worker(3)
    driver.settle_connect(timeout_s=1_200)
    return Phase(name="a worker is restarted", from_ms=from_ms, to_ms=now_ms())


def measured(capture: Path, phases: Sequence[Phase]) -> list[tuple[Phase, ChangeCost, ChangeCost, float | None]]:
    """By phase: the tasks' own numbers, this software's, and what it says the eager protocol would have cost."""
    own = {name: [(r.start_ms, r.end_ms) for r in found] for name, found in true_runs(capture).items()}
    joined = {word.number: word.at_ms for word in reversed(words(capture))}
    reconstruction = reconstructed(capture, "all")[GROUP]
    outside = {
        name: [(r.start[1], r.end[1] if r.end is not None else None) for r in found]
        for name, found in shown_runs(reconstruction.connect_tasks, worker_urls(capture)).items()
    }
    delivered = [(r.assigned_at_ms or 0, r.eager_seconds_lower) for r in reconstruction.rebalances]
    found = []
    for phase in phases:
        eager = [s for at, s in delivered if phase.from_ms <= at < phase.to_ms and s is not None]
        times = [at for at, _ in delivered]
        row = (cost(own, list(joined.values()), phase), cost(outside, times, phase))
        found.append((phase, *row, sum(eager) if eager else None))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="bench.connect")
    parser.add_argument("--connectors", type=int, default=10)
    parser.add_argument("--tasks", type=int, default=10, help="of each connector")
    parser.add_argument("--start-ms", type=int, default=200, help="how long a task's start() takes")
    parser.add_argument("--kafka", default=jars.DEFAULT_VERSION, choices=jars.versions())
    options = parser.parse_args(arguments)
    print(
        "| what | protocol | by | stands after s | starts | stood still, task-s | longest s | rebalances "
        "| the same under eager, at least, task-s |\n|---|---|---|---|---|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory(prefix="bench-connect-") as folder:
        for protocol in PROTOCOLS:
            capture = Path(folder) / protocol
            phases = run(options.kafka, protocol, options.connectors, options.tasks, options.start_ms, capture)
            for phase, own, outside, eager_s in measured(capture, phases):
                for by, c in (("the tasks", own), ("from outside", outside)):
                    estimate = f"{eager_s:.1f}" if eager_s is not None and c is outside else "–"
                    print(
                        f"| {phase.name} | {protocol} | {by} | {c.stands_after_s:.1f} | {c.starts} | {c.still_s:.1f} "
                        f"| {c.longest_s:.1f} | {c.rebalances} | {estimate} |",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
