"""Which client libraries may have written what a member wrote.

No record names the library. The layout of a subscription, the client id where nobody set one, and the reasons that a
member sends narrow it down. Source: the code of each library that writes subscriptions (docs/clients.md).
"""

from __future__ import annotations

import re
from functools import lru_cache

from rebalance_audit.domain.client_families.families import ALL, ClientFamily, Families
from rebalance_audit.domain.log_lines.reasons import FRANZ_GO_REASONS, JAVA_REASONS, SARAMA_REASONS
from rebalance_audit.domain.protocols.consumer_protocol import (
    ConsumerSubscription,
    SubscriptionHead,
    decode_subscription,
    decode_subscription_head,
)
from rebalance_audit.domain.wire import DecodeError

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
