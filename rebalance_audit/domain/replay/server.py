"""The consumer group protocol (KIP-848): the coordinator assigns, each member reconciles at its own heartbeats.

Source: GroupMetadataManager, CurrentAssignmentBuilder and ConsumerMembershipManager of Kafka 4.3.0, in their effects.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from math import inf

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily

from .assignors import Partition, ServerMember, assign_server_ranges, assign_uniformly
from .ids import random_end
from .life import Life
from .outcome import Replayed
from .played import PlayedGroup
from .process import PlayedProcess
from .timing import SERVER_PACES, Draws, ServerPace, draw

ASSIGN: Mapping[str, Callable[[Mapping[int, int], list[ServerMember]], dict[str, dict[int, list[int]]]]] = {
    "uniform": assign_uniformly,
    "range": assign_server_ranges,
}
ASSIGNMENT_INTERVAL_MS = 1_000
"""group.consumer.assignment.interval.ms: a target is not computed sooner after the one before (4.3.0)."""


@cache
def topic_id(topic: str) -> int:
    """An id of 128 bits; which ones a real topic has is decided by chance, and so are ties."""
    return int.from_bytes(hashlib.sha256(topic.encode()).digest()[:16], "big")


@dataclass(slots=True, eq=False)
class ServerSeat:
    """A member as the coordinator has it."""

    process: PlayedProcess
    epoch: int = 0
    target: frozenset[Partition] = frozenset()
    assigned: set[Partition] = field(default_factory=set)
    to_revoke: set[Partition] = field(default_factory=set)
    beat_number: int = 0
    """Counts plans for the next heartbeat, so that an early one replaces the one planned before."""
    is_awake: bool = False
    """A heartbeat is planned. Those that would change nothing are not played, or a quiet month would take minutes."""


@dataclass(slots=True)
class ServerGroup(PlayedGroup):
    seats: dict[str, ServerSeat] = field(default_factory=dict)
    epoch: int = 0
    target_epoch: int = 0
    target_at_ms: float = -inf
    owners: dict[Partition, ServerSeat] = field(default_factory=dict)

    # ---- members come and go

    def seats_initially(self, processes: list[PlayedProcess]) -> None:
        for process in processes:
            seat = ServerSeat(process, target=frozenset(process.owned), assigned=set(process.owned))
            self.seats[process.seat_key] = seat
            self.owners |= dict.fromkeys(seat.assigned, seat)
            self.plan_beat(seat, process.next_beat_ms(self.loop.now_ms))

    def member_id_of(self, life: Life) -> str:
        return random_end(life.member_id)

    def drifts_ms(self) -> Draws:
        return self.timing.server_drift_ms

    def pace_of(self, process: PlayedProcess) -> ServerPace:
        return self.timing.server_pace or SERVER_PACES.get(process.family, SERVER_PACES[ClientFamily.LIBRDKAFKA])

    def has_seat(self, process: PlayedProcess) -> bool:
        seat = self.seats.get(process.seat_key)
        return seat is not None and seat.process is process

    def asks_to_join(self, process: PlayedProcess) -> None:
        process.is_in = True
        process.beats_begin(self.loop.now_ms, self.beat_ms)
        before = self.seats.get(process.seat_key)
        if before is not None:
            # A static member came back: its target stays, what it had is free for it at once.
            self.rewrite_count += 1
            self.releases(before)
            before.process, before.epoch = process, 0
            self.beats(before, before.beat_number)
            return
        seat = self.seats[process.seat_key] = ServerSeat(process)
        self.bumps(Cause.MEMBER_JOINED)
        self.beats(seat, seat.beat_number)
        empty_ms = self.pace_of(process).empty_ms
        if empty_ms is not None and not seat.assigned:
            self.plan_beat(seat, self.loop.now_ms + draw(self.rng, empty_ms))

    def bumps(self, trigger: str) -> None:
        self.epoch += 1
        self.rebalances.append(Replayed(self.loop.now_ms, trigger))
        self.computes_target()
        for seat in self.seats.values():
            if not seat.is_awake and seat.process.is_alive:
                self.plan_beat(seat, seat.process.next_beat_ms(self.loop.now_ms))

    def leaves(self, process: PlayedProcess, trigger: str) -> None:
        if not self.has_seat(process):
            return
        seat = self.seats.pop(process.seat_key)
        process.is_in = False
        self.releases(seat)
        self.bumps(trigger)
        if not self.seats:
            self.ledger.has_no_owner()

    def releases(self, seat: ServerSeat) -> None:
        held = [partition for partition in (*seat.assigned, *seat.to_revoke) if self.owners.get(partition) is seat]
        for partition in held:
            del self.owners[partition]
        self.ledger.are_given_up(held, self.loop.now_ms)
        seat.assigned.clear()
        seat.to_revoke.clear()

    def closes_without_leaving(self, process: PlayedProcess) -> None:
        """A static member says so (epoch -2), and its session begins once more. Another one is silent (KIP-1092)."""
        if process.instance_id is None:
            self.watch_session(process)
            return
        self.loop.after(self.settings.consumer_session_timeout_ms, lambda: self.expires(process))

    def watch_session(self, process: PlayedProcess, *, is_silent: bool = False) -> None:
        heard_ms = process.last_beat_ms(self.loop.now_ms)
        self.loop.at(heard_ms + self.settings.consumer_session_timeout_ms, lambda: self.expires(process))

    def expires(self, process: PlayedProcess) -> None:
        is_back = process.is_alive and process.busy_until_ms <= self.loop.now_ms
        if self.has_seat(process) and not is_back:
            self.leaves(process, Cause.STATIC_MEMBER_EXPIRED if process.instance_id else Cause.MEMBER_SESSION_EXPIRED)

    def catches_up(self, process: PlayedProcess) -> None:
        self.plan_beat(self.seats[process.seat_key], self.loop.now_ms)

    def is_requested(self, trigger: str) -> None:
        if self.seats and trigger == Cause.TOPIC_METADATA_CHANGED:
            self.bumps(trigger)

    # ---- the target

    def computes_target(self) -> None:
        """At once, or at the first heartbeat a second after the last one."""
        if self.target_epoch == self.epoch or self.loop.now_ms - self.target_at_ms < ASSIGNMENT_INTERVAL_MS:
            return
        names = {topic_id(topic): topic for topic in self.topics}
        members = [
            ServerMember(
                member_id=seat.process.member_id,
                instance_id=seat.process.instance_id,
                topic_ids=tuple(topic_id(t) for t in seat.process.life.topics or self.topics if t in self.topics),
                target=_by_topic(seat.target),
            )
            for seat in self.seats.values()
        ]
        counts = {topic_id(topic): count for topic, count in self.topics.items()}
        assigned = ASSIGN[self.settings.assignor](counts, members)
        for seat in self.seats.values():
            by_topic = assigned.get(seat.process.member_id, {})
            seat.target = frozenset((names[t], number) for t, numbers in by_topic.items() for number in numbers)
        self.target_epoch, self.target_at_ms = self.epoch, self.loop.now_ms

    # ---- reconciliation

    def plan_beat(self, seat: ServerSeat, at_ms: float) -> None:
        seat.beat_number += 1
        seat.is_awake = True
        number = seat.beat_number
        self.loop.at(at_ms, lambda: self.beats(seat, number))

    def beats(self, seat: ServerSeat, number: int) -> None:
        """One heartbeat: the coordinator moves the member as far as it can, and says so."""
        process = seat.process
        if number != seat.beat_number or not process.is_alive or not self.has_seat(process):
            return
        process.beats_from_ms = self.loop.now_ms
        seat.is_awake = False
        self.computes_target()
        if not seat.to_revoke:
            self.reconciles(seat)
        if self.target_epoch != self.epoch or seat.to_revoke or seat.assigned != seat.target:
            self.plan_beat(seat, process.next_beat_ms(self.loop.now_ms))

    def reconciles(self, seat: ServerSeat) -> None:
        surplus = seat.assigned - seat.target
        if surplus:
            seat.to_revoke = surplus
            seat.assigned -= surplus
            self.asks_to_revoke(seat, frozenset(surplus))
            return
        seat.epoch = self.target_epoch
        free = {p for p in seat.target - seat.assigned if p not in self.owners}
        if free:
            seat.assigned |= free
            self.owners |= dict.fromkeys(free, seat)
            process = seat.process
            at_ms = max(self.loop.now_ms + draw(self.rng, self.pace_of(process).deliver_ms), process.busy_until_ms)
            if at_ms != inf:
                self.loop.at(at_ms, lambda: self.takes(seat, process, free))

    def takes(self, seat: ServerSeat, process: PlayedProcess, partitions: set[Partition]) -> None:
        if process.is_alive and seat.process is process:
            begun = partitions & seat.assigned
            self.ledger.works(begun, process, self.loop.now_ms)
            process.owned |= begun
            process.wakes_from_ms = self.loop.now_ms
            self.plan_beat(seat, self.loop.now_ms)  # it acknowledges at once

    def asks_to_revoke(self, seat: ServerSeat, partitions: frozenset[Partition]) -> None:
        process = seat.process
        at_ms = max(self.loop.now_ms + draw(self.rng, self.pace_of(process).react_ms), process.busy_until_ms)
        if at_ms != inf:
            self.loop.at(at_ms, lambda: self.revokes(seat, process, partitions))

    def revokes(self, seat: ServerSeat, process: PlayedProcess, partitions: frozenset[Partition]) -> None:
        if not process.is_alive or seat.process is not process:
            return
        self.ledger.stops(partitions, process, self.loop.now_ms)
        process.owned -= partitions
        self.loop.after(
            draw(self.rng, self.pace_of(process).revoke_ms),
            lambda: self.has_revoked(seat, process, partitions),
        )

    def has_revoked(self, seat: ServerSeat, process: PlayedProcess, partitions: frozenset[Partition]) -> None:
        if not process.is_alive or seat.process is not process:
            return
        for partition in partitions & seat.to_revoke:
            if self.owners.get(partition) is seat:
                del self.owners[partition]
        seat.to_revoke -= partitions
        self.plan_beat(seat, self.loop.now_ms)


def _by_topic(partitions: frozenset[Partition]) -> dict[int, tuple[int, ...]]:
    found: dict[int, list[int]] = {}
    for topic, number in sorted(partitions):
        found.setdefault(topic_id(topic), []).append(number)
    return {topic: tuple(numbers) for topic, numbers in found.items()}
