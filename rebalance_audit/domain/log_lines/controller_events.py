"""The events that `controller.parse_controller_line` gives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class ControllerKind(StrEnum):
    """The kind of a line; its fields stand below each kind. `topic` and `partition` are fields of the event itself."""

    ASSIGNMENT_UPDATING = "assignment_updating"
    """ZooKeeper, DEBUG, accepted: from_replicas, from_adding, from_removing, replicas, adding, removing."""
    ASSIGNMENT_UPDATED = "assignment_updated"
    """ZooKeeper, stored: replicas, adding, removing."""
    REPLICAS_WAITING = "replicas_waiting"
    """replicas that have not caught up."""
    REPLICAS_CAUGHT_UP = "replicas_caught_up"
    """replicas; to 2.3 caught_up_count, replica_count. Missing when none is added."""
    LEADER_CHECKED = "leader_checked"
    """leader, replicas, verdict: alive, dead, not_in_target. Also on a cancellation: no sign of completion."""
    LEADER_EPOCH_UPDATED = "leader_epoch_updated"
    """leader_epoch. After a failover the only trace of a reassignment that goes on."""
    ISR_CHANGED = "isr_changed"
    """isr as a set in any order; from_isr, version where the line has them; seen_by: controller, leader."""
    PARTITION_CREATED = "partition_created"
    """replicas; KRaft: topic_id, novelty."""
    TOPIC_REMOVED = "topic_removed"
    """KRaft: topic_id. No partition."""
    PARTITION_CHANGED = "partition_changed"
    """State-change log: from_state, to_state, leader, leader_epoch, isr."""
    REPLICA_TAKEN_FROM_ISR = "replica_taken_from_isr"
    """State-change log: leader, isr, leader_epoch, replica. Also for replicas that were not in the ISR."""
    REPLICA_CHANGED = "replica_changed"
    """State-change log, TRACE: replica, from_state, to_state."""
    ASSIGNMENT_SENT = "assignment_sent"
    """State-change log: leader, replicas, adding, removing."""
    ZNODE_PARTITIONS_REMOVED = "znode_partitions_removed"
    """text of the map; empty maps print too. No partition."""
    ZNODE_DELETED = "znode_deleted"
    REASSIGNMENT_REFUSED = "reassignment_refused"
    """error, text."""
    CONTROLLER_ELECTED = "controller_elected"
    """controller_id, epoch."""
    CONTROLLER_RESIGNED = "controller_resigned"
    """epoch where the line has it."""
    CONTROLLER_KNOWN = "controller_known"
    """KRaft: epoch, leader (None while there is none)."""
    BROKERS_CHANGED = "brokers_changed"
    """added, deleted, bounced, live; some lines have only one of them."""
    BROKER_FENCED = "broker_fenced"
    """KRaft: broker_id."""
    PARTITIONS_CHANGED_IN_BULK = "partitions_changed_in_bulk"
    """KRaft: context, count."""
    ELECTION_STARTED = "election_started"
    """election_type, cause, partitions; an empty list prints at every check and is no election."""
    ELECTION_COMPLETED = "election_completed"
    """leader. Not printed for the API's elections."""
    ELECTION_RESULT = "election_result"
    """DEBUG: election_type, cause, text of the map: partition -> Right(leader) or Left(error)."""
    LEADER_STARTED = "leader_started"
    """Broker: leader_epoch, offset, isr, adding, removing, partition_epoch, previous_epoch."""
    FOLLOWER_STARTED = "follower_started"
    """Broker: leader_epoch, offset (0: a replica that had nothing), leader, partition_epoch, previous_epoch."""
    REPLICA_CREATED = "replica_created"
    """Broker: topic_id. In KRaft an ERROR line of an ordinary start."""
    REPLICA_DELETED = "replica_deleted"
    """Broker: path."""
    REPLICA_KEPT = "replica_kept"
    """Broker: a StopReplica was ignored: a cancelled reassignment leaves a partial replica."""
    FETCHER_ADDED = "fetcher_added"
    """Broker: leader, text of the map. No partition."""
    FETCHER_REMOVED = "fetcher_removed"
    """Broker: text of the set. No partition."""
    THROTTLE_CHANGED = "throttle_changed"
    """entity, text; KRaft: entity, name, value (None: removed, `[hidden]`: not shown)."""
    REASSIGNMENTS_ALTERED = "reassignments_altered"
    """KRaft: altered_count, asked_count. No partition: see the record."""
    ASSIGNMENT_REPLAYED = "assignment_replayed"
    """KRaft: record (field -> value; absent where null), isr, from_isr, replicas, from_replicas, epochs where shown."""
    ALTER_PARTITION_DONE = "alter_partition_done"
    """KRaft: broker_id, is_completed, isr, from_isr, replicas, from_replicas. `is_completed` is None where the line
    cannot say: 3.9 to 4.3 print "completed" while the reassignment goes on; the replica set or a new leader shows."""
    ALTER_PARTITION_REFUSED = "alter_partition_refused"
    """KRaft: broker_id, text."""
    UNCLEAN_CHANGE = "unclean_change"
    """KRaft: text of the difference."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerEvent:
    """One line about partitions, brokers or controllers, read."""

    kind: ControllerKind
    ref: str
    node: str
    local_at_ms: int
    at_ms: int | None = None
    """UTC, where the line says its zone."""
    topic: str | None = None
    partition: int | None = None
    logged_by: int | None = None
    """Id of the broker or controller in the line's prefix."""
    fields: Mapping[str, Any] = field(default_factory=dict)
