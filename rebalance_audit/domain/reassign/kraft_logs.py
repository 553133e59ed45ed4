"""KRaft by its controllers' logs alone, where nobody can read the metadata log.

`Replayed …` lines stand in the log of every controller, and again with the time of the replay when one starts: only a
line of the controller that was active then tells when. A change of order or a shrink leaves no line at all.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from rebalance_audit.domain.log_lines import ControllerKind as K
from rebalance_audit.domain.reassign.brokers import Brokers, Throttles
from rebalance_audit.domain.reassign.lines import Line
from rebalance_audit.domain.reassign.model import PartitionState, Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.stall import blocker, overlap
from rebalance_audit.domain.reassign.transitions import Attempts, Key

_TOLD_LATE = "Times are of a replay: no line of the active controller tells of it."


def kraft_logs_history(
    lines: Sequence[Line], *, cluster_id: str, stall_limit_ms: int, seen_until_ms: int | None = None
) -> ReassignmentHistory:
    """`lines` in order of time."""
    fold = _LogFold(cluster_id, lines)
    fold.read(lines)
    now_ms = seen_until_ms if seen_until_ms is not None else (lines[-1].at_ms if lines else 0)
    return fold.history(now_ms, stall_limit_ms)


class _LogFold:
    def __init__(self, cluster_id: str, lines: Sequence[Line]) -> None:
        self.cluster_id = cluster_id
        self.attempts = Attempts("logs")
        self.states: dict[Key, PartitionState] = {}
        self.names: dict[str, str] = {}
        self.brokers = Brokers()
        self.throttles = Throttles(cluster_id)
        self.refused: list[Reassignment] = []
        self.late: set[Key] = set()
        active = sorted(
            (line.at_ms, line.event.logged_by, line.fields.get("epoch", 0))
            for line in lines
            if line.kind == K.CONTROLLER_ELECTED and line.event.logged_by is not None
        )
        self._active_since = [at_ms for at_ms, _, _ in active]
        self._active = [controller for _, controller, _ in active]
        self._leaders: dict[Key, list[tuple[int, int]]] = defaultdict(list)
        for line in lines:
            if line.kind == K.LEADER_STARTED and line.event.topic is not None and line.event.partition is not None:
                key = (line.event.topic, line.event.partition)
                self._leaders[key].append((line.at_ms, line.event.logged_by or 0))
        self._has_live = {
            _content(line) for line in lines if line.kind == K.ASSIGNMENT_REPLAYED and self._is_live(line)
        }
        self._seen: set[object] = set()

    def read(self, lines: Sequence[Line]) -> None:
        for line in lines:
            key = (line.event.topic or "", line.event.partition if line.event.partition is not None else -1)
            match line.kind:
                case K.PARTITION_CREATED if line.fields.get("novelty") != "existing":
                    self._created(key, line)
                case K.ASSIGNMENT_REPLAYED:
                    self._replayed(key, line)
                case K.ALTER_PARTITION_DONE if self._is_live(line) and "isr" in line.fields:
                    self._altered(key, line)
                case K.TOPIC_REMOVED:
                    for known in [known for known in self.states if known[0] == line.event.topic]:
                        self.attempts.remove(known, line.at_ms, line.event.ref)
                        del self.states[known]
                case K.BROKER_FENCED:
                    self.brokers.away(line.fields["broker_id"], line.at_ms, line.event.ref)
                case K.REASSIGNMENT_REFUSED:
                    self._refused(key, line)
                case K.THROTTLE_CHANGED:
                    self._throttle(line)
                case K.FOLLOWER_STARTED if key in self.attempts.open and line.event.logged_by is not None:
                    running = self.attempts.open[key]
                    if line.event.logged_by in running.adding:
                        running.fetching.setdefault(line.event.logged_by, line.at_ms)

    def _is_live(self, line: Line) -> bool:
        """Whether the controller that wrote it was the active one; where nothing tells, the first line counts."""
        at = bisect_right(self._active_since, line.at_ms) - 1
        return at < 0 or self._active[at] == line.event.logged_by

    def _created(self, key: Key, line: Line) -> None:
        if key not in self.states:
            replicas = line.fields["replicas"]
            self.states[key] = PartitionState(
                replicas=replicas, isr=replicas, leader=replicas[0], at_ms=line.at_ms, ref=line.event.ref
            )

    def _replayed(self, key: Key, line: Line) -> None:
        content = _content(line)
        if content in self._seen or (content in self._has_live and not self._is_live(line)):
            return
        self._seen.add(content)
        if content not in self._has_live:
            self.late.add(key)
        fields, record = line.fields, line.fields["record"]
        before = self._before(key, line)
        leader = record.get("leader", -2)
        after = PartitionState(
            replicas=fields.get("replicas", record.get("replicas", before.replicas)),
            isr=fields.get("isr", record.get("isr", before.isr)),
            leader=before.leader if leader == -2 else None if leader == -1 else leader,
            adding=record.get("addingReplicas", before.adding),
            removing=record.get("removingReplicas", before.removing),
            leader_epoch=fields.get("leader_epoch"),
            partition_epoch=fields.get("partition_epoch"),
            at_ms=line.at_ms,
            ref=line.event.ref,
        )
        if record.get("topicId"):
            self.names[record["topicId"]] = key[0]
        self._change(key, line, before, after)

    def _altered(self, key: Key, line: Line) -> None:
        """An ISR that grew: these lines say "completed" while it goes on. Real ends have a replayed line too."""
        if line.fields.get("replicas") != line.fields.get("from_replicas"):
            return
        before = self._before(key, line)
        after = replace(
            before,
            isr=line.fields["isr"],
            leader=before.leader if before.leader is not None else line.fields.get("broker_id"),
            leader_epoch=line.fields.get("leader_epoch"),
            partition_epoch=line.fields.get("partition_epoch"),
            at_ms=line.at_ms,
            ref=line.event.ref,
        )
        self._change(key, line, before, after)

    def _change(self, key: Key, line: Line, before: PartitionState, after: PartitionState) -> None:
        self.states[key] = after
        attempt_id = f"{key[0]}-{key[1]}@{line.event.ref.partition('#')[2] or line.event.ref}"
        self.attempts.change(key, key[0], before, after, line.at_ms, line.event.ref, attempt_id)

    def _before(self, key: Key, line: Line) -> PartitionState:
        """As known, corrected by what the line itself says was before: ISR changes between leave no line."""
        fields = line.fields
        known = self.states.get(key)
        leader = self._leader_at(key, line.at_ms)
        if known is None:
            replicas = fields.get("from_replicas", fields["record"].get("replicas", ()) if "record" in fields else ())
            return PartitionState(replicas=replicas, isr=fields.get("from_isr", ()), leader=leader)
        isr = fields.get("from_isr", known.isr)
        changed = replace(known, isr=isr, leader=leader if leader is not None else known.leader)
        if set(isr) != set(known.isr) and key in self.attempts.open:
            self.attempts.open[key].take(changed, line.at_ms, line.event.ref)
        return changed

    def _leader_at(self, key: Key, at_ms: int) -> int | None:
        started = self._leaders.get(key, [])
        before = [leader for since_ms, leader in started if since_ms <= at_ms]
        return before[-1] if before else None

    def _refused(self, key: Key, line: Line) -> None:
        if not self._is_live(line):
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
                detail=f"{line.fields.get('error', '')}: {line.fields.get('text', '')}"[:500],
                source="logs",
                evidence=(line.event.ref,),
            )
        )

    def _throttle(self, line: Line) -> None:
        entity, name = str(line.fields.get("entity", "")), line.fields.get("name")
        if name is None or not self._is_live(line):
            return
        resource_type = "topic" if "type=TOPIC" in entity else "broker"
        resource = entity.partition("name='")[2].partition("'")[0]
        value = line.fields.get("value")
        if value is None:
            self.throttles.remove(resource_type, resource, name, line.at_ms, line.event.ref)
        else:  # `[hidden]` is printed for rates, also when they are removed
            shown = None if value == "[hidden]" else value
            self.throttles.set(resource_type, resource, name, shown, line.at_ms, line.event.ref)

    def history(self, now_ms: int, stall_limit_ms: int) -> ReassignmentHistory:
        ended = [
            attempt.build(self.cluster_id, controller_changes=self._changes(attempt.started_at_ms, attempt.ended_at_ms),
                          is_final=True)
            for attempt in self.attempts.take_ended()
        ]  # fmt: skip
        running = []
        for attempt in self.attempts.open.values():
            since_ms = attempt.last_progress_ms
            attempt.count_until(now_ms)
            built = attempt.build(
                self.cluster_id, controller_changes=self._changes(attempt.started_at_ms, now_ms), is_final=False
            )
            stands = attempt.state is not None and bool(overlap(attempt.state))
            if since_ms is not None and (stands or now_ms - since_ms > stall_limit_ms):
                why = blocker(attempt, self.brokers, self.throttles, since_ms, now_ms)
                # Who leads is often not told here.
                name = "unknown" if why.blocked_by == "no_leader" else why.blocked_by
                built = replace(built, stalled_since_ms=since_ms, blocked_by=name, blocked_replicas=why.replicas)
            running.append(built)
        told = [
            replace(r, is_complete_evidence=False, detail=_TOLD_LATE) if (r.topic, r.partition) in self.late else r
            for r in (*ended, *running)
        ]
        return ReassignmentHistory(
            cluster_id=self.cluster_id,
            reassignments=tuple(
                sorted((*told, *self.refused), key=lambda r: (r.started_at_ms or 0, r.topic, r.partition))
            ),
            throttles=self.throttles.all(),
            replicas={key: state.replicas for key, state in self.states.items()},
            topic_names=dict(self.names),
            seen_until_ms=now_ms,
        )

    def _changes(self, from_ms: int | None, to_ms: int | None) -> int:
        if from_ms is None or to_ms is None:
            return 0
        return bisect_right(self._active_since, to_ms) - bisect_right(self._active_since, from_ms)


def _content(line: Line) -> object:
    """The same for the same record on every controller, whenever it was replayed."""
    event = line.event
    epoch = line.fields.get("partition_epoch")
    if epoch is not None:
        return event.topic, event.partition, line.fields["record"].get("topicId"), epoch
    return event.topic, event.partition, tuple(sorted((k, str(v)) for k, v in line.fields["record"].items()))
