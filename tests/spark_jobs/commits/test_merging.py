"""Marks of parts of a stretch, merged, say what one mark of all its commits says."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from rebalance_audit.domain.model import SourceRecord
from spark_jobs.commits import merging, partial_marks
from spark_jobs.commits.merging import WaitingMarks, merged
from spark_jobs.commits.partial_marks import PARTIAL_MARK
from tests.encoders import offset_commit_key, offset_commit_value
from tests.spark_jobs.commits.test_partial_marks import a_batch, a_record

BOUNDARIES = {("c", "__consumer_offsets", 7): {"a": np.array([40]), "b": np.array([10, 90])}}


def commits(random: Random, count: int) -> list[SourceRecord]:
    """Of two groups with two partitions each. Clocks stand still, jump, and go back."""
    found, at_ms = [], 1_000
    for offset in range(count):
        at_ms += random.choice((0, 0, 5, 5, 7, 300, -20))
        key = offset_commit_key(random.choice("ab"), "t", random.randrange(2))
        value = offset_commit_value(random.randrange(1_000), version=3, metadata="", at_ms=at_ms)
        found.append(replace(a_record(offset, key, value), timestamp_ms=at_ms))
    return found


def folded(records: list[SourceRecord]) -> pa.Table:
    return partial_marks.fold(a_batch(records), BOUNDARIES).marks


def in_parts(random: Random, records: list[SourceRecord]) -> list[pa.Table]:
    """The marks of pieces that follow each other."""
    cuts = sorted(random.sample(range(1, len(records)), 5))
    return [folded(records[begin:end]) for begin, end in zip([0, *cuts], [*cuts, None], strict=True)]


@pytest.mark.parametrize("keep_unknown", [True, False])
@pytest.mark.parametrize("seed", range(10))
def test_parts_are_merged_to_the_mark_of_the_whole(seed: int, keep_unknown: bool) -> None:
    random = Random(seed)
    records = commits(random, 120)
    parts = in_parts(random, records)
    expected = merged(folded(records)).to_pylist()
    random.shuffle(parts)
    assert merged(pa.concat_tables(parts), keep_unknown=keep_unknown).to_pylist() == expected
    ordered = in_parts(random, records)
    first = merged(pa.concat_tables(ordered[:3]), keep_unknown=keep_unknown)
    assert merged(pa.concat_tables([first, *ordered[3:]]), keep_unknown=keep_unknown).to_pylist() == expected
    assert len(expected) < sum(map(len, parts))


def test_marks_come_in_the_order_of_their_groups() -> None:
    records = commits(Random(1), 60)
    places = [(row["group_id"], row["partition"], row["first_offset"]) for row in merged(folded(records)).to_pylist()]
    assert places == sorted(places)


def test_marks_that_overlap_stay_or_have_no_longest_gap() -> None:
    key, value = offset_commit_key("a", "t", 0), offset_commit_value(1, at_ms=1)
    even, odd = ([a_record(offset, key, value) for offset in range(begin, 9, 2)] for begin in (0, 1))
    parts = pa.concat_tables([folded(even), folded(odd)])
    assert merged(parts, keep_unknown=True).to_pylist() == parts.to_pylist()
    [mark] = merged(parts).to_pylist()
    assert (mark["first_offset"], mark["last_offset"], mark["commit_count"]) == (0, 8, 9)
    assert {mark[name] for name in mark if name.startswith(("gap_", "after_", "second_"))} == {None}


def test_nothing_is_merged_to_nothing() -> None:
    assert merged(PARTIAL_MARK.empty_table()).to_pylist() == []


def test_a_task_writes_each_stretch_once_though_each_batch_has_marks_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_AT_ONCE", 30)
    records = commits(Random(3), 400)
    written: list[pa.RecordBatch] = []
    waiting = WaitingMarks(written.append)
    for begin in range(0, len(records), 20):
        waiting.add(folded(records[begin : begin + 20]))
        assert not written
    waiting.end()
    waiting.end()
    assert pa.Table.from_batches(written).to_pylist() == merged(folded(records)).to_pylist()


def test_a_task_whose_marks_are_all_of_other_stretches_does_not_hold_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_AT_ONCE", 8)
    value = offset_commit_value(1, at_ms=1)
    written: list[pa.RecordBatch] = []
    waiting = WaitingMarks(written.append)
    for number in range(20):
        waiting.add(folded([a_record(number, offset_commit_key("a", "t", number), value)]))
    assert sum(map(len, written)) == 16
    waiting.end()
    assert sorted(pa.Table.from_batches(written)["partition"].to_pylist()) == list(range(20))
