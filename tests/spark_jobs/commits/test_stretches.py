"""Which of its group's records a commit came after."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from spark_jobs.commits.stretches import NO_BOUNDARY, Boundaries, Place, stretches
from tests import encoders as enc
from tests.spark_jobs.kernel_rows import decoded

AT_MS = 1_795_276_800_123


def by_hand(
    offsets: list[int], commits: list[tuple[str, str, int]], places: list[int], known: Boundaries
) -> set[tuple[object, ...]]:
    """Stretches, record by record."""
    found: dict[tuple[object, ...], list[int]] = {}
    for offset, (group, topic, partition), place in zip(offsets, commits, places, strict=True):
        before = [each for each in known.get(("lab", "__consumer_offsets", place), {}).get(group, ()) if each <= offset]
        found.setdefault((group, topic, partition, place, max(before, default=NO_BOUNDARY)), []).append(offset)
    return {(*where, min(each), max(each), len(each)) for where, each in found.items()}


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("is_sorted", [True, False])
def test_stretches_are_what_counting_by_hand_finds(seed: int, is_sorted: bool) -> None:
    random = Random(seed)
    count, place_count = random.choice((1, 5, 300)), random.choice((1, 3))
    places: list[Place] = [("lab", "__consumer_offsets", number) for number in range(place_count)]
    placed = sorted(random.randrange(place_count) for _ in range(count))
    offsets = [n * 3 for n in range(count)]
    if not is_sorted:
        order = random.sample(range(count), count)
        placed, offsets = [placed[n] for n in order], [offsets[n] for n in order]
    named = [(f"g{random.randrange(4)}", "orders", random.randrange(3)) for _ in range(count)]
    known = {
        ("lab", "__consumer_offsets", place): {
            f"g{number}": np.array(
                sorted(random.sample(range(1, 3 * count + 9, 3), min(count, random.randrange(4)))), np.int64
            )
            for number in range(6)
        }
        for place in range(place_count)
    }
    commits = decoded([(enc.offset_commit_key(*each), enc.offset_commit_value(1, AT_MS)) for each in named])
    offset = np.array(offsets)
    found = stretches(commits, np.arange(count), offset, np.array(placed), places, known)
    groups, topics = commits.keys.group.to_pylist(), commits.keys.topic.to_pylist()
    actual = {
        (
            groups[key],
            topics[key],
            int(commits.keys.partition[key]),
            place,
            start,
            int(offset[first]),
            int(offset[last]),
            size,
        )
        for key, place, start, first, last, size in zip(
            *(
                column.tolist()
                for column in (
                    found.key_code,
                    found.place_code,
                    found.stretch_from,
                    found.first_row,
                    found.last_row,
                    found.count,
                )
            ),
            strict=True,
        )
    }
    assert actual == by_hand(offsets, named, placed, known)
    assert int(found.count.sum()) == count


def test_the_docstrings_example_of_stretches_is_what_comes_out() -> None:
    commits = decoded([(enc.offset_commit_key("orders", "t", 0), enc.offset_commit_value(1, AT_MS))] * 3)
    place: Place = ("lab", "__consumer_offsets", 7)
    known = {place: {"orders": np.array([10, 20])}}
    found = stretches(commits, np.arange(3), np.array([12, 21, 15]), np.zeros(3, np.int64), [place], known)
    columns = (found.stretch_from, found.first_row, found.last_row, found.count)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == [(10, 0, 2, 2), (20, 1, 1, 1)]


def test_no_rows_have_no_stretches() -> None:
    commits = decoded([(enc.offset_commit_key("orders", "t", 0), enc.offset_commit_value(1, AT_MS))])
    none = stretches(commits, np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64), [], {})
    assert len(none.count) == 0
