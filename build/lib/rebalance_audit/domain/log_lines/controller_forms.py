"""Messages about reassignments and leaders by who writes them. Formats: docs/log_lines.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rebalance_audit.domain.log_lines.controller_events import ControllerKind

_ASSIGNED = "ReplicaAssignment(replicas=<{0}replicas>, addingReplicas=<{0}adding>, removingReplicas=<{0}removing>)"
_STATES = "NonExistentPartition|NewPartition|OnlinePartition|OfflinePartition"
_THROTTLES = (
    "leader.replication.throttled.rate|follower.replication.throttled.rate|leader.replication.throttled.replicas|"
    "follower.replication.throttled.replicas|replica.alter.log.dirs.io.max.bytes.per.second"
)
_STARTS = "starts at leader epoch <leader_epoch:int> from offset <offset:long> with "
_DIFF = "isr: [<from_isr>] -> [<isr>], replicaSet: [<from_replicas>] -> [<replicas>], "

Forms = tuple[tuple[ControllerKind, str] | tuple[ControllerKind, str, Mapping[str, Any]], ...]

ZOOKEEPER: Forms = (
    (
        ControllerKind.ASSIGNMENT_UPDATING,
        f"Updating assignment of partition <tp> from {_ASSIGNED.format('from_')} to {_ASSIGNED.format('')}",
    ),
    (
        ControllerKind.ASSIGNMENT_UPDATED,
        f"Successfully updated assignment of partition <tp> to {_ASSIGNED.format('')}",
    ),
    (
        ControllerKind.REPLICAS_WAITING,
        "New replicas <replicas> for partition <tp> being reassigned not yet caught up with the leader",
    ),
    (
        ControllerKind.REPLICAS_WAITING,
        "Waiting for new replicas <replicas> for partition <tp> being reassigned to catch up with the leader",
    ),
    (
        ControllerKind.REPLICAS_CAUGHT_UP,
        "Target replicas <replicas> have all caught up with the leader for reassigning partition <tp>",
    ),
    (
        ControllerKind.REPLICAS_CAUGHT_UP,
        "<caught_up_count:int>/<replica_count:int> replicas have caught up with the leader for partition <tp> "
        "being reassigned",
    ),
    (
        ControllerKind.LEADER_CHECKED,
        "Leader <leader:int> for partition <tp> being reassigned, is already in the new list of replicas <replicas> "
        "and is alive",
        {"verdict": "alive"},
    ),
    (
        ControllerKind.LEADER_CHECKED,
        "Leader <leader:int> for partition <tp> being reassigned, is already in the new list of replicas <replicas> "
        "but is dead",
        {"verdict": "dead"},
    ),
    (
        ControllerKind.LEADER_CHECKED,
        "Leader <leader:int> for partition <tp> being reassigned, is not in the new list of replicas <replicas>. "
        "Re-electing leader",
        {"verdict": "not_in_target"},
    ),
    (
        ControllerKind.LEADER_EPOCH_UPDATED,
        "Updated leader epoch for partition <tp> to <leader_epoch:int>{, zkVersion=<version:int>}?",
    ),
    (
        ControllerKind.ISR_CHANGED,
        "ISR for partition <tp> updated to [<isr>] and zkVersion updated to [<version:int>]",
        {"seen_by": "controller"},
    ),
    (
        ControllerKind.ISR_CHANGED,
        "ISR for partition <tp> updated to LeaderAndIsr(leader=<leader:int>, leaderEpoch=<leader_epoch:int>, "
        "<leader_and_isr>",
        {"seen_by": "controller"},
    ),
    (
        ControllerKind.ZNODE_PARTITIONS_REMOVED,
        "Removing partitions <text> from the list of reassigned partitions in zookeeper",
    ),
    (
        ControllerKind.ZNODE_DELETED,
        "No more partitions need to be reassigned. Deleting zk path /admin/reassign_partitions",
    ),
    (ControllerKind.REASSIGNMENT_REFUSED, "Failed reassignment through zk with the following errors: <text>"),
    (
        ControllerKind.REASSIGNMENT_REFUSED,
        "Skipping reassignment of <tp> since the topic is currently being deleted",
        {"error": "topic_deletion"},
    ),
    (
        ControllerKind.REASSIGNMENT_REFUSED,
        "Error completing reassignment of partition <tp>",
        {"error": "completion"},
    ),
    (
        ControllerKind.CONTROLLER_ELECTED,
        "<controller_id:int> successfully elected as the controller. Epoch incremented to <epoch:int> and epoch zk "
        "version is now <version:int>",
    ),
    (ControllerKind.CONTROLLER_RESIGNED, "Resigned"),
    (
        ControllerKind.BROKERS_CHANGED,
        "Newly added brokers: <added>, deleted brokers: <deleted>, bounced brokers: <bounced>, all live brokers: "
        "<live>",
    ),
    (ControllerKind.BROKERS_CHANGED, "Broker failure callback for <deleted>"),
    (ControllerKind.BROKERS_CHANGED, "New broker startup callback for <added>"),
    (
        ControllerKind.PARTITION_CREATED,
        f"Changed partition <tp> state from <from_state:{_STATES}> to <to_state:{_STATES}> with assigned replicas "
        "<replicas>",
    ),
    (
        ControllerKind.ELECTION_STARTED,
        "Starting replica leader election (<election_type:word>) for partitions <partitions> triggered by <cause:word>",
    ),
    (
        ControllerKind.ELECTION_COMPLETED,
        "Partition <tp> completed preferred replica leader election. New leader is <leader:int>",
    ),
    (
        ControllerKind.ELECTION_RESULT,
        "Waiting for any successful result for election type (<election_type:word>) by <cause:word> for partitions: "
        "<text>",
    ),
    (
        ControllerKind.PARTITION_CHANGED,
        f"Changed partition <tp> from <from_state:{_STATES}> to <to_state:{_STATES}> with state "
        "LeaderAndIsr(leader=<leader:int>, leaderEpoch=<leader_epoch:int>, <leader_and_isr>",
    ),
    (
        ControllerKind.REPLICA_TAKEN_FROM_ISR,
        "Partition <tp> state changed to (Leader:<leader:int>,ISR:<isr>,LeaderEpoch:<leader_epoch:int>,<rest> after "
        "removing replica <replica:int> from the ISR as part of transition to <to_state:word>",
    ),
    (
        ControllerKind.REPLICA_CHANGED,
        "Changed state of replica <replica:int> for partition <tp> from <from_state:word> to <to_state:word>",
    ),
    (
        ControllerKind.ASSIGNMENT_SENT,
        f"Sent LeaderAndIsr request <request> with new replica assignment {_ASSIGNED.format('')} to leader "
        f"<leader:int> "
        "for partition being reassigned <tp>",
    ),
)
BROKER: Forms = (
    (
        ControllerKind.LEADER_STARTED,
        f"Leader <tp> {_STARTS}high watermark <high_watermark:long> ISR [<isr>] addingReplicas [<adding>] "
        f"removingReplicas "
        "[<removing>]. Previous leader epoch was <previous_epoch:int>.",
    ),
    (
        ControllerKind.LEADER_STARTED,
        f"Leader <tp> with topic id <topic_id:word> {_STARTS}{{partition epoch <partition_epoch:int>, }}?high "
        f"watermark "
        "<high_watermark:long>, ISR [<isr>], adding replicas [<adding>] and removing replicas [<removing>]"
        "{ (under-min-isr)}?{ }?. Previous leader <previous_leader>epoch was <previous_epoch:int>.",
    ),
    (
        ControllerKind.FOLLOWER_STARTED,
        f"Follower <tp> {_STARTS}{{partition epoch <partition_epoch:int> and }}?high watermark <high_watermark:long>."
        "{ Current leader is <leader:int>.}? Previous leader <previous_leader>epoch was <previous_epoch:int>.",
    ),
    (ControllerKind.REPLICA_CREATED, "Creating new partition <tp> with topic id <topic_id:word>."),
    (
        ControllerKind.REPLICA_CREATED,
        "Expected partition <tp> with topic id <topic_id:word> to exist, but it was missing. Creating...",
    ),
    (
        ControllerKind.REPLICA_DELETED,
        "Log for partition <tp> is renamed to <path> and is scheduled for deletion",
    ),
    (
        ControllerKind.REPLICA_KEPT,
        "Ignoring StopReplica request (delete=true) from controller <controller_id:int> with correlation id "
        "<correlation_id:int> epoch <epoch:int> for partition <tp> since its associated leader epoch <text>",
    ),
    (ControllerKind.FETCHER_ADDED, "Added fetcher to broker <leader:int> for partitions <text>"),
    (ControllerKind.FETCHER_REMOVED, "Removed fetcher for partitions <text>"),
    (ControllerKind.THROTTLE_CHANGED, "Processing override for entityPath: <entity> with config: <text>"),
)
LEADER: Forms = (
    (ControllerKind.ISR_CHANGED, "Expanding ISR from <from_isr> to <isr>", {"seen_by": "leader"}),
    (
        ControllerKind.ISR_CHANGED,
        "Shrinking ISR from <from_isr> to <isr>. Leader: <text>",
        {"seen_by": "leader"},
    ),
    (
        ControllerKind.ISR_CHANGED,
        "ISR updated to [<isr>] and zkVersion updated to [<version:int>]",
        {"seen_by": "leader"},
    ),
    (
        ControllerKind.ISR_CHANGED,
        "ISR updated {from AlterIsr }?to <isr> and version updated to [<version:int>]",
        {"seen_by": "leader"},
    ),
    (
        ControllerKind.ISR_CHANGED,
        "ISR updated {from AlterIsr }?to <isr> and version updated to <version:int>",
        {"seen_by": "leader"},
    ),
)
"""Behind `[Partition <tp> broker=<n>] `."""
KRAFT: Forms = (
    (
        ControllerKind.REASSIGNMENTS_ALTERED,
        "Successfully altered <altered_count:int> out of <asked_count:int> partition reassignment(s).",
    ),
    (
        ControllerKind.REASSIGNMENT_REFUSED,
        "Unable to alter partition reassignment for <topic_and_partition> because of an <error:word> error: <text>",
    ),
    (
        ControllerKind.ASSIGNMENT_REPLAYED,
        f"Replayed partition assignment change PartitionChangeRecord(<record>) for topic <topic>. "
        f"({_DIFF}partitionEpoch: "
        "<partition_epoch:int>, leaderEpoch: <leader_epoch:int>)",
    ),
    (
        ControllerKind.ASSIGNMENT_REPLAYED,
        "Replayed partition assignment change PartitionChangeRecord(<record>) for topic <topic:word>",
    ),
    *(
        (
            ControllerKind.ALTER_PARTITION_DONE,
            f"{request} request from node <broker_id:int> for <tp> completed the ongoing partition reassignment{end}",
            constants,
        )
        for request in ("AlterPartition", "AlterIsr")
        for end, constants in (
            (".", {"is_completed": None}),
            (
                f". {_DIFF}partitionEpoch: <from_partition_epoch:int> -> <partition_epoch:int>, "
                "leaderEpoch: <from_leader_epoch:int> -> <leader_epoch:int>",
                {},
            ),
            (
                f" and triggered a leadership change {_DIFF}partitionEpoch: <from_partition_epoch:int> -> "
                "<partition_epoch:int>, leaderEpoch: <from_leader_epoch:int> -> <leader_epoch:int>. "
                "<returning:Returning|Reutrning> <error:word>.",
                {"is_completed": True},
            ),
            (
                " and triggered a leadership change. <returning:Returning|Reutrning> <error:word>.",
                {"is_completed": True},
            ),
        )
    ),
    (
        ControllerKind.ALTER_PARTITION_REFUSED,
        "Rejecting AlterPartition request from node <broker_id:int> for <tp> because <text>",
    ),
    (
        ControllerKind.PARTITION_CREATED,
        "Replayed PartitionRecord for <novelty:new|existing> partition <tp> with topic ID <topic_id:word> and "
        "PartitionRegistration(replicas=[<replicas:ids>], <text>",
    ),
    (
        ControllerKind.PARTITION_CREATED,
        "Created partition <tp> with topic ID <topic_id:word> and PartitionRegistration(replicas=[<replicas:ids>], "
        "<text>",
    ),
    (ControllerKind.TOPIC_REMOVED, "Replayed RemoveTopicRecord for topic <topic> with ID <topic_id:word>."),
    (ControllerKind.TOPIC_REMOVED, "Removed topic <topic> with ID <topic_id:word>."),
    (ControllerKind.UNCLEAN_CHANGE, "UNCLEAN partition change for <tp> with topic ID <topic_id:word>: <text>"),
    (
        ControllerKind.BROKER_FENCED,
        "Fencing broker <broker_id:int>{ at epoch <epoch:long>}? because its session has timed out.",
    ),
    (ControllerKind.CONTROLLER_KNOWN, "In the new epoch <epoch:int>, the leader is <leader:word>."),
    (
        ControllerKind.CONTROLLER_ELECTED,
        "Becoming the active controller at epoch <epoch:int>, <text>",
    ),
    (ControllerKind.CONTROLLER_RESIGNED, "Renouncing the leadership {at oldEpoch <epoch:int> }?due to <text>"),
    (
        ControllerKind.THROTTLE_CHANGED,
        f"Replayed ConfigRecord for ConfigResource(<entity>) which set configuration <name:{_THROTTLES}> to <value>",
    ),
)
