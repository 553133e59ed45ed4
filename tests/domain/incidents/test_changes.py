"""Changes on purpose of made-up histories: deploys, scaling, configurations; what belongs together, what does not."""

from __future__ import annotations

from typing import Any

from tests.domain.detect.group_story import GroupStory
from tests.domain.incidents.made_up import HOUR_S, MINUTE_S, a_group, incidents_and_marks, kinds


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
