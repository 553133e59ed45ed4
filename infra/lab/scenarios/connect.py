"""Stories of a Connect cluster: workers that come, go, return, freeze; connectors that change, fail and stand still.

Every connector and task writes down its own start and stop. What must be found was written by hand from the protocol's
rules.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterable
from typing import Any

from infra.lab.clients import put_connector, write_event
from infra.lab.cluster import worker_name
from infra.lab.configs import Settings, mirror_maker_settings, version_key
from infra.lab.driver import Driver
from infra.lab.processes import now_ms
from rebalance_audit.domain.causes import Cause

from .scenario import scenario

DELAY_MS = 20_000
DELAY: Settings = {"scheduled.rebalance.max.delay.ms": DELAY_MS}
LONG_DELAY: Settings = {"scheduled.rebalance.max.delay.ms": 40_000}
"""Longer than a worker needs to start on a busy machine."""


class Workers:
    """What the scripts here do to a Connect cluster, beyond what every scenario's driver can."""

    def __init__(self, driver: Driver, *, connectors: int = 2, tasks: int = 3, **declared: str) -> None:
        self.driver, self.cluster = driver, driver.cluster
        self.group = driver.connect_group(**declared)
        driver.topics(events=2)
        for name in ("alpha", "beta", "gamma")[:connectors]:
            driver.connector(name, tasks, "events")
            driver.settle_connect()

    def expect(self, trigger: str, by: Iterable[int] = (), **facts: Any) -> None:
        self.driver.expect(self.group, trigger, [worker_name(w) for w in by], **facts)

    def returns(self, worker: int) -> None:
        """Started again; returns when it is a member."""
        self.driver.worker_joins(worker)
        self.cluster.wait_for_worker(worker)

    def freeze(self, worker: int) -> None:
        """SIGSTOP: neither heartbeats nor tasks go on."""
        name = worker_name(worker)
        self.driver._present[self.group].remove(name)
        at_ms = now_ms()
        self.cluster.freeze_node(name)
        write_event(self.cluster.folder / "truth/driver.jsonl", name, "frozen", at_ms)
        self.driver._note("freeze", name, at_ms=at_ms)

    def freeze_briefly(self, worker: int, *, seconds: float) -> None:
        """SIGSTOP, and SIGCONT before its session ends: no group learns of it. Its truth is a stall."""
        name = worker_name(worker)
        freeze, thaw = self.cluster.freeze_node, self.cluster.thaw_node
        for act, action, event in ((freeze, "freeze", "stall_start"), (thaw, "thaw", "stall_end")):
            at_ms = now_ms()
            act(name)
            write_event(self.cluster.folder / "truth/driver.jsonl", name, event, at_ms)
            self.driver._note(action, name, at_ms=at_ms)
            if act == freeze:
                self.driver.rest(seconds)

    def thaw(self, worker: int) -> None:
        """SIGCONT; its tasks go on at once, until it learns that it was put out."""
        name = worker_name(worker)
        self.driver._present[self.group].append(name)
        at_ms = now_ms()
        self.cluster.thaw_node(name)
        write_event(self.cluster.folder / "truth/driver.jsonl", name, "thawed", at_ms)
        self.driver._note("thaw", name, at_ms=at_ms)

    def ask(self, what: str, method: str, path: str, subject: str) -> None:
        """One request to the first worker's REST interface."""
        self.driver._note(what, subject)
        url = self.cluster.worker_url(self.cluster.running_workers()[0]) + path
        request = urllib.request.Request(url, method=method)
        with urllib.request.urlopen(request, timeout=60):
            pass

    def reconfigure(
        self, name: str, tasks: int, *, mode: str | None = None, assignor: str | None = None, **options: Any
    ) -> None:
        self.driver._note("reconfigure", name, tasks=tasks, **options)
        url = self.cluster.worker_url(self.cluster.running_workers()[0])
        put_connector(url, name, tasks=tasks, topic="events", **options)
        self.driver.connectors[name] = tasks
        facts: dict[str, Any] = {"mode": mode, "assignor": assignor} if mode is not None else {}
        self.expect(Cause.CONNECT_CONFIG_CHANGED, note=f"tasks of {name}", **facts)

    def delete(self, name: str) -> None:
        self.ask("delete", "DELETE", f"connectors/{name}", name)
        del self.driver.connectors[name]
        self.expect(Cause.CONNECT_CONFIG_CHANGED, note=f"connector {name}")
        self.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)


@scenario(connect_workers=3, worker_properties=LONG_DELAY)
def connect_bounce_within_delay(driver: Driver) -> None:
    """One of three workers is stopped and started again before the delay of 40 s ends: its tasks wait for it, and go
    to it when the delay ends. Nothing else moves."""
    workers = Workers(driver)
    driver.worker_stopped(3)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [3])
    driver.rest(5)
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties=LONG_DELAY)
def connect_rolling_bounce(driver: Driver) -> None:
    """Every worker is stopped and started again, one after the other. The last one leads: with it the memory of who ran
    what is lost, its tasks are handed out at once, and it gets its share back by a revocation."""
    workers = Workers(driver)
    for worker in (3, 2):
        driver.worker_stopped(worker)
        workers.expect(Cause.CONNECT_WORKER_LEFT, [worker])
        driver.rest(3)
        workers.returns(worker)
        workers.expect(Cause.CONNECT_WORKER_JOINED, [worker])
        workers.expect(Cause.CONNECT_DELAY_EXPIRED)
        driver.settle_connect()
    driver.worker_stopped(1)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [1])
    driver.rest(8)
    workers.returns(1)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [1])
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties=DELAY)
def connect_leader_killed(driver: Driver) -> None:
    """The leader is killed: the new one remembers nothing, so its tasks are handed out at once. Then it is back."""
    workers = Workers(driver)
    driver.worker_killed(1)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [1])
    driver.settle_connect()
    workers.returns(1)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [1])
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()


@scenario(connect_workers=2, worker_properties={**DELAY, "connect.protocol": "eager"})
def connect_eager(driver: Driver) -> None:
    """Two workers with connect.protocol=eager: one leaves and is back, then it is killed. Each round stops it all."""
    workers = Workers(driver, mode="eager", assignor="default")
    driver.worker_stopped(2)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [2])
    driver.settle_connect()
    workers.returns(2)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [2])
    driver.settle_connect()
    driver.worker_killed(2)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [2])
    driver.settle_connect()


@scenario(connect_workers=2, worker_properties=DELAY)
def connect_one_eager_worker(driver: Driver) -> None:
    """A third worker that knows only the eager protocol joins two incremental ones, and all become eager. The two do
    not stop what they run when the protocol changes, so tasks run twice. Then a connector changes: everything stops."""
    workers = Workers(driver)
    cluster = driver.cluster
    cluster._prepare_worker(3)
    with (cluster.folder / "etc/worker-3.properties").open("a") as settings:
        settings.write("\nconnect.protocol=eager\n")
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3], mode="eager", assignor="default")
    driver.rest(15)
    workers.reconfigure("alpha", 3, stop_ms=7, mode="eager", assignor="default")
    driver.rest(15)


@scenario(connect_workers=2, worker_properties=DELAY)
def connect_connector_life(driver: Driver) -> None:
    """A connector gets more tasks, fewer, another setting; it is paused, resumed, one task restarted, and from 3.5 on
    stopped and resumed. Another team's connector is deleted."""
    workers = Workers(driver)
    workers.reconfigure("alpha", 4)
    driver.settle_connect()
    workers.reconfigure("alpha", 2)
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()
    workers.reconfigure("alpha", 2, stop_ms=7)
    driver.settle_connect()
    workers.ask("pause", "PUT", "connectors/alpha/pause", "alpha")
    driver.rest(5)
    workers.ask("resume", "PUT", "connectors/alpha/resume", "alpha")
    driver.rest(5)
    workers.ask("restart task", "POST", "connectors/alpha/tasks/0/restart", "alpha-0")
    driver.rest(4)
    if version_key(driver.cluster.version) >= (3, 5):
        workers.ask("stop", "PUT", "connectors/alpha/stop", "alpha")
        workers.expect(Cause.CONNECT_CONFIG_CHANGED, note="target state of alpha")
        workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
        driver.rest(8)
        workers.ask("resume", "PUT", "connectors/alpha/resume", "alpha")
        workers.expect(Cause.CONNECT_CONFIG_CHANGED, note="tasks of alpha")
        driver.settle_connect()
    workers.delete("beta")
    driver.rest(8)


@scenario(connect_workers=2, worker_properties=DELAY)
def connect_task_fails(driver: Driver) -> None:
    """A task throws three seconds after its start and stays FAILED until somebody restarts it: no rebalance comes."""
    workers = Workers(driver, connectors=1)
    driver.connector("broken", 3, "events", fail_task=1, fail_ms=3000)
    driver.rest(15)
    workers.ask("restart task", "POST", "connectors/broken/tasks/1/restart", "broken-1")
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties={"scheduled.rebalance.max.delay.ms": 10_000})
def connect_worker_frozen(driver: Driver) -> None:
    """A worker is stopped with SIGSTOP for longer than its session (10 s) and the delay (10 s): its tasks go to the
    others. Then it goes on, and they run twice until it learns that it is no member any more."""
    workers = Workers(driver)
    workers.freeze(3)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [3])
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    driver.settle_connect()
    workers.thaw(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    driver.rest(5)
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties=DELAY)
def connect_many_tasks(driver: Driver) -> None:
    """Three workers, ten connectors of ten tasks, named as their tasks could be. A worker is killed and does not come
    back; then another team deletes its connector."""
    workers = Workers(driver, connectors=0)
    for number in range(10):
        driver.connector(f"c-{number}", 10, "events")
        driver.settle_connect(quiet_s=3)
    driver.worker_killed(3)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [3])
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    driver.settle_connect()
    workers.delete("c-9")
    driver.rest(8)


@scenario(connect_workers=3, worker_properties={"scheduled.rebalance.max.delay.ms": 0})
def connect_without_delay(driver: Driver) -> None:
    """scheduled.rebalance.max.delay.ms=0: what a killed worker ran is handed out as soon as it is missed. Before 3.7 it
    is not handed out at all (KAFKA-15693)."""
    workers = Workers(driver)
    driver.worker_killed(3)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [3])
    if version_key(driver.cluster.version) < (3, 7):
        driver.rest(30)
    else:
        driver.settle_connect()


@scenario(connect_workers=1, worker_properties=DELAY)
def connect_revoking_rounds(driver: Driver) -> None:
    """Two workers join one that runs everything, the second while the first one's share is still being stopped, which
    takes 4 s. From 3.4 on the leader does not revoke twice in a row: it makes the second revocation wait."""
    workers = Workers(driver, connectors=0)
    for name in ("alpha", "beta"):
        driver.connector(name, 5, "events", stop_ms=4000)
        driver.settle_connect()
    driver.worker_joins(2)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [2])
    driver.rest(2)
    driver.worker_joins(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3], or_trigger=Cause.CONNECT_REVOCATION_FOLLOW_UP)
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.settle_connect()


@scenario(since="4.1.1")
def mirror_maker_loop(driver: Driver) -> None:
    """MirrorMaker 2 knows one cluster under two aliases, src and dst. Every refresh (5 s) it finds the topics that it
    made itself a moment ago, rewrites its tasks, and the group rebalances though no member comes or goes."""
    driver.topics(orders=2)
    flows = ("src-mm2", "dst-mm2")
    driver.mirror_maker(flows, mirror_maker_settings(driver.cluster.bootstrap))
    driver.rest(45)
    for flow in flows:
        while driver.expect_if_joined(flow, Cause.CONNECT_CONFIG_CHANGED):
            pass
