"""Members of librdkafka that leave without a reason: closed, put out for not polling, or removed (tests/pairs)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.departures import with_poll_timeouts
from rebalance_audit.domain.replay.situation import situation_of
from rebalance_audit.domain.replay.whatif import fit_of
from tests.captures import gathered
from tests.truth import written_events

PAIRS = Path(__file__).parents[2] / "pairs"
HEARTBEAT_MS = 3_000
STALLED = [("l43-2", "stalls.range.librdkafka.1"), ("l39-1", "stalls.range.librdkafka.2")]


@cache
def history(capture: str, group_id: str) -> list[Rebalance]:
    (evidence,) = (g for g in gathered(PAIRS / capture).groups if g.group_id == group_id)
    return [measure(r) for r in reconstruct(evidence).rebalances]


@pytest.mark.parametrize(("capture", "group_id"), STALLED)
def test_whoever_did_not_commit_as_it_left_was_busy(capture: str, group_id: str) -> None:
    """The lab kept d2 busy for 14 s and d3 for 10 s, with a poll interval of 6 s."""
    rows = history(capture, group_id)
    assert "unknown" in {row.trigger for row in rows}
    case = situation_of(rows, (rows[-1].ended_at_ms or 0) + 1_000)
    found = [(life.slot, stall.since.at_ms, stall.until_ms) for life in case.script.lives for stall in life.stalls]
    truth = [e for e in written_events(PAIRS / capture) if e["client"].startswith(f"{group_id}.")]
    starts = {e["client"][-2:]: e["at_ms"] for e in truth if e["event"] == "stall_start"}
    ends = {e["client"][-2:]: e["at_ms"] for e in truth if e["event"] == "stall_end"}
    assert found == [(n, pytest.approx(starts[n], abs=700), pytest.approx(ends[n], abs=100)) for n in ("d2", "d3")]
    assert fit_of(case).causes == 1


def causes(rows: Sequence[Rebalance]) -> list[str]:
    return [row.trigger for row in with_poll_timeouts(rows, HEARTBEAT_MS)]


def after_the_commit(rows: Sequence[Rebalance], number: int, silent_ms: int) -> list[Rebalance]:
    """The same, had the member that left in that row committed so long before."""
    row = rows[number]
    commit_ms = (row.started_at_ms or 0) - silent_ms
    moved = tuple(replace(m, stopped_at_lower_ms=commit_ms) for m in row.movements)
    return [*rows[:number], replace(row, movements=moved), *rows[number + 1 :]]


def test_what_a_close_or_a_removal_would_look_like_stays_open() -> None:
    """The poll interval is 6 s, and a timer commits every 5 s."""
    rows = history(*STALLED[0])
    (left,) = (n for n, row in enumerate(rows) if row.trigger == "unknown")
    assert causes(rows)[left] == causes(after_the_commit(rows, left, 6_000))[left] == "member_poll_timeout"
    assert causes(after_the_commit(rows, left, 0))[left] == "unknown"
    assert causes(after_the_commit(rows, left, 9_000))[left] == "unknown"
    # A member that was removed hears of it at its next heartbeat, and is back at once.
    back = replace(rows[left + 1], started_at_ms=(rows[left].started_at_ms or 0) + HEARTBEAT_MS)
    assert causes([*rows[: left + 1], back, *rows[left + 2 :]])[left] == "unknown"
    assert causes(rows[: left + 1])[left] == "unknown"
