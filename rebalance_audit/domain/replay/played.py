"""One run of one script: the happenings in their order; what the group does about them is each protocol's."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import partial
from math import inf
from random import Random

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily

from .life import End, Grown, Life, Script
from .loop import Loop
from .outages import outages_of
from .outcome import Replayed, ReplayRun, TooDear
from .process import FIRST_POLL_INTERVAL_MS, FIRST_SESSION_MS, PlayedProcess
from .settings import GroupSettings
from .standstill import Ledger, Why
from .timing import LEAVE_MS, Draws, Timing, draw

CHECKS = 64
"""So often a run may find that it costs too much; a choice."""


@dataclass(slots=True)
class PlayedGroup:
    """The happenings of the processes. Each protocol says what the group does about them."""

    script: Script
    settings: GroupSettings
    timing: Timing
    rng: Random
    counts_outages: bool = False
    keeps_stood: bool = True
    rebalances: list[Replayed] = field(default_factory=list)
    rewrite_count: int = 0
    beat_ms: float = field(init=False)
    """From one heartbeat to the next: somewhat longer than the interval says, and the same for all members. How much
    they differ shows where a session ends together with a heartbeat: Timing.expire_ms."""
    doubtful_keep_beats: bool = field(init=False)
    """Members that may be librdkafka's or another's keep the rhythm of their heartbeats over a join in one half of the
    runs, as librdkafka's do, and start again in the others."""
    loop: Loop = field(init=False)
    ledger: Ledger = field(init=False)
    topics: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        self.doubtful_keep_beats = self.rng.random() < 0.5
        self.beat_ms = self.settings.heartbeat_interval_ms + draw(self.rng, self.drifts_ms())
        self.loop = Loop(self.script.from_ms)
        self.topics = dict(self.script.partitions)
        resources = [(t, n) for t, count in self.topics.items() for n in range(count)]
        self.ledger = Ledger(resources, counts_outages=self.counts_outages, keeps_stood=self.keeps_stood)

    def drifts_ms(self) -> Draws:
        return self.timing.drift_ms

    # ---- what each protocol does

    @abstractmethod
    def seats_initially(self, processes: list[PlayedProcess]) -> None:
        """Begin with a stable group of these members, which own what they owned in the history."""

    @abstractmethod
    def asks_to_join(self, process: PlayedProcess) -> None:
        """A process without a place in the group, or with a static one that another left behind, asks to join."""

    @abstractmethod
    def has_seat(self, process: PlayedProcess) -> bool: ...

    @abstractmethod
    def leaves(self, process: PlayedProcess, trigger: str) -> None: ...

    @abstractmethod
    def closes_without_leaving(self, process: PlayedProcess) -> None: ...

    @abstractmethod
    def watch_session(self, process: PlayedProcess, *, is_silent: bool = False) -> None:
        """Its heartbeats end: from here on only its session is watched."""

    @abstractmethod
    def catches_up(self, process: PlayedProcess) -> None:
        """It polls again, and is still a member."""

    @abstractmethod
    def is_requested(self, trigger: str) -> None:
        """A member asks for a rebalance, or the topics changed."""

    # ---- the script

    def run(self, most_ms: float = inf) -> ReplayRun:
        """Raises TooDear as soon as the run costs more than `most_ms`."""
        initial = [self.process_of(life) for life in self.script.lives if life.started is None]
        since_ms = self.rng.uniform(0, self.settings.heartbeat_interval_ms)
        for process in initial:
            self.is_there(process, since_ms)
        if initial:
            self.seats_initially(initial)
            for process in initial:
                self.plan_end(process, self.loop.now_ms)
        for life in self.script.lives:
            if life.started is not None:
                self.plan(self.process_of(life), life.started.draw(self.rng))
        for grown in self.script.grown:
            self.loop.plan(grown.at_ms, partial(self.grows, grown))
        for at_ms in self.script.requested_ms:
            self.loop.plan(at_ms, lambda: self.is_requested(Cause.CLIENT_REQUESTED))
        if most_ms < inf:
            self.gives_up_above(most_ms)
        self.loop.run(self.script.until_ms)
        ledger = self.ledger
        return ReplayRun(
            rebalances=tuple(self.rebalances),
            cost=ledger.finish(self.script.until_ms),
            rewrite_count=self.rewrite_count,
            stretches=ledger.stretches,
            stood=tuple(ledger.stood),
            outages_seconds=ledger.outages_ms / 1000,
        )

    def gives_up_above(self, most_ms: float) -> None:
        # Connectors may be deleted before an outage comes.
        counts = self.counts_outages and self.script.protocol_type != "connect"
        outages = list(outages_of(self.script)) if counts else []
        starts_ms = sorted(life.started.at_ms for life in self.script.lives if life.started is not None)
        for at_ms in (self.script.from_ms, *starts_ms[:: len(starts_ms) // CHECKS + 1]):
            to_come_ms = sum(self.topics.values()) * sum((o.lasts_ms for o in outages if o.until_ms > at_ms), 0.0)
            self.loop.plan(at_ms, partial(self.gives_up_if_above, most_ms - to_come_ms))

    def gives_up_if_above(self, most_ms: float) -> None:
        if self.ledger.cost_ms > most_ms:
            raise TooDear

    def process_of(self, life: Life) -> PlayedProcess:
        keeps_beats = self.keeps_beats(life)
        likely = ClientFamily.LIBRDKAFKA if keeps_beats else ClientFamily.JAVA
        static = self.settings.is_static
        has_instance = life.instance_id is not None if static is None else static
        has_instance = has_instance or (static is None and life.slot in self.settings.static_slots)
        return PlayedProcess(
            life=life,
            instance_id=(life.instance_id or life.slot) if has_instance else None,
            member_id=self.member_id_of(life),
            session_timeout_ms=self.settings.session_timeout_ms or life.session_timeout_ms or FIRST_SESSION_MS,
            poll_interval_ms=self.settings.max_poll_interval_ms or life.rebalance_timeout_ms or FIRST_POLL_INTERVAL_MS,
            family=life.family or likely,
            keeps_beats=keeps_beats,
        )

    def member_id_of(self, life: Life) -> str:
        return life.member_id

    def plan(self, process: PlayedProcess, started_ms: float) -> None:
        self.loop.plan(started_ms, lambda: self.starts(process))
        self.plan_end(process, started_ms)

    def plan_end(self, process: PlayedProcess, started_ms: float) -> None:
        life = process.life
        for stall in life.stalls:
            since_ms = max(stall.since.draw(self.rng), started_ms)
            until_ms = inf if stall.until_ms is None else stall.until_ms
            if self.settings.max_poll_records is not None and stall.full_poll is not None:
                busy_ms, share = until_ms - since_ms, self.rng.random()
                until_ms = since_ms + stall.full_poll.shortened_ms(busy_ms, self.settings.max_poll_records, share)
            self.loop.plan(since_ms, partial(self.is_busy, process, until_ms))
        if life.ended is None:
            return
        ended_ms = max(life.ended.draw(self.rng), started_ms)
        by_end = {End.CLOSED: self.closes, End.CRASHED: self.crashes, End.REMOVED: self.is_removed}
        self.loop.plan(ended_ms, partial(by_end[life.end or End.CRASHED], process))

    def is_there(self, process: PlayedProcess, since_ms: float) -> None:
        """A process that ran before the history begins. Heartbeats of all begin at one join phase; at a random one if
        it is not known."""
        now_ms = self.loop.now_ms
        settled_ms = now_ms - since_ms if self.script.settled_ms is None else self.script.settled_ms
        self.ledger.process_starts(process, now_ms)
        process.is_alive = process.is_in = process.was_assigned = True
        process.owned = set(process.life.owned_at_first)
        process.remembered = process.life.owned_at_first
        process.generation = process.remembered_generation = 0
        process.lives_on = 1
        process.beats_begin(settled_ms, self.beat_ms)
        self.ledger.works(process.owned, process, now_ms)

    def keeps_beats(self, life: Life) -> bool:
        libraries = life.libraries
        if libraries is not None and (ClientFamily.LIBRDKAFKA not in libraries or len(libraries) == 1):
            return ClientFamily.LIBRDKAFKA in libraries
        return self.doubtful_keep_beats

    def starts(self, process: PlayedProcess) -> None:
        self.ledger.process_starts(process, self.loop.now_ms)
        process.is_alive = True
        self.asks_to_join(process)

    def closes(self, process: PlayedProcess) -> None:
        if not process.is_alive:
            return
        self.ends(process)
        stays = process.instance_id is not None or not self.settings.leaves_on_close
        if not stays and process.is_in:
            leave_ms = self.timing.leave_ms or LEAVE_MS[process.family]
            self.loop.after(draw(self.rng, leave_ms), lambda: self.leaves(process, Cause.MEMBER_LEFT))
        else:
            self.closes_without_leaving(process)

    def crashes(self, process: PlayedProcess) -> None:
        if process.is_alive:
            self.ends(process)
            self.watch_session(process)

    def is_removed(self, process: PlayedProcess) -> None:
        self.leaves(process, Cause.MEMBER_REMOVED_BY_ADMIN)
        self.ends(process)

    def ends(self, process: PlayedProcess) -> None:
        process.is_alive = False
        self.ledger.process_ends(process, self.loop.now_ms)
        process.owned.clear()

    def is_busy(self, process: PlayedProcess, until_ms: float) -> None:
        if not process.is_alive:
            return
        process.busy_since_ms, process.busy_until_ms = self.loop.now_ms, until_ms
        noticed_ms = process.notices_ms(self.loop.now_ms + process.poll_interval_ms)
        if until_ms > noticed_ms:
            self.loop.at(noticed_ms, lambda: self.is_busy_beyond(process, until_ms))

    def is_busy_beyond(self, process: PlayedProcess, until_ms: float) -> None:
        """Its heartbeat thread leaves for it; it works on, but nobody counts that as work."""
        if not process.is_alive or process.busy_until_ms != until_ms:
            return
        self.ledger.stops(process.owned, process, self.loop.now_ms, Why.OWNER_IDLE)
        if process.instance_id is None:
            self.leaves(process, Cause.MEMBER_POLL_TIMEOUT)
        else:
            # A static member does not leave: it stops to heartbeat, and its session runs out.
            self.watch_session(process, is_silent=True)
        if until_ms != inf:
            self.loop.at(until_ms, lambda: self.polls_again(process))

    def polls_again(self, process: PlayedProcess) -> None:
        if not process.is_alive:
            return
        if not self.has_seat(process):
            process.owned.clear()
            process.generation = -1
            self.asks_to_join(process)
            return
        self.ledger.works(process.owned, process, self.loop.now_ms)
        process.beats_begin(self.loop.now_ms, self.beat_ms)
        self.catches_up(process)

    def grows(self, grown: Grown) -> None:
        for topic, count in grown.partitions.items():
            for number in range(self.topics.get(topic, 0), count):
                self.ledger.appears((topic, number))
        self.topics |= grown.partitions
        self.is_requested(Cause.TOPIC_METADATA_CHANGED)
