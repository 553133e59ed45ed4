"""A frozen worker of an eager group goes on, and stops its work before it joins again: its own log alone shows that.

Without that log an interval is missing, so the capture is none of the golden ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.score import reconstructed, score

CAPTURE = Path(__file__).parents[3] / "not_yet" / "3.9.1" / "connect_eager_mishaps"
RUNS_ON = 2
"""A connector and a task of the frozen worker's."""


@pytest.mark.parametrize("evidence", ["+clients", "logs"])
def test_what_it_stops_then_is_not_its_end_but_that_of_a_second_run(evidence: str) -> None:
    tally = score(CAPTURE, evidence)
    assert not tally.pauses.outside
    assert (tally.connect.runs_found, tally.connect.faults) == (tally.connect.runs, 0)


@pytest.mark.parametrize("evidence", ["all", "records"])
def test_without_its_log_nothing_shows_that_it_went_on(evidence: str) -> None:
    tally = score(CAPTURE, evidence)
    assert not tally.pauses.outside
    assert tally.connect.faults == 0
    assert tally.connect.runs_found == tally.connect.runs - RUNS_ON


def test_its_work_is_handed_on_by_those_that_had_it_meanwhile() -> None:
    rebalances = reconstructed(CAPTURE, "+clients")["connect-lab"].rebalances
    back = next(r for r in rebalances if r.generation_id == 9)
    givers = {(m.connector, m.task): (m.from_worker_url, m.kind) for m in back.movements}
    others = {(m.connector, m.task): m.to_worker_url for r in rebalances if r.generation_id == 8 for m in r.movements}
    for resource, (giver, kind) in givers.items():
        if kind == "moved":
            assert giver == others[resource]
