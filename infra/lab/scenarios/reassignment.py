"""Stories about partition reassignments. The admin API is asked every 100 ms what every partition looks like; what must
be found was written by hand, from what Kafka promises and from what was seen of it.

Brokers are 1 to 5. Where a broker must die, or the controller, it stands apart from the others' roles.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from infra.lab.cluster import Cluster
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from infra.lab.mover import Mover

from .scenario import Script, scenario

TOPIC = "orders"
SMALL_BROKERS: dict[str, str | int] = {
    "replica.lag.time.max.ms": 10_000,
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": 6_000,
}


def both_modes(**facts: Any) -> Callable[[Script], Script]:
    """The same story in KRaft mode and, as `<name>_zookeeper`, in ZooKeeper mode."""

    def register(script: Script) -> Script:
        name = script.__name__
        scenario(controllers_apart=1, since="3.3.0", **facts)(script)
        script.__name__ = f"{name}_zookeeper"
        scenario(zookeeper=True, **facts)(script)
        script.__name__ = name
        return script

    return register


@both_modes(brokers=5, broker_properties=SMALL_BROKERS)
def reassign_moves(driver: Driver) -> None:
    """Five reassignments that complete: the leader not in the new list, the leader in it, another order, fewer and
    more replicas. Then preferred leaders are elected."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,4,2", "2,1,4", "4,2,1", "1,2,4")
        mover.create("growing", "2,4")  # all partitions of a new topic must have the same number of replicas
        mover.fill(TOPIC, 2)
        mover.fill("growing", 2)
        mover.expect("orders-0", "1,4,2", "2,3,5", "completed")
        mover.expect("orders-1", "2,1,4", "3,2,5", "completed")
        mover.ask("move orders-0=2,3,5 orders-1=3,2,5")
        mover.settle("orders-0", "orders-1")
        mover.expect("orders-2", "4,2,1", "1,2,4", "completed")
        mover.ask("move orders-2=1,2,4")
        mover.settle("orders-2")
        mover.expect("orders-3", "1,2,4", "1,2", "completed")
        mover.ask("move orders-3=1,2")
        mover.settle("orders-3")
        mover.expect("growing-0", "2,4", "2,4,5", "completed")
        mover.ask("move growing-0=2,4,5")
        mover.settle("growing-0")
        mover.ask("move growing-0=2,4,5")  # changes nothing: no attempt
        mover.ask("elect orders-1 orders-2")
        driver.rest(3)


@scenario(brokers=4, zookeeper=True, broker_properties=SMALL_BROKERS)
def reassign_znode(driver: Driver) -> None:
    """As the tool did it up to 2.5: the plan is written into ZooKeeper; three moves at once, and then one more."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2", "2,1", "1,2")
        mover.fill(TOPIC, 2)
        mover.expect("orders-0", "1,2", "3,4", "completed")
        mover.expect("orders-1", "2,1", "3,2", "completed")
        mover.expect("orders-2", "1,2", "2,1", "completed")
        mover.ask_by_znode(orders_0="3,4", orders_1="3,2", orders_2="2,1")
        mover.settle("orders-0", "orders-1", "orders-2")
        mover.expect("orders-0", "3,4", "1,4", "completed")
        mover.ask_by_znode(orders_0="1,4")
        mover.settle("orders-0")
        driver.rest(3)


@both_modes(brokers=5, broker_properties=SMALL_BROKERS)
def reassign_cancel_replace(driver: Driver) -> None:
    """All under a throttle, so that they are caught on the way: a cancellation; a replacement by a list with the same
    new brokers; one by another list; one by the origin; a topic that is deleted. Then the throttle goes."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,4,2", "1,4,2", "1,4,2", "1,4,2")
        mover.create("doomed", "1,2")
        mover.fill(TOPIC, 4)
        mover.fill("doomed", 4)
        mover.throttle(TOPIC, 100_000)
        mover.ask("set topic doomed leader.replication.throttled.replicas *")
        mover.ask("set topic doomed follower.replication.throttled.replicas *")
        driver.rest(2)
        mover.ask("move orders-0=2,3,5 orders-1=5,3,2 orders-2=2,3,5 orders-3=2,3,5 doomed-0=3,4")
        driver.rest(3)
        mover.expect("orders-0", "1,4,2", "2,3,5", "cancelled")
        mover.ask("cancel orders-0")
        mover.expect("orders-1", "1,4,2", "5,3,2", "superseded")
        mover.expect("orders-1", "1,4,2", "3,5,4", "completed")
        mover.ask("move orders-1=3,5,4")
        driver.rest(2)
        mover.expect("orders-2", "1,4,2", "2,3,5", "superseded")
        hangs = mover.is_kraft and version_key(driver.cluster.version) >= (4, 3)
        both: dict[str, Any] = {"stalled_by": "adding_and_removing_overlap"}
        if hangs:  # broker 5 is now in both lists
            mover.expect("orders-2", "1,4,2", "4,1,3", "cancelled", **both, stalled_replicas=[5])
        else:
            mover.expect("orders-2", "1,4,2", "4,1,3", "completed")
        mover.ask("move orders-2=4,1,3")
        if hangs:
            mover.expect("orders-3", "1,4,2", "2,3,5", "superseded")
            mover.expect("orders-3", "1,4,2", "1,4,2", "cancelled", **both, stalled_replicas=[3, 5])
        else:
            mover.expect("orders-3", "1,4,2", "2,3,5", "cancelled")
        mover.ask("move orders-3=1,4,2")
        driver.rest(2)
        mover.expect("doomed-0", "1,2", "3,4", "deleted")
        mover.ask("delete doomed")
        driver.rest(2)
        mover.rate(100_000_000)
        if hangs:
            mover.settle("orders-1")
            driver.rest(15)
            mover.ask("cancel orders-2 orders-3")
        mover.settle("orders-0", "orders-1", "orders-2", "orders-3")
        for broker in range(1, 6):
            for side in ("leader", "follower"):
                mover.ask(f"unset broker {broker} {side}.replication.throttled.rate")
        for side in ("leader", "follower"):
            mover.ask(f"unset topic orders {side}.replication.throttled.replicas")
        driver.rest(3)


@scenario(brokers=3, controllers_apart=3, broker_properties=SMALL_BROKERS, since="3.3.0")
def reassign_controller_killed(driver: Driver) -> None:
    """The active controller of three is killed while a throttled reassignment runs; the throttle goes afterwards."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2")
        mover.fill(TOPIC, 4)
        mover.throttle(TOPIC, 50_000, range(1, 4))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "3,1", "completed", controller_changes=1)
        mover.ask("move orders-0=3,1")
        driver.rest(3)
        active = active_controller(driver.cluster)
        driver._note("kill", f"controller-{active}")
        driver.cluster.kill_broker(active)
        driver.rest(8)
        mover.rate(100_000_000, range(1, 4))
        mover.settle("orders-0", timeout_s=180)
        driver.rest(3)


@scenario(brokers=4, zookeeper=True, broker_properties=SMALL_BROKERS)
def reassign_controller_killed_zookeeper(driver: Driver) -> None:
    """The controller, a broker with no part in it, is killed while a throttled reassignment runs."""
    with Mover(driver) as mover:
        active = _zookeeper_controller(driver.cluster)
        others = [broker for broker in range(1, 5) if broker != active]
        a, b, c = others
        mover.create(TOPIC, f"{a},{b}")
        mover.fill(TOPIC, 4)
        mover.throttle(TOPIC, 50_000, range(1, 5))
        driver.rest(2)
        mover.expect("orders-0", f"{a},{b}", f"{c},{a}", "completed", controller_changes=1)
        mover.ask(f"move orders-0={c},{a}")
        driver.rest(3)
        driver._note("kill", f"broker-{active}")
        driver.cluster.kill_broker(active)
        driver.rest(15)
        for broker in others:
            mover.rate(100_000_000, range(broker, broker + 1))
        mover.settle("orders-0", timeout_s=180)
        driver.rest(3)


@both_modes(brokers=4, broker_properties=SMALL_BROKERS)
def reassign_many(driver: Driver) -> None:
    """Two hundred partitions are moved at once, by a single request."""
    with Mover(driver) as mover:
        mover.create(TOPIC, *["1,2" if n % 2 else "2,1" for n in range(200)])
        moves = []
        for n in range(200):
            original = "1,2" if n % 2 else "2,1"
            target = "3,4" if n % 3 else "1,3"
            mover.expect(f"orders-{n}", original, target, "completed")
            moves.append(f"orders-{n}={target}")
        mover.ask("move " + " ".join(moves))
        mover.settle(*(f"orders-{n}" for n in range(200)), timeout_s=300)
        driver.rest(3)


def active_controller(cluster: Cluster) -> int:
    """By the controllers' own logs: the last one that became active."""
    found: list[tuple[str, int]] = []
    for name, folder in cluster.log_folders.items():
        log = folder / "controller.log"
        if name.startswith("controller-") and log.exists():
            lines = [line for line in _lines(log) if "Becoming the active controller" in line]
            found += [(line[:25], int(name.rpartition("-")[2])) for line in lines[-1:]]
    return max(found)[1]


def _zookeeper_controller(cluster: Cluster) -> int:
    found: list[tuple[str, int]] = []
    for name, folder in cluster.log_folders.items():
        log = folder / "controller.log"
        if name.startswith("broker-") and log.exists():
            lines = [line for line in _lines(log) if "successfully elected as the controller" in line]
            found += [(line[:25], int(name.rpartition("-")[2])) for line in lines[-1:]]
    return max(found)[1]


def _lines(path: Path) -> list[str]:
    return path.read_text(errors="replace").splitlines()
