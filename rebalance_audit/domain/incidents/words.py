"""The words of an incident but its title: its story in three sentences, its chain. Names are made safe to show here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rebalance_audit.domain.causes import SESSION_EXPIRED, cause_of, phrase_of
from rebalance_audit.domain.detect.failures import failures
from rebalance_audit.domain.detect.finding import capped
from rebalance_audit.domain.detect.history import HistoryStep, identity
from rebalance_audit.domain.detect.modes import number
from rebalance_audit.domain.detect.wording import (
    clock,
    counted,
    duration,
    likely,
    likely_seconds,
    listed,
    seconds_of,
    shown,
    things,
    two_owners,
)
from rebalance_audit.domain.incidents.episodes import Episode
from rebalance_audit.domain.incidents.storm_before import Link
from rebalance_audit.domain.incidents.titles import brokers_that_stood_still, name_of, where_of
from rebalance_audit.domain.incidents.troubles import Trouble
from rebalance_audit.domain.numbers import CostBounds, is_counted, unit_of
from rebalance_audit.domain.reassign.advice import blocked
from rebalance_audit.domain.reassign.model import Reassignment

CHAIN_CAP = 40
COST_NOT_KNOWN = "; what it cost is not known"
"""Of a story, without the full stop after it."""

STILL_WORDS = {
    "down": "still down",
    "waiting": "tasks still wait",
    "rebalancing": "still rebalancing",
    "moving": "replicas still move",
    "empty": "group empty",
}
"""What of an open incident has not ended, in words. All of it may have; then it stays open in case more follows."""


IS_NOW_MS = 900_000
"""Evidence that ends longer ago than this shows nothing about now: a collector that works is minutes behind at most."""


def is_old(ended_ms: int, now_ms: int) -> bool:
    """Whether evidence that ended then shows nothing about `now_ms`: the present, or where the newest evidence ends."""
    return now_ms - ended_ms >= IS_NOW_MS


def still_words(still: str | None, since: str, unknown_since: str | None = None) -> str:
    """What of an open incident has not ended: `tasks still wait`. Of one that has all ended, when its last event was:
    `since`, a time in words. `unknown_since`: when its evidence ended, in words, if that `is_old`: whether it is over
    by now is not known. Empty where nothing is known."""
    at_the_end = STILL_WORDS.get(still or "")
    if unknown_since is not None:
        return (
            f"{at_the_end} at {unknown_since}, not known since"
            if at_the_end
            else f"state not known since {unknown_since}"
        )
    return at_the_end or (f"no event since {since}" if still == "nothing" else "")


def stands(status: str, still: str | None, since: str, unknown_since: str | None = None) -> str:
    """Whether an incident is open and, if so, what of it has not ended: `open, tasks still wait`."""
    said = still_words(still, since, unknown_since) if status == "open" else ""
    return f"{status}, {said}" if said else status


def unit_of_trouble(trouble: Trouble) -> str:
    return unit_of(e.root.rebalance for e in trouble.episodes)


def story(
    head: str,
    change: str,
    trouble: Trouble,
    cost: CostBounds,
    stands: str,
    last_ms: int,
    *,
    expected: bool,
) -> str:
    """Three sentences: the happening, its effect, its state. `head` is the incident's title, `change` that of its
    trouble; `stands` is `going on`, `quiet` or `over`."""
    return " ".join((
        _what_happened(head, change, trouble),
        _what_it_did(trouble, cost),
        _how_it_stands(stands, last_ms, expected=expected),
    ))  # fmt: skip


def _what_happened(head: str, change: str, trouble: Trouble) -> str:
    """A change on purpose that went wrong has its symptom for a title, and is named after it."""
    if trouble.kind == "reassignment":
        return f"{head}."
    causes: Counter[str] = Counter(trouble.before.triggers if trouble.before is not None else None)
    causes.update(s.rebalance.trigger for _, s in trouble.steps)
    is_told = len(causes) > 1 or (trouble.kind == "storm" and phrase_of(causes.most_common(1)[0][0]) not in head)
    why = f"; its rebalances began {_why(causes)}" if is_told else ""
    if change == head:
        return f"{head}{why}."
    if trouble.kind == "scaling":  # who joined a group first, or left it, is no more than how it began
        return f"{head}{why}. It began as {change.removeprefix(where_of(trouble)).partition(': ')[2]}."
    return f"{head}{why}. It followed a change: {change}."


def _why(causes: Counter[str]) -> str:
    """`because a worker joined (2 times) and as the second round of a Connect hand-over`."""
    said: dict[bool, list[str]] = {False: [], True: []}
    for cause, n in causes.most_common():
        times = f" ({n} times)" if 1 < n < causes.total() else ""
        said[cause_of(cause).facts.is_round].append(phrase_of(cause) + times)
    parts = ("because", said[False]), ("as", said[True])
    return " and ".join(f"{word} {listed(phrases, 5)}" for word, phrases in parts if phrases)


def _what_it_did(trouble: Trouble, cost: CostBounds) -> str:
    rebalances = [s.rebalance for _, s in trouble.steps]
    moved = sum((r.moved_count or 0) + (r.returned_count or 0) + (r.restarted_count or 0) for r in rebalances)
    before = trouble.before
    moved += before.moved_count if before is not None else 0
    rounds = sum(map(is_counted, rebalances)) + (before.counted_count if before is not None else 0)
    count = counted(rounds, "rebalance")
    groups = len({r.group_id for r in rebalances})
    where = f" of {groups:,} groups" if groups > 1 else ""
    if not rebalances:
        return "No rebalance of a group followed from it."
    if cost.estimate is None:
        return f"It took {count}{where}{COST_NOT_KNOWN}."
    pauses = [r.pause_estimate_ms for r in rebalances] + ([before.longest_pause_ms] if before is not None else [])
    longest = max((pause_ms for pause_ms in pauses if pause_ms is not None), default=None)
    until = f", the longest for {duration(longest)}" if longest is not None and longest > 0 else ""
    noun = unit_of_trouble(trouble)
    protocols = {r.protocol_type for r in rebalances} | set(before.protocol_types if before is not None else ())
    what = f"{things(moved, noun, protocols.pop() if len(protocols) == 1 else None)} moved or stopped{until}"
    return f"It took {count}{where}{cost_known(cost.estimate, cost.likely_lower, cost.likely_upper, noun)}: {what}."


def cost_known(estimate: float | None, likely_lower: float | None, likely_upper: float | None, noun: str) -> str:
    """What stands in a story in place of `COST_NOT_KNOWN`."""
    return f" and cost {likely_seconds(estimate, likely_lower, likely_upper)} {seconds_of(noun)}"


def _how_it_stands(stands: str, last_ms: int, *, expected: bool) -> str:
    match stands:
        case "going on":
            return "It was still going on when the evidence ended."
        case "quiet":
            return f"Nothing more happened after {clock(last_ms)}. The evidence ends too soon to call it over."
        case _:
            return f"It was over at {clock(last_ms)}" + (", and was normal work." if expected else ".")


def chain(trouble: Trouble, signs: Sequence[Link]) -> tuple[tuple[Link, ...], int]:
    """Sorted by time, and how many links there are. A long list keeps the first half and the last half of the cap."""
    others = [*signs, *_reassignment_links(trouble.reassignments)]
    steps, half = trouble.steps, CHAIN_CAP // 2
    times = sorted([*(step.at_ms for _, step in steps), *(link.at_ms for link in others)])
    if len(times) > CHAIN_CAP:  # the rounds in between need no words
        steps = [(e, s) for e, s in steps if s.at_ms <= times[half - 1] or s.at_ms >= times[-half]]
    links, count = [*others, *(_round(e, s) for e, s in steps)], len(times)
    if trouble.before is not None:
        links, count = trouble.before.links + links, trouble.before.link_count + count
    links.sort(key=lambda link: (link.at_ms, link.what))
    return (tuple(links) if count <= CHAIN_CAP else (*links[:half], *links[-half:])), count


def last_signs(episode: Episode) -> Iterator[Link]:
    """When members that vanished were last known to live: their last heartbeat or commit, whichever is later."""
    history = episode.history
    for step in episode.steps:
        for member_id, cause in failures(history, step):
            if cause.trigger not in SESSION_EXPIRED:
                continue
            member = history.member(member_id)
            lowers = [m.stopped_at_lower_ms for m in history.movements_from([member_id], step)]
            known = [t for t in lowers if t is not None]
            if member.session_timeout_ms is not None:
                known.append(step.first_at_ms - member.session_timeout_ms)
            if known and max(known) <= step.first_at_ms:
                what = f"{name_of(identity(member))} was last known to live"
                yield Link(at_ms=max(known), what=what, evidence=capped(cause.evidence))


def taken_for_failed(trouble: Trouble) -> Iterator[Link]:
    """When each broker that stood still was taken for failed."""
    for broker in brokers_that_stood_still(trouble):
        own = (m for m in trouble.standstills if m.previous_leader == broker)
        move = min(own, key=lambda m: (m.at_ms, m.evidence))
        yield Link(at_ms=move.at_ms, what=f"broker {broker} is taken for failed", evidence=move.evidence[:2])


def _round(episode: Episode, step: HistoryStep) -> Link:
    r = step.rebalance
    causes = [t.trigger for t in r.triggers] or [r.trigger]
    why = listed(list(dict.fromkeys(phrase_of(c) for c in causes)))
    who = listed(list(dict.fromkeys(name_of(w) for w in (*step.left, *step.joined))))
    parts = [f"{why} ({who})" if who else why]
    moved = (r.moved_count or 0) + (r.returned_count or 0) + (r.restarted_count or 0)
    noun = "task" if r.protocol_type == "connect" else "partition"
    if moved and r.pause_estimate_ms is not None and r.pause_estimate_ms < 0:
        twice = max((m.overlap_ms or 0 for m in r.movements), default=0) or -r.pause_estimate_ms
        parts.append(f"{things(moved, noun, r.protocol_type)} moved, with {two_owners(twice, r.pause_likely_upper_ms)}")
    elif moved and r.pause_estimate_ms is not None:
        longest = likely(r.pause_estimate_ms, r.pause_likely_lower_ms, r.pause_likely_upper_ms)
        parts.append(f"{things(moved, noun, r.protocol_type)} stopped, the longest for {longest}")
    if r.connect_delay_ms:
        parts.append(f"Connect leaves what it ran unassigned for up to {duration(r.connect_delay_ms)}")
    if r.outcome not in ("completed", "emptied"):
        parts.append("it has not ended" if r.outcome == "open" else f"this attempt is {r.outcome}")
    evidence = capped([*(ref for t in r.triggers for ref in t.evidence[:2]), *r.evidence[:2]])
    return Link(at_ms=step.at_ms, what=f"{shown(episode.group_id)}, {number(r)}: {'; '.join(parts)}", evidence=evidence)


def _reassignment_links(reassignments: Sequence[Reassignment]) -> Iterator[Link]:
    for r in reassignments:
        target = "" if r.target_replicas is None else f" to {list(r.target_replicas)}"
        if r.started_at_ms is not None:
            yield Link(at_ms=r.started_at_ms, what=f"{shown(r.name)} is asked to move{target}", evidence=r.evidence[:2])
        since = r.stalled_since_ms if r.stalled_since_ms is not None else r.standstill_from_ms
        if since is not None and r.blocked_by is not None:
            yield Link(at_ms=since, what=f"{shown(r.name)} is stalled: {blocked(r)}", evidence=r.evidence[:2])
        if r.ended_at_ms is not None:
            ending = f"the move of {shown(r.name)} is {r.outcome}"
            yield Link(at_ms=r.ended_at_ms, what=ending, evidence=r.evidence[-2:])
