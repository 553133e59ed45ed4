"""Incidents in memory, worked out again around the news: the same as over everything at once, but for those that ended
so long ago that they were let go."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.incidents import ClusterRows, incident_row, incidents_of
from rebalance_audit.domain.publish.leader_moves import LeaderMove
from rebalance_audit.live.memory import ClusterMemory
from rebalance_audit.live.remembered import RememberedCluster
from tests.captures import GOLDEN
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory
from tests.domain.incidents.fleet_story import HOUR_S, a_fleet, loses_coordinator
from tests.live.arrivals import arrivals
from tests.live.no_past import NoPast


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 7, 8, 11, 19, 20, 23, 24, 30, 73, 168, 193])
def test_groups_that_are_folded_one_after_the_other(seed: int) -> None:
    random, of_tables = Random(seed), Random(seed)
    stories, moves = a_fleet(random)
    published: list[LeaderMove] = []
    cluster = RememberedCluster(ClusterRows(cluster_id=CLUSTER, now_ms=T0_MS), None)
    folded: dict[str, Any] = {}
    at_s = 0.0
    while at_s < 7.5 * HOUR_S:
        at_s += random.choice((2, 15, 60, 300, 1_500)) * random.uniform(0.5, 1.5)
        now_ms = T0_MS + round(at_s * 1000)
        for story in stories:
            past = [r for r in story.rebalances if (r.assigned_at_ms or 0) <= now_ms]
            if past != folded.get(story.group_id, ([], []))[0] and random.random() < 0.8:
                folded[story.group_id] = past, detect_group(past, (), seen_until_ms=now_ms)
                cluster.put(story.group_id, past, (), folded[story.group_id][1])
        if of_tables.random() < 0.5:  # a round of the stages ends
            published = [move for move in moves if move.at_ms <= now_ms]
            cluster.put_moves([move for move in published if move.at_ms >= cluster.moves_since_ms])
        expected, _ = incidents_of(
            ClusterRows(
                cluster_id=CLUSTER,
                now_ms=now_ms,
                groups={g: past for g, (past, _) in folded.items()},
                leader_moves=published,
                findings=[(g, f) for g, (_, findings) in folded.items() for f in findings],
            )
        )
        of_cluster = cluster.incidents(now_ms)  # what was open for long is forgotten some time after it ended
        found, recent = (
            [i for i in incidents if i.status == "open" or i.last_at_ms >= (cluster.since_ms or 0)]
            for incidents in (of_cluster, expected)
        )
        assert list(map(incident_row, found)) == list(map(incident_row, recent)), at_s
        assert cluster.incidents_of(["g4"], now_ms) == [i for i in of_cluster if "g4" in i.group_ids]
    assert cluster.since_ms is not None  # something was let go
    assert len(recent) < len(expected)


def test_a_group_that_a_stalled_broker_expired_later_joins_the_incident_of_the_first() -> None:
    stories, moves = [], []
    for group_id, at_s in (("a", 0), ("b", 20)):
        stories.append(GroupStory(group_id).joins("c1", "c2", at_s=-HOUR_S))
        moves.append(loses_coordinator(stories[-1], ["c1", "c2"], at_s, broker=1))
    cluster = RememberedCluster(ClusterRows(cluster_id=CLUSTER, now_ms=T0_MS, leader_moves=moves), None)
    for story, at_s in zip(stories, (0, 20), strict=True):
        now_ms = T0_MS + at_s * 1_000 + 1_500
        cluster.put(story.group_id, story.rebalances, (), detect_group(story.rebalances, (), seen_until_ms=now_ms))
        found = [i for i in cluster.incidents(now_ms) if i.kind == "coordinator"]
    assert [(i.culprits, i.group_ids) for i in found] == [(("broker 1",), ("a", "b"))]


def test_time_alone_makes_a_fault_of_a_broker_that_of_the_members() -> None:
    """Members of another group expired later through the same broker, so that their incident ends later."""
    stories = [GroupStory(group_id).joins("c1", "c2", "c3", at_s=-HOUR_S) for group_id in ("orders", "refunds")]
    moves = [
        loses_coordinator(story, ["c1", "c2", "c3"], at_s, broker=1)
        for story, at_s in zip(stories, (0, 50), strict=True)
    ]
    cluster = RememberedCluster(ClusterRows(cluster_id=CLUSTER, now_ms=T0_MS), None)
    for story in stories:
        findings = detect_group(story.rebalances, (), seen_until_ms=T0_MS + 400_000)
        cluster.put(story.group_id, story.rebalances, (), findings)
    cluster.put_moves(moves)
    for at_s, kinds in ((250, {"coordinator"}), (300, {"coordinator"}), (301, {"coordinator", "member_fault"})):
        found = cluster.incidents(T0_MS + at_s * 1_000)
        assert {incident.kind for incident in found if not incident.expected} == kinds


@pytest.mark.parametrize("name", ["connect_worker_lost", "rolling_deploy", "storm", "reassign_moves"])
def test_a_capture_that_arrives_piece_by_piece(name: str) -> None:
    memory: ClusterMemory | None = None
    for records, lines in arrivals(GOLDEN / "4.3.0" / name, piece_ms=2_000):
        if memory is None:
            memory = ClusterMemory((records or lines)[0].cluster_id, NoPast())
        for group_id in memory.take(records, lines):
            memory.fold(group_id)
        around = memory._around
        now = memory.incidents()
        expected, _ = incidents_of(around.rows(around._groups.keys(), 0, apart=True))
        assert list(map(incident_row, now)) == list(map(incident_row, expected))
