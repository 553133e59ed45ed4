"""Cases of the rules for consumer groups. Their numbers go on across both tables (cases.py)."""

from __future__ import annotations

from rebalance_audit.domain.log_lines.reasons import HANDLER_EXITED
from tests.domain.detect.case import HOUR, Case
from tests.domain.detect.group_story import GroupStory, a_group


def storm_by_poll_timeout() -> GroupStory:
    story = a_group().joins("c1", "c2", "c3", at_s=0)
    for i in range(19):
        story.exceeds_poll_interval(f"c{i % 3 + 1}", at_s=30 + 10 * i)
    return story


def _flapper(every_s: float, turns: int, *, others: int = 3) -> GroupStory:
    story = a_group().joins(*(f"c{i}" for i in range(others)), "flappy", at_s=0)
    for i in range(turns):
        story.leaves("flappy", at_s=60 + every_s * i).joins("flappy", at_s=60 + every_s * i + 5)
    return story


def _quiet_past(count: int, pause_ms: int = 50) -> GroupStory:
    """Two members that a third joins and leaves, once per two hours."""
    story = a_group().joins("c1", "c2", at_s=0)
    for i in range(count):
        at_s = (i + 1) * 2 * HOUR
        if i % 2 == 0:
            story.joins("c3", at_s=at_s, pause_ms=pause_ms + i)
        else:
            story.leaves("c3", at_s=at_s, pause_ms=pause_ms + i)
    return story


def _spread_past() -> GroupStory:
    story = a_group().joins("c1", "c2", at_s=0, moves=False)
    for i, pause_ms in enumerate([200, 3_000, 300, 2_900, 400, 2_800, 500, 2_700, 1_000, 2_600, 1_400, 1_600]):
        story.meets_again(at_s=(i + 1) * 2 * HOUR, because="topic_metadata_changed", pause_ms=pause_ms)
    return story


def _one_by_one(count: int, every_s: float) -> GroupStory:
    story = a_group(resources=60)
    for i in range(count):
        story.joins(f"c{i}", at_s=i * every_s)
    return story


def _fresh_pods(count: int, every_s: float) -> GroupStory:
    """Three members; one crashes and is replaced by a pod nobody has seen, again and again."""
    story = a_group().joins("pod-0", "pod-1", "pod-2", at_s=0)
    for i in range(count):
        story.vanishes(f"pod-{i}", at_s=60 + every_s * i).joins(f"pod-{i + 3}", at_s=60 + every_s * i + 2)
    return story


def _exits(times: int, apart_s: int, reason: str = HANDLER_EXITED) -> GroupStory:
    story = a_group().joins("c1", "c2", at_s=0)
    for turn in range(times):
        story.meets_again(at_s=60 + apart_s * turn, because="leader_rejoined", moves=False).saying(reason)
    return story


_KAFKA_GO = {
    "client_libraries": ("kafka-go",),
    "undecoded": "short_buffer at byte 18 of the subscription, field ownedPartitions",
}

CONSUMER_CASES = [
    # RB001
    Case(1, "nineteen poll timeouts in three minutes are one storm and one incident of RB006",
         storm_by_poll_timeout, {"RB001": ["warning open"], "RB006": ["warning open"]}),
    Case(2, "the same, twenty-one minutes later: both are over",
         lambda: storm_by_poll_timeout().seen_until(220 + 21 * 60),
         {"RB001": ["warning resolved"], "RB006": ["warning resolved"]}),
    Case(3, "a rolling deploy of ten members is no storm",
         lambda: a_group(resources=30).joins(*(f"c{i}" for i in range(10)), at_s=0)
         .deploys(*(f"c{i}" for i in range(10)), from_s=HOUR, each_s=20), {}),
    Case(4, "a rolling deploy by kill -9 is no storm; the members vanished all the same",
         lambda: a_group(resources=30).joins(*(f"c{i}" for i in range(10)), at_s=0)
         .deploys(*(f"c{i}" for i in range(10)), from_s=HOUR, each_s=20, vanishing=True),
         {"RB007": ["warning open"]}),
    Case(5, "a deploy and its roll-back are no storm",
         lambda: a_group(resources=30).joins(*(f"c{i}" for i in range(8)), at_s=0)
         .deploys(*(f"c{i}" for i in range(8)), from_s=HOUR, each_s=20)
         .deploys(*(f"c{i}" for i in range(8)), from_s=HOUR + 400, each_s=20), {}),
    Case(6, "five deploys in one go are not a deploy",
         lambda: a_group(resources=30).joins(*(f"c{i}" for i in range(8)), at_s=0)
         .again(range(5), lambda s, k: s.deploys(*(f"c{i}" for i in range(8)), from_s=HOUR + 200 * k, each_s=20)),
         {"RB001": ["warning open"]}),
    Case(7, "a group that starts one member after the other is no storm", lambda: _one_by_one(20, 3), {}),
    Case(8, "cooperative changes with their second rounds are no storm",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", at_s=0)
         .joins("c2", at_s=10).meets_again(at_s=13, because="cooperative_follow_up", expected=True)
         .joins("c3", at_s=20).meets_again(at_s=23, because="cooperative_follow_up", expected=True)
         .joins("c4", at_s=30).meets_again(at_s=33, because="cooperative_follow_up", expected=True)
         .joins("c5", at_s=40).meets_again(at_s=43, because="cooperative_follow_up", expected=True), {}),
    Case(9, "follow-ups that never converge are a storm",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", "c2", at_s=0)
         .again(range(1, 20), lambda s, i: s.meets_again(at_s=15 * i, because="cooperative_follow_up", expected=True)),
         {"RB001": ["warning open"]}),
    Case(10, "Streams probing every ten minutes for a day is no storm",
         lambda: a_group(assignor="stream").joins("s1", "s2", at_s=0)
         .again(range(1, 144), lambda s, i: s.meets_again(at_s=600 * i, because="streams_probing", expected=True)), {}),
    Case(11, "what calls itself probing every five seconds is a critical storm",
         lambda: a_group(assignor="stream").joins("s1", "s2", at_s=0)
         .again(range(1, 60), lambda s, i: s.meets_again(at_s=5 * i, because="streams_probing", expected=True)),
         {"RB001": ["critical open"]}),
    Case(12, "rewrites of returning static members are no storm, but nine of one instance id are two processes",
         lambda: a_group().member("c1", group_instance_id="i1").member("c2", group_instance_id="i2")
         .joins("c1", "c2", at_s=0)
         .again(range(9), lambda s, i: s.comes_back_under_its_instance_id("c1", at_s=60 + 30 * i)),
         {"RB009": ["warning open"]}),
    Case(13, "forty static members restarted one after the other: silence is what static membership is for",
         lambda: a_group(resources=80)
         .again(range(40), lambda s, i: s.member(f"c{i}", group_instance_id=f"i{i}"))
         .joins(*(f"c{i}" for i in range(40)), at_s=0)
         .again(range(40), lambda s, i: s.comes_back_under_its_instance_id(f"c{i}", at_s=60 + 5 * i)), {}),
    Case(14, "a leader that joins again every nine seconds is a storm in which nobody came or went",
         lambda: a_group().joins("c1", "c2", at_s=0)
         .again(range(30), lambda s, i: s.meets_again(at_s=60 + 9 * i, because="leader_rejoined")),
         {"RB001": ["warning open"]}),
    Case(16, "five new topics in ten minutes are not above the limit",
         lambda: a_group().joins("c1", "c2", at_s=0)
         .again(range(5), lambda s, i: s.meets_again(at_s=60 + 100 * i, because="topic_metadata_changed")), {}),
    Case(17, "one poll timeout per six minutes is too slow for the short window, not for the long one",
         lambda: a_group().joins("c1", "c2", at_s=0)
         .again(range(14), lambda s, i: s.exceeds_poll_interval("c2", at_s=330 * (i + 1))),
         {"RB001": ["warning open"], "RB005": ["warning open"], "RB006": ["warning open"]}),
    Case(18, "two storms three hours apart are two incidents, the first of them over",
         lambda: a_group().joins("c1", "c2", at_s=0)
         .again(range(10), lambda s, i: s.meets_again(at_s=60 + 9 * i, because="leader_rejoined"))
         .again(range(10), lambda s, i: s.meets_again(at_s=3 * HOUR + 9 * i, because="leader_rejoined")),
         {"RB001": ["warning resolved", "warning open"]}),
    Case(19, "after a storm, one lone rebalance half an hour later opens nothing",
         lambda: a_group().joins("c1", "c2", at_s=0)
         .again(range(30), lambda s, i: s.meets_again(at_s=60 + 5 * i, because="leader_rejoined"))
         .meets_again(at_s=60 + 145 + 1_800, because="leader_rejoined"),
         {"RB001": ["critical resolved"]}),
    Case(22, "pods that crash and come back under new names are a storm once their sum is more than a deploy's",
         lambda: _fresh_pods(12, 30), {"RB001": ["warning open"], "RB007": ["warning open"]}),
    Case(23, "thousands of numbers skipped within a minute are a storm, though no record of them is left",
         lambda: a_group().joins("c1", "c2", at_s=0).meets_again(at_s=60, because="leader_rejoined")
         .skips(5_000, in_one_row=True).meets_again(at_s=100, because="leader_rejoined"),
         {"RB001": ["critical open"]}),
    Case(24, "numbers lost to compaction over a day are not",
         lambda: a_group().joins("c1", "c2", at_s=0).skips(90).meets_again(at_s=24 * HOUR, because="leader_rejoined"),
         {}),
    Case(25, "a job that starts, reads and ends every minute leaves nobody waiting",
         lambda: a_group()
         .again(range(12), lambda s, i: s.joins(f"job-{i}", at_s=300 * i).becomes_empty(at_s=300 * i + 40)),
         {}),
    Case(26, "nothing but a start", lambda: a_group().joins("c1", "c2", at_s=0), {}),
    # RB002
    Case(27, "a member that offers only range makes a cooperative group eager",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", "c2", at_s=0)
         .becomes(mode="eager", assignor="range").joins("old", at_s=600), {"RB002": ["warning open"]}),
    Case(28, "and when it leaves the group is cooperative again",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", "c2", at_s=0)
         .becomes(mode="eager", assignor="range").joins("old", at_s=600)
         .becomes(mode="cooperative", assignor="cooperative-sticky").leaves("old", at_s=900),
         {"RB002": ["warning resolved"]}),
    Case(29, "a group that was always eager has not regressed", lambda: _quiet_past(6), {}),
    Case(30, "a rolling upgrade from eager to cooperative is the other way round",
         lambda: a_group().joins("c1", "c2", at_s=0).deploys("c1", "c2", from_s=600, each_s=60)
         .becomes(mode="cooperative", assignor="cooperative-sticky").deploys("c1", "c2", from_s=5_000, each_s=60), {}),
    Case(31, "a round whose mode is not known proves neither fall nor return",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", "c2", at_s=0)
         .becomes(mode="unknown").meets_again(at_s=600, because="topic_metadata_changed"), {}),
    Case(32, "a group converted from the server's protocol back to classic range stops the world again",
         lambda: a_group(mode="server", assignor="uniform", group_type="consumer").joins("c1", "c2", at_s=0)
         .becomes(mode="eager", assignor="range", group_type="classic")
         .meets_again(at_s=900, because="group_converted"),
         {"RB002": ["warning open"]}),
    Case(33, "a pause of five minutes where 50 ms are usual",
         lambda: _quiet_past(12).meets_again(at_s=40 * HOUR, because="topic_metadata_changed", pause_ms=299_000),
         {"RB002": ["warning open"]}),
    Case(34, "the same with only six rebalances to compare with: not enough data",
         lambda: _quiet_past(6).meets_again(at_s=40 * HOUR, because="topic_metadata_changed", pause_ms=299_000), {}),
    Case(35, "a pause of 1.5 s where 50 ms are usual is too short to hurt",
         lambda: _quiet_past(12).meets_again(at_s=40 * HOUR, because="topic_metadata_changed", pause_ms=1_500), {}),
    Case(36, "a long pause of a vanished member's partitions is RB007's, not a regression",
         lambda: _quiet_past(12).vanishes("c2", at_s=40 * HOUR, gone_pause_ms=45_000), {"RB007": ["warning open"]}),
    Case(37, "a group whose pauses were always long and spread is not far above itself",
         lambda: _quiet_past(12, pause_ms=3_000)
         .meets_again(at_s=40 * HOUR, because="leader_rejoined", pause_ms=8_000), {}),
    Case(38, "a regression that ends with the next short one",
         lambda: _quiet_past(12).meets_again(at_s=40 * HOUR, because="topic_metadata_changed", pause_ms=30_000)
         .meets_again(at_s=42 * HOUR, because="topic_metadata_changed", pause_ms=60), {"RB002": ["warning resolved"]}),
    # RB003
    Case(39, "all members are known to support cooperative-sticky, range is elected",
         lambda: a_group().member("c1", supported_assignors=("range", "cooperative-sticky"))
         .member("c2", supported_assignors=("range", "cooperative-sticky")).joins("c1", "c2", at_s=0),
         {"RB003": ["info open"]}),
    Case(40, "of one member it is not known",
         lambda: a_group().member("c1", supported_assignors=("range", "cooperative-sticky"))
         .joins("c1", "c2", at_s=0), {}),
    Case(41, "one member is known to offer range alone, for longer than a deploy takes",
         lambda: a_group().member("c1", supported_assignors=("range", "cooperative-sticky"))
         .member("c2", supported_assignors=("range",)).joins("c1", "c2", at_s=0).seen_until(900),
         {"RB015": ["info open"]}),
    # RB004
    Case(42, "avoidable movement is shown, at level info",
         lambda: a_group().joins("c1", "c2", at_s=0).joins("c3", at_s=60, avoidable_moved_count=2, moved_count=3),
         {"RB004": ["info open"]}),
    Case(43, "no movement was avoidable, and of another rebalance it is not known",
         lambda: a_group().joins("c1", "c2", at_s=0).joins("c3", at_s=60, avoidable_moved_count=0)
         .leaves("c3", at_s=900), {}),
    # RB005
    Case(44, "one member of four leaves and returns every 24 minutes",
         lambda: _flapper(24 * 60, 4), {"RB005": ["warning open"]}),
    Case(45, "twice is not again and again", lambda: _flapper(24 * 60, 2), {}),
    Case(46, "three deploys in a row: every member does the same, none stands out",
         lambda: a_group(resources=12).joins("c1", "c2", "c3", at_s=0)
         .again(range(3), lambda s, k: s.deploys("c1", "c2", "c3", from_s=2_000 * (k + 1), each_s=20)), {}),
    # RB006
    Case(47, "one poll timeout, after which the member stays away",
         lambda: a_group().joins("c1", "c2", at_s=0).exceeds_poll_interval("c2", at_s=300, comes_back=False),
         {"RB006": ["warning open"]}),
    Case(48, "a member that closes is none", lambda: a_group().joins("c1", "c2", at_s=0).leaves("c2", at_s=300), {}),
    # RB007
    Case(49, "a killed member", lambda: a_group().joins("c1", "c2", "c3", at_s=0)
         .vanishes("c3", at_s=60, gone_pause_ms=12_310),
         {"RB007": ["warning open"]}),
    Case(50, "the same eleven minutes later", lambda: a_group().joins("c1", "c2", "c3", at_s=0)
         .vanishes("c3", at_s=60, gone_pause_ms=12_310).seen_until(60 + 660), {"RB007": ["warning resolved"]}),
    Case(51, "two killed within a minute are one incident; one killed hours later is another",
         lambda: a_group().joins("c1", "c2", "c3", "c4", at_s=0).vanishes("c3", at_s=60).vanishes("c2", at_s=90)
         .vanishes("c4", at_s=4 * HOUR), {"RB007": ["warning resolved", "warning open"]}),
    Case(52, "a Streams client on the classic protocol closes without leaving: info",
         lambda: a_group(assignor="stream").joins("s1", "s2", at_s=0).vanishes("s2", at_s=60),
         {"RB007": ["info open"]}),
    Case(53, "the last member vanishes: the group is empty",
         lambda: a_group().joins("c1", at_s=0).vanishes("c1", at_s=60, outcome="emptied"), {"RB007": ["warning open"]}),
    # RB008
    Case(54, "a frozen member is dropped at the rebalance timeout",
         lambda: a_group().joins("c1", "c2", at_s=0).is_dropped("c2", at_s=400, broker_window_ms=60_020),
         {"RB008": ["warning open"]}),
    Case(55, "a slow member that still came in time",
         lambda: a_group().joins("c1", "c2", at_s=0).joins("c3", at_s=400, broker_window_ms=8_700), {}),
    # RB009
    Case(56, "a static member that does not come back",
         lambda: a_group().member("c2", group_instance_id="i2", session_timeout_ms=180_000).joins("c1", "c2", at_s=0)
         .leaves("c2", at_s=400, trigger="static_member_expired", gone_pause_ms=180_000), {"RB009": ["warning open"]}),
    Case(57, "a static member that comes back once",
         lambda: a_group().member("c2", group_instance_id="i2").joins("c1", "c2", at_s=0)
         .comes_back_under_its_instance_id("c2", at_s=60), {}),
    # RB010
    Case(58, "range with five topics of one partition: one member holds all, and two nothing, for a minute and more",
         lambda: a_group(resources=5).joins("c1", "c2", "c3", at_s=0,
                                            assigned={"c1": ("a-0", "b-0", "c-0", "d-0", "e-0")}).seen_until(120),
         {"RB010": ["warning open"]}),
    Case(59, "a remainder of one", lambda: a_group(resources=7).joins("c1", "c2", at_s=0).seen_until(3_600), {}),
    Case(60, "uneven for ten seconds, between two rounds of a hand-over",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", at_s=0)
         .joins("c2", at_s=60, assigned={"c1": ("a-0", "a-1", "a-2")})
         .meets_again(at_s=70, because="cooperative_follow_up").seen_until(3_600), {}),
    Case(61, "uneven because the members subscribe to different topics, for longer than a deploy",
         lambda: a_group().member("c1", subscribed_topics=("a", "b")).member("c2", subscribed_topics=("b",))
         .joins("c1", "c2", at_s=0, assigned={"c1": ("a-0", "a-1", "a-2", "b-0"), "c2": ("b-1",)}).seen_until(3_600),
         {"RB015": ["info open"]}),
    Case(62, "uneven in a share group, where partitions are not owned alone",
         lambda: a_group(group_type="share", mode="server", assignor="simple").joins("c1", "c2", at_s=0,
                                                                 assigned={"c1": ("a-0", "a-1", "a-2", "a-3")})
         .seen_until(3_600), {}),
    # RB011, RB012
    Case(63, "a rebalance that has been preparing for ten minutes, its timeout is one",
         lambda: a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60).seen_until(660),
         {"RB011": ["critical open"]}),
    Case(64, "one that has been preparing for half a minute",
         lambda: a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60).seen_until(90), {}),
    Case(65, "one that took five minutes and ended",
         lambda: a_group().joins("c1", "c2", at_s=0).joins("c3", at_s=400)
         .last(started_at_ms=1_763_700_000_000 + 100_000), {"RB011": ["warning resolved"]}),
    Case(66, "a KIP-848 member that does not reach its epoch",
         lambda: a_group(mode="server", assignor="uniform", group_type="consumer").joins("c1", "c2", at_s=0)
         .member("c1", member_epoch=1).starts_and_does_not_end(at_s=60).seen_until(660), {"RB012": ["critical open"]}),
    Case(67, "a KIP-848 epoch that is two seconds old",
         lambda: a_group(mode="server", assignor="uniform", group_type="consumer").joins("c1", "c2", at_s=0)
         .starts_and_does_not_end(at_s=60).seen_until(62), {}),
    # RB013
    Case(68, "two partitions without an owner for an hour",
         lambda: a_group().joins("c1", "c2", at_s=0).meets_again(at_s=60, because="leader_rejoined", unassigned_count=2)
         .seen_until(HOUR), {"RB013": ["critical open"]}),
    Case(69, "two partitions without an owner until the second round three seconds later",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", at_s=0)
         .joins("c2", at_s=60, unassigned_count=2)
         .meets_again(at_s=63, because="cooperative_follow_up", unassigned_count=0).seen_until(HOUR), {}),
    Case(70, "an empty group owns nothing, and nobody asked it to",
         lambda: a_group().joins("c1", at_s=0).becomes_empty(at_s=60).last(unassigned_count=6).seen_until(HOUR), {}),
    # RB014
    Case(71, "the coordinator could not write its record",
         lambda: a_group().joins("c1", "c2", at_s=0).meets_again(at_s=60, because="append_failed", outcome="failed"),
         {"RB014": ["warning open"]}),
    Case(72, "one failover with a rebalance: info",
         lambda: a_group().joins("c1", "c2", at_s=0).meets_again(at_s=60, because="coordinator_failover"),
         {"RB014": ["info open"]}),
    # RB015
    Case(73, "subscriptions that differ while a deploy runs",
         lambda: a_group().member("c1", subscribed_topics=("a", "b")).member("c2", subscribed_topics=("a",))
         .joins("c1", "c2", at_s=0).leaves("c2", at_s=60).member("c2", subscribed_topics=("a", "b"))
         .joins("c2", at_s=70).seen_until(HOUR), {}),
    # RB016
    Case(74, "six generations in a row that never arrived, joins that nothing else excuses",
         lambda: a_group().joins("c1", at_s=0)
         .again(range(5), lambda s, i: s.is_abandoned(at_s=60 + 10 * i, because="client_requested")),
         {"RB016": ["warning open"]}),
    Case(75, "two that were overtaken while members joined",
         lambda: a_group().joins("c1", at_s=0).is_abandoned(at_s=5).is_abandoned(at_s=6).joins("c2", "c3", at_s=7), {}),
    # All is well
    Case(96, "a healthy KIP-848 group: members come and go",
         lambda: a_group(mode="server", assignor="uniform", group_type="consumer").joins("c1", "c2", at_s=0)
         .joins("c3", at_s=60).leaves("c1", at_s=120).seen_until(HOUR), {}),
    Case(97, "Streams probing every minute, as often as Streams allows",
         lambda: a_group(assignor="stream").joins("s1", "s2", at_s=0)
         .again(range(1, 60), lambda s, i: s.meets_again(at_s=60 * i, because="streams_probing", expected=True)), {}),
    Case(98, "eight rebalances an hour for a day: not good, and no storm",
         lambda: a_group().joins("c1", "c2", at_s=0)
         .again(range(192), lambda s, i: s.meets_again(at_s=450 * i + 1, because="topic_metadata_changed")), {}),
    Case(99, "a cooperative group that grows by eight members, each with its second round",
         lambda: a_group(mode="cooperative", assignor="cooperative-sticky").joins("c0", at_s=0)
         .again(range(1, 9), lambda s, i: s.joins(f"c{i}", at_s=20 * i)
                .meets_again(at_s=20 * i + 3, because="cooperative_follow_up", expected=True)), {}),
    # Where the limits lie: one step over, one step under
    Case(100, "9 s is nothing for a group whose pauses are 0.2 to 3 s, as they come",
         lambda: _spread_past().meets_again(at_s=40 * HOUR, because="leader_rejoined", pause_ms=9_000), {}),
    Case(101, "20 s is",
         lambda: _spread_past().meets_again(at_s=40 * HOUR, because="leader_rejoined", pause_ms=20_000),
         {"RB002": ["warning open"]}),
    Case(102, "10 s where 50 ms are usual",
         lambda: _quiet_past(12).meets_again(at_s=40 * HOUR, because="leader_rejoined", pause_ms=10_000),
         {"RB002": ["warning open"]}),
    Case(103, "a group that has been slow for fifty rebalances is a slow group",
         lambda: _quiet_past(12).again(range(55), lambda s, i: s.meets_again(
             at_s=(40 + 2 * i) * HOUR, because="leader_rejoined", pause_ms=30_000)), {"RB002": ["warning resolved"]}),
    Case(104, "a static member restarted three times in a day",
         lambda: a_group().member("c1", group_instance_id="i1").joins("c1", "c2", at_s=0)
         .again(range(3), lambda s, i: s.comes_back_under_its_instance_id("c1", at_s=(i + 1) * 4 * HOUR)), {}),
    Case(105, "uneven by a third", lambda: a_group(resources=6).joins("c1", "c2", at_s=0, assigned={
             "c1": ("a-0", "a-1", "b-0", "b-1"), "c2": ("a-2", "b-2")}).seen_until(HOUR), {}),
    Case(106, "uneven by half", lambda: a_group(resources=8).joins("c1", "c2", at_s=0, assigned={
             "c1": tuple(f"a-{i}" for i in range(6)), "c2": ("b-0", "b-1")}).seen_until(HOUR),
         {"RB010": ["info open"]}),
    Case(107, "uneven for half a minute, until the next member joined",
         lambda: a_group(resources=6).joins("c1", "c2", at_s=0, assigned={"c1": tuple(f"a-{i}" for i in range(6))})
         .joins("c3", at_s=30).seen_until(HOUR), {}),
    Case(108, "preparing for three minutes, the members' timeout not known: 5 min is the default",
         lambda: a_group().starts_and_does_not_end(at_s=0).last(members=()).seen_until(180), {}),
    Case(109, "preparing for six",
         lambda: a_group().starts_and_does_not_end(at_s=0).last(members=()).seen_until(360),
         {"RB011": ["critical open"]}),
    Case(112, "five seconds over its timeout: the broker's timer is not that exact",
         lambda: a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60).seen_until(125), {}),
    # RB017
    Case(121, "kafka-go beside Java",
         lambda: a_group().member("g1", **_KAFKA_GO).joins("j1", at_s=0).joins("g1", at_s=60),
         {"RB017": ["warning open"]}),
    Case(122, "it goes again",
         lambda: a_group().member("g1", **_KAFKA_GO).joins("j1", at_s=0).joins("g1", at_s=60).leaves("g1", at_s=90),
         {"RB017": ["warning resolved"]}),
    Case(123, "kafka-go alone gets on with itself",
         lambda: a_group().member("g1", **_KAFKA_GO).joins("g1", at_s=0), {}),
    Case(124, "an assignment that cannot be read is the leader's, not the member's",
         lambda: a_group().member("j1", undecoded="short_buffer at byte 2 of the assignment").joins("j1", at_s=0), {}),
    Case(125, "bytes of another protocol than the consumers'",
         lambda: a_group(protocol_type="sr").member("g1", **_KAFKA_GO).joins("g1", at_s=0), {}),
    # RB018
    Case(126, "a handler that returns three times in ten minutes", lambda: _exits(3, 290), {"RB018": ["warning open"]}),
    Case(127, "it was mended", lambda: _exits(4, 60).seen_until(HOUR), {"RB018": ["warning resolved"]}),
    Case(128, "twice", lambda: _exits(2, 60), {}),
    Case(129, "four times, more than ten minutes apart", lambda: _exits(4, 601), {}),
    Case(130, "the same with another reason", lambda: _exits(4, 60, "group is rebalancing"), {}),
    Case(131, "one handler that returned, as its application stopped", lambda: _exits(1, 60), {}),
    # RB019
    Case(137, "a handler that is stuck for two minutes, and keeps its partitions",
         lambda: a_group().joins("c1", "c2", at_s=0).stands_still("c2", from_s=60, until_s=180, comes_back=False),
         {"RB019": ["warning open"]}),
    Case(138, "the same, of a library that has no max.poll.interval",
         lambda: a_group().member("c2", client_libraries=("sarama",)).joins("c1", "c2", at_s=0)
         .stands_still("c2", from_s=60, until_s=180, comes_back=False), {"RB019": ["warning open"]}),
    Case(139, "it came back", lambda: a_group().joins("c1", "c2", at_s=0)
         .stands_still("c2", from_s=60, until_s=180, comes_back=True), {}),
    Case(140, "nobody stood still", lambda: a_group().joins("c1", "c2", at_s=0).seen_until(180), {}),
    # RB020: at once, and RB011 does not say it again
    Case(141, "its coordinator failed as it ended the join phase, five seconds ago",
         lambda: a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60, because="join_phase_failed")
         .seen_until(65), {"RB020": ["critical open"]}),
    Case(142, "the same, ten minutes ago",
         lambda: a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60, because="join_phase_failed")
         .seen_until(660), {"RB020": ["critical open"]}),
    # RB004 again
    Case(150, "the server's uniform assignor keeps to its last target, as when a newcomer dies before it takes over",
         lambda: a_group(group_type="consumer", assignor="uniform", mode="server").joins("c1", "c2", at_s=0)
         .joins("c3", at_s=60, avoidable_moved_count=1, moved_count=2), {}),
]  # fmt: skip
