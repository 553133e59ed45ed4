"""`watch` beside a busy cluster: CPU, memory, and seconds to the alert and to the published row.

    python -m bench.busy [--groups 10000] [--commits 20000] [--rebalances 5] [--seconds 120] [--lived 1]

A real broker, whose `__consumer_offsets` a process of its own fills as a coordinator would: so many commits a second of
all groups in turn, so many rebalances a second of groups drawn at random, with the coordinator's lines in a log file.
One rebalance in twenty begins with a member whose session ended, which alerts. Seconds count from that line's own time.
`watch` begins beside groups that rebalanced so many times (`--lived`), six hours apart, and committed for a while. They
rebalance from when it has caught up on; all is measured from a minute later on. CPU is that of `watch` alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from multiprocessing.synchronize import Event
from pathlib import Path
from random import Random
from typing import TextIO

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from bench.alerting import PublishedRows, ShownRows, cpu_s, memory_mb
from bench.group_events import OFFSETS_TOPIC
from bench.growing_cluster import COMMITS, OFFSETS_PARTITIONS, WrittenRebalance, commit
from infra.lab.cluster import Cluster
from infra.lab.processes import unwind_once
from infra.lab.shape import ClusterShape
from tests.webhook import Webhook

TICKS_A_S = 50
FAILED_EVERY = 20
CATCHING_UP_S = 900
LIVED_APART_MS = 6 * 3_600_000
COMMITTED_S = 20
"""So long the groups commit before `watch` begins."""
SETTLING_S = 60
"""The commits that came while `watch` caught up are in the tables by then, if its stages keep up at all."""
AFTERWARDS_S = 15
COMPILED = ClusterShape(broker_flags=("-XX:TieredStopAtLevel=4",))
"""A broker that runs for long. The lab's others begin fast and stay slow: the same commits cost such a broker twice the
CPU, which `watch` then lacks."""
FAILED = re.compile(r"Member \S+ in group (\S+) has failed")


class Coordinator:
    """Writes what the coordinator of so many groups writes."""

    def __init__(self, bootstrap: str, log: Path, groups: int) -> None:
        self._log, self._groups, self._random = log, groups, Random(1)
        self._generations: Counter[int] = Counter()
        self._commits = self._rebalances = 0
        self._producer = Producer({
            "bootstrap.servers": bootstrap, "linger.ms": 5, "acks": 1, "queue.buffering.max.messages": 400_000,
            "client.id": "__admin_client",  # the only one that a broker lets write to an internal topic
        })  # fmt: skip

    def first_generations(self, count: int) -> None:
        """So many of each group; the last ones are of now."""
        with self._log.open("a") as log:
            for before in reversed(range(count)):
                at_ms = int(time.time() * 1000) - before * LIVED_APART_MS
                for group in range(self._groups):
                    self._rebalance(group, log, by_failure=False, at_ms=at_ms)
                self._producer.flush()

    def go_on(self, commits: int, rebalances: float, is_over: Callable[[], bool]) -> None:
        """So many of each a second."""
        began, owed, tick = time.time(), 0.0, 0
        with self._log.open("a") as log:
            while not is_over():
                for _ in range(commits // TICKS_A_S):
                    self._commit()
                owed += rebalances / TICKS_A_S
                while owed >= 1:
                    owed -= 1
                    self._rebalances += 1
                    by_failure = self._rebalances % FAILED_EVERY == 0
                    group = self._drawn(for_failure=by_failure)
                    self._rebalance(group, log, by_failure=by_failure, at_ms=int(time.time() * 1000))
                log.flush()
                self._producer.poll(0)
                tick += 1
                time.sleep(max(0.0, began + tick / TICKS_A_S - time.time()))
        self._producer.flush()

    def _drawn(self, *, for_failure: bool) -> int:
        while True:
            group = self._random.randrange(self._groups)
            if not for_failure or self._generations[group] % 2:  # a member leaves at every second generation
                return group

    def _rebalance(self, group: int, log: TextIO, *, by_failure: bool, at_ms: int) -> None:
        self._generations[group] += 1
        what = WrittenRebalance.of(group, self._generations[group], at_ms, by_failure=by_failure)
        log.writelines(line + "\n" for line in what.lines)
        written_ms, key, value = what.record
        self._producer.produce(OFFSETS_TOPIC, key=key, value=value, partition=what.partition, timestamp=written_ms)

    def _commit(self) -> None:
        group, partition = self._commits // COMMITS % self._groups, self._commits % COMMITS
        key, value = commit(group, partition, self._commits, int(time.time() * 1000))
        self._producer.produce(OFFSETS_TOPIC, key=key, value=value, partition=group % OFFSETS_PARTITIONS)
        self._commits += 1


def write(asked: argparse.Namespace, bootstrap: str, log: Path, begun: Event, goes_on: Event) -> None:
    """Write records, in a process of its own."""
    coordinator = Coordinator(bootstrap, log, asked.groups)
    coordinator.first_generations(asked.lived)
    committed_at = time.time() + COMMITTED_S
    coordinator.go_on(asked.commits, 0, lambda: time.time() > committed_at)
    begun.set()
    coordinator.go_on(asked.commits, 0, goes_on.is_set)  # else each group's commits would begin with a standstill
    over_at = time.time() + SETTLING_S + asked.seconds
    coordinator.go_on(asked.commits, asked.rebalances, lambda: time.time() > over_at)


class Arrivals(Webhook):
    """Notes when a group was first alerted about."""

    def __init__(self) -> None:
        self.at: dict[str, float] = {}
        super().__init__()
        threading.Thread(target=self._note, daemon=True).start()

    def _note(self) -> None:
        seen = 0
        while True:
            for alert in self.alerts[seen:]:
                seen += 1
                self.at.setdefault(alert["labels"]["subject"], time.time())
            time.sleep(0.005)


def failures(log: Path) -> dict[str, float]:
    """By group the time of the line by which its member has failed."""
    found: dict[str, float] = {}
    for line in log.read_text().splitlines():
        if match := FAILED.search(line):
            at = datetime.strptime(line[1:24], "%Y-%m-%d %H:%M:%S,%f").replace(tzinfo=UTC)
            found.setdefault(match[1], at.timestamp())
    return found


def row(what: str, took: Sequence[float], of: int) -> str:
    if not took:
        return f"| {what} | – | – | – | 0 of {of} |"
    ordered = sorted(took)
    late = ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]
    return f"| {what} | {statistics.median(took):.2f} | {late:.2f} | {ordered[-1]:.2f} | {len(took)} of {of} |"


def measure(asked: argparse.Namespace) -> None:
    with tempfile.TemporaryDirectory() as folder, Cluster(COMPILED) as cluster:
        place = Path(folder)
        logs, warehouse = place / "logs", place / "warehouse"
        logs.mkdir()
        offsets = NewTopic(OFFSETS_TOPIC, OFFSETS_PARTITIONS, 1, config={"cleanup.policy": "compact"})
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        for created in admin.create_topics([offsets]).values():
            created.result(60)
        arrivals, said = Arrivals(), place / "said.txt"
        rows, shown = PublishedRows(warehouse), ShownRows(warehouse)
        spawning = multiprocessing.get_context("spawn")
        begun, goes_on = spawning.Event(), spawning.Event()
        writer = spawning.Process(
            target=write, args=(asked, cluster.bootstrap, logs / "server.log", begun, goes_on), daemon=True
        )
        writer.start()
        begun.wait(CATCHING_UP_S)
        with said.open("w") as output:
            watch = subprocess.Popen(
                [
                    sys.executable, "-m", "rebalance_audit.cli", "watch", "-w", str(warehouse), "-b", cluster.bootstrap,
                    "--logs", f"broker-1={logs}", "--to", arrivals.url,
                ],
                stdout=output, stderr=output,
            )  # fmt: skip
        give_up_at = time.time() + CATCHING_UP_S
        while "Caught up" not in said.read_text() and time.time() < give_up_at:
            time.sleep(0.5)
        goes_on.set()
        rows.start()
        shown.start()
        time.sleep(SETTLING_S)
        before, began = cpu_s([watch.pid]), time.time()
        most_mb = 0
        while writer.is_alive():
            most_mb = max(most_mb, memory_mb([watch.pid]))
            time.sleep(1)
        used, took = cpu_s([watch.pid]) - before, time.time() - began
        time.sleep(AFTERWARDS_S)
        rows.stopped.set()
        shown.stopped.set()
        watch.terminate()
        asked_at = time.time()
        try:
            watch.wait(CATCHING_UP_S)
        except subprocess.TimeoutExpired:
            watch.kill()
        ended_s = time.time() - asked_at
        failed = {group: at for group, at in failures(logs / "server.log").items() if at >= began}
        print(f"{asked.groups:,} groups with {asked.lived} rebalances before, "
              f"{asked.commits:,} commits and {asked.rebalances} rebalances a second: "
              f"{used / took:.2f} of a core, {most_mb:,} MB at most, over {took:.0f} s; "
              f"ended {ended_s:.0f} s after SIGTERM; load {os.getloadavg()[0]:.1f}")  # fmt: skip
        print("| from the line of the failed member to | s, median | 99 % | most | seen |")
        print("|---|---:|---:|---:|---|")
        for what, seen in (
            ("the alert", arrivals.at), ("a line of the app's list of incidents", shown.incidents),
            ("a row of the app's page of the group", shown.rebalances), ("the tables", rows.seen),
        ):  # fmt: skip
            print(row(what, [seen[group] - at for group, at in failed.items() if group in seen], len(failed)))
        print(f"A look of the app's reader, once a second: {statistics.median(shown.looks_s):.3f} CPU s.")
        arrivals.close()
        if not failed.keys() <= arrivals.at.keys() & rows.seen.keys():
            print(said.read_text()[-2_000:], file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--commits", type=int, default=20_000, help="a second")
    parser.add_argument("--rebalances", type=float, default=5, help="a second")
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--lived", type=int, default=1, help="rebalances of each group before")
    signal.signal(signal.SIGTERM, unwind_once)  # the lab goes with it
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
