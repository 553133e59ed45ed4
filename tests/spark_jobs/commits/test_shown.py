"""Which groups' commits show something new: what few marks are found to show, many are."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from rebalance_audit.domain.reconstruct.standstills import LEAST_MS, OPEN_AFTER_MS
from rebalance_audit.warehouse.arrow_tables import arrow_schema
from spark_jobs.commits import shown
from spark_jobs.group_rows import Place

CLUSTER = "c"
FEW_INSTANTS = (0, 1, LEAST_MS, OPEN_AFTER_MS, OPEN_AFTER_MS + 1, LEAST_MS + OPEN_AFTER_MS, 4 * OPEN_AFTER_MS)


def a_mark(random: Random, group_id: str, partition: int, first_offset: int) -> dict[str, Any]:
    def maybe(value: Any) -> Any:
        return random.choice((None, value))

    return {
        "cluster_id": CLUSTER, "group_id": group_id, "topic": "t", "partition": partition,
        "first_offset": first_offset, "first_at_ms": 5, "topic_id": maybe("x"),
        "last_at_ms": random.choice(FEW_INSTANTS),
        "gap_from_at_ms": maybe(0), "gap_to_at_ms": maybe(random.choice(FEW_INSTANTS)),
        "second_gap_ms": maybe(random.choice((0, LEAST_MS))), "after_at_ms": maybe(random.choice(FEW_INSTANTS)),
    }  # fmt: skip


def both(changed: pa.Table, now: pa.Table, before: pa.Table, last: dict[Place, int]) -> tuple[set[Place], set[Place]]:
    records = pa.table(
        {
            "cluster_id": [place[0] for place in last for _ in range(2)],
            "group_id": [place[1] for place in last for _ in range(2)],
            "offset": [offset - back for offset in last.values() for back in range(2)],
        },
        schema=pa.schema([("cluster_id", pa.string()), ("group_id", pa.string()), ("offset", pa.int64())]),
    )
    return shown._of_few(changed, now, before, records), shown._of_many(changed, now, before, records)


@pytest.mark.parametrize("seed", range(40))
def test_few_marks_show_what_many_do(seed: int) -> None:
    random = Random(seed)
    of_table = arrow_schema("silver.commit_mark")
    schema = pa.schema([of_table.field(name) for name in shown._COLUMNS])
    keys = [(f"g{random.randrange(6)}", partition, 10 * random.randrange(4)) for partition in range(30)]
    before = [a_mark(random, *key) for key in keys[:20]]
    kept = {(m["group_id"], m["partition"], m["first_offset"]): m for m in before}
    now = [
        {**kept.get(key, a_mark(random, *key)), "last_at_ms": random.choice(FEW_INSTANTS)} if random.random() < 0.8
        else a_mark(random, *key) for key in keys[5:]
    ]  # fmt: skip
    changed = [m for m in [*before, *now] if random.random() < 0.3]
    tables = [pa.Table.from_pylist(rows, schema) for rows in (changed, now, before)]
    tables[0] = tables[0].select(shown._KEY).group_by(shown._KEY).aggregate([])
    last = {(CLUSTER, f"g{n}"): random.randrange(30) for n in range(5) if random.random() < 0.7}
    few, many = both(tables[0], tables[1], tables[2], last)
    assert few == many
