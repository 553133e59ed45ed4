"""Relays: members hand over to one another in ways that no other story has, in groups that do not know of each other.
Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .connect import Workers
from .members import StreamsMembers
from .scenario import KIP848_BROKER, scenario
from .shifts import Crew, shift


@scenario(since="2.4.1")
def relay_of_cooperative(driver: Driver) -> None:
    """Cooperative groups of Java, kafka-python and sarama, an eager one of kafka-go and a sticky one of franz-go: a
    newcomer is killed, two close one after the other, members are back at once."""
    stories = [
        Crew(driver, "j", "java", "come 1 2 3, crash 3, leave 1, come 1, kill 2", partitions=7,
             assignor="cooperative-sticky"),
        Crew(driver, "p", "kafka-python", "come 1 2, leave 2, come 3, swap 1 2", partitions=6,
             assignor="cooperative-sticky"),
        Crew(driver, "s", "sarama", "come 1 2 3, kill 1, come 1, leave 2", partitions=5,
             assignor="cooperative-sticky"),
        Crew(driver, "g", "kafka-go", "together 1 2, nap 1, come 3, kill 1 2", partitions=4, assignor="roundrobin"),
    ]  # fmt: skip
    shift(driver, "relay_of_cooperative 41", stories)


@scenario(since="3.0.2")
def relay_of_java(driver: Driver) -> None:
    """Java alone: sticky, range with commits every second, cooperative and static, and roundrobin whose handler is
    busy; swaps, freezes, pairs killed, a group emptied and begun again."""
    stories = [
        Crew(driver, "t", "java", "together 1 2 3, swap 2 4, kill 1 3", partitions=8, assignor="sticky"),
        Crew(driver, "c", "java", "come 1 2, freeze 1, leave 2, empty 1, come 3", partitions=5,
             auto_commit_interval_ms=1000),
        Crew(driver, "i", "java", "come 1 2, crash 1, kill 2, come 2", partitions=6, is_static=True,
             assignor="cooperative-sticky"),
        Crew(driver, "b", "java", "come 1 2, busy 2, pause 1, slow 1", partitions=4, assignor="roundrobin"),
    ]  # fmt: skip
    shift(driver, "relay_of_java 42", stories)


@scenario(since="2.7.2")
def relay_in_pairs(driver: Driver) -> None:
    """Two libraries in each group: librdkafka with aiokafka, kafka-python with franz-go, Java with sarama, kafkajs with
    librdkafka. Those of one library come, those of the other go."""
    stories = [
        Crew(driver, "r", {"1": "librdkafka", "2": "aiokafka", "3": "librdkafka", "4": "aiokafka"},
             "come 1 2, swap 1 4, kill 2, come 3", partitions=7, assignor="roundrobin"),
        Crew(driver, "g", {"1": "kafka-python", "2": "franz-go", "3": "franz-go"},
             "come 1 2, crash 2, come 3, leave 1", partitions=6),
        Crew(driver, "j", {"1": "java", "2": "sarama", "3": "java"}, "come 1 2 3, vanish 1, nap 3, leave 2",
             partitions=5),
        Crew(driver, "k", {"1": "kafkajs", "2": "librdkafka", "3": "kafkajs"}, "come 2 1, freeze 2, come 3, kill 1",
             partitions=4, assignor="roundrobin"),
    ]  # fmt: skip
    shift(driver, "relay_in_pairs 43", stories)


@scenario(since="2.7.2")
def relay_with_rare_commits(driver: Driver) -> None:
    """Commits every 8 to 12 s: librdkafka, aiokafka, franz-go, Java and kafka-python. Members are killed, frozen,
    swapped, and back before their session ends."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2 3, kill 2, crash 1", partitions=6, auto_commit_interval_ms=12_000),
        Crew(driver, "a", "aiokafka", "come 1 2, kill 1, come 3, swap 2 4", partitions=5,
             auto_commit_interval_ms=9000),
        Crew(driver, "f", "franz-go", "together 1 2 3, freeze 3, leave 1", partitions=7, auto_commit_interval_ms=8000),
        Crew(driver, "j", "java", "come 1 2 3, kill 3, leave 2", partitions=4, auto_commit_interval_ms=10_000),
        Crew(driver, "p", "kafka-python", "come 1 2, kill 2, come 2, leave 1", partitions=4,
             auto_commit_interval_ms=8000),
    ]  # fmt: skip
    shift(driver, "relay_with_rare_commits 44", stories)


@scenario(since="2.7.2")
def relay_that_grows(driver: Driver) -> None:
    """Topics get more partitions twice, or between a kill and a return: cooperative librdkafka, Java, kafka-python and
    aiokafka."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2, grow 2, kill 1, grow 1, come 3", partitions=5,
             assignor="cooperative-sticky"),
        Crew(driver, "j", "java", "come 1 2 3, grow 3, crash 2, leave 1", partitions=4),
        Crew(driver, "p", "kafka-python", "come 1 2, grow 2, leave 1, come 1", partitions=3, assignor="roundrobin"),
        Crew(driver, "a", "aiokafka", "together 1 2 3, kill 2, grow 2, nap 1", partitions=5, assignor="range"),
    ]  # fmt: skip
    shift(driver, "relay_that_grows 45", stories)


@scenario(since="2.3.1")
def relay_emptied(driver: Driver) -> None:
    """Groups are emptied and begun again, by leaving and by dying: kafkajs, sarama, static franz-go, librdkafka."""
    stories = [
        Crew(driver, "k", "kafkajs", "come 1 2, leave 1, empty 2, come 3 4, kill 3", partitions=5),
        Crew(driver, "s", "sarama", "come 1, empty 1, together 2 3, swap 2 4", partitions=6),
        Crew(driver, "f", "franz-go", "come 1 2 3, crash 3, kill 1, come 1", partitions=7, is_static=True),
        Crew(driver, "r", "librdkafka", "come 1 2, leave 2, empty 1, together 1 2 3, kill 2", partitions=4),
    ]  # fmt: skip
    shift(driver, "relay_emptied 46", stories)


@scenario(since="2.7.2")
def relay_of_late(driver: Driver) -> None:
    """Handlers that are late while others come and go: librdkafka by roundrobin, cooperative Java, aiokafka and
    kafka-python."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2, slow 1, come 3, slow 2", partitions=6, assignor="roundrobin"),
        Crew(driver, "j", "java", "come 1 2 3, slow 3, kill 1", partitions=7, assignor="cooperative-sticky"),
        Crew(driver, "a", "aiokafka", "come 1 2 3, busy 2, slow 1, leave 3", partitions=5),
        Crew(driver, "p", "kafka-python", "come 1 2, slow 1, come 3, leave 2", partitions=5, assignor="roundrobin"),
    ]  # fmt: skip
    shift(driver, "relay_of_late 47", stories)


@scenario(brokers=3, since="2.7.2")
def relay_on_three_brokers(driver: Driver) -> None:
    """Three brokers that stay up, and commits that each copy: sarama, Java, kafka-go, librdkafka and aiokafka, each
    with kills, swaps and closes of its own."""
    stories = [
        Crew(driver, "s", "sarama", "come 1 2, kill 1, come 3", partitions=6, assignor="roundrobin"),
        Crew(driver, "j", "java", "come 1 2 3, leave 1, kill 3", partitions=7),
        Crew(driver, "g", "kafka-go", "come 1 2, swap 1 3, kill 2", partitions=5),
        Crew(driver, "r", "librdkafka", "come 1 2 3, crash 2, leave 3", partitions=6),
        Crew(driver, "a", "aiokafka", "come 1 2, freeze 1, leave 2", partitions=4),
    ]
    shift(driver, "relay_on_three_brokers 48", stories)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def relay_of_kip848(driver: Driver) -> None:
    """KIP-848: static librdkafka, one killed and back late; two of three Java members killed; franz-go frozen
    and swapped; and a group of all three whose topic grows as one is away."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2 3, kill 2, come 2, leave 3", partitions=6, is_kip848=True,
             is_static=True),
        Crew(driver, "j", "java", "together 1 2 3, kill 1 3, come 1", partitions=7, is_kip848=True),
        Crew(driver, "f", "franz-go", "come 1 2, freeze 1, swap 2 3", partitions=5, is_kip848=True),
        Crew(driver, "u", {"1": "librdkafka", "2": "java", "3": "franz-go"},
             "come 1 2, kill 1, grow 3, come 3, leave 2", partitions=4, is_kip848=True),
    ]  # fmt: skip
    shift(driver, "relay_of_kip848 49", stories)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def relay_of_both(driver: Driver) -> None:
    """KIP-848 groups of Java and librdkafka beside classic ones of kafka-python, sarama and kafkajs; topics fall silent
    while members vanish."""
    stories = [
        Crew(driver, "j", "java", "come 1 2 3, hush, vanish 2, loud, leave 1", partitions=6, is_kip848=True),
        Crew(driver, "r", "librdkafka", "come 1 2, nap 2, kill 2, come 2", partitions=5, is_kip848=True),
        Crew(driver, "p", "kafka-python", "come 1 2, vanish 1, come 3", partitions=4),
        Crew(driver, "s", "sarama", "come 1 2, hush, leave 2, loud, come 3", partitions=6, assignor="sticky"),
        Crew(driver, "k", "kafkajs", "come 1 2 3, swap 3 4, crash 1", partitions=7),
    ]
    shift(driver, "relay_of_both 50", stories)


@scenario(since="2.1.1")
def relay_of_old(driver: Driver) -> None:
    """Members of the six libraries on brokers of long ago: short stories with a kill, a close and a freeze each."""
    stories = [
        Crew(driver, "r", "librdkafka", "come 1 2, freeze 2, leave 1", partitions=5),
        Crew(driver, "a", "aiokafka", "come 1 2 3, kill 2, leave 1", partitions=4),
        Crew(driver, "f", "franz-go", "come 1 2, crash 1, kill 2", partitions=6),
        Crew(driver, "p", "kafka-python", "come 1 2, kill 1, come 3", partitions=5),
        Crew(driver, "j", "java", "come 1 2 3, kill 3, swap 1 4", partitions=7),
    ]
    shift(driver, "relay_of_old 51", stories)


@scenario(since="2.7.2")
def relay_of_streams(driver: Driver) -> None:
    """A stateless Streams application of two instances: the first, which leads, is frozen for longer than its session
    (10 s) and goes on; a third comes, and the second is killed."""
    chance = Random("relay_of_streams 52")
    members = StreamsMembers(driver, "pair-app", partitions=6, per_second=30)
    for name in ("w1", "w2"):
        members.come(name)
    driver.rest(chance.uniform(4, 7))
    driver.freeze("w1")
    members.expires("w1", chance.uniform(15, 17))
    driver.thaw("w1")
    members.expect(Cause.MEMBER_JOINED, ["w1"])
    driver.rest(8)
    members.follow()
    members.come("w3")
    driver.rest(chance.uniform(3, 6))
    driver.kill("w2")
    members.expires("w2", 13)


@scenario(connect_workers=2, worker_properties={"scheduled.rebalance.max.delay.ms": 12_000})
def relay_of_workers(driver: Driver) -> None:
    """Two connectors of three tasks on two workers. A third comes; the second is killed and stays away
    (delay 12 s); a connector gets fewer tasks; the third stops for good."""
    chance = Random("relay_of_workers 53")
    workers = Workers(driver)
    driver.rest(chance.uniform(3, 6))
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()
    driver.worker_killed(2)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [2])
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    driver.settle_connect()
    workers.reconfigure("beta", 2)
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()
    driver.rest(chance.uniform(3, 6))
    driver.worker_stopped(3)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [3])
    driver.rest(16)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    driver.settle_connect()
