"""The metadata log as a history of reassignments, elections and throttles.

`KRaftFold` reads record after record and keeps the cluster's present state and what is running; what has ended can be
taken away at any time, so that a growing log is followed in bounded memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.metadata import MetadataChange
from rebalance_audit.domain.metadata.brokers import (
    BrokerRegistrationChangeRecord,
    Feature,
    FenceBrokerRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
)
from rebalance_audit.domain.metadata.others import (
    BROKER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigRecord,
    ControlRecord,
    NoOpRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from rebalance_audit.domain.metadata.partitions import NO_CHANGE, NO_LEADER, PartitionChangeRecord, PartitionRecord
from rebalance_audit.domain.reassign.attempt import ReassignmentAttempt
from rebalance_audit.domain.reassign.brokers import THROTTLES
from rebalance_audit.domain.reassign.elections import kraft_election
from rebalance_audit.domain.reassign.model import (
    LeaderElection,
    PartitionState,
    Reassignment,
)
from rebalance_audit.domain.reassign.stall import CompletionRule, Surroundings
from rebalance_audit.domain.reassign.transitions import Attempts, Key

MIN_ISR = "min.insync.replicas"
_SILENCE_MS = 10_000
"""An active controller writes a no-op every 500 ms (metadata.max.idle.interval.ms), unless that is switched off
(docs/measured.md#defaults-of-kafka)."""


class KRaftFold:
    """Folds the changes of a metadata log, in its order, into states, reassignments and elections."""

    def __init__(self, cluster_id: str, around: Surroundings | None = None) -> None:
        self.cluster_id = cluster_id
        self.around = around or Surroundings(cluster_id)
        self.brokers, self.throttles = self.around.brokers, self.around.throttles
        self.partitions: dict[Key, PartitionState] = {}
        self.topics: dict[str, str] = {}
        self.names: dict[str, str] = {}
        """Includes deleted topics."""
        self.attempts = Attempts("metadata")
        self.elections: list[LeaderElection] = []
        self.min_isr: dict[str, int] = {}
        """By topic; "" is the brokers' default."""
        self.controller_changes = 0
        self.now_ms: int | None = None
        self._partitions_of: dict[str, set[Key]] = defaultdict(set)
        self._snapshot: dict[Key, PartitionState] | None = None
        self._snapshot_topics: dict[str, str] = {}
        self._snapshot_at_ms: int | None = None
        self._has_noops = False
        self._ended: list[Reassignment] = []

    def begin(self, states: Mapping[Key, PartitionState], names: Mapping[str, str]) -> None:
        """Go on from these partitions; `names`: topic id -> topic."""
        self.partitions, self.topics, self.names = dict(states), dict(names), dict(names)
        for key in states:
            self._partitions_of[key[0]].add(key)

    def read(self, changes: Iterable[MetadataChange]) -> None:
        for change in changes:
            self.take(change)

    def take(self, change: MetadataChange) -> None:
        record = change.record
        if isinstance(record, ControlRecord):
            self._control(record, change)
            return
        if change.snapshot is None:
            self.now_ms = change.at_ms if self.now_ms is None else max(self.now_ms, change.at_ms)
        content = record.value
        match content:
            case PartitionChangeRecord():
                self._changed(content, change)
            case PartitionRecord():
                self._partition(content, change)
            case TopicRecord():
                self.names[content.topic_id] = content.name
                (self.topics if self._snapshot is None else self._snapshot_topics)[content.topic_id] = content.name
            case RemoveTopicRecord():
                self._removed(content.topic_id, change)
            case ConfigRecord():
                self._config(content, change)
            case NoOpRecord():
                self._has_noops = True
            case None:
                pass
            case _:
                self._broker(content, change)

    # Partitions

    def _partition(self, record: PartitionRecord, change: MetadataChange) -> None:
        key = (record.topic_id, record.partition_id)
        state = PartitionState(
            replicas=record.replicas,
            isr=record.isr,
            leader=None if record.leader == NO_LEADER else record.leader,
            adding=record.adding_replicas,
            removing=record.removing_replicas,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            at_ms=change.at_ms if change.snapshot is None else None,
            ref=change.ref,
        )
        if self._snapshot is not None:
            self._snapshot[key] = state
            return
        self.partitions[key] = state
        self._partitions_of[record.topic_id].add(key)

    def _changed(self, record: PartitionChangeRecord, change: MetadataChange) -> None:
        key = (record.topic_id, record.partition_id)
        before = self.partitions.get(key)
        if before is None:
            return  # its PartitionRecord is older than the log, and no snapshot is at hand
        has_leader = record.leader != NO_CHANGE
        after = PartitionState(
            replicas=before.replicas if record.replicas is None else record.replicas,
            isr=before.isr if record.isr is None else record.isr,
            leader=(None if record.leader == NO_LEADER else record.leader) if has_leader else before.leader,
            adding=before.adding if record.adding_replicas is None else record.adding_replicas,
            removing=before.removing if record.removing_replicas is None else record.removing_replicas,
            leader_epoch=_next(before.leader_epoch) if has_leader else before.leader_epoch,
            partition_epoch=_next(before.partition_epoch),
            at_ms=change.at_ms,
            ref=change.ref,
        )
        self.partitions[key] = after
        topic = self.names.get(record.topic_id, record.topic_id)
        running = self.attempts.open.get(key)
        if running is not None:
            self.around.note(running, change.at_ms)
        self.attempts.change(key, topic, before, after, change.at_ms, change.ref, f"{topic}-{key[1]}@{change.offset}")
        started = self.attempts.open.get(key)
        if started is not None and record.directories is not None:
            started.directories = dict(zip(after.replicas, record.directories, strict=False))
        if started is not None and started is not running:
            started.controllers_at_start = self.controller_changes
            started.min_insync_replicas = self.min_isr.get(topic, self.min_isr.get("", 1))
        if after.leader != before.leader:
            lists = (record.replicas, record.adding_replicas, record.removing_replicas)
            self.elections.append(
                kraft_election(
                    self.cluster_id,
                    topic,
                    key[1],
                    before,
                    after,
                    self.brokers,
                    at_ms=change.at_ms,
                    ref=change.ref,
                    is_assignment=any(each is not None for each in lists),
                    is_unclean=record.leader_recovery_state == 1,
                )
            )

    def _removed(self, topic_id: str, change: MetadataChange) -> None:
        self.topics.pop(topic_id, None)
        for key in self._partitions_of.pop(topic_id, ()):
            self.partitions.pop(key, None)
            self.attempts.remove(key, change.at_ms, change.ref)
        topic = self.names.get(topic_id)
        for resource_type, resource, name in list(self.throttles.set_now):
            if resource_type == "topic" and resource == topic:
                self.throttles.remove(resource_type, resource, name, change.at_ms, change.ref)

    # Brokers and settings

    def _broker(self, content: Any, change: MetadataChange) -> None:
        at_ms, ref = change.at_ms, change.ref
        match content:
            case RegisterControllerRecord():
                self._note_software(content.features)
            case RegisterBrokerRecord():
                self._note_software(content.features)
                if content.fenced:
                    if content.broker_id in self.brokers.known:
                        self.brokers.away(content.broker_id, at_ms, ref)
                    else:
                        self.brokers.known.add(content.broker_id)
                else:
                    self.brokers.here(content.broker_id, at_ms)
                if content.in_controlled_shutdown:
                    self.brokers.in_shutdown.add(content.broker_id)
                self.brokers.has_disks(content.broker_id, content.log_dirs, at_ms, ref)
            case UnregisterBrokerRecord():
                self.brokers.away(content.broker_id, at_ms, ref)
            case FenceBrokerRecord():
                self.brokers.away(content.id, at_ms, ref)
            case UnfenceBrokerRecord():
                self.brokers.here(content.id, at_ms)
            case BrokerRegistrationChangeRecord():
                if content.in_controlled_shutdown == 1:
                    self.brokers.in_shutdown.add(content.broker_id)
                    self._explain_shutdown(content.broker_id, at_ms)
                if content.log_dirs:
                    self.brokers.has_disks(content.broker_id, content.log_dirs, at_ms, ref)
                if content.fenced == 1:
                    self.brokers.away(content.broker_id, at_ms, ref)
                elif content.fenced == -1:
                    self.brokers.here(content.broker_id, at_ms)

    def _note_software(self, features: Sequence[Feature]) -> None:
        for feature in features:
            if feature.name == "metadata.version":
                level = max(self.around.rule.level or 0, feature.max_supported_version)
                self.around.rule = CompletionRule(level)

    def _explain_shutdown(self, broker: int, at_ms: int) -> None:
        """The controller may write the elections before the reason, in one batch."""
        for i in range(len(self.elections) - 1, -1, -1):
            election = self.elections[i]
            if election.at_ms != at_ms:
                break
            if election.cause == "broker_failure" and election.previous_leader == broker:
                self.elections[i] = replace(election, cause="shutdown")

    def _config(self, record: ConfigRecord, change: MetadataChange) -> None:
        at_ms = None if change.snapshot is not None else change.at_ms
        if record.resource_type == TOPIC_RESOURCE:
            resource_type = "topic"
        elif record.resource_type == BROKER_RESOURCE:
            resource_type = "broker"
        else:
            return
        if record.name in THROTTLES:
            if record.value is None:
                self.throttles.remove(resource_type, record.resource_name, record.name, at_ms, change.ref)
            else:
                self.throttles.set(resource_type, record.resource_name, record.name, record.value, at_ms, change.ref)
        elif record.name == MIN_ISR and (resource_type == "topic" or not record.resource_name):
            if record.value is not None and (least := java_int(record.value)) is not None:
                self.min_isr[record.resource_name] = least
            else:
                self.min_isr.pop(record.resource_name, None)

    # Snapshots and controllers

    def _control(self, record: ControlRecord, change: MetadataChange) -> None:
        match record.name:
            case "leader_change":
                self._build_ended()  # this change was not during those
                self.controller_changes += 1
                if self._has_noops and self.now_ms is not None and change.at_ms - self.now_ms > _SILENCE_MS:
                    self.around.without_controller.append((self.now_ms, change.at_ms, change.ref))
            case "snapshot_header" if change.snapshot is not None:
                self._snapshot, self._snapshot_topics = {}, {}
                self._snapshot_at_ms = record.last_contained_log_timestamp_ms
                if self._snapshot_at_ms is not None and self._snapshot_at_ms > 0:
                    self.now_ms = max(self.now_ms or 0, self._snapshot_at_ms)
            case "snapshot_footer" if self._snapshot is not None and change.snapshot is not None:
                self._jump(self._snapshot, change)
                self._snapshot = None

    def _jump(self, after: dict[Key, PartitionState], change: MetadataChange) -> None:
        """The state is now the snapshot's; what happened before it and after our last record was not seen."""
        assert change.snapshot is not None
        for key in list(self.attempts.open):
            state = after.get(key)
            if state is None:
                self.attempts.lose(key, None, change.ref)
            elif not state.is_moving or state.target != self.attempts.open[key].target:
                self.attempts.lose(key, state, state.ref)
        self.topics = dict(self._snapshot_topics)
        self._partitions_of = defaultdict(set)
        for key in after:
            self._partitions_of[key[0]].add(key)
        for key, state in after.items():
            if not state.is_moving:
                continue
            running = self.attempts.open.get(key)
            if running is None:
                topic = self.names.get(key[0], key[0])
                known = replace(state, at_ms=self._snapshot_at_ms)
                attempt_id = f"{topic}-{key[1]}@{change.snapshot[0]}+"
                found = self.attempts.found_running(key, topic, known, attempt_id)
                found.last_progress_ms = self._snapshot_at_ms
                found.controllers_at_start = self.controller_changes
                found.min_insync_replicas = self.min_isr.get(topic, self.min_isr.get("", 1))
            elif running.state is None or not _same(running.state, state):
                running.is_complete = False
                running.take(state, self._snapshot_at_ms or change.at_ms, state.ref)
        self.partitions = after

    # What is known

    def ended(self) -> Iterator[Reassignment]:
        """Reassignments that ended since the last call."""
        self._build_ended()
        ended, self._ended = self._ended, []
        yield from ended

    def _build_ended(self) -> None:
        self._ended += (
            self.around.ended(attempt, controller_changes=self._changes_during(attempt))
            for attempt in self.attempts.take_ended()
        )

    def running(self, now_ms: int | None = None) -> list[Reassignment]:
        """Reassignments that run at the end of evidence, and whether they are stalled."""
        now_ms = now_ms if now_ms is not None else self.now_ms or 0
        return [
            self.around.running(attempt, controller_changes=self._changes_during(attempt), now_ms=now_ms)
            for attempt in self.attempts.open.values()
        ]

    def _changes_during(self, attempt: ReassignmentAttempt) -> int:
        return self.controller_changes - attempt.controllers_at_start

    def take_elections(self) -> list[LeaderElection]:
        elections, self.elections = self.elections, []
        return elections

    def states(self) -> dict[tuple[str, int], PartitionState]:
        return {(self.names.get(t, t), p): state for (t, p), state in self.partitions.items()}


def _same(one: PartitionState, other: PartitionState) -> bool:
    return (one.replicas, one.leader, set(one.isr), one.adding, one.removing) == (
        other.replicas,
        other.leader,
        set(other.isr),
        other.adding,
        other.removing,
    )


def _next(epoch: int | None) -> int | None:
    return None if epoch is None else epoch + 1
