"""Stories of members of several client libraries, told by what they send."""

from __future__ import annotations

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Movement, Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from tests import encoders
from tests.domain.reconstruct.classic.stories import TOPIC, Story

KAFKAJS = AIOKAFKA = encoders.consumer_subscription((TOPIC,), version=0, user_data=b"")
LIBRDKAFKA = encoders.consumer_subscription((TOPIC,), version=3, user_data=b"")
JAVA_2_7 = encoders.consumer_subscription((TOPIC,), version=1, user_data=None)
JAVA_3_7 = encoders.consumer_subscription((TOPIC,), version=3, user_data=None)
SARAMA = encoders.consumer_subscription((TOPIC,), version=2, user_data=None)
FRANZ_GO = encoders.consumer_subscription((TOPIC,), version=3, user_data=encoders.int32(0))  # holds nothing
KAFKA_GO = b"\x00\x01" + encoders.consumer_subscription((TOPIC,), version=0, user_data=None)[2:]
AGAIN = "c2-00000000-0000-0000-0000-000000000002"


def two(story: Story, number: int, at_ms: int, subscription: bytes, **more: object) -> Story:
    both = {"c1": "0", "c2": "1"}
    return story.generation(number, both, at_ms=at_ms, subscriptions=dict.fromkeys(both, subscription), **more)  # type: ignore[arg-type]


def second(story: Story) -> Rebalance:
    return next(r for r in reconstruct(story.evidence()).rebalances if r.generation_id == 2)


def given_on(rebalance: Rebalance) -> Movement:
    return next(m for m in measure(rebalance).movements if m.resource == f"{TOPIC}-1")


def of_records(story: Story) -> Story:
    story.lines.clear()
    return story
