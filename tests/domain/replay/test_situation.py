"""What a group's history is replayed with: how late its members were, and how much else could have been."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate

import pytest

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.kinds import MemberChange, Mode, Outcome
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.life import End
from rebalance_audit.domain.replay.measured import Measured, timing_of
from rebalance_audit.domain.replay.settings import GroupSettings
from rebalance_audit.domain.replay.situation import LAST_STEP_MS, Situation, TooLittle, runs_of, situation_of
from rebalance_audit.domain.replay.standstill import Standstill
from rebalance_audit.domain.replay.whatif import option_of
from tests.captures import GOLDEN, gathered
from tests.domain.replay.stories import AT_ONCE, a_life, a_script

SESSION = "session.timeout.ms"
EAGER = GOLDEN / "4.3.0" / "eager_join_leave_kill"


@pytest.mark.parametrize(
    ("library", "mode", "drift_ms", "late_ms"),
    [("librdkafka", "eager", 1, 49), ("java", "eager", 6, 50), ("java", "cooperative", 8, 50)],
)
def test_what_an_eager_member_needs_to_let_go_is_no_part_of_its_lateness(
    library: str, mode: str, drift_ms: int, late_ms: int
) -> None:
    """Each join phase ends 3.008 s after the one before, the last one 3.058 s. librdkafka joins 8 ms after its revoked
    callback, Java 2 ms; cooperative ones revoke later. The rest is their heartbeats', 1 ms at least, and the last
    member to join was 50 ms later."""
    measured = [measure(r) for r in reconstruct(gathered(EAGER).groups[0]).rebalances]
    row = next(r for r in measured if any(m.change == "stayed" for m in r.members))
    members = tuple(replace(m, change=MemberChange.STAYED, client_libraries=(library,)) for m in row.members)
    joined_ms = [3_008, 6_016, 9_024, 12_032, 15_090]
    rows = [
        replace(row, trigger=Cause.MEMBER_JOINED, mode=Mode(mode), members=members, started_at_ms=at_ms - 500,
                joined_at_ms=at_ms, assigned_at_ms=at_ms)
        for at_ms in joined_ms
    ]  # fmt: skip
    timing = timing_of(rows)
    assert list(timing.drift_ms) == [drift_ms]
    assert max(timing.react_ms) == late_ms


@pytest.mark.parametrize(
    ("windows", "interval_ms"),
    [
        # (since the join phase before, since its start); a killed member's session ends the third of the first two.
        ([(9_017, 627), (9_020, 1_171), (19_015, 3_491)], 3_000),
        ([(9_017, 627), (8_023, 171), (19_015, 3_491)], 1_000),
        ([(9_010, 600), (9_012, 700)], 3_000),
        ([(9_010, 600), (8_010, 900), (7_010, 800)], 1_000),
        ([(9_010, 600), (9_700, 700)], 3_000),
    ],
)
def test_the_interval_is_the_one_at_whose_heartbeats_most_join_phases_end(
    windows: list[tuple[int, int]], interval_ms: int
) -> None:
    """The default where both fit as many: all that end at every third second end at one of each, too."""
    row = next(
        r for r in reconstruct(gathered(EAGER).groups[0]).rebalances if any(m.change == "stayed" for m in r.members)
    )
    ended_ms = list(accumulate((since for since, _ in windows), initial=1_000_000))
    started_ms = [ended_ms[0] - 1, *(end - took for end, (_, took) in zip(ended_ms[1:], windows, strict=True))]
    rows = [
        replace(row, trigger=Cause.MEMBER_JOINED, started_at_ms=started, joined_at_ms=ended, assigned_at_ms=ended)
        for started, ended in zip(started_ms, ended_ms, strict=True)
    ]
    assert timing_of(rows).heartbeat_ms == interval_ms


def test_the_first_assignment_of_new_members_says_nothing_of_later_ones() -> None:
    """A JVM that has just started assigns for the first time: 60 ms, where its later assignments take 3 to 9."""
    rows = reconstruct(gathered(EAGER).groups[0]).rebalances
    row = next(r for r in rows if any(m.change == "stayed" for m in r.members))
    new = replace(row, members=tuple(replace(m, change=MemberChange.JOINED) for m in row.members))
    took = [(new, 60), (row, 9), (row, 3), (row, 5)]
    timing = timing_of([replace(r, joined_at_ms=1_000_000, assigned_at_ms=1_000_000 + ms) for r, ms in took])
    assert (timing.first_sync_ms, timing.sync_ms) == ((60,), (3, 5, 9))
    quick = timing_of(
        [replace(r, joined_at_ms=1_000_000, assigned_at_ms=1_000_000 + ms) for r, ms in [*took, (new, 4)]]
    )
    assert (quick.first_sync_ms, quick.sync_ms) == (None, (3, 4, 5, 9, 60)), "new members are no slower by themselves"
    few = timing_of([replace(r, joined_at_ms=1_000_000, assigned_at_ms=1_000_000 + ms) for r, ms in took[:3]])
    assert (few.first_sync_ms, few.sync_ms) == (None, (3, 9, 60)), "two later ones are too few"


@pytest.mark.parametrize(("took_ms", "synced_ms"), [(2_990, 0), (20, 45)])
def test_a_follow_up_shows_whether_the_newcomer_had_asked_for_its_assignment(took_ms: int, synced_ms: int) -> None:
    """It began 25 ms after the join phase. It waited for a heartbeat, or for the newcomer's request 45 ms after it."""
    rows = [measure(r) for r in reconstruct(gathered(EAGER).groups[0]).rebalances]
    row = next(r for r in rows if any(m.change == "joined" for m in r.members))
    joined = replace(row, trigger=Cause.MEMBER_JOINED, joined_at_ms=1_000_000, assigned_at_ms=1_000_009)
    follow_up = replace(
        row, trigger=Cause.COOPERATIVE_FOLLOW_UP, started_at_ms=1_000_025, joined_at_ms=1_000_025 + took_ms,
        assigned_at_ms=1_000_030 + took_ms,
    )  # fmt: skip
    draws = timing_of([joined, follow_up]).newcomer_sync_ms or ()
    assert draws.count(synced_ms) >= len(draws) / 2


def test_kafka_go_needs_long_to_let_go_and_has_heartbeats_of_three_seconds_still() -> None:
    """277 ms from its revoked callback to its request to join: about a tenth of the interval after its heartbeat."""
    (group,) = gathered(GOLDEN / "4.3.0" / "kafka_go_join_leave_kill").groups
    assert timing_of([measure(r) for r in reconstruct(group).rebalances]).heartbeat_ms == 3_000


@pytest.mark.parametrize(
    ("starts", "delay_ms", "again"),
    [
        # (generation, members that join, ms until the join phase ends)
        ([(1, 1, 3_002)], 3_000, None),
        ([(1, 3, 6_004)], 3_000, None),
        ([(1, 1, 6_001)], 6_000, None),
        ([(1, 2, 5_003)], 5_000, None),
        ([(1, 1, 3_001), (5, 2, 6_003)], 3_000, True),
        ([(1, 3, 9_006), (5, 2, 3_003)], 3_000, False),
        ([(5, 1, 3_003)], 0, None),
        ([(1, 1, 90)], 0, None),
    ],
)
def test_cold_starts_show_the_initial_delay(
    starts: list[tuple[int, int, int]], delay_ms: int, again: bool | None
) -> None:
    """One member waits for one delay. Several may have waited one for each; 6 s are two of the default, 5 s are one of
    5 s. A history that begins with generation 5 does not say that the group was empty before."""
    row = measure(next(r for r in reconstruct(gathered(EAGER).groups[0]).rebalances if r.outcome == "completed"))
    member = next(m for m in row.members if m.change == "joined")
    rows = []
    for generation_id, count, wait_ms in starts:
        members = tuple(replace(member, member_id=f"m{n}") for n in range(count))
        rows.append(replace(row, generation_id=generation_id, members=members, started_at_ms=1_000,
                            joined_at_ms=1_000 + wait_ms, assigned_at_ms=None))  # fmt: skip
        rows.append(replace(row, generation_id=generation_id + 1, members=(), outcome=Outcome.EMPTIED))
    timing = timing_of(rows)
    assert (timing.initial_delay_ms, timing.delays_again) == (delay_ms, again)


@pytest.mark.parametrize(("capture", "again", "waits_ms"), [("d39", False, 3_000), ("d44", True, 6_000)])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_an_emptied_group_waits_once_more_at_the_coordinator_in_java(
    capture: str, again: bool, waits_ms: int, number: int
) -> None:
    """The lab closed three members and started them again 5 s later, on 3.9.1 (Scala) and on 4.4.0 (Java)."""
    groups = gathered(GOLDEN.parent / "pairs_unseen" / f"{capture}-{number}").groups
    (evidence,) = (g for g in groups if g.group_id.startswith("deploy.at-once-delay"))
    rows = [measure(r) for r in reconstruct(evidence).rebalances]
    timing, back = timing_of(rows), rows[-1]
    assert (timing.initial_delay_ms, timing.delays_again) == (3_000, again)
    assert (back.joined_at_ms or 0) - (back.started_at_ms or 0) == pytest.approx(waits_ms, abs=10)


@pytest.mark.parametrize(("library", "least_ms", "most_ms"), [("java", 600, 1_000), ("librdkafka", 180, 300)])
def test_a_java_process_might_have_started_much_earlier_or_later(library: str, least_ms: int, most_ms: int) -> None:
    lives = [replace(life, libraries=(library,)) for life in (a_life("a", 0), a_life("b", 10_000))]
    settings = GroupSettings()
    situation = Situation(a_script(*lives), AT_ONCE, Measured(Standstill(), 0, 0), (), settings)
    later_ms = [abs(run.rebalances[1].at_ms - 10_000) for run in runs_of(situation, settings, LAST_STEP_MS + 1)]
    assert least_ms < max(later_ms) <= most_ms


@pytest.mark.parametrize(("lasted_s", "most_ms"), [((4, 6, 8), 2_000), ((1, 1, 9), 1_000), ((5, 5, 5), 300)])
def test_restarts_that_lasted_differently_might_have_lasted_otherwise(lasted_s: tuple[int, ...], most_ms: int) -> None:
    """By half of what those of one deploy differ by, and none so that a process starts before it was closed."""
    lives = [a_life(name, 0, 1_000 * closed_s, End.CLOSED) for name, closed_s in zip("abc", (20, 40, 60), strict=True)]
    lives += [
        a_life(name, 1_000 * (closed_s + away_s))
        for name, closed_s, away_s in zip("abc", (20, 40, 60), lasted_s, strict=True)
    ]
    script = a_script(*(replace(life, libraries=("librdkafka",)) for life in lives), until_ms=100_000)
    situation = Situation(script, AT_ONCE, Measured(Standstill(), 0, 0), (), GroupSettings())
    runs = runs_of(situation, GroupSettings(), LAST_STEP_MS + 1)
    later_ms = [abs(run.rebalances[-1].at_ms - 1_000 * (60 + lasted_s[-1])) for run in runs]
    assert {run.rebalances[-1].trigger for run in runs} == {"member_joined"}
    assert 0.6 * most_ms < max(later_ms) <= most_ms


@pytest.mark.parametrize(
    ("library", "refused"),
    [
        ("librdkafka", f"b runs librdkafka, which refuses a {SESSION} (10000) above its max.poll.interval.ms (8000)"),
        ("java", None),
    ],
)
def test_librdkafka_refuses_a_session_that_outlasts_the_poll_interval(library: str, refused: str | None) -> None:
    lives = [a_life("a", 0), replace(a_life("b", 5_000), libraries=(library,)), a_life("c", 10_000)]
    situation = Situation(a_script(*lives), AT_ONCE, Measured(Standstill(), 0, 0), (), GroupSettings())
    assert option_of(situation, ["max.poll.interval.ms=8s"]).refused == refused
    assert option_of(situation, ["max.poll.interval.ms=10s"]).refused is None


def test_a_streams_application_is_called_one() -> None:
    (group,) = gathered(GOLDEN / "3.9.1" / "streams_standby").groups
    rows = [measure(r) for r in reconstruct(group).rebalances]
    with pytest.raises(TooLittle, match="is a Kafka Streams group; consumers and Connect workers are replayed"):
        situation_of(rows, max(r.ended_at_ms or 0 for r in rows))
