"""A consumer process in a replay: what it runs on, when it heartbeats, when it polls."""

from __future__ import annotations

import math
from random import Random

from rebalance_audit.domain.client_families import ClientFamily

from .assignors import Partition, Subscriber
from .life import Life

FIRST_SESSION_MS = 45_000
"""session.timeout.ms of the Java consumer since 3.0 (KIP-735), where the history does not show it."""
FIRST_POLL_INTERVAL_MS = 300_000
"""max.poll.interval.ms of the Java consumer, where the history does not show it."""
WAKES_MS = 500
"""librdkafka's thread looks so often whether the application still polls."""


class PlayedProcess:
    """Not a dataclass: compiled, one whose `__init__` stands here is made in a fraction of the time."""

    def __init__(
        self,
        life: Life,
        instance_id: str | None,
        member_id: str,
        session_timeout_ms: int,
        poll_interval_ms: int,
        family: ClientFamily = ClientFamily.JAVA,
        *,
        keeps_beats: bool = False,
    ) -> None:
        self.life = life
        self.instance_id = instance_id
        self.member_id = member_id
        self.session_timeout_ms = session_timeout_ms
        self.poll_interval_ms = poll_interval_ms
        self.family = family
        """The library that it is played as."""
        self.keeps_beats = keeps_beats
        """Its heartbeats are counted on over a join, as librdkafka's are."""
        self.is_alive = False
        self.busy_since_ms = -math.inf
        self.busy_until_ms = -math.inf
        self.owned: set[Partition] = set()
        self.generation = -1
        """The generation of what it owns; -1 once it lost its place."""
        self.remembered: tuple[Partition, ...] = ()
        """Partitions it had, by the sticky assignor's user data; they survive a revocation, not a restart."""
        self.remembered_generation = -1
        self.beats_from_ms = 0.0
        self.has_beaten = False
        self.beat_ms = 3_000.0
        self.was_assigned = False
        """It has been given an assignment before."""
        self.is_in = False
        """It believes that it is a member."""
        self.claimed: Subscriber | None = None
        """What its last request to join said, for an assignor that does not ask what it owns."""
        self.wakes_from_ms = 0.0
        """From its latest assignment on librdkafka's thread looks at what is due."""
        self.asked_ms = 0.0
        """When it asked to join last."""
        self.is_joining = False
        """It has given up what it had to, and its request to join is on its way."""
        self.lives_on = 0
        """How many memberships it has had."""
        self.seat_key = member_id if instance_id is None else f"static {instance_id}"
        """Its name at the coordinator: an instance id outlives the process, a member id does not."""

    def next_beat_ms(self, now_ms: float) -> float:
        """Heartbeats are counted from the last join, which restarts them."""
        beats = (now_ms - self.beats_from_ms) // self.beat_ms + 1
        return self.beats_from_ms + (beats if beats > 1 else 1) * self.beat_ms

    def last_beat_ms(self, now_ms: float) -> float:
        beats = (now_ms - self.beats_from_ms) // self.beat_ms
        return self.beats_from_ms + (beats if beats > 0 else 0) * self.beat_ms

    def last_late_beat_ms(self, now_ms: float, rng: Random, late_ms: float) -> float:
        """The last heartbeat by `now_ms` of a process that is busy: each comes up to `late_ms` late, and the next
        interval begins there."""
        last_ms = self.last_beat_ms(max(self.busy_since_ms, self.beats_from_ms))
        while (next_ms := last_ms + self.beat_ms + rng.uniform(0, late_ms)) <= now_ms:
            last_ms = next_ms
        return last_ms

    def joined(self, at_ms: float, beat_ms: float) -> None:
        """Its heartbeats start again. librdkafka's are counted on from the last one: it sends none while it joins, and
        one that was due meanwhile at once when it has (rd_kafka_cgrp_serve, rd_interval). It looks for that when its
        thread wakes, twice in a second from the assignment on (rd_kafka_cgrp_max_poll_interval_check_tmr_cb)."""
        self.wakes_from_ms = at_ms
        if self.keeps_beats and self.has_beaten:
            due_ms = self.next_beat_ms(self.asked_ms)
            if due_ms > at_ms:
                at_ms = self._woken_ms(due_ms, beat_ms) - beat_ms
        self.beats_from_ms, self.has_beaten, self.beat_ms = at_ms, True, beat_ms

    def beats_within(self, ms: float) -> None:
        """Its first heartbeat after the join phase comes no later than that."""
        self.beats_from_ms = min(self.beats_from_ms, self.wakes_from_ms + ms - self.beat_ms)

    def beats_begin(self, at_ms: float, beat_ms: float) -> None:
        self.beats_from_ms = self.wakes_from_ms = at_ms
        self.has_beaten = True
        self.beat_ms = beat_ms

    def notices_ms(self, overdue_ms: float) -> float:
        """When it notices that its application has not polled in time: librdkafka when its thread wakes next. Where the
        library is not known its history shows no more than when it left."""
        is_woken = self.life.family is ClientFamily.LIBRDKAFKA
        return self._woken_ms(overdue_ms, self.beat_ms) if is_woken else overdue_ms

    def _woken_ms(self, at_ms: float, beat_ms: float) -> float:
        """The first time from then on that librdkafka's thread wakes. Its heartbeats fall on such times, too."""
        wake_ms = beat_ms / max(1, round(beat_ms / WAKES_MS))
        return self.wakes_from_ms + math.ceil((at_ms - self.wakes_from_ms) / wake_ms) * wake_ms

    def renamed(self, rng: Random) -> None:
        """A member that comes back without its place gets a new id."""
        self.lives_on += 1
        if self.lives_on > 1:
            prefix = self.instance_id or self.life.client_id or "consumer"
            self.member_id = f"{prefix}-{rng.getrandbits(128):032x}"
            if self.instance_id is None:
                self.seat_key = self.member_id
