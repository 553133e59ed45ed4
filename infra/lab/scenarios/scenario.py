"""The scenarios of the lab. Each is a script; what it expects was written by hand, from the protocol's rules.

A scenario's docstring is its description in truth/scenario.json.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from infra.lab.capture import write_capture
from infra.lab.clients import kip848_settings
from infra.lab.cluster import Cluster, remove_run_folder
from infra.lab.configs import Settings, version_key
from infra.lab.driver import Driver
from infra.lab.processes import LabError
from rebalance_audit.domain.causes import Cause

Script = Callable[[Driver], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A script and the cluster it needs."""

    name: str
    script: Script
    brokers: int = 1
    controllers_apart: int = 0
    zookeeper: bool | None = None
    connect_workers: int = 0
    disks: int = 1
    broker_properties: Settings = field(default_factory=dict)
    worker_properties: Settings = field(default_factory=dict)
    since: str = "2.7.2"

    def runs_on(self, version: str) -> bool:
        is_new_enough = version_key(version) >= version_key(self.since)
        return is_new_enough and not (self.zookeeper and version_key(version) >= (4, 0))

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.script.__doc__ or "")


SCENARIOS: dict[str, Scenario] = {}


def scenario(
    *,
    brokers: int = 1,
    controllers_apart: int = 0,
    zookeeper: bool | None = None,
    connect_workers: int = 0,
    disks: int = 1,
    broker_properties: Mapping[str, str | int] | None = None,
    worker_properties: Mapping[str, str | int] | None = None,
    since: str = "2.7.2",
) -> Callable[[Script], Script]:
    def register(script: Script) -> Script:
        SCENARIOS[script.__name__] = Scenario(
            name=script.__name__,
            script=script,
            brokers=brokers,
            controllers_apart=controllers_apart,
            zookeeper=zookeeper,
            connect_workers=connect_workers,
            disks=disks,
            broker_properties=broker_properties or {},
            worker_properties=worker_properties or {},
            since=since,
        )
        return script

    return register


def capture(name: str, *, version: str, output: Path, command: str, say: Callable[[str], None]) -> None:
    """Run a scenario on a fresh cluster and write its capture to `output`. A failed run's folder is kept."""
    if name not in SCENARIOS:
        raise LabError(f"There is no scenario {name}; there are {', '.join(SCENARIOS)}.")
    chosen = SCENARIOS[name]
    if not chosen.runs_on(version):
        until = " and before 4.0, for ZooKeeper" if chosen.zookeeper else ""
        raise LabError(f"Scenario {name} needs Kafka {chosen.since} or later{until}, not {version}.")
    cluster = Cluster(
        version=version,
        brokers=chosen.brokers,
        controllers_apart=chosen.controllers_apart,
        zookeeper=chosen.zookeeper,
        connect_workers=chosen.connect_workers,
        disks=chosen.disks,
        broker_properties=chosen.broker_properties,
        worker_properties=chosen.worker_properties,
    )
    with cluster:
        say(f"Kafka {version} answers at {cluster.bootstrap}, run folder {cluster.folder}")
        driver = Driver(cluster, say)
        try:
            chosen.script(driver)
            driver.check()
            write_capture(cluster, output, scenario=driver.story(name, chosen.description), command=command)
        finally:
            driver.end()
    remove_run_folder(cluster.folder)
    say(f"captured to {output}")


@scenario(since="2.3.1")
def eager_join_leave_kill(driver: Driver) -> None:
    """Three Java consumers and a librdkafka one join a range group one after another; c2 closes, c3 is killed
    (session timeout 10 s), then the others close one after the other until the group is empty."""
    group = "orders-app"
    driver.topics(orders=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("c1", "c2", "c3"):
        driver.join(name, group, ["orders"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.join("r1", group, ["orders"], library="librdkafka")
    driver.expect(group, Cause.MEMBER_JOINED, ["r1"])
    driver.settle(group)
    driver.leave("c2")
    driver.expect(group, Cause.MEMBER_LEFT, ["c2"])
    driver.settle(group)
    driver.kill("c3")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["c3"])
    driver.settle(group)
    driver.leave("r1")
    driver.expect(group, Cause.MEMBER_LEFT, ["r1"])
    driver.settle(group)
    driver.leave("c1")
    driver.expect(group, Cause.MEMBER_LEFT, ["c1"], outcome="emptied")
    driver.rest(3)


@scenario(since="2.3.1")
def cooperative_scale_up(driver: Driver) -> None:
    """A cooperative-sticky group grows from one member to three, then c1 (its leader) leaves."""
    group = "payments-app"
    driver.topics(payments=8)
    driver.produce()
    driver.group(group, group_type="classic", mode="cooperative", assignor="cooperative-sticky")
    driver.join("c1", group, ["payments"])
    driver.expect(group, Cause.MEMBER_JOINED, ["c1"])
    driver.settle(group)
    driver.join("c2", group, ["payments"])
    driver.expect(group, Cause.MEMBER_JOINED, ["c2"])
    driver.expect(group, Cause.COOPERATIVE_FOLLOW_UP, ["c1"])
    driver.settle(group)
    driver.join("c3", group, ["payments"])
    driver.expect(group, Cause.MEMBER_JOINED, ["c3"])
    driver.expect(group, Cause.COOPERATIVE_FOLLOW_UP, ["c1", "c2"])
    driver.settle(group)
    driver.leave("c1")
    driver.expect(group, Cause.MEMBER_LEFT, ["c1"], note="with room enough: no follow-up")
    driver.settle(group)


@scenario(connect_workers=1, since="2.3.1", worker_properties={"scheduled.rebalance.max.delay.ms": 20_000})
def connect_worker_joins(driver: Driver) -> None:
    """Two connectors of four tasks on one worker; a second worker joins: one rebalance revokes, the next assigns."""
    group = driver.connect_group()
    driver.topics(events=2)
    for name in ("alpha", "beta"):
        driver.connector(name, 4, "events")
        driver.settle_connect()
    driver.worker_joins(2)
    driver.expect(group, Cause.CONNECT_WORKER_JOINED, ["worker-2"])
    driver.expect(group, Cause.CONNECT_REVOCATION_FOLLOW_UP, ["worker-1"])
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties={"scheduled.rebalance.max.delay.ms": 20_000})
def connect_worker_lost(driver: Driver) -> None:
    """One of three workers is killed: its session ends after 10 s, its tasks wait for the delay of 20 s."""
    group = driver.connect_group()
    driver.topics(events=2)
    for name in ("alpha", "beta"):
        driver.connector(name, 4, "events")
        driver.settle_connect()
    driver.worker_killed(3)
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["worker-3"])
    driver.expect(group, Cause.CONNECT_DELAY_EXPIRED, [])
    driver.settle_connect()


# Further scenarios


KIP848_BROKER = {
    # The minimum stands in the way of a ten-second session, so it comes down first.
    "group.consumer.min.session.timeout.ms": 6000,
    "group.consumer.session.timeout.ms": 10_000,
    "group.consumer.min.heartbeat.interval.ms": 1000,
    "group.consumer.heartbeat.interval.ms": 2000,
}


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_join_leave(driver: Driver) -> None:
    """A KIP-848 group: two Java members and a librdkafka one join, the first closes, the second is killed
    (session 10 s, heartbeat 2 s)."""
    group = "clicks-app"
    driver.topics(clicks=6)
    driver.produce()
    # Groups start at epoch 1 inside a 4.3 broker, so the first rebalance there is number 2.
    first = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
    driver.group(group, group_type="consumer", mode="server", assignor="uniform", first_number=first)
    for name, library in (("k1", "java"), ("k2", "java"), ("k3", "librdkafka")):
        driver.join(name, group, ["clicks"], library=library, settings=kip848_settings())
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("k1")
    driver.expect(group, Cause.MEMBER_LEFT, ["k1"])
    driver.settle(group)
    driver.kill("k2")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["k2"])
    driver.settle(group)


@scenario(since="2.3.1")
def static_restart(driver: Driver) -> None:
    """Two static members (session 20 s); s2 closes and is back inside its session: the same generation is written
    again. Then s2 is closed for good, and its session ends."""
    group = "billing-app"
    driver.topics(billing=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("s1", "s2"):
        driver.join(name, group, ["billing"], group_instance_id=f"{name}-instance", session_timeout_ms=20_000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("s2")
    driver.rest(1)
    driver.join("s2", group, ["billing"], group_instance_id="s2-instance", session_timeout_ms=20_000)
    driver.expect(group, Cause.STATIC_MEMBER_REPLACED, ["s2"], kind="static_rewrite")
    driver.settle(group)
    driver.leave("s2")
    driver.expect(group, Cause.STATIC_MEMBER_EXPIRED, ["s2"])
    driver.settle(group)


@scenario()
def poll_timeout(driver: Driver) -> None:
    """p2 does not poll for 20 s with max.poll.interval.ms=8000: it is put out, then comes back as a new member."""
    group = "reports-app"
    driver.topics(reports=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("p1", "p2"):
        driver.join(name, group, ["reports"], max_poll_interval_ms=8000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.tell("p2", "stall 20000")
    driver.expect(group, Cause.MEMBER_POLL_TIMEOUT, ["p2"], members=["p1"])
    driver.expect(group, Cause.MEMBER_JOINED, ["p2"])
    driver.rest(22)
    driver.settle(group)


@scenario()
def storm(driver: Driver) -> None:
    """One of three members stalls again and again, each time longer than its max.poll.interval.ms of 6 s."""
    group = "stormy-app"
    driver.topics(stormy=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("w1", "w2", "w3"):
        driver.join(name, group, ["stormy"], max_poll_interval_ms=6000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    for _ in range(6):
        driver.tell("w3", "stall 12000")
        driver.expect(group, Cause.MEMBER_POLL_TIMEOUT, ["w3"], members=["w1", "w2"])
        driver.expect(group, Cause.MEMBER_JOINED, ["w3"])
        driver.rest(13)
        driver.settle(group, quiet_s=3)


@scenario()
def rolling_deploy(driver: Driver) -> None:
    """Three members with a range assignor are replaced one after another, each closed and started again."""
    group = "deploy-app"
    driver.topics(deploys=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("d1", "d2", "d3"):
        driver.join(name, group, ["deploys"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    for name in ("d1", "d2", "d3"):
        driver.leave(name)
        driver.expect(group, Cause.MEMBER_LEFT, [name])
        driver.settle(group)
        driver.join(name, group, ["deploys"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
