"""KRaft by its logs alone, where nobody can read the metadata log.

`Replayed …` lines stand in the log of every controller, and again with the time of the replay when one starts: where a
line of the controller that was active then, or of a broker, shows the same change, those are not believed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from rebalance_audit.domain.log_lines import ControllerKind as K
from rebalance_audit.domain.reassign.elections import kraft_election
from rebalance_audit.domain.reassign.lines import BROKER_CHANGED, PartitionLine, brokers_by_node, surroundings_in
from rebalance_audit.domain.reassign.model import LeaderElection, PartitionState, Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.sightings import Story, sighting
from rebalance_audit.domain.reassign.stall import CompletionRule, Surroundings
from rebalance_audit.domain.reassign.transitions import Attempts, Key

_SEEN_LATE = "Times are of a replay: no line of the active controller shows it."


def kraft_logs_history(lines: Sequence[PartitionLine], *, cluster_id: str, stall_limit_ms: int) -> ReassignmentHistory:
    """The history of a KRaft cluster by its logs alone. `lines` in order of time, of all nodes."""
    fold = _LogFold(surroundings_in(lines, cluster_id, stall_limit_ms), lines)
    for line in lines:
        fold.read(line)
    return fold.history(lines[-1].at_ms if lines else 0)


def refused_requests(lines: Sequence[PartitionLine], cluster_id: str) -> tuple[Reassignment, ...]:
    """Requests that the controller refused: a metadata log does not hold them. `lines` in order of time."""
    fold = _LogFold(Surroundings(cluster_id), lines)
    for line in lines:
        if line.kind == K.REASSIGNMENT_REFUSED:
            fold.read(line)
    return tuple(fold.refused)


class _LogFold:
    """First what each line says, of the cluster and of partitions; then each partition's states in their order."""

    def __init__(self, around: Surroundings, lines: Sequence[PartitionLine]) -> None:
        self.cluster_id, self.around = around.cluster_id, around
        self.attempts = Attempts("logs")
        self.stories: dict[tuple[str, int], list[Story]] = defaultdict(list)
        self.refused: list[Reassignment] = []
        self.elections: list[LeaderElection] = []
        self.late: set[Key] = set()
        self.unseen: set[Key] = set()
        """Partitions of whose in-sync replicas nothing is shown."""
        self._brokers = brokers_by_node(lines)
        active = sorted(
            (line.at_ms, line.event.logged_by)
            for line in lines
            if line.kind == K.CONTROLLER_ELECTED and line.event.logged_by is not None
        )
        self._active_since = [at_ms for at_ms, _ in active]
        self._active = [controller for _, controller in active]

    # What lines say

    def read(self, line: PartitionLine) -> None:
        topic, partition = line.event.topic, line.event.partition
        if topic is not None and partition is not None:
            self._of_partition(topic, partition, line)
        elif topic is not None and line.kind == K.TOPIC_REMOVED:
            for (name, _), stories in self.stories.items():
                if name == topic and stories[-1].removed is None:
                    stories[-1].removed = (line.at_ms, line.event.ref)
        else:
            self._of_cluster(line)

    def _of_partition(self, topic: str, partition: int, line: PartitionLine) -> None:
        if line.kind == K.REASSIGNMENT_REFUSED:
            self._refused(topic, partition, line)
            return
        story = self._story(topic, partition, line)
        if story is None:
            return
        broker = line.event.logged_by
        if line.kind == K.FOLLOWER_STARTED and broker is not None:
            story.starts.append((line.at_ms, broker))
        elif line.kind == K.REPLICA_DELETED and line.event.node in self._brokers:
            story.given_up.append((line.at_ms, self._brokers[line.event.node]))
        if (seen := sighting(line, is_live=self._is_live(line))) is not None:
            story.sightings.append(seen)

    def _story(self, topic: str, partition: int, line: PartitionLine) -> Story | None:
        """The life of the partition that a line is about: a topic may be deleted, and made again with another id."""
        stories = self.stories[topic, partition]
        record = line.fields.get("record")
        topic_id = line.fields.get("topic_id") if record is None else record.get("topicId")
        for story in reversed(stories):
            if topic_id is None or story.topic_id in (None, topic_id):
                story.topic_id = story.topic_id or topic_id
                if story.removed is not None and topic_id is None:
                    return None  # what brokers say while they give it up
                return story
        stories.append(Story(topic_id))
        return stories[-1]

    def _is_live(self, line: PartitionLine) -> bool:
        """Whether the controller that wrote it was the active one; where nothing shows that, every line counts."""
        at = bisect_right(self._active_since, line.at_ms) - 1
        return at < 0 or self._active[at] == line.event.logged_by

    def _of_cluster(self, line: PartitionLine) -> None:
        fields, at_ms, ref = line.fields, line.at_ms, line.event.ref
        match line.kind:
            case K.BROKER_FENCED if self._is_live(line):
                self.around.brokers.away(fields["broker_id"], at_ms, ref)
            case _ if line.kind == BROKER_CHANGED:
                if "level" in fields:
                    self.around.rule = CompletionRule(max(self.around.rule.level or 0, fields["level"]))
                if fields["fenced"] and self._is_live(line):
                    self._fenced(fields["broker_id"], fields["fenced"] == 1, line)
            case K.THROTTLE_CHANGED:
                self._throttle(line)

    def _fenced(self, broker: int, is_fenced: bool, line: PartitionLine) -> None:
        brokers = self.around.brokers
        if not is_fenced:
            brokers.here(broker, line.at_ms)
        elif broker in brokers.known:  # a new one is registered fenced
            brokers.away(broker, line.at_ms, line.event.ref)
        brokers.known.add(broker)

    def _refused(self, topic: str, partition: int, line: PartitionLine) -> None:
        if not self._is_live(line):
            return
        self.refused.append(
            Reassignment(
                cluster_id=self.cluster_id,
                reassignment_id=_attempt_id(topic, partition, line.event.ref),
                topic=topic,
                partition=partition,
                started_at_ms=line.at_ms,
                ended_at_ms=line.at_ms,
                outcome="refused",
                detail=f"{line.fields.get('error', '')}: {line.fields.get('text', '')}"[:500],
                source="logs",
                evidence=(line.event.ref,),
            )
        )

    def _throttle(self, line: PartitionLine) -> None:
        entity, name = str(line.fields.get("entity", "")), line.fields.get("name")
        if name is None or not self._is_live(line):
            return
        resource_type = "topic" if "type=TOPIC" in entity else "broker"
        resource = entity.partition("name='")[2].partition("'")[0]
        value = line.fields.get("value")
        if value is None:
            self.around.throttles.remove(resource_type, resource, name, line.at_ms, line.event.ref)
        else:  # `[hidden]` is printed for rates, also when they are removed
            shown = None if value == "[hidden]" else value
            self.around.throttles.set(resource_type, resource, name, shown, line.at_ms, line.event.ref)

    # What partitions went through

    def _follow(self, topic: str, partition: int, story: Story) -> PartitionState | None:
        key = (story.topic_id or topic, partition)
        if not story.shows_growth:
            self.unseen.add(key)
        before: PartitionState | None = None
        for after, is_late in story.states():
            if before is not None and after.at_ms is not None:
                running = self.attempts.open.get(key)
                if running is not None:
                    self.around.note(running, after.at_ms)
                attempt_id = _attempt_id(topic, partition, after.ref)
                self.attempts.change(key, topic, before, after, after.at_ms, after.ref, attempt_id)
                if before.leader is not None and after.leader not in (None, before.leader):
                    self.elections.append(
                        kraft_election(
                            self.cluster_id,
                            topic,
                            partition,
                            before,
                            after,
                            self.around.brokers,
                            at_ms=after.at_ms,
                            ref=after.ref,
                            is_assignment=_assignment(before) != _assignment(after),
                        )
                    )
                if is_late and (before.replicas, before.adding) != (after.replicas, after.adding):
                    self.late.add(key)
                if (running := self.attempts.open.get(key)) is not None:
                    for at_ms, broker in story.starts:
                        if broker in running.adding and at_ms >= (running.started_at_ms or 0) - 1_000:
                            running.fetching.setdefault(broker, at_ms)
            before = after
        if story.removed is not None:
            running = self.attempts.open.get(key)
            if running is not None:
                self.around.note(running, story.removed[0])
            self.attempts.remove(key, *story.removed)
            return None
        return before

    def history(self, now_ms: int) -> ReassignmentHistory:
        replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        names: dict[str, str] = {}
        for (topic, partition), stories in self.stories.items():
            for story in stories:
                state = self._follow(topic, partition, story)
                if story.topic_id is not None:
                    names[story.topic_id] = topic
                if state is not None:
                    replicas[topic, partition] = state.replicas
        known = self.around.all_of(self.attempts, self._changes, now_ms)
        return ReassignmentHistory(
            cluster_id=self.cluster_id,
            reassignments=tuple(
                sorted(
                    (*map(self._doubted, known), *self.refused),
                    key=lambda r: (r.started_at_ms or 0, r.topic, r.partition),
                )
            ),
            elections=tuple(sorted(self.elections, key=lambda e: (e.at_ms, e.topic, e.partition))),
            throttles=self.around.throttles.all(),
            replicas=replicas,
            topic_names=names,
            seen_until_ms=now_ms,
        )

    def _doubted(self, r: Reassignment) -> Reassignment:
        key = (r.topic_id or r.topic, r.partition)
        if key in self.unseen and r.blocked_by in ("replica_not_fetching", "old_replica_out_of_sync"):
            r = replace(r, blocked_by="unknown", blocked_replicas=())
        if key in self.late:
            r = replace(r, is_complete_evidence=False, detail=r.detail or _SEEN_LATE)
        return r

    def _changes(self, from_ms: int | None, to_ms: int | None) -> int:
        if from_ms is None or to_ms is None:
            return 0
        return bisect_right(self._active_since, to_ms) - bisect_right(self._active_since, from_ms)


def _assignment(state: PartitionState) -> object:
    return state.replicas, state.adding, state.removing


def _attempt_id(topic: str, partition: int, ref: str) -> str:
    return f"{topic}-{partition}@{ref.partition('#')[2] or ref}"
