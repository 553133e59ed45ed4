"""What changes under groups that work, and what they lose meanwhile: connectors, MirrorMaker 2's workers, members of
the newer groups. Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.clients import write_event
from infra.lab.cluster import worker_name
from infra.lab.configs import Settings, mirror_maker_settings
from infra.lab.driver import Driver
from infra.lab.processes import now_ms, wait_until
from rebalance_audit.domain.causes import Cause

from .connect import Workers
from .members import Members
from .scenario import KIP848_BROKER, scenario

QUIET_S = 4.0


@scenario(since="3.5.1", connect_workers=3, worker_properties={"scheduled.rebalance.max.delay.ms": 25_000})
def connect_changes_in_a_bounce(driver: Driver) -> None:
    """A connector is paused, a worker stops, another connector gets other settings while tasks wait, the first one goes
    on, and the worker is back in time. Then a worker is killed, and a connector is stopped while tasks wait."""
    chance = Random("connect_changes_in_a_bounce")
    workers = Workers(driver)
    workers.ask("pause", "PUT", "connectors/alpha/pause", "alpha")
    driver.rest(chance.uniform(4, 7))
    driver.worker_stopped(3)
    workers.expect(Cause.CONNECT_WORKER_LEFT, [3])
    driver.rest(chance.uniform(2, 4))
    workers.reconfigure("beta", 3, stop_ms=7)
    driver.rest(chance.uniform(3, 4))
    workers.ask("resume", "PUT", "connectors/alpha/resume", "alpha")
    driver.rest(3)
    # Tasks that nobody runs are written again more than once.
    while driver.expect_if_joined(workers.group, Cause.CONNECT_CONFIG_CHANGED):
        pass
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    driver.settle_connect()
    driver.rest(chance.uniform(2, 4))
    driver.worker_killed_now(2)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [2])
    driver.rest(15)
    workers.ask("stop", "PUT", "connectors/alpha/stop", "alpha")
    workers.expect(Cause.CONNECT_CONFIG_CHANGED, note="target state of alpha")
    workers.expect(Cause.CONNECT_REVOCATION_FOLLOW_UP)
    driver.rest(35)
    workers.expect(Cause.CONNECT_DELAY_EXPIRED)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_REVOCATION_FOLLOW_UP):
        pass


@scenario(since="3.5.1")
def mirror_maker_workers_go(driver: Driver) -> None:
    """Two processes of MirrorMaker 2 copy one cluster, under two aliases, into itself. The second comes, is killed, is
    back, and the first, which leads, stops."""
    chance = Random("mirror_maker_workers_go")
    driver.topics(orders=4)
    driver.produce(per_second=16)
    group, first, second = "src-mm2", worker_name(1), worker_name(2)
    properties: Settings = {
        **mirror_maker_settings(driver.cluster.bootstrap),
        "scheduled.rebalance.max.delay.ms": 10_000,
        "dedicated.mode.enable.internal.rest": "true",
        # Topics of its own would be found at each refresh, and its tasks be written again. So the way back has no work.
        "emit.heartbeats.enabled": "false",
        "refresh.topics.interval.seconds": 600,
        "refresh.groups.interval.seconds": 600,
    }
    present = driver._present

    def expect_more(trigger: str) -> None:
        while driver.expect_if_joined(group, trigger):
            pass

    def comes() -> None:
        before = max(driver._generations_joined(group), default=0)
        present[group].append(second)
        driver._note("start", second)
        driver.cluster.start_mirror_maker(properties, 2)

        def has_joined() -> bool:
            return any(n > before and second in who for n, who in driver._generations_joined(group).items())

        wait_until(f"{second} has joined", has_joined, timeout_s=120)
        driver.rest(20)
        driver.expect(group, Cause.CONNECT_WORKER_JOINED, [second])
        driver.expect_if_joined(group, Cause.CONNECT_REVOCATION_FOLLOW_UP)
        # A connector that starts elsewhere may write its tasks again.
        expect_more(Cause.CONNECT_CONFIG_CHANGED)

    def gone(name: str, action: str, event: str, at_ms: int) -> None:
        present[group].remove(name)
        write_event(driver.cluster.folder / "truth/driver.jsonl", name, event, at_ms)
        driver._note(action, name, at_ms=at_ms)

    driver.mirror_maker([group], properties)
    driver.rest(40)
    expect_more(Cause.CONNECT_CONFIG_CHANGED)
    comes()
    driver.rest(chance.uniform(2, 5))
    at_ms = now_ms()
    driver.cluster.kill_worker(2)
    gone(second, "kill", "killed", at_ms)
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, [second])
    driver.rest(chance.uniform(32, 36))
    expect_more(Cause.CONNECT_DELAY_EXPIRED)
    comes()
    driver.rest(chance.uniform(2, 5))
    driver.cluster.stop_worker(1)
    gone(first, "stop", "worker_stopped", now_ms())
    driver.expect(group, Cause.CONNECT_WORKER_LEFT, [first])
    driver.rest(20)
    expect_more(Cause.CONNECT_CONFIG_CHANGED)


@scenario(
    since="4.2.0",
    broker_properties=KIP848_BROKER
    | {
        "group.streams.initial.rebalance.delay.ms": 0,
        "group.streams.min.session.timeout.ms": 9000,
        "group.streams.session.timeout.ms": 9000,
        "group.streams.min.heartbeat.interval.ms": 2000,
        "group.streams.heartbeat.interval.ms": 2000,
        "group.share.min.session.timeout.ms": 9000,
        "group.share.session.timeout.ms": 9000,
        "group.share.min.heartbeat.interval.ms": 2000,
        "group.share.heartbeat.interval.ms": 2000,
    },
)
def new_groups_lose_members(driver: Driver) -> None:
    """A streams group of three instances and a share group of three members, with sessions of 9 s. The third of each is
    killed and is back late, the second is frozen for longer than its session and goes on, the first closes."""
    chance = Random("new_groups_lose_members")
    driver.topics(flow=6, shared=4)
    driver.produce(per_second=40)
    facts: dict[str, Any] = {"mode": "server", "first_number": 2}
    driver.group("flow-app", group_type="streams", assignor="sticky", **facts)
    driver.group("share-app", group_type="share", assignor="simple", **facts)

    def expect(trigger: str, number: str) -> None:
        driver.expect("flow-app", trigger, [f"w{number}"])
        driver.expect("share-app", trigger, [f"s{number}"])

    def come(number: str) -> None:
        streams: Settings = {"group.protocol": "streams", "num.stream.threads": 1, "state.dir": f"data/w{number}"}
        driver.join(f"w{number}", "flow-app", ["flow"], library="streams", settings=streams)
        driver.join(f"s{number}", "share-app", ["shared"], library="share", settings={})
        expect(Cause.MEMBER_JOINED, number)
        driver.rest(10)
        driver.settle("flow-app", quiet_s=QUIET_S)
        if number == "1" and len(driver.groups["share-app"]["rebalances"]) == 1:
            driver.expect("share-app", Cause.SHARE_STATE_INITIALIZED, [])

    for number in "123":
        come(number)
    driver.rest(chance.uniform(4, 7))
    driver.kill_together("w3", "s3")
    expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(chance.uniform(14, 16))
    driver.settle("flow-app", quiet_s=QUIET_S)
    come("3")
    driver.rest(chance.uniform(4, 7))
    for name in ("w2", "s2"):
        driver.freeze(name)
    expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(chance.uniform(14, 16))
    driver.settle("flow-app", quiet_s=QUIET_S)
    for name in ("w2", "s2"):
        driver.thaw(name)
    expect(Cause.MEMBER_JOINED, "2")
    driver.rest(12)
    driver.settle("flow-app", quiet_s=QUIET_S)
    driver.rest(chance.uniform(2, 4))
    for name in ("w1", "s1"):
        driver.leave(name)
    expect(Cause.MEMBER_LEFT, "1")
    driver.rest(8)
    driver.settle("flow-app", quiet_s=QUIET_S)


@scenario(since="2.7.2")
def members_in_other_zones(driver: Driver) -> None:
    """Java members write their logs by the clock of Kolkata and of Los Angeles, the broker by UTC. The second does not
    poll for longer than max.poll.interval.ms (7 s) and is back; the first closes, the third is killed."""
    chance = Random("members_in_other_zones")
    members = Members(driver, "zones-app", {"orders": 6}, per_second=30, quiet_s=QUIET_S)
    zones = {"z1": "Asia/Kolkata", "z2": "America/Los_Angeles", "z3": "Asia/Kolkata"}
    for name, zone in zones.items():
        members.join(name, lab_time_zone=zone, max_poll_interval_ms=7000)
    driver.rest(chance.uniform(4, 7))
    driver.send("z2", "stall 14000")
    members.expect(Cause.MEMBER_POLL_TIMEOUT, ["z2"], members=["z1", "z3"])
    driver.rest(16)
    members.expect(Cause.MEMBER_JOINED, ["z2"])
    members.settle()
    driver.rest(chance.uniform(3, 6))
    members.leave("z1")
    driver.kill_together("z3")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["z3"])
    driver.rest(12)
    members.settle()


@scenario(since="2.7.2")
def two_groups_of_one_process(driver: Driver) -> None:
    """What one process does for two groups, under one client id: librdkafka and franz-go members on two topics. The
    second process is frozen for longer than its session (10 s), the first is killed, in both groups at once."""
    chance = Random("two_groups_of_one_process")
    driver.topics(orders=5, mail=4)
    driver.produce(per_second=36)
    groups = {
        "a": ("orders-app", "orders", "librdkafka"),
        "b": ("mail-app", "mail", "librdkafka"),
        "c": ("orders-too", "orders", "franz-go"),
        "d": ("mail-too", "mail", "franz-go"),
    }
    for group, _, _ in groups.values():
        driver.group(group, group_type="classic", mode="eager", assignor="range")

    def settle() -> None:
        for group, _, _ in groups.values():
            driver.settle(group, quiet_s=QUIET_S)

    def expect(trigger: str, number: str) -> None:
        for letter, (group, _, _) in groups.items():
            driver.expect(group, trigger, [f"{letter}{number}"])

    for number in "123":
        for letter, (group, topic, library) in groups.items():
            more: dict[str, Any] = {"client_id": f"worker-{number}"}
            driver.join(f"{letter}{number}", group, [topic], library=library, **more)
        expect(Cause.MEMBER_JOINED, number)
        settle()
    driver.rest(chance.uniform(5, 8))
    for letter in groups:
        driver.freeze(f"{letter}2")
    expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(chance.uniform(14, 17))
    settle()
    for letter in groups:
        driver.thaw(f"{letter}2")
    expect(Cause.MEMBER_JOINED, "2")
    driver.rest(9)
    settle()
    driver.rest(chance.uniform(3, 6))
    driver.kill_together(*(f"{letter}1" for letter in groups))
    expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(13)
    settle()
