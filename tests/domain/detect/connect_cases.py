"""Cases of the rules for Connect clusters. Their numbers go on across both tables (cases.py)."""

from __future__ import annotations

from tests.domain.detect.case import HOUR, Case
from tests.domain.detect.group_story import GroupStory, a_connect_cluster


def _connectors_deployed(count: int) -> GroupStory:
    story = a_connect_cluster().joins("w1", "w2", at_s=0)
    for i in range(count):
        story.meets_again(at_s=60 + 2 * i, because="connect_config_changed")
    return story


def _worker_lost(returns_s: float | None, *, ends_s: float | None = 360, delay_ms: int = 300_000) -> GroupStory:
    """w2 holds t-1, t-3, t-5; its tasks wait from second 60 on."""
    kept = {"w1": ("t-0", "t-2", "t-4"), "w2": ()}
    story = a_connect_cluster().joins("w1", "w2", at_s=0, assigned={**kept, "w2": ("t-1", "t-3", "t-5")})
    story.leaves("w2", at_s=60, assigned=kept, connect_delay_ms=delay_ms, unassigned_count=3)
    if returns_s is not None:
        left_ms = delay_ms - round((returns_s - 60) * 1000)
        story.joins("w2", at_s=returns_s, assigned=kept, connect_delay_ms=left_ms, unassigned_count=3)
    if ends_s is not None:
        all_of_them = {**kept, "w2": ("t-1", "t-3", "t-5")} if returns_s else {"w1": tuple(f"t-{i}" for i in range(6))}
        story.meets_again(at_s=ends_s, because="connect_delay_expired", assigned=all_of_them, unassigned_count=0)
    return story


def _twice(story: GroupStory, *, tasks: int) -> GroupStory:
    for task in range(tasks):
        story.task("t", task, "RUNNING", "w1:8083", 0, 120).task("t", task, "RUNNING", "w2:8083", 60, None)
    return story


def _rewrites(times: int, apart_s: int, connectors: tuple[str, ...] | None = ("MirrorSourceConnector",)) -> GroupStory:
    return _rewrites_at(*(60 + apart_s * turn for turn in range(times)), connectors=connectors)


def _rewrites_at(*times_s: int, connectors: tuple[str, ...] | None = ("MirrorSourceConnector",)) -> GroupStory:
    story = a_connect_cluster().joins("w1", "w2", at_s=0)
    for at_s in times_s:
        story.meets_again(at_s=at_s, because="connect_config_changed", changed_connectors=connectors)
    return story


CONNECT_CASES = [
    # RB001
    Case(15, "one every five milliseconds is critical",
         lambda: a_connect_cluster().joins("w1", at_s=0)
         .again(range(2_000), lambda s, i: s.meets_again(at_s=60 + 0.005 * i, because="subscription_changed")),
         {"RB001": ["critical open"]}),
    Case(20, "ten connectors deployed at nine o'clock are no storm", lambda: _connectors_deployed(20), {}),
    Case(21, "an operator that writes configurations for ever is one",
         lambda: _connectors_deployed(60), {"RB001": ["critical open"]}),
    # CN001
    Case(76, "a worker restarts in time: its tasks waited as designed",
         lambda: _worker_lost(returns_s=90), {"CN001": ["info resolved"]}),
    Case(77, "a worker that stays away: its tasks waited the whole delay for nothing",
         lambda: _worker_lost(returns_s=None), {"CN001": ["warning resolved"]}),
    Case(78, "a worker away for one minute of five: waiting by design",
         lambda: _worker_lost(returns_s=None, ends_s=None).seen_until(120), {"CN001": ["info open"]}),
    Case(79, "a worker away, the delay long over, and nobody has its tasks",
         lambda: _worker_lost(returns_s=None, ends_s=None).seen_until(HOUR), {"CN001": ["warning open"]}),
    Case(80, "a delay that only postpones a revocation: no task waits",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0)
         .joins("w3", at_s=60, connect_delay_ms=1_600, unassigned_count=0)
         .meets_again(at_s=62, because="connect_delay_expired", expected=True), {}),
    Case(81, "another worker comes in the place of the lost one",
         lambda: _worker_lost(returns_s=None, ends_s=None)
         .joins("w9", at_s=120, connect_delay_ms=240_000, unassigned_count=3, assigned={"w1": ("t-0", "t-2", "t-4")})
         .meets_again(at_s=360, because="connect_delay_expired", unassigned_count=0,
                      assigned={"w1": ("t-0", "t-2", "t-4"), "w9": ("t-1", "t-3", "t-5")}),
         {"CN001": ["info resolved"]}),
    # CN002
    Case(82, "four rounds in a row that revoke",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0)
         .again(range(4), lambda s, i: s.meets_again(at_s=60 + 5 * i, because="connect_revocation_follow_up",
                                                     revoked_count=2, expected=True)),
         {"CN002": ["warning open"]}),
    Case(83, "one round that revokes, one that assigns",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).joins("w3", at_s=60, revoked_count=2)
         .meets_again(at_s=62, because="connect_revocation_follow_up", revoked_count=0, expected=True), {}),
    # CN003
    Case(84, "a task RUNNING on two workers for a minute",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).task("t", 0, "RUNNING", "w1:8083", 0, 120)
         .task("t", 0, "RUNNING", "w2:8083", 60, None), {"CN003": ["warning resolved"]}),
    Case(85, "a hand-over whose status came half a second late",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).task("t", 0, "RUNNING", "w1:8083", 0, 60.5)
         .task("t", 0, "RUNNING", "w2:8083", 60, None), {}),
    Case(86, "RUNNING at a killed worker until the delay ended: info",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).task("t", 0, "RUNNING", "w1:8083", 0, 60)
         .task("t", 0, "LOST", "w1:8083", 60, 95).task("t", 0, "RUNNING", "w2:8083", 95, None),
         {"CN003": ["info resolved"]}),
    # CN004
    Case(87, "eight, eight and no tasks for an hour",
         lambda: a_connect_cluster().joins("w1", "w2", "w3", at_s=0, assigned={
             "w1": tuple(f"t-{i}" for i in range(8)), "w2": tuple(f"u-{i}" for i in range(8))}).seen_until(HOUR),
         {"CN004": ["info open"]}),
    Case(88, "six, five and five",
         lambda: a_connect_cluster(resources=16).joins("w1", "w2", "w3", at_s=0).seen_until(HOUR), {}),
    # CN005
    Case(89, "an assignment that failed",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0)
         .meets_again(at_s=60, because="connect_assignment_failed"),
         {"CN005": ["warning open"]}),
    # CN006
    Case(90, "connect.protocol=eager on one worker makes the cluster eager",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).becomes(mode="eager", assignor="default")
         .joins("w3", at_s=60),
         {"CN006": ["warning open"], "RB002": ["warning open"]}),
    Case(91, "a cluster that was eager and is sessioned now",
         lambda: a_connect_cluster(assignor="default").becomes(mode="eager").joins("w1", "w2", at_s=0)
         .becomes(mode="incremental", assignor="sessioned").deploys("w1", "w2", from_s=600, each_s=20),
         {"CN006": ["warning resolved"]}),
    # CN007
    Case(92, "a failed task that nobody restarted",
         lambda: a_connect_cluster().joins("w1", at_s=0)
         .task("t", 0, "FAILED", "w1:8083", 60, None, detail="org.apache.kafka.connect.errors.ConnectException: no"),
         {"CN007": ["critical open"]}),
    Case(93, "a task that failed three times in a minute is one finding; restarted, it is over",
         lambda: a_connect_cluster().joins("w1", at_s=0).task("t", 0, "FAILED", "w1:8083", 60, 70)
         .task("t", 0, "FAILED", "w1:8083", 80, 90).task("t", 0, "FAILED", "w1:8083", 100, 110)
         .task("t", 0, "RUNNING", "w1:8083", 110, None), {"CN007": ["warning resolved"]}),
    Case(94, "paused, stopped and restarting tasks have not failed",
         lambda: a_connect_cluster().joins("w1", at_s=0).task("t", 0, "PAUSED", "w1:8083", 60, 70)
         .task("t", 1, "STOPPED", "w1:8083", 60, None).task("t", 2, "RESTARTING", "w1:8083", 60, 61), {}),
    # All is well
    Case(95, "a healthy cluster: a worker joins, gives and takes",
         lambda: a_connect_cluster().joins("w1", at_s=0).joins("w2", at_s=60, revoked_count=3)
         .meets_again(at_s=61, because="connect_revocation_follow_up", expected=True).seen_until(HOUR), {}),
    # Where the limits lie: one step over, one step under
    Case(110, "a Connect cluster preparing for 90 s, the workers' timeout not known: 1 min is the default",
         lambda: a_connect_cluster().starts_and_does_not_end(at_s=0).last(members=()).seen_until(90),
         {"RB011": ["critical open"]}),
    Case(111, "for half a minute",
         lambda: a_connect_cluster().starts_and_does_not_end(at_s=0).last(members=()).seen_until(30), {}),
    Case(113, "the delay ended ten seconds ago: the workers are about to re-join",
         lambda: _worker_lost(returns_s=None, ends_s=None).seen_until(60 + 310), {"CN001": ["info open"]}),
    Case(114, "the delay ended two minutes ago",
         lambda: _worker_lost(returns_s=None, ends_s=None).seen_until(60 + 420), {"CN001": ["warning open"]}),
    Case(115, "RUNNING at a dead worker for three seconds",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).task("t", 0, "LOST", "w1:8083", 60, 63)
         .task("t", 0, "RUNNING", "w2:8083", 63, None), {}),
    Case(116, "for an hour",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).task("t", 0, "LOST", "w1:8083", 60, 60 + HOUR)
         .task("t", 0, "RUNNING", "w2:8083", 60 + HOUR, None), {"CN003": ["warning resolved"]}),
    Case(117, "two tasks more on one worker than on the other",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0, assigned={
             "w1": ("t-0", "t-1", "t-2"), "w2": ("t-3",)}).seen_until(HOUR), {"CN004": ["info open"]}),
    Case(118, "two rounds in a row that revoke",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0).joins("w3", at_s=60, revoked_count=2)
         .joins("w4", at_s=70, revoked_count=2).meets_again(
             at_s=72, because="connect_revocation_follow_up", revoked_count=0, expected=True), {}),
    Case(119, "a worker that was put out and went on runs all it had a second time: one finding",
         lambda: _twice(a_connect_cluster().joins("w1", "w2", at_s=0), tasks=5), {"CN003": ["warning resolved"]}),
    Case(120, "the round that failed and the one it made necessary are one failure",
         lambda: a_connect_cluster().joins("w1", "w2", at_s=0)
         .meets_again(at_s=60, because="connect_config_changed", connect_error=1)
         .meets_again(at_s=61, because="connect_assignment_failed"), {"CN005": ["warning open"]}),
    # CN008
    Case(132, "MirrorMaker 2 that mirrors its own heartbeats, every 5 s", lambda: _rewrites(16, 5),
         {"CN008": ["warning open"]}),
    Case(133, "it was mended", lambda: _rewrites(14, 20).seen_until(HOUR), {"CN008": ["warning resolved"]}),
    Case(134, "somebody tries settings by hand", lambda: _rewrites(8, 7), {}),
    Case(135, "nobody knows whose configuration changed", lambda: _rewrites(16, 5, None), {}),
    Case(136, "other connectors each time", lambda: _connectors_deployed(16), {}),
    # CN008 in a beat
    Case(143, "every half minute, more or less", lambda: _rewrites_at(*(60 + 30 * i + i % 3 for i in range(13))),
         {"CN008": ["warning open"]}),
    Case(144, "the same, and it was mended", lambda: _rewrites(13, 30).seen_until(HOUR),
         {"CN008": ["warning resolved"]}),
    Case(145, "every ten minutes, as MirrorMaker 2 looks for topics by default", lambda: _rewrites(13, 600),
         {"CN008": ["warning open"]}),
    Case(146, "by hand: 14 in an hour, two in a row and none for a while",
         lambda: _rewrites_at(*(at for turn in range(7) for at in (60 + 500 * turn, 64 + 500 * turn))), {}),
    Case(147, "every half minute, but eleven times alone", lambda: _rewrites(11, 30), {}),
    Case(148, "sixteen in two minutes, in no beat",
         lambda: _rewrites_at(*(60 + 8 * i + i % 2 * 7 for i in range(16))), {"CN008": ["warning open"]}),
    Case(149, "every half hour, as a deploy may", lambda: _rewrites(14, 1800), {}),
]  # fmt: skip
