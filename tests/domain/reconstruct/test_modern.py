"""Consumer, share and streams groups by hand-worked stories: from records, and from log lines alone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.domain.decode import decode_source
from rebalance_audit.domain.model import GroupEvidence, GroupRecord, LogEvent, LogKind, Rebalance, SourceRecord, log_ref
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from tests import encoders as enc

ORDERS = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass
class ConsumerGroupStory:
    """A KIP-848 group's life, in the records a broker writes."""

    group_id: str = "clicks-app"
    records: list[GroupRecord] = field(default_factory=list)
    lines: list[LogEvent] = field(default_factory=list)

    def _record(self, kind: int, at_ms: int, *parts: str, value: bytes | None) -> ConsumerGroupStory:
        decoded = decode_source(
            SourceRecord(
                cluster_id="c",
                topic="__consumer_offsets",
                partition=3,
                offset=len(self.records),
                timestamp_ms=at_ms,
                key=enc.record_key(kind, self.group_id, *parts),
                value=value,
            )
        )
        assert isinstance(decoded, GroupRecord)
        self.records.append(decoded)
        return self

    def member(self, member: str, *, at_ms: int) -> ConsumerGroupStory:
        value = {
            "InstanceId": None, "RackId": None, "ClientId": member, "ClientHost": "/10.0.0.1",
            "SubscribedTopicNames": ["orders"], "SubscribedTopicRegex": None, "RebalanceTimeoutMs": 300_000,
            "ServerAssignor": None,
        }  # fmt: skip
        return self._record(5, at_ms, member, value=enc.record_value(5, "3.8", value))

    def epoch(self, number: int, *, at_ms: int) -> ConsumerGroupStory:
        return self._record(3, at_ms, value=enc.record_value(3, "4.1", {"Epoch": number, "MetadataHash": 7}))

    def target(self, number: int, *, at_ms: int) -> ConsumerGroupStory:
        value = {"AssignmentEpoch": number, "AssignmentTimestamp": at_ms}
        return self._record(6, at_ms, value=enc.record_value(6, "4.3", value))

    def holds(
        self, member: str, partitions: list[int], *, at_ms: int, epoch: int, pending: list[int] | None = None
    ) -> ConsumerGroupStory:
        def topic(numbers: list[int]) -> list[dict[str, Any]]:
            return [{"TopicId": ORDERS, "Partitions": numbers, "AssignmentEpochs": None}] if numbers else []

        value = {
            "MemberEpoch": epoch, "PreviousMemberEpoch": epoch, "State": 1 if pending else 0,
            "AssignedPartitions": topic(partitions), "PartitionsPendingRevocation": topic(pending or []),
        }  # fmt: skip
        return self._record(8, at_ms, member, value=enc.record_value(8, "3.8", value))

    def gone(self, member: str, *, at_ms: int) -> ConsumerGroupStory:
        self._record(8, at_ms, member, value=None)
        return self._record(5, at_ms, member, value=None)

    def deleted(self, *, at_ms: int) -> ConsumerGroupStory:
        return self._record(3, at_ms, value=None)

    def says(self, kind: LogKind, *, at_ms: int, **fields: Any) -> ConsumerGroupStory:
        self.lines.append(
            LogEvent(
                kind=kind,
                ref=log_ref("broker-1", "server.log", "f00d", len(self.lines)),
                node="broker-1",
                local_at_ms=at_ms,
                at_ms=at_ms,
                group_id=self.group_id,
                fields=fields,
            )
        )
        return self

    def reconstructed(self) -> Reconstruction:
        return reconstruct(
            GroupEvidence(
                cluster_id="c",
                group_id=self.group_id,
                records=tuple(self.records),
                lines=tuple(self.lines),
                topic_names=((ORDERS, "orders"),),
            )
        )


def told(reconstruction: Reconstruction) -> list[tuple[int | None, str, str]]:
    return [(r.group_epoch, r.outcome, r.trigger) for r in reconstruction.rebalances]


def moves(rebalance: Rebalance) -> dict[str, tuple[str, str | None, str | None]]:
    return {m.resource: (m.kind, m.from_client_id, m.to_client_id) for m in rebalance.movements}


def a_group_of_one() -> ConsumerGroupStory:
    story = ConsumerGroupStory().member("k1", at_ms=100).epoch(2, at_ms=100).target(2, at_ms=100)
    return story.holds("k1", [0, 1], at_ms=101, epoch=2)


def test_a_partition_moves_in_the_epoch_of_its_new_owner() -> None:
    story = a_group_of_one().member("k2", at_ms=5_000).epoch(3, at_ms=5_000).target(3, at_ms=5_001)
    story.holds("k2", [], at_ms=5_001, epoch=3).holds("k1", [0], at_ms=6_000, epoch=2, pending=[1])
    story.holds("k1", [0], at_ms=7_000, epoch=3).holds("k2", [1], at_ms=8_000, epoch=3)
    found = story.reconstructed()
    assert told(found) == [(2, "completed", "member_joined"), (3, "completed", "member_joined")]
    assert moves(found.rebalances[1]) == {"orders-1": ("moved", "k1", "k2")}


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
        assert told(found) == [
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
        assert told(story.reconstructed())[-1] == (3, "emptied", "member_left")

    def test_topics_that_change_show_in_the_hash(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=3, metadata_hash=8)
        assert told(story.reconstructed())[-1] == (3, "open", "topic_metadata_changed")

    def test_an_epoch_out_of_order_is_not_believed(self) -> None:
        story = self.joined("k1", 2, at_ms=100, story=ConsumerGroupStory())
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=1, metadata_hash=8)
        assert [r.group_epoch for r in story.reconstructed().rebalances] == [2]

    def test_an_epoch_that_records_hold_is_told_once(self) -> None:
        story = a_group_of_one().says(LogKind.EPOCH_BUMPED, at_ms=100, group_epoch=2, metadata_hash=7)
        story.says(LogKind.EPOCH_BUMPED, at_ms=900, group_epoch=3, metadata_hash=8)
        assert [r.group_epoch for r in story.reconstructed().rebalances] == [2, 3]


def test_the_only_topic_id_is_the_only_subscribed_topic() -> None:
    """4.1 names topics by id alone, and its commits hold no ids."""
    story = a_group_of_one()
    found = reconstruct(GroupEvidence(cluster_id="c", group_id=story.group_id, records=tuple(story.records)))
    assert [m.resource for m in found.rebalances[0].movements] == ["orders-0", "orders-1"]
