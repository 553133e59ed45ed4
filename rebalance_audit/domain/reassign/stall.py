"""Why a reassignment stands still."""

from __future__ import annotations

from dataclasses import dataclass

from rebalance_audit.domain.reassign.attempt import Attempt
from rebalance_audit.domain.reassign.brokers import Brokers, Throttles, slows
from rebalance_audit.domain.reassign.model import PartitionState


@dataclass(frozen=True, slots=True)
class Blocker:
    blocked_by: str
    replicas: tuple[int, ...] = ()
    refs: tuple[str, ...] = ()


def overlap(state: PartitionState) -> tuple[int, ...]:
    """Brokers that are being added and removed at once: from Kafka 4.3 on this never ends."""
    return tuple(r for r in state.adding if r in state.removing)


def blocker(
    attempt: Attempt, brokers: Brokers, throttles: Throttles, from_ms: int, to_ms: int, *, overlap_hangs: bool = True
) -> Blocker:
    """What kept it from going on between the two instants, the surest reason first."""
    state = attempt.state
    if state is None:
        return Blocker("unknown")
    if overlap_hangs and (both := overlap(state)):
        return Blocker("adding_and_removing_overlap", both, (state.ref,))
    if state.leader is None:
        return Blocker("no_leader", state.isr, (state.ref,))
    missing = tuple(r for r in state.adding if r not in state.isr)
    down = [(r, found) for r in missing if (found := brokers.away_between(r, from_ms, to_ms)) is not None]
    if down:
        return Blocker("broker_down", tuple(r for r, _ in down), tuple(found[1] for _, found in down))
    if not missing:
        behind = tuple(r for r in state.target if r not in state.isr)
        return Blocker("old_replica_out_of_sync", behind) if behind else Blocker("unknown")
    in_force = throttles.at((from_ms + to_ms) // 2)
    if slows(in_force, attempt.topic, attempt.partition, state.leader, missing):
        involved = {attempt.topic, "", *(str(b) for b in (state.leader, *missing))}
        refs = tuple(ref for t in in_force if t.resource in involved for ref in t.evidence[:1])
        return Blocker("throttle", missing, refs)
    return Blocker("replica_not_fetching", missing)
