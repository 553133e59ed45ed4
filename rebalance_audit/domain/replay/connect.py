"""Connect's workers, eager and incremental cooperative with the scheduled delay (KIP-415), as a classic group.

A resource is (connector, task), with task -1 for the connector itself. Source: WorkerCoordinator, DistributedHerder and
the two assignors of Kafka 4.3.0, in their effects.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily

from .assignors import Assigned, IncrementalAssignor, Subscriber, Work, assign_connect_eagerly
from .assignors.consumers import Partition
from .classic import ClassicGroup
from .classic_members import Seat, State
from .life import Grown
from .process import PlayedProcess
from .timing import REVOKE_MS, Draws, draw

CONNECTOR_ITSELF = -1
EAGER = "default"
"""The eager protocol's name in group records."""
START_MS: Mapping[bool, Draws] = {True: (6, 13, 17, 22, 29, 35, 60), False: (27, 52, 66, 76, 94, 120, 270)}
"""From the group record to the start on its worker's own clock, of connectors (True) and of tasks, where the worker
has started one of that kind before: 176 and 440 of them in the golden captures of Connect (2.3.1 to 4.3.0) and the
pairs."""
FIRST_START_MS: Mapping[bool, Draws] = {
    True: (19, 50, 68, 82, 102, 128, 206),
    False: (74, 113, 143, 165, 195, 241, 350),
}
"""The same of the first of its kind since the worker began (117 and 122): its classes have to be loaded."""
OF_WORKERS: Mapping[str, str] = {
    Cause.MEMBER_JOINED: Cause.CONNECT_WORKER_JOINED,
    Cause.MEMBER_LEFT: Cause.CONNECT_WORKER_LEFT,
}


def work_of(resources: tuple[Partition, ...]) -> Work:
    names = [name for name, task in resources if task == CONNECTOR_ITSELF]
    return Work.of(names, [resource for resource in resources if resource[1] != CONNECTOR_ITSELF])


def resources_of(work: Work) -> list[Partition]:
    return [(name, CONNECTOR_ITSELF) for name in work.connectors] + list(work.tasks)


def resources_in(counts: Mapping[str, int]) -> list[Partition]:
    """`counts`: tasks by connector."""
    return [(name, task) for name, count in counts.items() for task in range(CONNECTOR_ITSELF, count)]


@dataclass(slots=True)
class ConnectGroup(ClassicGroup):
    follow_up: Cause = Cause.CONNECT_REVOCATION_FOLLOW_UP
    memory: IncrementalAssignor | None = None
    memory_of: PlayedProcess | None = None
    """The leader that keeps this memory; a new leader begins with an empty one."""
    is_asked_again: bool = False
    """A configuration changed while the workers were joining: they join once more."""
    stopped_generation: int = -1
    """The generation whose tasks were stopped last, in this time."""
    stopped_ms: float = 0.0
    synced: dict[PlayedProcess, int] = field(default_factory=dict)
    """The last generation of which each worker heard the assignment."""
    have_started: set[tuple[PlayedProcess, bool]] = field(default_factory=set)
    """Workers with True where they have started a connector, with False where they have started a task."""

    def prepare(self, trigger: str, joined: Seat | None = None) -> None:
        ClassicGroup.prepare(self, OF_WORKERS.get(trigger, trigger), joined)

    def after_loss(self, trigger: str) -> None:
        ClassicGroup.after_loss(self, OF_WORKERS.get(trigger, trigger))

    def grows(self, grown: Grown) -> None:
        """Connectors were made, changed or deleted: every worker reads that for itself, and joins again, except an
        eager one that knew of it when it joined before."""
        self.is_configured(grown.partitions)
        self.all_join_again(Cause.CONNECT_CONFIG_CHANGED, grown.heard_by_heartbeat)

    def is_configured(self, counts: Mapping[str, int]) -> None:
        """`counts`: tasks by connector."""
        before, after = resources_in(self.topics), resources_in(counts)
        for resource in after:
            self.ledger.appears(resource)
        self.ledger.are_gone(set(before).difference(after), self.loop.now_ms)
        self.topics = dict(counts)

    def is_requested(self, trigger: str) -> None:
        self.all_join_again(Cause.CONNECT_CONFIG_CHANGED)

    def all_join_again(self, trigger: Cause, but_for: frozenset[str] = frozenset()) -> None:
        """`but_for`: client ids of workers that learn of it at their heartbeat."""
        if self.state in (State.PREPARING, State.COMPLETING):
            self.is_asked_again = trigger == Cause.CONNECT_CONFIG_CHANGED
        elif self.state is State.STABLE:
            self.prepare(trigger)
        for seat in list(self.seats.values()):
            process = seat.process
            if process.is_alive and process.life.client_id not in but_for:
                self.loop.after(draw(self.rng, self.timing.react_ms), partial(self.reacts, process))

    def assigns(self, number: int) -> None:
        ClassicGroup.assigns(self, number)
        if self.is_asked_again and self.state is State.STABLE:
            self.is_asked_again = False
            self.loop.after(draw(self.rng, self.timing.react_ms), self.is_changed)

    def is_changed(self) -> None:
        self.all_join_again(Cause.CONNECT_CONFIG_CHANGED)

    def shares_out(self, claims: list[Subscriber]) -> Assigned:
        if not self.settings.is_cooperative:
            given = assign_connect_eagerly(self.topics, [c.member_id for c in claims])
            return {w: [(name, CONNECTOR_ITSELF) for name in names] + tasks for w, (names, tasks) in given.items()}
        leader = self.seats[self.leader].process if self.leader is not None else None
        if self.memory is None or self.memory_of is not leader:
            self.memory, self.memory_of = IncrementalAssignor(self.settings.connect_delay_ms), leader
        running = {c.member_id: work_of(c.owned) for c in claims}
        completed = self.synced.get(leader, -1) if leader is not None else -1
        round_ = self.memory.assign(
            self.topics, running, generation=self.generation, last_completed_generation=completed,
            now_ms=round(self.loop.now_ms),
        )  # fmt: skip
        for seat in self.seats.values():
            self.synced[seat.process] = self.generation
        if round_.delay_ms > 0:
            number = self.round
            self.loop.after(round_.delay_ms, lambda: self.delay_ends(number))
        found: Assigned = {}
        for member_id, work in running.items():
            kept = round_.added[member_id].copy()
            kept.add(work.without(round_.revoked[member_id]))
            found[member_id] = resources_of(kept)
        return found

    def delivering_ms(self, process: PlayedProcess) -> float:
        """The mean over all that the worker starts."""
        kinds = [task == CONNECTOR_ITSELF for _, task in self.seats[process.seat_key].assigned]
        total_ms = 0.0
        for is_connector in (True, False):
            count = kinds.count(is_connector)
            if count > 0:
                of_workers = START_MS if (process, is_connector) in self.have_started else FIRST_START_MS
                self.have_started.add((process, is_connector))
                total_ms += count * draw(self.rng, self.timing.deliver_ms or of_workers[is_connector])
        return total_ms / len(kinds) if kinds else draw(self.rng, self.timing.react_ms)

    def revoking_ms(self, process: PlayedProcess) -> float:
        """Tasks end what they poll for; connectors stop at once. Histories show the mean up to the end of the join
        phase, which the slowest worker decides: it is drawn once for a generation."""
        if all(task == CONNECTOR_ITSELF for _, task in process.owned):
            return draw(self.rng, self.timing.react_ms)
        if self.stopped_generation != self.generation:
            self.stopped_generation, self.stopped_ms = self.generation, self.stopping_ms()
        return self.stopped_ms

    def rejoining_ms(self, process: PlayedProcess) -> float:
        return self.stopping_ms()

    def stopping_ms(self) -> float:
        return draw(self.rng, self.timing.revoke_ms or REVOKE_MS[ClientFamily.JAVA])

    def delay_ends(self, number: int) -> None:
        """Every worker got the same delay, and joins again when it is over."""
        if number == self.round:
            self.all_join_again(Cause.CONNECT_DELAY_EXPIRED)

    def is_emptied(self) -> None:
        ClassicGroup.is_emptied(self)
        self.memory = None
