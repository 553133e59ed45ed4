"""Stories of several rounds of a Connect group together, explained for readers who do not know the protocol.

A worker joins, bounces within the scheduled delay, is gone for good, leads and leaves; a connector changes; rounds
revoke in a row; tasks run twice. Each is one to four generations; a rolling bounce is several stories.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.explain import connect_story_words as words
from rebalance_audit.domain.explain.connect_changes import ConnectorChange, connector_changes, followed_by
from rebalance_audit.domain.kinds import MemberChange, Mode, MovementKind, Outcome, RebalanceKind
from rebalance_audit.domain.model import NO_END, Member, Movement, Rebalance

ROLLING_MS = 900_000
"""Two workers whose restarts lie closer than this are one rolling bounce: a worker starts in seconds to minutes."""

STORY_KINDS = (
    "worker_joined", "worker_bounced", "worker_lost", "worker_waited_for", "worker_replaced", "leader_left", "no_delay",
    "eager_round", "became_eager", "revoking_rounds", "zombie_tasks", "connector_changed", "assignment_failed",
    "rolling_bounce",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConnectStory:
    kind: str
    """One of STORY_KINDS."""
    title: str
    text: str
    """One happening: the rounds it took, why the protocol does that, and the cost."""
    rebalance_ids: tuple[str, ...]
    from_ms: int
    to_ms: int | None
    """None: it goes on."""
    workers: tuple[str, ...] = ()
    """URLs of whom it is about."""


def connect_stories(rebalances: Sequence[Rebalance]) -> tuple[ConnectStory, ...]:
    """The stories that these rebalances tell, in the order in which they begin. `rebalances`: those of one Connect
    group, measured, in order."""
    settled = [
        r
        for r in rebalances
        if r.protocol_type == "connect"
        and r.kind == RebalanceKind.REBALANCE
        and r.outcome in (Outcome.COMPLETED, Outcome.EMPTIED)
    ]
    changes = {change.rebalance_ids[0]: change for change in connector_changes(settled)}
    found: list[ConnectStory] = []
    place = 1
    while place < len(settled):
        story, length = _story_at(settled, place, changes)
        if story is not None:
            found.append(story)
        place += length
    found += _rolling(found)
    return tuple(sorted(found, key=lambda s: (s.from_ms, -(s.to_ms or NO_END))))


def _story_at(
    settled: Sequence[Rebalance], place: int, changes: Mapping[str, ConnectorChange]
) -> tuple[ConnectStory | None, int]:
    """The story that begins with this generation, and how many generations it takes."""
    before, r = settled[place - 1], settled[place]
    gone, came = _changed(r, MemberChange.LEFT), _changed(r, MemberChange.JOINED)
    if before.mode == Mode.INCREMENTAL and r.mode == Mode.EAGER:
        return _story("became_eager", [r], came, words.became_eager(r, came)), 1
    if gone and {m.worker_url for m in gone} <= {m.worker_url for m in came}:
        return _story("worker_replaced", [r], gone, words.worker_replaced(r, gone)), 1
    if gone:
        return _departure(settled, place, gone)
    twice = _held_twice(r)
    if twice:
        chain = [r, *followed_by(settled, place)]
        return _story("zombie_tasks", chain, came, words.zombie_tasks(r, twice, came)), len(chain)
    if came:
        return _arrival(settled, place, came)
    if r.connect_error:
        return _story("assignment_failed", [r], (), words.assignment_failed(r)), 1
    if r.trigger == Cause.CONNECT_CONFIG_CHANGED and r.changed_connectors:
        change = changes.get(r.rebalance_id)
        if change is not None:
            chain = list(settled[place : place + len(change.rebalance_ids)])
            return _story("connector_changed", chain, (), words.connector_changed(change)), len(chain)
    return None, 1


def _departure(settled: Sequence[Rebalance], place: int, gone: Sequence[Member]) -> tuple[ConnectStory, int]:
    before, r = settled[place - 1], settled[place]
    held = {name for m in gone for name in m.owned_before or ()}
    if r.mode == Mode.EAGER:
        return _story("eager_round", [r], gone, words.eager_round(r, gone)), 1
    if r.connect_delay_ms and held:
        return _delayed(settled, place, gone, held)
    if before.leader_member_id in {m.member_id for m in gone}:
        return _story("leader_left", [r], gone, words.leader_left(r, gone, held, _handed_out([r], held))), 1
    return _story("no_delay", [r], gone, words.no_delay(r, gone, held, _handed_out([r], held))), 1


def _delayed(
    settled: Sequence[Rebalance], place: int, gone: Sequence[Member], held: set[str]
) -> tuple[ConnectStory, int]:
    """From the generation that announces the delay to the one that gives the work out."""
    r = settled[place]
    chain = [r]
    for later in settled[place + 1 :]:
        chain.append(later)
        if not later.connect_delay_ms:
            break
    is_over = not chain[-1].connect_delay_ms
    urls = {m.worker_url for m in gone}
    back = next((x for x in chain[1:] if urls & {m.worker_url for m in _changed(x, MemberChange.JOINED)}), None)
    given = _handed_out(chain, held)
    if not is_over:
        kind, text = "worker_waited_for", words.worker_waited_for(r, gone, held, back)
    elif back is not None:
        kind, text = "worker_bounced", words.worker_bounced(chain, back, gone, held, given)
    else:
        kind, text = "worker_lost", words.worker_lost(chain, gone, held, given)
    story = _story(kind, chain, gone, text)
    return (story if is_over else replace(story, to_ms=None)), len(chain)


def _arrival(settled: Sequence[Rebalance], place: int, came: Sequence[Member]) -> tuple[ConnectStory, int]:
    r = settled[place]
    if r.mode == Mode.EAGER and any(m.kind in (MovementKind.MOVED, MovementKind.RETURNED) for m in r.movements):
        return _story("eager_round", [r], came, words.eager_round(r, came)), 1
    chain = [r]
    for later in settled[place + 1 :]:
        is_postponed = later.trigger == Cause.CONNECT_DELAY_EXPIRED and bool(chain[-1].connect_delay_ms)
        also_came = _changed(later, MemberChange.JOINED) if chain[-1].revoked_count or is_postponed else ()
        if later.trigger != Cause.CONNECT_REVOCATION_FOLLOW_UP and not is_postponed and not also_came:
            break
        if _changed(later, MemberChange.LEFT):
            break
        chain.append(later)
        came = [*came, *also_came]
    moved = [m for x in chain for m in x.movements if m.kind in (MovementKind.MOVED, MovementKind.RETURNED)]
    revoking = [x for x in chain if x.revoked_count]
    if len(revoking) > 1:
        return _story("revoking_rounds", chain, came, words.revoking_rounds(chain, revoking, came, moved)), len(chain)
    return _story("worker_joined", chain, came, words.worker_joined(chain, came, moved)), len(chain)


def _held_twice(r: Rebalance) -> list[str]:
    """Resources that two workers said they ran when they joined: one of them had been put out and did not know."""
    if r.mode != Mode.INCREMENTAL:
        return []
    counts = Counter(name for m in r.members if m.change != MemberChange.LEFT for name in m.owned_before or ())
    return sorted(name for name, count in counts.items() if count > 1)


def _rolling(stories: Sequence[ConnectStory]) -> list[ConnectStory]:
    """Different workers that went and came back one after the other."""
    found: list[ConnectStory] = []
    run: list[ConnectStory] = []
    returned = {url for s in stories if s.kind in ("worker_joined", "revoking_rounds") for url in s.workers}
    bounces = [
        s
        for s in stories
        if s.kind in ("worker_bounced", "worker_replaced")
        or (s.kind in ("leader_left", "no_delay", "eager_round") and s.workers and set(s.workers) <= returned)
    ]
    for story in [*bounces, None]:
        is_next = story is not None and bool(run) and story.from_ms - (run[-1].to_ms or 0) <= ROLLING_MS
        if story is not None and (not run or (is_next and not set(story.workers) & _workers(run))):
            run.append(story)
            continue
        if len(_workers(run)) > 1:
            ids = tuple(dict.fromkeys(i for s in run for i in s.rebalance_ids))
            title, text = words.rolling_bounce([(s.kind, s.workers) for s in run], len(ids))
            found.append(
                ConnectStory(
                    kind="rolling_bounce",
                    title=title,
                    text=text,
                    rebalance_ids=ids,
                    from_ms=run[0].from_ms,
                    to_ms=run[-1].to_ms,
                    workers=tuple(sorted(_workers(run))),
                )
            )
        run = [story] if story is not None else []
    return found


def _workers(stories: Iterable[ConnectStory]) -> set[str]:
    return {url for s in stories for url in s.workers}


def _handed_out(chain: Sequence[Rebalance], held: set[str]) -> list[Movement]:
    return [
        m
        for r in chain
        for m in r.movements
        if m.resource in held and m.kind in (MovementKind.MOVED, MovementKind.RETURNED)
    ]


def _changed(r: Rebalance, change: MemberChange) -> list[Member]:
    return [m for m in r.members if m.change == change]


def _story(
    kind: str, chain: Sequence[Rebalance], about: Sequence[Member], title_and_text: tuple[str, str]
) -> ConnectStory:
    title, text = title_and_text
    return ConnectStory(
        kind=kind,
        title=words.as_sentence(title),
        text=words.as_sentence(text),
        rebalance_ids=tuple(r.rebalance_id for r in chain),
        from_ms=words.began_ms(chain[0]),
        to_ms=words.ended_ms(chain[-1]),
        workers=tuple(sorted({m.worker_url for m in about if m.worker_url is not None})),
    )
