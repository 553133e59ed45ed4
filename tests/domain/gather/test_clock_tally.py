"""A clock from what pairs add up to is the clock of all pairs at once."""

from __future__ import annotations

import json
from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.gather.clock_tally import ClockTally, infer_utc_offset_ms, offset_of
from tests.domain.gather.plain_clock import plain_clock

HOUR_MS = 3_600_000
BERLIN_BACK_MS = 1_792_890_000_000
"""2026-10-25T01:00:00Z: in Berlin 03:00 becomes 02:00."""

_ZONES = st.sampled_from([None, "UTC", "Europe/Berlin", "+05:45", "America/New_York"])
_INSTANTS = st.one_of(
    st.integers(-40, 40).map(lambda n: BERLIN_BACK_MS + n * 600_000),
    st.integers(-3, 3).map(lambda n: n * HOUR_MS),  # around the beginning of time
    st.sampled_from([0, 1, HOUR_MS, BERLIN_BACK_MS]),
)
_DIFFERENCES = st.one_of(
    st.builds(lambda hours, late: hours * HOUR_MS + late, st.sampled_from([-1, 0, 1, 2]), st.integers(-3, 30)),
    st.integers(-62, 62).map(lambda n: n * 450_000),  # the middle of two offsets, and beyond the last
    st.integers(-70 * HOUR_MS, 70 * HOUR_MS),
)
_PAIRS = st.lists(st.builds(lambda at_ms, apart: (at_ms + apart, at_ms), _INSTANTS, _DIFFERENCES), max_size=40)
_ORDINARY = st.builds(
    lambda offset, pairs: [(at_ms + offset * HOUR_MS + late, at_ms) for at_ms, late in pairs],
    st.integers(-2, 2),
    st.lists(st.tuples(_INSTANTS, st.integers(0, 9)), max_size=40),
)
_CHANGED = st.builds(
    lambda offset, pairs: [
        (at_ms + (offset + (at_ms < BERLIN_BACK_MS)) * HOUR_MS + late, at_ms) for at_ms, late in pairs
    ],
    st.integers(-2, 1),
    st.lists(st.tuples(_INSTANTS, st.integers(0, 9)), max_size=40),
)
_ANY = st.one_of(_PAIRS, _ORDINARY, _CHANGED, st.builds(lambda a, b: a + b, _CHANGED, _PAIRS))


@given(_ANY, _ZONES)
def test_the_clock_of_pairs_that_are_added_is_that_of_all_at_once(
    pairs: list[tuple[int, int]], zone: str | None
) -> None:
    assert infer_utc_offset_ms(pairs, zone) == plain_clock(pairs, zone)


def find_ends(tally: ClockTally, pairs: list[tuple[int, int]]) -> None:
    for lost in tally.lost_ends():
        times = [at_ms for local_at_ms, at_ms in pairs if offset_of(local_at_ms, at_ms) == lost.offset_ms]
        end = max(times) if lost.is_last else min(times)
        assert (end <= lost.bound_ms) if lost.is_last else (end >= lost.bound_ms)
        tally.put_end(lost, end)


@given(_ANY, _ANY, _ZONES, st.randoms(use_true_random=False), st.booleans())
def test_pairs_that_are_taken_out_leave_nothing_behind(
    stay: list[tuple[int, int]], go: list[tuple[int, int]], zone: str | None, chance: Random, is_kept_between: bool
) -> None:
    tally = ClockTally(zone)
    acts = list(enumerate(stay + go))
    chance.shuffle(acts)
    for at, pair in enumerate(go):  # anywhere after it came
        came = acts.index((len(stay) + at, pair))
        acts.insert(chance.randint(came + 1, len(acts)), (-1, pair))
    for place, (local_at_ms, at_ms) in acts:
        (tally.remove if place < 0 else tally.add)(local_at_ms, at_ms)
    find_ends(tally, stay)
    if is_kept_between:
        tally = ClockTally.of_kept(json.loads(json.dumps(tally.as_kept())), zone)
    assert tally.clock() == plain_clock(stay, zone)


@given(_ANY, _ZONES)
def test_equal_pairs_are_added_and_taken_out_together(pairs: list[tuple[int, int]], zone: str | None) -> None:
    tally = ClockTally(zone)
    for (local_at_ms, at_ms), count in Counter(pairs).items():
        tally.add(local_at_ms, at_ms, count + 2)
        tally.remove(local_at_ms, at_ms, 2)
    find_ends(tally, pairs)
    assert tally.clock() == plain_clock(pairs, zone)
