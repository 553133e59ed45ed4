"""A plan, the JSON of kafka-reassign-partitions, against what happened: what became of each of its lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentHistory, Throttle

PLAN_STATUSES = (
    "done", "moving", "stalled", "replaced", "cancelled", "refused", "deleted", "never_asked", "unknown",
)  # fmt: skip
ASK_AGAIN = ("cancelled", "refused", "never_asked", "unknown")
"""Statuses of lines to ask for once more if the plan is still wanted. A line that was replaced is not among them:
somebody decided otherwise."""
_MOST_PARTITIONS = 1_000_000
_REMEDY = "give the file kafka-reassign-partitions was given."
_PROPOSED = "Proposed partition reassignment configuration"
_CURRENT = "Current partition replica assignment"


class PlanError(ValueError):
    """The text is not a plan; one sentence with the place and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReassignmentPlan:
    moves: tuple[PlannedMove, ...]
    is_rollback: bool = False
    """It is what --execute printed to go back to: the assignment from before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVerdict:
    """One line of a plan, and its outcome."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    status: str
    """One of PLAN_STATUSES."""
    reassignment: Reassignment | None = None
    detail: str = ""
    is_there: bool = True
    """False: the evidence names all partitions, and not this one."""


def read_plan(text: str) -> ReassignmentPlan:
    """A plan's file, or what --generate (the proposed one is taken) or --execute printed. Raises PlanError."""
    body, is_rollback = _json_in(text)
    try:
        plan = json.loads(body, object_pairs_hook=_once)
    except (ValueError, RecursionError) as error:
        raise PlanError(f"The plan is not JSON ({error}); {_REMEDY}") from error
    lines = plan.get("partitions") if isinstance(plan, dict) else None
    if not isinstance(lines, list) or not lines or len(lines) > _MOST_PARTITIONS:
        raise PlanError(f'The plan has no list "partitions" with entries; {_REMEDY}')
    if plan.get("version", 1) != 1:
        raise PlanError(f"The plan says version {json.dumps(plan['version'])[:20]}; Kafka knows only version 1.")
    moves: dict[tuple[str, int], PlannedMove] = {}
    for place, line in enumerate(lines, start=1):
        move = _move(line)
        if move is None:
            raise PlanError(f"Entry {place} has no topic, partition and list of different replicas; mend the plan.")
        if (move.topic, move.partition) in moves:
            raise PlanError(f"The plan names {move.topic}-{move.partition} twice, the second time in entry {place}.")
        moves[move.topic, move.partition] = move
    return ReassignmentPlan(moves=tuple(moves.values()), is_rollback=is_rollback)


def _json_in(text: str) -> tuple[str, bool]:
    """(the JSON, whether it is the way back) of a file or of what the tool printed."""
    for header, is_rollback in ((_PROPOSED, False), (_CURRENT, True)):
        _, found, behind = text.partition(header)
        if found:
            lines = (line.strip() for line in behind.splitlines())
            return next((line for line in lines if line.startswith("{")), ""), is_rollback
    return text, False


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A name given twice would hide half of what was asked for."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice in one object")
    return found


def _move(line: Any) -> PlannedMove | None:
    match line:
        case {"topic": str(topic), "partition": int(partition), "replicas": [*replicas]} if (
            topic and replicas and len(set(map(str, replicas))) == len(replicas)
            and all(_is_id(r) for r in replicas) and _is_id(partition)
        ):  # fmt: skip
            return PlannedMove(topic=topic, partition=partition, replicas=tuple(replicas))
    return None


def _is_id(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def compare(plan: Sequence[PlannedMove], history: ReassignmentHistory) -> list[PlanVerdict]:
    """One verdict per line of the plan, in its order. The latest attempt for the line's target counts."""
    by_partition: dict[tuple[str, int], list[Reassignment]] = {}
    for r in history.reassignments:
        by_partition.setdefault((r.topic, r.partition), []).append(r)
    topics = {topic for topic, _ in (*history.replicas, *by_partition)} | set(history.topic_names.values())
    return [_verdict(move, by_partition.get((move.topic, move.partition), []), history, topics) for move in plan]


def throttle_removable_since_ms(verdicts: Sequence[PlanVerdict]) -> int | None:
    """The instant since which a throttle set for this plan serves nothing, epoch ms; None while any line of it, or what
    replaced it, moves, or nothing of it ended."""
    linked = [verdict.reassignment for verdict in verdicts if verdict.reassignment is not None]
    if any(r.outcome == "open" for r in linked):
        return None
    return max((r.ended_at_ms for r in linked if r.ended_at_ms is not None), default=None)


def plan_throttles(plan: Sequence[PlannedMove], history: ReassignmentHistory) -> tuple[Throttle, ...]:
    """Replication throttles, set now, of the plan's topics and of all brokers."""
    topics = {move.topic for move in plan}
    return tuple(
        t
        for t in history.throttles
        if t.removed_at_ms is None
        and "alter.log.dirs" not in t.name
        and (t.resource_type == "broker" or t.resource in topics)
    )


def _verdict(
    move: PlannedMove, attempts: Sequence[Reassignment], history: ReassignmentHistory, topics: set[str]
) -> PlanVerdict:
    now = history.replicas.get((move.topic, move.partition))

    def said(status: str, r: Reassignment | None = None, detail: str = "") -> PlanVerdict:
        return PlanVerdict(
            topic=move.topic,
            partition=move.partition,
            replicas=move.replicas,
            status=status,
            reassignment=r,
            detail=detail,
            is_there=now is not None or not history.names_all_partitions,
        )

    asked = [at for at, r in enumerate(attempts) if r.target_replicas == move.replicas and r.outcome != "refused"]
    if asked:
        last = attempts[asked[-1]]
        later = [r for r in attempts[asked[-1] + 1 :] if r.outcome != "refused"]
        match last.outcome:
            case "open":
                return said("stalled" if last.stalled_since_ms is not None else "moving", last)
            case "completed" if later:
                return said("replaced", later[-1], f"It was done, and then moved to {_ids(later[-1].target_replicas)}.")
            case "completed":
                return said("done", last)
            case "superseded" if later:
                return said("replaced", later[-1], f"The request for {_ids(later[-1].target_replicas)} took its place.")
            case "superseded":
                return said("replaced", last)
            case "cancelled" | "deleted" | "unknown" as outcome:
                return said(outcome, last)
    refused = [r for r in attempts if r.outcome == "refused"]
    if now == move.replicas:
        return said("done", None, "It stands so already, or was moved before the evidence begins.")
    if refused:
        return said("refused", refused[-1], refused[-1].detail or "")
    if attempts:
        return said("never_asked", attempts[-1], f"Another target was asked for: {_ids(attempts[-1].target_replicas)}.")
    if now is not None and len(now) > len(move.replicas) and now[: len(move.replicas)] == move.replicas:
        return said("moving", None, f"Its replicas are {_ids(now)}: the plan's, and those that are to leave.")
    if now is None:
        missing = "partition" if move.topic in topics else "topic"
        return said("never_asked", None, f"The evidence names no such {missing}.")
    return said("never_asked", None, f"Its replicas are {_ids(now)}.")


def _ids(replicas: tuple[int, ...] | None) -> str:
    return "not known" if replicas is None else "[" + ",".join(str(r) for r in replicas) + "]"
