"""A history cut into windows gives the rows of the whole: made-up long lives, and every capture cut small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from rebalance_audit.domain.gather.windows import (
    AROUND,
    LATE_MS,
    ROUNDS,
    WINDOW,
    Checkpoint,
    Gather,
    Piece,
    reconstruct_in_windows,
)
from rebalance_audit.domain.kinds import GroupType
from rebalance_audit.domain.model import CommitMark, ConnectRecord, GroupEvidence, GroupRecord, LogKind, Rebalance
from rebalance_audit.domain.reconstruct import Reconstruction, reconstruct
from tests.captures import CAPTURES, gathered, name_of
from tests.domain.reconstruct.classic.stories import Story, a_group, member_id

T0 = 1_800_000_000_000


def a_long_life(generations: int, *, apart_ms: int = 5, story: Story | None = None, at_ms: int = T0) -> Story:
    """Every second generation one of three members leaves and a new one comes; commits between them."""
    story = story or a_group()
    names = ["c0", "c1", "c2"]
    for number in range(1, generations + 1):
        at_ms += apart_ms
        if number % 2 == 0:
            gone, names = names[0], [*names[1:], f"c{number + 1}"]
            story.says(LogKind.MEMBER_LEFT, at_ms=at_ms, member_id=member_id(gone))
        story.preparing(number - 1, "removing member x on LeaveGroup", at_ms=at_ms)
        if number % 17 == 0:
            continue  # it never got its record
        story.stabilized(number, at_ms=at_ms + 1, member_count=3)
        held = {name: f"{place} {place + 3}" for place, name in enumerate(names)}
        story.generation(number, held, at_ms=at_ms + 3, joined_at_ms=at_ms + 1)
        story.commit(number % 6, at_ms=at_ms + 4)
    return story


def pieces_of(evidence: GroupEvidence) -> list[tuple[int, Piece]]:
    pieces: list[tuple[int, Piece]] = [(r.at_ms, r) for r in evidence.records]
    pieces += [(m.first_at_ms, m) for m in evidence.marks]
    pieces += [(line.at_ms or 0, line) for line in evidence.lines]
    pieces += [(r.at_ms, r) for r in (*evidence.statuses, *evidence.configs)]
    return sorted(pieces, key=lambda timed: timed[0])


def gather_for(evidence: GroupEvidence) -> Gather:
    def gather(pieces: Sequence[Piece]) -> GroupEvidence:
        return replace(
            evidence,
            records=tuple(p for p in pieces if isinstance(p, GroupRecord)),
            marks=tuple(p for p in pieces if isinstance(p, CommitMark)),
            lines=tuple(p for p in pieces if not isinstance(p, GroupRecord | CommitMark | ConnectRecord)),
        )

    return gather


def in_windows(evidence: GroupEvidence, window: int, around: int) -> Iterator[Rebalance]:
    parts = reconstruct_in_windows(pieces_of(evidence), gather_for(evidence), window=window, around=around)
    return (row for part in parts for row in part.rebalances)


@pytest.mark.parametrize(("window", "around"), [(300, 60), (500, 120), (10_000, 100)])
def test_a_long_history_in_windows_gives_the_rows_of_the_whole(window: int, around: int) -> None:
    evidence = a_long_life(400).evidence()
    assert list(in_windows(evidence, window, around)) == list(reconstruct(evidence).rebalances)


def test_logs_alone_give_the_same_rows_in_windows() -> None:
    evidence = replace(a_long_life(400).evidence(), records=(), marks=())
    assert list(in_windows(evidence, 300, 60)) == list(reconstruct(evidence).rebalances)


def test_records_alone_give_the_same_rows_in_windows() -> None:
    evidence = replace(a_long_life(400).evidence(), lines=())
    assert list(in_windows(evidence, 300, 60)) == list(reconstruct(evidence).rebalances)


def test_a_group_deleted_and_created_anew_has_ids_of_its_own_in_each_life() -> None:
    story = a_long_life(200)
    story.deleted(at_ms=T0 + 2_000)
    evidence = a_long_life(200, story=story, at_ms=T0 + 3_000).evidence()
    found = list(in_windows(evidence, 300, 60))
    assert found == list(reconstruct(evidence).rebalances)
    assert len({row.rebalance_id for row in found}) == len(found) == 400


@pytest.mark.parametrize("apart_ms", [1_000, 700_000])
@pytest.mark.parametrize("generations", [3, 10, 40])
def test_a_group_that_is_created_anew_all_the_time_has_ids_of_its_own_in_each_life(
    generations: int, apart_ms: int
) -> None:
    story = a_group()
    for at_ms in range(T0, T0 + 400 // generations * apart_ms, apart_ms):
        story = a_long_life(generations, story=story, at_ms=at_ms)
        story.deleted(at_ms=at_ms + 500)
    evidence = story.evidence()
    found = [row.rebalance_id for row in in_windows(evidence, 300, 60)]
    assert len(set(found)) == len(found)
    assert found == [row.rebalance_id for row in reconstruct(evidence).rebalances]


@pytest.mark.parametrize("kept", ["all", "records", "lines"])
def test_a_fold_that_goes_on_from_any_checkpoint_gives_the_rows_of_the_whole(kept: str) -> None:
    evidence = a_long_life(400).evidence()
    if kept == "records":
        evidence = replace(evidence, lines=())
    if kept == "lines":
        evidence = replace(evidence, records=(), marks=())
    pieces, gather = pieces_of(evidence), gather_for(evidence)
    checkpoints: list[Checkpoint] = []
    parts = reconstruct_in_windows(pieces, gather, window=300, around=60, note=checkpoints.append)
    whole = [row for part in parts for row in part.rebalances]
    assert len(checkpoints) >= 3
    for at, checkpoint in enumerate(checkpoints):
        again: list[Checkpoint] = []
        left = [timed for timed in pieces if timed[0] >= checkpoint.read_from_ms]
        parts = reconstruct_in_windows(left, gather, window=300, around=60, start=checkpoint, note=again.append)
        assert [row for part in parts for row in part.rebalances] == whole[checkpoint.row_count :]
        assert again == checkpoints[at + 1 :]


def test_a_checkpoint_stays_the_same_whatever_comes_after_it() -> None:
    evidence = a_long_life(200).evidence()
    pieces, gather = pieces_of(evidence), gather_for(evidence)
    final: list[Checkpoint] = []
    list(reconstruct_in_windows(pieces, gather, window=150, around=30, note=final.append))
    assert len(final) >= 3
    for count in range(0, len(pieces), 37):
        noted: list[Checkpoint] = []
        list(reconstruct_in_windows(pieces[:count], gather, window=150, around=30, note=noted.append))
        assert noted == final[: len(noted)]


def test_no_window_ends_while_commits_go_on() -> None:
    evidence = a_long_life(400).evidence()
    marks = tuple(replace(mark, last_at_ms=mark.first_at_ms + 3) for mark in evidence.marks)
    evidence = replace(evidence, marks=marks)
    checkpoints: list[Checkpoint] = []
    list(
        reconstruct_in_windows(
            pieces_of(evidence), gather_for(evidence), window=300, around=60, note=checkpoints.append
        )
    )
    assert checkpoints
    for checkpoint in checkpoints:
        begun = [m.last_at_ms for m in marks if m.first_at_ms < checkpoint.read_until_ms]
        at_ms, piece = next(timed for timed in pieces_of(evidence) if timed[0] >= checkpoint.read_until_ms)
        assert isinstance(piece, GroupRecord)
        assert at_ms > max(begun)


@pytest.mark.parametrize("capture", CAPTURES, ids=name_of)
def test_a_capture_cut_small_gives_the_rows_of_the_whole(capture: Path) -> None:
    for evidence in gathered(capture).groups:
        whole = list(reconstruct(evidence).rebalances)
        assert [r.rebalance_id for r in in_windows(evidence, 80, 30)] == [r.rebalance_id for r in whole]


HOUR_MS = 3_600_000


def test_an_ordinary_groups_windows_have_so_many_rounds_however_long_it_lives() -> None:
    evidence = a_long_life(1_000, apart_ms=HOUR_MS).evidence()
    pieces, gather = pieces_of(evidence), gather_for(evidence)
    folded: list[int] = []
    checkpoints: list[Checkpoint] = []

    def counted(of_window: Sequence[Piece]) -> GroupEvidence:
        folded.append(sum(isinstance(piece, GroupRecord) for piece in of_window))
        return gather(of_window)

    parts = list(reconstruct_in_windows(pieces, counted, note=checkpoints.append))
    assert [row for part in parts for row in part.rebalances] == list(reconstruct(evidence).rebalances)
    assert max(folded) <= 5 * ROUNDS
    assert all(len(part.rebalances) <= 5 * ROUNDS for part in parts)
    # News is folded with what came since the last checkpoint: some tens of rounds, not a thousand.
    since = [piece for at_ms, piece in pieces if at_ms >= checkpoints[-1].read_from_ms]
    assert sum(isinstance(piece, GroupRecord) for piece in since) <= 5 * ROUNDS


def test_where_much_happens_within_minutes_a_window_is_as_wide_as_memory_allows() -> None:
    evidence = a_long_life(1_000).evidence()
    checkpoints: list[Checkpoint] = []
    list(reconstruct_in_windows(pieces_of(evidence), gather_for(evidence), note=checkpoints.append))
    assert not checkpoints


@pytest.mark.parametrize("after_ms", [LATE_MS - 1, LATE_MS])
def test_a_checkpoint_is_made_once_late_lines_are_unlikely(after_ms: int) -> None:
    evidence = a_long_life(200, apart_ms=HOUR_MS).evidence()
    pieces, gather = pieces_of(evidence), gather_for(evidence)
    every: list[Checkpoint] = []
    list(reconstruct_in_windows(pieces, gather, note=every.append))
    until_ms = every[1].read_until_ms + after_ms
    *before, _ = [timed for timed in pieces if timed[0] <= every[1].read_until_ms]
    [ending, *_] = [timed for timed in pieces if timed[0] == every[1].read_until_ms]
    noted: list[Checkpoint] = []
    last = until_ms, replace(ending[1], ref="later", at_ms=until_ms)  # type: ignore[arg-type]
    list(reconstruct_in_windows([*before, ending, last], gather, note=noted.append))
    assert noted == every[: 1 + (after_ms >= LATE_MS)]


def test_what_was_known_of_clients_and_partitions_is_known_in_later_windows() -> None:
    """c2 stated its library once, and nobody was given partitions 3 to 5 since generation 3."""
    reason = "the consumer unsubscribed from all topics"
    story = a_long_life(3).says(LogKind.MEMBER_LEFT, at_ms=T0 + 16, member_id=member_id("c2"), client_reason=reason)
    for number in range(4, 400):
        at_ms = T0 + number * HOUR_MS
        story.preparing(number - 1, "removing member x on LeaveGroup", at_ms=at_ms)
        if number % 9 == 0:
            story.empty(number, at_ms=at_ms + 3)
        else:
            story.generation(number, {"c2": "0 1", "c3": "2"}, at_ms=at_ms + 3, joined_at_ms=at_ms + 1)
    evidence = story.evidence()
    whole = reconstruct(evidence).rebalances
    assert whole[-1].unassigned_count == 3
    assert [m.client_libraries for m in whole[-1].members if m.client_id == "c2"] == [("java",)]
    assert list(in_windows(evidence, WINDOW, AROUND)) == list(whole)
    checkpoints: list[Checkpoint] = []
    list(reconstruct_in_windows(pieces_of(evidence), gather_for(evidence), note=checkpoints.append))
    assert len(checkpoints) > 2
    assert {checkpoint.stated for checkpoint in checkpoints[1:]} == {(("c2", ("java",)),)}
    assert all({("orders", n) for n in (3, 4, 5)} <= {*checkpoint.ownerless} for checkpoint in checkpoints[1:])


def test_the_docstrings_example_is_what_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[int]] = []

    def fold(evidence: GroupEvidence) -> Reconstruction:
        instants = sorted(record.at_ms for record in evidence.records)
        seen.append(instants)
        rows = [
            Rebalance(
                cluster_id="lab",
                rebalance_id=f"lab/orders/{at_ms}",
                group_id="orders",
                group_type=GroupType.CLASSIC,
                generation_id=at_ms,
                assigned_at_ms=at_ms,
                evidence=(str(at_ms),),
            )
            for at_ms in instants
        ]
        return Reconstruction(rebalances=tuple(rows))

    monkeypatch.setattr("rebalance_audit.domain.gather.windows.reconstruct", fold)
    monkeypatch.setattr("rebalance_audit.domain.gather.windows.is_connect_group", lambda _: False)
    evidence = GroupEvidence(cluster_id="lab", group_id="orders")
    pieces: list[tuple[int, Piece]] = [(at_ms, a_record(at_ms)) for at_ms in range(10)]
    parts = list(reconstruct_in_windows(pieces, gather_for(evidence), window=6, around=2))
    assert seen == [[*range(6)], [0, 1, *range(2, 9)], [*range(5), *range(5, 10)]]
    assert [[r.assigned_at_ms for r in part.rebalances] for part in parts] == [[0, 1, 2, 3], [4, 5, 6], [7, 8, 9]]


def a_record(at_ms: int) -> GroupRecord:
    """Each of a key of its own, so that all of them stay the latest."""
    record = SimpleNamespace(name="GroupMetadata", key=at_ms, value=None)
    return GroupRecord(ref=str(at_ms), at_ms=at_ms, topic="o", partition=0, offset=at_ms, record=record)
