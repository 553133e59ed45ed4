"""Members that others put out, and that come back as somebody else."""

from __future__ import annotations

from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Members
from .scenario import scenario


@scenario()
def admin_removal(driver: Driver) -> None:
    """A static member is closed, and an administrator removes it by its instance id, because its session is long.
    Then all members are removed: the one that is left finds out at its next heartbeat and joins again."""
    members = Members(driver, "removed-app", {"removed": 4})
    members.join("a1")
    members.join("a2", is_static=True, session_timeout_ms=60_000)
    driver.leave("a2")
    driver.rest(3)
    driver.remove_members(members.group, "a2-instance")
    members.expect(Cause.MEMBER_REMOVED_BY_ADMIN, ["a2"])
    members.settle()
    driver.remove_members(members.group)
    members.expect(Cause.MEMBER_REMOVED_BY_ADMIN, ["a1"], outcome="emptied", members=[])
    members.expect(Cause.MEMBER_JOINED, ["a1"])
    driver.wait_for("a1", "assigned_end")
    members.settle()


@scenario()
def static_assignor_change(driver: Driver) -> None:
    """Two static members come back, each inside its session. The second no longer offers the assignor that was elected:
    that is a rebalance, where a mere return is none."""
    members = Members(driver, "reassigned-app", {"reassigned": 6})
    members.join("n1", "n2", is_static=True, assignor="range,roundrobin", session_timeout_ms=30_000)
    for name, assignor in (("n1", "range,roundrobin"), ("n2", "roundrobin")):
        driver.leave(name)
        members.start(name, is_static=True, assignor=assignor, session_timeout_ms=30_000)
        if name == "n1":
            members.expect(Cause.STATIC_MEMBER_REPLACED, [name], kind="static_rewrite")
        else:
            members.expect(Cause.ASSIGNOR_CHANGED, [name])
        members.settle()


@scenario(since="3.0.0")
def sync_timeout(driver: Driver) -> None:
    """The leader is stopped with SIGSTOP while it computes the assignment for y3's generation: its session (30 s) is
    good, but its SyncGroup does not come within max.poll.interval.ms (8 s). It goes on, and joins as a new member."""
    members = Members(driver, "unsynced-app", {"unsynced": 6})
    timeouts: dict[str, Any] = {"session_timeout_ms": 30_000, "max_poll_interval_ms": 8000}
    members.join("y1", assignor="slow range", lab_assign_delay_ms=5000, **timeouts)
    members.join("y2", **timeouts)
    members.start("y3", **timeouts)
    driver.wait_for("y1", "revoked_end")
    driver.wait_for("y2", "revoked_end")
    driver.rest(1.5)
    members.expect(Cause.MEMBER_JOINED, ["y3"], outcome="superseded", members=[])
    driver.freeze("y1")
    members.expect(Cause.MEMBER_SYNC_TIMEOUT, ["y1"])
    driver.rest(10)
    members.settle()
    members.thaw("y1")


@scenario(since="2.3.1")
def killed_joining(driver: Driver) -> None:
    """The leader is killed when it has let go and joined again for w3, while w2 still needs 7 s: the coordinator begins
    its session (10 s) anew as the join phase ends, and waits for its SyncGroup in vain."""
    members = Members(driver, "unled-app", {"unled": 4}, quiet_s=4.0)
    members.join("w1", library="librdkafka")
    members.join("w2")
    driver.send("w2", "revoke_delay 7000")
    members.start("w3", library="librdkafka")
    driver.wait_for("w1", "revoked_end")
    driver.rest(1)
    members.expect(Cause.MEMBER_JOINED, ["w3"], outcome="superseded", members=[])
    driver.kill("w1")
    driver.wait_for("w2", "revoked_end")
    driver.send("w2", "revoke_delay 0")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w1"])
    members.settle()
