"""A group id with line breaks makes whole lines: what no column can hold neither breaks the reader nor gets through."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.log_lines import parse_controller_line, parse_line, read_head, starts_event
from rebalance_audit.domain.log_lines.numbers import java_int
from rebalance_audit.domain.log_lines.rules import read_all, rules, values
from rebalance_audit.domain.model import LogKind
from rebalance_audit.domain.reassign.lines import LogLines
from tests.domain.log_lines.lines import HEAD, JAVA, SCALA, SCALA_LOGGER, WORKER, a_line, event_of, parsed, scala

LONG = "9" * 5_000
"""More digits than Python makes a number of."""
NO_INTS = ["2147483648", "-2147483649", "9999999999999999999", LONG, "²", "--5", "1_0", "", "٣"]
"""The last digit is Arabic: Python reads it, Java does not print it."""
NO_NAMES_END = [text for text in NO_INTS if text != "--5"]
"""Which behind a dash is a five behind a name that ends with dashes."""


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("-1", -1), ("2147483647", 2_147_483_647), ("-2147483648", -2_147_483_648), ("007", 7)]
    + [(text, None) for text in NO_INTS],
)
def test_a_java_int_is_read_and_nothing_else(text: str, number: int | None) -> None:
    assert java_int(text) == number


def test_what_a_template_calls_a_number_is_one() -> None:
    (form,) = rules([(LogKind.STABILIZED, "Counted <thing_count:int> in <place>")]).of("Counted")
    (reading,) = read_all([form], "Counted 12 in 34")
    assert values(reading) == {"thing_count": 12, "place": "34"}


@pytest.mark.parametrize("number", NO_INTS)
@pytest.mark.parametrize(
    "line",
    [
        SCALA + "Stabilized group g generation {} (__consumer_offsets-3) with 2 members",
        SCALA + "Elected as the group coordinator for partition {} in epoch 1",
        JAVA + "[GroupId g] Bumped group epoch to {}.",
        "[GroupCoordinator {}]: Stabilized group g generation 1 (__consumer_offsets-3) with 2 members",
        WORKER + "Broker coordinator was unreachable for 5ms. Joined group at generation {} and got assignment: x",
    ],
    ids=["generation", "partition", "epoch", "broker", "two forms in one"],
)
def test_a_line_with_such_a_number_shows_nothing_of_a_group(line: str, number: str) -> None:
    assert parsed(HEAD + line.format(number) + SCALA_LOGGER) is None


def test_what_java_keeps_in_a_long_may_be_one() -> None:
    event = scala(
        "Finished loading offsets and group metadata from __consumer_offsets-3 in 9223372036854775807 milliseconds"
    )
    assert event.fields["duration_ms"] == 9_223_372_036_854_775_807
    assert parsed(HEAD + SCALA + "Finished loading offsets and group metadata from __consumer_offsets-3 in "
                  "9223372036854775808 milliseconds" + SCALA_LOGGER) is None  # fmt: skip


@pytest.mark.parametrize("number", NO_NAMES_END)
def test_a_task_without_a_number_is_a_connector_and_an_error_without_one_a_text(number: str) -> None:
    started = event_of(HEAD + WORKER + f"Starting task sink-{number} (org.apache.kafka.connect.runtime.Worker)")
    assert started.fields["connector"] == f"sink-{number}"
    assert "task" not in started.fields
    assert scala(f"Failed to persist metadata for group g: {number}x").fields["error"] == f"{number}x"


@pytest.mark.parametrize("number", NO_INTS)
@pytest.mark.parametrize(
    "line",
    [
        "[QuorumController id=1] In the new epoch {}, the leader is 2.",
        "[QuorumController id=1] In the new epoch 3, the leader is {}.",
        "[QuorumController id=1] enterControlledShutdown[1]: changing {} partition(s)",
        "[QuorumController id={}] In the new epoch 3, the leader is 2.",
        "[QuorumController id=1] Replayed partition assignment change PartitionChangeRecord(partitionId=0, leader={}, "
        "replicas=[1, 2], addingReplicas=[2]) for topic orders",
        "[Broker id=1] Skipped the become-leader state change for orders-0 with topic id x and partition registration "
        "PartitionRegistration(replicas=[1, 2], isr=[1], leader={}, partitionEpoch=1) and isNew=false",
    ],
    ids=["epoch", "leader", "count", "controller", "record", "registration"],
)
def test_a_line_with_such_a_number_shows_nothing_of_a_partition(line: str, number: str) -> None:
    source = a_line(HEAD + line.format(number) + " (state.change.logger)")
    if "Skipped" not in line:
        assert parse_controller_line(source) is None
    read = LogLines().read([source]).lines
    assert all(line.fields["registration"].get("leader") is None for line in read)


@pytest.mark.parametrize("number", ["2147483648", LONG])
def test_a_replica_nobody_can_be_makes_the_line_none(number: str) -> None:
    line = f"[Partition orders-0 broker=1] Expanding ISR from 1,2 to 1,2,{number} (kafka.cluster.Partition)"
    assert parse_controller_line(a_line(HEAD + line)) is None


@pytest.mark.parametrize("number", NO_NAMES_END)
def test_a_partition_nobody_can_have_is_part_of_a_name(number: str) -> None:
    line = f"[Controller id=1] Error completing reassignment of partition orders-{number} (kafka.controller.X)"
    event = parse_controller_line(a_line(HEAD + line))
    assert event is not None
    assert (event.topic, event.partition) == (f"orders-{number}", None)


@pytest.mark.parametrize(
    "time",
    ["1e999", "-1e999", "NaN", "9" * 400, LONG, '"2026-02-31T00:00:00Z"', '"2026-99-99T00:00:00"', "-5", "true", "[]",
     '"0000-01-01 00:00:00"', '{"epochSecond": 1, "nanoOfSecond": "x"}', '{"epochSecond": 1, "nanoOfSecond": 1e999}',
     "253402300800000"],
)  # fmt: skip
def test_a_json_line_without_a_possible_time_begins_no_event(time: str) -> None:
    line = f'{{"message": "x", "time": {time}}}'
    assert not starts_event(line)
    assert read_head(line) is None
    assert parse_line(a_line(line)) is None


def test_a_later_key_may_hold_the_time_that_the_first_does_not() -> None:
    line = '{"message": "x", "@timestamp": 1e999, "time": 1795269600123}'
    assert starts_event(line)
    head = read_head(line)
    assert head is not None
    assert head.at_ms == 1_795_269_600_123


@pytest.mark.parametrize(
    "line",
    [
        '{"time": 1795269600123, "message": "[GroupCoordinator 1]: Stabilized group g\\ud800 generation 1 '
        '(__consumer_offsets-3) with 2 members", "logger": "a\\udfff", "thread": "\\ud800"}',
        '{"stream": "stdout", "log": "[2026-11-21 14:00:00,123] INFO [GroupCoordinator 1]: Stabilized group g\\ud800 '
        'generation 1 (__consumer_offsets-3) with 2 members (a.B)"}',
    ],
    ids=["JSON layout", "Docker"],
)
def test_half_a_character_of_json_is_replaced(line: str) -> None:
    """No UTF-8 can hold it, and so no file of ours."""
    event = event_of(line)
    assert event.group_id == "g\ufffd"
    assert event.fields["member_count"] == 2
    head = read_head(line)
    assert head is not None
    for text in (head.message, head.logger, head.thread):
        (text or "").encode()
