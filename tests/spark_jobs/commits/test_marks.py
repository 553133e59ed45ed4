"""Which commits belong to which generation is cut by group records: their offsets, group by group."""

from __future__ import annotations

import random

import pyarrow as pa

from spark_jobs.commits.marks import boundaries_of

SCHEMA = pa.schema(
    [
        ("cluster_id", pa.string()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("group_id", pa.string()),
        ("offset", pa.int64()),
    ]
)


def test_each_group_is_cut_at_its_own_records_however_many_others_there_are() -> None:
    chance = random.Random(1)
    expected = {
        (f"cluster-{cluster}", "__consumer_offsets", group * 7 % 50, f"group-{group}"): sorted(
            chance.sample(range(1_000), chance.randint(1, 30))
        )
        for cluster in range(80)
        for group in range(3)
    }
    rows = [(*place, offset) for place, offsets in expected.items() for offset in (*offsets, *offsets[:2])]
    for order in ("sorted", "shuffled"):
        if order == "shuffled":
            chance.shuffle(rows)
        table = pa.table([list(column) for column in zip(*rows, strict=True)], schema=SCHEMA)
        if order == "sorted":
            table = table.sort_by([(name, "ascending") for name in SCHEMA.names])
        found = boundaries_of(table)
        assert {
            (*place, group): list(offsets) for place, groups in found.items() for group, offsets in groups.items()
        } == expected


def test_no_group_records_cut_nothing() -> None:
    assert boundaries_of(SCHEMA.empty_table()) == {}
