"""Captured reassignments: every attempt that was expected by hand is found, none is invented, and the admin API, asked
every 100 ms, saw no state that is no step of ours.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.captures import CAPTURES, name_of
from tests.domain.reassign.scores import score

REASSIGNMENTS = [capture for capture in CAPTURES if capture.name.startswith("reassign_")]


if REASSIGNMENTS:

    @pytest.mark.parametrize("capture", REASSIGNMENTS, ids=name_of)
    def test_what_was_expected_is_found_and_agrees_with_what_was_polled(capture: Path) -> None:
        result = score(capture)
        assert result.faults == []
        assert result.found == result.expected > 0
