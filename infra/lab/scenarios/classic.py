"""Classic consumer groups: how members come, go, fall silent, change their minds and write nothing down."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .scenario import scenario


@scenario()
def session_expiry_frozen(driver: Driver) -> None:
    """One of three members is stopped with SIGSTOP: its session (10 s) ends. It goes on after 20 s and joins again."""
    group = "frozen-app"
    driver.topics(frozen=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("f1", "f2", "f3"):
        driver.join(name, group, ["frozen"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.freeze("f3")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["f3"])
    driver.settle(group)
    driver.thaw("f3")
    driver.expect(group, Cause.MEMBER_JOINED, ["f3"])
    driver.settle(group)


@scenario()
def dropped_at_rebalance_timeout(driver: Driver) -> None:
    """e2 is stopped with SIGSTOP just before e3 joins: its session (30 s) is good, but it does not re-join within
    max.poll.interval.ms (8 s)."""
    group = "dropped-app"
    driver.topics(dropped=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("e1", "e2"):
        driver.join(name, group, ["dropped"], session_timeout_ms=30_000, max_poll_interval_ms=8000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.freeze("e2")
    driver.join("e3", group, ["dropped"], session_timeout_ms=30_000, max_poll_interval_ms=8000)
    driver.expect(group, Cause.MEMBER_JOINED, ["e3"], also=[[Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, "e2"]])
    driver.settle(group)
    driver.thaw("e2")
    driver.expect(group, Cause.MEMBER_JOINED, ["e2"])
    driver.settle(group)


@scenario()
def slow_revoker(driver: Driver) -> None:
    """v1 needs 5 s inside its revoked callback, and everybody waits for it, when v3 joins and when v2 leaves."""
    group = "slow-app"
    driver.topics(slow=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("v1", "v2"):
        driver.join(name, group, ["slow"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.tell("v1", "revoke_delay 5000")
    driver.join("v3", group, ["slow"])
    driver.expect(group, Cause.MEMBER_JOINED, ["v3"])
    driver.settle(group)
    driver.leave("v2")
    driver.expect(group, Cause.MEMBER_LEFT, ["v2"])
    driver.settle(group)


@scenario()
def static_restart_late(driver: Driver) -> None:
    """A static member is closed and comes back only after its session (10 s) has ended."""
    group = "late-app"
    driver.topics(late=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("l1", "l2"):
        driver.join(name, group, ["late"], group_instance_id=f"{name}-instance")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("l2")
    driver.expect(group, Cause.STATIC_MEMBER_EXPIRED, ["l2"])
    driver.settle(group)
    driver.join("l2", group, ["late"], group_instance_id="l2-instance")
    driver.expect(group, Cause.MEMBER_JOINED, ["l2"])
    driver.settle(group)


@scenario()
def duplicate_instance_id(driver: Driver) -> None:
    """i3 starts with the group.instance.id that i2 works under: i3 takes its place, i2 is fenced at
    its next heartbeat."""
    group = "twin-app"
    driver.topics(twins=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("i1", "i2"):
        driver.join(name, group, ["twins"], group_instance_id=f"{name}-instance", session_timeout_ms=20_000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.join("i3", group, ["twins"], group_instance_id="i2-instance", session_timeout_ms=20_000)
    driver.expect(group, Cause.STATIC_MEMBER_REPLACED, ["i3"], kind="static_rewrite", members=["i1", "i3"])
    # The coordinator keeps the client id of the member whose place is taken: i3 is in no record and no line.
    driver.known_as("i3", "i2")
    driver.fails("i2")
    driver.settle(group)


@scenario()
def rolling_deploy_static(driver: Driver) -> None:
    """Three static members are restarted one after another, each back inside its session: no generation at all."""
    group = "calm-app"
    driver.topics(calm=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("d1", "d2", "d3"):
        driver.join(name, group, ["calm"], group_instance_id=f"{name}-instance", session_timeout_ms=30_000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    for name in ("d1", "d2", "d3"):
        driver.leave(name)
        driver.join(name, group, ["calm"], group_instance_id=f"{name}-instance", session_timeout_ms=30_000)
        driver.expect(group, Cause.STATIC_MEMBER_REPLACED, [name], kind="static_rewrite")
        driver.settle(group)


@scenario()
def subscription_change(driver: Driver) -> None:
    """The follower u2 subscribes to a second topic, then u1 asks for a rebalance without need (enforceRebalance)."""
    group = "subscribers-app"
    driver.topics(news=4, mail=2)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("u1", "u2"):
        driver.join(name, group, ["news"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.subscribe("u2", ["news", "mail"])
    driver.expect(group, Cause.SUBSCRIPTION_CHANGED, ["u2"])
    driver.settle(group)
    driver.tell("u1", "enforce")
    driver.expect(group, Cause.CLIENT_REQUESTED, ["u1"])
    driver.rest(5)
    driver.settle(group)


@scenario()
def partition_count_change(driver: Driver) -> None:
    """A topic grows from four to six partitions; the leader finds out (metadata.max.age.ms=3000) and re-joins."""
    group = "grower-app"
    driver.topics(grower=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("g1", "g2"):
        driver.join(name, group, ["grower"], metadata_max_age_ms=3000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.more_partitions("grower", 6)
    driver.expect(group, Cause.TOPIC_METADATA_CHANGED, ["g1"])
    driver.settle(group)


@scenario()
def pattern_subscription(driver: Driver) -> None:
    """Two members subscribe to a pattern, and a topic that matches it is created."""
    group = "pattern-app"
    driver.topics(**{"events.a": 4})
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("n1", "n2"):
        driver.join(name, group, [r"pattern:events\..*"], metadata_max_age_ms=3000)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.later_topic("events.b", 2)
    # Whichever member refreshes its metadata first, and whatever it calls it.
    driver.expect(group, Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.SUBSCRIPTION_CHANGED)
    driver.settle(group)
    while driver.expect_if_seen(group, Cause.SUBSCRIPTION_CHANGED, [], or_trigger=Cause.TOPIC_METADATA_CHANGED):
        pass


@scenario()
def two_bounce_upgrade(driver: Driver) -> None:
    """range → cooperative-sticky as documented: one bounce offers both assignors, a second one the new one alone."""
    group = "upgrade-app"
    driver.topics(upgrade=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("b1", "b2"):
        driver.join(name, group, ["upgrade"])
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    for name in ("b1", "b2"):
        driver.leave(name)
        driver.expect(group, Cause.MEMBER_LEFT, [name])
        driver.settle(group)
        driver.join(name, group, ["upgrade"], assignor="cooperative-sticky,range")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    # A member that still offers range works eagerly whatever is elected.
    for name, mode in (("b1", "eager"), ("b2", "cooperative")):
        driver.leave(name)
        driver.expect(group, Cause.MEMBER_LEFT, [name], mode=mode)
        driver.settle(group)
        driver.join(name, group, ["upgrade"], assignor="cooperative-sticky")
        driver.expect(group, Cause.MEMBER_JOINED, [name], mode=mode)
        if mode == "cooperative":
            driver.expect(group, Cause.COOPERATIVE_FOLLOW_UP, ["b1"], mode=mode)
        driver.settle(group)


@scenario()
def no_auto_commit(driver: Driver) -> None:
    """Members that commit by hand every three seconds and not when they let go; one leaves, one is killed."""
    group = "by-hand-app"
    driver.topics(byhand=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name in ("h1", "h2", "h3"):
        driver.join(name, group, ["byhand"], enable_auto_commit="false")
        driver.tell(name, "commit 3000")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("h2")
    driver.expect(group, Cause.MEMBER_LEFT, ["h2"])
    driver.settle(group)
    driver.kill("h3")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["h3"])
    driver.settle(group)


@scenario()
def never_commits(driver: Driver) -> None:
    """A group without a single commit: join, join, leave, kill."""
    group = "silent-app"
    driver.topics(silent=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="roundrobin")
    for name in ("q1", "q2", "q3"):
        driver.join(name, group, ["silent"], enable_auto_commit="false")
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("q2")
    driver.expect(group, Cause.MEMBER_LEFT, ["q2"])
    driver.settle(group)
    driver.kill("q3")
    driver.expect(group, Cause.MEMBER_SESSION_EXPIRED, ["q3"])
    driver.settle(group)


@scenario()
def transactional_commits(driver: Driver) -> None:
    """librdkafka members that commit only in transactions, one a second, every third aborted; one leaves."""
    group = "exactly-once-app"
    driver.topics(payments=4)
    driver.produce()
    driver.topics(receipts=1)
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    options = {"enable_auto_commit": "false", "lab_output_topic": "receipts"}
    for name in ("t1", "t2"):
        driver.join(name, group, ["payments"], library="librdkafka", **options)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.leave("t2")
    driver.expect(group, Cause.MEMBER_LEFT, ["t2"])
    driver.settle(group)


@scenario()
def superseded_generation(driver: Driver) -> None:
    """The leader needs 9 s to assign; while it computes for x3's generation, x4 joins: that one never gets a record."""
    group = "overtaken-app"
    driver.topics(overtaken=6)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    for name, options in (("x1", {"assignor": "slow range", "lab_assign_delay_ms": 9000}), ("x2", {})):
        driver.join(name, group, ["overtaken"], **options)
        driver.expect(group, Cause.MEMBER_JOINED, [name])
        driver.settle(group)
    driver.join("x3", group, ["overtaken"], library="librdkafka")
    driver.wait_for("x1", "revoked_end")
    driver.wait_for("x2", "revoked_end")
    driver.rest(1.5)
    driver.expect(group, Cause.MEMBER_JOINED, ["x3"], outcome="superseded", members=[])
    driver.join("x4", group, ["overtaken"], library="librdkafka")
    driver.expect(group, Cause.MEMBER_JOINED, ["x4"])
    driver.settle(group)


@scenario()
def group_deleted(driver: Driver) -> None:
    """A group empties, is deleted by an administrator, and begins again: its numbers are used a second time."""
    group = "phoenix-app"
    driver.topics(phoenix=4)
    driver.produce()
    driver.group(group, group_type="classic", mode="eager", assignor="range")
    driver.join("z1", group, ["phoenix"])
    driver.expect(group, Cause.MEMBER_JOINED, ["z1"])
    driver.settle(group)
    driver.leave("z1")
    driver.expect(group, Cause.MEMBER_LEFT, ["z1"], outcome="emptied")
    driver.delete_group(group)
    driver.rest(2)
    driver.join("z2", group, ["phoenix"])
    driver.expect(group, Cause.MEMBER_JOINED, ["z2"], number=1)
    driver.settle(group)


FORGED = (
    "evil\n[2026-11-21 12:00:00,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=0] Preparing to "
    "rebalance group victim-app in state PreparingRebalance with old generation 1 (reason: removing member v1 on "
    "heartbeat expiration.). (org.apache.kafka.coordinator.group.GroupMetadataManager)\nx"
)


@scenario()
def hostile_names(driver: Driver) -> None:
    """Group and client ids with newlines that forge log lines of another group, with quotes and with markup."""
    driver.topics(victims=4, markup=2)
    driver.produce()
    driver.group("victim-app", group_type="classic", mode="eager", assignor="range")
    driver.group(FORGED, group_type="classic", mode="eager", assignor="range")
    markup = "<script>alert('1')</script>\"; drop table x --"
    driver.group(markup, group_type="classic", mode="eager", assignor="range")
    driver.join("v1", "victim-app", ["victims"])
    driver.expect("victim-app", Cause.MEMBER_JOINED, ["v1"])
    driver.settle("victim-app")
    driver.join("a1", FORGED, ["markup"], client_id="=cmd|' /C calc'!A0\n<b>bold</b>")
    driver.expect(FORGED, Cause.MEMBER_JOINED, ["a1"])
    driver.settle(FORGED)
    driver.join("m1", markup, ["markup"], client_id='"><img src=x onerror=alert(1)>')
    driver.expect(markup, Cause.MEMBER_JOINED, ["m1"])
    driver.settle(markup)
    driver.join("v2", "victim-app", ["victims"])
    driver.expect("victim-app", Cause.MEMBER_JOINED, ["v2"])
    driver.settle("victim-app")
    driver.leave("a1")
    driver.expect(FORGED, Cause.MEMBER_LEFT, ["a1"], outcome="emptied")
    driver.settle(markup)
