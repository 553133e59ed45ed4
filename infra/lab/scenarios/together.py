"""Two things that happen to a group at the same time, at moments drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random
from threading import Thread
from typing import Any

from infra.lab.clients import kip848_settings, streams_settings
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .members import Members
from .scenario import KIP848_BROKER, scenario


@scenario(since="2.7.2")
def two_deploys_at_once(driver: Driver) -> None:
    """Groups of librdkafka, franz-go, sarama and kafka-go. A deploy replaces three members one by one, each closed as
    the new one starts; before it is over a second deploy replaces the first new ones. Then one is killed."""
    chance = Random("two_deploys_at_once")
    libraries = {"r": "librdkafka", "f": "franz-go", "s": "sarama", "g": "kafka-go"}
    groups = Groups(driver, libraries, partitions=6, per_second=36)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    for pairs in ([("1", "4")], [("2", "5")], [("3", "6"), ("4", "7")], [("5", "8")]):
        threads = [Thread(target=driver.leave, args=(f"{letter}{old}",)) for old, _ in pairs for letter in libraries]
        for thread in threads:
            thread.start()
        for _, new in pairs:
            groups.start(new)
        for thread in threads:
            thread.join()
        driver.rest(chance.uniform(1.5, 4))
    driver.rest(10)
    groups.expect_written(Cause.MEMBER_LEFT, members="12345678", or_trigger=Cause.MEMBER_JOINED)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("6"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "6")
    driver.rest(12)
    groups.settle()


@scenario(since="2.7.2")
def partitions_come_while_one_is_frozen(driver: Driver) -> None:
    """Groups of librdkafka, franz-go, sarama and aiokafka: a member of each is frozen for longer than its session, its
    topic gets more partitions meanwhile, and it goes on. Then one closes."""
    chance = Random("partitions_come_while_one_is_frozen")
    libraries = {"r": "librdkafka", "f": "franz-go", "s": "sarama", "a": "aiokafka"}
    look = {"r": "topic_metadata_refresh_interval_ms", "f": "metadata_max_age_ms", "a": "metadata_max_age_ms"}
    own = {letter: {setting: 5000} for letter, setting in look.items()}
    groups = Groups(driver, libraries, partitions=5, per_second=36, own=own)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    groups.each("2", driver.freeze)
    driver.rest(chance.uniform(1, 3))
    driver.more_partitions("orders", 8)
    driver.rest(chance.uniform(20, 22))
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED, "2", or_trigger=Cause.TOPIC_METADATA_CHANGED)
    groups.each("2", driver.thaw)
    driver.rest(12)
    groups.expect_written(Cause.MEMBER_JOINED, "2", or_trigger=Cause.TOPIC_METADATA_CHANGED)
    groups.leave("3")
    driver.rest(8)
    groups.expect_written(Cause.TOPIC_METADATA_CHANGED, or_trigger=Cause.LEADER_REJOINED)


@scenario(since="2.7.2")
def killed_in_the_follow_up(driver: Driver) -> None:
    """Cooperative groups of librdkafka, sarama, franz-go and kafka-python: a third member comes, and the first is
    killed as soon as the third's generation is there, before the second round. It is back, and the second closes."""
    chance = Random("killed_in_the_follow_up")
    libraries = {"r": "librdkafka", "s": "sarama", "f": "franz-go", "p": "kafka-python"}
    groups = Groups(driver, libraries, partitions=7, per_second=36, assignor="cooperative-sticky")

    def come(number: str) -> None:
        groups.start(number)
        groups.expect(Cause.MEMBER_JOINED, number)
        driver.rest(9)
        groups.expect_written(Cause.COOPERATIVE_FOLLOW_UP, or_trigger=Cause.LEADER_REJOINED)
        groups.settle()

    come("1")
    come("2")
    driver.rest(chance.uniform(4, 7))
    groups.start("3")
    driver.wait_for("r2", "revoked_end")
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_JOINED, "3", members="123")
    driver.rest(16)
    also: dict[str, Any] = {"or_trigger": Cause.MEMBER_SESSION_EXPIRED}
    groups.expect_written(Cause.COOPERATIVE_FOLLOW_UP, members="123", **also)
    groups.settle()
    come("1")
    driver.rest(chance.uniform(4, 7))
    groups.leave("2")
    driver.rest(9)
    groups.expect_written(Cause.COOPERATIVE_FOLLOW_UP, or_trigger=Cause.LEADER_REJOINED)
    groups.settle()


@scenario(since="2.7.2")
def late_to_poll_while_one_joins(driver: Driver) -> None:
    """A cooperative group of librdkafka, eager ones of kafka-python and of librdkafka: the second member does not poll
    for 20 s with max.poll.interval.ms=8000, and a third comes 3 s later. The second is back when it polls again."""
    chance = Random("late_to_poll_while_one_joins")
    driver.topics(orders=6)
    driver.produce(per_second=36)
    own: dict[str, Any] = {"max_poll_interval_ms": 8000, "session_timeout_ms": 7000}
    groups = {"c": ("librdkafka", "cooperative-sticky"), "p": ("kafka-python", "range"), "r": ("librdkafka", "range")}
    for letter, (_, assignor) in groups.items():
        mode = "cooperative" if letter == "c" else "eager"
        driver.group(f"{letter}-app", group_type="classic", mode=mode, assignor=assignor)

    def start(number: str) -> None:
        for letter, (library, _) in groups.items():
            driver.join(f"{letter}{number}", f"{letter}-app", ["orders"], library=library, **own)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])

    def rest(trigger: Cause, or_trigger: Cause) -> None:
        for letter in groups:
            while driver.expect_if_written(f"{letter}-app", trigger, [], or_trigger=or_trigger):
                pass

    def settle() -> None:
        for letter in groups:
            driver.settle(f"{letter}-app", quiet_s=4.0)

    for number in "12":
        start(number)
        driver.rest(8)
        rest(Cause.COOPERATIVE_FOLLOW_UP, Cause.LEADER_REJOINED)
        settle()
    driver.rest(chance.uniform(5, 8))
    for letter in groups:
        driver.send(f"{letter}2", "stall 20000")
    driver.rest(3)
    start("3")
    driver.rest(30)
    # A cooperative one has two rounds for each that comes; kafka-python now and then drops the result of a join.
    rest(Cause.MEMBER_JOINED, Cause.COOPERATIVE_FOLLOW_UP)
    rest(Cause.LEADER_REJOINED, Cause.COOPERATIVE_FOLLOW_UP)
    settle()
    for letter in groups:
        driver.leave(f"{letter}1")
        driver.expect(f"{letter}-app", Cause.MEMBER_LEFT, [f"{letter}1"])
    driver.rest(8)
    rest(Cause.COOPERATIVE_FOLLOW_UP, Cause.LEADER_REJOINED)
    settle()


@scenario(since="2.7.2")
def topic_made_again_by_others(driver: Driver) -> None:
    """Groups of kafkajs, sarama, franz-go and kafka-go read two topics. One is deleted, and is there again eight
    seconds later with more partitions. Then a member is killed."""
    chance = Random("topic_made_again_by_others")
    driver.topics(orders=4, mail=3)
    driver.produce(per_second=36)
    libraries = {"k": "kafkajs", "s": "sarama", "f": "franz-go", "g": "kafka-go"}
    for letter in libraries:
        driver.group(
            f"{letter}-app", group_type="classic", mode="eager", assignor="roundrobin" if letter == "k" else "range"
        )

    def changed() -> None:
        for letter in libraries:
            also: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
            while driver.expect_if_written(f"{letter}-app", Cause.LEADER_REJOINED, [], **also):
                pass

    for number in "123":
        for letter, library in libraries.items():
            more: dict[str, Any] = {"metadata_max_age_ms": 5000} if letter == "f" else {}
            driver.join(f"{letter}{number}", f"{letter}-app", ["orders", "mail"], library=library, **more)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])
        for letter in libraries:
            driver.settle(f"{letter}-app", quiet_s=4.0)
    driver.rest(chance.uniform(5, 8))
    driver.topic_deleted("mail")
    driver.rest(8)
    driver.later_topic("mail", 5)
    driver.rest(chance.uniform(18, 21))
    changed()
    driver.kill_together(*(f"{letter}3" for letter in libraries))
    for letter in libraries:
        driver.expect(f"{letter}-app", Cause.MEMBER_SESSION_EXPIRED, [f"{letter}3"])
    driver.rest(18)
    changed()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def converted_to_and_fro(driver: Driver) -> None:
    """A classic group of librdkafka becomes a consumer group and is classic again, and once more: members leave, are
    killed and come in between, and its topic gets more partitions."""
    chance = Random("converted_to_and_fro")
    members = Members(
        driver, "fro-app", {"orders": 6}, library="librdkafka", group_type="mixed", per_second=30, quiet_s=4.0
    )
    server = {"mode": "server", "group_type": "consumer"}
    new: dict[str, Any] = {"settings": kip848_settings()}
    members.join("o1", "o2")
    driver.rest(chance.uniform(4, 7))
    members.expect(Cause.GROUP_CONVERTED, [], number=2, members=["o1", "o2"], **server)
    members.start("k3", **new)
    members.expect(Cause.MEMBER_JOINED, ["k3"], **server)
    members.settle()
    members.leave("o1", **server)
    members.start("k4", **new)
    members.expect(Cause.MEMBER_JOINED, ["k4"], **server)
    members.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill("k3")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["k3"], **server)
    members.settle()
    driver.leave("k4")
    members.expect(Cause.GROUP_CONVERTED, [], number=6, members=["o2"], group_type="classic")
    members.expect(Cause.MEMBER_LEFT, ["k4"])
    members.settle()
    members.join("o1")
    driver.rest(chance.uniform(4, 7))
    members.expect(Cause.GROUP_CONVERTED, [], number=8, members=["o1", "o2"], **server)
    members.start("k5", **new)
    members.expect(Cause.MEMBER_JOINED, ["k5"], **server)
    members.settle()
    driver.more_partitions("orders", 9)
    members.expect(Cause.TOPIC_METADATA_CHANGED, [], **server)
    driver.rest(8)
    members.settle()
    driver.kill("o2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["o2"], **server)
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_partitions_while_frozen(driver: Driver) -> None:
    """KIP-848 groups of librdkafka and franz-go: a member of each is frozen for longer than its session (10 s), their
    topic gets more partitions and a member closes meanwhile; it goes on, and another is killed."""
    chance = Random("kip848_partitions_while_frozen")
    groups = Groups(driver, {"r": "librdkafka", "f": "franz-go"}, partitions=6, per_second=30, is_kip848=True)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    groups.each("2", driver.freeze)
    driver.rest(chance.uniform(1, 2))
    driver.more_partitions("orders", 9)
    groups.expect(Cause.TOPIC_METADATA_CHANGED, "", members="123", outcome="superseded")
    driver.rest(3)
    # Reached when the frozen one is taken away.
    groups.leave("3", members="12")
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(14)
    groups.settle()
    groups.each("2", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "2")
    driver.rest(8)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(12)
    groups.settle()


@scenario(since="2.7.2")
def streams_exactly_once(driver: Driver) -> None:
    """A stateful Streams application of two instances under exactly-once: the second is killed and is back after its
    session (10 s), then the first closes, which does not leave."""
    chance = Random("streams_exactly_once")
    members = Members(
        driver, "exact-app", {"flow": 4}, mode="cooperative", assignor="stream", library="streams", per_second=25
    )
    follow_up: dict[str, Any] = {"or_trigger": Cause.COOPERATIVE_FOLLOW_UP}
    own: dict[str, Any] = {
        "lab_stateful": "true", "processing_guarantee": "exactly_once_v2", "acceptable_recovery_lag": 10_000,
        "commit_interval_ms": 200, "num_standby_replicas": 1,
    }  # fmt: skip

    def come(name: str) -> None:
        members.start(name, settings=streams_settings(state_dir=f"data/{name}", **own))
        members.expect(Cause.MEMBER_JOINED, [name])
        driver.rest(10)
        members.settle()
        while members.expect_if_seen(Cause.STREAMS_FOLLOW_UP, ["w1"], **follow_up):
            pass

    come("w1")
    come("w2")
    driver.rest(chance.uniform(5, 8))
    driver.kill("w2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w2"])
    driver.rest(12)
    members.settle()
    come("w2")
    driver.rest(chance.uniform(5, 8))
    driver.leave("w1")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w1"])
    driver.rest(12)
    members.settle()
