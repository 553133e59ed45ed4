"""What few marks are joined to is what many are joined to."""

from __future__ import annotations

from collections.abc import Mapping
from random import Random
from typing import Any

import pyarrow as pa

from rebalance_audit.warehouse.arrow_tables import rows_to_table
from rebalance_audit.warehouse.queries import cursor
from spark_jobs.commits import joining, joining_few
from spark_jobs.commits.partial_marks import PARTIAL_MARK
from tests.spark_jobs.commits.test_marks import SCHEMA as CUT

OFFSETS = "__consumer_offsets"


def a_mark(random: Random, group: int, partition: int, stretch_from: int, first: int, last: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return random.choice((None, value))

    gap_from = None if first == last else random.choice((None, first, first, first))
    gap_ms = random.randrange(3_000)
    after = maybe(1_000 * last + 7) if gap_from is not None else None
    return {
        "cluster_id": "c", "group_id": f"g{group}", "topic": "t", "partition": partition, "offsets_topic": OFFSETS,
        "offsets_partition": group % 2, "stretch_from": stretch_from, "first_offset": first,
        "first_at_ms": 1_000 * first + random.randrange(3_000), "last_offset": last,
        "last_at_ms": 1_000 * last + random.randrange(3_000), "commit_count": last - first + 1,
        "topic_id": maybe(f"id{random.randrange(2)}"), "first_position": maybe(first), "last_position": maybe(last),
        "next_at_ms": maybe(1_000 * last), "next_position": maybe(8), "gap_from_offset": gap_from,
        "gap_from_at_ms": None if gap_from is None else 1_000 * first, "gap_from_position": maybe(first),
        "gap_to_offset": None if gap_from is None else random.choice((last, first + 1)),
        "gap_to_at_ms": None if gap_from is None else 1_000 * first + gap_ms,
        "gap_to_position": maybe(last), "after_at_ms": after, "after_position": maybe(5),
        "second_gap_ms": None if gap_from is None else maybe(random.randint(0, gap_ms)),
        "in_transaction": maybe(True),
    }  # fmt: skip


def a_case(random: Random) -> tuple[list[dict[str, Any]], list[dict[str, Any]], list[tuple[str, str, int, str, int]]]:
    """(marks of the news, known marks, places of group records)"""
    partial: list[dict[str, Any]] = []
    known: list[dict[str, Any]] = []
    cut: list[tuple[str, str, int, str, int]] = []
    for group in range(4):
        records = sorted(random.sample(range(60), random.randrange(3)))
        cut += (("c", OFFSETS, group % 2, f"g{group}", offset) for offset in records)
        for partition in range(2):
            at = random.randrange(5)
            while at < 60:
                last = at + random.randrange(4)
                inside = [offset for offset in records if at < offset < last]
                if inside and random.random() < 0.98:  # else a record cuts the mark in two
                    last = inside[0] - 1
                stretch = max((offset for offset in records if offset < at), default=-1)
                to = known if random.random() < 0.6 else partial
                to.append(a_mark(random, group, partition, stretch, at, last))
                overlap = random.random() < 0.005
                at = last + (0 if overlap else 1 + random.randrange(8))
    return partial, known, cut


def as_many(partial: pa.Table, known: pa.Table, cut: pa.Table) -> joining.Joined | None:
    floor = pa.schema([*list(joining.GROUP_PLACE)[:1], *list(joining.GROUP_PLACE)[2:], ("floor", pa.int64())])
    with cursor() as db:
        inputs: Mapping[str, pa.Table] = {
            "partial": partial, "known": known, "cut": cut, "uncertain": joining.GROUP_PLACE.empty_table(),
            "floor": floor.empty_table(), "rebuilt": PARTIAL_MARK.empty_table(),
        }  # fmt: skip
        for name, data in inputs.items():
            db.register(name, data)
        joining.place_known(db)
        return None if joining.find_again(db).num_rows else joining.join(db)


def test_few_marks_are_joined_as_many_are() -> None:
    random, joined_cases = Random(1), 0
    for _ in range(30):
        partial, known, cut = a_case(random)
        inputs = (
            pa.Table.from_pylist(partial, PARTIAL_MARK),
            rows_to_table("silver.commit_mark", known),
            pa.table(list(map(list, zip(*cut, strict=True))) or [[]] * 5, schema=CUT),
        )
        expected, found = as_many(*inputs), joining_few.joined(*inputs)
        if expected is None or found is None:
            assert expected is found
            continue
        joined_cases += 1
        assert found.rows.to_pylist() == expected.rows.to_pylist()
        assert found.rows.schema == expected.rows.schema
        key = [(name, "ascending") for name in joining.KEY.names]
        assert found.replaced.sort_by(key) == expected.replaced.sort_by(key)
    assert 10 < joined_cases < 30
