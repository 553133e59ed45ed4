"""Which client library a member of a classic group may be, and what such clients do and do not do.

No record names the library. What a member writes narrows it down: the layout of its subscription, its client id where
nobody set one, the reasons it sends. Where several libraries fit, all of them are kept. Source: docs/clients.md, and
the code of each library that writes subscriptions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, lru_cache

from rebalance_audit.domain.log_lines.reasons import FRANZ_GO_REASONS, JAVA_REASONS, SARAMA_REASONS
from rebalance_audit.domain.protocols.consumer_protocol import (
    ConsumerSubscription,
    SubscriptionHead,
    decode_subscription,
    decode_subscription_head,
)
from rebalance_audit.domain.wire import DecodeError


class ClientFamily(StrEnum):
    """Libraries that behave the same where it matters here; the values are the names people know them by."""

    JAVA = "java"
    LIBRDKAFKA = "librdkafka"
    FRANZ_GO = "franz-go"
    SARAMA = "sarama"
    KAFKAJS = "kafkajs"
    KAFKA_GO = "kafka-go"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"


Families = frozenset[ClientFamily]
"""Those that a member may be. Never empty: all of them where nothing narrows it down."""

ALL: Families = frozenset(ClientFamily)


class Heartbeats(StrEnum):
    BACKGROUND = "background"
    """A thread, goroutine or the like sends them while the application works."""
    BETWEEN_MESSAGES = "between messages"
    EVENT_LOOP = "event loop"
    """A task of the loop that the application must not block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Habits:
    """What one family does."""

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
    commits_at_close: bool = False
    """With auto-commit on, it commits as it leaves in good order (docs/clients.md#clients)."""
    may_stay_at_close: bool = False
    """A member without an instance id can be made to close without leaving."""
    settings: Mapping[str, str | None]
    """Java's name of a setting: this library's name of it, None where it has none."""

    @property
    def lives_while_silent(self) -> bool:
        """It may go on working after its session has expired."""
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

_CLIENT_IDS: tuple[tuple[re.Pattern[str], ClientFamily], ...] = tuple(
    (re.compile(pattern, re.DOTALL), family)
    for pattern, family in (
        (r"consumer-.+-\d+\Z", ClientFamily.JAVA),
        (r"rdkafka\Z", ClientFamily.LIBRDKAFKA),
        (r"kgo\Z", ClientFamily.FRANZ_GO),
        (r"sarama\Z", ClientFamily.SARAMA),
        (r"kafkajs\Z", ClientFamily.KAFKAJS),
        (r".*\(github\.com/segmentio/kafka-go\)\Z", ClientFamily.KAFKA_GO),
        (r"kafka-python-\d", ClientFamily.KAFKA_PYTHON),
        (r"aiokafka-\d", ClientFamily.AIOKAFKA),
    )
)
"""Client ids that libraries choose where nobody sets one. Anyone may set these, too: they decide only between
libraries that the bytes allow."""


def family_of_client_id(client_id: str) -> ClientFamily | None:
    """The library whose default such a client id is; None for one that somebody chose."""
    return next((family for pattern, family in _CLIENT_IDS if pattern.match(client_id)), None)


_INT32_SIZE = 4
_NO_TOPICS = bytes(_INT32_SIZE)
_CACHED = 1_024
_CACHED_BYTES = 4_096


def families_of(assignor: str | None, subscription: bytes, client_id: str) -> Families:
    """The libraries that write such a subscription under this assignor, narrowed by the client id."""
    read = _by_layout if len(subscription) <= _CACHED_BYTES else _by_layout.__wrapped__
    found = read(assignor, subscription)
    if len(found) > 1:
        named = _named_by if len(client_id) <= _CACHED_BYTES else _named_by.__wrapped__
        return named(client_id) & found or found
    return found


@lru_cache(maxsize=_CACHED)
def _named_by(client_id: str) -> Families:
    """The libraries that choose such a client id."""
    return frozenset(family for pattern, family in _CLIENT_IDS if pattern.match(client_id))


_SHIPPED = frozenset({"range", "roundrobin", "sticky", "cooperative-sticky", "rack-affinity"})
"""Assignors that come with a library. An assignor that a user wrote may write its members' subscriptions itself, in any
layout (docs/clients.md#assignor-names)."""


@lru_cache(maxsize=_CACHED)
def _by_layout(assignor: str | None, subscription: bytes) -> Families:
    if assignor in ("stream", "RoundRobinAssigner"):
        return frozenset({ClientFamily.JAVA if assignor == "stream" else ClientFamily.KAFKAJS})
    if assignor is not None and assignor not in _SHIPPED:
        return ALL
    try:
        read = decode_subscription(subscription)
    except DecodeError:
        return _of_broken(subscription)
    if read.rest:
        return ALL
    return _known_layouts(assignor, read) or ALL


def _of_broken(subscription: bytes) -> Families:
    """kafka-go alone promises version 1 and ends where version 0 does."""
    try:
        head: SubscriptionHead = decode_subscription_head(subscription)
    except DecodeError:
        return ALL
    return frozenset({ClientFamily.KAFKA_GO}) if head.version == 1 and head.is_all else ALL


def _known_layouts(assignor: str | None, read: ConsumerSubscription) -> Families:
    F = ClientFamily
    has_null, size = read.user_data is None, len(read.user_data or b"")
    match read.version, assignor:
        case 0, "range" | "roundrobin" if has_null:
            return frozenset({F.JAVA, F.SARAMA})
        case 0, "range" | "roundrobin" if not size:
            return frozenset({F.KAFKA_PYTHON, F.AIOKAFKA, F.LIBRDKAFKA, F.KAFKAJS})
        case 0, "sticky":
            return frozenset({F.JAVA, F.SARAMA}) if has_null else ALL - {F.FRANZ_GO, F.KAFKA_GO}
        case 1, "range" | "roundrobin" if has_null:
            return frozenset({F.JAVA, F.SARAMA})
        case 1, _ if not has_null and not size:
            return frozenset({F.LIBRDKAFKA, F.KAFKA_PYTHON})
        case 1 | 2, _:
            return frozenset({F.JAVA, F.SARAMA, F.LIBRDKAFKA} if not has_null else {F.JAVA, F.SARAMA})
        case 3, "range" | "roundrobin":
            return frozenset({F.JAVA, F.FRANZ_GO} if has_null else {F.LIBRDKAFKA} if not size else ALL)
        case 3, "cooperative-sticky":
            # Java has its generation alone in the user data; franz-go and librdkafka all that they hold, too. Before
            # they hold anything librdkafka's is empty, and franz-go's a list of no topics.
            if has_null or not size:
                return frozenset({F.JAVA if has_null else F.LIBRDKAFKA})
            if size == _INT32_SIZE:
                return frozenset({F.FRANZ_GO if read.user_data == _NO_TOPICS else F.JAVA})
            return frozenset({F.FRANZ_GO, F.LIBRDKAFKA})
        case 3, "sticky":
            return frozenset({F.JAVA} if has_null else {F.JAVA, F.FRANZ_GO})
    return ALL


def families_of_reason(client_reason: str) -> Families:
    """The libraries that send this reason; all of them where nobody here is known to."""
    for family, reasons in (
        (ClientFamily.JAVA, JAVA_REASONS),
        (ClientFamily.FRANZ_GO, FRANZ_GO_REASONS),
        (ClientFamily.SARAMA, SARAMA_REASONS),
    ):
        if client_reason.startswith(reasons):
            return frozenset({family})
    return ALL


def narrowed(families: Families, stated: Families) -> Families:
    """The libraries that both pieces of evidence allow. If there are none, the second piece is not believed."""
    return families & stated or families


@cache
def shown(families: Families) -> tuple[str, ...] | None:
    """The libraries as `client_libraries` columns hold them; None where nothing narrows them down."""
    return None if families == ALL else tuple(sorted(f.value for f in families))


def families_shown(client_libraries: Iterable[str] | None) -> Families:
    """The libraries that a `client_libraries` column names. Names that a later version added are left out."""
    return frozenset(_BY_NAME[name] for name in client_libraries or () if name in _BY_NAME) or ALL


_BY_NAME = {family.value: family for family in ClientFamily}


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


_NEEDS_COORDINATOR = frozenset({ClientFamily.SARAMA, ClientFamily.KAFKA_GO})


def may_let_go_without_coordinator(families: Families) -> bool:
    """Whether such a member may give everything up when its heartbeat finds no coordinator
    (docs/clients.md#losing-the-coordinator)."""
    return bool(families & _NEEDS_COORDINATOR)


def may_poll_out(families: Families) -> bool:
    """Whether such a member can have left because its application did not poll in time."""
    return any(HABITS[f].has_poll_interval for f in families)


def must_poll_out(families: Families) -> bool:
    return all(HABITS[f].has_poll_interval for f in families)


def commits_when_idle(families: Families) -> bool:
    """Whether each of these libraries commits even where nothing moves, so that a member's silence means something."""
    return all(HABITS[f].commits_when_idle for f in families)


def may_commit_while_stuck(families: Families) -> bool:
    """Whether such a member may have committed until it left because its application did not poll in time."""
    return any(HABITS[f].commits_while_stuck for f in families)


def may_commit_at_close(families: Families) -> bool:
    return any(HABITS[f].commits_at_close for f in families)


def never_commits_when_idle(families: Families) -> bool:
    return not any(HABITS[f].commits_when_idle for f in families)


def lives_while_silent(families: Families) -> bool:
    """Whether a member of each of these libraries works on after its session expired: its heartbeats wait for the
    application."""
    return all(HABITS[f].lives_while_silent for f in families)
