"""Deployments, and what happens in the midst of one: the new member comes first, partitions are added, brokers restart.
Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .scenario import KIP848_BROKER, scenario


@scenario(since="2.7.2")
def partitions_added_in_deploy(driver: Driver) -> None:
    """Groups of Java, librdkafka, kafka-python and aiokafka are replaced member by member; between the first and the
    second their topic gets three more partitions, which clients that lead find out by themselves."""
    chance = Random("partitions_added_in_deploy")
    libraries = {"j": "java", "r": "librdkafka", "p": "kafka-python", "a": "aiokafka"}
    groups = Groups(driver, libraries, partitions=5, per_second=32)

    def start(number: str) -> None:
        for letter, library in libraries.items():
            refresh = "topic_metadata_refresh_interval_ms" if library == "librdkafka" else "metadata_max_age_ms"
            more: dict[str, Any] = {refresh: 3000}
            driver.join(f"{letter}{number}", groups.group(letter), ["orders"], library=library, **more)
        groups.expect(Cause.MEMBER_JOINED, number)
        groups.settle()

    for number in "123":
        start(number)
    driver.rest(chance.uniform(5, 8))
    groups.leave("1")
    groups.settle()
    driver.rest(chance.uniform(2, 4))
    driver.more_partitions("orders", 8)
    driver.rest(12)
    groups.expect_written(Cause.TOPIC_METADATA_CHANGED)
    groups.settle()
    start("1")
    for number in "23":
        driver.rest(chance.uniform(4, 7))
        groups.leave(number)
        groups.settle()
        start(number)


def _surge(driver: Driver, libraries: Mapping[str, str], seed: str) -> None:
    """Three members are replaced by three others: a new one comes, and two seconds later an old one closes."""
    chance = Random(seed)
    groups = Groups(driver, libraries, partitions=7, per_second=42)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    for old, new in ("14", "25", "36"):
        groups.start(new)
        driver.rest(chance.uniform(4, 7))
        groups.expect_written(Cause.MEMBER_JOINED, new)
        driver.leave_together(*groups.names(old))
        driver.rest(chance.uniform(4, 7))
        # A JVM that starts slowly joins as the old one leaves.
        groups.expect_written(Cause.MEMBER_LEFT, old, or_trigger=Cause.MEMBER_JOINED)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("5"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "5")
    driver.rest(13)
    groups.settle()
    groups.leave("4")
    groups.settle()


@scenario(since="2.1.1")
def surge_deploy(driver: Driver) -> None:
    """kafka-go, aiokafka, sarama and kafkajs: each new member comes some seconds before an old one closes. Then one is
    killed, and one closes."""
    libraries = {"g": "kafka-go", "a": "aiokafka", "s": "sarama", "k": "kafkajs"}
    _surge(driver, libraries, "surge_deploy")


@scenario(since="2.1.1")
def surge_deploy_of_others(driver: Driver) -> None:
    """Java, librdkafka, franz-go and kafka-python: each new member comes some seconds before an old one closes. Then
    one is killed, and one closes."""
    libraries = {"j": "java", "r": "librdkafka", "f": "franz-go", "p": "kafka-python"}
    _surge(driver, libraries, "surge_deploy_of_others")


@scenario(brokers=3, since="2.7.2")
def brokers_restart_in_deploy(driver: Driver) -> None:
    """Groups of sarama, aiokafka, kafka-go and librdkafka on three brokers: each member closes, a broker restarts in
    good order, and the member is back. What brings members to join again when a coordinator goes is their library's."""
    chance = Random("brokers_restart_in_deploy")
    libraries = {"s": "sarama", "a": "aiokafka", "g": "kafka-go", "r": "librdkafka"}
    groups = Groups(driver, libraries, partitions=6, per_second=30)
    again: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    for broker, number in ((1, "1"), (2, "2"), (3, "3")):
        groups.leave(number)
        groups.settle()
        driver.broker_restarts(broker)
        driver.rest(chance.uniform(13, 16))
        groups.expect_written(Cause.LEADER_REJOINED, **again)
        groups.settle()
        groups.come(number)
        groups.expect_written(Cause.LEADER_REJOINED, **again)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_deployed_with_surge(driver: Driver) -> None:
    """KIP-848 groups of Java, librdkafka and franz-go: each new member comes some seconds before an old one closes;
    then two are frozen, one for less than its session (10 s), and one for more."""
    chance = Random("kip848_deployed_with_surge")
    groups = Groups(
        driver, {"j": "java", "r": "librdkafka", "f": "franz-go"}, partitions=7, per_second=35, is_kip848=True
    )
    groups.come("1", "2")
    for old, new in ("13", "24"):
        driver.rest(chance.uniform(4, 7))
        groups.start(new)
        groups.expect(Cause.MEMBER_JOINED, new)
        driver.rest(chance.uniform(6, 8))
        groups.leave(old)
        driver.rest(chance.uniform(6, 8))
    groups.settle()
    driver.freeze_briefly(*groups.names("3"), seconds=5)
    driver.rest(chance.uniform(9, 12))
    groups.each("4", driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "4")
    driver.rest(chance.uniform(15, 17))
    groups.settle()
    groups.each("4", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "4")
    driver.rest(9)
    groups.settle()
