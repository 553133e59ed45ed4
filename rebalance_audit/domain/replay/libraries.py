"""Settings that a member's client library lacks, and settings as lines to paste.

What each library has stands in `client_families.HABITS`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from rebalance_audit.domain.client_families import (
    ALL,
    HABITS,
    RECORDS,
    ClientFamily,
    Families,
    Habits,
    family_of_client_id,
)

from .life import Life
from .requests import OF_OPERATORS, in_milliseconds
from .settings import GroupSettings

_HAS: Mapping[str, Callable[[Habits], bool]] = {
    "group.instance.id": lambda habits: habits.has_static_members,
    "group.protocol": lambda habits: habits.has_kip848,
    "max.poll.interval.ms": lambda habits: habits.has_poll_interval,
    "max.poll.records": lambda habits: habits.settings[RECORDS] is not None,
    "partition.assignment.strategy=cooperative-sticky": lambda habits: habits.has_cooperative,
    "partition.assignment.strategy=sticky": lambda habits: habits.has_sticky,
    "internal.leave.group.on.close": lambda habits: habits.may_stay_at_close,
}
"""Settings that not every library has. A value stands with its name where it alone is lacking."""
BROKER_SETTINGS = frozenset(
    {
        "group.initial.rebalance.delay.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.heartbeat.interval.ms",
    }
)
_BOUNDS_MS: Mapping[str, tuple[int, int]] = {
    "group.consumer.session.timeout.ms": (45_000, 60_000),
    "group.consumer.heartbeat.interval.ms": (5_000, 15_000),
}
"""Brokers do not start with less or more than their own bounds, `group.consumer.min.*` and `.max.*`
(GroupCoordinatorConfig). These are the bounds of brokers that set none."""
NAMED_AS_KAFKA = (ClientFamily.JAVA, ClientFamily.LIBRDKAFKA)
"""Their settings have Kafka's names."""
LACKING = "not possible"
"""Stands among the clients in `properties`, for libraries that lack a setting."""
STAYING_IN_CODE = (
    "# clients from 4.1 on, and group.protocol=consumer: "
    "consumer.close(CloseOptions.groupMembershipOperation(CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP))"
)
"""KIP-1092. They do not read the property, and staying is an option of close() under either protocol."""
_JAVA_CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


def library_of(life: Life) -> str | None:
    """None where nothing shows it; a chosen client id says nothing."""
    family = family_of_client_id(life.client_id or "")
    return None if family is None else family.value


def lacking(name: str, value: str) -> tuple[str, ...]:
    """The libraries without this setting, or without this value of it."""
    has = _HAS.get(f"{name}={value}", _HAS.get(name))
    return () if has is None else tuple(family.value for family, habits in HABITS.items() if not has(habits))


def refusing(lives: Iterable[Life], asked: Mapping[str, str]) -> str | None:
    """A sentence, where a member's library cannot have a setting."""
    without = {name: lacking(name, value) for name, value in asked.items()}
    clients = {(life.client_id, life.libraries): life for life in lives} if any(without.values()) else {}
    for life in clients.values():
        library = library_of(life)
        likely = life.libraries or () if library is None else (library,)
        for name, value in asked.items():
            if likely and all(each in without[name] for each in likely):
                return f"{life.client_id} runs {' or '.join(likely)}, which has no {_lacked(name, value)}"
    return None


def refusing_together(lives: Iterable[Life], settings: GroupSettings) -> str | None:
    """A sentence, where librdkafka would not start: it refuses a session that outlasts its poll interval
    (rd_kafka_conf_finalize)."""
    if settings.session_timeout_ms is None and settings.max_poll_interval_ms is None:
        return None
    for life in lives:
        session_ms = settings.session_timeout_ms or life.session_timeout_ms
        interval_ms = settings.max_poll_interval_ms or life.rebalance_timeout_ms
        if life.family is ClientFamily.LIBRDKAFKA and session_ms and interval_ms and session_ms > interval_ms:
            return (
                f"{life.client_id} runs librdkafka, which refuses a session.timeout.ms ({session_ms}) above its "
                f"max.poll.interval.ms ({interval_ms})"
            )
    return None


def _lacked(name: str, value: str) -> str:
    """What such a library lacks: the setting, or just this value of it."""
    return name if name in _HAS else f"{name}={value}"


def properties(
    asked: Mapping[str, str],
    slots: Sequence[str],
    families: Families = ALL,
    *,
    is_connect: bool = False,
) -> dict[str, list[str]]:
    """Lines to paste, by client or `broker`; what a client lacks is a comment. `families`: those that members may
    use; where that may be any, Java's and librdkafka's lines are given."""
    found: dict[str, list[str]] = {}
    for name, given in asked.items():
        value = in_milliseconds(given)
        if name in OF_OPERATORS:
            found.setdefault("deploy", []).append(f"{name.removeprefix('deploy.')}: {given}")
            continue
        if name in BROKER_SETTINGS:
            found.setdefault("broker", []).extend(_of_brokers(name, value))
            continue
        if is_connect:
            found.setdefault("connect worker", []).append(f"{name}={value}")
            continue
        for client in NAMED_AS_KAFKA if families == ALL else sorted(families):
            if client in lacking(name, value):
                found.setdefault(client, []).append(f"# {client} has no {_lacked(name, value)}")
            else:
                found.setdefault(client, []).append(_line(client, name, value, slots))
                if client == ClientFamily.JAVA and name == "internal.leave.group.on.close" and value == "false":
                    found[client].append(STAYING_IN_CODE)
        others = [library for library in lacking(name, value) if library not in NAMED_AS_KAFKA]
        if others and families == ALL:
            found.setdefault(LACKING, []).append(f"{name}: {', '.join(others)}")
    return found


def _of_brokers(name: str, value: str) -> list[str]:
    """With the bound that has to be moved for it, and how to set it for one group alone (GroupConfig, from 4.0 on)."""
    lines = [f"{name}={value}"]
    if name in _BOUNDS_MS:
        least_ms, most_ms = _BOUNDS_MS[name]
        if not least_ms <= int(value) <= most_ms:
            bound = "min" if int(value) < least_ms else "max"
            lines.append(f"{name.replace('consumer.', f'consumer.{bound}.')}={value}")
        lines.append(
            f"# or for this group alone, within the bounds, from 4.0 on: kafka-configs.sh --alter --entity-type groups "
            f"--entity-name <group> --add-config {name.removeprefix('group.')}={value}"
        )
    return lines


def _line(client: ClientFamily, name: str, value: str, slots: Sequence[str]) -> str:
    own = name if client in NAMED_AS_KAFKA else HABITS[client].settings.get(name)
    if own is None:
        return f"# {name}={value}, under the name that {client} has for it"
    if name == "group.instance.id":
        if value == "none":
            return f"# remove {own}"
        example = slots[0] if slots else "consumer-1"
        value = f"<one name per process that survives its restarts, for example {example}>"
    if name == "partition.assignment.strategy" and client == ClientFamily.JAVA:
        return f"{name}={_JAVA_CLASSES.get(value, value)}"
    if client in NAMED_AS_KAFKA:
        return f"{own}={value}"
    return f"{own}: {value} ms" if name.endswith(".ms") else f"{own}: {value}"
