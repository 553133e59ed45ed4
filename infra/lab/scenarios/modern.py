"""Groups whose coordinator assigns: KIP-848 consumers, share consumers, Streams on its own protocol; and Streams on the
classic one, which they replace."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.clients import kip848_settings, streams_settings
from infra.lab.configs import Settings, version_key
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Kip848Members, Members
from .scenario import KIP848_BROKER, scenario


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def group_conversion(driver: Driver) -> None:
    """A KIP-848 member joins a classic group of two, which becomes a consumer group, then leaves: classic again."""
    members = Members(driver, "convert-app", {"convert": 6}, group_type="mixed")
    members.join("o1", "o2")
    members.expect(
        Cause.GROUP_CONVERTED, [], number=2, mode="server", members=["o1", "o2"], group_type="consumer"
    )  # the same number on the other side
    members.start("k3", settings=kip848_settings())
    members.expect(Cause.MEMBER_JOINED, ["k3"], mode="server", group_type="consumer")
    members.settle()
    driver.leave("k3")
    # The group converts back as it stands, with the number it has, and then rebalances for the member that left.
    members.expect(Cause.GROUP_CONVERTED, [], number=3, members=["o1", "o2"], group_type="classic")
    members.expect(Cause.MEMBER_LEFT, ["k3"])
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def conversion_killed(driver: Driver) -> None:
    """A KIP-848 member joins a classic group of two, which becomes a consumer group. A classic member is killed
    (session 10 s), then the KIP-848 one (the brokers' session, 10 s): classic again."""
    members = Members(driver, "convert-app", {"convert": 5}, group_type="mixed", quiet_s=4.0)
    members.join("o1", "o2")
    server = {"mode": "server", "group_type": "consumer"}
    members.expect(Cause.GROUP_CONVERTED, [], number=2, members=["o1", "o2"], **server)
    members.start("k3", library="librdkafka", settings=kip848_settings())
    members.expect(Cause.MEMBER_JOINED, ["k3"], **server)
    members.settle()
    driver.kill("o2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["o2"], **server)
    members.settle()
    driver.kill("k3")
    members.expect(Cause.GROUP_CONVERTED, [], number=4, members=["o1"], group_type="classic")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["k3"])
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_slow_revocation(driver: Driver) -> None:
    """k1 needs 12 s inside its revoked callback when k2 joins: k2 waits at the new epoch without its partitions."""
    members = Kip848Members(driver, "stuck-app", {"stuck": 6})
    members.join("k1")
    driver.send("k1", "revoke_delay 12000")
    members.start("k2")
    members.expect(Cause.MEMBER_JOINED, ["k2"])
    driver.wait_for("k1", "revoked_end")
    members.settle()
    driver.send("k1", "revoke_delay 0")
    members.leave("k2")


def _share_members(driver: Driver, group: str, topics: dict[str, int]) -> Members:
    return Members(
        driver, group, topics, group_type="share", mode="server", assignor="simple", first_number=2, library="share"
    )


def _classic_streams(driver: Driver, group: str, topics: dict[str, int]) -> Members:
    return Members(driver, group, topics, mode="cooperative", assignor="stream", library="streams")


def _grow_to_two(members: Members, **options: str | int) -> None:
    """The second instance is given its tasks in a second round."""
    members.join("w1", settings=streams_settings(state_dir="data/w1", **options))
    members.start("w2", settings=streams_settings(state_dir="data/w2", **options))
    members.expect(Cause.MEMBER_JOINED, ["w2"])
    # Either name: a consumer that gave something up joins again by itself, and the assignor had asked it to.
    members.expect(Cause.STREAMS_FOLLOW_UP, ["w1"], or_trigger=Cause.COOPERATIVE_FOLLOW_UP)
    members.settle()


@scenario(since="4.2.0")
def share_group(driver: Driver) -> None:
    """Two share consumers, each on every partition; one leaves."""
    members = _share_members(driver, "share-app", {"shared": 4})
    members.start("s1", settings={})
    members.expect(Cause.MEMBER_JOINED, ["s1"])
    driver.rest(12)
    # The state of the partitions is initialised some seconds later, with an epoch of its own.
    members.expect(Cause.SHARE_STATE_INITIALIZED, [])
    members.start("s2", settings={})
    members.expect(Cause.MEMBER_JOINED, ["s2"])
    driver.rest(12)
    driver.leave("s1")
    members.expect(Cause.MEMBER_LEFT, ["s1"])
    driver.rest(12)


@scenario(since="4.2.0", broker_properties={"group.streams.initial.rebalance.delay.ms": 0})
def streams_protocol(driver: Driver) -> None:
    """Two Streams instances on group.protocol=streams (KIP-1071); the first leaves."""
    members = Members(
        driver, "flow-app", {"flow": 4}, group_type="streams", mode="server", assignor="sticky", first_number=2,
        library="streams",
    )  # fmt: skip
    for name in ("w1", "w2"):
        settings = {"group.protocol": "streams", "num.stream.threads": 1, "state.dir": f"data/{name}"}
        members.join(name, settings=settings)
    members.leave("w1")


@scenario(since="2.3.1")
def streams_scale_out(driver: Driver) -> None:
    """A stateless Streams application (classic protocol) grows to two instances: the second round follows at once.
    Its close() does not leave: the session ends after 10 s."""
    members = _classic_streams(driver, "scale-app", {"scale": 4})
    _grow_to_two(members)
    driver.leave("w1")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w1"])
    members.settle()


@scenario()
def streams_probing(driver: Driver) -> None:
    """A stateful Streams application grows to two instances: state is warmed up first, a probing rebalance after a
    minute finds it ready, and tasks move."""
    members = _classic_streams(driver, "probe-app", {"probe": 4})
    more: dict[str, str | int] = {
        "lab_stateful": "true", "acceptable_recovery_lag": 20, "probing_rebalance_interval_ms": 60_000,
    }  # fmt: skip
    members.join("w1", settings=streams_settings(state_dir="data/w1", **more))
    driver.rest(25)
    members.start("w2", settings=streams_settings(state_dir="data/w2", **more))
    members.expect(Cause.MEMBER_JOINED, ["w2"])
    driver.rest(75)
    members.expect(Cause.STREAMS_PROBING, ["w1"])
    members.expect(Cause.STREAMS_FOLLOW_UP, ["w1"], or_trigger=Cause.COOPERATIVE_FOLLOW_UP)
    members.settle()


@scenario(since="2.3.1")
def streams_standby(driver: Driver) -> None:
    """A stateful Streams application of two instances with one standby copy of every task; the first is closed, which
    ends its session after 10 s, and the other goes on with the copies it has."""
    members = _classic_streams(driver, "copy-app", {"copied": 4})
    _grow_to_two(members, lab_stateful="true", num_standby_replicas=1, acceptable_recovery_lag=10_000)
    driver.rest(10)
    driver.leave("w1")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w1"])
    members.settle()


@scenario(since="4.2.0")
def share_group_of_many(driver: Driver) -> None:
    """Three share consumers on a topic of two partitions: every partition has several owners. One leaves, one is
    killed (session 45 s)."""
    members = _share_members(driver, "shared-by-many-app", {"few": 2})
    for name in ("s1", "s2", "s3"):
        members.start(name, settings={})
        members.expect(Cause.MEMBER_JOINED, [name])
        driver.rest(10)
        if name == "s1":
            members.expect(Cause.SHARE_STATE_INITIALIZED, [])
            driver.rest(4)
    driver.leave("s2")
    members.expect(Cause.MEMBER_LEFT, ["s2"])
    driver.rest(8)
    driver.kill("s3")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["s3"])
    driver.rest(55)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER | {"group.consumer.regex.refresh.interval.ms": 10_000})
def patterns_at_the_broker(driver: Driver) -> None:
    """A KIP-848 group of Java and one of librdkafka on patterns that the broker resolves. A topic comes, one gets more
    partitions while a member is dead; it is back, a member closes, and a topic is deleted."""
    chance = Random("patterns_at_the_broker")
    driver.topics(**{"mail.in": 3, "mail.out": 4})
    driver.produce(per_second=30)
    patterns = {"j": ("java", r"broker-pattern:mail\..*"), "r": ("librdkafka", r"^mail\..*")}
    first = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
    facts: dict[str, Any] = {"group_type": "consumer", "mode": "server", "assignor": "uniform", "first_number": first}
    for letter in patterns:
        driver.group(f"{letter}-app", **facts)

    def settle() -> None:
        for letter in patterns:
            driver.settle(f"{letter}-app", quiet_s=4.0)

    def expect(trigger: str, number: str) -> None:
        for letter in patterns:
            driver.expect(f"{letter}-app", trigger, [f"{letter}{number}"] if number else [])

    def resolved() -> None:
        for letter in patterns:
            while driver.expect_if_written(f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, []):
                pass

    def come(number: str) -> None:
        for letter, (library, pattern) in patterns.items():
            driver.join(f"{letter}{number}", f"{letter}-app", [pattern], library=library, settings=kip848_settings())
            also = Cause.TOPIC_METADATA_CHANGED
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"], or_trigger=also)
        driver.rest(4)
        resolved()
        settle()

    for number in "123":
        come(number)
    driver.rest(chance.uniform(4, 7))
    driver.later_topic("mail.spam", 2)
    driver.rest(chance.uniform(14, 17))
    resolved()
    settle()
    driver.kill_together("j2", "r2")
    driver.rest(chance.uniform(2, 4))
    driver.more_partitions("mail.out", 6)
    driver.rest(2)
    resolved()
    expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(16)
    settle()
    come("2")
    driver.rest(chance.uniform(4, 7))
    for letter in patterns:
        driver.leave(f"{letter}1")
    expect(Cause.MEMBER_LEFT, "1")
    settle()
    # Java's members may wait for minutes for a commit of what is not there any more.
    driver.topic_deleted("mail.in")
    driver.rest(chance.uniform(14, 16))
    resolved()


@scenario(
    since="4.2.0",
    broker_properties={
        "group.streams.initial.rebalance.delay.ms": 0,
        "group.streams.num.standby.replicas": 1,
        "group.streams.min.session.timeout.ms": 9000,
        "group.streams.session.timeout.ms": 9000,
        "group.streams.min.heartbeat.interval.ms": 2000,
        "group.streams.heartbeat.interval.ms": 2000,
        "group.share.min.session.timeout.ms": 9000,
        "group.share.session.timeout.ms": 9000,
        "group.share.min.heartbeat.interval.ms": 2000,
        "group.share.heartbeat.interval.ms": 2000,
    },
)
def standbys_take_over(driver: Driver) -> None:
    """A streams group (KIP-1071) that counts, with one standby copy of every task, of three instances: one is killed
    and is back late, one closes. A share group beside it: one member stands still for less than its session (9 s),
    another for more, and goes on."""
    chance = Random("standbys_take_over")
    driver.topics(flow=4, shared=3)
    driver.produce(per_second=35)
    facts: dict[str, Any] = {"mode": "server", "first_number": 2}
    driver.group("flow-app", group_type="streams", assignor="sticky", **facts)
    driver.group("share-app", group_type="share", assignor="simple", **facts)

    def follow() -> None:
        driver.settle("flow-app", quiet_s=5.0)
        while driver.expect_if_written(
            "flow-app", Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.STREAMS_FOLLOW_UP
        ):
            pass

    def come(number: str) -> None:
        streams: Settings = {
            "group.protocol": "streams",
            "num.stream.threads": 1,
            "state.dir": f"data/w{number}",
            "lab.stateful": "true",
            "replication.factor": 1,
            "commit.interval.ms": 5000,
        }
        driver.join(f"w{number}", "flow-app", ["flow"], library="streams", settings=streams)
        driver.expect("flow-app", Cause.MEMBER_JOINED, [f"w{number}"])
        driver.rest(8)
        follow()

    for number in "12":
        driver.join(f"s{number}", "share-app", ["shared"], library="share", settings={})
        driver.expect("share-app", Cause.MEMBER_JOINED, [f"s{number}"])
        come(number)
        if number == "1":
            driver.expect("share-app", Cause.SHARE_STATE_INITIALIZED, [])
    come("3")
    driver.rest(chance.uniform(4, 7))
    driver.freeze_briefly("s1", seconds=6)
    driver.kill_together("w2")
    driver.expect("flow-app", Cause.MEMBER_SESSION_EXPIRED, ["w2"])
    driver.freeze("s2")
    driver.expect("share-app", Cause.MEMBER_SESSION_EXPIRED, ["s2"])
    driver.rest(chance.uniform(15, 17))
    follow()
    driver.thaw("s2")
    driver.expect("share-app", Cause.MEMBER_JOINED, ["s2"])
    come("2")
    driver.rest(chance.uniform(4, 7))
    driver.leave("w1")
    driver.expect("flow-app", Cause.MEMBER_LEFT, ["w1"])
    driver.leave("s1")
    driver.expect("share-app", Cause.MEMBER_LEFT, ["s1"])
    driver.rest(6)
    follow()
