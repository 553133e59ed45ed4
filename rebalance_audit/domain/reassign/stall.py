"""Whether a reassignment is stalled, since when, and why."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rebalance_audit.domain.reassign.attempt import ReassignmentAttempt
from rebalance_audit.domain.reassign.brokers import Brokers, Throttles, slows
from rebalance_audit.domain.reassign.model import PartitionState, Reassignment
from rebalance_audit.domain.reassign.transitions import Attempts

STALL_LIMIT_MS = 90_000
"""A running reassignment without progress for longer is stalled. Copies of small partitions took 1 to 20 s
(docs/measured.md#reassignments)."""
LEVEL_3_8, LEVEL_4_3 = 20, 30
"""metadata.version 3.8-IV0 and 4.3-IV0."""


@dataclass(frozen=True, slots=True)
class Blocker:
    blocked_by: str
    replicas: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompletionRule:
    """The replicas that the controller waits for, by its release; where that is not known, the strictest is taken."""

    level: int | None = None
    """Greatest metadata.version that a node of the cluster supports: how new its software is."""
    is_zookeeper: bool = False

    @property
    def overlap_hangs(self) -> bool:
        """Whether a reassignment never ends while a broker is both in its adding and in its removing list. It hangs
        under controllers from 4.3 on; those of 3.9.1 ended it."""
        return not self.is_zookeeper and (self.level is None or self.level >= LEVEL_4_3)

    def awaited(self, state: PartitionState) -> tuple[int, ...]:
        """The replicas that must be in sync for the reassignment to end."""
        if self.is_zookeeper or self.level is None or LEVEL_3_8 <= self.level < LEVEL_4_3:
            return state.target
        if self.level < LEVEL_3_8 or len(state.adding) >= len(state.removing):
            return state.adding
        return state.target


@dataclass(frozen=True, slots=True)
class Roll:
    """A broker began a new segment of a partition's log at this offset: it has everything before it."""

    at_ms: int
    broker_id: int
    offset: int


@dataclass(slots=True)
class Surroundings:
    """All that a reassignment depends on, and that may keep it from going on."""

    cluster_id: str
    stall_limit_ms: int = STALL_LIMIT_MS
    rule: CompletionRule = CompletionRule()
    brokers: Brokers = field(default_factory=Brokers)
    throttles: Throttles = field(init=False)
    without_controller: list[tuple[int, int, str]] = field(default_factory=list)
    """(from, to, ref)."""
    rolls: Mapping[tuple[str, int], Sequence[Roll]] = field(default_factory=dict)
    """By (topic, partition), in order of time."""

    def __post_init__(self) -> None:
        self.throttles = Throttles(self.cluster_id)

    # What happens

    def note(self, attempt: ReassignmentAttempt, at_ms: int) -> None:
        """Note why the partition stood still until now. Call before it goes on: the reason is known only until then."""
        self._follow(attempt, at_ms)
        self._note_stretch(attempt, at_ms)

    def _follow(self, attempt: ReassignmentAttempt, at_ms: int) -> None:
        for roll in self._came_closer(attempt, at_ms):
            self._note_stretch(attempt, roll.at_ms)
            attempt.progressed(roll.at_ms)

    def _note_stretch(self, attempt: ReassignmentAttempt, at_ms: int) -> None:
        from_ms = attempt.last_progress_ms
        if from_ms is None or at_ms - from_ms <= max(self.stall_limit_ms, attempt.standstill_ms or 0):
            return
        why = self.blocker(attempt, from_ms, at_ms)
        attempt.stood_by, attempt.stood_replicas = why.blocked_by, why.replicas
        attempt.evidence.extend(why.refs)

    def _came_closer(self, attempt: ReassignmentAttempt, at_ms: int) -> list[Roll]:
        """Where a new replica began a segment, and was not as far behind its leader any more as it had been."""
        rolls = self.rolls.get((attempt.topic, attempt.partition), ())
        state, from_ms = attempt.state, attempt.last_progress_ms
        if not rolls or state is None or from_ms is None:
            return []
        found = []
        for at in range(bisect_right(rolls, from_ms, key=lambda roll: roll.at_ms), len(rolls)):
            roll = rolls[at]
            if roll.at_ms > at_ms:
                break
            if roll.broker_id not in attempt.adding or roll.broker_id in state.isr:
                continue
            ahead = [r.offset for r in rolls[:at] if r.broker_id == state.leader]
            behind = max(0, max(ahead) - roll.offset) if ahead else -roll.offset
            measure = (roll.broker_id, bool(ahead))
            if behind < attempt.behind.get(measure, behind + 1):
                attempt.behind[measure] = behind
                found.append(roll)
        return found

    # What is shown

    def all_of(
        self, attempts: Attempts, changes: Callable[[int | None, int | None], int], now_ms: int
    ) -> list[Reassignment]:
        """Reassignments that ended since the last call, then those that run. `changes`: how many changes of controllers
        between two instants."""
        ended = [
            self.ended(a, controller_changes=changes(a.started_at_ms, a.ended_at_ms)) for a in attempts.take_ended()
        ]
        running = [
            self.running(a, controller_changes=changes(a.started_at_ms, now_ms), now_ms=now_ms)
            for a in attempts.open.values()
        ]
        return ended + running

    def ended(self, attempt: ReassignmentAttempt, *, controller_changes: int, is_final: bool = True) -> Reassignment:
        built = attempt.build(self.cluster_id, controller_changes=controller_changes, is_final=is_final)
        if attempt.stood_by is not None:
            return replace(built, blocked_by=attempt.stood_by, blocked_replicas=attempt.stood_replicas)
        both = tuple(broker for broker in attempt.adding if broker in attempt.removing)
        if both and self.rule.overlap_hangs and attempt.outcome in ("cancelled", "superseded"):
            return replace(built, blocked_by="adding_and_removing_overlap", blocked_replicas=both)
        return built

    def running(self, attempt: ReassignmentAttempt, *, controller_changes: int, now_ms: int) -> Reassignment:
        """A reassignment that still runs at `now_ms`; the attempt is left as it is."""
        self._follow(attempt, now_ms)
        since_ms = attempt.last_progress_ms
        with attempt.counted_until(now_ms):
            built = self.ended(attempt, controller_changes=controller_changes, is_final=False)
        cannot_end = self.rule.overlap_hangs and attempt.state is not None and bool(overlap(attempt.state))
        if cannot_end and attempt.started_at_ms is not None:
            since_ms = attempt.started_at_ms
        if not cannot_end and (since_ms is None or now_ms - since_ms <= self.stall_limit_ms):
            return built
        why = self.blocker(attempt, since_ms if since_ms is not None else now_ms, now_ms)
        return replace(
            built,
            stalled_since_ms=since_ms,
            blocked_by=why.blocked_by,
            blocked_replicas=why.replicas,
            evidence=tuple(dict.fromkeys((*built.evidence, *(ref for ref in why.refs if ref)))),
        )

    def blocker(self, attempt: ReassignmentAttempt, from_ms: int, to_ms: int) -> Blocker:
        """The reasons why it did not go on between the two instants, the surest first."""
        state = attempt.state
        if state is None:
            return Blocker("unknown")
        if self.rule.overlap_hangs and (both := overlap(state)):
            return Blocker("adding_and_removing_overlap", both, (state.ref,))
        for gone_ms, back_ms, ref in self.without_controller:
            if 2 * (min(back_ms, to_ms) - max(gone_ms, from_ms)) > to_ms - from_ms:
                return Blocker("controller_unavailable", (), (ref,))
        if state.leader is None and state.is_leader_known:
            return Blocker("no_leader", state.isr, (state.ref,))
        missing = tuple(r for r in state.adding if r not in state.isr)
        awaited = missing or tuple(r for r in self.rule.awaited(state) if r not in state.isr)
        down = [(r, found) for r in awaited if (found := self.brokers.away_between(r, from_ms, to_ms)) is not None]
        if down:
            return Blocker("broker_down", tuple(r for r, _ in down), tuple(found[1] for _, found in down))
        if not state.is_isr_known:  # who has joined, and who is behind, is not shown
            return Blocker("unknown")
        if not missing:
            return Blocker("old_replica_out_of_sync", awaited) if awaited else Blocker("unknown")
        name = f"{attempt.topic}-{attempt.partition}"
        since_ms = attempt.started_at_ms or from_ms
        lost = {r: self.brokers.lost_by(name, r, attempt.directories.get(r), since_ms, to_ms) for r in missing}
        if refs := {r: ref for r, ref in lost.items() if ref is not None}:
            return Blocker("disk_failed", tuple(refs), tuple(refs.values()))
        in_force = self.throttles.at((from_ms + to_ms) // 2)
        if slows(in_force, attempt.topic, attempt.partition, state.leader, missing):
            involved = {attempt.topic, "", *(str(b) for b in (state.leader, *missing))}
            set_by = tuple(ref for t in in_force if t.resource in involved for ref in t.evidence[:1])
            return Blocker("throttle", missing, set_by)
        return Blocker("replica_not_fetching", missing)


def overlap(state: PartitionState) -> tuple[int, ...]:
    """Brokers that are being added and removed at once."""
    return tuple(r for r in state.adding if r in state.removing)
