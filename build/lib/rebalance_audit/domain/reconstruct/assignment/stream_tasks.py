"""Tasks of Kafka Streams over the classic protocol: the user data names them beside the partitions they read.

Active tasks are what stops and moves; standby and warm-up copies follow behind and stand nobody still.
Source: StreamsPartitionAssignor.java; docs/kafka_writes.md#streams-over-the-classic-protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, MovementKind, ResourceType
from rebalance_audit.domain.model import Member, Movement, Rebalance, Trigger, changed
from rebalance_audit.domain.protocols import consumer_protocol, streams_protocol
from rebalance_audit.domain.reconstruct.evidence.commits import Resource
from rebalance_audit.domain.records import MemberMetadata
from rebalance_audit.domain.wire import DecodeError

STREAMS_ASSIGNOR = "stream"
PROBE_EARLY_MS = 1_000
"""A member probes at its first poll after the time it was given; clocks of two hosts differ."""


def tasks_of(member: MemberMetadata) -> dict[Resource, str]:
    """The active task that reads each partition of the member; empty where the bytes do not say."""
    info = _assignment_info(member)
    if info is None:
        return {}
    # The leader sorts its partitions before it lists their tasks.
    partitions = sorted(consumer_protocol.decode_assignment(member.assignment).partitions)
    if len(partitions) != len(info.active_tasks):
        return {}
    return {p: _task_name(task) for p, task in zip(partitions, info.active_tasks, strict=True)}


def standby_tasks_of(member: MemberMetadata) -> tuple[str, ...] | None:
    """The copies the member keeps beside its active tasks, those that only catch up among them; None if not known."""
    info = _assignment_info(member)
    return None if info is None else tuple(sorted(_task_name(each.task) for each in info.standby_tasks))


def planned_rejoin(before: Iterable[MemberMetadata], joined_at_ms: int | None) -> list[Trigger]:
    """The plan in the assignments of the generation before: a follow-up at once, or a probing rebalance."""
    plans = [(m, info.next_rebalance_at_ms) for m in before if (info := _assignment_info(m)) is not None]
    at_once = tuple(sorted(m.member_id for m, at_ms in plans if at_ms == 0))
    if at_once:
        return [
            Trigger(
                trigger=Cause.STREAMS_FOLLOW_UP,
                tier=EvidenceTier.INFERRED,
                members=at_once,
                detail="the assignment before asked it to join again at once",
            )
        ]
    due = [
        (m, at)
        for m, at in plans
        if at is not None and joined_at_ms is not None and at <= joined_at_ms + PROBE_EARLY_MS
    ]
    if due:
        return [
            Trigger(
                trigger=Cause.STREAMS_PROBING,
                tier=EvidenceTier.INFERRED,
                members=tuple(sorted(m.member_id for m, _ in due)),
                detail="the assignment before asked it to probe at that time",
            )
        ]
    return []


def as_tasks(rebalance: Rebalance, task_of: Mapping[Resource, str], given: Iterable[MemberMetadata]) -> Rebalance:
    """The rebalance with tasks in place of the partitions they read; what has no task stays a partition. `given`: the
    members as the record has them."""
    standby_of = {m.member_id: standby_tasks_of(m) for m in given}
    name_of = {f"{topic}-{partition}": task for (topic, partition), task in task_of.items()}
    movements: dict[str, Movement] = {}
    for movement in rebalance.movements:
        task = name_of.get(movement.resource)
        if task is None:
            movements[movement.resource] = movement
        elif task in movements:
            first = movements[task]
            movements[task] = changed(first, evidence=tuple(dict.fromkeys(first.evidence + movement.evidence)))
        else:
            movements[task] = changed(
                movement, resource_type=ResourceType.STREAM_TASK, resource=task, topic=None, partition=None
            )
    held = {r for m in rebalance.members if m.change != MemberChange.LEFT for r in _named(m.assigned, name_of) or ()}
    moved = {m.resource for m in movements.values() if m.kind != MovementKind.REVOKED}
    return changed(
        rebalance,
        movements=tuple(movements[name] for name in sorted(movements)),
        members=tuple(_of_tasks(m, name_of, standby_of.get(m.member_id)) for m in rebalance.members),
        resource_count=len(held) if rebalance.resource_count is not None else None,
        kept_count=len(held - moved) if rebalance.kept_count is not None else None,
        unassigned_count=sum(m.kind == MovementKind.REVOKED for m in movements.values())
        if rebalance.unassigned_count is not None
        else None,
    )


def _of_tasks(member: Member, name_of: Mapping[str, str], standby: tuple[str, ...] | None) -> Member:
    return changed(
        member,
        standby_tasks=standby,
        owned_before=_named(member.owned_before, name_of),
        assigned=_named(member.assigned, name_of),
        revoked=_named(member.revoked, name_of),
        added=_named(member.added, name_of),
    )


def _named(resources: tuple[str, ...] | None, name_of: Mapping[str, str]) -> tuple[str, ...] | None:
    return None if resources is None else tuple(sorted({name_of.get(r, r) for r in resources}))


def task_names(value: Any, kind: str) -> tuple[str, ...] | None:
    """`standby` or `warmup` copies of a streams member's current assignment, those to be given up among them; None for
    other groups."""
    if not hasattr(value, f"{kind}_tasks"):
        return None
    entries = (*getattr(value, f"{kind}_tasks"), *getattr(value, f"{kind}_tasks_pending_revocation"))
    return tuple(sorted({f"{e.subtopology_id}_{partition}" for e in entries for partition in e.partitions}))


def _assignment_info(member: MemberMetadata) -> streams_protocol.AssignmentInfo | None:
    if not member.assignment:
        return None
    try:
        user_data = consumer_protocol.decode_assignment(member.assignment).user_data
        return streams_protocol.decode_assignment_info(user_data) if user_data else None
    except DecodeError:
        return None


def _task_name(task: streams_protocol.TaskId) -> str:
    own = f"{task.subtopology}_{task.partition}"
    return f"{task.named_topology}__{own}" if task.named_topology else own
