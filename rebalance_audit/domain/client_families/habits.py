"""What each client library does and does not do (docs/clients.md, docs/measured.md)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from rebalance_audit.domain.client_families.families import ClientFamily, Families


class Heartbeats(StrEnum):
    BACKGROUND = "background"
    """A thread, goroutine or the like sends them while the application works."""
    BETWEEN_MESSAGES = "between messages"
    EVENT_LOOP = "event loop"
    """A task of the loop that the application must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """The habits of one client family: what it does on closing, polling, committing."""

    heartbeats: Heartbeats = Heartbeats.BACKGROUND
    has_poll_interval: bool
    """It leaves by itself when the application does not ask for messages in time."""
    commits_when_idle: bool
    """With auto-commit on, it commits every interval, even if nothing was read."""
    has_static_members: bool = True
    has_cooperative: bool = True
    has_sticky: bool = True
    has_kip848: bool = False
    commits_while_stuck: bool = False
    """With auto-commit on, it commits at its interval even while the application does not ask for messages."""
    commits_late: bool = False
    """With auto-commit on, a thread of its own commits at the next interval what was read last, whether or not the
    application asks for messages by then."""
    commits_at_close: bool = False
    """With auto-commit on, it commits as it leaves in good order (docs/clients.md#clients)."""
    may_stay_at_close: bool = False
    """A member without an instance id can be made to close without leaving."""
    settings: Mapping[str, str | None]
    """Java's name of a setting: this library's name of it, None where it has none."""

    @property
    def lives_while_silent(self) -> bool:
        """Whether a member may go on working after its session has expired."""
        return self.heartbeats is not Heartbeats.BACKGROUND


SESSION, POLL_INTERVAL, RECORDS = "session.timeout.ms", "max.poll.interval.ms", "max.poll.records"
REBALANCE, HEARTBEAT, INSTANCE = "rebalance.timeout.ms", "heartbeat.interval.ms", "group.instance.id"

HABITS: Mapping[ClientFamily, Habits] = {
    ClientFamily.JAVA: Habits(
        has_poll_interval=True,
        commits_when_idle=True,
        commits_at_close=True,
        has_kip848=True,
        may_stay_at_close=True,
        settings={
            SESSION: SESSION,
            POLL_INTERVAL: POLL_INTERVAL,
            RECORDS: RECORDS,
            REBALANCE: POLL_INTERVAL,
            HEARTBEAT: HEARTBEAT,
            INSTANCE: INSTANCE,
        },
    ),
    ClientFamily.LIBRDKAFKA: Habits(
        has_poll_interval=True,
        commits_when_idle=False,
        commits_late=True,
        commits_at_close=True,
        has_sticky=False,
        has_kip848=True,
        settings={
            SESSION: SESSION,
            POLL_INTERVAL: POLL_INTERVAL,
            RECORDS: None,
            REBALANCE: POLL_INTERVAL,
            HEARTBEAT: HEARTBEAT,
            INSTANCE: INSTANCE,
        },
    ),
    ClientFamily.FRANZ_GO: Habits(
        has_poll_interval=False,
        commits_when_idle=False,
        has_kip848=True,
        settings={
            SESSION: "kgo.SessionTimeout",
            POLL_INTERVAL: None,
            RECORDS: None,
            REBALANCE: "kgo.RebalanceTimeout",
            HEARTBEAT: "kgo.HeartbeatInterval",
            INSTANCE: "kgo.InstanceID",
        },
    ),
    ClientFamily.SARAMA: Habits(
        has_poll_interval=False,
        commits_when_idle=False,
        settings={
            SESSION: "Consumer.Group.Session.Timeout",
            POLL_INTERVAL: None,
            RECORDS: None,
            REBALANCE: "Consumer.Group.Rebalance.Timeout",
            HEARTBEAT: "Consumer.Group.Heartbeat.Interval",
            INSTANCE: "Consumer.Group.InstanceId",
        },
    ),
    ClientFamily.KAFKAJS: Habits(
        heartbeats=Heartbeats.BETWEEN_MESSAGES,
        has_poll_interval=False,
        commits_when_idle=False,
        has_static_members=False,
        has_cooperative=False,
        has_sticky=False,
        settings={
            SESSION: "sessionTimeout",
            POLL_INTERVAL: None,
            RECORDS: None,
            REBALANCE: "rebalanceTimeout",
            HEARTBEAT: "heartbeatInterval",
            INSTANCE: None,
        },
    ),
    ClientFamily.KAFKA_GO: Habits(
        has_poll_interval=False,
        commits_when_idle=False,
        has_static_members=False,
        has_cooperative=False,
        has_sticky=False,
        settings={
            SESSION: "SessionTimeout",
            POLL_INTERVAL: None,
            RECORDS: None,
            REBALANCE: "RebalanceTimeout",
            HEARTBEAT: "HeartbeatInterval",
            INSTANCE: None,
        },
    ),
    ClientFamily.KAFKA_PYTHON: Habits(
        has_poll_interval=True,
        commits_when_idle=True,
        commits_at_close=True,
        settings={
            SESSION: "session_timeout_ms",
            POLL_INTERVAL: "max_poll_interval_ms",
            RECORDS: "max_poll_records",
            REBALANCE: "max_poll_interval_ms",
            HEARTBEAT: "heartbeat_interval_ms",
            INSTANCE: "group_instance_id",
        },
    ),
    ClientFamily.AIOKAFKA: Habits(
        heartbeats=Heartbeats.EVENT_LOOP,
        has_poll_interval=True,
        commits_when_idle=True,
        commits_while_stuck=True,
        commits_at_close=True,
        has_cooperative=False,
        may_stay_at_close=True,
        settings={
            SESSION: "session_timeout_ms",
            POLL_INTERVAL: "max_poll_interval_ms",
            RECORDS: "max_poll_records",
            REBALANCE: "rebalance_timeout_ms",
            HEARTBEAT: "heartbeat_interval_ms",
            INSTANCE: "group_instance_id",
        },
    ),
}

WITH_STATIC_MEMBERS: Families = frozenset(f for f, habits in HABITS.items() if habits.has_static_members)

_PREPARES_FIRST = frozenset({ClientFamily.JAVA, ClientFamily.SARAMA})
_AT_ONCE = frozenset({ClientFamily.LIBRDKAFKA, ClientFamily.FRANZ_GO, ClientFamily.KAFKAJS})
_COMMITS_LAST = frozenset({ClientFamily.LIBRDKAFKA, ClientFamily.KAFKA_GO})


def prepares_first(families: Families) -> bool:
    """Whether one of these libraries has work to do before it calls the assigned callback: Java loads classes where its
    process is new, and sarama asks for offsets (docs/measured.md#likely-ranges)."""
    return bool(families & _PREPARES_FIRST)


def starts_at_once(families: Families) -> bool:
    """Whether each of these libraries calls the assigned callback as soon as the answer with the partitions is there.
    kafka-go asks for offsets first, Python's libraries have a loop that may be busy
    (docs/measured.md#likely-ranges)."""
    return families <= _AT_ONCE


def commits_after_callback(families: Families) -> bool:
    """Whether each of these libraries makes its last commit when the revoked callback has returned. The others make it
    before they call it (docs/measured.md#commit-and-revoked-callback)."""
    return families <= _COMMITS_LAST


_NEEDS_COORDINATOR = frozenset({ClientFamily.SARAMA, ClientFamily.KAFKA_GO, ClientFamily.FRANZ_GO})


def may_let_go_without_coordinator(families: Families) -> bool:
    """Whether such a member may give everything up when its heartbeat finds no coordinator
    (docs/clients.md#losing-the-coordinator)."""
    return bool(families & _NEEDS_COORDINATOR)


def may_end_its_generation(families: Families) -> bool:
    """Whether such a member gives everything up by itself, and joins again, when a commit fails
    (docs/clients.md#losing-the-coordinator)."""
    return families == {ClientFamily.KAFKA_GO}


def may_commit_after_loss(families: Families) -> bool:
    """Whether a commit of such a member may have waited for a coordinator until after it had given everything up
    (docs/clients.md#losing-the-coordinator)."""
    return ClientFamily.LIBRDKAFKA in families


def may_drop_its_assignment(families: Families) -> bool:
    """Whether such a member may join again without a look at what it was given, because the group rebalances once more
    (docs/clients.md#assignments-that-are-dropped)."""
    return ClientFamily.KAFKA_PYTHON in families


def may_poll_out(families: Families) -> bool:
    """Whether such a member can have left because its application did not poll in time."""
    return any(HABITS[f].has_poll_interval for f in families)


def must_poll_out(families: Families) -> bool:
    return all(HABITS[f].has_poll_interval for f in families)


def commits_when_idle(families: Families) -> bool:
    """Whether each of these libraries commits even where nothing moves, so that a member's silence means something."""
    return all(HABITS[f].commits_when_idle for f in families)


def may_commit_late(families: Families) -> bool:
    """Whether the last commit of such a member may come after its application has stopped to ask for messages."""
    return any(HABITS[f].commits_late or HABITS[f].commits_while_stuck for f in families)


def may_commit_at_close(families: Families) -> bool:
    return any(HABITS[f].commits_at_close for f in families)


def never_commits_when_idle(families: Families) -> bool:
    return not any(HABITS[f].commits_when_idle for f in families)


def lives_while_silent(families: Families) -> bool:
    """Whether a member of each of these libraries works on after its session expired: its heartbeats wait for the
    application."""
    return all(HABITS[f].lives_while_silent for f in families)
