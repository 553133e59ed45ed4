"""A reassignment, and what became of a plan, in words an operator can act on."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from rebalance_audit.domain.detect.wording import clock, counted, duration, folded, shown, zones_not_known
from rebalance_audit.domain.reassign.advice import blocked, is_legal_topic, next_steps
from rebalance_audit.domain.reassign.model import Reassignment, ReassignmentHistory
from rebalance_audit.domain.reassign.plan import (
    ASK_AGAIN,
    PlanVerdict,
    ReassignmentPlan,
    plan_throttles,
    throttle_removable_since_ms,
)

PHASE_WORDS = {
    "accepted": "accepted, no new replica in sync yet",
    "catching_up": "copying",
    "leader_moved": "copied, the leader has moved",
    "removing": "copied, old replicas are leaving",
}
SHOWN_LINES = 20
"""Lines of a plan shown per status; a plan may have ten thousand."""
STATUS_WORDS = {
    "done": "done",
    "moving": "moving",
    "stalled": "stalled",
    "replaced": "replaced by another request",
    "cancelled": "cancelled",
    "refused": "refused",
    "deleted": "its topic was deleted",
    "never_asked": "never asked for",
    "unknown": "ended where evidence has a gap",
}


def summary(r: Reassignment, now_ms: int | None = None) -> str:
    """One sentence: what is being done, how far it came, what holds it up."""
    move = f"{shown(r.name)} {_ids(r.original_replicas)} → {_ids(r.target_replicas)}"
    since = "" if r.started_at_ms is None else f" since {clock(r.started_at_ms)}"
    match r.outcome:
        case "open" if r.stalled_since_ms is not None:
            lasted = "" if now_ms is None else f" for {duration(now_ms - r.stalled_since_ms)}"
            return f"{move} has been stalled{lasted}: {blocked(r)}."
        case "open":
            phase = PHASE_WORDS.get(r.phase or "", "running")
            return f"{move} is running{since}: {phase}, {_counted_in(r)}."
        case "completed":
            return f"{move} completed{_lasting(r)}{_stood(r)}."
        case "cancelled":
            kept = "the set of replicas is the old one, their order may not be"
            return f"{move} was cancelled{_lasting(r)}{_stood(r)}; {kept}."
        case "superseded":
            return f"{move} was replaced by another request{_lasting(r)}."
        case "deleted":
            return f"{move} ended with its topic, which was deleted."
        case "refused":
            return f"{shown(r.name)}: a request was refused at {clock(r.started_at_ms)}: {shown(r.detail or '', 200)}"
        case _:
            return f"{move} ended where evidence has a gap; when, and how, is not known."


def explain(r: Reassignment, now_ms: int | None = None) -> list[str]:
    """The reassignment as lines of text: the sentence, its ladder, what to do, where it stands written."""
    lines = [summary(r, now_ms)]
    for step in r.steps:
        leader = ("none" if step.is_leader_known else "not known") if step.leader is None else str(step.leader)
        in_sync = f"{{{','.join(str(b) for b in step.isr)}}}" if step.is_isr_known else "not known"
        at = clock(step.at_ms) if step.at_ms is not None else "before the evidence"
        lines.append(f"   {at}  {step.phase:<12} replicas {_ids(step.replicas)}  leader {leader}  in sync {in_sync}")
    for each in r.progress:
        began = "" if each.started_at_ms is None else f"began to fetch at {clock(each.started_at_ms)}, "
        joined = "not in sync" if each.in_isr_at_ms is None else f"in sync at {clock(each.in_isr_at_ms)}"
        lines.append(f"   new replica on broker {each.broker_id}: {began}{joined}")
    if r.detail and r.outcome != "refused":
        lines.append(f"   {shown(r.detail, 200)}")
    lines += [f"   do: {step}" for step in next_steps(r)]
    if r.evidence:
        lines.append(f"   evidence  {', '.join(r.evidence[:4])}")
    return lines


def unzoned(history: ReassignmentHistory) -> list[str]:
    """Nodes whose times may be off by hours: one line at most."""
    return [zones_not_known(history.unzoned_nodes)] if history.unzoned_nodes else []


def explain_plan(
    plan: ReassignmentPlan, verdicts: Sequence[PlanVerdict], history: ReassignmentHistory, file: str
) -> list[str]:
    """The plan as lines of text: counts, each line that is not done, and what an operator would type now."""
    counts: dict[str, list[str]] = {}
    for verdict in verdicts:
        counts.setdefault(verdict.status, []).append(f"{verdict.topic}-{verdict.partition}")
    lines = [f"{len(names)} {STATUS_WORDS[status]}: {folded(names)}" for status, names in counts.items()]
    if plan.is_rollback:
        lines.append("This is the way back that --execute printed: what is done stands as it was before that plan.")
    seen: dict[str, int] = {}
    for verdict in verdicts:
        seen[verdict.status] = seen.get(verdict.status, 0) + 1
        if verdict.status != "done" and seen[verdict.status] <= SHOWN_LINES:
            lines += _line(verdict, history)
    lines += [
        f"and {counted(count - SHOWN_LINES, 'partition')} more {STATUS_WORDS[status]}; -o jsonl shows each"
        for status, count in seen.items()
        if status != "done" and count > SHOWN_LINES
    ]
    lines += [f"do: {step}" for step in plan_steps(plan, verdicts, history, file)]
    return lines


def _line(verdict: PlanVerdict, history: ReassignmentHistory) -> list[str]:
    r = verdict.reassignment
    if r is not None and verdict.status in ("moving", "stalled", "cancelled", "unknown"):
        return [summary(r, history.seen_until_ms), *(f"   do: {step}" for step in next_steps(r))]
    detail = f" {shown(verdict.detail, 200)}" if verdict.detail else ""
    name = shown(f"{verdict.topic}-{verdict.partition}")
    return [f"{name} → {_ids(verdict.replicas)}: {STATUS_WORDS[verdict.status]}.{detail}"]


def plan_steps(
    plan: ReassignmentPlan, verdicts: Sequence[PlanVerdict], history: ReassignmentHistory, file: str
) -> Iterator[str]:
    """Steps for the plan as a whole: what to ask for once more, and its throttle."""
    rest = remaining(verdicts)
    if again := len(rest["partitions"]):
        ask = f"Ask for {counted(again, 'partition')} again, if the plan still holds: "
        if again <= SHOWN_LINES:
            yield f"{ask}echo '{json.dumps(rest)}' > remaining.json; {_tool('remaining.json', '--execute')}"
        else:
            yield f"{ask}save `remaining` of -o json as remaining.json; {_tool('remaining.json', '--execute')}"
    throttles = plan_throttles(plan.moves, history)
    if not throttles:
        return
    since_ms = throttle_removable_since_ms(verdicts)
    if since_ms is not None:
        set_at = max((t.set_at_ms for t in throttles if t.set_at_ms is not None), default=since_ms)
        others = sum(1 for r in history.reassignments if r.outcome == "open")
        when = f", when {counted(others, 'other reassignment')} have ended" if others else ""
        yield (
            f"Remove the throttle, which has served this plan nothing since {clock(max(since_ms, set_at))}{when}: "
            f"{_tool(shlex.quote(file), '--verify')}"
        )


def remaining(verdicts: Sequence[PlanVerdict]) -> dict[str, Any]:
    """The part still to be asked for, as a plan that kafka-reassign-partitions takes. Names no topic can have are left
    out: this ends in a shell."""
    again = [v for v in verdicts if v.status in ASK_AGAIN and v.is_there and is_legal_topic(v.topic)]
    lines = [{"topic": v.topic, "partition": v.partition, "replicas": list(v.replicas)} for v in again]
    return {"version": 1, "partitions": lines}


def _tool(file: str, action: str) -> str:
    return f"kafka-reassign-partitions --bootstrap-server HOST:PORT --reassignment-json-file {file} {action}"


def _counted_in(r: Reassignment) -> str:
    joined = sum(1 for each in r.progress if each.in_isr_at_ms is not None)
    return f"{joined} of {len(r.progress)} new replicas in sync"


def _lasting(r: Reassignment) -> str:
    if r.ended_at_ms is None:
        return ""
    if r.started_at_ms is None or r.started_at_ms == r.ended_at_ms:
        return f" at {clock(r.ended_at_ms)}"
    return f" at {clock(r.ended_at_ms)} after {duration(r.ended_at_ms - r.started_at_ms)}"


def _stood(r: Reassignment) -> str:
    if r.blocked_by is None or r.longest_standstill_ms is None:
        return ""
    return f"; for {duration(r.longest_standstill_ms)} it was stalled because {blocked(r)}"


def _ids(replicas: tuple[int, ...] | None) -> str:
    return "[?]" if replicas is None else "[" + ",".join(str(b) for b in replicas) + "]"
