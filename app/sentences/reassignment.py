"""Is it moving? What stands in the way, and what one would type."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import tzinfo

import pandas as pd

from app import words
from app.answers.coincidence import WITHIN_MS, Coincidence
from app.answers.rows import Reassignment, Span
from app.words import Html, fill
from rebalance_audit.domain.reassign.advice import blocked, next_steps, plan_json

_COMMAND = re.compile(r"(?:echo '|kafka-reassign-partitions --).*$")
MOST_IN_ONE_COMMAND = 500
"""Partitions whose JSON is shown in one command; a plan's file is the better way beyond."""


def reassignments(
    found: pd.DataFrame, worst: Reassignment | None, span: Span, stood: Reassignment | None = None
) -> Html:
    """Whether anything is moving, what is stalled, and what became of the others.

    `worst`: the first that is stalled; `stood`: of those that ended, the one that had been stalled the longest.
    """
    running = found[found["outcome"] == "open"]
    still = int(running["stalled_since_ms"].notna().sum())
    parts = []
    if not len(running):
        parts.append(Html("<b>Nothing is moving.</b>"))
    elif not still:
        parts.append(
            fill(
                "<b>Yes: {n} moving</b>; {joined} of {new} are in sync.",
                n=words.count(len(running), "partition is", "partitions are"),
                joined=f"{int(running['in_sync_count'].sum()):,}",
                new=words.count(int(running["new_count"].sum()), "new replica"),
            )
        )
    else:
        what = (
            words.count(len(running), "partition that moves", "partitions that move")
            if len(running) > still
            else "all that move"
        )
        parts.append(
            fill(
                "<b>No: {n} of {what} {verb} stalled</b>.",
                n=f"{still:,}",
                what=what,
                verb="is" if still == 1 else "are",
            )
            if len(running) > 1
            else Html("<b>No: the one partition that moves is stalled</b>.")
        )
        if worst is not None:
            parts.append(_standing(worst, span.to_ms, is_worst=still > 1))
    ended = found[found["outcome"] != "open"]
    if len(ended):
        counts = ended["outcome"].value_counts()
        counted = [f"{n:,} {words.REASSIGNMENT_WORDS[o]}" for o, n in counts.items()]
        parts.append(
            fill(
                "In {t}, {n}: {counted}.",
                t=words.duration(span.length_ms),
                n=words.count(len(ended), "other ended", "others ended")
                if len(running)
                else words.count(len(ended), "reassignment ended", "reassignments ended"),
                counted=", ".join(counted),
            )
        )
    if stood is not None and stood.longest_standstill_ms is not None:
        parts.append(
            fill(
                "{name} had been stalled {longest}{t}: {why}.",
                name=words.code(stood.name, 60),
                longest="the longest, " if len(ended) > 1 else "for ",
                t=words.duration(stood.longest_standstill_ms),
                why=blocked(stood),
            )
        )
    return words.join(parts, " ")


def _standing(r: Reassignment, now_ms: int, is_worst: bool) -> Html:
    since = r.stalled_since_ms if r.stalled_since_ms is not None else now_ms
    return fill(
        "{lead}{name} has made no progress for {t}: {why}.",
        lead="The longest: " if is_worst else "",
        name=words.code(r.name, 60),
        t=words.duration(now_ms - since),
        why=blocked(r),
    )


def reassignment(r: Reassignment, now_ms: int) -> Html:
    """One partition's attempt: from where to where, how far, what holds or held it up."""
    is_back = r.original_replicas is not None and r.original_replicas == r.target_replicas
    verb = {"open": "goes", "completed": "went"}.get(r.outcome, "was to go")
    move = fill(
        "{name} {verb} back to {b}" if is_back else "{name} {verb} from {a} to {b}",
        verb=verb,
        name=words.code(r.name, 80),
        a=words.replicas(r.original_replicas),
        b=words.replicas(r.target_replicas),
    )
    if r.outcome == "open":
        first = Html("<b>No: it is stalled.</b>") if r.stalled_since_ms is not None else Html("<b>Yes.</b>")
        parts = [first, fill("{move}: {progress}.", move=move, progress=progress(r))]
        if r.stalled_since_ms is not None:
            parts.append(
                fill("No progress for {t}: {why}.", t=words.duration(now_ms - r.stalled_since_ms), why=blocked(r))
            )
        elif r.started_at_ms is not None:
            parts.append(fill("It runs for {t}; nothing needs doing.", t=words.duration(now_ms - r.started_at_ms)))
        return words.join(parts, " ")
    if r.outcome == "refused":
        why = words.visible(r.detail).rstrip(".") if r.detail else "why is not known"
        return fill("<b>A request for {name} was refused</b>: {why}.", name=words.code(r.name, 80), why=why)
    took = (
        fill(" after {t}", t=words.duration(r.ended_at_ms - r.started_at_ms))
        if r.ended_at_ms is not None and r.started_at_ms is not None
        else Html("")
    )
    parts = [fill("<b>It {how}</b>{took}: {move}.", how=_ENDINGS[r.outcome], took=took, move=move)]
    if r.blocked_by is not None and r.longest_standstill_ms is not None:
        stood = words.duration(r.longest_standstill_ms)
        parts.append(fill("For {t} of it there was no progress: {why}.", t=stood, why=blocked(r)))
    if r.outcome == "cancelled":
        parts.append(Html("The set of replicas is the old one; their order, and so the preferred leader, may not be."))
    if r.detail:
        parts.append(fill("{d}.", d=words.visible(r.detail).rstrip(".")))
    return words.join(parts, " ")


_ENDINGS = {
    "completed": "completed",
    "cancelled": "was cancelled",
    "superseded": "was replaced by another request",
    "deleted": "ended with its topic, which was deleted",
    "unknown": "ended where evidence has a gap",
}


def progress(r: Reassignment) -> str:
    if not r.progress:
        return "it adds no replica"
    joined = sum(p.in_isr_at_ms is not None for p in r.progress)
    return f"{joined} of {words.count(len(r.progress), 'new replica')} in sync"


@dataclass(frozen=True, slots=True, kw_only=True)
class Advice:
    """The commands against all standstills of one reason, as an operator would type them."""

    reassignments: tuple[Reassignment, ...]
    why: str
    steps: tuple[tuple[str, str | None], ...]
    """The remedy, and the command for it where there is one."""


def advice(stalled: Sequence[Reassignment]) -> list[Advice]:
    """One per reason and brokers concerned, that of the most partitions first."""
    by_reason: dict[tuple[str | None, tuple[int, ...]], list[Reassignment]] = {}
    for r in stalled:
        by_reason.setdefault((r.blocked_by, r.blocked_replicas), []).append(r)
    found = []
    for together in sorted(by_reason.values(), key=lambda some: -len(some)):
        first, listed = together[0], together[:MOST_IN_ONE_COMMAND]
        steps = [s.replace(plan_json([first]), plan_json(listed)) for s in next_steps(first)]
        found.append(
            Advice(reassignments=tuple(together), why=blocked(first), steps=tuple(command_in(s) for s in steps))
        )
    return found


def command_in(step: str) -> tuple[str, str | None]:
    """A step as its words and the command in it."""
    found = _COMMAND.search(step)
    if found is None:
        return step, None
    return step[: found.start()].rstrip(": ") or "Then", found[0]


def coincidence(c: Coincidence, tz: tzinfo) -> Html:
    """A rebalance beside the change of a leader it fell together with: a cause only where its trigger says so."""
    group = words.code(c.group_id, 40)
    parts = [
        fill(
            "{at}: the leader of {partition} {moved}.",
            at=words.instant(c.changed_at_ms, tz),
            partition=words.code(c.partition, 60),
            moved=words.election(c.previous_leader, c.elected, c.cause),
        )
    ]
    if c.of_coordinator:
        parts.append(fill("It holds {g}: the group's coordinator moved with it.", g=group))
    order = "later" if c.gap_ms >= 0 else "earlier, by clocks that may disagree,"
    gap = words.duration(abs(c.gap_ms))
    link = (
        fill("<b>because of it</b>: its own cause says so.")
        if c.names_it
        else fill(
            "{because}; whether the change of the leader led to that is not known.", because=words.because(c.trigger)
        )
    )
    parts.append(fill("{gap} {order} {g} began to rebalance {link}", gap=gap, order=order, g=group, link=link))
    return words.join(parts, " ")


def coincidences(found: Sequence[Coincidence]) -> Html:
    """How many rebalances fell together with changes of leaders, and of how many that is known to be the cause."""
    of_coordinator = sum(c.of_coordinator for c in found)
    said = sum(c.names_it for c in found)
    parts = [
        fill(
            "<b>{n} began within {t} after a leader changed</b>",
            n=words.count(len(found), "rebalance"),
            t=words.duration(WITHIN_MS),
        )
    ]
    if of_coordinator:
        who = "it was" if of_coordinator == len(found) == 1 else f"in {of_coordinator:,} it was"
        parts.append(fill("{who} the coordinator that moved, with its partition of the offsets topic", who=who))
    if said:
        cause = "its own cause says" if said == 1 else f"{said:,} of their own causes say"
        parts.append(fill("{cause} that this was why", cause=cause))
    return fill("{all}.", all=words.join(parts, "; "))
