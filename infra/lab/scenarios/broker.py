"""Groups whose brokers fail, move and restart: mostly nothing happens, and that must be seen, too."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .scenario import scenario


def _three_members(driver: Driver, group: str, topic: str) -> None:
    driver.topics(**{topic: 6})
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("c1", "c2", "c3"):
        driver.join(name, group, [topic])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)


@scenario(brokers=3)
def coordinator_killed(driver: Driver) -> None:
    """The coordinator is killed: another broker loads the group, which goes on with its generation. Then c3 leaves."""
    group = "survivor-app"
    _three_members(driver, group, "survivor")
    broker = driver.coordinator_killed(group)
    driver.rest(20)
    driver.settle(group)
    driver.expect_if_seen(group, Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    driver.leave("c3")
    driver.expect(group, Cause.MEMBER_LEFT, ["c3"])
    driver.settle(group)
    driver.broker_returns(broker)


@scenario(brokers=3)
def coordinator_killed_while_preparing(driver: Driver) -> None:
    """c4 joins while c1 needs 20 s inside its revoked callback, and the coordinator is killed meanwhile: the one that
    takes the group over knows the generation before alone, and prepares the same one anew."""
    group = "halfway-app"
    _three_members(driver, group, "halfway")
    driver.tell("c1", "revoke_delay 20000")
    driver.join("c4", group, ["halfway"])
    driver.wait_for("c1", "revoked_start")
    driver.tell("c1", "revoke_delay 0")
    broker = driver.coordinator_killed(group)
    driver.expect(group, Cause.MEMBER_JOINED, ["c4"], outcome="failed", members=[])
    # c4's wish to join is what both brokers were busy with; records show nothing but that.
    driver.expect(group, Cause.COORDINATOR_FAILOVER, [], number=4, or_trigger=Cause.MEMBER_JOINED)
    driver.rest(30)
    driver.settle(group)
    driver.expect_if_seen(group, Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    driver.broker_returns(broker)


@scenario(brokers=3)
def offsets_leader_moved(driver: Driver) -> None:
    """The group's partition of __consumer_offsets gets another leader and its first one back. Then c2 leaves."""
    group = "mover-app"
    _three_members(driver, group, "mover")
    driver.coordinator_moved(group)
    driver.rest(12)
    driver.settle(group)
    driver.expect_if_seen(group, Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    driver.leave("c2")
    driver.expect(group, Cause.MEMBER_LEFT, ["c2"])
    driver.settle(group)


@scenario()
def broker_restart(driver: Driver) -> None:
    """The only broker restarts. The leader may believe that its topics changed, and re-join."""
    group = "patient-app"
    _three_members(driver, group, "patient")
    driver.broker_restarts(1)
    driver.rest(15)
    driver.settle(group)
    driver.expect_if_seen(group, Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.LEADER_REJOINED)
    driver.leave("c2")
    driver.expect(group, Cause.MEMBER_LEFT, ["c2"])
    driver.settle(group)
