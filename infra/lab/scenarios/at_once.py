"""What happens to several members, or to a member and its coordinator, at the same moment."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Members
from .scenario import scenario

TICKS_PER_S = 12


@scenario(since="2.3.1")
def pods_at_once(driver: Driver) -> None:
    """Three Java members close at once. Two others come, and are killed at once as a third one starts: it waits
    until their sessions have ended."""
    members = Members(driver, "pods-app", {"orders": 6}, per_second=TICKS_PER_S)
    members.join("p1", "p2", "p3")
    driver.leave_together("p1", "p2", "p3")
    members.expect(Cause.MEMBER_LEFT, ["p1", "p2", "p3"], outcome="emptied", members=[])
    members.join("p4", "p5")
    driver.rest(4)
    driver.kill_together("p4", "p5")
    members.start("p6")
    members.expect(Cause.MEMBER_JOINED, ["p6"])
    driver.rest(10)
    members.settle()


@scenario(since="2.7.2")
def static_pair_killed(driver: Driver) -> None:
    """Of three static members (session 15 s) two are killed at once. One is back after five seconds: the generation is
    written again. The session of the other ends."""
    members = Members(driver, "fixed-app", {"orders": 6}, per_second=TICKS_PER_S)
    members.join("s1", "s2", "s3", is_static=True, session_timeout_ms=15_000)
    driver.rest(4)
    driver.kill_together("s2", "s3")
    driver.rest(5)
    members.start("s2", is_static=True, session_timeout_ms=15_000)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["s2"], kind="static_rewrite", members=["s1", "s2", "s3"])
    members.expect(Cause.STATIC_MEMBER_EXPIRED, ["s3"])
    driver.rest(14)
    members.settle()


@scenario(brokers=3)
def killed_before_its_coordinator(driver: Driver) -> None:
    """A member is killed, and three seconds later the broker that coordinates its group: the next one begins the
    member's session anew."""
    members = Members(driver, "moving-app", {"orders": 6}, per_second=TICKS_PER_S)
    members.join("c1", "c2", "c3")
    driver.rest(4)
    driver.kill_together("c3")
    driver.rest(3)
    driver.coordinator_killed(members.group)
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["c3"])
    driver.rest(25)
    members.settle()
