"""Group events a second: the pure fold on one core, and the same evidence through Spark's reconstruct.

    python -m bench.reconstruct [--generations 1000] [--groups 40000] [--storm 720000]      --groups 0: no Spark

Time is CPU time, of this process or of it and all below it (the JVM, its Python workers), so that a busy machine slows
the run but hardly moves the ratios. The goal is one million events in 30 s on two cores: 60 µs of CPU an event.
"""

from __future__ import annotations

import argparse
import itertools
import os
import resource
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from statistics import median
from time import process_time

import pyarrow as pa

from bench import group_events
from rebalance_audit.domain.gather.groups import event_of_row, group_evidence
from rebalance_audit.domain.gather.windows import Piece, reconstruct_in_windows
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import CommitMark, GroupEvidence
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs.session import open_session
from spark_jobs.stages import reconstruct as reconstruct_stage
from spark_jobs.stages.stage import Run
from tests.domain.reconstruct.connect.stories import FRESH, Work, a_connect_group, has

ROUNDS = 5


def evidence(group_id: str, generations: int, **shape: int) -> tuple[list[group_events.Row], GroupEvidence]:
    events, marks = group_events.generations(group_id, 1, generations, **{"apart_ms": 60_000} | shape)
    gathered = group_evidence(
        group_events.CLUSTER, group_id, map(event_of_row, events), [_mark(row) for row in marks], {}
    )
    return [*events, *marks], gathered


def _mark(row: group_events.Row) -> CommitMark:
    return CommitMark(**{name: value for name, value in row.items() if name not in ("cluster_id", "group_id")})


def connect(rounds: int) -> GroupEvidence:
    """A Connect cluster in which every other round takes a task from a worker and the next gives it to another."""
    story, random, at_ms = a_connect_group(), Random(1), 0
    work = {"w1": ["a", *(f"a-{task}" for task in range(4))], "w2": ["b", "b-0", "b-1"], "w3": ["b-2", "b-3"]}

    def held(worker: str) -> Work:
        return has(" ".join(work[worker]))

    story.generation(1, {worker: FRESH.gets(" ".join(work[worker])) for worker in work}, at_ms=at_ms)
    for number in range(2, rounds, 2):
        at_ms += 60_000
        source, target = random.choice([worker for worker in work if work[worker]]), random.choice([*work])
        task = random.choice(work[source])
        story.generation(number, {w: held(w).loses(task if w == source else "") for w in work}, at_ms=at_ms)
        story.status(task, "UNASSIGNED", source, number - 1, at_ms=at_ms + 30)
        work[source].remove(task)
        given = {w: held(w).gets(task if w == target else "") for w in work}
        story.generation(number + 1, given, at_ms=at_ms + 200)
        story.status(task, "RUNNING", target, number + 1, at_ms=at_ms + 220)
        work[target].append(task)
    return story.evidence()


def pure(generations: int) -> None:
    """Every second history is half as long; twice the history should cost twice the time, or something looks back."""

    def storm(count: int) -> GroupEvidence:
        return evidence("group", count, apart_ms=5)[1]

    shapes: dict[str, tuple[int, Callable[[int], GroupEvidence]]] = {
        "quiet, 3 members": (generations, lambda count: evidence("group", count)[1]),
        "large, 50 members": (generations // 10, lambda count: evidence("group", count, members=50, partitions=100)[1]),
        "storm, 200 generations a second": (generations, storm),
        "storm, logs alone": (generations, lambda count: replace(storm(count), records=(), marks=())),
        "Connect, 3 workers, 10 resources": (generations * 4, connect),
    }
    print(f"{'pure fold and measure':34}{'events':>9}{'events/s':>11}{'µs/event':>10}{'twice as long':>15}")
    for name, (count, of_length) in shapes.items():
        whole, half = of_length(count), of_length(count // 2)
        size = len(whole.records) + len(whole.lines) + len(whole.marks) + len(whole.statuses)
        spent: dict[bool, list[float]] = {True: [], False: []}
        for _ in range(ROUNDS):  # in turns, so that a busy moment hits both
            for is_whole, given in ((True, whole), (False, half)):
                started = process_time()
                for rebalance in reconstruct(given).rebalances:
                    measure(rebalance)
                spent[is_whole].append(process_time() - started)
        seconds = median(spent[True])
        print(
            f"{name:34}{size:>9,}{size / seconds:>11,.0f}{seconds / size * 1e6:>10.1f}"
            f"{seconds / median(spent[False]):>14.2f}x"
        )


def streamed(generations: int) -> None:
    """One storming group, a piece at a time as Spark hands it on: memory must not grow with its length."""
    spent = 0.0
    rebalances = pieces = 0

    def coming() -> Iterator[tuple[int, Piece]]:
        nonlocal spent, pieces
        for first in range(1, generations + 1, 2_000):
            started = process_time()
            events, marks = group_events.generations("storm", first, min(first + 1_999, generations), apart_ms=5)
            timed = [(row["at_ms"], row) for row in events] + [(row["first_at_ms"], row) for row in marks]
            timed.sort(key=lambda one: one[0])
            spent -= process_time() - started  # making them is not what is measured
            for at_ms, row in timed:
                pieces += 1
                yield at_ms, event_of_row(row) if "kind" in row else _mark(row)

    def gather(part: Sequence[Piece]) -> GroupEvidence:
        events = [piece for piece in part if not isinstance(piece, CommitMark)]
        marks = [piece for piece in part if isinstance(piece, CommitMark)]
        return group_evidence(group_events.CLUSTER, "storm", events, marks, {})

    begun = process_time()
    print(f"\n{'one group in windows':34}{'events':>9}{'events/s':>11}{'µs/event':>10}{'memory so far':>15}")
    at = generations // 4
    for part in reconstruct_in_windows(coming(), gather):
        for rebalance in part.rebalances:
            measure(rebalance)
        rebalances += len(part.rebalances)
        if rebalances >= at:
            seconds = process_time() - begun + spent
            memory_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1_024
            print(
                f"{f'{rebalances:,} generations':34}{pieces:>9,}{pieces / seconds:>11,.0f}"
                f"{seconds / pieces * 1e6:>10.1f}{memory_mb:>12,} MB"
            )
            at += generations // 4


def through_spark(name: str, tables: Iterator[tuple[pa.Table, pa.Table]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        warehouse = Warehouse.open(Path(folder), create=True)
        size = 0
        for events, marks in tables:
            size += events.num_rows + marks.num_rows
            warehouse.append("silver.group_event", events)
            warehouse.append("silver.commit_mark", marks)
        spark = open_session()
        spark.range(8).mapInArrow(lambda batches: batches, "id long").collect()
        context = Run(warehouse=warehouse, open_spark=lambda: spark)
        with _watched() as spent:
            reconstruct_stage.run(context)
        by_kind = ", ".join(f"{kind} {seconds:.0f} s" for kind, seconds in sorted(spent.cpu_s.items()))
        cpu_s = sum(spent.cpu_s.values())
        print(
            f"{name:34}{size:>10,}{size / spent.wall_s:>11,.0f}{cpu_s / size * 1e6:>10.1f}"
            f"   CPU {by_kind}; wall {spent.wall_s:.0f} s; largest worker {spent.worker_mb} MB"
        )


class _watched:
    """CPU seconds of all processes below this one, by kind, and the most memory one Python worker took."""

    def __enter__(self) -> _watched:
        self.cpu_s: dict[str, float] = {}
        self.worker_mb = 0
        self._cpu: dict[int, tuple[str, float]] = {}
        self._stop = threading.Event()
        self._look()
        self._before = dict(self._cpu)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        self._started = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.wall_s = time.monotonic() - self._started
        self._stop.set()
        self._thread.join()
        self._look()
        spent: dict[str, float] = defaultdict(float)
        for pid, (kind, seconds) in self._cpu.items():
            spent[kind] += seconds - self._before.get(pid, (kind, 0.0))[1]
        self.cpu_s = {kind: seconds for kind, seconds in spent.items() if seconds >= 0.5}

    def _watch(self) -> None:
        while not self._stop.wait(0.5):
            self._look()

    def _look(self) -> None:
        ticks, page = os.sysconf("SC_CLK_TCK"), os.sysconf("SC_PAGE_SIZE")
        found: dict[int, tuple[int, str, float, int]] = {}
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    head, _, rest = Path(f"/proc/{entry}/stat").read_text().rpartition(")")
                except OSError:
                    continue  # it has ended
                fields = rest.split()
                seconds = (int(fields[11]) + int(fields[12])) / ticks
                found[int(entry)] = int(fields[1]), head.partition("(")[2], seconds, int(fields[21]) * page
        ours, fresh = {os.getpid()}, {os.getpid()}
        while fresh:
            fresh = {pid for pid, (parent, *_) in found.items() if parent in fresh} - ours
            ours |= fresh
        for pid in ours:
            _, command, seconds, memory = found[pid]
            kind = "driver" if pid == os.getpid() else "JVM" if command == "java" else "workers"
            self._cpu[pid] = kind, seconds
            if kind == "workers":
                self.worker_mb = max(self.worker_mb, memory // 1_048_576)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--generations", type=int, default=1_000)
    arguments.add_argument("--groups", type=int, default=40_000)
    arguments.add_argument("--storm", type=int, default=720_000)
    given = arguments.parse_args()
    pure(given.generations)
    streamed(20 * given.generations)
    if given.groups:
        print(f"\n{'through Spark':34}{'events':>10}{'events/s':>11}{'µs/event':>10}")
        quiet = f"{given.groups:,} groups of 3 generations"
        through_spark(quiet, group_events.quiet_groups(given.groups, 3))
        if given.storm:
            both = itertools.chain(group_events.quiet_groups(given.groups, 3), group_events.storm(given.storm))
            through_spark(f"and one of {given.storm:,}", both)


if __name__ == "__main__":
    main()
