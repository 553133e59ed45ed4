"""Connect's workers under connect.protocol=eager, where the history is of incremental ones.

How often a change of the configuration makes them join is in no evidence then. It follows from what each worker does
in its one thread: it takes requests, and looks whether the configuration changed, only while it neither stops nor joins
nor starts its work. Source: DistributedHerder.tick, WorkerCoordinator.metadata, and the coordinator's answer to a
member that joins again and says what it said before (Kafka 3.9; observed on 4.3.0).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from math import ceil

from rebalance_audit.domain.causes import Cause

from .assignors import Partition
from .classic import ClassicGroup
from .classic_members import Seat, State
from .connect import CONNECTOR_ITSELF, ConnectGroup
from .life import Grown
from .process import PlayedProcess
from .timing import draw

ASKS_AGAIN_MS = (53.0, 59.0, 76.0)
"""From the leader's answer to a worker's next request: it has the tasks of its connectors written one after another
(three requests of the lab's workers on 4.3.0, by their leaders' request logs)."""
POLLS_AT_ONCE_SHARE = 0.5
"""A worker that already knows of a change stops its tasks as soon as it has started them. Each has begun its first poll
by then, or stops at once: a race, so even odds."""


@dataclass(frozen=True, slots=True)
class AskedChange:
    """A change of the configuration that the leader, who alone writes them, has been asked for."""

    counts: Mapping[str, int]
    """Tasks by connector; CONNECTOR_ITSELF for one that is deleted."""
    asked_ms: float


@dataclass(slots=True)
class EagerConnectGroup(ConnectGroup):
    in_history: dict[str, int] = field(default_factory=dict)
    """Tasks by connector, as the history has them at this time."""
    known: dict[str, int] = field(default_factory=dict)
    """The same, as the work was shared out last."""
    waiting: deque[AskedChange] = field(default_factory=deque)
    change_count: int = 0
    late_ms: dict[str, float] = field(default_factory=dict)
    """By how much later than in the history each connector was made: its tasks are written so much later, too."""
    free: set[PlayedProcess] = field(default_factory=set)
    """Workers that neither stop nor join nor start their work."""
    heard: set[PlayedProcess] = field(default_factory=set)
    """Workers that learned of a rebalance and have not stopped their work for it yet."""
    news: set[PlayedProcess] = field(default_factory=set)
    """Workers that read a change and have not stopped their work for it yet (needsReconfigRebalance)."""
    has_read: dict[PlayedProcess, int] = field(default_factory=dict)
    """How many changes each worker has read."""
    has_said: dict[PlayedProcess, int] = field(default_factory=dict)
    """How many changes it had read when it asked to join last."""
    unwritten: dict[PlayedProcess, list[str]] = field(default_factory=dict)
    """Connectors that each worker started and whose tasks it has not had written yet."""
    started: set[str] = field(default_factory=set)
    """Connectors that were started before their tasks were known."""
    again: dict[str, int] = field(default_factory=dict)
    """How many times more than in the history the tasks of each are to be written."""
    polling_since_ms: dict[PlayedProcess, float] = field(default_factory=dict)
    """When each worker started its work last: its tasks began to poll then."""

    def __post_init__(self) -> None:
        ConnectGroup.__post_init__(self)
        self.in_history, self.known = dict(self.topics), dict(self.topics)

    # ---- the configuration

    def grows(self, grown: Grown) -> None:
        """In the history the change was written at this time. In the replay the leader may be busy with a rebalance
        then."""
        counts = {name: count for name, count in grown.partitions.items() if self.in_history.get(name) != count}
        counts |= {name: CONNECTOR_ITSELF for name in self.in_history if name not in grown.partitions}
        self.in_history = dict(grown.partitions)
        late_ms = max((self.late_ms.get(name, 0.0) for name in counts), default=0.0)
        self.loop.after(late_ms, lambda: self.asks_leader(counts))

    def is_requested(self, trigger: str) -> None:
        self.asks_leader({})

    def asks_leader(self, counts: Mapping[str, int]) -> None:
        self.waiting.append(AskedChange(counts, self.loop.now_ms))
        leader = self.leading()
        if leader is not None and leader in self.free:
            self.goes_on(leader)

    def leading(self) -> PlayedProcess | None:
        seat = self.seats.get(self.leader) if self.leader is not None else None
        seat = seat or next(iter(self.seats.values()), None)
        return seat.process if seat is not None else None

    def is_written(self, change: AskedChange, leader: PlayedProcess) -> None:
        """The leader has read it before it does anything else."""
        for name in change.counts:
            if name not in self.topics:
                self.late_ms[name] = self.loop.now_ms - change.asked_ms
        there = self.topics | dict(change.counts)
        self.is_configured({name: count for name, count in there.items() if count != CONNECTOR_ITSELF})
        for name, count in change.counts.items():
            if count > 0 and self.again.get(name, 0) > 0:
                self.again[name] -= 1
                self.loop.after(draw(self.rng, ASKS_AGAIN_MS), partial(self.asks_leader, {name: count}))
        self.change_count += 1
        self.has_read[leader] = self.change_count
        self.news.add(leader)
        for seat in self.seats.values():
            if seat.process.is_alive and seat.process is not leader:
                self.loop.after(draw(self.rng, self.timing.react_ms), partial(self.reads, seat.process))
        self.free.add(leader)
        self.goes_on(leader)

    def reads(self, process: PlayedProcess) -> None:
        self.has_read[process] = self.change_count
        self.news.add(process)
        self.goes_on(process)

    # ---- the workers

    def seats_initially(self, processes: list[PlayedProcess]) -> None:
        ConnectGroup.seats_initially(self, processes)
        self.free.update(processes)

    def asks_to_join(self, process: PlayedProcess) -> None:
        self.has_read[process] = self.has_said[process] = self.change_count
        ConnectGroup.asks_to_join(self, process)

    def goes_on(self, process: PlayedProcess) -> None:
        """The next act of a worker that is free; one that is busy comes back to it."""
        if process not in self.free or not process.is_alive or not self.has_seat(process):
            return
        if self.waiting and process is self.leading():
            self.free.discard(process)
            writes_ms = draw(self.rng, self.timing.eager.write_ms)
            self.loop.after(writes_ms, partial(self.is_written, self.waiting.popleft(), process))
            return
        if process in self.news or process in self.heard:
            self.heard.discard(process)
            self.news.discard(process)
            self.free.discard(process)
            self.lets_go(process)

    def reacts(self, process: PlayedProcess) -> None:
        if self.has_seat(process) and not self.seats[process.seat_key].has_joined and not process.is_joining:
            self.heard.add(process)
            self.goes_on(process)

    def lets_go(self, process: PlayedProcess) -> None:
        """Connectors stop at once, tasks when their poll is over; the worker joins when all have stopped."""
        process.is_joining = True
        now_ms = self.loop.now_ms
        tasks = [resource for resource in sorted(process.owned) if resource[1] != CONNECTOR_ITSELF]
        if self.polling_since_ms.get(process) == now_ms:
            tasks = [task for task in tasks if self.rng.random() < POLLS_AT_ONCE_SHARE]
        self.ledger.stops(process.owned.difference(tasks), process, now_ms)
        process.owned.clear()
        stopped_ms = self.tasks_stop_ms(process) if tasks else now_ms
        self.loop.at(stopped_ms, partial(self.have_stopped, tasks, process))
        self.loop.at(stopped_ms + draw(self.rng, self.timing.eager.stopped_ms), partial(self.joins, process))

    def have_stopped(self, tasks: list[Partition], process: PlayedProcess) -> None:
        self.ledger.stops(tasks, process, self.loop.now_ms)

    def tasks_stop_ms(self, process: PlayedProcess) -> float:
        ends_ms, pace = self.loop.now_ms, self.timing.eager
        if pace.poll_ms > 0:
            since_ms = self.polling_since_ms.get(process, ends_ms - self.rng.uniform(0, pace.poll_ms))
            ends_ms = since_ms + max(1, ceil((ends_ms - since_ms) / pace.poll_ms)) * pace.poll_ms
        return ends_ms + draw(self.rng, pace.commit_ms)

    def joins(self, process: PlayedProcess) -> None:
        said = self.has_said.get(process, 0)
        self.has_said[process] = self.has_read.get(process, 0)
        self.heard.discard(process)
        if self.state is State.PREPARING or not process.is_alive or not self.has_seat(process):
            ConnectGroup.joins(self, process)
            return
        process.is_joining = False
        process.asked_ms = self.loop.now_ms
        seat = self.seats[process.seat_key]
        if process is self.leading() or said != self.has_said[process]:
            self.prepare(Cause.CONNECT_CONFIG_CHANGED, seat)
            self.try_complete()
        elif self.state is State.STABLE:
            # Nobody else hears of it: the coordinator answers with the generation that there is.
            self.loop.after(self.delivering_ms(process), partial(self.is_given, seat, process, self.generation))

    def assigns(self, number: int) -> None:
        ClassicGroup.assigns(self, number)
        self.known = dict(self.topics)

    def is_given(self, seat: Seat, process: PlayedProcess, generation: int) -> None:
        """It has started its work; before that it could do nothing else."""
        ConnectGroup.is_given(self, seat, process, generation)
        if process.is_alive and self.has_seat(process):
            self.polling_since_ms[process] = self.loop.now_ms
            if self.state is State.PREPARING and not seat.has_joined and generation != self.generation:
                self.heard.add(process)
            self.has_tasks_written(process)
            self.free.add(process)
            self.goes_on(process)

    def has_tasks_written(self, process: PlayedProcess) -> None:
        """Each start of a connector whose worker knows of no tasks has them written: the history shows when the first
        one had. The leader needs no request for its own. A connector says just after its worker's other work that it
        has started: a worker that read a change meanwhile joins before it looks at that."""
        started = [name for name, task in sorted(process.owned) if task == CONNECTOR_ITSELF]
        before = self.unwritten.pop(process, [])
        if process in self.news:
            self.unwritten[process] = started
            started = []
        for name in (name for name in before + started if self.known.get(name) == 0):
            if name in self.started and process is not self.leading():
                self.again[name] = self.again.get(name, 0) + 1
            self.started.add(name)
