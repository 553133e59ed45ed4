from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.detect.wording import (
    bounded,
    clock,
    counted,
    duration,
    folded,
    listed,
    shown,
    zones_not_known,
)


@pytest.mark.parametrize(
    ("ms", "said"),
    [
        (0, "0 ms"),
        (48, "48 ms"),
        (999, "999 ms"),
        (999.6, "1 s"),
        (1_000, "1 s"),
        (12_310, "12.3 s"),
        (59_949, "59.9 s"),
        (59_960, "1 min"),
        (250_000, "4 min 10 s"),
        (3_599_000, "59 min 59 s"),
        (3_600_000, "1 h"),
        (7_500_000, "2 h 5 min"),
        (86_399_000, "23 h 59 min"),
        (266_400_000, "3 d 2 h"),
        (-2_000, "-2 s"),
    ],
)
def test_durations_are_said_as_people_say_them(ms: float, said: str) -> None:
    assert duration(ms) == said


def test_bounds_stand_beside_the_estimate_and_a_missing_one_is_said() -> None:
    assert bounded(12_310, 10_020, 13_400) == "12.3 s (10 s … 13.4 s)"
    assert bounded(12_310, 10_020, None) == "12.3 s (10 s … no upper bound)"
    assert bounded(50, None, None) == "50 ms"
    assert bounded(50, 50, 50) == "50 ms"
    assert bounded(None, 1, 2) == "not known"


def test_runs_of_partitions_are_folded() -> None:
    assert folded(["orders-3", "orders-0", "orders-1", "orders-2", "billing-7"]) == "billing-7, orders-0 … orders-3"
    assert folded(["orders-0", "orders-1"]) == "orders-0, orders-1"
    assert folded(["a-1", "a-3", "a-5"]) == "a-1, a-3, a-5"
    assert folded([f"t{i}-0" for i in range(12)], most=2) == "t0-0, t1-0 and 10 more"
    assert folded([]) == ""


def test_names_that_only_look_numbered_are_left_alone() -> None:
    assert folded(["x-007", "x-008", "x-009"]) == "x-007, x-008, x-009"
    assert folded(["my-connector", "my-connector-0", "my-connector-1", "my-connector-2"]) == (
        "my-connector, my-connector-0 … my-connector-2"
    )


def test_control_characters_escapes_and_direction_marks_are_spelt_out() -> None:
    assert shown("a\nb\x1b[31m\u202ec\x7f") == "a\\nb\\x1b[31m\\u202ec\\x7f"


def test_long_text_is_cut_in_the_middle() -> None:
    cut = shown("a" * 500 + "end", 40)
    assert len(cut) == 40
    assert cut.startswith("aaaa")
    assert cut.endswith("end")
    assert "…" in cut


@given(st.text(max_size=400), st.integers(min_value=8, max_value=80))
def test_nothing_shown_is_longer_than_asked_or_moves_the_cursor(text: str, width: int) -> None:
    result = shown(text, width)
    assert len(result) <= width
    assert not any(unicodedata.category(c).startswith("C") for c in result)
    assert result.splitlines() == ([result] if result else [])


def test_instants_no_calendar_has_are_shown_as_numbers() -> None:
    assert clock(1_763_700_000_000) == "2025-11-21 04:40:00 UTC"
    assert clock(1 << 62) == "4611686018427387904 ms after 1970"
    assert clock(None) == clock(0) == "time not known"


def test_counts_agree_with_their_nouns() -> None:
    assert counted(1, "partition") == "1 partition"
    assert counted(1_200, "partition") == "1,200 partitions"
    assert counted(0, "task or connector", "tasks and connectors") == "0 tasks and connectors"
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed(["a", "b", "c", "d"]) == "a, b and 2 more"


def test_nodes_whose_zones_are_not_known_are_one_sentence() -> None:
    assert zones_not_known(["b1"]).startswith("the zone of b1's log times is not known")
    assert zones_not_known(["b1", "b2", "b3"]) == (
        "the zones of the log times of b1, b2 and b3 are not known and were taken for UTC (say them with "
        "--log-time-zone)"
    )
