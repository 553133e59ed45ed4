"""The longest gap of a stretch, however its commits were cut into batches, and in the domain's words."""

from __future__ import annotations

import random
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest

from rebalance_audit.domain.decode import Commit, decode_source
from rebalance_audit.domain.gather.commit_marks import joined, mark_of
from rebalance_audit.domain.model import CommitMark, SourceRecord
from spark_jobs.commits.gaps import NONE, longest_gaps


@pytest.mark.parametrize("seed", range(30))
def test_the_two_longest_gaps_are_what_counting_by_hand_finds(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.choice((1, 2, 40))
    stretch = sorted(chance.choices(range(chance.randint(1, 6)), k=count))
    stretch = [sorted(set(stretch)).index(each) for each in stretch]
    if chance.random() < 0.5:  # stretches of several partitions lie among each other
        chance.shuffle(stretch)
    at_ms = np.array([chance.randrange(60) for _ in range(count)])
    row = np.arange(count)
    found = longest_gaps(row, np.array(stretch), max(stretch) + 1, at_ms)
    for number in range(max(stretch) + 1):
        mine = [n for n in range(count) if stretch[n] == number]
        gaps = sorted(((max(at_ms[b] - at_ms[a], 0), -a, b) for a, b in pairwise(mine)), reverse=True)
        expected = (-gaps[0][1], gaps[0][2]) if gaps else (NONE, NONE)
        assert (found.from_row[number], found.to_row[number]) == expected
        inside = mine.index(expected[1]) + 1 if gaps else len(mine)
        assert found.after_row[number] == (mine[inside] if inside < len(mine) else NONE)
        assert found.next_row[number] == (mine[1] if len(mine) > 1 else NONE)
        assert found.second_ms[number] == (gaps[1][0] if len(gaps) > 1 else NONE)


def a_mark(offset: int, at_ms: int) -> CommitMark:
    return mark_of(
        Commit(
            group_id="g", topic="t", partition=0, ref="", at_ms=at_ms, offsets_topic="__consumer_offsets",
            offsets_partition=7, offset=offset, is_tombstone=False, committed_offset=offset * 10, topic_id=None,
            is_transactional=False,
        )
    )  # fmt: skip


def test_a_mark_holds_the_longest_gap_and_the_next() -> None:
    mark = reduce(joined, (a_mark(n, at_ms) for n, at_ms in enumerate((0, 5_000, 10_000, 25_000, 31_000))))
    assert (mark.gap_from_offset, mark.gap_from_at_ms, mark.gap_from_position) == (2, 10_000, 20)
    assert (mark.gap_to_offset, mark.gap_to_at_ms, mark.gap_to_position) == (3, 25_000, 30)
    assert (mark.gap_ms, mark.second_gap_ms, mark.commit_count) == (15_000, 6_000, 5)
    assert (mark.first_position, mark.last_position) == (0, 40)
    assert (mark.next_at_ms, mark.next_position, mark.after_at_ms, mark.after_position) == (5_000, 10, 31_000, 40)


def test_one_commit_has_no_gap_and_two_have_no_second() -> None:
    one = a_mark(1, 100)
    assert (one.gap_ms, one.second_gap_ms) == (None, None)
    two = joined(one, a_mark(2, 300))
    assert (two.gap_ms, two.second_gap_ms) == (200, None)


@pytest.mark.parametrize("seed", range(30))
def test_any_cut_into_parts_gives_the_same_mark(seed: int) -> None:
    chance = random.Random(seed)
    single = [a_mark(n, chance.randrange(40)) for n in range(chance.randint(1, 12))]
    cuts = sorted(chance.sample(range(1, len(single)), chance.randint(0, len(single) - 1))) if len(single) > 1 else []
    parts = [reduce(joined, single[a:b]) for a, b in zip([0, *cuts], [*cuts, len(single)], strict=True) if single[a:b]]
    assert reduce(joined, parts) == reduce(joined, single)


def test_records_are_decoded_with_their_positions() -> None:
    from tests.encoders import offset_commit_key, offset_commit_value

    source = SourceRecord(
        cluster_id="c", topic="__consumer_offsets", partition=7, offset=3, timestamp_ms=9,
        key=offset_commit_key("g", "t", 0), value=offset_commit_value(42, at_ms=1),
    )  # fmt: skip
    commit = decode_source(source)
    assert isinstance(commit, Commit)
    assert mark_of(commit).first_position == 42
