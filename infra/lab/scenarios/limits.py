"""Limits that groups meet: sessions that differ, a full group, offsets that expire, an instance id that is taken,
brokers that do not answer. Moments are drawn from a seed of each scenario."""

from __future__ import annotations

import time
from random import Random
from threading import Thread
from typing import Any

from infra.lab.clients import coordinator_of
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .scenario import scenario


@scenario(since="2.7.2")
def timeouts_differ(driver: Driver) -> None:
    """Groups of librdkafka, franz-go, sarama and kafkajs whose four members have sessions of 30, 6, 15 and 10 s. The
    second and third are killed at once, the first is frozen for 12 s, the fourth is killed when the others are back."""
    chance = Random("timeouts_differ")
    libraries = {"r": "librdkafka", "f": "franz-go", "s": "sarama", "k": "kafkajs"}
    groups = Groups(driver, libraries, partitions=8, per_second=40)
    sessions = {"1": 30_000, "2": 6000, "3": 15_000, "4": 10_000}

    def come(number: str) -> None:
        groups.come(number, session_timeout_ms=sessions[number], heartbeat_interval_ms=sessions[number] // 4)

    for number in sessions:
        come(number)
    driver.rest(chance.uniform(8, 11))
    driver.kill_together(*groups.names("2"), *groups.names("3"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "23")
    driver.rest(24)
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED, "3")
    groups.settle()
    driver.rest(12)
    driver.freeze_briefly(*groups.names("1"), seconds=12)
    driver.rest(12)
    come("2")
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("4"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "4")
    driver.rest(18)
    groups.settle()


@scenario(since="2.7.2", broker_properties={"group.max.size": 3})
def group_is_full(driver: Driver) -> None:
    """Groups of librdkafka, franz-go, sarama and kafkajs may have three members: a fourth is refused, tries again, and
    gets in when the first closes. The second is killed, and nobody takes its place."""
    chance = Random("group_is_full")
    libraries = {"r": "librdkafka", "f": "franz-go", "s": "sarama", "k": "kafkajs"}
    groups = Groups(driver, libraries, partitions=6, per_second=36)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(4, 7))
    groups.start("4")
    driver.rest(chance.uniform(8, 10))
    groups.leave("1")
    driver.rest(15)
    groups.expect_written(Cause.MEMBER_JOINED, "4")
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(16)
    groups.expect_written(Cause.MEMBER_JOINED, "4")


@scenario(
    since="2.7.2",
    broker_properties={"offsets.retention.minutes": 1, "offsets.retention.check.interval.ms": 3000},
)
def group_expires(driver: Driver) -> None:
    """Groups of librdkafka, sarama and aiokafka are empty for longer than offsets are kept (a minute): the brokers
    forget them. They come again under the same name, and one is killed."""
    chance = Random("group_expires")
    groups = Groups(driver, {"r": "librdkafka", "s": "sarama", "a": "aiokafka"}, partitions=5, per_second=30)
    groups.come("1", "2")
    driver.rest(chance.uniform(4, 7))
    groups.leave("1")
    groups.settle()
    groups.leave("2", outcome="emptied")
    driver.rest(72)
    for letter in groups.libraries:
        driver._note("offsets expired", groups.group(letter))
    groups.start("3")
    for letter in groups.libraries:
        driver.expect(groups.group(letter), Cause.MEMBER_JOINED, [f"{letter}3"], number=1)
    groups.settle()
    groups.come("4")
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("3"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(12)
    groups.settle()


@scenario(since="2.7.2")
def offsets_set_while_empty(driver: Driver) -> None:
    """Groups of librdkafka, franz-go and aiokafka: all members close, an administrator sets the offsets back to the
    beginning, and a consumer that was given its partitions by hand commits for each group, before and after its members
    are back. Then one is killed."""
    chance = Random("offsets_set_while_empty")
    groups = Groups(driver, {"r": "librdkafka", "f": "franz-go", "a": "aiokafka"}, partitions=5, per_second=36)
    groups.come("1", "2")
    driver.rest(chance.uniform(4, 7))
    groups.leave("2")
    groups.settle()
    groups.leave("1", outcome="emptied")
    driver.rest(3)
    bootstrap = driver.cluster.bootstrap
    for letter in groups.libraries:
        driver._note("set offsets", groups.group(letter))
        _set_offsets(bootstrap, groups.group(letter), "orders", 5)
    by_hand = [
        Thread(target=_commit_by_hand, args=(bootstrap, groups.group(x), "orders", 5, 20)) for x in groups.libraries
    ]
    for thread in by_hand:
        driver._note("commit by hand", "by-hand")
        thread.start()
    driver.rest(chance.uniform(6, 8))
    groups.come("1", "2")
    for thread in by_hand:
        thread.join()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(12)
    groups.settle()


def _set_offsets(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    positions = [TopicPartition(topic, number, 0) for number in range(partitions)]
    wanted = [ConsumerGroupTopicPartitions(group, positions)]
    admin.alter_consumer_group_offsets(wanted, request_timeout=20)[group].result(30)


def _commit_by_hand(bootstrap: str, group: str, topic: str, partitions: int, seconds: float) -> None:
    """A consumer outside the group's protocol; its commits are refused while the group has members."""
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    settings = {"bootstrap.servers": bootstrap, "group.id": group, "client.id": "by-hand", "log_level": 0}
    consumer = Consumer({**settings, "enable.auto.commit": "false", "auto.offset.reset": "earliest"})
    consumer.assign([TopicPartition(topic, number) for number in range(partitions)])
    until_s = time.monotonic() + seconds
    committed_s = 0.0
    while time.monotonic() < until_s:
        consumer.poll(0.1)
        if time.monotonic() - committed_s >= 1:
            committed_s = time.monotonic()
            try:
                consumer.commit(asynchronous=False)
            except KafkaException:
                continue
    consumer.close()


@scenario(since="2.7.2")
def instance_id_taken(driver: Driver) -> None:
    """Groups of librdkafka and kafka-python with static members (session 15 s): a third process starts under the
    instance id of the second one, which is fenced; later the new one closes, and its session ends."""
    chance = Random("instance_id_taken")
    # aiokafka joins again when it is fenced, and the two take the place from each other.
    groups = Groups(driver, {"r": "librdkafka", "p": "kafka-python"}, partitions=5, per_second=30)
    own: dict[str, Any] = {"session_timeout_ms": 15_000}
    groups.come("1", "2", is_static=True, **own)
    driver.rest(chance.uniform(5, 8))
    for letter, library in groups.libraries.items():
        name = f"{letter}3"
        driver.join(
            name, groups.group(letter), ["orders"], library=library, group_instance_id=f"{letter}2-instance", **own
        )
        driver.known_as(name, f"{letter}2")
        driver.give_up(f"{letter}2")
        members = [f"{letter}1", name]
        driver.expect(
            groups.group(letter), Cause.STATIC_MEMBER_REPLACED, [name], kind="static_rewrite", members=members
        )
    driver.rest(10)
    groups.expect_written(Cause.LEADER_REJOINED)
    driver.rest(chance.uniform(4, 7))
    groups.each("3", driver.leave)
    groups.expect(Cause.STATIC_MEMBER_EXPIRED, "3")
    driver.rest(18)
    groups.expect_written(Cause.LEADER_REJOINED)


@scenario(since="2.7.2")
def broker_stands_still(driver: Driver) -> None:
    """The only broker is stopped with SIGSTOP for 15 s, which outlives the sessions (10 s) of groups of librdkafka,
    franz-go, kafkajs and aiokafka, and goes on. Then a member of each closes."""
    chance = Random("broker_stands_still")
    libraries = {"r": "librdkafka", "f": "franz-go", "k": "kafkajs", "a": "aiokafka"}
    groups = Groups(driver, libraries, partitions=5, per_second=36)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    driver.freeze_broker(1, seconds=15)
    driver.rest(25)
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED, or_trigger=Cause.MEMBER_JOINED)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    groups.leave("2")
    driver.rest(6)
    groups.settle()


@scenario(brokers=3, since="2.7.2", broker_properties={"offsets.topic.num.partitions": 1})
def another_broker_is_away(driver: Driver) -> None:
    """Groups of librdkafka, kafka-go, franz-go and kafkajs on three brokers. One that coordinates none of them is
    killed, a member is killed while it is away and is back with it; then a member closes."""
    chance = Random("another_broker_is_away")
    libraries = {"r": "librdkafka", "g": "kafka-go", "f": "franz-go", "k": "kafkajs"}
    groups = Groups(driver, libraries, partitions=6, per_second=36)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    coordinator = coordinator_of(driver.cluster.bootstrap, groups.group("r"))
    away = coordinator % 3 + 1
    driver.broker_killed(away)
    driver.rest(chance.uniform(3, 6))
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(14)
    groups.settle()
    driver.broker_returns(away)
    driver.rest(4)
    groups.come("2")
    driver.rest(chance.uniform(4, 7))
    groups.leave("3")
    groups.settle()
