"""Captures whose logs are in another zone, were set to a wrong one, or are by a clock that runs apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from ingest.evidence import read_evidence
from rebalance_audit.domain.gather.clocks import ZoneSource
from rebalance_audit.domain.gather.groups import Gathered, gather
from rebalance_audit.domain.measure.pauses import measure
from rebalance_audit.domain.model import Rebalance, SourceLine
from rebalance_audit.domain.reconstruct import reconstruct
from tests.captures import GOLDEN

CAPTURES = [GOLDEN / name for name in ("2.7.2/eager_join_leave_kill", "4.3.0/poll_timeout", "4.3.0/kip848_join_leave")]
HEAD = re.compile(r"\A\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})\]")


def gathered_with(capture: Path, later: timedelta = timedelta(), zones: dict[str, str] | None = None) -> Gathered:
    """The capture as if its brokers had written their logs by clocks so much ahead."""
    source = read_evidence(capture)

    def shifted() -> Iterator[SourceLine]:
        for line in source.lines():
            match = HEAD.match(line.text)
            if match is None:
                yield line
                continue
            at = datetime.fromisoformat(match[1]) + timedelta(milliseconds=int(match[2])) + later
            head = f"[{at:%Y-%m-%d %H:%M:%S},{at.microsecond // 1000:03d}]"
            yield replace(line, text=head + line.text[match.end() :])

    return gather(source.records(), shifted(), zones)


def rows(gathered: Gathered) -> list[Rebalance]:
    return [measure(row) for group in gathered.groups for row in reconstruct(group).rebalances]


def without_times(found: list[Rebalance]) -> list[tuple[object, ...]]:
    return [(r.rebalance_id, r.kind, r.outcome, [(m.resource, m.kind) for m in r.movements]) for r in found]


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_a_zone_that_nobody_gave_is_inferred_from_the_lines_and_nothing_changes(capture: Path) -> None:
    here, there = gathered_with(capture), gathered_with(capture, timedelta(hours=5, minutes=30))
    (clock,) = there.clocks.values()
    assert (clock.source, clock.utc_offset_ms) == (ZoneSource.INFERRED, 19_800_000)
    assert rows(there) == rows(here)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_a_zone_that_was_given_wrongly_is_overruled_by_the_lines_and_nothing_changes(capture: Path) -> None:
    here = gathered_with(capture)
    wrong = gathered_with(capture, zones=dict.fromkeys(here.clocks, "Asia/Tokyo"))
    assert {clock.source for clock in wrong.clocks.values()} == {ZoneSource.INFERRED}
    assert rows(wrong) == rows(here)


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_a_clock_apart_is_measured_and_makes_no_rebalance(capture: Path) -> None:
    here, apart = gathered_with(capture), gathered_with(capture, timedelta(seconds=12))
    (clock,) = apart.clocks.values()
    assert clock.skew_ms is not None
    assert 11_500 <= clock.skew_ms <= 12_500
    assert without_times(rows(apart)) == without_times(rows(here))
    for row in rows(apart):
        for m in row.movements:
            bounds = (m.pause_lower_ms, m.pause_estimate_ms, m.pause_upper_ms)
            assert list(filter(None, bounds)) == sorted(filter(None, bounds)), m
