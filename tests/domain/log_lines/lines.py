"""Lines as they stand in a file, for tests."""

from __future__ import annotations

from typing import Any

from rebalance_audit.domain.line_interest import says_something
from rebalance_audit.domain.log_lines import parse_line
from rebalance_audit.domain.model import LogEvent, SourceLine

HEAD = "[2026-11-21 14:00:00,123] INFO "
AT_MS = 1_795_269_600_123
"""2026-11-21T14:00:00.123, by `date -u -d`."""
SCALA = "[GroupCoordinator 1]: "
SCALA_METADATA = "[GroupMetadataManager brokerId=1] "
JAVA = "[GroupCoordinator id=1 topic=__consumer_offsets partition=3] "
JAVA_SERVICE = "[GroupCoordinator id=1] "
WORKER = "[Worker clientId=connect-localhost:21763, groupId=connect-lab] "
CONSUMER = "[Consumer clientId=c1, groupId=orders-app] "
SCALA_LOGGER = " (kafka.coordinator.group.GroupCoordinator)"
JAVA_LOGGER = " (org.apache.kafka.coordinator.group.GroupMetadataManager)"
HERDER_LOGGER = " (org.apache.kafka.connect.runtime.distributed.DistributedHerder:2626)"
CLIENT_LOGGER = " (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)"

M1 = "c1-fb4ed8c5-2ccf-4326-bca1-d8fa703b3745"
M2 = "c2-8994e8b3-c7a9-466f-91db-b462b8ea0b0f"


def a_line(text: str, *, byte: int = 0, file_name: str = "server.log", node: str = "broker-1") -> SourceLine:
    return SourceLine(cluster_id="c", node=node, file_name=file_name, file_id="f", byte=byte, text=text)


def parsed(text: str) -> LogEvent | None:
    return parse_line(a_line(text))


def event_of(text: str) -> LogEvent:
    event = parsed(text)
    assert event is not None, f"not understood: {text}"
    assert says_something(a_line(text)), f"`collect` lets it go, no sign of line_interest is in it: {text}"
    return event


def scala(message: str) -> LogEvent:
    return event_of(HEAD + SCALA + message + SCALA_LOGGER + "\n")


def java(message: str) -> LogEvent:
    return event_of(HEAD + JAVA + message + JAVA_LOGGER + "\n")


def fields_of(event: LogEvent) -> dict[str, Any]:
    """Fields without the partition that every line of a Java shard has."""
    return {name: value for name, value in event.fields.items() if name != "offsets_partition"}
