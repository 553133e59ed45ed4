"""KIP-848 histories of lab runs: what is read off them is what the lab had set up and done (tests/pairs)."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rebalance_audit.domain.causes import Cause
from rebalance_audit.domain.client_families import ClientFamily
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.history import script_of
from rebalance_audit.domain.replay.life import End
from rebalance_audit.domain.replay.measured import server_timing_of
from rebalance_audit.domain.replay.timing import SERVER_PACES
from tests.captures import GOLDEN, gathered

PAIRS = Path(__file__).parents[2] / "pairs"
UNSEEN = PAIRS.with_name("pairs_unseen")


@cache
def histories(capture: str) -> dict[str, list[Rebalance]]:
    folder = next(f for f in (PAIRS / capture, UNSEEN / capture) if f.exists())
    return {g.group_id: [measure(r) for r in reconstruct(g).rebalances] for g in gathered(folder).groups}


@pytest.mark.parametrize("run", [1, 2, 3])
def test_a_dead_member_is_counted_once_though_two_rebalances_show_it_gone(run: int) -> None:
    """Its successor joined before it was put out, and that rebalance ended after it: d2 was killed once, and d3."""
    capture = {1: "l43-1", 2: "l43-4", 3: "l43-7"}[run]
    rows = histories(capture)[f"deaths.consumer.librdkafka.{run}"]
    script = script_of(rows, rows[-1].ended_at_ms or 0, session_ms=10_000, heartbeat_ms=2_000)
    assert sorted((life.slot[:2], life.end) for life in script.lives if life.ended is not None) == [
        ("d2", End.CRASHED), ("d3", End.CRASHED),
    ]  # fmt: skip
    assert len(script.lives) == 4


@pytest.mark.parametrize(
    ("capture", "group", "interval_ms"),
    [
        ("l43-4", "deaths.consumer.librdkafka.2", 2_000),
        ("j43-1-0", "deploy.consumer.java.1", 2_000),
        ("k43-0", "deaths.consumer-beat.librdkafka.3", 1_000),
        ("k43-3", "deploy.consumer-beat.java.1", 1_000),
        ("k43-3", "deploy.consumer-beat.java.3", 1_000),
    ],
)
def test_the_brokers_heartbeat_interval_is_read_off_joins(capture: str, group: str, interval_ms: int) -> None:
    """A librdkafka newcomer's heartbeat may come 3 ms before its interval says, a Java one's 200 ms after it."""
    assert server_timing_of(histories(capture)[group]).heartbeat_ms == interval_ms


@pytest.mark.parametrize(
    ("capture", "group", "library"),
    [
        ("l43-4", "deaths.consumer.librdkafka.2", ClientFamily.LIBRDKAFKA),
        ("k43-0", "deaths.consumer-beat.librdkafka.3", ClientFamily.LIBRDKAFKA),
        ("j43-1-0", "deploy.consumer.java.1", ClientFamily.JAVA),
        ("k43-3", "deploy.consumer-beat.java.3", ClientFamily.JAVA),
    ],
)
def test_newcomers_heartbeats_show_their_library(capture: str, group: str, library: ClientFamily) -> None:
    """No record names it; the groups' names do."""
    assert server_timing_of(histories(capture)[group]).server_pace is SERVER_PACES[library]


@pytest.mark.parametrize(
    ("waits_ms", "interval_ms"), [([2_143, 2_363, 2_550], 2_000), ([1_941, 4_003, 4_001], 2_000), ([5_020], 5_000)]
)
def test_a_newcomer_waits_an_interval_or_two(waits_ms: list[int], interval_ms: int) -> None:
    """Java's heartbeats come up to half a second later on a busy machine: 2.55 s are one of 2 s, not a half of 5 s."""
    row = next(
        r for r in histories("l43-4")["deaths.consumer.librdkafka.2"] if any(m.kind == "moved" for m in r.movements)
    )
    rows = [
        replace(row, trigger=Cause.MEMBER_JOINED, started_at_ms=1_000_000, assigned_at_ms=1_000_000 + ms)
        for ms in waits_ms
    ]
    assert server_timing_of(rows).heartbeat_ms == interval_ms


@pytest.mark.parametrize(("silence_ms", "session_ms"), [(19_908, 20_000), (12_050, 12_000), (7_480, 7_500)])
def test_a_static_member_that_closed_shows_the_brokers_session(silence_ms: int, session_ms: int) -> None:
    """Its session restarts when it says that it closes; recorded on 4.3.0 with a session of 20 s, then moved."""
    rows = [
        measure(r) for g in gathered(GOLDEN / "4.3.0/kip848_static_restart").groups for r in reconstruct(g).rebalances
    ]
    expiry = next(r for r in rows if r.trigger == "static_member_expired")
    assert expiry.started_at_ms is not None
    stopped_ms = expiry.started_at_ms - silence_ms
    moved = [
        replace(m, stopped_at_lower_ms=stopped_ms, stopped_at_upper_ms=stopped_ms + 85) if m.kind == "moved" else m
        for m in expiry.movements
    ]
    assert server_timing_of([replace(expiry, movements=tuple(moved))]).session_ms == session_ms


@pytest.mark.parametrize(
    ("capture", "group", "session_ms"),
    [
        ("k43-4", "deaths.consumer.java.3", 10_000),
        ("jd44-2", "deaths.consumer.java.2", 10_000),
        ("k43-1", "deaths.consumer-session.java.1", 20_000),
        ("k43-0", "deaths.consumer-beat.librdkafka.1", 10_000),
    ],
)
def test_a_commit_after_the_last_heartbeat_makes_no_session_shorter(capture: str, group: str, session_ms: int) -> None:
    """These members were put out 9.0, 9.0 and 18.9 s after their last commit, and others of the same groups 11.0, 14.0
    and 23.0 s after it; in the last group both after 14.1 s. What the brokers had is in infra/lab/pairs.py."""
    assert server_timing_of(histories(capture)[group]).session_ms == session_ms


def test_what_a_living_member_gives_up_when_another_expires_shows_no_session() -> None:
    """It stopped half a second before; the member that was killed 6.2 s before. The session was 6 s."""
    rows = histories("k43-short")["deaths.consumer-short.librdkafka.6"]
    assert server_timing_of(rows).session_ms == 5_000


@pytest.mark.parametrize(
    ("silences_ms", "session_ms"),
    [([44_000], 45_000), ([49_800, 46_000], 45_000), ([62_000], 60_000), ([50_000, 75_000], 50_000)],
)
def test_the_brokers_default_is_likelier_than_a_rounder_time(silences_ms: list[int], session_ms: int) -> None:
    """With heartbeats of 5 s and commits every 5 s; the last ones committed more rarely."""
    expiry = next(r for r in histories("k43-4")["deaths.consumer.java.3"] if r.trigger == Cause.MEMBER_SESSION_EXPIRED)
    assert expiry.started_at_ms is not None
    rows = [
        replace(
            expiry,
            movements=tuple(replace(m, stopped_at_lower_ms=expiry.started_at_ms - ms) for m in expiry.movements),
        )
        for ms in silences_ms
    ]
    assert server_timing_of(rows).session_ms == session_ms
