"""How fast this group's members and coordinator are, as its own history shows; where it shows nothing, as the lab's do.

All milliseconds. Each value is a list to draw from.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

Draws = tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    react_ms: Draws = (4, 6, 8, 12, 15, 20, 40)
    """From the heartbeat that says the group rebalances to the request to join: the next poll, and the way."""
    revoke_ms: Draws = (8, 10, 12, 15, 20, 30, 60)
    """To give partitions up, with the commit: from the revoked callback to the request to join."""
    sync_ms: Draws = (2, 4, 6, 8, 11, 27, 30)
    """From the end of the join phase to the assignment: the leader computes, the coordinator writes."""
    deliver_ms: Draws = (3, 5, 7, 7, 10, 15, 39)
    """From the group record to the end of the assigned callback."""
    drift_ms: Draws = (2, 3, 4, 5, 6)
    """By how much each heartbeat comes later than its interval says."""
    leave_ms: Draws = (20, 30, 40, 60)
    """From a closing member's last work to its LeaveGroup at the coordinator."""
    heartbeat_ms: int = 3_000
    """heartbeat.interval.ms that was in force, read off the history where it shows."""
    session_ms: int = 45_000
    """group.consumer.session.timeout.ms that was in force (KIP-848), read off expiries where there are any."""
    initial_delay_ms: int = 0
    """group.initial.rebalance.delay.ms that was in force."""
    is_measured: tuple[str, ...] = ()
    """Names of the values that come from this group's own history."""


def draw(rng: Random, values: Draws) -> float:
    """As Random.choice does; a third of its time, and a replay draws for each happening."""
    count = len(values)
    bits = count.bit_length()
    place = rng.getrandbits(bits)
    while place >= count:
        place = rng.getrandbits(bits)
    return values[place]
