"""Groups whose brokers fail, move and restart: mostly nothing happens, and that must be seen, too."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Members
from .scenario import scenario


def _three_members(driver: Driver, group: str, topic: str) -> Members:
    members = Members(driver, group, {topic: 6})
    members.join("c1", "c2", "c3")
    return members


@scenario(brokers=3)
def coordinator_killed(driver: Driver) -> None:
    """The coordinator is killed: another broker loads the group, which goes on with its generation. Then c3 leaves."""
    members = _three_members(driver, "survivor-app", "survivor")
    broker = driver.coordinator_killed(members.group)
    driver.rest(20)
    members.settle()
    members.expect_if_seen(Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    members.leave("c3")
    driver.broker_returns(broker)


@scenario(brokers=3)
def coordinator_killed_while_preparing(driver: Driver) -> None:
    """c4 joins while c1 needs 20 s inside its revoked callback, and the coordinator is killed meanwhile: the one that
    takes the group over knows the generation before alone, and prepares the same one anew."""
    members = _three_members(driver, "halfway-app", "halfway")
    driver.send("c1", "revoke_delay 20000")
    members.start("c4")
    driver.wait_for("c1", "revoked_start")
    driver.send("c1", "revoke_delay 0")
    broker = driver.coordinator_killed(members.group)
    members.expect(Cause.MEMBER_JOINED, ["c4"], outcome="failed", members=[])
    # c4's wish to join is what both brokers were busy with; records show nothing but that.
    members.expect(Cause.COORDINATOR_FAILOVER, [], number=4, or_trigger=Cause.MEMBER_JOINED)
    driver.rest(30)
    members.settle()
    members.expect_if_seen(Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    driver.broker_returns(broker)


@scenario(brokers=3)
def offsets_leader_moved(driver: Driver) -> None:
    """The group's partition of __consumer_offsets gets another leader and its first one back. Then c2 leaves."""
    members = _three_members(driver, "mover-app", "mover")
    driver.coordinator_moved(members.group)
    driver.rest(12)
    members.settle()
    members.expect_if_seen(Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    members.leave("c2")


@scenario()
def broker_restart(driver: Driver) -> None:
    """The only broker restarts. The leader may believe that its topics changed, and re-join."""
    members = _three_members(driver, "patient-app", "patient")
    driver.broker_restarts(1)
    driver.rest(15)
    members.settle()
    members.expect_if_seen(Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    members.leave("c2")
