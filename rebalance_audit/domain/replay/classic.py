"""The classic group protocol, eager and cooperative, with static members (KIP-62, KIP-345, KIP-429).

Source: GroupCoordinator and ConsumerCoordinator of Kafka 3.9 and 4.3.0, in their effects: who waits for whom. How long
members take for what they do stands in `classic_members`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from rebalance_audit.domain.causes import SESSION_EXPIRED, Cause
from rebalance_audit.domain.client_families import ClientFamily

from .assignors import Partition, Subscriber
from .classic_members import ClassicMembers, Seat, State
from .leader import shared_out
from .outcome import Replayed
from .process import PlayedProcess
from .timing import REACT_MS, draw

BESIDE_BEATS = SESSION_EXPIRED | {Cause.MEMBER_POLL_TIMEOUT}
"""These come at the very time of other members' heartbeats: sessions end so many intervals after a heartbeat, and
librdkafka notices that its application does not poll when its thread wakes, as it does for heartbeats."""
BEAT_CHECK_MS = 100
"""While the application is busy, only the heartbeat thread of Java's consumer sends heartbeats. It looks once in
retry.backoff.ms whether one is due, and counts the next interval from there. Where the poll interval is over when it
looks, it sends none any more (AbstractCoordinator.HeartbeatThread)."""
SAME_WAKE_MS = 1
"""What is due within this time is done in one go."""


@dataclass(slots=True)
class ClassicGroup(ClassicMembers):
    """One run of one script under one set of settings."""

    has_initial_delay: bool = False
    has_news: bool = False
    delays_again: bool | None = None
    """What Timing.delays_again says, or what was drawn for this run."""
    leader: str | None = None
    due: tuple[float, int] = (0.0, 0)
    """The deadline of the round with the number `due_round`."""
    due_round: int = -1
    has_alarm: bool = False
    """There is one at a time."""
    follow_up: Cause = Cause.COOPERATIVE_FOLLOW_UP
    """Why a member joins again that had to give something up."""

    # ---- the script

    def seats_initially(self, processes: list[PlayedProcess]) -> None:
        self.state = State.STABLE
        for process in processes:
            self.seats[process.seat_key] = Seat(
                process, process.session_timeout_ms, assigned=process.life.owned_at_first, claim=self.claim(process)
            )

    def closes_without_leaving(self, process: PlayedProcess) -> None:
        """Its last commit restarts its session (GroupCoordinator.doCommitOffsets, and
        OffsetMetadataManager.validateOffsetCommit from 4.0 on)."""
        self.watch_session(process, heard_ms=self.loop.now_ms)

    def catches_up(self, process: PlayedProcess) -> None:
        if self.state is State.PREPARING:
            self.reacts(process)

    def is_requested(self, trigger: str) -> None:
        """Some member that can poll re-joins by itself; the leader, if it lives."""
        seats = [self.seats[self.leader]] if self.leader in self.seats else []
        for seat in [*seats, *self.seats.values()]:
            if seat.process.is_alive and self.state is State.STABLE:
                self.prepare(trigger)
                self.reacts(seat.process)
                return

    # ---- the coordinator

    def has_seat(self, process: PlayedProcess) -> bool:
        seat = self.seats.get(process.seat_key)
        return seat is not None and seat.process is process

    def asks_to_join(self, process: PlayedProcess) -> None:
        process.renamed(self.rng)
        process.asked_ms = self.loop.now_ms
        before = self.seats.get(process.seat_key)
        process.is_in = True
        if before is not None:
            self.takes_over(before, process)
            return
        seat = Seat(process, process.session_timeout_ms, has_joined=True, claim=self.claim(process))
        self.seats[process.seat_key] = seat
        if self.state is State.PREPARING:
            self.has_news = True
            self.try_complete()
        elif self.state is State.EMPTY:
            self.prepare(Cause.MEMBER_JOINED, seat)
        else:
            self.prepare(Cause.MEMBER_JOINED, seat)
            self.try_complete()

    def takes_over(self, seat: Seat, process: PlayedProcess) -> None:
        """A static member came back: it gets what the one before it had, at once if the group is stable."""
        seat.process = process
        process.remembered = ()
        seat.claim = self.claim(process)
        if self.state is State.STABLE:
            self.rewrite_count += 1
            delay_ms = draw(self.rng, self.timing.sync_ms)
            delay_ms += self.delivering_ms(process)
            generation = self.generation
            process.beats_begin(self.loop.now_ms, self.beat_ms)
            self.loop.after(delay_ms, lambda: self.is_given(seat, process, generation))
        elif self.state is State.PREPARING:
            seat.has_joined = True
            self.try_complete()
        else:
            seat.has_joined = True
            self.prepare(Cause.STATIC_MEMBER_REPLACED, seat)
            self.try_complete()

    def prepare(self, trigger: str, joined: Seat | None = None) -> None:
        was_empty, was_completing = self.state is State.EMPTY, self.state is State.COMPLETING
        self.rebalances.append(Replayed(self.loop.now_ms, trigger))
        self.state = State.PREPARING
        self.round += 1
        self.has_initial_delay = was_empty and self.settings.initial_delay_ms > 0
        timeout_ms = 0
        for seat in self.seats.values():
            seat.has_joined = seat is joined
            if seat.process.poll_interval_ms > timeout_ms:
                timeout_ms = seat.process.poll_interval_ms
        number = self.round
        if self.has_initial_delay:
            # A rebalance timeout that is shorter does not shorten it (InitialDelayedJoin, prepareRebalance).
            delay_ms = self.settings.initial_delay_ms
            self.has_news = False
            self.loop.after(delay_ms, lambda: self.ends_delay(number, max(timeout_ms - delay_ms, 0)))
            return
        self.is_due_after(timeout_ms)
        now_ms = self.loop.now_ms
        hearing: list[tuple[float, PlayedProcess]] = []
        for seat in self.seats.values():
            process = seat.process
            if seat is not joined and process.is_alive:
                # Who waits for its assignment hears at once, the others at their next heartbeat.
                hears_ms = now_ms if was_completing else process.next_beat_ms(now_ms)
                if trigger == Cause.COOPERATIVE_FOLLOW_UP and seat.first_generation == self.generation:
                    hears_ms = self.newcomer_hears_ms(process, hears_ms)
                if trigger in BESIDE_BEATS:
                    hears_ms = self.beat_beside_ms(process, hears_ms)
                hearing.append((hears_ms, process))
        self.hear(hearing, number)
        if was_empty:
            self.try_complete()

    def is_due_after(self, timeout_ms: int) -> None:
        """The alarm of an earlier round is set anew when it rings: nearly every round is over long before its time."""
        self.due = self.loop.place_after(timeout_ms)
        self.due_round = self.round
        if not self.has_alarm:
            self.has_alarm = True
            self.loop.put(self.due, self.rings)

    def rings(self) -> None:
        self.has_alarm = False
        if self.due_round != self.round or self.state is not State.PREPARING:
            return
        if self.due[0] > self.loop.now_ms:
            self.has_alarm = True
            self.loop.put(self.due, self.rings)
        else:
            self.is_overdue(self.round)

    def hear(self, hearing: list[tuple[float, PlayedProcess]], number: int) -> None:
        """A history shows how late the last one of a join phase was. That is drawn once: the others, who hear of it
        with the same heartbeat or an earlier one, were no later, whatever kept the last one."""
        if not hearing:
            return
        late_ms = draw(self.rng, self.timing.react_ms)
        last_ms = max(hears_ms for hears_ms, _ in hearing)
        is_last_known = False
        for hears_ms, process in hearing:
            is_last = hears_ms == last_ms and not is_last_known
            is_last_known = is_last_known or is_last
            own_ms = late_ms if is_last else min(late_ms, draw(self.rng, REACT_MS))
            self.loop.at(hears_ms + own_ms, partial(self.hears, process, number))

    def ends_delay(self, number: int, left_ms: float) -> None:
        if number != self.round or self.state is not State.PREPARING:
            return
        if self.has_news and left_ms > 0 and self.is_delayed_again():
            self.has_news = False
            delay_ms = min(self.settings.initial_delay_ms, left_ms)
            self.loop.after(delay_ms, lambda: self.ends_delay(number, left_ms - delay_ms))
            return
        self.has_initial_delay = False
        self.try_complete()

    def is_delayed_again(self) -> bool:
        """Whether the delay begins once more for members that came in it: for a new group always. One that was emptied
        gets more time only from the coordinator in Java (addMemberThenRebalanceOrCompleteJoin), not from that in Scala,
        the default up to 3.9 (addMemberAndRebalance: a generation of 0). Where the history does not show which it is,
        it is either in half of the runs."""
        if self.script.is_new and self.generation == 0:
            return True
        if self.delays_again is None:
            shown = self.timing.delays_again
            self.delays_again = self.rng.random() < 0.5 if shown is None else shown
        return self.delays_again

    def hears(self, process: PlayedProcess, number: int) -> None:
        if number == self.round and self.state is State.PREPARING:
            self.reacts(process)

    def reacts(self, process: PlayedProcess) -> None:
        """The polling thread joins: at once, or when what it is busy with is done."""
        if not process.is_alive or not self.has_seat(process) or process.is_joining:
            return
        if process.busy_until_ms > self.loop.now_ms:
            if process.busy_until_ms != float("inf"):
                self.loop.at(process.busy_until_ms, lambda: self.reacts(process))
            return
        if self.seats[process.seat_key].has_joined:
            return
        if self.settings.is_cooperative:
            self.joins(process)
            return
        self.lets_go(process)

    def lets_go(self, process: PlayedProcess) -> None:
        """Eager: of everything, and asks to join then."""
        process.is_joining = True
        revoking_ms = self.revoking_ms(process)
        self.ledger.stops(process.owned, process, self.loop.now_ms)
        process.owned.clear()
        self.loop.after(revoking_ms, lambda: self.joins(process))

    def joins(self, process: PlayedProcess) -> None:
        process.is_joining = False
        if not process.is_alive or not self.has_seat(process):
            return
        seat = self.seats[process.seat_key]
        process.asked_ms = self.loop.now_ms
        seat.claim = self.claim(process)
        if self.state is State.PREPARING:
            seat.has_joined = True
            self.try_complete()
        elif self.settings.is_cooperative:
            self.prepare(self.follow_up, seat)
            self.try_complete()
        else:
            # The round ended without it (a static member keeps its place): it gets what it has.
            self.is_given(seat, process, self.generation)

    def try_complete(self) -> None:
        if self.state is not State.PREPARING or self.has_initial_delay:
            return
        for seat in self.seats.values():
            if not seat.has_joined:
                return
        if self.seats:
            self.complete()

    def is_overdue(self, number: int) -> None:
        """A member that did not join within the rebalance timeout is put out; static members keep their place."""
        if number != self.round or self.state is not State.PREPARING:
            return
        for key, seat in list(self.seats.items()):
            if not seat.has_joined and seat.process.instance_id is None:
                self.lose_seat(key)
        if any(seat.has_joined for seat in self.seats.values()):
            self.complete()
        elif not self.seats:
            self.is_emptied()

    def complete(self) -> None:
        self.generation += 1
        self.completed_ms = self.loop.now_ms
        self.state = State.COMPLETING
        number, are_new = self.round, True
        for seat in self.seats.values():
            process = seat.process
            if seat.first_generation is None:
                seat.first_generation = self.generation
            else:
                are_new = False
            if seat.has_joined and process.is_alive:
                process.joined(self.loop.now_ms, self.beat_ms)
                if process.keeps_beats and process.lives_on > 1 and seat.first_generation == self.generation:
                    process.beats_within(draw(self.rng, self.timing.return_beat_ms))
        sync_ms = self.timing.first_sync_ms if are_new else None
        self.loop.after(draw(self.rng, sync_ms or self.timing.sync_ms), lambda: self.assigns(number))

    def assigns(self, number: int) -> None:
        if number != self.round or self.state is not State.COMPLETING:
            return
        self.state = State.STABLE
        if self.leader not in self.seats:
            self.leader = next(iter(self.seats), None)
        claims = [seat.claim for seat in self.seats.values() if seat.claim is not None]
        assigned = self.shares_out(claims)
        generation = self.generation
        for seat in self.seats.values():
            now = tuple(assigned.get(seat.claim.member_id, ())) if seat.claim is not None else ()
            if seat.assigned and seat.assigned != now:
                self.ledger.are_given_up(set(seat.assigned).difference(now), self.loop.now_ms)
            seat.assigned = now
            if seat.has_joined and seat.process.is_alive:
                self.loop.after(
                    self.delivering_ms(seat.process), partial(self.is_given, seat, seat.process, generation)
                )

    def shares_out(self, claims: list[Subscriber]) -> Mapping[str, Sequence[Partition]]:
        """The assignment that the leader computes; NotAssigned where Kafka's own leader finds none."""
        return shared_out(self.settings.assignor, self.topics, claims)

    def is_given(self, seat: Seat, process: PlayedProcess, generation: int) -> None:
        """The member gets its assignment; a cooperative one that must give partitions up does so, and joins again."""
        if generation != self.generation or seat.process is not process or not process.is_alive:
            return
        now_ms = self.loop.now_ms
        given = set(seat.assigned)
        revoked = process.owned - given
        if revoked:
            self.ledger.stops(revoked, process, now_ms)
        self.ledger.works(given, process, now_ms)
        process.owned = given
        process.generation = process.remembered_generation = generation
        process.remembered = seat.assigned
        if revoked and self.settings.is_cooperative:
            self.loop.after(self.rejoining_ms(process), lambda: self.joins(process))

    def leaves(self, process: PlayedProcess, trigger: str) -> None:
        if not self.has_seat(process):
            return
        self.lose_seat(process.seat_key)
        self.after_loss(trigger)

    def lose_seat(self, key: str) -> None:
        seat = self.seats.pop(key)
        seat.process.is_in = False
        self.ledger.are_given_up(seat.assigned, self.loop.now_ms)

    def after_loss(self, trigger: str) -> None:
        if not self.seats:
            if self.state is not State.PREPARING:
                self.rebalances.append(Replayed(self.loop.now_ms, trigger))
            self.is_emptied()
        elif self.state is State.PREPARING:
            self.try_complete()
        else:
            self.prepare(trigger)
            self.try_complete()

    def is_emptied(self) -> None:
        self.state = State.EMPTY
        self.generation += 1
        self.round += 1
        self.leader = None
        self.ledger.has_no_owner()

    def watch_session(self, process: PlayedProcess, *, is_silent: bool = False, heard_ms: float | None = None) -> None:
        seat = self.seats.get(process.seat_key)
        if seat is None or seat.process is not process:
            return
        if heard_ms is None:
            waits_for_join = self.state is State.PREPARING and seat.has_joined
            heard_ms = self.loop.now_ms if waits_for_join else process.last_beat_ms(self.loop.now_ms)
            if is_silent and process.family is ClientFamily.JAVA:
                heard_ms = process.last_late_beat_ms(self.loop.now_ms, self.rng, BEAT_CHECK_MS)
            elif is_silent and process.family is ClientFamily.LIBRDKAFKA:
                # It sends the heartbeat that is due when it wakes, and looks at the polls then (rd_kafka_thread_main).
                heard_ms = process.last_beat_ms(self.loop.now_ms + SAME_WAKE_MS)
        expires_ms = heard_ms + seat.session_timeout_ms + draw(self.rng, self.timing.expire_ms)
        self.loop.at(expires_ms, lambda: self.expires(process, is_silent))

    def expires(self, process: PlayedProcess, is_silent: bool) -> None:
        if not self.has_seat(process) or (process.is_alive and not is_silent):
            return
        if is_silent and process.busy_until_ms <= self.loop.now_ms:
            return
        self.leaves(
            process, Cause.STATIC_MEMBER_EXPIRED if process.instance_id is not None else Cause.MEMBER_SESSION_EXPIRED
        )
