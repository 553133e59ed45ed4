"""Kafka 2.3.1 on ZooKeeper: what its four brokers really logged while two plans were carried out that
`kafka-reassign-partitions` had written into ZooKeeper, and what ZooKeeper's transaction log holds of it
(seen/2.3.1: lines about the topic, truth read by infra/lab/java/zookeeper/TruthWrites.java).

The lab has no 2.3: no admin client of its own knows reassignments, which is how the other captures are made.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from rebalance_audit.domain.reassign import Reassignment
from tests.domain.reassign.scores import LOGS, history_of, score, truth_of

SEEN = Path(__file__).parent / "seen/2.3.1"
UNDER_LOAD_MS = 250
"""Two cores at load 15; a leader says `Expanding ISR` before it writes."""


def attempts() -> list[Reassignment]:
    return list(history_of(SEEN, LOGS).reassignments)


def test_every_move_of_both_plans_is_found_and_none_invented() -> None:
    found = [(r.name, r.original_replicas, r.target_replicas, r.outcome) for r in attempts()]
    assert sorted(found) == [
        ("orders-0", (1, 2), (3, 4), "completed"),
        ("orders-0", (3, 4), (1, 4), "completed"),
        ("orders-1", (2, 1), (3, 2), "completed"),
        ("orders-2", (1, 2), (2, 1), "completed"),
        ("orders-3", (1, 2), (1,), "completed"),
    ]


def test_states_are_those_zookeeper_was_given() -> None:
    written = [
        (tuple(e["replicas"]), e["leader"], tuple(e["isr"]), e["at_ms"])
        for e in truth_of(SEEN)["written"]
        if e["tp"] == "orders-0"
    ]
    ours = [
        (step.replicas, step.leader, step.isr, step.at_ms or 0)
        for r in attempts()
        if r.name == "orders-0"
        for step in r.steps[1:]
    ]
    theirs = [row for before, row in pairwise(written) if before[:3] != row[:3]]
    assert [row[:3] for row in ours] == [row[:3] for row in theirs]
    assert all(abs(a[3] - b[3]) <= UNDER_LOAD_MS for a, b in zip(ours, theirs, strict=True))


def test_phases_are_shown_as_in_later_releases() -> None:
    first = next(r for r in attempts() if r.name == "orders-0")
    assert [step.phase for step in first.steps] == [
        "before", "accepted", "catching_up", "catching_up", "leader_moved", "removing", "removing", "completed",
    ]  # fmt: skip
    assert first.adding_replicas == (3, 4)
    assert [each.in_isr_at_ms is not None for each in first.progress] == [True, True]


def test_every_ladder_is_exact() -> None:
    result = score(SEEN, LOGS)
    assert (result.found, result.expected, result.invented, result.ladders_exact) == (5, 5, 0, 5)


def test_what_only_shrinks_or_changes_its_order_begins_when_the_request_is_worked_on() -> None:
    """No new list of replicas is written before the end: `Handling reassignment of partition …` is the start."""
    found = {r.name: r for r in attempts() if r.name in ("orders-2", "orders-3")}
    requested_ms = 1_795_291_111_000
    assert [found[name].started_at_ms for name in sorted(found)] == [requested_ms + 1_025, requested_ms + 1_270]
    assert [step.isr for step in found["orders-3"].steps] == [(1, 2), (1,), (1,)]
