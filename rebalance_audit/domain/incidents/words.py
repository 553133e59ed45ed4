"""The words of an incident: its title, its story in three sentences, its chain. Names are made safe to show here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rebalance_audit.domain.causes import COORDINATOR_FAILED, FOLLOW_UPS, MEMBER_FAILED, Cause, phrase_of
from rebalance_audit.domain.detect.finding import capped
from rebalance_audit.domain.detect.history import HistoryStep, Identity, host_of, identity, is_loopback, worker_name
from rebalance_audit.domain.detect.modes import number
from rebalance_audit.domain.detect.wording import (
    clock,
    counted,
    duration,
    folded,
    likely,
    likely_seconds,
    listed,
    seconds_of,
    shown,
    things,
    two_owners,
)
from rebalance_audit.domain.incidents.episodes import Episode, faults_in, is_own_rewrite
from rebalance_audit.domain.incidents.model import Link
from rebalance_audit.domain.incidents.troubles import Trouble
from rebalance_audit.domain.model import Trigger
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

_DID: dict[str, str] = {
    Cause.MEMBER_SESSION_EXPIRED: "sent no heartbeat until {its} session expired",
    Cause.STATIC_MEMBER_EXPIRED: "did not come back within {its} session timeout",
    Cause.MEMBER_POLL_TIMEOUT: "exceeded {its} poll interval",
    Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT: "did not re-join before the rebalance timeout",
    Cause.MEMBER_SYNC_TIMEOUT: "did not fetch {its} assignment in time",
    Cause.CONNECT_ASSIGNMENT_FAILED: "could not be given work",
}


def still_words(still: str, since: str) -> str:
    """What of an open incident has not ended: `tasks still wait`. Of one that has all ended, when its last event was:
    `since`, a time in words."""
    return f"no event since {since}" if still == "nothing" else STILL_WORDS[still]


def stands(status: str, still: str | None, since: str) -> str:
    """Whether an incident is open and, if so, what of it has not ended: `open, tasks still wait`."""
    return status if status != "open" or still is None else f"{status}, {still_words(still, since)}"


def culprits(people: Sequence[Identity]) -> list[str]:
    """The bare names: instance id, worker URL or client id; with the host where several hosts share a client id."""
    hosts = Counter(who[:2] for who in dict.fromkeys(people))
    return [f"{who[1]} ({who[2]})" if hosts[who[:2]] > 1 and len(who) > 2 else who[1] for who in people]


def names_of(people: Sequence[Identity], hosts: Mapping[Identity, str] | None = None) -> list[str]:
    """The `culprits`, worded for sentences, with those of these `hosts` that their names do not say."""
    hosts = hosts or {}
    return [
        shown(name) if name != who[1] else f"{name_of(who)} ({shown(hosts[who])})" if who in hosts else name_of(who)
        for who, name in zip(people, culprits(people), strict=True)
    ]


def hosts_of(trouble: Trouble, people: Sequence[Identity]) -> dict[Identity, str]:
    """Where these members ran, as far as evidence names it. In the order of `people`. Of a static member, whose
    identity lacks its host, where it ran when it failed first."""
    found = {who: who[2] for who in people if who[0] == "client" and len(who) > 2 and not is_loopback(who[2])}
    if any(who[0] == "instance" for who in people):
        for episode, step in trouble.steps:
            for member in (episode.history.member(m) for cause in step.rebalance.triggers for m in cause.members):
                if member.group_instance_id is not None and (host := host_of(member)) is not None:
                    found.setdefault(identity(member), host)
    return {who: found[who] for who in people if who in found}


def name_of(who: Identity) -> str:
    return f"worker {worker_name(who[1])}" if who[0] == "worker" else shown(who[1])


def unit_of_trouble(trouble: Trouble) -> str:
    return unit_of(e.root.rebalance for e in trouble.episodes)


def title(trouble: Trouble, people: Sequence[Identity]) -> str:
    if trouble.kind == "reassignment":
        return _reassignment_title(trouble.reassignments)
    root = trouble.root
    assert root is not None  # what has no reassignment has an episode
    where = _where(trouble)
    who = listed(names_of(people)) or "members"
    trigger = root.root.rebalance.trigger
    match trouble.kind:
        case "storm":
            steps = [s for _, s in trouble.steps if s.rebalance.kind == "rebalance"]
            span = duration(max(steps[-1].at_ms - steps[0].first_at_ms, 0))
            cause = cause_of_storm(trouble)
            why = phrase_of(cause) if cause in COORDINATOR_FAILED else f"mostly {who}"
            why = listed(_failures(trouble, people)) or why
            return f"{where} rebalanced {len(steps):,} times in {span}: {why}"
        case "connect_worker" | "member_fault":
            return "; ".join(_failures(trouble, people, where)) or f"{who} of {where} failed"
        case "deploy":
            return _deploy_title(trouble, people, where)
        case "scaling":
            if root.direction == "left":
                return f"{where} scaled down: {who} left"
            is_new = all(e.begins_its_group for e in trouble.episodes)
            return f"{where} {'began' if is_new else 'scaled up'}: {who} joined"
        case "removal":
            return f"An administrator removed {who} from {where}"
        case "configuration":
            return _configuration_title(trouble, where)
        case "coordinator" if trouble.standstills:
            expired = {(e.group_id, who) for e, s in trouble.steps for who in faults_in(e.history, s)}
            brokers = brokers_that_stood_still(trouble)
            failed, were = f"Broker {listed([*map(str, brokers)])}", "was" if len(brokers) == 1 else "were"
            members = f"{counted(len(expired), 'member')} of {where}"
            if all(move.is_failure_at_once for move in trouble.standstills):
                return f"{failed} stood still or {were} cut off, and expired {members}"
            return f"{failed} died, stood still or {were} cut off; {members} expired through that"
        case "coordinator":
            brokers = sorted({m.previous_leader for m in trouble.leader_moves if m.previous_leader is not None})
            away = f" away from broker {', '.join(map(str, brokers))}" if brokers else ""
            what = "The coordinator could not write for" if trigger == Cause.APPEND_FAILED else "The coordinator of"
            return f"{what} {where}" + ("" if trigger == Cause.APPEND_FAILED else f" moved{away}")
        case _:
            return f"{where}: {phrase_of(trigger)}"


def causes_of_storm(trouble: Trouble) -> list[Trigger]:
    """All of what most of its rebalances began with, in their order: a failure of members, if there is one. Rounds that
    the protocol adds do not count."""
    causes = [t for _, s in trouble.steps for t in s.rebalance.triggers if t.trigger not in FOLLOW_UPS]
    causes = [t for t in causes if t.trigger in MEMBER_FAILED] or causes
    commonest = Counter(t.trigger for t in causes).most_common(1)
    return [t for t in causes if t.trigger == commonest[0][0]]


def cause_of_storm(trouble: Trouble) -> str:
    causes = causes_of_storm(trouble)
    return causes[0].trigger if causes else Cause.UNKNOWN


def brokers_that_stood_still(trouble: Trouble) -> list[int]:
    return sorted({m.previous_leader for m in trouble.standstills if m.previous_leader is not None})


def is_own_change(trouble: Trouble) -> bool:
    """Whether connectors wrote other configurations for their tasks all by themselves: nobody changed their own."""
    written = [s for _, s in trouble.steps if s.rebalance.trigger == Cause.CONNECT_CONFIG_CHANGED]
    return bool(written) and all(map(is_own_rewrite, written))


def _configuration_title(trouble: Trouble, where: str) -> str:
    names = [shown(n) for n in sorted({c for _, s in trouble.steps for c in s.rebalance.changed_connectors or ()})]
    if is_own_change(trouble):
        return f"{listed(names)} rewrote {'its' if len(names) == 1 else 'their'} own task configurations on {where}"
    return f"Configuration of {listed(names) or 'connectors'} changed on {where}"


def _deploy_title(trouble: Trouble, people: Sequence[Identity], where: str) -> str:
    """Who came back as before was restarted. Newcomers take the places of those that went first; who went after them
    left. A client id that came back from another host, or without a known one, or that several have, was restarted or
    replaced."""
    own = [e for e in trouble.episodes if e.kind == "deploy"]
    left = {who for e in own for step in e.steps for who in step.left}
    came = [who for who in people if who not in left]
    back = {who for e in own for who in _back_in(e) if who not in e.gone}
    shared: set[Identity] = set()
    if not back and not came:  # several members of one name: one came, and another went
        back = {who for e in own for who in _back_in(e)}
        shared = {who for who in back if who[0] == "client"}
    away = {who: at for e in own for who, at in e.gone.items() if who in people and who not in back}
    again = {who[:2] for who in came}
    went = sorted(away, key=lambda who: (who[:2] not in again, away[who]))
    replaced, alone = set(went[: len(came)]), set(went[len(came) :])
    again &= {who[:2] for who in replaced}
    unsure = {who for who in (*came, *replaced) if who[:2] in again} | {who for who in back if _lacks_host(who)}
    unsure |= shared
    names = list(zip(people, names_of(people), strict=True))

    def named(wanted: Collection[Identity]) -> list[str]:
        return [name for who, name in names if who in wanted]

    newcomers = named(set(came) - unsure)
    turned = [
        (named(back - unsure), "restarted"),
        (named(unsure), "restarted or replaced"),
        (named(replaced - unsure), f"replaced by {listed(newcomers)}"),
    ]
    said = [(who, f"{_was(who)} {did}") for who, did in turned if who]
    said += [(newcomers, "joined")] if newcomers and not replaced - unsure else []
    said += [(named(alone), "left")] if alone else []
    said = said or [(["members"], "were restarted or replaced")]
    (first, did), *rest = said
    is_one = len(first) == 1 and did.startswith("was ") and all(did in ("joined", "left") for _, did in rest)
    head = f"{first[0]} of {where} {did}" if is_one else f"Deploy of {where}: {listed(first)} {did}"
    return "; ".join((head, *(f"{listed(who)} {did}" for who, did in rest)))


def _back_in(episode: Episode) -> Iterator[Identity]:
    """Who went and joined again, in the same round or a later one."""
    left: set[Identity] = set()
    for step in episode.steps:
        left.update(step.left)
        yield from left.intersection(step.joined)


def _lacks_host(who: Identity) -> bool:
    return who[0] == "client" and len(who) == 2


def _was(names: Sequence[str]) -> str:
    return "was" if len(names) == 1 else "were"


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
    causes: Counter[str] = Counter(s.rebalance.trigger for _, s in trouble.steps)
    phrases = [phrase_of(c) + (f" ({n} times)" if 1 < n < causes.total() else "") for c, n in causes.most_common()]
    is_told = len(causes) > 1 or (trouble.kind == "storm" and phrases[0] not in head)
    why = f"; its rebalances began because {listed(phrases, 5)}" if is_told else ""
    if change == head:
        return f"{head}{why}."
    if trouble.kind == "scaling":  # who joined a group first, or left it, is no more than how it began
        return f"{head}{why}. It began as {change.removeprefix(_where(trouble)).partition(': ')[2]}."
    return f"{head}{why}. It followed a change: {change}."


def _what_it_did(trouble: Trouble, cost: CostBounds) -> str:
    rebalances = [s.rebalance for _, s in trouble.steps]
    moved = sum((r.moved_count or 0) + (r.returned_count or 0) + (r.restarted_count or 0) for r in rebalances)
    count = counted(sum(map(is_counted, rebalances)), "rebalance")
    groups = len({r.group_id for r in rebalances})
    where = f" of {groups:,} groups" if groups > 1 else ""
    if not rebalances:
        return "No rebalance of a group followed from it."
    if cost.estimate is None:
        return f"It took {count}{where}{COST_NOT_KNOWN}."
    longest = max((r.pause_estimate_ms for r in rebalances if r.pause_estimate_ms is not None), default=None)
    until = f", the longest for {duration(longest)}" if longest is not None and longest > 0 else ""
    noun = unit_of_trouble(trouble)
    protocols = {r.protocol_type for r in rebalances}
    what = f"{things(moved, noun, protocols.pop() if len(protocols) == 1 else None)} moved or stopped{until}"
    lost = likely_seconds(cost.estimate, cost.likely_lower, cost.likely_upper)
    return f"It took {count}{where} and cost {lost} {seconds_of(noun)}: {what}."


def _how_it_stands(stands: str, last_ms: int, *, expected: bool) -> str:
    match stands:
        case "going on":
            return "It was still going on when the evidence ended."
        case "quiet":
            return f"Nothing more happened after {clock(last_ms)}. The evidence ends too soon to call it over."
        case _:
            return f"It was over at {clock(last_ms)}" + (", and was normal work." if expected else ".")


def _failures(trouble: Trouble, people: Sequence[Identity], where: str = "") -> list[str]:
    """Who failed how, one text for each way, the first first: `p1 and p2 of orders exceeded their poll interval`.
    A member that failed in several ways is told by its first. Only the first text says `where`."""
    ways: dict[Identity, str] = {}
    for episode, step in trouble.steps:
        for who, way in faults_in(episode.history, step).items():
            ways.setdefault(who, way)
    names = names_of(people, hosts_of(trouble, people))
    told: dict[str, list[str]] = {}
    for who, name in zip(people, names, strict=True):
        if who in ways:
            told.setdefault(_DID.get(ways[who], "failed"), []).append(name)
    if not told and (met := next((_DID[c] for c in _causes_of(trouble) if c in _DID), None)):  # evidence names nobody
        told[met] = names or ["members"]
    of = f" of {where}" if where else ""
    return [
        f"{listed(names)}{'' if place else of} {way.format(its='its' if len(names) == 1 else 'their')}"
        for place, (way, names) in enumerate(told.items())
    ]


def _causes_of(trouble: Trouble) -> Iterator[str]:
    for _, step in trouble.steps:
        yield from (cause.trigger for cause in step.rebalance.triggers)
        yield step.rebalance.trigger


def _where(trouble: Trouble) -> str:
    groups = sorted({e.group_id for e in trouble.episodes})
    return shown(groups[0]) if len(groups) == 1 else f"{len(groups)} groups ({listed([shown(g) for g in groups])})"


def _reassignment_title(reassignments: Sequence[Reassignment]) -> str:
    names = folded(r.name for r in reassignments)
    worst = worst_of(reassignments)
    if worst is not None:
        is_open = worst.outcome == "open"
        stood = f" for {duration(worst.longest_standstill_ms)}" if worst.longest_standstill_ms else ""
        return f"Reassignment of {names} {'is' if is_open else 'was'} stalled{stood}: {blocked(worst)}"
    outcomes = Counter("still running" if r.outcome == "open" else r.outcome for r in reassignments)
    endings = [what if len(outcomes) == 1 else f"{n} {what}" for what, n in sorted(outcomes.items())]
    return f"Reassignment of {names}: {listed(endings, 8)}"


def worst_of(reassignments: Iterable[Reassignment]) -> Reassignment | None:
    """The one that was stalled for longest, of those that were held up."""
    held = [r for r in reassignments if r.blocked_by is not None]
    return max(held, key=lambda r: (r.longest_standstill_ms or 0, r.reassignment_id), default=None)


# ---- the chain


def chain(trouble: Trouble, before: Sequence[Link]) -> tuple[Link, ...]:
    """Sorted by time. A long list keeps the first half and the last half of the cap."""
    others = [*before, *_reassignment_links(trouble.reassignments)]
    steps, half = trouble.steps, CHAIN_CAP // 2
    times = sorted([*(step.at_ms for _, step in steps), *(link.at_ms for link in others)])
    if len(times) > CHAIN_CAP:  # the rounds in between need no words
        steps = [(e, s) for e, s in steps if s.at_ms <= times[half - 1] or s.at_ms >= times[-half]]
    links = sorted([*others, *(_round(e, s) for e, s in steps)], key=lambda link: (link.at_ms, link.what))
    return tuple(links) if len(times) <= CHAIN_CAP else (*links[:half], *links[-half:])


def taken_for_failed(trouble: Trouble) -> Iterator[Link]:
    """When each broker that stood still was taken for failed."""
    for broker in brokers_that_stood_still(trouble):
        own = (m for m in trouble.standstills if m.previous_leader == broker)
        move = min(own, key=lambda m: (m.at_ms, m.evidence))
        yield Link(at_ms=move.at_ms, what=f"broker {broker} is taken for failed", evidence=move.evidence[:2])


def last_sign(who: str, at_ms: int, evidence: Iterable[str]) -> Link:
    return Link(at_ms=at_ms, what=f"{who} was last known to live", evidence=capped(evidence))


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
