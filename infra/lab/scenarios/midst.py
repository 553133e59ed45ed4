"""What happens in the midst of something else: members of several kinds and libraries share a group, brokers are
killed, a topic is silent, offsets cannot be written. Moments are drawn from a seed of each scenario."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from infra.lab.clients import coordinator_of, plain_settings
from infra.lab.configs import Settings
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .groups import Groups
from .members import Kip848Members, Members
from .scenario import KIP848_BROKER, scenario

QUIET_S = 4.0


class MixedGroups:
    """Groups on one topic whose members each have a library of their own. `libraries`: by group, of its members."""

    def __init__(
        self,
        driver: Driver,
        libraries: Mapping[str, Mapping[str, str]],
        *,
        partitions: int,
        per_second: int,
        assignors: Mapping[str, str],
    ) -> None:
        self.driver, self.libraries = driver, libraries
        driver.topics(orders=partitions)
        driver.produce(per_second=per_second)
        for group, assignor in assignors.items():
            driver.group(group, group_type="classic", mode="eager", assignor=assignor)

    def start(self, at: int, **options: Any) -> None:
        """The member at this place of each group."""
        for group, members in self.libraries.items():
            name, library = list(members.items())[at]
            more = {"lab_assigner_name": "roundrobin"} if library == "kafkajs" else {}
            self.driver.join(name, group, ["orders"], library=library, **(more | options))

    def come(self, *places: int, **options: Any) -> None:
        for at in places:
            self.start(at, **options)
            self.expect(Cause.MEMBER_JOINED, at)
            self.settle()

    def names(self, at: int) -> list[str]:
        return [list(members)[at] for members in self.libraries.values()]

    def each(self, at: int, act: Callable[[str], object]) -> None:
        for name in self.names(at):
            act(name)

    def expect(self, trigger: str, at: int, **facts: Any) -> None:
        for group, name in zip(self.libraries, self.names(at), strict=True):
            self.driver.expect(group, trigger, [name], **facts)

    def settle(self) -> None:
        for group in self.libraries:
            self.driver.settle(group, quiet_s=QUIET_S)
            # kafka-python now and then drops the result of a join that went well, and joins again.
            while "kafka-python" in self.libraries[group].values() and self.driver.expect_if_seen(
                group, Cause.LEADER_REJOINED, []
            ):
                pass


@scenario(since="2.4.1")
def libraries_in_pairs(driver: Driver) -> None:
    """Groups of librdkafka and Java, kafkajs and librdkafka, franz-go and sarama, aiokafka and kafka-python. The third
    member is frozen for longer than its session and goes on, the second is killed and is back, the first closes."""
    chance = Random("libraries_in_pairs")
    groups = MixedGroups(
        driver,
        {
            "a-app": {"a1": "librdkafka", "a2": "java", "a3": "librdkafka"},
            "b-app": {"b1": "kafkajs", "b2": "librdkafka", "b3": "kafkajs"},
            "c-app": {"c1": "sarama", "c2": "franz-go", "c3": "sarama"},
            "d-app": {"d1": "kafka-python", "d2": "aiokafka", "d3": "kafka-python"},
        },
        partitions=7,
        per_second=30,
        assignors={"a-app": "range", "b-app": "roundrobin", "c-app": "range", "d-app": "roundrobin"},
    )
    groups.come(0, 1, 2)
    driver.rest(chance.uniform(5, 9))
    groups.each(2, driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, 2)
    driver.rest(chance.uniform(14, 17))
    groups.settle()
    groups.each(2, driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, 2)
    driver.rest(8)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names(1))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, 1)
    driver.rest(12)
    groups.settle()
    groups.come(1)
    driver.rest(chance.uniform(4, 7))
    groups.each(0, driver.leave)
    groups.expect(Cause.MEMBER_LEFT, 0)
    groups.settle()


@scenario(since="2.7.2")
def static_beside_dynamic(driver: Driver) -> None:
    """Groups of Java, librdkafka, franz-go and sarama whose first and third members are static (session 13 s). The
    dynamic one closes, one more comes and is killed together with the third, which is back in time; the first closes,
    is back in time, and is killed for good."""
    chance = Random("static_beside_dynamic")
    libraries = {"j": "java", "r": "librdkafka", "f": "franz-go", "s": "sarama"}
    groups = Groups(driver, libraries, partitions=7, per_second=28)
    static: dict[str, Any] = {"is_static": True, "session_timeout_ms": 13_000}
    groups.come("1", **static)
    groups.come("2")
    groups.come("3", **static)
    driver.rest(chance.uniform(5, 8))
    groups.leave("2")
    groups.settle()
    groups.come("4")
    driver.rest(chance.uniform(4, 7))
    driver.kill_together(*groups.names("3"), *groups.names("4"))
    driver.rest(chance.uniform(2, 4))
    groups.start("3", **static)
    groups.expect(Cause.STATIC_MEMBER_REPLACED, "3", kind="static_rewrite", members="134")
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "4")
    driver.rest(13)
    groups.settle()
    driver.rest(chance.uniform(4, 7))
    groups.each("1", driver.leave)
    driver.rest(chance.uniform(2, 4))
    groups.start("1", **static)
    groups.expect(Cause.STATIC_MEMBER_REPLACED, "1", kind="static_rewrite")
    driver.rest(8)
    groups.settle()
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.STATIC_MEMBER_EXPIRED, "1")
    driver.rest(16)
    groups.settle()


@scenario(since="2.7.2", brokers=2, controllers_apart=1, broker_properties={"min.insync.replicas": 2})
def offsets_cannot_be_written(driver: Driver) -> None:
    """A group of librdkafka, franz-go and kafka-python members: one of two brokers is killed while two must be in sync,
    and a fourth member comes. Members that commit as they let go wait until the broker is back, and so does the join
    phase."""
    chance = Random("offsets_cannot_be_written")
    members = Members(driver, "short-app", {"orders": 6}, per_second=20, quiet_s=QUIET_S)
    for name, library in (("r1", "librdkafka"), ("f1", "franz-go"), ("p1", "kafka-python")):
        members.join(name, library=library)
    driver.rest(chance.uniform(5, 8))
    broker = 3 - coordinator_of(driver.cluster.bootstrap, members.group)
    driver.broker_killed(broker)
    driver.rest(chance.uniform(12, 15))
    members.start("r2", library="librdkafka")
    members.expect(Cause.MEMBER_JOINED, ["r2"])
    driver.rest(chance.uniform(12, 15))
    driver.broker_returns(broker)
    driver.rest(25)
    members.settle()
    driver.rest(chance.uniform(4, 7))
    members.leave("f1")


@scenario(since="2.3.1")
def frozen_in_silence(driver: Driver) -> None:
    """Groups of franz-go, kafka-go, kafkajs and kafka-python: their topic falls silent for 30 s. The second member of
    each is frozen 8 s into it, for longer than its session (9 s), and goes on in silence. Then records come again, and
    the first one is killed."""
    chance = Random("frozen_in_silence")
    libraries = {"f": "franz-go", "g": "kafka-go", "k": "kafkajs", "p": "kafka-python"}
    groups = Groups(driver, libraries, partitions=5, per_second=30)
    groups.come("1", "2", "3", session_timeout_ms=9000)
    driver.rest(chance.uniform(6, 9))
    driver.fall_silent()
    driver.rest(chance.uniform(7, 9))
    groups.each("2", driver.freeze)
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(chance.uniform(14, 16))
    groups.settle()
    groups.each("2", driver.thaw)
    groups.expect(Cause.MEMBER_JOINED, "2")
    driver.rest(9)
    groups.settle()
    driver.produce(per_second=30)
    driver.rest(chance.uniform(9, 12))
    driver.kill_together(*groups.names("1"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "1")
    driver.rest(13)
    groups.settle()


@scenario(since="2.7.2")
def commits_are_rare(driver: Driver) -> None:
    """Groups that commit every 14 s (Java, librdkafka), 9 s (sarama), 11 s (kafka-python) and 2 s (aiokafka): two of
    three members close one after the other and are back, one is killed and is back late, one closes."""
    chance = Random("commits_are_rare")
    libraries = {"j": "java", "r": "librdkafka", "s": "sarama", "p": "kafka-python", "a": "aiokafka"}
    every_ms = {"j": 14_000, "r": 14_000, "s": 9000, "p": 11_000, "a": 2000}
    own = {letter: {"auto_commit_interval_ms": each} for letter, each in every_ms.items()}
    groups = Groups(driver, libraries, partitions=6, per_second=36, own=own)

    def come(number: str) -> None:
        groups.come(number)
        groups.expect_written(Cause.LEADER_REJOINED)

    for number in "123":
        come(number)
    for number in "12":
        driver.rest(chance.uniform(5, 12))
        groups.leave(number)
        groups.settle()
        come(number)
    driver.rest(chance.uniform(5, 12))
    driver.kill_together(*groups.names("3"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "3")
    driver.rest(13)
    groups.settle()
    come("3")
    driver.rest(chance.uniform(5, 12))
    groups.leave("2")
    groups.settle()


@scenario(since="2.7.2")
def frozen_beside_namesakes(driver: Driver) -> None:
    """The members of three groups, of sarama, kafka-python and franz-go, all call themselves alike. In turn one of a
    group is frozen for longer than its session while one of the next closes and one of the last is killed; all are
    back."""
    chance = Random("frozen_beside_namesakes")
    libraries = {"s": "sarama", "p": "kafka-python", "f": "franz-go"}
    groups = Groups(driver, libraries, partitions=6, per_second=30)
    groups.come("1", "2", "3", client_id="shop")
    for frozen, closed, killed in ("s", "p", "f"), ("f", "s", "p"):
        number = "2" if frozen == "s" else "3"
        driver.rest(chance.uniform(5, 8))
        driver.freeze(f"{frozen}{number}")
        driver.expect(groups.group(frozen), Cause.MEMBER_SESSION_EXPIRED, [f"{frozen}{number}"])
        driver.kill_together(f"{killed}{number}")
        driver.expect(groups.group(killed), Cause.MEMBER_SESSION_EXPIRED, [f"{killed}{number}"])
        driver.leave(f"{closed}{number}")
        driver.expect(groups.group(closed), Cause.MEMBER_LEFT, [f"{closed}{number}"])
        driver.rest(chance.uniform(14, 17))
        groups.settle()
        driver.thaw(f"{frozen}{number}")
        driver.expect(groups.group(frozen), Cause.MEMBER_JOINED, [f"{frozen}{number}"])
        for letter in (killed, closed):
            more: dict[str, Any] = {"client_id": "shop"}
            driver.join(f"{letter}{number}", groups.group(letter), ["orders"], library=libraries[letter], **more)
            driver.expect(groups.group(letter), Cause.MEMBER_JOINED, [f"{letter}{number}"])
        driver.rest(9)
        groups.settle()
        groups.expect_written(Cause.LEADER_REJOINED)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def kip848_static_beside_dynamic(driver: Driver) -> None:
    """One KIP-848 group of a static librdkafka, a dynamic Java and a franz-go member. The topic gets more partitions,
    the Java one is replaced, the static one closes and is back in time, the franz-go one is killed."""
    chance = Random("kip848_static_beside_dynamic")
    members = Kip848Members(driver, "mixed-app", {"orders": 7}, per_second=28, quiet_s=QUIET_S)
    members.join("r1", library="librdkafka", is_static=True)
    members.join("j1")
    members.join("f1", library="franz-go", settings=plain_settings("server"))
    driver.rest(chance.uniform(5, 8))
    driver.more_partitions("orders", 10)
    members.expect(Cause.TOPIC_METADATA_CHANGED, [])
    driver.rest(chance.uniform(8, 10))
    members.settle()
    members.leave("j1")
    driver.rest(chance.uniform(2, 4))
    members.join("j1")
    driver.rest(chance.uniform(4, 7))
    driver.leave("r1")
    driver.rest(chance.uniform(2, 3))
    members.start("r1", library="librdkafka", is_static=True)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["r1"], kind="static_rewrite")
    driver.rest(8)
    members.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill_together("f1")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["f1"])
    driver.rest(14)
    members.settle()


@scenario(brokers=3, since="4.2.0", broker_properties=KIP848_BROKER | {"group.streams.initial.rebalance.delay.ms": 0})
def brokers_killed_under_new_groups(driver: Driver) -> None:
    """A KIP-848 group on a pattern that brokers resolve, a streams group and a share group on three brokers. The
    KIP-848 group's coordinator is killed, and a member of each group; the broker is back."""
    chance = Random("brokers_killed_under_new_groups")
    driver.topics(flow=4, shared=3)
    members = Kip848Members(
        driver, "pattern-app", {"mail.in": 4}, subscribed=r"broker-pattern:mail\..*", per_second=33, quiet_s=QUIET_S
    )
    facts: dict[str, Any] = {"mode": "server", "first_number": 2}
    driver.group("flow-app", group_type="streams", assignor="sticky", **facts)
    driver.group("share-app", group_type="share", assignor="simple", **facts)
    members.start("k1")
    # It is given nothing until its pattern is resolved; that makes the first epoch after the group's own.
    members.expect(Cause.MEMBER_JOINED, ["k1"], or_trigger=Cause.TOPIC_METADATA_CHANGED)
    members.settle()
    members.join("k2")
    for number in "12":
        streams: Settings = {"group.protocol": "streams", "num.stream.threads": 1, "state.dir": f"data/w{number}"}
        driver.join(f"w{number}", "flow-app", ["flow"], library="streams", settings=streams)
        driver.expect("flow-app", Cause.MEMBER_JOINED, [f"w{number}"])
        driver.settle("flow-app", quiet_s=QUIET_S)
        driver.join(f"s{number}", "share-app", ["shared"], library="share", settings={})
        driver.expect("share-app", Cause.MEMBER_JOINED, [f"s{number}"])
        driver.rest(chance.uniform(10, 12))
        if number == "1":
            driver.expect("share-app", Cause.SHARE_STATE_INITIALIZED, [])
    broker = driver.coordinator_killed(members.group)
    driver.rest(chance.uniform(18, 22))
    driver.kill_together("k2", "w2", "s2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["k2"])
    driver.rest(chance.uniform(5, 8))
    driver.broker_returns(broker)
    driver.rest(45)
    for group in ("flow-app", "share-app"):
        driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, [f"{group[0].replace('f', 'w')}2"])
    members.settle()
    driver.settle("flow-app", quiet_s=QUIET_S)
    driver.rest(8)
