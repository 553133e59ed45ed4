"""Stories of KIP-848 groups for tests: what a coordinator and its members write, in the order they write it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rebalance_audit.domain.model import (
    CommitMark,
    GroupEvidence,
    GroupRecord,
    LogEvent,
    LogKind,
    log_ref,
)
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from tests import encoders as enc
from tests.domain.reconstruct.group_records import group_record

ORDERS = "AAAAAAAAAAAAAAAAAAAAAQ"


@dataclass
class ConsumerGroupStory:
    """A KIP-848 group's life, in the records a broker writes."""

    group_id: str = "clicks-app"
    records: list[GroupRecord] = field(default_factory=list)
    lines: list[LogEvent] = field(default_factory=list)
    marks: list[CommitMark] = field(default_factory=list)
    offset: int = 0

    def record(self, kind: int, at_ms: int, *parts: str, value: bytes | None) -> ConsumerGroupStory:
        key = enc.record_key(kind, self.group_id, *parts)
        record = group_record(key, value, cluster_id="c", partition=3, offset=self.offset, at_ms=at_ms)
        self.records.append(record)
        self.offset += 1
        return self

    def member(
        self,
        member: str,
        *,
        at_ms: int,
        instance: str | None = None,
        rack: str | None = None,
        topics: tuple[str, ...] = ("orders",),
        assignor: str | None = None,
        max_poll_ms: int = 300_000,
    ) -> ConsumerGroupStory:
        value = {
            "InstanceId": instance, "RackId": rack, "ClientId": member, "ClientHost": "/10.0.0.1",
            "SubscribedTopicNames": list(topics), "SubscribedTopicRegex": None, "RebalanceTimeoutMs": max_poll_ms,
            "ServerAssignor": assignor,
        }  # fmt: skip
        return self.record(5, at_ms, member, value=enc.record_value(5, "3.8", value))

    def epoch(self, number: int, *, at_ms: int, topics_hash: int = 7) -> ConsumerGroupStory:
        """A hash of 0 is written as none at all: of no topics, and by brokers before 4.1."""
        return self.record(3, at_ms, value=enc.record_value(3, "4.1", {"Epoch": number, "MetadataHash": topics_hash}))

    def topics_dropped(self, *, at_ms: int) -> ConsumerGroupStory:
        """The tombstone of ConsumerGroupPartitionMetadata."""
        return self.record(4, at_ms, value=None)

    def target(self, number: int, *, at_ms: int) -> ConsumerGroupStory:
        value = {"AssignmentEpoch": number, "AssignmentTimestamp": at_ms}
        return self.record(6, at_ms, value=enc.record_value(6, "4.3", value))

    def holds(
        self, member: str, partitions: list[int], *, at_ms: int, epoch: int, pending: list[int] | None = None
    ) -> ConsumerGroupStory:
        def topic(numbers: list[int]) -> list[dict[str, Any]]:
            return [{"TopicId": ORDERS, "Partitions": numbers, "AssignmentEpochs": None}] if numbers else []

        value = {
            "MemberEpoch": epoch, "PreviousMemberEpoch": epoch, "State": 1 if pending else 0,
            "AssignedPartitions": topic(partitions), "PartitionsPendingRevocation": topic(pending or []),
        }  # fmt: skip
        return self.record(8, at_ms, member, value=enc.record_value(8, "3.8", value))

    def gone(self, member: str, *, at_ms: int) -> ConsumerGroupStory:
        self.record(8, at_ms, member, value=None)
        return self.record(5, at_ms, member, value=None)

    def commit(self, partition: int, *, at_ms: int, position: int | None = None) -> ConsumerGroupStory:
        self.marks.append(
            CommitMark(
                topic="orders", partition=partition, offsets_topic="__consumer_offsets", offsets_partition=3,
                first_offset=self.offset, first_at_ms=at_ms, last_offset=self.offset, last_at_ms=at_ms, commit_count=1,
                first_position=position, last_position=position,
            )
        )  # fmt: skip
        self.offset += 1
        return self

    def deleted(self, *, at_ms: int) -> ConsumerGroupStory:
        return self.record(3, at_ms, value=None)

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

    def evidence(self) -> GroupEvidence:
        return GroupEvidence(
            cluster_id="c",
            group_id=self.group_id,
            records=tuple(self.records),
            lines=tuple(self.lines),
            marks=tuple(self.marks),
            topic_names=((ORDERS, "orders"),),
        )

    def reconstructed(self) -> Reconstruction:
        return reconstruct(self.evidence())
