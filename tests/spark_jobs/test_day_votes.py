"""Votes of many clusters and days: packed, and read from notes, they are what they were."""

from __future__ import annotations

from pathlib import Path

import pytest

from rebalance_audit.domain.model import LogKind
from rebalance_audit.warehouse.warehouse import Warehouse
from spark_jobs import day_votes
from spark_jobs.day_votes import NO_VOTES, DayVotes, LostVotes, Number, Voter, VotesByDay

PLACES = [("one", 5), ("other", 5), ("one", 6), ("one", 5 + 512), ("third", -3)]


def _votes(cluster_id: str, day: int) -> DayVotes:
    number: Number = ("größe", 7)
    subject = LogKind.STABILIZED, "größe", 7
    voters = [Voter(900, f"log:{cluster_id}@{day}", number, subject), Voter(950, "log:a@2", number, None)]
    return DayVotes({("broker-1", "stabilized", 4 * day): voters}, {number: [(subject, 905), (subject, 906)]})


@pytest.fixture(params=[1, 20_000])
def held(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> VotesByDay:
    monkeypatch.setattr(day_votes, "UNPACKED", request.param)
    monkeypatch.setattr(day_votes, "_SLOTS_READ", 1)
    held = VotesByDay()
    for place in PLACES:
        held.put(*place, _votes(*place))
    return held


def test_votes_that_are_packed_come_back_as_they_were(held: VotesByDay) -> None:
    assert [held.of(*place) for place in PLACES] == [_votes(*place) for place in PLACES]
    assert held.of("unknown", 5) == held.of("one", 7) == held.of("one", 5 + 1024) == NO_VOTES


def test_only_what_changed_is_written_again(held: VotesByDay, tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    held.save(warehouse, "v-", 1, {})
    assert set(warehouse.notes()) == {"v-5-1", "v-6-1", "v-509-1"}
    changed = DayVotes(_votes("one", 5).voters, {})
    held.put("one", 5, changed)
    assert held.of("other", 5) == _votes("other", 5)
    held.save(warehouse, "v-", 2, held.slots)
    assert set(warehouse.notes()) == {"v-5-1", "v-6-1", "v-509-1", "v-5-2"}
    for again in (held, VotesByDay(warehouse, held.slots)):
        assert again.of("one", 5) == changed
        assert [again.of(*place) for place in PLACES[1:]] == [_votes(*place) for place in PLACES[1:]]
        assert again.days == {5, 6, 517, -3}


def test_a_note_that_is_gone_or_damaged_is_said_to_be_lost(held: VotesByDay, tmp_path: Path) -> None:
    warehouse = Warehouse.open(tmp_path, create=True)
    held.save(warehouse, "v-", 1, {})
    warehouse.forget("v-5-1")
    (tmp_path / "notes" / "v-6-1.json").write_bytes(b"{}")
    again = VotesByDay(warehouse, held.slots)
    for day in (5, 6):
        with pytest.raises(LostVotes):
            again.of("one", day)
    assert again.of("third", -3) == _votes("third", -3)
