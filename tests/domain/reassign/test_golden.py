"""Captured reassignments: every attempt that was expected by hand is found, none is invented, each has the states the
cluster itself wrote down and when, and the admin API, asked every 100 ms, saw no state that is no step of ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures import CAPTURES, name_of
from tests.domain.reassign.scores import CONTROLLERS, evidence_of, score

REASSIGNMENTS = [
    pytest.param(capture, evidence, id=f"{name_of(capture)} {evidence}")
    for capture in CAPTURES
    if capture.name.startswith("reassign_")
    for evidence in evidence_of(capture)
    if evidence != CONTROLLERS
]
OF_CONTROLLERS = [c for c in CAPTURES if c.name.startswith("reassign_") and CONTROLLERS in evidence_of(c)]


@pytest.mark.parametrize(("capture", "evidence"), REASSIGNMENTS)
def test_what_was_expected_is_found_and_agrees_with_what_was_written_and_polled(capture: Path, evidence: str) -> None:
    result = score(capture, evidence)
    assert result.faults == []
    assert result.found == result.expected == result.ladders_exact > 0


@pytest.mark.parametrize("capture", OF_CONTROLLERS, ids=name_of)
def test_controllers_logs_alone_show_less_and_invent_nothing(capture: Path) -> None:
    result = score(capture, CONTROLLERS)
    assert result.invented == 0
    assert 0 < result.found <= result.expected
