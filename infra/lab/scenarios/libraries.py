"""What each client library does when members come, go, die, get stuck, and when their topic falls silent.

The same few stories for every library, so that what differs in their captures is the library.
"""

from __future__ import annotations

from collections.abc import Callable

from infra.lab.clients import kip848_settings, plain_settings
from infra.lab.configs import version_key
from infra.lab.driver import Driver
from infra.lab.programs import LIBRARIES
from rebalance_audit.domain.causes import Cause

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


def _begin(driver: Driver, library: str, *, assignor: str | None = None, partitions: int = 4) -> str:
    group = f"{library}-app"
    driver.topics(orders=partitions)
    driver.produce(per_second=TICKS_PER_S)
    chosen = assignor or EAGER[library]
    mode = "cooperative" if chosen == "cooperative-sticky" else "eager"
    driver.group(group, group_type="classic", mode=mode, assignor=chosen)
    return group


def _join(driver: Driver, library: str, name: str, **options: str | int) -> None:
    group = f"{library}-app"
    driver.join(name, group, ["orders"], library=library, **options)
    driver.expect(group, Cause.MEMBER_JOINED, [name])
    driver.settle(group, quiet_s=QUIET_S)


def join_leave_kill(driver: Driver, library: str) -> None:
    """Two members join one after another, a third, too; the second closes, the third is killed (session 10 s)."""
    group = _begin(driver, library)
    for name in ("m1", "m2", "m3"):
        _join(driver, library, name)
    driver.leave("m2")
    driver.expect(group, Cause.MEMBER_LEFT, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)
    driver.kill("m3")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["m3"])
    driver.settle(group, quiet_s=QUIET_S)


def silent_close(driver: Driver, library: str) -> None:
    """Nothing is produced for 16 s, which is longer than the rebalance timeout (10 s) in the record. Then the members
    close one after the other, as cleanly as their library does: nobody was late."""
    group = _begin(driver, library)
    timeout = "max_poll_interval_ms" if library in WITH_POLL_INTERVAL else "rebalance_timeout_ms"
    for name in ("m1", "m2"):
        _join(driver, library, name, **{timeout: 10_000})
    driver.rest(3)
    driver.fall_silent()
    driver.rest(16)
    driver.leave("m2")
    driver.expect(group, Cause.MEMBER_LEFT, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)
    driver.rest(8)
    driver.leave("m1")
    driver.expect(group, Cause.MEMBER_LEFT, ["m1"], outcome="emptied")
    driver.rest(2)


def rolling_deploy(driver: Driver, library: str) -> None:
    """Two members are replaced one after another, each closed and started again."""
    group = _begin(driver, library)
    for name in ("m1", "m2"):
        _join(driver, library, name)
    for name in ("m1", "m2"):
        driver.leave(name)
        driver.expect(group, Cause.MEMBER_LEFT, [name])
        driver.settle(group, quiet_s=QUIET_S)
        _join(driver, library, name)


def static_restart(driver: Driver, library: str) -> None:
    """Two static members (session 20 s); the second closes and is back inside its session."""
    group = _begin(driver, library)
    options = {name: {"group_instance_id": f"{name}-instance", "session_timeout_ms": 20_000} for name in ("m1", "m2")}
    for name in ("m1", "m2"):
        _join(driver, library, name, **options[name])
    driver.leave("m2")
    driver.rest(1)
    driver.join("m2", group, ["orders"], library=library, **options["m2"])
    driver.expect(group, Cause.STATIC_MEMBER_REPLACED, ["m2"], kind="static_rewrite")
    driver.settle(group, quiet_s=QUIET_S)


def scale_up(driver: Driver, library: str) -> None:
    """A cooperative-sticky group grows from one member to two, then the first one leaves."""
    group = _begin(driver, library, assignor="cooperative-sticky")
    _join(driver, library, "m1")
    driver.join("m2", group, ["orders"], library=library)
    driver.expect(group, Cause.MEMBER_JOINED, ["m2"])
    driver.expect(group, Cause.COOPERATIVE_FOLLOW_UP, ["m1"])
    driver.settle(group, quiet_s=QUIET_S)
    # kafka-python now and then drops the result of a join that went well, and joins again.
    while driver.expect_if_seen(group, Cause.COOPERATIVE_FOLLOW_UP, ["m1"], or_trigger=Cause.LEADER_REJOINED):
        pass
    driver.leave("m1")
    driver.expect(group, Cause.MEMBER_LEFT, ["m1"])
    driver.settle(group, quiet_s=QUIET_S)


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


@scenario()
def kafkajs_slow_handler(driver: Driver) -> None:
    """kafkajs sends heartbeats only between messages: a handler of 16 s outlives its session (10 s), the group goes on
    without it, and it is back under a new member id when the handler has returned."""
    group = _begin(driver, "kafkajs")
    for name in ("m1", "m2"):
        _join(driver, "kafkajs", name)
    driver.tell("m2", "stall 16000")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["m2"], members=["m1"])
    driver.rest(18)
    driver.expect(group, Cause.MEMBER_JOINED, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)


@scenario()
def aiokafka_blocked_loop(driver: Driver) -> None:
    """A coroutine holds aiokafka's event loop for 16 s: no heartbeat goes out, and the session (10 s) ends."""
    group = _begin(driver, "aiokafka")
    for name in ("m1", "m2"):
        _join(driver, "aiokafka", name)
    driver.tell("m2", "block 16000")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["m2"], members=["m1"])
    driver.rest(18)
    driver.expect(group, Cause.MEMBER_JOINED, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)


def poll_timeout(driver: Driver, library: str) -> None:
    """The second member does not poll for 16 s with max_poll_interval_ms=8000: it leaves, and joins again later."""
    group = _begin(driver, library)
    for name in ("m1", "m2"):
        _join(driver, library, name, max_poll_interval_ms=8000)
    driver.tell("m2", "stall 16000")
    driver.expect(group, Cause.MEMBER_POLL_TIMEOUT, ["m2"], members=["m1"])
    driver.rest(18)
    driver.expect(group, Cause.MEMBER_JOINED, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)


_for_each(poll_timeout, WITH_POLL_INTERVAL)


def stuck_with_a_joiner(driver: Driver, library: str) -> None:
    """The second member's handler takes 20 s, and a third one joins: the stuck one does not re-join within its
    rebalance timeout (8 s) and is dropped. It comes back when its handler has returned."""
    group = _begin(driver, library)
    options: dict[str, str | int] = {"rebalance_timeout_ms": 8000, "session_timeout_ms": 30_000}
    if library == "franz-go":
        options["lab_block_rebalance"] = "true"
    for name in ("m1", "m2"):
        _join(driver, library, name, **options)
    driver.tell("m2", "stall 20000")
    driver.wait_for("m2", "stall_start")
    driver.join("m3", group, ["orders"], library=library, **options)
    driver.expect(
        group,
        Cause.MEMBER_JOINED,
        ["m3"],
        also=[[Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, "m2"]],
        members=["m1", "m3"],
    )
    driver.wait_for("m2", "stall_end")
    driver.expect(group, Cause.MEMBER_JOINED, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)


_for_each(stuck_with_a_joiner, ("franz-go", "sarama"))


def stuck_alone(driver: Driver, library: str) -> None:
    """The second member's handler takes 24 s. This library has no max.poll.interval: it keeps its partitions, nothing
    is committed, and the group sees nothing. Then it closes."""
    group = _begin(driver, library)
    for name in ("m1", "m2"):
        _join(driver, library, name, rebalance_timeout_ms=10_000)
    driver.tell("m2", "stall 24000")
    driver.wait_for("m2", "stall_start")
    driver.wait_for("m2", "stall_end")
    driver.rest(8)
    driver.leave("m2")
    driver.expect(group, Cause.MEMBER_LEFT, ["m2"])
    driver.settle(group, quiet_s=QUIET_S)


_for_each(stuck_alone, ("franz-go", "sarama", "kafka-go"))


# Several libraries in one group


@scenario()
def mixed_cooperative(driver: Driver) -> None:
    """A cooperative-sticky group of a Java, a franz-go, a sarama and a kafka-python member; then the first one leaves.
    How often they re-join for one newcomer is theirs: franz-go does it once for each member that let go."""
    group = "mixed-app"
    driver.topics(orders=8)
    driver.produce(per_second=TICKS_PER_S)
    driver.group(group, group_type="classic", mode="cooperative", assignor="cooperative-sticky")
    present: list[str] = []
    for name, library in (("j1", "java"), ("f1", "franz-go"), ("s1", "sarama"), ("p1", "kafka-python")):
        driver.join(name, group, ["orders"], library=library)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        if present:
            driver.expect(group, Cause.COOPERATIVE_FOLLOW_UP, present)
        driver.settle(group)
        while driver.expect_if_seen(group, Cause.COOPERATIVE_FOLLOW_UP, present):
            pass
        present = [*present, name]
    driver.leave("j1")
    driver.expect(group, Cause.MEMBER_LEFT, ["j1"])
    driver.settle(group)
    while driver.expect_if_seen(group, Cause.COOPERATIVE_FOLLOW_UP, present[1:]):
        pass


@scenario()
def kafka_go_beside_java(driver: Driver) -> None:
    """kafka-go's subscription is malformed: a Java member that leads the group cannot read it, fails and closes. The
    generation in which they met is never written."""
    group = "torn-app"
    driver.topics(orders=4)
    driver.produce(per_second=TICKS_PER_S)
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    driver.join("j1", group, ["orders"])
    driver.expect(group, Cause.MEMBER_JOINED, ["j1"])
    driver.settle(group, quiet_s=QUIET_S)
    driver.join("g1", group, ["orders"], library="kafka-go")
    driver.expect(group, Cause.MEMBER_JOINED, ["g1"], outcome="superseded", members=[])
    driver.fails("j1")
    driver.expect(group, Cause.MEMBER_LEFT, ["j1"])
    driver.settle(group, quiet_s=QUIET_S)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_franz_go(driver: Driver) -> None:
    """A KIP-848 group of two franz-go members and a Java one; the first leaves, the second is killed (session 10 s)."""
    group = "clicks-app"
    driver.topics(clicks=6)
    driver.produce(per_second=TICKS_PER_S)
    first = 2 if version_key(driver.cluster.version) >= (4, 3) else 1
    driver.group(group, group_type="consumer", mode="server", assignor="uniform", first_number=first)
    for name, library in (("f1", "franz-go"), ("f2", "franz-go"), ("j1", "java")):
        own = kip848_settings() if library == "java" else plain_settings("server")
        driver.join(name, group, ["clicks"], library=library, settings=own)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group, quiet_s=QUIET_S)
    driver.leave("f1")
    driver.expect(group, Cause.MEMBER_LEFT, ["f1"])
    driver.settle(group, quiet_s=QUIET_S)
    driver.kill("f2")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["f2"])
    driver.settle(group, quiet_s=QUIET_S)
