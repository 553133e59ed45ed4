"""Consumer, share and streams groups by hand-worked stories: from records, and from log lines alone."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import GroupEvidence, LogKind
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders as enc
from tests.domain.reconstruct.epochs.found import a_group_of_one, epochs_of, moves
from tests.domain.reconstruct.epochs.stories import ConsumerGroupStory


def test_a_partition_moves_in_the_epoch_of_its_new_owner() -> None:
    story = a_group_of_one().member("k2", at_ms=5_000).epoch(3, at_ms=5_000).target(3, at_ms=5_001)
    story.holds("k2", [], at_ms=5_001, epoch=3).holds("k1", [0], at_ms=6_000, epoch=2, pending=[1])
    story.holds("k1", [0], at_ms=7_000, epoch=3).holds("k2", [1], at_ms=8_000, epoch=3)
    found = story.reconstructed()
    assert epochs_of(found) == [(2, "completed", "member_joined"), (3, "completed", "member_joined")]
    assert moves(found.rebalances[1]) == {"orders-1": ("moved", "k1", "k2")}


def test_a_member_belongs_to_the_epoch_it_begins_and_not_to_the_one_before() -> None:
    """Where the assignor takes its time, a new member's first epoch is that of the assignment before."""
    story = a_group_of_one().member("k2", at_ms=5_000).epoch(3, at_ms=5_000).target(3, at_ms=5_001)
    story.holds("k1", [0], at_ms=5_900, epoch=2, pending=[1])
    story.member("k3", at_ms=6_000).epoch(4, at_ms=6_000).holds("k3", [], at_ms=6_000, epoch=3)
    story.target(4, at_ms=6_100).holds("k1", [0], at_ms=7_000, epoch=4).holds("k2", [1], at_ms=7_500, epoch=4)
    story.holds("k3", [], at_ms=7_600, epoch=4)
    _, third, fourth = story.reconstructed().rebalances
    assert {m.member_id: m.change for m in third.members} == {"k1": "stayed", "k2": "joined"}
    assert {m.member_id: m.change for m in fourth.members} == {"k1": "stayed", "k2": "stayed", "k3": "joined"}


def test_the_last_departure_of_3_7_and_3_8_is_shown_by_the_topics_of_nobody() -> None:
    """Only lines; no departure prints `Bumped group epoch`, and the last one no target either."""
    story = ConsumerGroupStory()
    for at_ms, member, epoch in ((1_000, "k1", 1), (2_000, "k2", 2)):
        story.says(LogKind.MODERN_MEMBER_JOINED, at_ms=at_ms, member_id=member, group_type="consumer")
        story.says(LogKind.EPOCH_BUMPED, at_ms=at_ms + 1, group_epoch=epoch)
        story.says(LogKind.TARGET_COMPUTED, at_ms=at_ms + 2, group_epoch=epoch, assignor="uniform")
    story.says(LogKind.MODERN_MEMBER_LEFT, at_ms=3_000, member_id="k1", group_type="consumer")
    story.says(LogKind.TARGET_COMPUTED, at_ms=3_002, group_epoch=3, assignor="uniform")
    story.says(LogKind.MEMBER_FENCED, at_ms=4_000, member_id="k2", reason="its session expired")
    story.says(LogKind.TOPIC_METADATA_COMPUTED, at_ms=4_001, metadata="{}")
    assert epochs_of(story.reconstructed()) == [
        (1, "completed", "member_joined"),
        (2, "completed", "member_joined"),
        (3, "completed", "member_left"),
        (4, "emptied", "member_session_expired"),
    ]


def test_where_a_departure_prints_its_epoch_it_is_shown_once() -> None:
    story = ConsumerGroupStory().says(LogKind.MODERN_MEMBER_JOINED, at_ms=1_000, member_id="k1", group_type="consumer")
    story.says(LogKind.EPOCH_BUMPED, at_ms=1_001, group_epoch=1)
    story.says(LogKind.TARGET_COMPUTED, at_ms=1_002, group_epoch=1, assignor="uniform")
    story.says(LogKind.MODERN_MEMBER_LEFT, at_ms=3_000, member_id="k1", group_type="consumer")
    story.says(LogKind.TOPIC_METADATA_COMPUTED, at_ms=3_001, metadata="{}")
    story.says(LogKind.EPOCH_BUMPED, at_ms=3_002, group_epoch=2)
    assert epochs_of(story.reconstructed()) == [(1, "completed", "member_joined"), (2, "emptied", "member_left")]


def test_what_the_last_member_held_is_nobodys_until_another_comes() -> None:
    story = a_group_of_one().gone("k1", at_ms=900).epoch(3, at_ms=900)
    story.member("k2", at_ms=5_000).epoch(4, at_ms=5_000).target(4, at_ms=5_000)
    story.holds("k2", [0, 1], at_ms=5_001, epoch=4)
    _, emptied, last = story.reconstructed().rebalances
    assert (emptied.outcome, moves(emptied)) == (
        "emptied",
        {"orders-0": ("revoked", "k1", None), "orders-1": ("revoked", "k1", None)},
    )
    assert moves(last) == {"orders-0": ("moved", "k1", "k2"), "orders-1": ("moved", "k1", "k2")}
    assert {m.revoked_in_rebalance_id for m in last.movements} == {emptied.rebalance_id}


def test_a_deleted_group_uses_its_numbers_a_second_time() -> None:
    story = a_group_of_one().gone("k1", at_ms=900).epoch(3, at_ms=900).deleted(at_ms=1_000)
    story.member("k2", at_ms=2_000).epoch(2, at_ms=2_000).target(2, at_ms=2_000).holds(
        "k2", [0, 1], at_ms=2_001, epoch=2
    )
    found = story.reconstructed()
    ids = [r.rebalance_id for r in found.rebalances]
    assert len(set(ids)) == len(ids)
    assert ids[-1] == "c/clicks-app/e2~1"
    assert found.contradictions == ()


def test_what_a_deleted_group_held_does_not_stand_still_until_one_of_its_name_comes() -> None:
    """Its offsets are gone with it, so nothing waits to be read on: a job that runs once a day is not down all day."""
    story = a_group_of_one().gone("k1", at_ms=900).epoch(3, at_ms=900).deleted(at_ms=1_000)
    story.member("k2", at_ms=86_400_000).epoch(2, at_ms=86_400_000).target(2, at_ms=86_400_000)
    story.holds("k2", [0, 1], at_ms=86_400_001, epoch=2)
    again = measure(story.reconstructed().rebalances[-1])
    assert moves(again) == {"orders-0": ("assigned", None, "k2"), "orders-1": ("assigned", None, "k2")}
    assert again.pause_estimate_ms is None


def test_a_number_that_is_missing_the_second_time_has_an_id_of_its_own() -> None:
    story = a_group_of_one().gone("k1", at_ms=900).epoch(3, at_ms=900).deleted(at_ms=1_000)
    story.member("k2", at_ms=2_000).epoch(2, at_ms=2_000).member("k3", at_ms=3_000).epoch(4, at_ms=3_000)
    found = story.reconstructed().rebalances
    assert [r.rebalance_id.rpartition("/")[2] for r in found] == ["e2", "e3", "e2~1", "e3~1", "e4"]
    assert found[3].outcome == "missing"


def test_an_epoch_that_goes_back_without_a_deletion_is_a_contradiction() -> None:
    story = a_group_of_one().member("k2", at_ms=2_000).epoch(5, at_ms=2_000).epoch(3, at_ms=3_000)
    (contradiction,) = story.reconstructed().contradictions
    assert contradiction.detail == "epoch 3 stands after 5, and nothing deleted the group"
    assert contradiction.evidence == ("record:__consumer_offsets-3@5", "record:__consumer_offsets-3@6")


def test_what_a_member_held_before_is_what_it_held_as_the_epoch_began() -> None:
    story = a_group_of_one().member("k2", at_ms=5_000).epoch(3, at_ms=5_000).target(3, at_ms=5_001)
    story.holds("k2", [], at_ms=5_001, epoch=3).holds("k1", [0], at_ms=6_000, epoch=3)
    k1, _ = story.reconstructed().rebalances[1].members
    assert (k1.owned_before, k1.assigned, k1.revoked) == (("orders-0", "orders-1"), ("orders-0",), ("orders-1",))


def test_an_epoch_without_any_change_has_no_cause_but_topics_whose_hash_changed() -> None:
    for topics_hash, trigger in ((7, "unknown"), (8, "topic_metadata_changed")):
        story = a_group_of_one().epoch(3, at_ms=5_000, topics_hash=topics_hash)
        assert epochs_of(story.reconstructed())[1] == (3, "open", trigger)


def test_a_hash_that_takes_the_place_of_the_topics_own_record_is_an_upgrade() -> None:
    """As 4.3.0 wrote it after 4.0.0: epoch, tombstone of the topics, target."""
    story = a_group_of_one(topics_hash=0).epoch(3, at_ms=5_000)
    assert epochs_of(story.topics_dropped(at_ms=5_000).target(3, at_ms=5_000).reconstructed())[1] == (
        3, "open", "coordinator_upgraded",
    )  # fmt: skip
    # A topic that is made again, where there was none that the group subscribes to.
    story = a_group_of_one(topics_hash=0).epoch(3, at_ms=5_000).target(3, at_ms=5_000)
    assert epochs_of(story.reconstructed())[1] == (3, "open", "topic_metadata_changed")


class TestMetadataWrittenAnew:
    def changed(self, **facts: Any) -> str:
        story = a_group_of_one().member("k1", at_ms=4_000, **facts).member("k2", at_ms=5_000).epoch(3, at_ms=5_000)
        return " ".join(t.trigger for t in story.reconstructed().rebalances[1].triggers)

    def test_another_rack_is_no_cause(self) -> None:
        assert self.changed(rack="b") == "member_joined"

    def test_other_topics_and_another_assignor_are(self) -> None:
        assert self.changed(topics=("orders", "mail")) == "member_joined subscription_changed"
        assert self.changed(assignor="range") == "member_joined assignor_changed"


def test_a_line_of_an_epoch_that_the_records_have_no_room_for_is_not_believed() -> None:
    story = a_group_of_one().member("k2", at_ms=60_000).epoch(3, at_ms=60_000).target(3, at_ms=60_001)
    story.says(LogKind.EPOCH_BUMPED, at_ms=30_000, group_epoch=9, metadata_hash=1)
    story.says(LogKind.TARGET_COMPUTED, at_ms=90_000, group_epoch=1, assignor="uniform")
    found = story.reconstructed()
    assert [r.group_epoch for r in found.rebalances] == [2, 3]
    assert [(c.detail, c.evidence) for c in found.contradictions] == [
        ("it names epoch 9, which the records had not reached then", (story.lines[0].ref,)),
        ("it names epoch 1, which the records had left behind then", (story.lines[1].ref,)),
    ]


def test_a_line_of_an_epoch_whose_record_is_gone_is_shown() -> None:
    story = a_group_of_one().member("k2", at_ms=60_000).epoch(4, at_ms=60_000).target(4, at_ms=60_001)
    story.says(LogKind.EPOCH_BUMPED, at_ms=30_000, group_epoch=3, metadata_hash=1)
    found = story.reconstructed()
    assert [(r.group_epoch, r.outcome, r.started_tier) for r in found.rebalances][1] == (3, "superseded", "logged")
    assert found.contradictions == ()


class TestLinesAlone:
    def joined(self, member: str, epoch: int, *, at_ms: int, story: ConsumerGroupStory) -> ConsumerGroupStory:
        story.says(LogKind.MODERN_MEMBER_JOINED, at_ms=at_ms, member_id=member, group_type="consumer")
        story.says(LogKind.EPOCH_BUMPED, at_ms=at_ms, group_epoch=epoch, metadata_hash=7)
        return story.says(LogKind.TARGET_COMPUTED, at_ms=at_ms + 1, group_epoch=epoch, assignor="uniform")

    def test_lines_name_epochs_and_causes_but_no_movement(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        self.joined("k2", 3, at_ms=5_000, story=story)
        story.says(LogKind.MEMBER_FENCED, at_ms=9_000, member_id="k1", reason="the member session expired.")
        story.says(LogKind.TARGET_COMPUTED, at_ms=10_000, group_epoch=4, assignor="uniform")
        found = story.reconstructed()
        assert epochs_of(found) == [
            (2, "completed", "member_joined"),
            (3, "completed", "member_joined"),
            (4, "completed", "member_session_expired"),
        ]
        assert {r.trigger_tier for r in found.rebalances} == {"logged"}
        assert not any(r.movements or r.is_complete_evidence for r in found.rebalances)

    def test_the_last_member_that_leaves_empties_the_group(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        story.says(LogKind.MODERN_MEMBER_LEFT, at_ms=900, member_id="k1", group_type="consumer")
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=3, metadata_hash=7)
        assert epochs_of(story.reconstructed())[-1] == (3, "emptied", "member_left")

    def test_topics_that_change_show_in_the_hash(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=3, metadata_hash=8)
        assert epochs_of(story.reconstructed())[-1] == (3, "open", "topic_metadata_changed")

    def test_an_epoch_out_of_order_is_not_believed(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=1, metadata_hash=8)
        assert [r.group_epoch for r in story.reconstructed().rebalances] == [2]

    def test_a_static_return_is_a_row_beside_its_epoch_and_a_temporary_leave_is_no_cause(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        left = {"group_type": "consumer", "group_instance_id": "one", "temporarily": True}
        story.says(LogKind.MODERN_MEMBER_LEFT, at_ms=900, member_id="k1", **left)
        back = {"group_type": "consumer", "group_instance_id": "one", "new_member_id": "k2"}
        story.says(LogKind.STATIC_MEMBER_REPLACED, at_ms=1_900, member_id="k1", **back)
        story.says(LogKind.MEMBER_FENCED, at_ms=9_000, member_id="k2", reason="the member session expired")
        story.says(LogKind.EPOCH_BUMPED, at_ms=9_000, group_epoch=3, metadata_hash=7)
        found = story.reconstructed().rebalances
        assert [(r.group_epoch, r.kind, r.outcome, r.trigger) for r in found] == [
            (2, "rebalance", "completed", "member_joined"),
            (2, "static_rewrite", "completed", "static_member_replaced"),
            (3, "rebalance", "emptied", "static_member_expired"),
        ]

    def test_a_member_that_left_and_is_back_under_its_id_was_not_closed(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        self.joined("k2", 3, at_ms=5_000, story=story)
        story.says(LogKind.MODERN_MEMBER_LEFT, at_ms=9_000, member_id="k2", group_type="consumer")
        story.says(LogKind.EPOCH_BUMPED, at_ms=9_000, group_epoch=4, metadata_hash=7)
        self.joined("k2", 5, at_ms=20_000, story=story)
        assert [trigger for *_, trigger in epochs_of(story.reconstructed())][2:] == ["unknown", "member_joined"]

    def test_an_epoch_is_not_reached_that_a_member_is_put_out_for(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        self.joined("k2", 3, at_ms=5_000, story=story)
        reason = "the member failed to transition from epoch 2 within 8000ms"
        story.says(LogKind.MEMBER_FENCED, at_ms=14_000, member_id="k1", reason=reason)
        story.says(LogKind.TARGET_COMPUTED, at_ms=14_000, group_epoch=4, assignor="uniform")
        assert epochs_of(story.reconstructed())[1:] == [
            (3, "superseded", "member_joined"),
            (4, "completed", "member_dropped_at_rebalance_timeout"),
        ]

    def test_an_epoch_that_records_hold_is_shown_once(self) -> None:
        story = a_group_of_one().says(LogKind.EPOCH_BUMPED, at_ms=100, group_epoch=2, metadata_hash=7)
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=3, metadata_hash=8)
        assert [r.group_epoch for r in story.reconstructed().rebalances] == [2, 3]


def test_the_only_topic_id_is_the_only_subscribed_topic() -> None:
    """4.1 names topics by id alone, and its commits hold no ids."""
    story = a_group_of_one()
    found = reconstruct(GroupEvidence(cluster_id="c", group_id=story.group_id, records=tuple(story.records)))
    assert [m.resource for m in found.rebalances[0].movements] == ["orders-0", "orders-1"]


class TestStreamsProtocol:
    """KIP-1071: tasks, the copies that follow them, and the topology they come from."""

    def story(self) -> ConsumerGroupStory:
        story = ConsumerGroupStory("flow-app")
        self.topology(story, 1, at_ms=100)
        self.member(story, "w1", at_ms=100)
        self.epoch(story, 2, at_ms=100)
        return self.holds(story, "w1", 2, at_ms=200, ActiveTasks=[0, 1], StandbyTasks=[2], WarmupTasks=[3])

    def topology(self, story: ConsumerGroupStory, epoch: int, *, at_ms: int) -> None:
        value = {"Epoch": epoch, "Subtopologies": []}
        story.record(23, at_ms, value=enc.record_value(23, "4.1", value))

    def member(self, story: ConsumerGroupStory, member: str, *, at_ms: int) -> None:
        value: dict[str, Any] = {
            "InstanceId": None, "RackId": None, "ClientId": member, "ClientHost": "/10.0.0.1",
            "RebalanceTimeoutMs": 300_000, "TopologyEpoch": 0, "ProcessId": "p", "UserEndpoint": None, "ClientTags": [],
        }  # fmt: skip
        story.record(19, at_ms, member, value=enc.record_value(19, "4.1", value))

    def epoch(self, story: ConsumerGroupStory, number: int, *, at_ms: int) -> None:
        value = {"Epoch": number, "MetadataHash": 7, "ValidatedTopologyEpoch": 0, "LastAssignmentConfigs": []}
        story.record(17, at_ms, value=enc.record_value(17, "4.4", value))
        target = {"AssignmentEpoch": number, "AssignmentTimestamp": at_ms}
        story.record(20, at_ms, value=enc.record_value(20, "4.3", target))

    def holds(
        self, story: ConsumerGroupStory, member: str, epoch: int, *, at_ms: int, **tasks: list[int]
    ) -> ConsumerGroupStory:
        kinds = ("ActiveTasks", "StandbyTasks", "WarmupTasks")
        value: dict[str, Any] = {"MemberEpoch": epoch, "PreviousMemberEpoch": epoch, "State": 1}
        for name in (*kinds, *(f"{kind}PendingRevocation" for kind in kinds)):
            partitions = tasks.get(name, [])
            entry = {"SubtopologyId": "0", "Partitions": partitions, "AssignmentEpochs": None}
            value[name] = [entry] if partitions else []
        return story.record(22, at_ms, member, value=enc.record_value(22, "4.2", value))

    def test_active_standby_and_warm_up_tasks_are_distinguished(self) -> None:
        (only,) = self.story().reconstructed().rebalances
        (w1,) = only.members
        assert (w1.assigned, w1.standby_tasks, w1.warmup_tasks) == (("0_0", "0_1"), ("0_2",), ("0_3",))
        # A copy stands nobody still.
        assert moves(only) == {"0_0": ("assigned", None, "w1"), "0_1": ("assigned", None, "w1")}

    def test_a_warm_up_task_that_becomes_active_moves_then(self) -> None:
        story = self.story()
        self.member(story, "w2", at_ms=5_000)
        self.epoch(story, 3, at_ms=5_000)
        self.holds(story, "w2", 3, at_ms=5_100, WarmupTasks=[1])
        self.holds(story, "w1", 3, at_ms=5_200, ActiveTasks=[0, 1])
        self.epoch(story, 4, at_ms=9_000)
        self.holds(story, "w1", 4, at_ms=9_100, ActiveTasks=[0])
        self.holds(story, "w2", 4, at_ms=9_200, ActiveTasks=[1])
        _, joined, moved = story.reconstructed().rebalances
        assert (moves(joined), moves(moved)) == ({}, {"0_1": ("moved", "w1", "w2")})
        assert [m.warmup_tasks for m in joined.members if m.client_id == "w2"] == [("0_1",)]

    def test_another_topology_is_the_cause_where_no_member_changed(self) -> None:
        story = self.story()
        self.topology(story, 2, at_ms=5_000)
        self.epoch(story, 3, at_ms=5_000)
        assert epochs_of(story.reconstructed())[1] == (3, "open", "streams_topology_changed")


def test_who_left_the_classic_group_is_no_cause_of_the_epoch_it_is_converted_at() -> None:
    """As seen on 4.4.0: a classic member closed, then the first KIP-848 one came."""
    story = ConsumerGroupStory().says(LogKind.MEMBER_LEFT, at_ms=1_000, member_id="o1")
    story.says(LogKind.GROUP_CONVERTED, at_ms=9_000, group_type="consumer")
    story.says(LogKind.MODERN_MEMBER_JOINED, at_ms=9_001, member_id="n1", group_type="consumer")
    story.says(LogKind.EPOCH_BUMPED, at_ms=9_002, group_epoch=5)
    story.says(LogKind.TARGET_COMPUTED, at_ms=9_003, group_epoch=5, assignor="uniform")
    found = {(r.group_epoch, r.trigger) for r in reconstruct(story.evidence()).rebalances if r.group_epoch is not None}
    assert found == {(4, "group_converted"), (5, "member_joined")}


@pytest.mark.parametrize(
    ("protocol", "joined_at_ms", "cause"),
    [
        ("classic", 16_200, "topic_metadata_changed"),
        ("classic", 22_900, "member_joined"),
        ("consumer", 16_200, "member_joined"),
    ],
    ids=["back for its target", "new", "of the new protocol, and its line is late"],
)
def test_a_classic_member_that_joins_again_for_its_target_begins_no_epoch(
    protocol: str, joined_at_ms: int, cause: str
) -> None:
    """As seen on 4.3.0, from logs alone: it joined again for epoch 9, and 7 s later its topic got more partitions."""
    story = ConsumerGroupStory().says(LogKind.MODERN_MEMBER_JOINED, at_ms=14_990, member_id="n1", protocol="consumer")
    story.says(LogKind.EPOCH_BUMPED, at_ms=14_991, group_epoch=9, metadata_hash=55)
    story.says(LogKind.TARGET_COMPUTED, at_ms=14_992, group_epoch=9, assignor="uniform")
    story.says(LogKind.MODERN_MEMBER_JOINED, at_ms=joined_at_ms, member_id="o1-uuid", protocol=protocol)
    story.says(LogKind.EPOCH_BUMPED, at_ms=23_021, group_epoch=10, metadata_hash=-81)
    story.says(LogKind.TARGET_COMPUTED, at_ms=23_022, group_epoch=10, assignor="uniform")
    assert [(r.group_epoch, r.trigger) for r in reconstruct(story.evidence()).rebalances] == [
        (9, "member_joined"),
        (10, cause),
    ]


def test_a_member_that_goes_is_there_in_the_epoch_before_though_that_was_never_reached() -> None:
    """As seen on 4.1.1: of three members two were killed at once, and their sessions ended one after the other."""
    story = ConsumerGroupStory()
    for number, member in enumerate(("k1", "k2", "k3"), 1):
        story.member(member, at_ms=number * 1_000).epoch(number, at_ms=number * 1_000)
        story.target(number, at_ms=number * 1_000).holds(member, [number - 1], at_ms=number * 1_000 + 100, epoch=number)
    for member, held in (("k1", [0]), ("k2", [1])):
        story.holds(member, held, at_ms=3_200, epoch=3)
    story.gone("k1", at_ms=20_000).epoch(4, at_ms=20_000).target(4, at_ms=20_000)
    story.gone("k2", at_ms=20_100).epoch(5, at_ms=20_100).target(5, at_ms=20_100)
    story.holds("k3", [0, 1, 2], at_ms=22_000, epoch=5)
    *_, fourth, fifth = story.reconstructed().rebalances
    assert (fourth.outcome, fifth.outcome) == ("superseded", "completed")
    assert {m.member_id: m.change for m in fourth.members} == {"k1": "left", "k2": "stayed", "k3": "stayed"}
    assert {m.member_id: m.change for m in fifth.members} == {"k2": "left", "k3": "stayed"}
    assert fourth.member_count == 2


def test_an_epoch_that_ends_as_a_dead_member_is_taken_away_had_it_as_a_member() -> None:
    """As seen on 4.3.0: a share group's member is killed, another leaves, and then the session of the first ends."""
    story = ConsumerGroupStory()
    for number, member in enumerate(("k1", "k2", "k3"), 1):
        story.member(member, at_ms=number * 1_000).epoch(number, at_ms=number * 1_000)
        story.target(number, at_ms=number * 1_000).holds(member, [number - 1], at_ms=number * 1_000 + 100, epoch=number)
    for member, held in (("k1", [0]), ("k2", [1])):
        story.holds(member, held, at_ms=3_200, epoch=3)
    story.gone("k1", at_ms=9_000).epoch(4, at_ms=9_000).target(4, at_ms=9_000)
    story.holds("k3", [0, 2], at_ms=10_000, epoch=4)
    story.gone("k2", at_ms=20_000).epoch(5, at_ms=20_000).target(5, at_ms=20_000)
    story.holds("k3", [0, 1, 2], at_ms=22_000, epoch=5)
    *_, fourth, fifth = story.reconstructed().rebalances
    assert {m.member_id: m.change for m in fourth.members} == {"k1": "left", "k2": "stayed", "k3": "stayed"}
    assert {m.member_id: m.change for m in fifth.members} == {"k2": "left", "k3": "stayed"}
