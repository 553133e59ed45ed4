"""KIP-848 groups: members that stop polling, come back, are put out, and subscribe to patterns."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Kip848Members
from .scenario import KIP848_BROKER, scenario

EARLY_ACCESS = KIP848_BROKER | {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "unstable.api.versions.enable": "true",
}


@scenario(since="3.7.2", broker_properties=EARLY_ACCESS)
def kip848_early_access(driver: Driver) -> None:
    """A KIP-848 group of three Java members on a broker where the protocol has to be allowed (3.7, 3.8): the first
    closes, the second is killed (session 10 s), the third closes, and the group is empty."""
    members = Kip848Members(driver, "modern-app", {"modern": 6})
    members.join("k1", "k2", "k3")
    members.leave("k1")
    members.kill("k2")
    members.leave_last("k3")


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_poll_timeout(driver: Driver) -> None:
    """k2 does not poll for 25 s with max.poll.interval.ms=8000: it leaves by itself, goes on heartbeating no more, and
    joins again when it polls."""
    members = Kip848Members(driver, "idle-app", {"idle": 6})
    members.join("k1", "k2", max_poll_interval_ms=8000)
    driver.rest(8)  # so that it has been seen to commit every five seconds
    driver.send("k2", "stall 25000")
    members.expect(Cause.MEMBER_POLL_TIMEOUT, ["k2"], members=["k1"])
    members.expect(Cause.MEMBER_JOINED, ["k2"])
    driver.rest(27)
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER | {"group.consumer.session.timeout.ms": 30_000})
def kip848_fenced_revoking(driver: Driver) -> None:
    """k2 is stopped with SIGSTOP inside its revoked callback when k3 joins: its session (30 s) is good, but it does not
    give up within max.poll.interval.ms (8 s), and is fenced. It goes on, and joins as a new member."""
    members = Kip848Members(driver, "fenced-app", {"fenced": 6})
    members.join("k1", "k2", max_poll_interval_ms=8000)
    driver.send("k2", "revoke_delay 5000")
    members.start("k3", max_poll_interval_ms=8000)
    members.expect(Cause.MEMBER_JOINED, ["k3"], outcome="superseded", members=["k1", "k2", "k3"])
    driver.wait_for("k2", "revoked_start")
    driver.freeze("k2")
    members.expect(Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, ["k2"])
    driver.rest(9)
    members.settle()
    driver.thaw("k2")
    driver.send("k2", "revoke_delay 0")
    members.expect(Cause.MEMBER_JOINED, ["k2"])
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER | {"group.consumer.session.timeout.ms": 20_000})
def kip848_static_restart(driver: Driver) -> None:
    """Two static members of a KIP-848 group (session 20 s); s2 closes and is back inside its session: no epoch at all.
    Then it is closed for good, and its session ends."""
    members = Kip848Members(driver, "fixed-app", {"fixed": 6})
    members.join("s1", "s2", is_static=True)
    driver.leave("s2")
    driver.rest(2)
    members.start("s2", is_static=True)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["s2"], kind="static_rewrite")
    members.settle()
    driver.leave("s2")
    members.expect(Cause.STATIC_MEMBER_EXPIRED, ["s2"])
    members.settle()


@scenario(since="4.3.0", broker_properties=KIP848_BROKER | {"group.consumer.regex.refresh.interval.ms": 10_000})
def kip848_pattern(driver: Driver) -> None:
    """Two members leave it to the broker to resolve their pattern, and a topic that matches it is created."""
    members = Kip848Members(driver, "resolved-app", {"audit.a": 4}, subscribed=r"broker-pattern:audit\..*")
    members.join("r1", "r2")
    driver.later_topic("audit.b", 2)
    members.expect(Cause.TOPIC_METADATA_CHANGED, [])
    members.settle()
