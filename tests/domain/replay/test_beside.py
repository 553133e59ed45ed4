"""What is drawn of a history and of its replay is what their costs are the sums of."""

from collections.abc import Sequence

import pytest

from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance
from rebalance_audit.domain.reconstruct import reconstruct
from rebalance_audit.domain.replay.beside import beside
from rebalance_audit.domain.replay.fleet import FLEET_RUNS
from rebalance_audit.domain.replay.meanings import beyond_pauses
from rebalance_audit.domain.replay.measured import measured_cost
from rebalance_audit.domain.replay.standstill import Stood
from tests.captures import GOLDEN, gathered


def history(capture: str) -> list[Rebalance]:
    """Of the capture's largest group."""
    return max(([measure(r) for r in reconstruct(g).rebalances] for g in gathered(GOLDEN / capture).groups), key=len)


def seconds(stood: Sequence[Stood]) -> float:
    return sum(s.until_ms - s.from_ms for s in stood) / 1000


@pytest.mark.parametrize(
    ("capture", "setting"),
    [
        ("4.3.0/rolling_deploy", "heartbeat.interval.ms=1000"),
        ("4.3.0/connect_worker_lost", "scheduled.rebalance.max.delay.ms=0"),
        ("4.3.0/kip848_join_leave", "group.consumer.heartbeat.interval.ms=3000"),
        ("4.3.0/storm", "max.poll.interval.ms=600000"),
    ],
)
def test_both_time_lines_add_up_to_their_costs(capture: str, setting: str) -> None:
    rows = history(capture)
    found = beside(rows, max(r.ended_at_ms or 0 for r in rows) + 1_000, [setting], FLEET_RUNS)
    assert found.fit.refused is None
    assert seconds(found.was) == pytest.approx(found.fit.measured_seconds, abs=0.002)
    assert seconds(found.would) == pytest.approx(found.option.cost_seconds, abs=0.002)
    assert len(found.would_rebalances) > 0
    known = {m.resource for row in rows for m in row.movements}
    assert {s.resource for s in (*found.was, *found.would)} <= known
    assert all(s.from_ms <= s.until_ms for s in (*found.was, *found.would))


def test_what_a_replay_counts_beyond_the_groups_pauses_is_said() -> None:
    """In `storm` a busy member of two partitions is put out six times, and the others wait some 2.9 s for them."""
    rows = history("4.3.0/storm")
    measured = measured_cost(rows)
    assert measured.beyond_pauses_seconds == pytest.approx(6 * 2 * 2.9, rel=0.03)
    pauses_ms = sum(max(0, m.pause_estimate_ms or 0) for r in rows for m in r.movements if m.kind != "assigned")
    assert measured.cost.standstill_seconds - measured.beyond_pauses_seconds == pytest.approx(pauses_ms / 1000)
    said = beyond_pauses(measured.beyond_pauses_seconds)
    assert said is not None
    assert said.startswith("35.")
    assert beyond_pauses(0.2) is None
