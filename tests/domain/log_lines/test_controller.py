"""Reassignments as controllers and brokers show them. Lines of 2.7.2, 3.9.1 and 4.3.0 are as seen on real clusters."""

from __future__ import annotations

from typing import Any

import pytest

from rebalance_audit.domain.log_lines.controller import parse_controller_line
from rebalance_audit.domain.log_lines.controller_events import ControllerEvent, ControllerKind
from tests.domain.log_lines.lines import HEAD, a_line

K = ControllerKind
TARGET = {"replicas": (2, 3, 5, 1, 0), "adding": (3, 5), "removing": (1, 0)}
TARGET_TEXT = "ReplicaAssignment(replicas=2,3,5,1,0, addingReplicas=3,5, removingReplicas=1,0)"


def seen(line: str) -> ControllerEvent:
    event = parse_controller_line(a_line(HEAD + line + "\n"))
    assert event is not None, f"not understood: {line}"
    return event


# release, line, kind, partition of orders (None: no partition), who logged it, some fields
CASES: list[tuple[str, str, ControllerKind, int | None, int | None, dict[str, Any]]] = [
    (
        "2.7.2",
        "[Controller id=2] Updating assignment of partition orders-0 from ReplicaAssignment(replicas=1,0,2, "
        "addingReplicas=, "
        f"removingReplicas=) to {TARGET_TEXT} (kafka.controller.KafkaController)",
        K.ASSIGNMENT_UPDATING,
        0,
        2,
        {"from_replicas": (1, 0, 2), "from_adding": (), "from_removing": (), **TARGET},
    ),
    (
        "2.7.2",
        f"[Controller id=2] Successfully updated assignment of partition orders-0 to {TARGET_TEXT} "
        "(kafka.controller.KafkaController)",
        K.ASSIGNMENT_UPDATED,
        0,
        2,
        TARGET,
    ),
    (
        "2.7.2",
        "[Controller id=2] Updated leader epoch for partition orders-0 to 1, zkVersion=1 "
        "(kafka.controller.KafkaController)",
        K.LEADER_EPOCH_UPDATED,
        0,
        2,
        {"leader_epoch": 1, "version": 1},
    ),
    (
        "2.7.2",
        "[Controller id=2 epoch=1] Sent LeaderAndIsr request (Leader:1,ISR:1,0,2,LeaderEpoch:1,ZkVersion:1,"
        f"ControllerEpoch:1) with new replica assignment {TARGET_TEXT} to leader 1 for partition being reassigned "
        f"orders-0 "
        "(state.change.logger)",
        K.ASSIGNMENT_SENT,
        0,
        2,
        {"leader": 1, **TARGET},
    ),
    (
        "2.7.2",
        "[Broker id=1] Leader orders-0 starts at leader epoch 1 from offset 1280 with high watermark 1280 ISR [1,0,2] "
        "addingReplicas [3,5] removingReplicas [1,0]. Previous leader epoch was 0. (state.change.logger)",
        K.LEADER_STARTED,
        0,
        1,
        {
            "leader_epoch": 1,
            "offset": 1280,
            "isr": (1, 0, 2),
            "adding": (3, 5),
            "removing": (1, 0),
            "previous_epoch": 0,
        },
    ),
    (
        "2.7.2",
        "[Broker id=5] Follower orders-0 starts at leader epoch 1 from offset 0 with high watermark 0. Previous "
        "leader epoch "
        "was -1. (state.change.logger)",
        K.FOLLOWER_STARTED,
        0,
        5,
        {"leader_epoch": 1, "offset": 0, "previous_epoch": -1},
    ),
    (
        "2.7.2",
        "[ReplicaFetcherManager on broker 3] Added fetcher to broker 1 for partitions Map(orders-0 -> (offset=0, "
        "leaderEpoch=1)) (kafka.server.ReplicaFetcherManager)",
        K.FETCHER_ADDED,
        None,
        3,
        {"leader": 1, "text": "Map(orders-0 -> (offset=0, leaderEpoch=1))"},
    ),
    (
        "2.7.2",
        "[Controller id=2] ISR for partition orders-0 updated to [1,0,2,5] and zkVersion updated to [2] "
        "(kafka.controller.KafkaController)",
        K.ISR_CHANGED,
        0,
        2,
        {"isr": (1, 0, 2, 5), "version": 2, "seen_by": "controller"},
    ),
    (
        "2.7.2",
        "[Partition orders-0 broker=1] ISR updated from AlterIsr to 1,0,2,5 and version updated to [2] "
        "(kafka.cluster.Partition)",
        K.ISR_CHANGED,
        0,
        1,
        {"isr": (1, 0, 2, 5), "version": 2, "seen_by": "leader"},
    ),
    (
        "2.7.2",
        "[Controller id=2] Target replicas ArrayBuffer(2, 3, 5) have all caught up with the leader for reassigning "
        "partition "
        "orders-0 (kafka.controller.KafkaController)",
        K.REPLICAS_CAUGHT_UP,
        0,
        2,
        {"replicas": (2, 3, 5)},
    ),
    (
        "2.3",
        "[Controller id=2] 2/3 replicas have caught up with the leader for partition orders-0 being reassigned "
        "(kafka.controller.KafkaController)",
        K.REPLICAS_CAUGHT_UP,
        0,
        2,
        {"caught_up_count": 2, "replica_count": 3},
    ),
    (
        "2.7.2",
        "[Controller id=2] Leader 1 for partition orders-0 being reassigned, is not in the new list of replicas 2,3,5. "
        "Re-electing leader (kafka.controller.KafkaController)",
        K.LEADER_CHECKED,
        0,
        2,
        {"leader": 1, "replicas": (2, 3, 5), "verdict": "not_in_target"},
    ),
    (
        "2.7.2",
        "[Controller id=2] Leader 2 for partition orders-2 being reassigned, is already in the new list of replicas "
        "2,3,5 and "
        "is alive (kafka.controller.KafkaController)",
        K.LEADER_CHECKED,
        2,
        2,
        {"leader": 2, "replicas": (2, 3, 5), "verdict": "alive"},
    ),
    (
        "2.7.2",
        "[Controller id=2 epoch=1] Changed partition orders-0 from OnlinePartition to OnlinePartition with state "
        "LeaderAndIsr(leader=2, leaderEpoch=2, isr=List(0, 5, 1, 2, 3), zkVersion=4) (state.change.logger)",
        K.PARTITION_CHANGED,
        0,
        2,
        {"leader": 2, "leader_epoch": 2, "isr": (0, 5, 1, 2, 3)},
    ),
    (
        "3.9.1",
        "[Controller id=5 epoch=1] Changed partition orders-0 from OnlinePartition to OnlinePartition with state "
        "LeaderAndIsr(leader=2, leaderEpoch=2, isrWithBrokerEpoch=List(BrokerState(brokerId=0, brokerEpoch=-1), "
        "BrokerState(brokerId=5, brokerEpoch=-1)), leaderRecoveryState=RECOVERED, partitionEpoch=4) "
        "(state.change.logger)",
        K.PARTITION_CHANGED,
        0,
        5,
        {"leader": 2, "leader_epoch": 2, "isr": (0, 5)},
    ),
    (
        "2.7.2",
        "[Controller id=2 epoch=1] Partition orders-0 state changed to (Leader:2,ISR:5,1,2,3,LeaderEpoch:3,ZkVersion:5,"
        "ControllerEpoch:1) after removing replica 0 from the ISR as part of transition to OfflineReplica "
        "(state.change.logger)",
        K.REPLICA_TAKEN_FROM_ISR,
        0,
        2,
        {"leader": 2, "isr": (5, 1, 2, 3), "leader_epoch": 3, "replica": 0},
    ),
    (
        "2.7.2",
        "[Controller id=1] Removing partitions Map(orders-2 -> Buffer(3, 5, 0)) from the list of reassigned "
        "partitions in "
        "zookeeper (kafka.controller.KafkaController)",
        K.ZNODE_PARTITIONS_REMOVED,
        None,
        1,
        {"text": "Map(orders-2 -> Buffer(3, 5, 0))"},
    ),
    (
        "2.7.2",
        "[Controller id=5] 5 successfully elected as the controller. Epoch incremented to 2 and epoch zk version is "
        "now 2 "
        "(kafka.controller.KafkaController)",
        K.CONTROLLER_ELECTED,
        None,
        5,
        {"controller_id": 5, "epoch": 2},
    ),
    (
        "2.7.2",
        "[Controller id=1] Newly added brokers: 5, deleted brokers: , bounced brokers: , all live brokers: 0,1,2,3,5 "
        "(kafka.controller.KafkaController)",
        K.BROKERS_CHANGED,
        None,
        1,
        {"added": (5,), "deleted": (), "bounced": (), "live": (0, 1, 2, 3, 5)},
    ),
    (
        "2.7.2",
        "Log for partition orders-0 is renamed to /data/orders-0.f77b-delete and is scheduled for deletion "
        "(kafka.log.LogManager)",
        K.REPLICA_DELETED,
        0,
        None,
        {"path": "/data/orders-0.f77b-delete"},
    ),
    (
        "2.7.2",
        "Processing override for entityPath: brokers/0 with config: HashMap(leader.replication.throttled.rate -> "
        "700000) "
        "(kafka.server.DynamicConfigManager)",
        K.THROTTLE_CHANGED,
        None,
        None,
        {"entity": "brokers/0", "text": "HashMap(leader.replication.throttled.rate -> 700000)"},
    ),
    (
        "2.7.2",
        "[Broker id=3] Ignoring StopReplica request (delete=true) from controller 3 with correlation id 19 epoch 1 for "
        "partition orders-0 since its associated leader epoch 1 matches the current leader epoch (state.change.logger)",
        K.REPLICA_KEPT,
        0,
        3,
        {"controller_id": 3},
    ),
    (
        "2.7.2",
        "[Controller id=0] Starting replica leader election (PREFERRED) for partitions orders-0,orders-1 triggered by "
        "AutoTriggered (kafka.controller.KafkaController)",
        K.ELECTION_STARTED,
        None,
        0,
        {"election_type": "PREFERRED", "partitions": ("orders-0", "orders-1"), "cause": "AutoTriggered"},
    ),
    (
        "2.7.2, nothing to do",
        "[Controller id=0] Starting replica leader election (PREFERRED) for partitions  triggered by ZkTriggered "
        "(kafka.controller.KafkaController)",
        K.ELECTION_STARTED,
        None,
        0,
        {"partitions": (), "cause": "ZkTriggered"},
    ),
    (
        "2.7.2",
        "[Controller id=0] Partition orders-1 completed preferred replica leader election. New leader is 1 "
        "(kafka.controller.KafkaController)",
        K.ELECTION_COMPLETED,
        1,
        0,
        {"leader": 1},
    ),
    (
        "3.9.1",
        "[Partition orders-0 broker=1] ISR updated to 1,0,2,3  and version updated to 2 (kafka.cluster.Partition)",
        K.ISR_CHANGED,
        0,
        1,
        {"isr": (1, 0, 2, 3), "version": 2, "seen_by": "leader"},
    ),
    (
        "3.9.1",
        "[Broker id=1] Leader orders-0 with topic id Some(vyGi) starts at leader epoch 1 from offset 1280 with "
        "partition "
        "epoch 1, high watermark 1280, ISR [1,0,2], adding replicas [3,5] and removing replicas [1,0] . Previous "
        "leader "
        "Some(1) and previous leader epoch was 0. (state.change.logger)",
        K.LEADER_STARTED,
        0,
        1,
        {"topic_id": "vyGi", "isr": (1, 0, 2), "adding": (3, 5), "removing": (1, 0), "partition_epoch": 1},
    ),
    (
        "4.3.0",
        "[Broker id=5] Follower orders-0 starts at leader epoch 0 from offset 0 with partition epoch 1 and high "
        "watermark 0. "
        "Current leader is 1. Previous leader None and previous leader epoch was -1. (state.change.logger)",
        K.FOLLOWER_STARTED,
        0,
        5,
        {"leader": 1, "offset": 0, "partition_epoch": 1, "previous_epoch": -1},
    ),
    (
        "4.3.0",
        "[Broker id=5] Expected partition orders-0 with topic id a3aZXC9HRiWZ2U21h_-tDQ to exist, but it was missing. "
        "Creating... (state.change.logger)",
        K.REPLICA_CREATED,
        0,
        5,
        {"topic_id": "a3aZXC9HRiWZ2U21h_-tDQ"},
    ),
    (
        "4.3.0",
        "[QuorumController id=100] Successfully altered 1 out of 1 partition reassignment(s). "
        "(org.apache.kafka.controller.ReplicationControlManager)",
        K.REASSIGNMENTS_ALTERED,
        None,
        100,
        {"altered_count": 1, "asked_count": 1},
    ),
    (
        "4.3.0",
        "[QuorumController id=100] Unable to alter partition reassignment for orders:0 because of an "
        "NoReassignmentInProgressException error: No partition reassignment is in progress. "
        "(org.apache.kafka.controller.ReplicationControlManager)",
        K.REASSIGNMENT_REFUSED,
        0,
        100,
        {"error": "NoReassignmentInProgressException", "text": "No partition reassignment is in progress."},
    ),
    (
        "4.3.0",
        "[QuorumController id=100] AlterPartition request from node 1 for orders-0 completed the ongoing partition "
        "reassignment. isr: [1, 0, 2] -> [0, 1, 2, 3], replicaSet: [2, 3, 5, 0, 1] -> [2, 3, 5, 0, 1], partitionEpoch: "
        "1 -> 2, leaderEpoch: 0 -> 0 (org.apache.kafka.controller.ReplicationControlManager)",
        K.ALTER_PARTITION_DONE,
        0,
        100,
        {"broker_id": 1, "is_completed": False, "from_isr": (1, 0, 2), "isr": (0, 1, 2, 3), "partition_epoch": 2},
    ),
    (
        "4.3.0",
        "[QuorumController id=100] AlterPartition request from node 1 for orders-0 completed the ongoing partition "
        "reassignment and triggered a leadership change isr: [0, 1, 2, 3] -> [2, 3, 5], replicaSet: [2, 3, 5, 0, 1] -> "
        "[2, 3, 5], partitionEpoch: 2 -> 3, leaderEpoch: 0 -> 1. Returning NEW_LEADER_ELECTED. "
        "(org.apache.kafka.controller.ReplicationControlManager)",
        K.ALTER_PARTITION_DONE,
        0,
        100,
        {"is_completed": True, "isr": (2, 3, 5), "replicas": (2, 3, 5), "error": "NEW_LEADER_ELECTED"},
    ),
    (
        "3.9",
        "[QuorumController id=100] AlterPartition request from node 1 for orders-0 completed the ongoing partition "
        "reassignment. (org.apache.kafka.controller.ReplicationControlManager)",
        K.ALTER_PARTITION_DONE,
        0,
        100,
        {"is_completed": None},
    ),
    (
        "4.3.0",
        "[QuorumController id=100] Replayed ConfigRecord for ConfigResource(type=TOPIC, name='orders') which set "
        "configuration leader.replication.throttled.replicas to null "
        "(org.apache.kafka.controller.ConfigurationControlManager)",
        K.THROTTLE_CHANGED,
        None,
        100,
        {"entity": "type=TOPIC, name='orders'", "name": "leader.replication.throttled.replicas", "value": None},
    ),
    (
        "2.7.2",
        "[Controller id=1 epoch=1] Changed partition orders-4 state from NonExistentPartition to NewPartition with "
        "assigned "
        "replicas 1,2 (state.change.logger)",
        K.PARTITION_CREATED,
        4,
        1,
        {"replicas": (1, 2), "to_state": "NewPartition"},
    ),
    (
        "4.3.0",
        "[QuorumController id=1] Replayed PartitionRecord for new partition orders-3 with topic ID "
        "vfIcNTgBTNCNVZkUSCYoQw "
        "and PartitionRegistration(replicas=[1], directories=[x], isr=[1], removingReplicas=[], addingReplicas=[]). "
        "(org.apache.kafka.controller.ReplicationControlManager)",
        K.PARTITION_CREATED,
        3,
        1,
        {"replicas": (1,), "topic_id": "vfIcNTgBTNCNVZkUSCYoQw"},
    ),
    (
        "2.7.2",
        "[Controller id=1] Broker failure callback for 3,5 (kafka.controller.KafkaController)",
        K.BROKERS_CHANGED,
        None,
        1,
        {"deleted": (3, 5)},
    ),
    (
        "4.3.0",
        "[QuorumController id=1] Fencing broker 2 at epoch 13 because its session has timed out. "
        "(org.apache.kafka.controller.ReplicationControlManager)",
        K.BROKER_FENCED,
        None,
        1,
        {"broker_id": 2, "epoch": 13},
    ),
    (
        "4.3.0",
        "[QuorumController id=1] enterControlledShutdown[1]: changing 6 partition(s) "
        "(org.apache.kafka.controller.ReplicationControlManager)",
        K.PARTITIONS_CHANGED_IN_BULK,
        None,
        1,
        {"context": "enterControlledShutdown[1]", "count": 6},
    ),
    (
        "4.3.0",
        "[QuorumController id=2] In the new epoch 3, the leader is (none). "
        "(org.apache.kafka.controller.QuorumController)",
        K.CONTROLLER_KNOWN,
        None,
        2,
        {"epoch": 3, "leader": None},
    ),
    (
        "4.3.0",
        "[QuorumController id=1] Becoming the active controller at epoch 3, next write offset 100. "
        "(org.apache.kafka.controller.QuorumController)",
        K.CONTROLLER_ELECTED,
        None,
        1,
        {"epoch": 3},
    ),
]


@pytest.mark.parametrize(("release", "line", "kind", "partition", "logged_by", "fields"), CASES)
def test_the_line_is_understood(
    release: str, line: str, kind: ControllerKind, partition: int | None, logged_by: int | None, fields: dict[str, Any]
) -> None:
    event = seen(line)
    assert (event.kind, event.partition, event.logged_by) == (kind, partition, logged_by)
    assert event.topic == (None if partition is None else "orders")
    assert {name: event.fields.get(name) for name in fields} == fields


def test_a_replayed_record_is_taken_apart() -> None:
    event = seen(
        "[QuorumController id=100] Replayed partition assignment change PartitionChangeRecord(partitionId=0, "
        "topicId=a3aZXC9HRiWZ2U21h_-tDQ, isr=null, leader=-2, replicas=[2, 3, 5, 0, 1], removingReplicas=[0, 1], "
        "addingReplicas=[], leaderRecoveryState=-1, directories=[AAAAAAAAAAAAAAAAAAAAAQ], eligibleLeaderReplicas=null, "
        "lastKnownElr=null) for topic orders. (isr: [1, 0, 2] -> [1, 0, 2], replicaSet: [1, 0, 2] -> [2, 3, 5, 0, 1], "
        "partitionEpoch: 1, leaderEpoch: 0) (org.apache.kafka.controller.ReplicationControlManager)"
    )
    assert (event.kind, event.topic, event.partition) == (K.ASSIGNMENT_REPLAYED, "orders", 0)
    assert event.fields["record"] == {
        "partitionId": 0,
        "topicId": "a3aZXC9HRiWZ2U21h_-tDQ",
        "leader": -2,
        "replicas": (2, 3, 5, 0, 1),
        "removingReplicas": (0, 1),
        "addingReplicas": (),
        "leaderRecoveryState": -1,
        "directories": ("AAAAAAAAAAAAAAAAAAAAAQ",),
    }
    assert (event.fields["from_replicas"], event.fields["replicas"]) == ((1, 0, 2), (2, 3, 5, 0, 1))


def test_before_4_3_a_replayed_record_has_no_difference_behind_it() -> None:
    event = seen(
        "[QuorumController id=100] Replayed partition assignment change PartitionChangeRecord(partitionId=4, "
        "topicId=x, "
        "isr=[2, 3], leader=2, replicas=[2, 3], removingReplicas=[], addingReplicas=[], leaderRecoveryState=-1) for "
        "topic "
        "orders (org.apache.kafka.controller.ReplicationControlManager)"
    )
    assert (event.topic, event.partition, event.fields["record"]["isr"]) == ("orders", 4, (2, 3))


@pytest.mark.parametrize(
    "line",
    [
        "[Controller id=0] Processing automatic preferred replica leader election (kafka.controller.KafkaController)",
        "[QuorumController id=1] Replayed a FeatureLevelRecord (org.apache.kafka.controller.FeatureControlManager)",
        "[GroupCoordinator 1]: Stabilized group g generation 1 (__consumer_offsets-1) (kafka.coordinator.group.X)",
        "[Partition orders-0 broker=1] Log loaded for partition orders-0 with initial high watermark 0 "
        "(kafka.cluster.P)",
    ],
)
def test_other_lines_show_nothing(line: str) -> None:
    assert parse_controller_line(a_line(HEAD + line)) is None
