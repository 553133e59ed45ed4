"""ZooKeeper mode: reassignments and elections from the logs of controllers and brokers, the only record there is.

Times are those of the lines: a few milliseconds after the write they show. The controller's lines decide; leaders'
lines stand in where a controller's are missing.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace

from rebalance_audit.domain.log_lines import ControllerKind as K
from rebalance_audit.domain.reassign.lines import (
    CREATED_WITH,
    REPLICAS_STORED,
    REQUEST_HANDLED,
    STATE_SENT,
    PartitionLine,
    surroundings_in,
    throttles_in,
)
from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.stall import CompletionRule, Surroundings
from rebalance_audit.domain.reassign.transitions import WITHOUT_ORDER, Attempts, Key
from rebalance_audit.domain.reassign.zookeeper_partitions import Elections, Partition

_REQUEST = re.compile(r"\(Leader:(-?\d{1,9}),ISR:((?:\d{1,9},)*\d{0,9}),")
_NO_ORIGIN = "Its partition's creation is older than the logs: what it moved from is not known."
_SAME_CHANGE_MS = 2_000
"""A leader prints an ISR change up to 200 ms after the controller (docs/measured.md#reassignments): within this
time it is the same one."""


def zookeeper_history(lines: Sequence[PartitionLine], *, cluster_id: str, stall_limit_ms: int) -> ReassignmentHistory:
    """The history of a cluster in ZooKeeper mode by its logs. `lines` in order of time, of all nodes."""
    fold = _ZooKeeperFold(surroundings_in(lines, cluster_id, stall_limit_ms))
    fold.read(lines)
    return fold.history(lines[-1].at_ms if lines else 0)


class _ZooKeeperFold:
    def __init__(self, around: Surroundings) -> None:
        self.cluster_id, self.around = around.cluster_id, around
        around.rule = CompletionRule(is_zookeeper=True)
        self.brokers, self.throttles = self.around.brokers, self.around.throttles
        self.attempts = Attempts("logs", lists_are_exact=True)
        self.partitions: defaultdict[Key, Partition] = defaultdict(Partition)
        self.elections = Elections(self.cluster_id, around.brokers, self.partitions)
        self.refused: list[Reassignment] = []
        self.controllers: list[tuple[int, int]] = []
        """(epoch, at_ms)."""
        self._controller_isr: dict[Key, list[tuple[int, frozenset[int]]]] = defaultdict(list)
        self._ahead: dict[Key, deque[PartitionLine]] = defaultdict(deque)
        """Lines still to come, by partition."""

    def read(self, lines: Sequence[PartitionLine]) -> None:
        for line in lines:
            if (key := _key(line)) is None:
                continue
            self._ahead[key].append(line)
            if line.kind == K.ISR_CHANGED and line.fields.get("seen_by") == "controller":
                self._controller_isr[key].append((line.at_ms, frozenset(line.fields["isr"])))
        for line in lines:
            key = _key(line)
            if key is None:
                self._cluster(line)
            else:
                self._partition(key, line)
                self._ahead[key].popleft()

    # Lines about one partition

    def _partition(self, key: Key, line: PartitionLine) -> None:
        fields, known = line.fields, self.partitions[key]
        match line.kind:
            case K.PARTITION_CREATED:
                self.partitions[key] = Partition(replicas=fields["replicas"], at_ms=line.at_ms, ref=line.event.ref)
            case K.ASSIGNMENT_UPDATING:
                if known.replicas is None:
                    known.replicas = fields["from_replicas"]
                    known.adding, known.removing = fields["from_adding"], fields["from_removing"]
                    self._learn(key, known)
            case K.ASSIGNMENT_UPDATED:
                fields = line.fields
                self._assigned(key, line, known, fields["replicas"], fields["adding"], fields["removing"])
            case K.LEADER_EPOCH_UPDATED:
                known.leader_epoch = fields["leader_epoch"]
                if key not in self.attempts.open and known.replicas is None:
                    self._found_after_failover(key, line, known)
            case K.PARTITION_CHANGED | K.REPLICA_TAKEN_FROM_ISR:
                known.version = max(known.version, fields.get("version", -1))
                leader = None if fields["leader"] < 0 else fields["leader"]
                known.is_leader_known = True
                self._moved(key, line, known, leader, fields["isr"], fields.get("leader_epoch"))
            case K.REPLICA_CHANGED:
                self._taken_from_isr(key, line, known)
            case K.ISR_CHANGED:
                known.version = max(known.version, fields.get("version", -1))
                if fields.get("seen_by") == "controller" or not self._is_of_controller(key, line):
                    self._moved(key, line, known, known.leader, fields["isr"], known.leader_epoch)
            case K.REPLICAS_CAUGHT_UP | K.FOLLOWER_STARTED:
                self._copied(key, line, known)
            case K.ELECTION_COMPLETED:
                self.elections.ended(key, line, fields["leader"], "elected")
            case K.REASSIGNMENT_REFUSED:
                self._refuse(key, line)
            case _:
                self._before_2_6(key, line, known)

    def _before_2_6(self, key: Key, line: PartitionLine, known: Partition) -> None:
        fields = line.fields
        if line.kind == CREATED_WITH:
            known.replicas = fields["replicas"] if known.replicas is None else known.replicas
        elif line.kind == REQUEST_HANDLED:
            self._asked(key, line, known)
        elif line.kind == REPLICAS_STORED:
            self._stored(key, line, known)
        elif line.kind == STATE_SENT and fields["version"] > known.version:
            known.version, known.is_leader_known = fields["version"], True
            leader = None if fields["leader"] < 0 else fields["leader"]
            self._moved(key, line, known, leader, fields["isr"], fields["leader_epoch"])
        elif line.kind == K.REPLICAS_WAITING:
            known.is_waiting = True

    def _asked(self, key: Key, line: PartitionLine, known: Partition) -> None:
        """Up to 2.3 the controller works on the request from here on. If no replica is new, it stores nothing before
        the end."""
        target = line.fields["replicas"]
        known.asked, known.asked_at_ms, known.asked_ref = target, line.at_ms, line.event.ref
        if known.replicas is not None and set(target) < set(known.replicas):
            self._assigned(key, line, known, known.replicas, (), tuple(r for r in known.replicas if r not in target))
            known.is_caught_up = True

    def _taken_from_isr(self, key: Key, line: PartitionLine, known: Partition) -> None:
        """Replicas that a reassignment removes leave the ISR one by one. Up to 2.5 no line shows the writes between,
        but that of the replica's own state."""
        replica = line.fields["replica"]
        is_taken = line.fields["to_state"] == "OfflineReplica" and replica in known.removing
        if is_taken and known.isr is not None and replica in known.isr and replica != known.leader:
            isr = tuple(r for r in known.isr if r != replica)
            self._moved(key, line, known, known.leader, isr, known.leader_epoch)

    def _copied(self, key: Key, line: PartitionLine, known: Partition) -> None:
        running = self.attempts.open.get(key)
        if line.kind == K.REPLICAS_CAUGHT_UP:
            known.is_caught_up = True
            if running is not None:
                running.evidence.append(line.event.ref)
                running.progressed(line.at_ms)
        elif running is not None and (broker := line.event.logged_by) is not None and broker in running.adding:
            running.fetching.setdefault(broker, line.at_ms)

    def _stored(self, key: Key, line: PartitionLine, known: Partition) -> None:
        """Up to 2.3 only the list of replicas is stored: first old and new ones together, then the new ones alone. What
        must come and go follows from the request."""
        replicas, target = line.fields["replicas"], known.asked
        if target is None or not known.is_waiting or known.is_caught_up:
            self._ended_as_asked(key, line, known, replicas)
            known.is_waiting, known.asked, known.asked_at_ms = False, None, None
            return
        if known.replicas is None:
            self._learn(key, known)
        before = tuple(r for r in replicas if r in (known.isr or ())) if known.replicas is None else known.replicas
        running = key in self.attempts.open  # a new controller begins again with what it finds
        adding = known.adding if running else tuple(r for r in target if r not in before)
        self._assigned(key, line, known, replicas, adding, tuple(r for r in replicas if r not in target))

    def _ended_as_asked(self, key: Key, line: PartitionLine, known: Partition, replicas: tuple[int, ...]) -> None:
        """The list of replicas is the request's: what was done at once began with the request, not with its end."""
        was_running, ended_before = key in self.attempts.open, len(self.attempts.ended)
        if known.replicas is None and known.asked_at_ms is not None and not was_running:
            known.replicas, known.at_ms, known.ref = replicas, known.asked_at_ms, known.asked_ref
            attempt_id = f"{key[0]}-{key[1]}@{line.event.ref.partition('#')[2] or line.event.ref}"
            found = self.attempts.found_running(key, key[0], known.state(), attempt_id)
            found.original, found.started_at_ms, found.detail = None, known.asked_at_ms, _NO_ORIGIN
            self.attempts.finish(key, known.state(), line.at_ms, line.event.ref)
            return
        self._assigned(key, line, known, replicas, (), ())
        if not was_running and known.asked_at_ms is not None and len(self.attempts.ended) > ended_before:
            done = self.attempts.ended[-1]
            done.started_at_ms = known.asked_at_ms
            done.evidence.insert(0, known.asked_ref)

    def _assigned(
        self,
        key: Key,
        line: PartitionLine,
        known: Partition,
        replicas: tuple[int, ...],
        adding: tuple[int, ...],
        removing: tuple[int, ...],
    ) -> None:
        is_origin_known = known.replicas is not None
        if known.replicas is None:
            known.replicas = tuple(r for r in replicas if r not in adding)
            self._learn(key, known)
        before = known.state()
        known.replicas, known.adding, known.removing = replicas, adding, removing
        known.at_ms, known.ref = line.at_ms, line.event.ref
        known.is_caught_up = known.has_left = False
        running = self.attempts.open.get(key)
        if running is not None:
            self.around.note(running, line.at_ms)
        attempt_id = f"{key[0]}-{key[1]}@{line.event.ref.partition('#')[2] or line.event.ref}"
        self.attempts.change(key, key[0], before, known.state(), line.at_ms, line.event.ref, attempt_id)
        started = self.attempts.open.get(key)
        if not is_origin_known and started is not None:
            # Kafka's own lists show which they were; those of 2.3, which are ours, do not.
            started.is_complete = False
            if known.asked is None:
                started.detail = f"Its partition's creation is older than the logs: {WITHOUT_ORDER}"
            else:
                started.detail, started.original = _NO_ORIGIN, None
                started.steps = [replace(step, step=at) for at, step in enumerate(started.steps[1:])]

    def _moved(
        self,
        key: Key,
        line: PartitionLine,
        known: Partition,
        leader: int | None,
        isr: tuple[int, ...],
        leader_epoch: int | None,
    ) -> None:
        """Leader and ISR are now these."""
        was, had = known.leader, known.isr
        known.leader, known.isr, known.leader_epoch = leader, isr, leader_epoch
        is_change = had is not None and (was != leader or set(had) != set(isr))
        if had is None or is_change:
            known.at_ms, known.ref = line.at_ms, line.event.ref
        if is_change and was != leader:
            self._led_by_another(key, line, known, was)
        running = self.attempts.open.get(key)
        if running is None or not is_change:
            return
        self.around.note(running, line.at_ms)
        phase = None
        if known.is_caught_up:
            known.has_left = known.has_left or (had is not None and any(r not in isr for r in had))
            phase = "removing" if known.has_left else "leader_moved" if was != leader else None
        running.take(known.state(), line.at_ms, line.event.ref, phase)

    def _learn(self, key: Key, known: Partition) -> None:
        """Leader and ISR of a partition whose creation is older than the logs: from the next line that shows them."""
        if known.isr is not None:
            return
        for line in self._ahead[key]:
            fields = line.fields
            if line.kind == K.ASSIGNMENT_SENT and (found := _REQUEST.match(str(fields.get("request", "")))):
                known.leader, known.isr = int(found[1]), tuple(int(b) for b in found[2].split(",") if b)
                return
            if line.kind == K.LEADER_STARTED and line.event.logged_by is not None:
                known.leader, known.isr = line.event.logged_by, fields["isr"]
                return
            if line.kind in (K.PARTITION_CHANGED, K.REPLICA_TAKEN_FROM_ISR, K.ISR_CHANGED):
                return

    def _found_after_failover(self, key: Key, line: PartitionLine, known: Partition) -> None:
        """A new controller logs nothing else about what it takes over; the request is in the log of another
        controller."""
        target: tuple[int, ...] | None = None
        for later in self._ahead[key]:
            if later.kind in (K.REPLICAS_CAUGHT_UP, K.ASSIGNMENT_UPDATED) and not later.fields.get("adding"):
                target = later.fields["replicas"]
                break
        if target is None:
            return
        self._learn(key, known)
        known.replicas = tuple(dict.fromkeys((*target, *(known.isr or ()))))
        known.removing = tuple(r for r in known.replicas if r not in target)
        known.adding = tuple(r for r in target if r not in (known.isr or ()))
        known.at_ms, known.ref = line.at_ms, line.event.ref
        attempt_id = f"{key[0]}-{key[1]}@{line.event.ref.partition('#')[2] or line.event.ref}"
        self.attempts.found_running(key, key[0], known.state(), attempt_id).original = None

    def _is_of_controller(self, key: Key, line: PartitionLine) -> bool:
        isr = frozenset(line.fields["isr"])
        return any(
            isr_then == isr and abs(at_ms - line.at_ms) <= _SAME_CHANGE_MS
            for at_ms, isr_then in self._controller_isr[key]
        )

    def _refuse(self, key: Key, line: PartitionLine) -> None:
        if line.fields.get("error") != "topic_deletion":
            return
        self.refused.append(
            Reassignment(
                cluster_id=self.cluster_id,
                reassignment_id=f"{key[0]}-{key[1]}@{line.event.ref.partition('#')[2] or line.event.ref}",
                topic=key[0],
                partition=key[1],
                started_at_ms=line.at_ms,
                ended_at_ms=line.at_ms,
                outcome="refused",
                detail="The topic is being deleted.",
                source="logs",
                evidence=(line.event.ref,),
            )
        )

    def _led_by_another(self, key: Key, line: PartitionLine, known: Partition, was: int | None) -> None:
        if self.elections.is_under_way(key, line.at_ms, was):
            return
        cause = "unknown"
        if key in self.attempts.open and known.is_caught_up:
            cause = "reassignment"
        elif was is None:
            cause = "broker_return"
        elif self.brokers.is_away(was) or known.leader is None:
            cause = "broker_failure"
        outcome = "no_leader" if known.leader is None else "elected"
        self.elections.ended(key, line, known.leader, outcome, cause=cause, previous=was)

    # Lines about the cluster

    def _cluster(self, line: PartitionLine) -> None:
        fields, at_ms, ref = line.fields, line.at_ms, line.event.ref
        match line.kind:
            case K.CONTROLLER_ELECTED if "epoch" in fields:
                if all(fields["epoch"] != epoch for epoch, _ in self.controllers):
                    self.controllers.append((fields["epoch"], at_ms))
            case K.BROKERS_CHANGED:
                for broker in fields.get("deleted", ()):
                    self.brokers.away(broker, at_ms, ref)
                for broker in (*fields.get("added", ()), *fields.get("live", ())):
                    self.brokers.here(broker, at_ms)
            case K.THROTTLE_CHANGED:
                self._throttle(line)
            case K.ELECTION_STARTED:
                self.elections.ask(line)
            case K.ELECTION_RESULT:
                self.elections.results(line)
            case K.TOPIC_REMOVED if line.event.topic is not None:
                self._removed(line.event.topic, at_ms, ref)

    def _removed(self, topic: str, at_ms: int, ref: str) -> None:
        for key in [key for key in self.partitions if key[0] == topic]:
            self.attempts.remove(key, at_ms, ref)
            del self.partitions[key]
        for kind, resource, name in list(self.throttles.set_now):
            if (kind, resource) == ("topic", topic):
                self.throttles.remove(kind, resource, name, at_ms, ref)

    def _throttle(self, line: PartitionLine) -> None:
        kind, _, resource = str(line.fields["entity"]).partition("/")
        resource_type = {"brokers": "broker", "topics": "topic"}.get(kind)
        if resource_type is None:
            return
        resource = "" if resource == "<default>" else resource
        now = throttles_in(str(line.fields.get("text", "")))
        for known_type, known_resource, name in list(self.throttles.set_now):
            if (known_type, known_resource) == (resource_type, resource) and name not in now:
                self.throttles.remove(resource_type, resource, name, line.at_ms, line.event.ref)
        for name, value in now.items():
            self.throttles.set(resource_type, resource, name, value, line.at_ms, line.event.ref)

    # The whole

    def history(self, now_ms: int) -> ReassignmentHistory:
        known = self.around.all_of(self.attempts, self._changes, now_ms)
        reassignments = sorted(
            [*known, *self.refused],
            key=lambda r: (r.started_at_ms or 0, r.topic, r.partition, r.reassignment_id),
        )
        return ReassignmentHistory(
            cluster_id=self.cluster_id,
            reassignments=tuple(reassignments),
            elections=tuple(self.elections.found),
            throttles=self.throttles.all(),
            replicas={key: p.replicas for key, p in self.partitions.items() if p.replicas is not None},
            seen_until_ms=now_ms,
        )

    def _changes(self, from_ms: int | None, to_ms: int | None) -> int:
        if from_ms is None or to_ms is None:
            return 0
        return sum(1 for _, at_ms in self.controllers if from_ms < at_ms <= to_ms)


def _key(line: PartitionLine) -> Key | None:
    event = line.event
    return None if event.topic is None or event.partition is None else (event.topic, event.partition)
