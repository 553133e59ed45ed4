"""Members of the classic group protocol: what they say when they join, and how long they take for what they do.

When the coordinator waits for them, and what becomes of that, stands in `classic`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, auto

from rebalance_audit.domain.client_families import ClientFamily

from .assignors import Partition, Subscriber
from .played import PlayedGroup
from .process import PlayedProcess
from .timing import DELIVER_MS, FIRST_DELIVER_MS, NEWCOMER_SYNC_MS, REJOIN_MS, REVOKE_MS, draw

FORGETFUL = ("range", "roundrobin")
"""Assignors that do not ask what members own."""


class State(Enum):
    EMPTY = auto()
    PREPARING = auto()
    COMPLETING = auto()
    STABLE = auto()


class Seat:
    """A member as the coordinator has it."""

    def __init__(
        self,
        process: PlayedProcess,
        session_timeout_ms: int,
        *,
        has_joined: bool = False,
        assigned: tuple[Partition, ...] = (),
        claim: Subscriber | None = None,
    ) -> None:
        self.process = process
        self.session_timeout_ms = session_timeout_ms
        self.has_joined = has_joined
        self.assigned = assigned
        self.claim = claim
        """The subscription of its last request to join."""
        self.first_generation: int | None = None
        """The first that it had a place in."""


@dataclass(slots=True)
class ClassicMembers(PlayedGroup):
    """The seats of a group, and the times of those who have them."""

    state: State = State.EMPTY
    generation: int = 0
    seats: dict[str, Seat] = field(default_factory=dict)
    round: int = 0
    """Counts preparations, so that an old deadline does not end a new one."""
    revoking_round: int = -1
    revoking: dict[ClientFamily, float] = field(default_factory=dict)
    """By library, from the revoked callback to the request to join, in that preparation."""
    completed_ms: float = 0.0
    """The end of the latest join phase."""

    # ---- what a member says of itself

    def claim(self, process: PlayedProcess) -> Subscriber:
        if self.settings.assignor in FORGETFUL:
            return self.forgetful_claim(process)
        is_sticky = self.settings.assignor == "sticky"
        return Subscriber(
            member_id=process.member_id,
            instance_id=process.instance_id,
            topics=process.life.topics or tuple(self.topics),
            owned=process.remembered if is_sticky else tuple(sorted(process.owned)),
            generation=process.remembered_generation if is_sticky else process.generation,
            joined_generation=process.generation,
        )

    def forgetful_claim(self, process: PlayedProcess) -> Subscriber:
        """Nothing in it changes from one join phase to the next."""
        claim, topics = process.claimed, process.life.topics or tuple(self.topics)
        if claim is None or claim.member_id != process.member_id or claim.topics != topics:
            claim = Subscriber(member_id=process.member_id, instance_id=process.instance_id, topics=topics)
            process.claimed = claim
        return claim

    # ---- when it hears, lets go and begins

    def newcomer_hears_ms(self, process: PlayedProcess, beat_ms: float) -> float:
        """A follow-up can begin before a newcomer's first SyncGroup came. That is answered with it then."""
        of_library = NEWCOMER_SYNC_MS.get(process.family, NEWCOMER_SYNC_MS[ClientFamily.LIBRDKAFKA])
        syncs_ms = self.completed_ms + draw(self.rng, self.timing.newcomer_sync_ms or of_library)
        return syncs_ms if syncs_ms > self.loop.now_ms else beat_ms

    def beat_beside_ms(self, process: PlayedProcess, next_ms: float) -> float:
        """A heartbeat of the same instant may come just before or just after."""
        now_ms, differ_ms = self.loop.now_ms, self.timing.beats_differ_ms
        if differ_ms < next_ms - now_ms < self.beat_ms - differ_ms or differ_ms == 0:
            return next_ms
        return max(now_ms, process.next_beat_ms(now_ms + self.rng.uniform(-differ_ms, differ_ms)))

    def revoking_ms(self, process: PlayedProcess) -> float:
        """Lab runs and histories show it of the member that joins last, so it is drawn once for a join phase."""
        if self.revoking_round != self.round:
            self.revoking_round = self.round
            self.revoking.clear()
        if process.family not in self.revoking:
            self.revoking[process.family] = draw(self.rng, self.timing.revoke_ms or REVOKE_MS[process.family])
        return self.revoking[process.family]

    def rejoining_ms(self, process: PlayedProcess) -> float:
        of_library = REJOIN_MS.get(process.family, REJOIN_MS[ClientFamily.LIBRDKAFKA])
        return draw(self.rng, self.timing.rejoin_ms or of_library)

    def delivering_ms(self, process: PlayedProcess) -> float:
        of_libraries = DELIVER_MS if process.was_assigned else FIRST_DELIVER_MS
        process.was_assigned = True
        return draw(self.rng, self.timing.deliver_ms or of_libraries[process.family])
