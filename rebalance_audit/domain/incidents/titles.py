"""The title of an incident: who did what where. Names are made safe to show here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from rebalance_audit.domain.causes import COORDINATOR_FAILED, FOLLOW_UPS, MEMBER_FAILED, Cause, phrase_of
from rebalance_audit.domain.detect.history import Identity, host_of, identity, is_loopback, worker_name
from rebalance_audit.domain.detect.wording import counted, duration, folded, listed, shown
from rebalance_audit.domain.incidents.broker_faults import not_back
from rebalance_audit.domain.incidents.episodes import Episode, faults_in, is_own_rewrite
from rebalance_audit.domain.incidents.troubles import Trouble
from rebalance_audit.domain.model import Trigger
from rebalance_audit.domain.reassign.advice import blocked, stands_still
from rebalance_audit.domain.reassign.model import Reassignment

_DID: dict[str, str] = {
    Cause.MEMBER_SESSION_EXPIRED: "sent no heartbeat until {its} session expired",
    Cause.STATIC_MEMBER_EXPIRED: "did not come back within {its} session timeout",
    Cause.MEMBER_POLL_TIMEOUT: "exceeded {its} poll interval",
    Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT: "did not re-join before the rebalance timeout",
    Cause.MEMBER_SYNC_TIMEOUT: "did not fetch {its} assignment in time",
    Cause.CONNECT_ASSIGNMENT_FAILED: "could not be given work",
}


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
    if trouble.before is not None:
        found.update(trouble.before.hosts)
    if any(who[0] == "instance" for who in people):
        for episode, step in trouble.steps:
            for member in (episode.history.member(m) for cause in step.rebalance.triggers for m in cause.members):
                if member.group_instance_id is not None and (host := host_of(member)) is not None:
                    found.setdefault(identity(member), host)
    return {who: found[who] for who in people if who in found}


def name_of(who: Identity) -> str:
    return f"worker {worker_name(who[1])}" if who[0] == "worker" else shown(who[1])


def title(trouble: Trouble, people: Sequence[Identity]) -> str:
    if trouble.kind == "reassignment":
        return _reassignment_title(trouble.reassignments)
    root = trouble.root
    assert root is not None  # what has no reassignment has an episode
    where = where_of(trouble)
    who = listed(names_of(people)) or "members"
    trigger = root.root.rebalance.trigger
    match trouble.kind:
        case "storm":
            count, from_ms, to_ms = _rounds(trouble)
            span = duration(max(to_ms - from_ms, 0))
            why = listed(_failures(trouble, people))
            if not why:
                cause = cause_of_storm(trouble)
                why = phrase_of(cause) if cause in COORDINATOR_FAILED else f"mostly {who}"
            return f"{where} rebalanced {count:,} times in {span}: {why}"
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
            members, missing = f"{counted(len(expired), 'member')} of {where}", len(not_back_of(trouble))
            back = f"; {missing} of them {'is' if missing == 1 else 'are'} not back" if missing else ""
            if all(move.is_failure_at_once for move in trouble.standstills):
                return f"{failed} stood still or {were} cut off, and expired {members}{back}"
            return f"{failed} died, stood still or {were} cut off; {members} expired through that{back}"
        case "coordinator":
            brokers = sorted({m.previous_leader for m in trouble.leader_moves if m.previous_leader is not None})
            away = f" away from broker {', '.join(map(str, brokers))}" if brokers else ""
            what = "The coordinator could not write for" if trigger == Cause.APPEND_FAILED else "The coordinator of"
            return f"{what} {where}" + ("" if trigger == Cause.APPEND_FAILED else f" moved{away}")
        case _:
            return f"{where}: {phrase_of(trigger)}"


def _rounds(trouble: Trouble) -> tuple[int, int, int]:
    """How many rebalances a storm has, and the first and last instant of them, without rewrites of static members."""
    steps = [s for _, s in trouble.steps if s.rebalance.kind == "rebalance"]
    if (before := trouble.before) is None:
        return len(steps), steps[0].first_at_ms, steps[-1].at_ms
    to_ms = steps[-1].at_ms if steps else before.until_ms
    return before.round_count + len(steps), before.rounds_from_ms, to_ms


def causes_of_storm(trouble: Trouble) -> list[tuple[Trigger, int]]:
    """The first of each cause of its rebalances, and how many there are, in the order of the first. Rounds that the
    protocol adds do not count."""
    first: dict[str, Trigger] = {}
    counts: Counter[str] = Counter()
    before = trouble.before.causes if trouble.before is not None else ()
    for cause, count in (*before, *((t, 1) for _, s in trouble.steps for t in s.rebalance.triggers)):
        if cause.trigger not in FOLLOW_UPS:
            first.setdefault(cause.trigger, cause)
            counts[cause.trigger] += count
    return [(first[trigger], count) for trigger, count in counts.items()]


def leading_cause(trouble: Trouble) -> Trigger | None:
    """The first cause of the kind that most of a storm's rebalances began with: a failure of members, if there is
    one."""
    causes = causes_of_storm(trouble)
    causes = [(cause, count) for cause, count in causes if cause.trigger in MEMBER_FAILED] or causes
    return max(causes, key=lambda of: of[1])[0] if causes else None


def cause_of_storm(trouble: Trouble) -> str:
    cause = leading_cause(trouble)
    return Cause.UNKNOWN if cause is None else cause.trigger


def not_back_of(trouble: Trouble) -> set[tuple[str, Identity]]:
    """Members that brokers put out and that did not return, each with its group."""
    own = {move.rebalance_id for move in trouble.standstills}
    steps = [(e, s) for e, s in trouble.steps if s.rebalance.rebalance_id in own]
    return {(e.group_id, who) for e, s in steps for who in not_back(e.history, s)}


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


def _failures(trouble: Trouble, people: Sequence[Identity], where: str = "") -> list[str]:
    """Who failed how, one text for each way, the first first: `p1 and p2 of orders exceeded their poll interval`.
    A member that failed in several ways is told by its first. Only the first text says `where`."""
    ways: dict[Identity, str] = dict(trouble.before.failed) if trouble.before is not None else {}
    for episode, step in trouble.steps:
        for who, way in faults_in(episode.history, step).items():
            ways.setdefault(who, way)
    names = names_of(people, hosts_of(trouble, people))
    told: dict[str, list[str]] = {}
    for who, name in zip(people, names, strict=True):
        if who in ways:
            told.setdefault(_DID.get(ways[who], "failed"), []).append(name)
    if not told and (met := next((_DID[c] for c in _causes_of(trouble) if c in _DID), None)):  # evidence names nobody
        told[met] = names if names and trouble.before is None else ["members"]
    of = f" of {where}" if where else ""
    return [
        f"{listed(names)}{'' if place else of} {way.format(its='its' if len(names) == 1 else 'their')}"
        for place, (way, names) in enumerate(told.items())
    ]


def _causes_of(trouble: Trouble) -> Iterator[str]:
    if trouble.before is not None:
        yield from (cause.trigger for cause, _ in trouble.before.causes)
        yield from trouble.before.triggers
    for _, step in trouble.steps:
        yield from (cause.trigger for cause in step.rebalance.triggers)
        yield step.rebalance.trigger


def where_of(trouble: Trouble) -> str:
    groups = sorted({e.group_id for e in trouble.episodes})
    return shown(groups[0]) if len(groups) == 1 else f"{len(groups)} groups ({listed([shown(g) for g in groups])})"


def _reassignment_title(reassignments: Sequence[Reassignment]) -> str:
    names = folded(r.name for r in reassignments)
    worst = worst_of(reassignments)
    if worst is not None:
        stood = f" for {duration(worst.longest_standstill_ms)}" if worst.longest_standstill_ms else ""
        return f"Reassignment of {names}{'' if stands_still(worst) else ' was'} stalled{stood}: {blocked(worst)}"
    outcomes = Counter("not ended yet" if r.outcome == "open" else r.outcome for r in reassignments)
    endings = [what if len(outcomes) == 1 else f"{n} {what}" for what, n in sorted(outcomes.items())]
    return f"Reassignment of {names}: {listed(endings, 8)}"


def worst_of(reassignments: Iterable[Reassignment]) -> Reassignment | None:
    """The one that was stalled for longest, of those that were held up."""
    held = [r for r in reassignments if r.blocked_by is not None]
    return max(held, key=lambda r: (r.longest_standstill_ms or 0, r.reassignment_id), default=None)


# ---- the chain
