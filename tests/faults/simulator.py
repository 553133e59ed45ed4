"""One seed is one run of `watch` with its faults: collect, land, fold, alert; clock, disk and network are simulated.

    python -m tests.faults.simulator [RUNS] [--seed N]

The collector, the landing, the memory, the judge and the alerts are the real ones. Stand-ins, since the real ones have
no seed: the consumer (a broker's log as a golden capture has it, which comes as the clock goes on), the calls by which
landing files and the alert state become durable, the clock, the receiver, and the tables (what was landed, gathered by
the domain's own functions; the stages' own crashes are tested in tests/spark_jobs).
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import ingest.collector
import ingest.messages
import rebalance_audit.alerts.sending
import rebalance_audit.alerts.state
import rebalance_audit.warehouse.storage
from ingest.collect_settings import CollectSettings
from ingest.collector import Landed
from ingest.errors import Retryable
from ingest.landing import Landing
from rebalance_audit.alerts.news import AlertRound
from rebalance_audit.alerts.sending import send_alerts
from rebalance_audit.domain.incidents import Incident
from rebalance_audit.domain.records.commit_keys import is_commit_key
from rebalance_audit.live.heard import Heard
from rebalance_audit.live.judge import Judge
from rebalance_audit.live.memory import ClusterMemory
from tests.faults.stand_ins import (
    CLUSTER,
    DISK_FAULTS,
    FIRST_LINE,
    KILL_POINTS,
    TARGET,
    Disk,
    Killed,
    Message,
    Plan,
    Reader,
    Receiver,
    SimulatedSender,
    Tables,
    World,
    evidence,
)

MOST_LIVES = 60


@dataclass
class Outcome:
    records: set[tuple[int, int]]
    lines: set[str]
    rebalances: list[Any]
    receiver: Receiver
    lives: int


class _Life:
    """One process: catches up, and then follows. A Follower of the collector."""

    def __init__(self, world: World, warehouse: Path, receiver: Receiver) -> None:
        self.world, self.warehouse, self.receiver = world, warehouse, receiver
        self.state = warehouse / "notes" / "alerts.json"
        self.memory: ClusterMemory | None = None
        self.judge = Judge(lambda: ClusterMemory(CLUSTER, Tables(warehouse)), self._send_live, clock=self._clock)

    def _clock(self) -> float:
        return self.world.now_ms / 1_000

    def _send_live(self, incidents: Sequence[Incident]) -> bool:
        return not send_alerts(AlertRound(incidents, is_live=True), [TARGET], self.state).failures

    def caught_up(self) -> None:
        self._run_tables(set())
        self.memory = self.judge._begin()

    def landed(self, news: Landed) -> None:
        """No alert comes before its evidence is durable: what is heard of here is whole on the disk."""
        if self.memory is None:
            return
        self.judge.take(self.memory, [Heard.of(news)])
        self.judge.judge(self.memory)
        if self.world.plan.rng.random() < 0.05:  # the stages run some time after
            self._run_tables(set())

    def _run_tables(self, newer: set[str]) -> None:
        incidents = Tables(self.warehouse).incidents()
        send_alerts(AlertRound(incidents, is_all=True, except_ids=newer), [TARGET], self.state)


def run(seed: int, rate: float) -> tuple[Outcome, Plan]:
    """One run, over as many lives as it takes."""
    plan = Plan(random.Random(seed), rate)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=_memory_folder())))
        world, warehouse, receiver, disk = World(plan, folder), folder / "warehouse", Receiver(plan), Disk(plan)
        for module in (rebalance_audit.warehouse.storage, rebalance_audit.alerts.state):
            stack.enter_context(patch.object(module, "os", disk))
        stack.enter_context(patch.object(rebalance_audit.warehouse.storage, "open", disk.open_file, create=True))
        for module in (ingest.messages, ingest.collector):
            stack.enter_context(patch.object(module, "Message", Message))
        sender = SimulatedSender(receiver)
        stack.enter_context(
            patch.object(rebalance_audit.alerts.sending, "sender_for", lambda target: sender)
        )  # fmt: skip
        lives = 0
        while not world.is_over or plan.is_dead:
            lives += 1
            if lives == MOST_LIVES:
                plan.rate = 0.0  # it has had enough: now it must come right
            plan.is_dead = False
            _live(world, warehouse, receiver)
            if plan.strikes("second writer"):  # one that knows no positions, and lands everything once more
                shutil.rmtree(warehouse / "positions", ignore_errors=True)
                _live(world, warehouse, receiver, _after(20))
        plan.rate, plan.is_dead = 0.0, False
        _live(world, warehouse, receiver, _after(30))
        tables = Tables(warehouse)
        outcome = Outcome(
            records={(r.partition, r.offset) for r in tables.records},
            lines={line.text for line in tables.lines},
            rebalances=[r for _, of in sorted(tables.rows.groups.items()) for r in of],
            receiver=receiver,
            lives=lives,
        )
    return outcome, plan


def _after(rounds: int) -> Callable[[], bool]:
    left = iter(range(rounds))
    return lambda: next(left, None) is None


def _live(world: World, warehouse: Path, receiver: Receiver, until: Callable[[], bool] | None = None) -> None:
    life = _Life(world, warehouse, receiver)
    settings = CollectSettings(
        cluster_id=CLUSTER, logs=[("broker-1", str(world.logs / "*.log"))], is_live=True, flush_ms=2_000,
        is_urgent=lambda topic, key: not is_commit_key(key),
    )  # fmt: skip
    stop = until or (lambda: world.is_over)
    try:
        while not stop():
            try:
                collector = ingest.collector._Collector(
                    settings, Landing(warehouse), CLUSTER, lambda line: None, world.clock_ms, life
                )
                with (
                    patch.object(ingest.collector, "topics_to_read", lambda cluster, settings: ({}, {})),
                    patch.object(
                        ingest.collector,
                        "BrokerReader",
                        lambda cluster, topics, positions, owned: Reader(world, positions),
                    ),  # fmt: skip
                ):
                    collector.run(_Cluster(), stop, lambda done, total, what: None)  # type: ignore[arg-type]
            except Retryable:
                world.tick()  # `watch` asks again
    except Killed:
        pass
    except OSError:  # `watch` ends with the sentence, and whoever keeps it running starts it again
        pass


class _Cluster:
    def take_errors(self) -> list[str]:
        return []


def _memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


@cache
def undisturbed() -> Outcome:
    outcome, _ = run(0, 0.0)
    records, lines = evidence()
    assert outcome.records == {(r.partition, r.offset) for _, r in records}
    assert outcome.lines == {FIRST_LINE, *(line.text for _, line in lines)}
    assert outcome.receiver.opened
    return outcome


def check(seed: int) -> Plan:
    """Raises AssertionError where a run with faults ends otherwise than one without."""
    rate = random.Random(seed).choice((0.0003, 0.001, 0.003, 0.01))
    outcome, plan = run(seed, rate)
    expected = undisturbed()
    assert outcome.records == expected.records, f"seed {seed}: records differ"
    assert outcome.lines == expected.lines, f"seed {seed}: lines differ"
    assert outcome.rebalances == expected.rebalances, f"seed {seed}: rebalances differ"
    lost = expected.receiver.opened - outcome.receiver.opened
    assert not lost, f"seed {seed}: alerts lost: {lost}"
    assert not outcome.receiver.opened - expected.receiver.opened, f"seed {seed}: alerts of nothing"
    assert not outcome.receiver.withdrawn, f"seed {seed}: withdrawn: {outcome.receiver.withdrawn}"
    # A message is sent twice only where the process died, or the disk failed, between its delivery and its being noted.
    plan.counts["messages a receiver had to know again"] += outcome.receiver.twice
    noted = sum(plan.counts[name] for name in (*(f"kill {p}" for p in KILL_POINTS), *DISK_FAULTS))
    assert outcome.receiver.twice <= noted, f"seed {seed}: sent twice without a reason"
    plan.counts["lives"] += outcome.lives
    return plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=5_000)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    asked = parser.parse_args()
    counts: Counter[str] = Counter()
    failed = []
    for seed in range(asked.seed, asked.seed + asked.runs):
        try:
            counts += check(seed).counts
        except AssertionError as error:
            failed.append(str(error))
            print(error, file=sys.stderr, flush=True)
        if (done := seed - asked.seed + 1) % 20 == 0:
            print(f"{done:,} runs, {len(failed)} failed", file=sys.stderr, flush=True)
    print(f"{asked.runs:,} runs, {len(failed)} ended otherwise than the undisturbed one.")
    for name, count in sorted(counts.items()):
        print(f"{count:>9,}  {name}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
