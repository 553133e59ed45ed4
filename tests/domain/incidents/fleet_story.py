"""Groups whose members share hosts, and what happens to them by chance."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from rebalance_audit.domain.publish.leader_moves import LeaderMove
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory

HOUR_S = 3_600
CLIENTS = ("c1", "c2", "c3")


def a_fleet(random: Random, name: str = "g", network: str = "/10.0.0.") -> tuple[list[GroupStory], list[LeaderMove]]:
    """Seven hours of groups whose members share hosts: single changes, hosts that die, brokers that restart, brokers
    that stand still and expire all members of their groups."""
    groups = [f"{name}{n}" for n in range(6)]
    hosts = {(g, c): f"{network}{random.choice((1, 2, 3))}" for g in groups for c in CLIENTS}
    events: dict[str, list[tuple[float, str, str]]] = {g: [] for g in groups}
    brokers: dict[tuple[str, float], int] = {}
    at_s = 100.0
    while at_s < 7 * HOUR_S:
        kind, host, broker = random.random(), random.choice(sorted(set(hosts.values()))), random.randrange(3)
        for group in groups:
            if kind < 0.2 and random.random() < 0.7:  # its host dies
                there = [c for c in CLIENTS if hosts[group, c] == host]
                events[group] += [(at_s + random.uniform(0, 50), "vanishes", c) for c in there]
            elif kind > 0.85 and random.random() < 0.7:
                when_s = at_s + random.uniform(0, 80)
                brokers[group, when_s] = broker
                events[group].append((when_s, "fails over" if kind > 0.9 else "is expired", ""))
        _grow_a_topic(random, events, at_s)
        if 0.2 <= kind <= 0.85:
            what = random.choice(("leaves", "vanishes", "exceeds_poll_interval"))
            events[random.choice(groups)].append((at_s, what, random.choice(CLIENTS)))
        at_s += random.choice((20, 90, 400, 2_500)) * random.uniform(0.5, 1.5)
    stories, found = [], []
    for group in groups:
        story = GroupStory(group)
        for client in CLIENTS:
            story.member(client, client_host=hosts[group, client], session_timeout_ms=random.choice((10_000, 45_000)))
        stories.append(story.joins(*CLIENTS, at_s=0))
        here = set(CLIENTS)
        for at_s, what, client in sorted(events[group]):
            if (group, at_s) in brokers:
                members = sorted(here) if what == "is expired" else []
                found.append(loses_coordinator(story, members, at_s, brokers[group, at_s]))
                if brokers[group, at_s] == 1:
                    here.difference_update(members[2:])
            elif what == "grows":
                story.meets_again(at_s=at_s, because="topic_metadata_changed", grown_topics=(client,))
            elif client in here and len(here) > 1:
                getattr(story, what)(client, at_s=at_s, **({"comes_back": False} if "poll" in what else {}))
                here.discard(client)
            elif client not in here:
                story.joins(client, at_s=at_s)
                here.add(client)
    return stories, found


def _grow_a_topic(random: Random, events: dict[str, list[tuple[float, str, str]]], at_s: float) -> None:
    """Now and then a topic gets partitions, and groups find them one after the other."""
    topic = random.choice(("orders", "refunds"))
    for group in random.sample(sorted(events), 3) if random.random() < 0.1 else ():
        events[group].append((at_s + random.uniform(0, 300), "grows", topic))


def loses_coordinator(story: GroupStory, expired: list[str], at_s: float, broker: int) -> LeaderMove:
    """Its broker goes, or stood still and expires these members. They are back at once; of broker 1 only two are, which
    died some seconds before they expired."""
    if not expired:
        story.meets_again(at_s=at_s, because="coordinator_failover")
        return _coordinator_moved(story, at_s, broker)
    story.meets_again(at_s=at_s, because="member_session_expired", left=expired)
    move = replace(_coordinator_moved(story, at_s, broker), cause="broker_failure", elected=None, is_cause=False)
    story.joins(*(expired[:2] if broker == 1 else expired), at_s=at_s + 1)
    if broker == 1:
        return replace(move, at_ms=move.at_ms - 4_000, after_ms=4_000)
    if broker:
        return move
    # Broker 0 only followed the group's partition: they expire before it is taken for failed.
    return replace(move, relation="coordinator_replica_failed", at_ms=move.at_ms + 4_000, after_ms=-4_000)


def _coordinator_moved(story: GroupStory, at_s: float, broker: int) -> LeaderMove:
    return LeaderMove(
        cluster_id=CLUSTER, group_id=story.group_id, relation="coordinator_moved", topic="__consumer_offsets",
        partition=7, at_ms=T0_MS + round(at_s * 1000), previous_leader=broker, elected=9, cause="broker_down",
        rebalance_id=story.rebalances[-1].rebalance_id, after_ms=0, is_cause=True,
    )  # fmt: skip
