"""Histories of Connect clusters in the lab: what is read off them is what the lab had set up and done (tests/pairs)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import mean

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.connect_history import connect_script_of, worker_timing_of
from rebalance_audit.domain.replay.life import End
from tests.captures import GOLDEN, gathered
from tests.connect_truth import journal
from tests.truth import scenario

PAIRS = Path(__file__).parents[2] / "pairs"
LIFE = GOLDEN / "2.7.2" / "connect_connector_life"


@cache
def history(capture: str | Path) -> list[Rebalance]:
    (evidence,) = gathered(PAIRS / capture).groups
    return [measure(r) for r in reconstruct(evidence).rebalances]


@pytest.mark.parametrize("capture", ["c-bounce-workers-1", "c-bounce-workers-2", "c-bounce-delay-5-3"])
def test_a_worker_that_closes_stops_its_work_well_before_it_leaves(capture: str) -> None:
    rows = history(capture)
    (closed,) = [life for life in connect_script_of(rows, rows[-1].ended_at_ms or 0).lives if life.end is End.CLOSED]
    stops = [
        e["at_ms"]
        for e in journal(PAIRS / capture)
        if e["client"] == "worker-3" and e["event"] in ("task_stop_begin", "connector_stop")
    ][:3]
    assert closed.ended is not None
    assert closed.ended.at_ms == pytest.approx(mean(stops), abs=100)
    left_ms = next(r.started_at_ms or 0 for r in rows if r.trigger == "connect_worker_left")
    assert worker_timing_of(rows).leave_ms == (pytest.approx(left_ms - mean(stops), abs=100),)


@pytest.mark.parametrize("capture", ["c-bounce-eager-1", "c-bounce-eager-3", "c-loss-eager-2"])
def test_stops_for_a_new_configuration_are_not_taken_for_heartbeats(capture: str) -> None:
    """All workers join by themselves then, when their tasks have stopped; the lab's heartbeats come every 3 s."""
    assert worker_timing_of(history(capture)).heartbeat_ms == 3_000


def test_a_connector_loses_tasks_and_is_deleted_when_somebody_asks_for_it() -> None:
    """alpha has three tasks, then four, then two; beta is deleted at the end."""
    rows = history(LIFE)
    (asked_ms,) = (a["at_ms"] for a in scenario(LIFE)["actions"] if a["action"] == "delete")
    script = connect_script_of(rows, rows[-1].ended_at_ms or 0)
    counts = [dict(grown.partitions) for grown in script.grown if grown.partitions.get("alpha", 0) >= 2]
    assert [n["alpha"] for n in counts] == [3, 3, 3, 4, 2, 2, 2]
    assert counts[-2:] == [{"alpha": 2, "beta": 3}, {"alpha": 2}]
    assert script.grown[-1].at_ms == pytest.approx(asked_ms, abs=1_000)
