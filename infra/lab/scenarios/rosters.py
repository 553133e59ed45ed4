"""What was not tried before: libraries on versions of theirs that are missing in the table of support, groups and
clients with hostile names, Connect and Streams on further versions, brokers that are away while everybody is at rest.
Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .connect import Workers
from .groups import Groups
from .members import StreamsMembers
from .scenario import KIP848_BROKER, scenario
from .shifts import Crew, shift


@scenario(since="2.7.2")
def roster_of_java(driver: Driver) -> None:
    """Java members in an eager, a cooperative and a static group, and librdkafka ones of which one is late to poll:
    kills, returns within and after the session, a swap, a freeze, a topic that grows."""
    stories = [
        Crew(driver, "a", "java", "together 1 2, kill 2, come 3, swap 1 4", partitions=6),
        Crew(driver, "b", "java", "come 1 2, crash 2, grow 2, leave 1", partitions=5, assignor="cooperative-sticky"),
        Crew(driver, "c", "java", "come 1 2, crash 2, freeze 2", partitions=4, is_static=True),
        Crew(driver, "r", "librdkafka", "come 1 2 3, slow 2, kill 3, leave 1", partitions=7),
    ]
    shift(driver, "roster_of_java", stories)


@scenario(since="2.1.1")
def roster_of_six(driver: Driver) -> None:
    """Six libraries, a group each, with a story of its own: kills, returns, swaps, a freeze, closes."""
    stories = [
        Crew(driver, "k", "kafkajs", "come 1 2, kill 2, come 3, leave 1", partitions=5),
        Crew(driver, "f", "franz-go", "together 1 2 3, crash 2, leave 1", partitions=7),
        Crew(driver, "s", "sarama", "come 1 2, swap 2 3, kill 1", partitions=4),
        Crew(driver, "g", "kafka-go", "come 1 2 3, freeze 2, leave 1", partitions=6, assignor="roundrobin"),
        Crew(driver, "p", "kafka-python", "come 1 2, kill 1, come 3, swap 2 4", partitions=5),
        Crew(driver, "a", "aiokafka", "together 1 2, crash 1, kill 2", partitions=4),
    ]
    shift(driver, "roster_of_six", stories)


HOSTILE = (
    "o'rders\t<b>\"",
    "a: (reason: none) generation 7",
    "🚚 ../x; %s {0}",
    "$(id) `id` \\n",
    "=cmd|' /C calc'!A0",
)


@scenario(since="2.7.2")
def roster_of_hostile_names(driver: Driver) -> None:
    """Groups whose names look like markup, like a broker's own words, a path, a command and a formula; all members of
    the first have one client id, which is as bad. Members are killed, swapped, frozen, late, and in silence."""
    stories = [
        Crew(driver, "r", "librdkafka", "together 1 2 3, kill 2, swap 1 4", partitions=7, group=HOSTILE[0],
              assignor="cooperative-sticky", client_id="<i>shop</i> on heartbeat expiration"),
        Crew(driver, "k", "kafkajs", "come 1 2 3, nap 1, kill 3", partitions=4, group=HOSTILE[1]),
        Crew(driver, "g", "kafka-go", "come 1 2, crash 2, leave 1", partitions=5, group=HOSTILE[2]),
        Crew(driver, "a", "aiokafka", "come 1 2 3, freeze 3, leave 1", partitions=6, group=HOSTILE[3]),
        Crew(driver, "p", "kafka-python", "together 1 2, hush, kill 1, loud, come 1", partitions=5, group=HOSTILE[4]),
    ]  # fmt: skip
    shift(driver, "roster_of_hostile_names", stories)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def roster_of_kip848(driver: Driver) -> None:
    """KIP-848 groups: three of librdkafka, of which one is static, and one that Java and franz-go share. Members come,
    are killed in pairs, nap, freeze and swap while topics grow and fall silent."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2 3 4, kill 2 4, grow 2, swap 1 5", partitions=7, is_kip848=True),
        Crew(driver, "s", "librdkafka", "come 1 2, kill 1, come 1", partitions=5, is_kip848=True,
              is_static=True),
        Crew(driver, "h", "librdkafka", "come 1 2 3, hush, kill 1, loud, freeze 2", partitions=4, is_kip848=True),
        Crew(driver, "m", {"1": "java", "2": "franz-go", "3": "franz-go"}, "come 1 2 3, nap 2, leave 1, kill 3",
              partitions=6, is_kip848=True),
    ]  # fmt: skip
    shift(driver, "roster_of_kip848", stories)


SHARE_BROKER = {
    "group.share.min.session.timeout.ms": 9000,
    "group.share.session.timeout.ms": 9000,
    "group.share.min.heartbeat.interval.ms": 2000,
    "group.share.heartbeat.interval.ms": 2000,
}


@scenario(since="4.2.0", broker_properties=KIP848_BROKER | SHARE_BROKER)
def shared_beside_owned(driver: Driver) -> None:
    """A share group, a KIP-848 one of librdkafka and a classic one of sarama on the same topics: a member of each is
    killed, one comes, the topic of all gets more partitions, one is frozen for longer than its session, one closes."""
    chance = Random("shared_beside_owned")
    facts: dict[str, Any] = {"mode": "server", "first_number": 2}
    driver.group("share-app", group_type="share", assignor="simple", **facts)
    groups = Groups(driver, {"s": "sarama"}, partitions=5, per_second=30)

    def share(trigger: str, *names: str) -> None:
        driver.expect("share-app", trigger, names)

    def come(number: str) -> None:
        driver.join(f"h{number}", "share-app", ["orders"], library="share", settings={})
        share(Cause.MEMBER_JOINED, f"h{number}")
        groups.come(number)

    come("1")
    driver.rest(chance.uniform(10, 12))
    share(Cause.SHARE_STATE_INITIALIZED)
    come("2")
    come("3")
    driver.rest(chance.uniform(4, 7))
    driver.kill_together("h2", *groups.names("2"))
    share(Cause.MEMBER_SESSION_EXPIRED, "h2")
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(14)
    groups.settle()
    come("4")
    driver.rest(chance.uniform(3, 6))
    driver.freeze("h3")
    groups.each("3", driver.freeze)
    share(Cause.MEMBER_SESSION_EXPIRED, "h3")
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(chance.uniform(14, 16))
    groups.settle()
    driver.thaw("h3")
    groups.each("3", driver.thaw)
    share(Cause.MEMBER_JOINED, "h3")
    groups.expect(Cause.MEMBER_JOINED, "3")
    driver.rest(8)
    groups.settle()
    driver.leave("h1")
    share(Cause.MEMBER_LEFT, "h1")
    groups.leave("1")
    groups.settle()


@scenario(since="2.3.1")
def streams_leader_lost(driver: Driver) -> None:
    """A stateless Streams application of two instances: the first, which leads, is killed; a third comes after its
    session (10 s), the second closes, and the first is back."""
    chance = Random("streams_leader_lost")
    members = StreamsMembers(driver, "duo-app", partitions=6, per_second=30)
    members.come("w1")
    members.come("w2")
    driver.rest(chance.uniform(5, 8))
    driver.kill("w1")
    members.expires("w1", 12)
    members.come("w3")
    driver.rest(chance.uniform(5, 8))
    driver.leave("w2")
    members.expires("w2", 12)
    members.come("w1")


@scenario(connect_workers=2, since="2.4.1", worker_properties={"scheduled.rebalance.max.delay.ms": 15_000})
def connect_roster(driver: Driver) -> None:
    """Two connectors of four tasks on two workers. The second is killed and away for longer than the delay of 15 s, a
    connector changes, a third worker comes, and the first one, which leads, is killed."""
    chance = Random("connect_roster")
    workers = Workers(driver, tasks=4)
    driver.rest(chance.uniform(3, 6))
    driver.worker_killed(2)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [2])
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    driver.settle_connect()
    workers.reconfigure("alpha", 5)
    driver.settle_connect()
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()
    driver.rest(chance.uniform(3, 6))
    driver.worker_killed(1)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [1])
    driver.rest(14)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    driver.settle_connect()


@scenario(brokers=3, since="2.7.2")
def brokers_away_at_rest(driver: Driver) -> None:
    """Groups of kafkajs, sarama, kafka-python and librdkafka on three brokers, at rest: a coordinator is killed, and is
    back 25 s later; another one is killed, and a member of each group with it. It is back, and a member closes."""
    chance = Random("brokers_away_at_rest")
    libraries = {"k": "kafkajs", "s": "sarama", "p": "kafka-python", "r": "librdkafka"}
    again: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
    groups = Groups(driver, libraries, partitions=6, per_second=36)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(8, 11))
    broker = driver.coordinator_killed(groups.group("s"))
    driver.rest(chance.uniform(22, 25))
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    driver.broker_returns(broker)
    driver.rest(chance.uniform(10, 12))
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    broker = driver.coordinator_killed(groups.group("k"))
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2", or_trigger=Cause.LEADER_REJOINED)
    driver.rest(chance.uniform(20, 24))
    groups.expect_written(Cause.LEADER_REJOINED, or_trigger=Cause.MEMBER_SESSION_EXPIRED)
    driver.broker_returns(broker)
    driver.rest(chance.uniform(10, 12))
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    groups.leave("1")
    driver.rest(6)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)
