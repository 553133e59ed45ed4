"""How fast this group's members and coordinator are, as its own history shows; where it shows nothing, as the lab's do.

All milliseconds. Each value is a list to draw from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from rebalance_audit.domain.client_families import ClientFamily

Draws = tuple[float, ...]
DELIVER_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (3, 5, 7, 7, 10, 15, 39),
    ClientFamily.LIBRDKAFKA: (1, 1, 2, 3, 5, 9, 13),
    ClientFamily.AIOKAFKA: (1, 2, 3, 4, 7, 10, 18),
    ClientFamily.FRANZ_GO: (1, 1, 2, 3, 4, 5, 11),
    ClientFamily.KAFKA_GO: (3, 4, 4, 6, 10, 18, 30),
    ClientFamily.KAFKA_PYTHON: (2, 4, 5, 6, 10, 16, 38),
    ClientFamily.KAFKAJS: (1, 2, 3, 4, 5, 7, 21),
    ClientFamily.SARAMA: (3, 5, 10, 13, 16, 27, 67),
}
"""From the group record to the end of the assigned callback, on the clients' own clocks: quantiles of 39 to 322
callbacks of each library in the golden captures (2.3.1 to 4.4.0)."""
LEAVE_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (1, 2, 3, 4, 6, 9, 13),
    ClientFamily.LIBRDKAFKA: (2, 3, 3, 5, 6, 11, 14),
    ClientFamily.AIOKAFKA: (5, 8, 9, 13, 16, 16, 17),
    ClientFamily.FRANZ_GO: (2, 3, 3, 5, 8, 9, 12),
    ClientFamily.KAFKA_GO: (177, 191, 316, 325, 333, 342, 344),
    ClientFamily.KAFKA_PYTHON: (3, 4, 5, 11, 12, 18, 22),
    ClientFamily.KAFKAJS: (43, 44, 58, 58, 85, 220, 252),
    ClientFamily.SARAMA: (139, 139, 169, 182, 182, 288, 288),
}
"""From a closing member's last work to its LeaveGroup at the coordinator: 4 to 41 closes of each in the golden
captures."""
CALLBACK_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (40, 70, 99, 120, 215),
    ClientFamily.LIBRDKAFKA: (2, 2, 3, 4, 6, 7, 20),
}
"""KIP-848: from the coordinator's answer to the end of the member's callback (golden captures of 4.3.0). Java's polling
thread hears of it from its network thread; other libraries are taken for librdkafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    react_ms: Draws = (4, 6, 8, 12, 15, 20, 40)
    """From the heartbeat that says the group rebalances to the request to join: the next poll, and the way."""
    revoke_ms: Draws = (8, 10, 12, 15, 20, 30, 60)
    """To give partitions up, with the commit: from the revoked callback to the request to join."""
    sync_ms: Draws = (2, 4, 6, 8, 11, 27, 30)
    """From the end of the join phase to the assignment: the leader computes, the coordinator writes."""
    deliver_ms: Draws | None = None
    """From the group record to the end of the assigned callback; None: as the member's library, DELIVER_MS."""
    drift_ms: Draws = (2, 3, 4, 5, 6)
    """By how much each heartbeat comes later than its interval says."""
    leave_ms: Draws | None = None
    """From a closing member's last work to its LeaveGroup; None: as the member's library, LEAVE_MS."""
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
