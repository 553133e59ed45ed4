"""What applications do in their own way: transactions, batches that are committed rarely, one client id for all, hosts
whose clocks are off. Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .scenario import scenario

QUIET_S = 4.0


@scenario(since="2.7.2")
def commits_in_transactions(driver: Driver) -> None:
    """Groups of Java and of librdkafka that commit in transactions alone, one a second, every third aborted, and read
    committed records: one of three members closes and is back, one is killed and is back late, one closes."""
    chance = Random("commits_in_transactions")
    driver.topics(out=2)
    groups = Groups(driver, {"j": "java", "r": "librdkafka"}, partitions=6, per_second=30)
    own: dict[str, Any] = {
        "enable_auto_commit": "false",
        "isolation_level": "read_committed",
        "lab_output_topic": "out",
    }
    groups.come("1", "2", "3", **own)
    driver.rest(chance.uniform(4, 8))
    groups.leave("1")
    groups.settle()
    groups.come("1", **own)
    driver.rest(chance.uniform(4, 8))
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(12)
    groups.settle()
    groups.come("2", **own)
    driver.rest(chance.uniform(3, 6))
    groups.leave("3")
    groups.settle()


@scenario(since="2.7.2", broker_properties={"offsets.topic.num.partitions": 50})
def batches_committed_rarely(driver: Driver) -> None:
    """Groups that commit every 30 s (kafka-python, kafka-go) and 20 s (aiokafka): the second of three members closes
    and is back, the third is frozen for longer than its session and goes on, the first is killed and is back late."""
    chance = Random("batches_committed_rarely")
    libraries = {"p": "kafka-python", "g": "kafka-go", "a": "aiokafka"}
    own = {
        letter: {"auto_commit_interval_ms": every_ms}
        for letter, every_ms in (("p", 30_000), ("g", 30_000), ("a", 20_000))
    }
    groups = Groups(driver, libraries, partitions=6, per_second=36, own=own)

    def come(number: str) -> None:
        groups.come(number)
        groups.expect_written(Cause.LEADER_REJOINED)

    for number in "123":
        come(number)
    driver.rest(chance.uniform(8, 16))
    groups.leave("2")
    groups.settle()
    come("2")
    driver.rest(chance.uniform(8, 16))
    groups.each("3", driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(chance.uniform(14, 17))
    groups.settle()
    groups.each("3", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "3")
    driver.rest(9)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED)
    driver.rest(chance.uniform(4, 9))
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(13)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED)
    come("1")
    groups.leave("2")
    groups.settle()


@scenario(since="2.7.2")
def batches_committed_by_hand(driver: Driver) -> None:
    """A group of Java members that commit by hand every 30 s and never as they let go, and groups of franz-go and
    sarama that commit every 25 s: members close, are killed and come back."""
    chance = Random("batches_committed_by_hand")
    libraries = {"j": "java", "f": "franz-go", "s": "sarama"}
    rarely = {"auto_commit_interval_ms": 25_000}
    own: dict[str, dict[str, Any]] = {"j": {"enable_auto_commit": "false"}, "f": rarely, "s": rarely}
    groups = Groups(driver, libraries, partitions=6, per_second=36, own=own)

    def come(number: str) -> None:
        groups.start(number)
        driver.send(f"j{number}", "commit 30000")
        groups.expect(Cause.MEMBER_JOINED, number)
        groups.settle()

    for number in "123":
        come(number)
    driver.rest(chance.uniform(10, 20))
    groups.leave("3")
    groups.settle()
    come("3")
    driver.rest(chance.uniform(6, 12))
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(13)
    groups.settle()
    come("1")
    driver.rest(chance.uniform(6, 12))
    groups.leave("2")
    groups.settle()


@scenario(since="2.7.2", broker_properties={"offsets.topic.num.partitions": 1})
def one_client_id_for_all(driver: Driver) -> None:
    """Two groups of librdkafka and two of sarama whose members all have one client id. A deploy starts the new member
    first, then the old one closes; one is killed and replaced before its session ends; one is frozen and goes on."""
    chance = Random("one_client_id_for_all")
    libraries = {"r": "librdkafka", "t": "librdkafka", "s": "sarama", "u": "sarama"}
    groups = Groups(driver, libraries, partitions=5, per_second=30)
    own: dict[str, Any] = {"client_id": "shop"}
    groups.come("1", "2", "3", **own)
    driver.rest(chance.uniform(4, 7))
    for old, new in ("14", "25"):
        groups.come(new, **own)
        driver.rest(chance.uniform(1, 3))
        groups.leave(old)
        groups.settle()
    driver.rest(chance.uniform(3, 6))
    driver.kill_together(*groups.names("4"))
    driver.rest(chance.uniform(2, 4))
    groups.start("6", **own)
    # The dead one is waited for.
    groups.expect(Cause.MEMBER_JOINED, "6")
    driver.rest(13)
    groups.settle()
    driver.rest(chance.uniform(3, 6))
    groups.each("5", driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "5")
    driver.rest(chance.uniform(14, 16))
    groups.settle()
    groups.each("5", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "5")
    driver.rest(9)
    groups.settle()


@scenario(since="2.7.2")
def clocks_are_off(driver: Driver) -> None:
    """The hosts of two of three Java members have clocks that are 7.3 s ahead and 41 s behind. One does not poll for
    longer than max.poll.interval.ms (7 s) and is back, one is killed and is back, one closes."""
    chance = Random("clocks_are_off")
    groups = Groups(driver, {"j": "java"}, partitions=6, per_second=30)
    for number, offset_ms in (("1", 7300), ("2", -41_000), ("3", 0)):
        groups.come(number, lab_clock_offset_ms=offset_ms, max_poll_interval_ms=7000)
    driver.rest(chance.uniform(4, 8))
    for name in groups.names("2"):
        driver.send(name, "stall 15000")
    groups.expect(Cause.MEMBER_POLL_TIMEOUT, "2", members="13")
    driver.rest(17)
    groups.expect(Cause.MEMBER_JOINED, "2")
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED)
    driver.rest(chance.uniform(3, 6))
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(13)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED)
    groups.come("1", lab_clock_offset_ms=7300, max_poll_interval_ms=7000)
    driver.rest(chance.uniform(3, 6))
    groups.leave("2")
    groups.settle()


@scenario(since="2.7.2", broker_properties={"offsets.topic.num.partitions": 50})
def partitions_come_while_one_is_dead(driver: Driver) -> None:
    """Groups of Java, librdkafka, franz-go and kafka-go: a member of each is killed, its topic gets more partitions
    before its session ends, and it is back. Java and librdkafka look for new partitions every 2 s, the others not."""
    chance = Random("partitions_come_while_one_is_dead")
    libraries = {"j": "java", "r": "librdkafka", "f": "franz-go", "g": "kafka-go"}
    own = {"j": {"metadata_max_age_ms": 2000}, "r": {"topic_metadata_refresh_interval_ms": 2000}}
    groups = Groups(driver, libraries, partitions=5, per_second=36, own=own)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    driver.kill_together(*groups.names("2"))
    driver.rest(chance.uniform(0.5, 1.5))
    driver.more_partitions("orders", 8)
    for letter in libraries:
        if letter in own:
            driver.expect(groups.group(letter), Cause.TOPIC_METADATA_CHANGED, [])
        else:
            driver.expect(groups.group(letter), Cause.MEMBER_SESSION_EXPIRED, [f"{letter}2"])
    driver.rest(16)
    groups.expect_written(Cause.TOPIC_METADATA_CHANGED, or_trigger=Cause.LEADER_REJOINED)
    groups.come("2")
    groups.expect_written(Cause.TOPIC_METADATA_CHANGED, or_trigger=Cause.LEADER_REJOINED)
    driver.rest(chance.uniform(5, 8))
    groups.leave("3")
    groups.settle()
