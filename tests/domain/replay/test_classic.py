"""Stories worked by hand: who waits for whose heartbeat, and what that costs."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from unittest.mock import Mock

import pytest

from rebalance_audit.domain.replay.life import End, Moment, Script, Stall
from rebalance_audit.domain.replay.process import PlayedProcess
from rebalance_audit.domain.replay.replay import replay
from rebalance_audit.domain.replay.settings import GroupSettings
from tests.domain.replay.stories import AT_ONCE, KILL, RESTART, a_life, a_script, replayed, triggers

OF_LIBRARIES = replace(AT_ONCE, deliver_ms=None, leave_ms=None)


def test_what_a_closed_member_had_waits_for_the_next_heartbeat_of_the_others() -> None:
    run = replayed(RESTART)
    assert triggers(run) == ["member_joined", "member_joined", "member_left", "member_joined"]
    # Two partitions from 20.5 s to the heartbeat at 21 s; joins cost nothing, as all let go and begin at once.
    assert run.cost.between_owners_seconds == pytest.approx(1.0)
    assert run.cost.standstill_seconds == pytest.approx(1.0)


def test_a_group_of_new_members_takes_its_own_time_to_its_first_assignment_alone() -> None:
    run = replayed(RESTART, replace(AT_ONCE, first_sync_ms=(60,)))
    assert run.cost.first_wait_seconds == pytest.approx(4 * 0.06)
    assert run.cost.between_owners_seconds == pytest.approx(1.0)


def test_static_membership_saves_the_rebalances_and_leaves_the_partitions_with_their_owner() -> None:
    run = replayed(RESTART, is_static=True)
    assert triggers(run) == ["member_joined", "member_joined"]
    assert run.rewrite_count == 1
    assert run.cost.owner_idle_seconds == pytest.approx(10.0)  # two partitions from 20.5 s to 25.5 s
    assert run.cost.between_owners_seconds == 0


def test_a_cooperative_join_costs_a_heartbeat_for_what_moves() -> None:
    run = replayed(RESTART, assignor="cooperative-sticky")
    assert triggers(run) == [
        "member_joined", "member_joined", "cooperative_follow_up", "member_left", "member_joined",
        "cooperative_follow_up",
    ]  # fmt: skip
    # Two joins of two partitions, 3 s each; the close as in an eager group.
    assert run.cost.between_owners_seconds == pytest.approx(6.0 + 1.0 + 6.0)


@pytest.mark.parametrize(("sync_ms", "waited_s"), [(19, 3.0), (50, 0.05)])
def test_a_follow_up_is_answered_to_a_newcomer_that_has_not_asked_for_its_assignment(
    sync_ms: int, waited_s: float
) -> None:
    """a lets go of two at 12 s and joins again 20 ms later. b asks for its assignment after 19 ms and hears of the
    follow-up at 15 s, with its heartbeat; or after 50 ms, and hears of it with that."""
    timing = replace(AT_ONCE, rejoin_ms=(20,), newcomer_sync_ms=(sync_ms,))
    run = replayed(replace(RESTART, until_ms=18_000), timing, assignor="cooperative-sticky")
    assert run.cost.between_owners_seconds == pytest.approx(2 * waited_s)


@pytest.mark.parametrize(("library", "hears_s"), [("librdkafka", 18.3), ("java", 21.0)])
def test_a_member_of_librdkafka_that_is_back_may_heartbeat_soon(library: str, hears_s: float) -> None:
    """b left at 12 s, busy beyond its interval, and a hears of it at 15 s. b is back at 17 s; a hears of that at 18 s,
    and gives it two partitions. Where b sends its own first heartbeat 300 ms later, it hears then of the follow-up."""
    timing = replace(AT_ONCE, return_beat_ms=(300,))
    busy = a_life("b", 2_000, stalls=(Stall(since=Moment.known(7_000), until_ms=17_000),))
    lives = [replace(life, libraries=(library,)) for life in (a_life("a", 0), busy)]
    run = replayed(a_script(*lives, until_ms=24_000), timing, assignor="cooperative-sticky", max_poll_interval_ms=5_000)
    moved = [s for s in run.stood if s[1] == 18_000]
    assert [s[2] for s in moved] == [pytest.approx(1_000 * hears_s)] * 2


def test_a_killed_member_is_noticed_at_the_end_of_its_session() -> None:
    run = replayed(KILL)
    assert triggers(run)[-1] == "member_session_expired"
    # Its last heartbeat was at 18 s; the group puts it out at 28 s, and the other one hears of it at 30 s.
    assert run.cost.owner_idle_seconds == pytest.approx(2 * 7.5)
    assert run.cost.between_owners_seconds == pytest.approx(2 * 2.0)


def test_a_longer_session_is_paid_for_by_a_member_that_is_really_dead() -> None:
    run = replayed(KILL, session_timeout_ms=31_000)
    assert run.cost.owner_idle_seconds == pytest.approx(2 * 28.5)
    assert run.cost.between_owners_seconds == pytest.approx(2 * 2.0)


def test_a_cold_group_waits_for_the_initial_delay() -> None:
    run = replayed(a_script(a_life("a", 0), a_life("b", 1_000)), initial_delay_ms=3_000)
    # b came within the delay, which begins once more: four partitions from 0 to 6 s.
    assert run.cost.first_wait_seconds == pytest.approx(24.0)
    assert triggers(run) == ["member_joined"]


@pytest.mark.parametrize(("again", "waits_s"), [(True, 6), (False, 3)])
def test_a_group_that_was_emptied_waits_once_more_only_at_a_coordinator_in_java(again: bool, waits_s: int) -> None:
    """a leaves the group empty at 10 s (four partitions waited for 3 s before). Then it starts again, and b a second
    later, within the delay of 3 s."""
    lives = a_life("a", 0, 10_000, End.CLOSED), a_life("a", 60_000), a_life("b", 61_000)
    run = replayed(a_script(*lives, until_ms=90_000), replace(AT_ONCE, delays_again=again), initial_delay_ms=3_000)
    assert run.cost.first_wait_seconds == pytest.approx(4 * (3 + waits_s))
    unknown = [replay(a_script(*lives, until_ms=90_000), GroupSettings(initial_delay_ms=3_000), AT_ONCE, Random(seed))
               for seed in range(20)]  # fmt: skip
    assert {round(r.cost.first_wait_seconds) for r in unknown} == {24, 36}


def test_a_rebalance_timeout_does_not_shorten_the_initial_delay() -> None:
    """Nor is there time left then for a second one."""
    script = a_script(a_life("a", 0), a_life("b", 1_000))
    run = replayed(script, initial_delay_ms=3_000, max_poll_interval_ms=2_000)
    assert run.cost.first_wait_seconds == pytest.approx(4 * 3)


def test_each_join_phase_waits_for_its_own_rebalance_timeout() -> None:
    """b is killed at 10 s and has its place for long. c asks to join at 20 s: all wait for b until 80 s, although the
    join phase that a began at 0 would have been over at 60 s."""
    script = a_script(a_life("a", 0), a_life("b", 1_000, 10_000, End.CRASHED), a_life("c", 20_000), until_ms=120_000)
    run = replayed(script, session_timeout_ms=600_000, max_poll_interval_ms=60_000)
    assert max(until_ms for _, _, until_ms, _ in run.stood) == pytest.approx(80_000)


def test_a_member_busy_beyond_its_interval_is_put_out_and_comes_back() -> None:
    busy = a_life("b", 0, stalls=(Stall(since=Moment.known(10_000), until_ms=30_000),))
    run = replayed(a_script(a_life("a", 0), busy), max_poll_interval_ms=8_000)
    assert triggers(run) == ["member_joined", "member_joined", "member_poll_timeout", "member_joined"]
    longer = replayed(a_script(a_life("a", 0), busy), max_poll_interval_ms=60_000)
    assert triggers(longer) == ["member_joined", "member_joined"]
    assert longer.cost.standstill_seconds < run.cost.standstill_seconds


@pytest.mark.parametrize(("library", "heard_s"), [("librdkafka", 21), ("java", 24)])
def test_heartbeats_of_a_busy_java_member_come_late(library: str, heard_s: int) -> None:
    """b is busy from 10 s on and stops to heartbeat at 16 s. Its last heartbeat was at 15 s: a session of 5.999 s ends
    just before a's heartbeat at 21 s. Java's heartbeats at 12 and 15 s come up to 100 ms late each: after it."""
    stall = Stall(since=Moment.known(10_000), until_ms=None)
    lives = [
        replace(a_life("a", 0), libraries=(library,)),
        replace(a_life("b", 0, stalls=(stall,)), libraries=(library,)),
    ]
    run = replayed(a_script(*lives), is_static=True, session_timeout_ms=5_999, max_poll_interval_ms=6_000)
    assert triggers(run)[-1] == "static_member_expired"
    assert run.cost.standstill_seconds == pytest.approx(2 * (heard_s - 16))


def _busy_for_good(library: str, since_ms: int) -> Script:
    """a and b, who is busy from then on. Both joined at 0."""
    stall = Stall(since=Moment.known(since_ms), until_ms=None)
    lives = [a_life("a", 0), a_life("b", 0, stalls=(stall,))]
    return a_script(*(replace(life, libraries=(library,)) for life in lives))


@pytest.mark.parametrize(("library", "left_s"), [("librdkafka", 18.5), ("java", 18.2)])
def test_librdkafka_notices_a_busy_application_when_its_thread_wakes(library: str, left_s: float) -> None:
    """b has not polled for 8 s at 18.2 s. librdkafka's thread wakes on half seconds after the join. a hears of it at
    21 s, and takes b's two partitions."""
    run = replayed(_busy_for_good(library, 10_200), max_poll_interval_ms=8_000)
    assert run.cost.standstill_seconds == pytest.approx(2 * (21 - left_s))


def test_a_heartbeat_beside_the_notice_comes_before_or_after_it() -> None:
    """b leaves at 18 s, when a's heartbeat comes, too: a hears of it then, or 3 s later."""
    script, timing = _busy_for_good("librdkafka", 10_000), replace(AT_ONCE, beats_differ_ms=15)
    settings = GroupSettings(max_poll_interval_ms=8_000)
    costs = [replay(script, settings, timing, Random(seed)).cost.standstill_seconds for seed in range(400)]
    assert {round(cost) for cost in costs} == {0, 6}
    assert sum(cost > 3 for cost in costs) / len(costs) == pytest.approx(0.5, abs=0.1)


def test_a_static_member_of_librdkafka_sends_the_heartbeat_due_when_it_notices() -> None:
    """Heartbeats come each 3.004 s. b notices at 18.024 s, with its sixth heartbeat. Its session of 5.5 s ends at
    23.524 s, and a hears of it with its eighth."""
    settings = {"is_static": True, "session_timeout_ms": 5_500, "max_poll_interval_ms": 8_000}
    run = replayed(_busy_for_good("librdkafka", 10_000), replace(AT_ONCE, drift_ms=(4,)), **settings)
    assert triggers(run)[-1] == "static_member_expired"
    assert run.cost.standstill_seconds == pytest.approx(2 * (24.032 - 18.024))


@pytest.mark.parametrize(("poll_interval_ended_ms", "last_ms"), [(15_199, 12_100), (15_201, 15_200)])
def test_no_heartbeat_goes_out_once_the_poll_interval_is_over(poll_interval_ended_ms: int, last_ms: int) -> None:
    """Busy from 10 s on, with heartbeats of 3 s: the one of 9 s was in time, those after it are 100 ms late each."""
    process = PlayedProcess(a_life("a", 0), None, "a", 6_000, 6_000)
    process.busy_since_ms = 10_000
    always_latest = Mock(uniform=lambda _, latest: latest)
    assert process.last_late_beat_ms(poll_interval_ended_ms, always_latest, 100) == last_ms


def test_only_the_last_one_of_a_join_phase_is_as_late_as_the_history_shows() -> None:
    """a and b hear of c at 12 s. One of them stops a second later, when everybody has joined. The other one stopped
    within 42 ms, and its three partitions wait for a second."""
    script = a_script(a_life("a", 0), a_life("b", 0), a_life("c", 10_000), partitions=6)
    cost = replayed(script, replace(AT_ONCE, react_ms=(1_000,))).cost.between_owners_seconds
    assert 3 * (1 - 0.042) <= cost <= 3


def test_a_java_process_takes_its_first_partitions_later_than_its_next() -> None:
    """b takes two of a's four partitions at 12 s, its first; a keeps the others."""
    script = a_script(a_life("a", 0), a_life("b", 10_000))
    waits = sorted(to_ms - from_ms for _, from_ms, to_ms, why in replayed(script, OF_LIBRARIES).stood if from_ms > 0)
    assert 1 <= waits[0] == waits[1] <= 15
    assert 8 <= waits[2] == waits[3] <= 113


def test_a_heartbeat_that_was_due_in_a_join_follows_it_at_once() -> None:
    """librdkafka. b's last heartbeat was at 18 s, and its session ends at 38 s. Its successor asks to join at 25 s, a
    hears of it at 27 s, and both wait for b. a's heartbeats of 30 to 36 s are due then: they go on from 38 s, as the
    newcomer's do, and at 41 s both hear of c. In the old rhythm a would hear at 42 s, and b's two wait for it."""
    lives = [a_life("a", 0), a_life("b", 10_000, 20_500, End.CRASHED), a_life("b", 25_000), a_life("c", 39_500)]
    script = a_script(*(replace(life, libraries=("librdkafka",)) for life in lives))
    run = replayed(script, session_timeout_ms=20_000)
    assert run.cost.standstill_seconds == pytest.approx(2 * (38 - 20.5) + 2 * (38 - 27))


@pytest.mark.parametrize(("library", "apart_s"), [("librdkafka", 1), ("java", 0)])
def test_librdkafka_counts_heartbeats_on_over_a_join_that_took_long(library: str, apart_s: int) -> None:
    """a hears of b's successor at 27 s, lets go, and both wait until b's session ends at 28.3 s. Java's heartbeats
    begin anew there: both hear of c at 40.3 s. librdkafka's a sent its last one at 27 s. The next is due at 30 s, and
    goes out when its thread wakes, 2 s after the join. The third after that comes at 39.3 s: its two partitions wait a
    second for b."""
    lives = [a_life("a", 0), a_life("b", 10_000, 18_500, End.CRASHED), a_life("b", 25_000), a_life("c", 38_900)]
    run = replayed(a_script(*(replace(life, libraries=(library,)) for life in lives)), session_timeout_ms=10_300)
    assert run.cost.standstill_seconds == pytest.approx(2 * (28.3 - 18.5) + 2 * (28.3 - 27) + 2 * apart_s)


def test_letting_go_is_drawn_once_for_a_join_phase() -> None:
    """a lets go of six partitions for b, and both of three each for c, in 10 or in 100 ms. Both times it takes 100 ms
    in a quarter of the runs; if a and b drew apart, the slower of them would make it three eighths."""
    script = a_script(a_life("a", 0), a_life("b", 1_000), a_life("c", 10_000), partitions=6)
    timing = replace(AT_ONCE, revoke_ms=(10, 100))
    costs = [replay(script, GroupSettings(), timing, Random(seed)).cost.between_owners_seconds for seed in range(400)]
    assert {round(cost, 3) for cost in costs} == {0.12, 0.66, 1.2}
    assert sum(cost > 1 for cost in costs) / len(costs) == pytest.approx(0.25, abs=0.05)


def test_libraries_give_up_and_take_at_their_own_pace() -> None:
    def cost(library: str) -> float:
        lives = [replace(life, libraries=(library,)) for life in RESTART.lives]
        return replayed(replace(RESTART, lives=tuple(lives)), OF_LIBRARIES).cost.standstill_seconds

    # Six partition-moves take 1 to 11 ms each with librdkafka, 3 to 80 ms with sarama; sarama leaves 139 ms later.
    assert cost("librdkafka") < cost("sarama")


def test_everybody_waits_for_a_busy_member_that_has_not_exceeded_its_interval() -> None:
    busy = a_life("b", 0, stalls=(Stall(since=Moment.known(10_000), until_ms=30_000),))
    run = replayed(a_script(a_life("a", 0), busy, a_life("c", 20_000)))
    # a lets go of its two partitions at its heartbeat at 21 s; b joins when it polls again, at 30 s.
    assert run.cost.between_owners_seconds == pytest.approx(2 * 9.0)


def test_a_group_that_nobody_runs_costs_nothing() -> None:
    run = replayed(a_script(a_life("a", 0, 10_000, End.CLOSED), a_life("a", 50_000)))
    assert triggers(run) == ["member_joined", "member_left", "member_joined"]
    assert run.cost.standstill_seconds == 0


def test_a_member_that_does_not_leave_on_close_is_missed_for_its_session() -> None:
    run = replayed(RESTART, leaves_on_close=False)
    # The old b holds two partitions from 20.5 s to 30.5 s, ten seconds after its last commit, as it closed (measured on
    # 3.9.1 and 4.3.0). The new b has joined by then, and a has let go of its two at 27 s: all wait for the old one.
    assert triggers(run) == ["member_joined", "member_joined", "member_joined"]
    assert run.cost.owner_idle_seconds == pytest.approx(2 * 10.0)
    assert run.cost.between_owners_seconds == pytest.approx(2 * 3.5)


def test_the_same_seed_gives_the_same_run() -> None:
    assert replayed(KILL).cost == replayed(KILL).cost
