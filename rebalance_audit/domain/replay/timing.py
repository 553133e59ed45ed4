"""How fast this group's members and coordinator are, as its own history shows; where it shows nothing, as the lab's do.

All milliseconds. Each value is a list to draw from.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from random import Random

from rebalance_audit.domain.client_families import ClientFamily

Draws = tuple[float, ...]
DELIVER_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (1, 2, 3, 4, 6, 9, 15),
    ClientFamily.LIBRDKAFKA: (1, 1, 1, 2, 2, 3, 7),
    ClientFamily.AIOKAFKA: (1, 2, 2, 3, 6, 9, 18),
    ClientFamily.FRANZ_GO: (1, 1, 2, 3, 4, 6, 7),
    ClientFamily.KAFKA_GO: (1, 2, 4, 5, 7, 10, 18),
    ClientFamily.KAFKA_PYTHON: (2, 3, 4, 6, 7, 8, 13),
    ClientFamily.KAFKAJS: (1, 1, 2, 3, 4, 6, 10),
    ClientFamily.SARAMA: (3, 6, 10, 11, 14, 18, 26),
}
"""From the group record to the end of the assigned callback, on the clients' own clocks, of a process that had one
before: quantiles of 37 to 934 callbacks of each library in the golden captures (2.3.1 to 4.4.0) and the pairs."""
FIRST_DELIVER_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (8, 15, 25, 35, 48, 68, 113),
    ClientFamily.LIBRDKAFKA: (1, 1, 2, 3, 4, 6, 11),
    ClientFamily.AIOKAFKA: (2, 3, 5, 6, 7, 9, 14),
    ClientFamily.FRANZ_GO: (1, 2, 2, 4, 6, 6, 22),
    ClientFamily.KAFKA_GO: (2, 4, 6, 8, 11, 18, 33),
    ClientFamily.KAFKA_PYTHON: (4, 6, 9, 11, 12, 16, 40),
    ClientFamily.KAFKAJS: (3, 4, 6, 6, 8, 11, 21),
    ClientFamily.SARAMA: (5, 8, 12, 19, 25, 41, 80),
}
"""The same of a process's first assignment (24 to 446 callbacks): a JVM that has just started is slower."""
REVOKE_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (1, 1, 2, 2, 4, 6, 11),
    ClientFamily.LIBRDKAFKA: (2, 3, 5, 8, 11, 14, 21),
    ClientFamily.AIOKAFKA: (1, 1, 1, 2, 4, 5, 10),
    ClientFamily.FRANZ_GO: (0, 1, 1, 1, 2, 3, 6),
    ClientFamily.KAFKA_GO: (155, 189, 269, 277, 287, 306, 329),
    ClientFamily.KAFKA_PYTHON: (1, 1, 2, 2, 3, 6, 13),
    ClientFamily.KAFKAJS: (2, 2, 3, 4, 5, 6, 11),
    ClientFamily.SARAMA: (13, 60, 80, 85, 89, 99, 230),
}
"""Eager: from the revoked callback of the member that joins last to the end of the join phase (31 to 489 join phases of
each library). Java commits before the callback, and only the request to join comes after it
(ConsumerCoordinator.onJoinPrepare)."""
REACT_MS: Draws = (0, 2, 6, 10, 15, 23, 42)
"""From a heartbeat that says the group rebalances to the end of the join phase: 724 of Java and librdkafka in the same
captures."""
REJOIN_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (4, 5, 9, 12, 16, 21, 33),
    ClientFamily.LIBRDKAFKA: (1, 2, 3, 3, 5, 7, 16),
    ClientFamily.FRANZ_GO: (1, 3, 4, 4, 4, 6, 10),
    ClientFamily.KAFKA_PYTHON: (20, 20, 21, 21, 21, 55, 55),
    ClientFamily.SARAMA: (2, 27, 295, 341, 629, 1059, 2172),
}
"""Cooperative: from the revoked callback that an assignment led to, to the request to join again (3 to 142 follow-ups
of each in the golden captures and the pairs). Other libraries are taken for librdkafka."""
NEWCOMER_SYNC_MS: Mapping[ClientFamily, Draws] = {
    ClientFamily.JAVA: (10, 13, 15, 16, 17, 20, 24, 38),
    ClientFamily.LIBRDKAFKA: (1, 1, 1, 1, 2, 2, 2, 3, 4, 8),
}
"""From the end of a new process's first join phase to its SyncGroup at the coordinator; other libraries are taken for
librdkafka. As 69 follow-ups of Java's and 102 of librdkafka's show it, in the golden captures and the pairs: where one
began sooner, the newcomer heard of it at once (19 and 5), else at its next heartbeat."""
RETURN_BEAT_MS: Draws = (183, 426, 900, 1_000, inf, inf, inf, inf)
"""A member of librdkafka that had lost its place and joined again sends its first heartbeat so soon after the join
phase, in 12 of 24 follow-ups in the pairs; in the others one interval after it."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPace:
    """What members of KIP-848 take, by the group's records and their own clocks in the pairs: 11 to 236 steps of each
    kind and library (4.3.0 and 4.4.0)."""

    react_ms: Draws
    """From the heartbeat that asks for partitions back to the revoked callback. Java's polling thread hears of it from
    its network thread."""
    revoke_ms: Draws
    """From that callback to the heartbeat that says so."""
    deliver_ms: Draws
    """From the heartbeat that hands partitions out to the end of the assigned callback."""
    empty_ms: Draws | None = None
    """A newcomer that is handed nothing says that it has it so long after, and counts its heartbeats from there; None:
    it says nothing."""


SERVER_PACES: Mapping[ClientFamily, ServerPace] = {
    ClientFamily.JAVA: ServerPace(
        react_ms=(32, 55, 75, 91, 110, 127, 165), revoke_ms=(2, 7, 25, 48, 85, 108, 131),
        deliver_ms=(20, 42, 75, 100, 116, 152, 240), empty_ms=(19, 30, 53, 92, 143, 201, 307),
    ),
    ClientFamily.LIBRDKAFKA: ServerPace(
        react_ms=(0, 1, 1, 1, 2, 3, 7), revoke_ms=(1, 2, 2, 3, 4, 6, 14), deliver_ms=(1, 1, 1, 2, 3, 5, 15)
    ),
}  # fmt: skip
"""Other libraries are taken for librdkafka."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EagerPace:
    """What Connect's workers take under connect.protocol=eager, where the history is of incremental ones: the lab's."""

    write_ms: Draws = (51, 61, 62, 73, 81, 120)
    """The leader writes a change and reads it back, and does nothing else meanwhile (six requests of connectors' tasks
    to a leader that had nothing else to do, in the golden captures of 4.3.0)."""
    poll_ms: float = 500
    """A source task that is asked to stop ends its poll first (AbstractWorkerSourceTask.execute). The lab's sleep so
    long in each (TruthSourceTask)."""
    commit_ms: Draws = (23, 30, 33, 37, 40, 43, 55, 97)
    """From there to its stop: it sends what it polled, waits until that is written, and commits its offsets
    (finalOffsetCommit; 15 stops in the golden capture connect_eager of 4.3.0)."""
    stopped_ms: Draws = (5, 10, 18, 31, 64)
    """From a worker's last task that has stopped to the end of the join phase, which it is the last to enter: states
    are written before (the same capture)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    react_ms: Draws = REACT_MS
    """From the heartbeat that says the group rebalances to the revoked callback (eager) or the request to join, of the
    member that is last: the next poll, the commit, the way."""
    revoke_ms: Draws | None = None
    """From the revoked callback to the request to join; None: as the member's library, REVOKE_MS."""
    sync_ms: Draws = (2, 4, 6, 8, 11, 27, 30)
    """From the end of the join phase to the assignment: the leader computes, the coordinator writes."""
    first_sync_ms: Draws | None = None
    """The same where all members are new, and the leader's process has often just started: 60 ms in the median of 73
    starts of Java's eager groups in the pairs, 10 to 11 in their 355 later rounds. None: as `sync_ms`."""
    deliver_ms: Draws | None = None
    """From the group record to the end of the assigned callback; None: as the member's library, DELIVER_MS
    and FIRST_DELIVER_MS."""
    rejoin_ms: Draws | None = None
    """From a cooperative member's revoked callback to its request to join; None: as its library, REJOIN_MS."""
    return_beat_ms: Draws = RETURN_BEAT_MS
    """From the join phase to the first heartbeat of a member of librdkafka that is back, at most."""
    newcomer_sync_ms: Draws | None = None
    """From the end of its first join phase to a newcomer's SyncGroup; None: as its library, NEWCOMER_SYNC_MS."""
    drift_ms: Draws = (2, 3, 4, 5, 6)
    """By how much each heartbeat comes later than its interval says."""
    server_drift_ms: Draws = (0, 1, 1, 1, 2)
    """The same under KIP-848: 581 heartbeats of librdkafka came 1 ms later each, 252 of Java less."""
    server_pace: ServerPace | None = None
    """None: as the member's library, SERVER_PACES."""
    leave_ms: Draws | None = None
    """From a closing member's last work to its LeaveGroup; None: as the member's library, LEAVE_MS."""
    expire_ms: Draws = (0, 0, 1, 3, 6, 11, 21)
    """From a session's end to when the coordinator puts the member out: 41 killed members of the pairs, Java's and
    librdkafka's, by the rhythm of their heartbeats. It decides over seconds where a session is a few intervals long:
    the others hear of it at a heartbeat of the same instant."""
    beats_differ_ms: float = 15
    """Members' heartbeats of one instant come so much before or after each other. Where a session ends with one of
    them, some members hear of it then, and others at their next one: 7 of 22 of librdkafka, with two intervals to a
    session."""
    heartbeat_ms: int = 3_000
    """heartbeat.interval.ms that was in force, read off the history where it shows."""
    session_ms: int = 45_000
    """group.consumer.session.timeout.ms that was in force (KIP-848), read off expiries where there are any."""
    initial_delay_ms: int = 0
    """group.initial.rebalance.delay.ms that was in force."""
    delays_again: bool | None = None
    """Whether that delay begins once more for members that come in it to a group that was emptied; None: no start of
    the history shows it."""
    eager: EagerPace = EagerPace()
    is_measured: tuple[str, ...] = ()
    """Names of the values that come from this group's own history."""


def draw(rng: Random, values: Draws) -> float:
    """Draws like Random.choice in a quarter of its time; a replay draws for each happening."""
    return values[int(rng.random() * len(values))]
