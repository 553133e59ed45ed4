"""What findings say, word for word, and that no input makes a rule fall over."""

from __future__ import annotations

import json
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain import tables
from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.detect import detect_group
from rebalance_audit.domain.detect.history import History, identity, label
from rebalance_audit.domain.detect.limits import Limits
from rebalance_audit.domain.detect.storm import excuses
from rebalance_audit.domain.kinds import EvidenceTier, MemberChange, MovementKind, ResourceType
from rebalance_audit.domain.model import ConnectTask, Finding, Member, Movement, Rebalance, Trigger
from tests.domain.detect.group_story import GroupStory, a_connect_cluster, a_group


def _only(story: GroupStory, rule_id: str) -> Finding:
    (found,) = [
        f
        for f in detect_group(story.rebalances, story.tasks, seen_until_ms=story.seen_until_ms)
        if f.rule_id == rule_id
    ]
    return found


def test_a_stuck_group_names_who_joined_and_who_was_there_before() -> None:
    """Logs name a newcomer, and no member that joins again: of c1 and c2 either may be waited for."""
    waits = a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60).seen_until(660)
    newcomer = replace(waits.rebalances[-1].triggers[0], members=("c3-a708854f-6e45-4e90-8a43-003bcab1c4bb",))
    waits.last(triggers=(newcomer,))
    found = _only(waits, "RB011")
    assert found.title.startswith("orders stuck at generation ")
    assert found.advice == (
        "Look at the coordinator's log for this group, at c3, whose joining began it, and at the members that have "
        "not joined (c1 (/10.0.0.9) and c2 (/10.0.0.9) were there before); if none of them answers, restart the member "
        "that has been in the group longest."
    )
    nobody = a_group().starts_and_does_not_end(at_s=0).last(members=(), triggers=()).seen_until(360)
    assert "and at the members that have not joined; if" in (_only(nobody, "RB011").advice or "")


def test_a_group_whose_members_have_all_joined_waits_for_its_leader() -> None:
    waits = a_group().joins("c1", "c2", at_s=0).starts_and_does_not_end(at_s=60).seen_until(660)
    waits.last(joined_at_ms=waits.rebalances[-1].started_at_ms, leader_member_id=waits.rebalances[0].leader_member_id)
    found = _only(waits, "RB011")
    assert "waiting for its leader's assignment" in found.title
    assert (found.advice or "").startswith("Look at the group's leader")
    assert "have not joined" not in (found.advice or "")


def test_a_session_expiry_names_who_the_timeout_and_the_cost_with_its_bounds() -> None:
    found = _only(a_group().joins("c1", "c2", "c3", at_s=0).vanishes("c3", at_s=60, gone_pause_ms=12_310), "RB007")
    assert found.title == (
        "c3 (/10.0.0.9) of orders sent no heartbeat for the session timeout of 10 s; "
        "its 2 partitions stood still for 12.3 s"
    )
    assert json.loads(found.numbers or "") == {
        "members": ["c3 (/10.0.0.9)"],
        "pause_estimate_ms": 12_310,
        "pause_lower_ms": 12_290,
        "pause_upper_ms": 12_350,
        "resource_count": 2,
        "session_timeout_ms": 10_000,
        "times": 1,
    }
    assert found.evidence == ("log:broker-1/server.log#abc@100", "record:__consumer_offsets-7@101")


def test_what_a_worker_gets_again_under_another_member_id_stood_still_until_then() -> None:
    story = a_group().joins("c1", "c2", "c3", at_s=0).vanishes("c3", at_s=60, gone_pause_ms=35_600)
    last = story.rebalances[-1]
    back = tuple(replace(m, kind=MovementKind.RETURNED) for m in last.movements if m.from_client_id == "c3")
    story.rebalances[-1] = replace(last, movements=back)
    assert _only(story, "RB007").title.endswith("its 2 partitions stood still for 35.6 s")


def test_a_member_that_does_nothing_hangs_and_keeps_what_it_has() -> None:
    story = a_group().joins("c1", "c2", at_s=0).stands_still("c2", from_s=60, until_s=180, comes_back=False)
    found = _only(story, "RB019")
    assert found.title.startswith("c2 (/10.0.0.9) of orders has hung for 2 min")
    assert "commits nothing" in found.title


def test_a_storm_counts_names_its_limit_and_its_commonest_cause() -> None:
    story = a_group().joins("c1", "c2", at_s=0)
    for i in range(14):
        story.exceeds_poll_interval("c2", at_s=60 + 20 * i)
    found = _only(story, "RB001")
    assert found.title == (
        "orders rebalanced 14 times in 4 min 20 s (limit: 5 in 10 min), all of them: a member exceeded its "
        "poll interval; c2 at /10.0.0.9 came or went in 14 of them"
    )
    numbers = json.loads(found.numbers or "")
    assert numbers["rebalance_count"] == 14
    assert numbers["span_ms"] == 260_000
    assert numbers["peak_per_minute"] == 3
    assert numbers["causes"] == {"member_poll_timeout": 14}


def test_a_storm_counts_every_rebalance_of_its_time_and_those_that_count_beside() -> None:
    story = a_group().joins("c1", "c2", at_s=0)
    for i in range(4):
        story.exceeds_poll_interval("c2", at_s=60 + 20 * i, comes_back=False).joins("c2", at_s=70 + 20 * i)
    found = _only(story, "RB001")
    # Its first return is one that a deploy would explain: seven of the eight count.
    assert found.title == (
        "orders rebalanced 8 times in 1 min 10 s; 7 count towards the limit of 5 in 10 min, 4 of them: a member "
        "exceeded its poll interval; c2 at /10.0.0.9 came or went in 7 of them"
    )
    assert json.loads(found.numbers or "")["rebalance_count"] == 7


def test_a_poll_timeout_shows_work_done_twice() -> None:
    story = a_group().joins("c1", "c2", at_s=0).exceeds_poll_interval("c2", at_s=60, comes_back=False)
    overlapping = tuple(
        Movement(
            resource_type=ResourceType.PARTITION, resource=m.resource, kind=m.kind, from_member_id=m.from_member_id,
            to_member_id=m.to_member_id, pause_lower_ms=-2_100, pause_estimate_ms=-2_000, pause_upper_ms=-1_900,
            overlap_ms=2_000,
        )
        for m in story.rebalances[-1].movements
    )  # fmt: skip
    found = _only(story.last(movements=overlapping), "RB006")
    assert found.title.endswith("its 3 partitions had two owners at once for 2 s")
    assert found.advice is not None
    assert "It worked on for 2 s beside the new owner" in found.advice


def test_a_member_that_flaps_by_its_poll_interval_is_not_shown_to_become_static() -> None:
    story = a_group().joins("c1", "c2", "c3", at_s=0)
    for i in range(4):
        story.exceeds_poll_interval("c2", at_s=60 + 60 * i)
    advice = _only(story, "RB005").advice
    assert advice == "Its poll interval puts it out each time (RB006): let it do less per poll, or allow more time."


def test_tasks_waiting_are_named_with_the_worker_they_wait_for() -> None:
    kept = {"w1": ("t-0", "t-2")}
    story = a_connect_cluster().joins("w1", "w2", at_s=0, assigned={**kept, "w2": ("t-1", "t-3")})
    story.leaves("w2", at_s=60, assigned=kept, connect_delay_ms=20_000, unassigned_count=2)
    story.joins("w2", at_s=66, assigned=kept, connect_delay_ms=13_900, unassigned_count=2)
    story.meets_again(
        at_s=80, because="connect_delay_expired", assigned={**kept, "w2": ("t-1", "t-3")}, unassigned_count=0
    )
    found = _only(story, "CN001")
    assert found.title == "2 tasks and connectors of connect-a waited 20 s for worker w2:8083, as designed"
    assert found.detail == "Delay announced at generation 2: 20 s. Waiting: t-1, t-3."
    assert json.loads(found.numbers or "")["waited_ms"] == 20_000


def test_a_fallen_group_names_the_member_that_made_it_fall() -> None:
    story = a_group(mode="cooperative", assignor="cooperative-sticky").joins("c1", "c2", at_s=0)
    found = _only(story.becomes(mode="eager", assignor="range").joins("old", at_s=600), "RB002")
    assert found.title == (
        "orders fell back to stop-the-world rebalances at 2025-11-21 04:50:00 UTC: eager (range) since generation 2, "
        "cooperative (cooperative-sticky) before"
    )
    assert found.detail is not None
    assert "It began when old (/10.0.0.9) joined." in found.detail


def test_hostile_names_are_spelt_out_in_every_sentence() -> None:
    evil = "x\n\x1b]0;owned\x07\u202e"
    story = a_group(evil).joins("c1", evil, at_s=0).vanishes(evil, at_s=60)
    found = _only(story, "RB007")
    assert found.subject == evil
    for text in (found.title, found.advice or ""):
        assert not set(text) & {"\n", "\x1b", "\x07", "\u202e"}


def test_two_members_of_one_client_id_and_host_may_each_leave_once() -> None:
    twins = [
        Member(member_id=f"consumer-{i}", client_id="same", client_host="/h", change=MemberChange.JOINED)
        for i in range(6)
    ]
    first = Rebalance(
        cluster_id="c", rebalance_id="g:1", group_id="g", generation_id=1, assigned_at_ms=0, member_count=6,
        trigger=Cause.MEMBER_JOINED, members=tuple(twins), evidence=("record:t-0@0",),
    )  # fmt: skip
    leaving = [
        Rebalance(
            cluster_id="c", rebalance_id=f"g:{i + 2}", group_id="g", generation_id=i + 2,
            assigned_at_ms=1_000 * i + 1_000,
            member_count=5 - i, trigger=Cause.MEMBER_LEFT, evidence=(f"record:t-0@{i + 1}",),
            triggers=(Trigger(trigger=Cause.MEMBER_LEFT, tier=EvidenceTier.LOGGED, members=(f"consumer-{i}",)),),
        )
        for i in range(6)
    ]  # fmt: skip
    assert detect_group([first, *leaving]) == []


def test_every_rebalance_gets_an_excuse_or_counts() -> None:
    story = a_group().joins("c1", at_s=0).skips(3).joins("c2", at_s=5).comes_back_under_its_instance_id("c1", at_s=9)
    history = History(story.rebalances, (), Limits())
    assert set(excuses(history)) == {s.index for s in history.attempts}


def test_labels_say_instance_host_or_worker() -> None:
    assert label(Member(member_id="m", client_id="c", client_host="/h", group_instance_id="i")) == "c (/h, instance i)"
    assert label(Member(member_id="m", client_id="c", worker_url="http://w:8083/")) == "worker w:8083"
    assert label(Member(member_id="c3-0af5ab6e-1f4c-4df3-8a9c-0123456789ab")) == "c3"
    assert identity(Member(member_id="c3-0af5ab6e-1f4c-4df3-8a9c-0123456789ab")) == ("client", "c3")


_TIMES = st.none() | st.integers(min_value=0, max_value=10_000_000)
_NAMES = st.sampled_from(["a", "b", "c\n", ""])
_COUNTS = st.none() | st.integers(min_value=0, max_value=9)
_HELD = st.none() | st.lists(st.sampled_from(["t-0", "t-1", "u"]), max_size=3, unique=True).map(tuple)
_MEMBERS = st.builds(
    Member,
    member_id=_NAMES,
    group_instance_id=st.none() | _NAMES,
    client_id=st.none() | _NAMES,
    client_host=st.none() | _NAMES,
    worker_url=st.none() | _NAMES,
    change=st.sampled_from(["joined", "left", "stayed", "replaced"]),
    session_timeout_ms=_COUNTS,
    rebalance_timeout_ms=_COUNTS,
    subscribed_topics=_HELD,
    supported_assignors=st.none() | st.just(("range",)) | st.just(("cooperative-sticky", "range")),
    owned_before=_HELD,
    assigned=_HELD,
)
_MOVEMENTS = st.builds(
    Movement,
    resource_type=st.just("partition"),
    resource=_NAMES,
    kind=st.sampled_from(tables.MOVEMENT_KINDS),
    from_member_id=st.none() | _NAMES,
    pause_lower_ms=_TIMES,
    pause_estimate_ms=_TIMES,
    pause_upper_ms=_TIMES,
    overlap_ms=_COUNTS,
)
_TRIGGERS = st.builds(
    Trigger,
    trigger=st.sampled_from(tables.TRIGGERS),
    tier=st.just("logged"),
    members=st.lists(_NAMES, max_size=2).map(tuple),
    evidence=st.just(("log:b/s#a@1",)),
)


def _rebalances() -> st.SearchStrategy[list[Rebalance]]:
    one = st.builds(
        Rebalance,
        cluster_id=st.just("c"),
        rebalance_id=st.just("set below"),
        group_id=st.just("g"),
        generation_id=st.none() | st.integers(min_value=0, max_value=60),
        group_epoch=_COUNTS,
        group_type=st.sampled_from(["classic", "consumer", "share", "streams"]),
        protocol_type=st.sampled_from(["consumer", "connect", None]),
        kind=st.sampled_from(tables.REBALANCE_KINDS),
        outcome=st.sampled_from(tables.OUTCOMES),
        mode=st.sampled_from(tables.MODES),
        trigger=st.sampled_from(tables.TRIGGERS),
        member_count=_COUNTS,
        started_at_ms=_TIMES,
        joined_at_ms=_TIMES,
        assigned_at_ms=_TIMES,
        ended_at_ms=_TIMES,
        expected=st.booleans(),
        pause_estimate_ms=_TIMES,
        unassigned_count=_COUNTS,
        avoidable_moved_count=_COUNTS,
        revoked_count=_COUNTS,
        connect_delay_ms=_COUNTS,
        evidence=st.lists(st.sampled_from(["record:t-0@1", "record:t-0@2"]), max_size=2).map(tuple),
        members=st.lists(_MEMBERS, max_size=3, unique_by=lambda m: m.member_id).map(tuple),
        movements=st.lists(_MOVEMENTS, max_size=3).map(tuple),
        triggers=st.lists(_TRIGGERS, max_size=2).map(tuple),
    )
    return st.lists(one, max_size=12)


_TASKS = st.builds(
    ConnectTask,
    cluster_id=st.just("c"),
    group_id=st.just("g"),
    resource_type=st.just("task"),
    connector=_NAMES,
    task=_COUNTS,
    worker_id=st.none() | _NAMES,
    state=st.sampled_from(["RUNNING", "LOST", "FAILED", "UNASSIGNED"]),
    from_ms=st.integers(min_value=0, max_value=10_000_000),
    to_ms=_TIMES,
    detail=st.none() | _NAMES,
    evidence=st.just(("record:s-0@1",)),
).map(lambda t: t if t.to_ms is None else replace(t, to_ms=max(t.from_ms, t.to_ms)))

_INTERVALS = st.lists(_TASKS, max_size=6, unique_by=lambda t: (t.connector, t.task, t.from_ms, t.state))


@settings(max_examples=300)
@given(_rebalances(), _INTERVALS, st.none() | st.integers(min_value=0, max_value=99_000_000))
def test_whatever_is_known_or_not_the_laws_of_findings_hold(
    rebalances: list[Rebalance], tasks: list[ConnectTask], seen_until_ms: int | None
) -> None:
    rebalances = [replace(r, rebalance_id=f"g:{i}") for i, r in enumerate(rebalances)]
    found = detect_group(rebalances, tasks, seen_until_ms=seen_until_ms)
    assert len({f.finding_id for f in found}) == len(found)
    for finding in found:
        assert finding.evidence
        assert finding.severity in tables.SEVERITIES
        assert finding.first_seen_at_ms <= finding.last_seen_at_ms
        assert "\n" not in finding.title
        json.loads(finding.numbers or "")
