"""Stories about reassignments that stand still, and what keeps each from going on; one of them is only slow."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from infra.lab.configs import version_key
from infra.lab.driver import Driver
from infra.lab.mover import Mover
from infra.lab.processes import wait_until

from .reassignment import SMALL_BROKERS, TOPIC, active_controller, both_modes
from .scenario import scenario


@both_modes(brokers=4, broker_properties=SMALL_BROKERS)
def reassign_throttled(driver: Driver) -> None:
    """A throttle far too low keeps a reassignment from ending; after 100 s it is raised. It is never removed."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2")
        mover.fill(TOPIC, 6)
        mover.throttle(TOPIC, 1000, range(1, 5))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "3,4", "completed", stalled_by="throttle", stalled_replicas=[3, 4])
        mover.ask("move orders-0=3,4")
        driver.rest(100)
        mover.rate(100_000_000, range(1, 5))
        mover.settle("orders-0", timeout_s=200)
        driver.rest(3)


@both_modes(brokers=3, broker_properties=SMALL_BROKERS)
def reassign_slow(driver: Driver) -> None:
    """A throttled copy takes more than 90 s and comes closer all the time: the new replica begins a segment of a
    megabyte every few seconds."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2")
        mover.ask("set topic orders segment.bytes 1048576")
        mover.fill(TOPIC, 20)
        mover.throttle(TOPIC, 150_000, range(1, 4))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "2,3", "completed")
        mover.ask("move orders-0=2,3")
        mover.settle("orders-0", timeout_s=300)
        driver.rest(3)


@both_modes(brokers=4, broker_properties=SMALL_BROKERS)
def reassign_target_down(driver: Driver) -> None:
    """A target broker is killed while it is being copied to under a throttle, stays away for 110 s, and comes back;
    then the throttle goes."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2", "2,1")
        mover.fill(TOPIC, 4)
        mover.throttle(TOPIC, 50_000, range(1, 5))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "2,4", "completed", stalled_by="broker_down", stalled_replicas=[4])
        mover.expect("orders-1", "2,1", "1,4", "completed", stalled_by="broker_down", stalled_replicas=[4])
        mover.ask("move orders-0=2,4 orders-1=1,4")
        driver.rest(2)
        driver._note("kill", "broker-4")
        driver.cluster.kill_broker(4)
        mover.rate(100_000_000, range(1, 4))
        driver.rest(110)
        driver._note("start", "broker-4")
        driver.cluster.start_broker(4)
        mover.rate(100_000_000, range(4, 5))
        mover.settle("orders-0", "orders-1", timeout_s=180)
        driver.rest(3)


@both_modes(brokers=5, broker_properties=SMALL_BROKERS)
def reassign_old_replica_behind(driver: Driver) -> None:
    """Broker 1 comes back behind the others and is kept from catching up by a throttle, while two partitions move and
    keep it; its topic wants three in sync. Whether the controller waits for it differs by release."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2,3", "1,2,3")
        mover.fill(TOPIC, 1)
        mover.ask("set broker 1 follower.replication.throttled.rate 1000")  # only a running broker takes it
        driver._note("kill", "broker-1")
        driver.cluster.kill_broker(1)
        wait_until(
            "broker 1 is out of sync", lambda: all(1 not in s["isr"] for s in mover.states().values()), timeout_s=60
        )
        mover.fill(TOPIC, 20)  # a throttled replica still gets a megabyte in ten seconds
        mover.ask("set topic orders min.insync.replicas 3")
        mover.ask("set topic orders follower.replication.throttled.replicas 0:1,1:1")
        driver._note("start", "broker-1")
        driver.cluster.start_broker(1)
        driver.rest(3)
        release = version_key(driver.cluster.version)
        behind: dict[str, Any] = {"stalled_by": "old_replica_out_of_sync", "stalled_replicas": [1]}
        mover.expect("orders-0", "1,2,3", "4,1", "completed", **behind)
        # From 4.3 on, and up to 3.7, a KRaft controller waits for the new replicas alone if as many come as go.
        is_waited_for = not mover.is_kraft or (3, 8) <= release < (4, 3)
        mover.expect("orders-1", "1,2,3", "4,1,5", "completed", **(behind if is_waited_for else {}))
        mover.ask("move orders-0=4,1 orders-1=4,1,5")
        driver.rest(100)
        mover.ask("unset broker 1 follower.replication.throttled.rate")
        mover.ask("unset topic orders follower.replication.throttled.replicas")
        mover.settle("orders-0", "orders-1", timeout_s=180)
        driver.rest(3)


@both_modes(brokers=4, disks=2, broker_properties=SMALL_BROKERS)
def reassign_disk_lost(driver: Driver) -> None:
    """The disk with the new replica is lost while it is copied, and its broker lives on with the other disk; after
    105 s the reassignment is cancelled."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2")
        mover.fill(TOPIC, 20)
        first, second = (driver.cluster.folder / "data" / name for name in ("broker-4", "broker-4-disk-2"))
        # A broker puts a new replica on the disk with the fewest: fill the first one, which also has the metadata log.
        for number in range(5):
            if _partitions_on(first) > _partitions_on(second):
                break
            mover.create(f"filler{number}", "4")
        mover.throttle(TOPIC, 1_000, range(1, 5))
        driver.rest(2)
        mover.expect(
            "orders-0", "1,2", "3,4", "cancelled", stalled_by="disk_failed", stalled_replicas=[4]
        )  # fmt: skip
        mover.ask("move orders-0=3,4")
        wait_until("the new replica is on the second disk", lambda: (second / "orders-0").exists(), timeout_s=30)
        driver._note("lose disk", "broker-4-disk-2")
        shutil.rmtree(second)
        second.touch()
        log = driver.cluster.log_folders["broker-4"] / "server.log"
        wait_until("the broker notices", lambda: "in the failed log directory" in log.read_text(), timeout_s=90)
        mover.rate(100_000_000, range(1, 5))
        driver.rest(105)
        mover.ask("cancel orders-0")
        mover.settle("orders-0")
        driver.rest(3)


@scenario(brokers=3, controllers_apart=3, broker_properties=SMALL_BROKERS, since="3.3.0")
def reassign_quorum_lost(driver: Driver) -> None:
    """Two of three controllers are killed while a throttled reassignment runs: nobody can write what happens, for
    110 s. Then they come back."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2")
        mover.fill(TOPIC, 4)
        mover.throttle(TOPIC, 100_000, range(1, 4))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "3,1", "completed", stalled_by="controller_unavailable", stalled_replicas=[])
        mover.ask("move orders-0=3,1")
        driver.rest(2)
        active = active_controller(driver.cluster)
        standby = next(node for node in (100, 101, 102) if node != active)
        for node in (active, standby):
            driver._note("kill", f"controller-{node}")
            driver.cluster.kill_broker(node)
        driver.rest(110)
        for node in (active, standby):
            driver._note("start", f"controller-{node}")
            driver.cluster.start_broker(node)
        driver.rest(8)
        mover.rate(100_000_000, range(1, 4))
        mover.settle("orders-0", timeout_s=180)
        driver.rest(3)


def _partitions_on(disk: Path) -> int:
    return sum(1 for path in disk.iterdir() if path.is_dir() and not path.name.startswith("__cluster_metadata"))
