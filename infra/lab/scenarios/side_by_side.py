"""One cluster on which every library has a group of its own: a column of docs/support.md from one run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from infra.lab.driver import Driver
from infra.lab.programs import LIBRARIES
from rebalance_audit.domain.causes import Cause

from .libraries import EAGER, QUIET_S, WITH_POLL_INTERVAL
from .members import Members
from .scenario import scenario

PARTITIONS = {"kafkajs": 5, "franz-go": 4, "sarama": 6, "kafka-go": 3, "kafka-python": 7, "aiokafka": 5}
"""By library, of its group's topic: other numbers than its own scenarios have."""


def _begin(driver: Driver, suffix: str, *, per_second: int) -> None:
    """Each library's group `<library>-<suffix>` and topic, produced to."""
    driver.topics(**{library.replace("-", "_"): PARTITIONS[library] for library in LIBRARIES})
    driver.produce(per_second=per_second)
    for library in LIBRARIES:
        group = f"{library}-{suffix}"
        driver.group(group, group_type="classic", mode="eager", assignor=EAGER[library])


def _all(driver: Driver, suffix: str, act: Callable[[str], None], cause: Cause, number: str) -> None:
    """The same of each library's member, at about the same time; then all groups settle."""
    for library in LIBRARIES:
        act(library)
        driver.expect(f"{library}-{suffix}", cause, [f"{library}-{number}"])
    for library in LIBRARIES:
        driver.settle(f"{library}-{suffix}", quiet_s=QUIET_S)
    # kafka-python now and then drops the result of a join that went well, and joins again.
    while driver.expect_if_seen(f"kafka-python-{suffix}", Cause.LEADER_REJOINED, []):
        pass


def _join(driver: Driver, suffix: str, numbers: Sequence[str], **options: str | int) -> None:
    for number in numbers:

        def start(library: str, number: str = number) -> None:
            topic, more = library.replace("-", "_"), dict[str, Any](options)
            if library in WITH_POLL_INTERVAL and "rebalance_timeout_ms" in more:
                # Outlives what it is frozen for.
                more["max_poll_interval_ms"] = 3 * int(more.pop("rebalance_timeout_ms"))
            driver.join(f"{library}-{number}", f"{library}-{suffix}", [topic], library=library, **more)

        _all(driver, suffix, start, Cause.MEMBER_JOINED, number)


@scenario(since="2.1.1")
def side_by_side(driver: Driver) -> None:
    """Six libraries, a group each: three members join one after another, the first (the leader) closes, the second is
    killed (session 10 s), and the first is back."""
    _begin(driver, "shop", per_second=40)
    _join(driver, "shop", "123")
    _all(driver, "shop", lambda library: driver.leave(f"{library}-1"), Cause.MEMBER_LEFT, "1")
    _all(driver, "shop", lambda library: driver.kill(f"{library}-2"), Cause.MEMBER_SESSION_EXPIRED, "2")
    _join(driver, "shop", "1")


@scenario(since="2.3.1")
def side_by_side_in_trouble(driver: Driver) -> None:
    """Six libraries, a group of two members each, whose rebalance timeout is 10 s. Their topics fall silent for 15 s
    and go on; the second member of each is stopped with SIGSTOP for 12 s under a session of 25 s; the first one is
    killed."""
    _begin(driver, "slow", per_second=60)
    _join(driver, "slow", "12", session_timeout_ms=25_000, rebalance_timeout_ms=10_000)
    driver.rest(8)
    driver.fall_silent()
    driver.rest(15)
    driver.produce(per_second=60)
    driver.rest(12)
    driver.freeze_briefly(*(f"{library}-2" for library in LIBRARIES), seconds=12)
    driver.rest(10)
    _all(driver, "slow", lambda library: driver.kill(f"{library}-1"), Cause.MEMBER_SESSION_EXPIRED, "1")


@scenario(brokers=3, since="2.3.1")
def sarama_on_three_brokers(driver: Driver) -> None:
    """An eager and a cooperative group of sarama members that read little from three brokers: two members, a third
    joins, the second leaves."""
    driver.topics(calm=9)
    driver.produce(per_second=6)
    for group, assignor in (("calm-range", "range"), ("calm-sticky", "cooperative-sticky")):
        mode = "eager" if assignor == "range" else "cooperative"
        members = [f"{group}-{number}" for number in "123"]
        driver.group(group, group_type="classic", mode=mode, assignor=assignor)
        for at, name in enumerate(members):
            driver.join(name, group, ["calm"], library="sarama")
            driver.expect(group, Cause.MEMBER_JOINED, [name])
            if at and mode == "cooperative":
                driver.expect(group, Cause.COOPERATIVE_FOLLOW_UP, members[:at])
            driver.settle(group, quiet_s=QUIET_S)
            while mode == "cooperative" and driver.expect_if_seen(group, Cause.COOPERATIVE_FOLLOW_UP, members[:at]):
                pass
        driver.leave(members[1])
        driver.expect(group, Cause.MEMBER_LEFT, [members[1]])
        driver.settle(group, quiet_s=QUIET_S)
        while mode == "cooperative" and driver.expect_if_seen(group, Cause.COOPERATIVE_FOLLOW_UP, members[::2]):
            pass


@scenario(since="2.7.2")
def alike_elsewhere(driver: Driver) -> None:
    """Two members of a library call themselves alike, in a group for each of four libraries; the second is killed, and
    one of the same name comes in its place."""
    libraries = ("sarama", "kafkajs", "kafka-go", "aiokafka")
    driver.topics(orders=6)
    driver.produce(per_second=30)
    for library in libraries:
        group = f"{library}-alike"
        driver.group(group, group_type="classic", mode="eager", assignor=EAGER[library])
    for number in "12":
        for library in libraries:
            name = f"{library}-{number}"
            driver.join(name, f"{library}-alike", ["orders"], library=library, client_id="shop")
            driver.expect(f"{library}-alike", Cause.MEMBER_JOINED, [name])
        for library in libraries:
            driver.settle(f"{library}-alike", quiet_s=QUIET_S)
    for library in libraries:
        driver.kill(f"{library}-2")
        driver.expect(f"{library}-alike", Cause.MEMBER_SESSION_EXPIRED, [f"{library}-2"])
    for library in libraries:
        driver.settle(f"{library}-alike", quiet_s=QUIET_S)
    for library in libraries:
        driver.join(f"{library}-3", f"{library}-alike", ["orders"], library=library, client_id="shop")
        driver.expect(f"{library}-alike", Cause.MEMBER_JOINED, [f"{library}-3"])
    for library in libraries:
        driver.settle(f"{library}-alike", quiet_s=QUIET_S)


@scenario(since="2.3.1")
def java_deploy_beside_librdkafka(driver: Driver) -> None:
    """Two Java members and a librdkafka one; each Java member is replaced, then the librdkafka one is killed."""
    members = Members(driver, "till-app", {"till": 7}, per_second=20)
    members.join("j1", "j2")
    members.join("r1", library="librdkafka")
    for name in ("j1", "j2"):
        members.leave(name)
        members.join(name)
    members.kill("r1")
