"""Commits folded into marks, in one process."""

from __future__ import annotations

from rebalance_audit.domain.decode import Commit, decode_source
from rebalance_audit.domain.gather.commit_marks import CommitFolder
from rebalance_audit.domain.model import GroupRecord, SourceRecord
from tests.encoders import group_metadata_key, group_metadata_value, offset_commit_key, offset_commit_value


def a_source(offset: int, key: bytes, value: bytes | None, **others: object) -> SourceRecord:
    return SourceRecord(
        cluster_id="c", topic="__consumer_offsets", partition=7, offset=offset, timestamp_ms=1000 + offset, key=key,
        value=value, **others,  # type: ignore[arg-type]
    )  # fmt: skip


def a_commit(offset: int, **others: object) -> SourceRecord:
    return a_source(offset, offset_commit_key("g", "t", 0), offset_commit_value(1, at_ms=1), **others)


def a_marker(offset: int, *, commits: bool) -> SourceRecord:
    key = b"\x00\x00\x00\x01" if commits else b"\x00\x00\x00\x00"
    return a_source(offset, key, b"", is_control=True, producer_id=9)


def a_generation(offset: int) -> SourceRecord:
    return a_source(offset, group_metadata_key("g"), group_metadata_value(1))


def folded(*sources: SourceRecord) -> list[tuple[int, int, int]]:
    folder = CommitFolder()
    for source in sources:
        if source.is_control:
            folder.marker(source)
            continue
        decoded = decode_source(source)
        if isinstance(decoded, Commit):
            folder.commit(source, decoded)
        elif isinstance(decoded, GroupRecord):
            folder.group_record(decoded)
    return [(m.first_offset, m.last_offset, m.commit_count) for m in folder.marks().get("g", [])]


def test_a_mark_spans_the_commits_between_two_group_records() -> None:
    assert folded(a_commit(1), a_commit(2), a_generation(3), a_commit(4)) == [(1, 2, 2), (4, 4, 1)]


def test_a_tombstone_is_no_commit() -> None:
    assert folded(a_source(1, offset_commit_key("g", "t", 0), None)) == []


def test_a_transactional_commit_stands_where_it_was_written_and_counts_with_its_marker() -> None:
    pending = {"is_transactional": True, "producer_id": 9}
    assert folded(a_commit(1, **pending)) == []
    assert folded(a_commit(1, **pending), a_marker(2, commits=False)) == []
    assert folded(a_commit(1, **pending), a_generation(2), a_marker(3, commits=True)) == [(1, 1, 1)]
