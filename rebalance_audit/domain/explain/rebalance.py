"""One rebalance in words: its cause and who, what went from whom to whom, and how long it stood still."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rebalance_audit.domain.causes import Cause, phrase_of
from rebalance_audit.domain.detect import client_advice
from rebalance_audit.domain.detect.history import label, worker_name
from rebalance_audit.domain.detect.wording import clock, counted, duration, folded, listed, shown
from rebalance_audit.domain.explain.hints import missing_evidence
from rebalance_audit.domain.kinds import MovementKind, Outcome, RebalanceKind
from rebalance_audit.domain.model import Member, Movement, Rebalance, Trigger
from rebalance_audit.domain.numbers import happened_at_ms, unit_of

_HAND_OVERS_SHOWN = 12
_REFS_SHOWN = 4

_SAYS_NOTHING = re.compile(
    r"\Aneed to re-join with the given member-id|\Ajoined with an unknown member id\Z|\Aleft the group\Z"
    r"| is (new in|gone from) the record\Z| is new\Z|\Anot provided\Z"
)
"""Details that every join or leave has."""

_OUTCOME_WORDS = {
    Outcome.SUPERSEDED: "never delivered: another followed before its assignment arrived",
    Outcome.FAILED: "failed: no generation came of it",
    Outcome.OPEN: "still running when the evidence ends",
    Outcome.EMPTIED: "it left the group empty",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseSentence:
    trigger: str
    text: str
    tier: str
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class HandOver:
    """Resources that went the same way."""

    kind: str
    resources: str
    """Folded: `orders-0 … orders-3`."""
    resource_names: tuple[str, ...]
    way: str
    """`c3 → c1`, `back to the same owner`."""
    pause: str
    """`stood still 12.31 s  (likely 11.90 to 12.72)`: the longest of them."""
    bounds: str
    """`[10.02 … 13.40]`, its hard bounds; empty if nothing bounds it."""
    pause_lower_ms: int | None
    pause_estimate_ms: int | None
    pause_upper_ms: int | None
    pause_likely_lower_ms: int | None
    pause_likely_upper_ms: int | None
    first_commit_after_ms: int | None
    """The wait of the resource that stood still longest: also bounded by how often its owner commits."""
    basis: str
    """The evidence of the numbers, in a word or two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RebalanceStory:
    rebalance_id: str
    at: str
    at_ms: int | None
    """When it took effect (`numbers.HAPPENED_AT`)."""
    number: str
    outcome: str
    mode: str
    cause: str
    who: str
    cost: str
    """`worst partition 12.31 s`."""
    causes: tuple[CauseSentence, ...]
    notes: tuple[str, ...]
    movements: tuple[HandOver, ...]
    pause_lower_ms: int | None
    pause_estimate_ms: int | None
    pause_upper_ms: int | None
    pause_likely_lower_ms: int | None
    pause_likely_upper_ms: int | None
    broker_window_ms: int | None
    evidence: tuple[str, ...]


def story_of(
    rebalance: Rebalance, before: Rebalance | None = None, *, skipped_until: Rebalance | None = None
) -> RebalanceStory:
    """`before`: the rebalance the group came from. `skipped_until`: what follows a run of numbers nothing shows."""
    r = rebalance
    is_missing = r.outcome == Outcome.MISSING
    noun = unit_of([r])
    gone_ids = {m for t in r.triggers for m in t.members}
    who = listed([label(m) for m in r.members if m.member_id in gone_ids])
    at_ms = happened_at_ms(r)
    cost = "" if r.pause_estimate_ms is None else f"worst {noun} {exact(max(r.pause_estimate_ms, 0))}"
    return RebalanceStory(
        rebalance_id=r.rebalance_id,
        at=_between(before, skipped_until) if at_ms is None else clock(at_ms),
        at_ms=at_ms,
        number=_numbers(r, before, skipped_until),
        outcome=r.outcome,
        mode=r.mode,
        cause="not seen" if is_missing else phrase_of(r.trigger),
        who=who,
        cost=cost,
        causes=() if is_missing else tuple(_cause(t, r) for t in r.triggers),
        notes=_notes(r, noun),
        movements=_hand_overs(r),
        pause_lower_ms=r.pause_lower_ms,
        pause_estimate_ms=r.pause_estimate_ms,
        pause_upper_ms=r.pause_upper_ms,
        pause_likely_lower_ms=r.pause_likely_lower_ms,
        pause_likely_upper_ms=r.pause_likely_upper_ms,
        broker_window_ms=r.broker_window_ms,
        evidence=tuple(shown(ref, 160) for ref in r.evidence[:_REFS_SHOWN]),
    )


def exact(ms: float) -> str:
    """`12.31 s`; from a minute on as people say it."""
    return f"{ms / 1000:.2f} s" if abs(ms) < 60_000 else duration(ms)


def exact_likely(lower_ms: float | None, upper_ms: float | None) -> str:
    """`(likely 11.90 to 12.72)`, empty where it is not known, or no wider than what is shown."""
    if lower_ms is None or upper_ms is None:
        return ""
    ends = max(lower_ms, 0), max(upper_ms, 0)
    lower, upper = (f"{v / 1000:.2f}" if ends[1] < 60_000 else duration(v) for v in ends)
    return "" if lower == upper else f"(likely {lower} to {upper})"


def exact_bounds(lower_ms: float | None, upper_ms: float | None) -> str:
    """`[10.02 … 13.40]`, empty if nothing bounds it. A lower bound below zero is `two_owners`' to say."""
    if lower_ms is None and upper_ms is None:
        return ""
    lower_ms = None if lower_ms is None else max(lower_ms, 0)
    upper_ms = None if upper_ms is None else max(upper_ms, 0)
    are_short = all(v is None or abs(v) < 60_000 for v in (lower_ms, upper_ms))

    def one(value: float) -> str:
        return f"{value / 1000:.2f}" if are_short else duration(value)

    lower = "not known" if lower_ms is None else one(lower_ms)
    upper = "no upper bound" if upper_ms is None else one(upper_ms)
    return f"[{lower} … {upper}]"


def two_owners(lower_ms: float | None) -> str:
    """`, or two owners for 1.10 s at most` where the new owner may have begun before the old one let go."""
    return f", or two owners for {exact(-lower_ms)} at most" if lower_ms is not None and lower_ms < 0 else ""


def _numbers(r: Rebalance, before: Rebalance | None, skipped_until: Rebalance | None) -> str:
    word, mine = ("epoch", r.group_epoch) if r.generation_id is None else ("generation", r.generation_id)
    if mine is None:
        return f"{word} not known"
    if r.kind == RebalanceKind.STATIC_REWRITE:
        return f"{word} {mine} written again"
    if r.outcome == Outcome.MISSING:
        follows = None if skipped_until is None else _number(skipped_until)
        return f"{word} {mine}" if follows is None or follows - 1 <= mine else f"{word}s {mine} … {follows - 1}"
    previous = None if before is None else _number(before)
    return f"{word} {mine}" if previous is None or previous >= mine else f"{word} {previous} → {mine}"


def _between(before: Rebalance | None, after: Rebalance | None) -> str:
    times = [
        clock(t)
        for r in (before, after)
        if r is not None and (t := r.assigned_at_ms if r.assigned_at_ms is not None else r.started_at_ms) is not None
    ]
    return f"between {times[0]} and {times[1]}" if len(times) == 2 else "time not known"


def _number(rebalance: Rebalance) -> int | None:
    return rebalance.generation_id if rebalance.generation_id is not None else rebalance.group_epoch


def _cause(trigger: Trigger, r: Rebalance) -> CauseSentence:
    here = {m.member_id: m for m in r.members}
    members = [here.get(i) or Member(member_id=i) for i in trigger.members]
    return CauseSentence(
        trigger=trigger.trigger, text=_sentence(trigger, members, r), tier=trigger.tier, evidence=trigger.evidence
    )


def _sentence(trigger: Trigger, members: Sequence[Member], r: Rebalance) -> str:
    who = listed([label(m) for m in members], most=4)
    detail = shown(trigger.detail, 120) if trigger.detail and not _SAYS_NOTHING.search(trigger.detail) else ""
    if not who:
        words = phrase_of(trigger.trigger)
        return f"{words} ({detail})" if detail and detail not in words else words
    session = _longest([m.session_timeout_ms for m in members])
    interval = _longest([m.rebalance_timeout_ms for m in members])
    match trigger.trigger:
        case Cause.MEMBER_SESSION_EXPIRED:
            return f"{who} sent no heartbeat for its session timeout{session}"
        case Cause.STATIC_MEMBER_EXPIRED:
            return f"{who}, static, did not come back within its session timeout{session}"
        case Cause.MEMBER_POLL_TIMEOUT if r.protocol_type != "connect":
            name = client_advice.poll_interval(client_advice.families(members))
            return f"{who} took longer between two polls than its {name}{interval}"
        case Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT:
            return f"{who} did not re-join before the rebalance timeout{interval}"
        case Cause.MEMBER_SYNC_TIMEOUT:
            return f"{who} did not fetch its assignment before the rebalance timeout{interval}"
        case Cause.MEMBER_JOINED | Cause.CONNECT_WORKER_JOINED:
            return f"{who} joined" + (f" ({detail})" if detail else "")
        case Cause.MEMBER_LEFT | Cause.CONNECT_WORKER_LEFT:
            return f"{who} left" + (f" ({detail})" if detail else "")
        case Cause.SUBSCRIPTION_CHANGED:
            return f"{who} changed its subscription" + (f" ({detail})" if detail else "")
        case Cause.MEMBER_REMOVED_BY_ADMIN:
            return f"{who} was removed by an administrator"
        case Cause.STATIC_MEMBER_REPLACED:
            return f"{who} came back under its group.instance.id"
        case other:
            return f"{phrase_of(other)}: {who}" + (f" ({detail})" if detail else "")


def _longest(timeouts_ms: Sequence[int | None]) -> str:
    known = [t for t in timeouts_ms if t is not None]
    return f" of {duration(max(known))}" if known else ""


def _notes(r: Rebalance, noun: str) -> tuple[str, ...]:
    notes: list[str] = []
    plural = "connectors and tasks" if r.protocol_type == "connect" else None
    if r.outcome in _OUTCOME_WORDS:
        notes.append(_OUTCOME_WORDS[r.outcome])
    if r.expected and r.expected_reason:
        notes.append(f"expected: {shown(r.expected_reason, 120)}")
    if r.kept_count:
        notes.append(f"{counted(r.kept_count, noun, plural)} stayed and did not stop")
    if r.connect_error:
        notes.append(
            f"the assignment failed (error {r.connect_error}): nobody was given anything, and all joined again"
        )
    if r.eager_seconds_lower and r.resource_seconds_estimate is not None:
        eager_s, own_s = r.eager_seconds_lower, r.resource_seconds_estimate
        notes.append(f"{own_s:,.1f} task-seconds; the same under connect.protocol=eager: at least {eager_s:,.1f}")
    if r.connect_delay_ms:
        notes.append(f"Connect waits up to {duration(r.connect_delay_ms)} before it hands out what has no worker")
    if r.unassigned_count:
        notes.append(f"{counted(r.unassigned_count, noun, plural)} without an owner after it")
    if not r.is_complete_evidence and r.outcome != Outcome.MISSING:
        notes.append(f"not seen: {listed(missing_evidence(r))}")
    return tuple(notes)


def _hand_overs(r: Rebalance) -> tuple[HandOver, ...]:
    names = _MemberNames(r)
    groups: dict[tuple[str, str], list[Movement]] = {}
    for movement in r.movements:
        groups.setdefault((movement.kind, _way(movement, names)), []).append(movement)
    ordered = sorted(groups.items(), key=lambda g: (-max(m.pause_estimate_ms or -1 for m in g[1]), g[0]))
    sentences = [_hand_over(kind, way, movements) for (kind, way), movements in ordered[:_HAND_OVERS_SHOWN]]
    rest = [m for _, movements in ordered[_HAND_OVERS_SHOWN:] for m in movements]
    if rest:
        sentences.append(_hand_over("others", "in other hand-overs", rest))
    return tuple(sentences)


def _way(movement: Movement, names: _MemberNames) -> str:
    giver = names.of(movement.from_member_id, movement.from_client_id, movement.from_worker_url)
    taker = names.of(movement.to_member_id, movement.to_client_id, movement.to_worker_url)
    match movement.kind:
        case MovementKind.MOVED:
            return f"{giver} → {taker}"
        case MovementKind.RETURNED:
            return "back to the same owner"
        case MovementKind.ASSIGNED:
            return f"new to {taker}"
        case MovementKind.REVOKED:
            return f"taken from {giver}"
        case _:
            return f"restarted at {taker}"


def _hand_over(kind: str, way: str, movements: Sequence[Movement]) -> HandOver:
    worst = max(movements, key=lambda m: -1 if m.pause_estimate_ms is None else m.pause_estimate_ms)
    return HandOver(
        kind=kind,
        resources=folded((m.resource for m in movements), most=3),
        resource_names=tuple(m.resource for m in movements),
        way=way,
        pause=_pause(kind, worst, movements),
        bounds=_bounds(worst),
        pause_lower_ms=worst.pause_lower_ms,
        pause_estimate_ms=worst.pause_estimate_ms,
        pause_upper_ms=worst.pause_upper_ms,
        pause_likely_lower_ms=worst.pause_likely_lower_ms,
        pause_likely_upper_ms=worst.pause_likely_upper_ms,
        first_commit_after_ms=worst.first_commit_after_ms,
        basis="" if worst.pause_estimate_ms is None else worst.pause_tier or "",
    )


def _pause(kind: str, worst: Movement, movements: Sequence[Movement]) -> str:
    if kind == MovementKind.ASSIGNED:
        return "first assignment"
    if worst.pause_estimate_ms is None:
        return "no owner after that" if kind == MovementKind.REVOKED else "pause not known"
    overlaps = [m.overlap_ms for m in movements if m.overlap_ms]
    if worst.pause_estimate_ms < 0 and not overlaps:
        overlaps = [-worst.pause_estimate_ms]
    if overlaps and worst.pause_estimate_ms <= 0:
        likely_upper_ms = worst.pause_likely_upper_ms or 0
        if likely_upper_ms > 0:
            return f"two owners at once for up to {exact(max(overlaps))}, or nobody for up to {exact(likely_upper_ms)}"
        return f"two owners at once for {exact(max(overlaps))}"
    least = min(m.pause_estimate_ms for m in movements if m.pause_estimate_ms is not None)
    up_to = "up to " if worst.pause_estimate_ms > 1.25 * max(least, 1) and worst.pause_estimate_ms - least > 50 else ""
    text = f"stood still {up_to}{exact(worst.pause_estimate_ms)}"
    likely = exact_likely(worst.pause_likely_lower_ms, worst.pause_likely_upper_ms)
    return (f"{text}  {likely}" if likely else text) + two_owners(worst.pause_lower_ms)


def _bounds(worst: Movement) -> str:
    if worst.pause_estimate_ms is None:
        return ""
    return exact_bounds(worst.pause_lower_ms, worst.pause_upper_ms)


class _MemberNames:
    """Short names of members: the client id, with the host where one client id is used twice."""

    def __init__(self, r: Rebalance) -> None:
        self._members = {m.member_id: m for m in r.members}
        self._uses = Counter(m.client_id for m in r.members)

    def of(self, member_id: str | None, client_id: str | None, worker_url: str | None) -> str:
        member = self._members.get(member_id or "")
        worker = worker_url or (member.worker_url if member else None)
        if worker:
            return worker_name(worker)
        name = client_id or (member.client_id if member else None) or member_id
        if not name:
            return "not known"
        if member is not None and self._uses[member.client_id] > 1:
            return f"{shown(name, 30)}@{shown((member.client_host or member.member_id[-6:]).lstrip('/'), 30)}"
        return shown(name, 40)
