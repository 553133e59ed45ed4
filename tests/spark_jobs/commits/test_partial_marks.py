"""The vectorised kernel says what the domain says, commit by commit."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance_audit.domain.decode import Commit, decode_source
from rebalance_audit.domain.model import SourceRecord
from rebalance_audit.domain.wire import DecodeError
from spark_jobs.commits import partial_marks as commits
from tests.encoders import offset_commit_key, offset_commit_value

COLUMNS = ("cluster_id", "topic", "partition", "offset", "timestamp_ms", "key", "value")
SCHEMA = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp_ms", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def a_record(offset: int, key: bytes | None, value: bytes | None, partition: int = 7) -> SourceRecord:
    return SourceRecord(
        cluster_id="c", topic="__consumer_offsets", partition=partition, offset=offset, timestamp_ms=1000 + offset,
        key=key, value=value,
    )  # fmt: skip


def a_batch(records: Iterable[SourceRecord]) -> pa.RecordBatch:
    rows = [{name: getattr(record, name) for name in COLUMNS} for record in records]
    return pa.RecordBatch.from_pylist(rows, schema=SCHEMA)


def one_by_one(records: Iterable[SourceRecord]) -> tuple[list[int], list[int], list[int]]:
    """Offsets of commits, tombstones and refused records, as the domain decodes them."""
    found: dict[str, list[int]] = defaultdict(list)
    for record in records:
        try:
            decoded = decode_source(record)
        except DecodeError:
            found["refused"].append(record.offset)
            continue
        assert isinstance(decoded, Commit)
        found["tombstone" if decoded.is_tombstone else "commit"].append(record.offset)
    return found["commit"], found["tombstone"], found["refused"]


def assert_same(records: list[SourceRecord]) -> None:
    folded = commits.fold(a_batch(records), {})
    committed, tombstones, refused = one_by_one(records)
    assert (folded.commit_count, folded.tombstone_count) == (len(committed), len(tombstones))
    assert [record.offset for record, _ in folded.refused] == refused
    assert sum(folded.marks.column("commit_count").to_pylist()) == len(committed)


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
@pytest.mark.parametrize("metadata", ["", "m", "x" * 126, "x" * 127, "grün", "\x00"])
def test_every_version_and_text_counts_as_a_commit(version: int, metadata: str) -> None:
    value = offset_commit_value(5, version=version, metadata=metadata, at_ms=1)
    folded = commits.fold(a_batch([a_record(1, offset_commit_key("g", "t", 0), value)]), {})
    assert (folded.commit_count, folded.refused) == (1, [])


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_no_prefix_of_a_value_and_no_longer_value_counts(version: int) -> None:
    value = offset_commit_value(5, version=version, metadata="some text", at_ms=1)
    spoilt = [value[:length] for length in range(len(value))] + [value + b"\x00"]
    records = [a_record(n, offset_commit_key("g", "t", 0), v) for n, v in enumerate(spoilt)]
    folded = commits.fold(a_batch(records), {})
    assert folded.commit_count == 0
    assert len(folded.refused) == len(spoilt)


@settings(max_examples=200)
@given(st.data())
def test_spoilt_bytes_are_refused_exactly_where_the_domain_refuses_them(data: st.DataObject) -> None:
    records = []
    for offset in range(data.draw(st.integers(1, 12))):
        key = bytearray(offset_commit_key(data.draw(st.sampled_from(["g", "größe"])), "t", 0))
        version = data.draw(st.integers(0, 4))
        text = data.draw(st.text(max_size=5))
        value = bytearray(offset_commit_value(offset, version=version, metadata=text, at_ms=1))
        for spoilt in (key, value):
            for _ in range(data.draw(st.integers(0, 2))):
                at = data.draw(st.integers(2 if spoilt is key else 0, len(spoilt) - 1))  # the type stays a commit's
                spoilt[at] = data.draw(st.integers(0, 255))
        cut = data.draw(st.integers(0, 3))
        whole = bytes(value[: len(value) - cut]) + data.draw(st.binary(max_size=2))
        records.append(a_record(offset, bytes(key), data.draw(st.sampled_from([whole, bytes(value), None]))))
    assert_same(records)


def test_marks_are_cut_at_group_records_and_span_the_commits_between() -> None:
    key = offset_commit_key("g", "t", 3)
    value = offset_commit_value(1, version=3, metadata="", at_ms=1)
    records = [a_record(offset, key, value) for offset in (1, 2, 4, 6, 7, 9)]
    random.Random(1).shuffle(records)
    boundaries = {("c", "__consumer_offsets", 7): {"g": np.array([0, 5, 8])}}
    marks = commits.fold(a_batch(records), boundaries).marks.to_pylist()
    assert [
        (m["stretch_from"], m["first_offset"], m["first_at_ms"], m["last_offset"], m["last_at_ms"], m["commit_count"])
        for m in sorted(marks, key=lambda m: m["first_offset"])
    ] == [(0, 1, 1001, 4, 1004, 3), (5, 6, 1006, 7, 1007, 2), (8, 9, 1009, 9, 1009, 1)]
    assert {(m["group_id"], m["topic"], m["partition"], m["offsets_partition"]) for m in marks} == {("g", "t", 3, 7)}


def test_partitions_of_the_offsets_topic_and_clusters_are_kept_apart() -> None:
    key = offset_commit_key("g", "t", 0)
    value = offset_commit_value(1, version=3, metadata="", at_ms=1)
    marks = commits.fold(a_batch([a_record(1, key, value, 7), a_record(2, key, value, 8)]), {}).marks
    assert sorted(marks.column("offsets_partition").to_pylist()) == [7, 8]


def test_a_sliced_batch_is_read_at_its_own_place() -> None:
    value = offset_commit_value(1, version=3, metadata="", at_ms=1)
    records = [a_record(n, offset_commit_key("g", f"t{n}", 0), value if n != 1 else b"\x00") for n in range(4)]
    folded = commits.fold(a_batch(records).slice(2), {})
    assert folded.commit_count == 2
    assert folded.marks.column("topic").to_pylist() == ["t2", "t3"]


def test_transactional_commits_are_counted_and_not_folded() -> None:
    value = offset_commit_value(1, version=3, metadata="", at_ms=1)
    batch = a_batch([a_record(n, offset_commit_key("g", "t", 0), value) for n in range(2)])
    batch = batch.append_column("is_transactional", pa.array([True, None]))
    folded = commits.fold(batch, {})
    assert folded.commit_count == 2
    assert folded.marks.column("first_offset").to_pylist() == [1]


def test_a_mark_carries_the_topic_id_its_commits_show() -> None:
    topic_id = "3fkd8mT0QJ-wE1lVt5v_Zw"
    key = offset_commit_key("g", "t", 0)
    values = [offset_commit_value(1, at_ms=1, version=3), offset_commit_value(1, at_ms=1, version=4, topic_id=topic_id)]
    marks = commits.fold(a_batch([a_record(n, key, value) for n, value in enumerate(values)]), {}).marks
    assert marks.column("topic_id").to_pylist() == [topic_id]


def test_nothing_in_nothing_out() -> None:
    folded = commits.fold(a_batch([]), {})
    assert (folded.marks.num_rows, folded.commit_count, folded.refused) == (0, 0, [])
