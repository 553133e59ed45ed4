"""Members of many libraries that are frozen, killed, slow or scaled, at moments drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .members import Members
from .scenario import KIP848_BROKER, scenario


@scenario(since="2.3.1")
def frozen_by_library(driver: Driver) -> None:
    """Groups of kafkajs, kafka-python, aiokafka, sarama and kafka-go. The second member of each is frozen for less than
    its session (9 s), later for more; it goes on, and joins as a new member. The first one closes."""
    chance = Random("frozen_by_library")
    libraries = {"k": "kafkajs", "p": "kafka-python", "a": "aiokafka", "s": "sarama", "g": "kafka-go"}
    groups = Groups(driver, libraries, partitions=5, per_second=30)
    groups.come("1", "2", session_timeout_ms=9000)
    driver.rest(chance.uniform(7, 10))
    driver.freeze_briefly(*groups.names("2"), seconds=5)
    driver.rest(chance.uniform(9, 13))
    groups.each("2", driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(chance.uniform(16, 19))
    groups.settle()
    groups.each("2", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "2")
    driver.rest(8)
    groups.settle()
    groups.leave("1")
    groups.settle()


@scenario(since="2.4.1")
def static_pairs_killed(driver: Driver) -> None:
    """Groups of static members (session 14 s) of Java, franz-go, kafka-python and sarama. The second and third are
    killed at once; both are back in time, one after the other. Then the third is killed, and is back too late."""
    chance = Random("static_pairs_killed")
    libraries = {"j": "java", "f": "franz-go", "p": "kafka-python", "s": "sarama"}
    groups = Groups(driver, libraries, partitions=7, per_second=28)
    options: dict[str, Any] = {"is_static": True, "session_timeout_ms": 14_000}
    groups.come("1", "2", "3", **options)
    driver.rest(chance.uniform(5, 9))
    driver.kill_together(*groups.names("2"), *groups.names("3"))
    for number in "23":
        driver.rest(chance.uniform(1.5, 3))
        groups.start(number, **options)
        groups.expect(Cause.STATIC_MEMBER_REPLACED, number, kind="static_rewrite", members="123")
    driver.rest(6)
    groups.settle()
    driver.rest(chance.uniform(3, 6))
    driver.kill_together(*groups.names("3"))
    groups.expect(Cause.STATIC_MEMBER_EXPIRED, "3")
    driver.rest(17)
    groups.settle()
    groups.come("3", **options)


@scenario()
def slow_handlers(driver: Driver) -> None:
    """Groups of Java, librdkafka, kafka-python and aiokafka with max.poll.interval.ms=7000. The second member's handler
    takes 4.5 s, which is allowed, and later 15 s: it is put out, and is back. Then it closes."""
    chance = Random("slow_handlers")
    libraries = {"j": "java", "r": "librdkafka", "p": "kafka-python", "a": "aiokafka"}
    groups = Groups(driver, libraries, partitions=4, per_second=26)
    groups.come("1", "2", max_poll_interval_ms=7000, session_timeout_ms=6500, heartbeat_interval_ms=2000)
    driver.rest(chance.uniform(6, 11))
    groups.each("2", lambda name: driver.send(name, "stall 4500"))
    driver.rest(chance.uniform(11, 15))
    groups.each("2", lambda name: driver.send(name, "stall 15000"))
    groups.expect(Cause.MEMBER_POLL_TIMEOUT, "2", members="1")
    driver.rest(17)
    groups.expect(Cause.MEMBER_JOINED, "2")
    driver.rest(6)
    groups.settle()
    driver.rest(chance.uniform(5, 8))
    groups.leave("2")
    groups.settle()


@scenario(since="2.3.1")
def scaled_in_seconds(driver: Driver) -> None:
    """Groups of kafka-python, aiokafka, franz-go and kafka-go. Two members come a second after each other; later both
    close a second after each other, and one more is killed and is back before its session ends."""
    chance = Random("scaled_in_seconds")
    libraries = {"p": "kafka-python", "a": "aiokafka", "f": "franz-go", "g": "kafka-go"}
    groups = Groups(driver, libraries, partitions=6, per_second=36)
    groups.come("1", "2")
    driver.rest(chance.uniform(4, 8))
    for number in "34":
        groups.start(number)
        driver.rest(chance.uniform(0.6, 1.4))
    driver.rest(9)
    groups.expect_written(Cause.MEMBER_JOINED, "34")
    groups.settle()
    driver.rest(chance.uniform(5, 8))
    for number in "43":
        driver.leave_together(*groups.names(number))
        driver.rest(chance.uniform(0.6, 1.4))
    driver.rest(9)
    groups.expect_written(Cause.MEMBER_LEFT, "34", members="123")
    groups.settle()
    driver.rest(chance.uniform(5, 8))
    driver.kill_together(*groups.names("2"))
    driver.rest(2)
    groups.start("2")
    groups.expect(Cause.MEMBER_JOINED, "2")
    driver.rest(14)
    groups.settle()


@scenario(since="2.3.1")
def emptied_and_restarted(driver: Driver) -> None:
    """Groups of kafkajs, sarama, librdkafka and franz-go are emptied, one member after the other, stay so for 11 s, and
    are started again under the same client ids. Then two of three are killed at once."""
    chance = Random("emptied_and_restarted")
    libraries = {"k": "kafkajs", "s": "sarama", "r": "librdkafka", "f": "franz-go"}
    groups = Groups(driver, libraries, partitions=5, per_second=20)
    groups.come("1", "2")
    driver.rest(chance.uniform(6, 9))
    groups.leave("1")
    groups.settle()
    groups.leave("2", outcome="emptied")
    driver.rest(11)
    groups.come("2", "1", "3")
    driver.rest(chance.uniform(5, 8))
    driver.kill_together(*groups.names("1"), *groups.names("3"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "13")
    driver.rest(15)
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED, "13")
    groups.settle()


@scenario(since="2.4.1")
def many_in_one_group(driver: Driver) -> None:
    """One `range` group of Java, sarama, kafka-python, librdkafka and franz-go members. Two are killed at once, one is
    frozen for less than its session, the leader closes, and the broker itself is frozen for 5 s."""
    chance = Random("many_in_one_group")
    members = Members(driver, "mixed-app", {"orders": 11}, per_second=33, quiet_s=4.0)
    for name, library in (
        ("s1", "sarama"),
        ("j1", "java"),
        ("p1", "kafka-python"),
        ("r1", "librdkafka"),
        ("f1", "franz-go"),
    ):
        members.join(name, library=library)
    driver.rest(chance.uniform(5, 8))
    driver.kill_together("p1", "f1")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["p1", "f1"])
    driver.rest(15)
    while driver.expect_if_written(members.group, Cause.MEMBER_SESSION_EXPIRED, ["p1", "f1"]):
        pass
    members.settle()
    driver.rest(chance.uniform(5, 8))
    driver.freeze_briefly("r1", seconds=6)
    driver.rest(chance.uniform(8, 11))
    members.leave("s1")
    members.join("p1", library="kafka-python")
    driver.rest(chance.uniform(5, 8))
    driver.freeze_broker(1, seconds=5)
    driver.rest(12)
    members.settle()
    members.leave("j1")


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_mishaps(driver: Driver) -> None:
    """KIP-848 groups of Java, librdkafka and franz-go: the second member of three is killed and back before its session
    ends (10 s), the third is frozen for longer and goes on, and the first two are killed at once."""
    chance = Random("kip848_mishaps")
    libraries = {"j": "java", "r": "librdkafka", "f": "franz-go"}
    groups = Groups(driver, libraries, partitions=7, per_second=35, is_kip848=True)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    groups.each("3", driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(chance.uniform(15, 18))
    groups.settle()
    groups.each("3", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "3")
    driver.rest(9)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("1"), *groups.names("2"))
    # Each session ends by itself: what the first one leaves goes in part to the second, which is dead.
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "12", outcome="superseded")
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "12")
    driver.rest(15)
    groups.settle()
    groups.come("2")


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_scaled_quickly(driver: Driver) -> None:
    """KIP-848 groups of Java and librdkafka members, of which the first is static. Three come, one every six
    seconds, and two close so; the static one restarts; the last other one closes."""
    chance = Random("kip848_scaled_quickly")
    groups = Groups(driver, {"j": "java", "r": "librdkafka"}, partitions=8, per_second=32, is_kip848=True)
    groups.come("1", is_static=True)
    driver.rest(chance.uniform(4, 7))
    for number in "234":
        groups.start(number)
        groups.expect(Cause.MEMBER_JOINED, number)
        driver.rest(chance.uniform(5, 7))
    groups.settle()
    driver.rest(chance.uniform(5, 8))
    for number in "32":
        groups.leave(number)
        driver.rest(chance.uniform(5, 7))
    groups.settle()
    groups.each("1", driver.leave)
    driver.rest(3)
    groups.start("1", is_static=True)
    groups.expect(Cause.STATIC_MEMBER_REPLACED, "1", kind="static_rewrite", members="14")
    driver.rest(9)
    groups.settle()
    groups.leave("4")
    groups.settle()
