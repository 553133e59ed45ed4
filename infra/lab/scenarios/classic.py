"""Classic consumer groups: how members come, go, fall silent, change their minds and write nothing down."""

from __future__ import annotations

from infra.lab.driver import Driver
from rebalance_audit.domain.causes import Cause

from .members import Members
from .scenario import scenario


@scenario()
def session_expiry_frozen(driver: Driver) -> None:
    """One of three members is stopped with SIGSTOP: its session (10 s) ends. It goes on after 20 s and joins again."""
    members = Members(driver, "frozen-app", {"frozen": 6})
    members.join("f1", "f2", "f3")
    driver.freeze("f3")
    members.expect(Cause.MEMBER_SESSION_EXPIRED, ["f3"])
    members.settle()
    members.thaw("f3")


@scenario()
def dropped_at_rebalance_timeout(driver: Driver) -> None:
    """e2 is stopped with SIGSTOP just before e3 joins: its session (30 s) is good, but it does not re-join within
    max.poll.interval.ms (8 s)."""
    members = Members(driver, "dropped-app", {"dropped": 6})
    members.join("e1", "e2", session_timeout_ms=30_000, max_poll_interval_ms=8000)
    driver.freeze("e2")
    members.start("e3", session_timeout_ms=30_000, max_poll_interval_ms=8000)
    members.expect(Cause.MEMBER_JOINED, ["e3"], also=[[Cause.MEMBER_DROPPED_AT_REBALANCE_TIMEOUT, "e2"]])
    members.settle()
    members.thaw("e2")


@scenario()
def slow_revoker(driver: Driver) -> None:
    """v1 needs 5 s inside its revoked callback, and everybody waits for it, when v3 joins and when v2 leaves."""
    members = Members(driver, "slow-app", {"slow": 6})
    members.join("v1", "v2")
    driver.send("v1", "revoke_delay 5000")
    members.join("v3")
    members.leave("v2")


@scenario()
def static_restart_late(driver: Driver) -> None:
    """A static member is closed and comes back only after its session (10 s) has ended."""
    members = Members(driver, "late-app", {"late": 4})
    members.join("l1", "l2", is_static=True)
    driver.leave("l2")
    members.expect(Cause.STATIC_MEMBER_EXPIRED, ["l2"])
    members.settle()
    members.join("l2", is_static=True)


@scenario()
def duplicate_instance_id(driver: Driver) -> None:
    """i3 starts with the group.instance.id that i2 works under: i3 takes its place, i2 is fenced at
    its next heartbeat."""
    members = Members(driver, "twin-app", {"twins": 4})
    members.join("i1", "i2", is_static=True, session_timeout_ms=20_000)
    members.start("i3", group_instance_id="i2-instance", session_timeout_ms=20_000)
    members.expect(Cause.STATIC_MEMBER_REPLACED, ["i3"], kind="static_rewrite", members=["i1", "i3"])
    # The coordinator keeps the client id of the member whose place is taken: i3 is in no record and no line.
    driver.known_as("i3", "i2")
    driver.fails("i2")
    members.settle()


@scenario()
def rolling_deploy_static(driver: Driver) -> None:
    """Three static members are restarted one after another, each back inside its session: no generation at all."""
    members = Members(driver, "calm-app", {"calm": 6})
    members.join("d1", "d2", "d3", is_static=True, session_timeout_ms=30_000)
    for name in ("d1", "d2", "d3"):
        driver.leave(name)
        members.start(name, is_static=True, session_timeout_ms=30_000)
        members.expect(Cause.STATIC_MEMBER_REPLACED, [name], kind="static_rewrite")
        members.settle()


@scenario()
def subscription_change(driver: Driver) -> None:
    """The follower u2 subscribes to a second topic, then u1 asks for a rebalance without need (enforceRebalance)."""
    members = Members(driver, "subscribers-app", {"news": 4, "mail": 2}, subscribed="news")
    members.join("u1", "u2")
    driver.subscribe("u2", ["news", "mail"])
    members.expect(Cause.SUBSCRIPTION_CHANGED, ["u2"])
    members.settle()
    driver.send("u1", "enforce")
    members.expect(Cause.CLIENT_REQUESTED, ["u1"])
    driver.rest(5)
    members.settle()


@scenario()
def partition_count_change(driver: Driver) -> None:
    """A topic grows from four to six partitions; the leader finds out (metadata.max.age.ms=3000) and re-joins."""
    members = Members(driver, "grower-app", {"grower": 4})
    members.join("g1", "g2", metadata_max_age_ms=3000)
    driver.more_partitions("grower", 6)
    members.expect(Cause.TOPIC_METADATA_CHANGED, ["g1"])
    members.settle()


@scenario()
def pattern_subscription(driver: Driver) -> None:
    """Two members subscribe to a pattern, and a topic that matches it is created."""
    members = Members(driver, "pattern-app", {"events.a": 4}, subscribed=r"pattern:events\..*")
    members.join("n1", "n2", metadata_max_age_ms=3000)
    driver.later_topic("events.b", 2)
    # Whichever member refreshes its metadata first, and whatever it calls it.
    members.expect(Cause.TOPIC_METADATA_CHANGED, [], or_trigger=Cause.SUBSCRIPTION_CHANGED)
    members.settle()
    while members.expect_if_seen(Cause.SUBSCRIPTION_CHANGED, [], or_trigger=Cause.TOPIC_METADATA_CHANGED):
        pass


@scenario()
def two_bounce_upgrade(driver: Driver) -> None:
    """range → cooperative-sticky as documented: one bounce offers both assignors, a second one the new one alone."""
    members = Members(driver, "upgrade-app", {"upgrade": 6})
    members.join("b1", "b2")
    for name in ("b1", "b2"):
        members.leave(name)
        members.join(name, assignor="cooperative-sticky,range")
    # A member that still offers range works eagerly whatever is elected.
    for name, mode in (("b1", "eager"), ("b2", "cooperative")):
        members.leave(name, mode=mode)
        members.start(name, assignor="cooperative-sticky")
        members.expect(Cause.MEMBER_JOINED, [name], mode=mode)
        if mode == "cooperative":
            members.expect(Cause.COOPERATIVE_FOLLOW_UP, ["b1"], mode=mode)
        members.settle()


@scenario()
def no_auto_commit(driver: Driver) -> None:
    """Members that commit by hand every three seconds and not when they let go; one leaves, one is killed."""
    members = Members(driver, "by-hand-app", {"byhand": 6})
    for name in ("h1", "h2", "h3"):
        members.start(name, enable_auto_commit="false")
        driver.send(name, "commit 3000")
        members.expect(Cause.MEMBER_JOINED, [name])
        members.settle()
    members.leave("h2")
    members.kill("h3")


@scenario()
def never_commits(driver: Driver) -> None:
    """A group without a single commit: join, join, leave, kill."""
    members = Members(driver, "silent-app", {"silent": 4}, assignor="roundrobin")
    members.join("q1", "q2", "q3", enable_auto_commit="false")
    members.leave("q2")
    members.kill("q3")


@scenario()
def transactional_commits(driver: Driver) -> None:
    """librdkafka members that commit only in transactions, one a second, every third aborted; one leaves."""
    members = Members(driver, "exactly-once-app", {"payments": 4})
    driver.topics(receipts=1)
    members.join("t1", "t2", library="librdkafka", enable_auto_commit="false", lab_output_topic="receipts")
    members.leave("t2")


@scenario()
def superseded_generation(driver: Driver) -> None:
    """The leader needs 9 s to assign; while it computes for x3's generation, x4 joins: that one never gets a record."""
    members = Members(driver, "overtaken-app", {"overtaken": 6})
    members.join("x1", assignor="slow range", lab_assign_delay_ms=9000)
    members.join("x2")
    members.start("x3", library="librdkafka")
    driver.wait_for("x1", "revoked_end")
    driver.wait_for("x2", "revoked_end")
    driver.rest(1.5)
    members.expect(Cause.MEMBER_JOINED, ["x3"], outcome="superseded", members=[])
    members.join("x4", library="librdkafka")


@scenario()
def group_deleted(driver: Driver) -> None:
    """A group empties, is deleted by an administrator, and begins again: its numbers are used a second time."""
    members = Members(driver, "phoenix-app", {"phoenix": 4})
    members.join("z1")
    members.leave_last("z1")
    driver.delete_group(members.group)
    driver.rest(2)
    members.start("z2")
    members.expect(Cause.MEMBER_JOINED, ["z2"], number=1)
    members.settle()


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
