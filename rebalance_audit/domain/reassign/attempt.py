"""One reassignment while it is put together: states in, a Reassignment out. Knows nothing of records or log lines."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rebalance_audit.domain.reassign.model import PartitionState, Reassignment, ReassignmentStep, ReplicaProgress


class ReassignmentAttempt:
    """Takes each state of the partition in order, from the one before the request on."""

    __slots__ = (
        "adding", "behind", "controllers_at_start", "detail", "directories", "ended_at_ms", "evidence", "fetching",
        "in_isr", "is_complete", "last_progress_ms", "leader_changes", "min_insync_replicas", "original", "outcome",
        "partition", "phase", "reassignment_id", "removing", "source", "standstill_from_ms", "standstill_ms",
        "started_at_ms", "state", "steps", "stood_by", "stood_replicas", "superseded_by", "target", "topic",
        "topic_id", "under_min_isr_ms", "under_replicated_ms", "without_leader_ms",
    )  # fmt: skip

    def __init__(
        self,
        *,
        reassignment_id: str,
        topic: str,
        partition: int,
        topic_id: str | None,
        before: PartitionState | None,
        original: tuple[int, ...] | None,
        started_at_ms: int | None,
        source: str,
    ) -> None:
        self.reassignment_id, self.topic, self.partition, self.topic_id = reassignment_id, topic, partition, topic_id
        self.original, self.started_at_ms, self.source = original, started_at_ms, source
        self.state = before
        self.target: tuple[int, ...] | None = None
        self.adding: tuple[int, ...] = ()
        self.removing: tuple[int, ...] = ()
        self.outcome, self.phase = "open", "accepted"
        self.ended_at_ms: int | None = None
        self.superseded_by: str | None = None
        self.detail: str | None = None
        self.is_complete = before is not None
        self.steps: list[ReassignmentStep] = []
        self.evidence: list[str] = []
        self.in_isr: dict[int, int | None] = {}
        """Adding broker -> when it joined the ISR."""
        self.fetching: dict[int, int] = {}
        self.directories: dict[int, str] = {}
        """Broker -> id of the log directory its replica lies in, where the controller knows it."""
        self.behind: dict[tuple[int, bool], int] = {}
        """(new broker, whether its leader's place is known) -> the fewest records that it was ever behind."""
        self.leader_changes = self.controllers_at_start = 0
        self.min_insync_replicas: int | None = None
        self.under_min_isr_ms = self.under_replicated_ms = self.without_leader_ms = 0
        self.last_progress_ms = started_at_ms
        self.standstill_ms: int | None = None
        self.standstill_from_ms: int | None = None
        self.stood_by: str | None = None
        """The reason of its longest standstill."""
        self.stood_replicas: tuple[int, ...] = ()
        if before is not None:
            self._step(before, before.at_ms, "before", before.ref)

    def take(self, state: PartitionState, at_ms: int, ref: str, phase: str | None = None) -> None:
        """The partition is in this state since `at_ms`. `phase` is decided here where the caller does not know it."""
        before = self.state
        if before is not None:
            self._count_risk(before, at_ms)
            if before.leader != state.leader and before.is_leader_known and state.is_leader_known:
                self.leader_changes += 1
        was = dict(self.in_isr)
        for broker in self.adding:
            if broker in state.isr:
                self.in_isr.setdefault(broker, at_ms)
            elif broker in self.in_isr and phase not in ("completed", "cancelled", "superseded"):
                del self.in_isr[broker]
        if len(self.in_isr) > len(was) or (phase is not None and phase != self.phase):
            self.progressed(at_ms)
        if phase is None:
            phase = "catching_up" if self.in_isr and self.phase == "accepted" else self.phase
        if phase in ("accepted", "catching_up", "leader_moved", "removing"):
            self.phase = phase
        self.state = state
        if before is None or _seen(before) != _seen(state):
            self._step(state, at_ms, phase, ref)
            self.evidence.append(ref)

    def progressed(self, at_ms: int) -> None:
        if self.last_progress_ms is not None:
            stood_ms = at_ms - self.last_progress_ms
            if self.standstill_ms is None or stood_ms > self.standstill_ms:
                self.standstill_ms, self.standstill_from_ms = stood_ms, self.last_progress_ms
        self.last_progress_ms = at_ms

    def aims(self, target: tuple[int, ...], adding: tuple[int, ...], removing: tuple[int, ...]) -> None:
        self.target, self.adding, self.removing = target, adding, removing

    def end(self, outcome: str, at_ms: int | None) -> None:
        if at_ms is not None:
            self.progressed(at_ms)
            if outcome == "deleted" and self.state is not None:
                self._count_risk(self.state, at_ms)
        self.outcome, self.ended_at_ms = outcome, at_ms

    def build(self, cluster_id: str, *, controller_changes: int, is_final: bool) -> Reassignment:
        return Reassignment(
            cluster_id=cluster_id,
            reassignment_id=self.reassignment_id,
            topic=self.topic,
            partition=self.partition,
            topic_id=self.topic_id,
            original_replicas=self.original,
            target_replicas=self.target,
            adding_replicas=self.adding,
            removing_replicas=self.removing,
            started_at_ms=self.started_at_ms,
            ended_at_ms=self.ended_at_ms,
            outcome=self.outcome,
            phase=self.phase,
            longest_standstill_ms=self.standstill_ms,
            standstill_from_ms=self.standstill_from_ms,
            leader_changes=self.leader_changes,
            controller_changes=controller_changes,
            min_insync_replicas=self.min_insync_replicas,
            under_min_isr_ms=self.under_min_isr_ms,
            under_replicated_ms=self.under_replicated_ms,
            without_leader_ms=self.without_leader_ms,
            superseded_by=self.superseded_by,
            detail=self.detail,
            source=self.source,
            is_complete_evidence=self.is_complete,
            is_final=is_final,
            progress=tuple(
                ReplicaProgress(broker_id=b, started_at_ms=self.fetching.get(b), in_isr_at_ms=self.in_isr.get(b))
                for b in self.adding
            ),
            evidence=tuple(dict.fromkeys(ref for ref in self.evidence if ref)),
            steps=tuple(self.steps),
        )

    def _step(self, state: PartitionState, at_ms: int | None, phase: str, ref: str) -> None:
        self.steps.append(
            ReassignmentStep(
                step=len(self.steps),
                at_ms=at_ms,
                phase=phase,
                replicas=state.replicas,
                leader=state.leader,
                isr=tuple(sorted(state.isr)),
                is_leader_known=state.is_leader_known,
                is_isr_known=state.is_isr_known,
                leader_epoch=state.leader_epoch,
                partition_epoch=state.partition_epoch,
                evidence=(ref,) if ref else (),
            )
        )

    def _count_risk(self, state: PartitionState, until_ms: int) -> None:
        from_ms = max((ms for ms in (state.at_ms, self.started_at_ms) if ms is not None), default=None)
        if from_ms is None or until_ms <= from_ms:
            return
        lasted_ms = until_ms - from_ms
        if state.leader is None and state.is_leader_known:
            self.without_leader_ms += lasted_ms
        if not state.is_isr_known:
            return
        if self.min_insync_replicas is not None and len(state.isr) < self.min_insync_replicas:
            self.under_min_isr_ms += lasted_ms
        wanted = [len(each) for each in (self.original, self.target) if each]
        if wanted and len(state.isr) < min(wanted):
            self.under_replicated_ms += lasted_ms

    @contextmanager
    def counted_until(self, now_ms: int) -> Iterator[None]:
        """Inside the block the counts are as if the last state had ended at `now_ms`; afterwards that is forgotten
        again."""
        counted = ("under_min_isr_ms", "under_replicated_ms", "without_leader_ms", "standstill_ms",
                   "standstill_from_ms", "last_progress_ms")  # fmt: skip
        before = [getattr(self, name) for name in counted]
        if self.state is not None:
            self._count_risk(self.state, now_ms)
        if self.last_progress_ms is not None:
            self.progressed(now_ms)
        yield
        for name, value in zip(counted, before, strict=True):
            setattr(self, name, value)


def _seen(state: PartitionState) -> tuple[object, ...]:
    return state.replicas, state.leader, frozenset(state.isr)
