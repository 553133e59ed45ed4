"""KIP-848 worked by hand: the coordinator assigns at once, members follow at their own heartbeats."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rebalance_audit.domain.replay.life import End
from rebalance_audit.domain.replay.outcome import ReplayRun
from rebalance_audit.domain.replay.timing import ServerPace, Timing
from tests.domain.replay.stories import AT_ONCE, KILL, RESTART, replayed, triggers


def consumer(script: Any, timing: Timing = AT_ONCE, **settings: Any) -> ReplayRun:
    given = {"consumer_heartbeat_ms": 2_000, "consumer_session_timeout_ms": 10_000} | settings
    return replayed(replace(script, group_type="consumer", assignor="uniform"), timing, group_protocol="consumer",
                    assignor="uniform", **given)  # fmt: skip


def test_a_join_moves_partitions_in_two_heartbeats() -> None:
    run = consumer(replace(RESTART, until_ms=15_000))
    assert triggers(run) == ["member_joined", "member_joined"]
    # b joined at 10 s, when a heartbeats too: a lets go of two at 10 s, and b is given them at its next one, at 12 s.
    assert run.cost.between_owners_seconds == pytest.approx(2 * 2.0)


def test_a_newcomer_of_java_counts_its_heartbeats_from_saying_that_it_has_nothing() -> None:
    pace = ServerPace(react_ms=(30,), revoke_ms=(40,), deliver_ms=(50,), empty_ms=(100,))
    timing = replace(AT_ONCE, server_pace=pace)
    run = consumer(replace(RESTART, until_ms=15_000), timing)
    # a, which said at 0.05 s that it has all, heartbeats at 10.05 s and lets go at 10.08 s. b said at 10.1 s that it
    # has nothing, is given two at 12.1 s, and begins 50 ms later.
    assert run.cost.between_owners_seconds == pytest.approx(2 * (12.15 - 10.08))


def test_what_a_closed_member_had_waits_for_the_next_heartbeat_of_the_others() -> None:
    run = consumer(replace(RESTART, until_ms=25_000))
    # b closed at 20.5 s, a heartbeats at 22 s.
    assert run.cost.between_owners_seconds == pytest.approx(2 * 2.0 + 2 * 1.5)


def test_a_static_member_that_closes_is_waited_for() -> None:
    run = consumer(RESTART, is_static=True)
    assert triggers(run) == ["member_joined", "member_joined"]
    assert run.rewrite_count == 1
    assert run.cost.owner_idle_seconds == pytest.approx(2 * 5.0)


def test_a_killed_member_is_noticed_at_the_end_of_the_brokers_session() -> None:
    run = consumer(KILL)
    assert triggers(run)[-1] == "member_session_expired"
    # Its last heartbeat was at 20 s: put out at 30 s, when a heartbeats.
    assert run.cost.owner_idle_seconds == pytest.approx(2 * 9.5)
    assert KILL.lives[1].end is End.CRASHED
