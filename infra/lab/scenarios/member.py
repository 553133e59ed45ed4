"""Members that others put out, and that come back as somebody else."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .scenario import scenario


@scenario()
def admin_removal(driver: Driver) -> None:
    """A static member is closed, and an administrator removes it by its instance id, because its session is long.
    Then all members are removed: the one that is left finds out at its next heartbeat and joins again."""
    group = "removed-app"
    driver.topics(removed=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    driver.join("a1", group, ["removed"])
    driver.expect(group, Cause.MEMBER_JOINED, ["a1"])
    driver.settle(group)
    driver.join("a2", group, ["removed"], group_instance_id="a2-instance", session_timeout_ms=60_000)
    driver.expect(group, Cause.MEMBER_JOINED, ["a2"])
    driver.settle(group)
    driver.leave("a2")
    driver.rest(3)
    driver.remove_members(group, "a2-instance")
    driver.expect(group, Cause.MEMBER_REMOVED_BY_ADMIN, ["a2"])
    driver.settle(group)
    driver.remove_members(group)
    driver.expect(group, Cause.MEMBER_REMOVED_BY_ADMIN, ["a1"], outcome="emptied", members=[])
    driver.expect(group, Cause.MEMBER_JOINED, ["a1"])
    driver.wait_for("a1", "assigned_end")
    driver.settle(group)


@scenario()
def static_assignor_change(driver: Driver) -> None:
    """Two static members come back, each inside its session. The second no longer offers the assignor that was elected:
    that is a rebalance, where a mere return is none."""
    group = "reassigned-app"
    driver.topics(reassigned=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("n1", "n2"):
        driver.join(
            name, group, ["reassigned"], assignor="range,roundrobin",
            group_instance_id=f"{name}-instance", session_timeout_ms=30_000,
        )  # fmt: skip
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    for name, assignor in (("n1", "range,roundrobin"), ("n2", "roundrobin")):
        driver.leave(name)
        driver.join(
            name, group, ["reassigned"], assignor=assignor,
            group_instance_id=f"{name}-instance", session_timeout_ms=30_000,
        )  # fmt: skip
        if name == "n1":
            driver.expect(group, Cause.STATIC_MEMBER_REPLACED, [name], kind="static_rewrite")
        else:
            driver.expect(group, Cause.ASSIGNOR_CHANGED, [name])
        driver.settle(group)


@scenario(since="3.0.0")
def sync_timeout(driver: Driver) -> None:
    """The leader is stopped with SIGSTOP while it computes the assignment for y3's generation: its session (30 s) is
    good, but its SyncGroup does not come within max.poll.interval.ms (8 s). It goes on, and joins as a new member."""
    group = "unsynced-app"
    driver.topics(unsynced=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    timeouts = {"session_timeout_ms": 30_000, "max_poll_interval_ms": 8000}
    driver.join("y1", group, ["unsynced"], assignor="slow range", lab_assign_delay_ms=5000, **timeouts)
    driver.expect(group, Cause.MEMBER_JOINED, ["y1"])
    driver.settle(group)
    driver.join("y2", group, ["unsynced"], **timeouts)
    driver.expect(group, Cause.MEMBER_JOINED, ["y2"])
    driver.settle(group)
    driver.join("y3", group, ["unsynced"], **timeouts)
    driver.wait_for("y1", "revoked_end")
    driver.wait_for("y2", "revoked_end")
    driver.rest(1.5)
    driver.expect(group, Cause.MEMBER_JOINED, ["y3"], outcome="superseded", members=[])
    driver.freeze("y1")
    driver.expect(group, Cause.MEMBER_SYNC_TIMEOUT, ["y1"])
    driver.rest(10)
    driver.settle(group)
    driver.thaw("y1")
    driver.expect(group, Cause.MEMBER_JOINED, ["y1"])
    driver.settle(group)
