"""Builds a metadata log record by record, from what the controller does; states what the test is about and no more."""

from __future__ import annotations

from collections.abc import Sequence

from rebalance_audit.domain.metadata import SourceMetadata
from rebalance_audit.domain.reassign import Reassignment, ReassignmentHistory, kraft_history
from tests.domain.metadata.encoder import record, topic_id
from tests.encoders import int16, int32, int64, uvarint

CLUSTER = "lab"
Ids = Sequence[int]
UNSET = -99


class MetadataStory:
    """The log of one controller. `at` moves its clock; each call writes one record at that time."""

    def __init__(self, *, first_offset: int = 0, node: str = "controller-100") -> None:
        self.sources: list[SourceMetadata] = []
        self.at_ms, self.offset, self.epoch, self.node = 0, first_offset, 1, node
        self.snapshot: tuple[int, int] | None = None

    def at(self, at_ms: int) -> MetadataStory:
        self.at_ms = at_ms
        return self

    def write(self, value: bytes, *, key: bytes | None = None) -> MetadataStory:
        self.sources.append(
            SourceMetadata(
                cluster_id=CLUSTER,
                topic="__cluster_metadata",
                partition=0,
                offset=self.offset,
                timestamp_ms=self.at_ms,
                key=key,
                value=value,
                is_control=key is not None,
                node=self.node,
                epoch=self.epoch,
                snapshot=self.snapshot,
            )
        )
        self.offset += 1
        return self

    def topic(self, name: str, *partitions: Ids, number: int = 1) -> MetadataStory:
        self.write(record(2, 0, {"name": name, "topicId": topic_id(number)}))
        for partition, replicas in enumerate(partitions):
            self.partition(partition, replicas, number=number)
        return self

    def partition(
        self,
        partition: int,
        replicas: Ids,
        *,
        isr: Ids | None = None,
        adding: Ids = (),
        removing: Ids = (),
        leader: int | None = None,
        leader_epoch: int = 0,
        number: int = 1,
    ) -> MetadataStory:
        fields = {
            "partitionId": partition,
            "topicId": topic_id(number),
            "replicas": replicas,
            "isr": replicas if isr is None else isr,
            "addingReplicas": adding,
            "removingReplicas": removing,
            "leader": replicas[0] if leader is None else leader,
            "leaderEpoch": leader_epoch,
        }
        return self.write(record(3, 2, fields))

    def change(
        self,
        partition: int = 0,
        *,
        replicas: Ids | None = None,
        adding: Ids | None = None,
        removing: Ids | None = None,
        isr: Ids | None = None,
        leader: int = UNSET,
        number: int = 1,
    ) -> MetadataStory:
        given = {"replicas": replicas, "addingReplicas": adding, "removingReplicas": removing, "isr": isr}
        fields: dict[str, object] = {name: value for name, value in given.items() if value is not None}
        if leader != UNSET:
            fields["leader"] = leader
        return self.write(record(5, 2, {"partitionId": partition, "topicId": topic_id(number), **fields}))

    def remove_topic(self, number: int = 1) -> MetadataStory:
        return self.write(record(9, 0, {"topicId": topic_id(number)}))

    def config(self, resource_type: int, resource: str, name: str, value: str | None) -> MetadataStory:
        fields = {"resourceType": resource_type, "resourceName": resource, "name": name, "value": value}
        return self.write(record(4, 0, fields))

    def throttle(self, topic: str, rate: str | None, brokers: Ids) -> MetadataStory:
        for side in ("leader", "follower"):
            self.config(2, topic, f"{side}.replication.throttled.replicas", None if rate is None else "*")
            for broker in brokers:
                self.config(4, str(broker), f"{side}.replication.throttled.rate", rate)
        return self

    def fenced(self, broker: int, *, is_fenced: bool = True) -> MetadataStory:
        return self.write(record(17, 3, {"brokerId": broker, "brokerEpoch": 9, "fenced": 1 if is_fenced else -1}))

    def shuts_down(self, broker: int) -> MetadataStory:
        return self.write(record(17, 3, {"brokerId": broker, "brokerEpoch": 9, "inControlledShutdown": 1}))

    def controller(self, level: int) -> MetadataStory:
        """Registers one whose software supports metadata.version up to this level."""
        features = [{"name": "metadata.version", "minSupportedVersion": 7, "maxSupportedVersion": level}]
        return self.write(record(27, 0, {"controllerId": 100, "endPoints": [], "features": features}))

    def no_op(self) -> MetadataStory:
        return self.write(record(20, 0, {}))

    def begin(self) -> MetadataStory:
        return self.write(record(23, 0, {"name": "a test"}))

    def end(self) -> MetadataStory:
        return self.write(record(24, 0, {}))

    def abort(self) -> MetadataStory:
        return self.write(record(25, 0, {"reason": "a test"}))

    def new_controller(self, leader: int) -> MetadataStory:
        self.epoch += 1
        body = int16(0) + int32(leader) + uvarint(1) + uvarint(1) + uvarint(0)
        return self.write(body, key=int16(0) + int16(2))

    def snapshot_begins(self, end_offset: int, at_ms: int) -> MetadataStory:
        """What follows stands in a checkpoint, until it ends."""
        self.snapshot, self.offset = (end_offset, self.epoch), 0
        return self.write(int16(0) + int64(at_ms) + uvarint(0), key=int16(0) + int16(3))

    def snapshot_ends(self) -> MetadataStory:
        assert self.snapshot is not None
        self.write(int16(0) + uvarint(0), key=int16(0) + int16(4))
        self.offset, self.snapshot = self.snapshot[0], None
        return self

    def history(self) -> ReassignmentHistory:
        return kraft_history(self.sources, cluster_id=CLUSTER)

    def attempts(self) -> list[Reassignment]:
        return list(self.history().reassignments)


def ladder(attempt: Reassignment) -> list[tuple[str, tuple[int, ...], int | None, set[int]]]:
    """(phase, replicas, leader, ISR) of each step."""
    return [(step.phase, step.replicas, step.leader, set(step.isr)) for step in attempt.steps]
