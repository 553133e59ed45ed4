"""Commits of the last seconds, raw: found by group, and bounded in time and size."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from rebalance_audit.domain.decode import OFFSETS_TOPIC
from rebalance_audit.live import recent_commits
from rebalance_audit.live.heard import LandedRows
from rebalance_audit.live.recent_commits import RECENT_S, RecentCommits
from tests.encoders import offset_commit_key


@dataclass(frozen=True)
class Run:
    topic: str
    partition: int
    columns: dict[str, Any]


def landed(partition: int, *commits: tuple[int, str]) -> LandedRows:
    """Of each its offset and group."""
    offsets = [offset for offset, _ in commits]
    keys = [offset_commit_key(group, "orders", 0) for _, group in commits]
    columns = {"offset": offsets, "timestamp_ms": offsets, "key": keys, "value": [b"" for _ in commits]}
    return LandedRows.of([Run(OFFSETS_TOPIC, partition, columns)])


def found(recent: RecentCommits, group: str, *partitions: int) -> list[tuple[int, int]]:
    """(partition, offset) of each."""
    places = {(OFFSETS_TOPIC, partition) for partition in partitions}
    pieces = recent.of_group(group, places)
    return [(record.partition, record.offset) for piece in pieces for record in piece.records("c")]


def test_commits_of_a_group_are_looked_for_where_its_records_are() -> None:
    recent = RecentCommits()
    recent.add(1.0, landed(3, (7, "app"), (8, "other"), (9, "app")))
    recent.add(1.5, landed(3, (10, "app"), (11, "app2")))
    recent.add(1.5, landed(4, (2, "other")))
    assert found(recent, "app", 3) == [(3, 7), (3, 9), (3, 10)]
    assert found(recent, "app") == [(3, 7), (3, 9), (3, 10)]
    assert found(recent, "app", 4) == [(3, 7), (3, 9), (3, 10)]  # where a forged line sent us there are none
    assert list(recent.of_group("app", {(OFFSETS_TOPIC, 4)}, are_known=True)) == []  # its records are there
    assert found(recent, "nobody") == []
    assert found(recent, "g" * 40_000) == []


def test_what_is_older_goes() -> None:
    recent = RecentCommits()
    recent.add(1.0, landed(0, (1, "app")))
    recent.add(2.0, landed(1, (1, "other")))
    recent.add(1.0 + RECENT_S, landed(1, (2, "other")))
    assert found(recent, "app") == [(0, 1)]
    recent.add(1.5 + RECENT_S, landed(1, (3, "other")))
    assert found(recent, "app") == []
    assert found(recent, "other") == [(1, 1), (1, 2), (1, 3)]


def test_what_is_too_much_goes_the_oldest_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_commits, "RECENT_BYTES", 2 * landed(0, (1, "app")).rows.nbytes)
    recent = RecentCommits()
    for number in range(4):
        recent.add(1.0, landed(number, (1, "app")))
    assert found(recent, "app") == [(2, 1), (3, 1)]
