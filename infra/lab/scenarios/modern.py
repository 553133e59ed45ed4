"""Groups whose coordinator assigns: KIP-848 consumers, share consumers, Streams on its own protocol; and Streams on the
classic one, which they replace."""

from __future__ import annotations

from infra.lab.clients import kip848_settings, streams_settings
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .scenario import KIP848_BROKER, scenario


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def group_conversion(driver: Driver) -> None:
    """A KIP-848 member joins a classic group of two, which becomes a consumer group, then leaves: classic again."""
    group = "convert-app"
    driver.topics(convert=6)
    driver.produce()
    driver.group(group, group_type="mixed", mode="eager", assignor="range")
    for name in ("o1", "o2"):
        driver.join(name, group, ["convert"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.expect(
        group, Cause.GROUP_CONVERTED, [], number=2, mode="server", members=["o1", "o2"], group_type="consumer"
    )  # the same number on the other side
    driver.join("k3", group, ["convert"], settings=kip848_settings())
    driver.expect(group, Cause.MEMBER_JOINED, ["k3"], mode="server", group_type="consumer")
    driver.settle(group)
    driver.leave("k3")
    # The group converts back as it stands, with the number it has, and then rebalances for the member that left.
    driver.expect(group, Cause.GROUP_CONVERTED, [], number=3, members=["o1", "o2"], group_type="classic")
    driver.expect(group, Cause.MEMBER_LEFT, ["k3"])
    driver.settle(group)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_slow_revocation(driver: Driver) -> None:
    """k1 needs 12 s inside its revoked callback when k2 joins: k2 waits at the new epoch without its partitions."""
    group = "stuck-app"
    driver.topics(stuck=6)
    driver.produce()
    first = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
    driver.group(group, group_type="consumer", mode="server", assignor="uniform", first_number=first)
    driver.join("k1", group, ["stuck"], settings=kip848_settings())
    driver.expect(group, Cause.MEMBER_JOINED, ["k1"])
    driver.settle(group)
    driver.tell("k1", "revoke_delay 12000")
    driver.join("k2", group, ["stuck"], settings=kip848_settings())
    driver.expect(group, Cause.MEMBER_JOINED, ["k2"])
    driver.wait_for("k1", "revoked_end")
    driver.settle(group)
    driver.tell("k1", "revoke_delay 0")
    driver.leave("k2")
    driver.expect(group, Cause.MEMBER_LEFT, ["k2"])
    driver.settle(group)


@scenario(since="4.2.0")
def share_group(driver: Driver) -> None:
    """Two share consumers, each on every partition; one leaves."""
    group = "share-app"
    driver.topics(shared=4)
    driver.produce()
    driver.group(group, group_type="share", mode="server", assignor="simple", first_number=2)
    settings: dict[str, str | int] = {}
    driver.join("s1", group, ["shared"], settings=settings, library="share")
    driver.expect(group, Cause.MEMBER_JOINED, ["s1"])
    driver.rest(12)
    # The state of the partitions is initialised some seconds later, with an epoch of its own.
    driver.expect(group, Cause.SHARE_STATE_INITIALIZED, [])
    driver.join("s2", group, ["shared"], settings=settings, library="share")
    driver.expect(group, Cause.MEMBER_JOINED, ["s2"])
    driver.rest(12)
    driver.leave("s1")
    driver.expect(group, Cause.MEMBER_LEFT, ["s1"])
    driver.rest(12)


@scenario(since="4.2.0", broker_properties={"group.streams.initial.rebalance.delay.ms": 0})
def streams_protocol(driver: Driver) -> None:
    """Two Streams instances on group.protocol=streams (KIP-1071); the first leaves."""
    group = "flow-app"
    driver.topics(flow=4)
    driver.produce()
    driver.group(group, group_type="streams", mode="server", assignor="sticky", first_number=2)
    settings = {"group.protocol": "streams", "num.stream.threads": 1, "state.dir": "data/streams"}
    for name in ("w1", "w2"):
        driver.join(name, group, ["flow"], settings=settings | {"state.dir": f"data/{name}"}, library="streams")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("w1")
    driver.expect(group, Cause.MEMBER_LEFT, ["w1"])
    driver.settle(group)


@scenario()
def streams_scale_out(driver: Driver) -> None:
    """A stateless Streams application (classic protocol) grows to two instances: the second round follows at once.
    Its close() does not leave: the session ends after 10 s."""
    group = "scale-app"
    driver.topics(scale=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="cooperative", assignor="stream")
    for name in ("w1", "w2"):
        settings = streams_settings(state_dir=f"data/{name}")
        driver.join(name, group, ["scale"], settings=settings, library="streams")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        if name == "w2":
            # Either name: a consumer that gave something up joins again by itself, and the assignor had asked it to.
            driver.expect(group, Cause.STREAMS_FOLLOW_UP, ["w1"], or_trigger=Cause.COOPERATIVE_FOLLOW_UP)
        driver.settle(group)
    driver.leave("w1")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["w1"])
    driver.settle(group)


@scenario()
def streams_probing(driver: Driver) -> None:
    """A stateful Streams application grows to two instances: state is warmed up first, a probing rebalance after a
    minute finds it ready, and tasks move."""
    group = "probe-app"
    driver.topics(probe=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="cooperative", assignor="stream")
    more = {"lab_stateful": "true", "acceptable_recovery_lag": 20, "probing_rebalance_interval_ms": 60_000}
    driver.join("w1", group, ["probe"], settings=streams_settings(state_dir="data/w1", **more), library="streams")
    driver.expect(group, Cause.MEMBER_JOINED, ["w1"])
    driver.settle(group)
    driver.rest(25)
    driver.join("w2", group, ["probe"], settings=streams_settings(state_dir="data/w2", **more), library="streams")
    driver.expect(group, Cause.MEMBER_JOINED, ["w2"])
    driver.rest(75)
    driver.expect(group, Cause.STREAMS_PROBING, ["w1"])
    driver.expect(group, Cause.STREAMS_FOLLOW_UP, ["w1"], or_trigger=Cause.COOPERATIVE_FOLLOW_UP)
    driver.settle(group)


@scenario()
def streams_standby(driver: Driver) -> None:
    """A stateful Streams application of two instances with one standby copy of every task; the first is closed, which
    ends its session after 10 s, and the other goes on with the copies it has."""
    group = "copy-app"
    driver.topics(copied=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="cooperative", assignor="stream")
    more = {"lab_stateful": "true", "num_standby_replicas": 1, "acceptable_recovery_lag": 10_000}
    for name in ("w1", "w2"):
        settings = streams_settings(state_dir=f"data/{name}", **more)
        driver.join(name, group, ["copied"], settings=settings, library="streams")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        if name == "w2":
            driver.expect(group, Cause.STREAMS_FOLLOW_UP, ["w1"], or_trigger=Cause.COOPERATIVE_FOLLOW_UP)
        driver.settle(group)
    driver.rest(10)
    driver.leave("w1")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["w1"])
    driver.settle(group)


@scenario(since="4.2.0")
def share_group_of_many(driver: Driver) -> None:
    """Three share consumers on a topic of two partitions: every partition has several owners. One leaves, one is
    killed (session 45 s)."""
    group = "shared-by-many-app"
    driver.topics(few=2)
    driver.produce()
    driver.group(group, group_type="share", mode="server", assignor="simple", first_number=2)
    settings: dict[str, str | int] = {}
    for name in ("s1", "s2", "s3"):
        driver.join(name, group, ["few"], settings=settings, library="share")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.rest(10)
        if name == "s1":
            driver.expect(group, Cause.SHARE_STATE_INITIALIZED, [])
            driver.rest(4)
    driver.leave("s2")
    driver.expect(group, Cause.MEMBER_LEFT, ["s2"])
    driver.rest(8)
    driver.kill("s3")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["s3"])
    driver.rest(55)
