"""What happens in real fleets and in no protocol's tests: members stand still without a trace, share one client id, and
write what nobody else can read."""

from __future__ import annotations

from typing import Any

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Members
from .scenario import scenario

QUIET_S = 4.0
TICKS_PER_S = 16


@scenario(since="2.3.1")
def frozen_briefly(driver: Driver) -> None:
    """One of two Java members is stopped with SIGSTOP for 12 s under a session timeout of 20 s: no record and no line
    shows it, its commits stop while the other's go on. Much later it leaves."""
    members = Members(driver, "pausing-app", {"orders": 8}, quiet_s=QUIET_S)
    members.join("c1", "c2", session_timeout_ms=20_000)
    driver.rest(14)
    driver.freeze_briefly("c2", seconds=12)
    driver.rest(14)
    members.leave("c2")


@scenario(since="2.7.2")
def frozen_in_turn(driver: Driver) -> None:
    """A librdkafka, a sarama and a franz-go member of one group stand still for 12 s, one after the other, under a
    session timeout of 30 s."""
    members = Members(driver, "pausing-app", {"orders": 6}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    libraries = {"r1": "librdkafka", "s1": "sarama", "f1": "franz-go"}
    for name, library in libraries.items():
        members.join(name, library=library, session_timeout_ms=30_000)
    driver.rest(14)
    for name in libraries:
        driver.freeze_briefly(name, seconds=12)
        driver.rest(14)


@scenario(since="2.7.2")
def bursts(driver: Driver) -> None:
    """A topic is produced to for 12 s, falls silent for 16 s, twice: nobody stands still but for lack of work."""
    members = Members(driver, "bursty-app", {"orders": 8}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    for name, library in (("j1", "java"), ("r1", "librdkafka"), ("s1", "sarama"), ("f1", "franz-go")):
        members.join(name, library=library, session_timeout_ms=30_000)
    for _ in range(2):
        driver.fall_silent()
        driver.rest(16)
        driver.produce(per_second=TICKS_PER_S)
        driver.rest(12)
    members.leave("s1")


@scenario(since="2.7.2")
def one_client_id(driver: Driver) -> None:
    """Two members call themselves alike; the second is killed, the first leaves when a third has come."""
    members = Members(
        driver, "alike-app", {"orders": 6}, assignor="roundrobin", per_second=TICKS_PER_S, quiet_s=QUIET_S
    )
    members.join("a1", "a2", client_id="shop")
    members.kill("a2")
    members.join("a3", client_id="shop", library="kafka-python")
    members.leave("a1")


@scenario(since="2.7.2")
def odd_names(driver: Driver) -> None:
    """Group ids with quotes, tabs, blanks and an emoji, and commits with 4 kB of text beside each position."""
    driver.topics(orders=4)
    driver.produce(per_second=TICKS_PER_S)
    names: dict[str, dict[str, Any]] = {
        "it's \"quoted\", group='x'": {"library": "librdkafka", "lab_commit_metadata_bytes": 4096},
        "tab\there (reason: none)": {"library": "franz-go"},
        "🚚 lieferung ✓": {"library": "kafkajs"},
    }
    for number, (group, options) in enumerate(names.items()):
        assignor = "roundrobin" if options["library"] == "kafkajs" else "range"
        driver.group(group, group_type="classic", mode="eager", assignor=assignor)
        if options["library"] == "librdkafka":
            options = options | {"enable_auto_commit": "false"}
        for name in (f"n{number}a", f"n{number}b"):
            driver.join(name, group, ["orders"], client_id=f'{name} "x"\t(é)', **options)
            driver.expect(group, Cause.MEMBER_JOINED, [name])
            driver.settle(group, quiet_s=QUIET_S)
        driver.leave(f"n{number}a")
        driver.expect(group, Cause.MEMBER_LEFT, [f"n{number}a"])
        driver.settle(group, quiet_s=QUIET_S)


@scenario(since="2.7.2")
def foreign_assignors(driver: Driver) -> None:
    """Two groups of franz-go members with assignors of a house of its own: the subscriptions of one cannot be read, the
    other's hold its own user data. In each a third member is killed."""
    driver.topics(orders=6)
    driver.produce(per_second=TICKS_PER_S)
    for group, assignor in (("unread-app", "acme"), ("own-data-app", "acme-data")):
        driver.group(group, group_type="classic", mode="eager", assignor=assignor)
        for name in ("1", "2", "3"):
            driver.join(group[0] + name, group, ["orders"], library="franz-go")
            driver.expect(group, Cause.MEMBER_JOINED, [group[0] + name])
            driver.settle(group, quiet_s=QUIET_S)
        driver.kill(group[0] + "3")
        driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, [group[0] + "3"])
        driver.settle(group, quiet_s=QUIET_S)


@scenario(since="4.0.0")
def torn_subscription(driver: Driver) -> None:
    """A franz-go member's subscription ends inside the name of a topic. The coordinator fails as it ends the join
    phase, does not try again, and the member waits for ever."""
    driver.topics(orders=4)
    driver.group("waiting-app", group_type="classic", mode="eager", assignor="acme-torn")
    driver.join(
        "w1", "waiting-app", ["orders"], library="franz-go", session_timeout_ms=30_000, rebalance_timeout_ms=60_000
    )
    driver.expect("waiting-app", Cause.MEMBER_JOINED, ["w1"], outcome="open", members=[])
    driver.rest(12)


@scenario(since="2.7.2")
def franz_go_frozen(driver: Driver) -> None:
    """One of two cooperative franz-go members is stopped with SIGSTOP: its session (10 s) ends. It goes on, and joins
    as a new member."""
    members = Members(
        driver,
        "chilled-app",
        {"orders": 6},
        mode="cooperative",
        assignor="cooperative-sticky",
        library="franz-go",
        per_second=TICKS_PER_S,
        quiet_s=QUIET_S,
    )
    members.join("f1")
    members.start("f2")
    members.expect(Cause.MEMBER_JOINED, ["f2"])
    members.expect(Cause.COOPERATIVE_FOLLOW_UP, ["f1"])
    members.settle()
    driver.freeze("f2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["f2"])
    members.settle()
    driver.thaw("f2")
    members.expect(Cause.MEMBER_JOINED, ["f2"])
    members.expect(Cause.COOPERATIVE_FOLLOW_UP, ["f1"])
    members.settle()
    while members.expect_if_seen(Cause.COOPERATIVE_FOLLOW_UP, ["f1", "f2"]):
        pass
