"""Brokers, workers and Streams instances that are replaced while groups have stories of their own."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .connect import Workers
from .groups import Groups
from .members import StreamsMembers
from .scenario import KIP848_BROKER, scenario


@scenario(brokers=3, since="2.7.2")
def coordinators_and_members_go(driver: Driver) -> None:
    """Groups of kafkajs, librdkafka, kafka-python and sarama on three brokers: a coordinator is killed and
    a new member comes while it is away; it is back, and is preferred again as a member closes; one is killed."""
    chance = Random("coordinators_and_members_go")
    libraries = {"k": "kafkajs", "r": "librdkafka", "p": "kafka-python", "s": "sarama"}
    again: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
    groups = Groups(driver, libraries, partitions=7, per_second=42)
    groups.come("1", "2")
    driver.rest(chance.uniform(4, 7))
    broker = driver.coordinator_killed(groups.group("r"))
    driver.rest(chance.uniform(1, 3))
    groups.start("3")
    driver.rest(chance.uniform(16, 19))
    groups.expect_written(Cause.MEMBER_JOINED, "3", or_trigger=Cause.LEADER_REJOINED)
    groups.settle()
    driver.broker_returns(broker)
    driver.rest(chance.uniform(8, 11))
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    groups.leave("1")
    driver.rest(6)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(14)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)


@scenario(brokers=3, since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_on_three_brokers(driver: Driver) -> None:
    """KIP-848 groups of librdkafka, franz-go and Java on three brokers: a coordinator is killed, a member is killed
    before it is back, one comes; partitions are added while a broker restarts; one closes."""
    chance = Random("kip848_on_three_brokers")
    libraries = {"r": "librdkafka", "f": "franz-go", "j": "java"}
    groups = Groups(driver, libraries, partitions=8, per_second=40, is_kip848=True)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(4, 7))
    broker = driver.coordinator_killed(groups.group("f"))
    driver.rest(chance.uniform(10, 13))
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(chance.uniform(15, 18))
    groups.settle()
    driver.broker_returns(broker)
    driver.rest(chance.uniform(6, 9))
    groups.come("4")
    driver.more_partitions("orders", 11)
    groups.expect(Cause.TOPIC_METADATA_CHANGED, "")
    driver.rest(12)
    groups.settle()
    driver.broker_restarts(broker)
    driver.rest(12)
    groups.leave("1")
    groups.settle()


@scenario(connect_workers=2, worker_properties={"scheduled.rebalance.max.delay.ms": 25_000})
def connect_fleet_changes(driver: Driver) -> None:
    """Three connectors of two tasks on two workers. A third worker comes, one that does not lead is killed and is back
    while the delay of 25 s runs, a connector gets more tasks, one is deleted, and a worker stops for good."""
    chance = Random("connect_fleet_changes")
    workers = Workers(driver, connectors=3, tasks=2)
    driver.rest(chance.uniform(3, 6))
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()
    driver.worker_killed(2)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [2])
    driver.rest(12)
    workers.returns(2)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [2])
    driver.rest(22)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    driver.settle_connect()
    workers.reconfigure("beta", 5)
    driver.settle_connect()
    workers.delete("alpha")
    driver.settle_connect()
    driver.rest(chance.uniform(3, 6))
    driver.worker_stopped(3)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [3])
    driver.rest(28)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    driver.settle_connect()


@scenario(since="2.7.2")
def streams_of_three(driver: Driver) -> None:
    """A stateless Streams application of three instances: the second is killed, which its session (10 s) shows, and is
    back; the first, which leads, closes; the third is frozen for longer than its session, and goes on."""
    chance = Random("streams_of_three")
    members = StreamsMembers(driver, "trio-app", partitions=7, per_second=35)
    for name in ("w1", "w2", "w3"):
        members.come(name)
    driver.rest(chance.uniform(4, 7))
    driver.kill("w2")
    members.expires("w2", 12)
    members.come("w2")
    driver.rest(chance.uniform(4, 7))
    driver.leave("w1")
    members.expires("w1", 12)
    driver.freeze("w3")
    members.expires("w3", chance.uniform(15, 17))
    driver.thaw("w3")
    members.expect(Cause.MEMBER_JOINED, ["w3"])
    driver.rest(8)
    members.follow()
