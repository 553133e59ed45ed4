"""Incidents that a broker began: a reassignment, a coordinator that moved or died, a broker that stood still."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_audit.domain.publish.leader_moves import (
    COORDINATOR_MOVED,
    COORDINATOR_REPLICA_FAILED,
    PARTITION_LED_BY_ANOTHER,
    LeaderMove,
)
from rebalance_audit.domain.reassign.model import Reassignment
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory
from tests.domain.incidents.made_up import a_group, incidents_and_marks


def test_replicas_that_move_are_no_downtime() -> None:
    moved = Reassignment(
        cluster_id=CLUSTER, reassignment_id="orders-0@7", topic="orders", partition=0, started_at_ms=T0_MS,
        outcome="open", blocked_by="throttle", evidence=("metadata:n@7",),
    )  # fmt: skip
    found, _ = incidents_and_marks(a_group(), reassignments=[moved], until_s=60)
    assert [(i.status, i.still) for i in found if i.kind == "reassignment"] == [("open", "moving")]


def move(rebalance_id: str | None, group_id: str, **more: object) -> LeaderMove:
    values: dict[str, object] = {
        "cluster_id": CLUSTER, "group_id": group_id, "relation": COORDINATOR_MOVED, "topic": "__consumer_offsets",
        "partition": 0, "at_ms": T0_MS, "previous_leader": 1, "elected": 2, "cause": "reassignment",
        "rebalance_id": rebalance_id, "is_cause": True, "evidence": ("metadata:n@1",),
    }  # fmt: skip
    return LeaderMove(**values | more)  # type: ignore[arg-type]


def test_a_reassignment_and_the_rebalances_of_the_coordinators_that_it_moved_are_one() -> None:
    one, other = (a_group(g).meets_again(at_s=2, because="coordinator_failover") for g in ("a", "b"))
    moved = Reassignment(
        cluster_id=CLUSTER, reassignment_id="__consumer_offsets-0@7", topic="__consumer_offsets", partition=0,
        started_at_ms=T0_MS - 1_000, ended_at_ms=T0_MS + 1_000, outcome="completed", evidence=("metadata:n@7",),
    )  # fmt: skip
    moves = [
        move(s.rebalances[-1].rebalance_id, s.group_id, reassignment_id=moved.reassignment_id) for s in (one, other)
    ]
    found, _ = incidents_and_marks(one, other, reassignments=[moved], leader_moves=moves)
    assert [(i.kind, i.group_ids, len(i.rebalance_ids)) for i in found] == [("reassignment", ("a", "b"), 2)]
    assert found[0].expected
    assert found[0].cost_seconds == 4.0


def test_groups_whose_coordinator_dies_are_one_incident_of_that_broker() -> None:
    one, other = (a_group(g).meets_again(at_s=2, because="coordinator_failover") for g in ("a", "b"))
    moves = [move(s.rebalances[-1].rebalance_id, s.group_id, cause="broker_failure") for s in (one, other)]
    found, _ = incidents_and_marks(one, other, leader_moves=moves)
    assert [(i.kind, i.group_ids, i.culprits) for i in found] == [("coordinator", ("a", "b"), ("broker 1",))]
    assert not found[0].expected


def expired_at_once(group_id: str, *, comes_back: bool = True, **more: object) -> tuple[GroupStory, LeaderMove]:
    """All members expire at T0; half a second later the broker is taken for failed, and they are back."""
    story = a_group(group_id).meets_again(at_s=0, because="member_session_expired", left=("c1", "c2"))
    values: dict[str, object] = {"cause": "broker_failure", "elected": None, "is_cause": False, "after_ms": -500}
    failure = move(story.rebalances[-1].rebalance_id, group_id, **values | more)
    return story.joins("c1", "c2", at_s=1) if comes_back else story, failure


def test_members_that_a_broker_expires_as_it_is_taken_for_failed_did_not_fail() -> None:
    """As on 4.3.0, whose only broker was stopped with SIGSTOP for 15 s under four groups (sessions 10 s)."""
    (one, of_one), (other, of_other) = expired_at_once("a"), expired_at_once("b")
    found, _ = incidents_and_marks(one, other, leader_moves=[of_one, of_other])
    assert [(i.kind, i.group_ids, i.culprits) for i in found] == [("coordinator", ("a", "b"), ("broker 1",))]
    assert found[0].title == "Broker 1 stood still or was cut off, and expired 4 members of 2 groups (a and b)"
    assert (found[0].root_cause, found[0].root_cause_tier) == ("coordinator_failover", "inferred")
    assert "broker 1 is taken for failed" in [link.what for link in found[0].chain]
    assert "Look for what held up broker 1 at that moment" in (found[0].advice or "")
    assert not found[0].expected


@pytest.mark.parametrize("more", [{"after_ms": -1_001}, {"after_ms": 1_001}, {"after_ms": None}, {"cause": "shutdown"}])
def test_members_that_expire_at_another_moment_than_the_broker_failed_themselves(more: dict[str, object]) -> None:
    story, failure = expired_at_once("a", comes_back=False, **more)
    found, _ = incidents_and_marks(story, leader_moves=[failure])
    assert [(i.kind, i.culprits) for i in found] == [("member_fault", ("c1", "c2"))]


def test_a_member_that_failed_before_the_broker_stood_still_is_another_incident() -> None:
    story = a_group("a").vanishes("c1", at_s=-60)
    story.meets_again(at_s=0, because="member_session_expired", left=("c2",))
    failure = move(story.rebalances[-1].rebalance_id, "a", cause="broker_failure", is_cause=False, after_ms=0)
    found, _ = incidents_and_marks(story, leader_moves=[failure])
    assert [(i.kind, i.culprits) for i in found] == [("member_fault", ("c1",)), ("coordinator", ("broker 1",))]


def expired_later(
    group_id: str, at_s: float, *, broker: int = 3, comes_back: bool = True, **more: object
) -> tuple[GroupStory, LeaderMove]:
    """A broker is taken for failed at T0, which followed the group's partition; c1 expires at `at_s`."""
    story = a_group(group_id).member("c1", session_timeout_ms=10_000).vanishes("c1", at_s=at_s)
    values: dict[str, object] = {
        "relation": COORDINATOR_REPLICA_FAILED, "cause": "broker_failure", "elected": None, "is_cause": False,
        "previous_leader": broker, "after_ms": round(at_s * 1_000),
    }  # fmt: skip
    failure = move(story.rebalances[-1].rebalance_id, group_id, **values | more)
    return story.joins("c1", at_s=at_s + 13) if comes_back else story, failure


def test_members_that_expire_behind_commits_that_wait_for_a_failed_broker_did_not_fail() -> None:
    """As on 4.3.0 with three brokers, of which one was stopped with SIGSTOP for 30 s under four groups (sessions 10 s):
    their members expired 1.8 s before it was taken for failed to 10.6 s after, and were back at most 13 s later."""
    (one, of_one), (other, of_other) = expired_later("a", -1.8), expired_later("b", 10.6, relation=COORDINATOR_MOVED)
    found, _ = incidents_and_marks(one, other, leader_moves=[of_one, of_other])
    assert [(i.kind, i.group_ids, i.culprits) for i in found] == [("coordinator", ("a", "b"), ("broker 3",))]
    assert found[0].title == (
        "Broker 3 died, stood still or was cut off; 2 members of 2 groups (a and b) expired through that"
    )
    assert (found[0].severity, found[0].expected) == ("warning", False)


def test_a_member_that_may_still_come_back_is_not_blamed_yet() -> None:
    """It expires 5 s after the broker was taken for failed; it may come back for five minutes from then on. If it comes
    later, it was the broker all the same."""
    story, failure = expired_later("a", 5, comes_back=False)
    found = {
        until_s: incidents_and_marks(story, leader_moves=[failure], until_s=until_s)[0][0] for until_s in (5, 305, 306)
    }
    for at_s in (5, 305):
        assert (found[at_s].kind, found[at_s].culprits, found[at_s].status) == ("coordinator", ("broker 3",), "open")
        assert found[at_s].title == (
            "Broker 3 died, stood still or was cut off; 1 member of a expired through that; 1 of them is not back"
        )
        assert "of those that do not return, look at the hosts" in (found[at_s].advice or "")
    assert (found[306].kind, found[306].culprits) == ("member_fault", ("c1",))
    assert len({incident.incident_id for incident in found.values()}) == 1
    after = incidents_and_marks(story.joins("c1", at_s=500), leader_moves=[failure], until_s=500)[0][0]
    assert (after.kind, after.culprits) == ("coordinator", ("broker 3",))


def test_two_brokers_that_fail_one_after_the_other_are_two_incidents() -> None:
    story, first = expired_later("a", 5)
    story.vanishes("c2", at_s=100).joins("c2", at_s=110)
    second = replace(first, rebalance_id=story.rebalances[-2].rebalance_id, previous_leader=2, at_ms=T0_MS + 95_000)
    found, _ = incidents_and_marks(story, leader_moves=[first, second])
    assert [(i.culprits, i.severity) for i in found] == [(("broker 3",), "warning"), (("broker 2",), "warning")]


def test_a_storm_that_begins_after_a_broker_failed_is_an_incident_of_its_own() -> None:
    story, failure = expired_later("a", 5)
    story.again(range(12), lambda s, n: s.vanishes("c2", at_s=120 + n * 20).joins("c2", at_s=130 + n * 20))
    found, _ = incidents_and_marks(story, leader_moves=[failure])
    assert [(i.kind, i.culprits) for i in found] == [("coordinator", ("broker 3",)), ("storm", ("c2",))]


@pytest.mark.parametrize(
    ("at_s", "comes_back", "more"),
    [
        (5, False, {}),
        (16, True, {}),
        (5, True, {"relation": PARTITION_LED_BY_ANOTHER}),
        (5, True, {"cause": "shutdown"}),
    ],
)
def test_a_member_that_expires_long_after_a_broker_failed_or_is_not_back_failed_itself(
    at_s: float, comes_back: bool, more: dict[str, Any]
) -> None:
    story, failure = expired_later("a", at_s, comes_back=comes_back, **more)
    found, _ = incidents_and_marks(story, leader_moves=[failure])
    assert [(i.kind, i.culprits) for i in found] == [("member_fault", ("c1",))]
