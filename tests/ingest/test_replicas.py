from __future__ import annotations

from pathlib import Path

from ingest.replicas import Replica, beyond_majority, merge, segments_in
from tests.ingest.batch_encoder import a_batch, a_record


def replica(folder: Path, node: str, *segments: tuple[int, bytes]) -> Replica:
    place = folder / node / "__consumer_offsets-0"
    place.mkdir(parents=True)
    for base, data in segments:
        (place / f"{base:020d}.log").write_bytes(data)
    return Replica(node, segments_in(place))


def merged(*replicas: Replica) -> list[tuple[str, int, bytes | None]]:
    return [(node, row[0], row[3]) for node, rows in merge(replicas) for row in rows]


def batches(*offsets: int, value: bytes = b"v") -> bytes:
    return b"".join(a_batch(offset, [a_record(0, b"k", value)]) for offset in offsets)


def test_equal_replicas_are_one(tmp_path: Path) -> None:
    replicas = [replica(tmp_path, node, (0, batches(0, 1)), (2, batches(2, 3))) for node in ("a", "b", "c")]
    assert merged(*replicas) == [("a", n, b"v") for n in range(4)]
    assert beyond_majority(replicas) is None


def test_what_one_replica_compacted_away_comes_from_the_other(tmp_path: Path) -> None:
    """The same batch, in one copy with all its records, in the other with the last one only: checksums differ."""
    whole = a_batch(0, [a_record(n, b"k%d" % n) for n in range(4)]) + batches(4, 5)
    compacted = a_batch(0, [a_record(3, b"k3")], last_offset_delta=3) + batches(5)
    got = merged(replica(tmp_path, "a", (0, compacted)), replica(tmp_path, "b", (0, whole)))
    assert [(node, offset) for node, offset, _ in got] == [("a", 3), *(("b", n) for n in (0, 1, 2, 4)), ("a", 5)]


def test_a_batch_emptied_on_one_replica_is_no_difference(tmp_path: Path) -> None:
    emptied = a_batch(0, [], last_offset_delta=1) + batches(2)
    whole = a_batch(0, [a_record(0), a_record(1)]) + batches(2)
    got = merged(replica(tmp_path, "a", (0, emptied)), replica(tmp_path, "b", (0, whole)))
    assert [offset for _, offset, _ in got] == [0, 1, 2]


def test_records_that_differ_all_come_with_their_node(tmp_path: Path) -> None:
    one = replica(tmp_path, "a", (0, batches(0, 1)))
    other = replica(tmp_path, "b", (0, batches(0) + batches(1, value=b"other")))
    assert merged(one, other) == [("a", 0, b"v"), ("a", 1, b"v"), ("b", 1, b"other")]


def test_a_broken_batch_is_taken_from_another_replica(tmp_path: Path) -> None:
    broken = bytearray(batches(0, 1, 2))
    broken[len(batches(0)) + 65] ^= 1
    one, other = replica(tmp_path, "a", (0, bytes(broken))), replica(tmp_path, "b", (0, batches(0, 1, 2)))
    assert [offset for _, offset, _ in merged(one, other)] == [0, 1, 2]
    assert [(p.code, p.position) for p in one.problems] == [("unreadable", 1)]
    assert "a/__consumer_offsets-0/00000000000000000000.log at byte 70" in next(iter(one.problems)).sentence


def test_records_above_the_majority_are_read_and_named(tmp_path: Path) -> None:
    replicas = [replica(tmp_path, node, (0, batches(*range(end)))) for node, end in (("a", 2), ("b", 5), ("c", 3))]
    assert len(merged(*replicas)) == 5
    problem = beyond_majority(replicas)
    assert problem is not None
    assert (problem.code, problem.position) == ("above_majority", 3)
    assert "only on b" in problem.sentence


def test_a_segment_given_plain_and_packed_is_read_once_and_leftovers_are_no_segments(tmp_path: Path) -> None:
    one = replica(tmp_path, "a", (0, batches(0)))
    folder = one.segments[0].parent
    for name in ("00000000000000000000.log.gz", "00000000000000000000.log.cleaned", "00000000000000000000.index",
                 "00000000000000000009.log.deleted", "leader-epoch-checkpoint"):  # fmt: skip
        (folder / name).write_bytes(b"")
    assert [path.name for path in segments_in(folder)] == ["00000000000000000000.log"]


def test_an_offset_that_cannot_be_in_its_segment_is_a_problem(tmp_path: Path) -> None:
    """The base offset is outside the checksum: a flipped bit there would put records 72 quadrillion offsets away."""
    flipped = bytearray(batches(0, 1))
    flipped[len(batches(0))] ^= 1
    one = replica(tmp_path, "a", (0, bytes(flipped)))
    assert [offset for _, offset, _ in merged(one)] == [0]
    assert len(one.problems) == 1
