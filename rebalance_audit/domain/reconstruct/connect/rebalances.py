"""Rebalances of Connect groups, and the time line of every connector and task.

Under `compatible` and `sessioned` what stays keeps running and is not in the assignment's bytes; under `default`
everything stops and is given again. Source: KIP-415, KIP-507;
docs/kafka_writes.md#connect-generations-by-what-happened.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rebalance_audit.domain.kinds import MemberChange, Mode, MovementKind
from rebalance_audit.domain.model import GroupEvidence, LogKind, Member, Rebalance, Trigger
from rebalance_audit.domain.reconstruct.attempts.attempt import Attempt
from rebalance_audit.domain.reconstruct.attempts.frame import frames
from rebalance_audit.domain.reconstruct.attempts.joined import classic_attempts
from rebalance_audit.domain.reconstruct.attempts.triggers import with_triggers
from rebalance_audit.domain.reconstruct.reconstruction import Reconstruction, in_time

from .causes import Causes
from .configs import Configs
from .departures import Departures
from .eager import EagerCost
from .existence import Existence
from .lines import WorkerLines
from .marks import Sources
from .movements import Movements
from .reading import rounds_of, with_worker_lines
from .rounds import Resource, Round, Worker, names
from .runs import Ownership, attach_statuses
from .tasks import TaskHistory

PROTOCOL_TYPE = "connect"


def is_connect_group(evidence: GroupEvidence) -> bool:
    """Whether the group is a Connect cluster's: by its records; where no record has a protocol, by lines of workers."""
    types = {getattr(r.record.value, "protocol_type", "") for r in evidence.records if r.record.value is not None}
    types.discard("")
    if types or any(r.record.name not in ("GroupMetadata", "OffsetCommit") for r in evidence.records):
        return PROTOCOL_TYPE in types
    return any(line.kind.startswith("worker_") for line in evidence.lines)


def reconstruct_connect(evidence: GroupEvidence) -> Reconstruction:
    """All rebalances of the group in order, and its connectors' and tasks' intervals. Any order of evidence."""
    classic = [r for r in evidence.records if r.record.name == "GroupMetadata"]
    found, contradictions = classic_attempts(classic, evidence.lines)
    lines = WorkerLines(evidence.lines)
    attempts = with_worker_lines(found, lines)
    rounds = rounds_of(attempts, lines)
    ownership = Ownership(rounds, lines)
    tombstones = attach_statuses(ownership, evidence.statuses)
    configs = Configs(evidence.configs)
    loads = [line for line in evidence.lines if line.kind is LogKind.GROUP_LOADED]
    departures = Departures(attempts, lines, evidence.statuses, loads)
    sources = Sources(rounds=rounds, lines=lines, departures=departures, configs=configs)
    existence = Existence(rounds, ownership, configs, tombstones, has_statuses=bool(evidence.statuses))
    framed = list(frames(evidence.cluster_id, evidence.group_id, attempts))
    is_fresh = bool(rounds.all) and rounds.all[0].index == 0 and rounds.all[0].number == 1
    movements = Movements(
        ownership, existence, sources, {i: f.rebalance_id for i, f in enumerate(framed)}, is_fresh=is_fresh
    )
    causes = Causes(rounds, ownership, configs, departures, lines)
    eager_cost = EagerCost(ownership, existence, sources)
    rebalances = []
    for index, (attempt, rebalance) in enumerate(zip(attempts, framed, strict=True)):
        rebalance = _with_triggers(rebalance, attempt, causes.of(attempt, index))
        round_ = rounds.at(index)
        if round_ is not None:
            before = rounds.before(index)
            rebalance = _delivered(rebalance, round_, before, existence, is_fresh=is_fresh)
            moved = movements.of(round_)
            restarted = sum(m.kind == MovementKind.RESTARTED for m in moved)
            kept = None if rebalance.kept_count is None else rebalance.kept_count - restarted
            rebalance = replace(
                rebalance,
                movements=moved,
                kept_count=kept,
                changed_connectors=causes.changed_connectors(before, round_),
                commanded_connectors=causes.changed_connectors(before, round_, is_commanded=True),
                eager_seconds_lower=eager_cost.of(round_, rebalance.trigger),
            )
        rebalances.append(rebalance)
    tasks = TaskHistory(evidence, ownership, existence, sources).rows()
    return Reconstruction(
        rebalances=tuple(rebalances), connect_tasks=tuple(tasks), contradictions=in_time(contradictions)
    )


def _with_triggers(rebalance: Rebalance, attempt: Attempt, triggers: Sequence[Trigger]) -> Rebalance:
    rebalance = replace(rebalance, protocol_type=rebalance.protocol_type or PROTOCOL_TYPE)
    if attempt.missing_to is not None:
        detail = (
            f"generations {attempt.number} to {attempt.missing_to}" if attempt.missing_to > attempt.number else None
        )
        return replace(rebalance, trigger_detail=detail)
    return with_triggers(rebalance, triggers)


def _delivered(
    rebalance: Rebalance, round_: Round, before: Round | None, existence: Existence, *, is_fresh: bool
) -> Rebalance:
    running = [w.running for w in round_.workers]
    is_known = None not in running and not (round_.is_partial and rebalance.member_count not in (None, len(running)))
    held = {r for resources in running for r in resources or ()}
    kept = sum(
        len((_owned_before(w, before, round_, is_fresh) or frozenset()) & (w.running or frozenset()))
        for w in round_.workers
    )
    # Workers join by the protocol of the generation before: an eager one made them stop.
    ran_on = (before.mode if before is not None else round_.mode) != Mode.EAGER
    if round_.is_partial:
        rebalance = replace(
            rebalance,
            assignor=round_.assignor,
            leader_member_id=round_.leader_member_id,
            member_count=rebalance.member_count if rebalance.member_count is not None else len(round_.workers),
            is_complete_evidence=False,
        )
    return replace(
        rebalance,
        mode=round_.mode,
        config_offset=round_.config_offset if round_.config_offset is not None and round_.config_offset >= 0 else None,
        connect_delay_ms=round_.delay_ms,
        connect_error=round_.error,
        members=_members(rebalance, round_, before, is_fresh),
        resource_count=len(held) if is_known else None,
        kept_count=(kept if ran_on else 0) if is_known else None,
        unassigned_count=len(existence.unassigned(round_)) if is_known else None,
        is_complete_evidence=rebalance.is_complete_evidence and is_known,
    )


def _members(rebalance: Rebalance, round_: Round, before: Round | None, is_fresh: bool) -> tuple[Member, ...]:
    was: Mapping[str, Worker] = {w.member_id: w for w in before.workers} if before is not None else {}
    found = []
    for worker in round_.workers:
        held = _owned_before(worker, before, round_, is_fresh)
        is_new = worker.member_id not in was if before is not None else is_fresh or not held
        found.append(
            _member(rebalance, worker, MemberChange.JOINED if is_new else MemberChange.STAYED, held, worker.running)
        )
    present = {w.member_id for w in round_.workers}
    for worker in was.values():
        if worker.member_id not in present and not round_.is_partial:
            found.append(_member(rebalance, worker, MemberChange.LEFT, worker.running, frozenset()))
    return tuple(found)


def _owned_before(worker: Worker, before: Round | None, round_: Round, is_fresh: bool) -> frozenset[Resource] | None:
    if worker.held is not None and round_.mode != Mode.EAGER:
        return worker.held
    if before is None:
        return frozenset() if is_fresh else None
    old = next((w for w in before.workers if w.member_id == worker.member_id), None)
    return old.running if old is not None else frozenset()


def _member(
    rebalance: Rebalance,
    worker: Worker,
    change: MemberChange,
    held: frozenset[Resource] | None,
    running: frozenset[Resource] | None,
) -> Member:
    metadata, joined = worker.metadata, worker.joined
    is_known = held is not None and running is not None
    return Member(
        member_id=worker.member_id,
        client_id=metadata.client_id if metadata else joined.fields.get("client_id") if joined else None,
        client_host=metadata.client_host if metadata else None,
        worker_url=worker.url,
        change=change,
        is_leader=change != MemberChange.LEFT and worker.member_id == rebalance.leader_member_id,
        session_timeout_ms=metadata.session_timeout if metadata else None,
        rebalance_timeout_ms=metadata.rebalance_timeout if metadata and metadata.rebalance_timeout >= 0 else None,
        owned_before=None if held is None else names(held),
        assigned=None if running is None else names(running),
        revoked=names((held or frozenset()) - (running or frozenset())) if is_known else None,
        added=names((running or frozenset()) - (held or frozenset())) if is_known else None,
        evidence=rebalance.evidence[:1],
    )
