"""The columns that every rebalance of a classic group has: number, outcome, times, leader, evidence."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rebalance_audit.domain.frozen import maker
from rebalance_audit.domain.kinds import EvidenceTier, Outcome, RebalanceKind
from rebalance_audit.domain.model import Rebalance

from .attempt import Attempt

_make_rebalance = maker(Rebalance)


def rebalance_id(
    cluster_id: str, group_id: str, number: int, *, rewrite_seq: int = 0, use: int = 0, epoch: bool = False
) -> str:
    """Built from cluster, group, number and sequence, never from times: evidence that comes later keeps the id."""
    sequence = (f".{rewrite_seq}" if rewrite_seq else "") + (f"~{use}" if use else "")
    return f"{cluster_id}/{group_id}/{'e' if epoch else ''}{number}{sequence}"


_LOOK_BACK = 50
"""A leader of more attempts ago than this is not looked for."""


def _leader(attempt: Attempt) -> str | None:
    if attempt.value is not None:
        return attempt.value.leader
    leader = attempt.received.fields.get("member_id") if attempt.received is not None else None
    return leader if isinstance(leader, str) else None


def _counted(attempt: Attempt) -> int | None:
    """The number of members by a line."""
    return next((line.fields.get("member_count") for line in (attempt.received, attempt.stabilized) if line), None)


def frames(cluster_id: str, group_id: str, attempts: Sequence[Attempt]) -> Iterator[Rebalance]:
    """Each attempt as a rebalance without members, movements and triggers."""
    last = next((i for i in range(len(attempts) - 1, -1, -1) if not attempts[i].rewrite_seq), -1)
    before_ms, leader_before, led, is_gap = None, None, 0, False
    for index, attempt in enumerate(attempts):
        leader = _leader(attempt)
        is_new_leader = None
        if leader is not None and leader_before is not None and index - led <= _LOOK_BACK and not attempt.rewrite_seq:
            is_new_leader = leader != leader_before
        yield _frame(
            cluster_id,
            group_id,
            attempt,
            leader=leader,
            leader_changed=is_new_leader,
            before_ms=before_ms,
            gap_before=is_gap,
            followed=index < last,
        )
        if leader is not None:
            leader_before, led = leader, index
        if (at_ms := attempt.known_at_ms) is not None:
            before_ms = at_ms
        is_gap = attempt.missing_to is not None


def _frame(
    cluster_id: str,
    group_id: str,
    attempt: Attempt,
    *,
    leader: str | None,
    leader_changed: bool | None,
    before_ms: int | None,
    gap_before: bool,
    followed: bool,
) -> Rebalance:
    value = attempt.value
    outcome = attempt.outcome
    if outcome == Outcome.OPEN and followed:
        outcome = Outcome.SUPERSEDED if attempt.stabilized is not None else Outcome.FAILED

    started_at_ms = attempt.preparing.at_ms if attempt.preparing else None
    joined_at_ms = value.current_state_timestamp if value is not None and not attempt.rewrite_seq else None
    if joined_at_ms is None and attempt.stabilized is not None:
        joined_at_ms = attempt.stabilized.at_ms
    delivered_at_ms = attempt.record.at_ms if attempt.record else attempt.received.at_ms if attempt.received else None
    assigned_at_ms = delivered_at_ms if outcome == Outcome.COMPLETED else None
    times = [t for t in (started_at_ms, joined_at_ms, delivered_at_ms, attempt.known_at_ms) if t is not None]

    members = value.members if value is not None else None
    member_count = len(members) if members is not None else _counted(attempt)
    lines = attempt.lines
    record = attempt.record or attempt.undelivered
    evidence = [record.ref] if record else []
    evidence += [line.ref for line in lines]
    has_logs = attempt.preparing is not None or attempt.rewrite_seq > 0
    # An attempt that the next one overtook has no record: the coordinator writes one only with an assignment.
    has_all_records = record is not None or outcome in (Outcome.FAILED, Outcome.SUPERSEDED)

    return _make_rebalance(
        cluster_id=cluster_id,
        rebalance_id=rebalance_id(
            cluster_id, group_id, attempt.number, rewrite_seq=attempt.rewrite_seq, use=attempt.use
        ),
        group_id=group_id,
        generation_id=attempt.number,
        protocol_type=value.protocol_type or None if value is not None else None,
        kind=RebalanceKind.STATIC_REWRITE if attempt.rewrite_seq else RebalanceKind.REBALANCE,
        rewrite_seq=attempt.rewrite_seq,
        outcome=outcome,
        assignor=value.protocol if value is not None else None,
        leader_member_id=leader,
        leader_changed=leader_changed,
        coordinator_broker_id=next(
            (line.coordinator_broker_id for line in lines if line.coordinator_broker_id is not None), None
        ),
        member_count=member_count,
        static_member_count=None if members is None else len([m for m in members if m.group_instance_id is not None]),
        started_at_ms=started_at_ms,
        started_lower_ms=before_ms,
        started_tier=EvidenceTier.LOGGED if started_at_ms is not None else EvidenceTier.UNKNOWN,
        joined_at_ms=joined_at_ms,
        assigned_at_ms=assigned_at_ms,
        ended_at_ms=max(times) if times else None,
        broker_window_ms=assigned_at_ms - started_at_ms if assigned_at_ms and started_at_ms else None,
        is_complete_evidence=has_all_records and has_logs and not gap_before,
        is_final=followed,
        evidence=tuple(evidence),
    )
