"""What operators do to groups that work, and what goes wrong meanwhile, at moments drawn from a seed."""

from __future__ import annotations

from random import Random
from typing import Any

from infra.lab.clients import kip848_settings, streams_settings
from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .connect import Workers
from .groups import Groups
from .members import Kip848Members, Members
from .scenario import KIP848_BROKER, scenario


@scenario(brokers=3)
def coordinators_move(driver: Driver) -> None:
    """Groups of sarama, librdkafka, franz-go and Java on three brokers: a coordinator is killed, then the
    second member of each group. The broker is back, and the first members close."""
    chance = Random("coordinators_move")
    libraries = {"s": "sarama", "r": "librdkafka", "f": "franz-go", "j": "java"}
    groups = Groups(driver, libraries, partitions=6, per_second=30)
    groups.come("1", "2", "3", session_timeout_ms=12_000)
    driver.rest(chance.uniform(5, 8))
    broker = driver.coordinator_killed(groups.group("s"))
    driver.rest(chance.uniform(14, 17))
    groups.expect_written(Cause.LEADER_REJOINED, or_trigger=Cause.TOPIC_METADATA_CHANGED)
    groups.settle()
    driver.kill_together(*groups.names("2"))
    groups.expect(Cause.MEMBER_SESSION_EXPIRED, "2")
    driver.rest(chance.uniform(14, 17))
    groups.settle()
    driver.broker_returns(broker)
    driver.rest(chance.uniform(9, 12))
    groups.expect_written(Cause.LEADER_REJOINED, or_trigger=Cause.TOPIC_METADATA_CHANGED)
    groups.leave("1")
    groups.settle()


@scenario(since="2.7.2")
def removed_by_admin(driver: Driver) -> None:
    """Groups of two static members of Java, librdkafka and franz-go. An administrator removes the second one, which
    runs and joins again; a third one comes, and everybody is removed."""
    chance = Random("removed_by_admin")
    libraries = {"j": "java", "r": "librdkafka", "f": "franz-go"}
    groups = Groups(driver, libraries, partitions=5, per_second=20)
    groups.come("1", "2", session_timeout_ms=25_000, is_static=True)
    driver.rest(chance.uniform(6, 9))
    for letter in libraries:
        driver.remove_members(groups.group(letter), f"{letter}2-instance")
        driver.expect(groups.group(letter), Cause.MEMBER_REMOVED_BY_ADMIN, [f"{letter}2"])
    driver.rest(10)
    groups.expect_written(Cause.MEMBER_JOINED, "2")
    groups.settle()
    groups.come("3", session_timeout_ms=25_000)
    driver.rest(chance.uniform(5, 8))
    for letter in libraries:
        driver.remove_members(groups.group(letter))
        all_three = [f"{letter}{number}" for number in "123"]
        driver.expect(groups.group(letter), Cause.MEMBER_REMOVED_BY_ADMIN, all_three, outcome="emptied", members=[])
    driver.rest(10)
    groups.expect_written(Cause.MEMBER_JOINED, "123")
    groups.settle()


@scenario()
def eager_becomes_cooperative(driver: Driver) -> None:
    """Three members go from range to cooperative-sticky by two rounds of a rolling deploy; one is killed instead of
    closed in the first round, and is back before its session ends (10 s)."""
    chance = Random("eager_becomes_cooperative")
    members = Members(driver, "bounced-app", {"orders": 7}, per_second=25, quiet_s=4.0)
    members.join("b1", "b2", "b3")
    both = "cooperative-sticky,range"
    for name in ("b1", "b3"):
        driver.rest(chance.uniform(2, 5))
        members.leave(name)
        members.join(name, assignor=both)
    driver.kill("b2")
    driver.rest(chance.uniform(1, 2))
    members.start("b2", assignor=both)
    members.expect(Cause.MEMBER_JOINED, ["b2"])
    driver.rest(12)
    members.settle()
    # A member that still offers range works eagerly whatever is elected, beside others that keep what they hold.
    for name, mode in (("b1", "eager"), ("b2", "cooperative"), ("b3", "cooperative")):
        driver.rest(chance.uniform(2, 5))
        members.leave(name, mode=mode)
        members.start(name, assignor="cooperative-sticky")
        members.expect(Cause.MEMBER_JOINED, [name], mode=mode)
        members.settle()
        while members.expect_if_seen(Cause.COOPERATIVE_FOLLOW_UP, ["b1", "b2"], mode="cooperative"):
            pass


@scenario(
    since="4.0.0", broker_properties=KIP848_BROKER | {"group.consumer.regex.refresh.interval.ms": 10_000}
)  # fmt: skip
def topics_grow(driver: Driver) -> None:
    """A KIP-848 group on a pattern that the broker resolves, with a static member, and an eager group of librdkafka. A
    topic gets more partitions, one more topic comes and goes, and the static member restarts."""
    chance = Random("topics_grow")
    members = Kip848Members(
        driver, "pattern-app", {"mail.in": 3}, subscribed=r"broker-pattern:mail\..*", per_second=24, quiet_s=4.0
    )
    driver.group("grow-app", group_type="classic", mode="eager", assignor="range")
    members.join("k1")
    # Its pattern is resolved after it has joined.
    members.expect(Cause.TOPIC_METADATA_CHANGED, [])
    members.join("k2", is_static=True)
    for name in ("r1", "r2"):
        refresh: dict[str, Any] = {"topic_metadata_refresh_interval_ms": 3000}
        driver.join(name, "grow-app", ["mail.in"], library="librdkafka", **refresh)
        driver.expect("grow-app", Cause.MEMBER_JOINED, [name])
        driver.settle("grow-app", quiet_s=4.0)
    driver.rest(chance.uniform(5, 9))
    driver.more_partitions("mail.in", 5)
    members.expect(Cause.TOPIC_METADATA_CHANGED, [])
    driver.expect("grow-app", Cause.TOPIC_METADATA_CHANGED, ["r1"])
    driver.rest(12)
    members.settle()
    driver.settle("grow-app", quiet_s=4.0)
    driver.later_topic("mail.out", 2)
    members.expect(Cause.TOPIC_METADATA_CHANGED, [])
    driver.rest(chance.uniform(13, 16))
    members.settle()
    driver.leave("k2")
    driver.rest(chance.uniform(2, 3))
    members.start("k2", is_static=True)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["k2"], kind="static_rewrite", members=["k1", "k2"])
    driver.rest(8)
    members.settle()
    driver.topic_deleted("mail.out")
    # The topic goes, then the pattern is resolved without it.
    members.expect(Cause.TOPIC_METADATA_CHANGED, [], outcome="superseded")
    members.expect(Cause.TOPIC_METADATA_CHANGED, [])
    driver.rest(15)
    driver.leave("r2")
    driver.expect("grow-app", Cause.MEMBER_LEFT, ["r2"])
    driver.settle("grow-app", quiet_s=4.0)


@scenario(since="4.0.0", broker_properties=KIP848_BROKER)
def replaced_by_kip848(driver: Driver) -> None:
    """Three classic members are replaced one by one by KIP-848 ones, as a deployment does; then the second of the new
    ones is killed."""
    chance = Random("replaced_by_kip848")
    members = Members(driver, "convert-app", {"orders": 7}, group_type="mixed", per_second=28, quiet_s=4.0)
    members.join("o1", "o2", "o3")
    server: dict[str, Any] = {"mode": "server", "group_type": "consumer"}
    members.leave("o1")
    members.expect(Cause.GROUP_CONVERTED, [], number=4, members=["o2", "o3"], **server)
    members.start("n1", settings=kip848_settings())
    members.expect(Cause.MEMBER_JOINED, ["n1"], **server)
    members.settle()
    for old, new in (("o2", "n2"), ("o3", "n3")):
        driver.rest(chance.uniform(4, 7))
        members.leave(old, **server)
        members.start(new, settings=kip848_settings())
        members.expect(Cause.MEMBER_JOINED, [new], **server)
        members.settle()
    driver.rest(chance.uniform(4, 7))
    driver.kill("n2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["n2"], **server)
    members.settle()


@scenario(since="2.3.1")
def streams_mishaps(driver: Driver) -> None:
    """A stateless Streams application of two instances (classic protocol): the second is killed and is back after its
    session; then it is frozen for longer than its session, and goes on."""
    chance = Random("streams_mishaps")
    members = Members(
        driver, "flow-app", {"flow": 5}, mode="cooperative", assignor="stream", library="streams", per_second=25
    )
    follow_up: dict[str, Any] = {"or_trigger": Cause.COOPERATIVE_FOLLOW_UP}

    def follow() -> None:
        members.settle()
        while members.expect_if_seen(Cause.STREAMS_FOLLOW_UP, ["w1"], **follow_up):
            pass

    members.join("w1", settings=streams_settings(state_dir="data/w1"))
    members.start("w2", settings=streams_settings(state_dir="data/w2"))
    members.expect(Cause.MEMBER_JOINED, ["w2"])
    follow()
    driver.rest(chance.uniform(5, 8))
    driver.kill("w2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w2"])
    members.settle()
    members.start("w2", settings=streams_settings(state_dir="data/w2"))
    members.expect(Cause.MEMBER_JOINED, ["w2"])
    follow()
    driver.rest(chance.uniform(5, 8))
    driver.freeze("w2")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["w2"])
    driver.rest(15)
    members.settle()
    driver.thaw("w2")
    members.expect(Cause.MEMBER_JOINED, ["w2"])
    follow()


@scenario(connect_workers=4, worker_properties={"scheduled.rebalance.max.delay.ms": 15_000})
def connect_two_killed(driver: Driver) -> None:
    """Two of four workers are killed at once. One is back while the delay of 15 s runs, the other is not."""
    chance = Random("connect_two_killed")
    workers = Workers(driver, connectors=2, tasks=4)
    driver.rest(chance.uniform(4, 7))
    for worker in (3, 4):
        driver.worker_killed_now(worker)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [3, 4])
    driver.rest(12)
    while driver.expect_if_joined(workers.group, Cause.MEMBER_SESSION_EXPIRED):
        pass
    workers.returns(3)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [3])
    driver.rest(18)
    while driver.expect_if_joined(workers.group, Cause.CONNECT_DELAY_EXPIRED):
        pass
    driver.settle_connect()


@scenario(connect_workers=3, worker_properties={"connect.protocol": "eager"})
def connect_eager_mishaps(driver: Driver) -> None:
    """Three workers with connect.protocol=eager: the second is frozen for longer than its session (10 s) and goes on;
    then the third is killed."""
    chance = Random("connect_eager_mishaps")
    workers = Workers(driver, mode="eager", assignor="default", tasks=2)
    driver.rest(chance.uniform(4, 7))
    workers.freeze(2)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [2])
    driver.rest(13)
    driver.settle_connect()
    workers.thaw(2)
    workers.expect(Cause.CONNECT_WORKER_JOINED, [2])
    driver.rest(6)
    driver.settle_connect()
    driver.rest(chance.uniform(3, 6))
    driver.worker_killed_now(3)
    workers.expect(Cause.MEMBER_SESSION_EXPIRED, [3])
    driver.rest(12)
    driver.settle_connect()


@scenario(since="4.2.0")
def share_members_go(driver: Driver) -> None:
    """Three share consumers come, one closes, one is killed (session 45 s), and one comes while the dead one is still a
    member."""
    chance = Random("share_members_go")
    members = Members(
        driver, "share-app", {"shared": 3}, group_type="share", mode="server", assignor="simple", first_number=2,
        library="share",
    )  # fmt: skip
    for name in ("s1", "s2", "s3"):
        members.start(name, settings={})
        members.expect(Cause.MEMBER_JOINED, [name])
        driver.rest(chance.uniform(12, 15))
        if name == "s1":
            members.expect(Cause.SHARE_STATE_INITIALIZED, [])
    driver.kill_together("s3")
    driver.rest(chance.uniform(6, 9))
    members.start("s4", settings={})
    members.expect(Cause.MEMBER_JOINED, ["s4"], outcome="superseded", note="the dead member never reaches it")
    driver.rest(chance.uniform(12, 15))
    driver.leave("s1")
    members.expect(Cause.MEMBER_LEFT, ["s1"])
    driver.rest(45)
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["s3"])
    driver.rest(8)


@scenario(since="2.7.2")
def topic_soon_made_again(driver: Driver) -> None:
    """Two groups, of Java (cooperative) and of librdkafka, read two topics. One topic is deleted, and is there again
    six seconds later with as many partitions. Then a member is killed."""
    chance = Random("topic_soon_made_again")
    driver.topics(orders=4, mail=3)
    driver.produce(per_second=28)
    groups = {"j": ("java", "cooperative-sticky"), "r": ("librdkafka", "range")}
    for letter, (_, assignor) in groups.items():
        mode = "eager" if assignor == "range" else "cooperative"
        driver.group(f"{letter}-app", group_type="classic", mode=mode, assignor=assignor)
    for number in "12":
        for letter, (library, _) in groups.items():
            refresh = "metadata_max_age_ms" if library == "java" else "topic_metadata_refresh_interval_ms"
            more: dict[str, Any] = {refresh: 2000}
            driver.join(f"{letter}{number}", f"{letter}-app", ["orders", "mail"], library=library, **more)
            driver.expect(f"{letter}-app", Cause.MEMBER_JOINED, [f"{letter}{number}"])
        for letter in groups:
            driver.settle(f"{letter}-app", quiet_s=4.0)
        while driver.expect_if_seen("j-app", Cause.COOPERATIVE_FOLLOW_UP, ["j1"]):
            pass
    driver.rest(chance.uniform(5, 8))
    driver.topic_deleted("mail")
    driver.rest(6)
    driver.later_topic("mail", 3)
    driver.rest(chance.uniform(18, 21))
    # librdkafka names only topics that exist; a Java leader before 3.2 does not say why it joins again.
    for letter, also in (("j", Cause.LEADER_REJOINED), ("r", Cause.SUBSCRIPTION_CHANGED)):
        while driver.expect_if_written(f"{letter}-app", Cause.TOPIC_METADATA_CHANGED, [], or_trigger=also):
            pass
        driver.settle(f"{letter}-app", quiet_s=4.0)
    for letter in groups:
        driver.kill_together(f"{letter}2")
        driver.expect(f"{letter}-app", Cause.MEMBER_SESSION_EXPIRED, [f"{letter}2"])
    driver.rest(12)
    for letter in groups:
        driver.settle(f"{letter}-app", quiet_s=4.0)
