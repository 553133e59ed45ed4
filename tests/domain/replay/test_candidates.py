"""Which settings are tried: those that a history can gain from."""

from __future__ import annotations

import pytest

from rebalance_audit.domain.replay.candidates import candidates
from rebalance_audit.domain.replay.life import Script
from rebalance_audit.domain.replay.measured import Measured
from rebalance_audit.domain.replay.settings import GroupSettings
from rebalance_audit.domain.replay.situation import Situation
from rebalance_audit.domain.replay.standstill import Standstill
from tests.domain.replay.stories import AT_ONCE, a_life, a_script

ALONE = a_script(a_life("a", 0), a_life("b", 8_000))
TOGETHER = a_script(a_life("a", 0), a_life("b", 2_000))
LATER = a_script(a_life("a", 0, 5_000), a_life("a", 20_000), a_life("b", 22_000))
WAS_THERE = a_script(a_life("a", None), a_life("b", 2_000))


@pytest.mark.parametrize(
    ("script", "in_force_ms", "tried"),
    [
        (ALONE, 0, []),  # nobody comes while the first one would wait
        (TOGETHER, 0, ["3000"]),
        (LATER, 0, ["3000"]),
        (WAS_THERE, 0, []),  # no start in an empty group, so no delay
        (ALONE, 3_000, ["0"]),
        (TOGETHER, 3_000, ["0"]),
        (WAS_THERE, 3_000, []),
    ],
)
def test_a_longer_initial_delay_is_tried_where_another_process_starts_in_it(
    script: Script, in_force_ms: int, tried: list[str]
) -> None:
    in_force = GroupSettings(initial_delay_ms=in_force_ms)
    situation = Situation(script, AT_ONCE, Measured(Standstill(), 0.0, 0.0), (), in_force)
    named = [pair.partition("=") for (pair, *_) in candidates(situation)]
    assert [value for name, _, value in named if name == "group.initial.rebalance.delay.ms"] == tried
