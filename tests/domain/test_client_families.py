"""Client libraries by the bytes they write, which their own code shows, and by their words."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.client_families import ALL, HABITS, ClientFamily, families_of, families_of_reason, narrowed
from tests import encoders

F = ClientFamily
TOPICS = ("orders",)
STICKY = encoders.int32(0) + encoders.int32(-1)
"""What franz-go and Java's `sticky` put into the user data: no partitions, generation -1."""


def subscription(version: int, user_data: bytes | None, **more: object) -> bytes:
    return encoders.consumer_subscription(TOPICS, version=version, user_data=user_data, **more)  # type: ignore[arg-type]


KAFKA_GO = subscription(0, None)[2:]
CASES: list[tuple[str, str, bytes, str, set[ClientFamily]]] = [
    ("kafkajs by its assignor", "RoundRobinAssigner", subscription(0, b""), "m1", {F.KAFKAJS}),
    ("kafka-go ends too soon", "range", b"\x00\x01" + KAFKA_GO, "m1", {F.KAFKA_GO}),
    ("user data with holdings", "cooperative-sticky", subscription(3, STICKY), "m1", {F.FRANZ_GO, F.LIBRDKAFKA}),
    ("franz-go's without", "cooperative-sticky", subscription(3, encoders.int32(0)), "m1", {F.FRANZ_GO}),
    ("Java's user data", "cooperative-sticky", subscription(3, encoders.int32(-1)), "m1", {F.JAVA}),
    ("librdkafka's is empty", "cooperative-sticky", subscription(3, b""), "m1", {F.LIBRDKAFKA}),
    ("librdkafka 2", "range", subscription(3, b""), "m1", {F.LIBRDKAFKA}),
    ("Java 3.5, or franz-go", "range", subscription(3, None), "m1", {F.JAVA, F.FRANZ_GO}),
    ("Java's own client id", "range", subscription(3, None), "consumer-orders-app-1", {F.JAVA}),
    ("franz-go's own client id", "range", subscription(3, None), "kgo", {F.FRANZ_GO}),
    ("Java 2.7, or sarama", "range", subscription(1, None), "m1", {F.JAVA, F.SARAMA}),
    ("Java 3.3, or sarama", "roundrobin", subscription(2, None), "m1", {F.JAVA, F.SARAMA}),
    ("sarama's own client id", "range", subscription(0, None), "sarama", {F.SARAMA}),
    ("aiokafka's own client id", "roundrobin", subscription(0, b""), "aiokafka-0.14.0", {F.AIOKAFKA}),
    ("Streams", "stream", subscription(3, b"\x00\x00\x00\x0b"), "m1", {F.JAVA}),
    ("a borrowed client id decides nothing that the bytes exclude", "range", subscription(3, b""), "kgo",
     {F.LIBRDKAFKA}),
    ("an assignor of one's own", "fair", subscription(3, None), "m1", set(ALL)),
    ("an assignor of one's own may write any layout", "acme", subscription(1, b"zone a"), "m1", set(ALL)),
    ("its broken bytes are not kafka-go's", "acme", b"\x00\x01" + KAFKA_GO, "m1", set(ALL)),
    ("no bytes", "range", b"", "m1", set(ALL)),
    ("torn in its topics", "range", subscription(1, None)[:9], "m1", set(ALL)),
    ("torn in its owned partitions", "range", subscription(1, None)[:-2], "m1", set(ALL)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("assignor", "data", "client_id", "expected"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_a_subscription_shows_who_may_have_written_it(
    assignor: str, data: bytes, client_id: str, expected: set[ClientFamily]
) -> None:
    assert families_of(assignor, data, client_id) == expected


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("need to re-join with the given member-id: m1-0000", {F.JAVA}),
        ("beginning to manage the group lifecycle", {F.FRANZ_GO}),
        ("client leaving group per normal operation", {F.FRANZ_GO}),
        ("group is rebalancing", {F.SARAMA}),
        ("the consumer is being closed", set(ALL)),
        ("dial tcp 10.0.0.7:9092: i/o timeout", set(ALL)),
    ],
)
def test_a_reason_shows_whose_words_it_is(reason: str, expected: set[ClientFamily]) -> None:
    assert families_of_reason(reason) == expected


def test_what_contradicts_the_bytes_is_not_believed() -> None:
    assert narrowed(frozenset({F.JAVA}), frozenset({F.SARAMA})) == {F.JAVA}


def test_every_library_names_its_session_timeout_and_none_without_a_poll_interval_names_one() -> None:
    assert HABITS.keys() == set(F)
    for habits in HABITS.values():
        assert habits.settings["session.timeout.ms"]
        assert (habits.settings["max.poll.interval.ms"] is not None) == habits.has_poll_interval
        assert (habits.settings["group.instance.id"] is not None) == habits.has_static_members
