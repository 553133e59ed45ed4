"""KIP-848 groups: members that stop polling, come back, are put out, and subscribe to patterns."""

from __future__ import annotations

from infra.lab.clients import kip848_settings
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .scenario import KIP848_BROKER, scenario


def _first_epoch(driver: Driver) -> int:
    return 2 if version_key(driver.cluster.version) >= (4, 3) else 1


def _two_members(driver: Driver, group: str, topic: str, **settings: str | int) -> None:
    driver.topics(**{topic: 6})
    driver.produce()
    driver.group(group, group_type="consumer", mode="server", assignor="uniform", first_number=_first_epoch(driver))
    for name in ("k1", "k2"):
        driver.join(name, group, [topic], settings=kip848_settings(**settings))
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_poll_timeout(driver: Driver) -> None:
    """k2 does not poll for 25 s with max.poll.interval.ms=8000: it leaves by itself, goes on heartbeating no more, and
    joins again when it polls."""
    group = "idle-app"
    _two_members(driver, group, "idle", max_poll_interval_ms=8000)
    driver.rest(8)  # so that it has been seen to commit every five seconds
    driver.tell("k2", "stall 25000")
    driver.expect(group, Cause.MEMBER_POLL_TIMEOUT, ["k2"], members=["k1"])
    driver.expect(group, Cause.MEMBER_JOINED, ["k2"])
    driver.rest(27)
    driver.settle(group)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER | {"group.consumer.session.timeout.ms": 30_000})
def kip848_fenced_revoking(driver: Driver) -> None:
    """k2 is stopped with SIGSTOP inside its revoked callback when k3 joins: its session (30 s) is good, but it does not
    give up within max.poll.interval.ms (8 s), and is fenced. It goes on, and joins as a new member."""
    group = "fenced-app"
    _two_members(driver, group, "fenced", max_poll_interval_ms=8000)
    driver.tell("k2", "revoke_delay 5000")
    driver.join("k3", group, ["fenced"], settings=kip848_settings(max_poll_interval_ms=8000))
    driver.expect(group, Cause.MEMBER_JOINED, ["k3"], outcome="superseded", members=["k1", "k2", "k3"])
    driver.wait_for("k2", "revoked_start")
    driver.freeze("k2")
    driver.expect(group, Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, ["k2"])
    driver.rest(9)
    driver.settle(group)
    driver.thaw("k2")
    driver.tell("k2", "revoke_delay 0")
    driver.expect(group, Cause.MEMBER_JOINED, ["k2"])
    driver.settle(group)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER | {"group.consumer.session.timeout.ms": 20_000})
def kip848_static_restart(driver: Driver) -> None:
    """Two static members of a KIP-848 group (session 20 s); s2 closes and is back inside its session: no epoch at all.
    Then it is closed for good, and its session ends."""
    group = "fixed-app"
    driver.topics(fixed=6)
    driver.produce()
    driver.group(group, group_type="consumer", mode="server", assignor="uniform", first_number=_first_epoch(driver))
    for name in ("s1", "s2"):
        driver.join(name, group, ["fixed"], settings=kip848_settings(group_instance_id=f"{name}-instance"))
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("s2")
    driver.rest(2)
    driver.join("s2", group, ["fixed"], settings=kip848_settings(group_instance_id="s2-instance"))
    driver.expect(group, Cause.STATIC_MEMBER_REPLACED, ["s2"], kind="static_rewrite")
    driver.settle(group)
    driver.leave("s2")
    driver.expect(group, Cause.STATIC_MEMBER_EXPIRED, ["s2"])
    driver.settle(group)


@scenario(since="4.3.0", broker_properties=KIP848_BROKER | {"group.consumer.regex.refresh.interval.ms": 10_000})
def kip848_pattern(driver: Driver) -> None:
    """Two members leave it to the broker to resolve their pattern, and a topic that matches it is created."""
    group = "resolved-app"
    driver.topics(**{"audit.a": 4})
    driver.produce()
    driver.group(group, group_type="consumer", mode="server", assignor="uniform", first_number=_first_epoch(driver))
    for name in ("r1", "r2"):
        driver.join(name, group, [r"broker-pattern:audit\..*"], settings=kip848_settings())
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.later_topic("audit.b", 2)
    driver.expect(group, Cause.TOPIC_METADATA_CHANGED, [])
    driver.settle(group)
