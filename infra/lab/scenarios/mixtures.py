"""Mixtures: groups of several libraries, assignors of the server, members that die without a word, that are paused,
late or commit in transactions, each group with a story of its own. Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.configs import Settings
from infra.lab.driver import Driver
from infra.lab.mover import Mover
from rebalance_audit.domain.causes import Cause

from .connect import LONG_DELAY, Workers
from .groups import Groups
from .reassignment import SMALL_BROKERS, TOPIC, both_modes
from .scenario import KIP848_BROKER, scenario
from .shifts import Crew, shift


@scenario(since="2.7.2")
def mixture_of_libraries(driver: Driver) -> None:
    """Groups that two or three libraries share: Java with kafkajs and sarama, the two of Python, sarama with kafka-go,
    and a cooperative one of librdkafka, Java and franz-go."""
    stories = [
        Crew(driver, "j", {"1": "java", "2": "kafkajs", "3": "sarama", "4": "java"},
              "come 1 2, kill 2, come 3, swap 1 4", partitions=6, assignor="roundrobin"),
        Crew(driver, "p", {"1": "aiokafka", "2": "kafka-python", "3": "aiokafka"},
              "together 1 2, come 3, freeze 2, leave 1", partitions=7, assignor="roundrobin"),
        Crew(driver, "g", {"1": "sarama", "2": "kafka-go", "3": "kafka-go"},
              "come 1 2 3, vanish 2, leave 3", partitions=5),
        Crew(driver, "r", {"1": "librdkafka", "2": "java", "3": "franz-go"},
              "come 1 2 3, crash 2, leave 1", partitions=8, assignor="cooperative-sticky"),
    ]  # fmt: skip
    shift(driver, "mixture_of_libraries", stories)


@scenario(since="2.3.1")
def mixture_without_a_word(driver: Driver) -> None:
    """Members that stop without a word and never go on, as a host without network, and members that pause all that they
    hold: cooperative Java, kafkajs, static librdkafka, sticky sarama and static franz-go."""
    stories = [
        Crew(driver, "j", "java", "come 1 2 3, pause 2, vanish 3, come 4", partitions=6, assignor="cooperative-sticky"),
        Crew(driver, "k", "kafkajs", "come 1 2, pause 1, vanish 2, come 3", partitions=4),
        Crew(driver, "r", "librdkafka", "come 1 2 3, vanish 2, come 2, crash 1", partitions=5, is_static=True),
        Crew(driver, "s", "sarama", "together 1 2 3, vanish 1, leave 2", partitions=7, assignor="sticky"),
        Crew(driver, "f", "franz-go", "come 1 2, crash 1, vanish 2", partitions=5, is_static=True),
    ]
    shift(driver, "mixture_without_a_word", stories)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def mixture_of_server_assignors(driver: Driver) -> None:
    """KIP-848 groups of Java and of librdkafka under the server's range assignor, a uniform one of both and of
    franz-go, and a static one: members vanish, freeze and are swapped, topics grow and fall silent."""
    ranged: dict[str, Any] = {"is_kip848": True, "assignor": "range", "group_remote_assignor": "range"}
    stories = [
        Crew(driver, "j", "java", "come 1 2, grow 2, kill 1, come 3", partitions=6, **ranged),
        Crew(driver, "r", "librdkafka", "together 1 2 3, freeze 2, swap 1 4", partitions=7, **ranged),
        Crew(driver, "u", {"1": "java", "2": "librdkafka", "3": "franz-go"},
              "come 1 2 3, vanish 2, hush, leave 1, loud", partitions=8, is_kip848=True),
        Crew(driver, "t", "java", "come 1 2 3, freeze 3, leave 2", partitions=5, is_kip848=True, is_static=True),
    ]  # fmt: skip
    shift(driver, "mixture_of_server_assignors", stories)


@scenario(since="2.1.1")
def mixture_that_is_late(driver: Driver) -> None:
    """Handlers that take longer than max.poll.interval.ms: of Java, of cooperative librdkafka, of kafka-python and of
    aiokafka, of which one is late twice and one is killed as it comes back; kafkajs members come and go beside them."""
    stories = [
        Crew(driver, "j", "java", "come 1 2, slow 1, slow 1, leave 2", partitions=5),
        Crew(driver, "r", "librdkafka", "come 1 2 3, slow 2, kill 2", partitions=7, assignor="cooperative-sticky"),
        Crew(driver, "p", "kafka-python", "come 1 2, busy 1, slow 2, leave 1", partitions=4),
        Crew(driver, "a", "aiokafka", "come 1 2, slow 2, vanish 1", partitions=6),
        Crew(driver, "k", "kafkajs", "together 1 2 3, swap 2 4, nap 1, kill 3", partitions=6),
    ]
    shift(driver, "mixture_that_is_late", stories)


@scenario(since="2.7.2")
def mixture_of_transactions(driver: Driver) -> None:
    """Groups that commit in transactions alone: Java by roundrobin, static Java and librdkafka, and one of sarama that
    commits as usual. Members vanish, are swapped and killed, and come back."""
    driver.topics(out=2)
    own: dict[str, Any] = {
        "enable_auto_commit": "false", "isolation_level": "read_committed", "lab_output_topic": "out",
    }  # fmt: skip
    stories = [
        Crew(driver, "j", "java", "come 1 2 3, vanish 2, come 4, leave 1", partitions=6, assignor="roundrobin", **own),
        Crew(driver, "t", "java", "come 1 2, crash 2, vanish 1", partitions=4, is_static=True, **own),
        Crew(driver, "r", "librdkafka", "together 1 2, kill 1, come 3, swap 2 4", partitions=5, **own),
        Crew(driver, "s", "sarama", "come 1 2, kill 1, come 1", partitions=5),
    ]
    shift(driver, "mixture_of_transactions", stories)


@scenario(brokers=3, since="2.7.2", time_zone="Asia/Kolkata")
def coordinators_handed_over(driver: Driver) -> None:
    """Groups of kafka-go, aiokafka, franz-go and Java on three brokers whose logs are in India's time: a coordinator
    stops cleanly, is back, and is preferred again, twice; a member of each is killed meanwhile, one comes, and one
    closes."""
    chance = Random("coordinators_handed_over")
    again: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
    libraries = {"g": "kafka-go", "a": "aiokafka", "f": "franz-go", "j": "java"}
    groups = Groups(driver, libraries, partitions=6, per_second=36)
    groups.come("1", "2")
    driver.rest(chance.uniform(4, 7))
    driver.coordinator_moved(groups.group("g"))
    driver.rest(chance.uniform(10, 12))
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    groups.come("3")
    driver.rest(chance.uniform(3, 6))
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.coordinator_moved(groups.group("j"))
    driver.rest(chance.uniform(22, 25))
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    groups.leave("1")
    driver.rest(6)
    groups.settle()
    groups.expect_written(Cause.LEADER_REJOINED, **again)


STREAMS_BROKER: Settings = {
    "group.streams.min.session.timeout.ms": 9000,
    "group.streams.session.timeout.ms": 10_000,
    "group.streams.min.heartbeat.interval.ms": 2000,
    "group.streams.heartbeat.interval.ms": 3000,
}


@scenario(since="4.2.0", broker_properties=STREAMS_BROKER)
def streams_group_in_trouble(driver: Driver) -> None:
    """A stateless streams group (KIP-1071) of three instances: the third is frozen for longer than its session (10 s)
    and goes on, the second is killed and is back, and the first closes."""
    chance = Random("streams_group_in_trouble")
    driver.topics(flow=6)
    driver.produce(per_second=36)
    driver.group("flow-app", group_type="streams", mode="server", assignor="sticky", first_number=2)

    def follow() -> None:
        driver.settle("flow-app", quiet_s=5.0)
        while driver.expect_if_written(
            "flow-app", Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.STREAMS_FOLLOW_UP
        ):
            pass

    def come(name: str) -> None:
        settings: Settings = {"group.protocol": "streams", "num.stream.threads": 1, "state.dir": f"data/{name}"}
        driver.join(name, "flow-app", ["flow"], library="streams", settings=settings)
        driver.expect("flow-app", Cause.MEMBER_JOINED, [name])
        driver.rest(8)
        follow()

    for name in ("w1", "w2", "w3"):
        come(name)
    driver.rest(chance.uniform(4, 7))
    driver.freeze("w3")
    driver.expect("flow-app", Cause.MEMBER_SESSION_EXPIRED, ["w3"])
    driver.rest(chance.uniform(15, 17))
    follow()
    driver.thaw("w3")
    driver.expect("flow-app", Cause.MEMBER_JOINED, ["w3"])
    driver.rest(10)
    follow()
    driver.kill("w2")
    driver.expect("flow-app", Cause.MEMBER_SESSION_EXPIRED, ["w2"])
    driver.rest(15)
    follow()
    come("w2")
    driver.leave("w1")
    driver.expect("flow-app", Cause.MEMBER_LEFT, ["w1"])
    driver.rest(8)
    follow()


@scenario(connect_workers=3, since="2.4.1", worker_properties=LONG_DELAY)
def connect_fails_in_the_midst(driver: Driver) -> None:
    """Three workers: a task throws in each process and is restarted; the third worker is killed, a connector gets more
    tasks when its session (10 s) has ended, and it is back before the delay of 40 s ends; a connector is paused and
    goes on; the second worker stops for good."""
    chance = Random("connect_fails_in_the_midst")
    workers = Workers(driver)
    driver.connector("broken", 2, "events", fail_task=1, fail_ms=2500)
    driver.rest(12)
    workers.ask("restart task", "POST", "connectors/broken/tasks/1/restart", "broken-1")
    driver.settle_connect()
    driver.worker_killed(3)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [3])
    driver.rest(chance.uniform(14, 16))
    workers.reconfigure("alpha", 5)
    driver.rest(chance.uniform(2, 4))
    while driver.expect_if_joined(workers.group, Cause.CONNECT_CONFIG_CHANGED):
        pass
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    driver.rest(36)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    # It failed in the new process, too.
    workers.ask("restart task", "POST", "connectors/broken/tasks/1/restart", "broken-1")
    driver.settle_connect()
    workers.ask("pause", "PUT", "connectors/beta/pause", "beta")
    driver.rest(chance.uniform(4, 6))
    workers.ask("resume", "PUT", "connectors/beta/resume", "beta")
    driver.rest(4)
    driver.worker_stopped(2)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [2])
    driver.rest(43)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    driver.settle_connect()


@both_modes(brokers=5, broker_properties=SMALL_BROKERS)
def reassign_in_waves(driver: Driver) -> None:
    """Under a throttle three partitions move; one is cancelled and asked for again, a broker that takes part in none
    restarts meanwhile, and the throttle is raised. Then one gets a replica more, and all go back at once."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2", "2,3", "3,1")
        mover.fill(TOPIC, 4)
        mover.throttle(TOPIC, 60_000)
        driver.rest(2)
        mover.expect("orders-0", "1,2", "4,2", "cancelled")
        mover.expect("orders-1", "2,3", "4,3", "completed")
        mover.expect("orders-2", "3,1", "1,4", "completed")
        mover.ask("move orders-0=4,2 orders-1=4,3 orders-2=1,4")
        driver.rest(4)
        mover.ask("cancel orders-0")
        driver.rest(3)
        # The set of replicas is restored, their order is not.
        mover.expect("orders-0", "2,1", "4,2", "completed")
        mover.ask("move orders-0=4,2")
        driver.broker_restarts(5)
        driver.rest(8)
        mover.rate(100_000_000)
        mover.settle("orders-0", "orders-1", "orders-2")
        mover.expect("orders-1", "4,3", "4,3,5", "completed")
        mover.ask("move orders-1=4,3,5")
        mover.settle("orders-1")
        mover.expect("orders-0", "4,2", "1,2", "completed")
        mover.expect("orders-1", "4,3,5", "2,3", "completed")
        mover.expect("orders-2", "1,4", "3,1", "completed")
        mover.ask("move orders-0=1,2 orders-1=2,3 orders-2=3,1")
        mover.settle("orders-0", "orders-1", "orders-2")
        driver.rest(3)
