"""A plan, the JSON of kafka-reassign-partitions, against what happened: what became of each of its lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentHistory

_MOST_PARTITIONS = 1_000_000


class PlanError(ValueError):
    """The text is not a plan; one sentence with the place and the remedy."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedMove:
    topic: str
    partition: int
    replicas: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanVerdict:
    """What became of one line of a plan."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    status: str
    """done, moving, stalled, replaced, cancelled, refused, deleted, never_asked, unknown."""
    reassignment: Reassignment | None = None
    detail: str = ""


def read_plan(text: str) -> tuple[PlannedMove, ...]:
    """Raises PlanError."""
    try:
        plan = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PlanError(
            f"The plan is not JSON ({error}); give the file kafka-reassign-partitions was given."
        ) from error
    lines = plan.get("partitions") if isinstance(plan, dict) else None
    if not isinstance(lines, list) or len(lines) > _MOST_PARTITIONS:
        raise PlanError('The plan has no list "partitions"; give the file kafka-reassign-partitions was given.')
    moves: dict[tuple[str, int], PlannedMove] = {}
    for place, line in enumerate(lines, start=1):
        match line:
            case {"topic": str(topic), "partition": int(partition), "replicas": [*replicas]} if (
                replicas and len(set(map(str, replicas))) == len(replicas)
                and all(isinstance(r, int) and not isinstance(r, bool) and r >= 0 for r in replicas)
                and not isinstance(partition, bool) and partition >= 0
            ):  # fmt: skip
                if (topic, partition) in moves:
                    raise PlanError(f"The plan names {topic}-{partition} twice, the second time in entry {place}.")
                moves[topic, partition] = PlannedMove(topic=topic, partition=partition, replicas=tuple(replicas))
            case _:
                raise PlanError(
                    f"Entry {place} of the plan has no topic, partition and list of different replicas; mend it."
                )
    return tuple(moves.values())


def compare(plan: Sequence[PlannedMove], history: ReassignmentHistory) -> list[PlanVerdict]:
    """One verdict per line of the plan, in its order. The latest attempt for the line's target counts."""
    by_partition: dict[tuple[str, int], list[Reassignment]] = {}
    for r in history.reassignments:
        by_partition.setdefault((r.topic, r.partition), []).append(r)
    return [_verdict(move, by_partition.get((move.topic, move.partition), []), history) for move in plan]


def throttle_removable_since_ms(plan: Sequence[PlannedMove], history: ReassignmentHistory) -> int | None:
    """Since when a throttle set for this plan serves nothing; None while any of it moves, or nothing of it ended."""
    ends: list[int] = []
    for verdict in compare(plan, history):
        if verdict.status in ("moving", "stalled"):
            return None
        if verdict.reassignment is not None and verdict.reassignment.ended_at_ms is not None:
            ends.append(verdict.reassignment.ended_at_ms)
    return max(ends, default=None)


def _verdict(move: PlannedMove, attempts: Sequence[Reassignment], history: ReassignmentHistory) -> PlanVerdict:
    def said(status: str, r: Reassignment | None = None, detail: str = "") -> PlanVerdict:
        return PlanVerdict(
            topic=move.topic,
            partition=move.partition,
            replicas=move.replicas,
            status=status,
            reassignment=r,
            detail=detail,
        )

    now = history.replicas.get((move.topic, move.partition))
    asked = [r for r in attempts if r.target_replicas == move.replicas and r.outcome != "refused"]
    if asked:
        last = asked[-1]
        later = [r for r in attempts[attempts.index(last) + 1 :] if r.outcome != "refused"]
        match last.outcome:
            case "open":
                return said("stalled" if last.stalled_since_ms is not None else "moving", last)
            case "completed" if later:
                return said("replaced", later[-1], f"It was done, and then moved to {_ids(later[-1].target_replicas)}.")
            case "completed":
                return said("done", last)
            case "superseded":
                return said("replaced", later[-1] if later else last)
            case "cancelled" | "deleted" | "unknown" as outcome:
                return said(outcome, last)
    refused = [r for r in attempts if r.outcome == "refused"]
    if now == move.replicas:
        return said("done", None, "It stands so already, or was moved before the evidence begins.")
    if refused:
        return said("refused", refused[-1], refused[-1].detail or "")
    if attempts:
        return said("never_asked", attempts[-1], f"Another target was asked for: {_ids(attempts[-1].target_replicas)}.")
    if now is None and history.replicas:
        return said("never_asked", None, "There is no such partition.")
    return said("never_asked", None, "" if now is None else f"Its replicas are {_ids(now)}.")


def _ids(replicas: tuple[int, ...] | None) -> str:
    return "not known" if replicas is None else "[" + ",".join(str(r) for r in replicas) + "]"
