"""Leader elections from the metadata log as it is landed: in any order and cut they come to what the tables have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from ingest.evidence import read_evidence
from rebalance_audit.domain.metadata import SourceMetadata
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.publish.leader_moves import (
    OFFSETS_TOPIC,
    PARTITION_LED_BY_ANOTHER,
    LeaderMove,
    Rebalanced,
    leader_moves,
)
from rebalance_audit.domain.reassign import LeaderElection, ReassignmentHistory, kraft_history
from rebalance_audit.live import elections
from rebalance_audit.live.elections import KEPT_S, MetadataPast, RecentElections
from rebalance_audit.live.memory import ClusterMemory
from tests.captures import GOLDEN
from tests.domain.detect.group_story import GroupStory
from tests.live.no_past import NoPast

CLUSTER = "lab"
GROUPS = tuple(f"g{n}" for n in range(8))


@cache
def a_log() -> Sequence[SourceMetadata]:
    """Brokers that led partitions of __consumer_offsets fail in it."""
    return list(read_evidence(GOLDEN / "4.3.0" / "group_cannot_be_written").metadata())


def history(sources: Sequence[SourceMetadata]) -> ReassignmentHistory:
    return kraft_history(sources, cluster_id=CLUSTER)


def past_of(sources: Sequence[SourceMetadata]) -> MetadataPast:
    """As the tables have what these records say."""
    if not sources:
        return MetadataPast()
    known = history(sources)
    ids = {name: topic_id for topic_id, name in known.topic_names.items()}
    states = {(ids[topic], partition): replace(s, at_ms=None) for (topic, partition), s in known.states.items()}
    return MetadataPast(states, known.topic_names, sources[-1].offset + 1)


def rebalances(random: Random) -> dict[str, Sequence[Rebalance]]:
    """Some near the elections of the log, some not."""
    moments = [e.at_ms for e in history(a_log()).elections]
    found: dict[str, Sequence[Rebalance]] = {}
    for group_id in GROUPS:
        (one,) = GroupStory(group_id).joins("c1", at_s=0).rebalances
        times = sorted(random.choice(moments) + random.randrange(-20_000, 90_000) for _ in range(4))
        found[group_id] = [
            replace(one, rebalance_id=f"{group_id}@{at}", started_at_ms=at, joined_at_ms=None, assigned_at_ms=None)
            for at in times
        ]
    return found


def of_tables(known: ReassignmentHistory, of_groups: dict[str, Sequence[Rebalance]]) -> list[LeaderMove]:
    replicas = {p: of_partition for (topic, p), of_partition in known.replicas.items() if topic == OFFSETS_TOPIC}
    near = [each for rows in of_groups.values() for each in map(Rebalanced.of, rows) if each is not None]
    moves = leader_moves(known.elections, near, GROUPS, offsets_partitions=len(replicas), replicas=replicas)
    return [m for m in moves if m.relation != PARTITION_LED_BY_ANOTHER and m.rebalance_id is not None]


def live(recent: RecentElections, of_groups: dict[str, Sequence[Rebalance]]) -> list[LeaderMove]:
    moves = [move for group_id, rows in of_groups.items() for move in recent.moves_of(group_id, rows)]
    return sorted(moves, key=lambda m: (m.at_ms, m.group_id, m.topic, m.partition, m.evidence))


@pytest.mark.parametrize("seed", range(20))
def test_any_cut_of_what_is_landed_comes_to_what_the_tables_have(seed: int) -> None:
    random, log = Random(seed), a_log()
    of_groups, whole = rebalances(random), history(log)
    until = random.choice((0, random.randrange(len(log) // 4)))  # what the tables have when the judge begins
    recent = RecentElections(CLUSTER, lambda: past_of(log[:until]))
    heard_from = max(0, until - random.randrange(3) * 20)  # the last of it was landed when the judge could hear already
    at, clock = heard_from, 0.0
    concerned: set[int] = set()
    while at < len(log):
        piece = list(log[at : (end := at + random.choice((1, 5, 40)))])
        copies = [replace(r, node="another") for r in log[max(0, at - 3) : end - 1] if random.random() < 0.3]
        random.shuffle(piece)
        clock += 1.0
        concerned |= recent.take([*piece, *copies], clock)
        if random.random() < 0.3:  # the tables are published, with all of it or a little less
            landed = min(end, len(log)) if random.random() < 0.5 else at
            stored = history(log[:landed]).elections if landed else ()
            moment = clock + 0.5 if landed > at else clock
            recent.published(moment, [e for e in stored if e.at_ms >= recent.since_ms])
        at = end
    assert live(recent, of_groups) == of_tables(whole, of_groups)
    assert recent.concerned(GROUPS, concerned) >= {m.group_id for m in live(recent, of_groups)}


class Tables(NoPast):
    """As they were published last."""

    def __init__(self) -> None:
        self.landed: Sequence[SourceMetadata] = ()
        self.moves: Sequence[LeaderMove] = ()

    def leader_moves(self, since_ms: int) -> Sequence[LeaderMove]:
        return [move for move in self.moves if move.at_ms >= since_ms]

    def of_metadata(self) -> MetadataPast:
        return past_of(self.landed)

    def elections(self, since_ms: int) -> Sequence[LeaderElection]:
        return [e for e in history(self.landed).elections if e.at_ms >= since_ms] if self.landed else ()


@pytest.mark.parametrize("seed", range(20))
def test_log_rebalances_and_tables_in_any_order_come_to_the_moves_of_the_tables(seed: int) -> None:
    random, log, tables = Random(seed), a_log(), Tables()
    of_groups = rebalances(random)
    memory, known = ClusterMemory(CLUSTER, tables), dict[str, Sequence[Rebalance]]()
    steps = [*["log"] * 12, *GROUPS * 3, *["publish"] * 6]
    random.shuffle(steps)
    cuts, at, clock = [0, *sorted(random.choices(range(len(log)), k=11)), len(log)], 0, 0.0
    for step in steps:
        clock += 1.0
        if step == "log":
            at += 1
            memory.move_leaders(memory.take_metadata(log[cuts[at - 1] : cuts[at]], clock))
        elif step == "publish":  # it began a moment ago
            tables.landed = log[: cuts[at]]
            tables.moves = of_tables(history(tables.landed), known) if tables.landed else ()
            memory.learn_moves(clock - 0.5)
        else:  # some of what the group went through, each time more
            count = min(len(known.get(step, ())) + random.choice((1, 2, 4)), 4)
            known[step] = of_groups[step][:count]
            memory._around.put(step, known[step], (), ())
            memory.move_leaders([step])
    moves = memory._around._rows.leader_moves
    expected = of_tables(history(log), known)
    assert sorted((m.place, m.rebalance_id) for m in moves) == sorted((m.place, m.rebalance_id) for m in expected)
    tables.landed, tables.moves = log, expected
    memory.learn_moves(clock + 1)
    assert set(memory._around._rows.leader_moves) == set(expected)


def test_what_the_log_says_no_more_is_dropped_when_the_tables_say_so() -> None:
    """A controller that lost its quorum may have written it, and another one wrote something else."""
    recent, of_groups = RecentElections(CLUSTER, MetadataPast), rebalances(Random(1))
    recent.take(a_log(), 1.0)
    assert live(recent, of_groups)
    recent.published(1.0, ())  # what was landed at this moment may not be in them yet
    assert live(recent, of_groups)
    recent.published(2.0, ())
    assert not recent


def test_elections_stay_where_the_tables_cite_another_nodes_copy() -> None:
    recent, of_groups = RecentElections(CLUSTER, MetadataPast), rebalances(Random(1))
    recent.take([replace(r, node="another") for r in a_log()], 1.0)
    before = live(recent, of_groups)
    concerned = recent.published(2.0, history(a_log()).elections)
    after = live(recent, of_groups)
    assert before != after == of_tables(history(a_log()), of_groups)
    assert recent.concerned(GROUPS, concerned) >= {move.group_id for move in after}


def test_elections_stay_as_long_as_the_tables_may_lack_the_rebalances_beside_them() -> None:
    recent = RecentElections(CLUSTER, MetadataPast)
    recent.take(a_log(), 1.0)
    stored = history(a_log()).elections
    recent.published(1.0 + KEPT_S, stored)
    assert recent
    recent.published(1.1 + KEPT_S, stored)
    assert not recent


def test_only_so_many_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    recent = RecentElections(CLUSTER, MetadataPast)
    monkeypatch.setattr(elections, "MOST_ELECTIONS", 1)
    recent.take(a_log(), 1.0)
    assert recent.since_ms == max(e.at_ms for e in history(a_log()).elections if e.cause != "reassignment")
