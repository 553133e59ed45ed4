"""Stories about partition reassignments. The admin API is asked every 100 ms what every partition looks like; what must
be found was written by hand, from what Kafka promises and from what was seen of it.

Brokers are 1 to 5. Where a broker must die, or the controller, it stands apart from the others' roles.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from . import configs
from .clients import read_events
from .cluster import SMALL_HEAP, Cluster
from .configs import version_key
from .driver import Driver
from .processes import Process, now_ms, wait_until
from .scenarios import Script, scenario

TOPIC = "orders"
BATCH_BYTES = 50_000
SMALL_BROKERS: dict[str, str | int] = {
    "replica.lag.time.max.ms": 10_000,
    "auto.leader.rebalance.enable": "false",
    "broker.session.timeout.ms": 6_000,
}


class Mover:
    """The admin client that asks for reassignments and polls, and the list of what must be found."""

    def __init__(self, driver: Driver) -> None:
        self.driver, self.cluster = driver, driver.cluster
        self.is_kraft = not self.cluster.uses_zookeeper
        settings = {"bootstrap.servers": self.cluster.bootstrap, "client.id": "admin", "default.api.timeout.ms": 30_000}
        (self.cluster.folder / "etc/admin.properties").write_text(configs.render_properties(settings))
        layout = configs.single_log_layout("admin.log")
        command = self.cluster.java(
            "admin", layout, SMALL_HEAP, "TruthReassigner", "etc/admin.properties", "truth/admin.jsonl"
        )
        output = self.cluster.folder / "output/admin.txt"
        self._process = Process("admin", command, folder=self.cluster.folder, output=output)
        self._count = 0

    def __enter__(self) -> Mover:
        self._process.start(self.cluster.environment())
        wait_until("the admin client runs", lambda: any(e["event"] == "started" for e in self.events()), timeout_s=60)
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stop()

    def events(self) -> list[dict[str, Any]]:
        return [event for event in read_events(self.cluster.folder / "truth") if event.get("client") == "admin"]

    def ask(self, command: str, *, must_succeed: bool = True) -> None:
        """Returns when Kafka has answered."""
        self._count += 1
        self.driver._note(command, "admin")
        self._process.tell(command)

        def answers() -> list[dict[str, Any]]:
            return [event for event in self.events() if event["event"] in ("done", "failed")]

        wait_until(f"Kafka answers to {command!r}", lambda: len(answers()) >= self._count, timeout_s=90)
        last = answers()[-1]
        if must_succeed and last["event"] == "failed":
            raise RuntimeError(f"{command!r} failed: {last['error']}")

    def create(self, topic: str, *replicas: str) -> None:
        self.ask(f"create {topic} {' '.join(replicas)}")
        self.driver._partitions[topic] = len(replicas)
        wait_until(f"{topic} is seen", lambda: (f"{topic}-0") in self.states(), timeout_s=60)

    def states(self) -> dict[str, dict[str, Any]]:
        """Last polled state of each partition."""
        found: dict[str, dict[str, Any]] = {}
        for event in self.events():
            if event["event"] == "state":
                found[event["tp"]] = event
            elif event["event"] == "gone":
                found.pop(event["tp"], None)
        return found

    def fill(self, topic: str, megabytes: float) -> None:
        """Into every partition of the topic, so that copying takes time."""
        from confluent_kafka import Producer

        producer = Producer({"bootstrap.servers": self.cluster.bootstrap, "linger.ms": 20})
        payload = b"x" * BATCH_BYTES
        for _ in range(int(megabytes * 1_000_000 / BATCH_BYTES)):
            for partition in range(self.driver._partitions[topic]):
                producer.produce(topic, payload, partition=partition)
                producer.poll(0)
        producer.flush(60)

    def throttle(self, topic: str, rate: int, brokers: range = range(1, 6)) -> None:
        """As the tool does it: a list on the topic, a rate on every broker."""
        for side in ("leader", "follower"):
            self.ask(f"set topic {topic} {side}.replication.throttled.replicas *")
        self.rate(rate, brokers)

    def rate(self, rate: int, brokers: range = range(1, 6)) -> None:
        for broker in brokers:
            for side in ("leader", "follower"):
                self.ask(f"set broker {broker} {side}.replication.throttled.rate {rate}")

    def settle(self, *partitions: str, timeout_s: float = 120) -> None:
        """Until nothing is being added or removed any more, as polled."""

        def is_settled() -> bool:
            states = self.states()
            return all(not states[tp]["adding"] and not states[tp]["removing"] for tp in partitions if tp in states)

        time.sleep(0.5)  # the poll behind the request
        wait_until(f"{', '.join(partitions)} moved", is_settled, timeout_s=timeout_s)
        time.sleep(0.5)

    def expect(self, tp: str, original: str, target: str, outcome: str, **more: Any) -> None:
        """The next attempt of this partition. Written down with the truth."""
        row = {
            "at_ms": now_ms(), "client": "scenario", "event": "expected_reassignment", "tp": tp,
            "original": _ids(original), "target": _ids(target), "outcome": outcome, **more,
        }  # fmt: skip
        with (self.cluster.folder / "truth/expected.jsonl").open("a") as lines:
            lines.write(json.dumps(row) + "\n")


def _ids(text: str) -> list[int]:
    return [int(word) for word in text.split(",")]


def _both_modes(**facts: Any) -> Any:
    """The same story in KRaft mode and, as `<name>_zookeeper`, in ZooKeeper mode."""

    def register(script: Script) -> Script:
        name = script.__name__
        scenario(controllers_apart=1, since="3.3.0", **facts)(script)
        script.__name__ = f"{name}_zookeeper"
        scenario(zookeeper=True, **facts)(script)
        script.__name__ = name
        return script

    return register


@_both_modes(brokers=5, broker_properties=SMALL_BROKERS)
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


@_both_modes(brokers=4, broker_properties=SMALL_BROKERS)
def reassign_throttled(driver: Driver) -> None:
    """A throttle far too low keeps a reassignment from ending; after 100 s it is raised. It is never removed."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2")
        mover.fill(TOPIC, 6)
        mover.throttle(TOPIC, 1000, range(1, 5))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "3,4", "completed", stalled_by="throttle")
        mover.ask("move orders-0=3,4")
        driver.rest(100)
        mover.rate(100_000_000, range(1, 5))
        mover.settle("orders-0", timeout_s=200)
        driver.rest(3)


@_both_modes(brokers=5, broker_properties=SMALL_BROKERS)
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
        if hangs:  # broker 5 is now in both lists
            mover.expect("orders-2", "1,4,2", "4,1,3", "cancelled", stalled_by="adding_and_removing_overlap")
        else:
            mover.expect("orders-2", "1,4,2", "4,1,3", "completed")
        mover.ask("move orders-2=4,1,3")
        if hangs:
            mover.expect("orders-3", "1,4,2", "2,3,5", "superseded")
            mover.expect("orders-3", "1,4,2", "1,4,2", "cancelled", stalled_by="adding_and_removing_overlap")
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


@_both_modes(brokers=4, broker_properties=SMALL_BROKERS)
def reassign_target_down(driver: Driver) -> None:
    """A target broker is killed while it is being copied to under a throttle, stays away for 110 s, and comes back;
    then the throttle goes."""
    with Mover(driver) as mover:
        mover.create(TOPIC, "1,2", "2,1")
        mover.fill(TOPIC, 4)
        mover.throttle(TOPIC, 50_000, range(1, 5))
        driver.rest(2)
        mover.expect("orders-0", "1,2", "2,4", "completed", stalled_by="broker_down")
        mover.expect("orders-1", "2,1", "1,4", "completed", stalled_by="broker_down")
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
        active = _active_controller(driver.cluster)
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


@_both_modes(brokers=4, broker_properties=SMALL_BROKERS)
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


def _active_controller(cluster: Cluster) -> int:
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
