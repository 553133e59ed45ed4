"""Incidents of made-up histories: what belongs together, what does not, and the laws that hold for every history."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.incidents import (
    ClusterRows,
    has_cost,
    incident_of,
    incident_row,
    incidents_of,
)
from rebalance_audit.domain.numbers import cost_of
from tests.domain.detect.group_story import CLUSTER, T0_MS, GroupStory
from tests.domain.incidents.made_up import HOUR_S, a_group, costing, incidents_and_marks, kinds


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


def test_members_that_die_in_turn_of_the_same_partition_point_at_its_records() -> None:
    """As on 4.3.0, where each reader of orders-0 was killed a second after it got it."""
    story = a_group()
    for n, client in enumerate(("c1", "c2", "c3", "c1", "c2")):
        story.vanishes(client, at_s=n * 40).joins(client, at_s=n * 40 + 15)
        dead = story.rebalances[-2]
        moved = [replace(m, resource="orders-0") for m in dead.movements if m.from_client_id == client][:1]
        story.rebalances[-2] = replace(dead, movements=tuple(moved))
    (found, *_), _ = incidents_and_marks(story)
    assert (found.advice or "").startswith("Each time the member that failed held orders-0: look for a record there")


def test_members_that_die_of_different_partitions_have_nothing_in_common() -> None:
    story = a_group()
    for n, client in enumerate(("c1", "c2", "c3", "c1")):
        story.vanishes(client, at_s=n * 40).joins(client, at_s=n * 40 + 15)
        dead = story.rebalances[-2]
        moved = [replace(m, resource=f"of-{client}") for m in dead.movements if m.from_client_id == client]
        story.rebalances[-2] = replace(dead, movements=tuple(moved))
    (found, *_), _ = incidents_and_marks(story)
    assert "Each time" not in (found.advice or "")
