"""Changes of leaders beside rebalances: worked by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from rebalance_audit.domain.publish.leader_moves import (
    COORDINATOR_MOVED,
    COORDINATOR_REPLICA_FAILED,
    PARTITION_LED_BY_ANOTHER,
    LeaderMove,
    Rebalanced,
    leader_moves,
    offsets_partition,
    sentence,
)
from rebalance_audit.domain.reassign import LeaderElection


def election(topic: str, partition: int, at_ms: int, *, was: int = 1, elected: int | None = 2) -> LeaderElection:
    return LeaderElection(
        cluster_id="lab", topic=topic, partition=partition, at_ms=at_ms, cause="reassignment", previous_leader=was,
        preferred_replica=2, elected=elected, outcome="elected", evidence=(f"metadata:n@{at_ms}",),
    )  # fmt: skip


def rebalance(group_id: str, at_ms: int, trigger: str = "member_joined", *partitions: tuple[str, int]) -> Rebalanced:
    return Rebalanced(
        group_id=group_id, rebalance_id=f"{group_id}@{at_ms}", at_ms=at_ms, trigger=trigger,
        partitions=frozenset(partitions),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("group_id", "partition"),
    [
        ("", 0),  # hash 0
        ("a", 97 % 50),
        ("ab", (97 * 31 + 98) % 50),
        # Java: "polygenelubricants".hashCode() is Integer.MIN_VALUE, and Utils.abs makes that 0
        ("polygenelubricants", 0),
        # Two UTF-16 units: 0xD83D * 31 + 0xDE00
        ("😀", (0xD83D * 31 + 0xDE00) % 50),
    ],
)
def test_a_group_is_in_the_partition_java_puts_it(group_id: str, partition: int) -> None:
    assert offsets_partition(group_id, 50) == partition


def moves(
    *elections: LeaderElection, rebalances: tuple[Rebalanced, ...] = (), groups: tuple[str, ...] = ("a",)
) -> list[LeaderMove]:
    return leader_moves(elections, rebalances, groups, offsets_partitions=50)


def test_a_coordinator_moves_with_its_partition_whether_the_group_rebalances_or_not() -> None:
    (quiet,) = moves(election("__consumer_offsets", 47, 10_000))
    assert (quiet.group_id, quiet.relation, quiet.rebalance_id) == ("a", COORDINATOR_MOVED, None)
    assert sentence(quiet).endswith(
        "the coordinator moved: __consumer_offsets-47, broker 2 leads it now, broker 1 did (reassignment); "
        "no rebalance followed"
    )
    (followed,) = moves(
        election("__consumer_offsets", 47, 10_000),
        rebalances=(rebalance("a", 9_000 - 1), rebalance("a", 12_500, "coordinator_failover"), rebalance("a", 13_000)),
    )
    assert (followed.rebalance_id, followed.after_ms, followed.is_cause) == ("a@12500", 2_500, True)
    assert sentence(followed).endswith("it caused the rebalance 2.5 s later")


def test_a_group_of_another_partition_keeps_its_coordinator() -> None:
    assert moves(election("__consumer_offsets", 46, 10_000)) == []


def test_a_rebalance_that_comes_long_after_has_nothing_to_do_with_it() -> None:
    (move,) = moves(election("__consumer_offsets", 47, 10_000), rebalances=(rebalance("a", 70_001),))
    assert move.rebalance_id is None
    (move,) = moves(election("__consumer_offsets", 47, 10_000), rebalances=(rebalance("a", 70_000),))
    assert (move.rebalance_id, move.is_cause) == ("a@70000", False)


def test_a_partition_that_is_read_is_shown_only_where_a_rebalance_with_it_followed() -> None:
    change = election("orders", 3, 10_000)
    assert moves(change, rebalances=(rebalance("a", 11_000, "member_joined", ("orders", 4)),)) == []
    assert moves(change, rebalances=(rebalance("a", 8_000, "member_joined", ("orders", 3)),)) == []
    (move,) = moves(change, rebalances=(rebalance("a", 9_900, "topic_metadata_changed", ("orders", 3)),))
    assert (move.relation, move.after_ms, move.is_cause) == (PARTITION_LED_BY_ANOTHER, -100, False)
    assert sentence(move).endswith("a rebalance began at the same moment")


def test_a_failed_follower_is_told_to_groups_that_rebalance_around_it() -> None:
    """Broker 1 fails. It led partition 46 of the offsets topic and `orders-3`, and followed 47, which `a` is in."""
    failures = [
        replace(election(topic, partition, at_ms), cause="broker_failure")
        for topic, partition, at_ms in (("orders", 3, 10_000), ("__consumer_offsets", 46, 10_400))
    ]
    held = {46: (1, 2), 47: (2, 1), 48: (2, 3)}

    def beside(at_ms: int, replicas: Mapping[int, tuple[int, ...]] | None = held) -> list[LeaderMove]:
        return leader_moves(failures, [rebalance("a", at_ms)], ["a"], offsets_partitions=50, replicas=replicas)

    (move,) = beside(8_200)
    assert (move.relation, move.partition, move.at_ms) == (COORDINATOR_REPLICA_FAILED, 47, 10_000)
    assert (move.previous_leader, move.elected, move.after_ms, move.is_cause) == (1, None, -1_800, False)
    assert sentence(move).endswith(
        "broker 1, which holds a copy of __consumer_offsets-47, is taken for failed: commits waited for it; a "
        "rebalance began 1.8 s earlier"
    )
    assert [m.after_ms for m in beside(21_000)] == [11_000]
    assert beside(999) == beside(70_001) == []
    assert beside(8_200, {47: (2, 3)}) == beside(8_200, None) == []


def test_an_election_of_the_same_leader_moves_nothing() -> None:
    assert moves(election("__consumer_offsets", 47, 10_000, was=2, elected=2)) == []


def test_the_reassignment_it_was_part_of_is_named() -> None:
    (move,) = leader_moves(
        [election("__consumer_offsets", 47, 10_000)], [], ["a"], offsets_partitions=50,
        reassigned={("__consumer_offsets", 47): [(1_000, 2_000, "old"), (9_000, None, "__consumer_offsets-47@88")]},
    )  # fmt: skip
    assert move.reassignment_id == "__consumer_offsets-47@88"
    assert "(reassignment __consumer_offsets-47@88)" in sentence(move)
