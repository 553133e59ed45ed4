"""`--set NAME=VALUE` as settings: Kafka's own names, its limits, and which of them exclude each other."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from .settings import ASSIGNORS, CONNECT_PROTOCOLS, SERVER_ASSIGNORS, GroupSettings

NEARLY_ALIKE = 0.8
"""A name that is so much like a known one is taken for a slip of the pen; a choice."""
NAMES = (
    "group.instance.id",
    "internal.leave.group.on.close",
    "session.timeout.ms",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "max.poll.records",
    "partition.assignment.strategy",
    "group.protocol",
    "group.remote.assignor",
    "group.initial.rebalance.delay.ms",
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "connect.protocol",
    "scheduled.rebalance.max.delay.ms",
    "deploy.order",
    "deploy.gap",
    "deploy.restart",
    "members",
)
OF_DEPLOYS = ("deploy.order", "deploy.gap", "deploy.restart")
"""Not of Kafka: how members are restarted."""
OF_OPERATORS = (*OF_DEPLOYS, "members")
"""No properties of clients or brokers."""
OF_CONNECT_ALONE = ("connect.protocol", "scheduled.rebalance.max.delay.ms")
OF_CONNECT = (*OF_CONNECT_ALONE, "session.timeout.ms", "heartbeat.interval.ms", "group.initial.rebalance.delay.ms")
NOT_WITH_CONSUMER_PROTOCOL = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")
ONLY_WITH_CONSUMER_PROTOCOL = (
    "group.remote.assignor",
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
)
SESSION_LIMITS_MS = (6_000, 1_800_000)
"""group.min.session.timeout.ms and group.max.session.timeout.ms of brokers that set nothing."""
ALL_AT_ONCE = "all-at-once"
MOST_AT_ONCE = 10_000
MOST_RECORDS = 2_147_483_647
MOST_DELAY_MS = 2_147_483_647
"""A Java int."""
_TIME = re.compile(r"(\d{1,12})\s*(ms|s|m|min|h|)")
_UNITS_MS = {"": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}
_CLASSES = {"RangeAssignor": "range", "RoundRobinAssignor": "roundrobin", "StickyAssignor": "sticky"}
_CLASSES |= {"CooperativeStickyAssignor": "cooperative-sticky"}
_OUTSIDE = {
    "group.instance.id.": "give auto, none, or the names of members",
}


class RequestError(Exception):
    """These settings cannot be replayed: one sentence with the remedy."""


def requested(
    pairs: Sequence[str], in_force: GroupSettings, slots: Sequence[str], session_ms: int | None = None
) -> tuple[dict[str, str], GroupSettings]:
    """(the settings as asked, what the group would then have).

    `slots` are the places in the group, for names; `session_ms` is the shortest session timeout its members have.
    """
    asked: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not name or not value:
            raise RequestError(f"--set {pair}: write NAME=VALUE, for example group.instance.id=auto.")
        if in_milliseconds(asked.get(name, value)) != in_milliseconds(value):
            raise RequestError(f"--set {name}: it is asked to be {asked[name]} and {value} at once; give it once.")
        if name not in NAMES:
            near = get_close_matches(name, NAMES, 1, NEARLY_ALIKE) if name not in _OUTSIDE else ()
            if near:
                raise RequestError(f"--set {name}: there is no such setting; did you mean {near[0]}?")
            reason = _OUTSIDE.get(name, "known are " + ", ".join(NAMES))
            raise RequestError(f"--set {name}: that is outside the model; {reason}.")
        asked[name] = value
    _refuse_contradictions(asked, in_force)
    settings = in_force
    for name, value in asked.items():
        settings = _with(settings, name, value, slots)
    if settings.group_protocol == "classic":
        _check_heartbeat("heartbeat.interval.ms", settings.heartbeat_ms, settings.session_timeout_ms or session_ms)
    elif not asked.keys().isdisjoint(ONLY_WITH_CONSUMER_PROTOCOL):
        interval_ms, session_ms = settings.consumer_heartbeat_ms, settings.consumer_session_timeout_ms
        _check_heartbeat("group.consumer.heartbeat.interval.ms", interval_ms, session_ms)
    return asked, settings


def _refuse_contradictions(asked: Mapping[str, str], in_force: GroupSettings) -> None:
    is_connect = in_force.assignor in CONNECT_PROTOCOLS
    for name in asked:
        if is_connect and name not in OF_CONNECT and name not in OF_OPERATORS:
            raise RequestError(
                f"--set {name}: Connect's workers have no such setting; they have {', '.join(OF_CONNECT)}."
            )
        if not is_connect and name in OF_CONNECT_ALONE:
            raise RequestError(f"--set {name}: only Connect's workers have it; give a Connect cluster's group.")
    is_consumer = asked.get("group.protocol", in_force.group_protocol).lower() == "consumer"
    for name in asked:
        if is_consumer and name in NOT_WITH_CONSUMER_PROTOCOL:
            raise RequestError(
                f"--set {name}: clients refuse it with group.protocol=consumer, where brokers decide; leave one out."
            )
        if not is_consumer and name in ONLY_WITH_CONSUMER_PROTOCOL:
            raise RequestError(f"--set {name}: it has no effect without group.protocol=consumer; add that.")
    for name, value in _WITHOUT_EFFECT:
        in_effect = {"connect.protocol": in_force.assignor, "group.protocol": in_force.group_protocol} | dict(asked)
        other, _, its_value = value.partition("=")
        if name in asked and in_effect.get(other, "").lower() == its_value:
            raise RequestError(f"--set {name}: it has no effect with {value}; leave one out.")


_WITHOUT_EFFECT = (
    ("group.initial.rebalance.delay.ms", "group.protocol=consumer"),
    ("scheduled.rebalance.max.delay.ms", "connect.protocol=eager"),
    ("deploy.gap", f"deploy.order={ALL_AT_ONCE}"),
)
"""Nobody waits for these under the other setting: members of KIP-848 get partitions one by one, eager Connect workers
share out what a lost one had at once, and one batch has no next one."""


_TIMES: Mapping[str, tuple[str, int, int | None]] = {
    "session.timeout.ms": ("session_timeout_ms", *SESSION_LIMITS_MS),
    "heartbeat.interval.ms": ("heartbeat_ms", 100, None),
    "max.poll.interval.ms": ("max_poll_interval_ms", 1_000, None),
    "group.initial.rebalance.delay.ms": ("initial_delay_ms", 0, None),
    "scheduled.rebalance.max.delay.ms": ("connect_delay_ms", 0, MOST_DELAY_MS),
    "group.consumer.session.timeout.ms": ("consumer_session_timeout_ms", 1_000, None),
    "group.consumer.heartbeat.interval.ms": ("consumer_heartbeat_ms", 100, None),
    "deploy.gap": ("deploy_gap_ms", 0, None),
    "deploy.restart": ("deploy_restart_ms", 0, None),
}
"""(field, least, most) of settings that are a time."""


def _with(settings: GroupSettings, name: str, value: str, slots: Sequence[str]) -> GroupSettings:
    if name in _TIMES:
        field, least, most = _TIMES[name]
        values: dict[str, Any] = {field: _ms(name, value, least, most)}
        return replace(settings, **values)
    match name:
        case "group.instance.id":
            return _with_instances(settings, value, slots)
        case "internal.leave.group.on.close":
            return replace(settings, leaves_on_close=_one_of(name, value, ("true", "false")) == "true")
        case "partition.assignment.strategy":
            assignor = _CLASSES.get(value.rpartition(".")[2], value)
            return replace(settings, assignor=_one_of(name, assignor, ASSIGNORS))
        case "group.protocol":
            return _with_protocol(settings, _one_of(name, value.lower(), ("classic", "consumer")))
        case "group.remote.assignor":
            return replace(settings, assignor=_one_of(name, value, SERVER_ASSIGNORS))
        case "connect.protocol":
            return replace(settings, assignor=_one_of(name, value.lower(), CONNECT_PROTOCOLS))
        case "max.poll.records":
            return replace(settings, max_poll_records=_count(name, value, "records a poll may hold", MOST_RECORDS))
        case "members":
            return replace(settings, member_count=_count(name, value, "members run", MOST_AT_ONCE))
        case _:
            return replace(settings, deploy_batch=_batch(name, value))


def _with_instances(settings: GroupSettings, value: str, slots: Sequence[str]) -> GroupSettings:
    if value in ("auto", "none"):
        return replace(settings, is_static=value == "auto", static_slots=frozenset())
    wanted = [name.strip() for name in value.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in slots]
    if unknown:
        known = ", ".join(slots[:8])
        raise RequestError(f"--set group.instance.id={value}: no member {unknown[0]} here; auto, none, or of {known}.")
    return replace(settings, is_static=None, static_slots=frozenset(wanted))


def _with_protocol(settings: GroupSettings, protocol: str) -> GroupSettings:
    if protocol == settings.group_protocol:
        return settings
    assignor = "uniform" if protocol == "consumer" else "range"
    return replace(settings, group_protocol=protocol, assignor=assignor)


def _check_heartbeat(name: str, interval_ms: int, session_ms: int | None) -> None:
    """Clients of the classic protocol refuse it, and under KIP-848 the brokers (GroupCoordinatorConfig)."""
    if session_ms is None or interval_ms < session_ms:
        return
    session = name.replace("heartbeat.interval", "session.timeout")
    who = "brokers" if name in ONLY_WITH_CONSUMER_PROTOCOL else "clients"
    raise RequestError(
        f"{name} ({interval_ms}) must be below {session} ({session_ms}), a third of it at most is usual; {who} refuse "
        f"it otherwise."
    )


def _batch(name: str, value: str) -> int:
    if value in ("one-by-one", ALL_AT_ONCE):
        return 1 if value == "one-by-one" else 0
    if not value.isdigit() or not 1 <= int(value) <= MOST_AT_ONCE:
        raise RequestError(f"--set {name}={value}: it is one-by-one, all-at-once, or how many members at a time.")
    return int(value)


def _count(name: str, value: str, what: str, most: int) -> int:
    if not value.isdecimal() or not 1 <= int(value) <= most:
        raise RequestError(f"--set {name}={value}: give how many {what}, from 1 to {most:,}.")
    return int(value)


def in_milliseconds(value: str) -> str:
    """A time as Kafka's properties have it; anything else as it is."""
    found = _TIME.fullmatch(value)
    return value if found is None else str(int(found[1]) * _UNITS_MS[found[2]])


def _ms(name: str, value: str, least: int, most: int | None = None) -> int:
    found = _TIME.fullmatch(value)
    if found is None:
        raise RequestError(f"--set {name}={value}: give milliseconds or a time such as 45s.")
    amount = int(found[1]) * _UNITS_MS[found[2]]
    if amount < least:
        raise RequestError(f"--set {name}={value}: below {least} ms brokers or clients refuse it.")
    if most is not None and amount > most:
        raise RequestError(f"--set {name}={value}: above {most} ms brokers refuse it.")
    return amount


def _one_of(name: str, value: str, allowed: Sequence[str]) -> str:
    if value not in allowed:
        raise RequestError(f"--set {name}={value}: it is one of {', '.join(allowed)}.")
    return value
