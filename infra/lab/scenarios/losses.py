"""What is lost under groups that work: a disk, the in-sync replicas, a coordinator together with members. Moments are
drawn from a seed of each scenario."""

from __future__ import annotations

import re
import shutil
from random import Random
from typing import Any

from infra.lab.clients import coordinator_of
from infra.lab.cluster import Cluster, broker_name
from infra.lab.driver import Driver
from infra.lab.processes import wait_until
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .members import Members
from .scenario import KIP848_BROKER, scenario

QUIET_S = 4.0


@scenario(since="3.3.2", brokers=2, controllers_apart=1, broker_properties={"min.insync.replicas": 2})
def group_cannot_be_written(driver: Driver) -> None:
    """A group of Java members that commit nothing: one of two brokers is killed while two must be in sync, and a third
    member comes. Each generation fails as its record is written, and the next one begins, until the broker is back."""
    chance = Random("group_cannot_be_written")
    members = Members(driver, "unwritten-app", {"orders": 6}, quiet_s=QUIET_S)
    # They try again ten times a second by default.
    quiet: dict[str, Any] = {"enable_auto_commit": "false", "retry_backoff_ms": 1500}
    members.join("n1", "n2", **quiet)
    broker = 3 - coordinator_of(driver.cluster.bootstrap, members.group)
    driver.broker_killed(broker)
    driver.rest(chance.uniform(13, 16))
    members.start("n3", **quiet)
    driver.rest(chance.uniform(9, 12))
    driver.broker_returns(broker)
    driver.rest(12)
    members.settle()
    ended = _generations_ended(driver.cluster, members.group)
    first = driver.groups[members.group]["rebalances"][-1]["number"] + 1
    members.expect(Cause.MEMBER_JOINED, ["n3"], outcome="failed", members=[])
    for _ in range(first + 1, ended):
        members.expect(Cause.APPEND_FAILED, [], outcome="failed", members=[])
    members.expect(Cause.APPEND_FAILED, [])
    driver.rest(chance.uniform(3, 5))
    members.leave("n1")


def _generations_ended(cluster: Cluster, group: str) -> int:
    """The last generation whose join phase ended, by the coordinators' own lines."""
    logs = "".join(log.read_text() for folder in cluster.log_folders.values() for log in folder.glob("server.log*"))
    return max(int(number) for number in re.findall(rf"Stabilized group {re.escape(group)} generation (\d+) ", logs))


@scenario(since="2.7.2", brokers=3, disks=2)
def offsets_disk_lost(driver: Driver) -> None:
    """Groups of librdkafka, sarama, Java and aiokafka: the disk of a broker that coordinates them is lost, and the
    broker lives on with its other one. Later the second member of each is killed, and the first closes."""
    chance = Random("offsets_disk_lost")
    libraries = {"r": "librdkafka", "s": "sarama", "j": "java", "a": "aiokafka"}
    groups = Groups(driver, libraries, partitions=6, per_second=30)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    data = driver.cluster.folder / "data"
    led = {coordinator_of(driver.cluster.bootstrap, groups.group(letter)) for letter in libraries}
    disks = [data / f"{broker_name(broker)}-disk-2" for broker in sorted(led)]
    lost = max(disks, key=lambda disk: len(list(disk.glob("__consumer_offsets-*"))))
    driver._note("lose disk", lost.name)
    shutil.rmtree(lost)
    lost.touch()
    log = driver.cluster.log_folders[lost.name.removesuffix("-disk-2")] / "server.log"
    wait_until("the broker notices", lambda: "in the failed log directory" in log.read_text(), timeout_s=90)
    driver.rest(chance.uniform(14, 17))
    groups.expect_written(Cause.LEADER_REJOINED, or_trigger=Cause.TOPIC_METADATA_CHANGED)
    groups.settle()
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(14)
    groups.settle()
    driver.rest(chance.uniform(3, 6))
    groups.leave("1")
    groups.settle()


@scenario(since="2.7.2", brokers=3)
def sarama_commits_rarely(driver: Driver) -> None:
    """An eager and a cooperative group of sarama members that commit every 9 s, on three brokers. The second of three
    closes and is back, the third is killed and is back late, the first closes."""
    chance = Random("sarama_commits_rarely")
    driver.topics(orders=9)
    driver.produce(per_second=27)
    groups = {"e": "range", "c": "cooperative-sticky"}
    for letter, assignor in groups.items():
        mode = "eager" if letter == "e" else "cooperative"
        driver.group(f"{letter}-app", group_type="classic", mode=mode, assignor=assignor)

    def settle() -> None:
        for letter in groups:
            driver.settle(f"{letter}-app", quiet_s=QUIET_S)
        while driver.expect_if_seen("c-app", Cause.COOPERATIVE_FOLLOW_UP, []):
            pass

    def expect(trigger: str, number: str) -> None:
        for letter in groups:
            driver.expect(f"{letter}-app", trigger, [f"{letter}{number}"])

    def come(number: str) -> None:
        for letter in groups:
            more: dict[str, Any] = {"auto_commit_interval_ms": 9000}
            driver.join(f"{letter}{number}", f"{letter}-app", ["orders"], library="sarama", **more)
        expect(Cause.MEMBER_JOINED, number)
        settle()

    for number in "123":
        come(number)
    driver.rest(chance.uniform(6, 12))
    driver.leave_together("e2", "c2")
    expect(Cause.MEMBER_LEFT, "2")
    settle()
    driver.rest(chance.uniform(2, 4))
    come("2")
    driver.rest(chance.uniform(6, 12))
    driver.kill_together("e3", "c3")
    expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(13)
    settle()
    come("3")
    driver.rest(chance.uniform(4, 8))
    driver.leave_together("e1", "c1")
    expect(Cause.MEMBER_LEFT, "1")
    settle()


@scenario(since="2.7.2", brokers=3)
def lost_with_its_coordinator(driver: Driver) -> None:
    """Groups of librdkafka, aiokafka and kafka-go (session 9 s): the third member is frozen, and three seconds later a
    coordinator is killed; it goes on late. The broker is back; the second is killed, and that coordinator restarts."""
    chance = Random("lost_with_its_coordinator")
    libraries = {"r": "librdkafka", "a": "aiokafka", "g": "kafka-go"}
    groups = Groups(driver, libraries, partitions=7, per_second=35)
    again: dict[str, Any] = {"or_trigger": Cause.TOPIC_METADATA_CHANGED}
    groups.come("1", "2", "3", session_timeout_ms=9000)
    driver.rest(chance.uniform(5, 8))
    groups.each("3", driver.freeze)
    driver.rest(3)
    broker = driver.coordinator_killed(groups.group("r"))
    # librdkafka that finds no coordinator for its session timeout gives up its place, and joins again as somebody new.
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "3", or_trigger=Cause.MEMBER_JOINED)
    driver.rest(chance.uniform(24, 27))
    groups.expect_written(Cause.MEMBER_SESSION_EXPIRED, "3", or_trigger=Cause.LEADER_REJOINED)
    groups.settle()
    groups.each("3", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "3")
    driver.rest(10)
    groups.settle()
    driver.broker_returns(broker)
    driver.rest(chance.uniform(8, 11))
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(14)
    groups.expect_written(Cause.LEADER_REJOINED, **again)
    groups.settle()


@scenario(since="2.4.1")
def static_members_of_python(driver: Driver) -> None:
    """Groups of static members of kafka-python, aiokafka and librdkafka (session 12 s). The second closes and is back
    in time, the third is killed and is back in time; the first is frozen for longer and goes on; the second is killed
    for good."""
    chance = Random("static_members_of_python")
    libraries = {"p": "kafka-python", "a": "aiokafka", "r": "librdkafka"}
    groups = Groups(driver, libraries, partitions=7, per_second=35)
    static: dict[str, Any] = {"is_static": True, "session_timeout_ms": 12_000}
    groups.come("1", "2", "3", **static)
    driver.rest(chance.uniform(5, 8))
    groups.each("2", driver.leave)
    driver.rest(chance.uniform(1, 3))
    groups.start("2", **static)
    groups.expect(Cause.STATIC_MEMBER_REPLACED, "2", kind="static_rewrite", members="123")
    driver.rest(7)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("3"))
    driver.rest(chance.uniform(2, 4))
    groups.start("3", **static)
    groups.expect(Cause.STATIC_MEMBER_REPLACED, "3", kind="static_rewrite", members="123")
    driver.rest(7)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    groups.each("1", driver.freeze)
    groups.expect(Cause.STATIC_MEMBER_EXPIRED, "1")
    driver.rest(chance.uniform(17, 19))
    groups.settle()
    groups.each("1", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "1")
    driver.rest(9)
    groups.settle()
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.STATIC_MEMBER_EXPIRED, "2")
    driver.rest(16)
    groups.settle()


@scenario(since="4.0.0", brokers=3, broker_properties=KIP848_BROKER)
def kip848_brokers_restart(driver: Driver) -> None:
    """KIP-848 groups of librdkafka and Java on three brokers: every broker restarts in good order, and before each one
    a member closes that is back afterwards. Then a broker restarts while a member is dead."""
    chance = Random("kip848_brokers_restart")
    groups = Groups(driver, {"r": "librdkafka", "j": "java"}, partitions=7, per_second=35, is_kip848=True)
    groups.come("1", "2", "3")
    driver.rest(chance.uniform(5, 8))
    for broker in (1, 2, 3):
        groups.leave(str(broker))
        groups.settle()
        driver.broker_restarts(broker)
        driver.rest(chance.uniform(12, 15))
        groups.settle()
        groups.come(str(broker))
    driver.rest(chance.uniform(3, 5))
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.broker_restarts(coordinator_of(driver.cluster.bootstrap, groups.group("r")))
    driver.rest(24)
    groups.settle()
