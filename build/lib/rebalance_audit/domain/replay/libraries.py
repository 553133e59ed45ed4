"""The client library of a member, as far as its default names show it, and the settings each library lacks.

Source: the libraries' own documentation, and what they wrote on real clusters (docs/whatif.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .life import Life
from .requests import OF_OPERATORS, in_milliseconds

_BY_CLIENT_ID = (
    ("rdkafka", "librdkafka"),
    ("kgo", "franz-go"),
    ("sarama", "sarama"),
    ("kafkajs", "kafkajs"),
    ("aiokafka-", "aiokafka"),
    ("kafka-python-", "kafka-python"),
)
_LACKING: Mapping[str, tuple[str, ...]] = {
    "group.instance.id": ("kafkajs", "kafka-go"),
    "group.protocol": ("sarama", "kafkajs", "kafka-go", "kafka-python", "aiokafka"),
    "max.poll.interval.ms": ("franz-go", "sarama", "kafkajs", "kafka-go"),
    "partition.assignment.strategy=cooperative-sticky": ("kafkajs", "kafka-go", "aiokafka"),
    "partition.assignment.strategy=sticky": ("librdkafka", "kafkajs", "kafka-go"),
    "internal.leave.group.on.close": ("librdkafka", "franz-go", "sarama", "kafkajs", "kafka-go", "kafka-python"),
}
BROKER_SETTINGS = frozenset(
    {
        "group.initial.rebalance.delay.ms",
        "group.consumer.session.timeout.ms",
        "group.consumer.heartbeat.interval.ms",
    }
)
_JAVA_CLASSES = {
    "range": "org.apache.kafka.clients.consumer.RangeAssignor",
    "roundrobin": "org.apache.kafka.clients.consumer.RoundRobinAssignor",
    "sticky": "org.apache.kafka.clients.consumer.StickyAssignor",
    "cooperative-sticky": "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
}


def library_of(life: Life) -> str | None:
    """None where nothing betrays it; a chosen client id says nothing."""
    client_id = life.client_id or ""
    if "segmentio/kafka-go" in client_id:
        return "kafka-go"
    return next((library for prefix, library in _BY_CLIENT_ID if client_id.startswith(prefix)), None)


def lacking(name: str, value: str) -> tuple[str, ...]:
    return _LACKING.get(f"{name}={value}", _LACKING.get(name, ()))


def refusing(lives: Iterable[Life], asked: Mapping[str, str]) -> str | None:
    """A sentence, where a member's library cannot have a setting."""
    for life in lives:
        library = library_of(life)
        for name, value in asked.items():
            if library is not None and library in lacking(name, value):
                return f"{life.client_id} runs {library}, which has no {name}={value}"
    return None


def properties(asked: Mapping[str, str], slots: Sequence[str], *, is_connect: bool = False) -> dict[str, list[str]]:
    """Lines to paste, by client or `broker`; what a client lacks is a comment."""
    found: dict[str, list[str]] = {}
    for name, given in asked.items():
        value = in_milliseconds(given)
        if name in OF_OPERATORS:
            found.setdefault("deploy", []).append(f"{name.removeprefix('deploy.')}: {given}")
            continue
        if name in BROKER_SETTINGS:
            found.setdefault("broker", []).append(f"{name}={value}")
            continue
        if is_connect:
            found.setdefault("connect worker", []).append(f"{name}={value}")
            continue
        for client in ("java", "librdkafka"):
            if client in lacking(name, value):
                found.setdefault(client, []).append(f"# {client} has no {name}={value}")
            else:
                found.setdefault(client, []).append(_line(client, name, value, slots))
        others = [library for library in lacking(name, value) if library != "librdkafka"]
        if others:
            found.setdefault("not possible", []).append(f"{name}: {', '.join(others)}")
    return found


def _line(client: str, name: str, value: str, slots: Sequence[str]) -> str:
    if name == "group.instance.id":
        if value == "none":
            return f"# remove {name}"
        example = slots[0] if slots else "consumer-1"
        return f"{name}=<one name per process that survives its restarts, for example {example}>"
    if name == "partition.assignment.strategy" and client == "java":
        return f"{name}={_JAVA_CLASSES.get(value, value)}"
    return f"{name}={value}"
