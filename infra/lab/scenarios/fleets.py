"""What fleets go through between two deploys: libraries in one group, topics that go and come, upgrades, pauses."""

from __future__ import annotations

from typing import Any

from infra.lab.clients import kip848_settings
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .connect import Workers
from .groups import Groups
from .members import Kip848Members, Members
from .scenario import KIP848_BROKER, scenario

QUIET_S = 4.0
TICKS_PER_S = 24


@scenario(since="2.7.2")
def kafkajs_beside_java(driver: Driver) -> None:
    """kafkajs members whose assigner goes by Java's name `roundrobin` share a group with Java ones; a kafkajs one is
    killed, the leader leaves and is back, and the kafkajs one, too."""
    members = Members(
        driver, "shared-app", {"orders": 7}, assignor="roundrobin", per_second=TICKS_PER_S, quiet_s=QUIET_S
    )
    kafkajs: dict[str, Any] = {"library": "kafkajs", "lab_assigner_name": "roundrobin"}
    members.join("j1")
    members.join("k1", **kafkajs)
    members.join("j2")
    members.join("k2", **kafkajs)
    members.kill("k1")
    members.leave("j1")
    members.join("k1", **kafkajs)
    members.join("j1")
    members.leave("k2")


@scenario(since="2.7.2")
def libraries_in_turn(driver: Driver) -> None:
    """A group of five libraries by `range` or `roundrobin` is led by each in turn: the leader is killed or closes."""
    members = Members(
        driver, "turns-app", {"orders": 9}, assignor="roundrobin", per_second=TICKS_PER_S, quiet_s=QUIET_S
    )
    for name, library in (
        ("p1", "kafka-python"),
        ("a1", "aiokafka"),
        ("j1", "java"),
        ("f1", "franz-go"),
        ("r1", "librdkafka"),
    ):
        members.join(name, library=library)
    members.kill("p1")
    members.leave("a1")
    members.kill("j1")


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def topic_made_again(driver: Driver) -> None:
    """Two classic groups, of Java and of librdkafka, and a KIP-848 one read two topics. One topic is deleted, and some
    time later there is one of that name again, with more partitions."""
    driver.topics(orders=3, mail=2)
    driver.produce(per_second=TICKS_PER_S)
    topics = ["orders", "mail"]
    classic = {"j": "java", "r": "librdkafka"}
    for letter in classic:
        driver.group(f"{letter}-app", group_type="classic", mode="eager", assignor="range")
    server = {"group_type": "consumer", "mode": "server", "assignor": "uniform"}
    driver.group("k-app", **server, first_number=2 if version_key(driver.cluster.version) >= (4, 3) else 1)
    for number in "12":
        for letter, library in classic.items():
            refresh = "metadata_max_age_ms" if library == "java" else "topic_metadata_refresh_interval_ms"
            more: dict[str, Any] = {refresh: 3000}
            driver.join(f"{letter}{number}", f"{letter}-app", topics, library=library, **more)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])
        driver.join(f"k{number}", "k-app", topics, settings=kip848_settings(metadata_max_age_ms=3000))
        driver.expect("k-app", Cause.MEMBER_JOINED, [f"k{number}"])
        for letter in "jrk":
            driver.settle(f"{letter}-app", quiet_s=QUIET_S)
    driver.rest(6)
    for is_there in (False, True):
        if is_there:
            driver.later_topic("mail", 4)
        else:
            driver.topic_deleted("mail")
        driver.expect("k-app", Cause.TOPIC_METADATA_CHANGED, [])
        driver.rest(20)
        for letter in classic:
            # librdkafka names only topics that exist in its subscription, and each member finds out by itself.
            while driver.expect_if_written(
                f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.SUBSCRIPTION_CHANGED
            ):
                pass
    for letter in "jrk":
        driver.settle(f"{letter}-app", quiet_s=QUIET_S)
    driver.kill("k2")
    driver.expect("k-app", Cause.MEMBER_SESSION_EXPIRED, ["k2"])
    driver.settle("k-app", quiet_s=QUIET_S)


@scenario(connect_workers=3, worker_properties={"scheduled.rebalance.max.delay.ms": 10_000})
def connect_leader_frozen(driver: Driver) -> None:
    """A worker is stopped with SIGSTOP for 6 s, which its session (10 s) outlives; later the leader for longer: its
    tasks are handed out at once, and run twice when it goes on."""
    workers = Workers(driver)
    driver.rest(4)
    workers.freeze_briefly(2, seconds=6)
    driver.rest(6)
    workers.freeze(1)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [1])
    driver.rest(12)
    driver.settle_connect()
    workers.thaw(1)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [1])
    driver.rest(5)
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_broker_killed(driver: Driver) -> None:
    """The only broker of a KIP-848 group is killed, and a member right after it; the broker is back 8 s later and gives
    everybody a new session. Then it restarts in good order, and a member closes."""
    members = Kip848Members(driver, "patient-app", {"orders": 6}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    members.join("k1", "k2")
    members.join("r1", library="librdkafka")
    members.join("k3")
    driver.rest(3)
    driver.broker_killed(1)
    driver.kill_together("k2")
    driver.rest(8)
    driver.broker_returns(1)
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["k2"])
    driver.rest(14)
    members.settle()
    driver.broker_restarts(1)
    driver.rest(14)
    members.settle()
    members.leave("r1")
    members.kill("k3")


@scenario(since="2.7.2")
def one_name_in_two_groups(driver: Driver) -> None:
    """All members of two groups on one topic call themselves alike. A member of one is killed while one of the other
    closes, and the other way round; each is back."""
    driver.topics(orders=5)
    driver.produce(per_second=TICKS_PER_S)
    groups = {"a": ("east-app", "java"), "b": ("west-app", "librdkafka")}
    for group, _ in groups.values():
        driver.group(group, group_type="classic", mode="eager", assignor="range")

    def come(*names: str) -> None:
        for name in names:
            group, library = groups[name[0]]
            driver.join(name, group, ["orders"], library=library, client_id="shop")
            driver.expect(group, Cause.MEMBER_JOINED, [name])
        settle()

    def settle() -> None:
        for group, _ in groups.values():
            driver.settle(group, quiet_s=QUIET_S)

    for number in "123":
        come(f"a{number}", f"b{number}")
    for killed, closed in (("a2", "b1"), ("b3", "a1")):
        driver.kill(killed)
        driver.expect(groups[killed[0]][0], Cause.MEMBER_SESSION_EXPIRED, [killed])
        driver.leave(closed)
        driver.expect(groups[closed[0]][0], Cause.MEMBER_LEFT, [closed])
        driver.rest(11)
        settle()
        come(killed, closed)


@scenario(since="2.7.2")
def paused(driver: Driver) -> None:
    """A Java, a librdkafka and a kafkajs group of two; the second member of each pauses what it holds for 20 s and goes
    on, as one that waits for a database does. Then each closes."""
    groups = Groups(driver, {"j": "java", "r": "librdkafka", "k": "kafkajs"}, partitions=4)
    groups.come("1", "2")
    driver.rest(14)
    driver.pause_briefly(*groups.names("2"), seconds=20)
    driver.rest(14)
    groups.leave("2")
    groups.settle()


@scenario(brokers=3, since="4.0.0", broker_properties=KIP848_BROKER)
def rolling_upgrade(driver: Driver) -> None:
    """Three brokers are stopped and started one after the other with the jars of 4.3.0, under an eager group and a
    KIP-848 one. A member of each is killed after the second, and is back after the third."""
    driver.topics(orders=6)
    driver.produce(per_second=TICKS_PER_S)
    driver.group("old-app", group_type="classic", mode="eager", assignor="range")
    driver.group("new-app", group_type="consumer", mode="server", assignor="uniform")

    def come(*numbers: str) -> None:
        for number in numbers:
            driver.join(f"o{number}", "old-app", ["orders"], library="librdkafka")
            driver.expect("old-app", Cause.MEMBER_JOINED, [f"o{number}"])
            driver.join(f"n{number}", "new-app", ["orders"], settings=kip848_settings())
            driver.expect("new-app", Cause.MEMBER_JOINED, [f"n{number}"])
            settle()

    def settle() -> None:
        for group in ("old-app", "new-app"):
            driver.settle(group, quiet_s=QUIET_S)

    come("1", "2", "3")
    for broker in (1, 2, 3):
        driver.broker_upgraded(broker, "4.3.0")
        driver.rest(12)
        settle()
        # Once, as the group comes to the first broker of the new version.
        driver.expect_if_written("new-app", Cause.COORDINATOR_UPGRADED, [])
        if broker == 2:
            for name, group in (("o2", "old-app"), ("n2", "new-app")):
                driver.kill(name)
                driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, [name])
            driver.rest(11)
            settle()
    come("2")


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_transactions(driver: Driver) -> None:
    """librdkafka members of a KIP-848 group commit in transactions alone, one a second, every third aborted; one is
    killed with one open or not, and one leaves."""
    members = Kip848Members(driver, "exactly-once-app", {"payments": 5}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    driver.topics(receipts=1)
    settings = kip848_settings(enable_auto_commit="false", lab_output_topic="receipts")
    members.join("t1", "t2", "t3", library="librdkafka", settings=settings)
    members.kill("t2")
    members.leave("t1")
    members.join("t2", library="librdkafka", settings=settings)


@scenario(since="2.7.2")
def frozen_after_silence(driver: Driver) -> None:
    """Groups of Java, librdkafka, sarama and franz-go members: their topic falls silent for 14 s. The second member of
    each is stopped with SIGSTOP 6 s into the silence, and goes on 12 s after it has ended (session 45 s). It closes."""
    libraries = {"j": "java", "r": "librdkafka", "s": "sarama", "f": "franz-go"}
    groups = Groups(driver, libraries, partitions=4)
    groups.come("1", "2", session_timeout_ms=45_000)
    driver.rest(14)
    driver.fall_silent()
    driver.rest(6)
    driver.begin_stall(*groups.names("2"))
    driver.rest(8)
    driver.produce(per_second=TICKS_PER_S)
    driver.rest(12)
    driver.end_stall(*groups.names("2"))
    driver.rest(14)
    groups.leave("2")
    groups.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def silent_close_kip848(driver: Driver) -> None:
    """Three KIP-848 groups of two, of Java, librdkafka and franz-go: nothing is produced for 16 s, which is longer than
    max.poll.interval.ms (12 s). Then the second member of each closes, and the first: nobody was late."""
    own = {letter: {"max_poll_interval_ms": 12_000} for letter in "jr"}  # franz-go has no such setting
    libraries = {"j": "java", "r": "librdkafka", "f": "franz-go"}
    groups = Groups(driver, libraries, partitions=4, is_kip848=True, own=own)
    groups.come("1", "2")
    driver.rest(6)
    driver.fall_silent()
    driver.rest(16)
    for number, outcome in (("2", "completed"), ("1", "emptied")):
        groups.leave(number, outcome=outcome)
        driver.rest(8)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_slow_callback(driver: Driver) -> None:
    """k2's revoked callback takes 20 s when k3 joins, longer than its max.poll.interval.ms (8 s), while its background
    thread goes on committing: it leaves by itself, and joins again when the callback is over."""
    members = Kip848Members(driver, "callback-app", {"orders": 6}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    members.join("k1", "k2", max_poll_interval_ms=8000)
    driver.rest(6)
    driver.send("k2", "revoke_delay 20000")
    members.start("k3", max_poll_interval_ms=8000)
    members.expect(Cause.MEMBER_JOINED, ["k3"], outcome="superseded", members=["k1", "k2", "k3"])
    driver.wait_for("k2", "revoked_start")
    members.expect(Cause.MEMBER_POLL_TIMEOUT, ["k2"], or_trigger=Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT)
    driver.wait_for("k2", "revoked_end")
    driver.send("k2", "revoke_delay 0")
    members.expect(Cause.MEMBER_JOINED, ["k2"])
    driver.rest(8)
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def quiet_partitions(driver: Driver) -> None:
    """Two of four partitions get no messages any more: those of the second member, in a group of each of five libraries
    and in a KIP-848 one. 14 s later it closes, and is back."""
    libraries = {"j": "java", "r": "librdkafka", "s": "sarama", "f": "franz-go", "k": "kafkajs", "m": "librdkafka"}
    driver.topics(orders=4)
    driver.produce(per_second=TICKS_PER_S)
    first = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
    for letter, library in libraries.items():
        if letter == "m":
            facts: dict[str, Any] = {"group_type": "consumer", "mode": "server", "assignor": "uniform"}
            facts["first_number"] = first
        else:
            assignor = "roundrobin" if library == "kafkajs" else "range"
            facts = {"group_type": "classic", "mode": "eager", "assignor": assignor}
        driver.group(f"{letter}-app", **facts)

    def settle() -> None:
        for letter in libraries:
            driver.settle(f"{letter}-app", quiet_s=QUIET_S)

    def come(number: str) -> None:
        for letter, library in libraries.items():
            settings = kip848_settings() if letter == "m" else None
            driver.join(f"{letter}{number}", f"{letter}-app", ["orders"], library=library, settings=settings)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])
        settle()

    come("1")
    come("2")
    driver.rest(12)
    driver.fall_silent_at("orders", 2, 3)
    driver.rest(14)
    for letter in libraries:
        driver.leave(f"{letter}2")
        driver.expect(f"{letter}-app", Cause.MEMBER_LEFT, [f"{letter}2"])
    settle()
    come("2")


@scenario(since="2.7.2", broker_properties={"group.initial.rebalance.delay.ms": 3000})
def all_at_once(driver: Driver) -> None:
    """Groups of Java, librdkafka, sarama and kafkajs on a broker that waits 3 s for the first members: three come at
    once, all are closed at once, as a deployment is scaled to nothing, and come at once again. Then two are killed."""
    libraries = {"j": "java", "r": "librdkafka", "s": "sarama", "k": "kafkajs"}
    groups = Groups(driver, libraries, partitions=6)

    def come() -> None:
        for number in "123":
            groups.start(number)
        groups.expect(Cause.MEMBER_JOINED, "123")
        driver.rest(8)
        groups.expect_written(Cause.MEMBER_JOINED)
        groups.settle()

    come()
    driver.rest(6)
    driver.leave_together(*(name for number in "123" for name in groups.names(number)))
    driver.rest(4)
    groups.expect_written(Cause.MEMBER_LEFT)
    groups.expect(Cause.MEMBER_LEFT, "", outcome="emptied")
    come()
    for second, third in zip(groups.names("2"), groups.names("3"), strict=True):
        driver.kill_together(second, third)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "23")
    driver.rest(14)
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED)
    groups.settle()
    driver.rest(6)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def stuck_kip848(driver: Driver) -> None:
    """KIP-848 groups of two, of librdkafka and of franz-go: the application of the second member is stuck for 25 s,
    longer than max.poll.interval.ms (9 s). librdkafka sends no heartbeats from then on, its session (10 s) ends, and
    it is back under the same id; franz-go goes on. Then both close."""
    own = {"r": {"max_poll_interval_ms": 9000}}
    groups = Groups(driver, {"r": "librdkafka", "f": "franz-go"}, partitions=4, is_kip848=True, own=own)
    groups.come("1", "2")
    driver.rest(12)
    groups.each("2", lambda name: driver.send(name, "stall 25000"))
    driver.expect(groups.group("r"), Cause.MEMBER_SESSION_EXPIRED, ["r2"], members=["r1"])
    driver.rest(28)
    driver.expect(groups.group("r"), Cause.MEMBER_JOINED, ["r2"])
    driver.rest(8)
    groups.settle()
    groups.leave("2")
    groups.settle()
    driver.rest(6)
