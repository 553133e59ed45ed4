"""The scenarios of the lab. Each is a script; what it expects was written by hand, from the protocol's rules.

A scenario's docstring is its description in truth/scenario.json.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from infra.lab.capture import write_capture
from infra.lab.cluster import Cluster
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from infra.lab.processes import LabError
from infra.lab.run_folder import remove_run_folder
from infra.lab.shape import ClusterShape
from rebalance_audit.domain.causes import Cause

from .members import Kip848Members, Members

Script = Callable[[Driver], None]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scenario:
    """A script and the cluster it needs."""

    name: str
    script: Script
    shape: ClusterShape
    since: str

    def runs_on(self, version: str) -> bool:
        is_new_enough = version_key(version) >= version_key(self.since)
        return is_new_enough and not (self.shape.zookeeper and version_key(version) >= (4, 0))

    @property
    def description(self) -> str:
        return inspect.cleandoc(self.script.__doc__ or "")


SCENARIOS: dict[str, Scenario] = {}


def scenario(*, since: str = "2.7.2", **shape: Any) -> Callable[[Script], Script]:
    """Register a script under its name. `shape`: what its cluster needs, fields of ClusterShape."""

    def register(script: Script) -> Script:
        name = script.__name__
        SCENARIOS[name] = Scenario(name=name, script=script, shape=ClusterShape(**shape), since=since)
        return script

    return register


def capture(name: str, *, version: str, output: Path, command: str, say: Callable[[str], None]) -> None:
    """Run a scenario on a fresh cluster and write its capture to `output`. A failed run's folder is kept."""
    if name not in SCENARIOS:
        raise LabError(f"There is no scenario {name}; there are {', '.join(SCENARIOS)}.")
    chosen = SCENARIOS[name]
    if not chosen.runs_on(version):
        until = " and before 4.0, for ZooKeeper" if chosen.shape.zookeeper else ""
        raise LabError(f"Scenario {name} needs Kafka {chosen.since} or later{until}, not {version}.")
    with Cluster(chosen.shape, version=version) as cluster:
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


@scenario(since="2.1.1")
def eager_join_leave_kill(driver: Driver) -> None:
    """Three Java consumers and a librdkafka one join a range group one after another; c2 closes, c3 is killed
    (session timeout 10 s), then the others close one after the other until the group is empty."""
    members = Members(driver, "orders-app", {"orders": 6})
    members.join("c1", "c2", "c3")
    members.join("r1", library="librdkafka")
    members.leave("c2")
    members.kill("c3")
    members.leave("r1")
    members.leave_last("c1")
    driver.rest(3)


@scenario(since="2.1.1")
def cooperative_scale_up(driver: Driver) -> None:
    """A cooperative-sticky group grows from one member to three, then c1 (its leader) leaves."""
    members = Members(driver, "payments-app", {"payments": 8}, mode="cooperative", assignor="cooperative-sticky")
    members.join("c1")
    members.start("c2")
    members.expect(Cause.MEMBER_JOINED, ["c2"])
    members.expect(Cause.COOPERATIVE_FOLLOW_UP, ["c1"])
    members.settle()
    members.start("c3")
    members.expect(Cause.MEMBER_JOINED, ["c3"])
    members.expect(Cause.COOPERATIVE_FOLLOW_UP, ["c1", "c2"])
    members.settle()
    members.leave("c1", note="with room enough: no follow-up")


def _two_connectors(driver: Driver) -> str:
    """Of four tasks each, on the workers that run; gives their group."""
    group = driver.connect_group()
    driver.topics(events=2)
    for name in ("alpha", "beta"):
        driver.connector(name, 4, "events")
        driver.settle_connect()
    return group


@scenario(connect_workers=1, since="2.3.1", worker_properties={"scheduled.rebalance.max.delay.ms": 20_000})
def connect_worker_joins(driver: Driver) -> None:
    """Two connectors of four tasks on one worker; a second worker joins: one rebalance revokes, the next assigns."""
    group = _two_connectors(driver)
    driver.worker_joins(2)
    driver.expect(group, Cause.CONNECT_WORKER_JOINED, ["worker-2"])
    driver.expect(group, Cause.CONNECT_REVOCATION_FOLLOW_UP, ["worker-1"])
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties={"scheduled.rebalance.max.delay.ms": 20_000})
def connect_worker_lost(driver: Driver) -> None:
    """One of three workers is killed: its session ends after 10 s, its tasks wait for the delay of 20 s."""
    group = _two_connectors(driver)
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
    members = Kip848Members(driver, "clicks-app", {"clicks": 6})
    members.join("k1", "k2")
    members.join("k3", library="librdkafka")
    members.leave("k1")
    members.kill("k2")


@scenario(since="2.3.1")
def static_restart(driver: Driver) -> None:
    """Two static members (session 20 s); s2 closes and is back inside its session: the same generation is written
    again. Then s2 is closed for good, and its session ends."""
    members = Members(driver, "billing-app", {"billing": 4})
    members.join("s1", "s2", is_static=True, session_timeout_ms=20_000)
    driver.leave("s2")
    driver.rest(1)
    members.start("s2", is_static=True, session_timeout_ms=20_000)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["s2"], kind="static_rewrite")
    members.settle()
    driver.leave("s2")
    members.expect(Cause.STATIC_MEMBER_EXPIRED, ["s2"])
    members.settle()


@scenario()
def poll_timeout(driver: Driver) -> None:
    """p2 does not poll for 20 s with max.poll.interval.ms=8000: it is put out, then comes back as a new member."""
    members = Members(driver, "reports-app", {"reports": 4})
    members.join("p1", "p2", max_poll_interval_ms=8000)
    driver.send("p2", "stall 20000")
    members.expect(Cause.MEMBER_POLL_TIMEOUT, ["p2"], members=["p1"])
    members.expect(Cause.MEMBER_JOINED, ["p2"])
    driver.rest(22)
    members.settle()


@scenario()
def storm(driver: Driver) -> None:
    """One of three members stalls again and again, each time longer than its max.poll.interval.ms of 6 s."""
    members = Members(driver, "stormy-app", {"stormy": 6})
    members.join("w1", "w2", "w3", max_poll_interval_ms=6000)
    for _ in range(6):
        driver.send("w3", "stall 12000")
        members.expect(Cause.MEMBER_POLL_TIMEOUT, ["w3"], members=["w1", "w2"])
        members.expect(Cause.MEMBER_JOINED, ["w3"])
        driver.rest(13)
        driver.settle(members.group, quiet_s=3)


@scenario()
def rolling_deploy(driver: Driver) -> None:
    """Three members with a range assignor are replaced one after another, each closed and started again."""
    members = Members(driver, "deploy-app", {"deploys": 6})
    members.join("d1", "d2", "d3")
    for name in ("d1", "d2", "d3"):
        members.leave(name)
        members.join(name)
