"""Layouts, each as somebody's cluster writes it."""

from __future__ import annotations

import json

import pytest

from rebalance_audit.domain.log_lines import parse_line, read_head, starts_event
from tests.domain.log_lines.lines import AT_MS, a_line

MESSAGE = "[GroupCoordinator id=1] Startup complete."
LOGGER = "org.apache.kafka.coordinator.group.GroupCoordinatorService"
HOUR_MS = 3_600_000

# name, line, UTC if the line says it
LAYOUTS = [
    ("Kafka's own", f"[2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})", None),
    ("with the line number", f"[2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER}:12)", None),
    ("line number not known", f"[2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER}:?)", None),
    (
        "thread at the end",
        f"2026-11-21 14:00:00,123 INFO {MESSAGE} ({LOGGER}) [group-coordinator-event-processor-0]",
        None,
    ),
    ("thread before the level", f"[2026-11-21 14:00:00,123] [main] INFO {MESSAGE} ({LOGGER})", None),
    ("thread after the level", f"[2026-11-21 14:00:00,123] INFO [main] {MESSAGE} ({LOGGER})", None),
    ("level in brackets", f"2026-11-21 14:00:00,123 [INFO] {MESSAGE} ({LOGGER})", None),
    ("padded level", f"[2026-11-21 14:00:00.123] INFO  {MESSAGE} ({LOGGER})", None),
    ("ISO with Z", f"[2026-11-21T14:00:00,123Z] INFO {MESSAGE} ({LOGGER})", AT_MS),
    ("ISO with an offset", f"[2026-11-21T14:00:00.123+0200] INFO {MESSAGE} ({LOGGER})", AT_MS - 2 * HOUR_MS),
    (
        "offset with a colon and a blank",
        f"[2026-11-21 14:00:00,123 -03:30] INFO {MESSAGE} ({LOGGER})",
        AT_MS + 3.5 * HOUR_MS,
    ),
    ("named UTC", f"[2026-11-21 14:00:00,123 UTC] INFO {MESSAGE} ({LOGGER})", AT_MS),
    ("logback", f"2026-11-21 14:00:00.123 [main] INFO {LOGGER} - {MESSAGE}", None),
    ("Spring", f"2026-11-21T14:00:00.123+01:00  INFO 1 --- [app] [main] {LOGGER}  : {MESSAGE}", AT_MS - HOUR_MS),
    (
        "kubectl --timestamps",
        f"2026-11-21T13:00:00.125000001Z [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})",
        AT_MS - HOUR_MS,
    ),
    (
        "container runtime",
        f"2026-11-21T15:00:00.125000001+01:00 stdout F [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})",
        AT_MS,
    ),
    ("kubectl --prefix", f"[pod/kafka-0/kafka] [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})", None),
    ("compose", f"kafka-1  | [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})", None),
    ("syslog", f"Nov 21 14:00:00 host-1 kafka[77]: [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})", None),
    ("epoch milliseconds", f"1795266000125 [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})", AT_MS - HOUR_MS),
    ("epoch seconds", f"1795266000.125 [2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})", AT_MS - HOUR_MS),
    (
        "Docker's JSON",
        json.dumps(
            {
                "log": f"[2026-11-21 14:00:00,123] INFO {MESSAGE} ({LOGGER})\n",
                "stream": "stdout",
                "time": "2026-11-21T13:00:00.125Z",
            }
        ),
        AT_MS - HOUR_MS,
    ),
    (
        "JSON with an ISO time",
        json.dumps(
            {"@timestamp": "2026-11-21T14:00:00.123Z", "log.level": "INFO", "message": MESSAGE, "log.logger": LOGGER}
        ),
        AT_MS,
    ),
    (
        "log4j's JSON",
        json.dumps(
            {
                "instant": {"epochSecond": 1795269600, "nanoOfSecond": 123000000},
                "thread": "main",
                "level": "INFO",
                "loggerName": LOGGER,
                "message": MESSAGE,
            }
        ),
        AT_MS,
    ),
    (
        "JSON with local time",
        json.dumps({"time": "2026-11-21 14:00:00,123", "level": "INFO", "logger": LOGGER, "message": MESSAGE}),
        None,
    ),
    (
        "nested ECS",
        json.dumps(
            {"@timestamp": "2026-11-21T14:00:00.123Z", "log": {"level": "INFO", "logger": LOGGER}, "message": MESSAGE}
        ),
        AT_MS,
    ),
]


@pytest.mark.parametrize(("name", "line", "at_ms"), LAYOUTS, ids=[name for name, _, _ in LAYOUTS])
def test_every_layout_gives_time_level_logger_and_the_bare_message(name: str, line: str, at_ms: int | None) -> None:
    assert starts_event(line)
    head = read_head(line + "\n")
    assert head is not None
    assert (head.local_at_ms, head.at_ms, head.level, head.logger, head.message) == (
        AT_MS,
        at_ms,
        "INFO",
        LOGGER,
        MESSAGE,
    )


def test_a_missing_logger_is_not_made_up() -> None:
    head = read_head("[2026-11-21 14:00:00,123] INFO " + MESSAGE)
    assert head is not None
    assert (head.logger, head.message, head.has_logger_tail) == (None, MESSAGE, False)


def test_an_offsets_partition_at_the_end_is_no_logger() -> None:
    head = read_head("[2026-11-21 14:00:00,123] INFO Stabilized group g generation 1 (__consumer_offsets-1)")
    assert head is not None
    assert head.message == "Stabilized group g generation 1 (__consumer_offsets-1)"


@pytest.mark.parametrize("context", ["my-conn|task-0", "my-conn|worker", "my conn] x|task-12|offsets"])
def test_connects_context_is_taken_off_the_message(context: str) -> None:
    head = read_head(f"[2026-11-21 14:00:00,123] INFO [{context}] Creating task my-conn-0 (o.a.k.Worker:1)")
    assert head is not None
    assert (head.context, head.message) == (context, "Creating task my-conn-0")


def test_the_line_itself_says_the_zone_so_the_event_has_its_instant() -> None:
    event = parse_line(
        a_line(
            "[2026-11-21T14:00:00,123+02:00] INFO [GroupCoordinator 1]: Group g with generation 7 is now empty "
            "(__consumer_offsets-1) (kafka.coordinator.group.GroupCoordinator)"
        )
    )
    assert event is not None
    assert (event.local_at_ms, event.at_ms) == (AT_MS, AT_MS - 2 * HOUR_MS)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "\n",
        "\tat org.apache.kafka.Foo.bar(Foo.java:12)",
        "Caused by: java.lang.IllegalStateException: x",
        "java.lang.RuntimeException: boom (a.b.C)",
        " (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
        "2026-11-21",
        "2026-11-21T14:00:00.123Z \tat org.apache.kafka.Foo.bar(Foo.java:12)",
        "2026-11-21T14:00:00.123Z stdout F Caused by: x",
        "{}",
        "{not json",
        '{"log":"\\tat a.b.C\\n","stream":"stdout","time":"2026-11-21T13:00:00.125Z"}',
        "[main] INFO hello",
        "[2026-11-21 14:00:00,123]",
        "{c1=Assignment(partitions=[orders-0])} (org.apache.kafka.clients.consumer.internals.ConsumerCoordinator)",
    ],
)
def test_what_continues_an_event_starts_none(line: str) -> None:
    assert not starts_event(line)
    assert read_head(line) is None


@pytest.mark.parametrize("date", ["2026-13-01", "2026-02-30", "0000-01-01"])
def test_a_date_that_is_none_is_no_head_and_no_error(date: str) -> None:
    assert read_head(f"[{date} 14:00:00,123] INFO [GroupCoordinator 1]: x") is None


def test_lines_of_the_container_runtime_are_taken_off_continuation_lines_too() -> None:
    head = read_head(
        "2026-11-21T14:00:00.125Z stdout F [2026-11-21 14:00:00,123] INFO Updating assignment with\n"
        "2026-11-21T14:00:00.125Z stdout F \tAssigned partitions: [] (a.b.C)\n"
    )
    assert head is not None
    assert head.message == "Updating assignment with\n\tAssigned partitions: []"


def test_a_stack_trace_is_kept_apart_from_the_message() -> None:
    head = read_head("[2026-11-21 14:00:00,123] ERROR It broke (a.b.C)\njava.lang.X: y\n\tat a.b.C.d(C.java:1)\n")
    assert head is not None
    assert (head.message, head.logger, head.level) == ("It broke", "a.b.C", "ERROR")
    assert head.trailing == "java.lang.X: y\n\tat a.b.C.d(C.java:1)"


def test_a_delay_that_is_no_zone_leaves_the_instant_unknown() -> None:
    head = read_head("2026-11-25T14:00:00.125Z [2026-11-21 14:00:00,123] INFO late (a.b.C)")
    assert head is not None
    assert head.at_ms is None
