"""Groups whose coordinator assigns: KIP-848 consumers, share consumers, Streams on its own protocol; and Streams on the
classic one, which they replace."""

from __future__ import annotations

from infra.lab.clients import kip848_settings, streams_settings
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
    facts = {"group_type": "streams", "mode": "server", "assignor": "sticky"}
    members = Members(driver, "flow-app", {"flow": 4}, **facts, first_number=2, library="streams")
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
    more = {"lab_stateful": "true", "acceptable_recovery_lag": 20, "probing_rebalance_interval_ms": 60_000}
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
