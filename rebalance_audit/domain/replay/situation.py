"""One group's history, ready to be replayed, and its runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile
from math import inf
from random import Random

from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.frozen import changed
from rebalance_audit.domain.libraries import with_libraries
from rebalance_audit.domain.model import CommitMark, Rebalance

from .assignors import NotAssigned
from .connect import EAGER
from .connect_history import connect_delay_of, connect_script_of, worker_timing_of
from .departures import with_poll_timeouts
from .deploys import Redeployment, deploys_of, redeployed
from .history import REACTIONS, script_of
from .ids import other_id
from .life import End, Life, Moment, Script
from .measured import Measured, measured_cost, server_timing_of, timing_of
from .members import resized
from .outcome import ReplayRun, TooDear
from .polls import full_polls
from .replay import replay
from .settings import ASSIGNORS, CONNECT_PROTOCOLS, SERVER_ASSIGNORS, GroupSettings
from .timing import Timing

RUNS_BY_NAME = 21
"""Replays of each set of settings of a group that is asked for by name, each with its own draws; the same seeds for all
sets."""
FEWEST_REBALANCES = 3
LAST_STEP_MS = 1_000
"""A history often ends with a member's last word; its replay may say it some milliseconds later. A choice."""
STARTS_MS, JAVA_STARTS_MS, CLOSES_MS = 300, 1_000, 150
"""Done once more, a start or a close would come so much earlier or later. So it is in the lab between two runs of one
step: half of librdkafka's starts differ by less than 0.14 s, nine of ten by less than 0.37; of Java's, whose JVM takes
its time on a busy machine, 0.55 and 1.75; of closes 0.04 and 0.1 (1,449, 900 and 720 pairs of steps). Whether
somebody's heartbeat just passed then decides over seconds. Deaths and stalls come on the dot there, and are not moved:
only how closely the evidence dates them is drawn."""
SETTLED_MS = 150_000
"""Replays that are compared go on so long after the history ends, at least; a choice."""
SETTLED_AFTER_SESSION_MS = 30_000
"""… and so long after the longest session, in which members hear of an expiry; a choice."""


STREAMS_ASSIGNOR = "stream"
"""Applications of Kafka Streams are consumers whose assignor has this name."""


class TooLittle(Exception):
    """The history cannot be replayed: one sentence why."""


@dataclass(slots=True)
class Situation:
    """One group's history, ready to be replayed."""

    script: Script
    timing: Timing
    measured: Measured
    causes: tuple[str, ...]
    in_force: GroupSettings
    run_count: int = RUNS_BY_NAME
    keeps_stood: bool = True
    """Runs name each part of their cost."""
    base: dict[int, list[ReplayRun]] = field(default_factory=dict)
    """Runs under the settings in force, by how long they go on after the history ends."""
    kept: dict[tuple[GroupSettings, int], list[ReplayRun]] | None = None
    """Runs by their settings and by how long they go on, with seeds from 0 on; further runs take the next seeds. None:
    nothing is kept, since runs of a long history are large."""
    once_more: dict[int, tuple[Life, ...]] = field(default_factory=dict)
    """The script's lives as each seed has them, where settings change none."""
    redone: dict[GroupSettings, Script] = field(default_factory=dict)
    """The script with the deploys and members of these settings."""
    deploys: list[list[Redeployment]] | None = None
    """The script's; None: not looked for yet."""
    restarts_differ_ms: int | None = None
    """See `_restarts_differ_ms`; None: not asked yet."""

    @property
    def slots(self) -> list[str]:
        return list(dict.fromkeys(life.slot for life in self.script.lives))


def situation_of(
    rows: Sequence[Rebalance],
    until_ms: int,
    before: Rebalance | None = None,
    *,
    run_count: int = RUNS_BY_NAME,
    marks: Collection[CommitMark] = (),
) -> Situation:
    """`rows` of one group, measured, in the order they happened; `before` is the one before them, if there is one.
    `marks`: the group's commits, by which polls are measured.

    TooLittle where they cannot be replayed.
    """
    rows = with_libraries(list(dropwhile(lambda row: row.trigger in REACTIONS, rows)))
    situation = _situation_of(rows, until_ms, marks)
    situation.run_count = run_count
    if before is not None and before.joined_at_ms is not None:
        situation.script = replace(situation.script, settled_ms=before.joined_at_ms)
    return situation


def _situation_of(rows: Sequence[Rebalance], until_ms: int, marks: Collection[CommitMark]) -> Situation:
    group = rows[0].group_id if rows else ""
    counted = _counted(rows)
    if len(counted) < FEWEST_REBALANCES:
        raise TooLittle(
            f"The history of group {group!r} is too short to learn from: {len(counted)} of the "
            f"{FEWEST_REBALANCES} rebalances that are needed; give a longer time or more evidence."
        )
    latest = counted[-1]
    kind = latest.group_type if latest.group_type != "classic" else latest.protocol_type or "consumer"
    if kind == "connect":
        return _connect_situation(rows, counted, until_ms)
    if kind == "consumer" and latest.assignor == STREAMS_ASSIGNOR:
        kind = "Kafka Streams"
    if kind != "consumer":
        raise TooLittle(f"Group {group!r} is a {kind} group; consumers and Connect workers are replayed, no others.")
    is_server = latest.group_type == "consumer"
    timing = server_timing_of(rows) if is_server else timing_of(rows)
    rows = rows if is_server else with_poll_timeouts(rows, timing.heartbeat_ms)
    session_ms = timing.session_ms if is_server else None
    polls = full_polls(rows, marks)
    script = script_of(rows, until_ms, session_ms=session_ms, heartbeat_ms=timing.heartbeat_ms, full_polls=polls)
    if script.assignor not in (SERVER_ASSIGNORS if is_server else ASSIGNORS):
        raise TooLittle(
            f"Group {group!r} uses the assignor {script.assignor!r}, which is not one of Kafka's own; what it would "
            f"do is not known."
        )
    in_force = GroupSettings(
        group_protocol="consumer" if is_server else "classic",
        assignor=script.assignor,
        heartbeat_ms=3_000 if is_server else timing.heartbeat_ms,
        initial_delay_ms=timing.initial_delay_ms,
    )
    if is_server:
        in_force = replace(
            in_force, consumer_heartbeat_ms=timing.heartbeat_ms, consumer_session_timeout_ms=timing.session_ms
        )
    return Situation(script, timing, measured_cost(rows), tuple(r.trigger for r in _counted(rows)), in_force)


def _counted(rows: Sequence[Rebalance]) -> list[Rebalance]:
    return [r for r in rows if r.kind == "rebalance" and r.outcome not in ("failed", "missing")]


def _connect_situation(rows: Sequence[Rebalance], counted: Sequence[Rebalance], until_ms: int) -> Situation:
    script = connect_script_of(rows, until_ms)
    protocol = "eager" if script.assignor == EAGER else script.assignor
    if protocol not in CONNECT_PROTOCOLS:
        raise TooLittle(f"Group {script.group_id!r} uses Connect's protocol {protocol!r}, which is not known.")
    timing = worker_timing_of(rows)
    in_force = GroupSettings(
        assignor=protocol,
        heartbeat_ms=timing.heartbeat_ms,
        initial_delay_ms=timing.initial_delay_ms,
        connect_delay_ms=connect_delay_of(rows),
    )
    return Situation(script, timing, measured_cost(rows), tuple(r.trigger for r in counted), in_force)


def runs_of(situation: Situation, settings: GroupSettings, after_ms: int) -> list[ReplayRun]:
    """`after_ms`: how long the runs go on after the history ends, so that what happened last is paid for in full.

    NotAssigned where a run finds no assignment.
    """
    kept = [] if situation.kept is None else situation.kept.get((settings, after_ms), [])
    if len(kept) < situation.run_count:
        seeds = range(len(kept), situation.run_count)
        kept = [*kept, *_played(situation, settings, after_ms, seeds)]
        if situation.kept is not None:
            situation.kept[settings, after_ms] = kept
    return kept[: situation.run_count]


def costs_more(situation: Situation, settings: GroupSettings, after_ms: int, most_seconds: float) -> bool:
    """Whether the first run does, which is not played to its end then. One that does not is kept.

    NotAssigned where it finds no assignment.
    """
    kept = {} if situation.kept is None else situation.kept
    try:
        if (settings, after_ms) not in kept:
            kept[settings, after_ms] = list(_played(situation, settings, after_ms, [0], most_seconds * 1000))
    except TooDear:
        return True
    return kept[settings, after_ms][0].cost.standstill_seconds > most_seconds


def _played(
    situation: Situation, settings: GroupSettings, after_ms: int, seeds: Sequence[int], most_ms: float = inf
) -> Iterator[ReplayRun]:
    if settings not in situation.redone:
        situation.redone[settings] = redeployed(resized(situation.script, settings.member_count), settings)
    script = situation.redone[settings]
    script = replace(script, until_ms=situation.script.until_ms + after_ms)
    are_compared = after_ms > LAST_STEP_MS
    if are_compared and situation.restarts_differ_ms is None:
        situation.restarts_differ_ms = _restarts_differ_ms(deploys_in(situation))
    apart_ms = situation.restarts_differ_ms or 0
    for seed in seeds:
        played = script
        if are_compared and script.lives is not situation.script.lives:
            played = replace(script, lives=_once_more(script, situation.script, seed, apart_ms))
        elif are_compared:
            if seed not in situation.once_more:
                situation.once_more[seed] = _once_more(script, script, seed, apart_ms)
            played = replace(script, lives=situation.once_more[seed])
        yield replay(
            played,
            settings,
            situation.timing,
            Random(seed),
            counts_outages=are_compared,
            keeps_stood=situation.keeps_stood,
            most_ms=most_ms,
        )


def _once_more(script: Script, original: Script, seed: int, apart_ms: int) -> tuple[Life, ...]:
    """The same happenings, as they would be if they were done again, by members with other random ids: assignors go by
    them. Draws the same for every set of settings."""
    rng, ids = Random(f"script {seed}"), Random(f"ids {seed}")
    drawn = {place: _drawn(rng, life, apart_ms) for place, life in _placed(original)}

    def moved(moment: Moment | None, by_ms: int) -> Moment | None:
        return None if moment is None or by_ms == 0 else moment.moved(by_ms)

    lives = []
    for place, life in _placed(script):
        start_ms, end_ms = drawn[place] if place in drawn else _drawn(rng, life, apart_ms)
        started, ended = moved(life.started, start_ms) or life.started, moved(life.ended, end_ms) or life.ended
        lives.append(changed(life, member_id=other_id(life.member_id, ids), started=started, ended=ended))
    return tuple(lives)


def deploys_in(situation: Situation) -> list[list[Redeployment]]:
    if situation.deploys is None:
        situation.deploys = deploys_of(situation.script)
    return situation.deploys


def _restarts_differ_ms(deploys: Sequence[Sequence[Redeployment]]) -> int:
    """How far the restarts of one deploy last from the middle of them, at most; never so far that one would start
    before it was closed. Processes that needed 6 to 11 s to come up will do so again."""
    lasted = [[restart.away_ms for restart in deploy] for deploy in deploys]
    return max((min((max(times) - min(times)) // 2, min(times)) for times in lasted), default=0)


def _drawn(rng: Random, life: Life, apart_ms: int) -> tuple[int, int]:
    """By how much its start and its close come later."""
    starts_ms = max(apart_ms, JAVA_STARTS_MS if life.family is ClientFamily.JAVA else STARTS_MS)
    start_ms, close_ms = rng.randint(-starts_ms, starts_ms), rng.randint(-CLOSES_MS, CLOSES_MS)
    return start_ms, close_ms if life.end is End.CLOSED else 0


def _placed(script: Script) -> Iterator[tuple[tuple[str, int], Life]]:
    """Each life with its slot and its number in it."""
    count: Counter[str] = Counter()
    for life in script.lives:
        yield (life.slot, count[life.slot]), life
        count[life.slot] += 1


def base_of(situation: Situation, after_ms: int) -> list[ReplayRun]:
    """TooLittle where the replay finds no assignment."""
    if after_ms not in situation.base:
        try:
            situation.base[after_ms] = runs_of(situation, situation.in_force, after_ms)
        except NotAssigned as error:
            raise TooLittle(f"Group {situation.script.group_id!r} cannot be replayed: {error}") from None
    return situation.base[after_ms]


def settled_after_ms(situation: Situation, settings: GroupSettings) -> int:
    lives = [life.session_timeout_ms or 0 for life in situation.script.lives]
    waits = [settings.session_timeout_ms or 0, settings.consumer_session_timeout_ms, *lives]
    if situation.script.protocol_type == "connect":
        waits.append(2 * settings.connect_delay_ms)
    return max(SETTLED_MS, max(waits) + SETTLED_AFTER_SESSION_MS)
