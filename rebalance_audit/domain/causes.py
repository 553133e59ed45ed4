"""Why a rebalance began: every cause, and what any rule needs to know of it, in one row.

Every set of causes stands below the rows and is derived from them. A new cause is one row here and one case in
tests/domain/test_causes.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum

from rebalance_audit.domain.kinds import found_at_once


class Family(StrEnum):
    """The kind of event a cause is; the worst first."""

    FAILURE = "failure"
    DEPARTURE = "departure"
    """Somebody went in good order."""
    ARRIVAL = "arrival"
    CONFIGURATION = "configuration"
    """A subscription, a topic, a topology or a connector changed, or a client asked."""
    PROTOCOL = "protocol"
    """A step of the protocol itself, expected by design."""
    UNKNOWN = "unknown"


class Protocol(StrEnum):
    """The kind of group that a cause occurs in."""

    CLASSIC = "classic"
    """Consumers and Streams clients; Connect's groups are classic too, and are `CONNECT` here."""
    CONNECT = "connect"
    CONSUMER = "consumer"
    """KIP-848."""
    SHARE = "share"
    """KIP-932."""
    STREAMS = "streams"
    """KIP-1071."""


class Going(StrEnum):
    """The way in which a member went."""

    IN_ORDER = "in_order"
    """It sent a LeaveGroup, or an administrator did for it."""
    VANISHED = "vanished"
    """It sent nothing for its session timeout."""
    TOO_SLOW = "too_slow"
    """It was put out, and its process may have been alive."""


class Rejoin(StrEnum):
    """The side that gave the reason why a member of the group joined again."""

    COORDINATOR = "coordinator"
    """The client did not say why."""
    CLIENT = "client"


@dataclass(frozen=True, slots=True)
class Facts:
    """The row of one cause."""

    value: str
    """The value in `trigger` columns: part of the tables' contract."""
    family: Family
    protocols: frozenset[Protocol]
    phrase: str
    """`a member joined`: the end of a sentence, or a whole one without its full stop."""
    _: KW_ONLY
    going: Going | None = None
    """The cause is that a member went."""
    rejoin: Rejoin | None = None
    """The cause is that a member joined again."""
    expected_reason: str | None = None
    """Why it is expected by design; None: it is not."""
    waits_for_timeout: bool = False
    """Resources went on only after a timeout or a delay had run out."""
    is_follow_up: bool = False
    """The change before it made it necessary: a bounded number of them follow one change."""
    is_round: bool = False
    """Its phrase is a noun: a rebalance began *as* it, not *because of* it."""
    is_spared_by_static: bool = False
    """A group.instance.id and a longer session timeout spare it."""


_EVERY = frozenset(Protocol)
_CLASSIC = frozenset({Protocol.CLASSIC})
_CONNECT = frozenset({Protocol.CONNECT})
_SHARE = frozenset({Protocol.SHARE})
_STREAMS = frozenset({Protocol.STREAMS})
_SERVER = frozenset({Protocol.CONSUMER, Protocol.SHARE, Protocol.STREAMS})
_WITHOUT_CONNECT = _EVERY - _CONNECT
_JOIN_PHASE = _CLASSIC | _CONNECT
_CONSUMERS = _CLASSIC | {Protocol.CONSUMER}


class Cause(StrEnum):
    """A value of `trigger`. Text of a warehouse becomes a cause by `cause_of`."""

    facts: Facts

    def __new__(cls, facts: Facts) -> Cause:
        cause = str.__new__(cls, facts.value)
        cause._value_ = facts.value
        cause.facts = facts
        return cause

    MEMBER_JOINED = Facts(
        "member_joined", Family.ARRIVAL, _WITHOUT_CONNECT, "a member joined", is_spared_by_static=True
    )
    MEMBER_LEFT = Facts(
        "member_left",
        Family.DEPARTURE,
        _WITHOUT_CONNECT,
        "a member left",
        going=Going.IN_ORDER,
        is_spared_by_static=True,
    )
    MEMBER_SESSION_EXPIRED = Facts(
        "member_session_expired",
        Family.FAILURE,
        _EVERY,
        "a member's session expired",
        going=Going.VANISHED,
        waits_for_timeout=True,
        is_spared_by_static=True,
    )
    MEMBER_POLL_TIMEOUT = Facts(
        "member_poll_timeout",
        Family.FAILURE,
        _EVERY,
        "a member exceeded its poll interval",
        going=Going.TOO_SLOW,
        waits_for_timeout=True,
    )
    MEMBER_DROPPED_AT_REBALANCE_TIMEOUT = Facts(
        "member_dropped_at_rebalance_timeout",
        Family.FAILURE,
        _EVERY,
        "a member did not re-join in time",
        going=Going.TOO_SLOW,
        waits_for_timeout=True,
    )
    MEMBER_SYNC_TIMEOUT = Facts(
        "member_sync_timeout",
        Family.FAILURE,
        _EVERY,
        "a member did not fetch its assignment in time",
        going=Going.TOO_SLOW,
    )
    SUBSCRIPTION_CHANGED = Facts(
        "subscription_changed",
        Family.CONFIGURATION,
        _WITHOUT_CONNECT,
        "a member changed its subscription",
        rejoin=Rejoin.COORDINATOR,
    )
    TOPIC_METADATA_CHANGED = Facts(
        "topic_metadata_changed",
        Family.CONFIGURATION,
        _WITHOUT_CONNECT,
        "topics or partitions changed",
        rejoin=Rejoin.CLIENT,
    )
    LEADER_REJOINED = Facts(
        "leader_rejoined", Family.CONFIGURATION, _JOIN_PHASE, "the leader re-joined", rejoin=Rejoin.COORDINATOR
    )
    CLIENT_REQUESTED = Facts(
        "client_requested", Family.CONFIGURATION, _CONSUMERS, "a client asked for it", rejoin=Rejoin.CLIENT
    )
    STATIC_MEMBER_REPLACED = Facts(
        "static_member_replaced", Family.ARRIVAL, _WITHOUT_CONNECT - _SHARE, "a static member came back"
    )
    STATIC_MEMBER_EXPIRED = Facts(
        "static_member_expired",
        Family.FAILURE,
        _WITHOUT_CONNECT - _SHARE,
        "a static member did not come back",
        going=Going.VANISHED,
        waits_for_timeout=True,
    )
    GROUP_EMPTIED = Facts("group_emptied", Family.DEPARTURE, _EVERY, "the last member left")
    COORDINATOR_FAILOVER = Facts("coordinator_failover", Family.FAILURE, _EVERY, "the coordinator moved")
    GROUP_CONVERTED = Facts("group_converted", Family.CONFIGURATION, _CONSUMERS, "the group changed its protocol")
    MEMBER_REMOVED_BY_ADMIN = Facts(
        "member_removed_by_admin",
        Family.DEPARTURE,
        _EVERY,
        "an administrator removed a member",
        going=Going.IN_ORDER,
    )
    COOPERATIVE_FOLLOW_UP = Facts(
        "cooperative_follow_up",
        Family.PROTOCOL,
        _CLASSIC,
        "the second round of a cooperative change",
        expected_reason="second round of a cooperative change: members re-joined after giving partitions up",
        is_follow_up=True,
        is_round=True,
    )
    STREAMS_PROBING = Facts(
        "streams_probing",
        Family.PROTOCOL,
        _CLASSIC,
        "a probe of Streams for a better balance",
        expected_reason="Streams probes whether warm-up tasks have caught up",
        is_round=True,
    )
    STREAMS_FOLLOW_UP = Facts(
        "streams_follow_up",
        Family.PROTOCOL,
        _CLASSIC,
        "the follow-up of a Streams change",
        expected_reason="follow-up round of a Streams change",
        is_follow_up=True,
        is_round=True,
    )
    STREAMS_TOPOLOGY_CHANGED = Facts(
        "streams_topology_changed", Family.CONFIGURATION, _STREAMS, "the Streams topology changed"
    )
    SHARE_STATE_INITIALIZED = Facts(
        "share_state_initialized",
        Family.PROTOCOL,
        _SHARE,
        "the share group's state was initialised",
        expected_reason="state of newly subscribed partitions was initialized",
    )
    COORDINATOR_UPGRADED = Facts(
        "coordinator_upgraded",
        Family.PROTOCOL,
        _SERVER,
        "the coordinator was upgraded",
        expected_reason="the group moved to a broker of 4.1 or later, which keeps its topics as a hash",
    )
    CONNECT_WORKER_JOINED = Facts(
        "connect_worker_joined", Family.ARRIVAL, _CONNECT, "a worker joined", is_spared_by_static=True
    )
    CONNECT_WORKER_LEFT = Facts(
        "connect_worker_left",
        Family.DEPARTURE,
        _CONNECT,
        "a worker left",
        going=Going.IN_ORDER,
        is_spared_by_static=True,
    )
    CONNECT_CONFIG_CHANGED = Facts(
        "connect_config_changed", Family.CONFIGURATION, _CONNECT, "a connector's configuration changed"
    )
    CONNECT_DELAY_EXPIRED = Facts(
        "connect_delay_expired",
        Family.PROTOCOL,
        _CONNECT,
        "Connect's scheduled delay ended",
        expected_reason="the scheduled delay of Connect ended",
        waits_for_timeout=True,
        is_follow_up=True,
    )
    CONNECT_REVOCATION_FOLLOW_UP = Facts(
        "connect_revocation_follow_up",
        Family.PROTOCOL,
        _CONNECT,
        "the second round of a Connect hand-over",
        expected_reason="workers re-joined after giving work up",
        is_follow_up=True,
        is_round=True,
    )
    CONNECT_ASSIGNMENT_FAILED = Facts(
        "connect_assignment_failed", Family.FAILURE, _CONNECT, "a worker's assignment failed"
    )
    ASSIGNOR_CHANGED = Facts("assignor_changed", Family.CONFIGURATION, _EVERY, "the assignor changed")
    APPEND_FAILED = Facts("append_failed", Family.FAILURE, _EVERY, "the coordinator could not write the group record")
    JOIN_PHASE_FAILED = Facts(
        "join_phase_failed", Family.FAILURE, _JOIN_PHASE, "the coordinator failed as it ended the join phase"
    )
    UNKNOWN = Facts("unknown", Family.UNKNOWN, _EVERY, "cause not known", rejoin=Rejoin.COORDINATOR)


found_at_once(Cause)


def _causes(is_one: Callable[[Facts], bool]) -> frozenset[Cause]:
    return frozenset(cause for cause in Cause if is_one(cause.facts))


ARRIVALS = _causes(lambda f: f.family is Family.ARRIVAL) - {Cause.STATIC_MEMBER_REPLACED}
"""A member is new. A static member that comes back takes the place that was kept for it."""
DEPARTURES = _causes(lambda f: f.going is not None)
"""Causes by which a member left the group."""
MEMBERSHIP = ARRIVALS | DEPARTURES
LEFT_IN_ORDER = _causes(lambda f: f.going is Going.IN_ORDER)
PUT_OUT = _causes(lambda f: f.going is Going.TOO_SLOW)
"""A static member loses its place by these as well."""
SESSION_EXPIRED = _causes(lambda f: f.going is Going.VANISHED)
"""A member was not heard of for its session timeout."""
DEPLOYS = _causes(lambda f: f.family in (Family.ARRIVAL, Family.DEPARTURE) or f.going is Going.VANISHED)
"""Causes of a deploy, kill -9 and Streams' closing without leaving included."""
FAULTS = _causes(lambda f: f.family is Family.FAILURE and f.going is not Going.VANISHED) - {Cause.COORDINATOR_FAILOVER}
"""Never part of a healthy deploy, whoever came or went meanwhile. A coordinator may move during any."""
COORDINATOR_FAILED = frozenset({Cause.COORDINATOR_FAILOVER, Cause.APPEND_FAILED, Cause.JOIN_PHASE_FAILED})
"""No member had a part in it."""
MEMBER_FAILED = _causes(lambda f: f.family is Family.FAILURE) - COORDINATOR_FAILED
"""A member failed, not its coordinator; all else that makes members come and go may have been done on purpose."""
EXPECTED = {cause: cause.facts.expected_reason for cause in Cause if cause.facts.expected_reason is not None}
"""The protocol's normal work, and why."""
FOLLOW_UPS = _causes(lambda f: f.is_follow_up)
"""Rounds that the protocol adds to a change; a bounded number of them in a row."""
HARMLESS = frozenset({*EXPECTED, Cause.GROUP_EMPTIED})
"""They come in any number, and nobody waits for them: alerts on a rate leave them out (infra/prometheus/rules.yml)."""
SLOW_BY_DESIGN = _causes(lambda f: f.waits_for_timeout)
"""Pauses of these are as long as a timeout, and say nothing about the assignor."""
SPARED_BY_STATIC = _causes(lambda f: f.is_spared_by_static)
"""Static membership would have spared them."""
REJOINS = _causes(lambda f: f.rejoin is not None)
"""Causes that the coordinator's line gives when a member joins again."""
REJOINS_WITHOUT_REASON = _causes(lambda f: f.rejoin is Rejoin.COORDINATOR)
"""Causes that it gives when the client does not say why."""
CONNECT_ROUNDS = _causes(lambda f: f.family is Family.PROTOCOL and f.protocols == _CONNECT)
"""Rounds that Connect's incremental protocol adds; an eager group has none."""

_BY_VALUE: dict[str, Cause] = {cause.value: cause for cause in Cause}


def cause_of(text: str) -> Cause:
    """The cause of this value; a later version's, which this one does not know, is `UNKNOWN`."""
    return _BY_VALUE.get(text, Cause.UNKNOWN)


REASSIGNED = "reassigned"
"""No trigger of a rebalance: the root cause of what a reassignment of replicas brought about."""
_REASSIGNED_PHRASE = "a reassignment moved replicas"


def phrase_of(text: str) -> str:
    """The phrase of the cause of this value; a value that this version does not know is its own phrase."""
    if text == REASSIGNED:
        return _REASSIGNED_PHRASE
    return _BY_VALUE[text].facts.phrase if text in _BY_VALUE else text


def because(value: str) -> str:
    """The cause as the end of a sentence: `because a member joined`, `as Streams probing`."""
    cause = cause_of(value)
    if cause is Cause.UNKNOWN and value != REASSIGNED:
        return "for a cause not known"
    return f"{'as' if cause.facts.is_round else 'because'} {phrase_of(str(value))}"


def family_of(text: str) -> Family:
    """The family of the cause of this value. That of REASSIGNED is a change of the configuration."""
    return Family.CONFIGURATION if text == REASSIGNED else cause_of(text).facts.family
