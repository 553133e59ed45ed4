"""What each client library does when members come, go, die, get stuck, and when their topic falls silent.

The same few stories for every library, so that what differs in their captures is the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from infra.lab.clients import plain_settings
from infra.lab.driver import Driver
from infra.lab.programs import LIBRARIES
from rebalance_audit.domain.causes import Cause

from .members import Kip848Members, Members
from .scenario import KIP848_BROKER, scenario

QUIET_S = 4.0
"""One heartbeat and a second: none of these libraries takes longer to notice a rebalance."""
TICKS_PER_S = 12

EAGER = {
    "kafkajs": "roundrobin",
    "franz-go": "range",
    "sarama": "range",
    "kafka-go": "range",
    "kafka-python": "range",
    "aiokafka": "roundrobin",
}
"""By library, the assignor of its eager groups: its own default, where that is an eager one."""
WITH_COOPERATIVE = ("franz-go", "sarama", "kafka-python")
WITH_STATIC_MEMBERS = ("franz-go", "sarama", "kafka-python", "aiokafka")
WITH_POLL_INTERVAL = ("kafka-python", "aiokafka")

Story = Callable[[Driver, str], None]


def _begin(driver: Driver, library: str, *, assignor: str | None = None) -> Members:
    chosen = assignor or EAGER[library]
    return Members(
        driver,
        f"{library}-app",
        {"orders": 4},
        mode="cooperative" if chosen == "cooperative-sticky" else "eager",
        assignor=chosen,
        library=library,
        per_second=TICKS_PER_S,
        quiet_s=QUIET_S,
    )


def join_leave_kill(driver: Driver, library: str) -> None:
    """Two members join one after another, a third, too; the second closes, the third is killed (session 10 s)."""
    members = _begin(driver, library)
    members.join("m1", "m2", "m3")
    members.leave("m2")
    members.kill("m3")


def silent_close(driver: Driver, library: str) -> None:
    """Nothing is produced for 16 s, which is longer than the rebalance timeout (10 s) in the record. Then the members
    close one after the other, as cleanly as their library does: nobody was late."""
    members = _begin(driver, library)
    name = "max_poll_interval_ms" if library in WITH_POLL_INTERVAL else "rebalance_timeout_ms"
    timeout: dict[str, Any] = {name: 10_000}
    members.join("m1", "m2", **timeout)
    driver.rest(3)
    driver.fall_silent()
    driver.rest(16)
    members.leave("m2")
    driver.rest(8)
    members.leave_last("m1")
    driver.rest(2)


def rolling_deploy(driver: Driver, library: str) -> None:
    """Two members are replaced one after another, each closed and started again."""
    members = _begin(driver, library)
    members.join("m1", "m2")
    for name in ("m1", "m2"):
        members.leave(name)
        members.join(name)


def static_restart(driver: Driver, library: str) -> None:
    """Two static members (session 20 s); the second closes and is back inside its session."""
    members = _begin(driver, library)
    members.join("m1", "m2", is_static=True, session_timeout_ms=20_000)
    driver.leave("m2")
    driver.rest(1)
    members.start("m2", is_static=True, session_timeout_ms=20_000)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["m2"], kind="static_rewrite")
    members.settle()


def scale_up(driver: Driver, library: str) -> None:
    """A cooperative-sticky group grows from one member to two, then the first one leaves."""
    members = _begin(driver, library, assignor="cooperative-sticky")
    members.join("m1")
    members.start("m2")
    members.expect(Cause.MEMBER_JOINED, ["m2"])
    members.expect(Cause.COOPERATIVE_FOLLOW_UP, ["m1"])
    members.settle()
    # kafka-python now and then drops the result of a join that went well, and joins again.
    while members.expect_if_seen(Cause.COOPERATIVE_FOLLOW_UP, ["m1"], or_trigger=Cause.LEADER_REJOINED):
        pass
    members.leave("m1")


def _for_each(story: Story, libraries: tuple[str, ...] = LIBRARIES) -> None:
    for library in libraries:

        def script(driver: Driver, library: str = library) -> None:
            story(driver, library)

        script.__name__ = f"{library.replace('-', '_')}_{story.__name__}"
        script.__doc__ = f"{library}: {story.__doc__}"
        scenario(since="2.3.1")(script)


_for_each(join_leave_kill)
_for_each(silent_close)
_for_each(rolling_deploy)
_for_each(static_restart, WITH_STATIC_MEMBERS)
_for_each(scale_up, WITH_COOPERATIVE)


# Handlers that are stuck, each as its library takes it


def _put_out_for_a_while(members: Members, command: str, cause: Cause) -> None:
    """The second member is stuck for 16 s: the first goes on without it, until it is back."""
    members.driver.send("m2", command)
    members.expect(cause, ["m2"], members=["m1"])
    members.driver.rest(18)
    members.expect(Cause.MEMBER_JOINED, ["m2"])
    members.settle()


@scenario()
def kafkajs_slow_handler(driver: Driver) -> None:
    """kafkajs sends heartbeats only between messages: a handler of 16 s outlives its session (10 s), the group goes on
    without it, and it is back under a new member id when the handler has returned."""
    members = _begin(driver, "kafkajs")
    members.join("m1", "m2")
    _put_out_for_a_while(members, "stall 16000", Cause.MEMBER_SESSION_EXPIRED)


@scenario()
def aiokafka_blocked_loop(driver: Driver) -> None:
    """A coroutine holds aiokafka's event loop for 16 s: no heartbeat goes out, and the session (10 s) ends."""
    members = _begin(driver, "aiokafka")
    members.join("m1", "m2")
    _put_out_for_a_while(members, "block 16000", Cause.MEMBER_SESSION_EXPIRED)


def poll_timeout(driver: Driver, library: str) -> None:
    """The second member does not poll for 16 s with max_poll_interval_ms=8000: it leaves, and joins again later."""
    members = _begin(driver, library)
    members.join("m1", "m2", max_poll_interval_ms=8000)
    _put_out_for_a_while(members, "stall 16000", Cause.MEMBER_POLL_TIMEOUT)


_for_each(poll_timeout, WITH_POLL_INTERVAL)


def stuck_with_a_joiner(driver: Driver, library: str) -> None:
    """The second member's handler takes 20 s, and a third one joins: the stuck one does not re-join within its
    rebalance timeout (8 s) and is dropped. It comes back when its handler has returned."""
    members = _begin(driver, library)
    options: dict[str, Any] = {"rebalance_timeout_ms": 8000, "session_timeout_ms": 30_000}
    if library == "franz-go":
        options["lab_block_rebalance"] = "true"
    members.join("m1", "m2", **options)
    driver.send("m2", "stall 20000")
    driver.wait_for("m2", "stall_start")
    members.start("m3", **options)
    members.expect(
        Cause.MEMBER_JOINED,
        ["m3"],
        also=[[Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, "m2"]],
        members=["m1", "m3"],
    )
    driver.wait_for("m2", "stall_end")
    members.expect(Cause.MEMBER_JOINED, ["m2"])
    members.settle()


_for_each(stuck_with_a_joiner, ("franz-go", "sarama"))


def stuck_alone(driver: Driver, library: str) -> None:
    """The second member's handler takes 24 s. This library has no max.poll.interval: it keeps its partitions, nothing
    is committed, and the group sees nothing. Then it closes."""
    members = _begin(driver, library)
    members.join("m1", "m2", rebalance_timeout_ms=10_000)
    driver.send("m2", "stall 24000")
    driver.wait_for("m2", "stall_start")
    driver.wait_for("m2", "stall_end")
    driver.rest(8)
    members.leave("m2")


_for_each(stuck_alone, ("franz-go", "sarama", "kafka-go"))


# Several libraries in one group


@scenario()
def mixed_cooperative(driver: Driver) -> None:
    """A cooperative-sticky group of a Java, a franz-go, a sarama and a kafka-python member; then the first one leaves.
    How often they re-join for one newcomer is theirs: franz-go does it once for each member that let go."""
    members = Members(
        driver, "mixed-app", {"orders": 8}, mode="cooperative", assignor="cooperative-sticky", per_second=TICKS_PER_S
    )
    present: list[str] = []
    for name, library in (("j1", "java"), ("f1", "franz-go"), ("s1", "sarama"), ("p1", "kafka-python")):
        members.start(name, library=library)
        members.expect(Cause.MEMBER_JOINED, [name])
        if present:
            members.expect(Cause.COOPERATIVE_FOLLOW_UP, present)
        members.settle()
        while members.expect_if_seen(Cause.COOPERATIVE_FOLLOW_UP, present):
            pass
        present = [*present, name]
    members.leave("j1")
    while members.expect_if_seen(Cause.COOPERATIVE_FOLLOW_UP, present[1:]):
        pass


@scenario()
def kafka_go_beside_java(driver: Driver) -> None:
    """kafka-go's subscription is malformed: a Java member that leads the group cannot read it, fails and closes. The
    generation in which they met is never written."""
    members = Members(driver, "torn-app", {"orders": 4}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    members.join("j1")
    members.start("g1", library="kafka-go")
    members.expect(Cause.MEMBER_JOINED, ["g1"], outcome="superseded", members=[])
    driver.fails("j1")
    members.expect(Cause.MEMBER_LEFT, ["j1"])
    members.settle()


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_franz_go(driver: Driver) -> None:
    """A KIP-848 group of two franz-go members and a Java one; the first leaves, the second is killed (session 10 s)."""
    members = Kip848Members(driver, "clicks-app", {"clicks": 6}, per_second=TICKS_PER_S, quiet_s=QUIET_S)
    members.join("f1", "f2", library="franz-go", settings=plain_settings("server"))
    members.join("j1")
    members.leave("f1")
    members.kill("f2")
