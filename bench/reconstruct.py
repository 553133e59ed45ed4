"""Group events a second of the pure fold: decode, reconstruct, measure, on one core, without Spark.

    python -m bench.reconstruct [generations] [rounds]

Four kinds of groups, each event a record, a log line or a commit mark: a quiet group of three members, a large one of
fifty, one in a storm (200 generations a second), and one that only logs tell of. Time is CPU time, so that a busy
machine slows the run but hardly moves the ratios. The goal is one million events in 30 s on two cores: 17,000 a second
and core. Events per row of a large group are few and big; there members a second say more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from statistics import median
from time import process_time

from rebalance_audit.domain.measure import measure
from rebalance_audit.domain.model import GroupEvidence, LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from tests.domain.reconstruct.stories import Story, a_group, member_id

T0 = 1_800_000_000_000
GOAL_PER_CORE = 1_000_000 / 30 / 2


def group(generations: int, members: int, *, apart_ms: int, partitions: int, group_id: str) -> GroupEvidence:
    """Every second generation one member is replaced by a new one; four lines and some commits a generation."""
    story: Story = a_group(group_id)
    names = [f"c{i}" for i in range(members)]
    for number in range(1, generations + 1):
        at_ms = T0 + number * apart_ms
        if number % 2 == 0:
            gone, names = names[0], [*names[1:], f"c{members + number}"]
            story.says(LogKind.MEMBER_LEFT, at_ms=at_ms, member_id=member_id(gone))
        story.preparing(number - 1, "removing member x on LeaveGroup", at_ms=at_ms)
        story.stabilized(number, at_ms=at_ms + 2, member_count=members)
        story.received(number, at_ms=at_ms + 3)
        held = {name: " ".join(str(p) for p in range(partitions) if p % members == i) for i, name in enumerate(names)}
        story.generation(number, held, at_ms=at_ms + 3, joined_at_ms=at_ms + 2)
        for partition in range(min(partitions, 6)):
            story.commit(partition, at_ms=at_ms + 4)
    return story.evidence()


def kinds(generations: int) -> Iterator[tuple[str, GroupEvidence]]:
    yield "quiet, 3 members", group(generations, 3, apart_ms=60_000, partitions=6, group_id="quiet")
    yield "large, 50 members", group(generations // 10, 50, apart_ms=60_000, partitions=100, group_id="large")
    storm = group(generations, 3, apart_ms=5, partitions=6, group_id="storm")
    yield "storm, 200 generations a second", storm
    yield "logs alone", replace(storm, records=(), marks=())


def event_count(evidence: GroupEvidence) -> int:
    return len(evidence.records) + len(evidence.lines) + len(evidence.marks)


def seconds(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        started = process_time()
        run()
        times.append(process_time() - started)
    return median(times)


def main(generations: int = 2_000, rounds: int = 3) -> None:
    print(f"{'group':34}{'events':>9}{'events/s':>11}{'twice as long':>15}{'of the goal':>13}")
    halves = dict(kinds(generations // 2))
    for name, evidence in kinds(generations):

        def fold(given: GroupEvidence) -> list[object]:
            return [measure(r) for r in reconstruct(given).rebalances]

        whole = seconds(lambda given=evidence: fold(given), rounds)  # type: ignore[misc]
        half = seconds(lambda given=halves[name]: fold(given), rounds)  # type: ignore[misc]
        per_second = event_count(evidence) / whole
        # Twice the history should cost twice the time: 2.0. More says that something looks back too far.
        print(
            f"{name:34}{event_count(evidence):>9}{per_second:>11,.0f}{whole / half:>14.2f}x"
            f"{per_second / GOAL_PER_CORE:>12.2f}x"
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
