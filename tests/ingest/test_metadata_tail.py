"""A metadata log that grows, rolls, is deleted behind and rewritten ahead, while it is followed."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ingest.errors import Misconfigured
from ingest.landing import Landing
from ingest.metadata_tail import PIECE_ROWS, MetadataTail, cluster_of, follow_metadata
from ingest.readings import RecordRun
from rebalance_audit.domain.metadata import SourceMetadata, bronze_topic
from rebalance_audit.warehouse.warehouse import Warehouse
from tests.domain.reassign.stories import MetadataStory
from tests.ingest.test_metadata import CHECKPOINT, a_checkpoint, batches, log_name, the_rest

NODE = "controller-100"
Place = tuple[str, int, bytes | None]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "data" / "__cluster_metadata-0"
    folder.mkdir(parents=True)
    return folder


def a_tail(place: Path, after: MetadataTail | None = None) -> MetadataTail:
    return MetadataTail("lab", {NODE: place}, None if after is None else after.positions())


def seen(tail: MetadataTail) -> list[Place]:
    return [(run.topic, row[0], row[3]) for _, runs in tail.poll() for run in runs for row in run.rows]


def landed_from(sources: Sequence[SourceMetadata]) -> list[Place]:
    return [(bronze_topic(s.snapshot), s.offset, s.value) for s in sources]


def a_log(count: int, first_offset: int = 0) -> list[SourceMetadata]:
    story = MetadataStory(first_offset=first_offset)
    for at in range(count):
        story.at(1_000 + at).change(at, leader=at)
    return story.sources


def test_a_growing_file_is_given_out_once_at_any_cut(place: Path) -> None:
    sources = a_log(6)
    content = batches(sources)
    tail, found = a_tail(place), []
    for size in (0, 10, 61, len(content) // 2, len(content) - 1, len(content)):
        (place / log_name(0)).write_bytes(content[:size])
        found += seen(tail)
        tail = a_tail(place, after=tail)  # another process goes on
    assert found == landed_from(sources)
    assert seen(tail) == []


def test_rolled_segments_are_read_in_their_order_and_deleted_ones_are_no_loss(place: Path) -> None:
    first, second, third = a_log(4), a_log(3, 4), a_log(2, 7)
    (place / log_name(0)).write_bytes(batches(first[:2]))
    tail = a_tail(place)
    found = seen(tail)
    (place / log_name(0)).write_bytes(batches(first))
    (place / log_name(4)).write_bytes(batches(second))
    found += seen(tail)
    (place / log_name(0)).unlink()
    (place / log_name(4)).unlink()
    (place / log_name(7)).write_bytes(batches(third))
    found += seen(a_tail(place, after=tail))
    assert found == landed_from(first + second + third)


def test_a_tail_that_was_cut_off_and_written_anew_is_read_again(place: Path) -> None:
    common, lost = a_log(3), a_log(4, 3)
    (place / log_name(0)).write_bytes(batches(common + lost))
    tail = a_tail(place)
    assert seen(tail) == landed_from(common + lost)
    won = MetadataStory(first_offset=3).at(9_000).new_controller(101).change(9, leader=3).sources
    (place / log_name(0)).write_bytes(batches(common + won))
    assert seen(a_tail(place, after=tail)) == landed_from(won)
    assert seen(tail) == landed_from(won)


def test_a_segment_that_was_cut_off_whole_is_followed_back(place: Path) -> None:
    first, lost = a_log(3), a_log(2, 3)
    (place / log_name(0)).write_bytes(batches(first))
    (place / log_name(3)).write_bytes(batches(lost))
    tail = a_tail(place)
    assert seen(tail) == landed_from(first + lost)
    (place / log_name(3)).unlink()
    won = MetadataStory(first_offset=2).at(9_000).new_controller(101).sources
    (place / log_name(0)).write_bytes(batches(first[:2] + won))
    assert set(landed_from(won)) <= set(seen(tail))


def test_what_was_deleted_before_it_was_read_is_a_gap_that_a_checkpoint_fills(place: Path) -> None:
    rest = the_rest(500).sources
    (place / log_name(500)).write_bytes(batches(rest))
    (place / CHECKPOINT).write_bytes(batches(a_checkpoint(500).sources))
    assert seen(a_tail(place)) == landed_from(a_checkpoint(500).sources) + landed_from(rest)
    (place / log_name(500)).unlink()
    (place / log_name(0)).write_bytes(batches(a_log(4)))
    tail = a_tail(place)
    assert seen(tail) == landed_from(a_log(4))
    (place / log_name(0)).unlink()
    (place / log_name(500)).write_bytes(batches(rest))
    pieces = list(tail.poll())
    assert [problem.code for reading, _ in pieces for problem in reading.problems] == ["compacted"]
    assert [row[0] for _, runs in pieces for run in runs for row in run.rows][-1] == rest[-1].offset


def test_memory_is_bounded_by_pieces(place: Path) -> None:
    sources = a_log(PIECE_ROWS + 10)
    (place / log_name(0)).write_bytes(batches(sources))
    sizes = [len(run.rows) for _, runs in a_tail(place).poll() for run in runs]
    assert sizes == [PIECE_ROWS, 10]


def test_nothing_is_read_from_a_folder_that_is_empty_or_not_there_yet(tmp_path: Path, place: Path) -> None:
    assert seen(a_tail(place)) == []
    assert seen(a_tail(tmp_path / "later")) == []


def test_what_is_followed_lands_once_with_its_books(tmp_path: Path, place: Path) -> None:
    sources = a_log(5)
    (place / log_name(0)).write_bytes(batches(sources[:3]))
    landing = Landing(tmp_path / "w")
    assert follow_metadata({NODE: place}, landing, "lab", stop=lambda: False, until_end=True) == 3
    (place / log_name(0)).write_bytes(batches(sources))
    assert follow_metadata({NODE: place}, landing, "lab", stop=lambda: False, until_end=True) == 2
    assert follow_metadata({NODE: place}, landing, "lab", stop=lambda: False, until_end=True) == 0
    warehouse = Warehouse.open(tmp_path / "w", create=True)
    assert [len(warehouse.landed(noun)) for noun in ("record", "source")] == [2, 2]


@pytest.mark.parametrize(("is_fenced", "count"), [(True, 2), (False, 1)])
def test_who_follows_hears_of_a_broker_that_failed_at_once_and_of_what_was_there_as_history(
    tmp_path: Path, place: Path, is_fenced: bool, count: int
) -> None:
    """`flush_ms` is an hour: other news would be landed as it stops."""
    story = MetadataStory(node=NODE).topic("orders", (1, 2))
    (place / log_name(0)).write_bytes(batches(story.sources))
    warehouse, caught_up = Warehouse.open(tmp_path / "w", create=True), threading.Event()
    heard: list[tuple[int, bool, int]] = []
    looks = 0

    def hear(runs: Sequence[RecordRun]) -> None:
        heard.append((sum(len(run.rows) for run in runs), caught_up.is_set(), len(warehouse.landed("record"))))

    def stop() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            assert caught_up.is_set()
            last = story.fenced(1) if is_fenced else story.no_op()
            (place / log_name(0)).write_bytes(batches(last.sources))
        return looks == 4

    follow_metadata(
        {NODE: place}, Landing(tmp_path / "w"), "lab", stop=stop, flush_ms=3_600_000, heard=hear,
        caught_up=caught_up.set,
    )  # fmt: skip
    assert heard == [(2, False, 1), (1, True, 2)]  # landed before it is heard
    assert looks == 4


def test_a_metadata_log_of_another_cluster_is_refused(tmp_path: Path, place: Path) -> None:
    (place.parent / "meta.properties").write_text("version=1\ncluster.id=theirs\nnode.id=100\n")
    assert cluster_of({NODE: place}, None) == "theirs"
    with pytest.raises(Misconfigured, match="controller-100 is of cluster theirs, not ours"):
        cluster_of({NODE: place}, "ours")
    with pytest.raises(Misconfigured, match="--cluster-id"):
        cluster_of({NODE: tmp_path / "elsewhere" / "x"}, None)
