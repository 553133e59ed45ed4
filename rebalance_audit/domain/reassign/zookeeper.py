"""ZooKeeper mode: reassignments and elections from the logs of controllers and brokers, the only record there is.

Times are those of the lines: a few milliseconds after the write they tell of. The controller's lines decide; leaders'
lines stand in where a controller's are missing.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, replace

from rebalance_audit.domain.log_lines import ControllerKind as K
from rebalance_audit.domain.reassign.attempt import Attempt
from rebalance_audit.domain.reassign.brokers import Brokers, Throttles
from rebalance_audit.domain.reassign.lines import Line, throttles_in
from rebalance_audit.domain.reassign.model import (
    LeaderElection,
    PartitionState,
    Reassignment,
    ReassignmentHistory,
)
from rebalance_audit.domain.reassign.stall import blocker
from rebalance_audit.domain.reassign.transitions import Attempts, Key

_REQUEST = re.compile(r"\(Leader:(-?\d+),ISR:([\d,]*),")
_RESULT = re.compile(r"([\w.-]{1,249}-\d{1,9}) -> (?:Right\((-?\d+)\)|Left\(ApiError\(error=(\w+))")
_CAUSES = {"AdminClientTriggered": "tool", "ZkTriggered": "znode", "AutoTriggered": "automatic"}
_SAME_CHANGE_MS = 2_000
"""A leader tells of an ISR change up to 200 ms after the controller: within this time it is the same one."""
_ELECTION_MS = 10_000
"""An election that was begun has ended, or failed, by then."""


def zookeeper_history(
    lines: Sequence[Line], *, cluster_id: str, stall_limit_ms: int, seen_until_ms: int | None = None
) -> ReassignmentHistory:
    """`lines` in order of time."""
    fold = _ZooKeeperFold(cluster_id, stall_limit_ms)
    fold.read(lines)
    now_ms = seen_until_ms if seen_until_ms is not None else (lines[-1].at_ms if lines else 0)
    return fold.history(now_ms)


@dataclass(slots=True)
class _Partition:
    """What is known of a partition so far; None: no line told it yet."""

    replicas: tuple[int, ...] | None = None
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    leader: int | None = None
    isr: tuple[int, ...] | None = None
    leader_epoch: int | None = None
    at_ms: int | None = None
    ref: str = ""
    is_caught_up: bool = False
    has_left: bool = False


class _ZooKeeperFold:
    def __init__(self, cluster_id: str, stall_limit_ms: int) -> None:
        self.cluster_id, self.stall_limit_ms = cluster_id, stall_limit_ms
        self.attempts = Attempts("logs", lists_are_exact=True)
        self.partitions: dict[Key, _Partition] = defaultdict(_Partition)
        self.brokers = Brokers()
        self.throttles = Throttles(cluster_id)
        self.elections: list[LeaderElection] = []
        self.refused: list[Reassignment] = []
        self.controllers: list[tuple[int, int]] = []
        """(epoch, at_ms)."""
        self._controller_isr: dict[Key, list[tuple[int, frozenset[int]]]] = defaultdict(list)
        self._asked: dict[Key, tuple[int, str, str]] = {}
        """Elections under way: (at_ms, cause, ref)."""
        self._ahead: dict[Key, deque[Line]] = defaultdict(deque)
        """Lines still to come, by partition."""

    def read(self, lines: Sequence[Line]) -> None:
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

    def _partition(self, key: Key, line: Line) -> None:
        fields, known = line.fields, self.partitions[key]
        match line.kind:
            case K.PARTITION_CREATED:
                self.partitions[key] = _Partition(replicas=fields["replicas"], at_ms=line.at_ms, ref=line.event.ref)
            case K.ASSIGNMENT_UPDATING:
                if known.replicas is None:
                    known.replicas = fields["from_replicas"]
                    known.adding, known.removing = fields["from_adding"], fields["from_removing"]
                    self._learn(key, known)
            case K.ASSIGNMENT_UPDATED:
                self._assigned(key, line, known)
            case K.LEADER_EPOCH_UPDATED:
                known.leader_epoch = fields["leader_epoch"]
                if key not in self.attempts.open and known.replicas is None:
                    self._found_after_failover(key, line, known)
            case K.PARTITION_CHANGED | K.REPLICA_TAKEN_FROM_ISR:
                leader = None if fields["leader"] < 0 else fields["leader"]
                self._moved(key, line, known, leader, fields["isr"], fields.get("leader_epoch"))
            case K.ISR_CHANGED:
                if fields.get("seen_by") == "controller" or not self._told_by_controller(key, line):
                    self._moved(key, line, known, known.leader, fields["isr"], known.leader_epoch)
            case K.REPLICAS_CAUGHT_UP | K.FOLLOWER_STARTED:
                self._copied(key, line, known)
            case K.ELECTION_COMPLETED:
                self._election(key, line.at_ms, line.event.ref, fields["leader"], "elected")
            case K.REASSIGNMENT_REFUSED:
                self._refuse(key, line)

    def _copied(self, key: Key, line: Line, known: _Partition) -> None:
        running = self.attempts.open.get(key)
        if line.kind == K.REPLICAS_CAUGHT_UP:
            known.is_caught_up = True
            if running is not None:
                running.evidence.append(line.event.ref)
                running.progressed(line.at_ms)
        elif running is not None and (broker := line.event.logged_by) is not None and broker in running.adding:
            running.fetching.setdefault(broker, line.at_ms)

    def _assigned(self, key: Key, line: Line, known: _Partition) -> None:
        fields = line.fields
        if known.replicas is None:
            known.replicas = tuple(r for r in fields["replicas"] if r not in fields["adding"])
            self._learn(key, known)
        before = _state(known)
        known.replicas, known.adding, known.removing = fields["replicas"], fields["adding"], fields["removing"]
        known.at_ms, known.ref = line.at_ms, line.event.ref
        known.is_caught_up = known.has_left = False
        running = self.attempts.open.get(key)
        if running is not None:
            self._note_standstill(running, line.at_ms)
        attempt_id = f"{key[0]}-{key[1]}@{line.event.ref.partition('#')[2] or line.event.ref}"
        self.attempts.change(key, key[0], before, _state(known), line.at_ms, line.event.ref, attempt_id)

    def _moved(
        self,
        key: Key,
        line: Line,
        known: _Partition,
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
        self._note_standstill(running, line.at_ms)
        phase = None
        if known.is_caught_up:
            known.has_left = known.has_left or (had is not None and any(r not in isr for r in had))
            phase = "removing" if known.has_left else "leader_moved" if was != leader else None
        running.take(_state(known), line.at_ms, line.event.ref, phase)

    def _learn(self, key: Key, known: _Partition) -> None:
        """Leader and ISR of a partition whose creation is older than the logs: from the next line that tells them."""
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

    def _found_after_failover(self, key: Key, line: Line, known: _Partition) -> None:
        """A new controller says no more of what it takes over; its request is in another controller's log."""
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
        self.attempts.found_running(key, key[0], _state(known), attempt_id).original = None

    def _told_by_controller(self, key: Key, line: Line) -> bool:
        isr = frozenset(line.fields["isr"])
        return any(
            told == isr and abs(at_ms - line.at_ms) <= _SAME_CHANGE_MS for at_ms, told in self._controller_isr[key]
        )

    def _refuse(self, key: Key, line: Line) -> None:
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

    # Elections

    def _led_by_another(self, key: Key, line: Line, known: _Partition, was: int | None) -> None:
        asked = self._asked.get(key)
        if asked is not None and line.at_ms - asked[0] <= _ELECTION_MS:
            return  # its own line, or its result, will tell
        cause = "unknown"
        if key in self.attempts.open and known.is_caught_up:
            cause = "reassignment"
        elif was is None:
            cause = "broker_return"
        elif self.brokers.is_away(was) or known.leader is None:
            cause = "broker_failure"
        self._election(key, line.at_ms, line.event.ref, known.leader, None, cause=cause, previous=was)

    def _election(
        self,
        key: Key,
        at_ms: int,
        ref: str,
        elected: int | None,
        outcome: str | None,
        *,
        cause: str | None = None,
        previous: int | None = None,
        prevented_by: str | None = None,
    ) -> None:
        asked = self._asked.pop(key, None)
        known = self.partitions[key]
        refs: tuple[str, ...] = (ref,)
        if cause is None:
            cause = asked[1] if asked is not None else "unknown"
            refs = (ref,) if asked is None else (asked[2], ref)
        self.elections.append(
            LeaderElection(
                cluster_id=self.cluster_id,
                topic=key[0],
                partition=key[1],
                at_ms=at_ms,
                cause=cause,
                previous_leader=previous,
                preferred_replica=known.replicas[0] if known.replicas else None,
                elected=elected,
                outcome=outcome or ("no_leader" if elected is None else "elected"),
                prevented_by=prevented_by,
                leader_epoch=known.leader_epoch,
                evidence=refs,
            )
        )

    def _results(self, line: Line) -> None:
        cause = _CAUSES.get(str(line.fields.get("cause")), "unknown")
        for tp, leader, error in _RESULT.findall(str(line.fields.get("text", ""))):
            topic, _, number = tp.rpartition("-")
            key = (topic, int(number))
            known = self.partitions[key]
            if leader:
                if key in self._asked:
                    self._election(key, line.at_ms, line.event.ref, int(leader), "elected")
            elif error == "ELECTION_NOT_NEEDED":
                self._election(key, line.at_ms, line.event.ref, known.leader, "not_needed", cause=cause)
            else:
                preferred = known.replicas[0] if known.replicas else None
                why = None
                if preferred is not None:
                    is_away = self.brokers.is_away(preferred)
                    why = "preferred_not_alive" if is_away else "preferred_not_in_isr"
                self._election(key, line.at_ms, line.event.ref, known.leader, "failed", cause=cause, prevented_by=why)

    # Lines about the cluster

    def _cluster(self, line: Line) -> None:
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
                self._election_asked(line)
            case K.ELECTION_RESULT:
                self._results(line)
            case K.TOPIC_REMOVED if line.event.topic is not None:
                self._removed(line.event.topic, at_ms, ref)

    def _election_asked(self, line: Line) -> None:
        cause = _CAUSES.get(line.fields["cause"], "unknown")
        for tp in line.fields["partitions"]:
            topic, _, number = tp.rpartition("-")
            if number.isdigit():
                self._asked[(topic, int(number))] = (line.at_ms, cause, line.event.ref)

    def _removed(self, topic: str, at_ms: int, ref: str) -> None:
        for key in [key for key in self.partitions if key[0] == topic]:
            self.attempts.remove(key, at_ms, ref)
            del self.partitions[key]
        for kind, resource, name in list(self.throttles.set_now):
            if (kind, resource) == ("topic", topic):
                self.throttles.remove(kind, resource, name, at_ms, ref)

    def _throttle(self, line: Line) -> None:
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

    def _note_standstill(self, attempt: Attempt, at_ms: int) -> None:
        from_ms = attempt.last_progress_ms
        if from_ms is None or at_ms - from_ms <= max(self.stall_limit_ms, attempt.standstill_ms or 0):
            return
        why = blocker(attempt, self.brokers, self.throttles, from_ms, at_ms, overlap_hangs=False)
        attempt.stood_by, attempt.stood_replicas = why.blocked_by, why.replicas
        attempt.evidence.extend(why.refs)

    def history(self, now_ms: int) -> ReassignmentHistory:
        ended = [self._built(attempt, None) for attempt in self.attempts.take_ended()]
        running = [self._built(attempt, now_ms) for attempt in self.attempts.open.values()]
        reassignments = sorted(
            [*ended, *running, *self.refused],
            key=lambda r: (r.started_at_ms or 0, r.topic, r.partition, r.reassignment_id),
        )
        return ReassignmentHistory(
            cluster_id=self.cluster_id,
            reassignments=tuple(reassignments),
            elections=tuple(self.elections),
            throttles=self.throttles.all(),
            replicas={key: p.replicas for key, p in self.partitions.items() if p.replicas is not None},
            seen_until_ms=now_ms,
        )

    def _built(self, attempt: Attempt, now_ms: int | None) -> Reassignment:
        since_ms = attempt.last_progress_ms
        if now_ms is not None:
            attempt.count_until(now_ms)
        until_ms = attempt.ended_at_ms if attempt.ended_at_ms is not None else now_ms or 0
        begun_ms = attempt.started_at_ms if attempt.started_at_ms is not None else until_ms
        changes = sum(1 for _, at_ms in self.controllers if begun_ms < at_ms <= until_ms)
        built = attempt.build(self.cluster_id, controller_changes=changes, is_final=now_ms is None)
        if attempt.stood_by is not None:
            built = replace(built, blocked_by=attempt.stood_by, blocked_replicas=attempt.stood_replicas)
        if now_ms is None:
            return built
        is_stalled = since_ms is not None and now_ms - since_ms > self.stall_limit_ms
        if not is_stalled or since_ms is None:
            return built
        why = blocker(attempt, self.brokers, self.throttles, since_ms, now_ms, overlap_hangs=False)
        return replace(
            built,
            stalled_since_ms=since_ms,
            blocked_by=why.blocked_by,
            blocked_replicas=why.replicas,
            evidence=tuple(dict.fromkeys((*built.evidence, *(ref for ref in why.refs if ref)))),
        )


def _key(line: Line) -> Key | None:
    event = line.event
    return None if event.topic is None or event.partition is None else (event.topic, event.partition)


def _state(known: _Partition) -> PartitionState:
    return PartitionState(
        replicas=known.replicas or (),
        isr=known.isr or (),
        leader=known.leader,
        adding=known.adding,
        removing=known.removing,
        leader_epoch=known.leader_epoch,
        at_ms=known.at_ms,
        ref=known.ref,
    )
