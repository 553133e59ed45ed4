"""Incidents of made-up histories: what belongs together, what does not, and the laws that hold for every history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.incidents import (
    ChangeMark,
    ClusterRows,
    Incident,
    has_cost,
    incident_of,
    incident_row,
    incidents_of,
)
from rebalance_audit.domain.model import Finding, Rebalance
from rebalance_audit.domain.numbers import cost_of
from rebalance_audit.domain.publish.leader_moves import (
    COORDINATOR_MOVED,
    COORDINATOR_REPLICA_FAILED,
    PARTITION_LED_BY_ANOTHER,
    LeaderMove,
)
from rebalance_audit.domain.reassign.model import Reassignment
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory

MINUTE_S, HOUR_S = 60, 3_600


def a_group(group_id: str = "orders", **facts: object) -> GroupStory:
    """Three members that joined long ago."""
    story = GroupStory(group_id, **facts)  # type: ignore[arg-type]
    return story.joins("c1", "c2", "c3", at_s=-2 * HOUR_S)


def incidents_and_marks(
    *stories: GroupStory, until_s: float = 12 * HOUR_S, **more: object
) -> tuple[list[Incident], list[ChangeMark]]:
    now_ms = T0_MS + round(until_s * 1000)
    findings: list[tuple[str | None, Finding]] = [
        (s.group_id, f) for s in stories for f in detect_group(s.rebalances, s.tasks, seen_until_ms=now_ms)
    ]
    return incidents_of(
        ClusterRows(
            cluster_id=CLUSTER,
            now_ms=now_ms,
            groups={s.group_id: costing(s.rebalances) for s in stories},
            tasks=[t for s in stories for t in s.tasks],
            findings=findings,
            **more,  # type: ignore[arg-type]
        )
    )


def costing(rebalances: Sequence[Rebalance]) -> list[Rebalance]:
    """Each a cost of its own, so that sums show what is missing."""
    return [
        r
        if r.outcome in ("missing", "open", "superseded")
        else replace(
            r, resource_seconds_lower=1.0 * n, resource_seconds_estimate=2.0 * n, resource_seconds_upper=4.0 * n
        )
        for n, r in enumerate(rebalances)
    ]


def kinds(incidents: Sequence[Incident]) -> list[tuple[str, int]]:
    return [(i.kind, len(i.rebalance_ids)) for i in incidents]


def test_a_member_that_vanishes_a_minute_after_the_first_makes_the_incident_wider() -> None:
    one, _ = incidents_and_marks(a_group().vanishes("c1", at_s=0), until_s=30)
    both, _ = incidents_and_marks(a_group().vanishes("c1", at_s=0).vanishes("c2", at_s=60), until_s=90)
    assert [i.culprits for i in one] == [("c1",)]
    assert [i.culprits for i in both] == [("c1", "c2")]
    assert one[0].incident_id == both[0].incident_id
    assert [i.status for i in (*one, *both)] == ["open", "open"]


def test_members_of_one_client_id_on_two_hosts_are_two_culprits() -> None:
    """As most services are deployed; else the second one to die would be no news to anybody."""
    group = a_group()
    for name, host in (("c1", "/10.0.0.1"), ("c2", "/10.0.0.2"), ("c3", "/10.0.0.3")):
        group.member(name, client_id="orders", client_host=host)
    group.joins("c4", at_s=-HOUR_S)
    one, _ = incidents_and_marks(group.vanishes("c1", at_s=0), until_s=30)
    both, _ = incidents_and_marks(group.vanishes("c2", at_s=60), until_s=90)
    assert [i.culprits for i in one if not i.expected] == [("orders",)]
    assert [i.culprits for i in both if not i.expected] == [("orders (/10.0.0.1)", "orders (/10.0.0.2)")]
    who = "orders (/10.0.0.1) and orders (/10.0.0.2) of orders"
    assert f"{who} sent no heartbeat until their session expired" in both[-1].title


def test_who_failed_is_named_with_the_host_that_it_ran_on() -> None:
    """A static member's as well, whose identity is its instance id; a loopback address names no host."""
    story = GroupStory("orders").member("c1", client_host="/10.0.0.1")
    story.member("c2", client_host="/10.0.0.2", group_instance_id="pod-2").joins("c1", "c2", "c3", at_s=-2 * HOUR_S)
    (one,) = incidents_and_marks(story.vanishes("c1", at_s=0).vanishes("c2", at_s=5))[0]
    assert one.title == "c1 (/10.0.0.1) and pod-2 (/10.0.0.2) of orders sent no heartbeat until their session expired"
    assert (one.culprits, one.hosts) == (("c1", "pod-2"), ("/10.0.0.1", "/10.0.0.2"))
    assert "Look at host /10.0.0.1 (c1) and host /10.0.0.2 (pod-2) for a kill" in (one.advice or "")
    (lab,) = incidents_and_marks(a_group("lab").member("c1", client_host="/127.0.0.1").vanishes("c1", at_s=0))[0]
    assert (lab.title, lab.hosts) == ("c1 of lab sent no heartbeat until its session expired", ())


def test_members_that_vanish_an_hour_apart_are_two_incidents() -> None:
    found, _ = incidents_and_marks(a_group().vanishes("c1", at_s=0).vanishes("c2", at_s=HOUR_S))
    assert kinds(found) == [("member_fault", 1), ("member_fault", 1)]
    assert {i.status for i in found} == {"over"}


def test_the_return_of_a_member_that_vanished_belongs_to_its_vanishing() -> None:
    found, _ = incidents_and_marks(a_group().vanishes("c1", at_s=0).joins("c1", at_s=120))
    assert kinds(found) == [("member_fault", 2)]
    assert found[0].culprits == ("c1",)


def test_a_deploy_is_one_incident_expected_and_marked() -> None:
    found, marks = incidents_and_marks(a_group().deploys("c1", "c2", "c3", from_s=0, each_s=60))
    assert kinds(found) == [("deploy", 6)]
    assert found[0].expected
    assert found[0].severity == "info"
    assert found[0].culprits == ("c1", "c2", "c3")
    assert [(m.scope, m.source) for m in marks] == [("orders", "evidence")]


def test_a_deploy_of_workers_is_advised_about_connects_delay_and_no_consumers_setting() -> None:
    story = GroupStory("connect", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", "w2", "w3", at_s=-HOUR_S).deploys("w1", "w2", "w3", from_s=0, each_s=60)
    (found,), _ = incidents_and_marks(story)
    assert (found.kind, found.expected) == ("deploy", True)
    assert "scheduled.rebalance.max.delay.ms" in (found.advice or "")
    assert "group." not in (found.advice or "")


def test_pods_with_new_names_that_take_the_places_of_old_ones_are_a_deploy() -> None:
    old_first = a_group().leaves("c1", at_s=0).joins("p1", at_s=20).leaves("c2", at_s=60).joins("p2", at_s=80)
    new_first = a_group().joins("p1", at_s=0).leaves("c1", at_s=20).joins("p2", at_s=60).leaves("c2", at_s=80)
    assert kinds(incidents_and_marks(old_first)[0]) == [("deploy", 4)]
    assert kinds(incidents_and_marks(new_first)[0]) == [("deploy", 4)]


def test_a_newcomer_that_comes_in_the_round_in_which_another_goes_takes_its_place() -> None:
    """Also where the group has only just come up: this is no part of its start."""
    group = a_group().joins("p1", at_s=0).joins("p2", at_s=20).leaves("c1", joined=("p3",), at_s=40)
    assert [(i.kind, i.culprits) for i in incidents_and_marks(group)[0]] == [
        ("scaling", ("p1", "p2")),
        ("deploy", ("c1", "p3")),
    ]


def test_who_leaves_and_has_no_successor_was_neither_restarted_nor_replaced() -> None:
    one = a_group().deploys("c1", from_s=0, each_s=60).leaves("c2", at_s=80)
    assert [i.title for i in incidents_and_marks(one)[0]] == ["c1 of orders was restarted; c2 left"]
    two = a_group().deploys("c1", "c2", from_s=0, each_s=60).leaves("c3", at_s=140)
    assert [i.title for i in incidents_and_marks(two)[0]] == ["Deploy of orders: c1 and c2 were restarted; c3 left"]
    replaced = a_group().leaves("c1", at_s=0).joins("p1", at_s=20).leaves("c2", at_s=60)
    assert [i.title for i in incidents_and_marks(replaced)[0]] == ["c1 of orders was replaced by p1; c2 left"]


def test_a_deploy_says_restarted_or_replaced_only_where_evidence_cannot_decide() -> None:
    def title(group: GroupStory) -> str:
        (incident,) = (i for i in incidents_and_marks(group)[0] if i.kind == "deploy")
        return incident.title

    restarted = a_group().deploys("c1", "c2", "c3", from_s=0, each_s=60)
    assert title(restarted) == "Deploy of orders: c1, c2 and c3 were restarted"
    replaced = a_group().leaves("c1", at_s=0).joins("p1", at_s=20).leaves("c2", at_s=60).joins("p2", at_s=80)
    assert title(replaced) == "Deploy of orders: c1 and c2 were replaced by p1 and p2"
    both = a_group().deploys("c1", from_s=0, each_s=60).joins("p1", at_s=60).leaves("c2", at_s=80)
    assert title(both) == "Deploy of orders: c1 was restarted; c2 was replaced by p1"
    wider = a_group().deploys("c1", from_s=0, each_s=60).joins("p1", at_s=60)
    assert title(wider) == "c1 of orders was restarted; p1 joined"


def test_a_client_id_that_comes_back_from_another_host_was_restarted_or_replaced() -> None:
    """As a pod does whose address is new; with an instance id it is the same member for certain."""

    def title(**facts: str) -> str:
        group = GroupStory("orders")
        for place, name in enumerate(("a", "b", "c")):
            own = {key: f"{value}-{place % 2}" for key, value in facts.items()}
            group.member(name, client_id="shop", client_host=f"/10.0.0.{place}", **own)
        group.joins("a", "b", at_s=-2 * HOUR_S).leaves("a", at_s=0).joins("c", at_s=20)
        (incident,) = (i for i in incidents_and_marks(group)[0] if i.kind == "deploy")
        return incident.title

    assert title() == "Deploy of orders: shop (/10.0.0.0) and shop (/10.0.0.2) were restarted or replaced"
    assert title(group_instance_id="i") == "i-0 of orders was restarted"


def test_a_client_id_that_comes_back_from_a_host_that_is_not_known_was_restarted_or_replaced() -> None:
    group = a_group()
    group.member("c1", client_host=None)
    found, _ = incidents_and_marks(group.joins("c1", at_s=-HOUR_S).deploys("c1", from_s=0, each_s=60))
    assert [i.title for i in found if i.kind == "deploy"] == ["c1 of orders was restarted or replaced"]


def test_members_of_one_name_that_are_replaced_one_by_one_are_a_deploy_and_no_flapping_member() -> None:
    """librdkafka's client id is `rdkafka` unless somebody sets it; what fails later is a trouble of its own."""
    group = GroupStory("orders")
    for name in ("c1", "c2", "c3", "c4"):
        group.member(name, client_id="rdkafka")
    group.joins("c1", "c2", "c3", "c4", at_s=-2 * HOUR_S).deploys("c1", "c2", from_s=0, each_s=30)
    found, _ = incidents_and_marks(group.vanishes("c4", at_s=100).joins("c4", at_s=130))
    assert kinds(found) == [("deploy", 4), ("member_fault", 2)]


def test_one_of_several_members_of_one_name_that_comes_and_goes_for_hours_is_found() -> None:
    group = GroupStory("orders")
    for name in ("c1", "c2"):
        group.member(name, client_id="rdkafka")
    group.joins("c1", "c2", at_s=-2 * HOUR_S)
    for minute in range(0, 110, 10):
        group.leaves("c1", at_s=MINUTE_S * minute).joins("c1", at_s=MINUTE_S * minute + 20)
    found, _ = incidents_and_marks(group)
    assert kinds(found) == [("deploy", 22)]
    assert found[0].severity == "warning"


def test_a_connector_that_is_reconfigured_every_ten_seconds_is_one_incident() -> None:
    """MirrorMaker 2 whose two aliases are one cluster. A change on purpose may take 5 s: after that comes another."""
    story = GroupStory("mm2", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", at_s=-HOUR_S)
    for turn in range(15):
        story.meets_again(at_s=10 * turn, because="connect_config_changed", changed_connectors=("mirror",))
    (found,), _ = incidents_and_marks(story)
    assert (found.kind, len(found.rebalance_ids), found.expected, found.culprits) == (
        "configuration", 15, False, ("mirror",)
    )  # fmt: skip


def test_tasks_that_a_connector_rewrites_by_itself_are_one_incident_and_a_change_by_somebody_is_another() -> None:
    """Slower than a change on purpose takes, and too seldom to be called a loop."""
    story = GroupStory("mm2", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", at_s=-HOUR_S)
    asked: dict[str, Any] = {"because": "connect_config_changed", "changed_connectors": ("mirror",)}
    story.meets_again(at_s=0, commanded_connectors=("mirror",), **asked)
    for turn in range(1, 4):
        story.meets_again(at_s=60 * turn, commanded_connectors=(), **asked)
    story.meets_again(at_s=240, commanded_connectors=("mirror",), **asked)
    story.meets_again(
        at_s=300, because="connect_config_changed", changed_connectors=("other",), commanded_connectors=()
    )
    assert [(i.title, len(i.rebalance_ids)) for i in incidents_and_marks(story)[0]] == [
        ("Configuration of mirror changed on mm2", 1),
        ("mirror rewrote its own task configurations on mm2", 3),
        ("Configuration of mirror changed on mm2", 1),
        ("other rewrote its own task configurations on mm2", 1),
    ]
    older = GroupStory("mm2", protocol_type="connect", mode="incremental", assignor="sessioned").joins(
        "w1", at_s=-HOUR_S
    )
    for turn in range(3):  # rows that do not say who wrote it
        older.meets_again(at_s=60 * turn, **asked)
    changed = [("Configuration of mirror changed on mm2", 1)] * 3
    assert [(i.title, len(i.rebalance_ids)) for i in incidents_and_marks(older)[0]] == changed


def test_partitions_that_several_groups_find_within_minutes_are_one_incident() -> None:
    """Each leader asks for metadata in its own beat, five minutes by default."""

    def finds(group: str, at_s: float, *topics: str) -> GroupStory:
        return a_group(group).meets_again(at_s=at_s, because="topic_metadata_changed", grown_topics=topics)

    found, _ = incidents_and_marks(
        finds("a", 0, "orders"), finds("b", 290, "orders", "refunds"), finds("c", 300, "clicks"),
        finds("d", 600, "orders"), finds("e", 310),
    )  # fmt: skip
    assert [i.group_ids for i in found] == [("a", "b"), ("c",), ("e",), ("d",)]
    assert found[0].expected
    assert found[0].title == "2 groups (a and b): topics or partitions changed"


def test_more_members_are_no_deploy_nor_are_fewer() -> None:
    found, marks = incidents_and_marks(a_group().joins("c4", at_s=0).joins("c5", at_s=60).leaves("c4", at_s=HOUR_S))
    assert kinds(found) == [("scaling", 2), ("scaling", 1)]
    assert [i.culprits for i in found] == [("c4", "c5"), ("c4",)]
    assert not marks


def test_a_deploy_of_a_service_with_two_groups_is_one_incident() -> None:
    found, marks = incidents_and_marks(
        a_group("orders").member("c1", client_host="/10.0.0.1").deploys("c1", from_s=0, each_s=60),
        a_group("refunds").member("c1", client_host="/10.0.0.1").deploys("c1", from_s=5, each_s=60),
    )
    assert [(i.kind, i.group_ids) for i in found] == [("deploy", ("orders", "refunds"))]
    assert sorted(m.scope for m in marks) == ["orders", "refunds"]


def test_groups_on_different_hosts_are_not_brought_together() -> None:
    found, _ = incidents_and_marks(
        a_group("orders").member("c1", client_host="/10.0.0.1").vanishes("c1", at_s=0),
        a_group("refunds").member("c1", client_host="/10.0.0.2").vanishes("c1", at_s=5),
    )
    assert [(i.kind, i.group_ids) for i in found] == [("member_fault", ("orders",)), ("member_fault", ("refunds",))]


def test_a_host_that_dies_is_one_incident_of_all_its_groups() -> None:
    found, _ = incidents_and_marks(
        *(a_group(g).member("c1", client_host="/10.0.0.1").vanishes("c1", at_s=at) for g, at in (("a", 0), ("b", 30)))
    )
    assert [(i.kind, i.group_ids, len(i.finding_ids)) for i in found] == [("member_fault", ("a", "b"), 2)]


def test_a_worker_killed_with_its_delay_is_one_incident_that_costs_what_the_last_round_costs() -> None:
    story = GroupStory("connect", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", "w2", "w3", at_s=-HOUR_S).vanishes("w3", at_s=0, connect_delay_ms=300_000)
    story.meets_again(at_s=300, because="connect_delay_expired", connect_delay_ms=0)
    (found,), _ = incidents_and_marks(story)
    assert (found.kind, found.root_cause, len(found.rebalance_ids)) == ("connect_worker", "member_session_expired", 2)
    assert found.cost_seconds == 2.0 + 4.0


def test_a_connector_that_changes_while_the_delay_runs_does_not_take_its_cost_over() -> None:
    """As seen on 4.1.1: the change's rounds announced the rest of the delay, and the end of the delay, and later
    another worker's leaving, went to the wrong incidents."""
    story = GroupStory("connect", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", "w2", "w3", at_s=-HOUR_S).vanishes("w3", at_s=0, connect_delay_ms=40_000)
    story.meets_again(at_s=4, because="connect_config_changed", connect_delay_ms=36_000)
    story.joins("w3", at_s=16, connect_delay_ms=24_000)
    story.meets_again(at_s=40, because="connect_delay_expired", connect_delay_ms=0)
    story.leaves("w2", at_s=70, connect_delay_ms=40_000)
    story.meets_again(at_s=110, because="connect_delay_expired", connect_delay_ms=0)
    found, _ = incidents_and_marks(story, until_s=HOUR_S)
    numbers = [[i.rsplit(":", 1)[1] for i in incident.rebalance_ids] for incident in found]
    assert dict(zip((i.kind for i in found), numbers, strict=True)) == {
        "connect_worker": ["2", "4", "5"],
        "configuration": ["3"],
        "scaling": ["6", "7"],
    }
    assert {i.status for i in found} == {"over"}


def test_while_the_delay_runs_the_incident_is_open() -> None:
    story = GroupStory("connect", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", "w2", at_s=-HOUR_S).vanishes("w2", at_s=0, connect_delay_ms=3_600_000)
    (found,), _ = incidents_and_marks(story, until_s=HOUR_S / 2)
    assert found.status == "open"
    assert "still going on" in found.story


@pytest.mark.parametrize(("story", "until_s", "still"), [
    (a_group().vanishes("c1", at_s=0), 30, "nothing"),  # the others took its partitions over
    (a_group().joins("c1", at_s=-HOUR_S).vanishes("c1", at_s=0, outcome="emptied"), 30, "empty"),
    (a_group().joins("c1", at_s=-HOUR_S).vanishes("c1", at_s=0, outcome="emptied"), HOUR_S, "nothing"),  # over
    (a_group().vanishes("c1", at_s=0).becomes_empty(at_s=20), 30, "nothing"),  # somebody stopped the others
    (a_group().vanishes("c1", at_s=0).starts_and_does_not_end(at_s=20), 30, "rebalancing"),
    (a_group().vanishes("c1", at_s=0).starts_and_does_not_end(at_s=20), HOUR_S, "down"),  # longer than its timeout
    (a_group().stands_still("c2", from_s=0, until_s=600, comes_back=False), 600, "down"),
])  # fmt: skip
def test_an_open_incident_says_what_of_it_has_not_ended(story: GroupStory, until_s: float, still: str) -> None:
    found, _ = incidents_and_marks(story, until_s=until_s)
    assert [i.still for i in found if not i.expected] == [still]


def test_a_worker_that_was_killed_leaves_tasks_that_wait_until_the_round_that_spreads_them() -> None:
    story = GroupStory("connect", protocol_type="connect", mode="incremental", assignor="sessioned")
    story.joins("w1", "w2", "w3", at_s=-HOUR_S).vanishes("w3", at_s=0, connect_delay_ms=300_000)
    (waiting,), _ = incidents_and_marks(story, until_s=200)
    story.meets_again(at_s=300, because="connect_delay_expired", connect_delay_ms=0)
    (settled,), _ = incidents_and_marks(story, until_s=310)
    assert (waiting.status, waiting.still) == ("open", "waiting")
    assert (settled.status, settled.still) == ("open", "nothing")


def test_of_a_group_of_which_a_rewrite_alone_is_there_nothing_is_under_way() -> None:
    story = a_group().comes_back_under_its_instance_id("c1", at_s=0)
    rows = ClusterRows(
        cluster_id=CLUSTER, now_ms=T0_MS + 30_000, groups={story.group_id: costing(story.rebalances)[-1:]}
    )
    assert {i.still for i in incidents_of(rows)[0]} <= {"nothing"}


def test_replicas_that_move_are_no_downtime() -> None:
    moved = Reassignment(
        cluster_id=CLUSTER, reassignment_id="orders-0@7", topic="orders", partition=0, started_at_ms=T0_MS,
        outcome="open", blocked_by="throttle", evidence=("metadata:n@7",),
    )  # fmt: skip
    found, _ = incidents_and_marks(a_group(), reassignments=[moved], until_s=60)
    assert [(i.status, i.still) for i in found if i.kind == "reassignment"] == [("open", "moving")]


def test_a_storm_takes_in_all_that_its_group_went_through_meanwhile() -> None:
    story = a_group()
    story.again(range(12), lambda s, n: s.exceeds_poll_interval("c1", at_s=n * 60))
    found, _ = incidents_and_marks(story)
    assert kinds(found) == [("storm", 12)]
    assert found[0].root_cause == "member_poll_timeout"
    assert found[0].culprits == ("c1",)
    first, _ = incidents_and_marks(a_group().exceeds_poll_interval("c1", at_s=0), until_s=30)
    assert first[0].incident_id == found[0].incident_id  # it became a storm, and is the same incident


def test_the_culprits_of_a_storm_stand_in_the_order_in_which_they_came() -> None:
    clients = ("c1", "c2", "c3", "c4", "c5", "c6")
    story = a_group()
    story.again(range(12), lambda s, n: s.joins(*clients, at_s=n * 20))
    (found,), _ = incidents_and_marks(story)
    assert (found.kind, found.culprits) == ("storm", clients)


def test_a_member_that_comes_and_goes_for_hours_is_one_incident() -> None:
    story = a_group()
    story.again(range(6), lambda s, n: s.vanishes("c1", at_s=n * 1_500).joins("c1", at_s=n * 1_500 + 60))
    assert kinds(incidents_and_marks(story)[0]) == [("member_fault", 12)]


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


def expired_at_once(group_id: str, **more: object) -> tuple[GroupStory, LeaderMove]:
    """All members expire at T0; half a second later the broker is taken for failed."""
    story = a_group(group_id).meets_again(at_s=0, because="member_session_expired", left=("c1", "c2"))
    values: dict[str, object] = {"cause": "broker_failure", "elected": None, "is_cause": False, "after_ms": -500}
    return story, move(story.rebalances[-1].rebalance_id, group_id, **values | more)


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
    story, failure = expired_at_once("a", **more)
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


def test_a_healthy_fleet_has_no_unexpected_incident() -> None:
    fleet = [
        a_group("quiet"),
        a_group("deployed").deploys("c1", "c2", "c3", from_s=0, each_s=90),
        a_group("scaled").joins("c4", at_s=0).leaves("c4", at_s=4 * HOUR_S),
        a_group("grown").meets_again(at_s=0, because="topic_metadata_changed"),
        a_group("streams").again(range(6), lambda s, n: s.meets_again(at_s=n * 600, because="streams_probing")),
    ]
    found, _ = incidents_and_marks(*fleet)
    assert [i.title for i in found if not i.expected or i.severity != "info"] == []


def test_an_incident_comes_back_from_its_row() -> None:
    found, _ = incidents_and_marks(a_group().vanishes("c1", at_s=0))
    assert [incident_of(incident_row(i)) for i in found] == found


def test_hostile_names_are_made_safe_in_titles_and_kept_in_culprits() -> None:
    name = "<b>\n" + "x" * 2_000
    story = GroupStory("orders").joins(name, "c2", at_s=-HOUR_S).vanishes(name, at_s=0)
    (found,), _ = incidents_and_marks(story)
    assert found.culprits == (name,)
    assert "\n" not in found.title
    assert len(found.title) < 200


CHANGES = st.lists(
    st.tuples(
        st.sampled_from(
            ["joins", "leaves", "vanishes", "is_dropped", "exceeds", "again", "follows", "skips", "rewrites"]
        ),
        st.sampled_from(["c1", "c2", "c3", "c4"]),
        st.sampled_from([1, 20, 200, 400, 900, 4_000]),
    ),
    max_size=25,
)


def lived(group_id: str, changes: Sequence[tuple[str, str, int]]) -> GroupStory:
    story, at_s = a_group(group_id), 0
    for what, who, later_s in changes:
        at_s += later_s
        match what:
            case "joins":
                story.joins(who, at_s=at_s)
            case "leaves":
                story.leaves(who, at_s=at_s)
            case "vanishes":
                story.vanishes(who, at_s=at_s)
            case "is_dropped":
                story.is_dropped(who, at_s=at_s)
            case "exceeds":
                story.exceeds_poll_interval(who, at_s=at_s)
            case "again":
                story.meets_again(at_s=at_s, because="topic_metadata_changed")
            case "follows":
                story.meets_again(at_s=at_s, because="cooperative_follow_up")
            case "skips":
                story.skips(1)
            case "rewrites":
                story.comes_back_under_its_instance_id(who, at_s=at_s)
    return story


@given(CHANGES, CHANGES)
def test_every_rebalance_with_a_cost_is_in_exactly_one_incident_whatever_happened(
    one: Sequence[tuple[str, str, int]], other: Sequence[tuple[str, str, int]]
) -> None:
    stories = [lived("a", one), lived("b", other)]
    incidents, _ = incidents_and_marks(*stories)
    rebalances = [r for s in stories for r in costing(s.rebalances)]
    booked = [i for incident in incidents for i in incident.rebalance_ids]
    assert len(booked) == len(set(booked))
    assert {r.rebalance_id for r in rebalances if has_cost(r)} <= set(booked)
    total = cost_of(rebalances)
    assert math.fsum(i.cost_seconds or 0 for i in incidents) == pytest.approx(total.estimate or 0)
    assert math.fsum(i.cost_upper_seconds or 0 for i in incidents) == pytest.approx(total.upper or 0)
    assert len({i.incident_id for i in incidents}) == len(incidents)
    assert all(i.evidence and i.first_at_ms <= i.last_at_ms for i in incidents)
    assert all(i.still == "nothing" for i in incidents if i.status == "over")


@given(CHANGES, st.integers(min_value=0, max_value=25))
def test_an_incident_keeps_its_id_while_it_grows(changes: Sequence[tuple[str, str, int]], cut: int) -> None:
    before, _ = incidents_and_marks(lived("a", changes[:cut]))
    after, _ = incidents_and_marks(lived("a", changes))
    home = {r: i for i in after for r in i.rebalance_ids}
    for incident in before:
        if not incident.rebalance_ids:
            continue
        first = incident.rebalance_ids[0]
        now = home[first]
        # what was two troubles may turn out to be one: then it is the earlier one that goes on
        assert now.incident_id == incident.incident_id or now.rebalance_ids[0] != first
