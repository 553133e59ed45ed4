"""Topics that come and go under groups, at moments drawn from a seed of each scenario."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .scenario import scenario

QUIET_S = 4.0


@scenario(since="3.2.0")
def patterns_follow_topics(driver: Driver) -> None:
    """A cooperative group of Java and an eager one of librdkafka subscribe to a pattern. A topic that fits is made, one
    that does not, one more that fits; a member is killed, and one closes."""
    chance = Random("patterns_follow_topics")
    driver.topics(**{"mail.in": 4})
    driver.produce(per_second=30)
    groups = {"j": ("java", "cooperative-sticky"), "r": ("librdkafka", "range")}
    for letter, (_, assignor) in groups.items():
        mode = "eager" if assignor == "range" else "cooperative"
        driver.group(f"{letter}-app", group_type="classic", mode=mode, assignor=assignor)
    follow_up: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}

    def settle() -> None:
        for letter in groups:
            driver.settle(f"{letter}-app", quiet_s=QUIET_S)
        while driver.expect_if_seen("j-app", Cause.COOPERATIVE_FOLLOW_UP, ["j1"], **follow_up):
            pass

    def topics_changed() -> None:
        # Whichever member refreshes its metadata first, and whatever it calls it.
        for letter in groups:
            while driver.expect_if_written(
                f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.SUBSCRIPTION_CHANGED
            ):
                pass
        settle()

    for number in "123":
        for letter, (library, _) in groups.items():
            refresh = "metadata_max_age_ms" if library == "java" else "topic_metadata_refresh_interval_ms"
            pattern = r"pattern:mail\..*" if library == "java" else r"^mail\..*"
            more: dict[str, Any] = {refresh: 2500}
            driver.join(f"{letter}{number}", f"{letter}-app", [pattern], library=library, **more)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])
        settle()
    driver.rest(chance.uniform(5, 8))
    for topic, partitions in (("mail.out", 3), ("post.in", 2), ("mail.spam", 5)):
        driver.later_topic(topic, partitions)
        driver.rest(chance.uniform(12, 14))
        topics_changed()
    for letter in groups:
        driver.kill_together(f"{letter}2")
        driver.expect(f"{letter}-app", Cause.MEMBER_SESSION_EXPIRED, [f"{letter}2"])
    driver.rest(12)
    settle()
    for letter in groups:
        driver.leave(f"{letter}1")
        driver.expect(f"{letter}-app", Cause.MEMBER_LEFT, [f"{letter}1"])
    settle()


@scenario(since="2.7.2")
def topic_made_again_by_library(driver: Driver) -> None:
    """Groups of Java, kafka-python, aiokafka and librdkafka read two topics. One is deleted, and is there again eight
    seconds later with more partitions. Then a member closes."""
    chance = Random("topic_made_again_by_library")
    driver.topics(orders=4, mail=3)
    driver.produce(per_second=28)
    libraries = {"j": "java", "p": "kafka-python", "a": "aiokafka", "r": "librdkafka"}
    for letter, library in libraries.items():
        assignor = "roundrobin" if library == "aiokafka" else "range"
        driver.group(f"{letter}-app", group_type="classic", mode="eager", assignor=assignor)

    def settle(names: Sequence[str] = tuple(libraries)) -> None:
        for letter in names:
            driver.settle(f"{letter}-app", quiet_s=QUIET_S)

    for number in "12":
        for letter, library in libraries.items():
            refresh = "topic_metadata_refresh_interval_ms" if library == "librdkafka" else "metadata_max_age_ms"
            more: dict[str, Any] = {refresh: 2000}
            driver.join(f"{letter}{number}", f"{letter}-app", ["orders", "mail"], library=library, **more)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])
        settle()
        # kafka-python now and then drops the result of a join that went well, and joins again.
        while driver.expect_if_seen("p-app", Cause.LEADER_REJOINED, []):
            pass
    driver.rest(chance.uniform(5, 8))
    driver.topic_deleted("mail")
    driver.rest(8)
    driver.later_topic("mail", 5)
    driver.rest(chance.uniform(18, 21))
    for letter in libraries:
        also = Cause.SUBSCRIPTION_CHANGED if letter == "r" else Cause.LEADER_REJOINED
        while driver.expect_if_written(f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, [], or_trigger=also):
            pass
    settle()
    for letter in libraries:
        driver.leave(f"{letter}2")
        driver.expect(f"{letter}-app", Cause.MEMBER_LEFT, [f"{letter}2"])
    settle()


class _Patterns:
    """One group for each library, on one pattern."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.libraries = {"j": "java", "r": "librdkafka", "f": "franz-go"}
        for letter in self.libraries:
            mode, assignor = ("cooperative", "cooperative-sticky") if letter == "j" else ("eager", "range")
            driver.group(f"{letter}-app", group_type="classic", mode=mode, assignor=assignor)

    def settle(self) -> None:
        for letter in self.libraries:
            self.driver.settle(f"{letter}-app", quiet_s=QUIET_S)
        also: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
        while self.driver.expect_if_seen("j-app", Cause.COOPERATIVE_FOLLOW_UP, [], **also):
            pass

    def expect(self, trigger: str, number: str) -> None:
        for letter in self.libraries:
            self.driver.expect(f"{letter}-app", trigger, [f"{letter}{number}"])

    def expect_changes(self) -> None:
        also: dict[str, Any] = {"or_trigger": Cause.SUBSCRIPTION_CHANGED}
        for letter in self.libraries:
            while self.driver.expect_if_written(f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, [], **also):
                pass

    def come(self, number: str) -> None:
        for letter, library in self.libraries.items():
            refresh = "topic_metadata_refresh_interval_ms" if library == "librdkafka" else "metadata_max_age_ms"
            pattern = r"pattern:mail\..*" if library == "java" else r"^mail\..*"
            # franz-go refuses less than five seconds.
            more: dict[str, Any] = {refresh: 5000 if library == "franz-go" else 2500}
            self.driver.join(f"{letter}{number}", f"{letter}-app", [pattern], library=library, **more)
        self.expect(Cause.MEMBER_JOINED, number)
        self.settle()


@scenario(since="3.2.0")
def patterns_over_topics_that_go(driver: Driver) -> None:
    """A cooperative group of Java and eager ones of librdkafka and franz-go subscribe to a pattern. A topic comes, a
    member is killed while another topic gets more partitions, and is back; a member closes, and a topic is deleted."""
    chance = Random("patterns_over_topics_that_go")
    driver.topics(**{"mail.in": 4, "mail.out": 3})
    driver.produce(per_second=30)
    groups = _Patterns(driver)
    for number in "123":
        groups.come(number)
    driver.rest(chance.uniform(5, 8))
    driver.later_topic("mail.spam", 2)
    driver.rest(chance.uniform(11, 13))
    groups.expect_changes()
    groups.settle()
    driver.kill_together(*(f"{letter}3" for letter in groups.libraries))
    driver.rest(chance.uniform(0.3, 1.2))
    driver.more_partitions("mail.out", 6)
    also: dict[str, Any] = {"or_trigger": Cause.MEMBER_SESSION_EXPIRED}
    for letter in groups.libraries:
        driver.expect(f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, [], **also)
    driver.rest(17)
    groups.expect_changes()
    groups.settle()
    groups.come("3")
    driver.rest(chance.uniform(4, 7))
    for letter in groups.libraries:
        driver.leave(f"{letter}1")
    groups.expect(Cause.MEMBER_LEFT, "1")
    groups.settle()
    groups.expect_changes()
    driver.topic_deleted("mail.in")
    driver.rest(chance.uniform(14, 16))
    groups.expect_changes()
