"""Log times are local and say no zone; records know the time."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance_audit.domain.gather.clock_tally import infer_utc_offset_ms
from rebalance_audit.domain.gather.clocks import NodeClock, ZoneSource, pairs_by_node, to_utc_ms
from rebalance_audit.domain.model import GroupRecord, LogEvent, LogKind

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOON_MS = 1_795_262_400_000
"""2026-11-21T12:00:00Z."""
BERLIN_BACK_MS = 1_792_890_000_000
"""2026-10-25T01:00:00Z: in Berlin 03:00 becomes 02:00."""
BERLIN_FORWARD_MS = 1_774_746_000_000
"""2026-03-29T01:00:00Z: in Berlin 02:00 becomes 03:00."""


def pairs(offset_ms: int, count: int, *, from_ms: int = NOON_MS, late_ms: int = 4) -> list[tuple[int, int]]:
    return [(from_ms + n * 60_000 + offset_ms + late_ms, from_ms + n * 60_000) for n in range(count)]


@pytest.mark.parametrize("hours", [-9.5, -3.5, 0, 1, 2, 5.5, 5.75, 12.75, 14])
def test_the_offset_is_found_for_every_zone_in_use(hours: float) -> None:
    clock = infer_utc_offset_ms(pairs(int(hours * HOUR_MS), 5))
    assert (clock.source, clock.utc_offset_ms, clock.skew_ms) == (ZoneSource.INFERRED, hours * HOUR_MS, 4)
    assert clock.to_utc_ms(NOON_MS + int(hours * HOUR_MS)) == NOON_MS


def test_without_pairs_utc_is_assumed_and_said_so() -> None:
    clock = infer_utc_offset_ms([])
    assert (clock.source, clock.utc_offset_ms, clock.skew_ms, clock.pair_count) == (ZoneSource.ASSUMED, 0, None, 0)
    assert clock.to_utc_ms(NOON_MS) == NOON_MS


def test_outliers_do_no_harm() -> None:
    wrong = [(NOON_MS + 7 * HOUR_MS + 13, NOON_MS), (NOON_MS - 5 * HOUR_MS, NOON_MS), (NOON_MS + 40 * DAY_MS, NOON_MS)]
    clock = infer_utc_offset_ms(pairs(2 * HOUR_MS, 6) + wrong)
    assert (clock.utc_offset_ms, clock.agreeing_count, clock.pair_count) == (2 * HOUR_MS, 6, 8)


def test_votes_without_a_majority_infer_nothing() -> None:
    scattered = [(NOON_MS + n * 3 * HOUR_MS, NOON_MS + n) for n in range(-4, 5)]
    assert infer_utc_offset_ms(scattered).source is ZoneSource.ASSUMED


@pytest.mark.parametrize("skew_ms", [-420_000, -1500, 0, 37, 90_000, 420_000])
def test_what_is_left_of_the_offset_is_skew_and_is_not_taken_for_a_zone(skew_ms: int) -> None:
    clock = infer_utc_offset_ms(pairs(2 * HOUR_MS, 9, late_ms=skew_ms))
    assert (clock.utc_offset_ms, clock.skew_ms, clock.spread_ms) == (2 * HOUR_MS, skew_ms, 0)


@given(st.randoms(use_true_random=False), st.integers(-56, 56))
def test_order_of_the_pairs_does_not_matter(shuffle: random.Random, quarters: int) -> None:
    ordered = pairs(quarters * 900_000, 7) + pairs(0, 2)
    shuffled = list(ordered)
    shuffle.shuffle(shuffled)
    assert infer_utc_offset_ms(shuffled) == infer_utc_offset_ms(ordered)


def test_a_configured_zone_wins_and_its_skew_is_measured() -> None:
    clock = infer_utc_offset_ms(pairs(HOUR_MS, 5, late_ms=12), "Europe/Berlin")
    assert (clock.source, clock.zone, clock.skew_ms, clock.agreeing_count) == (
        ZoneSource.CONFIGURED,
        "Europe/Berlin",
        12,
        5,
    )
    assert clock.to_utc_ms(NOON_MS + HOUR_MS) == NOON_MS


def test_a_wrongly_configured_zone_is_overruled_by_lines_that_agree_with_each_other() -> None:
    clock = infer_utc_offset_ms(pairs(HOUR_MS, 5), "America/New_York")
    assert (clock.source, clock.zone, clock.utc_offset_ms) == (ZoneSource.INFERRED, None, HOUR_MS)
    assert (clock.pair_count, clock.agreeing_count) == (5, 5)


def test_two_lines_do_not_overrule_a_configured_zone() -> None:
    clock = infer_utc_offset_ms(pairs(HOUR_MS, 2), "America/New_York")
    assert (clock.source, clock.zone) == (ZoneSource.CONFIGURED, "America/New_York")
    assert (clock.pair_count, clock.agreeing_count, clock.skew_ms) == (2, 0, None)


@pytest.mark.parametrize(
    ("zone", "offset_ms"),
    [
        ("UTC", 0),
        ("Z", 0),
        ("+02:00", 2 * HOUR_MS),
        ("-0330", -int(3.5 * HOUR_MS)),
        ("+5", 5 * HOUR_MS),
        ("Europe/Berlin", HOUR_MS),
        ("Asia/Kathmandu", int(5.75 * HOUR_MS)),
    ],
)
def test_a_zone_is_a_name_or_an_offset(zone: str, offset_ms: int) -> None:
    assert to_utc_ms(NOON_MS + offset_ms, zone) == NOON_MS


@pytest.mark.parametrize("zone", ["Berlin", "", "+2:0:0", "+99", "+02:75", "../etc/passwd", "Europe/Nowhere"])
def test_a_zone_that_is_none_is_refused_by_name(zone: str) -> None:
    with pytest.raises(ValueError, match="zone"):
        to_utc_ms(NOON_MS, zone)


class TestTheHourThatComesTwice:
    """Berlin, 25 October 2026: 02:00 to 03:00 local comes at 00:00 UTC and again at 01:00 UTC."""

    LOCAL_MS = BERLIN_BACK_MS - 30 * 60_000 + 2 * HOUR_MS
    """02:30 local."""

    def test_the_earlier_instant_is_taken(self) -> None:
        assert to_utc_ms(self.LOCAL_MS, "Europe/Berlin") == BERLIN_BACK_MS - 30 * 60_000

    def test_unless_the_file_was_there_already(self) -> None:
        before_ms = BERLIN_BACK_MS - 10 * 60_000
        assert to_utc_ms(self.LOCAL_MS, "Europe/Berlin", not_before_ms=before_ms) == BERLIN_BACK_MS + 30 * 60_000

    def test_a_line_out_of_order_in_ordinary_time_stays_where_it_is(self) -> None:
        assert to_utc_ms(NOON_MS + HOUR_MS, "Europe/Berlin", not_before_ms=NOON_MS + 1) == NOON_MS

    def test_the_change_is_inferred_from_pairs_on_both_sides(self) -> None:
        summer = pairs(2 * HOUR_MS, 20, from_ms=BERLIN_BACK_MS - DAY_MS)
        winter = pairs(HOUR_MS, 20, from_ms=BERLIN_BACK_MS + 20 * 60_000)
        clock = infer_utc_offset_ms(summer + winter)
        assert clock.offsets == ((0, 2 * HOUR_MS), (BERLIN_BACK_MS, HOUR_MS))
        assert (clock.source, clock.agreeing_count, clock.skew_ms) == (ZoneSource.INFERRED, 40, 4)
        assert clock.to_utc_ms(BERLIN_BACK_MS - DAY_MS + 2 * HOUR_MS) == BERLIN_BACK_MS - DAY_MS
        assert clock.to_utc_ms(BERLIN_BACK_MS + DAY_MS + HOUR_MS) == BERLIN_BACK_MS + DAY_MS
        assert clock.to_utc_ms(self.LOCAL_MS) == BERLIN_BACK_MS - 30 * 60_000
        assert clock.to_utc_ms(self.LOCAL_MS, not_before_ms=BERLIN_BACK_MS) == BERLIN_BACK_MS + 30 * 60_000


def test_clocks_going_forward_are_inferred_too() -> None:
    winter = pairs(HOUR_MS, 10, from_ms=BERLIN_FORWARD_MS - DAY_MS)
    summer = pairs(2 * HOUR_MS, 30, from_ms=BERLIN_FORWARD_MS + 60_000)
    clock = infer_utc_offset_ms(winter + summer)
    assert clock.offsets == ((0, HOUR_MS), (BERLIN_FORWARD_MS, 2 * HOUR_MS))
    assert clock.utc_offset_ms == 2 * HOUR_MS
    assert clock.to_utc_ms(BERLIN_FORWARD_MS + 90 * 60_000) == BERLIN_FORWARD_MS - 30 * 60_000  # a time that never was


def test_offsets_that_alternate_are_no_change_of_the_clocks() -> None:
    mixed = pairs(2 * HOUR_MS, 10) + pairs(HOUR_MS, 4)
    clock = infer_utc_offset_ms(mixed)
    assert clock.offsets == ((0, 2 * HOUR_MS),)


@dataclass
class Key:
    group_id: str


@dataclass
class Value:
    generation: int = 0
    members: tuple[str, ...] = ()
    current_state_timestamp: int | None = None
    epoch: int = 0


@dataclass
class Record:
    name: str
    key: Key
    value: Value | None


def a_record(name: str, at_ms: int, value: Value | None) -> GroupRecord:
    return GroupRecord(
        ref="r", at_ms=at_ms, topic="__consumer_offsets", partition=0, offset=0, record=Record(name, Key("g"), value)
    )


def a_line(kind: LogKind, local_at_ms: int, *, node: str = "broker-1", forged: bool = False, **fields: Any) -> LogEvent:
    return LogEvent(
        kind=kind, ref="l", node=node, local_at_ms=local_at_ms, group_id="g", fields=fields, could_be_forged=forged
    )


def test_lines_are_paired_with_the_instants_they_belong_to() -> None:
    records = [
        a_record("GroupMetadata", 1010, Value(generation=1, members=("m",), current_state_timestamp=1000)),
        a_record("GroupMetadata", 2000, Value(generation=2, members=())),
        a_record("ConsumerGroupMetadata", 3000, Value(epoch=3)),
        a_record("GroupMetadata", 4000, None),
        a_record("OffsetCommit", 5000, Value(generation=1)),
    ]
    lines = [
        a_line(LogKind.STABILIZED, 1001, generation_id=1),
        a_line(LogKind.ASSIGNMENT_RECEIVED, 1009, generation_id=1),
        a_line(LogKind.EMPTIED, 1999, generation_id=2),
        a_line(LogKind.EPOCH_BUMPED, 3001, node="broker-2", group_epoch=3),
        a_line(LogKind.WORKER_JOINED, 1017, node="worker-1", generation_id=1),
        a_line(LogKind.CLIENT_SYNCED, 1018, node="client-1", generation_id=1),
        a_line(LogKind.STABILIZED, 7, generation_id=1, forged=True),
        a_line(LogKind.STABILIZED, 8, generation_id=9),
        a_line(LogKind.PREPARING, 9, generation_id=1),
    ]
    assert pairs_by_node(lines, records) == {
        "broker-1": [(1001, 1000), (1009, 1010), (1999, 2000)],
        "broker-2": [(3001, 3000)],
        "worker-1": [(1017, 1010)],
        "client-1": [(1018, 1010)],
    }


def test_a_clock_that_is_not_known_is_utc() -> None:
    assert NodeClock(source=ZoneSource.ASSUMED).to_utc_ms(NOON_MS) == NOON_MS
